"""The text that the scalar generator writes: literals, types, the choice of prelude functions, errors, vector code."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pyopencl as cl
import pytest
from refxla_spec.errors import UnsupportedError
from scalar_kernel import Case, bits, queue, run_all, source

import refxla
from refxla.codegen import prelude, prelude_templates, scalar
from refxla.codegen.primitives import build_options, primitives
from refxla.device.capabilities import GPU as GPU_CAPABILITIES
from refxla.device.capabilities import OPENCL_CPU
from refxla.device.description import DEFAULT_CPU, Target

GPU = Target(GPU_CAPABILITIES, vector_bytes=16, compute_units=100, fp64=False, fp16=False, max_vector=4)

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def values(name: str, texts: list[str]) -> np.ndarray:
    """What PoCL makes of literals, as they are stored."""
    stores = "\n".join(f"    r[{i}] = {scalar.store(name, text)};" for i, text in enumerate(texts))
    kernel = f"__kernel void k(__global {scalar.storage_type(name)}* r) {{\n{stores}\n}}\n"
    program = primitives(DEFAULT_CPU) + prelude.functions(kernel) + kernel
    result = np.zeros(len(texts) * 16, np.uint8)
    buffer = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, result.nbytes)
    cl.Program(queue().context, program).build(list(build_options(DEFAULT_CPU))).k(queue(), (1,), (1,), buffer)
    cl.enqueue_copy(queue(), result, buffer)
    return result


@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("f32", np.array([0, -0.0, 1, -1.5, 0.1, 1e-45, 3e38, np.inf, -np.inf], np.float32)),
        ("f32", np.array([0x7FC00001, 0xFF812345, 0x7F800001], np.uint32).view(np.float32)),
        ("f64", np.array([0, -0.0, 0.1, 5e-324, -1e308, np.inf, 2.0**53 + 2], np.float64)),
        ("f64", np.array([0x7FF8000000000123, 0xFFF8000000000001], np.uint64).view(np.float64)),
        ("f16", np.array([0, -0.0, 6e-8, 65504, np.inf, -1 / 3], np.float16)),
        ("bf16", np.array([0, -0.0, 1e-40, 3e38, np.inf, 1 / 3], ml_dtypes.bfloat16)),
        ("s8", np.array([-128, 127, 0], np.int8)),
        ("s32", np.array([-(2**31), 2**31 - 1, -1], np.int32)),
        ("s64", np.array([-(2**63), 2**63 - 1, -1, 2**40], np.int64)),
        ("u64", np.array([2**64 - 1, 0], np.uint64)),
        ("u16", np.array([65535], np.uint16)),
        ("pred", np.array([True, False])),
        ("c64", np.array([1 - 2j, complex(-0.0, np.inf)], np.complex64)),
        ("c128", np.array([0.1 - 0.2j], np.complex128)),
    ],
)
def test_literals_are_exact(name, scalars):
    got = values(name, [scalar.literal(name, s) for s in scalars])
    assert got[: scalars.nbytes].tobytes() == scalars.tobytes()


def test_literal_text():
    assert scalar.literal("f32", 1.5) == "0x1.8p+0f"
    assert scalar.literal("f32", 0) == "0x0p+0f"
    assert scalar.literal("f64", -2) == "(-0x1p+1)"
    assert scalar.literal("s32", -(2**31)) == "(-2147483647 - 1)"
    assert scalar.literal("u32", 7) == "7u"
    assert scalar.literal("pred", True) == "1"
    assert scalar.literal("c64", 1 - 2j) == "(float2)(0x1p+0f, (-0x1p+1f))"


def test_programs_hold_the_functions_that_they_call_and_no_others():
    text = prelude.functions("float y = rx_tanh_f32(x);")
    names = re.findall(r"^static inline \w+ (rx_\w+)\(", text, re.MULTILINE)
    assert names[-1] == "rx_tanh_f32" and "rx_exp_above_f32" in names
    assert len(names) == len(set(names)) < 8
    assert "double" not in text
    assert prelude.functions("int rx;") == ""
    for name in names:  # each is defined before it is called
        assert text.index(f" {name}(") == min(m.start() for m in re.finditer(rf"\s{name}\(", text))


def test_each_function_says_what_it_needs():
    """What a program holds follows from it: no other C text is searched."""
    table = {name: prelude.function(name) for name in prelude.names()}
    for name, function in table.items():
        assert re.search(rf"^static inline [\w ]+ {name}\(", function.text, re.MULTILINE), name
        assert function.calls <= set(function.needs) <= table.keys(), name
    tanh = table["rx_tanh_f32"]
    assert "rx_exp_above_f32" in {name for called in tanh.calls for name in (called, *table[called].calls)}
    assert table["rx_power_f32"].may_be_inlined and "RX_INLINE rx_" not in table["rx_power_f32"].text
    assert not any(f.may_be_inlined for f in table.values() if "RX_NOINLINE" in f.text)


def test_unknown_function_is_an_error():
    with pytest.raises(KeyError, match="rx_no_such_thing"):
        prelude.functions("rx_no_such_thing(x)")


def test_a_number_that_ends_a_sentence_of_a_comment_is_no_literal():
    assert prelude_templates.instantiate("x * 2.; // times 2. or so", {"T": "f32"}) == "x * 2.f; // times 2. or so"
    comments = re.findall("//.*", prelude.functions("rx_remainder_f32(x, y), rx_log_c64(x), rx_sine_c64(x)"))
    assert comments and not [c for c in comments if re.search(r"\d\.f", c)]


def test_functions_without_branches_are_inlined_where_they_are_called_a_few_times():
    """Otherwise clang makes no vectors of a loop that calls a long one twice."""

    def inlined(call: str, times: int) -> set[str]:
        text = prelude.functions(call * times, inlining=True)
        return set(re.findall(r"^static inline RX_INLINE [\w ]+?\b(rx_\w+)\(", text, re.MULTILINE))

    assert {"rx_power_f32", "rx_log_parts_f32", "rx_scale_f32"} <= inlined("rx_power_f32(x, y);", 2)
    assert {"rx_power_f32", "rx_log_parts_f32"} <= inlined("rx_power_f32(x, y);", prelude.MOST_INLINED)
    assert inlined("rx_power_f32(x, y);", 1) == inlined("rx_power_f32(x, y);", prelude.MOST_INLINED + 1) == set()
    assert "RX_INLINE" not in prelude.functions("rx_power_f32(x, y);" * 2)


@pytest.mark.parametrize(("name", "c_type"), [("f32", "float"), ("f64", "double")])
def test_the_exponential_of_what_is_far_below_zero_underflows_nowhere(name, c_type):
    """A product that underflows takes a processor many times as long: the scale is 0, and not one that is too small."""
    zero, round = prelude_templates.constant(name, "exp_zero"), prelude_templates.constant(name, "exp_round_negative")
    body = f"""__kernel void k(__global {c_type}* x) {{
        {c_type} scale;
        x[0] = rx_exp_power_{name}({zero}, {round}, &scale);
        x[1] = scale;
    }}"""
    context = queue().context
    text = primitives(DEFAULT_CPU) + prelude.functions(body) + body
    program = cl.Program(context, text).build(list(build_options(DEFAULT_CPU)))
    result = np.full(2, np.nan, {"float": np.float32, "double": np.float64}[c_type])
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=result)
    program.k(queue(), (1,), None, buffer)
    cl.enqueue_copy(queue(), result, buffer)
    assert 0.5 < result[0] < 2 and result[1] == 0


def test_whole_prelude_compiles_without_warnings():
    """But for those in vectors of 64 bytes, which not every processor has; products call them where it does."""
    names = sorted(name for name in prelude.names() if "_wide_" not in name)
    text = prelude.functions(" ".join(f"{name}(" for name in names))
    program = primitives(DEFAULT_CPU) + text + "__kernel void k(__global float* x) {}\n"
    cl.Program(queue().context, program).build([*build_options(DEFAULT_CPU), "-Werror"])


def test_f32_code_needs_no_doubles():
    """A device without fp64 can compile every function that works on f32, integers or c64."""
    for function in map(prelude.function, prelude.names()):
        if not re.search(r"f64|c128", function.name):
            code = re.sub(r"//.*", "", function.text)
            assert not re.search(r"\b(double2?|as_double|RX_\w+_F64)\b", code), function.name
    assert "F64" not in primitives(GPU) and "cl_khr_fp64" not in primitives(GPU)
    assert "#define RX_FMA_F32(a, b, c) fma(a, b, c)" in primitives(GPU)
    assert build_options(GPU) == ("-cl-fp32-correctly-rounded-divide-sqrt",)


def test_cpu_code_calls_no_opencl_builtins():
    """They are not inlined on PoCL, and a loop with a call is not vectorised."""
    words = "if|for|while|return|sizeof|int|float|double|long|ulong|volatile|__asm__"
    allowed = re.compile(rf"rx_|RX_|as_|__builtin_|__atomic_|({words})$")
    for function in map(prelude.function, prelude.names()):
        code = re.sub(r"//.*|^\s*#.*|__attribute__\(\(.*?\)\)", "", function.text, flags=re.MULTILINE)
        calls = {c for c in re.findall(r"\b([A-Za-z_]\w*)\(", code) if not allowed.match(c)}
        assert not calls, (function.name, calls)


@pytest.mark.parametrize(
    ("opcode", "types", "result"),
    [
        ("subtract", ("pred", "pred"), "pred"),
        ("shift-left", ("f32", "f32"), "f32"),
        ("remainder", ("c64", "c64"), "c64"),
        ("cosine", ("s32",), "s32"),
        ("bitcast-convert", ("f32",), "s64"),
        ("not", ("f32",), "f32"),
        ("no-such-operation", ("f32",), "f32"),
        ("complex", ("s32", "s32"), "c64"),
        ("clamp", ("c64",) * 3, "c64"),
    ],
)
def test_unsupported_names_the_operation(opcode, types, result):
    with pytest.raises(UnsupportedError, match=rf"{opcode}.*{types[0]}"):
        scalar.expression(opcode, types, result, ("a", "b", "c")[: len(types)], {"direction": "EQ"})


def test_unsupported_element_type():
    with pytest.raises(UnsupportedError, match="token"):
        scalar.storage_type("token")


VECTORISED = [
    "exp2", "log2",
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "sine", "cosine", "tan", "atan",
    "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "rsqrt", "sqrt", "erf", "floor", "sign",
    "round-nearest-afz", "round-nearest-even",
]  # fmt: skip
VECTORISED_BINARY = [
    ("f32", "power"), ("f32", "atan2"), ("f32", "maximum"), ("f32", "divide"), ("bf16", "multiply"), ("f16", "add"),
    ("s32", "divide"), ("s32", "shift-left"), ("u8", "add"), ("c64", "multiply"), ("c64", "maximum"),
    ("c64", "minimum"),
]  # fmt: skip

BUILD = """
import sys
import numpy as np, pyopencl as cl
from scalar_kernel import CHUNK, queue
program = cl.Program(queue().context, sys.stdin.read()).build()
x = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, 8 * CHUNK)
for kernel in program.all_kernels():
    kernel(queue(), (1,), (1,), *[x] * kernel.num_args)
