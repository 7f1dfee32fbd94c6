"""Constants of every type: with all their digits, of many elements, nearly all of them equal, alone and as operands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.text import format_literal
from refxla_spec.types import ELEMENT_TYPES, ElementType

from .. import Case, seeded
from ..building import Program, by_type, random_values, several, shape
from ..values import edges, random_bits

MATRIX = (37, 29)  # more elements than a compiler writes into the text of a kernel
TYPES = ("pred", "s8", "u16", "s32", "u64", "bf16", "f16", "f32", "f64", "c64", "c128")


def cases(thorough: bool) -> Iterator[Case]:
    """Tables of edge values and random bits, matrices, then constants as operands."""

    def tables(t: ElementType, first: int) -> Program:
        rng = seeded(f"constant/{t}")
        table = np.concatenate([edges(t), random_bits(rng, t, 32)])
        if t.is_complex:
            table = table[~_is_large(table)]  # these have a case of their own: XLA's parser accepts none of them
        scalars = [random_bits(rng, t, 1).reshape(()), random_values(rng, t)]
        return [], [_constant(t, value) for value in (table, *scalars)], ""

    yield from by_type("constant", "", thorough, tables)
    for name in ("c64", "c128"):
        table = edges(ELEMENT_TYPES[name])
        yield several("constant", f"largest_{name}", [_constant(ELEMENT_TYPES[name], table[_is_large(table)])])
    for name in TYPES:
        t = ELEMENT_TYPES[name]
        rng = seeded(f"constant/matrix_{t}")
        x, value = random_values(rng, t, MATRIX), random_values(rng, t)
        lines = [_constant(t, v) for v in (x, *_nearly_equal(value, ~value if t.kind == "pred" else value + value))]
        yield several("constant", f"matrix_{t}", lines)
    for name in ("f32", "f64", "s64", "bf16"):
        t = ELEMENT_TYPES[name]
        rng = seeded(f"constant/operand_{t}")
        x, y = random_values(rng, t, MATRIX), random_values(rng, t, MATRIX)
        k = random_values(rng, t)
        constants = f"""m = {_constant(t, y)}
                        k = {_constant(t, k)}
                        b = {shape(t, MATRIX)} broadcast(k), dimensions={{}}
                     """
        yield several("constant", f"operand_{t}", ["_ multiply(p0, m)", "_ multiply(p0, b)"], x, constants=constants)
    yield from _of_several_dimensions()


def _of_several_dimensions() -> Iterator[Case]:
    """Constants of three, four and five dimensions, with equally many elements, of types of four bytes, one and
    eight."""
    for name, dims in (("f32", (7, 11, 17)), ("s8", (3, 5, 9, 11)), ("f64", (2, 3, 5, 7, 11))):
        x = random_values(seeded(f"constant/dimensions_{name}"), name, dims)
        yield several("constant", f"rank_{len(dims)}_{name}", [_constant(ELEMENT_TYPES[name], x)])


def _constant(t: ElementType, value: np.ndarray) -> str:
    return f"{shape(t, np.shape(value))} constant({format_literal(value, with_shape=False)})"


def _is_large(numbers: np.ndarray) -> np.ndarray:
    """Which complex numbers have the largest finite number of their type as a part."""
    most = np.finfo(numbers.dtype).max
    return np.asarray((np.abs(numbers.real) == most) | (np.abs(numbers.imag) == most))


def _nearly_equal(value: np.ndarray, other: np.ndarray) -> Iterator[np.ndarray]:
    """All elements are equal, or all but one: the last, one in the middle, the first."""
    count = MATRIX[0] * MATRIX[1]
    yield np.full(MATRIX, value)
    for place in (count - 1, count // 2, 0):
        array = np.full(count, value)
        array[place] = other
        yield array.reshape(MATRIX)
