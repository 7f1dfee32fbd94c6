"""The building blocks of the entries in the other files: predicates of cases, and of the elements of their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import product

import ml_dtypes
import numpy as np
from refxla_spec.accuracy import max_ulp, rounding_each_step
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import TINY, distance, same_bits, ulp, ulp_distance
from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Instruction
from refxla_spec.numerics import make_complex, type_of
from refxla_spec.operation import operation, operations
from refxla_spec.types import ELEMENT_TYPES, leaves

from ..cases import Case
from ..targets.base import arrays
from .difference import Explains

ELEMENTWISE = frozenset(opcode for opcode in operations() if is_elementwise(opcode))
NARROW = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_float and t.bits <= 16)
STEPS = (
    "batch-norm-grad batch-norm-inference batch-norm-training cholesky convolution dot ragged-dot reduce reduce-window "
    "scaled-dot scatter select-and-scatter triangular-solve"
).split()

# Of cases.


def of(*opcodes: str) -> Callable[[Case], bool]:
    """Cases of these operations."""
    return lambda case: case.opcode in opcodes


def with_types(opcodes: Collection[str], *types: str) -> Callable[[Case], bool]:
    """Cases of these operations (of any, if none is named) whose programs contain one of these element types."""

    def applies(case: Case) -> bool:
        return (not opcodes or case.opcode in opcodes) and not types_of(case).isdisjoint(types)

    return applies


def types_of(case: Case) -> set[str]:
    """The element types of a program's arrays."""
    return {leaf.element_type.name for i in case.module.instructions() for leaf in leaves(i.shape)}


def is_complex(case: Case) -> bool:
    """Cases whose programs contain complex numbers."""
    return not types_of(case).isdisjoint(("c64", "c128"))


# Of elements.


def site(case: Case, leaf: int) -> Instruction:
    """The instruction of a leaf of the entry computation's result: the root, or an operand of its tuple."""
    root = case.module.entry.root
    if root.opcode != "tuple":
        return root
    sources = [o for o in root.operands for _ in leaves(o.shape)]
    return sources[leaf]


def operands(case: Case, leaf: int) -> list[np.ndarray]:
    """The operands of that instruction that are parameters or constants, as arrays."""
    return known_operands(case, site(case, leaf))


def known_operands(case: Case, i: Instruction) -> list[np.ndarray]:
    """The operands of an instruction that are parameters or constants, as arrays."""
    return [known_value(case, o) for o in i.operands if o.opcode in ("parameter", "constant")]


def known_value(case: Case, i: Instruction) -> np.ndarray:
    """A parameter or constant as an array."""
    return np.asarray(i.literal if i.opcode == "constant" else case.inputs[i.attributes["number"]])


