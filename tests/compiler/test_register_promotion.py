"""Loops that keep their values in registers: what is promoted, and that any loop gives the bits that it gave."""

import re
from dataclasses import replace

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.compiler import compilation_cache
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU, Costs
from refxla.ir import merged_body as m
from refxla.ir import plan as p
from refxla.scheduling import register_promotion
from refxla.scheduling.merged_kernel import MOST_ARGUMENTS, BoundKernel
from refxla.scheduling.register_promotion import FRAME_BYTES, MOST_CODE, promotable, with_frame

FLOATS = p.Kernel("f", "a1[0] = a0[0];", (p.Argument("input", "float"), p.Argument("output", "float")), 1)
WITHOUT_FRAME = ((register_promotion, "FRAME_BYTES"), (m, "MOST_PROMOTED_BYTES"))  # of values
INTS = replace(FLOATS, arguments=(p.Argument("input", "float"), p.Argument("output", "int")))


def loop(*kernels: p.Kernel, calls: tuple[m.KernelCall, ...] = ()) -> p.Kernel:
    """A loop that calls each kernel on arguments 0 and 1, or makes these calls."""
    calls = calls or tuple(m.KernelCall(n, (0, 1)) for n in range(len(kernels)))
    arguments = (p.Argument("output", "uchar"),) * 5
    return p.Kernel("loop", m.CountedLoopBody(9, calls, m.ResumeState(2, 3), 50, 1000), arguments, 1, kernels)


def types(kernel: p.Kernel, *sizes: int) -> dict[int, str]:
    return promotable(kernel, (*sizes, *(4, 4, 32, 1, 4)[len(sizes) :])).types


def test_what_all_parts_take_for_one_type_is_promoted():
    assert types(loop(FLOATS)) == {0: "float", 1: "float", 2: "long", 3: "uchar"}
    assert types(loop(FLOATS, INTS)) == {0: "float", 2: "long", 3: "uchar"}


def test_a_kernel_says_how_much_code_it_has():
    """What is emitted of a fusion, not what calls it."""
    text = "HloModule m ENTRY e { x = f32[64] parameter(0) ROOT y = f32[64] sine(x) }"
    kernels = plan_module(parse(text), DEFAULT_CPU)[1].plan.kernels
    parts = [part for k in kernels for part in k.parts()]
    assert parts and all(part.code_size == len(part.body) > 0 for part in parts)
    assert loop(*parts).code_size == 0


def test_what_is_large_stays_in_memory():
    assert set(types(loop(FLOATS), m.MOST_PROMOTED_BYTES + 1)) == {1, 2, 3}
    assert set(types(loop(replace(FLOATS, code_size=MOST_CODE + 1)))) == set()


def test_what_a_kernel_knows_to_be_global_or_takes_a_part_of_stays_in_memory():
    vectors = replace(FLOATS, global_only=True)
    assert set(types(loop(vectors))) == {2, 3}
    part = m.KernelCall(0, (0, 1), ((0, m.IterationOffset(4)),))
    assert set(types(loop(FLOATS, calls=(part,)))) == {1, 2, 3}


def test_a_loop_that_cannot_be_left_is_promoted_and_a_conditional_is_not():
    call = m.KernelCall(0, (0, 1))
    repeated = replace(loop(FLOATS), body=m.MergedBody((m.SectionBody(1, (call,), True),), 3))
    assert set(types(repeated)) == {0, 1}
    assert types(replace(loop(FLOATS), body=m.ConditionalBody(3, True, ((call,), ()), None))) == {}


# A plain loop, products by rows, columns and blocks, of complex numbers and of words, a convolution of one feature a
# group, reductions that one item does and that several share, a transform, sorts by merging and by digits.
EMITTED = (
    ("d = f32[4] dot(f32[4,64] a, f32[64] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", {False}),
    ("d = f32[64] dot(f32[64,64] a, f32[64] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", {True}),
    ("d = f32[99] dot(f32[64,99] a, f32[64] b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", {True}),
    ("d = f32[70,90] dot(f32[70,64] a, f32[90,64] b), lhs_contracting_dims={1}, rhs_contracting_dims={1}", {True}),
    (
        "d = c64[70,90] dot(c64[64,70] a, c64[64,90] b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        {True, False},
    ),
    ("d = s32[70,90] dot(s8[70,64] a, s8[64,90] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", {True}),
    (
        "c = f32[1,9,9,32] convolution(f32[1,9,9,32] a, f32[3,3,1,32] b), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=32",
        {True},
    ),
    ("s = f32[9] reduce(f32[9,64] a, f32[] b), dimensions={1}, to_apply=add", {False}),
    ("s = f32[] reduce(f32[4000000] a, f32[] b), dimensions={0}, to_apply=add", {True}),
    ("s = f32[4] reduce(f32[400000,4] a, f32[] b), dimensions={0}, to_apply=add", {True}),
    ("t = c64[8,48] fft(c64[8,48] a), fft_type=FFT, fft_length={48}", {True}),
    ("s = f32[8,48] sort(f32[8,48] a), dimensions={1}, to_apply=less", {True}),
    ("s = f32[1,400000] sort(f32[1,400000] a), dimensions={1}, to_apply=less", {True}),
)
REDUCERS = """HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
"""


