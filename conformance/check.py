"""One case put to one implementation, and what it gave held to the accuracy contract."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from refxla_spec.accuracy import max_ulp
from refxla_spec.compare import same_bits, ulp_distance
from refxla_spec.errors import UnsupportedError
from refxla_spec.numerics import type_of
from refxla_spec.text import format_literal

from .cases import Case
from .implementations import Implementation, leaves


class Outcome(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"  # the implementation says that it does not take this program


@dataclass(frozen=True)
class Verdict:
    """A case's outcome, and for all but a pass the reason."""

    case: Case
    outcome: Outcome
    reason: str = ""


def check(case: Case, implementation: Implementation) -> Verdict:
    """Runs the case. An UnsupportedError is an outcome; any other exception is a failure, as is any wrong result."""
    try:
        results = leaves(implementation(case.module, case.inputs))
    except UnsupportedError as error:
        return Verdict(case, Outcome.UNSUPPORTED, str(error))
    except Exception as error:  # whatever an implementation does, the other cases are still to be checked
        return Verdict(case, Outcome.FAILED, f"{type(error).__name__}: {error}")
    reason = _difference(case, results)
    return Verdict(case, Outcome.FAILED if reason else Outcome.PASSED, reason)


def _difference(case: Case, results: list[np.ndarray]) -> str:
    """What is wrong with the results, or nothing."""
    if len(results) != len(case.expected):
        return f"{len(results)} results instead of {len(case.expected)}"
    for number, (got, expected) in enumerate(zip(results, case.expected, strict=True)):
        if (got.dtype, got.shape) != (expected.dtype, expected.shape):
            return f"result {number} is {_shown(got)} instead of {_shown(expected)}"
        if not within(case.opcode, got, expected):
            return f"result {number} is {_shown(got)} instead of {_shown(expected)}"
    return ""


def within(opcode: str, got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether each element is the expected one under the contract of that operation.

    Exact operations are compared by their bits. The others may be off by their bound, and by half an ULP more, for
    `expected` is itself the rounded result; zeros, infinities and NaN are to be met exactly.
    """
    same = same_bits(got, expected)
    bound = max_ulp(opcode, type_of(expected).name)
    if bound == 0:
        return bool(np.all(same))
    regular = np.isfinite(expected) & (expected != 0) & np.isfinite(got)
    return bool(np.all(same | (regular & (ulp_distance(got, expected) <= bound + 0.5))))


def _shown(array: np.ndarray) -> str:
    return format_literal(array, elide=40)
