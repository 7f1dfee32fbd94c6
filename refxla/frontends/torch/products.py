"""Products of matrices, and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refxla_spec.module import ConvolutionDimensions, PaddingDimension, WindowDimension
from refxla_spec.types import PRED, ElementType, Shape

from .lowering import I, Lowering, NotLowered, Operand, lowers, reducer, wide


def dot(b: Lowering, x: I, y: I, kind: ElementType) -> I:
    """Products over the last two dimensions; the leading ones are equal in both."""
    if not x.shape.dimensions[-1]:
        dims = (*x.shape.dimensions[:-1], y.shape.dimensions[-1])
        return b.full(0, Shape(kind, dims))
    if kind is PRED:
        raise NotLowered("of booleans")
    rank = x.shape.rank
    batch = tuple(range(rank - 2))
    dims = (*x.shape.dimensions[:-1], y.shape.dimensions[-1])
    return b.make(
        "dot", x, y, shape=Shape(kind, dims), lhs_batch_dims=batch, rhs_batch_dims=batch,
        lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(rank - 2,),
    )  # fmt: skip


@lowers("mm", "bmm", "_int_mm")
def mm(b: Lowering, x: I, y: I) -> I:
    return dot(b, x, y, b.result.element_type)


@lowers("addmm", "baddbmm")
def addmm(b: Lowering, c: I, x: I, y: I, *, beta: Operand = 1, alpha: Operand = 1) -> I:
    """beta c + alpha x y; if beta is 0, c is ignored (including NaNs in it)."""
    own = b.result.element_type
    kind = wide(own)
    value = dot(b, x, y, kind)
    if alpha != 1:
        value = b.multiply(value, alpha)
    if beta != 0:
        (c,) = b.operands(c, of=kind)
        value = b.add(value, c if beta == 1 else b.multiply(c, beta))
    return b.cast(value, own)


@lowers("vdot")
def vdot(b: Lowering, x: I, y: I) -> I:
    return vector_dot(b, b.conjugate(x), y)


@lowers("dot")
def vector_dot(b: Lowering, x: I, y: I) -> I:
    row, column = b.reshape(x, (1, x.shape.size)), b.reshape(y, (y.shape.size, 1))
    return b.reshape(dot(b, row, column, b.result.element_type), ())


@lowers("mv")
def mv(b: Lowering, x: I, y: I) -> I:
    return b.reshape(dot(b, x, b.reshape(y, (y.shape.size, 1)), b.result.element_type), b.result.dimensions)


# -- grouped products, as in mixtures of experts: `ends` has, for each group, the index after its last


def _ragged(b: Lowering, x: I, y: I, ends: I, result: Shape, along: tuple[int, int], **groups: tuple[int, ...]) -> I:
    """The ragged-dot that sums along x's and y's dimensions `along`; `groups` says what the groups divide."""
    count = ends.shape.size
    if not count:
        return b.full(0, result)
    zero = b.scalar(0, ends.shape.element_type)
    starts = b.make("pad", b.slice(ends, (0,), (count - 1,)), zero, padding=(PaddingDimension(1, 0),))
    contracting = {"lhs_contracting_dims": (along[0],), "rhs_contracting_dims": (along[1],)}
    return b.make("ragged-dot", x, y, b.subtract(ends, starts), shape=result, **contracting, **groups)


@lowers("_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(
    b: Lowering, x: I, y: I, ends: I | None = None, bias: I | None = None, out_dtype: ElementType | None = None
) -> I:
    """The groups divide the rows of x, the columns of y, or, for two matrices, the summed dimension."""
    if bias is not None:
        raise NotLowered("with a bias")
    if ends is None:
        return dot(b, x, y, b.result.element_type)
    if x.shape.rank == y.shape.rank == 2:
        return _ragged(b, x, y, ends, b.result, (1, 0), lhs_ragged_dims=(1,))
    if x.shape.rank == 2:
        return _ragged(b, x, y, ends, b.result, (1, 1), lhs_ragged_dims=(0,), rhs_group_dims=(0,))
    turned = b.result.with_dimensions(b.result.dimensions[::-1])
    return b.transpose(_ragged(b, y, x, ends, turned, (0, 2), lhs_ragged_dims=(1,), rhs_group_dims=(0,)))


@lowers("transformers::grouped_mm_fallback_backward")
def grouped_mm_backward(b: Lowering, x: I, y: I, ends: I, g: I) -> list[I]:
    of_x, of_y = b.result
    return [
        _ragged(b, g, y, ends, of_x, (1, 2), lhs_ragged_dims=(0,), rhs_group_dims=(0,)),
        _ragged(b, x, g, ends, of_y, (0, 0), lhs_ragged_dims=(0,)),
    ]


# -- convolutions: PyTorch's arrays are [batch, features, spatial..], its kernels [output, input of a group, spatial..]


Places = tuple[int, int]


def _labels(rank: int, kernel: Places = (1, 0), data: Places = (0, 1), out: Places = (0, 1)) -> ConvolutionDimensions:
    """dim_labels of arrays whose spatial dimensions come last; `kernel` has the positions of input and output features,
    `data` and `out` those of batch and features."""
    spatial = tuple(range(2, rank))
    return ConvolutionDimensions(*data, spatial, *kernel, spatial, *out, spatial)


def convolve(b: Lowering, x: I, w: I, stride: Any, padding: Any, dilation: Any, groups: int) -> I:
    """[N, I, ..] by [O, I / groups, ..]."""
    rank = x.shape.rank
    window = tuple(
        WindowDimension(n, s, p, p, 1, d)
        for n, s, p, d in zip(w.shape.dimensions[2:], stride, padding, dilation, strict=True)
    )
    return b.make(
        "convolution", x, w, window=window, dim_labels=_labels(rank), feature_group_count=groups,
    )  # fmt: skip


def transposed(
    b: Lowering, g: I, w: I, sizes: Sequence[int], stride: Any, padding: Any, dilation: Any, groups: int
) -> I:
    """The gradient by the array of a convolution whose result has the gradient g: [N, O, ..] by [O, I / groups, ..],
    with the given spatial sizes. The kernel is mirrored, and g is dilated by `stride`."""
    rank, (outputs, inputs, *kernel) = g.shape.rank, w.shape.dimensions
    if groups > 1:  # [groups, O / groups, I / groups, ..] as [O / groups, groups * I / groups, ..]
        w = b.reshape(w, (groups, outputs // groups, inputs, *kernel))
        w = b.permute(w, (1, 0, 2, *range(3, rank + 1)))
        w = b.reshape(w, (outputs // groups, groups * inputs, *kernel))
    window = []
    for size, n, own, s, p, d in zip(sizes, kernel, g.shape.dimensions[2:], stride, padding, dilation, strict=True):
        low = (n - 1) * d - p
        high = size + (n - 1) * d - ((own - 1) * s + 1) - low
        window.append(WindowDimension(n, 1, low, high, s, d, True))
    return b.make(
        "convolution", g, w, window=tuple(window), dim_labels=_labels(rank, kernel=(0, 1)), feature_group_count=groups
    )


def kernel_gradient(
    b: Lowering, x: I, g: I, sizes: Sequence[int], stride: Any, padding: Any, dilation: Any, groups: int
) -> I:
    """The gradient by the kernel, [O, I / groups, sizes..]: x slides under g, and the batch is summed over."""
    rank = x.shape.rank
    window = []
    for size, n, own, s, p, d in zip(
        x.shape.dimensions[2:], g.shape.dimensions[2:], sizes, stride, padding, dilation, strict=True
    ):
        high = (own - 1) * d + (n - 1) * s + 1 - size - p
        window.append(WindowDimension(n, d, p, high, 1, s))
    # batch and features change places: the batch is summed over
    labels = _labels(rank, kernel=(0, 1), data=(1, 0), out=(1, 0))
    return b.make("convolution", x, g, window=tuple(window), dim_labels=labels, batch_group_count=groups)


def _spatial(values: Sequence[int], n: int) -> tuple[int, ...]:
    return tuple(values) * n if len(values) == 1 else tuple(values)


def _refuse(b: Lowering, *operands: I) -> None:
    if any(not (o.shape.element_type.is_float or o.shape.element_type.is_integer) for o in operands):
        raise NotLowered("of complex numbers or booleans")
    if any(not o.shape.size for o in operands):
        raise NotLowered("of arrays without elements")


@lowers("convolution", "_convolution")
def convolution(
    b: Lowering, x: I, w: I, bias: I | None, stride: Any, padding: Any, dilation: Any, is_transposed: bool,
    output_padding: Any, groups: int, *_: Any,
) -> I:  # fmt: skip
    _refuse(b, x, w)
    own, n = b.result.element_type, w.shape.rank - 2
    stride, padding, dilation = (_spatial(v, n) for v in (stride, padding, dilation))
    unbatched = x.shape.rank == n + 1
    if unbatched:
        x = b.reshape(x, (1, *x.shape.dimensions))
    sizes = b.result.dimensions[-n:]
    if is_transposed:
        y = transposed(b, x, w, sizes, stride, padding, dilation, groups)
    else:
        y = convolve(b, x, w, stride, padding, dilation, groups)
    if bias is not None:
        kind = wide(own)
        y = b.add(b.cast(y, kind), b.spread(b.cast(bias, kind), Shape(kind, y.shape.dimensions), (1,)))
    return b.view(b.cast(y, own), b.result.dimensions)


@lowers("convolution_backward")
def convolution_backward(
    b: Lowering, g: I, x: I, w: I, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, is_transposed: bool,
    output_padding: Any, groups: int, mask: Sequence[bool],
) -> list[I | None]:  # fmt: skip
    _refuse(b, g, x, w)
    n = w.shape.rank - 2
    if x.shape.rank != n + 2:
        raise NotLowered("of an array without a batch")
    stride, padding, dilation = (_spatial(v, n) for v in (stride, padding, dilation))
    results: list[I | None] = [None, None, None]
    sizes, kernel = x.shape.dimensions[2:], w.shape.dimensions[2:]
    if mask[0]:
        results[0] = (
            convolve(b, g, w, stride, padding, dilation, groups)
            if is_transposed
            else transposed(b, g, w, sizes, stride, padding, dilation, groups)
        )
    if mask[1]:
        first, second = (g, x) if is_transposed else (x, g)
        results[1] = kernel_gradient(b, first, second, kernel, stride, padding, dilation, groups)
    if mask[2]:
        every = tuple(d for d in range(g.shape.rank) if d != 1)
        kind = wide(g.shape.element_type)
        results[2] = b.cast(b.reduce(b.cast(g, kind), 0, every, reducer("add", kind)), g.shape.element_type)
    return results
