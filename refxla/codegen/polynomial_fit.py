"""Fits polynomials to functions, for the scripts that compute coefficients. Needs mpmath.

A polynomial is the weighted least-squares fit over Chebyshev nodes, in 80 digits, which is close to the best of its
degree. Its coefficients are rounded to the type one after the other, starting with the constant term, and the others
are fitted again each time, so that later coefficients compensate the rounding of earlier ones. The degree is the least
that meets the tolerance, which is a bound on the error of the whole function, relative to its value, in units of 2^-p
with p the precision of the type.
"""

from collections.abc import Callable

from mpmath import mp, mpf

mp.dps = 80
PRECISION = {"f32": 24, "f64": 53}
Function = Callable[[mpf], mpf]


def rounded(x: mpf, type_: str) -> mpf:
    """The value of `type_` nearest to x (no subnormals, no overflow)."""
    if x == 0:
        return mpf(0)
    shift = PRECISION[type_] - 1 - int(mp.floor(mp.log(abs(x), 2)))
    return mp.nint(mp.ldexp(x, shift)) * mpf(2) ** -shift


def hexadecimal(x: mpf) -> str:
    mantissa, exponent = float(x).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent


def least_squares(f: list[mpf], nodes: list[mpf], weights: list[mpf], first: int, last: int) -> list[mpf]:
    """The c_k, first <= k <= last, that make sum c_k x^k closest to f over the nodes, by weighted least squares."""
    matrix = mp.matrix([[w * x**k for k in range(first, last + 1)] for x, w in zip(nodes, weights, strict=True)])
    right = mp.matrix([w * y for y, w in zip(f, weights, strict=True)])
    return list(mp.lu_solve(matrix.T * matrix, matrix.T * right))


def fit(f: Function, low: mpf, high: mpf, weight: Function, type_: str, tolerance: float) -> list[str]:
    """The polynomial p for which weight(x) * |p(x) - f(x)| <= tolerance * 2^-precision on [low, high].

    The functions are not evaluated at 0.
    """
    low, high = mpf(low), mpf(high)
    count = 101
    nodes = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + 0.5) / count) for k in range(count)]
    nodes = [x if abs(x) > mpf("1e-9") else mpf("1e-9") for x in nodes]
    values, weights = [f(x) for x in nodes], [mpf(weight(x)) for x in nodes]
    unit = mpf(2) ** -PRECISION[type_]

    def error(coefficients: list[mpf]) -> float:
        differences = (mp.polyval(coefficients[::-1], x) - y for x, y in zip(nodes, values, strict=True))
        return float(max(w * abs(d) for w, d in zip(weights, differences, strict=True)) / unit)

    for degree in range(1, 40):
        if error(least_squares(values, nodes, weights, 0, degree)) > tolerance:
            continue
        fixed: list[mpf] = []
        tail: list[mpf] = []
        for k in range(degree + 1):
            if k < 4:
                rest = [y - mp.polyval(fixed[::-1], x) if fixed else y for x, y in zip(nodes, values, strict=True)]
                tail = least_squares(rest, nodes, weights, k, degree)
            fixed.append(rounded(tail.pop(0), type_))
        print(f"{type_} degree {degree}: error {error(fixed):.3f} units of 2^-p")
        return [hexadecimal(c) for c in fixed]
    raise ValueError("no degree up to 39 meets the tolerance")
