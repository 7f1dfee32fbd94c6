"""The passes: HLO text in, HLO text out; and no pass changes a bit of any result."""

import numpy as np
import pytest
from refxla_conformance.fuzz.cause import cause
from refxla_conformance.fuzz.generate import generate
from refxla_spec import interpreter
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.module import Computation, Module
from refxla_spec.text import parse
from refxla_spec.verify import verify

from refxla.compiler.driver import flatten, unflatten_all
from refxla.passes import algebraic_simplifier, call_inliner, constant_folding, cse, dce, tuple_simplifier
from refxla.passes.pipeline import OPTIONAL, PASSES, SCHEDULING, optimize

HEADER = """HloModule m
lesser { a = f32[] parameter(0)
  m = f32[] parameter(1)
  b = f32[] parameter(2)
  n = f32[] parameter(3)
  p = pred[] compare(a, b), direction=LT
  c = f32[] select(p, a, b)
  k = f32[] select(p, m, n)
  ROOT t = (f32[], f32[]) tuple(c, k) }
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] maximum(a, b) }
all { a = pred[] parameter(0)
      b = pred[] parameter(1)
      ROOT c = pred[] and(a, b) }
"""
# What every entry below begins with.
PARAMETERS = """x = f32[2,3] parameter(0)
y = f32[2,3] parameter(1)
n = s32[4] parameter(2)
p = pred[4] parameter(3)
v = f32[3] parameter(4)
s = f32[] parameter(5)
i = s32[] parameter(6)
h = bf16[4] parameter(7)
"""


def module_of(lines: str) -> Module:
    module = parse(f"{HEADER}\nENTRY main {{\n{PARAMETERS}{lines}\n}}")
    verify(module)
    return module


def outline(computation: Computation) -> str:
    """What a computation does, in an order and under names that depend on nothing else."""
    numbers: dict = {}
    lines: list[str] = []

    def visit(i) -> int:
        if i not in numbers:
            operands = [visit(o) for o in i.operands]
            attributes = {k: outline(v) if isinstance(v, Computation) else v for k, v in sorted(i.attributes.items())}
            numbers[i] = len(numbers)
            lines.append(f"%{numbers[i]} = {i.opcode} {i.shape.without_layout()} {operands} {attributes}")
        return numbers[i]

    visit(computation.root)
    return "\n".join(lines)


def assert_becomes(run, before: str, after: str) -> None:
    """A pass makes of an entry's lines another entry's lines."""
    module, wanted = module_of(before), module_of(after)
    run(module)
    verify(module)
    assert outline(module.entry) == outline(wanted.entry), f"\n{module}\nis not\n{wanted}"


# -- simplify: each rule ----------------------------------------------------------------------------------------------

ONE = "one = f32[] constant(1)\nones = f32[2,3] broadcast(one), dimensions={}\n"
ZERO = "zero = s32[] constant(0)\nzeros = s32[4] broadcast(zero), dimensions={}\n"
TRUE = "t = pred[] constant(true)\nts = pred[4] broadcast(t), dimensions={}\n"
FALSE = "f = pred[] constant(false)\nfs = pred[4] broadcast(f), dimensions={}\n"
FEW = (
    "zero = s32[] constant(0)\ntwo = s32[] constant(2)\nzs = s32[4] broadcast(zero), dimensions={}\n"
    "tw = s32[4] broadcast(two), dimensions={}\nfew = s32[4] select(p, tw, zs)\n"
)
SAME_X, SAME_N, SAME_P = "ROOT r = f32[2,3] copy(x)", "ROOT r = s32[4] copy(n)", "ROOT r = pred[4] copy(p)"


def unchanged(lines: str) -> list[tuple[str, str]]:
    """The case of lines that a rule leaves as they are."""
    return [(lines, lines)]


AT = "nine = s32[] constant(9)\nzero = s32[] constant(0)\n"

