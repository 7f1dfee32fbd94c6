"""The loops of recurrent layers: a step's cell is traced, and lowered as part of the body of a `while`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from .lowering import I, Lowering, NotLowered, lowers, rule_of, wide
from .recurrent import CELLS, cell_gradients
from .tensors import TYPES, shape_of

_DTYPES = {element_type: dtype for dtype, element_type in TYPES.items()}


def inlined(b: Lowering, function: Callable[..., Any], *values: I) -> list[I]:
    """The results of a function of tensors with several results: it is traced, and lowered where it is called."""
    # imported late: they are the operations without a lowering, so the table must be full
    from .decompositions import decompositions

    examples = [torch.empty(v.shape.dimensions, dtype=_DTYPES[v.shape.element_type]) for v in values]
    with tracing(None):  # not as part of the compiled graph, whose sizes may be symbols
        graph = make_fx(function, decomposition_table=decompositions(), tracing_mode="fake")(*examples).graph
    rest, known, outer = iter(values), dict[Any, Any](), (b.result, b.fakes)
    for node in graph.nodes:
        if node.op == "placeholder":
            known[node] = next(rest)
        elif node.op == "output":
            break
        elif node.target is operator.getitem:
            known[node] = known[node.args[0]][node.args[1]]
        else:
            rule, fake = rule_of(node.target), node.meta["val"]
            if rule is None:
                raise NotLowered(f"{node.target} in it has no lowering")
            b.result = [shape_of(f) for f in fake] if isinstance(fake, (list, tuple)) else shape_of(fake)
            b.fakes = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args]
            args, kwargs = (map_arg(a, known.__getitem__) for a in (node.args, node.kwargs))
            known[node] = rule(b, *args, **kwargs)
    b.result, b.fakes = outer
    return [known[n] for n in node.args[0]]


def _at(b: Lowering, x: I, step: I) -> I:
    return b.reshape(b.part(x, 0, step, 1), x.shape.dimensions[1:])


def _put(b: Lowering, x: I, update: I, step: I) -> I:
    return b.put(x, b.reshape(update, (1, *update.shape.dimensions)), 0, step)


def _product(b: Lowering, x: I, y: I, along: tuple[int, int]) -> I:
    """A matrix product, rounded once from the type in which PyTorch computes."""
    own = x.shape.element_type
    return b.cast(b.product(b.cast(x, wide(own)), b.cast(y, wide(own)), along), own)


def _step(b: Lowering, k: I, count: int, reverse: bool) -> I:
    return b.subtract(count - 1, k) if reverse else k


@lowers("refxla::recurrence")
def recurrence(b: Lowering, kind: str, x: I, states: Sequence[I], weight: I, bias: I | None, reverse: bool) -> list[I]:
    count, steps, invariants = len(states), x.shape.dimensions[0], [x, weight]
    if bias is not None:
        invariants.append(b.expand(bias, x.shape.dimensions[1:]))

    def iteration(k: I, *values: I) -> list[I]:
        own, sequences = values[:count], values[count : 2 * count + 1]
        x, weight, *bias = values[2 * count + 1 :]
        step = _step(b, k, steps, reverse)
        hidden = _product(b, own[0], weight, (-1, -1))
        if bias:
            hidden = b.add(hidden, bias[0])
        after = inlined(b, CELLS[kind], _at(b, x, step), hidden, *own)
        written = [_put(b, s, v, step) for s, v in zip(sequences, (hidden, *after), strict=True)]
        return [*after, *written]

    first = [*states, *(b.full(0, s) for s in b.result)]
    return b.repeat(steps, iteration, first, invariants)[count:]


@lowers("refxla::recurrence_backward")
def recurrence_backward(
    b: Lowering, kind: str, gradients: Sequence[I], x: I, hidden: I, before: Sequence[I], weight: I, reverse: bool
) -> list[I]:
    count, steps = len(before), x.shape.dimensions[0]
    cell = cell_gradients(kind)

    def iteration(k: I, by_x: I, by_hidden: I, *values: I) -> list[I]:
        own, gradients, before = (values[n * count : (n + 1) * count] for n in range(3))
        x, hidden, weight = values[3 * count :]
        step = _step(b, k, steps, not reverse)
        of_states = [b.add(s, _at(b, g, step)) for s, g in zip(own, gradients, strict=True)]
        of_x, of_hidden, *after = inlined(b, cell, *of_states, *(_at(b, v, step) for v in (x, hidden, *before)))
        after[0] = b.add(after[0], _product(b, of_hidden, weight, (-1, -2)))
        return [_put(b, by_x, of_x, step), _put(b, by_hidden, of_hidden, step), *after]

    first = [b.full(0, s) for s in b.result]
    return b.repeat(steps, iteration, first, [*gradients, *before, x, hidden, weight])
