"""Whole numbers as arguments of what torch.compile(backend="refxla") compiles: one program serves all their values, but
where they decide a size."""

import sys

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_agreement import begin_anew, close  # noqa: E402

from refxla.frontends import torch as frontend  # noqa: E402
from refxla.frontends.torch.partition import compile_graph  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """The graphs that are compiled in a test."""
    begin_anew()
    names: list[str] = []

    def counted(graph, name, *rest):
        names.append(name)
        return compile_graph(graph, name, *rest)

    monkeypatch.setattr(sys.modules["refxla.frontends.torch.backend"], "compile_graph", counted)
    yield names
    assert not frontend.report()


def put(x, y, n):
    x = x.clone()
    x[:, n : n + 2] = y
    return x


FUNCTIONS = {
    "factors": lambda x, y, n: (y * n, y / n, n - y, y + (n - 9), y // n, y % n, y**n, torch.sub(n, y)),
    "types": lambda x, y, n: (
        (y > 0) * n, y.to(torch.int8) * n, y.half() / n, y.double() - n, (y > 0).sum().int() + n, y.sum().half() * n
    ),
    "python": lambda x, y, n: (y * (1 - n / 10) ** 2, y * 0.9**n, y * -(n % 3), y + n // 2 * 2.5, y * max(n - 1, 0)),
    "comparisons": lambda x, y, n: (torch.arange(8) <= n, y == n, (y * 9).int() < n, (y > n - 4).any()),
    "new": lambda x, y, n: (
        torch.full((2, 3), n), torch.full_like(y, n), torch.tensor(n), torch.tensor([1, n]), torch.arange(n, n + 3),
        torch.arange(3) * n, y.clone().fill_(n), torch.full((2,), n / 4),
    ),
    "choices": lambda x, y, n: (
        y.clamp(max=n - 4), y.clamp(-n, n / 5), y.masked_fill(y > 0, n), torch.where(y > 0, n, y), y.clamp_min(n - 3)
    ),
    "slices": lambda x, y, n: (x[:, n : n + 2] * 2, x[:, n - 8 : n - 6].sum(1), x.narrow(1, n, 2).exp(), put(x, y, n)),
    "rolls": lambda x, y, n: (x.roll(n, 1), x.roll((n, -n), (0, 1))),
    "tables": lambda x, y, n: nn.functional.embedding(torch.tensor([n, 0]), x[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_decide_no_size_are_arguments(name, programs):
    f, x, y = FUNCTIONS[name], torch.randn(3, 9, 4), torch.randn(3, 2, 4).abs()
    g = torch.compile(f, backend="refxla", fullgraph=True)
    for n in (3, 4, 5, 2):
        torch.testing.assert_close(g(x, y, n), f(x, y, n))
    assert len(programs) == 2  # the first takes the number for a constant


def test_numbers_in_training(programs):
    def f(x, y, n):
        return (put(x, y, n) ** 2 * n)[:, n - 1 : n + 2] / n

    g = torch.compile(f, backend="refxla", fullgraph=True)
    for n in (3, 4, 5, 6, 2):
        pairs = [[t.requires_grad_() for t in (torch.ones(2, 9, 4), torch.full((2, 2, 4), 3.0))] for _ in range(2)]
        for h, (x, y) in zip((f, g), pairs, strict=True):
            (h(x, y, n) * torch.arange(4)).sum().backward()
        close([t.grad for t in pairs[1]], [t.grad for t in pairs[0]])
    assert len(programs) == 4


def test_a_buffer_that_is_filled_step_by_step(programs):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 16, 4))

        def forward(self, x, n):
            self.keys[:, n : n + 1] = x
            seen = torch.arange(16) <= n
            return nn.functional.scaled_dot_product_attention(x, self.keys, self.keys, seen[None, None])

    plain, model = Cache(), Cache()
    step = torch.compile(model, backend="refxla", fullgraph=True)
    with torch.no_grad():
        for n in range(10):
            x = torch.randn(2, 1, 4)
            close(step(x, n), plain(x, n))
    close(model.keys, plain.keys)
    assert len(programs) <= 4  # 0 and 1 are constants to PyTorch


def test_numbers_beside_sizes_that_change(programs):
    def f(x, n):
        return x[:, n : n + 2] * n, x.shape[0] * n + x.sum(0), x[n:]

    g = torch.compile(f, backend="refxla", dynamic=True, fullgraph=True)
    for rows, n in ((6, 3), (6, 4), (7, 3), (7, 4), (6, 3)):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(g(x, n), f(x, n))
    programs.clear()
    h = torch.compile(lambda x, n: f(x, n)[:2], backend="refxla", dynamic=True, fullgraph=True)
    for rows, n in ((6, 3), (6, 4), (7, 3), (7, 4), (6, 5)):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(h(x, n), f(x, n)[:2])


def test_a_view_that_a_number_places_is_one():
    f = torch.compile(lambda x, n: (x[n : n + 2], x * n), backend="refxla", dynamic=True)
    x = torch.randn(9, 3)
    for n in (3, 4, 5):
        view, _ = f(x, n)
        close(view, x[n : n + 2])
        view.fill_(n)
        assert (x[n : n + 2] == n).all()


def test_sizes_that_keep_changing_are_warned_of():
    f = torch.compile(lambda x: x.sin().sum(0), backend="refxla", dynamic=True)
    with pytest.warns(RecompilationWarning, match=r"test_torch_numbers.py:\d+ was .*from 6 to 7: each size") as seen:
        for rows in (2, 3, 4, 5, 6, 7):
            f(torch.ones(rows, 3))
    assert [w.filename for w in seen if w.category is RecompilationWarning] == [__file__]
