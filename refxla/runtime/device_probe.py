"""What a device can really do, found by trying.

A vendor's compiler may crash, or run for minutes, on code that it should either compile or reject. So each check runs
in a child process, which first says what it is about to try. If it dies or hangs there, that is the result of the
check, and the next child continues after it. The answers are kept in the cache on disk for each device and driver
version.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from refxla_spec.errors import DeviceError

from ..codegen.primitives import BARE, GET_GLOBAL_ID
from . import discovery
from . import disk_cache as disk
from .discovery import OpenClDevice
from .opencl_compiler import compile_source
from .pocl import builtins_library, linker, platform
from .pocl.compile_workers import libraries
from .temporary_directories import leave, scratch, temporary
from .watchdog import UNCOUNTED, Watchdog

LIMIT_SECONDS = 30.0  # for one check, as a Watchdog counts them; most take 0.1 s
START_SECONDS = 10.0  # more than that for the first line, which comes after Python has started
SLOW_SUBNORMALS = 8  # the factor from which exp avoids subnormal products (exp.cl)


@dataclass(frozen=True)
class Properties:
    """The answers.

    `works`: a small program gives the right result (otherwise `problem` says what happened). `access`: "host" if
    kernels reach host memory through its own pointers, otherwise "buffer": the device has its own memory. `clang`:
    clang's builtins compile and compute correctly. `max_vector`: the widest vector that compiles. `bare`: programs
    compile with the option BARE (codegen/primitives.py). `rounded`: f32 divide and square root are correctly rounded.
    `vector_bytes`: the width of a register. `slow_subnormals`: subnormal products take many times as long as others.
    `persistent`: items can go through phases together (persistent_kernel.py). `handover`: after a barrier, items of a
    work-group see what others have written (Target.handover). `features`: the processor features that a function may
    request (see Target), "" if it may not. `builtins`: PoCL compiles with the library of refxla's own
    (builtins_library.py).
    """

    works: bool = False
    problem: str = ""
    access: str = "buffer"
    clang: bool = False
    fp64: bool = False
    fp16: bool = False
    max_vector: int = 4
    vector_bytes: int = 16
    bare: bool = False
    rounded: bool = False
    slow_subnormals: bool = False
    features: str = ""
    persistent: bool = False
    handover: bool = False
    builtins: bool = False


def properties(device: OpenClDevice) -> Properties:
    """The properties of a device: from the cache, which is read once, or found now (a second or two)."""
    store = disk.cache()
    name = entry(device)
    if (store.directory, name) in _read:
        return _read[store.directory, name]
    content = store.get(name)
    if content is not None:
        return _read.setdefault((store.directory, name), Properties(**json.loads(content)))
    # PoCL 3 takes minutes for vectors of 16, or fails, on machines with AVX-512; nothing needs them there.
    skip = {"float16"} if "PoCL" in device.driver and device.driver.split()[-1].startswith("3.") else set()
    checks = [c for c in CHECKS if c not in skip]
    pocl = _own_pocl(device)
    answers = {} if pocl is None else run_checks(device.name, checks, command=with_pocl(pocl))
    if answers.get("builtins") != {"builtins": True}:
        answers = run_checks(device.name, checks)
    result = _conclude(answers)
    if result.works and all(_is_settled(c, a) for c, a in answers.items()):
        store.put(name, json.dumps(asdict(result)).encode())
    return result


def _own_pocl(device: OpenClDevice) -> Path | None:
    """The path from which a child loads PoCL so that it need not read its library; None if this is another device, or
    PoCL's directory is not ours."""
    directory, paths = platform.directory(), libraries()
    if device.platform != platform.NAME or directory is None or paths is None:
        return None
    try:
        return builtins_library.folder(directory, paths[1])
    except OSError:  # no room: probing works, only slower
        return None


def adopt(device: OpenClDevice, name: str, record: Properties) -> None:
    """Uses properties that another process found under the key `name` for the rest of this process, if they are for
    this device (see `entry`) and it has none yet."""
    store = disk.cache()
    if name == entry(device) and not store.has(name):
        _read.setdefault((store.directory, name), record)


_read: dict[tuple[Path, str], Properties] = {}  # keyed by the cache's directory and the entry's key


def entry(device: OpenClDevice) -> str:
    """The key of a device's properties in the cache."""
    return _entry(device.platform, device.label, device.driver, device.kind)


