"""Elements selected by a tensor without dimensions, as in x[i]: indexing instead of reading the number.

PyTorch reads the number from the tensor and returns a view that begins there, so a graph has a number that is known
only at run time, and its backward graph differs for each number. Indexing by the tensor finds the same elements without
reading it. If a view itself is a result of the graph, PyTorch still takes it, from the number.
"""

from __future__ import annotations

from typing import Any

import torch

from .graph import is_view
from .lowering import overload_of
from .number_arguments import NUMBER

# Operations with such a number among their arguments: the positions of the dimension and of the number.
_SELECT, _SCATTER = overload_of("select.int"), overload_of("select_scatter")
_COPY = overload_of("select_copy.int")
_GRADIENT = overload_of("select_backward")


def index_by_tensors(graph_module: Any) -> None:
    """Replaces selections by a number read from an integer tensor by indexing with that tensor."""
    graph = graph_module.graph
    selections = [n for n in graph.nodes if n.op == "call_function" and _index_of(n) is not None]
    for node in selections:
        _index(graph, node)
    if not selections:
        return
    for node in reversed(list(graph.nodes)):
        if node.target is NUMBER and not node.users:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()


def _index_of(node: Any) -> Any:
    """The tensor that provides the number of a selection."""
    place = {_SELECT: 2, _COPY: 2, _SCATTER: 3, _GRADIENT: 3}.get(node.target)
    number = node.args[place] if place is not None and len(node.args) > place else None
    if not isinstance(number, torch.fx.Node) or number.target is not NUMBER:
        return None
    (index,) = number.args
    kind = index.meta["val"].dtype
    return index if kind in (torch.int64, torch.int32, torch.int16, torch.int8) else None


def _index(graph: Any, node: Any) -> None:
    aten, index = torch.ops.aten, _index_of(node)
    with graph.inserting_before(node):
        if node.target in (_SELECT, _COPY):
            x, dimension, _ = node.args
            value = _call(graph, node, aten.index.Tensor, x, _indices(x, dimension, index))
        elif node.target is _SCATTER:
            x, source, dimension, _ = node.args
            value = _call(graph, node, aten.index_put.default, x, _indices(x, dimension, index), source)
        else:
            gradient, sizes, dimension, _ = node.args
            zeros = _call(graph, node, aten.new_zeros.default, gradient, list(sizes))
            value = _call(graph, node, aten.index_put.default, zeros, _indices(zeros, dimension, index), gradient)
    for user in list(node.users):
        if not (node.target is _SELECT and _is_shown(user)):
            user.replace_input_with(node, value)
            _update(user)
    if not node.users:
        graph.erase_node(node)


def _indices(x: Any, dimension: int, index: Any) -> list[Any]:
    return [None] * (dimension % x.meta["val"].dim()) + [index]


def _call(graph: Any, like: Any, target: Any, *args: Any) -> Any:
    """A node with the origin of another one."""
    node = graph.call_function(target, args)
    node.meta = {k: v for k, v in like.meta.items() if k not in ("val", "tensor_meta")}
    node.meta["val"] = _value(node)
    return node


def _value(node: Any) -> Any:
    """The result of an operation, as a fake tensor."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with torch.no_grad():
        return node.target(*args, **kwargs)


def _is_shown(node: Any) -> bool:
    """Whether a node is the graph's output, or a view that is among the results."""
    return node.op == "output" or is_view(node) and any(_is_shown(user) for user in node.users)


def _update(node: Any) -> None:
    """Updates views to the memory that they now refer to."""
    if is_view(node):
        node.meta["val"] = _value(node)
        for user in node.users:
            _update(user)
