"""The loops of recurrent layers: a step's cell is traced, and lowered as part of the body of a `while`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch.fx.experimental.proxy_tensor import make_fx

from .control_flow import at, lowered_graph, put_at
from .lowering import I, Lowering, lowers, wide
from .recurrent import CELLS, cell_gradients
from .tensors import TYPES

_DTYPES = {element_type: dtype for dtype, element_type in TYPES.items()}


def inlined(b: Lowering, function: Callable[..., Any], *values: I) -> list[I]:
    """The results of a function of tensors with several results: it is traced, and lowered where it is called."""
    # imported late: they are the operations without a lowering, so the table must be full
    from .decompositions import decompositions

    examples = [torch.empty(v.shape.dimensions, dtype=_DTYPES[v.shape.element_type]) for v in values]
    with tracing(None):  # not as part of the compiled graph, whose sizes may be symbols
        graph_module = make_fx(function, decomposition_table=decompositions(), tracing_mode="fake")(*examples)
    return lowered_graph(b, graph_module, values)


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
        after = inlined(b, CELLS[kind], at(b, x, step), hidden, *own)
        written = [put_at(b, s, v, step) for s, v in zip(sequences, (hidden, *after), strict=True)]
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
        of_states = [b.add(s, at(b, g, step)) for s, g in zip(own, gradients, strict=True)]
        of_x, of_hidden, *after = inlined(b, cell, *of_states, *(at(b, v, step) for v in (x, hidden, *before)))
        after[0] = b.add(after[0], _product(b, of_hidden, weight, (-1, -2)))
        return [put_at(b, by_x, of_x, step), put_at(b, by_hidden, of_hidden, step), *after]

    first = [b.full(0, s) for s in b.result]
    return b.repeat(steps, iteration, first, [*gradients, *before, x, hidden, weight])