@cache
def _entry(*names: str) -> str:
    return disk.key("probe", _self(), *names)


@cache
def _self() -> str:
    """Changes whenever the answers may change for reasons on our side."""
    texts = [
        Path(__file__).parent.joinpath(name).read_text("utf-8")
        for name in ("device_probe.py", "pocl/builtins_library.py")
    ]
    return f"{importlib.metadata.version('pyopencl')} {disk.key(*texts)}"


def _conclude(answers: dict[str, dict[str, Any] | str]) -> Properties:
    """Properties from the answer of each check, or from how it failed."""
    values: dict[str, Any] = {}
    for answer in answers.values():
        if isinstance(answer, dict):
            values.update(answer)
    if isinstance(answers["runs"], str):
        values.update(works=False, problem=answers["runs"])
    if values.pop("host_pointers", False):
        values["access"] = "host"
    names = {f.name for f in fields(Properties)}
    return Properties(**{k: v for k, v in values.items() if k in names})


COMMAND = (sys.executable, "-m", "refxla.runtime.device_probe")
_POCL = "--pocl="


def with_pocl(path: Path) -> tuple[str, ...]:
    """The command of a child that loads PoCL from this path."""
    return (*COMMAND, f"{_POCL}{path}")


def run_checks(
    device: str, names: Iterable[str], limit: float = LIMIT_SECONDS, command: tuple[str, ...] = COMMAND
) -> dict[str, dict[str, Any] | str]:
    """Run checks on the named device in child processes.

    Returns the answer of each, or a sentence on how it failed. `command` starts a child; device and names are appended.
    """
    answers: dict[str, dict[str, Any] | str] = {}
    queue = list(names)
    while queue:
        ended, lines, complaint = _child([*command, device, *queue], limit)
        begun = None
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "begin" and rest in queue:
                begun = rest
            elif word == "answer" and begun is not None:
                answers[begun] = json.loads(rest)
                queue.remove(begun)
                begun = None
        if not queue:
            break
        # The check in progress ended the child, or the child ended before its first check.
        culprit = begun if begun is not None else queue[0]
        queue.remove(culprit)
        answers[culprit] = f"the check ended with {ended}" + (f": {complaint}" if complaint else "")
        if answers[culprit] and culprit == "runs":
            for other in queue:
                answers[other] = "not tried, since no program runs"
            break
    return answers


PACKAGES = Path(__file__).parents[2]  # the folder that this refxla is imported from


def _child(command: list[str], limit: float) -> tuple[str, list[str], str]:
    """Runs a child that may be silent for `limit` seconds, as a Watchdog counts them. Returns how it ended, the lines
    that it printed, and its last error message."""
    pipe = subprocess.PIPE
    place = temporary()
    with (
        tempfile.TemporaryDirectory(prefix="refxla-", dir=place) as directory,  # a child that dies leaves its files
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
            env={**os.environ, "TMPDIR": directory},
            cwd=PACKAGES,  # Python looks here first, and a checkout in the current directory may not be built
        ) as child,
    ):
        answers, complaints = child.stdout, child.stderr
        assert answers is not None and complaints is not None  # they are pipes
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(complaints), daemon=True)
        reader.start()
        lines = []
        try:
            with Watchdog(child, limit + START_SECONDS) as watchdog:
                for line in answers:
                    lines.append(line.rstrip("\n"))
                    watchdog.restart(limit)
                code = child.wait()
        except BaseException:  # interrupted: the remaining output is not needed
            child.kill()
            child.wait()
            raise
        reader.join(10)
    complaint = next((line.strip() for line in reversed(errors) if line.strip()), "")
    if os.strerror(errno.ENOSPC) in complaint:
        complaint += f" ({place} is full: free space there, or name another directory by TMPDIR)"
    if watchdog.expired:
        ended = f"no answer within {watchdog.limit:g} s ({UNCOUNTED})"
    else:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ended, lines, complaint


def _is_settled(check: str, answer: dict[str, Any] | str) -> bool:
    """Whether a check need not be repeated. Most failures may be gone the next time (a full disk, a busy machine), but
    failure is the answer for a vector that is too wide, and for a child ended by an instruction that the processor
    lacks."""
    return isinstance(answer, dict) or check.startswith("float") or (check == "avx512" and "signal" in answer)


# In the child --------------------------------------------------------------------------------------------------------