@pytest.mark.parametrize(("instruction", "says"), EMITTED)
def test_an_emitter_says_whether_it_takes_pointers_into_its_arguments(instruction, says):
    operands = re.findall(r"(\w+\[[\d,]*\]) ([ab])\b", instruction)
    text = "".join(f"{name} = {shape} parameter({n})\n" for n, (shape, name) in enumerate(operands))
    for shape, name in operands:
        instruction = instruction.replace(f"{shape} {name}", name)
    module = parse(f"{REDUCERS}ENTRY e {{ {text} ROOT {instruction} }}")
    plan = plan_module(module, replace(DEFAULT_CPU, compute_units=8))[1].plan
    kernels = [part for k in plan.kernels for part in k.parts() if isinstance(part.body, str)]
    assert {k.global_only for k in kernels} == says
    for kernel in kernels:
        assert kernel.global_only == any("__global" in text for text in (kernel.body, *kernel.helpers)), kernel.name


def test_a_frame_has_what_nothing_else_uses():
    sizes = {10: 4, 11: 4, 12: 32, 13: 1, 14: FRAME_BYTES + 1}
    inner = BoundKernel(loop(FLOATS), tuple(sizes))
    made = with_frame(inner, {11, 12, 14}, lambda b: sizes[b], lambda name, type, count: 99)
    assert made.buffers == (10, 99, 13, 14)
    (call,) = m.calls(made.kernel.body)
    assert call.arguments == (0, 1, 1, 2, 3) and call.offsets == ((1, m.FrameOffset(0)), (2, m.FrameOffset(64)))
    assert made.kernel.arguments[1].bytes == 128
    vectors = replace(FLOATS, global_only=True, arguments=FLOATS.arguments * 2)
    plain = replace(loop(vectors, calls=(m.KernelCall(0, (0, 1, 2, 3)),)), body=m.MergedBody((), 3))
    assert with_frame(BoundKernel(plain, inner.buffers), (), lambda b: 4, None).kernel is plain


MANY = 60


def many() -> str:
    """A loop of many scalars, each of which is updated by two kernels, with a loop inside."""
    state = f"(s32[], {', '.join(['f32[]'] * MANY)})"
    gets = [f"x{n} = f32[] get-tuple-element(s), index={n + 1}" for n in range(MANY)]
    body = [f"s = {state} parameter(0)", "k = s32[] get-tuple-element(s), index=0", *gets]
    body += ["one = s32[] constant(1)", "l = s32[] add(k, one)", "pair = (s32[], f32[], f32[]) tuple(k, x0, x1)"]
    body += ["inner = (s32[], f32[], f32[]) while(pair), condition=small, body=turn"]
    body += ["y0 = f32[] get-tuple-element(inner), index=1"]
    body += [f"y{n} = f32[] sine(x{n})" for n in range(1, MANY)]
    body += [f"z{n} = f32[] add(y{n}, y{(n + 1) % MANY})" for n in range(MANY)]
    body += [f"ROOT r = {state} tuple(l, {', '.join(f'z{n}' for n in range(MANY))})"]
    lines = "\n".join(body)
    parameters = "\n".join(f"p{n} = f32[] parameter({n + 1})" for n in range(MANY))
    return f"""HloModule m
        turn {{ s = (s32[], f32[], f32[]) parameter(0)
            k = s32[] get-tuple-element(s), index=0
            a = f32[] get-tuple-element(s), index=1
            b = f32[] get-tuple-element(s), index=2
            one = s32[] constant(1)
            l = s32[] add(k, one)
            c = f32[] cosine(b)
            d = f32[] subtract(a, c)
            ROOT r = (s32[], f32[], f32[]) tuple(l, d, c) }}
        small {{ s = (s32[], f32[], f32[]) parameter(0)
            k = s32[] get-tuple-element(s), index=0
            n = s32[] constant(20)
            ROOT p = pred[] compare(k, n), direction=LT }}
        body {{ {lines} }}
        test {{ s = {state} parameter(0)
            k = s32[] get-tuple-element(s), index=0
            n = s32[] constant(15)
            ROOT p = pred[] compare(k, n), direction=LT }}
        ENTRY e {{ k = s32[] parameter(0)
            {parameters}
            s = {state} tuple(k, {", ".join(f"p{n}" for n in range(MANY))})
            ROOT w = {state} while(s), condition=test, body=body }}"""


