"""Loops whose turns are known before they run."""

import random

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.analysis.while_loop_analysis import Counter, counter_of
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir.plan import Branch, Launch, Loop, Repeat


def program(start=0, step=1, limit=10, direction="LT", type="s32", test=None, counting=None):
    """sum of the counter's values, and the counter itself."""
    test = test or f"ROOT p = pred[] compare(i, n), direction={direction}"
    counting = counting or "next = {t}[] add(i, one)"
    return f"""HloModule m
        body {{ s = ({type}[], f32[3]) parameter(0)
            i = {type}[] get-tuple-element(s), index=0
            x = f32[3] get-tuple-element(s), index=1
            one = {type}[] constant({step})
            {counting.format(t=type)}
            f = f32[] convert(i)
            fs = f32[3] broadcast(f), dimensions={{}}
            y = f32[3] add(x, fs)
            ROOT r = ({type}[], f32[3]) tuple(next, y) }}
        condition {{ s = ({type}[], f32[3]) parameter(0)
            i = {type}[] get-tuple-element(s), index=0
            n = {type}[] constant({limit})
            {test} }}
        ENTRY e {{ x = f32[3] parameter(0)
            i = {type}[] constant({start})
            s = ({type}[], f32[3]) tuple(i, x)
            ROOT w = ({type}[], f32[3]) while(s), condition=condition, body=body }}"""


def loop_of(text):
    return next(i for i in parse(text).entry.instructions if i.opcode == "while")


@pytest.mark.parametrize(
    ("start", "step", "limit", "direction", "turns"),
    [
        (0, 1, 10, "LT", 10), (0, 3, 10, "LT", 4), (0, 3, 9, "LT", 3), (0, 1, 10, "LE", 11), (0, 3, 9, "LE", 4),
        (10, -1, 0, "GT", 10), (10, -3, 0, "GE", 4), (10, -4, 1, "GT", 3), (5, 1, 5, "LT", 0), (5, 1, 5, "LE", 1),
        (7, 1, 5, "LT", 0), (7, 1, 5, "LE", 0), (5, -1, 7, "GT", 0), (0, 2, 8, "NE", 4), (8, -2, 0, "NE", 4),
        (3, 1, 3, "NE", 0), (0, 3, 8, "NE", None), (0, -1, 8, "LT", None), (0, 1, 8, "GT", None), (0, 1, 8, "EQ", None),
    ],
)  # fmt: skip
def test_turns(start, step, limit, direction, turns):
    found = counter_of(loop_of(program(start, step, limit, direction)))
    assert found == (None if turns is None else Counter(0, start, step, turns))
    if turns is not None:
        x = np.arange(3, dtype=np.float32)
        module = parse(program(start, step, limit, direction))
        expected = interpreter.run(module, [x])
        executable = refxla.compile(module)
        got = executable(x)
        assert got[0] == expected[0] and np.array_equal(got[1], expected[1])
        assert not any(isinstance(s, Loop) for s in executable.plan.steps), "nobody waits for a predicate"


@pytest.mark.parametrize("type", ["s8", "u8", "s64", "u32"])
def test_types(type):
    x = np.zeros(3, np.float32)
    got = refxla.compile(program(3, 4, 100, type=type))(x)
    assert got[0] == 103 and got[1][0] == sum(range(3, 100, 4))


@pytest.mark.parametrize(
    ("type", "start", "step", "limit", "turns"),
    [("s4", -8, 3, 7, 5), ("u4", 0, 5, 15, 3), ("s2", -2, 1, 1, 3), ("u2", 0, 1, 3, 3), ("u1", 0, 1, 1, 1)],
)
def test_counters_of_less_than_a_byte(type, start, step, limit, turns):
    text = program(start, step, limit, type=type)
    assert counter_of(loop_of(text)) == Counter(0, start, step, turns)
    got = refxla.compile(text)(np.zeros(3, np.float32))
    assert got[0] == start + turns * step and got[1][0] == sum(range(start, limit, step))


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": 127, "step": 2, "type": "s8"},  # the counter wraps
        {"limit": 7, "step": 2, "type": "s4"},
        {"counting": "next = {t}[] multiply(i, one)", "step": 2, "start": 1},
        {"counting": "next = {t}[] subtract(one, i)"},
        {"test": "ROOT p = pred[] constant(false)"},
    ],
)
def test_turns_that_are_not_known(changes):
    assert counter_of(loop_of(program(**changes))) is None


