"""The emitters' GPU flavour, and the CPU flavour without clang's builtins, where every access is checked."""

import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest
from kernel_driver import OCLGRIND, Compiled, check, fusion_of, queue, reports
from refxla_spec.text import parse

import refxla
from refxla.codegen.opencl_program import program
from refxla.compiler.driver import plan_program
from refxla.compiler.options import Options
from refxla.device import capabilities
from refxla.device.description import DEFAULT_CPU, Target

GPU = Target(capabilities.GPU, vector_bytes=16, compute_units=16, fp64=True, fp16=False, max_vector=4)
TARGETS = {"gpu": GPU, "cpu": replace(DEFAULT_CPU, capabilities=capabilities.OPENCL_CPU)}

rng = np.random.default_rng(3)
REDUCER = "f { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }"


def s32(*sizes):
    return rng.integers(-9, 9, sizes).astype(np.int32)


PROGRAMS = {
    "chain": (
        "loop",
        """x = s32[30,40] parameter(0)
        y = s32[40] parameter(1)
        b = s32[30,40] broadcast(y), dimensions={1}
        ROOT r = s32[30,40] add(x, b)""",
        (s32(30, 40), s32(40)),
    ),
    "transpose": (
        "loop",
        "x = s32[70,3,45] parameter(0)\nROOT r = s32[45,3,70] transpose(x), dimensions={2,1,0}",
        (s32(70, 3, 45),),
    ),
    "guards": (
        "loop",
        """x = s32[9,8] parameter(0)
        z = s32[] constant(7)
        i = s32[] parameter(1)
        p = s32[11,8] pad(x, z), padding=3_-1x-1_1
        c = s32[20,8] concatenate(p, x), dimensions={0}
        n = s32[20,8] negate(c)
        ROOT r = s32[20,8] dynamic-update-slice(n, x, i, i)""",
        (s32(9, 8), np.int32(5)),
    ),
    "gather": (
        "loop",
        """x = s32[9,8] parameter(0)
        i = s32[5,1] parameter(1)
        ROOT r = s32[5,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1,8}""",
        (s32(9, 8), s32(5, 1) * 3),
    ),
    "dot": (
        "loop",
        """x = s32[5,6] parameter(0)
        y = s32[6,7] parameter(1)
        ROOT r = s32[5,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        (s32(5, 6), s32(6, 7)),
    ),
    "rows": (
        "reduction",
        """x = s32[9,300] parameter(0)
        z = s32[] constant(0)
        s = s32[9] reduce(x, z), dimensions={1}, to_apply=f
        b = s32[9,300] broadcast(s), dimensions={0}
        d = s32[9,300] subtract(x, b)
        ROOT r = (s32[9,300], s32[9]) tuple(d, s)""",
        (s32(9, 300),),
    ),
    "columns": (
        "reduction",
        "x = s32[40,3,50] parameter(0)\nz = s32[] constant(3)\n"
        "ROOT r = s32[50] reduce(x, z), dimensions={0,1}, to_apply=f",
        (s32(40, 3, 50),),
    ),
    "leaves": (
        "reduction",
        "x = s32[140001] parameter(0)\nz = s32[] constant(3)\nROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=f",
        (s32(140_001),),
    ),
}


@pytest.mark.parametrize(
    "body, report",
    [
        ("a[get_global_id(0) + 3] = 1;", "Invalid write"),
        ("a[0] = a[get_global_id(0) + 8];", "Invalid read"),
        ("a[0] = get_global_id(0);", "data race"),
    ],
)
def test_what_is_wrong_on_purpose_is_reported(body, report, capfd):
    """The tests below can fail: an access out of bounds and a race leave a line each."""
    q = queue(OCLGRIND)
    built = cl.Program(q.context, f"__kernel void f(__global int *a) {{ {body} }}").build()
    memory = cl.Buffer(q.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(4, np.int32))
    built.f(q, (4,), (1,), memory)
    q.finish()
    assert report in capfd.readouterr().err


@pytest.mark.parametrize("flavour", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_flavours(name, flavour, capfd):
    kind, lines, args = PROGRAMS[name]
    text = f"HloModule m\n{REDUCER}\nENTRY main {{\n{lines}\n}}"
    compiled = check(text, *args, kind=kind, target=TARGETS[flavour], platform=OCLGRIND)
    assert not reports(capfd.readouterr().err, compiled)


@pytest.mark.parametrize(
    "sizes, axes", [((5, 333), "1"), ((333, 5), "0"), ((140_001,), "0"), ((7, 5, 40), "0,2")], ids=str
)
def test_a_sum_has_the_same_bits_on_both(sizes, axes):
    kept = ",".join(str(n) for d, n in enumerate(sizes) if str(d) not in axes)
    text = f"""HloModule m
    f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
    ENTRY main {{ x = f32[{",".join(map(str, sizes))}] parameter(0)
                 z = f32[] constant(0)
                 ROOT r = f32[{kept}] reduce(x, z), dimensions={{{axes}}}, to_apply=f }}"""
    x = rng.standard_normal(sizes).astype(np.float32)
    fusion = fusion_of(parse(text), "reduction")
    (here,), (there,) = Compiled(fusion)(x), Compiled(fusion, GPU, OCLGRIND)(x)
    assert here.tobytes() == there.tobytes()


TRANSFORMS = {
    "rows": ("c64[9,14]", "c64[9,14]", "FFT", "14"),
    "columns": ("c64[3,5,9]", "c64[3,5,9]", "IFFT", "5,9"),
    "two stages": ("c64[64]", "c64[64]", "FFT", "64"),
    "real": ("f32[3,9,24]", "c64[3,9,13]", "RFFT", "9,24"),
    "real in two stages": ("c64[2,65]", "f32[2,128]", "IRFFT", "128"),
    "wide": ("c128[5,11]", "c128[5,11]", "FFT", "11"),
    "wide and real": ("c128[3,5]", "f64[3,8]", "IRFFT", "3,8"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_has_the_same_bits_on_both(name, capfd):
    of, to, kind, length = TRANSFORMS[name]
    text = f"""HloModule m
    ENTRY main {{ x = {of} parameter(0)
                 ROOT r = {to} fft(x), fft_type={kind}, fft_length={{{length}}} }}"""
    fusion = fusion_of(parse(text), "fft")
    shape = fusion.inputs[0].shape
    x = rng.standard_normal((2, *shape.dimensions))
    x = (x[0] + 1j * x[1] if of[0] == "c" else x[0]).astype(shape.element_type.dtype)
    (here,), there = Compiled(fusion)(x), [Compiled(fusion, t, OCLGRIND) for t in TARGETS.values()]
    for compiled in there:
        assert compiled(x)[0].tobytes() == here.tobytes()
        assert not reports(capfd.readouterr().err, compiled)


@pytest.mark.parametrize("name", ["s8", "s32", "s64"])
def test_absolute_values_of_integers_run_in_the_simulator(name):
    """Its optimizer turns them into a function that it does not have."""
    text = f"HloModule m\nENTRY e {{ x = {name}[9] parameter(0)\n ROOT a = {name}[9] abs(x) }}"
    x = np.arange(-4, 5).astype(name.replace("s", "int"))
    np.testing.assert_array_equal(refxla.compile(text, device="oclgrind")(x), np.abs(x))


UNARY = ("cosine", "erf", "exponential", "log", "logistic", "rsqrt", "sine", "sqrt", "tan", "tanh")


@pytest.mark.parametrize("name", ["f32", "f64", "c64"])
def test_functions_of_arrays_are_compiled_without_clangs_builtins(name):
    """Each macro that a program uses has a definition: some are for compilers of which refxla knows the builtins."""
    functions = [f for f in UNARY if name != "c64" or f != "erf"]
    lines = [f"r{n} = {name}[65] {f}(x)" for n, f in enumerate(functions)]
    results, shapes = ", ".join(f"r{n}" for n in range(len(lines))), ", ".join([f"{name}[65]"] * len(lines))
    body = "\n".join(lines)
    text = f"HloModule m\nENTRY e {{\nx = {name}[65] parameter(0)\n{body}\nROOT t = ({shapes}) tuple({results})\n}}"
    _, result, device = plan_program(parse(text), Options.of("oclgrind"))
    source = program(result.plan.kernels, device.target).source
    used = set(re.findall(r"\bRX_\w+", source))
    tables = re.findall(r"\w (RX_\w+)\[\w*\] =", source)
    assert used and used - {*tables} <= set(re.findall(r"#(?:define|ifdef) (RX_\w+)", source))


def test_sines_run_in_the_simulator():
    text = "HloModule m\nENTRY e {\nx = f32[100] parameter(0)\nROOT y = f32[100] sine(x)\n}"
    x = np.float32(10.0) ** np.linspace(-3, 30, 100, dtype=np.float32)
    assert np.array_equal(refxla.compile(text, device="oclgrind")(x), refxla.compile(text)(x))