# rule -> [(before, after)]; the root of `after` may be a copy of a value, which stands for the value itself
RULES = {
    "_same_shape": [
        ("ROOT r = f32[2,3] convert(x)", SAME_X),
        ("ROOT r = f32[2,3] reshape(x)", SAME_X),
        ("ROOT r = f32[2,3] bitcast-convert(x)", SAME_X),
        ("ROOT r = s32[2,3] bitcast-convert(x)", "ROOT r = s32[2,3] bitcast-convert(x)"),
    ],
    "_broadcast_nothing": [("ROOT r = f32[2,3] broadcast(x), dimensions={0,1}", SAME_X)],
    "_transpose_nothing": [("ROOT r = f32[2,3] transpose(x), dimensions={0,1}", SAME_X)],
    "_whole_slice": [
        ("ROOT r = f32[2,3] slice(x), slice={[0:2],[0:3]}", SAME_X),
        ("ROOT r = f32[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}", SAME_X),
    ],
    "_update_nothing": [
        (
            AT
            + "row = f32[1,3] slice(x), slice={[1:2],[0:3]}\n"
            + "ROOT r = f32[2,3] dynamic-update-slice(x, row, nine, zero)",
            SAME_X,
        ),
        (
            AT + "row = f32[1,3] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,3}\n"
            "ROOT r = f32[2,3] dynamic-update-slice(x, row, i, zero)",
            SAME_X,
        ),
        *unchanged(
            AT + "row = f32[1,3] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,3}\n"
            "ROOT r = f32[2,3] dynamic-update-slice(x, row, nine, zero)"
        ),
        *unchanged(
            AT
            + "row = f32[1,3] slice(x), slice={[0:1],[0:3]}\nROOT r = f32[2,3] dynamic-update-slice(x, row, nine, zero)"
        ),
        *unchanged(
            AT
            + "row = f32[1,3] slice(y), slice={[1:2],[0:3]}\nROOT r = f32[2,3] dynamic-update-slice(x, row, nine, zero)"
        ),
    ],
    "_slice_of_update": [
        (
            AT + "row = f32[1,3] slice(y), slice={[0:1],[0:3]}\nu = f32[2,3] dynamic-update-slice(x, row, nine, zero)\n"
            "ROOT r = f32[1,3] slice(u), slice={[1:2],[0:3]}",
            "ROOT row = f32[1,3] slice(y), slice={[0:1],[0:3]}",
        ),
        *unchanged(
            AT + "row = f32[1,3] slice(y), slice={[0:1],[0:3]}\nu = f32[2,3] dynamic-update-slice(x, row, nine, zero)\n"
            "ROOT r = f32[1,3] slice(u), slice={[0:1],[0:3]}"
        ),
        *unchanged(
            AT + "row = f32[1,2] slice(y), slice={[0:1],[0:2]}\nu = f32[2,3] dynamic-update-slice(x, row, nine, zero)\n"
            "ROOT r = f32[1,2] slice(u), slice={[1:2],[0:3:2]}"
        ),
    ],
    "_update_of_splat": [
        (
            AT + "row = f32[1,2] slice(y), slice={[0:1],[0:2]}\nc = f32[] constant(-0)\n"
            "w = f32[2,3] broadcast(c), dimensions={}\n"
            "ROOT r = f32[2,3] dynamic-update-slice(w, row, nine, zero)",  # nine: as far as the block fits
            "row = f32[1,2] slice(y), slice={[0:1],[0:2]}\nc = f32[] constant(-0)\n"
            "ROOT r = f32[2,3] pad(row, c), padding=1_0x0_1",
        ),
        *unchanged(
            AT + "row = f32[1,2] slice(y), slice={[0:1],[0:2]}\nc = f32[] constant(1)\n"
            "w = f32[2,3] broadcast(c), dimensions={}\nROOT r = f32[2,3] dynamic-update-slice(w, row, i, zero)"
        ),
        *unchanged(
            AT + "row = f32[1,2] slice(y), slice={[0:1],[0:2]}\nw = f32[2,3] broadcast(v), dimensions={1}\n"
            "ROOT r = f32[2,3] dynamic-update-slice(w, row, nine, zero)"
        ),
    ],
    "_slice_of_pad": [
        (
            "a = f32[4,3] pad(x, s), padding=1_1x1_-1\nROOT r = f32[2,1] slice(a), slice={[1:3],[1:3:2]}",
            "ROOT r = f32[2,1] slice(x), slice={[0:2],[0:2:2]}",
        ),
        *unchanged("a = f32[4,3] pad(x, s), padding=1_1x0_0\nROOT r = f32[2,3] slice(a), slice={[0:2],[0:3]}"),
        *unchanged("a = f32[4,3] pad(x, s), padding=1_1x0_0\nROOT r = f32[2,3] slice(a), slice={[2:4],[0:3]}"),
        *unchanged("a = f32[3,3] pad(x, s), padding=0_0_1x0_0\nROOT r = f32[2,3] slice(a), slice={[0:2],[0:3]}"),
    ],
    "_concatenate_one": [
        ("e = f32[0,3] slice(y), slice={[0:0],[0:3]}\nROOT r = f32[2,3] concatenate(x, e), dimensions={0}", SAME_X)
    ],
    "_pad_nothing": [
        ("ROOT r = f32[2,3] pad(x, s), padding=0_0x0_0", SAME_X),
        ("ROOT r = f32[2,3] pad(x, s), padding=1_-1x0_0", "ROOT r = f32[2,3] pad(x, s), padding=1_-1x0_0"),
    ],
    "_reverse_nothing": [
        (
            "w = f32[2,1,3] reshape(x)\nROOT r = f32[2,1,3] reverse(w), dimensions={1}",
            "ROOT r = f32[2,1,3] reshape(x)",
        )
    ],
    "_reshape_reshape": [("a = f32[6] reshape(x)\nROOT r = f32[3,2] reshape(a)", "ROOT r = f32[3,2] reshape(x)")],
    "_reshape_broadcast": [
        (
            "a = f32[2,3] broadcast(s), dimensions={}\nROOT r = f32[6] reshape(a)",
            "ROOT r = f32[6] broadcast(s), dimensions={}",
        ),
        (
            "a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[2,1,3] reshape(a)",
            "ROOT r = f32[2,1,3] broadcast(v), dimensions={2}",
        ),
        (
            "a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[6] reshape(a)",
            "a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[6] reshape(a)",
        ),
    ],
    "_broadcast_broadcast": [
        (
            "a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[2,5,3] broadcast(a), dimensions={0,2}",
            "ROOT r = f32[2,5,3] broadcast(v), dimensions={2}",
        )
    ],
    "_broadcast_reshape": [
        (
            "a = f32[3,1] reshape(v)\nROOT r = f32[2,3,1] broadcast(a), dimensions={1,2}",
            "ROOT r = f32[2,3,1] broadcast(v), dimensions={1}",
        )
    ],
    "_broadcast_ones": [("ROOT r = f32[1,3] broadcast(v), dimensions={1}", "ROOT r = f32[1,3] reshape(v)")],
    "_transpose_transpose": [
        (
            "a = f32[2,3,1] reshape(x)\nb = f32[3,1,2] transpose(a), dimensions={1,2,0}\n"
            "ROOT r = f32[1,2,3] transpose(b), dimensions={1,2,0}",
            "ROOT r = f32[1,2,3] reshape(x)",
        ),
        ("a = f32[3,2] transpose(x), dimensions={1,0}\nROOT r = f32[2,3] transpose(a), dimensions={1,0}", SAME_X),
    ],
    "_transpose_broadcast": [
        (
            "a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[3,2] transpose(a), dimensions={1,0}",
            "ROOT r = f32[3,2] broadcast(v), dimensions={0}",
        )
    ],
    "_slice_of_broadcast": [
        (
            "a = f32[4,2,3] broadcast(x), dimensions={1,2}\nROOT r = f32[2,2,2] slice(a), slice={[0:4:2],[0:2],[1:3]}",
            "a = f32[2,2] slice(x), slice={[0:2],[1:3]}\nROOT r = f32[2,2,2] broadcast(a), dimensions={1,2}",
        ),
        (
            "a = f32[4,3] broadcast(v), dimensions={1}\nROOT r = f32[2,3] slice(a), slice={[1:3],[0:3]}",
            "ROOT r = f32[2,3] broadcast(v), dimensions={1}",
        ),
    ],
    "_transpose_ones": [
        (
            "a = f32[2,1,3] broadcast(x), dimensions={0,2}\nROOT r = f32[1,2,3] transpose(a), dimensions={1,0,2}",
            "ROOT r = f32[1,2,3] reshape(x)",
        )
    ],
    "_twice": [
        ("a = f32[2,3] negate(x)\nROOT r = f32[2,3] negate(a)", SAME_X),
        ("a = s32[4] not(n)\nROOT r = s32[4] not(a)", SAME_N),
    ],
    "_convert_convert": [
        ("a = f64[2,3] convert(x)\nROOT r = f32[2,3] convert(a)", SAME_X),
        ("a = s64[4] convert(n)\nROOT r = s32[4] convert(a)", SAME_N),
        ("a = f32[4] convert(h)\nROOT r = bf16[4] convert(a)", "ROOT r = bf16[4] copy(h)"),
        ("a = s8[4] convert(n)\nROOT r = s32[4] convert(a)", "a = s8[4] convert(n)\nROOT r = s32[4] convert(a)"),
        ("a = f32[4] convert(n)\nROOT r = s32[4] convert(a)", "a = f32[4] convert(n)\nROOT r = s32[4] convert(a)"),
    ],
    "_elementwise_reshape": [
        (
            "a = f32[6] reshape(x)\nb = f32[6] reshape(y)\nROOT r = f32[6] add(a, b)",
            "a = f32[2,3] add(x, y)\nROOT r = f32[6] reshape(a)",
        ),
        (
            "a = f32[6] reshape(x)\nb = f32[6] broadcast(s), dimensions={}\nROOT r = f32[6] multiply(a, b)",
            "b = f32[2,3] broadcast(s), dimensions={}\na = f32[2,3] multiply(x, b)\nROOT r = f32[6] reshape(a)",
        ),
    ],
    "_elementwise_broadcast": [
        (
            "a = f32[2,3] broadcast(v), dimensions={1}\nb = f32[2,3] broadcast(s), dimensions={}\n"
            "ROOT r = f32[2,3] multiply(a, b)",
            "b = f32[3] broadcast(s), dimensions={}\na = f32[3] multiply(v, b)\n"
            "ROOT r = f32[2,3] broadcast(a), dimensions={1}",
        ),
        (
            "a = f32[3,5,2] broadcast(x), dimensions={2,0}\nROOT r = f32[3,5,2] negate(a)",
            "b = f32[3,2] broadcast(x), dimensions={1,0}\na = f32[3,2] negate(b)\n"
            "ROOT r = f32[3,5,2] broadcast(a), dimensions={0,2}",
        ),
        (
            "a = s32[2,4] iota(), iota_dimension=1\nb = s32[2,4] broadcast(n), dimensions={1}\n"
            "ROOT r = s32[2,4] add(a, b)",
            "a = s32[4] iota(), iota_dimension=0\nc = s32[4] add(a, n)\nROOT r = s32[2,4] broadcast(c), dimensions={1}",
        ),
        *unchanged(
            "a = f32[2,3] broadcast(v), dimensions={1}\nb = f32[2,3] iota(), iota_dimension=0\n"
            "ROOT r = f32[2,3] multiply(a, b)"
        ),
        *unchanged("a = f32[2,3] broadcast(v), dimensions={1}\nROOT r = f32[2,3] multiply(a, x)"),
    ],
    "_times_one": [
        (ONE + "ROOT r = f32[2,3] multiply(x, ones)", SAME_X),
        (ONE + "ROOT r = f32[2,3] multiply(ones, x)", SAME_X),
    ],
    "_times_zero": [(ZERO + "ROOT r = s32[4] multiply(n, zeros)", ZERO + "ROOT r = s32[4] copy(zeros)")],
    "_over_one": [(ONE + "ROOT r = f32[2,3] divide(x, ones)", SAME_X)],
    "_over_power_of_two": [
        (
            "c = f32[] constant(-8)\nROOT r = f32[] divide(s, c)",
            "c = f32[] constant(-0.125)\nROOT r = f32[] multiply(s, c)",
        ),
        ("c = f32[] constant(3)\nROOT r = f32[] divide(s, c)", "c = f32[] constant(3)\nROOT r = f32[] divide(s, c)"),
    ],
    "_plus_nothing": [
        (ZERO + "ROOT r = s32[4] add(zeros, n)", SAME_N),
        ("z = f32[] constant(-0)\nROOT r = f32[] add(s, z)", "ROOT r = f32[] copy(s)"),
        ("z = f32[] constant(0)\nROOT r = f32[] add(s, z)", "z = f32[] constant(0)\nROOT r = f32[] add(s, z)"),
    ],
    "_minus_nothing": [
        (ZERO + "ROOT r = s32[4] subtract(n, zeros)", SAME_N),
        ("z = f32[] constant(0)\nROOT r = f32[] subtract(s, z)", "ROOT r = f32[] copy(s)"),
        (
            "z = f32[] constant(-0)\nROOT r = f32[] subtract(s, z)",
            "z = f32[] constant(-0)\nROOT r = f32[] subtract(s, z)",
        ),
    ],
    "_idempotent": [("ROOT r = f32[2,3] maximum(x, x)", SAME_X), ("ROOT r = s32[4] and(n, n)", SAME_N)],
    "_with_the_last": [
        ("z = f32[] constant(-inf)\nROOT r = f32[] maximum(s, z)", "ROOT r = f32[] copy(s)"),
        ("z = f32[] constant(inf)\nROOT r = f32[] minimum(z, s)", "ROOT r = f32[] copy(s)"),
        (
            "z = f32[] constant(inf)\nROOT r = f32[] maximum(s, z)",
            "z = f32[] constant(inf)\nROOT r = f32[] maximum(s, z)",
        ),
    ],
    "_with_constant": [
        (TRUE + "ROOT r = pred[4] and(p, ts)", SAME_P),
        (FALSE + "ROOT r = pred[4] and(fs, p)", FALSE + "ROOT r = pred[4] copy(fs)"),
        (FALSE + "ROOT r = pred[4] or(fs, p)", SAME_P),
        (TRUE + "ROOT r = pred[4] or(p, ts)", TRUE + "ROOT r = pred[4] copy(ts)"),
    ],
    "_decided": [
        (TRUE + "m = s32[4] negate(n)\nROOT r = s32[4] select(ts, n, m)", SAME_N),
        (FALSE + "m = s32[4] negate(n)\nROOT r = s32[4] select(fs, m, n)", SAME_N),
        ("ROOT r = s32[4] select(p, n, n)", SAME_N),
    ],
    "_compare_few": [
        (
            FEW + "z = s32[4] broadcast(zero), dimensions={}\nROOT r = pred[4] compare(few, z), direction=GE",
            FEW + "t = pred[] constant(true)\nROOT r = pred[4] broadcast(t), dimensions={}",
        ),
        (
            FEW + "z = s32[4] broadcast(zero), dimensions={}\nROOT r = pred[4] compare(z, few), direction=GT",
            FEW + "t = pred[] constant(false)\nROOT r = pred[4] broadcast(t), dimensions={}",
        ),
        *unchanged(FEW + "z = s32[4] broadcast(zero), dimensions={}\nROOT r = pred[4] compare(few, z), direction=GT"),
    ],
    "_static_size": [("ROOT r = s32[] get-dimension-size(x), dimensions={1}", "ROOT r = s32[] constant(3)")],
    "_reduce_nothing": [
        ("z = f32[] constant(-0)\nROOT r = f32[2,3] reduce(x, z), dimensions={}, to_apply=add", SAME_X),
        ("z = f32[] constant(-inf)\nROOT r = f32[2,3] reduce(x, z), dimensions={}, to_apply=max", SAME_X),
        (
            "z = f32[] constant(0)\nROOT r = f32[2,3] reduce(x, z), dimensions={}, to_apply=add",
            "z = f32[] constant(0)\nROOT r = f32[2,3] reduce(x, z), dimensions={}, to_apply=add",
        ),
    ],
    "_reduce_ones": [
        (
            "a = f32[1,3] slice(x), slice={[0:1],[0:3]}\nROOT r = f32[3] reduce(a, s), dimensions={0}, to_apply=add",
            "b = f32[1,3] broadcast(s), dimensions={}\na = f32[1,3] slice(x), slice={[0:1],[0:3]}\n"
            "c = f32[1,3] add(b, a)\nROOT r = f32[3] reshape(c)",
        )
    ],
    "_reduce_all_of_reshape": [
        (
            "t = pred[] constant(true)\nb = pred[3,4] broadcast(p), dimensions={1}\na = pred[12] reshape(b)\n"
            "ROOT r = pred[] reduce(a, t), dimensions={0}, to_apply=all",
            "t = pred[] constant(true)\nb = pred[1,4] broadcast(p), dimensions={1}\n"
            "ROOT r = pred[] reduce(b, t), dimensions={0,1}, to_apply=all",
        ),
        *unchanged(
            "a = f32[6] reshape(x)\nROOT r = f32[] reduce(a, s), dimensions={0}, to_apply=max",
        ),
    ],
    "_reduce_alike": [
        (
            "a = f32[3,5] broadcast(v), dimensions={0}\nb = f32[3,5] negate(a)\n"
            "ROOT r = f32[3] reduce(b, s), dimensions={1}, to_apply=max",
            "b = f32[3] negate(v)\nc = f32[3,1] broadcast(b), dimensions={0}\n"
            "d = f32[3,1] broadcast(s), dimensions={}\n"
            "e = f32[3,1] maximum(d, c)\nROOT r = f32[3] reshape(e)",
        ),
        (
            "a = f32[4,2,3] broadcast(x), dimensions={1,2}\n"
            "ROOT r = f32[3] reduce(a, s), dimensions={0,1}, to_apply=max",
            "a = f32[1,2,3] broadcast(x), dimensions={1,2}\n"
            "ROOT r = f32[3] reduce(a, s), dimensions={0,1}, to_apply=max",
        ),
        *unchanged(
            "a = f32[3,5] broadcast(v), dimensions={0}\nROOT r = f32[3] reduce(a, s), dimensions={1}, to_apply=add"
        ),
    ],
    "_reduce_ones_of_several": [
        (
            "a = f32[1,3] slice(x), slice={[0:1],[0:3]}\nq = (f32[3], f32[3]) reduce(a, a, s, s), dimensions={0}, "
            "to_apply=lesser\nROOT r = f32[3] get-tuple-element(q), index=1",
            "b = f32[3] broadcast(s), dimensions={}\na = f32[1,3] slice(x), slice={[0:1],[0:3]}\n"
            "c = f32[3] reshape(a)\nd = f32[3] reshape(a)\ne = pred[3] compare(b, c), direction=LT\n"
            "f = f32[3] broadcast(s), dimensions={}\nROOT r = f32[3] select(e, f, d)",
        )
    ],
}
CASES = [(name, n) for name, cases in RULES.items() for n in range(len(cases))]


