"""Computes coefficients.json, the special functions' polynomials and their ranges: run it with mpmath installed.

    python refxla/frontends/special/coefficients.py

refxla/codegen/polynomial_fit.py describes how a polynomial is fitted, __init__.py the identity in which it is used.
"""

import json
from pathlib import Path

from mpmath import mp, mpf

from refxla.codegen.polynomial_fit import PRECISION, Function, fit

# Where the pieces of functions meet: from `shift` on, digamma and trigamma use their asymptotic series; the polynomials
# of erfinv are in w - centre and in sqrt(w) - tail_centre, for w = -log(1 - x^2) below 2 centre and above.
PLACES = {
    "f32": {"shift": 6, "erfinv_centre": 2.5, "erfinv_tail_centre": 3.0},
    "f64": {"shift": 10, "erfinv_centre": 3.0, "erfinv_tail_centre": 4.25},
}


def relative(f: Function) -> Function:
    return lambda x: 1 / abs(f(x))


def erfcx(t: mpf) -> mpf:
    """In t = (x - 4) / (x + 4): (1 + 2 x) e^(x^2) erfc(x)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erfinv(w: mpf) -> mpf:
    """In w = -log(1 - x^2): erfinv(x) / x."""
    if w < mpf("1e-8"):
        return mp.sqrt(mp.pi) / 2 + mp.sqrt(mp.pi) ** 3 / 24 * w
    x = mp.sqrt(-mp.expm1(-w))
    with mp.workdps(120):
        return mp.erfinv(x) / x


def bessel(order: int, x: mpf) -> mpf:
    return mp.exp(-x) * mp.besseli(order, x)


def polynomials(type_: str) -> dict[str, list[str]]:
    shift, centre, root_centre = (mpf(v) for v in PLACES[type_].values())
    end = {"f32": 4.2, "f64": 6.1}[type_]  # the root of the largest w

    def of_gamma(y: mpf) -> mpf:
        return mp.loggamma(2 + y) / y

    def stirling(z: mpf) -> mpf:
        x = 1 / mp.sqrt(z)
        return x * (mp.loggamma(x) - (x - 0.5) * (mp.log(x) - 1) - (mp.log(2 * mp.pi) - 1) / 2)

    def of_digamma(z: mpf) -> mpf:
        x = 1 / mp.sqrt(z)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z

    def of_trigamma(z: mpf) -> mpf:
        x = 1 / mp.sqrt(z)
        return (mp.polygamma(1, x) - 1 / x - z / 2) * x**3

    fits: dict[str, tuple[Function, float | mpf, float | mpf, Function, float]] = {
        "lgamma": (of_gamma, -0.75, 0.5, relative(of_gamma), 0.1),
        "lgamma_large": (stirling, 0, mpf(1) / 64, lambda z: mp.sqrt(z) / mp.loggamma(1 / mp.sqrt(z)), 0.05),
        "digamma": (of_digamma, 0, shift**-2, lambda z: z / mp.digamma(1 / mp.sqrt(z)), 0.05),
        "trigamma": (of_trigamma, 0, shift**-2, lambda z: z, 0.05),
        "erfcx": (erfcx, mpf(-3.5) / 4.5, 1, relative(erfcx), 0.2),
        "erfinv": (lambda t: erfinv(t + centre), -centre, centre, lambda t: 1 / erfinv(t + centre), 0.2),
        "erfinv_tail": (
            lambda t: erfinv((t + root_centre) ** 2), mp.sqrt(2 * centre) - root_centre, end - root_centre,
            lambda t: 1 / erfinv((t + root_centre) ** 2), 0.2,
        ),
        "i0e": (lambda t: bessel(0, 4 * (1 + t)), -1, 1, lambda t: 1 / bessel(0, 4 * (1 + t)), 0.2),
        "i1e": (
            lambda t: bessel(1, 4 * (1 + t)) / (4 * (1 + t)), -1, 1,
            lambda t: 4 * (1 + t) / bessel(1, 4 * (1 + t)), 0.2,
        ),
    }  # fmt: skip
    for order in (0, 1):

        def tail(t: mpf, order: int = order) -> mpf:
            x = 16 / (1 + t)
            return mp.sqrt(x) * bessel(order, x)

        fits[f"i{order}e_tail"] = tail, -1, 1, relative(tail), 0.2
    return {
        name: fit(f, low, high, weight, type_, tolerance) for name, (f, low, high, weight, tolerance) in fits.items()
    }


if __name__ == "__main__":
    text = json.dumps({type_: {**PLACES[type_], **polynomials(type_)} for type_ in PRECISION}, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")
