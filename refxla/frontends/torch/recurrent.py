"""Recurrent layers (nn.LSTM, nn.GRU, nn.RNN) as loops.

PyTorch decomposes them into operations for each step of the sequence, and such a program grows with its length. Here, a
layer in one direction is one operation, which becomes a loop of HLO, and its gradient another. Both loops contain only
what depends on the previous step: the products with the inputs and the gradients of weights are products over all
steps, outside the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn import functional

from .lowering import overload_of

# -- one step: from the contributions of the input and the hidden state, and the states, to the new states; the first is
# hidden


def _lstm_cell(x: Any, hidden: Any, _: Any, cell: Any) -> tuple[Any, ...]:
    entering, kept, new, shown = (x + hidden).chunk(4, -1)
    cell = kept.sigmoid() * cell + entering.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def _gru_cell(x: Any, hidden: Any, state: Any) -> tuple[Any, ...]:
    reset, update, new = x.chunk(3, -1)
    reset_by, update_by, new_by = hidden.chunk(3, -1)
    new = (new + new_by * (reset + reset_by).sigmoid()).tanh()
    return ((state - new) * (update + update_by).sigmoid() + new,)


def _tanh_cell(x: Any, hidden: Any, _: Any) -> tuple[Any, ...]:
    return ((x + hidden).tanh(),)


def _relu_cell(x: Any, hidden: Any, _: Any) -> tuple[Any, ...]:
    return ((x + hidden).relu(),)


CELLS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "gru": _gru_cell,
    "lstm": _lstm_cell,
    "rnn_relu": _relu_cell,
    "rnn_tanh": _tanh_cell,
}


def cell_gradients(kind: str) -> Callable[..., Any]:
    """From the gradients of a step's new states, and the inputs of the step, the gradients of the inputs."""

    def apply(*values: Any) -> Any:
        count = len(values) // 2 - 1  # of the states: n gradients, two contributions, n states
        _, derive = torch.func.vjp(CELLS[kind], *values[count:])
        return derive(tuple(values[:count]))

    return apply


# -- all steps


@torch.library.custom_op("refxla::recurrence", mutates_args=())  # type: ignore[untyped-decorator]  # PyTorch has no types for it
def recurrence(
    kind: str,
    x: torch.Tensor,
    states: list[torch.Tensor],
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
) -> list[torch.Tensor]:
    """The contribution of the hidden state to each step, and the states after each step.

    `x` is [steps, batch, gates], a state [batch, features], and `weight` [gates, features].
    """
    hidden = x.new_empty(x.shape)
    after = [x.new_empty(len(x), *s.shape) for s in states]
    for n in _steps(len(x), reverse):
        hidden[n] = functional.linear(states[0], weight, bias)
        states = list(CELLS[kind](x[n], hidden[n], *states))
        for sequence, state in zip(after, states, strict=True):
            sequence[n] = state
    return [hidden, *after]


@torch.library.custom_op("refxla::recurrence_backward", mutates_args=())  # type: ignore[untyped-decorator]  # PyTorch has no types for it
def recurrence_backward(
    kind: str,
    gradients: list[torch.Tensor],
    x: torch.Tensor,
    hidden: torch.Tensor,
    before: list[torch.Tensor],
    weight: torch.Tensor,
    reverse: bool,
) -> list[torch.Tensor]:
    """The gradients by `x`, by the contributions of the hidden state, and by the first states; `gradients` are those by
    the states after each step, and `before` the states before it."""
    by_x, by_hidden = torch.empty_like(x), torch.empty_like(x)
    by_states = [torch.zeros_like(s[0]) for s in before]
    for n in _steps(len(x), not reverse):
        by_states = [g[n] + s for g, s in zip(gradients, by_states, strict=True)]
        by_x[n], by_hidden[n], *by_states = cell_gradients(kind)(*by_states, x[n], hidden[n], *(s[n] for s in before))
        by_states[0] = by_states[0] + by_hidden[n] @ weight
    return [by_x, by_hidden, *by_states]


def _steps(count: int, reverse: bool) -> Iterator[int]:
    return iter(range(count - 1, -1, -1) if reverse else range(count))


def _fake_recurrence(kind: str, x: Any, states: Any, weight: Any, bias: Any, reverse: bool) -> Any:
    return [x.new_empty(x.shape), *(x.new_empty(len(x), *s.shape) for s in states)]


