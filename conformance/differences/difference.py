"""The definition of one known difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cases import Case

Explains = Callable[[Case, int, np.ndarray, np.ndarray], np.ndarray]
"""(case, leaf, got, expected) -> for each element of that leaf of the result whether the difference explains it."""

CONSTANTS = "constants given as arguments"


@dataclass(frozen=True)
class Difference:
    """One known difference.

    `target` is the target's name, such as "xla-cpu"; `right` who is right: "reference", "target", or "open" if no
    document decides; `why` the sentence of the document that says so, with its source. `applies` selects the cases that
    it can affect. `explains` selects elements of their results, None: none. `fails` allows that there is no result to
    compare: it explains a refusal, a crash, and a result of another type or of other dimensions, if `says`, a regular
    expression, matches the error. `what` is what the target does, and what the reference does. `refusal` says that it
    is about programs that must be rejected: it affects only these, and all others affect none of them. `without` is the
    target's option under which it does not do this, or CONSTANTS if it does not do this when the constants become
    arguments: the difference is one of whole programs, and explains results that are right in that way.
    """

    name: str
    target: str
    right: str
    why: str
    applies: Callable[[Case], bool]
    explains: Explains | None = None
    what: str = ""
    fails: bool = False
    refusal: bool = False
    says: str = ""
    without: str = ""

    def touches(self, case: Case, target: str) -> bool:
        """Whether the difference may explain the result of the case on the target of that name."""
        return self.target == target and self.refusal == case.is_negative and self.applies(case)

    def excuses(self, reason: str) -> bool:
        """Whether it explains that there is no result to compare, for that reason."""
        return self.fails and re.search(self.says, reason) is not None
