"""`compile`: from a program in any form to something that is called with arrays."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec import interpreter
from refxla_spec.devices import device_counts
from refxla_spec.errors import DeviceError, InputError, UnsupportedError
from refxla_spec.groups import described
from refxla_spec.leniency import reading
from refxla_spec.module import Module
from refxla_spec.types import Shape, Value, leaves
from refxla_spec.verify import verify

from ..analysis.cost_analysis import Cost, Costs, cost_of
from ..codegen.opencl_program import Builder
from ..device.description import Target
from ..frontends import load
from ..ir.fingerprint import Source
from ..ir.plan import Kernel
from ..passes import winograd_convolution as tiles
from ..passes.pipeline import FUSION, TILED_FUSION, optimize
from ..progress import waiting
from ..runtime import calibration
from ..runtime.devices import Device, choose
from ..runtime.executable import Executable
from ..runtime.pocl.parallel_build import Ahead
from ..runtime.program_build import part_size
from ..scheduling.kernel_deduplication import KernelDeduplicator
from ..scheduling.scheduler import PlanningResult, make_plan
from . import autotuner, compilation_cache
from .compilation_cache import Compilation
from .diagnostics import check_values, emit, located
from .dynamic_shapes import Sizes
from .explanation import Explanation

REFERENCE = "reference"


@dataclass(frozen=True)
class Request:
    """What is to be compiled, for what: the program, the device, the passes to leave out, and the target, which says
    how products are cut."""

    source: Source
    device: Device
    without: Collection[str]
    target: Target

    def key(self, what: str = "compilation") -> str | None:
        """Under which the compilation, or what else is known of it, is kept on disk; None: it is not."""
        if self.source.fingerprint is None:
            return None
        return compilation_cache.key(what, self.source.fingerprint, self.device, self.target, self.without)


class Compiled(Executable):
    """A program compiled for a device; see Executable for how it is called, and `compile` for how one is made.

    `hlo` is the program as it came, `optimized_hlo` as the passes left it; `plan` the kernels, steps and memory;
    `opencl` the source of the kernels; `memory` the bytes it needs. Each prints as text. Of a program that was found
    on disk, `hlo`, `optimized_hlo` and `planned` (the plan with its fusions, and how it came about) are made when they
    are asked for.
    """

    def __init__(
        self,
        request: Request,
        made: Compilation,
        planning: tuple[Module, PlanningResult] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        """`planning` is what `plan_module` gave for the request, if it was asked; `ahead` what began to compile it."""
        self._request, self._made = request, made
        if planning is not None:
            self._planning = planning
        super().__init__(made.plan, made.program, request.device, made.cost.operations, ahead)

    @cached_property
    def _planning(self) -> tuple[Module, PlanningResult]:
        return plan_module(self.hlo, self._request.target, self._request.without)

    @property
    def hlo(self) -> Module:
        """The program as it came."""
        return self._request.source.module

    @property
    def optimized_hlo(self) -> Module:
        """The program as the passes left it."""
        return self._planning[0]

    @property
    def planned(self) -> PlanningResult:
        """The plan with its fusions, and how it came about."""
        return self._planning[1]

    def explain(self) -> Explanation:
        """Each kernel, what is in it and what it moves; and for each edge that was not fused, why."""
        return Explanation(self.planned)

    @property
    def arity(self) -> int:
        """How many parameters the program has."""
        return self._made.arity

    @property
    def cost(self) -> Cost:
        """Bytes moved and operations done by one call, as the compiler counts them (a loop counts one turn)."""
        return self._made.cost


class Resizing(Compiled):
    """A Compiled of a program with dynamic shapes, such as f32[<=4]: it takes arrays of any size up to the bounds, and
    gives results at the sizes that they have. `optimized_hlo` and `plan` are of its static form (passes/dynamic)."""

    @cached_property
    def sizes(self) -> Sizes:
        """The bounds and marks of what it takes and gives."""
        return Sizes(*self._made.dynamic)

    def __call__(self, *arguments: Any) -> Any:
        """The results, from the flattened arguments; raises InputError for those that do not fit."""
        results = super().__call__(*self.sizes.arguments(arguments))
        return self.sizes.cut(results if isinstance(results, tuple) else (results,))


class Reference:
    """A program run by the specification's interpreter: slow, and right by definition. Called like a Compiled."""

    def __init__(self, hlo: Module) -> None:
        replicas, partitions = device_counts(hlo)
        if replicas * partitions > 1:
            raise UnsupportedError(
                f"{hlo.name} is a program for {described(replicas, partitions)}, and this is called with the arguments "
                "of one; call refxla_spec.devices.run_devices(module, arguments of each device), or "
                "`refxla run FILE --device reference`"
            )
        self.hlo = hlo
        self.arity = len(hlo.entry.parameters)
        self.device_reason = "the reference interpreter: it was asked for"

    def __call__(self, *arguments: Any) -> Any:
        """The results of the program; raises InputError for arguments that do not fit."""
        parameters = self.hlo.entry.parameters
        shapes = [p.shape for p in parameters]
        values = unflatten_all(arguments, shapes) if any(s.is_tuple for s in shapes) else list(arguments)
        given = [_as_array(v, s) for v, s in zip(values, shapes, strict=False)] + values[len(shapes) :]
        result = interpreter.run(self.hlo, given)
        return tuple(flatten(result)) if self.hlo.entry.root.shape.is_tuple else result

    def __repr__(self) -> str:
        return f"<Reference {self.hlo.name}>"


