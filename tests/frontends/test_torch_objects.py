"""What torch.compile(backend="refxla") is given besides plain tensors: subclasses, fake tensors, exported programs."""

import pytest

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, close, compiled  # noqa: E402

from refxla import InputError  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


class Picture(torch.Tensor):
    """A subclass that names what its elements are."""


class Unwrapping(torch.Tensor):
    """A subclass whose operations give plain tensors, as torchvision's are."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs or {})


@pytest.mark.parametrize("kind", [Picture, Unwrapping])
def test_tensors_of_subclasses_are_read_where_they_lie(kind):
    x = torch.randn(2, 6)
    given, layer = x.clone().as_subclass(kind), torch.nn.Linear(6, 3)
    actual = compiled(layer)(given)
    assert type(actual) is type(layer(given))
    close(torch.Tensor(actual), layer(x))
    actual.sum().backward()
    close(layer.weight.grad, x.sum(0).expand(3, 6))
    with torch.no_grad():
        close(torch.Tensor(compiled(lambda t: t.add_(1).sin())(given)), (x + 1).sin())
    close(torch.Tensor(given), x + 1)


def test_a_subclass_is_given_to_operations_that_run_in_eager():
    x = torch.rand(8)
    given = x.clone().as_subclass(Picture)
    torch.manual_seed(1)
    expected = torch.bernoulli(x) * 2
    torch.manual_seed(1)
    close(torch.Tensor(compiled(lambda t: torch.bernoulli(t) * 2)(given)), expected)


def test_a_fake_tensor_is_refused_by_name():
    f = compiled(lambda t: t.sin())
    f(torch.ones(3))
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(InputError, match="a FakeTensor was given"):
        f(mode.from_tensor(torch.ones(3)))
