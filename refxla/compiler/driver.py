"""Compiles an HLO program to an executable that is called with arrays.

A process that finds its programs in the cache on disk needs neither the passes nor the code generator, which take as
long to import as all the rest: they are imported by the functions that need them.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from refxla_spec import interpreter
from refxla_spec.devices import device_counts
from refxla_spec.errors import DeviceError, InputError, UnsupportedError
from refxla_spec.groups import devices_text
from refxla_spec.leniency import lenient_reading
from refxla_spec.module import Module
from refxla_spec.types import Shape, Value, leaves
from refxla_spec.verify import verify

from ..device.description import Target
from ..ir.calling_convention import CallingConvention
from ..ir.fingerprint import Source
from ..ir.library_calls import is_asked_for
from ..ir.plan import HostCall, all_steps
from ..progress import show_progress
from ..runtime import calibration, device_probe, processor
from ..runtime.devices import REFERENCE, Device, choose
from ..runtime.executable import Executable
from ..runtime.pocl.parallel_build import ParallelBuild
from ..runtime.program_build import Binaries, binaries, can_link, linked_parts, part_size
from ..version import RELEASE
from . import compilation_cache, executable_file, serialization
from .compilation_cache import Compilation
from .executable_file import SavedDevice, SavedExecutable
from .options import Options

_DEFAULTS = Options()

if TYPE_CHECKING:
    from ..analysis.cost_analysis import Cost
    from ..scheduling.scheduler import PlanningResult
    from ..typing import Result
    from .dynamic_shapes import Sizes
    from .explanation import Explanation
    from .kernel_profile import Profile


@dataclass(frozen=True)
class Request:
    """A compilation: the program, the device, the passes to leave out, and the target, which includes the tile
    configurations of products."""

    source: Source
    device: Device
    without: Collection[str]
    target: Target

    def key(self, what: str = "compilation") -> str | None:
        """The key in the cache on disk of this request's compilation, or of another entry about it named by `what`;
        None if the program has no fingerprint, and so is not cached."""
        if self.source.fingerprint is None:
            return None
        return compilation_cache.key(what, self.source.fingerprint, self.device, self.target, self.without)


class Compiled(Executable):
    """A program compiled for a device; see Executable for how it is called, and `compile` for how one is created.

    `hlo` is the original program, `optimized_hlo` the program after the passes; `plan` has the kernels, steps and
    memory; `opencl` is the source of the kernels; `memory` the bytes it needs. Each prints as text. For a program from
    the cache on disk, `hlo`, `optimized_hlo` and `planned` (the plan with its fusions and their reasons) are computed
    when requested.
    """

    def __init__(
        self,
        request: Request,
        compilation: Compilation,
        planning: tuple[Module, PlanningResult] | None = None,
        build: ParallelBuild | None = None,
        machine_code: Binaries | None = None,
        in_background: bool = False,
    ) -> None:
        """`planning` is the result of `plan_module` for the request, if it is available; `build` the build of the
        kernels that is in progress; `machine_code` earlier output of the device's compiler for the kernels;
        `in_background` says that the kernels may be built in the background."""
        self._request, self._compilation = request, compilation
        if planning is not None:
            self._planning = planning
        cost = compilation.cost.operations
        plan, program = compilation.plan, compilation.program
        super().__init__(plan, program, request.device, cost, build, machine_code, in_background)

    @cached_property
    def _planning(self) -> tuple[Module, PlanningResult]:
        from .planning import plan_module

        return plan_module(self.hlo, self._request.target, self._request.without)

    @property
    def hlo(self) -> Module:
        """The original program."""
        return self._request.source.module

    @property
    def optimized_hlo(self) -> Module:
        """The program after the passes."""
        return self._planning[0]

    @property
    def planned(self) -> PlanningResult:
        """The plan with its fusions and their reasons."""
        return self._planning[1]

    def explain(self) -> Explanation:
        """Each kernel with its instructions and the bytes it moves; and why each edge was not fused."""
        from .explanation import Explanation

        return Explanation(self.planned)

    def save(self, path: str | Path) -> None:
        """Writes the executable to a file, which `refxla.load` opens even without the program's source and a compiler:
        it has the kernels as machine code for this device and processor, and the program for all others
        (docs/ahead_of_time.md).

        Raises UnsupportedError for a program that calls functions of this process, InputError if the file cannot be
        written.
        """
        executable_file.write(path, self.saved())

    def saved(
        self, calling: CallingConvention | None = None, program: bytes | None = None, options: bytes = b""
    ) -> SavedExecutable:
        """The file contents of the executable: `calling` says how a function's arguments are passed to it; `program` is
        the HloModuleProto if it was compiled from a module other than `hlo`, and `options` is further data for the
        reader."""
        from ..ir.proto import to_proto  # and Google's protobuf, which a process without protos need not load

        self.wait_until_assembled()
        if any(isinstance(step, HostCall) for step in all_steps(self.plan.steps)):
            raise UnsupportedError(
                f"{self.plan.name} calls functions of this process (callbacks), which no file can hold: leave them out"
            )
        target, device = self._request.target, self.device
        without = self._request.without
        try:
            compilation = serialization.dumps(self._compilation)
        except TypeError as problem:
            raise UnsupportedError(f"{self.plan.name} cannot be saved: {problem}") from None
        machine_code = binaries(device, self.program)
        if self.program.parts and not machine_code:
            warnings.warn(
                f"{device.name} gives no machine code (PoCL does not where POCL_CACHE_DIR is set): {self.plan.name} is "
                "saved with OpenCL C, which is compiled when it is loaded",
                stacklevel=3,
            )
        return SavedExecutable(
            release=RELEASE,
            name=self.plan.name,
            program=to_proto(self.hlo) if program is None else program,
            without=(without,) if isinstance(without, str) else tuple(sorted(without)),
            winograd=target.winograd,
            library_calls=target.library_calls,
            device=saved_device(device, target),
            compilation=compilation,
            binaries=machine_code,
            calling=calling,
            options=options,
        )

    def profile(self, *arguments: object, seconds: float = 1.0) -> Profile:
        """How long each kernel takes in calls with these flattened arguments, with the cost model's time; measured for
        about so many seconds. Arguments that the program writes are changed.

        Raises InputError for arguments that do not fit.
        """
        from ..passes.pipeline import LAUNCH_MERGING
        from .kernel_profile import Profile, timeline

        launches = timeline(self, self.explain(), arguments, seconds / 2)
        kernels = launches
        if any(kernel.calls for kernel in self.plan.kernels):
            without = self._request.without
            left_out = (without,) if isinstance(without, str) else tuple(without)
            unmerged = compile_request(replace(self._request, without=(*left_out, LAUNCH_MERGING)))
            kernels = timeline(unmerged, unmerged.explain(), arguments, seconds / 2)
        return Profile(self.plan.name, self.device.label, launches, kernels)

    @property
    def arity(self) -> int:
        """The number of parameters of the program."""
        return self._compilation.arity

    @property
    def note(self) -> object | None:
        """The note of its Source (ir/fingerprint.py), also if it was compiled by another process."""
        return self._compilation.note

    @property
    def cost(self) -> Cost:
        """Bytes moved and operations executed by one call, as counted by the compiler (a loop counts as one
        iteration)."""
        return self._compilation.cost


class DynamicShapeExecutable(Compiled):
    """A compiled program with dynamic shapes, such as f32[<=4]: it takes arrays of any size up to the bounds, and its
    results have their dynamic sizes. `optimized_hlo` and `plan` are of its static form, which passes/dynamic_padder
    creates."""

    @cached_property
    def sizes(self) -> Sizes:
        """The bounds and the dynamic dimensions of its parameters and results."""
        from .dynamic_shapes import Sizes

        assert self._compilation.dynamic is not None
        return Sizes(*self._compilation.dynamic)

    def profile(self, *arguments: object, seconds: float = 1.0) -> Profile:
        """See `Compiled.profile`."""
        return super().profile(*self.sizes.arguments(arguments), seconds=seconds)

    def __call__(self, *arguments: object) -> Result:
        """The results for the flattened arguments; raises InputError for those that do not fit."""
        results = super().__call__(*self.sizes.arguments(arguments))
        return self.sizes.cut(results if isinstance(results, tuple) else (results,))


def saved_device(device: Device, target: Target) -> SavedDevice:
    """Everything that decides whether the kernels of a file run on a device unchanged. The rates by which fusion was
    decided and the tile configurations of products do not matter."""
    assumed = {
        f.name: getattr(target, f.name)
        for f in fields(Target)
        if f.name not in ("capabilities", "costs", "tile_configurations")
    } | asdict(target.capabilities)
    return SavedDevice(
        name=device.name,
        label=device.label,
        platform=device.platform,
        driver=device.driver,
        kind=device.kind,
        architecture=processor.architecture(),
        instruction_sets=processor.instruction_sets() if device.kind == "cpu" else (),
        target=assumed,
        properties=asdict(device.properties),
        probe=device_probe.entry(device),
    )


class Reference:
    """A program run by the specification's interpreter: slow, and right by definition. Called like a Compiled."""

    def __init__(self, hlo: Module) -> None:
        replicas, partitions = device_counts(hlo)
        if replicas * partitions > 1:
            raise UnsupportedError(
                f"{hlo.name} is a program for {devices_text(replicas, partitions)}, and this is called with the "
                "arguments of one; call refxla_spec.devices.run_devices(module, arguments of each device), or "
                "`refxla run FILE --device reference`"
            )
        self.hlo = hlo
        self.arity = len(hlo.entry.parameters)
        self.device_reason = "the reference interpreter: it was asked for"

    def __call__(self, *arguments: object) -> Result:
        """The results of the program; raises InputError for arguments that do not fit."""
        parameters = self.hlo.entry.parameters
        shapes = [p.shape for p in parameters]
        values = unflatten_all(arguments, shapes) if any(s.is_tuple for s in shapes) else list(arguments)
        inputs = [_as_array(v, s) for v, s in zip(values, shapes, strict=False)] + values[len(shapes) :]
        result = interpreter.run(self.hlo, inputs)
        results = [_of_its_own(r, inputs) for r in flatten(result)]
        return tuple(results) if self.hlo.entry.root.shape.is_tuple else results[0]

    def __repr__(self) -> str:
        return f"<Reference {self.hlo.name}>"