queue().finish()
"""


def test_complex_numbers_are_selected_by_parts():
    """A choice between two that are computed is one between vectors otherwise, of which clang makes no wider ones."""
    text = scalar.expression("select", ("pred", "c64", "c64"), "c64", ("p", "a", "b"))
    assert text == "(float2)(p ? a.x : b.x, p ? a.y : b.y)"


def test_loops_vectorise():
    """PoCL's compiler says of every loop over one of them that it takes several elements of it at a time."""
    programs = [source((Case(opcode, "f32"),), ("f32",)) for opcode in VECTORISED]
    programs += [source((Case(opcode, name),), (name, name)) for name, opcode in VECTORISED_BINARY]
    kernels = ["__attribute__" + text.rpartition("__attribute__")[2] for text in programs]  # after the functions
    body = "\n".join(text.replace("void k(", f"void k{i}(") for i, text in enumerate(kernels))
    text = primitives(DEFAULT_CPU) + prelude.functions(body) + body
    environment = os.environ | {"POCL_VECTORIZER_REMARKS": "1", "POCL_KERNEL_CACHE": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", BUILD], input=text, capture_output=True, text=True, env=environment, check=True
    )
    widths = [int(w) for w in re.findall(r"vectorized loop \(vectorization width: (\d+)", done.stdout + done.stderr)]
    assert len(widths) == len(programs) and min(widths) >= 4


