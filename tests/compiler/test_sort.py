"""Sort against the reference: merged by a comparator, by a key digit by digit, and in chunks."""

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
from refxla.codegen import opencl_program, radix_sort
from refxla.device.description import DEFAULT_CPU
from refxla.ir.partial_sorts import first_of

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = {n: np.dtype(("int" if n[0] == "s" else "uint") + n[1:]) for n in ("s8", "u16", "s32", "u32", "s64", "u64")}


def plain(name: str, direction: str = "LT", order: str = "", others: tuple[str, ...] = ()) -> str:
    """A comparator of the first of the operands' types."""
    lines = [f"k{n}a = {t}[] parameter({2 * n + 2}) k{n}b = {t}[] parameter({2 * n + 3})" for n, t in enumerate(others)]
    rest = "\n".join(lines)
    return f"""compare {{ a = {name}[] parameter(0)
                b = {name}[] parameter(1)
                {rest}
                ROOT r = pred[] compare(a, b), direction={direction}{order and f", type={order}"} }}"""


# What jnp.sort lowers to: all NaNs are one, and both zeros.
CANONICAL = """compare { a = f32[] parameter(0)
            b = f32[] parameter(1)
            nan = f32[] constant(nan)
            zero = f32[] constant(0)
            an = pred[] compare(a, a), direction=NE
            az = pred[] compare(a, zero), direction=EQ
            as = f32[] select(az, zero, a)
            at = f32[] select(an, nan, as)
            bn = pred[] compare(b, b), direction=NE
            bz = pred[] compare(b, zero), direction=EQ
            bs = f32[] select(bz, zero, b)
            bt = f32[] select(bn, nan, bs)
            ROOT r = pred[] compare(at, bt), direction=LT, type=TOTALORDER }"""
# Two keys, one ascending, the other descending.
TWO_KEYS = """compare { a = s32[] parameter(0)
            b = s32[] parameter(1)
            c = f32[] parameter(2)
            d = f32[] parameter(3)
            less = pred[] compare(a, b), direction=LT
            same = pred[] compare(a, b), direction=EQ
            more = pred[] compare(c, d), direction=GT
            both = pred[] and(same, more)
            ROOT r = pred[] or(less, both) }"""


def program(comparator: str, sizes, dimension: int, *names: str, taken=None) -> str:
    dims = ",".join(map(str, sizes))
    arrays = [f"{n}[{dims}]" for n in names]
    parameters = "\n".join(f"x{k} = {a} parameter({k})" for k, a in enumerate(arrays))
    operands = ", ".join(f"x{k}" for k in range(len(names)))
    attributes = f"dimensions={{{dimension}}}, to_apply=compare"
    if len(names) == 1:
        return f"HloModule m\n{comparator}\nENTRY main {{ {parameters}\nROOT r = {arrays[0]} sort(x0), {attributes} }}"
    taken = range(len(names)) if taken is None else taken
    results = "\n".join(f"g{k} = {arrays[k]} get-tuple-element(s), index={k}" for k in taken)
    root = f"ROOT r = ({', '.join(arrays[k] for k in taken)}) tuple({', '.join(f'g{k}' for k in taken)})"
    return f"""HloModule m
    {comparator}
    ENTRY main {{ {parameters}
    s = ({", ".join(arrays)}) sort({operands}), {attributes}
    {results}
    {root} }}"""


def array(name: str, *sizes: int, seed: int = 0, special: bool = True) -> np.ndarray:
    """With ties, and for floats with both zeros, infinities and NaNs of both signs (`special`)."""
    rng = np.random.default_rng((seed, *sizes))
    if name in INTEGERS:
        dtype = INTEGERS[name]
        info = np.iinfo(dtype)
        x = rng.integers(max(info.min, -9), 9, sizes).astype(dtype)
        far = rng.integers(info.min, info.max, sizes, dtype=dtype, endpoint=True)
        return np.where(rng.random(sizes) < 0.5, x, far)
    x = rng.integers(-9, 9, sizes) / 4 * 10.0 ** rng.integers(-3, 3, sizes)
    if special:
        odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], sizes)
        x = np.where(rng.random(sizes) < 0.3, odd, x)
    return x.astype(FLOATS[name])


