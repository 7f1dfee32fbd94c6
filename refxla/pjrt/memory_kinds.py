"""In which memory of a device the results of a program lie. JAX says it in StableHLO, as an attribute of each result;
in HLO it is the memory space of the result's layout."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from refxla_spec.types import TUPLE

from .._core.pjrt_client import MEMORY_KIND_NAMES
from ..ir.hlo_schema import HloModuleProto

_ATTRIBUTE = "mhlo.memory_kind"
_SPACES = (0, 5, 6)  # XLA's numbers, in the order of MEMORY_KIND_NAMES


def with_memory_spaces(hlo: bytes, program: bytes) -> bytes:
    """A serialized HloModuleProto, with the memory spaces of its results as the StableHLO artifact that it was made of
    names them."""
    if _ATTRIBUTE.encode() not in program:
        return hlo
    with make_ir_context() as context, ir.Location.unknown(context):
        module = stablehlo.deserialize_portable_artifact(context, program)
        main = ir.SymbolTable(module.operation)["main"]
        names = [
            ir.StringAttr(attributes[_ATTRIBUTE]).value if _ATTRIBUTE in attributes else MEMORY_KIND_NAMES[0]
            for attributes in main.attributes["res_attrs"]
        ]
    message = HloModuleProto.FromString(hlo)
    for shape, name in zip(_results(message), names, strict=True):
        shape.layout.memory_space = _SPACES[MEMORY_KIND_NAMES.index(name)]
    changed: bytes = message.SerializeToString()
    return changed


def memory_kinds(message: Any) -> tuple[int, ...]:
    """The kind of memory of each result of an HloModuleProto, as a number: its place among MEMORY_KIND_NAMES."""
    return tuple(_SPACES.index(shape.layout.memory_space) for shape in _results(message))


def _results(message: Any) -> list[Any]:
    result = message.host_program_shape.result
    return list(result.tuple_shapes) if result.element_type == TUPLE.number else [result]