def test_opencl_builtins_give_the_same_bits():
    """A device that is spelled with OpenCL's builtins computes what clang's builtins do, in every f32 function."""
    cases = [Case(opcode, "f32") for opcode in [*VECTORISED, "ceil", "abs"]]
    x = np.arange(0, 2**32, 2**20 + 7, dtype=np.uint64).astype(np.uint32).view(np.float32)
    other = run_all(cases, x, target=replace(DEFAULT_CPU, capabilities=OPENCL_CPU))
    for case, mine, theirs in zip(cases, run_all(cases, x), other, strict=True):
        np.testing.assert_array_equal(bits(theirs), bits(mine), case.opcode)
    integers = [Case(opcode, "u32") for opcode in ("popcnt", "count-leading-zeros")]
    n = np.array([0, 1, 2**31, 2**32 - 1, 12345], np.uint32)
    for mine, theirs in zip(
        run_all(integers, n), run_all(integers, n, target=replace(DEFAULT_CPU, capabilities=OPENCL_CPU)), strict=True
    ):
        np.testing.assert_array_equal(theirs, mine)


def test_numbers_of_f16_that_were_rounded_are_stored_as_they_are():
    """Of those that only moved, or changed their sign, a signaling NaN stays one."""
    assert scalar.store("f16", "x", "add") == "rx_store_rounded_f16(x)"
    assert {scalar.store("f16", "x", o) for o in ("", "select", "negate", "maximum", "convert")} == {"rx_store_f16(x)"}
    assert scalar.store("bf16", "x", "add") == "rx_store_bf16(x)"
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    program = refxla.compile("""HloModule m
        ENTRY e { x = f16[65536] parameter(0)
            zero = f16[] parameter(1)
            zeros = f16[65536] broadcast(zero), dimensions={}
            a = f16[65536] add(x, zeros)
            n = f16[65536] negate(x)
            ROOT t = (f16[65536], f16[65536]) tuple(a, n) }""")
    added, negated = (np.asarray(r).view(np.uint16) for r in program(x, np.float16(-0.0)))
    quiet = np.where(np.isnan(x), x.view(np.uint16) | 0x200, x.view(np.uint16))
    assert np.array_equal(added, quiet) and np.array_equal(negated, x.view(np.uint16) ^ 0x8000)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("divisor", [1.0, 2.0, -4.0, 64.0, 0.5, 3.0])
