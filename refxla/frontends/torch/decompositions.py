"""Decompositions that PyTorch does not have, or has with random numbers other than those of the operation on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from .embedding_bags import embedding_bag, embedding_bag_backward, embedding_renorm, sample_weights_backward
from .lowering import LOWERINGS, overload_of
from .masks import index_put, nonzero_static
from .order_statistics import bucketize, histc, kthvalue, median, median_of_all, searchsorted
from .quantization import QUANTIZATION
from .recurrent import RECURRENT
from .roi_align import roi_align, roi_align_backward
from .sampling import deform_conv2d, deform_conv2d_backward, grid_sampler, grid_sampler_backward
from .segments import segment_reduce, segment_reduce_backward
from .tensor_lists import list_decompositions
from .tensors import inverse, memory_order

aten = torch.ops.aten

# Operations that draw random numbers as a whole: their decompositions draw others.
_DRAWN = ("bernoulli.p", "bernoulli", "rand_like", "randn_like", "randint", "randint.low", "randint_like", "randperm")


def is_random(target: Any) -> bool:
    """Whether an operation draws random numbers."""
    if isinstance(target, torch._ops.HigherOrderOperator):  # a checkpoint's, which draws the same numbers again
        return target.__name__ in ("run_and_save_rng_state", "run_with_rng_state")
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _native_dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """The random numbers of the operation on a CPU: Bernoulli's, of 1 - p."""
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    like = torch.empty_like(x, dtype=torch.bool)  # numbers are drawn in the memory order of the elements
    order = memory_order(like) or tuple(range(x.dim()))
    drawn = torch.empty([x.shape[d] for d in order], dtype=torch.bool, device=x.device)
    mask = aten.bernoulli.p(drawn, 1 - p).permute(inverse(order))
    return x * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _attention(x: Any, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any, mask: Any, kind: Any) -> Any:
    """Self-attention of [batch, length, features]; `kind` 0 is a mask of [length, length], 1 a mask of keys, [batch,
    length], 2 a mask of [batch, heads, length, length]."""
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
    """The layer that torch.nn.TransformerEncoderLayer calls if no gradient is needed."""
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
    """The gradients of w = v g / norms, where norms are those of v over all dimensions but one."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (gradient * v).sum(others, keepdim=True)
    return (g / norms) * (gradient - v * (along / (norms * norms))), along / norms


def _cdist_backward(gradient: Any, x: Any, y: Any, p: float, distances: Any) -> Any:
    """The gradient by x; 0 where a distance is 0."""
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    if p == 0:
        return torch.zeros_like(x)
    if p == float("inf"):
        share = difference.sign() * (difference.abs() == distances.unsqueeze(-1))
        return (share * gradient.unsqueeze(-1)).sum(-2)
    power = difference if p == 2 else difference.sign() * difference.abs() ** (p - 1)
    factor = torch.where(distances == 0, 0, gradient / distances ** (p - 1))
    return (torch.where(difference == 0, 0, power) * factor.unsqueeze(-1)).sum(-2)


def _binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    aten._assert_async.msg(((x >= 0) & (x <= 1)).all(), "all elements of input should be between 0 and 1")
    return decomposition_table[aten.binary_cross_entropy.default](x, target, weight, reduction)


def _frequencies(half: bool) -> Callable[..., Any]:
    """k / (n d), for k from 0 to n - 1, where the upper half counts from below 0; or only the lower half."""

    def apply(n: int, d: float = 1.0, *, dtype: Any = None, **_: Any) -> Any:
        place = torch.arange(n // 2 + 1 if half else n)
        if not half:
            place = torch.where(place < (n + 1) // 2, place, place - n)
        return place.to(dtype or torch.get_default_dtype()) * (1 / (n * d) if n else float("inf"))

    return apply


def _trilinear(
    x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """The sum over some dimensions of x y z, each of which lacks the dimensions that its list names."""
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
    """The pseudo-inverse, from the singular values, or eigenvalues, above a bound."""
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
    """Values that were repeated at an end are added to the element there."""
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


def _masked_scatter_backward(gradient: Any, mask: Any, sizes: Sequence[int]) -> Any:
    """The gradient by the source, whose elements went, in order, to the positions where the mask is true."""
    mask, count = mask.expand(gradient.shape).flatten(), math.prod(sizes)
    place = torch.where(mask, mask.cumsum(0) - 1, count).clamp(max=count)
    return gradient.new_zeros(count + 1).scatter(0, place, gradient.flatten())[:count].view(sizes)


def _index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """The reduction of a scatter by positions, with one position for a whole row."""
    places = index.view([-1 if d == dim % x.dim() else 1 for d in range(x.dim())]).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def _addbmm(x: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    total = torch.bmm(first, second).sum(0)
    return alpha * total if beta == 0 else beta * x + alpha * total


_OWN: dict[str, Callable[..., Any]] = {
    "binary_cross_entropy": _binary_cross_entropy,
    "_cdist_backward": _cdist_backward,
    "_pdist_backward": _pdist_backward,
    "_pdist_forward": _pdist,
    "_trilinear": _trilinear,
    "addbmm": _addbmm,
    "index_reduce": _index_reduce,
    "_unsafe_index_put": index_put,
    "_weight_norm_interface_backward": _weight_norm_backward,
    "bucketize.Scalar": bucketize,
    "bucketize.Tensor": bucketize,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "_embedding_bag_backward": embedding_bag_backward,
    "_embedding_bag_per_sample_weights_backward": sample_weights_backward,
    "embedding_renorm": embedding_renorm,
    "fft_fftfreq": _frequencies(False),
    "fft_rfftfreq": _frequencies(True),
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_2d_backward": grid_sampler_backward,
    "grid_sampler_3d": grid_sampler,
    "grid_sampler_3d_backward": grid_sampler_backward,
    "histc": histc,
    "index_put": index_put,
    "kthvalue": kthvalue,
    "linalg_pinv.atol_rtol_tensor": _pinv,
    "masked_scatter_backward": _masked_scatter_backward,
    "median": median_of_all(False),
    "median.dim": median(False),
    "nanmedian": median_of_all(True),
    "nanmedian.dim": median(True),
    "native_dropout": _native_dropout,
    "nonzero_static": nonzero_static,
    "replication_pad1d_backward": _replication_backward,
    "replication_pad2d_backward": _replication_backward,
    "replication_pad3d_backward": _replication_backward,
    "searchsorted.Scalar": searchsorted,
    "searchsorted.Tensor": searchsorted,
    "segment_reduce": segment_reduce,
    "_segment_reduce_backward": segment_reduce_backward,
    "torchvision::_deform_conv2d_backward": deform_conv2d_backward,
    "torchvision::_roi_align_backward": roi_align_backward,
    "torchvision::deform_conv2d": deform_conv2d,
    "torchvision::roi_align": roi_align,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer,
    **QUANTIZATION,
    **RECURRENT,
}


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd decomposes: everything that PyTorch can, except operations with a lowering and those that draw
    random numbers."""
    own = {overload_of(name): rule for name, rule in _OWN.items()}  # torchvision may have been imported since
    return {**_of_pytorch(), **{op: rule for op, rule in own.items() if op is not None}}


@cache
def _of_pytorch() -> dict[Any, Callable[..., Any]]:
    exceptions = {*LOWERINGS, *(overload_of(n) for n in _DRAWN)}
    table = {**decomposition_table, **core_aten_decompositions()}
    table = {op: rule for op, rule in table.items() if op not in exceptions and not is_random(op)}
    return {**table, **list_decompositions()}
