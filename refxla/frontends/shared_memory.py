"""Arrays to which a function writes must not share memory with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError

_MOST_WORK: Any = 10_000  # steps of NumPy's search; its stubs do not always declare that there may be a bound


def check_written(leaves: Sequence[Any], writes: Sequence[int], names: Sequence[str] = ()) -> None:
    """Rejects leaves with the numbers `writes`, to which the function writes, if they share memory with others; `names`
    are their names in messages. Raises InputError, and ValueError for a read-only one, as NumPy does."""
    for n in writes:
        if not leaves[n].flags.writeable:
            raise ValueError("assignment destination is read-only")
        for k, other in enumerate(leaves):
            if k == n or not isinstance(other, np.ndarray) or not np.may_share_memory(leaves[n], other):
                continue
            try:
                shared = np.shares_memory(leaves[n], other, max_work=_MOST_WORK)
            except np.exceptions.TooHardError:
                shared = True
            if shared:
                one, two = (names[m] if names else f"array {m} of its arguments (counted from 0)" for m in (n, k))
                raise InputError(
                    f"the function writes into {one}, which shares memory with {two}: one of them must be a copy"
                )
