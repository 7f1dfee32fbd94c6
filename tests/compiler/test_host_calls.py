"""Programs that call functions of this process: passes/host_call_threading.py, plan.HostCall, runtime/host_calls.py."""

import gc

import numpy as np
import pytest

import refxla
from refxla.runtime.host_calls import HostFunction


def program(body: str, key: int, effect: bool = False) -> str:
    call = f'custom_call_target="refxla_host_call", backend_config="{{key = {key} : ui64}}"'
    return body.replace("CALL", call + (", custom_call_has_side_effect=true" if effect else ""))


@pytest.mark.parametrize("device", ["pocl", "pocl:pthread"])
def test_a_function_is_called(device):
    host = HostFunction(lambda x, y: [x + y, np.float32(x.sum())])
    text = program(
        "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  y = f32[3] multiply(x, x)\n"
        "  c = (f32[3], f32[]) custom-call(x, y), CALL\n  a = f32[3] get-tuple-element(c), index=0\n"
        "  b = f32[] get-tuple-element(c), index=1\n  s = f32[3] broadcast(b), dimensions={}\n"
        "  ROOT r = f32[3] add(a, s)\n}\n",
        host.key,
    )
    exe = refxla.compile(text, device=device)
    np.testing.assert_array_equal(exe(np.array([1, 2, 3], np.float32)), [8, 12, 18])
    assert f"host function {host.key}" in str(exe.plan)


def calling_loop(trip_count: int) -> str:
    """The computations of a loop that calls with the number of each iteration."""
    return (
        "body {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  c = s32[] custom-call(i), CALL\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
        "  ROOT t = (s32[]) tuple(j)\n}\n"
        "cond {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        f"  n = s32[] constant({trip_count})\n  ROOT less = pred[] compare(i, n), direction=LT\n}}\n"
    )


def test_effects_are_kept_in_order():
    """Nobody reads the results, and the loop that calls leaves nothing behind: the calls happen all the same."""
    seen = []
    host = HostFunction(lambda n: seen.append(int(n)) or [n])
    text = program(
        f"HloModule m\n{calling_loop(3)}"
        "ENTRY e {\n  x = f32[2] parameter(0)\n  zero = s32[] constant(0)\n  ten = s32[] constant(10)\n"
        "  first = s32[] custom-call(ten), CALL\n  t = (s32[]) tuple(zero)\n"
        "  loop = (s32[]) while(t), condition=cond, body=body\n  last = s32[] custom-call(ten), CALL\n"
        "  ROOT r = f32[2] negate(x)\n}\n",
        host.key,
        effect=True,
    )
    exe = refxla.compile(text)
    for _ in range(2):
        np.testing.assert_array_equal(exe(np.ones(2, np.float32)), [-1, -1])
    assert seen == [10, 0, 1, 2, 10] * 2


def test_functions_see_the_shapes_that_the_program_says():
    """Also where an operand is another shape of memory that is there."""
    seen = []
    host = HostFunction(lambda x: seen.append(x.shape) or [x.sum(0)])
    text = (
        "HloModule m\nENTRY e {\n  x = f32[1,4] parameter(0)\n  t = f32[4,1] transpose(x), dimensions={1,0}\n"
        "  c = f32[1] custom-call(t), CALL\n  r = f32[2,2] reshape(x)\n  d = f32[2] custom-call(r), CALL\n"
        "  ROOT both = (f32[1], f32[2]) tuple(c, d)\n}\n"
    )
    first, second = refxla.compile(program(text, host.key))(np.arange(4, dtype=np.float32)[None])
    assert seen == [(4, 1), (2, 2)] and first.tolist() == [6] and second.tolist() == [2, 4]


