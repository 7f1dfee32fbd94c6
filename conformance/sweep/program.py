"""The HLO program of a sweep.

    sweep(first: u32[]) -> u64[]      over the operands first, first + 1, ... first + count - 1, or, with a stride, one
                                      of each `stride` from first on: another one of each

Operand k is the value with the bits k; for a function of two operands, the upper half of the bits is the first one. The
result is the largest of the words

    error << 32 | k

where error counts 2^-16 ULP of the result's type, and is MISSED if a result that must be exact is not: for an exact
operation each result; for the others, zeros with their sign, infinities and NaN. (A maximum of integers is independent
of order, and gives the operand along with the error.) Some results may be ignored, with an error of 0: those that must
be exact (`regular`), and subnormal numbers, for an implementation that flushes them (`normal`).
"""

from __future__ import annotations

import ml_dtypes
from refxla_spec.compare import precision
from refxla_spec.module import Computation, Instruction, Module, post_order
from refxla_spec.types import ELEMENT_TYPES, F64, U32, U64, ElementType, Shape

from refxla.ir.builder import Build, bigger

from .functions import Function

UNIT = 65536  # errors per ULP
MISSED = 2**32 - 1
SCATTERED = 2654435761  # 2^32 over the golden ratio, odd: its multiples are scattered evenly modulo a power of two


def sweep(function: Function, count: int, regular: bool = False, normal: bool = False, stride: int = 1) -> Module:
    """The program above for `count` operands; `count` and `stride` are powers of two."""
    b = Build("sweep")
    first = Instruction("first", "parameter", Shape(U32), [], {"number": 0})
    index = b.iota(U32, (count,), 0)
    if stride > 1:
        index = b.add(b.multiply(index, stride), b.and_(b.multiply(index, SCATTERED), stride - 1))
    index = b.add(index, b.spread(first, Shape.array(U32, (count,)), ()))
    actual, exact = _both(b, function, index)
    error = _error(b, function, actual, exact, regular)
    if normal:
        left_out = [_has_subnormal_bits(b, word, function.operand) for word in _words(b, function, index)]
        if function.result.is_float:
            left_out.append(_is_subnormal(b, exact, function.result))
        for condition in left_out:
            error = b.select(condition, b.full(0, index.shape), error)
    word = b.or_(b.shift_left(b.convert(error, U64), 32), b.convert(index, U64))
    return _module(b.reduce(word, 0, (0,), bigger(U64)))


def values(function: Function, count: int) -> Module:
    """values(bits: u32[count]) -> (the function's result, in f64; the same computed in f64)."""
    b = Build("values")
    bits = Instruction("bits", "parameter", Shape.array(U32, (count,)), [], {"number": 0})
    actual, exact = _both(b, function, bits)
    return _module(b.tuple(b.convert(actual, F64), b.convert(exact, F64)))


def _module(root: Instruction) -> Module:
    entry = Computation("main", list(post_order(root)), root)
    called = dict.fromkeys(c for i in entry.instructions for c in i.called)
    return Module("sweep", [*called, entry], entry)


def _words(b: Build, function: Function, index: Instruction) -> list[Instruction]:
    """The bits of each operand, as u32."""
    bits = function.operand.bits
    return [index] if function.arity == 1 else [b.shift_right_logical(index, bits), b.and_(index, 2**bits - 1)]


def _both(b: Build, function: Function, index: Instruction) -> tuple[Instruction, Instruction]:
    """The function of the operands with these bits in its own type, and in f64."""
    operands = [_from_bits(b, word, function.operand) for word in _words(b, function, index)]
    wide = [b.convert(operand, F64) for operand in operands]
    if function.opcode == "convert":
        return b.convert(operands[0], function.result), b.convert(wide[0], function.result)
    attributes = dict(function.attributes)
    return b.make(function.opcode, *operands, **attributes), b.make(function.opcode, *wide, **attributes)


def _error(
    b: Build, function: Function, actual: Instruction, exact: Instruction, regular_only: bool = False
) -> Instruction:
    """The error of each result in UNITs, or MISSED, as u32."""
    rounded = b.convert(exact, function.result)
    missed, none = (b.full(error, actual.shape.with_element_type(U32)) for error in (MISSED, 0))
    if not function.result.is_float:
        return b.select(b.compare(actual, rounded, direction="EQ"), none, missed)
    same = b.or_(
        b.compare(_bits(b, actual), _bits(b, rounded), direction="EQ"),
        b.and_(b.compare(actual, actual, direction="NE"), b.compare(rounded, rounded, direction="NE")),
    )
    exactly = b.select(same, none, missed)
    if not function.bound:
        return exactly
    apart = b.divide(b.abs(b.subtract(b.convert(actual, F64), exact)), _ulp(b, exact, function.result))
    units = b.multiply(apart, UNIT)
    measured = b.select(b.compare(units, MISSED - 1, direction="LT"), b.convert(units, U32), missed)
    # Types without infinities or NaN have the nearest number, or -0, in their place.
    inside = b.compare(b.abs(exact), float(ml_dtypes.finfo(function.result.dtype).max), direction="LE")
    regular = b.and_(b.and_(b.is_finite(rounded), inside), b.compare(exact, 0, direction="NE"))
    return b.select(regular, measured, none if regular_only else exactly)


def _has_subnormal_bits(b: Build, words: Instruction, element_type: ElementType) -> Instruction:
    """Whether values with these bits are subnormal: tested without computing with them, since that may flush them."""
    digits, _ = precision(element_type)
    size = b.and_(words, 2 ** (element_type.bits - 1) - 1)
    return b.and_(b.compare(size, 2 ** (digits - 1), direction="LT"), b.compare(size, 0, direction="NE"))


def _is_subnormal(b: Build, wide: Instruction, element_type: ElementType) -> Instruction:
    """Whether values, given in f64, are below the least normal number of a type, and not zero."""
    digits, least = precision(element_type)
    size = b.abs(wide)
    return b.and_(b.compare(size, 2.0 ** (least + digits - 1), direction="LT"), b.compare(size, 0, direction="GT"))


def _ulp(b: Build, exact: Instruction, element_type: ElementType) -> Instruction:
    """One ULP of `element_type` at each value, as f64: its power of two, or the smallest normal one, scaled down."""
    digits, least = precision(element_type)
    mantissa = digits - 1
    power = b.and_(b.bitcast_convert(exact, shape=exact.shape.with_element_type(U64)), 0x7FF << 52)
    power = b.maximum(power, (1023 + least + mantissa) << 52)
    ulp = b.subtract(power, mantissa << 52)
    return b.bitcast_convert(ulp, shape=exact.shape)


def _from_bits(b: Build, words: Instruction, element_type: ElementType) -> Instruction:
    """The values whose bits are the lowest of these u32."""
    narrow = b.convert(words, ELEMENT_TYPES[f"u{element_type.bits}"])
    return b.bitcast_convert(narrow, shape=words.shape.with_element_type(element_type))


def _bits(b: Build, values: Instruction) -> Instruction:
    unsigned = ELEMENT_TYPES[f"u{values.shape.element_type.bits}"]
    return b.bitcast_convert(values, shape=values.shape.with_element_type(unsigned))
