"""Operations that run computations (while, conditional, call, fusion, map), custom calls, tuples, sizes of
dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import array_types, random_values, small_integers, structured

COUNTING = """more {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(%s)
  ROOT c = pred[] compare(i, n), direction=LT
}

step {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] add(x, x)
  ROOT r = (s32[], f32[4]) tuple(j, y)
}
"""
NESTED = """more {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

inner_more {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}

inner_step {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = s32[] add(t, i)
  ROOT r = (s32[], s32[]) tuple(j, u)
}

step {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  start = (s32[], s32[]) tuple(zero, t)
  done = (s32[], s32[]) while(start), condition=inner_more, body=inner_step
  u = s32[] get-tuple-element(done), index=1
  ROOT r = (s32[], s32[]) tuple(j, u)
}
"""
SWAPPING = """more {
  s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

step {
  s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  y = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[3] negate(x)
  ROOT r = (s32[], f32[3], f32[3]) tuple(j, y, z)
}
"""
SCALAR_STATE = """more {
  i = u32[] parameter(0)
  n = u32[] constant(1000)
  ROOT c = pred[] compare(i, n), direction=LT
}

step {
  i = u32[] parameter(0)
  three = u32[] constant(3)
  ROOT j = u32[] multiply(i, three)
}
"""
BRANCHES = "\n".join(
    f"{name} {{ x = f32[3] parameter(0)\n  ROOT r = f32[3] {op}(x) }}\n"
    for name, op in (("first", "negate"), ("second", "abs"), ("third", "ceil"))
)
ANY_ROLE = """flip {
  x = pred[] parameter(0)
  ROOT r = pred[] not(x)
}
"""
OF_PRED = """flip {
  x = pred[] parameter(0)
  ROOT r = pred[] not(x)
}

same {
  x = pred[] parameter(0)
  ROOT r = pred[] copy(x)
}

flip_all {
  t = ((pred[]), f32[2]) parameter(0)
  u = (pred[]) get-tuple-element(t), index=0
  x = pred[] get-tuple-element(u), index=0
  y = f32[2] get-tuple-element(t), index=1
  n = pred[] not(x)
  v = (pred[]) tuple(n)
  z = f32[2] negate(y)
  ROOT r = ((pred[]), f32[2]) tuple(v, z)
}

same_all {
  t = ((pred[]), f32[2]) parameter(0)
  ROOT r = ((pred[]), f32[2]) copy(t)
}
"""
INNER = """inner {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  s = f32[3] add(x, y)
  p = f32[3] multiply(x, y)
  ROOT r = (f32[3], f32[3]) tuple(s, p)
}
"""


def cases(thorough: bool) -> Iterator[Case]:
    """Loops, branches, calls, maps, custom calls, then tuples."""
    rng = seeded("control")
    yield from _loops(rng)
    yield from _branches(rng)
    yield from _calls(rng)
    yield from _maps(rng)
    yield from _custom_calls(rng)
    yield from _tuples(rng)


def _loops(rng: np.random.Generator) -> Iterator[Case]:
    start = """zero = s32[] constant(0)
               init = (s32[], f32[4]) tuple(zero, p0)
               ROOT r = _ while(init), condition=more, body=step"""
    for count in (0, 1, 7, 200):
        x = random_values(rng, "f32", (4,))
        yield structured("while", f"times_{count}", start, x, before=COUNTING % count)
    lines = """zero = s32[] constant(0)
               init = (s32[], s32[]) tuple(zero, p0)
               ROOT r = _ while(init), condition=more, body=step"""
    yield structured("while", "nested", lines, np.array(5, np.int32), before=NESTED)
    lines = """zero = s32[] constant(0)
               init = (s32[], f32[3], f32[3]) tuple(zero, p0, p1)
               ROOT r = _ while(init), condition=more, body=step"""
    x, y = random_values(rng, "f32", (3,)), random_values(rng, "f32", (3,))
    yield structured("while", "swapping", lines, x, y, before=SWAPPING)
    lines = lines.replace("tuple(zero, p0, p1)", "tuple(zero, p0, p0)")
    yield structured("while", "same_twice", lines, x, before=SWAPPING)
    line = "ROOT r = _ while(p0), condition=more, body=step"
    yield structured("while", "scalar", line, np.array(2, np.uint32), before=SCALAR_STATE)
    roles = """w = _ while(p0), condition=flip, body=flip
               c = _ conditional(p1, p0, w), true_computation=flip, false_computation=flip
               m = _ map(p2), dimensions={0}, to_apply=flip
               d = _ call(c), to_apply=flip
               ROOT r = _ tuple(w, c, m, d)"""
    for n, (first, second) in enumerate(((True, False), (False, True))):
        arguments = np.array(first), np.array(second), np.array([True, False, True])
        yield structured("while", f"one_computation_in_many_roles_{n}", roles, *arguments, before=ANY_ROLE)


def _branches(rng: np.random.Generator) -> Iterator[Case]:
    x, y, z = (random_values(rng, "f32", (3,)) for _ in range(3))
    line = "ROOT r = _ conditional(p0, p1, p2, p3), branch_computations={first, second, third}"
    for index in (0, 1, 2, 3, -1, -(2**31)):
        yield structured("conditional", f"index_{index}", line, np.array(index, np.int32), x, y, z, before=BRANCHES)
    line = "ROOT r = _ conditional(p0, p1, p2), true_computation=first, false_computation=third"
    for chosen in (True, False):
        yield structured("conditional", f"pred_{chosen}", line, np.array(chosen), x, y, before=BRANCHES)
    for chosen in (True, False):
        line = "ROOT r = _ conditional(p0, p1, p1), true_computation=flip, false_computation=same"
        yield structured("conditional", f"gives_pred_{chosen}", line, np.array(chosen), np.array(True), before=OF_PRED)
        nested = """a = _ tuple(p1)
                    b = _ tuple(a, p2)
                    ROOT r = _ conditional(p0, b, b), true_computation=flip_all, false_computation=same_all"""
        arguments = np.array(chosen), np.array(True), random_values(rng, "f32", (2,))
        yield structured("conditional", f"of_nested_tuples_{chosen}", nested, *arguments, before=OF_PRED)
    line = "ROOT r = _ conditional(p0, p1, p1), branch_computations={first, second}"
    yield structured("conditional", "one_operand", line, np.array(1, np.int32), x, before=BRANCHES)


def _calls(rng: np.random.Generator) -> Iterator[Case]:
    x, y = random_values(rng, "f32", (3,)), random_values(rng, "f32", (3,))
    twice = """a = _ call(p0, p1), to_apply=inner
               s = _ get-tuple-element(a), index=0
               p = _ get-tuple-element(a), index=1
               ROOT r = _ call(s, p), to_apply=inner"""
    yield structured("call", "twice", twice, x, y, before=INNER)
    for kind in ("kLoop", "kInput", "kOutput", "kCustom"):
        yield structured("fusion", kind, f"ROOT r = _ fusion(p0, p1), kind={kind}, calls=inner", x, y, before=INNER)


def _maps(rng: np.random.Generator) -> Iterator[Case]:
    for t in array_types("signed", "unsigned", "float", "complex"):
        if t.bits < 8:
            continue
        before = (
            f"f {{ a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n"
            f"  c = {t}[] multiply(a, b)\n  ROOT r = {t}[] multiply(c, a) }}\n"
        )
        x, y = random_values(rng, t, (3, 4)), random_values(rng, t, (3, 4))
        yield structured("map", t.name, "ROOT r = _ map(p0, p1), dimensions={0,1}, to_apply=f", x, y, before=before)
    before = "f { a = s32[] parameter(0)\n  z = s32[] constant(3)\n  ROOT r = pred[] compare(a, z), direction=GT }\n"
    for n, dims in enumerate(((), (5,), (2, 0), (2, 1, 2, 3, 1, 2))):
        axes = ",".join(map(str, range(len(dims))))
        x = small_integers(rng, "s32", dims, 0, 6)
        line = f"ROOT r = _ map(p0), dimensions={{{axes}}}, to_apply=f"
        yield structured("map", f"to_pred_{n}", line, x, before=before)


def _custom_calls(rng: np.random.Generator) -> Iterator[Case]:
    for target in ("Sharding", "LayoutConstraint", "MoveToHost"):
        line = f'ROOT r = f32[3,4] custom-call(p0), custom_call_target="{target}"'
        yield structured("custom-call", target, line, random_values(rng, "f32", (3, 4)))
    marks = 'custom_call_target="dce_sink", custom_call_has_side_effect=true'
    line = f"s = () custom-call(p0), {marks}\n  ROOT r = _ negate(p0)"
    yield structured("custom-call", "dce_sink", line, random_values(rng, "f32", (3, 4)))
    for n, dims in enumerate(((4, 3), (3, 4), (2, 3, 3))):
        # the result of a decomposition may differ in signs; the recomposed matrix may not
        m, k = dims[-2], min(dims[-2:])
        batch = ",".join(map(str, dims[:-2])) + ("," if dims[:-2] else "")
        line = f"""ROOT r = (f64[{batch}{m},{dims[-1]}], f64[{batch}{k}]) custom-call(p0), custom_call_target="Qr\""""
        yield structured("custom-call", f"Qr_{n}", line, random_values(rng, "f64", dims))
    words = [random_values(rng, "u32", (5,)) for _ in range(4)]
    line = 'ROOT r = (u32[5], u32[5]) custom-call(p0, p1, p2, p3), custom_call_target="cu_threefry2x32"'
    yield structured("custom-call", "threefry", line, *words)
    line = 'ROOT r = (f32[2,3], s32[2,3]) custom-call(p0), custom_call_target="TopK"'
    yield structured("custom-call", "TopK", line, small_integers(rng, "f32", (2, 7)))


def _tuples(rng: np.random.Generator) -> Iterator[Case]:
    x, n = random_values(rng, "f32", (3,)), random_values(rng, "s32", ())
    nested = """a = _ tuple(p0, p1)
                e = _ tuple()
                b = _ tuple(a, e, p0)
                c = _ get-tuple-element(b), index=0
                d = _ get-tuple-element(c), index=1
                ROOT r = _ tuple(d, c, p0, p0)"""
    yield structured("tuple", "nested", nested, x, n)
    yield structured("tuple", "empty", "ROOT r = _ tuple()")
    constant = """k = (f32[2], (s32[], pred[2]), f32[]) constant(({1, 2}, (3, {1, 0}), -0))
                  b = _ get-tuple-element(k), index=1
                  c = _ get-tuple-element(b), index=0
                  ROOT r = _ tuple(k, c)"""
    yield structured("constant", "of_nested_tuples", constant)
    yield structured("parameter", "returned", "ROOT r = _ tuple(p0, p0)", x)
    yield structured(
        "get-tuple-element", "of_a_tuple", "t = _ tuple(p0, p1)\nROOT r = _ get-tuple-element(t), index=1", x, n
    )
    ordered = """t = token[] after-all()
                 a = _ add-dependency(p0, t)
                 b = _ opt-barrier(a)
                 ROOT r = _ negate(b)"""
    yield structured("opt-barrier", "with_a_token", ordered, x)
    sizes = "ROOT r = _s32 get-dimension-size(p0), dimensions={%d}"
    for d in (0, 1):
        yield structured("get-dimension-size", f"of_{d}", sizes % d, random_values(rng, "f32", (3, 0)))
