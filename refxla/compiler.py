"""`compile`: from a program in any form to something that is called with arrays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec import interpreter
from refxla_spec.devices import device_counts
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.groups import described
from refxla_spec.module import Module
from refxla_spec.types import Shape, Value, leaves
from refxla_spec.verify import verify

from . import tuning
from .codegen.program import program
from .cost import Cost, cost_of
from .dynamic import Sizes
from .explain import Explanation
from .frontends import load
from .passes.pipeline import FUSION, optimize
from .planner import Planned, make_plan
from .runtime.build import part_size
from .runtime.devices import Device, choose
from .runtime.executable import Executable
from .supported import check_values, emit, located

REFERENCE = "reference"


class Compiled(Executable):
    """A program compiled for a device; see Executable for how it is called, and `compile` for how one is made.

    `hlo` is the program as it came, `optimized_hlo` as the passes left it; `plan` the kernels, steps and memory;
    `opencl` the source of the kernels; `memory` the bytes it needs. Each prints as text.
    """

    def __init__(self, hlo: Module, optimized: Module, planned: Planned, device: Any) -> None:
        self.hlo, self.optimized_hlo, self.planned = hlo, optimized, planned
        plan = planned.plan
        source = program(plan.kernels, device.target, part_size(device))
        super().__init__(plan, source, device, cost_of(plan).operations)

    def explain(self) -> Explanation:
        """Each kernel, what is in it and what it moves; and for each edge that was not fused, why."""
        return Explanation(self.planned)

    @property
    def cost(self) -> Cost:
        """Bytes moved and operations done by one call, as the compiler counts them (a loop counts one turn)."""
        return cost_of(self.plan)


class Resizing(Compiled):
    """A Compiled of a program with dynamic shapes, such as f32[<=4]: it takes arrays of any size up to the bounds, and
    gives results at the sizes that they have. `optimized_hlo` and `plan` are of its static form (passes/dynamic)."""

    def __init__(self, hlo: Module, optimized: Module, planned: Planned, device: Any) -> None:
        super().__init__(hlo, optimized, planned, device)
        root = hlo.entry.root.shape
        parameters = [leaf for p in hlo.entry.parameters for leaf in leaves(p.shape)]
        self.sizes = Sizes(parameters, leaves(root), not root.is_tuple)

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
    source: Any, device: str | Device | None = None, without: Collection[str] = (), tune: bool = False
) -> Compiled | Reference:
    """Compile an HLO program given as a Module, text, a path, or a serialized proto; see `refxla.compile`."""
    device = device.name if isinstance(device, Device) else device
    if device is not None and not isinstance(device, str):
        raise InputError(f"device is a {type(device).__name__}: give the name of a device, or one of refxla.devices()")
    module = source if isinstance(source, Module) else load(source)
    verify(module)
    if device == REFERENCE:
        return Reference(module)
    chosen, _ = choose(device)
    optimized, planned = (plan_tuned if tune else plan_for)(module, chosen, without)
    dynamic = any(s.is_dynamic for s in (*(p.shape for p in module.entry.parameters), module.entry.root.shape))
    return (Resizing if dynamic else Compiled)(module, optimized, planned, chosen)


def plan_module(module: Module, target: Any, without: Collection[str] = ()) -> tuple[Module, Planned]:
    """The optimized module and its plan for a target; nothing is built yet.

    Raises UnsupportedError for what has no emitter, with the line of the text it was parsed from.
    """
    try:
        optimized = optimize(module, without)
        check_values(optimized)
        fuse = FUSION not in without
        cores = target.compute_units if fuse and target.kind == "cpu" and target.clang else 0
        return optimized, make_plan(optimized, partial(emit, target=target), fuse=fuse, merge_for=cores)
    except UnsupportedError as problem:
        raise located(problem, module) from None


def plan_for(module: Module, device: Device, without: Collection[str] = ()) -> tuple[Module, Planned]:
    """The same for a device."""
    return plan_module(module, device.target, without)


def plan_tuned(module: Module, device: Device, without: Collection[str] = ()) -> tuple[Module, Planned]:
    """The same, with its products cut as is quickest on the device: measured now, or known from the cache on disk."""
    optimized, planned = plan_module(module, device.target, without)
    choices = tuning.tune(planned.plan.fusions, device)
    if not choices:
        return optimized, planned
    return plan_module(module, replace(device.target, choices=choices), without)


def compile(
    source: Any,
    *arguments: Any,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
) -> Any:
    """Compile a program for an OpenCL device.

    `source` is an HLO program: text, a serialized HloModuleProto, the path of a file with either, or a Module. Or it is
    StableHLO, which jaxlib converts: text, bytecode, a portable artifact, the path of a file with one of them, or a
    jax.export.Exported. The result is a Compiled; it is called with the flattened arrays of the parameters and gives
    the array, or the tuple of arrays, of the result.

    Or `source` is a function of JAX (`jax.jit(f)`), of TensorFlow (`tf.function(f)`) or of NumPy (any other callable),
    compiled for example `arguments` or at its first call. The result takes and gives what the function does.

    `device` is a device, its name as `refxla devices` lists it, or "reference" for the specification's interpreter;
    None takes what REFXLA_DEVICE says, or the fastest there is. `without` names passes to leave out (OPTIONAL in
    passes/pipeline.py, "fusion" among them), to find a fault. `tune` measures, on the device, how each matrix product
    and convolution is best cut into blocks, which takes some ten seconds for each that was not measured before; what is
    found is kept on disk. The results are the same bits with it and without.

    Raises ParseError, InvalidProgramError, UnsupportedError or DeviceError, each a refxla.Error.
    """
    if isinstance(source, (Module, str, bytes, bytearray, memoryview, Path)):
        if arguments:
            raise InputError("an HLO program says its own shapes: compile it alone, then call the result with arrays")
        return compile_module(source, device, without, tune)
    from .frontends import compile_function

    return compile_function(source, arguments, device=device, without=without, tune=tune)


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
