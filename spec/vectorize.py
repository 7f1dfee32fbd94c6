"""Scalar computations applied to whole arrays, element by element at once.

The computations that reduce, map, sort and scatter call are written for scalars: `add(f32[], f32[])`. Applying them one
element at a time is what HLO says, and slow. A scalar computation made of elementwise operations alone means the
same on arrays: *lifting* it to dimensions D gives every instruction the shape D and repeats every constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .elementwise import is_elementwise
from .module import Computation, Instruction
from .types import Array, Shape, Value

Run = Callable[..., Value]

RESHAPING = frozenset("bitcast broadcast copy reshape transpose reverse".split())  # a scalar keeps its bits
STRUCTURAL = frozenset("parameter constant tuple get-tuple-element opt-barrier".split())
CALLING = frozenset("call fusion map".split())


def run_vectorized(computation: Computation, *arrays: Array, run: Run) -> Value:
    """The computation applied at each position of arrays of equal dimensions.

    Returns an array of those dimensions, or a tuple of them if the computation gives a tuple. A computation that
    cannot be lifted (it holds a loop, say) is run once for each position.
    """
    dimensions = arrays[0].shape
    lifted = lift(computation, dimensions)
    if lifted is not None:
        return run(lifted, *arrays)
    shapes = computation.root.shape.elements or (computation.root.shape,)
    results = [np.empty(dimensions, s.element_type.dtype) for s in shapes]
    for position in np.ndindex(dimensions):
        value = run(computation, *(np.asarray(a[position]) for a in map(np.asarray, arrays)))
        for result, v in zip(results, value if isinstance(value, tuple) else (value,), strict=True):
            result[position] = v
    return tuple(results) if computation.root.shape.is_tuple else results[0]


def lift(computation: Computation, dimensions: tuple[int, ...]) -> Computation | None:
    """The computation on arrays of these dimensions instead of scalars, or None if it is not elementwise."""
    copies: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        lifted = _lift(i, dimensions, copies)
        if lifted is None:
            return None
        copies[i] = lifted
    return Computation(computation.name, list(copies.values()), copies[computation.root])


def _lift(i: Instruction, dimensions: tuple[int, ...], copies: dict[Instruction, Instruction]) -> Instruction | None:
    opcode, attributes = i.opcode, i.attributes
    shape = _lift_shape(i.shape, dimensions)
    if shape is None:  # an array in it already
        return None
    if opcode in CALLING:
        called = {k: lift(c, dimensions) for k, c in attributes.items() if isinstance(c, Computation)}
        if None in called.values():
            return None
        attributes = {**attributes, **called}
        if opcode == "map":  # a map over scalars is a call
            opcode, attributes = "call", called
    elif opcode == "constant":
        attributes = {k: _repeat(v, dimensions) for k, v in attributes.items()}
    elif opcode in RESHAPING and all(o.shape.rank == 0 for o in i.operands) and i.shape.rank == 0:
        # A scalar's bitcast may change its type; of the same type it is the identity too.
        opcode, attributes = "bitcast-convert" if opcode == "bitcast" else "copy", {}
    elif not is_elementwise(opcode) and opcode not in STRUCTURAL:
        return None
    return replace(
        i,
        opcode=opcode,
        shape=shape,
        operands=[copies[o] for o in i.operands],
        attributes=attributes,
        control_predecessors=[copies[o] for o in i.control_predecessors],
    )


def _lift_shape(shape: Shape, dimensions: tuple[int, ...]) -> Shape | None:
    if shape.is_tuple:
        elements = [e for e in (_lift_shape(e, dimensions) for e in shape.elements) if e is not None]
        return Shape.tuple_of(*elements) if len(elements) == len(shape.elements) else None
    return shape.with_dimensions(dimensions) if shape.is_scalar else None


def _repeat(value: Any, dimensions: tuple[int, ...]) -> Any:
    if isinstance(value, tuple):
        return tuple(_repeat(v, dimensions) for v in value)
    return np.broadcast_to(value, dimensions) if isinstance(value, (np.ndarray, np.generic)) else value


def binary_opcode(computation: Computation) -> str | None:
    """The opcode of a computation that is one binary operation on its two scalar parameters, in their order; else None.

    Commutative operations are recognised with the parameters in either order.
    """
    return _combining(computation.root, computation.parameters)


def _combining(root: Instruction, parameters: list[Instruction]) -> str | None:
    if len(parameters) != 2 or len(root.operands) != 2 or root.called:
        return None
    in_order = root.operands == parameters
    swapped = root.operands == parameters[::-1] and root.opcode in COMMUTATIVE
    same_type = all(p.shape.element_type is root.shape.element_type for p in parameters)
    return root.opcode if same_type and (in_order or swapped) else None


def combiners(computation: Computation) -> tuple[str | None, ...]:
    """For each result of a computation on N pairs of scalars, parameters k and N + k, the opcode of the one binary
    operation that combines its own pair; None where it is another value."""
    root, parameters = computation.root, computation.parameters
    if not root.shape.is_tuple:
        return (binary_opcode(computation),)
    count = len(parameters) // 2
    if root.opcode != "tuple":
        return (None,) * count
    pairs = zip(parameters[:count], parameters[count:], strict=True)
    return tuple(_combining(part, list(pair)) for part, pair in zip(root.operands, pairs, strict=True))


def components(computation: Computation) -> list[Computation] | None:
    """Of a computation that gives a tuple and combines each of N pairs by one binary operation of its own, the N
    computations that combine one pair each: what it reduces can be reduced apart. None of any other computation."""
    if not computation.root.shape.is_tuple or None in combiners(computation):
        return None
    parameters, count = computation.parameters, len(computation.parameters) // 2
    result = []
    for k, part in enumerate(computation.root.operands):
        pair = {p: replace(p, attributes={"number": n}) for n, p in enumerate((parameters[k], parameters[count + k]))}
        root = replace(part, operands=[pair[o] for o in part.operands])
        result.append(Computation(part.name, [*pair.values(), root], root))
    return result


def widening(computation: Computation) -> tuple[str, Instruction] | None:
    """Of a reducer that widens its floating-point element, and then combines it with what is accumulated by one
    commutative operation: the opcode, and the conversion; of others None."""
    root, parameters = computation.root, computation.parameters
    if len(parameters) != 2 or len(root.operands) != 2 or root.called or root.opcode not in COMMUTATIVE:
        return None
    total, element = parameters
    conversions = [o for o in root.operands if o.opcode == "convert" and o.operands == [element]]
    narrow, wide = element.shape.element_type, root.shape.element_type
    wider = narrow.is_float and wide.is_float and narrow.bits < wide.bits and total.shape.element_type is wide
    if len(conversions) != 1 or total not in root.operands or not wider:
        return None
    return (root.opcode, conversions[0]) if conversions[0].shape.element_type is wide else None


COMMUTATIVE = frozenset("add multiply maximum minimum and or xor".split())