def without_last_copy(module: Module) -> Computation:
    root = module.entry.root
    if root.opcode == "copy":
        module.entry.root = root.operands[0]
    return module.entry


@pytest.mark.parametrize("name, n", CASES)
def test_each_rule(name, n):
    before, after = RULES[name][n]
    module, wanted = module_of(before), without_last_copy(module_of(after))
    changed = algebraic_simplifier.run(module)
    verify(module)
    assert outline(module.entry) == outline(wanted), f"\n{module}"
    assert bool(changed) == (before != after)


def test_no_rule_is_forgotten():
    assert {r.__name__ for rules in algebraic_simplifier.RULES.values() for r in rules} == set(RULES)


EDGES = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)


@pytest.mark.parametrize("name, n", CASES)
def test_each_rule_changes_no_bit(name, n):
    """On values at the edges: zeros of both signs, subnormal and infinite ones, NaN, the smallest integer."""
    module = module_of(RULES[name][n][0])
    arguments = []
    for k, q in enumerate(module.entry.parameters):
        count = q.shape.size
        edges = EDGES if q.shape.element_type.is_float else np.array([0, -1, -(2**31), 2**31 - 1])
        arguments.append(
            np.resize(np.roll(edges, k), count).astype(q.shape.element_type.dtype).reshape(q.shape.dimensions)
        )

    def simplified(module: Module) -> Module:
        algebraic_simplifier.run(module)
        return module

    assert_same_meaning(module, arguments, simplified)