def test_remainders_by_powers_of_two_have_no_loop(name, divisor):
    """A loop in one function keeps clang from making vectors of all that is computed beside it."""
    text = f"""HloModule m
        ENTRY e {{ x = {name}[600] parameter(0)
            c = {name}[] constant({divisor})
            y = {name}[600] broadcast(c), dimensions={{}}
            ROOT r = {name}[600] remainder(x, y) }}"""
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -4.0, 3.5, -3.5, 63.75, np.inf, -np.inf, np.nan, 2e-8, -2e-8, 60000.0, -64.0]
    x = np.resize(np.array([*special, *np.linspace(-300, 300, 584)]), 600).astype(FLOATS[name])
    executable = refxla.compile(text)
    assert ("rx_remainder_by_constant" in executable.opencl) == (divisor in (1.0, 2.0, -4.0, 64.0))
    with np.errstate(invalid="ignore"):
        want = np.fmod(x.astype(np.float64), divisor).astype(FLOATS[name])
    got = executable(x)
    assert (
        bits(np.where(np.isnan(got), FLOATS[name](0), got)).tolist()
        == bits(np.where(np.isnan(want), FLOATS[name](0), want)).tolist()
    )
    np.testing.assert_array_equal(np.isnan(got.astype(float)), np.isnan(want.astype(float)))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("abscissa", [1.0, 2.0, -1.0])
