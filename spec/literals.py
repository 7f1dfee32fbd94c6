"""Literals: the text of values, exact in both directions.

Reading rounds the decimal text once, to nearest, ties to even, into the element type; a finite text that overflows to
infinity is an error. Writing uses the fewest digits that read back as the same value, so reading what was
written gives the same bits, those of NaNs included: `nan` is the quiet NaN without payload, `nan(0x1)` the one
with these mantissa bits, and a sign stands in front. `-0` is negative zero where the type has one: XLA prints it so
(and reads +0).

A dump shortens large constants to `{...}`, whose value is lost. What takes its place is for the reader to say: nothing
(the text is refused), zeros, or numbers at random, by which the program's speed, memory and shapes can still be seen.
"""

from __future__ import annotations

import re
import zlib
from fractions import Fraction
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .errors import InvalidProgramError, ParseError, plural
from .numerics import round_to
from .types import BY_DTYPE, Array, ElementType, Shape, Value

ELIDED = (
    "the text of this constant was elided ({...}), so its value is lost; print the program in full: "
    "with JAX `lowered.compiler_ir('hlo').as_hlo_text(print_large_constants=True)`, with XLA dumps "
    "`--xla_dump_large_constants`, or save it as a proto; to go on with other values in its place, say elided='zeros' "
    "or elided='random' (`--elided` on the command line)"
)

_MOST_PAIRS = 1 << 20  # of empty braces that are written; beyond it {}, which XLA does not read, says the same here
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf(?:inity)?|nan(?:\(0[xX][0-9a-fA-F]+\))?)"
_REAL = re.compile(_NUMBER)
_COMPLEX = re.compile(rf"\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)|({_NUMBER})")
_INTEGER = re.compile(r"[-+]?\d+")
_PRED = re.compile(r"true|false|0|1")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_LAST_COMMA = re.compile(r",(?=\s*\})")
_PAYLOAD = re.compile(r"([-+]?)nan\(0x([0-9a-f]+)\)")


def _is_ieee(dtype: np.dtype) -> bool:
    """Whether the type has infinities, and so NaNs with payloads (f8e4m3fn and the fnuz types have none)."""
    return bool(np.isinf(np.array(np.inf, dtype=np.float32).astype(dtype).astype(np.float64)))


def _bits_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _nan(text: str, dtype: np.dtype) -> Any:
    """The NaN of a type that a text like nan, -nan or -nan(0x12) stands for."""
    match = _PAYLOAD.fullmatch(text)
    value = np.array(-np.nan if text.startswith("-") else np.nan, np.float64).astype(dtype)
    if match is None:
        if not np.isnan(value):
            raise ValueError("the type has no NaN")
        return value
    if not _is_ieee(dtype):
        raise ValueError("the type has no NaN with a payload")
    mantissa = int(ml_dtypes.finfo(dtype).nmant)
    payload = int(match[2], 16)
    if not 0 < payload < 1 << mantissa:
        raise ValueError(f"a NaN's payload has {mantissa} bits and is not 0")
    bits = int(value.view(_bits_type(dtype))) >> mantissa << mantissa | payload
    return np.array(bits, _bits_type(dtype)).view(dtype)


def _round(texts: list[str], exact: Array, dtype: np.dtype) -> Array:
    """Decimal texts, and the doubles nearest to them, rounded into a narrower type as if from the text itself."""
    below, above = (round_to(np.nextafter(exact, to), BY_DTYPE[dtype]) for to in (-np.inf, np.inf))
    near_tie = np.nonzero((below.view(_bits_type(dtype)) != above.view(_bits_type(dtype))) & (exact != 0))[0]
    for i in near_tie:
        if not np.isfinite(exact[i]):
            continue
        error = Fraction(texts[i]) - Fraction(float(exact[i]))
        if error:
            exact[i] = np.nextafter(exact[i], np.inf if error > 0 else -np.inf)
    return round_to(exact, BY_DTYPE[dtype])