def test_effects_outlive_the_first_rewrites():
    """Calls and loops that nothing depends on stay where a pass puts the computation in order anew."""
    seen = []
    host = HostFunction(lambda n: seen.append(int(n)) or [n])
    text = program(
        f"HloModule m\n{calling_loop(2)}"
        "ENTRY e {\n  x = f32[2] parameter(0)\n  ten = s32[] constant(10)\n  first = s32[] custom-call(ten), CALL\n"
        "  p = (f32[2]) tuple(x)\n  g = f32[2] get-tuple-element(p), index=0\n  zero = s32[] constant(0)\n"
        "  t = (s32[]) tuple(zero)\n  loop = (s32[]) while(t), condition=cond, body=body\n"
        "  last = s32[] custom-call(ten), CALL\n  ROOT r = f32[2] negate(g)\n}\n",
        host.key,
        effect=True,
    )
    np.testing.assert_array_equal(refxla.compile(text)(np.ones(2, np.float32)), [-1, -1])
    assert seen == [10, 0, 1, 10]


def test_errors_of_functions():
    def fails(x):
        raise KeyError("mine")

    text = "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT c = f32[3] custom-call(x), CALL\n}\n"
    x = np.ones(3, np.float32)
    host = HostFunction(fails)
    exe = refxla.compile(program(text, host.key))
    with pytest.raises(KeyError, match="mine"):
        exe(x)
    host.function = lambda x: [x]
    np.testing.assert_array_equal(exe(x), x)
    host.function = lambda x: [x[:2]]
    with pytest.raises(refxla.Error, match="gave an array of type float32 and shape \\(2,\\)"):
        exe(x)
    del host
    gc.collect()
    with pytest.raises(refxla.Error, match="of a function that is gone"):
        exe(x)


def test_effects_in_a_condition():
    """Of a loop with another one in its body: the conditions are computed once more than the bodies, in order."""
    seen = []
    host = HostFunction(lambda n: seen.append(int(n)) or [n])
    text = program(
        "HloModule m\ncond {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  c = s32[] custom-call(i), CALL\n  n = s32[] constant(2)\n"
        "  ROOT less = pred[] compare(c, n), direction=LT\n}\n"
        "inner {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
        "  j = s32[] add(i, one)\n  ROOT t = (s32[]) tuple(j)\n}\n"
        "outer {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  w = (s32[]) while(s), condition=cond, body=inner\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
        "  ROOT t = (s32[]) tuple(j)\n}\n"
        "ENTRY e {\n  x = s32[] parameter(0)\n  t = (s32[]) tuple(x)\n"
        "  loop = (s32[]) while(t), condition=cond, body=outer\n  ROOT r = s32[] get-tuple-element(loop), index=0\n}\n",
        host.key,
        effect=True,
    )
    assert refxla.compile(text)(np.int32(0)) == 2
    assert seen == [0, 0, 1, 2, 1, 1, 2, 2]


def test_tokens_order_calls():
    """A call that takes a token and returns one gets neither: they only say when it is made."""
    seen = []
    host = HostFunction(lambda *x: seen.append([int(n) for n in x]) or list(x))
    text = program(
        "HloModule m\nENTRY e {\n  x = s32[] parameter(0)\n  t = token[] after-all()\n"
        "  a = (token[], s32[]) custom-call(t, x), CALL\n  u = token[] get-tuple-element(a), index=0\n"
        "  y = s32[] get-tuple-element(a), index=1\n  two = s32[] add(y, y)\n"
        "  b = (s32[], token[], s32[]) custom-call(two, u, x), CALL\n  v = token[] get-tuple-element(b), index=1\n"
        "  z = s32[] get-tuple-element(b), index=2\n  c = (token[]) custom-call(v), CALL\n"
        "  w = token[] get-tuple-element(c), index=0\n  d = token[] custom-call(w), CALL\n  k = s32[] add(y, z)\n"
        "  ROOT r = (s32[], token[]) tuple(k, d)\n}\n",
        host.key,
        effect=True,
    )
    total, _ = refxla.compile(text)(np.int32(3))
    assert total == 6 and seen == [[3], [6, 3], [], []]