def check(text: str, *args: np.ndarray, form: str) -> Compiled:
    """Runs the program and compares bits with the reference; `form` is a text in the kernels that it sorts by."""
    module = parse(text)
    compiled = Compiled(fusion_of(module, "sort"))
    assert form in " ".join(k.name + k.body for k in compiled.kernels)
    wanted = interpreter.run(module, args)
    for got, want in zip(compiled(*args), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.view(np.uint8), np.ascontiguousarray(want).view(np.uint8))
    return compiled


MERGE, DIGITS, CHUNKS = "middle", "counts0", "move0"


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_every_type_by_its_key(name):
    direction = "GT" if name in ("f64", "s8", "u32", "bf16") else "LT"
    order = "TOTALORDER" if name in FLOATS else ""
    check(program(plain(name, direction, order), (3, 200), 1, name), array(name, 3, 200), form=DIGITS)


def test_the_order_of_floats_that_compare():
    """Both zeros are equal, and keep their order."""
    x = array("f32", 2, 300, special=False)
    x[:, ::5] = np.where(np.arange(x[:, ::5].size).reshape(2, -1) % 2, 0.0, -0.0)
    for direction in ("LT", "GT"):
        check(program(plain("f32", direction), (2, 300), 1, "f32"), x, form=DIGITS)


@pytest.mark.parametrize("n,form", [(9, MERGE), (700, DIGITS), (20000, DIGITS)])
def test_the_comparator_of_numpy_like_sorts(n, form):
    check(program(CANONICAL, (2, n), 1, "f32"), array("f32", 2, n), form=form)


