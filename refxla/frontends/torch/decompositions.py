"""Decompositions that PyTorch does not have, or has with other random numbers than the operation draws on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from .lowering import LOWERINGS, overload_of
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
    return (values.clone(), places.clone()) if keepdim else (values.squeeze(dim), places.squeeze(dim))


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


_OWN: dict[str, Callable[..., Any]] = {
    "binary_cross_entropy": _binary_cross_entropy,
    "_cdist_backward": _cdist_backward,
    "_weight_norm_interface_backward": _weight_norm_backward,
    "histc": _histc,
    "kthvalue": _kthvalue,
    "median": _middle_of_all(False),
    "median.dim": _middle(False),
    "nanmedian": _middle_of_all(True),
    "nanmedian.dim": _middle(True),
    "native_dropout": _native_dropout,
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


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd decomposes: all that PyTorch can, but what has a lowering and what draws random numbers."""
    exceptions = {*LOWERINGS, *(overload_of(n) for n in _DRAWN)}
    table = {**decomposition_table, **core_aten_decompositions()}
    table = {op: rule for op, rule in table.items() if op not in exceptions and not is_random(op)}
    own = {overload_of(name): rule for name, rule in _OWN.items()}
    return {**table, **_of_lists(), **{op: rule for op, rule in own.items() if op is not None}}
