"""What the generated code may assume of a device, and how that device spells each primitive.

Everything else in the generator writes `RX_FMA_F32(a, b, c)` and the like; this file alone knows what stands behind
the name. On a CPU whose OpenCL compiler is clang (PoCL), OpenCL's own builtins live in a library that is compiled for
another feature set, so a call to one is not inlined and stops vectorisation: clang's builtins are used there. On other
devices the OpenCL builtins are the primitives; each of those used here is correctly rounded or exact by OpenCL's rules
(sqrt and divide of f32 only with the option in `build_options`), so every device computes the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .tile_configurations import TileConfiguration

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


LINE = 64  # bytes of a line of a cache

# clang reads its header of OpenCL's functions, of which generated code needs one, unless its guard is defined.
BARE = "-D_OPENCL_H_"
GET_GLOBAL_ID = "size_t __attribute__((overloadable, const)) get_global_id(uint);"


@dataclass(frozen=True)
class Target:
    """One kind of device, as far as code generation cares.

    `kind` is "cpu" or "gpu"; `clang` says that its OpenCL compiler is a clang whose builtins are inlined;
    `vector_bytes` is the width of a vector register; `compute_units` counts cores or multiprocessors; `fp64` and
    `fp16` say which of OpenCL's optional types exist; `max_vector` is the widest explicit vector (in elements) that is
    safe to write. `features` are those of the processor that its compiler uses only where a function asks for them, in
    the words of clang's attribute `target`; "" where there are none. `tile_configurations` says how
    matrix products are cut, by their signatures (tile_configurations.py), where that was found by measuring.
    `bare` says that programs compile without the header of OpenCL's functions, which saves time. `persistent` says that
    work items can go through phases together (persistent_kernel.py). `winograd` says that convolutions may be computed
    in tiles, as was asked for (passes/winograd_convolution.py); `library_calls` that linear algebra is left to LAPACK,
    which takes a device that uses the host's memory as it is (ir/library_calls.py). `costs` are the numbers of the cost
    model that decides on fusion (Costs: nanoseconds of a byte, an operation, a launch); None for the usual ones.

    Of a GPU, `sub_group` is the number of work items that run in lockstep, neighbours in a work-group; `group_size` the
    most items of a work-group, and `local_bytes` the most local memory that it may have. The defaults are what almost
    every GPU has. Code for CPUs has no work-groups.
    """

    kind: str
    clang: bool
    vector_bytes: int
    compute_units: int
    fp64: bool
    fp16: bool
    max_vector: int
    bare: bool = False
    features: str = ""
    persistent: bool = False
    winograd: bool = False
    library_calls: bool = False
    costs: tuple[float, float, float] | None = None
    sub_group: int = 32
    group_size: int = 256
    local_bytes: int = 32768
    tile_configurations: Mapping[str, TileConfiguration] = field(default_factory=dict, compare=False, repr=False)

    @property
    def registers(self) -> int:
        """How many vector registers a kernel with `Kernel.registers` has."""
        return 32 if "avx512vl" in self.features else 16

    @property
    def widest(self) -> int:
        """The bytes of a vector register in a kernel with `Kernel.registers`."""
        return 64 if "avx512f" in self.features else 32

    @property
    def build_options(self) -> tuple[str, ...]:
        """Options every program needs for its results to be those the specification promises."""
        # A CPU divides and takes roots correctly rounded anyway, and some CPU runtimes refuse the option.
        rounded = ("-cl-fp32-correctly-rounded-divide-sqrt",) if self.kind == "gpu" else ()
        return (*rounded, BARE) if self.bare else rounded

    def primitives(self) -> str:
        """The lines that start every program: rounding rules, then the RX_* primitives as #define lines."""
        lines = ["#pragma OPENCL FP_CONTRACT OFF"]
        if self.bare:
            lines.append(GET_GLOBAL_ID)
        if self.features:
            lines.append(f'#define RX_WIDE __attribute__((target("{self.features}")))')
        if self.fp64:
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        for name, (arity, clang, opencl) in _FLOAT_PRIMITIVES.items():
            parameters = ", ".join("abc"[:arity])
            for suffix, bits in (("f", 32), ("", 64)):
                if bits == 64 and not self.fp64:
                    continue
                function = clang + suffix if self.clang else opencl
                lines.append(f"#define RX_{name}_F{bits}({parameters}) {function}({parameters})")
        # RX_PREFETCH(p) brings the line of the cache at that address nearer, if that is a place in memory.
        # RX_PREFETCH_FOR_WRITE(p) does so for one that will be written.
        for name, written in (("RX_PREFETCH", 0), ("RX_PREFETCH_FOR_WRITE", 1)):
            fetch = f"__builtin_prefetch((const void*)(size_t)(p), {written}, 2)"
            lines.append(f"#define {name}(p) {fetch if self.clang and self.kind == 'cpu' else ''}".rstrip())
        # RX_ARRIVE(p) counts at the int *p and gives the count before; what was written before it, by any item that
        # has counted there, can be read after it.
        if self.clang:
            lines.append("#define RX_ARRIVE(p) __atomic_fetch_add((p), 1, __ATOMIC_ACQ_REL)")
        else:
            lines += [
                "static inline int rx_arrive(volatile __global int* p) {",
                "    mem_fence(CLK_GLOBAL_MEM_FENCE);",
                "    int before = atomic_inc(p);",
                "    mem_fence(CLK_GLOBAL_MEM_FENCE);",
                "    return before;",
                "}",
                "#define RX_ARRIVE(p) rx_arrive(p)",
            ]
        if self.clang:
            # A function that is called, so that it is compiled once; and what has others see what was written past
            # the caches.
            lines += [
                "#define RX_APART __attribute__((noinline))",
                "#define RX_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)",
                "#define RX_IS_CONSTANT(a) __builtin_constant_p(a)",
                "#if defined(__F16C__) && __has_builtin(__builtin_load_halff)",
                "#define RX_HALVES",  # the processor converts vectors of f16
                "#endif",
                "#if __has_builtin(__builtin_elementwise_fma)",
                "#define RX_FMA_LANES(a, b, c) __builtin_elementwise_fma(a, b, c)",
                "#endif",
            ]
            # clang's clz is undefined at 0, where HLO says: the width.
            lines += [
                "#define RX_POPCOUNT_U32(a) ((uint)__builtin_popcount(a))",
                "#define RX_POPCOUNT_U64(a) ((ulong)__builtin_popcountl(a))",
                "#define RX_CLZ_U32(a) ((a) == 0u ? 32u : (uint)__builtin_clz(a))",
                "#define RX_CLZ_U64(a) ((a) == 0ul ? 64ul : (ulong)__builtin_clzl(a))",
            ]
        else:
            lines += [f"#define RX_POPCOUNT_U{bits}(a) popcount(a)" for bits in (32, 64)]
            lines += [f"#define RX_CLZ_U{bits}(a) clz(a)" for bits in (32, 64)]
            lines.append("#define RX_IS_CONSTANT(a) 0")
        return "\n".join(lines) + "\n"


DEFAULT_CPU = Target(kind="cpu", clang=True, vector_bytes=32, compute_units=2, fp64=True, fp16=False, max_vector=8)
