"""Dynamic shapes in the specification: the marks that infer gives are XLA's, values come at the size that they have."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec import dynamic, interpreter
from refxla_spec.errors import EvaluationError, InputError
from refxla_spec.operation import operation
from refxla_spec.text import parse
from refxla_spec.types import Shape
from refxla_spec.verify import verify
from search import examples

CALLED = """add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
ge { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT c = pred[] compare(a, b), direction=GE }
"""
OPERANDS = {
    "x": "f32[<=4,3]",
    "xs": "f32[4,3]",
    "xx": "f32[<=4,<=3]",
    "xy": "f32[4,<=3]",
    "v": "f32[<=4]",
    "i": "s32[]",
    "z": "f32[]",
    "w": "f32[3,5]",
    "d": "f32[<=3,5]",
    "n": "s32[<=4]",
    "im": "f32[<=2,<=8,8,3]",
    "k": "f32[3,3,3,4]",
    "p": "pred[<=4,3]",
    "ps": "pred[4,3]",
    "c": "f32[2,<=4,3]",
    "q": "f32[<=3,4,4]",
    "fv": "f32[4]",
    "fx": "f32[<=4,4]",
    "fy": "f32[4,<=4]",
}
GATHER = "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
SCATTER = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
INFERRED = [
    ("f32[<=4,3]", "add(x, xs)"),
    ("f32[<=4,3]", "add(xs, x)"),
    ("f32[<=4,<=3]", "add(x, xy)"),
    ("pred[<=4,3]", "compare(xs, x), direction=LT"),
    ("c64[<=4,3]", "complex(xs, x)"),
    ("f32[<=4,3]", "select(p, xs, xs)"),
    ("f32[<=4,3]", "select(ps, xs, x)"),
    ("f32[<=4,3]", "clamp(z, x, z)"),
    ("f32[4,3]", "clamp(x, xs, x)"),
    ("f32[<=4,3]", "negate(x)"),
    ("pred[<=4,3]", "is-finite(x)"),
    ("f32[<=3,<=4]", "transpose(xx), dimensions={1,0}"),
    ("f32[<=4,3]", "reverse(x), dimensions={0}"),
    ("f32[<=6,3]", "pad(x, z), padding=1_1x0_0"),
    ("f32[<=1,3]", "pad(x, z), padding=0_-3x0_0"),
    ("f32[<=8,3]", "concatenate(xs, x), dimensions={0}"),
    ("f32[<=4,6]", "concatenate(xs, x), dimensions={1}"),
    ("f32[<=8,<=3]", "concatenate(x, xy), dimensions={0}"),
    ("f32[3]", "reduce(x, z), dimensions={0}, to_apply=add"),
    ("f32[<=4]", "reduce(x, z), dimensions={1}, to_apply=add"),
    ("f32[<=4,3]", "reduce(c, z), dimensions={0}, to_apply=add"),
    ("f32[<=4,5]", "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("f32[4,5]", "dot(xs, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("f32[<=4,<=4]", "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    (
        "f32[<=4]",
        "dot(x, xs), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    ("f32[]", "dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ("f32[<=2,<=6,6,4]", "convolution(im, k), window={size=3x3}, dim_labels=b01f_01io->b01f"),
    ("f32[<=3,3]", "reduce-window(x, z), window={size=2x1}, to_apply=add"),
    ("f32[<=1,3]", "reduce-window(x, z), window={size=4x1}, to_apply=add"),
    ("f32[<=4,<=3]", "reduce-window(xx, z), window={size=2x2 pad=1_0x1_0}, to_apply=add"),
    ("f32[4,3]", "select-and-scatter(xs, x, z), window={size=1x1}, select=ge, scatter=add"),
    ("f32[<=4,3]", "select-and-scatter(x, xs, z), window={size=1x1}, select=ge, scatter=add"),
    ("f32[<=4,3]", f"gather(xs, n), offset_dims={{1}}, slice_sizes={{1,3}}, {GATHER}"),
    ("f32[<=4,<=3]", f"gather(xx, n), offset_dims={{1}}, slice_sizes={{1,3}}, {GATHER}"),
    ("f32[<=4,2]", f"gather(xx, n), offset_dims={{1}}, slice_sizes={{1,2}}, {GATHER}"),
    ("f32[<=4,3]", f"scatter(x, n, x), {SCATTER}, to_apply=add"),
    ("f32[4,3]", f"scatter(xs, n, x), {SCATTER}, to_apply=add"),
    ("f32[<=4,3]", "sort(x), dimensions={0}, to_apply=ge"),
    ("s32[]", "get-dimension-size(x), dimensions={0}"),
    ("f32[4,<=3]", "set-dimension-size(xs, i), dimensions={1}"),
    ("f32[<=4,3]", "map(x, xs), dimensions={0,1}, to_apply=add"),
    ("f32[4,3]", "map(xs, x), dimensions={0,1}, to_apply=add"),
    ("f32[<=4,3]", "copy(x)"),
    ("c64[<=4,2]", "fft(x), fft_type=RFFT, fft_length={3}"),
    ("f32[<=3,4,4]", "cholesky(q), lower=true"),
    ("f32[<=3,4,4]", "triangular-solve(q, q), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    ("(f32[<=4,2], s32[<=4,2])", "topk(x), k=2, largest=true"),
    ("f32[<=4,4]", "batch-norm-inference(fx, fv, fv, fv, fv), epsilon=0.1, feature_index=1"),
    ("(f32[4,<=4], f32[4], f32[4])", "batch-norm-training(fy, fv, fv), epsilon=0.1, feature_index=0"),
]


def program(line: str) -> str:
    parameters = "".join(f"{n} = {s} parameter({k})\n" for k, (n, s) in enumerate(OPERANDS.items()))
    return f"HloModule marks\n{CALLED}\nENTRY main {{\n{parameters}ROOT root = {line}\n}}"


@pytest.mark.parametrize("shape, line", INFERRED)
def test_marks_are_inferred(shape, line):
    module = parse(program(f"{shape} {line}"))
    verify(module)
    root = module.entry.root
    inferred = operation(root.opcode).infer(root, *(o.shape for o in root.operands))
    assert str(inferred.without_layout()) == shape


@pytest.mark.parametrize("shape, line", INFERRED)
def test_marks_are_those_of_xla(shape, line):
    """XLA's parser infers a shape that is left out."""
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    printed = oracle.xla_prints(program(line))
    stated = next(text for text in printed.splitlines() if "ROOT root" in text).split(" = ")[1]
    assert re.sub(r"\](\{[\d,]*\})", "]", stated).startswith(f"{shape} ")


