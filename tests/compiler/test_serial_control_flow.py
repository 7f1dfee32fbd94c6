"""Loops and conditionals as one kernel: any nest of them, left and resumed anywhere, gives what the reference gives."""

import random
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.compiler import compilation_cache
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir import plan as p
from refxla.ir.merged_body import ConditionalBody
from refxla.scheduling import launch_merging, serial_control_flow
from refxla.scheduling.computation_cost import ComputationCosts
from refxla.scheduling.launch_costs import MergingOptions
from refxla.scheduling.merged_kernel import MOST_ARGUMENTS
from refxla.scheduling.scheduling_options import SchedulingOptions

STATE = "(s32[], f32[3])"


class Nest:
    """The text of a random program: steps, loops of known and unknown trip counts and conditionals, in each other."""

    def __init__(self, seed: int) -> None:
        self.random, self.computations, self.count = random.Random(seed), [], 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def text(self, depth: int) -> str:
        lines: list[str] = []
        i, x = self.statements(lines, "i0", "x0", depth)
        entry = "\n".join(["i0 = s32[] parameter(0)", "x0 = f32[3] parameter(1)", *lines])
        made = "\n".join(self.computations)
        return f"HloModule nest\n{made}\nENTRY e {{ {entry}\nROOT r = {STATE} tuple({i}, {x}) }}"

    def statements(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        kinds = [self.step, self.counted, self.searching, self.by_pred, self.by_number] if depth else [self.step]
        for _ in range(self.random.randint(1, 3)):
            i, x = self.random.choice(kinds)(lines, i, x, depth)
        return i, x

    def step(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        one, more, number, wide, sum, made = (self.name() for _ in range(6))
        lines += [
            f"{one} = s32[] constant({self.random.randint(1, 5)})", f"{more} = s32[] add({i}, {one})",
            f"{number} = f32[] convert({more})", f"{wide} = f32[3] broadcast({number}), dimensions={{}}",
            f"{sum} = f32[3] add({x}, {wide})", f"{made} = f32[3] cosine({sum})",
        ]  # fmt: skip
        return more, made

    def body(self, state: str, depth: int, extra: str = "") -> str:
        """A computation of statements on a state; `extra` counts the loop that it is the body of."""
        name, lines = self.name(), [f"s = {state} parameter(0)"]
        at = 0
        if extra:
            lines += ["k = s32[] get-tuple-element(s), index=0", "one = s32[] constant(1)", "l = s32[] add(k, one)"]
            at = 1
        lines += [f"i = s32[] get-tuple-element(s), index={at}", f"x = f32[3] get-tuple-element(s), index={at + 1}"]
        i, x = self.statements(lines, "i", "x", depth - 1)
        lines.append(f"ROOT r = {state} tuple({'l, ' if extra else ''}{i}, {x})")
        self.computations.append(f"{name} {{ " + "\n".join(lines) + " }")
        return name

    def loop(self, lines: list[str], i: str, x: str, depth: int, test: str) -> tuple[str, str]:
        state = "(s32[], s32[], f32[3])"
        body, condition = self.body(state, depth, "k"), self.name()
        self.computations.append(f"{condition} {{ s = {state} parameter(0)\n{test} }}")
        zero, begin, loop, next, made = (self.name() for _ in range(5))
        lines += [
            f"{zero} = s32[] constant(0)", f"{begin} = {state} tuple({zero}, {i}, {x})",
            f"{loop} = {state} while({begin}), condition={condition}, body={body}",
            f"{next} = s32[] get-tuple-element({loop}), index=1", f"{made} = f32[3] get-tuple-element({loop}), index=2",
        ]  # fmt: skip
        return next, made

    def counted(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        limit = self.random.randint(0, 6)
        test = f"k = s32[] get-tuple-element(s), index=0\nn = s32[] constant({limit})\n"
        return self.loop(lines, i, x, depth, test + "ROOT p = pred[] compare(k, n), direction=LT")

    def searching(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        test = f"""k = s32[] get-tuple-element(s), index=0
            x = f32[3] get-tuple-element(s), index=2
            n = s32[] constant({self.random.randint(1, 9)})
            first = f32[1] slice(x), slice={{[0:1]}}
            value = f32[] reshape(first)
            low = f32[] constant(-0.6)
            a = pred[] compare(value, low), direction=GT
            b = pred[] compare(k, n), direction=LT
            ROOT p = pred[] and(a, b)"""
        return self.loop(lines, i, x, depth, test)

    def conditional(self, lines: list[str], i: str, x: str, depth: int, index: str, count: int) -> tuple[str, str]:
        branches = [self.body(STATE, depth) for _ in range(count)]
        state, chosen, next, made = (self.name() for _ in range(4))
        lines += [
            f"{state} = {STATE} tuple({i}, {x})",
            f"{chosen} = {STATE} conditional({index}, {', '.join([state] * count)}), "
            f"branch_computations={{{', '.join(branches)}}}",
            f"{next} = s32[] get-tuple-element({chosen}), index=0",
            f"{made} = f32[3] get-tuple-element({chosen}), index=1",
        ]
        return next, made

    def by_number(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        count = self.random.randint(1, 4)
        four, index = self.name(), self.name()
        lines += [f"{four} = s32[] constant(4)", f"{index} = s32[] remainder({i}, {four})"]
        return self.conditional(lines, i, x, depth, index, count)

    def by_pred(self, lines: list[str], i: str, x: str, depth: int) -> tuple[str, str]:
        three, rest, zero, index = (self.name() for _ in range(4))
        lines += [
            f"{three} = s32[] constant(3)", f"{rest} = s32[] remainder({i}, {three})", f"{zero} = s32[] constant(0)",
            f"{index} = pred[] compare({rest}, {zero}), direction=EQ",
        ]  # fmt: skip
        return self.conditional(lines, i, x, depth, index, 2)


@pytest.fixture(params=[1e4, 0.06])
def launch_us(request, monkeypatch):
    """Kernels are left after so many microseconds, by the cost model: never here, or after each part."""
    monkeypatch.setattr(serial_control_flow, "LAUNCH_US", request.param)
    monkeypatch.setattr(serial_control_flow, "LAUNCH_NS", round(1e3 * request.param))
    monkeypatch.setattr(launch_merging, "LAUNCH_US", request.param)
    monkeypatch.setattr(compilation_cache, "load", lambda key: None)
    monkeypatch.setattr(compilation_cache, "save", lambda key, made: None)
    return request.param


@pytest.mark.parametrize("seed", range(4))
def test_a_nest_is_what_it_is_without_fusion(launch_us, seed):
    text = Nest(seed).text(3)
    module = parse(text)
    x = np.linspace(0.3, 2, 3, dtype=np.float32)
    executable = refxla.compile(text)
    for start in range(3):
        arguments = np.array(start, np.int32), x
        wants = refxla.compile(text, without=("fusion",))(*arguments)
        for got, want in zip(executable(*arguments), wants, strict=True):
            assert got.tobytes() == want.tobytes()
        number, rows = interpreter.run(module, arguments)
        assert wants[0] == number
        np.testing.assert_allclose(wants[1], rows, atol=1e-4)


SWITCH = """HloModule m
    up { x = f32[] parameter(0)  one = f32[] constant(1)  ROOT r = f32[] add(x, one) }
    down { x = f32[] parameter(0)  half = f32[] constant(0.5)  ROOT r = f32[] multiply(x, half) }
    same { ROOT x = f32[] parameter(0) }
    body { s = (s32[], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[] get-tuple-element(s), index=1
        one = s32[] constant(1)
        next = s32[] add(i, one)
        three = s32[] constant(3)
        k = s32[] remainder(i, three)
        y = f32[] conditional(k, x, x, x), branch_computations={up, down, same}
        ROOT r = (s32[], f32[]) tuple(next, y) }
    test { s = (s32[], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(ITERATIONS)
        ROOT p = pred[] compare(i, n), direction=LT }
    ENTRY e { i = s32[] parameter(0)
        x = f32[] parameter(1)
        s = (s32[], f32[]) tuple(i, x)
        ROOT w = (s32[], f32[]) while(s), condition=test, body=body }"""


def steps_of(executable) -> list[type]:
    return [type(s) for s in executable.plan.steps if not isinstance(s, p.Copy)]


def test_a_switch_in_a_loop_is_code():
    executable = refxla.compile(SWITCH.replace("ITERATIONS", "300000"))
    assert steps_of(executable)[-1] is p.Loop and set(steps_of(executable)[:-1]) <= {p.Launch}
    assert not executable.plan.steps[-1].body
    i, x = executable(np.array(-1, np.int32), np.array(3, np.float32))
    want = np.float32(3)
    for k in range(-1, 300_000):
        want = (want + 1, want * np.float32(0.5), want)[k % 3 if k >= 0 else 2]
    assert (i, x) == (300_000, want)


def test_a_plan_shows_what_a_merged_kernel_does():
    text = str(refxla.compile(SWITCH.replace("ITERATIONS", "300000")).plan)
    shown = [
        r"  loop", r"    .*merged\.\d+\(.*", r"      loop", r"        b\d+ = loop\.p\(b\d+\)  \[1 item\]",
        r"      while b\d+",
        r"          branch on b\d+", r"           case 0", r"            b\d+ = loop\.r\(b\d+\)  \[1 item\]",
        r"           case 1", r"            b\d+ = loop\.down\.r\(b\d+\)  \[1 item\]", r"  while b\d+",
    ]  # fmt: skip
    assert re.search("\n(.*\n)*".join(f"{line}$" for line in shown).replace("$", ""), text)


def test_a_small_conditional_is_a_launch():
    executable = refxla.compile(
        """up { x = f32[] parameter(0)  one = f32[] constant(1)  ROOT r = f32[] add(x, one) }
        same { ROOT x = f32[] parameter(0) }
        ENTRY e { k = s32[] parameter(0)  x = f32[] parameter(1)
            ROOT y = f32[] conditional(k, x, x), branch_computations={up, same} }"""
    )
    assert steps_of(executable) == [p.Launch]
    x = np.array(3, np.float32)
    assert [executable(np.array(k, np.int32), x) for k in (-1, 0, 1, 2)] == [3, 4, 3, 3]


def test_a_conditional_counts_as_the_mean_of_its_branches():
    """Nobody knows how often each is taken: neither all of them, nor the longest."""
    text = """HloModule m
        long { x = f32[1000] parameter(0)  y = f32[1000] exponential(x)  ROOT z = f32[1000] tanh(y) }
        short { x = f32[1000] parameter(0)  ROOT y = f32[1000] negate(x) }
        ENTRY e { k = s32[] parameter(0)  x = f32[1000] parameter(1)
            ROOT y = f32[1000] conditional(k, x, x, x, x), branch_computations={long, short, short, short} }"""
    plan = plan_module(parse(text), replace(DEFAULT_CPU, persistent=True))[1].plan
    (whole,) = (k for k in plan.kernels if isinstance(k.body, ConditionalBody))
    us = {k.name: k.us for k in whole.parts()}
    assert len(us) == 2 and max(us.values()) > 2 * min(us.values())
    assert whole.us == pytest.approx((max(us.values()) + 3 * min(us.values())) / 4)
    module = parse(text)
    costs = ComputationCosts(SchedulingOptions(merging=MergingOptions(units=2, persistent=True)))
    mean = sum(costs.of(c).one_core_us for c in module.entry.root.branch_computations) / 4
    assert costs.of(module.entry).one_core_us == pytest.approx(mean)


STAGES = 70


def two_chains() -> str:
    """A loop of two chains of small products: more values than a persistent kernel takes arguments."""
    state = "(s32[], f32[8], f32[8], f32[8,8])"
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    chains = [f"{x}{n + 1} = f32[8] dot(w, {x}{n}), {contracted}" for n in range(STAGES) for x in "ab"]
    lines = "\n".join(chains)
    return f"""HloModule m
        body {{ s = {state} parameter(0)
            i = s32[] get-tuple-element(s), index=0
            a0 = f32[8] get-tuple-element(s), index=1
            b0 = f32[8] get-tuple-element(s), index=2
            w = f32[8,8] get-tuple-element(s), index=3
            one = s32[] constant(1)
            next = s32[] add(i, one)
            {lines}
            ROOT r = {state} tuple(next, a{STAGES}, b{STAGES}, w) }}
        test {{ s = {state} parameter(0)
            i = s32[] get-tuple-element(s), index=0
            n = s32[] constant(9)
            ROOT p = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ i = s32[] constant(0)
            a = f32[8] parameter(0)
            b = f32[8] parameter(1)
            w = f32[8,8] parameter(2)
            s = {state} tuple(i, a, b, w)
            loop = {state} while(s), condition=test, body=body
            x = f32[8] get-tuple-element(loop), index=1
            y = f32[8] get-tuple-element(loop), index=2
            ROOT r = (f32[8], f32[8]) tuple(x, y) }}"""


def test_a_loop_of_more_values_than_phases_take_is_one_kernel():
    """Its launches would cost more than the second core saves: only phases are so cheap, and they do not fit."""
    plan = plan_module(parse(two_chains()), replace(DEFAULT_CPU, persistent=True))[1].plan
    (launch,) = (s for s in plan.steps if not isinstance(s, p.Copy))
    assert isinstance(launch, p.Launch) and not plan.kernels[launch.kernel].persistent
    assert 2 * STAGES > MOST_ARGUMENTS

    arguments = [np.ones(8, np.float32), np.arange(8, dtype=np.float32), np.eye(8, k=1, dtype=np.float32)]
    wants = refxla.compile(two_chains(), without=("fusion",))(*arguments)
    for got, want in zip(refxla.compile(two_chains())(*arguments), wants, strict=True):
        assert got.tobytes() == want.tobytes()


def test_a_loop_that_was_left_by_an_interrupt_begins_anew(monkeypatch):
    """What a kernel noted for its next launch is of no account in the next call."""
    executable = refxla.compile(SWITCH.replace("ITERATIONS", "2000000000"))
    arguments = np.array(0, np.int32), np.array(3, np.float32)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            executable(*arguments)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert executable(np.array(2_000_000_000 - 4, np.int32), np.array(3, np.float32))[0] == 2_000_000_000


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["sine", "cosine"])
def test_numbers_alone_have_the_bits_of_vectors(opcode, name):
    """Small angles spare the reduction where a loop computes one after the other."""
    text = f"""HloModule m
    body {{ s = (s32[], {name}[600], {name}[600]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = {name}[600] get-tuple-element(s), index=1
        y = {name}[600] get-tuple-element(s), index=2
        one = s32[] constant(1)
        next = s32[] add(i, one)
        v = {name}[1] dynamic-slice(x, i), dynamic_slice_sizes={{1}}
        n = {name}[] reshape(v)
        c = {name}[] {opcode}(n)
        r = {name}[1] reshape(c)
        u = {name}[600] dynamic-update-slice(y, r, i)
        ROOT t = (s32[], {name}[600], {name}[600]) tuple(next, x, u) }}
    test {{ s = (s32[], {name}[600], {name}[600]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(600)
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = {name}[600] parameter(0)
        zero = s32[] constant(0)
        s = (s32[], {name}[600], {name}[600]) tuple(zero, x, x)
        w = (s32[], {name}[600], {name}[600]) while(s), condition=test, body=body
        ROOT y = {name}[600] get-tuple-element(w), index=2 }}"""
    rng, dtype = np.random.default_rng(0), {"f32": np.float32, "f64": np.float64}[name]
    edges = [0.0, -0.0, 0.78, -0.78, 0.785398, np.inf, -np.inf, np.nan, -np.nan, 5e-324, 1e-42, 1e-8, 3.2e7, 1e300]
    with np.errstate(over="ignore"):
        x = np.concatenate([edges, rng.uniform(-0.8, 0.8, 400), rng.standard_normal(186) * 2000]).astype(dtype)
    program = refxla.compile(text)
    whole = refxla.compile(f"ENTRY e {{ x = {name}[600] parameter(0)\nROOT y = {name}[600] {opcode}(x) }}")
    assert f"rx_{opcode}_alone_{name}(" in program.opencl and "alone" not in whole.opencl
    np.testing.assert_array_equal(program(x).view(np.uint8), whole(x).view(np.uint8))
