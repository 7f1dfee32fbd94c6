"""Functions of tensors compiled by torch.compile(backend="refxla"), beside eager."""

import torch

from refxla.frontends import torch as frontend


def begin_anew():
    """What a test sees does not depend on those before it: nothing is compiled or reported, and noise is the same."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    frontend.clear()


def compiled(f, **options):
    return torch.compile(f, backend="refxla", fullgraph=True, **options)


def close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def check(f, *inputs, tolerance=1e-5, eager=()):
    """A function of tensors gives what it gives in eager, with the same strides, and so do its gradients; nothing runs
    in eager but the operations named."""
    plain = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    given = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    expected, actual = f(*plain), compiled(f)(*given)
    close(actual, expected, tolerance)
    for a, e in zip(as_tuple(actual), as_tuple(expected), strict=True):
        assert a.stride() == e.stride()
    if any(x.requires_grad for x in inputs):
        for outputs in (expected, actual):
            outputs = [o for o in as_tuple(outputs) if o.requires_grad]
            outputs = [torch.view_as_real(o) if o.is_complex() else o for o in outputs]
            sum((o * torch.linspace(0, 1, o.numel()).view(o.shape)).sum() for o in outputs).backward()
        close([x.grad for x in given], [x.grad for x in plain], tolerance)
    assert {e.operation for e in frontend.report()} == set(eager)
    return actual


def as_tuple(value):
    return value if isinstance(value, (tuple, list)) else (value,)
