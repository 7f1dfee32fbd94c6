"""Special functions compiled: values as PyTorch's in double precision, over the whole range, and gradients."""

import pytest

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, check, compiled  # noqa: E402

from refxla.frontends import torch as frontend  # noqa: E402

special = torch.special
inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def trigamma(x):
    return torch.polygamma(1, x)


# Each with the range of x.
FUNCTIONS = {
    torch.lgamma: (-30, 1e6), torch.digamma: (-30, 1e6), trigamma: (-30, 1e6), torch.erfc: (-6, 9),
    special.erfcx: (-9, 1e6), torch.erfinv: (-1, 1), torch.i0: (-80, 80), special.i0e: (-1e6, 1e6),
    special.i1: (-80, 80), special.i1e: (-1e6, 1e6),
}  # fmt: skip
NAMES = [f.__name__ for f in FUNCTIONS]


def numbers(low, high, dtype):
    """Small and large ones, those between, and those near both ends."""
    size = torch.logspace(-30, 6, 2000, dtype=torch.float64)
    x = torch.cat([size, -size, torch.linspace(-12, 12, 2001, dtype=torch.float64)])
    if high == 1:
        x = torch.cat([x, 1 - size, size - 1])
    whole = (x < 0) & (x == x.round())  # poles of the gamma function
    return x[(x > low) & (x < high) & ~whole].to(dtype)


@pytest.mark.parametrize("f", FUNCTIONS, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values(f, dtype):
    """Near zeros of the function, and of x < 0, where it is a difference, errors are measured by 1."""
    x = numbers(*FUNCTIONS[f], dtype)
    x = x[x.abs() < 1] if dtype == torch.float32 and f is torch.erfinv else x
    expected, actual = f(x.double()), compiled(f)(x)
    assert actual.dtype == dtype
    least = torch.where(x < 0, 1.0, 0.0) if f in (torch.lgamma, torch.digamma, trigamma) else torch.zeros(len(x))
    least = torch.ones(len(x)) if f is torch.digamma else least
    there = expected.isfinite() & (expected.abs() >= torch.finfo(dtype).tiny) & (expected.abs() < 1e38)
    error = ((actual.double() - expected).abs() / torch.maximum(expected.abs(), least))[there]
    own = {trigamma: 1e-8, torch.digamma: 4e-14, special.erfcx: 1e-14}.get(f, 4e-15)  # to which PyTorch's are right
    assert error.max() < (1e-6 if dtype == torch.float32 else own)
    assert not frontend.report()


@pytest.mark.parametrize("f", FUNCTIONS, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_values(f, dtype):
    x = torch.tensor([nan, 0.0, -0.0, inf, -inf, 1, 2, 3, 1.5, 8, 30, 1e-40, -1e-40, 1e5, 3e38], dtype=dtype)
    if f is not trigamma:  # which PyTorch rounds pi for, and is finite at poles
        x = torch.cat([x, torch.tensor([-1.0, -2, -3, -3e38], dtype=dtype)])
    actual, expected = compiled(f)(x), f(x)
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=2e-6, atol=1e-6)
    zero = expected == 0
    assert torch.equal(actual.signbit()[zero], expected.signbit()[zero])


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f is not trigamma], ids=[n for n in NAMES if n != "trigamma"])
def test_gradients(f):
    x = torch.linspace(-0.9, 0.9, 8, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        higher = x * 9 + 11
    check(f, x, tolerance=1e-7)
    if f is not torch.erfinv:
        check(f, higher.requires_grad_(), tolerance=1e-7)


@pytest.mark.parametrize("f", FUNCTIONS, ids=NAMES)
def test_other_types(f):
    """f16 and bf16 are computed in f32, and integers as f32."""
    x = torch.linspace(0.1, 0.9, 9)
    for y in (x.to(torch.bfloat16), x.to(torch.float16), (x * 10).int()):
        kind = y.dtype if y.is_floating_point() else torch.float32
        torch.testing.assert_close(compiled(f)(y), f(y.float()).to(kind), equal_nan=True)


def test_logarithms_of_densities():
    a, c = (torch.rand(5, requires_grad=True) for _ in range(2))
    x = torch.rand(5) * 0.8 + 0.1

    def f(a, c):
        d = torch.distributions
        return (
            d.Gamma(a + 0.5, c + 0.5, validate_args=False).log_prob(x), torch.special.log_ndtr(a * 9 - 8),
            d.Beta(a + 0.5, c + 0.5, validate_args=False).log_prob(x), torch.mvlgamma(a + 2, 3),
            d.StudentT(a + 1, validate_args=False).log_prob(x), d.Poisson(c, validate_args=False).log_prob(x * 9),
        )  # fmt: skip

    check(f, a, c)


def test_common_divisors_and_multiples():
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        x, y = (torch.randint(0, 120, (40,)).to(dtype) for _ in range(2))
        x[0] = y[0] = y[1] = x[2] = 0
        if dtype.is_signed:
            x = x * torch.randint(-1, 2, (40,), dtype=dtype)
        check(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x[5], y), x.gcd(y[3:4])), x, y)
    far = torch.tensor([7540113804746346429, 2**62, -(2**63)]), torch.tensor([4660046610375530309, 3**39, 6])
    check(lambda x, y: torch.gcd(x, y), *far)


KINDS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("kind", KINDS)
def test_conversions_to_narrow_floats(kind):
    """Also of numbers that the type does not have: too large, and zero and negative ones for powers of two."""
    x = torch.tensor([0, -0.0, 1.2, -2, 448, 464, 465, 1e3, -1e3, 3e4, 7e4, 1e-9, 1e-40, 3e38, inf, -inf, nan])
    whole = torch.tensor([0, 1, -3, 448, 500, -(10**6)])
    values = x, x.double(), x.bfloat16(), x.half(), x.to(torch.float8_e5m2), whole, whole.to(torch.int8), x > 1

    def f(*values):
        narrow = [v.to(getattr(torch, kind)) for v in values]
        return [n.float() for n in narrow], narrow[0]

    actual, expected = compiled(f)(*values), f(*values)
    assert actual[1].dtype is expected[1].dtype
    torch.testing.assert_close(actual[0], expected[0], rtol=0, atol=0, equal_nan=True)


def test_bits_read_as_another_type():
    kinds = [torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex64, torch.complex128]

    def f(*values):
        return [v.view(kind) for v in values for kind in kinds]

    values = [torch.randn(3, 16).to(kind) * 9 for kind in kinds]
    actual, expected = compiled(f)(*(v + 0 for v in values)), f(*values)
    inner = compiled(lambda *values: [v.view(torch.uint8) for v in f(*(v + 0 for v in values))])(*values)
    for a, e, i in zip(actual, expected, inner, strict=True):
        assert a.dtype is e.dtype and torch.equal(a.view(torch.uint8), e.view(torch.uint8))
        assert torch.equal(i, e.view(torch.uint8))
    check(lambda x: (x + 0).view(torch.int64), torch.tensor(1 + 2j))
    assert not frontend.report()