def assert_same_meaning(module: Module, arguments: list, run) -> None:
    with np.errstate(all="ignore"):
        shapes = [q.shape for q in module.entry.parameters]
        wanted = interpreter.run(module, unflatten_all(arguments, shapes))
        changed = run(module.clone())
        shapes = [q.shape for q in changed.entry.parameters]
        got = interpreter.run(changed, unflatten_all(arguments, shapes))
    for a, b in zip(flatten([got]), flatten([wanted]), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), f"{a} is not {b}\n{changed}"


# -- the other passes -------------------------------------------------------------------------------------------------


def test_common_subexpressions_are_one():
    assert_becomes(
        cse.run,
        "a = f32[2,3] add(x, y)\nb = f32[2,3] add(x, y)\nROOT r = f32[2,3] multiply(a, b)",
        "a = f32[2,3] add(x, y)\nROOT r = f32[2,3] multiply(a, a)",
    )


def test_values_that_differ_in_an_attribute_a_type_or_a_constant_are_two():
    for lines in (
        "a = s32[4] convert(n)\nb = u32[4] convert(n)\nROOT r = (s32[4], u32[4]) tuple(a, b)",
        "a = s32[] constant(1)\nb = s32[] constant(2)\nROOT r = s32[] add(a, b)",
        "a = f32[] constant(0)\nb = f32[] constant(-0)\nROOT r = f32[] add(a, b)",
        "a = f32[3] reduce(x, s), dimensions={0}, to_apply=add\nb = f32[3] reduce(x, s), dimensions={0}, to_apply=max\n"
        "ROOT r = f32[3] add(a, b)",
    ):
        assert_becomes(cse.run, lines, lines)