def _fake_backward(kind: str, gradients: Any, x: Any, hidden: Any, before: Any, weight: Any, reverse: bool) -> Any:
    return [x.new_empty(x.shape), x.new_empty(x.shape), *(x.new_empty(s.shape[1:]) for s in before)]


recurrence.register_fake(_fake_recurrence)
recurrence_backward.register_fake(_fake_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    kind, x, states, weight, bias, reverse = inputs
    ctx.kind, ctx.reverse, ctx.has_bias, ctx.count = kind, reverse, bias is not None, len(states)
    ctx.save_for_backward(x, weight, *states, *output)


def _derive(context: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    x, weight, *rest = context.saved_tensors
    first, hidden, after = rest[: context.count], rest[context.count], rest[context.count + 1 :]
    parts = [(s[1:], f[None]) if context.reverse else (f[None], s[:-1]) for s, f in zip(after, first, strict=True)]
    before = [torch.cat(p) for p in parts]
    by_after = [torch.zeros_like(s) if g is None else g for g, s in zip(gradients[1:], after, strict=True)]
    by_x, by_hidden, *by_states = recurrence_backward(
        context.kind, by_after, x, hidden, before, weight, context.reverse
    )
    flat = by_hidden.flatten(0, 1)
    by_bias = flat.sum(0) if context.has_bias else None
    return None, by_x, by_states, flat.t() @ before[0].flatten(0, 1), by_bias, None


recurrence.register_autograd(_derive, setup_context=_save)


# -- layers, with the arguments of torch.lstm and the like


def _direction(
    kind: str, x: Any, states: Sequence[Any], parameters: Sequence[Any], has_biases: bool, reverse: bool
) -> tuple[Any, list[Any]]:
    """One layer in one direction: the hidden state after each step, and the last states."""
    by_input, by_hidden = parameters[:2]
    bias: Any = None
    hidden_bias: Any = None
    if has_biases:
        bias, hidden_bias = parameters[2:]
        if kind != "gru":  # the contributions are added anyway: one bias is enough
            bias, hidden_bias = bias + hidden_bias, None
    gates = functional.linear(x.flatten(0, 1), by_input, bias).unflatten(0, x.shape[:2])
    own = [s.to(gates.dtype) for s in states]
    hidden_bias = None if hidden_bias is None else hidden_bias.to(gates.dtype)
    _, *after = recurrence(kind, gates, own, by_hidden.to(gates.dtype), hidden_bias, reverse)
    return after[0], [s[0 if reverse else -1] for s in after]


def _layers(
    kind: str, x: Any, states: Sequence[Any], parameters: Sequence[Any], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    x = x.transpose(0, 1) if batch_first else x
    each, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            n = layer * directions + direction
            own = parameters[each * n : each * (n + 1)]
            output, ends = _direction(kind, x, [s[n] for s in states], own, has_biases, direction == 1)
            outputs.append(output)
            last.append(ends)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    x = x.transpose(0, 1) if batch_first else x
    return (x, *(torch.stack(s) for s in zip(*last, strict=True)))


def _function(kind: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Functions such as torch.lstm as loops; layers with projections call `otherwise`."""

    def apply(x: Any, states: Any, parameters: Sequence[Any], has_biases: bool, *rest: Any) -> Any:
        of_layer = 4 if has_biases else 2
        if len(parameters) % (rest[0] * of_layer):
            return otherwise(x, states, parameters, has_biases, *rest)
        return _layers(kind, x, states if kind == "lstm" else [states], parameters, has_biases, *rest)

    return apply


_FUNCTIONS = {getattr(torch, kind): _function(kind, getattr(torch, kind)) for kind in CELLS}
# Decompositions of the operations, as in a graph of torch.export.
RECURRENT = {f"{kind}.input": _function(kind, decomposition_table[overload_of(f"{kind}.input")]) for kind in CELLS}


def write_as_loops(graph_module: Any) -> None:
    """Makes recurrent layers loops in a graph of Dynamo's, and in those that it calls.

    Layers of packed sequences, whose steps differ in size, are unchanged, and so are those under a transformation of
    torch.func, which has no rule for the loops.
    """
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        nodes = [n for n in module.graph.nodes if n.op == "call_function"]
        if any("increment_nesting" in getattr(n.target, "__name__", "") for n in nodes):
            continue
        layers = [n for n in nodes if n.target in _FUNCTIONS and isinstance(n.args[3], bool)]  # not packed ones
        for node in layers:
            node.target = _FUNCTIONS[node.target]
        if layers:
            module.recompile()