@pytest.fixture
def fresh(monkeypatch):
    """No compilation is found on disk, or kept there."""
    monkeypatch.setattr(compilation_cache, "load", lambda key: None)
    monkeypatch.setattr(compilation_cache, "save", lambda key, made: None)


@pytest.mark.parametrize("limits", [(), ((register_promotion, "MOST_CODE"),), WITHOUT_FRAME])
def test_a_loop_of_many_values_gives_the_bits_of_its_instructions(limits, fresh, monkeypatch):
    for module, name in limits:
        monkeypatch.setattr(module, name, 0)
    executable = refxla.compile(parse(many()))
    arguments = [np.array(2, np.int32), *np.linspace(-2, 2, MANY, dtype=np.float32)]
    wants = refxla.compile(parse(many()), without=("fusion",))(*arguments)
    for got, want in zip(executable(*arguments), wants, strict=True):
        assert got.tobytes() == want.tobytes()
    loops = [s for s in executable.plan.steps if isinstance(s, p.Loop)]
    merged = [s for s in loops if not s.body and all(isinstance(x, p.Launch) for x in s.condition)]
    if limits != WITHOUT_FRAME:  # without a frame, there are too many arguments
        assert len(loops) == len(merged) == 1
        (launch,) = merged[0].condition
        kernel = executable.plan.kernels[launch.kernel]
        assert len(kernel.arguments) <= MOST_ARGUMENTS < len(kernel.calls[0].arguments)


SEARCH = """HloModule m
    halve { s = (f32[], f32[256], f32[256,256]) parameter(0)
        step = f32[] get-tuple-element(s), index=0
        x = f32[256] get-tuple-element(s), index=1
        a = f32[256,256] get-tuple-element(s), index=2
        half = f32[] constant(0.5)
        less = f32[] multiply(step, half)
        ROOT r = (f32[], f32[256], f32[256,256]) tuple(less, x, a) }
    long { s = (f32[], f32[256], f32[256,256]) parameter(0)
        step = f32[] get-tuple-element(s), index=0
        x = f32[256] get-tuple-element(s), index=1
        a = f32[256,256] get-tuple-element(s), index=2
        y = f32[256] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        wide = f32[256] broadcast(step), dimensions={}
        z = f32[256] multiply(y, wide)
        value = f32[] dot(z, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        limit = f32[] constant(1)
        ROOT p = pred[] compare(value, limit), direction=GT }
    body { s = (s32[], f32[256], f32[256,256]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        x = f32[256] get-tuple-element(s), index=1
        a = f32[256,256] get-tuple-element(s), index=2
        one = s32[] constant(1)
        next = s32[] add(k, one)
        eight = f32[] constant(8)
        first = (f32[], f32[256], f32[256,256]) tuple(eight, x, a)
        found = (f32[], f32[256], f32[256,256]) while(first), condition=long, body=halve
        step = f32[] get-tuple-element(found), index=0
        wide = f32[256] broadcast(step), dimensions={}
        y = f32[256] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        z = f32[256] multiply(y, wide)
        w = f32[256] cosine(z)
        ROOT r = (s32[], f32[256], f32[256,256]) tuple(next, w, a) }
    test { s = (s32[], f32[256], f32[256,256]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] constant(6)
        ROOT p = pred[] compare(k, n), direction=LT }
    ENTRY e { k = s32[] parameter(0)
        x = f32[256] parameter(1)
        a = f32[256,256] parameter(2)
        s = (s32[], f32[256], f32[256,256]) tuple(k, x, a)
        ROOT w = (s32[], f32[256], f32[256,256]) while(s), condition=test, body=body }"""


@pytest.mark.parametrize("launch_us", [3.0, 0.01])
def test_one_core_runs_a_search_in_a_loop_where_launches_take_longer(launch_us):
    """By itself, each iteration of the search is shared by the cores; around it, each would be a launch."""
    device = replace(DEFAULT_CPU, persistent=True, costs=Costs(launch=1e3 * launch_us))
    plan = plan_module(parse(SEARCH), device)[1].plan
    (loop,) = (s for s in plan.steps if isinstance(s, p.Loop))
    assert bool(loop.body) == (launch_us < 1)


def test_a_search_in_a_loop_gives_the_bits_of_its_instructions(fresh):
    rng = np.random.default_rng(0)
    arguments = np.array(0, np.int32), *(rng.standard_normal(s, dtype=np.float32) for s in ((256,), (256, 256)))
    wants = refxla.compile(parse(SEARCH), without=("fusion",))(*arguments)
    for got, want in zip(refxla.compile(parse(SEARCH))(*arguments), wants, strict=True):
        assert got.tobytes() == want.tobytes()