def test_the_step_may_be_subtracted_and_the_operands_exchanged():
    assert counter_of(loop_of(program(9, 3, 0, "GT", counting="next = {t}[] subtract(i, one)"))).trip_count == 3
    text = program(test="ROOT p = pred[] compare(n, i), direction=GT", counting="next = {t}[] add(one, i)")
    assert counter_of(loop_of(text)).trip_count == 10


def test_more_turns_than_a_table_has():
    text = program(limit=70_000)
    (repeat,) = [s for s in plan_module(parse(text), DEFAULT_CPU, ("fusion",))[1].plan.steps if isinstance(s, Repeat)]
    assert (repeat.trip_count, repeat.counter) == (70_000, None)
    executable = refxla.compile(text)
    x = np.zeros(3, np.float32)
    assert executable(x)[0] == 70_000


NESTED = """HloModule nested
    inner_body { s = (s32[], s32[], s32[4]) parameter(0)
        j = s32[] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1
        x = s32[4] get-tuple-element(s), index=2
        one = s32[] constant(1)
        next = s32[] add(j, one)
        m = s32[] multiply(i, j)
        ms = s32[4] broadcast(m), dimensions={}
        y = s32[4] add(x, ms)
        ROOT r = (s32[], s32[], s32[4]) tuple(next, i, y) }
    inner_test { s = (s32[], s32[], s32[4]) parameter(0)
        j = s32[] get-tuple-element(s), index=0
        n = s32[] constant(INNER)
        ROOT p = pred[] compare(j, n), direction=LT }
    body { s = (s32[], s32[4]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = s32[4] get-tuple-element(s), index=1
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(i, one)
        inner = (s32[], s32[], s32[4]) tuple(zero, i, x)
        w = (s32[], s32[], s32[4]) while(inner), condition=inner_test, body=inner_body
        last = s32[] get-tuple-element(w), index=0
        y = s32[4] get-tuple-element(w), index=2
        lasts = s32[4] broadcast(last), dimensions={}
        z = s32[4] add(y, lasts)
        ROOT r = (s32[], s32[4]) tuple(next, z) }
    test { s = (s32[], s32[4]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(5)
        ROOT p = pred[] compare(i, n), direction=LT }
    ENTRY e { x = s32[4] parameter(0)
        zero = s32[] constant(0)
        s = (s32[], s32[4]) tuple(zero, x)
        ROOT w = (s32[], s32[4]) while(s), condition=test, body=body }"""


@pytest.mark.parametrize("inner", [0, 1, 7])
def test_loops_in_loops(inner):
    text = NESTED.replace("INNER", str(inner))
    x = np.arange(4, dtype=np.int32)
    executable = refxla.compile(text)
    expected = interpreter.run(parse(text), [x])
    for _ in range(2):  # the turns begin anew at every call
        got = executable(x)
        assert got[0] == 5 and np.array_equal(got[1], expected[1])


def test_a_loop_that_waits_counts_too():
    """The counted loop inside one whose end depends on data."""
    text = NESTED.replace("INNER", "3").replace(
        "n = s32[] constant(5)\n        ROOT p = pred[] compare(i, n), direction=LT",
        "x = s32[4] get-tuple-element(s), index=1\n"
        "        f = s32[1] slice(x), slice={[0:1]}\n"
        "        v = s32[] reshape(f)\n"
        "        n = s32[] constant(25)\n"
        "        ROOT p = pred[] compare(v, n), direction=LT",
    )
    x = np.zeros(4, np.int32)
    executable = refxla.compile(text)
    assert any(isinstance(s, Loop) for s in executable.plan.steps)
    expected = interpreter.run(parse(text), [x])
    got = executable(x)
    assert got[0] == expected[0] and np.array_equal(got[1], expected[1])


