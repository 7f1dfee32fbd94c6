"""What is known of the element types: their numbers; which of them an operation takes says the specification."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.accepted_types import accepted
from refxla_spec.types import ElementType

__all__ = ["COLUMNS", "FLOAT_COLUMNS", "accepted", "float_row", "row"]

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
