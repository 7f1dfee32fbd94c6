"""Recurrent layers of PyTorch, which torch.compile(backend="refxla") and refxla.compile make loops of."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_agreement import begin_anew, close  # noqa: E402

import refxla  # noqa: E402
from refxla.frontends import torch as frontend  # noqa: E402
from refxla.frontends.torch import recurrent  # noqa: E402
from refxla.frontends.torch.graph import LoweredGraph  # noqa: E402


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """The HLO of the graphs that are compiled in a test."""
    begin_anew()
    texts: list[str] = []
    compile_graph = LoweredGraph.compile

    def noted(graph, options):
        texts.append(str(graph.module))
        return compile_graph(graph, options)

    monkeypatch.setattr(LoweredGraph, "compile", noted)
    with torch._dynamo.config.patch(allow_rnn=True):
        yield texts
    assert not frontend.report()


def check(model, *inputs, seed=0, tolerance=1e-5):
    """A model gives what it gives in eager, and so do its gradients."""
    results = []
    for f in (model, torch.compile(model, backend="refxla", fullgraph=True)):
        model.zero_grad()
        given = [x.clone().requires_grad_() for x in inputs]
        torch.manual_seed(seed)
        output, states = f(*given) if len(given) < 3 else f(given[0], tuple(given[1:]))
        found = [output, *(states if isinstance(states, tuple) else [states])]
        sum((t * torch.linspace(-1, 1, t.numel()).view(t.shape)).sum() for t in found).backward()
        results.append([*found, *(p.grad for p in (*model.parameters(), *given))])
    close(results[1], results[0], tolerance)
    assert [t.stride() for t in results[1]] == [t.stride() for t in results[0]]


LAYERS = {
    "LSTM": (nn.LSTM(3, 4), 1),
    "LSTM, several layers in both directions": (nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), 1),
    "LSTM without biases, given states": (nn.LSTM(3, 4, bias=False), 3),
    "GRU": (nn.GRU(3, 4, 2, bidirectional=True), 1),
    "GRU without biases": (nn.GRU(3, 4, bias=False, batch_first=True), 2),
    "RNN": (nn.RNN(3, 4, bidirectional=True), 1),
    "RNN of relu": (nn.RNN(3, 4, 2, nonlinearity="relu", batch_first=True), 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_loops_with_gradients(name, programs):
    model, count = LAYERS[name]
    x, states = torch.randn(2, 5, 3), [torch.randn(1, 2 if model.batch_first else 5, 4)] * (count - 1)
    check(model, x, *states)
    loops = model.num_layers * (2 if model.bidirectional else 1)
    assert [text.count(" while(") for text in programs] == [loops, loops]


@pytest.mark.parametrize("steps", [1, 300])
def test_a_program_is_no_longer_for_a_longer_sequence(steps, programs):
    model, x = nn.GRU(2, 3), torch.randn(steps, 1, 2)
    with torch.no_grad():
        close(torch.compile(model, backend="refxla")(x), model(x))
    assert len(programs[0].splitlines()) < 100


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dropout_between_layers_is_that_of_eager(kind):
    check(getattr(nn, kind)(3, 8, 3, dropout=0.5), torch.randn(5, 2, 3), seed=4)
    frontend.clear()  # random numbers are PyTorch's


def test_sequences_without_a_batch_and_batches_without_a_sequence():
    model = nn.LSTM(3, 4)
    compiled = torch.compile(model, backend="refxla", fullgraph=True)
    with torch.no_grad():
        for x in (torch.randn(5, 3), torch.randn(5, 0, 3)):
            close(compiled(x), model(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types(dtype):
    model = nn.GRU(3, 4).to(dtype)
    check(model, torch.randn(5, 2, 3, dtype=dtype), tolerance=1e-9 if dtype is torch.float64 else 0.05)


def test_layers_with_projections_are_written_out(programs):
    model, x = nn.LSTM(3, 4, proj_size=2), torch.randn(3, 2, 3)
    check(model, x)
    assert " while(" not in programs[0]


def test_under_autocast_they_are_computed_in_its_type():
    model, x = nn.LSTM(3, 4), torch.randn(3, 2, 3)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)[0]

    with torch.no_grad():
        y = torch.compile(f, backend="refxla")(x)
        assert y.dtype is torch.bfloat16
        close(y.float(), model(x)[0], 0.05)  # eager has it on some processors alone


def test_functions_have_loops_too():
    model, x = nn.LSTM(3, 4, bidirectional=True, batch_first=True).eval(), torch.randn(2, 5, 3)
    function = refxla.compile(model, x)
    close(function(x), model(x))
    assert str(function.hlo).count(" while(") == 2
    projected = nn.LSTM(3, 4, proj_size=2).eval()
    close(refxla.compile(projected, x)(x), projected(x))


@pytest.mark.parametrize("kind", recurrent.CELLS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_operations_are_what_their_loops_are(kind, reverse):
    """They run in PyTorch, too."""
    states = [torch.randn(2, 3) for _ in range(2 if kind == "lstm" else 1)]
    gates = {"lstm": 12, "gru": 9}.get(kind, 3)
    arguments = (kind, torch.randn(4, 2, gates), states, torch.randn(gates, 3), torch.randn(gates), reverse)

    def f(x, *others):
        given = [v.clone().requires_grad_() for v in (x, *others)]
        after = recurrent.recurrence(kind, given[0], given[3:], given[1], given[2], reverse)
        sum(v.square().sum() for v in after[1:]).backward()
        return [*after, *(v.grad for v in given)]

    inputs = (arguments[1], arguments[3], arguments[4], *states)
    expected = f(*inputs)
    cell, x, weight, bias = recurrent.CELLS[kind], *(v.clone().requires_grad_() for v in inputs[:3])
    given = own = [v.clone().requires_grad_() for v in states]
    total = 0
    for n in range(4):
        own = cell(x[3 - n if reverse else n], own[0] @ weight.t() + bias, *own)
        total = total + sum(v.square().sum() for v in own)
    total.backward()
    close(expected[len(states) + 1 :], [v.grad for v in (x, weight, bias, *given)])