def _of_its_own(result: Any, arguments: Sequence[Any]) -> Any:
    """A result that shares no memory with an argument, so that the caller may change it."""
    if isinstance(result, np.ndarray) and any(
        isinstance(a, np.ndarray) and np.may_share_memory(a, result) for a in arguments
    ):
        return result.copy()
    return result


def compile_module(
    program: Source | Module, options: Options = _DEFAULTS, in_background: bool = False
) -> Compiled | Reference:
    """Compiles an HLO program; see `refxla.compile` for the options and the errors. `in_background`: it may return
    before the device's compiler is done; calls wait for it, and raise its errors."""
    with lenient_reading(options.lenient):
        source = program if isinstance(program, Source) else Source.of(program)
        if options.device == REFERENCE:
            verify(source.module)
            return Reference(source.module)
        try:
            chosen, _ = choose(options.device)
            target = target_of(chosen, options)
        except DeviceError:
            verify(source.module)  # errors in the program come first
            raise
        if not chosen.is_present:
            verify(source.module)
            raise DeviceError(
                f"{chosen.name} ({chosen.label}) is described, not present: `refxla show --opencl --device "
                f"{chosen.name}` shows the code for it, and nothing can run"
            )
        request = Request(source, chosen, options.without, target)
        return _autotune(request) if options.tune else compile_request(request, in_background)