def test_reduces_by_equal_computations_are_one():
    text = """HloModule m
    sum1 { a = f32[] parameter(0)
           b = f32[] parameter(1)
           ROOT c = f32[] add(a, b) }
    sum2 { d = f32[] parameter(0)
           e = f32[] parameter(1)
           ROOT f = f32[] add(d, e) }
    ENTRY main { x = f32[4] parameter(0)
                 z = f32[] constant(0)
                 a = f32[] reduce(x, z), dimensions={0}, to_apply=sum1
                 b = f32[] reduce(x, z), dimensions={0}, to_apply=sum2
                 ROOT r = f32[] multiply(a, b) }"""
    module = parse(text)
    assert cse.run(module) == 1
    assert [i.opcode for i in module.entry.instructions].count("reduce") == 1


def test_constants_are_folded_where_that_is_exact():
    assert_becomes(
        constant_folding.run,
        "a = s32[] constant(3)\nb = s32[] constant(4)\nROOT r = s32[] multiply(a, b)",
        "ROOT r = s32[] constant(12)",
    )
    assert_becomes(
        constant_folding.run,
        "a = f32[] constant(1)\nb = f32[] constant(3)\nc = f32[] divide(a, b)\n"
        "ROOT r = f32[4] broadcast(c), dimensions={}",
        "c = f32[] constant(0.333333343)\nROOT r = f32[4] broadcast(c), dimensions={}",
    )
    inexact = "a = f32[] constant(1)\nROOT r = f32[] tanh(a)"
    assert_becomes(constant_folding.run, inexact, inexact)