def run(lines: str, *args):
    module = parse(f"HloModule test\n{CALLED}ENTRY main {{\n{lines}\n}}")
    verify(module)
    return interpreter.run(module, args)


def test_an_argument_of_dynamic_shape_has_any_size_up_to_the_bound():
    for n in range(5):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(run("x = f32[<=4,3] parameter(0)\nROOT y = f32[<=4,3] add(x, x)", x), 2 * x)
    for wrong in ((5, 3), (4, 2), (4,)):
        with pytest.raises(InputError, match="at most these sizes"):
            run("ROOT x = f32[<=4,3] parameter(0)", np.zeros(wrong, np.float32))


def test_compatible_shapes_differ_in_layout_and_marks_alone():
    a, b = Shape.array("f32", (4, 3)), dynamic.marked(Shape.array("f32").element_type, (4, 3), (True, False))
    assert a.compatible(b) and b.compatible(a) and a != b
    assert Shape.tuple_of(a, a).compatible(Shape.tuple_of(b, a))
    assert not a.compatible(Shape.array("f32", (4, 2))) and not a.compatible(Shape.tuple_of(a))
    assert b.static() == a and str(b) == "f32[<=4,3]"


@pytest.mark.parametrize(
    "lines, sizes, message",
    [
        ("x = f32[<=4] parameter(0)\nROOT r = f32[1] slice(x), slice={[2:3]}", (2,), "element 2 of dimension 0"),
        ("x = f32[<=6] parameter(0)\nROOT r = f32[<=3,2] reshape(x)", (3,), "does not go into"),
        (
            "x = f32[<=6] parameter(0)\nn = s32[] constant(2)\nROOT r = f32[<=6] dynamic-reshape(x, n)",
            (3,),
            "3 elements do not go into sizes",
        ),
        (
            "x = f32[<=6] parameter(0)\ni = s32[] constant(0)\n"
            "ROOT r = f32[3] dynamic-slice(x, i), dynamic_slice_sizes={3}",
            (2,),
            "a block of sizes",
        ),
        ("x = c64[<=4] parameter(0)\nROOT r = c64[<=4] fft(x), fft_type=FFT, fft_length={4}", (2,), "fft_length"),
    ],
)
def test_what_is_not_there_cannot_be_computed(lines, sizes, message):
    dtype = np.complex64 if "c64" in lines else np.float32
    with pytest.raises(EvaluationError, match=message):
        run(lines, np.zeros(sizes, dtype))


@pytest.mark.parametrize("n", [-3, 0, 2, 4, 9])
def test_a_size_is_kept_between_nothing_and_the_bound(n):
    x = np.array([1, 2, 3], np.float32)
    lines = (
        "x = f32[<=4] parameter(0)\nn = s32[] parameter(1)\nROOT y = f32[<=4] set-dimension-size(x, n), dimensions={0}"
    )
    np.testing.assert_array_equal(run(lines, x, np.int32(n)), [1, 2, 3, 0][: max(0, n)])


@examples(60)
@given(st.lists(st.integers(1, 6), max_size=4), st.lists(st.integers(1, 6), max_size=4))
def test_groups_of_a_reshape_hold_as_many_elements_on_both_sides(before, after):
    if np.prod(before, initial=1) != np.prod(after, initial=1):
        after = [int(np.prod(before, initial=1))]
    groups = dynamic.factors(before, after)
    for side, sizes in ((0, before), (1, after)):
        assert [d for g in groups for d in g[side]] == list(range(len(sizes)))
    for one, other in groups:
        assert np.prod([before[d] for d in one], initial=1) == np.prod([after[d] for d in other], initial=1)