def _floats(texts: list[str], dtype: np.dtype) -> Array:
    lowered = [t.lower() for t in texts] if any("N" in t or "I" in t for t in texts) else texts
    nans = [i for i, t in enumerate(lowered) if "nan" in t]
    doubles = np.array([1.0 if "nan" in t else float(t) for t in lowered] if nans else list(map(float, lowered)))
    result = doubles.astype(dtype) if dtype.itemsize == 8 else _round(lowered, doubles, dtype)
    wide = result.astype(np.float64)
    apart = (~np.isfinite(wide) & np.isfinite(doubles)) | (np.isinf(doubles) & ~np.isinf(wide))
    lost: list[int] = np.nonzero(apart)[0].tolist()
    if not lost:
        lost = [i for i in np.nonzero(np.isinf(doubles))[0].tolist() if "inf" not in lowered[i]]
    if lost:
        raise ValueError(f"{texts[lost[0]]} is out of range")
    for i in nans:
        result[i] = _nan(lowered[i], dtype)
    return result


def _integers(texts: list[str], element_type: ElementType) -> Array:
    if any(len(t) > 21 for t in texts):
        raise ValueError(f"{max(texts, key=len)[:21]}... is out of range")
    values = list(map(int, texts))
    signed = element_type.kind == "signed"
    low, high = (
        (-(1 << element_type.bits - 1), (1 << element_type.bits - 1) - 1)
        if signed
        else (
            0,
            (1 << element_type.bits) - 1,
        )
    )
    for v in (min(values, default=low), max(values, default=high)):
        if not low <= v <= high:
            raise ValueError(f"{v} is out of range: {low} to {high}")
    return np.array(values, np.int64 if signed else np.uint64).astype(element_type.dtype)


def _elements(body: str, shape: Shape) -> tuple[Array, str]:
    """The elements of a literal in order, and what is left of the text without them: its braces and commas."""
    kind, dtype = shape.element_type.kind, shape.element_type.array_dtype
    if kind == "complex":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        pairs = [(a or c, b or "0") for a, b, c in _COMPLEX.findall(body)]
        values = np.empty(len(pairs), dtype)
        values.real = _floats([real for real, _ in pairs], part)
        values.imag = _floats([imaginary for _, imaginary in pairs], part)
        rest = _COMPLEX.sub("", body)
    elif kind == "float":
        values, rest = _floats(_REAL.findall(body), dtype), _REAL.sub("", body)
    elif kind == "pred":
        words = _PRED.findall(body)
        values, rest = np.array([w in ("true", "1") for w in words], dtype), _PRED.sub("", body)
    else:
        values, rest = _integers(_INTEGER.findall(body), shape.element_type), _INTEGER.sub("", body)
    return values, "".join(rest.split())


