"""Graphs with parts that have no lowering: these run in PyTorch, the rest is compiled in as few pieces as possible.

Random numbers are always PyTorch's own, so that they are those determined by `torch.manual_seed`. Those that depend
only on shapes are drawn before everything else, in the order in which the graph draws them, which leaves the rest of
the graph in one piece.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

from ...compiler.options import Options
from . import report
from .decompositions import is_random
from .graph import COPY, CompiledGraph, LoweredGraph, final_copies, is_tensor, source_of
from .lowering import DRAWN, overload_of
from .selections import index_by_tensors
from .strided_views import stride_memory_of_bases
from .tensors import memory_order, with_strides

_OF_SHAPE = {  # by how many arguments give only the shape
    overload_of(n)
    for n in ("rand", "randn", "randint", "randint.low", "randperm", "rand_like", "randn_like", "randint_like",
              "randint_like.low_dtype", "bernoulli.p")
}  # fmt: skip


INFERENCE = "inference"  # the name of graphs without gradients
# Operations that a program calls; everything else that runs in PyTorch is sums and comparisons of sizes, and their
# bounds.
_OPERATIONS = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
_OF_SIZES = {overload_of(n) for n in ("_assert_scalar", "sym_size.int", "sym_stride.int", "sym_numel")}


def compile_graph(graph_module: Any, name: str, options: Options, shown: range = range(0)) -> Callable[..., list[Any]]:
    """The function that runs a graph of static shapes: called with its arguments, returns a list of its results.

    Those with the numbers `shown` have the strides of eager mode, even with gaps. (In a graph without gradients, all
    have.)"""
    run, strides = _compiled(graph_module, name, options), _strides_with_gaps(graph_module, shown)
    if not strides:
        return run

    def call(*arguments: Any) -> list[Any]:
        results = run(*arguments)
        for number, own in strides.items():
            results[number] = with_strides(results[number], own)
        return results

    return call


def _strides_with_gaps(graph_module: Any, shown: range) -> dict[int, tuple[int, ...]]:
    """For results that are not dense in eager mode, the strides, by number; except those whose elements overlap."""
    values = (
        [n.meta.get("val") if isinstance(n, torch.fx.Node) else n for n in _returned(graph_module)] if shown else []
    )
    strides = {n: values[n].stride() for n in shown if is_tensor(values[n]) and memory_order(values[n]) is None}
    return {n: s for n, s in strides.items() if _are_distinct(values[n].shape, s)}


def _are_distinct(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements are at distinct addresses, except along expanded dimensions."""
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1 and s):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _compiled(graph_module: Any, name: str, options: Options) -> Callable[..., list[Any]]:
    report.note_graph()
    prepare(graph_module)
    lowered = LoweredGraph(graph_module, name, aliases=name == INFERENCE)
    if lowered.mutating:  # its writes may be visible through any view: PyTorch runs the whole graph
        why = "its graph writes in place, and runs in PyTorch as a whole"
        entries = [report.enter(str(n.target), why, source_of(n)) for n in lowered.mutating]
        return _PartitionedGraph(graph_module, name, options, entries)
    if not lowered.unsupported:
        return lowered.compile(options)
    draws = {n for n in lowered.unsupported if is_random(n.target)}  # not attention that is lowered: it draws none
    _draw_first(graph_module, draws)
    eager = LoweredGraph(graph_module, name).unsupported
    entries = []
    for node, reason in eager.items():
        if isinstance(node.target, _OPERATIONS) and node.target not in _OF_SIZES:
            entries.append(report.enter(str(node.target), reason, source_of(node), expected=reason == DRAWN))
    graphs = [n for n in graph_module.graph.nodes if _is_graph(graph_module, n)]
    eager |= dict.fromkeys([*_stand_ins(graph_module), *final_copies(graph_module.graph), *graphs], "")
    for node in graph_module.graph.nodes:
        if node.target is operator.getitem and node.args[0] in eager:
            eager[node] = ""
    _draw_in_order(graph_module, draws)
    support = create_op_support(lambda _, node: node.op in ("call_function", "get_attr") and node not in eager)
    partitioner = CapabilityBasedPartitioner(graph_module, support, allows_single_node_partition=True)
    partitioned = partitioner.partition_and_fuse()
    _give_graphs(partitioned)
    _copy_last(partitioned.graph)
    return _PartitionedGraph(partitioned, name, options, entries)


def prepare(graph_module: Any) -> None:
    """Rewrites what depends on the memory of a view, or on a number that is read from a tensor, where it can do
    without, in a graph and in those that it calls."""
    for graph in [m for m in graph_module.modules() if isinstance(m, torch.fx.GraphModule)]:
        index_by_tensors(graph)
        stride_memory_of_bases(graph)


def _is_graph(module: Any, node: Any) -> bool:
    """Whether a node is a graph that an operation calls, as torch.cond does."""
    return node.op == "get_attr" and isinstance(_attribute(module, node), torch.fx.GraphModule)