@pytest.mark.parametrize("reader", ["copy(stored)", "dynamic-update-slice(h, stored, i, zero)", "negate(stored)"])
def test_a_state_that_is_read_behind_its_update_keeps_its_initial_value(reader):
    """All of `d` is written in the end; what an iteration reads of it is the initial value in later slices."""
    text = f"""HloModule m
    body {{ p = (s32[], f32[10,8], f32[10,8]) parameter(0)
           i = s32[] get-tuple-element(p), index=0
           h = f32[10,8] get-tuple-element(p), index=1
           d = f32[10,8] get-tuple-element(p), index=2
           zero = s32[] constant(0)
           row = f32[1,8] dynamic-slice(h, i, zero), dynamic_slice_sizes={{1,8}}
           stored = f32[10,8] dynamic-update-slice(d, row, i, zero)
           next = f32[10,8] {reader}
           one = s32[] constant(1)
           n = s32[] add(i, one)
           ROOT t = (s32[], f32[10,8], f32[10,8]) tuple(n, next, stored) }}
    condition {{ p = (s32[], f32[10,8], f32[10,8]) parameter(0)
                i = s32[] get-tuple-element(p), index=0
                ten = s32[] constant(10)
                ROOT c = pred[] compare(i, ten), direction=LT }}
    ENTRY e {{ zero = s32[] constant(0)
              a = f32[10,8] parameter(0)
              b = f32[10,8] parameter(1)
              t = (s32[], f32[10,8], f32[10,8]) tuple(zero, a, b)
              ROOT w = (s32[], f32[10,8], f32[10,8]) while(t), condition=condition, body=body }}"""
    arguments = [np.random.default_rng(n).standard_normal((10, 8)).astype(np.float32) for n in (1, 2)]
    got = refxla.compile(text)(*arguments)
    for g, wanted in zip(got, interpreter.run(parse(text), arguments), strict=True):
        np.testing.assert_array_equal(g, wanted)


STAGES = {  # operations of several kernels, of which some read nothing but what the ones before them wrote
    "sort": (
        "s32[131072]",
        """m = s32[] constant(1103515245)
            ms = s32[131072] broadcast(m), dimensions={}
            y = s32[131072] multiply(x, ms)
            z = s32[131072] sort(y), dimensions={0}, to_apply=less""",
    ),
    "fft": (
        "c64[3,4,5]",
        """y = f32[3,4,8] fft(x), fft_type=IRFFT, fft_length={3,4,8}
            z = c64[3,4,5] fft(y), fft_type=RFFT, fft_length={3,4,8}""",
    ),
}


@pytest.mark.parametrize("name", STAGES)
def test_all_kernels_of_an_operation_run_in_every_iteration(name):
    shape, statements = STAGES[name]
    text = f"""HloModule m
        less {{ a = s32[] parameter(0)
            b = s32[] parameter(1)
            ROOT p = pred[] compare(a, b), direction=LT }}
        body {{ s = (s32[], {shape}) parameter(0)
            i = s32[] get-tuple-element(s), index=0
            x = {shape} get-tuple-element(s), index=1
            {statements}
            w = {shape} add(z, z)
            one = s32[] constant(1)
            next = s32[] add(i, one)
            ROOT r = (s32[], {shape}) tuple(next, w) }}
        condition {{ s = (s32[], {shape}) parameter(0)
            i = s32[] get-tuple-element(s), index=0
            n = s32[] constant(3)
            ROOT p = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ x = {shape} parameter(0)
            zero = s32[] constant(0)
            t = (s32[], {shape}) tuple(zero, x)
            l = (s32[], {shape}) while(t), condition=condition, body=body
            ROOT r = {shape} get-tuple-element(l), index=1 }}"""
    random = np.random.default_rng(0)
    if name == "sort":
        x = random.integers(-(2**31), 2**31, 131072).astype(np.int32)
    else:
        x = np.fft.rfftn(random.standard_normal((3, 4, 8))).astype(np.complex64)
    wanted = interpreter.run(parse(text), [x])
    np.testing.assert_allclose(refxla.compile(text)(x), wanted, rtol=0, atol=1e-4 * (name == "fft"))


