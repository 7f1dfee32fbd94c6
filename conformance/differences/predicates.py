"""What the entries of the other files are made of: predicates of cases, and of the elements of their results."""

from __future__ import annotations

from collections.abc import Callable, Collection

import ml_dtypes
import numpy as np
from refxla_spec.compare import distance, ulp
from refxla_spec.module import Instruction
from refxla_spec.numerics import type_of
from refxla_spec.types import leaves

from ..cases import Case
from .difference import Explains

# Of cases.


def of(*opcodes: str) -> Callable[[Case], bool]:
    """Cases of these operations."""
    return lambda case: case.opcode in opcodes


def with_types(opcodes: Collection[str], *types: str) -> Callable[[Case], bool]:
    """Cases of these operations (of any, if none is named) in whose programs one of these element types occurs."""

    def applies(case: Case) -> bool:
        return (not opcodes or case.opcode in opcodes) and not types_of(case).isdisjoint(types)

    return applies


def types_of(case: Case) -> set[str]:
    """The element types of a program's arrays."""
    return {leaf.element_type.name for i in case.module.instructions() for leaf in leaves(i.shape)}


def is_complex(case: Case) -> bool:
    """Cases in whose programs complex numbers occur."""
    return not types_of(case).isdisjoint(("c64", "c128"))


# Of elements.


def site(case: Case, leaf: int) -> Instruction:
    """The instruction that gives a leaf of the entry computation's result: the root, or an operand of its tuple."""
    root = case.module.entry.root
    if root.opcode != "tuple":
        return root
    found = [o for o in root.operands for _ in leaves(o.shape)]
    return found[leaf]


def operands(case: Case, leaf: int) -> list[np.ndarray]:
    """The operands of that instruction that are parameters or constants, as arrays."""
    found = [o for o in site(case, leaf).operands if o.opcode in ("parameter", "constant")]
    return [np.asarray(o.literal if o.opcode == "constant" else case.inputs[o.attributes["number"]]) for o in found]


def where(test: Callable[..., np.ndarray]) -> Explains:
    """Elements of an elementwise operation for which test(expected, *operands) holds.

    Operands of other dimensions than the result are left out.
    """

    def explains(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
        given = [o for o in operands(case, leaf) if o.shape == expected.shape]
        with np.errstate(all="ignore"):
            return np.asarray(test(expected, *given))

    return explains


def where_given(test: Callable[..., np.ndarray]) -> Explains:
    """As `where`, for which test(got, expected, *operands) holds."""

    def explains(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
        return where(lambda *of: test(got, *of))(case, leaf, got, expected)

    return explains


def whole(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """All elements."""
    return np.ones(got.shape, bool)


def parts(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """An array, or the real and the imaginary part of a complex one."""
    return (np.array(x.real), np.array(x.imag)) if type_of(x).is_complex else (x,)


def in_any_part(test: Callable[[np.ndarray], np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Where the test holds for some part of some of the arrays of floats."""
    found = [test(p) for a in arrays if type_of(a).is_float or type_of(a).is_complex for p in parts(a)]
    return np.logical_or.reduce(found) if found else np.zeros(arrays[0].shape, bool)


def subnormal(x: np.ndarray) -> np.ndarray:
    """Where the numbers are subnormal ones of their type."""
    return (x != 0) & (np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal)


def tiny(x: np.ndarray) -> np.ndarray:
    """Where the numbers are subnormal, or the smallest normal one, which a subnormal may have been rounded up to."""
    return (x != 0) & (np.abs(x) <= ml_dtypes.finfo(x.dtype).smallest_normal)


def extreme(x: np.ndarray) -> np.ndarray:
    """Where the numbers are so large or so small that their squares overflow or underflow."""
    info = ml_dtypes.finfo(x.dtype)
    return (x != 0) & ((np.abs(x) > np.sqrt(info.max)) | (np.abs(x) < np.sqrt(info.smallest_normal)))


def not_finite(x: np.ndarray) -> np.ndarray:
    """Where the numbers are infinities or NaN."""
    return ~np.isfinite(x)


def within_ulp(limits: dict[tuple[str, str], float]) -> Explains:
    """Finite results that lie from the expected ones by no more ULPs (of a complex one: of its modulus) than has been
    seen of this operation and element type."""

    def explains(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
        limit = limits.get((site(case, leaf).opcode, type_of(expected).name))
        if limit is None:
            return np.zeros(got.shape, bool)
        with np.errstate(all="ignore"):
            near = distance(got, expected) <= limit * ulp(expected)
            return near & np.isfinite(np.abs(got)) & np.isfinite(np.abs(expected))

    return explains


def near(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the error is that of a few roundings of numbers near 1, or of a quotient by a number near 0."""
    return np.abs(got - expected) <= 16 * np.finfo(got.dtype).eps * np.maximum(1, np.abs(expected) ** 2)