def _written(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that a literal shows: those up to the first of size 0, after which there is nothing to nest."""
    return dimensions[: dimensions.index(0)] if 0 in dimensions else dimensions


def _braces(dimensions: tuple[int, ...]) -> str:
    """The braces and commas of a literal of these dimensions."""
    text = "{}" if 0 in dimensions else ""
    for d in reversed(_written(dimensions)):
        text = "{" + ",".join([text] * d) + "}"
    return text


def filled(shape: Shape, how: str, seed: int = 0) -> Array:
    """An array in the place of elided values, by one of `grammar.ELISIONS`: zeros, or random ones that `seed` decides
    (true and false; integers from 0 to 7, or as many as the type has; normally distributed numbers)."""
    if how == "zeros":
        return np.zeros(shape.dimensions, shape.element_type.dtype)
    rng, kind = np.random.default_rng(seed), shape.element_type.kind
    if kind == "pred":
        return np.asarray(rng.integers(0, 2, shape.dimensions)).astype(np.bool_)
    if kind in ("signed", "unsigned"):
        most = min(7, (1 << shape.element_type.bits - (kind == "signed")) - 1)
        return np.asarray(rng.integers(0, most, shape.dimensions, endpoint=True)).astype(shape.element_type.dtype)
    if kind == "complex":
        parts = rng.standard_normal((2, *shape.dimensions))
        return np.asarray(parts[0] + 1j * parts[1]).astype(shape.element_type.dtype)
    return round_to(np.asarray(rng.standard_normal(shape.dimensions)), shape.element_type)


def parse_array(text: str, shape: Shape, elided: str | None = None) -> Array:
    """The value of a literal's text (`{ { 1, 2 }, { 3, 4 } }`, nested as the shape or all in one pair of braces).

    A comma may stand after the last element, as XLA reads it. An array of one element, or of zeros alone, may be
    written as that number. (XLA reads any number so, as the first
    element, with zeros after it: whoever writes `f32[3] constant(1)` means something else, so it is refused.) `elided`
    says what takes the place of `{...}`: see `filled`.

    Raises ParseError (without a place) when the text is no literal of the element type, or an elided one; and
    InvalidProgramError when it is one of another shape.
    """
    body = _COMMENT.sub("", text)
    if "..." in body:
        if elided is None:
            raise ParseError(ELIDED)
        return filled(shape, elided, zlib.crc32(str(shape.without_layout()).encode()))
    try:
        values, rest = _elements(body, shape)
    except (ValueError, OverflowError) as problem:
        raise ParseError(f"{shape.element_type} literal: {problem}") from None
    stray = re.search(r"[^{},]+", rest)
    if stray:
        raise ParseError(f"{stray.group()[:30]!r} is no {shape.element_type} value")
    if len(values) == shape.size:
        if shape.size:
            flat = "{" + "," * (shape.size - 1) + "}"
            fits = rest in (_braces(shape.dimensions), flat) or (shape.size == 1 and not rest)
        else:  # {} and { {}, {} } say the same
            fits = re.fullmatch(r"[{},]+", rest) is not None and rest.count("{") == rest.count("}")
        if fits:
            return values.reshape(shape.dimensions)
    if len(values) == 1 and not rest and shape.size and _is_zero(values[0]):
        return np.zeros(shape.dimensions, values.dtype)
    if len(values) == 1 and not rest and shape.size > 1:
        raise _misfit(
            f"{shape.without_layout()} has {shape.size} elements, and the literal is one number: write all of them, or "
            "a broadcast of a scalar constant (XLA reads one number as the first element, and zeros after it)"
        )
    if _LAST_COMMA.search(body):
        return parse_array(_LAST_COMMA.sub("", body), shape, elided)
    if len(values) != shape.size:
        raise _misfit(f"{shape.without_layout()} has {plural(shape.size, 'element')}, and the literal {len(values)}")
    raise _misfit(f"the braces of the literal do not nest as {shape.without_layout()} needs")


def _is_zero(value: Any) -> bool:
    """Whether all bits of an element are zero."""
    return not any(np.asarray(value).tobytes())


def _misfit(message: str) -> InvalidProgramError:
    """The error for a literal of another shape than the one stated, which the rule C1 of `constant` forbids."""
    return InvalidProgramError(message, "constant_c1")


def _split(text: str) -> list[str]:
    """The parts of a tuple's text at the commas outside of all brackets."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[(){},]", text):
        bracket = match.group()
        if bracket == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
        elif bracket != ",":
            depth += 1 if bracket in "({" else -1
    return [*parts, text[start:]]


def parse_value(text: str, shape: Shape, elided: str | None = None) -> Value:
    """The value that a text of a shape stands for: an array, or a tuple `(1, {2, 3})`. Errors as `parse_array`."""
    if not shape.is_tuple:
        if not shape.is_array:
            raise ParseError(f"a literal cannot have the shape {shape}")
        return parse_array(text, shape, elided)
    body = _COMMENT.sub("", text).strip()
    if not (body.startswith("(") and body.endswith(")")):
        raise ParseError(f"a literal of shape {shape} is written in parentheses")
    parts = _split(body[1:-1]) if body[1:-1].strip() else []
    if len(parts) != len(shape.elements):
        raise _misfit(f"{shape} has {plural(len(shape.elements), 'element')}, and the literal {len(parts)}")
    return tuple(parse_value(part, element, elided) for part, element in zip(parts, shape.elements, strict=True))


def _small_float_texts(values: Array) -> list[str]:
    """The fewest digits that read back as each value of a type of at most 16 bits."""
    doubles = values.astype(np.float64)
    texts = [repr(d) for d in doubles.tolist()]
    waiting = np.nonzero(np.isfinite(doubles) & (doubles != 0))[0]
    for digits in range(1, 9):
        tried = [f"{doubles[i]:.{digits}g}" for i in waiting]
        numbers = round_to(np.array([float(t) for t in tried]), BY_DTYPE[values.dtype])
        fits = numbers == values[waiting]
        for i, text in zip(waiting[fits], np.array(tried)[fits].tolist(), strict=True):
            texts[i] = text
        waiting = waiting[~fits]
        if not len(waiting):
            break
    return [_short(t) for t in texts]


def _short(text: str) -> str:
    """Without a fraction of zero; but -0.0 keeps it, since XLA reads -0 as an integer and loses the sign."""
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def _float_texts(values: Array) -> list[str]:
    dtype = values.dtype
    if dtype.itemsize >= 4:
        texts = [_short(t) for t in values.astype("U32").tolist()]
    else:
        distinct, where = np.unique(values.view(_bits_type(dtype)), return_inverse=True)
        with np.errstate(invalid="ignore"):  # (casting a signaling NaN)
            distinct_texts = _small_float_texts(distinct.view(dtype))
        texts = [distinct_texts[i] for i in where.tolist()]
    with np.errstate(invalid="ignore"):  # (casting a signaling NaN)
        nans = np.nonzero(np.isnan(values.astype(np.float64)))[0]
    if len(nans):
        bits_type = _bits_type(dtype)
        mantissa, width = int(ml_dtypes.finfo(dtype).nmant), dtype.itemsize * 8
        ieee = _is_ieee(dtype)
        negative = np.array(-np.nan, np.float32).astype(dtype).view(bits_type)
        positive = np.array(np.nan, np.float32).astype(dtype).view(bits_type)
        for i in nans:
            bits = int(values[i].view(bits_type))
            sign = "-" if bits >> width - 1 and negative != positive else ""
            payload = bits & (1 << mantissa) - 1
            plain = not ieee or payload == 1 << mantissa - 1
            texts[i] = f"{sign}nan" if plain else f"{sign}nan(0x{payload:x})"
    return texts


def _texts(values: Array) -> list[str]:
    """The text of each element of a flat array."""
    kind = values.dtype
    if kind == np.bool_:
        return ["true" if v else "false" for v in values.tolist()]
    if kind.kind == "c":
        parts = zip(_float_texts(values.real.copy()), _float_texts(values.imag.copy()), strict=True)
        return [f"({real}, {imaginary})" for real, imaginary in parts]
    if kind.kind in "iu":
        return list(map(str, values.tolist()))
    try:
        ml_dtypes.iinfo(kind)
        return [str(int(v)) for v in values]
    except ValueError:
        return _float_texts(values)


def format_value(value: Value, limit: int | None = None) -> str:
    """The text of a value without its shape; arrays of more than `limit` elements as `{...}`."""
    if isinstance(value, tuple):
        return "(" + ", ".join(format_value(v, limit) for v in value) + ")"
    array = np.asarray(value)
    if limit is not None and array.size > limit:
        return "{...}"
    texts = _texts(np.ascontiguousarray(array).reshape(-1))
    if array.ndim == 0:
        return texts[0]
    if not array.size:
        pairs = prod(_written(array.shape))  # of braces with nothing in them
        return (
            "{...}" if limit is not None and pairs > limit else _braces(array.shape) if pairs <= _MOST_PAIRS else "{}"
        )
    for d in reversed(array.shape):
        texts = ["{" + ", ".join(texts[i : i + d]) + "}" for i in range(0, len(texts), d)]
    return texts[0]
