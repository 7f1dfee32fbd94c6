"""How a device spells each primitive of the generated code, and the options that its programs are built with.

All other files write `RX_FMA_F32(a, b, c)` and the like; only this one knows the definitions. On a CPU whose OpenCL
compiler is clang (PoCL), OpenCL's own builtins live in a library that is compiled for another feature set, so a call to
one is not inlined and stops vectorisation: clang's builtins are used there. On other devices the OpenCL builtins are
the primitives; each of those used here is correctly rounded or exact by OpenCL's rules (sqrt and divide of f32 only
with the option in `build_options`), so every device computes the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..device.description import Target

# name -> (arity, clang's builtin without its f32 suffix "f", OpenCL's builtin)
_FLOAT_PRIMITIVES = {
    "FMA": (3, "__builtin_fma", "fma"),
    "SQRT": (1, "__builtin_sqrt", "sqrt"),
    "FLOOR": (1, "__builtin_floor", "floor"),
    "CEIL": (1, "__builtin_ceil", "ceil"),
    "TRUNC": (1, "__builtin_trunc", "trunc"),
    "RINT": (1, "__builtin_rint", "rint"),
    "FABS": (1, "__builtin_fabs", "fabs"),
    "COPYSIGN": (2, "__builtin_copysign", "copysign"),
}

# clang reads its header of OpenCL's functions unless its guard is defined. Generated code needs only one of them.
BARE = "-D_OPENCL_H_"
GET_GLOBAL_ID = "size_t __attribute__((overloadable, const)) get_global_id(uint);"
# RX_ARRIVE(p) counts at the int *p and gives the count before; what was written before it, by any item that has counted
# there, can be read after it.
_ARRIVE = "#define RX_ARRIVE(p) {}"


# PoCL compiles a work-group to loops over its items between barriers, and adds barriers of its own before one in a loop
# or under a condition. It looks for their place backwards from that barrier, along the first edge into each block, up
# to a block that has nothing but a barrier: from the end of `barrier(); if (item == 0) ...; barrier();` along the edge
# from the condition's body. So it adds one to that body, which then all items execute or none, as the last one decides:
# releases up to 7.1 do (PoCL's commit ab3ed1cd of July 2026 corrects it). A block with two barriers does not stop the
# search, which then reaches the beginning of the loop or the outer condition. A barrier that is added there, with
# nothing but a condition of some items behind it, would stop the next search: so merged loops begin with barriers
# (codegen/merged_kernel_emitter.py). The empty loops between two barriers cost nothing.
_REPEATED_BARRIER = "#define barrier(fences) (barrier(fences), barrier(fences))"


# clang uses instructions of SSE4A for shuffles of bytes, where the processor (one of AMD's) has them. They alone have
# no form of AVX, and after one that has, each waits for some fifty nanoseconds.
_WITHOUT_SSE4A = """#if defined(__SSE4A__)
#pragma clang attribute push(__attribute__((target("no-sse4a"))), apply_to = function)
#endif
{}
#if defined(__SSE4A__)
#pragma clang attribute pop
#endif
"""


def build_options(target: Target) -> tuple[str, ...]:
    """The build options that every program needs for the results that the specification promises."""
    # A CPU divides and takes roots correctly rounded anyway, and some CPU runtimes refuse the option.
    is_asked = target.capabilities.rounding_option
    rounded = ("-cl-fp32-correctly-rounded-divide-sqrt",) if is_asked else ()
    return (*rounded, BARE) if target.bare else rounded


def primitives(target: Target) -> str:
    """The lines that start every program: rounding rules, then the RX_* primitives as #define lines."""
    lines = ["#pragma OPENCL FP_CONTRACT OFF", *_of_target(target), *_float_primitives(target), *_prefetches(target)]
    lines += _clang_primitives() if target.capabilities.clang_builtins else _opencl_primitives()
    lines += _complex_parts(target)
    return "\n".join(lines) + "\n"


def with_target_features(text: str, target: Target) -> str:
    """The functions of a program, compiled for those instructions of the processor that pay."""
    return _WITHOUT_SSE4A.format(text) if target.capabilities.function_calls else text


def wide_attribute(target: Target) -> str:
    """The attribute of a function that is compiled for the widest vectors; it replaces the one of all others."""
    return f'__attribute__((target("{target.features},no-sse4a")))'


