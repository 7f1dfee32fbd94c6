"""Numbers in a graph that decide no size: positions of slices, step counts, factors.

Dynamo makes a number that has changed a symbol. One that is in no shape need not be part of the program: it becomes a
tensor without dimensions, and values computed from it are computed in the program, which then works for all its values.
`value_arguments` finds such numbers, and `NumbersAsTensors` runs the graph with tensors in their place. The same holds
for numbers that a graph of torch.export reads from tensors, by `.item()`: `numbers_of_tensors` finds them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .lowering import overload_of

aten = torch.ops.aten
NUMBER = overload_of("_local_scalar_dense")  # reads a number from a tensor
Rule = Callable[..., Any]

# -- numbers from numbers: in s64, and in f64 where Python's are floats

_ARITHMETIC: dict[Any, Rule] = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.neg: torch.neg,
    operator.floordiv: torch.floor_divide,
    operator.mod: torch.remainder,
    operator.truediv: torch.true_divide,
    operator.pow: torch.pow,
    torch.sym_float: lambda x: x,
    torch.sym_max: torch.maximum,
    torch.sym_min: torch.minimum,
}


def _computed(node: Any, *operands: Any) -> Any:
    dtype = torch.float64 if isinstance(node.meta["val"], torch.SymFloat) else torch.int64
    tensors = [x.to(dtype) if isinstance(x, torch.Tensor) else torch.full((), x, dtype=dtype) for x in operands]
    return _ARITHMETIC[node.target](*tensors)


# -- tensors from numbers: each rule is given the node and its arguments, some of which are numbers


def _with_tensor(target: Any) -> Rule:
    """The operation on two tensors; the number does not affect the type."""

    def apply(node: Any, x: Any, number: Any, **kwargs: Any) -> Any:
        return target(x, number, **kwargs).to(node.meta["val"].dtype)

    return apply


def _filled(node: Any, first: Any, number: Any = None, *__: Any, **___: Any) -> Any:
    like, value = node.meta["val"], first if number is None else number
    sizes = first.shape if node.target in _FILLED_LIKE else () if number is None else first
    return value.to(like.dtype).expand(sizes).clone()


def _clamped(node: Any, x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    dtype = node.meta["val"].dtype
    x = x.to(dtype)
    for bound, apply in ((min if low is None else low, torch.maximum), (max if high is None else high, torch.minimum)):
        if bound is not None:
            x = apply(x, bound.to(dtype) if isinstance(bound, torch.Tensor) else torch.full((), bound, dtype=dtype))
    return x


def _rolled(node: Any, x: Any, shifts: Sequence[Any], dims: Sequence[int]) -> Any:
    for shift, d in zip(shifts, dims, strict=True):
        x = x.index_select(d, (torch.arange(x.shape[d]) - shift) % x.shape[d])
    return x


def _range(node: Any, *args: Any, **_: Any) -> Any:
    start, step = (args[0], args[2]) if len(args) > 2 else (args[0], 1)
    like = node.meta["val"]
    return (start + step * torch.arange(like.shape[0])).to(like.dtype)


def _slice_places(size: int, x: Any, dim: int, start: Any) -> list[Any]:
    dim %= x.dim()
    begin = torch.where(start < 0, start + x.shape[dim], start) if isinstance(start, torch.Tensor) else start or 0
    return [None] * dim + [begin + torch.arange(size)]


def _sliced(node: Any, x: Any, dim: int = 0, start: Any = None, *_: Any) -> Any:
    return aten.index.Tensor(x, _slice_places(node.meta["val"].shape[dim], x, dim, start))


def _slice_written(node: Any, x: Any, source: Any, dim: int = 0, start: Any = None, *_: Any) -> Any:
    return aten.index_put.default(x, _slice_places(source.shape[dim], x, dim, start), source)


_SLICES = (aten.slice.Tensor, aten.slice_scatter.default)
_RANGES = (aten.arange.start, aten.arange.start_step)
_FILLED_LIKE = (aten.full_like.default, aten.fill.Scalar)
_TWO_TENSORS = {
    **{f"{n}.Tensor": f"{n}.Tensor" for n in ("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod")},
    **{f"{n}.Scalar": f"{n}.Tensor" for n in ("eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod")},
    **{f"bitwise_{n}.Scalar": f"bitwise_{n}.Tensor" for n in ("and", "or", "xor")},
    "floor_divide": "floor_divide",
    "pow.Tensor_Scalar": "pow.Tensor_Tensor",
}
_ON_EITHER_SIDE = {overload_of(f"{n}.Tensor") for n in ("add", "sub", "mul", "div", "floor_divide", "remainder")}
_RULES: dict[Any, Rule] = {
    **{overload_of(n): _with_tensor(overload_of(t)) for n, t in _TWO_TENSORS.items() if overload_of(n) is not None},
    **dict.fromkeys((aten.full.default, aten.scalar_tensor.default, *_FILLED_LIKE), _filled),
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default), _clamped),
    **dict.fromkeys(_RANGES, _range),
    aten.roll.default: _rolled,
    aten.rsub.Scalar: lambda node, x, n: (n - x).to(node.meta["val"].dtype),
    aten.masked_fill.Scalar: lambda _, x, mask, n: torch.where(mask, n.to(x.dtype), x),
    aten.slice.Tensor: _sliced,
    aten.slice_scatter.default: _slice_written,
}
_RULES[aten.clamp_max.default] = lambda node, x, high: _clamped(node, x, None, high)


def _is_covered(node: Any, numbers: set[Any]) -> bool:
    """Whether a rule accepts the numbers where a node has them."""
    given = [k for k, a in enumerate(node.args) if a in numbers]
    if node.target is aten.roll.default:
        return len(node.args) > 2 and len(node.args[1]) == len(node.args[2]) and not given
    if set(node.all_input_nodes) & numbers != {node.args[k] for k in given}:  # in a list, or as a keyword
        return node.target is aten.clamp.default and not set(node.kwargs) - {"min", "max"}
    if node.target in _SLICES:
        written = node.target is aten.slice_scatter.default
        dims, first = node.args[1].meta["val"].shape if written else node.meta["val"].shape, 3 if written else 2
        return given[0] >= first and node.args[first + 2 :] in ((), (1,)) and type(dims[node.args[first - 1]]) is int
    if node.target in _RANGES:
        return given[0] == 0 and node.args[2:] in ((), (1,)) and type(node.meta["val"].shape[0]) is int
    if node.target is aten.rsub.Scalar:
        return node.args[2:] == ()
    if node.target is aten.pow.Tensor_Scalar:
        return given == [1] and node.meta["val"].dtype.is_floating_point
    if node.target is aten.scalar_tensor.default:
        return given == [0]
    if node.target is aten.masked_fill.Scalar:
        return given == [2]
    return node.target is aten.clamp.default or given == [1] or given == [0] and node.target in _ON_EITHER_SIDE


# -- which numbers


def value_arguments(graph_module: Any) -> frozenset[int]:
    """The arguments of a symbolic graph, by number, that are integers and may be tensors in the program."""
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    sizes = _symbols_of_sizes(graph_module)
    candidates = {
        n for n in placeholders if _is_number(n) and _is_symbol(n.meta["val"]) and not _symbols(n.meta["val"]) & sizes
    }
    while candidates:
        refused = _refused(graph_module, candidates)
        if not refused:
            break
        candidates -= refused
    return frozenset(k for k, n in enumerate(placeholders) if n in candidates)


def numbers_of_tensors(graph_module: Any) -> frozenset[Any]:
    """The nodes of a graph that read numbers from tensors, if all of these may stay tensors; else none."""
    nodes = [n for n in graph_module.graph.nodes if n.target is NUMBER]
    results = set(graph_module.graph.output_node().all_input_nodes)
    if not all(_is_number(n) for n in nodes) or results & _computed_from(graph_module, nodes):
        return frozenset()
    sizes = _symbols_of_sizes(graph_module)
    if any(_symbols(n.meta["val"]) & sizes for n in nodes) or _refused(graph_module, set(nodes)):
        return frozenset()
    return frozenset(nodes)


def _computed_from(graph_module: Any, numbers: Sequence[Any]) -> set[Any]:
    """Numbers, and those that a graph computes from them."""
    found = set(numbers)
    for node in graph_module.graph.nodes:
        if node.target in _ARITHMETIC and found.intersection(node.all_input_nodes):
            found.add(node)
    return found


def _is_number(node: Any) -> bool:
    """Whether a node is an argument that is a number, one that is read from a tensor, or computed from such."""
    if node.op == "placeholder":
        return isinstance(node.meta.get("val"), torch.SymInt)
    if node.target is NUMBER:
        return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat))
    return node.target in _ARITHMETIC and isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat))


def _is_symbol(value: Any) -> bool:
    """Whether a value is a symbol of Dynamo's, or computed from symbols; the size of a nested tensor's rows is not."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) and hasattr(value.node, "expr")


