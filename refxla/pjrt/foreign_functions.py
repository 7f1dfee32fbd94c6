"""Functions of users' libraries that programs call: those that `jax.ffi.register_ffi_target` registers with JAX's CPU,
or with this platform.

Arrays of refxla are in the host's memory, so a handler for the CPU serves as it is. A custom call of it becomes a call
of a host function (passes/host_call_threading.py), which calls the handler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from refxla_spec.custom_calls import TARGETS
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.types import BY_NUMBER, ELEMENT_TYPES

from .._core.foreign_functions import ForeignFunction
from ..frontends.jax_lowerings import PLATFORM
from ..passes.host_call_threading import HOST_CALL
from ..runtime.host_calls import HostFunction

_CPU = "Host"  # JAX's CPU in XLA's registry
_OF_JAXLIB = "xla_"  # how the names of jaxlib's own targets begin: they need data of its client
_TYPED_FFI = 4  # API_VERSION_TYPED_FFI
_ARRAYS = {name: getattr(ir, f"Dense{name}ArrayAttr") for name in ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")}
_ARRAY_TYPES = {"Bool": np.bool_, "F32": np.float32, "F64": np.float64}
_FLOATS = {name: ELEMENT_TYPES[name].dtype for name in ("f16", "bf16", "f32", "f64")}

_register = xla_client.register_custom_call_target
_recorded: dict[tuple[str, str], Mapping[str, Any] | None] = {}  # by XLA's platform and target: `_by_stage`

# An array of a call: the number of its element type, its dimensions, and their order in memory, the innermost first.
Layout = tuple[int, tuple[int, ...], tuple[int, ...]]


def record() -> None:
    """Makes the registrations of handlers known here, earlier and later ones: XLA's registry shows of each only the
    function of its last stage. A second call does nothing."""
    if xla_client.register_custom_call_target is _registered:
        return
    for platform, pending in xla_client._custom_callback.items():  # until the platform's client is created
        for name, handlers, version, *_ in pending:
            _recorded[platform, name] = _by_stage(handlers, version)
    xla_client.register_custom_call_target = _registered


def _registered(name: str, fn: Any, platform: str = "cpu", api_version: int = 0, *traits: Any, **options: Any) -> None:
    """jaxlib's function, which keeps what it is given here, too."""
    _register(name, fn, platform, api_version, *traits, **options)
    _recorded[xla_client.xla_platform_names.get(platform, platform), name] = _by_stage(fn, api_version)


def _by_stage(handlers: Any, version: int) -> Mapping[str, Any] | None:
    """The handlers of a target by their stages; None for XLA's older interface."""
    if version == 0:
        return None
    return handlers if isinstance(handlers, Mapping) else {"execute": handlers}


def register() -> None:
    """Makes JAX keep what is registered for this platform; a second call does nothing. JAX's CPU, whose client is
    created along with this platform's, keeps what is registered for it."""
    xla_client.register_custom_type_handler(PLATFORM, _jax.register_custom_type)
    xla_client.register_custom_call_handler(PLATFORM, _jax.register_custom_call_target)


def with_host_calls(message: Any) -> tuple[HostFunction, ...]:
    """Makes the calls of registered functions in an HloModuleProto calls of host functions. Returns these: they live as
    long as the process, since a handler may have state.

    Raises UnsupportedError for a function with operands, results or attributes that cannot be passed on.
    """
    functions = []
    for computation in message.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for i in computation.instructions:
            if i.opcode != "custom-call" or not _is_foreign(i.custom_call_target):
                continue
            if i.custom_call_api_version != _TYPED_FFI or _handlers(i.custom_call_target) is None:
                raise UnsupportedError(
                    f"{i.name}: the foreign function {i.custom_call_target!r} is of XLA's older interface: register a "
                    "handler of its FFI, jax.ffi.register_ffi_target(name, handler, api_version=1)"
                )
            constraints = i.operand_shapes_with_layout if i.constrain_layout else [shapes[n] for n in i.operand_ids]
            single = not i.shape.tuple_shapes
            results = [i.shape] if single else i.shape.tuple_shapes
            aliases = tuple(
                (tuple(a.output_shape_index)[0] if not single else 0, a.operand_index)
                for a in i.output_operand_aliasing
            )
            function = _host_function(
                i.custom_call_target,
                bytes(i.backend_config),
                tuple(_layout(i, shape) for shape in constraints),
                tuple(_layout(i, shape) for shape in results),
                aliases,
            )
            functions.append(function)
            i.custom_call_target, i.backend_config = HOST_CALL, f"{{key = {function.key} : ui64}}".encode()
            i.constrain_layout = False
            i.ClearField("operand_shapes_with_layout")
            i.ClearField("output_operand_aliasing")
            for shape in results:
                shape.layout.minor_to_major[:] = range(len(shape.dimensions) - 1, -1, -1)
    return tuple(functions)


