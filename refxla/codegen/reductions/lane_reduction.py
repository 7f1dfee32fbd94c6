"""The lanes of a row's accumulators as vectors: filled, and combined, without loops.

Clang makes the same vectors of loops over lanes, but each loop takes it milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from .. import scalar
from ..elemental_rules import accumulator_types, binary_opcode

if TYPE_CHECKING:
    from .reduction import _Reduction

_BYTES = 32  # of the vectors that the prelude has functions for
_ELEMENTS = {"f32": _BYTES // 4, "f64": _BYTES // 8}
_COMBINED = {
    "add": "({a} + {b})",
    "multiply": "({a} * {b})",
    "maximum": "rx_maximum_{vector}({a}, {b})",
    "minimum": "rx_minimum_{vector}({a}, {b})",
}


def vector_width(owner: _Reduction, name: str) -> int:
    """How many lanes of accumulators of type `name` a vector holds; 0 where there are to be none."""
    elements = _ELEMENTS.get(name, 0)
    return elements if owner.target.kind == "cpu" and elements <= min(owner.target.max_vector, owner.tree.lanes) else 0


def fill_lanes(owner: _Reduction, name: str, accumulators: str, start: str) -> None:
    """All lanes begin with the C expression `start`."""
    own = vector_width(owner, name)
    c_type = f"{scalar.register_type(name)}{own}"
    vectors = [f"*({c_type}*)({accumulators} + {k}) = ({c_type})({start});" for k in range(0, owner.tree.lanes, own)]
    owner.block.line(" ".join(vectors))


def combine_lanes(owner: _Reduction, r: Instruction, accumulators: str) -> bool:
    """The total of all lanes goes to the first, each time by halves (reduction_order.py); False where vectors cannot do
    it."""
    name, opcode = accumulator_types(r.attributes["to_apply"])[0], binary_opcode(r.attributes["to_apply"])
    own, combined = vector_width(owner, name), _COMBINED.get(opcode or "")
    if not own or combined is None:
        return False
    c_type = f"{scalar.register_type(name)}{own}"

    def assign(a: str, b: str) -> str:
        vector = owner.elements.names.fresh()
        owner.block.line(f"const {c_type} {vector} = {combined.format(a=a, b=b, vector=f'{name}x{own}')};")
        return vector

    vectors = [f"(*({c_type}*)({accumulators} + {k}))" for k in range(0, owner.tree.lanes, own)]
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [assign(a, b) for a, b in zip(vectors[:half], vectors[half:], strict=True)]
    (total,), half = vectors, own // 2
    while half:
        total = assign(total, f"{total}.s{''.join(f'{lane ^ half:x}' for lane in range(own))}")
        half //= 2
    owner.block.line(f"{accumulators}[0] = {total}.s0;")
    return True
