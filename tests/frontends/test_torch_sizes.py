"""Sizes that change from call to call in what torch.compile(backend="refxla") compiles, as those of x[mask] do."""

import pytest

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, check, close  # noqa: E402

from refxla.frontends import torch as frontend  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def test_sizes_that_never_come_again_are_not_compiled():
    f = torch.compile(lambda x: (x * 2).sin(), backend="refxla", dynamic=True)

    def call(rows):
        x = torch.randn(rows, 3, requires_grad=True)
        y = f(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        close((y, gradient), ((x * 2).sin(), (x * 2).cos() * 2))

    with pytest.warns(RecompilationWarning, match="PyTorch runs the graph for new sizes"):
        for rows in range(2, 12):
            call(rows)
    entries = frontend.report()
    assert {(e.operation, e.calls) for e in entries} == {("the forward graph", 4), ("the backward graph", 4)}
    assert all("test_torch_sizes.py:" in e.source and "keep changing" in e.reason for e in entries)
    for _ in range(20):
        call(11)  # the 16th time, it is compiled
    assert {e.calls for e in frontend.report()} == {4 + 14}


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_reads_by_a_mask_in_a_graph_run_with_their_gradients():
    """Their sizes are symbols without a value if Dynamo is told to keep them in the graph."""

    def f(x, y):
        return x[y > 0].exp().mean()

    x, y = torch.randn(6, 5, requires_grad=True), torch.randn(6, 5)
    with pytest.warns(frontend.EagerWarning):
        mean = torch.compile(f, backend="refxla", fullgraph=True)(x, y)
    close(torch.autograd.grad(mean, x), torch.autograd.grad(f(x, y), x))
    assert frontend.report()


@pytest.mark.parametrize("shape, size", [((5, 4), 7), ((5, 4), 30), ((3, 1, 2), 0), ((6,), 2), ((0, 3), 2), ((), 2)])
def test_positions_of_a_given_number_are_compiled(shape, size):
    def f(x):
        return torch.nonzero_static(x > 0, size=size), torch.nonzero_static(x, size=size, fill_value=9)

    check(f, torch.randn(shape).relu())