class Bench:
    """A device with its context and queue, for the checks."""

    def __init__(self, device: OpenClDevice) -> None:
        self.device = device
        self.raw = device.raw
        self.context = device.context
        self.queue = device.queue(device.raw)

    @cache  # noqa: B019  (a bench lives as long as its process)
    def build(self, source: str, options: str = "") -> Any:
        """The built program. Raises DeviceError."""
        return compile_source(self.context, self.raw, source, options)

    def build_bare(self, source: str) -> Any:
        """The built program, which calls no OpenCL function but get_global_id: without the header that declares them,
        if that works and is faster. Raises DeviceError."""
        if self.device.platform == platform.NAME and _header(self)["bare"]:
            return self.build(f"{GET_GLOBAL_ID}\n{source}", BARE)
        return self.build(source)

    def works(self, source: str, arrays: list[Any]) -> bool:
        """Whether such a bare program can be built, and its kernel `f` run for one item: on copies of the arrays, which
        are returned in them."""
        try:
            self.run(self.build_bare(source), "f", arrays)
        except DeviceError:
            return False
        return True

    def run(self, program: Any, name: str, arrays: list[Any], size: int = 1, group: int = 1) -> None:
        """Runs a kernel of so many items on copies of the arrays and returns them."""
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(self.context, flags, hostbuf=a) for a in arrays]
        kernel = cl.Kernel(program, name)
        kernel.set_args(*buffers)
        cl.enqueue_nd_range_kernel(self.queue, kernel, (size,), (group,))
        for array, buffer in zip(arrays, buffers, strict=True):
            cl.enqueue_copy(self.queue, array, buffer)
        self.queue.finish()


_TWICE = (
    "__kernel void twice(__global const float* a, __global float* b) { int i = get_global_id(0); b[i] = 2 * a[i]; }"
)


def _runs(bench: Bench) -> dict[str, Any]:
    import numpy as np

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    bench.run(bench.build_bare(_TWICE), "twice", [a, b], 8)
    if not np.array_equal(b, 2 * a):
        return {"works": False, "problem": f"2 * [0 .. 7] came out as {b.tolist()}"}
    native = bench.raw.native_vector_width_float
    return {
        "works": True,
        "vector_bytes": min(32, max(16, 4 * native)),
    }


def _memory(bench: Bench) -> dict[str, Any]:
    import numpy as np
    import pyopencl as cl

    if bench.device.kind != "cpu" or not bench.raw.svm_capabilities:
        return {}  # elsewhere, a host pointer is at best an address fault
    kernel = cl.Kernel(bench.build_bare(_TWICE), "twice")
    # at an address that an allocator would not return
    a, b = np.arange(9, dtype=np.float32)[1:], np.zeros(8, np.float32)
    kernel.set_args(cl.SVM(a), cl.SVM(b))
    cl.enqueue_nd_range_kernel(bench.queue, kernel, (8,), (1,))
    bench.queue.finish()
    return {"host_pointers": bool(np.array_equal(b, 2 * a))}


_CLANG = """
__kernel void builtins(__global const float* a, __global float* b) {
    b[0] = __builtin_fmaf(a[0], a[1], a[2]); b[1] = __builtin_sqrtf(a[3]); b[2] = __builtin_floorf(a[4]);
    b[3] = __builtin_ceilf(a[4]); b[4] = __builtin_truncf(a[4]); b[5] = __builtin_rintf(a[4]);
    b[6] = __builtin_fabsf(a[4]); b[7] = __builtin_copysignf(a[0], a[4]);
    b[8] = (float)__builtin_popcount((uint)a[3]); b[9] = (float)__builtin_clz((uint)a[3]);
}
"""


@cache
def _clang(bench: Bench) -> dict[str, Any]:
    import numpy as np

    a = np.array([1 + 2**-12, 1 - 2**-12, -1, 2, -2.5], np.float32)
    b = np.zeros(10, np.float32)
    try:
        bench.run(bench.build_bare(_CLANG), "builtins", [a, b])
    except DeviceError:
        return {"clang": False}
    want = np.array([-(2**-24), np.sqrt(np.float32(2)), -3, -2, -2, -2, 2.5, -(1 + 2**-12), 1, 30], np.float32)
    return {"clang": bool(np.array_equal(b, want))}


