"""Computes coefficients.json, the constants and polynomials of the prelude: run it with mpmath installed.

    python refxla/codegen/prelude/coefficients.py

How a polynomial is fitted stands in polynomial_fit.py.
"""

import json
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

from refxla.codegen.polynomial_fit import PRECISION, fit, hexadecimal, rounded


def split(x: mpf, type_: str, parts: int) -> list[str]:
    """x as a sum of `parts` values of the type, each the rounding of what the ones before leave."""
    result = []
    for _ in range(parts):
        head = rounded(x, type_)
        result.append(hexadecimal(head))
        x -= head
    return result


def polynomials(type_: str) -> dict[str, list[str]]:
    """Each polynomial by its name; the comment is the identity it stands in."""
    half_ln2 = mp.log(2) / 2 + mpf("0.001")
    quarter_pi = (mp.pi / 4) ** 2 * mpf("1.001")
    erf_limit = {"f32": 4, "f64": 6}[type_]
    erf_centre = {"f32": 2, "f64": 3}[type_]
    return {
        # e^x = 1 + x + x^2 p(x)
        "exp": fit(lambda x: (mp.expm1(x) - x) / x**2, -half_ln2, half_ln2, lambda x: abs(x), type_, 0.05),
        # log(1 + x) = x + x^2 p(x)
        "log": fit(lambda x: (mp.log1p(x) - x) / x**2, mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, lambda x: abs(x), type_, 0.05),
        # sin(x) = x + x^3 p(x^2);  cos(x) = 1 - x^2 / 2 + x^4 p(x^2)
        "sin": fit(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, quarter_pi, lambda z: z, type_, 0.05),
        "cos": fit(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, quarter_pi, lambda z: z**2, type_, 0.05),
        # atan(x) = x + x^3 p(x^2)
        "atan": fit(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, 1, lambda z: z, type_, 0.1),
        # asin(x) = x + x^3 p(x^2), |x| <= 1/2
        "asin": fit(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, 0.25, lambda z: z, type_, 0.1),
        # sinh(x) = x + x^3 p(x^2), |x| <= 1/2
        "sinh": fit(lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, 0.25, lambda z: z, type_, 0.1),
        # tanh(x) = x + x^3 p(x^2), |x| <= 1
        "tanh": fit(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, 1, lambda z: z, type_, 0.1),
        # erf(x) = x + x p(x^2), |x| <= 1
        "erf": fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, lambda z: 1, type_, 0.1),
        # erf(x) = 1 - p(x - centre)^4, from 1 to where it is 1
        "erf_tail": fit(
            lambda t: mp.root(mp.erfc(t + erf_centre), 4),
            1 - erf_centre,
            erf_limit - erf_centre,
            lambda t: 4 * mp.erfc(t + erf_centre) ** mpf("0.75"),
            type_,
            0.1,
        ),
        # atanh(x) = x + x^3 (1/3 + x^2 p(x^2)), |x| <= (sqrt 2 - 1) / (sqrt 2 + 1), with 13 bits to spare
        "atanh": fit(
            lambda z: ((mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z - mpf(1) / 3) / z,
            0,
            mpf("0.02945"),
            lambda z: z**2,
            type_,
            2.0**-13,
        ),
    }


def constants(type_: str) -> dict[str, str]:
    ln2, pi_2 = split(mp.log(2), type_, 3), split(mp.pi / 2, type_, 3)
    third = split(mpf(1) / 3, type_, 2)
    mantissa, bias = PRECISION[type_] - 1, {"f32": 127, "f64": 1023}[type_]
    raised = (mantissa + 2) | 1  # more than the exponents of subnormal results are below the least normal one
    one = {
        "log2_e": 1 / mp.log(2), "sqrt_half": mp.sqrt(0.5), "two_over_pi": 2 / mp.pi,
        "erf_centre": mpf({"f32": 2, "f64": 3}[type_]), "erf_limit": mpf({"f32": 4, "f64": 6}[type_]),
        "log2_e_low": 1 / mp.log(2) - rounded(1 / mp.log(2), type_),
        "exp2_overflow": mpf({"f32": 129, "f64": 1025}[type_]),
        "exp2_underflow": mpf({"f32": -151, "f64": -1076}[type_]),
        "exp_overflow": mpf({"f32": 89, "f64": 710}[type_]), "exp_underflow": mpf({"f32": -104, "f64": -746}[type_]),
        # By how much the exponents of results are off on the way, and what makes up for it (rx_exp_power in exp.cl).
        "exp_round_negative": 3 * mpf(2) ** (mantissa - 1) + bias + raised,
        "exp_scale_negative": mpf(2) ** -raised,
        "exp_zero": -(bias + raised) * mp.log(2),  # where such an exponent is that of 0
        "exp_round_positive": 3 * mpf(2) ** (mantissa - 1) + bias - (2 * mantissa - 1),
        "exp_scale_positive": mpf(2) ** (2 * mantissa - 1),
        "tanh_one": mpf({"f32": 10, "f64": 20}[type_]),
        "expm1_underflow": mpf({"f32": -20, "f64": -40}[type_]),
        "cosh_overflow": mpf({"f32": 90, "f64": 711}[type_]),
        "inverse_epsilon": mpf(2) ** (PRECISION[type_] + 2),
        "trig_limit": mpf(2) ** {"f32": 10, "f64": 20}[type_],
        "far_limit": mpf(2) ** 20,
    }  # fmt: skip
    # pi / 2 in three parts, of which the product of the second with an integer up to trig_limit 2 / pi is exact.
    short_bits = PRECISION[type_] - {"f32": 10, "f64": 20}[type_]
    rest = mp.pi / 2 - mpf(float.fromhex(pi_2[0]))
    shift = short_bits - 1 - int(mp.floor(mp.log(abs(rest), 2)))
    short = mp.nint(mp.ldexp(rest, shift)) * mpf(2) ** -shift
    return {
        "pi_2_short": hexadecimal(short),
        "pi_2_rest": hexadecimal(rounded(rest - short, type_)),
        **dict(zip(("ln2_high", "ln2_low", "ln2_lowest"), ln2, strict=True)),
        **dict(zip(("pi_2_high", "pi_2_middle", "pi_2_low"), pi_2, strict=True)),
        **dict(zip(("third_high", "third_low"), third, strict=True)),
        **{name: hexadecimal(rounded(value, type_)) for name, value in one.items()},
    }


if __name__ == "__main__":
    assert np.finfo(np.float64).nmant + 1 == PRECISION["f64"]
    tables = {type_: {**constants(type_), **polynomials(type_)} for type_ in PRECISION}
    text = json.dumps(tables, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")