def compile_module(
    source: Any,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    elided: str | None = None,
) -> Compiled | Reference:
    """Compile an HLO program given as a Source, a Module, text, a path, or a serialized proto; see `refxla.compile`."""
    with reading(lenient):
        if not isinstance(source, (Source, Module)):
            source = load(source, lenient, elided=elided)
        return _compile_read(source, device, without, tune, winograd)


def _compile_read(
    source: Source | Module, device: str | Device | None, without: Collection[str], tune: bool, winograd: bool
) -> Compiled | Reference:
    device = device.name if isinstance(device, Device) else device
    if device is not None and not isinstance(device, str):
        raise InputError(f"device is a {type(device).__name__}: give the name of a device, or one of refxla.devices()")
    if not isinstance(source, Source):
        source = Source.of(source)
    if device == REFERENCE:
        verify(source.module)
        return Reference(source.module)
    try:
        chosen, _ = choose(device)
        request = Request(source, chosen, without, replace(chosen.target, winograd=winograd))
    except DeviceError:
        verify(source.module)  # what is wrong with the program comes first
        raise
    if tune:
        return _tuned(request)
    return compile_request(request)


def compile_request(request: Request) -> Compiled:
    """What is kept on disk for a request, or else built now. Raises as `refxla.compile` does."""
    made = compilation_cache.load(request.key())
    return _built(request) if made is None else _executable(request, made)


def _tuned(request: Request) -> Compiled:
    """A program with its products cut as is quickest on the device: measured now, or known from the cache on disk."""
    source, device, without = request.source, request.device, request.without
    entry = request.key("products")
    names = compilation_cache.load_names(entry)
    choices = None if names is None else autotuner.known(names, device)
    if choices is not None:
        found = replace(request, target=replace(request.target, choices=choices))
        made = compilation_cache.load(found.key())
        if made is not None:
            return _executable(found, made)
    verify(source.module)
    fusions = plan_module(source.module, request.target, without)[1].plan.fusions
    choices = autotuner.tune(fusions, device)
    compilation_cache.save_names(entry, autotuner.products(fusions))
    return _built(replace(request, target=replace(request.target, choices=choices)))


def _built(request: Request) -> Compiled:
    """A program verified, planned, built, and kept on disk. Its kernels are compiled while later ones are made."""
    source, device = request.source, request.device
    with Ahead(device) as ahead, _uncollected():
        ahead.expect(source.size)
        with waiting(f"compiling {source.module.name}"):
            verify(source.module)
            builder = Builder(request.target, part_size(device), ahead.take)
            planning = plan_module(source.module, request.target, request.without, builder.add)
            plan = planning[1].plan
            made = Compilation.of(source.module, plan, builder.program(plan.kernels), cost_of(plan))
            executable = _executable(request, made, planning, ahead)
    compilation_cache.save(request.key(), made)
    calibration.later(device)
    return executable


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Python's collector waits: a compilation keeps nearly all that it makes, which the collector would walk again and
    again, a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _executable(
    request: Request,
    made: Compilation,
    planning: tuple[Module, PlanningResult] | None = None,
    ahead: Ahead | None = None,
) -> Compiled:
    return (Compiled if made.dynamic is None else Resizing)(request, made, planning, ahead)