def _give_graphs(partitioned: Any) -> None:
    """Moves the graphs that are arguments of pieces, for operations that call them, into the pieces."""
    for node in partitioned.graph.nodes:
        if node.op != "call_module":
            continue
        piece = _attribute(partitioned, node)
        parameters = [n for n in piece.graph.nodes if n.op == "placeholder"]
        for number, (given, parameter) in enumerate(zip(node.args, parameters, strict=True)):
            if not _is_graph(partitioned, given):
                continue
            setattr(piece, f"graph_{number}", _attribute(partitioned, given))
            with piece.graph.inserting_before(parameter):
                parameter.replace_all_uses_with(piece.graph.get_attr(f"graph_{number}"))
            piece.graph.erase_node(parameter)
        node.args = tuple(a for a in node.args if not _is_graph(partitioned, a))
        piece.recompile()


def _attribute(module: Any, node: Any) -> Any:
    """The value of a `get_attr` node."""
    return operator.attrgetter(node.target)(module)


def _copy_last(graph: Any) -> None:
    """Moves writes to arguments after everything that reads them."""
    output = next(n for n in graph.nodes if n.op == "output")
    for node in [n for n in graph.nodes if n.target is COPY and n.args[0].op == "placeholder"]:
        output.prepend(node)


def _draw_first(graph_module: Any, draws: set[Any]) -> None:
    """Moves random numbers that depend only on shapes before all values computed since others were drawn."""
    graph = graph_module.graph
    place = next(n for n in graph.nodes if n.op != "placeholder")
    for node in list(graph.nodes):
        if node not in draws:
            continue
        if node.target not in _OF_SHAPE:
            place = node.next
            continue
        operands = [a for a in node.all_input_nodes if a.op != "placeholder"]
        fake = node.meta["val"]
        if operands and node.args and node.args[0] in operands:  # only shape and type of an array matter
            like = operands[0].meta["val"]
            with graph.inserting_before(place):
                array = graph.call_function(
                    torch.ops.aten.empty_strided.default,
                    (list(like.shape), list(like.stride())),
                    {"dtype": like.dtype, "device": fake.device},
                )
                array.meta = {"val": like, "stack_trace": node.meta.get("stack_trace")}
            node.args = (array, *node.args[1:])
        if node is place or any(a.op != "placeholder" and a is not node.args[0] for a in node.all_input_nodes):
            place = node.next
        else:
            place.prepend(node)
    graph_module.graph.lint()
    graph_module.recompile()


def _stand_ins(graph_module: Any) -> list[Any]:
    """Arrays that only provide shapes and strides to operations that draw random numbers: PyTorch creates them."""
    empty = torch.ops.aten.empty_strided.default
    return [n for n in graph_module.graph.nodes if n.target is empty and all(is_random(u.target) for u in n.users)]


def _draw_in_order(graph_module: Any, draws: set[Any]) -> None:
    """Makes each operation that draws random numbers depend on the previous one, so that the pieces must keep their
    order."""
    previous = None
    for node in graph_module.graph.nodes:
        if node in draws:
            if previous is not None:
                node.args, node.target = (previous, node.target, *node.args), drawn_after
            previous = node
    graph_module.recompile()


def drawn_after(_: Any, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of an operation; the first argument must have been computed before."""
    return target(*args, **kwargs)


class _PartitionedGraph:
    """Runs the nodes of a graph in order, both compiled pieces and PyTorch's."""

    def __init__(self, graph_module: Any, name: str, options: Options, entries: list[report.EagerOperation]) -> None:
        self._entries = entries
        self._graph_module = graph_module
        self._nodes = list(graph_module.graph.nodes)
        self._pieces: dict[Any, tuple[CompiledGraph, bool]] = {}
        last: dict[Any, Any] = {}
        for node in self._nodes:
            if node.op == "call_module":
                module, aliases = getattr(graph_module, node.target), name == INFERENCE
                piece = LoweredGraph(module, f"{name}.{len(self._pieces)}", aliases=aliases)
                assert not piece.unsupported, piece.unsupported
                single = not isinstance(_returned(piece.graph_module), (list, tuple))
                self._pieces[node] = piece.compile(options), single
            last.update(dict.fromkeys(node.all_input_nodes, node))
        self._ended: dict[Any, list[Any]] = {}
        for node, user in last.items():
            self._ended.setdefault(user, []).append(node)

    def __call__(self, *arguments: Any) -> list[Any]:
        report.count(self._entries)
        values: dict[Any, Any] = {}
        rest = iter(arguments)
        for node in self._nodes:
            if node.op == "placeholder":
                values[node] = next(rest)
                continue
            if node.op == "get_attr":
                values[node] = _attribute(self._graph_module, node)
                continue
            args = torch.fx.node.map_arg(node.args, values.__getitem__)
            if node.op == "output":
                return list(args[0])
            if node.op == "call_module":
                run, single = self._pieces[node]
                results = run(*args)
                values[node] = results[0] if single else results
            else:
                values[node] = node.target(*args, **torch.fx.node.map_arg(node.kwargs, values.__getitem__))
            for ended in self._ended.get(node, ()):
                del values[ended]
        raise AssertionError("a graph without an output")


def _returned(graph_module: Any) -> Any:
    return next(n for n in graph_module.graph.nodes if n.op == "output").args[0]