def cached_module(source: Source, options: Options = _DEFAULTS) -> Compiled | None:
    """The executable of a program that was compiled earlier, for the same device and with the same options, from the
    cache on disk; None if it is not there, or if the device cannot be used, which `compile_module` explains."""
    if options.device == REFERENCE or options.tune:
        return None
    try:
        chosen, _ = choose(options.device)
        request = Request(source, chosen, options.without, target_of(chosen, options))
    except DeviceError:
        return None
    compilation = compilation_cache.load(request.key()) if chosen.is_present else None
    return None if compilation is None else _make_executable(request, compilation)


def uses_library(options: Options) -> bool:
    """Whether a program compiled with these options calls a library for linear algebra."""
    if options.device == REFERENCE or not is_asked_for(options.linear_algebra):
        return False
    return target_of(choose(options.device)[0], options).library_calls


def target_of(device: Device, options: Options = _DEFAULTS) -> Target:
    """The compiler's assumptions about a device, and the options."""
    library = is_asked_for(options.linear_algebra) and device.access == "host"
    return replace(device.target, winograd=options.winograd, library_calls=library)


def compile_request(request: Request, in_background: bool = False) -> Compiled:
    """The executable of a request, from the cache on disk or built now. See `compile_module` for `in_background`.
    Raises as `refxla.compile` does."""
    compilation = compilation_cache.load(request.key())
    return _build(request, in_background) if compilation is None else _make_executable(request, compilation)


def _autotune(request: Request) -> Compiled:
    """The executable with the fastest tile configurations on the device: measured now, or from the cache on disk."""
    from . import autotuner
    from .planning import plan_module

    source, device, without = request.source, request.device, request.without
    entry = request.key("products")
    names = compilation_cache.load_names(entry)
    configurations = None if names is None else autotuner.load_configurations(names, device)
    if configurations is not None:
        tuned = replace(request, target=replace(request.target, tile_configurations=configurations))
        compilation = compilation_cache.load(tuned.key())
        if compilation is not None:
            return _make_executable(tuned, compilation)
    verify(source.module)
    fusions = plan_module(source.module, request.target, without)[1].plan.fusions
    configurations = autotuner.tune(fusions, device)
    compilation_cache.save_names(entry, autotuner.products(fusions))
    return _build(replace(request, target=replace(request.target, tile_configurations=configurations)))


