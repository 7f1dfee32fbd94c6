"""Scatter against the reference: every attribute, several operands, and what is parted among items."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from kernel_driver import Compiled, fusion_of
from refxla_spec import interpreter
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from search import examples

import refxla
from refxla.codegen import scatter
from refxla.device.description import DEFAULT_CPU, Target

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
TYPES |= {"s8": np.int8, "s32": np.int32, "s64": np.int64, "u8": np.uint8, "u32": np.uint32}


def dims(sizes) -> str:
    return ",".join(map(str, sizes))


def braces(values) -> str:
    return "{" + dims(values) + "}"


def binary(name: str, opcode: str) -> str:
    body = f"{opcode}(a, b)" if opcode != "second" else "copy(b)"
    return f"""combine {{ a = {name}[] parameter(0)
               b = {name}[] parameter(1)
               ROOT r = {name}[] {body} }}"""


def program(operand, indices, updates, attributes: dict, opcode="add", name="f32", index_type="s32") -> str:
    text = ", ".join(f"{k}={v if isinstance(v, (int, str)) else braces(v)}" for k, v in attributes.items())
    return f"""HloModule m
    {binary(name, opcode)}
    ENTRY main {{ x = {name}[{dims(operand)}] parameter(0)
                 i = {index_type}[{dims(indices)}] parameter(1)
                 u = {name}[{dims(updates)}] parameter(2)
                 ROOT r = {name}[{dims(operand)}] scatter(x, i, u), {text}, to_apply=combine }}"""


def values(name: str, *sizes: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: sums of them are exact in every type."""
    low = 0 if name.startswith("u") else -3
    return np.random.default_rng((seed, *sizes)).integers(low, 4, sizes).astype(TYPES[name])


MANY = replace(DEFAULT_CPU, compute_units=8)


def check(text: str, *args: np.ndarray, target: Target = DEFAULT_CPU) -> Compiled:
    module = parse(text)
    compiled = Compiled(fusion_of(module, "scatter"), target)
    wanted = interpreter.run(module, args)
    for got, want in zip(compiled(*args), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    return compiled


@st.composite
def scatters(draw):
    """(operand, indices, updates, attributes) of a small scatter of any kind."""
    rank = draw(st.integers(1, 4))
    operand = [draw(st.integers(1, 5)) for _ in range(rank)]
    kinds = [draw(st.sampled_from(["batching", "inserted", "window", "window"])) for _ in range(rank)]
    batching = [d for d in range(rank) if kinds[d] == "batching"]
    inserted = [d for d in range(rank) if kinds[d] == "inserted"]
    inside = [d for d in range(rank) if kinds[d] == "window"]
    can_index = [d for d in range(rank) if kinds[d] != "batching"]
    mapped = draw(st.permutations(can_index))[: draw(st.integers(0, len(can_index)))]
    block = [draw(st.integers(1, operand[d])) for d in inside]
    # The scatter dimensions: those that run along batching dimensions, in any order, and others.
    free = [("free", draw(st.integers(1, 4))) for _ in range(draw(st.integers(0, 2)))]
    scatter_dims = draw(st.permutations([("batching", d) for d in batching] + free))
    sizes = [operand[v] if kind == "batching" else v for kind, v in scatter_dims]
    last = len(mapped) == 1 and draw(st.booleans())  # index vectors of one element need no dimension
    vector_dim = len(sizes) if last else draw(st.integers(0, len(sizes)))
    indices = list(sizes)
    if not last:
        indices.insert(vector_dim, len(mapped))
    place = [scatter_dims.index(("batching", d)) for d in batching]
    along = [p + (not last and p >= vector_dim) for p in place]
    rank_u = len(sizes) + len(block)
    window = sorted(draw(st.permutations(range(rank_u)))[: len(block)])
    updates, s, b = [], iter(sizes), iter(block)
    for d in range(rank_u):
        updates.append(next(b) if d in window else next(s))
    attributes = {
        "update_window_dims": window,
        "inserted_window_dims": inserted,
        "scatter_dims_to_operand_dims": mapped,
        "input_batching_dims": batching,
        "scatter_indices_batching_dims": along,
        "index_vector_dim": vector_dim,
    }
    return operand, indices, updates, attributes


@examples(16, phases=[Phase.generate])
@given(
    scatters(), st.sampled_from(["add", "second", "maximum", "multiply"]), st.sampled_from(["f32", "bf16", "s8"]),
    st.sampled_from(["s32", "u32", "s64", "s8", "u8"]), st.booleans(),
)  # fmt: skip
def test_any_scatter(case, opcode, name, index_type, parted):
    operand, indices, updates, attributes = case
    with pytest.MonkeyPatch.context() as patch:
        if parted:
            patch.setattr(scatter, "LITTLE", 4)
            patch.setattr(scatter, "SHORTEST", 2)
        low = 0 if index_type.startswith("u") else -1
        i = np.random.default_rng(len(updates)).integers(low, 5, indices).astype(TYPES[index_type])
        text = program(operand, indices, updates, attributes, opcode, name, index_type)
        check(text, values(name, *operand), i, values(name, *updates, seed=1))


ROWS = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1,
}
SCALARS = {
    "update_window_dims": [],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1,
}


