"""Constant operands of products: packed when the program is compiled, with the bits of operands that are given."""

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.text import parse

import refxla
from refxla.codegen.products.prepacked_constants import panels_of, strips_of

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
          "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}  # fmt: skip


def random(name: str, dims: tuple[int, ...], seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(dims)
    return (values * 100 if name[0] == "s" else values).astype(DTYPES[name])


def dot_text(lhs: str, rhs: str, out: str, numbers: str, name: str = "f32", result: str = "") -> str:
    """A module of one dot; `numbers` are the dimensions of lhs and rhs that are contracted, then those of batches."""
    words = "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"
    dims = ", ".join(f"{word}={{{n}}}" for word, n in zip(words, numbers.split(), strict=False))
    return f"""HloModule m
    ENTRY main {{
      a = {name}[{lhs}] parameter(0)
      b = {name}[{rhs}] parameter(1)
      ROOT c = {result or name}[{out}] dot(a, b), {dims}
    }}"""


def with_constants(module: Module, values: dict[int, np.ndarray]) -> Module:
    """The module with constants in place of the parameters of these numbers."""
    made: dict[Instruction, Instruction] = {}
    numbers = iter(range(len(module.entry.parameters)))
    for i in module.entry.instructions:
        attributes, opcode = dict(i.attributes), i.opcode
        if opcode == "parameter":
            constant = i.number in values
            opcode = "constant" if constant else "parameter"
            attributes = {"literal": values[i.number]} if constant else {"number": next(numbers)}
        made[i] = Instruction(i.name, opcode, i.shape, [made[o] for o in i.operands], attributes)
    entry = Computation("main", list(made.values()), made[module.entry.root])
    return Module(module.name, [entry], entry)


def check(text: str, known: set[int], seed: int = 0) -> refxla.Compiled:
    """Compiles the program with constants for those parameters, and compares its bits with those of the program that
    is given them; no stage packs them."""
    module = parse(text)
    shapes = [p.shape for p in module.entry.parameters]
    values = [random(s.element_type.name, s.dimensions, seed + n) for n, s in enumerate(shapes)]
    want = refxla.compile(module)(*values)
    program = refxla.compile(with_constants(module, {n: values[n] for n in known}))
    got = program(*(v for n, v in enumerate(values) if n not in known))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    names = [part.name for k in program.plan.kernels for part in k.parts()]
    assert not any(name.endswith((".left", ".right")[n]) for n in known for name in names), names
    return program


@pytest.mark.parametrize(
    ("name", "along", "m"),
    [("f32", 0, 1), ("f32", 1, 5), ("f32", 0, 40), ("f64", 1, 40), ("bf16", 0, 5), ("f16", 1, 40), ("s64", 0, 40)],
)
def test_a_constant_right_side(name, along, m):
    program = check(dot_text(f"{m},70", "70,45" if along else "45,70", f"{m},45", f"1 {1 - along}", name), {1})
    width = program.memory.constants // (70 * np.dtype(np.float64 if name in ("f64", "s64") else np.float32).itemsize)
    assert 45 <= width < 96  # the panels alone


def test_a_constant_left_side_that_lies_along_its_rows():
    program = check(dot_text("300,500", "300,33", "500,33", "0 0"), {0})
    assert program.memory.constants == 504 * 300 * 4


def test_a_right_side_that_packing_would_make_much_larger_stays_what_it_is():
    program = check(dot_text("40,70", "45,70", "40,45", "1 1", "s8", "s64"), {1})
    assert program.memory.constants <= 45 * 70 + 64


@pytest.mark.parametrize("name", ["s8", "s16"])
def test_words_of_narrow_integers_take_no_more_than_16_bits_an_element(name):
    program = check(dot_text("40,70", "45,70", "40,45", "1 1", name, "s32"), {1})
    assert program.memory.constants <= 64 * 72 * 2
    assert "rx_multiply_add" not in program.opencl


def test_several_batches():
    check(dot_text("3,20,50", "50,3,33", "3,20,33", "2 0 0 1"), {1})
    check(dot_text("3,4,20,5", "5,3,33,4", "3,20,33", "1,3 3,0 0 1"), {1})


CONVOLUTION = """HloModule m
ENTRY main {{
  x = f32[{x}] parameter(0)
  w = f32[{w}] parameter(1)
  ROOT c = f32[{c}] convolution(x, w), {rest}
}}"""


@pytest.mark.parametrize(
    ("x", "w", "c", "rest"),
    [
        ("2,9,8,10", "3,3,10,20", "2,9,8,20", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
        ("2,9,8,10", "3,3,20,10", "2,9,8,20",
         "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"),
        ("2,9,8,10", "3,3,20,10", "2,19,17,20",
         "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x0}, dim_labels=b01f_01oi->b01f"),
        ("2,9,8,12", "3,3,4,30", "2,9,8,30",
         "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=3"),
    ],
)  # fmt: skip
def test_a_constant_filter(x, w, c, rest):
    check(CONVOLUTION.format(x=x, w=w, c=c, rest=rest), {1})


def test_a_constant_filter_of_groups_of_one():
    rest = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_oi01->b01f, feature_group_count=32"
    program = check(CONVOLUTION.format(x="2,9,8,32", w="32,1,3,3", c="2,9,8,32", rest=rest), {1})
    assert program.memory.constants == 9 * 32 * 4


def test_what_others_read_too_stays_beside_the_panels():
    text = """HloModule m
    ENTRY main {
      a = f32[40,70] parameter(0)
      b = f32[70,45] parameter(1)
      c = f32[40,45] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      r = f32[45,70] transpose(b), dimensions={1,0}
      ROOT t = (f32[40,45], f32[45,70]) tuple(c, r)
    }"""
    module = parse(text)
    a, b = random("f32", (40, 70)), random("f32", (70, 45))
    product, turned = refxla.compile(with_constants(module, {1: b}))(a)
    np.testing.assert_array_equal(product, refxla.compile(module)(a, b)[0])
    np.testing.assert_array_equal(turned, b.T)


def test_a_loop_reads_the_panels_of_a_constant():
    weight = random("f32", (40, 40)) / 8
    rows = ",".join("{" + ",".join(map(repr, map(float, row))) + "}" for row in weight)
    text = f"""HloModule m
    body {{
      s = (s32[], f32[16,40]) parameter(0)
      n = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      next = s32[] add(n, one)
      x = f32[16,40] get-tuple-element(s), index=1
      w = f32[40,40] constant({{{rows}}})
      y = f32[16,40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
      z = f32[16,40] tanh(y)
      ROOT t = (s32[], f32[16,40]) tuple(next, z)
    }}
    test {{
      s = (s32[], f32[16,40]) parameter(0)
      n = s32[] get-tuple-element(s), index=0
      five = s32[] constant(5)
      ROOT p = pred[] compare(n, five), direction=LT
    }}
    ENTRY main {{
      x = f32[16,40] parameter(0)
      zero = s32[] constant(0)
      s = (s32[], f32[16,40]) tuple(zero, x)
      w = (s32[], f32[16,40]) while(s), condition=test, body=body
      ROOT r = f32[16,40] get-tuple-element(w), index=1
    }}"""
    x = random("f32", (16, 40), 1)
    program = refxla.compile(text)
    assert not any(part.name.endswith(".right") for k in program.plan.kernels for part in k.parts())
    want = x
    for _ in range(5):
        want = np.tanh(want @ weight.T)
    np.testing.assert_allclose(program(x), want, rtol=1e-4, atol=1e-5)


def test_panels_and_strips():
    matrix = np.arange(2 * 3 * 5).reshape(2, 3, 5)
    panels = panels_of(matrix, 4)
    assert panels.shape == (2, 2, 3, 4)
    np.testing.assert_array_equal(panels[1, 1, 2], [matrix[1, 2, 4], 0, 0, 0])
    strips = strips_of(matrix, 2)
    assert strips.shape == (2, 2, 5, 2)
    np.testing.assert_array_equal(strips[1, 1, 4], [matrix[1, 2, 4]] * 2)
