"""The remainder of floats is exact, whatever the quotient: one by one, and in vectors of doubles."""

import ml_dtypes
import numpy as np
import pytest

import refxla

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def pairs(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of any bits; of like sizes; multiples of the divisor, and their neighbours; zeros, infinities, NaNs."""
    dtype = np.dtype(TYPES[name])
    random, bits = np.random.default_rng(3), UNSIGNED[dtype.itemsize]
    x, y = random.integers(0, np.iinfo(bits).max, (2, count), bits, endpoint=True).view(dtype)
    near = random.standard_normal((2, count)).astype(dtype)
    with np.errstate(over="ignore"):
        whole = (near[0] * random.integers(0, 2 ** random.integers(0, 30, count)).astype(dtype)).astype(dtype)
    beside = (whole.view(bits) + random.integers(-2, 3, count).astype(bits)).view(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0], dtype)
    few = np.array(np.meshgrid(special, special)).reshape(2, -1).astype(dtype)
    return np.concatenate([x, near[0] * dtype.type(50), whole, beside, few[0]]), np.concatenate(
        [y, near[1], near[0], near[0], few[1]]
    )


@pytest.mark.parametrize("name", TYPES)
def test_a_loop_has_the_bits_of_fmod(name):
    x, y = pairs(name, 20000)
    text = f"""
    HloModule remainders
    ENTRY main {{
      x = {name}[{len(x)}] parameter(0)
      y = {name}[{len(x)}] parameter(1)
      ROOT r = {name}[{len(x)}] remainder(x, y)
    }}"""
    program = refxla.compile(text)
    assert ("rx_remainder_in_f64" in program.opencl) == (name != "f64")
    check(program(x, y), x, y)


@pytest.mark.parametrize("name", TYPES)
def test_one_number_has_the_bits_of_fmod(name):
    program = refxla.compile(
        f"HloModule one\nENTRY main {{\n x = {name}[] parameter(0)\n y = {name}[] parameter(1)\n"
        f" ROOT r = {name}[] remainder(x, y)\n}}"
    )
    x, y = pairs(name, 100)
    check(np.array([program(a, b) for a, b in zip(x, y, strict=True)], x.dtype), x, y)


def check(got: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        want = np.fmod(x.astype(np.float64), y.astype(np.float64))
    got = got.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
