"""What the compiler knows of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .capabilities import CLANG_CPU, Capabilities
from .tile_configurations import TileConfiguration

LINE = 64  # bytes of a cache line


@dataclass(frozen=True)
class Caches:
    """The sizes of a device's caches in bytes. Thresholds in the compiler are fractions of these. They are not
    measured: they are those of the machine to which the rates of Costs were fitted.
    """

    first: int = 1 << 15  # of a core's innermost cache
    second: int = 1 << 20  # of all caches that belong to one core
    last: int = 1 << 25  # of the caches that the cores share


@dataclass(frozen=True)
class Costs:
    """The rates of a device, in nanoseconds, and its caches: the assumptions of the compiler and the runtime about its
    speed. No bit of any result depends on them. runtime/calibration.py measures the first three; `scaled` scales those
    that depend on the same resource: memory, arithmetic, launches. Those of a core's caches, of calls and of startup
    (`cached`, `call`, `group`, `item`, `library_call`, `phase`, `copied_left`, `block`, `tile`, `share`, ...) stay
    unchanged.
    """

    byte: float = 0.03  # a byte that all cores move together
    flop: float = 0.012  # an addition of one core, with vector instructions
    launch: float = 3000.0
    # Of one core:
    copied_byte: float = 0.1  # a byte that a merged kernel copies
    function_flop: float = 0.024  # an addition in a function, whose operations wait for each other
    element_flop: float = 0.05  # an addition in an elementwise loop
    library_flop: float = 0.05  # an addition in a LAPACK routine, on matrices of moderate size
    library_call: float = 1000.0  # a call of such a routine on the smallest matrices
    call: float = 50.0  # a kernel called by another one, at least
    group: float = 2000.0  # a work-group of a kernel that another one calls on a GPU, at least
    item: float = 2000.0  # an item of a kernel with several, at least: emitters give each some 20 us of work
    cached: tuple[tuple[int, float], ...] = ((1 << 18, 0.0), (3 << 18, 0.013), (1 << 25, 0.025))
    # a byte that it touched last no more than so many bytes ago, and a byte that no cache has:
    far: float = 0.06
    tile: float = 1000.0  # to start a tile of a tiled fusion
    # Of one core that multiplies matrices (codegen/products/blocking.py):
    multiply_add: float = 1 / 55
    copied_left: float = 0.12  # an element of the left side that is packed, from cache to cache
    copied_right: float = 0.06  # and of the right side
    panel_cached: tuple[tuple[int, float], ...] = ((1 << 19, 0.0), (1 << 23, 0.013), (1 << 24, 0.02), (1 << 25, 0.03))
    # a byte of a side that was read no more than so many bytes ago, and a byte that no cache has:
    panel_far: float = 0.045
    panel_pieces: float = 2.5  # factor for a byte from beyond a core's own caches that is read in pieces of rows
    block: float = 1000.0  # to start an item
    # The additional time to store an element of a convolution's result if rows run along the batch: for contiguous
    # rows, for elements whose neighbours in the batch share a cache line, for others.
    batch_in_rows: float = 0.5
    batch_near: float = 0.6
    batch_apart: float = 3.0
    # Of cooperating threads:
    phase: float = 1000.0  # the barrier after a phase of a persistent kernel, and reading what others wrote
    # to distribute a call's work: waking workers that spin takes 1000, those that sleep some 20000
    wake: float = 5000.0
    handover: float = 1000.0  # each launch of such a call
    share: float = 1000.0  # the least work of a loop in a persistent kernel that is worth giving to another core
    caches: Caches = Caches()

    def scaled(self, byte: float, flop: float, launch: float) -> Costs:
        """The costs of a device on which a byte, an operation and a launch take so many times as long."""
        return replace(
            self,
            byte=self.byte * byte,
            copied_byte=self.copied_byte * byte,
            far=max(self.far * byte, self.cached[-1][1]),  # no memory is faster than the caches in front of it
            panel_far=max(self.panel_far * byte, self.panel_cached[-1][1]),
            flop=self.flop * flop,
            function_flop=self.function_flop * flop,
            element_flop=self.element_flop * flop,
            library_flop=self.library_flop * flop,
            multiply_add=self.multiply_add * flop,
            launch=self.launch * launch,
            wake=self.wake * launch,
            handover=self.handover * launch,
        )

    def reused_byte(self, bytes: float) -> float:
        """The time a core takes for a byte that it last touched so many bytes ago (its reuse distance)."""
        return next((ns for most, ns in self.cached if bytes <= most), self.far)

    def panel_byte(self, bytes: float) -> tuple[float, float]:
        """The time a core takes for a byte of a matrix product's operand that was last read so many bytes ago: with
        rows that are read from end to end, and in pieces."""
        for level, (most, ns) in enumerate(self.panel_cached):
            if bytes <= most:
                return ns, ns * self.panel_pieces if level > 1 else ns
        return self.panel_far, self.panel_far * self.panel_pieces


@dataclass(frozen=True)
class Target:
    """One kind of device as code generation sees it, and the options of the compilation. The defaults for a GPU hold
    for almost every GPU."""

    capabilities: Capabilities  # what kernels may use
    vector_bytes: int  # of a vector register
    compute_units: int  # cores or multiprocessors
    fp64: bool  # OpenCL's optional types
    fp16: bool
    max_vector: int  # elements of the widest explicit vector that is safe to write

    # The compiler.
    bare: bool = False  # programs compile with the option BARE (codegen/primitives.py), which saves time
    slow_subnormals: bool = False  # subnormal products take many times as long as others
    # Processor features that the compiler uses only in functions that ask for them (Kernel.wide_vectors), in the syntax
    # of clang's attribute `target`; "" if there are none:
    features: str = ""

    # Execution.
    persistent: bool = False  # work items can go through phases together (scheduling/persistent_kernel.py)
    # Kernels take memory objects with the offset of each array: they cannot access the host's memory.
    offsets: bool = False
    costs: Costs = Costs()  # the rates, as measured

    # The options.
    winograd: bool = False  # convolutions may be computed in tiles (passes/winograd_convolution.py)
    # LAPACK computes linear algebra, which requires a device that uses the host's memory in place
    # (ir/library_calls.py).
    library_calls: bool = False
    # The tile configurations of matrix products by signature (tile_configurations.py), if they were measured:
    tile_configurations: Mapping[str, TileConfiguration] = field(default_factory=dict, compare=False, repr=False)

    # For a GPU. Code for CPUs has no work-groups.
    sub_group: int = 32  # work items that run in lockstep, adjacent in a work-group
    group_size: int = 256  # the most items of a work-group
    local_bytes: int = 32768  # the most local memory of a work-group
    # After a barrier, its items see what others wrote to global memory before it, as OpenCL requires; merged kernels
    # rely on that.
    handover: bool = True
    repeated_barriers: bool = False  # each barrier is compiled as two (codegen/primitives.py)

    @property
    def of_one_item(self) -> Target:
        """A GPU as one work item sees it that runs whole kernels: they have the loops of a CPU's."""
        return replace(self, capabilities=self.capabilities.of_one_item, compute_units=1)

    @property
    def caches(self) -> Caches:
        """The sizes of its caches."""
        return self.costs.caches

    @property
    def registers(self) -> int:
        """The number of vector registers of a kernel with `Kernel.wide_vectors`."""
        return 32 if "avx512vl" in self.features else 16

    @property
    def has_vnni(self) -> bool:
        """Whether a kernel with `Kernel.wide_vectors` may multiply bytes and add products four at a time."""
        return "avx512vnni" in self.features

    @property
    def has_bf16_pairs(self) -> bool:
        """Whether a kernel with `Kernel.wide_vectors` may multiply pairs of bf16 and add the products one by one."""
        return "avx512bf16" in self.features

    @property
    def widest(self) -> int:
        """The bytes of a vector register in a kernel with `Kernel.wide_vectors`."""
        return 64 if "avx512f" in self.features else 32


DEFAULT_CPU = Target(CLANG_CPU, vector_bytes=32, compute_units=2, fp64=True, fp16=False, max_vector=8)