def shifted(seed):
    """A loop whose state is handed on: each next value is the counter, its successor, a value of the state (its own or
    another's), or one with a row replaced where another value says."""
    draw = random.Random(seed)
    names = [f"v{n}" for n in range(draw.randint(2, 4))]
    types = ["s32[]", *(draw.choice(("s32[]", "s32[]", "s32[3]")) for _ in names)]
    state = f"({', '.join(types)})"
    body = [f"p = {state} parameter(0)"]
    body += [
        f"{v} = {t} get-tuple-element(p), index={n}" for n, (v, t) in enumerate(zip(["i", *names], types, strict=True))
    ]
    body += ["one = s32[] constant(1)", "next = s32[] add(i, one)"]
    scalars, roots = ["i", "next"] + [v for v, t in zip(names, types[1:], strict=True) if t == "s32[]"], ["next"]
    for n, type in enumerate(types[1:]):
        if type == "s32[]":
            roots.append(draw.choice(scalars))
            continue
        row, at = (draw.choice(scalars) for _ in range(2))
        body += [f"r{n} = s32[1] reshape({row})", f"u{n} = s32[3] dynamic-update-slice({names[n]}, r{n}, {at})"]
        roots.append(f"u{n}")
    body.append(f"ROOT r = {state} tuple({', '.join(roots)})")
    entry = [f"a{n} = {t} parameter({n})" for n, t in enumerate(types[1:])] + ["zero = s32[] constant(0)"]
    entry.append(f"s = {state} tuple(zero, {', '.join(f'a{n}' for n in range(len(names)))})")
    entry.append(f"ROOT w = {state} while(s), condition=test, body=body")
    test = [f"p = {state} parameter(0)", "i = s32[] get-tuple-element(p), index=0"]
    test += [f"n = s32[] constant({draw.randint(2, 5)})", "ROOT c = pred[] compare(i, n), direction=LT"]
    parts = {"body": body, "test": test, "ENTRY e": entry}
    text = "HloModule m\n" + "\n".join(f"{k} {{\n  " + "\n  ".join(v) + "\n}" for k, v in parts.items())
    return text, [np.int32(50 + n) if t == "s32[]" else np.arange(3, dtype=np.int32) for n, t in enumerate(types[1:])]


@pytest.mark.parametrize("seed", range(8))
def test_values_that_a_loop_hands_on(seed):
    text, given = shifted(seed)
    expected = interpreter.run(parse(text), given)
    for got, value in zip(refxla.compile(text)(*given), expected, strict=True):
        assert np.array_equal(got, value), text


