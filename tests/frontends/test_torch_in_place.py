"""Arguments that what torch.compile(backend="refxla") compiles writes: the program does so in their memory."""

import numpy as np
import pytest

import refxla

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, close  # noqa: E402

from refxla.frontends import torch as frontend  # noqa: E402
from refxla.frontends.torch.graph import CompiledGraph  # noqa: E402


@pytest.fixture(autouse=True)
def given(monkeypatch):
    """How many arguments each call of a graph gives away."""
    begin_anew()
    counts: list[int] = []
    call = CompiledGraph.__call__

    def noted(graph, *arguments):
        counts.append(len(graph._donations))
        return call(graph, *arguments)

    monkeypatch.setattr(CompiledGraph, "__call__", noted)
    yield counts


def update(x, y):
    old = x.clone()
    x.add_(y)
    return old, x * 2


def exchange(x, y):
    z = x.clone()
    x.copy_(y)
    y.copy_(z)
    return x - y


def turned(x, y):
    x.t().mul_(2)
    x += y
    return x.t()


def rows(x, y):
    x[1:2] = y[:1]
    return x.sum()


def both(x, y):
    x += 1
    y *= x
    return (x[1:] - y[1:]).sum()


FUNCTIONS = {"update": update, "exchange": exchange, "turned": turned, "rows": rows, "both": both}
ARGUMENTS = {
    "rows": lambda: (torch.randn(3, 4), torch.randn(3, 4)),
    "columns": lambda: (torch.randn(4, 3).t(), torch.randn(3, 4)),
    "with gaps": lambda: (torch.randn(3, 8)[:, ::2], torch.randn(3, 4)),
    "bf16": lambda: (torch.randn(3, 4).bfloat16(), torch.randn(3, 4).bfloat16()),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_what_they_are_in_eager(name, kind):
    x, y = ARGUMENTS[kind]()
    f = FUNCTIONS[name]
    g = torch.compile(f, backend="refxla", fullgraph=True)
    expected, actual = [[t.clone() for t in (x, y)] for _ in range(2)]
    for _ in range(3):
        e, a = f(*expected), g(*actual)
        close(a, e)
        close(actual, expected)
    places = [t.data_ptr() for t in actual]
    g(*actual)
    assert [t.data_ptr() for t in actual] == places and not frontend.report()


def test_a_result_lies_in_the_memory_of_the_argument_that_it_is(given):
    parameters = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
    for p in parameters:
        p.grad = torch.ones(4, 4)
    step = torch.compile(torch.optim.SGD(parameters, 0.1, momentum=0.9).step, backend="refxla")
    expected = [p.detach() - 0.1 for p in parameters]
    step()
    close([p.detach() for p in parameters], expected)
    step()
    close([p.detach() for p in parameters], [e - 0.19 for e in expected])
    assert given[-1] == 6


def test_elements_of_a_cache_are_written_in_it(given):
    def f(cache, keys, place):
        cache.index_copy_(1, place, keys)
        return cache.sum(1)

    cache, keys = torch.zeros(2, 5, 3), torch.ones(2, 1, 3)
    g = torch.compile(f, backend="refxla", fullgraph=True)
    close(g(cache, keys, torch.tensor([2])), torch.ones(2, 3))
    close(cache[:, 2], torch.ones(2, 3))
    with pytest.raises(IndexError):
        g(cache, keys, torch.tensor([5]))
    assert cache.sum() == 6 and given == [1, 1]


def test_what_a_failed_check_may_leave_is_not_written_in_place(given):
    def f(x, n):
        x += 1
        return x // n

    x, n = torch.zeros(3, dtype=torch.int64), torch.tensor([1, 0, 1])
    with pytest.raises(ZeroDivisionError):
        torch.compile(f, backend="refxla", fullgraph=True)(x, n)
    assert given == [0] and x.sum() == 0


def test_arguments_are_written_when_what_runs_in_eager_has_read_them():
    def f(x):
        y = x.clone()
        x.add_(torch.special.bessel_j0(x))
        return torch.special.bessel_j0(y) + x

    x = torch.rand(4)
    expected = x.clone()
    e = f(expected)
    close(torch.compile(f, backend="refxla", fullgraph=True)(x), e)
    close(x, expected)
    assert {e.operation for e in frontend.report()} == {"prims.bessel_j0.default"}


def test_a_program_gives_away_what_it_is_told_to():
    program = refxla.compile("""HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }
        ENTRY e { x = f32[3] parameter(0)
            y = f32[3] parameter(1)
            w = f32[3] add(y, y)
            z = f32[3] multiply(x, y)
            ROOT r = (f32[3], f32[3]) tuple(w, z) }""")
    x, y = np.full(3, 2, np.float32), np.arange(3, dtype=np.float32)
    first, second = program.in_place((x, y), [0])
    assert second is x and first is not x
    np.testing.assert_array_equal(x, [0, 2, 4])
    first, second = program.in_place((x, y), [])
    assert second is not x