def _of_target(target: Target) -> Iterator[str]:
    """What the prelude needs to know about a target."""
    if target.capabilities.loop_pragmas:  # otherwise a loop that is not vectorized is a warning on the user's terminal
        yield '#pragma clang diagnostic ignored "-Wpass-failed"'
    if target.bare:
        yield GET_GLOBAL_ID
    if target.features:
        yield f"#define RX_WIDE {wide_attribute(target)}"
    if target.has_vnni:
        yield "#define RX_VNNI"
    if target.slow_subnormals:
        yield "#define RX_SLOW_SUBNORMALS"
    if target.fp64:
        yield "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"
    if target.repeated_barriers:
        yield _REPEATED_BARRIER


def _float_primitives(target: Target) -> Iterator[str]:
    """RX_FMA_F32(a, b, c) and the like."""
    for name, (arity, clang, opencl) in _FLOAT_PRIMITIVES.items():
        parameters = ", ".join("abc"[:arity])
        for suffix, bits in (("f", 32), ("", 64)) if target.fp64 else (("f", 32),):
            function = clang + suffix if target.capabilities.clang_builtins else opencl
            yield f"#define RX_{name}_F{bits}({parameters}) {function}({parameters})"


def _prefetches(target: Target) -> Iterator[str]:
    """RX_PREFETCH(p) prefetches the cache line at that address, if it is valid. RX_PREFETCH_FOR_WRITE(p) does so for
    one that will be written."""
    for name, written in (("RX_PREFETCH", 0), ("RX_PREFETCH_FOR_WRITE", 1)):
        fetch = f"__builtin_prefetch((const void*)(size_t)(p), {written}, 2)"
        yield f"#define {name}(p) {fetch if target.capabilities.prefetch else ''}".rstrip()


def _clang_primitives() -> tuple[str, ...]:
    return (
        _ARRIVE.format("__atomic_fetch_add((p), 1, __ATOMIC_ACQ_REL)"),
        # A function that is called, so that it is compiled once; one that is compiled as it stands, because it takes
        # less than optimising it would, and one that is inlined even there; and what has others see what was written
        # past the caches.
        "#define RX_NOINLINE __attribute__((noinline))",
        "#define RX_UNOPTIMIZED __attribute__((noinline, optnone))",
        "#define RX_INLINE __attribute__((always_inline))",
        "#define RX_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)",
        # The compiler keeps no element that was loaded before; no instruction.
        "#define RX_COMPILER_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)",
        "#define RX_IS_CONSTANT(a) __builtin_constant_p(a)",
        "#if defined(__F16C__) && __has_builtin(__builtin_load_halff)",
        "#define RX_HALVES",  # the processor converts vectors of f16
        "#endif",
        "#if __has_builtin(__builtin_elementwise_fma)",
        "#define RX_FMA_LANES(a, b, c) __builtin_elementwise_fma(a, b, c)",
        "#endif",
        # clang's clz is undefined at 0, where HLO has the width.
        "#define RX_POPCOUNT_U32(a) ((uint)__builtin_popcount(a))",
        "#define RX_POPCOUNT_U64(a) ((ulong)__builtin_popcountl(a))",
        "#define RX_CLZ_U32(a) ((a) == 0u ? 32u : (uint)__builtin_clz(a))",
        "#define RX_CLZ_U64(a) ((a) == 0ul ? 64ul : (ulong)__builtin_clzl(a))",
    )


def _opencl_primitives() -> tuple[str, ...]:
    return (
        "static inline int rx_arrive(volatile __global int* p) {",
        "    mem_fence(CLK_GLOBAL_MEM_FENCE);",
        "    int before = atomic_inc(p);",
        "    mem_fence(CLK_GLOBAL_MEM_FENCE);",
        "    return before;",
        "}",
        _ARRIVE.format("rx_arrive(p)"),
        *(f"#define RX_POPCOUNT_U{bits}(a) popcount(a)" for bits in (32, 64)),
        *(f"#define RX_CLZ_U{bits}(a) clz(a)" for bits in (32, 64)),
        "#define RX_NOINLINE",  # plain OpenCL C cannot ask for that
        "#define RX_IS_CONSTANT(a) 0",
        "#define RX_COMPILER_FENCE()",
    )


def _complex_parts(target: Target) -> tuple[str, ...]:
    """How loops load and store a complex number."""
    if target.capabilities.loop_vectorization:  # by parts: clang does not vectorize loops that load vectors
        return (
            "#define RX_PART(place, n) (((__typeof__((place).x)*)&(place))[n])",
            "#define RX_LOAD_PARTS(type, place) ((type)(RX_PART(place, 0), RX_PART(place, 1)))",
            "#define RX_STORE_PARTS(place, z) (RX_PART(place, 0) = (z).x, RX_PART(place, 1) = (z).y)",
        )
    return ("#define RX_LOAD_PARTS(type, place) (place)", "#define RX_STORE_PARTS(place, z) ((place) = (z))")