def test_a_large_constant_is_folded_where_it_takes_no_more_memory():
    row = "{" + ",".join(["1"] * 4999 + ["2"]) + "}"
    text = """HloModule m
    ENTRY main {
      w = %s[5000] constant(%s)
      c = f32[5000] convert(w)
      p = f32[5000] multiply(c, c)
      ROOT t = (%s) tuple(%s)
    }"""
    module = parse(text % ("s32", row, "f32[5000]", "p"))
    assert constant_folding.run(module) == 2
    np.testing.assert_array_equal(module.entry.root.operands[0].literal[-2:], [1, 4])
    # While others read a constant, what is made of it is computed; and so is what takes more memory.
    read = parse(text % ("s32", row, "f32[5000], s32[5000]", "p, w"))
    assert constant_folding.run(read) == 0
    assert constant_folding.run(parse(text % ("s8", row, "f32[5000]", "p"))) == 0


def test_a_splat_is_folded_as_one_element():
    module = module_of(
        "a = s32[] constant(3)\nb = s32[1000,1000] broadcast(a), dimensions={}\nROOT r = s32[1000,1000] negate(b)"
    )
    assert constant_folding.run(module) == 1
    assert module.entry.root.opcode == "broadcast" and module.entry.root.operands[0].literal == -3


def test_dead_code_goes_away_and_parameters_stay():
    module = module_of("a = f32[2,3] add(x, y)\nb = f32[2,3] tanh(a)\nROOT r = f32[2,3] negate(x)")
    assert dce.run(module) == 2 + 17  # and the four computations that nobody calls
    assert [i.opcode for i in module.entry.instructions] == ["parameter"] * 8 + ["negate"]
    assert [c.name for c in module.computations] == ["main"]