def _symbols(*values: Any) -> set[Any]:
    found: set[Any] = set()
    for value in values:
        if _is_symbol(value):
            found |= value.node.expr.free_symbols
    return found


def _symbols_of_sizes(graph_module: Any) -> set[Any]:
    """The symbols in shapes and strides, and in the offsets of results that are views."""
    found: set[Any] = set()
    for node in graph_module.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else (values,):
            if isinstance(value, torch.Tensor):
                found |= _symbols(*value.shape, *value.stride())
        if node.op == "output":
            for result in node.all_input_nodes:
                if isinstance(result.meta.get("val"), torch.Tensor):
                    found |= _symbols(result.meta["val"].storage_offset())
    return found


def _refused(graph_module: Any, candidates: set[Any]) -> set[Any]:
    """Those of the candidates that reach an operation that accepts no tensor in their place."""
    origins = {n: {n} for n in candidates}  # for each number
    for node in graph_module.graph.nodes:
        given = [n for n in node.all_input_nodes if n in origins]
        if not given:
            continue
        reached = set[Any]().union(*(origins[n] for n in given))
        if node.op == "output":  # numbers are recomputed, in Python
            return set()
        if node.target in _ARITHMETIC and _is_number(node) and all(map(_is_number, node.all_input_nodes)):
            origins[node] = reached
        elif not (node.target in _RULES and isinstance(node.meta.get("val"), torch.Tensor)):
            return reached
        elif not _is_covered(node, set(origins)):
            return reached
    return set()


