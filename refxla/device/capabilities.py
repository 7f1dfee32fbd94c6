"""What kernels may use on a kind of device: the capabilities that code generation asks for, and their values for each
kind.

An emitter asks for a capability, never for the kind of a device or the name of its compiler. A new kind of device is
another value of Capabilities here, and a row in codegen/emitter_registry.py if it needs emitters of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a kind of device. Its sizes and rates are in Target."""

    emitters: str  # the row of codegen/emitter_registry.py that is searched first

    # The compiler.
    clang_builtins: bool = False  # clang's built-in functions, atomics among them, compiled to instructions, not calls
    loop_pragmas: bool = False  # #pragma clang loop
    function_calls: bool = False  # a function can be called instead of inlined, and have target attributes
    rounding_option: bool = False  # f32 division and square root are correctly rounded only with a build option

    # A work item.
    loop_vectorization: bool = False  # its loops are compiled to vector instructions, with masks where necessary
    explicit_vectors: bool = False  # OpenCL's vector types are held in vector registers
    vector_shuffles: bool = False  # a block of an array can be transposed in vector registers
    cached_arrays: bool = False  # its private arrays stay in a cache
    prefetch: bool = False  # it can prefetch a cache line
    non_temporal_stores: bool = False  # it can store whole cache lines past the caches

    # A launch.
    coalescing: bool = False  # work items run in lockstep: adjacent items should access adjacent elements
    work_groups: bool = False  # work items share local memory and wait for each other at barriers
    # several kernels are cases of a switch in one: that compiles faster and costs nothing at run time
    kernel_switch: bool = False
    launch_merging: bool = False  # a kernel may make the calls of several launches

    @property
    def of_one_item(self) -> Capabilities:
        """Those of a single work item of a GPU."""
        return replace(self, emitters="cpu", coalescing=False, work_groups=False)


# A CPU with an OpenCL compiler that is only known to accept OpenCL C.
OPENCL_CPU = Capabilities(emitters="cpu", explicit_vectors=True, cached_arrays=True, kernel_switch=True)

# A CPU with clang as its OpenCL compiler, such as PoCL's.
CLANG_CPU = replace(
    OPENCL_CPU,
    clang_builtins=True,
    loop_pragmas=True,
    function_calls=True,
    loop_vectorization=True,
    vector_shuffles=True,
    prefetch=True,
    non_temporal_stores=True,
    launch_merging=True,
)

GPU = Capabilities(emitters="gpu", rounding_option=True, coalescing=True, work_groups=True, launch_merging=True)

# A GPU with clang as its OpenCL compiler.
CLANG_GPU = replace(GPU, clang_builtins=True, loop_pragmas=True)


def capabilities_of(kind: str, clang: bool) -> Capabilities:
    """The capabilities of an OpenCL device, from its kind ("gpu"; all others run code for a CPU) and whether its
    compiler has clang's built-in functions."""
    if kind == "gpu":
        return CLANG_GPU if clang else GPU
    return CLANG_CPU if clang else OPENCL_CPU
