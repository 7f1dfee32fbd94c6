"""Writes by a mask, as in x[mask] = y: a choice between two values at each element.

PyTorch writes to the positions where the mask is true, and their number decides the shape of what it computes with:
such a write cannot be compiled, and if a gradient is needed, neither can the graph that it is in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols


def written(x: Any, position: int, mask: Any, values: Any, accumulate: bool = False) -> Any:
    """x with values where a mask of the dimensions from `position` on is true.

    The values broadcast to the shape of x[..., mask]: one dimension, the number of true elements, is in the place of
    those of the mask."""
    after = x.dim() - position - mask.dim()
    values = values.reshape(values.shape[max(values.dim() - position - 1 - after, 0) :])  # leading ones
    selected = values.dim() - 1 - after
    if selected >= 0:
        values = _at_each_position(values, selected, mask)
    mask = mask.reshape(*mask.shape, *[1] * after)
    if not accumulate:
        return torch.where(mask, values, x)
    return x | (mask & values) if x.dtype == torch.bool else x + torch.where(mask, values, 0)


def _at_each_position(values: Any, dim: int, mask: Any) -> Any:
    """Values, one for each true element of a mask, with the mask's dimensions in place of `dim`."""
    shape, count = values.shape, values.shape[dim]
    if count == 1:
        return values.reshape(*shape[:dim], *[1] * mask.dim(), *shape[dim + 1 :])
    flags = mask.flatten()
    message = "x[mask] = y: the mask selects another number of elements than y has"
    torch.ops.aten._assert_async.msg(flags.sum() == count, message)
    if not count:
        return values.sum(dim).reshape(*shape[:dim], *[1] * mask.dim(), *shape[dim + 1 :])
    place = (flags.cumsum(0) - 1).clamp(0, count - 1)
    return values.index_select(dim, place).reshape(*shape[:dim], *mask.shape, *shape[dim + 1 :])


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """The decomposition of aten.index_put by a mask, whose result has the strides of x."""
    position = _only_mask(indices, lambda i: i.dtype if i.dim() else None)
    if position is None or any(isinstance(n, torch.SymInt) and has_free_unbacked_symbols(n) for n in values.shape):
        return NotImplemented
    return torch.ops.aten.copy(x, written(x, position, indices[position], values, accumulate))


def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The positions of the first `size` elements that are not zero, one in each row, then rows of the fill value."""
    flags = x.flatten() != 0
    row = flags.cumsum(0) - 1
    # all other elements write to one row more than there are
    row = torch.where(flags & (row < size), row, size)
    number = torch.arange(x.numel(), device=x.device)
    places = row.new_zeros(size + 1).scatter(0, row, number)[:size]
    found = torch.arange(size, device=x.device) < flags.sum()
    coordinates = []
    for n in reversed([max(n, 1) for n in x.shape]):
        coordinates.append(torch.where(found, places % n, fill_value))
        places = places // n
    return torch.stack(coordinates[::-1], 1) if coordinates else row.new_zeros(size, 0)


def _index_put(x: Any, *rest: Any, **named: Any) -> Any:
    return _index_put_(x.clone(), *rest, **named)


def _index_put_(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    position = next(n for n, i in enumerate(indices) if i is not None)
    return x.copy_(written(x, position, indices[position], values, accumulate))


def _only_mask(indices: Sequence[Any], type_of: Callable[[Any], Any]) -> int | None:
    """The position of a mask among indices that are None apart from it."""
    given = [n for n, i in enumerate(indices) if i is not None]
    return given[0] if len(given) == 1 and type_of(indices[given[0]]) == torch.bool else None


def _setitem(x: Any, index: Any, value: Any) -> None:
    """x[index] = value, where one index is a mask: a write to the view that the other indices make."""
    indices = list(index) if isinstance(index, tuple) else [index]
    at = next(n for n, i in enumerate(indices) if isinstance(i, torch.Tensor))
    mask = indices[at]
    indices[at : at + 1] = [slice(None)] * mask.dim()
    n = next((n for n, i in enumerate(indices) if i is Ellipsis), None)
    if n is not None:
        missing = x.dim() - sum(i is not None and i is not Ellipsis for i in indices)
        indices[n : n + 1] = [slice(None)] * missing
        at += missing - 1 if n < at else 0
    view = x[tuple(indices)]
    position = sum(i is None or isinstance(i, slice) for i in indices[:at])
    value = value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype)
    view.copy_(written(view, position, mask, value))


_PUTS = ("index_put_", "index_put", torch.index_put, torch.index_put_)


def write_by_masks(graph_module: Any) -> None:
    """Replaces writes by a mask in a graph of Dynamo's, and in those that it calls, before they are derived."""
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        replacements = {n: f for n in module.graph.nodes if (f := _replacement(n)) is not None}
        for node, function in replacements.items():
            node.op, node.target = "call_function", function
        if replacements:
            module.recompile()


def _replacement(node: Any) -> Callable[..., Any] | None:
    if node.op not in ("call_function", "call_method") or len(node.args) < 3 or _is_sized_by_values(node.args[2]):
        return None
    if node.target is operator.setitem:
        return _setitem if _is_write_by_mask(node.args[1]) else None
    if node.target in _PUTS and _only_mask(node.args[1], _type_of) is not None:
        return _index_put_ if str(node.target).rstrip(">").endswith("_") else _index_put
    return None


def _is_sized_by_values(node: Any) -> bool:
    """Whether a tensor has a size that has changed, as the number of true elements does: each would be a program."""
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape)


def _is_write_by_mask(index: Any) -> bool:
    indices = index if isinstance(index, tuple) else (index,)
    tensors = [i for i in indices if isinstance(i, torch.fx.Node) and _type_of(i) is not int]
    others = [i for i in indices if i not in tensors]
    return (
        len(tensors) == 1
        and _type_of(tensors[0]) == torch.bool
        and all(i is None or i is Ellipsis or isinstance(i, (int, slice, torch.fx.Node)) for i in others)
        and not any(isinstance(i, bool) for i in others)
    )


def _type_of(node: Any) -> Any:
    """The element type of a node that is a tensor with dimensions, int for a number, None for anything else."""
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    if isinstance(value, torch.Tensor):
        return value.dtype if value.dim() else None
    return int if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool) else None
