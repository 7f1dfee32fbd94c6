"""The plan of a program: which kernels run, in what order, on which memory.

A plan is the result of scheduling and buffer assignment of an optimized module, and contains all that code generation
and the runtime need. It is data: it prints as text (`str(plan)`), and the runtime turns it into a flat list of numbers.

    Fusion    a set of instructions that becomes one kernel (or the few stages of one, for a packed dot)
    Kernel    OpenCL C for a fusion, or calls of several kernels, with the arguments and the number of work items
    Buffer    a value in memory and where it lies
    Step      Launch, Copy, HostCall, LibraryCall, Loop, Repeat, Branch: what the runtime does, in order

The text of a plan shows the contents of merged kernels below their launches. There, b3[64] is the part of buffer 3 that
begins at byte 64, b3[iteration] that of the iteration of a loop, and b3[tile] that of a tile; b3 x 4 is buffer 3
repeated four times. A phase of several kernels has the name that `explain` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod

from refxla_spec.errors import plural
from refxla_spec.module import Instruction
from refxla_spec.types import Shape

from .merged_body import (
    ConditionalBody,
    CountedLoopBody,
    ExitPhase,
    FrameBody,
    IterationsBody,
    KernelCall,
    MergedBody,
    PersistentBody,
    StructuredBody,
    TiledPhase,
    WhileLoopBody,
    calls_of_phase,
)  # fmt: skip

# The memory spaces of buffers.
PARAMETER = "parameter"  # an argument of the call, in the caller's memory: read only, unless it is donated
RESULT = "result"  # memory that is returned to the caller
CONSTANT = "constant"  # filled once, when the executable is made
ARENA = "arena"  # one block for all temporaries, reused within a call
WORKSPACE = "workspace"  # zeroed once: counters of finished work-groups, which a kernel resets, and partial results
TILE = "tile"  # only while planning: one tile of another buffer (scheduling/tiled_fusion.py)


# Reading a value takes the host as long as so many launches of kernels that do nothing: 20 microseconds on an H100.
READ_LAUNCHES = 5


@dataclass(frozen=True)
class Fusion:
    """Instructions that run as one kernel.

    `instructions` are the members, each after its operands; a cheap one may be a member of several fusions. `inputs`
    are the values read from memory, `outputs` the members whose values are written. `kind` names the emitter: "loop",
    "reduction", "dot", "convolution", "reduce-window", "select-and-scatter", "scatter", "sort", "fft", "update" (a
    dynamic-update-slice in place); a "library-call" has no kernel, but a LibraryCall. `hero` is the member that decides
    the emitter; None for a loop. `loop_invariant` are the inputs that are invariant in the enclosing loop: values that
    depend only on them are computed once, before the loop. `trip_count` is the number of tiles that one launch runs the
    fusion for (scheduling/tiled_fusion.py); its shapes are those of one tile. `in_loop`: it belongs to the body of a
    loop, so that its code runs more often than it is compiled.
    """

    name: str
    kind: str
    instructions: tuple[Instruction, ...]
    inputs: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    hero: Instruction | None = None
    loop_invariant: tuple[Instruction, ...] = ()
    trip_count: int = 1
    in_loop: bool = False


@dataclass(frozen=True)
class Argument:
    """One pointer argument of a kernel.

    `role`: "input" (the value `instruction` is read), "output" (it is written), "scratch" (`bytes` of the arena while
    the fusion's kernels run: stages that name the same `scratch` share it) or "workspace" (see WORKSPACE). `ctype` is
    the C type of an element. `updates` on an output names the input instruction whose value must already be in the
    output's memory when the kernel starts, because the kernel writes only a part of it.
    """

    role: str
    ctype: str
    instruction: Instruction | None = None
    bytes: int = 0
    scratch: str = ""
    updates: Instruction | None = None


@dataclass(frozen=True)
class Predicate:
    """A condition of a launch: argument number `argument`, a pred or an s32, chooses number `branch` of so many
    `branches`, as the index of a Branch does."""

    argument: int
    of_pred: bool
    branch: int
    branches: int


@dataclass(frozen=True)
class Kernel:
    """What one launch runs: a function that is called once for every `item` in [0, items), each time for one chunk of
    the work. Any two calls may run in parallel.

    For a fusion, `body` is the body of `static void f(const int item, T0 a0, T1 a1, ...)` in OpenCL C, where a_n is the
    n-th argument, a pointer `__global [const] ctype* restrict`. For a merged kernel (scheduling/launch_merging.py), it
    is a StructuredBody, which gives the control flow in which the kernels `calls` run; codegen/merged_kernel_emitter.py
    prints it as C.

    A GPU kernel whose items cooperate has a `work_group`. Its body is that of a function f(const int group, const int
    item, __local uchar* local_memory, T0 a0, ...): the number of the work-group, that of the item in it, and the local
    memory, aligned to 16 bytes. All items of a work-group reach the same barriers.
    """

    name: str
    body: str | StructuredBody
    arguments: tuple[Argument, ...]
    # As its emitter chooses (codegen/work_items.py); for a persistent kernel: workers, whose number is arbitrary, and
    # known to the body as `workers`.
    items: int
    calls: tuple[Kernel, ...] = ()
    us: float = 0.0  # the cost model's estimate for all items on one core, in microseconds; 0: unknown
    wide_vectors: bool = False  # it is compiled for the widest vectors of the device (codegen/wide_vectors.py)
    persistent_us: float = 0.0  # for a persistent kernel, the estimate for `items` workers
    helpers: tuple[str, ...] = ()  # C functions that the body calls, "void f(...) { ... }"; equal ones are emitted once
    # The same, of those that many programs have in common (codegen/function_library.py).
    library_functions: tuple[str, ...] = ()
    # The text takes `__global` pointers into its arguments, so that these cannot be in private memory
    # (scheduling/register_promotion.py, which is for CPUs: kernels for GPUs do not set this).
    global_only: bool = False
    work_group: int = 0  # items of a work-group; `items` is a multiple of it; 0: none
    local_bytes: int = 0  # the local memory of a work-group
    predicates: tuple[Predicate, ...] = ()  # a launch does nothing unless all of them hold (scheduling/predication.py)
    # What it takes to compile its own code, without the kernels that it calls, in characters of C: set by
    # codegen/emitter_registry.py, which alone measures what emitters wrote. 0: it copies, or calls others.
    code_size: int = 0
    fusion: str = ""  # the fusion that it computes, alone or as one of its stages; "": it copies, or calls others

    @property
    def persistent(self) -> bool:
        """Whether its items are workers that go through phases together."""
        return isinstance(self.body, PersistentBody)

    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that a merged one runs, in order; for another kernel, itself."""
        return tuple(part for k in self.calls for part in k.parts()) if self.calls else (self,)


@dataclass(frozen=True)
class Buffer:
    """A value in memory: `index` is the number of the parameter or result, `offset` bytes into it or its space."""

    name: str
    shape: Shape
    bytes: int
    space: str
    index: int = 0
    offset: int = 0

    def __str__(self) -> str:
        where = f"{self.space} {self.index}" if self.space in (PARAMETER, RESULT) else f"{self.space} +{self.offset}"
        return f"{self.name}: {self.shape} at {where}, {self.bytes} bytes"


@dataclass(frozen=True)
class Launch:
    """Runs kernel number `kernel` on the buffers of these numbers (one for each of its arguments)."""

    kernel: int
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """Copies one buffer to another of the same size."""

    source: int
    target: int


@dataclass(frozen=True)
class HostCall:
    """Waits, then calls a function of this process (runtime/host_calls.py) that reads buffers and fills others.

    The shapes are those that the function sees; a buffer may have another one with as many elements.
    """

    key: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class LibraryCall:
    """Calls a library function in the host's threads, for each of `items` matrices.

    `function` is a LAPACK routine ("sgetrf", or "sgetrf_batched" for several matrices at once); `sizes` and `flags` are
    the arguments of its function in _core/lapack.pyx. Matrix k of a buffer is at offset k times its `bytes`: those of
    each of `operands`, then of each of `results`, which are None if nobody reads them. `us` estimates the microseconds
    of one matrix on one core. Only for devices that use the host's memory in place.
    """

    function: str
    sizes: tuple[int, int, int]
    flags: str
    items: int
    operands: tuple[int, ...]
    results: tuple[int | None, ...]
    bytes: tuple[int, ...]
    us: float = 0.0

    @property
    def written(self) -> tuple[int, ...]:
        """The buffers that it writes."""
        return tuple(b for b in self.results if b is not None)


@dataclass(frozen=True)
class Loop:
    """Runs `condition`; while the pred in buffer `predicate` is true, runs `body` and `condition` again.

    `is_predicated`: the kernels of the body do nothing once the predicate is false (Kernel.predicates), so that the
    host may go on without having read it.
    """

    condition: tuple[Step, ...]
    predicate: int
    body: tuple[Step, ...]
    is_predicated: bool = False


@dataclass(frozen=True)
class Repeat:
    """Runs `body` `trip_count` times: a loop whose trip count is known needs no predicate.

    In iteration k, buffer `counter` is element k of buffer `table`; both are None if the body counts by itself.
    """

    trip_count: int
    body: tuple[Step, ...]
    counter: int | None = None
    table: int | None = None


@dataclass(frozen=True)
class Branch:
    """Runs one of `branches`, chosen by buffer `index`: a pred (true: the first) or an s32 (out of range: the last)."""

    index: int
    branches: tuple[tuple[Step, ...], ...]


Step = Launch | Copy | HostCall | LibraryCall | Loop | Repeat | Branch


@dataclass(frozen=True)
class Plan:
    """All that the runtime needs; see the module's docstring.

    `parameters` and `results` give the shapes of the flattened arguments and results (tuples opened, in order);
    `constants` the values (NumPy arrays) with their offsets in the constant space. `single` says that the program
    returns one array, not a tuple of results. `aliases` pairs results with the donated parameters in whose memory they
    are, (result, parameter); `overwritten` are all parameters whose memory is changed or becomes a result's: the caller
    donates it, or a copy is made first. `donated` are all that may be donated.
    """

    name: str
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    parameters: tuple[Shape, ...]
    results: tuple[Shape, ...]
    constants: tuple[tuple[int, object], ...] = ()
    constant_bytes: int = 0
    arena_bytes: int = 0
    workspace_bytes: int = 0
    single: bool = False
    fusions: tuple[Fusion, ...] = field(default=(), repr=False)
    aliases: tuple[tuple[int, int], ...] = ()
    overwritten: tuple[int, ...] = ()
    donated: tuple[int, ...] = ()

    def __str__(self) -> str:
        kernels = plural(len(self.kernels), "kernel")
        lines = [
            f"plan {self.name}: {kernels}, arena {self.arena_bytes} bytes, "
            f"constants {self.constant_bytes} bytes, workspace {self.workspace_bytes} bytes"
        ]
        lines += [f"  parameter {n}: {s}" for n, s in enumerate(self.parameters)]
        within = dict(self.aliases)
        for n, s in enumerate(self.results):
            lines.append(f"  result {n}: {s}" + (f" in the memory of parameter {within[n]}" if n in within else ""))
        lines += ["buffers"]
        used = set(_used(self.steps))
        lines += [f"  b{n} {b}" + ("" if n in used else ", unused") for n, b in enumerate(self.buffers)]
        lines += ["steps"]
        lines += self._format(self.steps, 1)
        return "\n".join(lines)

    def _format(self, steps: tuple[Step, ...], depth: int) -> list[str]:
        pad = "  " * depth
        lines: list[str] = []
        for step in steps:
            match step:
                case Launch(kernel, buffers):
                    k = self.kernels[kernel]
                    lines += _called(k, [f"b{b}" for b in buffers], depth)
                case Copy(source, target):
                    lines.append(f"{pad}b{target} = copy(b{source})")
                case HostCall(key, operands, results):
                    to, of = (", ".join(f"b{b}" for b in part) for part in (results, operands))
                    lines.append(f"{pad}{to} = host function {key} ({of})")
                case LibraryCall(function, _, _, items, operands):
                    to, of = (", ".join(f"b{b}" for b in part) for part in (step.written, operands))
                    lines.append(f"{pad}{to} = call {function}({of})  [{items} matri{'x' if items == 1 else 'ces'}]")
                case Loop(condition, predicate, body, is_predicated):
                    note = ", ahead of the host" if is_predicated else ""
                    lines += [f"{pad}loop", *self._format(condition, depth + 1), f"{pad}while b{predicate}{note}"]
                    lines += self._format(body, depth + 1)
                case Repeat(trip_count, body, counter, table):
                    counted = "" if counter is None else f", b{counter} = b{table}[iteration]"
                    lines += [f"{pad}repeat {trip_count} times{counted}", *self._format(body, depth + 1)]
                case Branch(index, branches):
                    lines.append(f"{pad}branch on b{index}")
                    for n, branch in enumerate(branches):
                        lines += [f"{pad} case {n}", *self._format(branch, depth + 1)]
        return lines


def _called(kernel: Kernel, names: Sequence[str], depth: int) -> list[str]:
    """The lines of a launch or call of a kernel on arguments of these names, and the contents of a merged kernel."""
    pairs = list(zip(names, kernel.arguments, strict=True))
    written = "output" if any(a.role == "output" for _, a in pairs) else "scratch"  # for one that packs an operand
    outs, ins = [n for n, a in pairs if a.role == written], _counted([n for n, a in pairs if a.role != written])
    items = plural(kernel.items, "worker" if kernel.persistent else "item")
    head = f"{'  ' * depth}{', '.join(outs)} = {kernel.name}({', '.join(ins)})  [{items}]"
    return [head, *_inside(kernel, names, depth + 1)]


def _counted(names: Sequence[str]) -> list[str]:
    """Names, with consecutive repetitions collapsed: launches repeat their first buffer to pad their arguments."""
    runs = [(name, len(list(run))) for name, run in groupby(names)]
    return [name if count == 1 else f"{name} x {count}" for name, count in runs]


def _inside(kernel: Kernel, names: Sequence[str], depth: int) -> list[str]:
    """The calls that a merged kernel makes, in its control flow."""
    pad = "  " * depth

    def passed(call: KernelCall) -> list[str]:
        parts = dict(call.offsets)
        return [names[a] + (f"[{parts[n]}]" if n in parts else "") for n, a in enumerate(call.arguments)]

    def calls(kernel_calls: Iterable[KernelCall], depth: int) -> list[str]:
        lines: list[str] = []
        for call in kernel_calls:
            lines += _called(kernel.calls[call.kernel], passed(call), depth)
        return lines

    def repeated(count: int) -> tuple[list[str], int]:
        return ([f"{pad}repeat {count} times"], depth + 1) if count > 1 else ([], depth)

    match kernel.body:
        case MergedBody(sections, trip_count):
            lines, depth = repeated(trip_count)
            return lines + calls((c for section in sections for c in section.calls), depth)
        case IterationsBody(count, call):
            return [f"{pad}in each of {count} work items", *calls([call], depth + 1)]
        case PersistentBody(phases, trip_count):
            lines, depth = repeated(trip_count)
            number, count = 0, sum(not isinstance(phase, ExitPhase) for phase in phases)
            for phase in phases:
                if isinstance(phase, ExitPhase):
                    lines.append(f"{'  ' * depth}leave unless {names[phase.predicate]}")
                    continue
                inside = list(calls_of_phase(phase))
                title = f"phase {number + 1} of {count}"
                if isinstance(phase, TiledPhase):
                    title += f" over {prod(a.count for a in phase.axes)} tiles"
                elif len(inside) > 1:
                    title += f", {phase_name(kernel.name, number)}"
                lines += [f"{'  ' * depth}{title}", *calls(inside, depth + 1)]
                number += 1
            return lines
        case CountedLoopBody(trip_count, kernel_calls):
            return [f"{pad}repeat {trip_count} times", *calls(kernel_calls, depth + 1)]
        case WhileLoopBody(test, predicate, kernel_calls):
            head = [f"{pad}loop", *calls(test, depth + 1), f"{pad}while {names[predicate]}"]
            return head + calls(kernel_calls, depth + 1)
        case ConditionalBody(index, _, branches):
            lines = [f"{pad}branch on {names[index]}"]
            for n, kernel_calls in enumerate(branches):
                lines += [f"{pad} case {n}", *calls(kernel_calls, depth + 1)]
            return lines
        case FrameBody(call):
            return _inside(kernel.calls[call.kernel], passed(call), depth)
    return []


def phase_name(kernel: str, number: int) -> str:
    """The name of a phase of several kernels; its number counts only phases that call any, from 0."""
    return f"{kernel}.{number}"


def _used(steps: Iterable[Step]) -> Iterator[int]:
    """The numbers of the buffers that steps read and write."""
    for step in all_steps(steps):
        match step:
            case Launch(_, buffers):
                yield from buffers
            case Copy(source, target):
                yield from (source, target)
            case HostCall(_, operands, results):
                yield from (*operands, *results)
            case LibraryCall():
                yield from (*step.operands, *step.written)
            case Loop(_, predicate):
                yield predicate
            case Repeat(_, _, counter, table):
                yield from (b for b in (counter, table) if b is not None)
            case Branch(index):
                yield index


def renumbered(steps: tuple[Step, ...], kernels: Sequence[Kernel]) -> tuple[tuple[Step, ...], tuple[Kernel, ...]]:
    """The steps, and only those kernels that they launch or that have no work, renumbered."""
    used: dict[int, int] = {}
    launched = {s.kernel for s in launches(steps)}
    for n, kernel in enumerate(kernels):
        if n in launched or not kernel.items:
            used[n] = len(used)

    def renumber(step: Step) -> Step:
        match step:
            case Launch(kernel, buffers):
                return Launch(used[kernel], buffers)
            case Loop(condition, _, body):
                return replace(step, condition=tuple(map(renumber, condition)), body=tuple(map(renumber, body)))
            case Repeat(trip_count, body, counter, table):
                return Repeat(trip_count, tuple(map(renumber, body)), counter, table)
            case Branch(index, branches):
                return Branch(index, tuple(tuple(map(renumber, b)) for b in branches))
        return step

    return tuple(map(renumber, steps)), tuple(kernels[n] for n in used)


def without_tiles(buffers: Sequence[Buffer], steps: tuple[Step, ...]) -> tuple[tuple[Buffer, ...], tuple[Step, ...]]:
    """The buffers without the tiles of others, and the steps, which refer to none of those, renumbered to match."""
    whole = [n for n, b in enumerate(buffers) if b.space != TILE]
    number = {n: k for k, n in enumerate(whole)}

    def renumber(step: Step) -> Step:
        match step:
            case Launch(kernel, used):
                return Launch(kernel, tuple(number[b] for b in used))
            case Copy(source, target):
                return Copy(number[source], number[target])
            case HostCall(_, operands, results):
                return replace(
                    step, operands=tuple(number[b] for b in operands), results=tuple(number[b] for b in results)
                )
            case LibraryCall():
                written = tuple(None if b is None else number[b] for b in step.results)
                return replace(step, operands=tuple(number[b] for b in step.operands), results=written)
            case Loop(condition, predicate, body):
                parts = tuple(map(renumber, condition)), tuple(map(renumber, body))
                return replace(step, condition=parts[0], predicate=number[predicate], body=parts[1])
            case Repeat(trip_count, body, counter, table):
                counted = (None, None) if counter is None or table is None else (number[counter], number[table])
                return Repeat(trip_count, tuple(map(renumber, body)), *counted)
            case Branch(index, branches):
                return Branch(number[index], tuple(tuple(map(renumber, b)) for b in branches))
        return step

    if len(whole) == len(buffers):
        return tuple(buffers), steps
    return tuple(buffers[n] for n in whole), tuple(map(renumber, steps))


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each loop and branch followed by the steps in it, each once."""
    for step in steps:
        yield step
        match step:
            case Loop(condition, _, body):
                yield from all_steps((*condition, *body))
            case Repeat(_, body):
                yield from all_steps(body)
            case Branch(_, branches):
                for b in branches:
                    yield from all_steps(b)


def launch_count(steps: Iterable[Step]) -> int:
    """The number of launches and copies that steps make, where each loop that ends by a predicate has one iteration,
    and all branches are taken."""
    count = 0
    for step in steps:
        match step:
            case Loop(condition, _, body):
                count += launch_count((*condition, *body))
            case Repeat(trip_count, body):
                count += trip_count * launch_count(body)
            case Branch(_, branches):
                count += sum(map(launch_count, branches))
            case Launch() | Copy():
                count += 1
    return count


def launches(steps: Iterable[Step]) -> Iterator[Launch]:
    """The launches among steps, also within loops and branches, each once."""
    return (step for step in all_steps(steps) if isinstance(step, Launch))
