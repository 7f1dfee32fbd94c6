"""Fills and combines the lanes of a row's accumulators as vectors, without loops.

Clang vectorizes loops over lanes just as well, but takes milliseconds for each loop.
"""

from __future__ import annotations

from ...analysis.accumulation import commutative_opcode
from .. import scalar
from ..index_printer import c_of
from .accumulators import Accumulators, combine_into, types
from .kernel_body import KernelBody
from .schedule import Vector

_BYTES = 32  # of the vectors that the prelude has functions for
_ELEMENTS = {"f32": _BYTES // 4, "f64": _BYTES // 8}
_COMBINED = {
    "add": "({a} + {b})",
    "multiply": "({a} * {b})",
    "maximum": "rx_maximum_{vector}({a}, {b})",
    "minimum": "rx_minimum_{vector}({a}, {b})",
}


def fill_lanes(body: KernelBody, name: str, array: str, start: str) -> None:
    """Initializes all lanes of an array of type `name` to the C expression `start`."""
    lanes, width = body.schedule.order.lanes, _vector_width(body, name)
    if not width:
        body.block.line(f"for (int l = 0; l < {lanes}; ++l) {array}[l] = {start};")
        return
    c_type = f"{scalar.register_type(name)}{width}"
    vectors = [f"*({c_type}*)({array} + {k}) = ({c_type})({start});" for k in range(0, lanes, width)]
    body.block.line(" ".join(vectors))


def combine_lanes(body: KernelBody, accumulators: Accumulators, vector: Vector) -> None:
    """Combines all lanes into the first one, by halves (analysis/reduction_order.py)."""
    unrolled = body.schedule.rows_unrolled
    if not unrolled and _combine_vectors(body, accumulators):
        return
    half, width = body.schedule.order.lanes // 2, vector.width
    while half:
        width = min(width, half)
        if unrolled or half <= 2 and width > 0:  # no vectors, but a loop would keep all accumulators in memory
            for k in range(half):
                with body.lanes(1) as lane:
                    _combine_halves(body, accumulators, c_of(lane + k), c_of(lane + k + half))
        else:
            with body.lanes(half, Vector(width, half // max(width, 1))) as lane:
                _combine_halves(body, accumulators, c_of(lane), c_of(lane + half))
        half //= 2


def _combine_halves(body: KernelBody, accumulators: Accumulators, low: str, high: str) -> None:
    combine_into(body, accumulators.reduce, accumulators.at(low), accumulators.at(high))


def _combine_vectors(body: KernelBody, accumulators: Accumulators) -> bool:
    """Combines the lanes as vectors. Returns False if that is impossible."""
    reduce, array = accumulators.reduce, accumulators.names[0]
    name, width = types(reduce)[0], _vector_width(body, types(reduce)[0])
    combined = _COMBINED.get(commutative_opcode(reduce.attributes["to_apply"]) or "")
    if not width or combined is None:
        return False
    c_type = f"{scalar.register_type(name)}{width}"

    def assign(a: str, b: str) -> str:
        vector = body.fresh("v")
        body.block.line(f"const {c_type} {vector} = {combined.format(a=a, b=b, vector=f'{name}x{width}')};")
        return vector

    vectors = [f"(*({c_type}*)({array} + {k}))" for k in range(0, body.schedule.order.lanes, width)]
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [assign(a, b) for a, b in zip(vectors[:half], vectors[half:], strict=True)]
    (total,), half = vectors, width // 2
    while half:
        total = assign(total, f"{total}.s{''.join(f'{lane ^ half:x}' for lane in range(width))}")
        half //= 2
    body.block.line(f"{array}[0] = {total}.s0;")
    return True


def _vector_width(body: KernelBody, name: str) -> int:
    """The lanes of type `name` in a vector; 0 if vectors are not to be used."""
    target, width = body.schedule.target, _ELEMENTS.get(name, 0)
    fits = width <= min(target.max_vector, body.schedule.order.lanes)
    return width if target.capabilities.explicit_vectors and fits else 0
