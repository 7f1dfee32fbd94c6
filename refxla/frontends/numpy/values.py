"""From what a NumPy function is given to instructions, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from refxla_spec.errors import InputError
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE, Shape

from .array import Traced
from .number import Number
from .tracing import Tracing

I = Instruction  # noqa: E741 - the type of every value below


def builder_of(*values: Any) -> Tracing | None:
    for v in values:
        if isinstance(v, (Traced, Number)):
            return v.build
        if isinstance(v, (tuple, list)) and (found := builder_of(*v)) is not None:
            return found
    return None


def lift(b: Tracing, x: Any, dtype: np.dtype | None = None) -> I:
    """The instruction of a value, which may be a constant, converted to a type."""
    if dtype is not None and np.dtype(dtype) not in BY_DTYPE:
        raise InputError(f"a {type(x).__name__} takes part, of the type {np.dtype(dtype)}, which HLO does not have")
    if isinstance(x, Traced):
        value = x.instruction
    elif isinstance(x, Number):
        return b.number(x, np.asarray(x.kind()).dtype if dtype is None else np.dtype(dtype))
    elif isinstance(x, (list, tuple)) and builder_of(x) is not None:
        value = np.stack([wrap(b, lift(b, e)) for e in x]).instruction
    else:
        array = np.asarray(x, dtype)
        value = b.make("constant", shape=Shape.of(array), literal=array)
    return value if dtype is None else b.convert(value, BY_DTYPE[np.dtype(dtype)])


def wrap(b: Tracing, value: I, view_of: Traced | None = None) -> Traced:
    made = Traced(value, b)
    if view_of is not None:  # in NumPy the two share memory
        made.shared = view_of.shared = True
    return made


def spread(b: Tracing, x: I, dimensions: tuple[int, ...]) -> I:
    """NumPy's broadcasting: the last dimensions are aligned, those of size 1 repeat."""
    own = x.shape.dimensions
    if own == dimensions:
        return x
    lead = len(dimensions) - len(own)
    kept = [d for d, n in enumerate(own) if n == dimensions[lead + d]]
    if len(kept) < len(own):
        x = b.reshape(x, tuple(own[d] for d in kept))
    return b.spread(x, Shape(x.shape.element_type, dimensions), tuple(lead + d for d in kept))


def weak(x: Any) -> Any:
    """What `resolve_dtypes` is asked with: a Python number's type, else the dtype."""
    kind = x.kind if isinstance(x, Number) else type(x)
    if kind in (int, float, complex):
        return kind
    if isinstance(x, Number):
        return np.dtype(kind)
    if hasattr(x, "dtype"):
        return x.dtype
    build = builder_of(x)
    return np.asarray(x).dtype if build is None else lift(build, x).shape.element_type.dtype


def promoted(*values: Any) -> np.dtype:
    """The type that values have together; Python's numbers are weak."""
    kinds = (weak(x) for x in values)
    return np.result_type(*(k() if isinstance(k, type) else k for k in kinds))


def truth(b: Tracing, x: I) -> I:
    return x if x.shape.element_type.kind == "pred" else b.compare(x, 0, direction="NE")


def is_nan(b: Tracing, x: I) -> I:
    return b.compare(x, x, direction="NE")


def normal_axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(np.lib.array_utils.normalize_axis_tuple(axis, rank))