def plan_module(
    module: Module,
    target: Any,
    without: Collection[str] = (),
    made: Callable[[Kernel], object] | None = None,
) -> tuple[Module, PlanningResult]:
    """The optimized module and its plan for a target; nothing is built yet. `made` is called with kernels that are sure
    to be launched, when they are made.

    Raises UnsupportedError for what has no emitter, with the line of the text it was parsed from.
    """
    try:
        tiled, tilings = tiles.rewritten(module) if target.winograd else (module, ())
        optimized = optimize(tiled, without)
        check_values(optimized)
        fuse = FUSION not in without
        cores = target.compute_units if fuse and target.kind == "cpu" and target.clang else 0
        emitter = KernelDeduplicator(partial(emit, target=target))
        tiled_fusion = TILED_FUSION not in without
        costs = Costs(*target.costs) if target.costs else Costs()
        planned = make_plan(optimized, emitter, costs, fuse, cores, target.persistent, made, tiled_fusion)
        planned.winograd = tilings
        return optimized, planned
    except UnsupportedError as problem:
        raise located(problem, module) from None


def plan_tuned(
    module: Module, device: Device, without: Collection[str] = (), target: Target | None = None
) -> tuple[Module, PlanningResult]:
    """The same, with its products cut as is quickest on the device: measured now, or known from the cache on disk."""
    target = target or device.target
    optimized, planned = plan_module(module, target, without)
    choices = autotuner.tune(planned.plan.fusions, device)
    if not choices:
        return optimized, planned
    return plan_module(module, replace(target, choices=choices), without)


def compile(
    source: Any,
    *arguments: Any,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    elided: str | None = None,
    static_argnums: int | Collection[int] = (),
    static_argnames: str | Collection[str] = (),
) -> Any:
    """Compile a program for an OpenCL device.

    `source` is an HLO program: text, a serialized HloModuleProto, the path of a file with either, or a Module. Or it is
    StableHLO, which jaxlib converts: text, bytecode, a portable artifact, the path of a file with one of them, or a
    jax.export.Exported. The result is a Compiled; it is called with the flattened arrays of the parameters and gives
    the array, or the tuple of arrays, of the result.

    Or `source` is a function of JAX (`jax.jit(f)`), of TensorFlow (`tf.function(f)`) or of NumPy (any other callable),
    compiled for example `arguments` or at its first call. The result takes and gives what the function does; in a class
    it is a method, and a classmethod or staticmethod stays one. Arguments of a function of NumPy or plain JAX that are
    named in `static_argnums` (by their places) or `static_argnames` are part of the program by their values.

    `device` is a device, its name as `refxla devices` lists it, or "reference" for the specification's interpreter;
    None takes what REFXLA_DEVICE says, or the fastest there is. `without` names passes to leave out (OPTIONAL in
    passes/pipeline.py, "fusion" among them), to find a fault. `tune` measures, on the device, how each matrix product
    and convolution is best cut into blocks, which takes some ten seconds for each that was not measured before; what is
    found is kept on disk. The results are the same bits with it and without. `winograd` lets convolutions with windows
    of 3 x 3 be computed in tiles where that is quicker: the same bits on every device, but not those of the
    convolution, whose bound on the error is another then (docs/library.md). The reference takes no notice of the two.
    `lenient` passes over attributes, and fields of protos, that are not known here and say nothing, with a warning.
    `elided` ("zeros" or "random") says what takes the place of constants that a dump shortens to `{...}`.

    Raises ParseError, InvalidProgramError, UnsupportedError or DeviceError, each a refxla.Error.
    """
    if isinstance(source, (Module, str, bytes, bytearray, memoryview, Path)):
        if arguments:
            raise InputError("an HLO program says its own shapes: compile it alone, then call the result with arrays")
        if static_argnums != () or static_argnames != ():
            raise InputError("an HLO program has arrays as its arguments, and none of them is static")
        return compile_module(source, device, without, tune, winograd, lenient, elided)
    from ..frontends import compile_function

    if elided is not None:
        raise InputError("only the text of an HLO program can have elided constants; leave `elided` out")
    static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options = {"device": device, "without": without, "tune": tune, "winograd": winograd, "lenient": lenient}
    return compile_function(source, arguments, {k: v for k, v in static.items() if v != ()}, **options)


def flatten(value: Value) -> list[Any]:
    """The arrays of nested tuples and lists, in order."""
    return [leaf for v in value for leaf in flatten(v)] if isinstance(value, (tuple, list)) else [value]


def unflatten_all(values: Any, shapes: list[Shape]) -> list[Value]:
    """Flat values, or values that are nested already, as one value for each shape."""
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


__all__ = ["Compiled", "Reference", "compile", "compile_module", "flatten", "plan_module", "plan_tuned"]
