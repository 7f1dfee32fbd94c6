"""Scatters of a single block at a known place become updates of a slice, and fuse with what the update is made of."""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

WINDOW, ROW, COLUMN, ELEMENT = (
    "update_window_dims={0,1}, inserted_window_dims={}",
    "update_window_dims={0}, inserted_window_dims={0}",
    "update_window_dims={0}, inserted_window_dims={1}",
    "update_window_dims={}, inserted_window_dims={0,1}",
)
AT_BOTH, AT_ROW, AT_COLUMN = (f"scatter_dims_to_operand_dims={{{d}}}" for d in ("0,1", "0", "1"))


def program(dims: str, indices: str, size: int, form: str, root: str, name: str = "f32") -> str:
    return f"""HloModule m
        combine {{ a = {name}[] parameter(0)
            b = {name}[] parameter(1)
            ROOT r = {name}[] {root} }}
        ENTRY main {{ x = {name}[6,7] parameter(0)
            y = {name}[{dims}] parameter(1)
            i = s32[{size}] {indices}
            z = {name}[{dims}] negate(y)
            ROOT s = {name}[6,7] scatter(x, i, z), {form}, index_vector_dim=0, to_apply=combine }}"""


NEW, SUM = "add(b, b)", "add(a, b)"  # the first of them is one operation of the update alone
KNOWN = [
    ("4,7", "constant({1})", 1, f"{WINDOW}, {AT_ROW}", SUM),
    ("3,2", "constant({2, 5})", 2, f"{WINDOW}, {AT_BOTH}", SUM),
    ("3,2", "constant({2, 5})", 2, f"{WINDOW}, {AT_BOTH}", NEW),
    ("6,7", "constant({0, 0})", 2, f"{WINDOW}, {AT_BOTH}", "minimum(a, b)"),
    ("6,7", "constant({})", 0, f"{WINDOW}, scatter_dims_to_operand_dims={{}}", SUM),
    ("7", "iota(), iota_dimension=0", 1, f"{ROW}, {AT_ROW}", "maximum(a, b)"),
    ("5", "constant({3, 1})", 2, f"{COLUMN}, scatter_dims_to_operand_dims={{1,0}}", "subtract(a, b)"),
    ("", "constant({5, 6})", 2, f"{ELEMENT}, {AT_BOTH}", SUM),
]


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "s8", "c64"])
@pytest.mark.parametrize("case", KNOWN)
def test_a_scatter_of_a_block_at_a_known_place_is_an_update(case, name):
    if name == "c64" and "imum" in case[-1]:
        return
    module = parse(program(*case, name=name))
    assert "scatter(" not in str(optimize(module))
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, i.shape.dimensions) / 4 for i in module.entry.parameters)
    arrays = [v.astype(i.shape.element_type.dtype) for v, i in zip((x, y), module.entry.parameters, strict=True)]
    wanted = np.asarray(interpreter.run(module, arrays))
    assert np.asarray(refxla.compile(module)(*arrays)).tobytes() == wanted.tobytes()
    assert np.asarray(interpreter.run(optimize(module), arrays)).tobytes() == wanted.tobytes()


def test_a_block_that_is_put_is_the_update_itself():
    text = program("4,7", "constant({1})", 1, f"{WINDOW}, {AT_ROW}", SUM).replace("ROOT r = f32[] add(a, b)", "")
    module = parse(text.replace("b = f32[] parameter(1)", "ROOT b = f32[] parameter(1)", 1))
    assert "slice(" in str(optimize(module)) and "dynamic-slice(" not in str(optimize(module))
    assert len(refxla.compile(module).explain().fusions) == 1


OTHERS = [
    ("4,7", "constant({3})", 1, f"{WINDOW}, {AT_ROW}", SUM, "f32"),  # not inside: nothing is written
    ("4,7", "constant({-1})", 1, f"{WINDOW}, {AT_ROW}", SUM, "f32"),
    ("4,7", "constant({1})", 1, f"{WINDOW}, {AT_ROW}", "multiply(a, b)", "c64"),  # in a wider type, rounded once
]


@pytest.mark.parametrize("case", OTHERS)
def test_other_scatters_stay(case):
    module = parse(program(*case))
    assert "scatter(" in str(optimize(module))
    kind = module.entry.parameters[0].shape.element_type.dtype
    x, y = np.full((6, 7), 0.1, kind), np.full((4, 7), 0.3, kind)
    assert refxla.compile(module)(x, y).tobytes() == np.asarray(interpreter.run(module, [x, y])).tobytes()


@pytest.mark.parametrize(
    "updates, form",
    [("2,6,7", "update_window_dims={1,2}, inserted_window_dims={}, "),
     ("2", "update_window_dims={}, inserted_window_dims={1}, input_batching_dims={0}, "
           "scatter_indices_batching_dims={0}, ")],
)  # fmt: skip
def test_several_index_vectors_without_elements_are_several_blocks(updates, form):
    rows = 6 if updates != "2" else 2
    module = parse(f"""HloModule m
        combine {{ a = s32[] parameter(0)
            b = s32[] parameter(1)
            ROOT r = s32[] add(a, b) }}
        ENTRY main {{ x = s32[{rows},7] parameter(0)
            y = s32[{updates}] parameter(1)
            i = s32[2,0] constant({{ {{}}, {{}} }})
            ROOT s = s32[{rows},7] scatter(x, i, y), {form}scatter_dims_to_operand_dims={{}}, index_vector_dim=1,
                to_apply=combine }}""")
    x, y = (np.arange(i.shape.size, dtype=np.int32).reshape(i.shape.dimensions) for i in module.entry.parameters)
    assert np.array_equal(refxla.compile(module)(x, y), interpreter.run(module, [x, y]))