def _is_foreign(target: str) -> bool:
    """Whether a target is a registered one, and neither one that refxla knows nor jaxlib's own."""
    known = target == HOST_CALL or target in TARGETS or target.startswith(_OF_JAXLIB)
    return not known and _is_registered(target)


def _is_registered(target: str) -> bool:
    return any(
        (platform, target) in _recorded or target in xla_client.custom_call_targets(platform)
        for platform in (PLATFORM, _CPU)
    )


def _handlers(target: str) -> Mapping[str, Any] | None:
    """The handlers of a registered target by their stages; None for XLA's older interface."""
    for platform in (PLATFORM, _CPU):
        if (platform, target) in _recorded:
            return _recorded[platform, target]
        registered = xla_client.custom_call_targets(platform)
        if target in registered:  # by whoever had jaxlib's function before this platform was there
            return registered[target] if isinstance(registered[target], Mapping) else None
    raise KeyError(target)


def _layout(i: Any, shape: Any) -> Layout:
    element_type = BY_NUMBER[shape.element_type]
    if element_type.dtype is None or (element_type.bits < 8 and element_type.kind != "pred"):
        raise UnsupportedError(
            f"{i.name}: the foreign function {i.custom_call_target!r} has an operand or result of type {element_type}, "
            "which cannot be passed to it"
        )
    dimensions = tuple(shape.dimensions)
    order = tuple(shape.layout.minor_to_major) if shape.HasField("layout") else ()
    return shape.element_type, dimensions, order or tuple(range(len(dimensions) - 1, -1, -1))


@cache
def _host_function(
    target: str,
    backend_config: bytes,
    operands: tuple[Layout, ...],
    results: tuple[Layout, ...],
    aliases: tuple[tuple[int, int], ...],
) -> HostFunction:
    """The host function of a call. Calls that differ in nothing share one, with its state."""
    handlers = _handlers(target)
    assert handlers is not None
    function = ForeignFunction(target, handlers, attributes(target, backend_config.decode()))
    types = [number for number, _, _ in (*operands, *results)]
    same = dict(aliases)

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        inputs = [_ordered(array, order) for array, (_, _, order) in zip(arrays, operands, strict=True)]
        outputs = [inputs[same[n]] if n in same else _empty(layout) for n, layout in enumerate(results)]
        function.call(inputs, outputs, types)
        return outputs

    return HostFunction(call)


def _ordered(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """An array whose elements are in memory in an order of dimensions, the innermost first."""
    outermost_first = order[::-1]
    memory: np.ndarray = np.asarray(array.transpose(outermost_first), order="C")
    return np.transpose(memory, np.argsort(outermost_first))


def _empty(layout: Layout) -> np.ndarray:
    number, dimensions, order = layout
    outermost_first = order[::-1]
    memory: np.ndarray = np.empty([dimensions[d] for d in outermost_first], BY_NUMBER[number].dtype)
    return np.transpose(memory, np.argsort(outermost_first))


def attributes(target: str, backend_config: str) -> dict[str, Any]:
    """The attributes of a call, in the form that ForeignFunction takes, from the text of an MLIR dictionary."""
    if not backend_config:
        return {}
    with ir.Context():
        try:
            return {named.name: _value(named.attr) for named in ir.Attribute.parse(backend_config)}
        except ir.MLIRError as problem:
            raise InputError(f"the attributes of {target!r} are no MLIR dictionary: {backend_config}") from problem
        except TypeError as problem:
            raise UnsupportedError(f"the foreign function {target!r}: {problem}") from problem


def _value(attribute: Any) -> Any:
    """An attribute as bytes, an array or a dictionary. Raises TypeError for other kinds."""
    kind = str(getattr(attribute, "type", ""))
    match attribute:
        case ir.DictAttr():
            return {named.name: _value(named.attr) for named in attribute}
        case ir.StringAttr():
            return attribute.value_bytes
        case ir.BoolAttr():
            return np.array(attribute.value, np.bool_)
        case ir.IntegerAttr() if kind.lstrip("sui") in ("8", "16", "32", "64"):
            return np.array(attribute.value, f"{'u' if kind.startswith('u') else 'i'}{int(kind.lstrip('sui')) // 8}")
        case ir.FloatAttr() if kind in _FLOATS:
            return np.array(attribute.value, _FLOATS[kind])
        case ir.DenseElementsAttr() if "complex" not in kind and "bf16" not in kind:  # jaxlib cannot read those
            return np.asarray(attribute).reshape(-1).copy()
    for name, array in _ARRAYS.items():
        if isinstance(attribute, array):
            return np.array(list(attribute), _ARRAY_TYPES.get(name) or f"i{int(name[1:]) // 8}")
    raise TypeError(f"an attribute {attribute} cannot be passed to it")