def test_calls_fusions_and_maps_are_inlined():
    text = """HloModule m
    inner { a = f32[4] parameter(0)
            ROOT b = f32[4] negate(a) }
    fused { a = f32[4] parameter(0)
            b = f32[4] call(a), to_apply=inner
            ROOT c = f32[4] tanh(b) }
    scalar { a = f32[] parameter(0)
             k = f32[] constant(2)
             ROOT b = f32[] multiply(a, k) }
    ENTRY main { x = f32[4] parameter(0)
                 y = f32[4] fusion(x), kind=kLoop, calls=fused
                 ROOT r = f32[4] map(y), dimensions={0}, to_apply=scalar }"""
    module = parse(text)
    assert call_inliner.run(module) == 3
    verify(module)
    assert [i.opcode for i in module.entry.instructions] == [
        "parameter", "negate", "tanh", "constant", "broadcast", "multiply"
    ]  # fmt: skip


def test_tuples_become_plain():
    text = """HloModule m
    ENTRY main { x = (f32[2], (s32[], f32[3])) parameter(0)
                 y = f32[2] parameter(1)
                 inner = (s32[], f32[3]) get-tuple-element(x), index=1
                 a = f32[3] get-tuple-element(inner), index=1
                 t = ((s32[], f32[3]), f32[2]) tuple(inner, y)
                 ROOT r = ((s32[], f32[3]), f32[3]) tuple(inner, a) }"""
    module = parse(text)
    tuple_simplifier.run(module)
    verify(module)
    assert [str(q.shape) for q in module.entry.parameters] == ["f32[2]", "s32[]", "f32[3]", "f32[2]"]
    root = module.entry.root
    assert [o.attributes["number"] for o in root.operands] == [1, 2, 2]


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_no_pass_changes_what_a_program_gives(first):
    """After each pass the same bits, or where it expands an operation, what the contract allows."""
    for seed in range(first, first + 10):
        assert cause(generate(seed)) is None