def where(test: Callable[..., np.ndarray]) -> Explains:
    """Elements of an elementwise operation for which test(expected, *operands) holds.

    Operands whose dimensions differ from the result's are ignored.
    """

    def explains(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        inputs = [o for o in operands(case, leaf) if o.shape == expected.shape]
        with np.errstate(all="ignore"):
            return np.asarray(test(expected, *inputs))

    return explains


def where_given(test: Callable[..., np.ndarray]) -> Explains:
    """Like `where`, for which test(actual, expected, *operands) holds."""

    def explains(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        return where(lambda *of: test(actual, *of))(case, leaf, actual, expected)

    return explains


def parts(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """An array, or the real and the imaginary part of a complex one."""
    return (np.array(x.real), np.array(x.imag)) if type_of(x).is_complex else (x,)


def in_any_part(test: Callable[[np.ndarray], np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Where the test holds for some part of some of the float arrays."""
    masks = [test(p) for a in arrays if type_of(a).is_float or type_of(a).is_complex for p in parts(a)]
    return np.any(masks, axis=0) if masks else np.zeros(arrays[0].shape, bool)


def vanishes(x: np.ndarray) -> np.ndarray:
    """Where the numbers are zero, or subnormal, so that they are flushed to zero."""
    return np.asarray(subnormal(x) | (x == 0))


def subnormal(x: np.ndarray) -> np.ndarray:
    """Where the numbers are subnormal ones of their type."""
    return np.asarray((x != 0) & (np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal))


def tiny(x: np.ndarray) -> np.ndarray:
    """Where the numbers are subnormal, or the smallest normal one, to which a subnormal may have been rounded."""
    return np.asarray((x != 0) & (np.abs(x) <= ml_dtypes.finfo(x.dtype).smallest_normal))


def extreme(x: np.ndarray) -> np.ndarray:
    """Where the numbers are so large or so small that their squares overflow or underflow."""
    info = ml_dtypes.finfo(x.dtype)
    return np.asarray((x != 0) & ((np.abs(x) > np.sqrt(info.max)) | (np.abs(x) < np.sqrt(info.smallest_normal))))


def not_finite(x: np.ndarray) -> np.ndarray:
    """Where the numbers are infinities or NaN."""
    return np.asarray(~np.isfinite(x))


def within_ulp(limits: dict[tuple[str, str], float]) -> Explains:
    """Finite results that differ from the expected ones by at most the ULPs (for complex ones: of the modulus) that
    have been observed for this operation and element type."""

    def explains(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        limit = limits.get((site(case, leaf).opcode, type_of(expected).name))
        if limit is None:
            return np.zeros(actual.shape, bool)
        with np.errstate(all="ignore"):
            within = distance(actual, expected) <= limit * ulp(expected)
            return np.asarray(within & np.isfinite(np.abs(actual)) & np.isfinite(np.abs(expected)))

    return explains


LIMITS = np.array([1, np.pi / 4, np.pi / 2, np.pi])


def with_parts_lost(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where each part is NaN, infinite or zero, or as large as the expected one within 16 ULPs of the modulus; or, for
    NaN, a limit of the function (1, or an angle)."""
    size = ulp(np.where(np.isfinite(np.abs(expected)), np.abs(expected), 0).astype(expected.real.dtype))
    mask = np.ones(actual.shape, bool)
    for g, e in zip(parts(actual), parts(expected), strict=True):
        limit = np.isnan(e) & (np.abs(np.abs(g)[..., None] - LIMITS).min(-1) < 1e-6)
        mask &= ~np.isfinite(g) | (g == 0) | limit | (np.abs(np.abs(g) - np.abs(e)) <= 16 * size)
    return mask


def evaluated(case: Case, leaf: int, inputs: list[np.ndarray]) -> np.ndarray:
    """The results of the instruction of a leaf for other operands."""
    i = site(case, leaf)
    with np.errstate(all="ignore"):
        return np.asarray(operation(i.opcode).evaluate(i, *inputs))


def with_some_flushed(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elementwise: where the result is, within 4 ULPs, that for some of the subnormal operands replaced by zeros; or
    NaN where a subnormal number is among them."""
    inputs = operands(case, leaf)
    if not (type_of(actual).is_float or type_of(actual).is_complex):
        return np.zeros(actual.shape, bool)
    some = in_any_part(subnormal, *(o for o in inputs if o.shape == actual.shape))
    mask = some & np.isnan(actual)
    for chosen in product((False, True), repeat=len(inputs)):
        value = evaluated(case, leaf, [flushed(o) if f else o for o, f in zip(inputs, chosen, strict=True)])
        with np.errstate(all="ignore"):
            apart = np.maximum(distance(actual, value), TINY)
            mask |= same_bits(actual, value) | (apart <= 4 * ulp(value))
    return np.asarray(mask & some)


def flushed(x: np.ndarray) -> np.ndarray:
    """Zeros of the same sign in place of subnormal numbers."""
    if type_of(x).is_complex:
        return make_complex(*map(flushed, parts(x)))
    if not type_of(x).is_float:
        return x
    return np.where(subnormal(x), np.copysign(np.zeros((), x.dtype), x), x)


def part_of_rounding_at_each_step(shares: Mapping[str, float]) -> Explains:
    """Where the result is within a share of the bounds that would hold if operations of several steps were computed in
    the type of the result, with each step rounded to it: n units of that type for a sum of n terms. The share is the
    largest that has been observed for each of these operations: the worst case of all roundings would let zeros pass,
    and twice the right value. With few steps, two units in the last place may be a larger share. If the order decides
    whether a product underflows, the error is at most 8 of the type's smallest normal numbers."""

    def explains(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        share = shares.get(site(case, leaf).opcode, shares.get(case.opcode))
        return np.zeros(actual.shape, bool) if share is None else _within_share(case, leaf, actual, expected, share)

    return explains


def _within_share(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray, share: float) -> np.ndarray:
    with rounding_each_step():
        _, bounds = run_with_bounds(case.module, case.inputs)
    bound = arrays(bounds)[leaf]
    if not (type_of(actual).is_float or type_of(actual).is_complex):
        return np.zeros(actual.shape, bool)
    least = float(ml_dtypes.finfo(actual.real.dtype).smallest_normal)
    with np.errstate(all="ignore"):
        part = np.maximum(share * bound, np.minimum(bound, 2 * ulp(expected)))
        bound = np.where(np.isfinite(bound), part, 8 * least)
        if type_of(actual).name == "f8e8m0fnu":  # its unit is the number itself
            return ulp_distance(actual, expected) <= 1
        finite = np.isfinite(np.abs(expected)) | ~np.isfinite(np.abs(actual))
        return np.asarray(finite & (distance(actual, expected) <= np.maximum(bound, ulp(expected))))


def to_the_next(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Numbers of a narrow type, where a function is off by one ULP; not for exact operations."""
    i = site(case, leaf)
    if type_of(expected).name not in NARROW or not i.operands:
        return np.zeros(actual.shape, bool)
    if not max_ulp(i.opcode, i.operands[-1].shape.element_type.name):
        return np.zeros(actual.shape, bool)
    with np.errstate(all="ignore"):
        return np.asarray(np.isfinite(expected) & (ulp_distance(actual, expected) <= 1))


def is_near(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the error is that of a few roundings of numbers near 1, or of a quotient by a number near 0."""
    return np.asarray(
        np.abs(actual - expected) <= 16 * np.finfo(actual.dtype).eps * np.maximum(1, np.abs(expected) ** 2)
    )
