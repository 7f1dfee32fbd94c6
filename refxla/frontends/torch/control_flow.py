"""Operations that call graphs: `torch.cond` as a conditional of HLO, `while_loop`, `scan` and `map` as loops.

The checks of a graph (of indices, say) become results of the branch or the loop that it is in.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from refxla_spec.module import Computation, Instruction, post_order
from refxla_spec.types import PRED, Shape
from torch.fx.node import map_arg

from .lowering import I, Lowering, NotLowered, lowers, rule_of
from .tensors import shape_of, to_array

Check = tuple[I, str]


def lowered_graph(b: Lowering, graph_module: Any, values: Sequence[I]) -> list[I]:
    """The results of a graph, which is lowered where it is called."""
    rest, known, outer = iter(values), dict[Any, Any](), (b.result, b.fakes, b.target)
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            known[node] = next(rest)
        elif node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph_module)
            known[node] = b.constant(np.array(to_array(value, None))) if isinstance(value, torch.Tensor) else value
        elif node.op == "output":
            break
        elif node.target is operator.getitem:
            known[node] = known[node.args[0]][node.args[1]]
        else:
            rule, fake = rule_of(node.target), node.meta["val"]
            if rule is None:
                raise NotLowered(f"{node.target} in it has no lowering")
            b.result = [shape_of(f) for f in fake] if isinstance(fake, (list, tuple)) else shape_of(fake)
            b.fakes = [a.meta["val"] if _is_value(a) else a for a in node.args]
            b.target = str(node.target)
            args, kwargs = (map_arg(a, known.__getitem__) for a in (node.args, node.kwargs))
            known[node] = rule(b, *args, **kwargs)
    b.result, b.fakes, b.target = outer
    (returned,) = node.args
    return [known[n] for n in ([returned] if isinstance(returned, torch.fx.Node) else returned)]


def _is_value(argument: Any) -> bool:
    """Whether an argument is a node with a tensor, not one with a graph."""
    return isinstance(argument, torch.fx.Node) and "val" in argument.meta


def at(b: Lowering, x: I, step: I) -> I:
    """x[step]"""
    return b.reshape(b.part(x, 0, step, 1), x.shape.dimensions[1:])


def put_at(b: Lowering, x: I, update: I, step: I) -> I:
    """x after x[step] = update"""
    return b.put(x, b.reshape(update, (1, *update.shape.dimensions)), 0, step)


@lowers("higher_order::cond")
def cond(b: Lowering, predicate: Any, yes: Any, no: Any, operands: Sequence[Any]) -> list[I]:
    _require_arrays(predicate)
    first = b.make("tuple", *(o for o in operands if isinstance(o, Instruction)))
    branches = [_branch(b, graph, first.shape, operands) for graph in (yes, no)]
    messages = [message for _, _, checks in branches for _, message in checks]
    computations = []
    for number, (parameter, results, checks) in enumerate(branches):
        is_met = [b.scalar(True, PRED)] * len(messages)
        start = number and len(branches[0][2])
        is_met[start : start + len(checks)] = [condition for condition, _ in checks]
        computations.append(_computation(b, parameter, b.make("tuple", *results, *is_met)))
    index = b.reshape(b.cast(predicate, PRED), ())
    called = b.make(
        "conditional", index, first, first, true_computation=computations[0], false_computation=computations[1]
    )
    return _without_checks(b, called, messages)


def _branch(b: Lowering, graph_module: Any, shape: Shape, operands: Sequence[Any]) -> tuple[I, list[I], list[Check]]:
    """The parameter, the results and the checks of a branch, whose operands are one tuple; numbers (sizes that Dynamo
    makes symbols) are not in it."""
    parameter, values = _parameter(b, shape)
    arrays = iter(values)
    own = [next(arrays) if isinstance(o, Instruction) else o for o in operands]
    return parameter, *_with_checks(b, graph_module, own)


def _parameter(b: Lowering, shape: Shape) -> tuple[I, list[I]]:
    b.count += 1
    parameter = Instruction(f"{b.name}.{b.count}", "parameter", shape, [], {"number": 0})
    return parameter, [b.make("get-tuple-element", parameter, index=n) for n in range(len(shape.elements))]


def _computation(b: Lowering, parameter: I, root: I) -> Computation:
    b.count += 1
    instructions = [parameter, *(i for i in post_order(root) if i is not parameter)]
    return Computation(f"{b.name}.graph.{b.count}", instructions, root)


def _with_checks(b: Lowering, graph_module: Any, values: Sequence[I]) -> tuple[list[I], list[Check]]:
    """The results of a graph, and the checks that it makes, which only hold inside."""
    count = len(b.checks)
    results = lowered_graph(b, graph_module, values)
    own = b.checks[count:]
    del b.checks[count:]
    return results, own


def _without_checks(b: Lowering, called: I, messages: Sequence[str]) -> list[I]:
    """The elements of a tuple, of which the last ones are checks with these messages."""
    parts = [b.make("get-tuple-element", called, index=n) for n in range(len(called.shape.elements))]
    count = len(parts) - len(messages)
    b.checks += zip(parts[count:], messages, strict=True)
    return parts[:count]


@lowers("higher_order::while_loop")
def while_loop(b: Lowering, goes_on: Any, body: Any, state: Sequence[Any], invariants: Sequence[Any]) -> list[I]:
    _require_arrays(*state, *invariants)
    for graph in (goes_on, body):
        if _messages(b, graph, [*state, *invariants]):  # after a check that fails, it might not end
            raise NotLowered("an index or a divisor in it must be checked while it runs")
    first = b.make("tuple", *state, *invariants)
    parameter, values = _parameter(b, first.shape)
    (more,) = lowered_graph(b, goes_on, values)
    condition = _computation(b, parameter, b.reshape(b.cast(more, PRED), ()))
    parameter, values = _parameter(b, first.shape)
    after = lowered_graph(b, body, values)
    new = _computation(b, parameter, b.make("tuple", *after, *values[len(state) :]))
    loop = b.make("while", first, condition=condition, body=new)
    return [b.make("get-tuple-element", loop, index=n) for n in range(len(state))]


@lowers("higher_order::scan")
def scan(b: Lowering, step: Any, state: Sequence[Any], xs: Sequence[Any], invariants: Sequence[Any]) -> list[I]:
    _require_arrays(*state, *xs, *invariants)
    steps, count, rows = xs[0].shape.dimensions[0], len(state), b.result[len(state) :]
    messages = _messages(b, step, [*state, *(_row(b, x) for x in xs), *invariants])
    is_met = [b.scalar(True, PRED)] * len(messages)

    def iteration(k: I, *values: I) -> list[I]:
        own, written = values[:count], values[count : count + len(rows)]
        met = values[count + len(rows) :][: len(messages)]
        xs_, rest = _split(values[count + len(rows) + len(messages) :], len(xs))
        after, checks = _with_checks(b, step, [*own, *(at(b, x, k) for x in xs_), *rest])
        ys = [put_at(b, y, value, k) for y, value in zip(written, after[count:], strict=True)]
        return [*after[:count], *ys, *(b.and_(m, condition) for m, (condition, _) in zip(met, checks, strict=True))]

    first = [*state, *(b.full(0, s) for s in rows), *is_met]
    last = b.repeat(steps, iteration, first, [*xs, *invariants])
    kept = len(first) - len(messages)
    b.checks += zip(last[kept:], messages, strict=True)
    return last[:kept]


@lowers("higher_order::map_impl")
def map_(b: Lowering, step: Any, xs: Sequence[Any], invariants: Sequence[Any]) -> list[I]:
    return scan(b, step, [], xs, invariants)


def _split(values: Sequence[I], count: int) -> tuple[Sequence[I], Sequence[I]]:
    return values[:count], values[count:]


def _row(b: Lowering, x: I) -> I:
    """An array with the shape of a row of x."""
    return b.full(0, x.shape.with_dimensions(x.shape.dimensions[1:]))


def _messages(b: Lowering, graph_module: Any, values: Sequence[I]) -> list[str]:
    """The messages of the checks that a graph makes: a loop must have their results in its state beforehand."""
    return [message for _, message in _with_checks(b, graph_module, values)[1]]


def _require_arrays(*values: Any) -> None:
    if not all(isinstance(v, Instruction) for v in values):
        raise NotLowered("one of its operands is a number, not a tensor")