@cache
def _header(bench: Bench) -> dict[str, Any]:
    """PoCL's clang takes 0.1 s to read the header for each program, and generated code calls one function of it."""
    import numpy as np

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    source = "__kernel void twice(__global const float* a, __global float* b) {"
    source += " const int i = (int)get_global_id(0); b[i] = as_float(as_uint(2 * a[i])); }"
    try:
        bench.run(bench.build(f"{GET_GLOBAL_ID}\n{source}", BARE), "twice", [a, b], 8)
    except DeviceError:
        return {"bare": False}
    return {"bare": bool(np.array_equal(b, 2 * a))}


def _rounding(bench: Bench) -> dict[str, Any]:
    import numpy as np

    clang = _clang(bench)["clang"]
    root = "__builtin_sqrtf" if clang else "sqrt"
    source = f"""
    #pragma OPENCL FP_CONTRACT OFF
    __kernel void f(__global const float* a, __global const float* b, __global float* q, __global float* r) {{
        for (int i = 0; i < 4096; ++i) {{ q[i] = a[i] / b[i]; r[i] = {root}(a[i]); }}
    }}"""
    random = np.random.default_rng(0)
    a = np.exp(random.uniform(-80, 80, 4096)).astype(np.float32)
    b = np.exp(random.uniform(-5, 5, 4096)).astype(np.float32)
    q, r = np.zeros_like(a), np.zeros_like(a)
    if bench.device.kind == "gpu":
        program = bench.build(source, "-cl-fp32-correctly-rounded-divide-sqrt")
    else:
        program = bench.build_bare(source) if clang else bench.build(source)
    bench.run(program, "f", [a, b, q, r])
    with np.errstate(over="ignore", under="ignore"):
        return {"rounded": bool(np.array_equal(q, a / b) and np.array_equal(r, np.sqrt(a)))}


def _seconds(bench: Bench, program: Any, name: str, value: float) -> float:
    """The least time of a kernel that computes 4,096 numbers from as many, all equal to `value`."""
    import time

    import numpy as np

    best = float("inf")
    for _ in range(4):
        a, b = np.full(4096, value, np.float32), np.zeros(4096, np.float32)
        start = time.perf_counter()
        bench.run(program, name, [a, b])
        best = min(best, time.perf_counter() - start)
    return best


def _subnormals(bench: Bench) -> dict[str, Any]:
    if bench.device.kind != "cpu":
        return {"slow_subnormals": False}
    # A maximum keeps each product, and is exact; a sum may become an fma, which has no subnormal product. There are so
    # many products that the launch itself takes far less time.
    program = bench.build_bare("""
        __kernel void squares(__global const float* restrict a, __global float* restrict b) {
            for (int k = 0; k < 2048; ++k)
                for (int i = 0; i < 4096; ++i) {
                    float x = a[i] * (1 + k % 64), y = x * x;
                    b[i] = y > b[i] ? y : b[i];
                }
        }""")
    subnormal, normal = (_seconds(bench, program, "squares", value) for value in (2.0**-72, 0.5))
    return {"slow_subnormals": subnormal > SLOW_SUBNORMALS * normal}


def _fp64(bench: Bench) -> dict[str, Any]:
    import numpy as np

    source = """
    #pragma OPENCL EXTENSION cl_khr_fp64 : enable
    __kernel void f(__global const double* a, __global double* b) { b[0] = a[0] / 3.0 + 1e-300; }
    """
    a, b = np.array([1.0]), np.zeros(1)
    if not bench.works(source, [a, b]):
        return {"fp64": False}
    return {"fp64": bool(b[0] == 1.0 / 3.0)}


def _fp16(bench: Bench) -> dict[str, Any]:
    import numpy as np

    if "cl_khr_fp16" not in bench.raw.extensions:
        return {"fp16": False}
    source = """
    #pragma OPENCL EXTENSION cl_khr_fp16 : enable
    __kernel void f(__global const half* a, __global half* b) { b[0] = a[0] * a[0]; }
    """
    a, b = np.array([1.5], np.float16), np.zeros(1, np.float16)
    if not bench.works(source, [a, b]):
        return {"fp16": False}
    return {"fp16": bool(b[0] == np.float16(2.25))}


