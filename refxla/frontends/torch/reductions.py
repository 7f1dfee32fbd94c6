"""Sums, extremes, their positions, cumulative functions, and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from refxla_spec.module import Computation, Instruction, WindowDimension, post_order
from refxla_spec.types import PRED, S32, S64, ElementType, Shape

from ...ir.builder import Build
from .elementwise import is_nan
from .lowering import I, Lowering, axis, highest, lowers, lowest, real_of, reducer, wide

Dims = Sequence[int] | int | None


def axes(x: I, dims: Dims) -> tuple[int, ...]:
    """The reduced dimensions, counted from the front: all if none are given."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return tuple(range(x.shape.rank))
    dims = (dims,) if isinstance(dims, int) else dims
    return tuple(sorted({axis(d, x.shape.rank) for d in dims})) if x.shape.rank else ()


def reduced(b: Lowering, opcode: str, x: I, start: Any, along: tuple[int, ...]) -> I:
    return b.reduce(x, start, along, reducer(opcode, x.shape.element_type)) if along else x


def with_reduced_dimensions(b: Lowering, x: I, like: I, along: tuple[int, ...], keepdim: bool) -> I:
    """With the reduced dimensions as size 1, if requested."""
    dims = tuple(1 if d in along else n for d, n in enumerate(like.shape.dimensions))
    return b.view(x, dims) if keepdim else x


def total(b: Lowering, x: I, along: tuple[int, ...], kind: ElementType) -> I:
    return reduced(b, "add", b.cast(x, kind), 0, along)