@pytest.mark.parametrize("columns", [7, 8, 127, 128, 129, 168, 255, 256, 300])
@pytest.mark.parametrize("index_type", ["u4", "s4", "u8", "s8", "u16"])
def test_an_index_outside_hits_nothing(columns, index_type):
    """Not the next row either; a type that has numbers outside on one side only needs one comparison."""
    bits = int(index_type[1:])
    numbers = np.arange(1 << bits) - (1 << bits - 1 if index_type[0] == "s" else 0)
    indices = numbers.astype(ELEMENT_TYPES[index_type].dtype)
    attributes = {
        "update_window_dims": [0],
        "inserted_window_dims": [1],
        "scatter_dims_to_operand_dims": [1],
        "index_vector_dim": 1,
    }
    text = program((3, columns), (len(indices),), (3, len(indices)), attributes, index_type=index_type)
    check(text, values("f32", 3, columns), indices, values("f32", 3, len(indices), seed=1))


def test_the_gradient_of_an_embedding_is_parted_and_in_order():
    """Each sum is in the order of the updates, whatever the number of items."""
    rng = np.random.default_rng(0)
    x, i = np.zeros((30, 64), np.float32), rng.integers(0, 30, 2000).astype(np.int32)
    u = (rng.standard_normal((2000, 64)) * 1e3).astype(np.float32)
    compiled = Compiled(fusion_of(parse(program((30, 64), (2000,), (2000, 64), ROWS)), "scatter"))
    wanted = x.copy()
    np.add.at(wanted, i, u)
    np.testing.assert_array_equal(compiled(x, i, u)[0], wanted)
    compiled = Compiled(fusion_of(parse(program((30, 64), (2000,), (2000, 64), ROWS)), "scatter"), MANY)
    np.testing.assert_array_equal(compiled(x, i, u)[0], wanted)
    assert compiled.kernels[0].items > 1


