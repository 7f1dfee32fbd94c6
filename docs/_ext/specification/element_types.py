"""What is known of the element types: their numbers, and which of them an operation takes."""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
from refxla_spec.errors import Error
from refxla_spec.module import Instruction, Module
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape, leaves


@cache
def accepted(opcode: str) -> tuple[str, ...]:
    """The element types of operands for which the operation's own constraints hold in one of its examples.

    Found by writing each type in the place of the operands', of the first operand's alone, or of all that an example
    has. Of an operation without
    array operands it is the type of the result; it is () where no example has arrays.
    """
    found: set[str] = set()
    for example in operations()[opcode].examples:
        own = _data_type(_instruction(parse(example.hlo), opcode))
        if own is not None:
            found.add(own)
            places = [re.compile(rf"\b({types})(?=\[)") for types in (own, "|".join(_ARRAYS))]
            for t in _ARRAYS:
                if t not in found and (
                    any(_takes(opcode, p.sub(t, example.hlo)) for p in places) or _first_takes(opcode, example.hlo, t)
                ):
                    found.add(t)
    return tuple(t for t in _ARRAYS if t in found)


_ARRAYS = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_array)
_CONSTANT = re.compile(r"constant\([^({]*\)")  # a scalar, which another type may not have


def _instruction(module: Module, opcode: str) -> Instruction | None:
    """The first instruction of that opcode."""
    return next((i for c in module.computations for i in c.instructions if i.opcode == opcode), None)


def _data_type(instruction: Instruction | None) -> str | None:
    """The element type of the data that an instruction works on."""
    if instruction is None:
        return None
    shapes = [s for o in instruction.operands or [instruction] for s in leaves(o.shape) if s.is_array]
    types = [s.element_type.name for s in shapes]
    return next((t for t in types if t != "pred"), types[0] if types else None)


def _takes(opcode: str, text: str) -> bool:
    """Whether the constraints of the operation hold in a program, whose results may be stated wrong."""
    for value in "01":  # one of them is a value of every type
        try:
            instruction = _instruction(parse(_CONSTANT.sub(f"constant({value})", text)), opcode)
        except Error:
            continue
        return _holds(instruction, [o.shape for o in instruction.operands])
    return False


def _first_takes(opcode: str, text: str, element_type: str) -> bool:
    """Whether the constraints hold with another element type of the first operand alone."""
    instruction = _instruction(parse(text), opcode)
    shapes = [o.shape for o in instruction.operands]
    if not shapes or not shapes[0].is_array:
        return False
    return _holds(instruction, [shapes[0].with_element_type(ELEMENT_TYPES[element_type]), *shapes[1:]])


def _holds(instruction: Instruction, shapes: list[Shape]) -> bool:
    try:
        result = operations()[instruction.opcode].infer(instruction, *shapes)
    except (Error, ArithmeticError, LookupError, TypeError, ValueError):  # as in the verifier
        return False
    return bool(shapes) or result.compatible(instruction.shape)


COLUMNS = ("type", "kind", "bits", "smallest", "largest", "special values", "NumPy type", "proto")
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
        if t.bits < 32:
            return f"{low}", f"{high}", "—"
        power = t.bits - (t.kind == "signed")
        return f"-2<sup>{power}</sup>" if low else "0", f"2<sup>{power}</sup> - 1", "—"
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