@lowers("sum", "sum.dim_IntList")
def sum_(b: Lowering, x: I, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> I:
    own, along = b.result.element_type, axes(x, dims)
    return with_reduced_dimensions(b, b.cast(total(b, x, along, wide(own)), own), x, along, keepdim)


@lowers("mean", "mean.dim")
def mean(b: Lowering, x: I, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> I:
    own, along = b.result.element_type, axes(x, dims)
    value = b.divide(total(b, x, along, wide(own)), prod(x.shape.dimensions[d] for d in along))
    return with_reduced_dimensions(b, b.cast(value, own), x, along, keepdim)


@lowers("prod", "prod.dim_int")
def product(b: Lowering, x: I, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> I:
    own, along = b.result.element_type, axes(x, dims)
    value = b.cast(reduced(b, "multiply", b.cast(x, wide(own)), 1, along), own)
    return with_reduced_dimensions(b, value, x, along, keepdim)


def _extreme(opcode: str, start: Callable[[ElementType], Any], *names: str) -> None:
    def apply(b: Lowering, x: I, dims: Dims = None, keepdim: bool = False) -> I:
        along = axes(x, dims)
        if not all(x.shape.dimensions[d] for d in along):
            b.check(b.scalar(False, PRED), f"{names[0]}: there is no element in a dimension that is reduced")
        return with_reduced_dimensions(b, reduced(b, opcode, x, start(x.shape.element_type), along), x, along, keepdim)

    lowers(*names)(apply)


_extreme("maximum", lowest, "amax", "max")
_extreme("minimum", highest, "amin", "min")


def _logical(opcode: str, start: bool, name: str) -> None:
    def apply(b: Lowering, x: I, dims: Dims = None, keepdim: bool = False) -> I:
        along = axes(x, dims)
        value = with_reduced_dimensions(b, reduced(b, opcode, b.cast(x, PRED), start, along), x, along, keepdim)
        return b.cast(value, b.result.element_type)  # for uint8, PyTorch returns uint8

    lowers(name, f"{name}.dim", f"{name}.dims")(apply)


_logical("or", False, "any")
_logical("and", True, "all")


def _variance(b: Lowering, x: I, dims: Dims, correction: float | None, keepdim: bool) -> tuple[I, I]:
    """(variance, mean), both in the type in which they are computed: squares of distances from the mean."""
    along = axes(x, dims)
    kind = wide(x.shape.element_type)
    x = b.cast(x, kind)
    n = prod(x.shape.dimensions[d] for d in along)
    middle = b.divide(total(b, x, along, kind), n)
    rest = tuple(d for d in range(x.shape.rank) if d not in along)
    distance = b.subtract(x, b.spread(middle, x.shape, rest))
    if kind.is_complex:
        parts, kind = (b.real(distance), b.imag(distance)), real_of(kind)
        squares = total(b, b.add(*(b.multiply(p, p) for p in parts)), along, kind)
    else:
        squares = total(b, b.multiply(distance, distance), along, kind)
    freedom = max(0, n - (1 if correction is None else correction))
    value = b.divide(squares, b.full(freedom, squares.shape))
    return with_reduced_dimensions(b, value, x, along, keepdim), with_reduced_dimensions(b, middle, x, along, keepdim)


@lowers("var.correction")
def var(b: Lowering, x: I, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> I:
    return b.cast(_variance(b, x, dims, correction, keepdim)[0], b.result.element_type)


@lowers("var_mean.correction")
def var_mean(
    b: Lowering, x: I, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> list[I]:
    values = _variance(b, x, dims, correction, keepdim)
    return [b.cast(v, s.element_type) for v, s in zip(values, b.result, strict=True)]


# -- positions of extremes


def place_of(b: Lowering, x: I, dimension: int, largest: bool, places: I | None = None) -> tuple[I, I]:
    """The extreme along a dimension and its first position; a NaN is the extreme. `places` are the elements' numbers,
    by default their own positions."""
    own = x.shape.element_type
    types = (own, S64, own, S64)
    p = [Instruction(f"p{n}", "parameter", Shape(e), [], {"number": n}) for n, e in enumerate(types)]
    inner = Build("better")
    v, i, w, j = p
    better = inner.compare(v, w, direction="GT" if largest else "LT")
    equal = inner.compare(v, w, direction="EQ")
    if own.is_float:
        nan_v, nan_w = (inner.compare(x, x, direction="NE") for x in (v, w))
        better = inner.or_(better, inner.and_(nan_v, inner.not_(nan_w)))
        equal = inner.or_(equal, inner.and_(nan_v, nan_w))
    first = inner.or_(better, inner.and_(equal, inner.compare(i, j, direction="LT")))
    root = inner.tuple(inner.select(first, v, w), inner.select(first, i, j))
    b.count += 1
    computation = Computation(
        f"{b.name}.better.{b.count}", p + [n for n in post_order(root) if n.opcode != "parameter"], root
    )
    start = b.scalar((lowest if largest else highest)(own), own), b.scalar(2**62, S64)
    places = b.iota(S64, x.shape.dimensions, dimension) if places is None else places
    pair = b.make("reduce", x, places, *start, dimensions=(dimension,), to_apply=computation)
    return b.make("get-tuple-element", pair, index=0), b.make("get-tuple-element", pair, index=1)


def _place(name: str, largest: bool) -> None:
    def apply(b: Lowering, x: I, dim: int | None = None, keepdim: bool = False) -> I:
        if not x.shape.rank or not x.shape.size:
            return b.full(0, b.result)
        d = 0 if dim is None else axis(dim, x.shape.rank)
        flat = b.reshape(x, (x.shape.size,)) if dim is None else x
        return b.view(place_of(b, flat, d, largest)[1], b.result.dimensions)

    lowers(name)(apply)


_place("argmax", True)
_place("argmin", False)


def _extreme_and_place(name: str, largest: bool) -> None:
    def apply(b: Lowering, x: I, dim: int, keepdim: bool = False) -> list[I]:
        if not x.shape.rank:
            return [x, b.full(0, b.result[1])]
        pair = place_of(b, x, axis(dim, x.shape.rank), largest)
        return [b.view(f, s.dimensions) for f, s in zip(pair, b.result, strict=True)]

    lowers(name)(apply)


_extreme_and_place("max.dim", True)
_extreme_and_place("min.dim", False)


# -- cumulative


def running(b: Lowering, x: I, d: int, opcode: str, start: Any) -> I:
    """The cumulative sum (or another function) along a dimension."""
    n = x.shape.dimensions[d]
    window = tuple(WindowDimension(n, padding_low=n - 1) if k == d else WindowDimension(1) for k in range(x.shape.rank))
    kind = x.shape.element_type
    return b.make("reduce-window", x, b.scalar(start, kind), window=window, to_apply=reducer(opcode, kind))


def _cumulative(name: str, opcode: str, start: int) -> None:
    def apply(b: Lowering, x: I, dim: int, *, dtype: Any = None) -> I:
        own = b.result.element_type
        x = b.cast(x, wide(own))
        if not x.shape.rank or not x.shape.size:
            return b.cast(x, own)
        return b.cast(running(b, x, axis(dim, x.shape.rank), opcode, start), own)

    lowers(name)(apply)


_cumulative("cumsum", "add", 0)
_cumulative("cumprod", "multiply", 1)


def _cumulative_extreme(name: str, opcode: str, start: Callable[[ElementType], Any]) -> None:
    def apply(b: Lowering, x: I, dim: int) -> list[I]:
        """The cumulative extreme, and its last position; a NaN is the extreme from there on."""
        own = x.shape.element_type
        if not x.shape.rank or not x.shape.size:
            return [x, b.full(0, b.result[1])]
        d = axis(dim, x.shape.rank)
        values = running(b, x, d, opcode, start(own))
        is_new = b.compare(x, values, direction="EQ")
        if own.is_float:
            is_new = b.or_(is_new, is_nan(b, x))
        kind = S32 if x.shape.dimensions[d] < 2**31 else S64  # half of the bytes to read
        places = b.select(is_new, b.iota(kind, x.shape.dimensions, d), 0)
        return [values, b.convert(running(b, places, d, "maximum", 0), S64)]

    lowers(name)(apply)


_cumulative_extreme("cummax", "maximum", lowest)
_cumulative_extreme("cummin", "minimum", highest)


# -- sorting


def sorted_with_places(b: Lowering, x: I, dimension: int, descending: bool) -> tuple[I, I]:
    """The sorted elements and their positions; equal ones keep their order, and a NaN is above all numbers."""
    own = x.shape.element_type
    types = (own, own, S64, S64)
    p = [Instruction(f"p{n}", "parameter", Shape(e), [], {"number": n}) for n, e in enumerate(types)]
    inner = Build("before")
    first, second = (p[1], p[0]) if descending else (p[0], p[1])
    root = inner.compare(first, second, direction="LT")
    if own.is_float:
        nans = [inner.compare(v, v, direction="NE") for v in (first, second)]
        root = inner.or_(root, inner.and_(nans[1], inner.not_(nans[0])))
    b.count += 1
    computation = Computation(
        f"{b.name}.before.{b.count}", p + [n for n in post_order(root) if n.opcode != "parameter"], root
    )
    places = b.iota(S64, x.shape.dimensions, dimension)
    both = b.make("sort", x, places, dimensions=(dimension,), is_stable=True, to_apply=computation)
    return b.make("get-tuple-element", both, index=0), b.make("get-tuple-element", both, index=1)


@lowers("sort")
def sort(b: Lowering, x: I, dim: int = -1, descending: bool = False) -> list[I]:
    if not x.shape.rank:
        return [x, b.full(0, b.result[1])]
    return list(sorted_with_places(b, x, axis(dim, x.shape.rank), descending))


@lowers("sort.stable")
def sort_stable(b: Lowering, x: I, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> list[I]:
    return sort(b, x, dim, descending)


@lowers("argsort", "argsort.stable")
def argsort(b: Lowering, x: I, dim: int = -1, descending: bool = False, stable: bool = False) -> I:
    return sorted_with_places(b, x, axis(dim, x.shape.rank), descending)[1] if x.shape.rank else b.full(0, b.result)


@lowers("topk")
def topk(b: Lowering, x: I, k: int, dim: int = -1, largest: bool = True, in_order: bool = True) -> list[I]:
    if not x.shape.rank:
        return [b.view(v, s.dimensions) for v, s in zip((x, b.full(0, b.result[1])), b.result, strict=True)]
    d = axis(dim, x.shape.rank)
    return [b.cut(v, d, 0, k) for v in sorted_with_places(b, x, d, largest)]
