"""The interpreter: arguments, order, tracing, depth, and when values die."""

import weakref

import numpy as np
import pytest
from refxla_spec.errors import EvaluationError, InputError
from refxla_spec.interpreter import run, steps
from refxla_spec.module import Computation, Module
from refxla_spec.operation import make
from refxla_spec.text import parse
from refxla_spec.types import Shape

ADD = """HloModule m
ENTRY e { x = f32[2] parameter(0)
          y = (s32[], pred[3]) parameter(1)
          ROOT z = f32[2] add(x, x) }"""
GOOD = (np.ones(2, np.float32), (np.int32(1), np.zeros(3, bool)))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (GOOD[:1], "1 argument for 2 parameters"),
        ((np.ones(2), GOOD[1]), r"parameter 0 \(x\) has element type f32, the array given is f64\[2\]"),
        ((np.ones(3, np.float32), GOOD[1]), r"parameter 0 \(x\) is f32\[2\], the array given is f32\[3\]"),
        ((None, GOOD[1]), "parameter 0 .*give an array, not None"),
        ((GOOD[0], np.int32(1)), r"parameter 1 \(y\).*give a tuple of 2 values"),
        ((GOOD[0], (np.int32(1),)), "parameter 1 .*give 2 values, not 1"),
        ((GOOD[0], (np.int32(1), np.zeros(3))), r"parameter 1 \(y\), element 1, has element type pred"),
        ((np.array(["a", "b"]), GOOD[1]), "parameter 0 .*NumPy type"),
    ],
)
def test_arguments_that_do_not_fit(args, said):
    with pytest.raises(InputError, match=said):
        run(parse(ADD), args)


def test_results_are_arrays_of_the_right_type():
    m = parse(
        "x = bf16[] parameter(0)\ny = bf16[] add(x, x)\nz = pred[] is-finite(y)\nROOT t = (bf16[], pred[]) tuple(y, z)"
    )
    y, z = run(m, [np.float32(1.5).astype(Shape.array("bf16").element_type.dtype)])
    assert isinstance(y, np.ndarray) and y.shape == () and y == 3
    assert isinstance(z, np.ndarray) and z.dtype == bool and z


def test_steps_and_trace():
    m = parse(ADD)
    assert [i.name for i, _ in steps(m, GOOD)] == ["x", "y", "z"]
    seen = []
    run(m, GOOD, trace=lambda i, v: seen.append((i.name, v)))
    assert [n for n, _ in seen] == ["x", "y", "z"]
    assert np.array_equal(seen[-1][1], [2, 2])


def test_trace_sees_called_computations():
    m = parse("""HloModule m
        twice { a = f32[] parameter(0)
                ROOT b = f32[] add(a, a) }
        ENTRY e { x = f32[] parameter(0)
                  ROOT y = f32[] call(x), to_apply=twice }""")
    seen = []
    assert run(m, [np.float32(2)], trace=lambda i, v: seen.append(i.name)) == 4
    assert seen == ["x", "a", "b", "y"]


def chain(length, shape):
    last = make("parameter", shape=shape, number=0)
    instructions = [last]
    for _ in range(length):
        last = make("negate", last)
        instructions.append(last)
    entry = Computation("e", instructions, last)
    return Module("m", [entry], entry)


def test_a_long_chain_needs_no_stack():
    assert run(chain(20_000, Shape.array("f32", (1,))), [np.ones(1, np.float32)]) == 1


def test_values_die_after_their_last_use():
    m, most = chain(50, Shape.array("f32", (8,))), 0
    references = []
    for _, value in steps(m, [np.ones(8, np.float32)]):
        references.append(weakref.ref(value))
        del value
        most = max(most, sum(r() is not None for r in references))
    assert most <= 4  # the argument (held by the caller), an operand, its result, the loop's variable


def test_calls_too_deep_are_an_error():
    callee = None
    computations = []
    for depth in range(400):
        p = make("parameter", shape=Shape.array("f32"), number=0)
        root = make("negate", p) if callee is None else make("call", p, shape=p.shape, to_apply=callee)
        callee = Computation(f"c{depth}", [p, root], root)
        computations.append(callee)
    with pytest.raises(EvaluationError, match="deep"):
        run(Module("m", computations, callee), [np.float32(1)])


def test_a_failing_evaluate_is_an_evaluation_error():
    x = make("parameter", shape=Shape.array("f32", (2,)), number=0)
    y = make("reshape", x, shape=Shape.array("f32", (3,)), name="wrong")
    entry = Computation("e", [x, y], y)
    with pytest.raises(EvaluationError, match=r"wrong = f32\[3\] reshape.*verify"):
        run(Module("m", [entry], entry), [np.ones(2, np.float32)])
