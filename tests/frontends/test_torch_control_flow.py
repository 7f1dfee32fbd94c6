"""Operations that call graphs: `torch.cond`, `while_loop`, `scan` and `map` are part of the program."""

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import scan, while_loop  # noqa: E402
from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch_agreement import begin_anew, check, close, compiled  # noqa: E402

import refxla  # noqa: E402
from refxla.frontends import torch as frontend  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def test_conditionals():
    weights = torch.randn(4, 4)

    def f(x, p):
        return torch.cond(p, lambda x: x.sin() * weights[0], lambda x: (x.cos() @ weights).softmax(0), (x,))

    for p in (True, False):
        check(f, torch.randn(4, requires_grad=True), torch.tensor(p))

    def nested(x):
        def inner(x):
            y = torch.cond(x.max() > 2, lambda x: x + 1, lambda x: x * torch.tensor([1.0, 2, 3]), (x,))
            return y, y.argmax()

        return torch.cond(x.sum() > 0, inner, lambda x: (x - 1, x.argmin()), (x,))

    for x in ([1.0, 2, 3], [1.0, 2, -1], [-1.0, -2, -3]):
        check(nested, torch.tensor(x))


def test_sizes_that_change():
    f = torch.compile(
        lambda x, p: torch.cond(p, lambda x: x.sum(0) * x.shape[0], lambda x: x.mean(0), (x,)),
        backend="refxla", fullgraph=True, dynamic=True,
    )  # fmt: skip
    for rows, p in ((3, True), (4, False), (4, True)):
        x = torch.randn(rows, 2)
        close(f(x, torch.tensor(p)), x.sum(0) * rows if p else x.mean(0))
    assert not frontend.report()


def test_only_the_branch_that_is_taken_is_checked():
    f = compiled(lambda x, i: torch.cond(i > 2, lambda x, i: x[i[None]], lambda x, i: x[i[None] + 9] * 2, (x, i)))
    x = torch.randn(4)
    close(f(x, torch.tensor(3)), x[3:])
    for i in (4, 1):
        with pytest.raises(IndexError, match="out of range"):
            f(x, torch.tensor(i))
    assert not frontend.report()


def test_loops():
    rows = torch.randn(3)

    def step(carry, x):
        return carry * 0.5 + x, (carry + rows).tanh()

    xs, first = torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    check(lambda c, x: scan(step, c, x, dim=0), first, xs)
    check(lambda c, x: scan(step, c, x, dim=0, reverse=True), first.detach(), xs.detach())
    check(lambda x, y: torch_map(lambda row, y: (row * y).sin() + rows, x, y), xs, first)
    check(
        lambda i, x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + rows), (i, x)), torch.tensor(0), rows
    )
    check(lambda x: torch_map(lambda row: torch.linalg.inv(row), x), torch.eye(2).expand(3, 2, 2) * 2)
    f = compiled(lambda c, i: scan(lambda c, i: (c + rows[i[None]], c * 2), c, i, dim=0))
    with pytest.raises(IndexError, match="out of range"):
        f(torch.zeros(1), torch.tensor([0, 3, 1]))


def test_a_graph_with_an_operation_that_runs_in_pytorch():
    def f(x, p):
        y = torch.cond(p, lambda x: x + 1, lambda x: torch.mode(x.round()).values + x, (x,))
        return torch.cond(p, lambda x: x * 2, lambda x: x - 1, (y,)).sin()

    with pytest.warns(frontend.EagerWarning, match="mode.* in it has no lowering"):
        check(f, torch.randn(6), torch.tensor(False), eager=["cond"])


def test_beside_operations_that_run_in_pytorch():
    def mode(x):
        return torch.mode(x.round(), dim=1).values

    def before_and_after(x):
        y = torch.cond(mode(x).sum() > 0, lambda x: x * 2, lambda x: x.exp(), (x.sin(),))
        return y.cos() + mode(y)[:, None]

    def several(x):
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x.sin(),))
        z = torch.cond(y.max() > 1, lambda x: x * 3, lambda x: x.exp(), (x,))
        return mode(y) + mode(z) + z.sum(1)

    def loops(x):
        y = scan(lambda c, v: (c + v, c * v), x[0], x)[1]
        return (
            y.sum(1)
            + mode(x)
            + while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), (x.new_zeros(()), y))[1].sum(1)
        )

    for f in (before_and_after, several, loops):
        for x in (torch.ones(4, 3), -torch.randn(4, 3).abs()):
            with pytest.warns(frontend.EagerWarning, match="aten.mode.default"):
                check(f, x, eager=["aten.mode.default"])
            begin_anew()
    with pytest.warns(frontend.EagerWarning, match="aten.mode.default"):
        check(before_and_after, torch.randn(4, 3, requires_grad=True), eager=["aten.mode.default"])


def test_as_a_function(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x * 2, (x,))

    model, x = Model().eval(), torch.ones(2, 3)
    f = refxla.compile(model, x)
    f.save(tmp_path / "model.refxla")
    for value in (x, -x):
        close(f(value), model(value).detach())
        close(torch.tensor(refxla.load(tmp_path / "model.refxla")(value.numpy())), model(value).detach())


def test_what_is_refused_is_named():
    """torch.export does not say the user's line of a conditional, and that of the code that torch.fx writes is none."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: torch.mode(x).values + x, lambda x: x - 1, (x,))

    with pytest.raises(refxla.UnsupportedError, match="f has cond, and aten.mode.default in it has no lowering"):
        refxla.compile(f, torch.ones(3))