def kernels_by_depth(steps, plan, depth=0):
    """(the number of loops around it, its name) for each kernel that the steps launch."""
    for step in steps:
        if isinstance(step, Launch):
            yield from ((depth, part.name) for part in plan.kernels[step.kernel].parts())
        elif isinstance(step, Branch):
            for branch in step.branches:
                yield from kernels_by_depth(branch, plan, depth)
        elif isinstance(step, Loop | Repeat):
            condition = step.condition if isinstance(step, Loop) else ()
            yield from kernels_by_depth((*condition, *step.body), plan, depth + 1)


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("changes", [False, True])
def test_a_matrix_is_packed_before_the_outermost_loop_that_keeps_it(changes, dimension):
    """For products with vectors, too; with the bits of a product outside any loop."""
    text = f"""HloModule m
    inner_body {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        a = f32[260,260] get-tuple-element(s), index=1
        x = f32[260] get-tuple-element(s), index=2
        y = f32[260] dot(a, x), lhs_contracting_dims={{{dimension}}}, rhs_contracting_dims={{0}}
        one = s32[] constant(1)
        next = s32[] add(i, one)
        ROOT r = (s32[], f32[260,260], f32[260]) tuple(next, a, y) }}
    inner_test {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(3)
        ROOT p = pred[] compare(i, n), direction=LT }}
    body {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        a = f32[260,260] get-tuple-element(s), index=1
        x = f32[260] get-tuple-element(s), index=2
        zero = s32[] constant(0)
        t = (s32[], f32[260,260], f32[260]) tuple(zero, a, x)
        w = (s32[], f32[260,260], f32[260]) while(t), condition=inner_test, body=inner_body
        y = f32[260] get-tuple-element(w), index=2
        one = s32[] constant(1)
        next = s32[] add(i, one)
        negative = f32[260,260] negate(a)
        ROOT r = (s32[], f32[260,260], f32[260]) tuple(next, {"negative" if changes else "a"}, y) }}
    test {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(3)
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ a = f32[260,260] parameter(0)
        x = f32[260] parameter(1)
        zero = s32[] constant(0)
        s = (s32[], f32[260,260], f32[260]) tuple(zero, a, x)
        w = (s32[], f32[260,260], f32[260]) while(s), condition=test, body=body
        ROOT y = f32[260] get-tuple-element(w), index=2 }}"""
    plan = plan_module(parse(text), DEFAULT_CPU)[1].plan
    packing = [depth for depth, name in kernels_by_depth(plan.steps, plan) if name.endswith(".right")]
    # a matrix whose columns lie side by side is read where it is
    assert packing == ([] if dimension == 0 else [int(changes)])
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((260, 260), np.float32) / 16, rng.standard_normal(260, np.float32)
    alone = refxla.compile(f"""ENTRY e {{ a = f32[260,260] parameter(0)
        x = f32[260] parameter(1)
        ROOT y = f32[260] dot(a, x), lhs_contracting_dims={{{dimension}}}, rhs_contracting_dims={{0}} }}""")
    got, want = refxla.compile(text)(a, x), x
    for turn in range(9):
        want = alone(-a if changes and turn // 3 == 1 else a, want)
    np.testing.assert_array_equal(got, want)


def branching(taken, other):
    """A loop of three iterations, each with a branch by the sign of x[0]."""
    return f"""HloModule m
    product {{ p = (f32[260,260], f32[260]) parameter(0)
        a = f32[260,260] get-tuple-element(p), index=0
        x = f32[260] get-tuple-element(p), index=1
        ROOT y = f32[260] dot(a, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}
    same {{ p = (f32[260,260], f32[260]) parameter(0)
        x = f32[260] get-tuple-element(p), index=1
        ROOT y = f32[260] negate(x) }}
    body {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        a = f32[260,260] get-tuple-element(s), index=1
        x = f32[260] get-tuple-element(s), index=2
        head = f32[1] slice(x), slice={{[0:1]}}
        first = f32[] reshape(head)
        zero = f32[] constant(0)
        above = pred[] compare(first, zero), direction=GT
        operands = (f32[260,260], f32[260]) tuple(a, x)
        y = f32[260] conditional(above, operands, operands), true_computation={taken}, false_computation={other}
        one = s32[] constant(1)
        next = s32[] add(i, one)
        ROOT r = (s32[], f32[260,260], f32[260]) tuple(next, a, y) }}
    test {{ s = (s32[], f32[260,260], f32[260]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(3)
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ a = f32[260,260] parameter(0)
        x = f32[260] parameter(1)
        zero = s32[] constant(0)
        s = (s32[], f32[260,260], f32[260]) tuple(zero, a, x)
        w = (s32[], f32[260,260], f32[260]) while(s), condition=test, body=body
        ROOT r = f32[260] get-tuple-element(w), index=2 }}"""


SEARCH = """HloModule m
    add { a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT s = f32[] add(a, b) }
    body { s = (f32[260,260], f32[260]) parameter(0)
        a = f32[260,260] get-tuple-element(s), index=0
        x = f32[260] get-tuple-element(s), index=1
        half = f32[] constant(0.5)
        halves = f32[260] broadcast(half), dimensions={}
        y = f32[260] multiply(x, halves)
        ROOT r = (f32[260,260], f32[260]) tuple(a, y) }
    test { s = (f32[260,260], f32[260]) parameter(0)
        a = f32[260,260] get-tuple-element(s), index=0
        x = f32[260] get-tuple-element(s), index=1
        y = f32[260] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        squares = f32[260] multiply(y, y)
        zero = f32[] constant(0)
        size = f32[] reduce(squares, zero), dimensions={0}, to_apply=add
        limit = f32[] constant(100)
        ROOT p = pred[] compare(size, limit), direction=GT }
    ENTRY e { a = f32[260,260] parameter(0)
        x = f32[260] parameter(1)
        s = (f32[260,260], f32[260]) tuple(a, x)
        w = (f32[260,260], f32[260]) while(s), condition=test, body=body
        ROOT r = f32[260] get-tuple-element(w), index=1 }"""


@pytest.mark.parametrize("text", [SEARCH, branching("product", "same"), branching("same", "product")])
def test_a_matrix_of_a_condition_or_a_branch_is_packed_before_the_loop(text):
    random = np.random.default_rng(0)
    a, x = random.standard_normal((260, 260)).astype(np.float32) / 16, random.standard_normal(260).astype(np.float32)
    plan = plan_module(parse(text), DEFAULT_CPU)[1].plan
    assert [depth for depth, name in kernels_by_depth(plan.steps, plan) if name.endswith(".right")] == [0]
    wanted = interpreter.run(parse(text), [a, x])
    for without in ((), ("launch-merging",)):
        np.testing.assert_allclose(refxla.compile(text, without=without)(a, x), wanted, rtol=2e-4, atol=1e-5)
