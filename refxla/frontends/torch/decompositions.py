"""Decompositions that PyTorch does not have, or has with other random numbers than the operation draws on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from .lowering import LOWERINGS, overload_of
from .roi_align import roi_align, roi_align_backward
from .sampling import deform_conv2d, deform_conv2d_backward, grid_sampler, grid_sampler_backward
from .tensors import inverse, memory_order

aten = torch.ops.aten

# Operations that draw random numbers as they stand: their decompositions draw others.
_DRAWN = ("bernoulli.p", "bernoulli", "rand_like", "randn_like", "randint", "randint.low", "randint_like", "randperm")


def is_random(target: Any) -> bool:
    """Whether an operation draws random numbers."""
    if isinstance(target, torch._ops.HigherOrderOperator):  # a checkpoint's, which draws the same numbers again
        return target.__name__ in ("run_and_save_rng_state", "run_with_rng_state")
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _native_dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """The numbers that the operation draws on a CPU: Bernoulli's, of 1 - p."""
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    like = torch.empty_like(x, dtype=torch.bool)  # numbers are drawn in the order in which elements lie in memory
    order = memory_order(like) or tuple(range(x.dim()))
    drawn = torch.empty([x.shape[d] for d in order], dtype=torch.bool, device=x.device)
    mask = aten.bernoulli.p(drawn, 1 - p).permute(inverse(order))
    return x * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _attention(x: Any, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any, mask: Any, kind: Any) -> Any:
    """Self-attention of [batch, length, features]; `kind` 0 is a mask of [length, length], 1 one of keys, [batch,
    length], 2 one of [batch, heads, length, length]."""
    batch, length, width = x.shape
    q, k, v = torch.nn.functional.linear(x, qkv, qkv_bias).view(batch, length, 3, heads, width // heads).unbind(2)
    scores = (q.transpose(1, 2) @ k.permute(0, 2, 3, 1)) * (width // heads) ** -0.5
    if mask is not None:
        mask = mask.view(batch, 1, 1, length) if kind == 1 else mask
        scores = scores.masked_fill(mask.to(torch.bool), float("-inf"))
    mixed = torch.softmax(scores, -1) @ v.transpose(1, 2)
    return torch.nn.functional.linear(mixed.transpose(1, 2).reshape(batch, length, width), out, out_bias)


def _transformer_encoder_layer(
    x: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """The layer that torch.nn.TransformerEncoderLayer calls where no gradient is wanted."""
    linear = torch.nn.functional.linear

    def attention(y: Any) -> Any:
        return _attention(y, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def feed_forward(y: Any) -> Any:
        y = linear(y, ffn_weight_1, ffn_bias_1)
        return linear(torch.nn.functional.gelu(y) if use_gelu else torch.relu(y), ffn_weight_2, ffn_bias_2)

    def norm(y: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(y, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attention(x), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


def _weight_norm_backward(gradient: Any, v: Any, g: Any, norms: Any, dim: int) -> tuple[Any, Any]:
    """Of w = v g / norms, where norms are those of v over all dimensions but one."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (gradient * v).sum(others, keepdim=True)
    return (g / norms) * (gradient - v * (along / (norms * norms))), along / norms


def _cdist_backward(gradient: Any, x: Any, y: Any, p: float, distances: Any) -> Any:
    """The gradient by x; where a distance is 0, it is 0."""
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    if p == 0:
        return torch.zeros_like(x)
    if p == float("inf"):
        share = difference.sign() * (difference.abs() == distances.unsqueeze(-1))
        return (share * gradient.unsqueeze(-1)).sum(-2)
    power = difference if p == 2 else difference.sign() * difference.abs() ** (p - 1)
    factor = torch.where(distances == 0, 0, gradient / distances ** (p - 1))
    return (torch.where(difference == 0, 0, power) * factor.unsqueeze(-1)).sum(-2)


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements are in each of equal parts from min to max; of all elements, if these are the same."""
    x = x.flatten()
    if min == max and x.numel():
        low, high = x.amin(), x.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    else:
        low, high = (torch.full((), float(v), dtype=x.dtype) for v in (min, max))
    inside = (x >= low) & (x <= high)
    place = torch.where(inside, (x - low) * bins / (high - low), 0).long().clamp(max=bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, place, inside.to(x.dtype))


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.long)
    values, places = (s.narrow(dim, k - 1, 1) for s in x.sort(stable=True, dim=dim))
    return (values.clone(), places.clone()) if keepdim else (values.squeeze(dim).clone(), places.squeeze(dim).clone())


def _middle(ignoring: bool) -> Callable[..., Any]:
    """The median along a dimension, the lower one of two, and where it is. NaNs are sorted last: they are ignored, or
    the first of them is the median."""

    def apply(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.long)
        values, places = x.sort(stable=True, dim=dim)
        count, size = (x == x).sum(dim, keepdim=True), x.shape[dim]
        if ignoring:
            place = ((count - 1) // 2).clamp(min=0)
        else:
            place = torch.where(count < size, count, (size - 1) // 2)
        pair = values.gather(dim, place), places.gather(dim, place)
        return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))

    return apply


def _middle_of_all(ignoring: bool) -> Callable[..., Any]:
    def apply(x: Any) -> Any:
        if not x.numel():
            nothing = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).min
            return torch.full((), nothing, dtype=x.dtype)
        return _middle(ignoring)(x.flatten(), 0)[0]

    return apply


def _binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    aten._assert_async.msg(((x >= 0) & (x <= 1)).all(), "all elements of input should be between 0 and 1")
    return decomposition_table[aten.binary_cross_entropy.default](x, target, weight, reduction)


def _frequencies(half: bool) -> Callable[..., Any]:
    """k / (n d), of k from 0 to n - 1, where the upper half counts from below 0; or the lower half alone."""

    def apply(n: int, d: float = 1.0, *, dtype: Any = None, **_: Any) -> Any:
        place = torch.arange(n // 2 + 1 if half else n)
        if not half:
            place = torch.where(place < (n + 1) // 2, place, place - n)
        return place.to(dtype or torch.get_default_dtype()) * (1 / (n * d) if n else float("inf"))

    return apply


def _trilinear(
    x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """The sum over some dimensions of x y z, each of which has no dimensions where its list says so."""
    every = range(x.dim() + len(expand1))
    names = [[d for d in every if d not in without] for without in (expand1, expand2, expand3, sumdim)]
    return torch.einsum(x, names[0], y, names[1], z, names[2], names[3])


def _pairs(count: int) -> tuple[Any, Any]:
    first, second = torch.triu_indices(count, count, 1).unbind(0)
    return first, second


def _pdist(x: Any, p: float = 2.0) -> Any:
    first, second = _pairs(x.shape[0])
    return torch.linalg.vector_norm(x[first] - x[second], p, dim=-1)


def _pdist_backward(gradient: Any, x: Any, p: float, distances: Any) -> Any:
    count = x.shape[0]
    pairs = _pairs(count)
    matrices = (x.new_zeros(count, count).index_put(pairs, v) for v in (gradient, distances))
    gradient, distances = (m + m.mT for m in matrices)
    return _cdist_backward(gradient, x, x, p, distances)


def _pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """By the singular values above a bound, or the eigenvalues."""
    if not x.numel():
        return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))
    if hermitian:
        values, left = torch.linalg.eigh(x)
        right = left
    else:
        left, values, transposed = torch.linalg.svd(x, full_matrices=False)
        right = transposed.mH
    size = values.abs()
    atol = torch.zeros((), dtype=size.dtype) if atol is None else atol
    if rtol is None:
        rtol = torch.where(atol > 0, 0.0, torch.finfo(size.dtype).eps * max(x.shape[-2:]))
    bound = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * size.amax(-1, keepdim=True))
    reciprocals = torch.where(size > bound, values.reciprocal(), 0)
    return (right * reciprocals.unsqueeze(-2)) @ left.mH


def _replication_backward(gradient: Any, x: Any, padding: Sequence[int]) -> Any:
    """What was repeated at an end adds to the element there."""
    for k in range(len(padding) // 2):
        d, (low, high) = x.dim() - 1 - k, padding[2 * k : 2 * k + 2]
        size = x.shape[d]
        if low < 0 or high < 0:  # elements are cut off
            place = (torch.arange(size + low + high) - low).clamp(0, size - 1)
            shape = [*gradient.shape[:d], size, *gradient.shape[d + 1 :]]
            gradient = gradient.new_zeros(shape).index_add(d, place, gradient)
        elif size == 1:
            gradient = gradient.sum(d, keepdim=True)
        else:
            parts = gradient.split([low + 1, size - 2, high + 1], d)
            gradient = torch.cat([parts[0].sum(d, keepdim=True), parts[1], parts[2].sum(d, keepdim=True)], d)
    return gradient


def _searchsorted(
    sequence: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """How many elements of rows in order are below x, or (to the right of equal ones) not above it: a binary search,
    whose steps are as many for each element."""
    right = right or side == "right"
    x = x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=sequence.dtype)
    one_row = sequence.dim() == 1
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    count = sequence.shape[-1]
    found = torch.zeros(x.shape, dtype=torch.int32 if out_int32 else torch.long)
    step = 1 << (count.bit_length() - 1) if count else 0
    while step:
        next_found = found + step
        place = (next_found - 1).clamp(max=count - 1)
        element = aten.index.Tensor(sequence, [place]) if one_row else sequence.gather(-1, place.long())
        before = ~(element > x) if right else ~(element >= x)  # a NaN is behind all
        found = torch.where((next_found <= count) & before, next_found, found)
        step //= 2
    return found


def _bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _bags(indices: Any, offsets: Any, include_last_offset: bool, padding_idx: int) -> tuple[Any, Any, int]:
    """The bag of each index, whether the index is a real one and no padding, and how many bags there are."""
    starts = offsets[:-1] if include_last_offset else offsets
    place = torch.arange(indices.shape[0], dtype=offsets.dtype)
    return torch.searchsorted(starts, place, right=True) - 1, indices != padding_idx, starts.shape[0]


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Rows of a table, of each bag their sum (mode 0), mean (1) or maximum (2); and, for the gradient, the bag of each
    index, how many count in each bag, and the index that each maximum is from."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    if offsets.shape[0]:
        valid = (offsets[0] == 0) & (offsets[-1] <= indices.shape[0])
        aten._assert_async.msg(valid, "offsets[0] has to be 0, and offsets[-1] no more than there are indices")
    bag, real, bags = _bags(indices, offsets, include_last_offset, padding_idx)
    size = torch.zeros(bags, dtype=torch.long).index_add(0, bag, real.long())
    rows = torch.embedding(weight, indices)
    if mode == 2:
        spread, column = bag.unsqueeze(1).expand(rows.shape), real.unsqueeze(1)
        largest = rows.new_full((bags, rows.shape[1]), -math.inf)
        largest = largest.scatter_reduce(0, spread, rows.masked_fill(~column, -math.inf), "amax")
        count = indices.shape[0]
        place = torch.arange(count).unsqueeze(1).expand(rows.shape)
        place = torch.where((rows == largest[bag]) & column, place, count)
        first = place.new_full(largest.shape, count).scatter_reduce(0, spread, place, "amin")
        source = indices[first.clamp(max=count - 1)] if count else torch.zeros_like(first)
        return largest.masked_fill(size.unsqueeze(1) == 0, 0), bag, size, source
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    total = rows.new_zeros(bags, rows.shape[1]).index_add(0, bag, rows.masked_fill(~real.unsqueeze(1), 0))
    if mode == 1:
        total = total / size.clamp(min=1).unsqueeze(1)
    return total, bag, size, size


def _embedding_bag_backward(
    gradient: Any, indices: Any, offsets: Any, bag: Any, size: Any, source: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse or scale_grad_by_freq:
        return NotImplemented
    table = gradient.new_zeros(num_weights, gradient.shape[1])
    if mode == 2:
        return table.scatter_add(0, source, gradient.masked_fill(size.unsqueeze(1) == 0, 0))
    if mode == 1:
        gradient = gradient / size.clamp(min=1).unsqueeze(1)
    rows = gradient[bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return table.index_add(0, indices, rows.masked_fill((indices == padding_idx).unsqueeze(1), 0))


def _sample_weights_backward(
    gradient: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    products = (gradient[bag] * torch.embedding(weight, indices)).sum(1)
    return products.masked_fill(indices == padding_idx, 0)


def _masked_scatter_backward(gradient: Any, mask: Any, sizes: Sequence[int]) -> Any:
    """By the source: its elements went, in order, to the places where the mask is true."""
    mask, count = mask.expand(gradient.shape).flatten(), math.prod(sizes)
    place = torch.where(mask, mask.cumsum(0) - 1, count).clamp(max=count)
    return gradient.new_zeros(count + 1).scatter(0, place, gradient.flatten())[:count].view(sizes)


def _embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """The rows that are looked up, scaled down to a norm where theirs is larger; those of equal indices are equal."""
    indices = indices.flatten()
    rows = torch.embedding(weight, indices)
    norm = torch.linalg.vector_norm(rows, norm_type, dim=1, keepdim=True)
    scale = torch.where(norm > max_norm, max_norm / (norm + 1e-7), 1)
    return weight.index_put((indices,), rows * scale)


_OF_SEGMENTS = {"sum": (0.0, "sum"), "mean": (0.0, "sum"), "prod": (1.0, "prod"), "max": (-math.inf, "amax"),
                "min": (math.inf, "amin")}  # fmt: skip


class _Segments:
    """Parts of a dimension of an array, each with so many elements as `lengths` says, or from one offset to the next;
    those behind the last one are in none."""

    def __init__(self, data: Any, lengths: Any, offsets: Any, axis: int) -> None:
        self.lengths = offsets.diff(dim=-1) if lengths is None else lengths
        self.axis, self.count = axis, self.lengths.shape[-1]
        places = torch.arange(data.shape[axis]).expand(data.shape[: axis + 1]).contiguous()
        self._number = torch.searchsorted(self.lengths.cumsum(-1), places, right=True)
        self.size = self._broadcast(self.lengths, data)  # of each segment how many elements are in it
        self.inside = self._broadcast(self._number < self.count, data)

    def _broadcast(self, x: Any, data: Any) -> Any:
        return x.view(*x.shape, *[1] * (data.dim() - x.dim()))

    def _of_elements(self, data: Any) -> Any:
        return self._broadcast(self._number, data).expand(data.shape)

    def reduced(self, data: Any, kind: str, initial: float) -> Any:
        """Of each segment the reduction of its elements and the initial value."""
        shape = [*data.shape[: self.axis], self.count + 1, *data.shape[self.axis + 1 :]]
        start = data.new_full(shape, initial)
        if kind == "sum" and not self.axis:  # by whole rows
            return start.index_add(0, self._number, data)[: self.count]
        found = start.scatter_reduce(self.axis, self._of_elements(data), data, kind)
        return found.narrow(self.axis, 0, self.count).contiguous()

    def of_each(self, x: Any, data: Any) -> Any:
        """For each element of the data what its segment has in x."""
        place = self._number.clamp(max=max(self.count - 1, 0))
        if not self.axis:
            return x.index_select(0, place)
        return x.gather(self.axis, self._broadcast(place, data).expand(data.shape))


def _segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    if lengths is not None and not unsafe:
        valid = (lengths >= 0).all() & (lengths.sum(-1) == data.shape[axis]).all()
        aten._assert_async.msg(valid, "segment_reduce: lengths have to be what the dimension is the sum of")
    segments = _Segments(data, lengths, offsets, axis)
    start, kind = _OF_SEGMENTS[reduce]
    result = segments.reduced(data, kind, start if initial is None else initial)
    if reduce == "mean":
        size, nothing = segments.size, math.nan if initial is None else initial
        result = torch.where(size == 0, nothing, result / size)
    return result


def _segment_reduce_backward(
    gradient: Any, output: Any, data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: float | None = None,
) -> Any:  # fmt: skip
    segments = _Segments(data, lengths, offsets, axis)

    def total(x: Any) -> Any:
        return segments.reduced(x.to(data.dtype), "sum", 0)

    if reduce == "mean":
        gradient = gradient / segments.size
    share = segments.of_each(gradient, data)
    if reduce == "prod":  # the product of all others
        zero = data == 0
        of_others = segments.reduced(torch.where(zero, 1, data), "prod", 1.0 if initial is None else initial)
        zeros = segments.of_each(total(zero), data) - zero.to(data.dtype)
        others = torch.where(zero, segments.of_each(of_others, data), segments.of_each(output, data) / data)
        share = share * torch.where(zeros > 0, 0, others)
    elif reduce in ("max", "min"):  # the elements that are the extreme share it
        extreme = (data == segments.of_each(output, data)) | (data != data)
        share = torch.where(extreme, share / segments.of_each(total(extreme), data), 0)
    return torch.where(segments.inside, share, 0)


_OWN: dict[str, Callable[..., Any]] = {
    "binary_cross_entropy": _binary_cross_entropy,
    "_cdist_backward": _cdist_backward,
    "_pdist_backward": _pdist_backward,
    "_pdist_forward": _pdist,
    "_trilinear": _trilinear,
    "_weight_norm_interface_backward": _weight_norm_backward,
    "bucketize.Scalar": _bucketize,
    "bucketize.Tensor": _bucketize,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "_embedding_bag_backward": _embedding_bag_backward,
    "_embedding_bag_per_sample_weights_backward": _sample_weights_backward,
    "embedding_renorm": _embedding_renorm,
    "fft_fftfreq": _frequencies(False),
    "fft_rfftfreq": _frequencies(True),
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_2d_backward": grid_sampler_backward,
    "grid_sampler_3d": grid_sampler,
    "grid_sampler_3d_backward": grid_sampler_backward,
    "histc": _histc,
    "kthvalue": _kthvalue,
    "linalg_pinv.atol_rtol_tensor": _pinv,
    "masked_scatter_backward": _masked_scatter_backward,
    "median": _middle_of_all(False),
    "median.dim": _middle(False),
    "nanmedian": _middle_of_all(True),
    "nanmedian.dim": _middle(True),
    "native_dropout": _native_dropout,
    "replication_pad1d_backward": _replication_backward,
    "replication_pad2d_backward": _replication_backward,
    "replication_pad3d_backward": _replication_backward,
    "searchsorted.Scalar": _searchsorted,
    "searchsorted.Tensor": _searchsorted,
    "segment_reduce": _segment_reduce,
    "_segment_reduce_backward": _segment_reduce_backward,
    "torchvision::_deform_conv2d_backward": deform_conv2d_backward,
    "torchvision::_roi_align_backward": roi_align_backward,
    "torchvision::deform_conv2d": deform_conv2d,
    "torchvision::roi_align": roi_align,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer,
}


# Operations on lists of tensors, as optimizers use them, by the operation on one tensor where its name is another.
_OF_EACH: dict[str, Callable[..., Any]] = {
    "copy": lambda x, source, non_blocking=False: source.to(x.dtype).expand(x.shape).clone(),
    "max": torch.amax,
    "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y),
    "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y),
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
    "powsum": lambda x, order=2, dtype=None: x.to(dtype or x.dtype).abs().pow(order).sum(),
    "zero": torch.zeros_like,
    "addcdiv": lambda x, y, z, value=1: torch.addcdiv(x, y, z, value=value),
    "addcmul": lambda x, y, z, value=1: torch.addcmul(x, y, z, value=value),
}


def _of_lists() -> dict[Any, Callable[..., Any]]:
    """The decompositions of all operations on lists: the operation on one tensor, for each."""
    names = (n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::_foreach_"))
    rules: dict[Any, Callable[..., Any]] = {}
    for name in names:
        base, overload = name.partition(".")[0], overload_of(name)
        kind = base.removeprefix("_foreach_")
        of_each = _OF_EACH.get(kind) or getattr(torch, kind, None)
        if overload is not None and of_each is not None and not base.endswith("_") and not name.endswith("out"):
            rules[overload] = _of_list(of_each)
    return rules


def _of_list(of_each: Callable[..., Any]) -> Callable[..., list[Any]]:
    def apply(*args: Any, **kwargs: Any) -> list[Any]:
        count = next(len(a) for a in args if isinstance(a, (list, tuple)))
        lists = (a if isinstance(a, (list, tuple)) else [a] * count for a in args)
        return [of_each(*values, **kwargs) for values in zip(*lists, strict=True)]

    return apply


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd decomposes: all that PyTorch can, but what has a lowering and what draws random numbers."""
    own = {overload_of(name): rule for name, rule in _OWN.items()}  # torchvision may have been imported since
    return {**_of_pytorch(), **{op: rule for op, rule in own.items() if op is not None}}


@cache
def _of_pytorch() -> dict[Any, Callable[..., Any]]:
    exceptions = {*LOWERINGS, *(overload_of(n) for n in _DRAWN)}
    table = {**decomposition_table, **core_aten_decompositions()}
    table = {op: rule for op, rule in table.items() if op not in exceptions and not is_random(op)}
    return {**table, **_of_lists()}