def test_the_module_that_is_given_stays_as_it_is():
    module = module_of("a = f32[2,3] negate(x)\nROOT r = f32[2,3] negate(a)")
    before = str(module)
    optimize(module)
    assert str(module) == before


def test_names_of_passes_are_checked():
    module = module_of("ROOT r = f32[2,3] negate(x)")
    with pytest.raises(InputError, match="there is no pass 'simplfy'; the passes are .*call-inliner, .*fusion"):
        optimize(module, ("simplfy",))
    with pytest.raises(InputError, match="there is no pass 'fussion'; .*; did you mean 'fusion'"):
        optimize(module, ("fussion",))
    with pytest.raises(InputError, match="there is no pass 'constant-foldin'; .*; did you mean 'constant-folding'"):
        optimize(module, after="constant-foldin")
    with pytest.raises(InputError, match="'fusion' is no pass over HLO, but comes after all of them.*--plan"):
        optimize(module, after="fusion")
    with pytest.raises(InputError, match="'call-inliner' cannot be left out"):
        optimize(module, ("call-inliner",))
    assert set(OPTIONAL) <= {name for name, _ in PASSES} | set(SCHEDULING)


def test_what_cannot_be_compiled_is_named():
    module = module_of('ROOT r = f32[2,3] custom-call(x), custom_call_target="mystery"')
    with pytest.raises(UnsupportedError, match="r: .*'mystery'"):
        optimize(module)
