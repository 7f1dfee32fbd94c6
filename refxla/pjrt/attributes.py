"""JAX's attributes of a program's parameters and results, which StableHLO has and HLO does not: the memory of a device
in which results are placed (in HLO the memory space of a layout), and their order in memory.
"""

from __future__ import annotations

import io
import re
from typing import Any

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import TUPLE

from .._core.pjrt_client import MEMORY_KIND_NAMES
from ..ir.hlo_schema import HloModuleProto

_MEMORY_KIND = "mhlo.memory_kind"
_LAYOUT = "mhlo.layout_mode"
_ORDER = re.compile(r"\{(\d+(?:,\d+)*)")  # the dimensions of a layout, minor to major
_SPACES = (0, 5, 6)  # XLA's numbers, in the order of MEMORY_KIND_NAMES


def with_memory_spaces(hlo: bytes, program: bytes) -> bytes:
    """A serialized HloModuleProto, with the memory spaces of its results as the original StableHLO artifact names
    them."""
    if _MEMORY_KIND.encode() not in program:
        return hlo
    message = HloModuleProto.FromString(hlo)
    for shape, name in zip(_results(message), _values(program, _MEMORY_KIND, "res_attrs"), strict=True):
        shape.layout.memory_space = _SPACES[MEMORY_KIND_NAMES.index(name or MEMORY_KIND_NAMES[0])]
    changed: bytes = message.SerializeToString()
    return changed


def check_layouts(program: bytes) -> None:
    """Raises UnsupportedError if a StableHLO artifact asks for a layout other than the row-major one."""
    if _LAYOUT.encode() not in program:
        return
    for layout in _values(program, _LAYOUT, "arg_attrs", "res_attrs"):
        order = _ORDER.match(layout or "")
        if order and (numbers := [int(n) for n in order[1].split(",")]) != sorted(numbers, reverse=True):
            raise UnsupportedError(
                f"refxla's arrays are row-major, and the program wants one whose dimensions, from minor to major, are "
                f"{order[1]}: leave the layout out, or transpose the array"
            )


def memory_kinds(message: Any) -> tuple[int, ...]:
    """The kind of memory of each result of an HloModuleProto, as its index in MEMORY_KIND_NAMES."""
    return tuple(_SPACES.index(shape.layout.memory_space) for shape in _results(message))


def without_locations(program: bytes) -> bytes:
    """A StableHLO artifact without the places in the user's sources, of which it names one for each operation: equal
    for equal programs, in which function and line they may be written. Not to be read as a StableHLO artifact."""
    out = io.BytesIO()
    with make_ir_context() as context, ir.Location.unknown(context):
        module = ir.Module.parse(program)
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        module.operation.write_bytecode(out)
    return out.getvalue()


def _values(program: bytes, name: str, *groups: str) -> list[str | None]:
    """The values of an attribute of the parameters ("arg_attrs") or results ("res_attrs"); None if there is none."""
    with make_ir_context() as context, ir.Location.unknown(context):
        module = stablehlo.deserialize_portable_artifact(context, program)
        main = ir.SymbolTable(module.operation)["main"].attributes
        return [
            ir.StringAttr(attributes[name]).value if name in attributes else None
            for group in groups
            if group in main
            for attributes in main[group]
        ]


def _results(message: Any) -> list[Any]:
    result = message.host_program_shape.result
    return list(result.tuple_shapes) if result.element_type == TUPLE.number else [result]
