"""x[mask] with a mask of unknown values: its number of elements depends on values, but much can be computed without it.

A Selection is x together with the mask. Elementwise functions of selections by the same mask are computed for all
elements; sums, extremes and the like use those that the mask selects; x[mask] = value selects between the old elements
and the value. Anything that needs the number of elements is an UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation

from ...passes.cse import IMPURE, attribute_key, key_of
from .array import Traced
from .dispatch import Symbol, require_cast
from .tracing import Tracing
from .untyped import np
from .values import I, array_of, lift, spread


class Selection(Symbol, numpy.lib.mixins.NDArrayOperatorsMixin):
    """`array[mask]`; the mask covers the array's first dimensions."""

    __array_priority__ = 2000

    def __init__(self, array: Traced, mask: Traced) -> None:
        self.build: Tracing = array.build
        self.array, self.mask = array, mask

    @property
    def dtype(self) -> numpy.dtype:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return 1 + self.array.ndim - self.mask.ndim

    @property
    def T(self) -> Selection:
        if self.ndim > 1:
            raise self.unknown_size("transposed")
        return self

    @property  # type: ignore[misc]  # only read
    def __class__(self) -> type:
        return np.ndarray

    def __repr__(self) -> str:
        return f"Selection({self.array!r} by {self.mask!r})"

    def ask(self) -> bool:
        return self.mask.ask()

    def unknown_size(self, what: str) -> UnsupportedError:
        self.ask()
        return UnsupportedError(
            f"x[mask] is {what}, and how many elements it has is not known when the function is compiled: "
            "np.where(mask, x, 0) keeps the shape; of x[mask] itself, elementwise functions, sums, means, extremes, "
            "np.any, np.all and y[mask] = x[mask] have a compiled form; refxla.nonzero(mask, size=n) gives n places"
        )

    # -- elementwise functions
    def __array_ufunc__(self, ufunc: numpy.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method == "reduce":
            return self._reduced(ufunc, *inputs[1:], **options)
        if method != "__call__" or options:
            raise self.unknown_size(f"an operand of np.{ufunc.__name__}.{method}")
        if ufunc.signature is not None:  # of whole arrays, such as np.matmul
            raise self.unknown_size(f"an argument of np.{ufunc.__name__}")
        inputs = tuple(self._of_each(x) for x in inputs)
        for x in (*inputs, *(out or ())):
            if isinstance(x, Selection):
                if x.ndim != self.ndim or not same(x.mask.instruction, self.mask.instruction):
                    raise self.unknown_size("combined with a selection by another mask")
            elif np.ndim(x) >= self.ndim:
                raise self.unknown_size(f"combined with an array of shape {np.shape(x)} by np.{ufunc.__name__}")
        where = {"where": self._wide_mask()} if ufunc is numpy.power else {}  # power raises for some exponents
        array = ufunc(*(x.array if isinstance(x, Selection) else x for x in inputs), **where)
        if isinstance(array, tuple):  # of divmod, say
            if out is not None:
                raise self.unknown_size(f"an argument of np.{ufunc.__name__} with out=")
            return tuple(Selection(part, self.mask) for part in array)
        result = Selection(array, self.mask)
        if out is None:
            return result
        target = out[0]
        if not isinstance(target, Selection):
            raise self.unknown_size("added to an array in place")
        require_cast(ufunc, result.dtype, target.dtype)
        target.array = result.astype(target.dtype).array
        return target

    def _of_each(self, x: Any) -> Any:
        """An operand without a first dimension of size one, which broadcasts over the selection."""
        if isinstance(x, Selection) or not 0 < np.ndim(x) == self.ndim or np.shape(x)[0] != 1:
            return x
        return array_of(self.build, x).reshape(np.shape(x)[1:])

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other == 2 and self.dtype == bool:
            return np.square(self)  # int8
        return super().__pow__(other)

    def astype(self, dtype: Any, **_: Any) -> Selection:
        return Selection(self.array.astype(dtype), self.mask)

    def copy(self) -> Selection:
        return Selection(self.array.copy(), self.mask)

    # -- reductions
    def _wide_mask(self) -> Traced:
        """The mask, with a rank at which it broadcasts over the array."""
        return self.mask.reshape(self.mask.shape + (1,) * (self.array.ndim - self.mask.ndim))

    def _axes(self, axis: Any) -> tuple[int, ...]:
        """The array's dimensions for an axis of the selection."""
        leading = tuple(range(self.mask.ndim))
        if axis is None:
            return tuple(range(self.array.ndim))
        axes = np.lib.array_utils.normalize_axis_tuple(axis, self.ndim)
        if 0 not in axes:
            raise self.unknown_size("reduced along other dimensions than the mask's")
        return leading + tuple(d + self.mask.ndim - 1 for d in axes if d)

    def _reduced(
        self, function: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, **options: Any
    ) -> Any:
        functions = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
                 np.logical_and: np.all, np.logical_or: np.any}  # fmt: skip
        function = functions.get(function, function)
        if keepdims is True or any(v is not None and v is not np._NoValue for v in options.values()):
            raise self.unknown_size("reduced with keepdims, where or initial")
        axes, mask = self._axes(axis), self._wide_mask()
        kinds = {} if dtype is None else {"dtype": dtype}
        if function in (np.max, np.min):
            low = function is np.max
            kind = self.dtype.kind
            if kind in "fc":
                identity: Any = -np.inf if low else np.inf
            elif kind == "b":
                identity = not low
            else:
                identity = getattr(np.iinfo(self.dtype), "min" if low else "max")
            self.build.check(
                np.any(self.mask).instruction, ValueError, f"zero-size array to reduction operation "
                f"{'maximum' if low else 'minimum'} which has no identity",
            )  # fmt: skip
            return function(np.where(mask, self.array, self.dtype.type(identity)), axis=axes)
        if function in (np.sum, np.prod, np.any, np.all, np.mean, np.var, np.std):
            return function(self.array, axis=axes, where=np.broadcast_to(mask, self.array.shape), **kinds)
        raise self.unknown_size(f"an argument of np.{function.__name__}")

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[Any, Any]
    ) -> Any:
        if args and args[0] is self and function in _REDUCTIONS:
            keywords = {k: v for k, v in kwargs.items() if v is not np._NoValue}
            ddof = keywords.pop("ddof", 0)
            if function in (np.var, np.std) and ddof:
                axes = self._axes(keywords.get("axis"))
                mask = np.broadcast_to(self._wide_mask(), self.array.shape)
                return function(self.array, axis=axes, where=mask, ddof=ddof)
            return self._reduced(function, *args[1:], **keywords)
        if function is np.count_nonzero and args[0] is self:
            return np.sum((self.array != 0) & self._wide_mask())
        if function in (np.real, np.imag, np.round, np.nan_to_num, np.clip) and args[0] is self:
            return Selection(function(self.array, *args[1:], **kwargs), self.mask)
        raise self.unknown_size(f"an argument of np.{function.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all"):
            return lambda *args, **kwargs: getattr(np, name)(self, *args, **kwargs)
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.unknown_size(f"asked for its {name}")

    def _size(self, *_: Any, **__: Any) -> Any:
        raise self.unknown_size("asked for its length, iterated, indexed or converted")

    __len__ = __iter__ = __getitem__ = __setitem__ = __array__ = __bool__ = __int__ = __float__ = __index__ = _size
    __format__ = __str__ = _size

    # -- writing
    def write(self, value: Any) -> None:
        """array[mask] = value."""
        array, b = self.array, self.build
        if isinstance(value, Selection):
            if not same(value.mask.instruction, self.mask.instruction):
                raise value.unknown_size("assigned to the places of another mask")
            new = lift(b, value.array, array.dtype)
        else:
            rest = array.shape[self.mask.ndim :]
            shape = np.shape(value)
            if not rest and len(shape) > 1:
                raise TypeError(
                    "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has "
                    f"{len(shape)} dimensions"
                )
            extra = max(0, len(shape) - len(rest))
            if any(n != 1 for n in shape[:extra]):
                raise self.unknown_size(f"assigned an array of shape {shape}")
            value = array_of(b, value).reshape(shape[extra:]) if extra else value
            new = lift(b, value, array.dtype)
        mask = spread(b, self._wide_mask().instruction, array.shape)
        array.assign(b.select(mask, spread(b, new, array.shape), array.instruction))

    def filled(self, other: Any) -> Traced:
        """The array where the mask holds, else another value."""
        return np.where(self._wide_mask(), self.array, other)


_REDUCTIONS = (np.sum, np.prod, np.max, np.min, np.amax, np.amin, np.any, np.all, np.mean, np.var, np.std)


def same(x: I, y: I) -> bool:
    """Whether two instructions compute the same from the same values."""
    waiting, compared = [(x, y)], set()
    while waiting:
        pair = waiting.pop()
        p, q = pair
        if p is q or pair in compared:
            continue
        compared.add(pair)  # otherwise each level of x = x + x * y would double the pairs
        if (p.opcode, p.shape, len(p.operands)) != (q.opcode, q.shape, len(q.operands)) or p.opcode in IMPURE:
            return False
        if p.attributes.keys() != q.attributes.keys():
            return False
        if any(not _same_attribute(p.attributes[name], q.attributes[name]) for name in p.attributes):
            return False
        waiting += zip(p.operands, q.operands, strict=True)
    return True


def _same_attribute(p: Any, q: Any) -> bool:
    if isinstance(p, np.ndarray):  # a constant, which may be NaN
        return attribute_key(p, {}) == attribute_key(q, {})
    return p == q or isinstance(p, Computation) and isinstance(q, Computation) and key_of(p) == key_of(q)