def _build(request: Request, in_background: bool = False) -> Compiled:
    """Verifies, plans and builds the program, and stores it on disk. Its first kernels are compiled while later ones
    are emitted."""
    from ..analysis.cost_analysis import cost_of
    from ..codegen.opencl_program import Builder
    from .planning import plan_module

    source, device = request.source, request.device
    with contextlib.ExitStack() as stack, _gc_paused():
        build = stack.enter_context(ParallelBuild(device))
        build.expect(source.size)
        with show_progress(f"compiling {source.module.name}"):
            verify(source.module)
            builder = Builder(request.target, part_size(device), build.take, linked_parts(device), can_link(device))
            planning = plan_module(source.module, request.target, request.without, builder.add)
            plan = planning[1].plan
            compilation = Compilation.of(source.module, plan, builder.program(plan.kernels), cost_of(plan), source.note)
            compilation_cache.save(request.key(), compilation)  # while the last parts are compiled
            executable = _make_executable(request, compilation, planning, build, in_background=in_background)
            stack.pop_all()  # the executable ends the build, perhaps later
    calibration.calibrate_at_exit(device)
    return executable


@contextlib.contextmanager
def _gc_paused() -> Iterator[None]:
    """Pauses Python's garbage collector: a compilation keeps nearly all that it allocates, and traversing that
    repeatedly would take a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _make_executable(
    request: Request,
    compilation: Compilation,
    planning: tuple[Module, PlanningResult] | None = None,
    build: ParallelBuild | None = None,
    machine_code: Binaries | None = None,
    in_background: bool = False,
) -> Compiled:
    executable = Compiled if compilation.dynamic is None else DynamicShapeExecutable
    return executable(request, compilation, planning, build, machine_code, in_background)


def restore_executable(request: Request, compilation: Compilation, machine_code: Binaries) -> Compiled:
    """The executable of a saved compilation, with the kernels as compiled by the device's compiler."""
    return _make_executable(request, compilation, machine_code=machine_code)


def plan_program(module: Module, options: Options = _DEFAULTS) -> tuple[Module, PlanningResult, Device]:
    """The input of a build by `compile_module`: the optimized module, its plan, and the device, which need not be
    present. Raises as `refxla.compile` does, and InputError for the reference, which has no plan."""
    from . import autotuner
    from .planning import plan_module

    if options.device == REFERENCE:
        raise InputError("the reference has no plan and no kernels; name an OpenCL device")
    with lenient_reading(options.lenient):
        verify(module)
        device, _ = choose(options.device)
        target = target_of(device, options)
        planning = plan_module(module, target, options.without)
        if options.tune and (configurations := autotuner.tune(planning[1].plan.fusions, device)):
            planning = plan_module(module, replace(target, tile_configurations=configurations), options.without)
        return *planning, device


def optimized_module(module: Module, options: Options = _DEFAULTS, after: str | None = None) -> Module:
    """The module after all passes, or after those up to `after`. It is the same for all devices except one: linear
    algebra is not expanded if the options ask for a library, although a GPU calls none. Raises as `refxla.compile`
    does."""
    from ..passes.pipeline import optimize
    from ..passes.winograd_convolution import apply_winograd

    with lenient_reading(options.lenient):
        verify(module)
        rewritten = apply_winograd(module)[0] if options.winograd else module
        library = is_asked_for(options.linear_algebra)
        return optimize(rewritten, options.without, after=after, library_calls=library)


def flatten(value: Value) -> list[Any]:
    """The arrays in nested tuples and lists, in order."""
    return [leaf for v in value for leaf in flatten(v)] if isinstance(value, (tuple, list)) else [value]


def unflatten_all(values: Any, shapes: list[Shape]) -> list[Value]:
    """Flat values, or values that are already nested, as one value for each shape."""
    arrays = flatten(list(values))
    if len(arrays) != sum(len(leaves(s)) for s in shapes):
        return list(values)
    flat = iter(arrays)

    def build(shape: Shape) -> Value:
        return tuple(build(e) for e in shape.elements) if shape.is_tuple else next(flat)

    return [build(s) for s in shapes]


def _as_array(value: Any, shape: Shape) -> Value:
    """Python numbers become 0-d arrays of the parameter's type; everything else goes through NumPy."""
    if shape.is_tuple:
        return tuple(_as_array(v, s) for v, s in zip(value, shape.elements, strict=True))
    if isinstance(value, (bool, int, float, complex)) and shape.is_scalar:
        return np.asarray(value).astype(shape.element_type.dtype)
    return np.asarray(value) if shape.is_array else value


__all__ = ["Compiled", "Reference", "compile_module", "flatten", "optimized_module", "plan_program"]
