"""Where an oracle is known to differ from the specification: data, with who is right, and by which sentence.

A difference explains elements of a result (or a crash) of one target. A case whose wrong elements are all explained is
reported as *excused*, under the difference's name; it is not a pass. The differences of XLA are in `xla.py`,
`programs.py`, `dynamic.py`, `refused.py` and `newer.py`, those of StableHLO's interpreter in `stablehlo.py`, and those
of both in `constants.py`; `difference.py` defines an entry, `predicates.py` the building blocks of entries.
"""

from . import constants, dynamic, newer, programs, refused, stablehlo, xla
from .difference import CONSTANTS, Difference

__all__ = ["CONSTANTS", "DIFFERENCES", "Difference", "rows"]

DIFFERENCES: tuple[Difference, ...] = tuple(
    d for module in (xla, programs, dynamic, refused, newer, constants, stablehlo) for d in module.DIFFERENCES
)


def rows() -> list[tuple[str, str, str, str, str]]:
    """The table of the documentation: target, name, what the target does, who is right, by which sentence."""
    return [(d.target, d.name, d.what, d.right, d.why) for d in DIFFERENCES]
