"""The checks of StableHLO's tests, each with the tolerance that its repository gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from refxla_spec.compare import ulp_distance
from refxla_spec.numerics import type_of
from refxla_spec.text import format_literal
from refxla_spec.types import Shape

# The defaults of StableHLO's own runner, for checks written as custom calls and as operations.
CLOSE_ULP = {True: 3, False: 1}
ALMOST = {True: 1e-3, False: 1e-4}
ATTRIBUTES = ("tolerance", "max_ulp_difference", "min_ulp_difference")
EQUAL_ALMOST = 1e-4  # of check.eq, for types other than integers


@dataclass(frozen=True)
class Check:
    """`kind` is "eq", "almost" (an absolute difference) or "close" (a number of ULP), `tolerance` its bound, `least`
    the number of ULP that it must be off, `place` the number of the result that is checked."""

    kind: str
    tolerance: float = 0.0
    place: int = 0
    least: float = 0.0

    @staticmethod
    def of(name: str, custom_call: bool, attributes: Mapping[str, Any]) -> Check:
        """The check of that name, written as a custom call or as an operation with attributes."""
        if name == "eq":
            return Check("eq", EQUAL_ALMOST)
        if name.startswith("expect_almost_eq"):
            return Check("almost", _number(attributes.get("tolerance"), ALMOST[custom_call]))
        if name == "expect_close":
            most = _unsigned(attributes.get("max_ulp_difference"), CLOSE_ULP[custom_call])
            least = _unsigned(attributes.get("min_ulp_difference"), 0)
            return Check("close", most, least=least)
        if name in ("expect_eq", "expect_eq_const"):
            return Check("eq")
        raise ValueError(f"check.{name} is not known here")

    def at(self, place: int) -> Check:
        """The same check of another result."""
        return replace(self, place=place)

    def difference(self, actual: np.ndarray, expected: np.ndarray) -> str:
        """The error of a result under this check, or nothing."""
        if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
            return f"{Shape.of(actual)} instead of {Shape.of(expected)}"
        wrong = ~self._holds(actual, expected)
        if not np.any(wrong):
            return ""
        at = tuple(int(n) for n in np.argwhere(wrong)[0])
        far = ""
        if type_of(actual).is_float or type_of(actual).is_complex:
            far = f", at most {np.max(ulp_distance(actual, expected)):.6g} ULP apart"
        return (
            f"{np.count_nonzero(wrong)} of {wrong.size} elements differ, at {list(at)} {_shown(actual[at])} instead of "
            f"{_shown(expected[at])}{far} ({self})"
        )

    def _holds(self, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """For each element, whether it is as expected."""
        element_type = type_of(actual)
        if element_type.is_complex:
            return np.asarray(
                self._holds(np.array(actual.real), np.array(expected.real))
                & self._holds(np.array(actual.imag), np.array(expected.imag))
            )
        if not element_type.is_float:
            return np.asarray(actual == expected)
        same = np.asarray((actual == expected) | (np.isnan(actual) & np.isnan(expected)))
        if self.kind == "close":
            # If values differ and are not finite, StableHLO reports 2^64 - 1.
            finite = np.isfinite(actual) & np.isfinite(expected)
            apart = np.where(same, 0.0, np.where(finite, ulp_distance(actual, expected), 2.0**64))
            return (self.least <= apart) & (apart <= self.tolerance)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        return same | (np.isfinite(apart) & (apart <= self.tolerance))

    def __str__(self) -> str:
        if self.kind == "eq" and not self.tolerance:
            return "to be equal"
        unit = " ULP" if self.kind == "close" else ""
        return f"allowed {self.tolerance:g}{unit}"


def _number(attribute: Any, otherwise: float) -> float:
    return float(otherwise if attribute is None else attribute.value)


def _unsigned(attribute: Any, otherwise: int) -> float:
    """The largest count is written as 2^64 - 1, which MLIR's bindings return as -1."""
    return float(int(otherwise if attribute is None else attribute.value) % 2**64)


def _shown(element: Any) -> str:
    return format_literal(np.asarray(element))