def test_a_histogram():
    i = np.random.default_rng(0).integers(-5, 105, 50000).astype(np.int32)
    check(program((100,), (50000,), (50000,), SCALARS, name="s32"), *(
        np.zeros(100, np.int32), i, np.ones(50000, np.int32)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "name", "block"),
    [
        ("maximum", "f32", ()),
        ("minimum", "f32", (3,)),
        ("minimum", "s64", ()),
        ("maximum", "u32", ()),
        ("add", "s32", (3,)),
        ("multiply", "u32", ()),
        ("and", "s64", ()),
        ("or", "u32", ()),
        ("xor", "s32", ()),
    ],
)
def test_updates_in_any_groups_are_combined_in_copies(opcode, name, block):
    """By as many items as there are cores, with the bits of one item; some elements are not updated, some indices lie
    outside."""
    n, random = 9000, np.random.default_rng(0)
    i = random.integers(-2, 52, n).astype(np.int32)
    x, u = ((random.standard_normal(s) * 1e9).astype(np.int64) for s in ((50, *block), (n, *block)))
    x, u = x.astype(TYPES[name]), u.astype(TYPES[name])
    if name == "f32":
        special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf]
        for target in (x, u):
            target.reshape(-1)[random.integers(0, target.size, target.size // 3)] = np.resize(special, target.size // 3)
    text = program((50, *block), (n,), (n, *block), ROWS if block else SCALARS, opcode, name)
    results = []
    for cores in (1, 2, 7):
        compiled = check(text, x, i, u, target=replace(DEFAULT_CPU, compute_units=cores))
        assert [k.items for k in compiled.kernels] == [cores]
        for _ in range(3):  # the number of items that have finished is zero again
            results.append(compiled(x, i, u)[0].tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("opcode", "name", "elements", "updates"),
    [("add", "f32", 50, 9000), ("maximum", "f32", 50, 900), ("maximum", "f32", 2000, 9000), ("add", "s8", 50, 9000)],
)
def test_sums_of_floats_and_few_updates_are_combined_in_order(opcode, name, elements, updates):
    text = program((elements,), (updates,), (updates,), SCALARS, opcode, name)
    (kernel,) = Compiled(fusion_of(parse(text), "scatter"), MANY).kernels
    assert kernel.items == 1


def test_indices_that_are_unique_are_parted():
    n = 40000
    i = np.random.default_rng(0).permutation(n + 5)[:n].astype(np.int32)
    attributes = SCALARS | {"unique_indices": "true"}
    x, u = values("f32", n), values("f32", n, seed=1)
    compiled = check(program((n,), (n,), (n,), attributes), x, i, u)
    assert compiled.kernels[0].items > 1


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_sums_of_halves_are_rounded_once(name):
    n = 5000
    i = np.random.default_rng(0).integers(0, 3, n).astype(np.int32)
    u = (np.random.default_rng(1).integers(0, 8, n) / 8).astype(TYPES[name])
    compiled = check(program((3,), (n,), (n,), SCALARS, name=name), np.full(3, 256, TYPES[name]), i, u)
    assert len(compiled.kernels) == 3


def test_sums_of_halves_beside_those_of_another_type():
    text = """HloModule m
    both { a = f32[] parameter(0)
           b = f16[] parameter(1)
           c = f32[] parameter(2)
           d = f16[] parameter(3)
           e = f32[] add(a, c)
           f = f16[] add(b, d)
           ROOT r = (f32[], f16[]) tuple(e, f) }
    ENTRY main { x = f32[3] parameter(0)
                 y = f16[3] parameter(1)
                 i = s32[5000] parameter(2)
                 u = f32[5000] parameter(3)
                 v = f16[5000] parameter(4)
                 s = (f32[3], f16[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0},
                   scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both
                 n = f32[3] get-tuple-element(s), index=0
                 k = f16[3] get-tuple-element(s), index=1
                 ROOT r = (f32[3], f16[3]) tuple(n, k) }"""
    i = np.random.default_rng(0).integers(0, 3, 5000).astype(np.int32)
    u = np.random.default_rng(1).integers(0, 8, 5000) / 8
    x, sums = np.full(3, 256), 256 + np.bincount(i, u)
    arguments = x.astype(np.float32), x.astype(np.float16), i, u.astype(np.float32), u.astype(np.float16)
    n, k = Compiled(fusion_of(parse(text), "scatter"), DEFAULT_CPU)(*arguments)
    np.testing.assert_array_equal(n, sums)
    np.testing.assert_array_equal(k, sums.astype(np.float16))


def test_several_operands():
    text = """HloModule m
    larger { a = f32[] parameter(0)
             i = s32[] parameter(1)
             b = f32[] parameter(2)
             j = s32[] parameter(3)
             p = pred[] compare(a, b), direction=GE
             v = f32[] select(p, a, b)
             n = s32[] select(p, i, j)
             ROOT r = (f32[], s32[]) tuple(v, n) }
    ENTRY main { x = f32[9,4] parameter(0)
                 n = s32[9,4] parameter(1)
                 i = s32[20] parameter(2)
                 u = f32[20,4] parameter(3)
                 m = s32[20,4] parameter(4)
                 s = (f32[9,4], s32[9,4]) scatter(x, n, i, u, m), update_window_dims={1}, inserted_window_dims={0},
                   scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger
                 v = f32[9,4] get-tuple-element(s), index=0
                 k = s32[9,4] get-tuple-element(s), index=1
                 ROOT r = (f32[9,4], s32[9,4]) tuple(v, k) }"""
    i = np.random.default_rng(0).integers(0, 9, 20).astype(np.int32)
    u, m = values("f32", 20, 4, seed=1), values("s32", 20, 4, seed=2)
    check(text, values("f32", 9, 4), values("s32", 9, 4), i, u, m)


def test_items_own_whole_blocks_where_parts_would_be_short():
    """Several indexed dimensions, those in front of them and after them; some indices lie outside."""
    attributes = {
        "update_window_dims": (0, 3),
        "inserted_window_dims": (1, 2),
        "scatter_dims_to_operand_dims": (1, 2),
        "index_vector_dim": 2,
    }
    operand, indices, updates = (2, 9, 30, 32), (70, 60, 2), (2, 70, 60, 32)
    i = np.random.default_rng(0).integers(-1, 31, indices).astype(np.int32)
    text = program(operand, indices, updates, attributes)
    given = values("f32", *operand), i, values("f32", *updates)
    (kernel,) = check(text, *given, target=MANY).kernels
    assert kernel.items == 8 and "% 8u) == item" in kernel.body
    (kernel,) = check(text, *given).kernels
    assert kernel.items == 1 and "prefetch" not in kernel.body, "the operand is in the cache"


def test_blocks_far_away_are_fetched_ahead():
    operand, updates = (4096, 48), (3000, 48)
    i = np.random.default_rng(0).integers(-3, 4200, 3000).astype(np.int32)
    text = program(operand, (3000,), updates, ROWS)
    (kernel,) = check(text, values("f32", *operand), i, values("f32", *updates)).kernels
    assert kernel.items == 1 and kernel.body.count("__builtin_prefetch") == 1


@pytest.mark.parametrize(
    ("size", "opcode", "count"), [(600_000, "second", 1), (300_000, "second", 0), (600_000, "add", 0)]
)
def test_single_elements_far_away_are_fetched_before_they_are_overwritten(size, opcode, count):
    """A store waits for the line of the one before it; what is read before it is added to arrives out of order."""
    attributes = {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}
    text = program((size,), (2000,), (2000,), {"update_window_dims": (), **attributes}, opcode)
    text = text.replace("b = f32[] parameter(1)\n               ROOT r = f32[] copy(b)", "ROOT b = f32[] parameter(1)")
    i = np.random.default_rng(0).integers(-3, size + 9, 2000).astype(np.int32)
    i[7:20] = i[3]
    (kernel,) = check(text, values("f32", size), i, values("f32", 2000)).kernels
    assert kernel.body.count("__builtin_prefetch") == count


def test_columns_are_walked_along_memory():
    """Where the updates of a row of the operand lie together, an item takes row after row."""
    attributes = {
        "update_window_dims": (0,),
        "inserted_window_dims": (1,),
        "scatter_dims_to_operand_dims": (1,),
        "index_vector_dim": 1,
    }
    operand, updates = (40, 25), (40, 900)
    i = np.random.default_rng(0).integers(0, 25, 900).astype(np.int32)
    compiled = check(program(operand, (900,), updates, attributes), values("f32", *operand), i, values("f32", *updates))
    (kernel,) = compiled.kernels
    assert kernel.items > 1 and kernel.body.lstrip().startswith("for (int i0 = item")


ADD = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }"


COUNTS = f"""HloModule counts
    {ADD}
    ENTRY main {{ x = s32[5000,1] parameter(0)
                 zero = s32[] constant(0)
                 two = s32[] constant(2)
                 low = s32[5000,1] broadcast(zero), dimensions={{}}
                 twos = s32[5000,1] broadcast(two), dimensions={{}}
                 at = s32[5000,1] OPERATION
                 one = s32[] constant(1)
                 ones = s32[5000] broadcast(one), dimensions={{}}
                 none = s32[40] broadcast(zero), dimensions={{}}
                 ROOT r = s32[40] scatter(none, at, ones), update_window_dims={{}}, inserted_window_dims={{0}},
                   scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add }}"""


@pytest.mark.parametrize(("operation", "written"), [("maximum(x, low)", False), ("divide(x, twos)", True)])
def test_what_takes_less_than_a_load_is_computed_by_the_scatter(operation, written):
    """Indices that are brought into their range, and an update that is one number; a division all cores make before."""
    x = np.random.default_rng(0).integers(0, 45, (5000, 1)).astype(np.int32)
    text = COUNTS.replace("OPERATION", operation)
    program = refxla.compile(text)
    large = [b for b in program.plan.buffers if b.bytes == x.nbytes]
    assert len(large) == 1 + written, "of the parameter's size is only what is written before the scatter"
    np.testing.assert_array_equal(program(x), interpreter.run(parse(text), [x]))


def test_indices_and_updates_computed_from_the_operand_are_of_before_the_scatter():
    """The operand dies at the scatter, and what the scatter computes reads it: so it is not written over."""
    text = f"""HloModule own
        {ADD}
        ENTRY main {{ x = s32[3000] parameter(0)
                     y = s32[3000] reverse(x), dimensions={{0}}
                     c = s32[3000] copy(y)
                     at = s32[3000,1] reshape(c)
                     new = s32[3000] negate(c)
                     ROOT r = s32[3000] scatter(c, at, new), update_window_dims={{}}, inserted_window_dims={{0}},
                       scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add }}"""
    x = np.random.default_rng(0).integers(0, 3000, 3000).astype(np.int32)
    np.testing.assert_array_equal(refxla.compile(text)(x), interpreter.run(parse(text), [x]))