class NumbersAsTensors(torch.fx.Interpreter):  # type: ignore[misc]  # Any, where PyTorch is not installed
    """Runs a graph with tensors without dimensions in place of the arguments with the numbers given, and of the nodes
    `read`, which read numbers from tensors. Results that are numbers are None."""

    def __init__(self, graph_module: Any, numbers: frozenset[int], read: frozenset[Any] = frozenset()) -> None:
        super().__init__(graph_module)
        placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        self._numbers, self._read = {placeholders[k] for k in numbers}, read

    def run_node(self, n: Any) -> Any:
        if n in self._read:
            self._numbers.add(n)
            with self._set_current_node(n):
                (tensor,), _ = self.fetch_args_kwargs_from_env(n)
                is_float = isinstance(n.meta["val"], torch.SymFloat)
                return tensor.to(torch.float64 if is_float else torch.int64).reshape(())
        if not self._numbers.intersection(n.all_input_nodes):
            return super().run_node(n)
        with self._set_current_node(n):
            if n.op == "output":
                return [None if r in self._numbers else self.env.get(r, r) for r in n.args[0]]
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if n.target in _ARITHMETIC:
                self._numbers.add(n)
                return _computed(n, *args)
            return _RULES[n.target](n, *args, **kwargs)


def returned_numbers(graph_module: Any, numbers: frozenset[int]) -> dict[int, Callable[[Sequence[Any]], Any]]:
    """The results of a graph that are computed only from such arguments: a function of the arguments for each."""
    nodes = list(graph_module.graph.nodes)
    arguments = {n: k for k, n in enumerate(n for n in nodes if n.op == "placeholder")}

    def value_of(node: Any, values: Sequence[Any]) -> Any:
        if not isinstance(node, torch.fx.Node):
            return node
        return values[arguments[node]] if node in arguments else node.target(*(value_of(a, values) for a in node.args))

    inside = {n for n, k in arguments.items() if k in numbers}
    for node in nodes:
        if node.target in _ARITHMETIC and inside.intersection(node.all_input_nodes):
            inside.add(node)
    return {r: partial(value_of, n) for r, n in enumerate(nodes[-1].args[0]) if n in inside}