def nans_last(name: str, lesser: str, greater: str, is_number: str) -> str:
    """lesser < greater | (lesser is a number & greater is NaN), beside an operand that goes along."""
    return f"""compare {{ a = {name}[] parameter(0)
                b = {name}[] parameter(1)
                k = s64[] parameter(2)
                l = s64[] parameter(3)
                less = pred[] compare({lesser}, {greater}), direction=LT
                nan = pred[] compare({greater}, {greater}), direction=NE
                {is_number}
                rule = pred[] and(number, nan)
                ROOT r = pred[] or(less, rule) }}"""


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("n,form", [(20, MERGE), (700, DIGITS)])
def test_nans_that_are_equal_and_greater_than_numbers(name, descending, negated, n, form):
    """How NumPy and PyTorch sort floats; zeros of both signs and all NaNs keep their order."""
    lesser, greater = "ba" if descending else "ab"
    equal = f"compare({lesser}, {lesser}), direction="
    is_number = f"other = pred[] {equal}NE\nnumber = pred[] not(other)" if negated else f"number = pred[] {equal}EQ"
    x, places = array(name, 3, n), np.tile(np.arange(n), (3, 1))
    text = program(nans_last(name, lesser, greater, is_number), (3, n), 1, name, "s64")
    compiled = check(text, x, places, form=form)
    # NumPy's stable sort has this order; the descending one, stable too, is that of the reversed row from its end.
    wide = x.astype(np.float64)
    wanted = np.argsort(wide, axis=1, kind="stable")
    if descending:
        wanted = n - 1 - np.argsort(wide[:, ::-1], axis=1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(compiled(x, places)[1], wanted)


def test_another_rule_for_nans_is_no_order_by_keys():
    """Descending with NaNs last: they are less than all numbers."""
    text = nans_last("f32", "b", "a", "number = pred[] compare(a, a), direction=EQ").replace(
        "nan = pred[] compare(a, a)", "nan = pred[] compare(b, b)"
    )
    x, places = array("f32", 2, 700), np.tile(np.arange(700), (2, 1))
    check(program(text, (2, 700), 1, "f32", "s64"), x, places, form=MERGE)


@pytest.mark.parametrize("sort", [np.sort, np.argsort])
@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_numpy_sorts_floats_by_keys(sort, name):
    in_order = refxla.compile(lambda x: sort(x))
    x = array(name, 700)
    assert np.asarray(in_order(x)).tobytes() == sort(x, kind="stable").tobytes()
    source = opencl_program.program(in_order.plan.kernels, DEFAULT_CPU).source
    assert DIGITS in source and MERGE not in source


@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("n,form", [(20, MERGE), (150, DIGITS)])
def test_any_dimension(dimension, n, form):
    sizes = [3, 4, 5]
    sizes[dimension] = n
    names = ("s32", "f32", "u16")
    text = program(plain("s32", others=names[1:]), sizes, dimension, *names)
    check(text, *(array(t, *sizes, seed=k, special=False) for k, t in enumerate(names)), form=form)


@pytest.mark.parametrize("n,form", [(20, MERGE), (150, DIGITS), (90000, CHUNKS)])
@pytest.mark.parametrize("taken", [[1], [0]])
def test_results_that_nobody_uses_are_left_out(n, form, taken):
    text = program(plain("f32", order="TOTALORDER", others=("s32",)), (n,), 0, "f32", "s32", taken=taken)
    check(text, array("f32", n), np.arange(n, dtype=np.int32), form=form)


@pytest.mark.parametrize("n,form", [(1, "low"), (9, MERGE), (500, DIGITS), (70000, CHUNKS)])
def test_two_keys(n, form):
    text = program(TWO_KEYS, (2, n), 1, "s32", "f32")
    check(text, array("s32", 2, n), array("f32", 2, n, special=False), form=form)


@pytest.mark.parametrize(
    "sizes,dimension,form",
    [((9,), 0, MERGE), ((500,), 0, DIGITS), ((7, 150), 1, DIGITS), ((150, 7), 0, DIGITS)],
)
def test_what_counts_the_elements_is_not_read(sizes, dimension, form):
    """As in an argsort: it is computed where the sort would read it."""
    text = program(plain("f32", order="TOTALORDER", others=("s32",)), sizes, dimension, "f32", "s32")
    dims = ",".join(map(str, sizes))
    counted = text.replace(f"x1 = s32[{dims}] parameter(1)", f"x1 = s32[{dims}] iota(), iota_dimension={dimension}")
    assert f"x1 = s32[{dims}] iota" in counted
    compiled = check(counted, array("f32", *sizes), form=form)
    assert not any(a.instruction.name == "x1" for k in compiled.kernels for a in k.arguments if a.instruction)


def test_a_comparator_that_compares_no_keys_is_merged():
    """LE is none of the directions that make a key; the second operands differ, so that it orders all the same."""
    text = TWO_KEYS.replace("compare(c, d), direction=GT", "compare(d, c), direction=LE")
    n = 900
    keys = array("s32", 1, n)
    check(program(text, (1, n), 1, "s32", "f32"), keys, np.arange(n, dtype=np.float32)[None], form=MERGE)


@pytest.mark.parametrize(
    "name,sizes,dimension", [("f32", (70001,), 0), ("u64", (70000, 2), 0), ("bf16", (3, 65536), 1)]
)
def test_long_rows_are_sorted_in_chunks(name, sizes, dimension):
    text = program(
        plain(name, order="TOTALORDER" if name in FLOATS else "", others=("s32",)), sizes, dimension, name, "s32"
    )
    count = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    compiled = check(text, array(name, *sizes), count, form=CHUNKS)
    assert compiled.kernels[0].items > 1


def test_rows_whose_digits_are_all_alike():
    x = np.random.default_rng(0).integers(0, 200, (2, 300)).astype(np.int32)
    check(program(plain("s32"), (2, 300), 1, "s32"), x, form=DIGITS)
    check(program(plain("s32"), (2, 300), 1, "s32"), np.full((2, 300), -7, np.int32), form=DIGITS)


@examples(6, phases=[Phase.generate])
@given(
    st.integers(0, 3), st.integers(1, 40), st.integers(1, 70), st.sampled_from(["LT", "GT"]),
    st.sampled_from(["f32", "s8", "u32"]), st.booleans(),
)  # fmt: skip
def test_any_rows(batch, rows, n, direction, name, inner):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix_sort, "SHORTEST", 1)
        patch.setattr(radix_sort, "CHUNK", 8)
        sizes, dimension = ((batch, n, rows), 1) if inner else ((rows, batch, n), 2)
        text = program(plain(name, direction, "TOTALORDER" if name == "f32" else ""), sizes, dimension, name)
        check(text, array(name, *sizes), form="")


