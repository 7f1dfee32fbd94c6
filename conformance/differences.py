"""Where an oracle is known to differ from the specification: data, with who is right, and by which sentence.

A difference explains elements of a result (or a crash) of one target. A case all of whose wrong elements are explained
is reported as *excused*, under the difference's name; it is not a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .cases import Case

Explains = Callable[[Case, np.ndarray, np.ndarray], np.ndarray]
"""(case, got, expected) -> for each element of one leaf of the result whether the difference explains it."""


@dataclass(frozen=True)
class Difference:
    """One understood difference.

    `target` is the target's name, such as "xla-cpu"; `right` who is right: "reference", "target", or "open" where no
    document decides; `why` the sentence of the document that says so, with its source. `applies` says which cases it
    can touch. `explains` says which of their elements; None: whatever comes of the case, a crash or a refusal too.
    """

    name: str
    target: str
    right: str
    why: str
    applies: Callable[[Case], bool]
    explains: Explains | None = None


DIFFERENCES: tuple[Difference, ...] = ()