def _vectors(width: int) -> Callable[[Bench], dict[str, Any]]:
    """Checks that vectors of `width` floats can be function arguments and accumulators, and be loaded and stored."""

    def check(bench: Bench) -> dict[str, Any]:
        import numpy as np

        source = f"""
        typedef float{width} v;
        v step(v a, v b, float c) {{ return a * c + b; }}
        __kernel void f(__global const float* a, __global float* b) {{
            v x = 0, y = 1;
            for (int i = 0; i < 8; ++i) {{ x = step(*(__global const v*)a, x, a[i]); y = y + x; }}
            *(__global v*)b = y;
        }}"""
        a, b = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
        bench.run(bench.build_bare(source), "f", [a, b])
        x, y = np.zeros(16, np.float32), np.ones(16, np.float32)
        for i in range(8):
            x = a * a[i] + x
            y = y + x
        return {"max_vector": width} if np.array_equal(b[:width], y[:width]) else {}

    return check


AVX512 = "avx512f,avx512vl,avx512dq,avx512bw"


def _processor_has(features: str) -> bool:
    """Whether Linux lists these processor features, under clang's names; True if it lists none, so that only trying
    tells."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return True
    return flags is None or set(features.split(",")) <= set(flags[1].replace("avx512_", "avx512").split())


def _vnni(bench: Bench, wide: str) -> bool:
    """Whether functions with the `target` named in `wide` may multiply bytes and add the products four at a time."""
    import numpy as np

    features = f"{wide},avx512vnni"
    if not _processor_has(features):
        return False
    source = f"""
    typedef int vector __attribute__((vector_size(64)));
    typedef int16 __attribute__((aligned(4))) words;
    __attribute__((noinline, target("{features}")))
    static void quads(__global const int* a, __global const int* b, __global int* c) {{
        const vector x = __builtin_astype(*(__global const words*)a, vector);
        const vector y = __builtin_astype(*(__global const words*)b, vector);
        const vector z = __builtin_astype(*(__global const words*)c, vector);
        *(__global words*)c = __builtin_astype(__builtin_ia32_vpdpbusd512(z, x, y), int16);
    }}
    __kernel void f(__global const int* a, __global const int* b, __global int* c) {{ quads(a, b, c); }}
    """
    a, b = (np.arange(64) * 37 % 256).astype(np.uint8), (np.arange(64) * 91 % 256).astype(np.uint8)
    a[:4], b[:4] = 255, 128  # the extremes of the products
    sums = np.arange(16, dtype=np.int32)
    want = sums + (a.astype(np.int32) * b.view(np.int8)).reshape(16, 4).sum(1)
    if not bench.works(source, [a, b, sums]):
        return False
    return bool((sums == want).all())


def _bf16_pairs(bench: Bench, wide: str) -> bool:
    """Whether functions with the `target` named in `wide` may multiply pairs of bf16, and the processor then adds first
    the product of the upper halves to a sum, then that of the lower ones, and rounds both sums to nearest."""
    import numpy as np

    features = f"{wide},avx512bf16"
    if not _processor_has(features):
        return False
    count = 64  # of sums in turn
    source = f"""
    typedef float vector __attribute__((vector_size(64)));
    typedef int words __attribute__((vector_size(64)));
    typedef float16 __attribute__((aligned(4))) sums;
    typedef int16 __attribute__((aligned(4))) pairs;
    __attribute__((noinline, target("{features}")))
    static void products(__global const int* a, __global const int* b, __global float* c) {{
        for (int n = 0; n < {count}; ++n) {{
            const words x = __builtin_astype(*(__global const pairs*)(a + 16 * n), words);
            const words y = __builtin_astype(*(__global const pairs*)(b + 16 * n), words);
            const vector z = __builtin_astype(*(__global const sums*)(c + 16 * n), vector);
            *(__global sums*)(c + 16 * n + 16) = __builtin_astype(__builtin_ia32_dpbf16ps_512(z, x, y), float16);
        }}
    }}
    __kernel void f(__global const int* a, __global const int* b, __global float* c) {{ products(a, b, c); }}
    """
    # Signs, exponents of 97 to 158 and all bits of the significands, so that sums round, cancel and swallow terms.
    mixed = np.arange(1, 64 * count + 1, dtype=np.uint32) * np.uint32(2654435761)
    halves = (mixed >> 16 & 0x807F | (97 + (mixed >> 9) % 62) << 7).astype(np.uint16)
    a, b = halves[: 32 * count].view(np.int32), halves[32 * count :].view(np.int32)
    sums = np.zeros(16 * count + 16, np.float32)
    want = sums.copy()
    for n in range(count):
        own = want[16 * n : 16 * n + 16]
        for part in (1, 0):  # products are exact in f32
            x, y = ((v[16 * n : 16 * n + 16].view(np.uint16)[part::2].astype(np.uint32) << 16) for v in (a, b))
            own = own + x.view(np.float32) * y.view(np.float32)
        want[16 * n + 16 : 16 * n + 32] = own
    if not bench.works(source, [a, b, sums]):
        return False
    return bool((sums.view(np.uint32) == want.view(np.uint32)).all())


def _avx512(bench: Bench) -> dict[str, Any]:
    """Whether functions with their own `target` use the registers of AVX-512: as many accumulators as fit in them, in
    vectors of their width."""
    import numpy as np

    if not _clang(bench)["clang"] or not _processor_has(AVX512):
        return {}
    sums = range(24)
    wide = f'__attribute__((target("{AVX512}")))'
    lines = [
        "#ifndef __x86_64__",
        "#error not this processor",
        "#endif",
        "typedef float16 __attribute__((aligned(4))) vector;",
        f"static inline {wide} float16 step(float16 a, float16 b, float16 c) {{ return a * b + c; }}",
        f"__attribute__((noinline)) static {wide}",
        "void sums(__global const float* restrict a, __global float* restrict b) {",
        *(f"    float16 c{i} = (float16)({i});" for i in sums),
        "    for (int k = 0; k < 64; ++k) {",
        "        const float16 x = *(__global const vector*)(a + 16 * k);",
        *(f"        c{i} = step(x, (float16)(a[{i} + k]), c{i});" for i in sums),
        "    }",
        *(f"    *(__global vector*)(b + {16 * i}) = c{i};" for i in sums),
        "}",
        "__kernel void f(__global const float* a, __global float* b) { sums(a, b); }",
    ]
    a, b = np.arange(1024, dtype=np.float32) % 7, np.zeros(16 * len(sums), np.float32)
    if not bench.works("\n".join(lines), [a, b]):
        return {}
    want = [i + sum(a[16 * k : 16 * k + 16] * a[i + k] for k in range(64)) for i in sums]
    if not np.array_equal(b, np.concatenate(want)):
        return {}
    optional = {"avx512vnni": _vnni, "avx512bf16": _bf16_pairs}
    return {"features": ",".join([AVX512, *(name for name, works in optional.items() if works(bench, AVX512))])}


_TEAM = """
__kernel void phases(__global long* sync, __global int* x) {
    const int item = (int)get_global_id(0), workers = WORKERS;
    int phase[3] = {0, 0, 0};
    for (int trip = 0; trip < 32; ++trip) {
        __global const int* from = x + (trip % 2 ? 5 : 0);
        __global int* to = x + (trip % 2 ? 0 : 5);
        for (int at; (at = rx_next_s32(sync, phase, item, workers, 5)) >= 0;) {
            to[at] = (3 * from[(at + 1) % 5] + trip) % 1000;
        }
    }
    rx_leave_s32(sync, workers);
}
"""


def _persistent(bench: Bench) -> dict[str, Any]:
    """Whether items can go through phases together, in several launches."""
    import numpy as np

    from ..codegen import prelude
    from ..codegen.primitives import primitives
    from ..device.description import DEFAULT_CPU
    from ..scheduling.persistent_kernel import sync_bytes

    if bench.device.kind != "cpu" or not _clang(bench)["clang"]:
        return {}
    units = bench.device.compute_units
    sync, x = np.zeros(sync_bytes(units), np.uint8), np.arange(10, dtype=np.int32)
    want = x[:5].copy()
    try:
        plain = replace(DEFAULT_CPU, fp64=False)
        source = primitives(plain) + prelude.functions(_TEAM) + _TEAM.replace("WORKERS", str(units))
        program = bench.build_bare(source)
        for _ in range(4):
            bench.run(program, "phases", [sync, x], units)
            for phase in range(32):
                want = (3 * np.roll(want, -1) + phase) % 1000
    except DeviceError:
        return {}
    return {"persistent": bool((x[:5] == want).all() and not sync.any())}


def _builtins(bench: Bench) -> dict[str, Any]:
    """Whether the checks before this one have compiled with refxla's library for PoCL."""
    return {"builtins": discovery.has_own_pocl() and bool(_header(bench)["bare"])}


