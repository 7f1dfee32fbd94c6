"""Operations on lists of tensors, as optimizers use them: the operation on one tensor, for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .lowering import overload_of

# The operation on one tensor, if its name or arguments in torch differ.
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


def list_decompositions() -> dict[Any, Callable[..., Any]]:
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