def test_what_is_no_row_is_no_work():
    for sizes, dimension in (((0,), 0), ((3, 0), 1), ((0, 5), 1)):
        x = np.zeros(sizes, np.float32)
        check(program(plain("f32"), sizes, dimension, "f32"), x, form="")


def ties(name: str, *sizes: int) -> np.ndarray:
    """Few different values, so that many are equal; of floats also zeros of both signs, infinities and NaNs."""
    kind = ELEMENT_TYPES[name].dtype
    rng = np.random.default_rng(sizes)
    if not ELEMENT_TYPES[name].is_float:
        least, most = (0, 1) if name == "pred" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        return rng.choice(np.array([least, least, 0, 1, most - 1, most]), sizes).astype(kind)
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -2.5, 3.0])
    return np.where(rng.random(sizes) < 0.5, rng.choice(values, sizes), rng.standard_normal(sizes)).astype(kind)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("name", "rows", "length", "k"),
    [
        ("f32", 3, 1000, 5),  # blocks, and a few found one after the other
        ("f32", 1, 5003, 20),  # a prime: the last block is not full; more than a few are sorted
        ("f32", 2, 4096, 1),
        ("f32", 4, 40, 7),  # no blocks
        ("f32", 2, 300, 300),  # all of them
        ("bf16", 2, 2003, 6),
        ("f16", 2, 900, 12),
        ("f64", 2, 1500, 4),  # no place for an index after the key
        ("s32", 2, 1009, 8),  # the least integer is what fills a block
        ("s8", 3, 777, 3),
        ("s64", 1, 3001, 9),
        ("u16", 2, 1200, 5),  # sorted: not of an order that signed integers have
        ("pred", 2, 100, 4),
    ],
)
def test_the_first_of_long_rows_are_selected(name, rows, length, k, largest):
    """Equal ones in the order of the row, NaNs and zeros in total order, bit for bit."""
    body = f"topk(x), k={k}, largest={str(largest).lower()}"
    text = f"""HloModule first
        ENTRY main {{ x = {name}[{rows},{length}] parameter(0)
                     ROOT r = ({name}[{rows},{k}], s32[{rows},{k}]) {body} }}"""
    x = ties(name, rows, length)
    wanted = interpreter.run(parse(text), [x])
    for without in ((), ("fusion",)) if name == "f32" else ((),):
        got = refxla.compile(text, without=without)(x)
        np.testing.assert_array_equal(got[1], wanted[1])
        assert got[0].tobytes() == wanted[0].tobytes()


def test_the_first_of_a_long_row_are_found_without_sorting_it():
    text = """HloModule first
        ENTRY main { x = f32[262144] parameter(0)
                     ROOT r = (f32[25], s32[25]) topk(x), k=25, largest=true }"""
    sorts = [i for i in refxla.compile(text).optimized_hlo.instructions() if i.opcode == "sort"]
    assert sorts and all(first_of(i) == 25 for i in sorts)  # which are selected
