"""What is known of the element types: their numbers, and which of them an operation takes."""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
from refxla_spec.errors import Error
from refxla_spec.module import Module
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES, ElementType, leaves
from refxla_spec.verify import verify


@cache
def accepted(opcode: str) -> tuple[str, ...]:
    """The element types of operands for which the verifier accepts one of the operation's examples.

    Found by writing each type in the place of the one that an example has. Of an operation without array operands it is
    the type of the result; it is () where every example has operands that are no arrays.
    """
    found = set()
    for example in operations()[opcode].examples:
        own = _data_type(parse(example.hlo), opcode)
        if own is not None:
            word = re.compile(rf"\b{own}(?=\[)")
            found |= {t for t in _ARRAYS if t not in found and (t == own or _is_valid(word.sub(t, example.hlo)))}
    return tuple(t for t in _ARRAYS if t in found)


_ARRAYS = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_array)


def _data_type(module: Module, opcode: str) -> str | None:
    """The element type of the data that the first instruction of that opcode works on."""
    instruction = next((i for c in module.computations for i in c.instructions if i.opcode == opcode), None)
    if instruction is None:
        return None
    shapes = [s for o in instruction.operands or [instruction] for s in leaves(o.shape) if s.is_array]
    types = [s.element_type.name for s in shapes]
    return next((t for t in types if t != "pred"), types[0] if types else None)


def _is_valid(text: str) -> bool:
    try:
        verify(parse(text))
    except Error:
        return False
    return True


COLUMNS = ("type", "kind", "bits", "smallest", "largest", "special values", "NumPy type", "in a proto")
FLOAT_COLUMNS = ("type", "sign, exponent, mantissa", "epsilon", "smallest normal", "smallest subnormal", "largest")


def row(t: ElementType) -> tuple[str, ...]:
    """One line of the table of all types; its columns are COLUMNS."""
    smallest, largest, special = _range(t)
    numpy = f"`{t.dtype.name}`" if t.dtype is not None else "—"
    return (f"`{t.name}`", t.kind, str(t.bits or "—"), smallest, largest, special, numpy, str(t.number))


def float_row(t: ElementType) -> tuple[str, ...]:
    """One line of the table of floating-point types; its columns are FLOAT_COLUMNS."""
    f = ml_dtypes.finfo(t.dtype)
    sign = 0 if t.name.endswith("fnu") else 1
    fields = f"{sign}, {t.bits - sign - f.nmant}, {f.nmant}"
    numbers = (f.eps, f.smallest_normal, f.smallest_subnormal, f.max)
    return (f"`{t.name}`", fields, *(f"{float(n):.6g}" for n in numbers))


def _range(t: ElementType) -> tuple[str, str, str]:
    if t.kind == "pred":
        return "false", "true", "—"
    if t.is_integer:
        low = -(1 << t.bits - 1) if t.kind == "signed" else 0
        high = (1 << t.bits - (t.kind == "signed")) - 1
        return f"{low}", f"{high}", "—"
    if t.is_float:
        f = ml_dtypes.finfo(t.dtype)
        return f"{float(f.min):.6g}", f"{float(f.max):.6g}", _special(t.dtype)
    if t.is_complex:
        return "—", "—", f"parts as f{t.bits // 2}"
    return "—", "—", "—"


def _special(dtype: np.dtype) -> str:
    """Which of -0, infinities and NaN a floating-point type has, by asking it."""
    with np.errstate(all="ignore"):
        negative, infinite = np.array([-0.0, np.inf]).astype(dtype).astype(np.float64)
        bits = np.arange(1 << min(8 * dtype.itemsize, 16), dtype=f"u{dtype.itemsize}") if dtype.itemsize <= 2 else None
        values = bits.view(dtype).astype(np.float64) if bits is not None else np.array([0.0, np.nan])
    has = ["-0"] if np.signbit(negative) and negative == 0 else []
    has += ["±inf"] if np.isinf(infinite) else []
    nans = int(np.isnan(values).sum())
    has += [] if not nans else ["one NaN"] if bits is not None and nans == 1 else ["NaNs"]
    return ", ".join(has) or "none"