def test_an_arctangent_has_no_quadrants_and_the_same_bits(name, abscissa):
    text = f"""HloModule m
        ENTRY e {{ y = {name}[600] parameter(0)
            c = {name}[] constant({abscissa})
            x = {name}[600] broadcast(c), dimensions={{}}
            ROOT r = {name}[600] atan2(y, x) }}"""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, -60000.0]
    y = np.resize(np.array([*special, *np.linspace(-30, 30, 391), *np.linspace(0.99, 1.01, 200)]), 600).astype(
        FLOATS[name]
    )
    executable = refxla.compile(text)
    assert ("rx_atan2_by_constant" in executable.opencl) == (abscissa == 1)
    any_x = refxla.compile(text.replace(f"constant({abscissa})", "parameter(1)"))
    got, want = executable(y), any_x(y, FLOATS[name](abscissa))
    nan = np.isnan(want.astype(float))
    np.testing.assert_array_equal(np.isnan(got.astype(float)), nan)
    assert bits(got[~nan]).tolist() == bits(want[~nan]).tolist()


def test_a_loop_that_cannot_be_vectorized_writes_nothing_to_the_terminal(capfd):
    """PoCL's compiler counts its warnings there, whatever becomes of the log."""
    loop = "#pragma clang loop vectorize_width(4)\nfor (int i = 0; i < 8; ++i) { x[0] = x[0] * x[0] + i; }"
    text = f"__kernel void k(volatile __global float* x) {{\n{loop}\n}}\n"
    cl.Program(queue().context, primitives(DEFAULT_CPU) + text).build(list(build_options(DEFAULT_CPU)))
    assert not capfd.readouterr().err


def test_functions_are_compiled_without_instructions_that_have_no_form_of_avx():
    """On AMD's processors a shuffle of bytes among vectors of floats took a hundred times as long."""
    text = """HloModule m
    ENTRY main { x = f32[64,32] parameter(0)  p = pred[64,32] parameter(1)  zero = f32[] constant(0)
      z = f32[64,32] broadcast(zero), dimensions={}  s = f32[64,32] select(p, x, z)
      w = f32[64,32,2] broadcast(s), dimensions={0,1}  ROOT r = f32[64,64] reshape(w) }"""
    (part,) = refxla.compile(text).program.parts
    before, push, rest = part.source.partition('#pragma clang attribute push(__attribute__((target("no-sse4a")))')
    inside, pop, after = rest.partition("#pragma clang attribute pop")
    assert push and pop and "{" in inside
    assert not re.search(r"^[^#].*\{", before + after, re.MULTILINE)
    wide = replace(DEFAULT_CPU, features="avx512f")
    assert '#define RX_WIDE __attribute__((target("avx512f,no-sse4a")))' in primitives(wide)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_the_error_function_needs_no_exponential(name):
    """Two polynomials: with an exponential for large arguments, an array takes half as long again."""
    called = f"{scalar.storage_type(name)} k({scalar.storage_type(name)} x) {{ return rx_erf_{name}(x); }}"
    text = prelude.functions(called)
    assert f"rx_erf_{name}" in text
    assert "rx_exp" not in text