# An LU decomposition by one work-group, in the form of merged kernels: inlined functions, each of which leaves results
# in memory for the next one; one item finds the pivot, and all items exchange rows by it.
_HANDOVER = """
#define INLINED __attribute__((always_inline)) static inline
typedef float __attribute__((may_alias)) any_float;
typedef int __attribute__((may_alias)) any_int;
INLINED void pivot(const int item, __global const any_int* a0, __global const any_float* a1, __global any_int* a2) {
    const int live = item < 1, column = a0[0];
    float most = -1.0f;
    int place = 0;
    for (int row = 0; row < SIZE; ++row) {
        const float size = fabs(a1[row * SIZE + column]);
        if (row >= column && size > most) { most = size; place = row; }
    }
    if (live) a2[0] = place;
}
INLINED void exchange(const int item, __global const any_int* a0, __global const any_int* a1,
                      __global const any_float* a2, __global any_float* a3) {
    if (item < SIZE)
        for (int row = 0; row < SIZE; ++row) {
            const int from = row == a0[0] ? a1[0] : row == a1[0] ? a0[0] : row;
            a3[row * SIZE + item] = a2[from * SIZE + item];
        }
}
INLINED void eliminate(const int item, __global const any_int* a0, __global const any_float* a1,
                       __global any_float* a2) {
    for (int n = item; n < SIZE * SIZE; n += GROUP) {
        const int row = n / SIZE, column = n % SIZE, k = a0[0];
        const float factor = a1[row * SIZE + k] / a1[k * SIZE + k];
        const float value = column == k ? factor : a1[n] - factor * a1[k * SIZE + column];
        a2[n] = row > k && column >= k ? value : a1[n];
    }
}
INLINED void counted(const int item, __global any_int* a0) { a0[0] = a0[0] + 1; }
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void decompose(__global void* p0, __global void* p1, __global void* p2, __global void* p3) {
    const int item = (int)get_local_id(0);
    for (int iteration = 0; iteration < SIZE; ++iteration) {
        pivot(item, (__global const int*)p0, (__global const float*)p2, (__global int*)p1);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        exchange(item, (__global const int*)p0, (__global const int*)p1, (__global const float*)p2,
                 (__global float*)p3);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        eliminate(item, (__global const int*)p0, (__global const float*)p3, (__global float*)p2);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (item == 0) counted(0, (__global int*)p0);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
"""


