"""Every f32 there is through an elementary function, against the f64 function of the prelude: the largest error in ULP.

    python -m refxla.tools.sweep [OPERATION ...]

One kernel computes both and their distance, 2^32 times; half a minute for each operation on two cores. The f64
functions have the same accuracy in ULP of f64, so what they add to the error is below 2^-27 ULP of f32. Exits with 1 if
an operation exceeds its bound in the accuracy contract, or misses a zero, an infinity or a NaN.
"""

from __future__ import annotations

import sys

import numpy as np
import pyopencl as cl
from refxla_spec.accuracy import ULP

from refxla.codegen import prelude, scalar
from refxla.codegen.target import DEFAULT_CPU

# Errors are carried as integers, in 2^-16 ULP, since a maximum of integers is vectorised; this one is a special value
# that was missed.
UNIT, MISSED = 65536, 0xFFFFFFFF
CHUNK = 1 << 16

KERNEL = """
static inline uint error_of(uint bits) {
    float x = as_float(bits);
    double wide = (double)x;
    float got = NARROW;
    double want = WIDE;
    float rounded = (float)want;
    int special = (rounded != rounded) | (RX_FABS_F32(rounded) == as_float(0x7f800000u)) | (want == 0.0);
    int same = (as_uint(got) == as_uint(rounded)) | ((got != got) & (rounded != rounded));
    // The ULP of a result: 2^-23 of its power of two, and 2^-149 at least.
    ulong power = as_ulong(want) & 0x7ff0000000000000ul;
    double ulp = as_double(power < 0x3810000000000000ul ? 0x36a0000000000000ul : power - 0x0170000000000000ul);
    double error = RX_FABS_F64((double)got - want) / ulp * 65536.0;
    uint measured = error < 4294967294.0 ? (uint)error : 0xffffffffu;
    return special ? (same ? 0u : 0xffffffffu) : measured;
}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void sweep(uint first, __global uint* restrict worst) {
    uint base = first + (uint)get_global_id(0) * 65536u;
    uint greatest = 0;
    for (uint i = 0; i < 65536u; i++) {
        uint error = error_of(base + i);
        greatest = error > greatest ? error : greatest;
    }
    worst[get_global_id(0)] = greatest;
}
__kernel void chunk(uint first, __global uint* restrict errors) {
    errors[get_global_id(0)] = error_of(first + (uint)get_global_id(0));
}
"""


def device() -> cl.Device:
    """The first CPU device of an OpenCL platform whose compiler is clang."""
    for platform in cl.get_platforms():
        if platform.name == "Portable Computing Language":
            return platform.get_devices()[0]
    raise SystemExit("the sweep runs on PoCL, and it is not here: pip install pyopencl[pocl]")


def sweep(opcode: str, queue: cl.CommandQueue) -> tuple[float, np.float32]:
    """The largest error over all f32, in ULP, and where it is; inf where a special value is missed."""
    texts = {
        name: scalar.expression(opcode, (type_,), type_, (argument,))
        for name, type_, argument in (("NARROW", "f32", "x"), ("WIDE", "f64", "wide"))
    }
    body = KERNEL
    for name, text in texts.items():
        body = body.replace(name, text)
    source = DEFAULT_CPU.primitives() + prelude.functions(body, DEFAULT_CPU) + body
    program = cl.Program(queue.context, source).build(list(DEFAULT_CPU.build_options))
    count, parts = 2**32 // CHUNK, 64
    worst = np.zeros(count, np.uint32)
    per_part = count // parts
    buffer = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, 4 * CHUNK)
    kernel = program.sweep
    for part in range(parts):
        kernel(queue, (per_part,), (1,), np.uint32(part * per_part * CHUNK), buffer)
        cl.enqueue_copy(queue, worst[part * per_part : (part + 1) * per_part], buffer)
    place = int(worst.argmax())
    errors = np.zeros(CHUNK, np.uint32)
    program.chunk(queue, (CHUNK,), None, np.uint32(place * CHUNK), buffer)
    cl.enqueue_copy(queue, errors, buffer)
    k = int(errors.argmax())
    argument = np.array([place * CHUNK + k], np.uint32).view(np.float32)[0]
    return (np.inf if errors[k] == MISSED else int(errors[k]) / UNIT), argument


def main(arguments: list[str]) -> int:
    """Sweeps the operations named (all unary elementary ones by default) and prints a line for each."""
    binary = ("power", "atan2")
    known = [opcode for opcode, type_ in ULP if type_ == "f32" and opcode not in binary]
    unknown = [a for a in arguments if a not in known]
    if unknown:
        raise SystemExit(f"{', '.join(unknown)}: not a unary elementary operation; those are {', '.join(known)}")
    queue = cl.CommandQueue(cl.Context([device()]))
    failed = False
    for opcode in arguments or known:
        error, where = sweep(opcode, queue)
        allowed = ULP[opcode, "f32"]
        failed |= not error <= allowed
        print(f"{opcode:24} {error:8.4f} ULP at {where!r:28} ({allowed} allowed)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
