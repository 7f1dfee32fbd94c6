"""On one device collectives pass values and errors: a program with them has the bounds of the program without."""

import numpy as np
import pytest
from refxla_spec.bounds import run_with_bounds
from refxla_spec.text import parse

BEFORE = """HloModule m
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
square { p = f32[6] parameter(0)
         ROOT q = f32[6] multiply(p, p) }
ENTRY main { w = f32[6] parameter(0)
             x = f32[6] exponential(w)
"""
SAME = {
    "all-reduce": "y = f32[6] all-reduce(x), to_apply=add",
    "all-reduce-start": "s = f32[6] all-reduce-start(x), to_apply=add\ny = f32[6] all-reduce-done(s)",
    "all-reduce-done": """s = (f32[6], f32[6]) all-reduce-start(w, x), to_apply=add
        both = (f32[6], f32[6]) all-reduce-done(s)
        y = f32[6] get-tuple-element(both), index=1""",
    "all-gather": "y = f32[6] all-gather(x), dimensions={0}, replica_groups={{0}}",
    "all-gather-start": """s = ((f32[6], f32[6]), (f32[6], f32[6])) all-gather-start(w, x), dimensions={0}
        both = (f32[6], f32[6]) all-gather-done(s)
        y = f32[6] get-tuple-element(both), index=1""",
    "reduce-scatter": "y = f32[6] reduce-scatter(x), dimensions={0}, replica_groups={{0}}, to_apply=add",
    "all-to-all": "y = f32[6] all-to-all(x), dimensions={0}, replica_groups={{0}}",
    "collective-permute": "y = f32[6] collective-permute(x), source_target_pairs={{0,0}}",
    "collective-permute-start": """s = (f32[6], f32[6], u32[], u32[]) collective-permute-start(x),
          source_target_pairs={{0,0}}
        y = f32[6] collective-permute-done(s)""",
    "collective-broadcast": "y = f32[6] collective-broadcast(x), replica_groups={{0}}",
    "copy-start": "s = (f32[6], f32[6], u32[]) copy-start(x)\ny = f32[6] copy-done(s)",
    "async": """s = ((f32[6]), f32[6], u32[]) negate-start(x)
        u = ((f32[6]), f32[6], u32[]) async-update(s)
        v = f32[6] async-done(u)
        y = f32[6] negate(v)""",
    "tiles": 'y = f32[6] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape"',
}
W = np.linspace(-3, 3, 6, dtype=np.float32)


@pytest.mark.parametrize("name", SAME)
def test_bounds_pass(name):
    wanted = run_with_bounds(parse(BEFORE + "y = f32[6] copy(x)\nROOT r = f32[6] multiply(y, w) }"), [W])
    got = run_with_bounds(parse(BEFORE + SAME[name] + "\nROOT r = f32[6] multiply(y, w) }"), [W])
    assert np.all(wanted[1] > 0) and np.all(np.isfinite(wanted[1]))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_runs_asynchronously_makes_its_own_errors():
    direct = "y = f32[6] call(x), to_apply=square\nROOT r = f32[6] add(y, w) }"
    begun = """s = ((f32[6]), f32[6], u32[]) async-start(x), calls=square
        y = f32[6] async-done(s)
        ROOT r = f32[6] add(y, w) }"""
    got, wanted = (run_with_bounds(parse(BEFORE + text), [W])[1] for text in (begun, direct))
    np.testing.assert_array_equal(got, wanted)


def test_what_nobody_sends_is_exact():
    text = "y = f32[6] collective-permute(x), source_target_pairs={}\nROOT r = f32[6] multiply(y, w) }"
    assert not run_with_bounds(parse(BEFORE + text), [W])[1].any()