def _handover(bench: Bench) -> dict[str, Any]:
    import numpy as np

    size, group = 40, min(256, 1 << (bench.raw.max_work_group_size.bit_length() - 1))
    if bench.device.kind != "gpu" or group < size:
        return {"handover": False}
    matrix = np.random.default_rng(0).integers(-8, 9, (size, size)).astype(np.float32)
    wanted = matrix.astype(np.float64)
    for k in range(size):
        place = k + int(np.argmax(np.abs(wanted[k:, k])))
        wanted[[k, place]] = wanted[[place, k]]
        wanted[k + 1 :, k] /= wanted[k, k]
        wanted[k + 1 :, k + 1 :] -= np.outer(wanted[k + 1 :, k], wanted[k, k + 1 :])
    step, pivots, got = np.zeros(1, np.int32), np.zeros(1, np.int32), matrix.copy()
    program = bench.build(f"#define SIZE {size}\n#define GROUP {group}\n{_HANDOVER}")
    bench.run(program, "decompose", [step, pivots, got, np.zeros_like(got)], group, group)
    return {"handover": bool(np.allclose(got, wanted, rtol=1e-2, atol=1e-2))}


CHECKS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "runs": _runs,
    "memory": _memory,
    "header": _header,
    "clang": _clang,
    "fp64": _fp64,
    "fp16": _fp16,
    "rounding": _rounding,
    "subnormals": _subnormals,
    "float8": _vectors(8),
    "float16": _vectors(16),
    "avx512": _avx512,
    "persistent": _persistent,
    "handover": _handover,
    "builtins": _builtins,
}


def main(arguments: list[str]) -> None:
    """`python -m refxla.runtime.device_probe [--pocl=PATH] DEVICE CHECK...`: print the answer of each check, with PoCL
    loaded from a path."""
    pocl = None
    if arguments[0].startswith(_POCL):
        pocl = Path(arguments.pop(0).removeprefix(_POCL))
        os.environ.update(linker.environment(scratch()))
    bench = Bench(discovery.load(pocl)[arguments[0]])
    for name in arguments[1:]:
        print(f"begin {name}", flush=True)
        print(f"answer {json.dumps(CHECKS[name](bench))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    leave()