def test_sweeps_of_a_stencil_in_a_loop_are_one_kernel_each():
    """Each sweep was computed, and then copied into the array."""
    body = """p = (s32[], f32[900], f32[900]) parameter(0)
        n = s32[] get-tuple-element(p), index=0
        one = s32[] constant(1)
        m = s32[] add(n, one)
        at = s32[1] constant({1})
        a0 = f32[900] get-tuple-element(p), index=1
        b0 = f32[900] get-tuple-element(p), index=2\n"""
    for to, source, result in (("b0", "a0", "b1"), ("a0", "b1", "a1")):
        body += f"""{result}l = f32[898] slice({source}), slice={{[0:898]}}
        {result}r = f32[898] slice({source}), slice={{[2:900]}}
        {result}s = f32[898] add({result}l, {result}r)
        {result} = f32[900] scatter({to}, at, {result}s), update_window_dims={{0}}, inserted_window_dims={{}},
            scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=put\n"""
    program = refxla.compile(f"""HloModule m
        put {{ a = f32[] parameter(0)
            ROOT b = f32[] parameter(1) }}
        body {{ {body} ROOT t = (s32[], f32[900], f32[900]) tuple(m, a1, b1) }}
        condition {{ p = (s32[], f32[900], f32[900]) parameter(0)
            n = s32[] get-tuple-element(p), index=0
            end = s32[] constant(10)
            ROOT c = pred[] compare(n, end), direction=LT }}
        ENTRY main {{ x = f32[900] parameter(0)
            zero = s32[] constant(0)
            t = (s32[], f32[900], f32[900]) tuple(zero, x, x)
            w = (s32[], f32[900], f32[900]) while(t), body=body, condition=condition
            ROOT r = f32[900] get-tuple-element(w), index=1 }}""")
    assert len(program.explain().fusions) == 2


BATCHED = "update_window_dims={}, inserted_window_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}"
OF_ROWS = [  # the array, the updates, the indices, the form
    ("[3]", "[]", "[1]", "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                         "index_vector_dim=0"),
    ("[3]", "[1]", "[]", "update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
                         "index_vector_dim=0"),
    ("[5,4]", "[5]", "[1]", "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
                            "index_vector_dim=0"),
    ("[5,4]", "[5]", "[5,1]", BATCHED + ", scatter_dims_to_operand_dims={1}, index_vector_dim=1"),
    ("[5,4]", "[5]", "[1,5]", BATCHED.replace("dims={0}", "dims={1}").replace("input_batching_dims={1}",
                              "input_batching_dims={0}") + ", scatter_dims_to_operand_dims={1}, index_vector_dim=0"),
    ("[5,2,2]", "[5]", "[2]", "update_window_dims={0}, inserted_window_dims={1,2}, "
                              "scatter_dims_to_operand_dims={2,1}, index_vector_dim=0"),
    ("[2,5,3]", "[5,2]", "[5,2,1]", "update_window_dims={}, inserted_window_dims={2}, input_batching_dims={1,0}, "
                                    "scatter_indices_batching_dims={0,1}, scatter_dims_to_operand_dims={2}, "
                                    "index_vector_dim=2"),
]  # fmt: skip


def program_of_rows(array: str, updates: str, indices: str, form: str, root: str) -> str:
    return f"""HloModule m
        combine {{ a = f32[] parameter(0)
            b = f32[] parameter(1)
            {root} }}
        ENTRY main {{ x = f32{array} parameter(0)
            y = f32{updates} parameter(1)
            i = s32{indices} parameter(2)
            ROOT s = f32{array} scatter(x, i, y), {form}, to_apply=combine }}"""


@pytest.mark.parametrize("root", [f"ROOT r = f32[] {SUM}", "ROOT r = f32[] multiply(a, b)", "ROOT r = f32[] copy(b)"])
@pytest.mark.parametrize("case", OF_ROWS)
def test_a_scatter_to_each_of_a_few_places_is_a_selection(case, root):
    """Also to places outside of a row, where a scatter does nothing."""
    module = parse(program_of_rows(*case, root))
    assert "scatter(" not in str(optimize(module)) and len(refxla.compile(module).explain().fusions) == 1
    rng, compiled = np.random.default_rng(0), refxla.compile(module)
    for _ in range(6):
        x, y, i = (rng.integers(-2, 6, p.shape.dimensions) for p in module.entry.parameters)
        arrays = [x.astype(np.float32), y.astype(np.float32), i.astype(np.int32)]
        assert compiled(*arrays).tobytes() == np.asarray(interpreter.run(module, arrays)).tobytes()


def test_a_scatter_to_one_of_many_places_or_to_whole_rows_stays():
    for array, updates in (("[5]", "[]"), ("[3,7]", "[7]")):
        form = "update_window_dims={}" if updates == "[]" else "update_window_dims={0}"
        form += ", inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0"
        text = program_of_rows(array, updates, "[1]", form, f"ROOT r = f32[] {SUM}")
        assert "scatter(" in str(optimize(parse(text)))
