"""The findings in the figures of `bench.cliffs`: where refxla is slower than JAX, and where it is suddenly slower than
at a neighbouring point. A point's name is that of its sweep, a colon and its place; neighbours are consecutive in the
figures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .report import beside_jax

BEHIND = 0.8  # JAX's seconds over refxla's, below which a point is a finding
FALL = 2.5  # the factor by which a ratio may be below that of a neighbouring point
FAST = 2.0  # the ratio from which a fall is a cliff of JAX's next to it, not one of refxla's


@dataclass(frozen=True)
class Finding:
    """`what` is "behind", "falls" or both; `neighbour` is the neighbour's place and ratio if it falls."""

    name: str
    sweep: str
    place: str
    ratio: float
    what: str
    neighbour: tuple[str, float] | None

    @property
    def neighbour_text(self) -> str:
        """The neighbour as tables show it: its ratio and its place; "" without one."""
        return f"{self.neighbour[1]:.2f} ({self.neighbour[0]})" if self.neighbour else ""


def findings(figures: dict[str, Any]) -> list[Finding]:
    """Those of all sweeps, the lowest ratio first; points that were not measured are skipped."""
    run = beside_jax(figures)
    result = []
    for sweep, names in groupby(run, key=lambda name: name.rpartition(": ")[0]):
        points = [(name, name.rpartition(": ")[2], run[name]) for name in names]
        for n, (name, place, ratio) in enumerate(points):
            around = [(where, value) for _, where, value in (*points[max(n - 1, 0) : n], *points[n + 1 : n + 2])]
            best = max(around, key=lambda pair: pair[1], default=None)
            falls = best is not None and ratio * FALL < best[1] and ratio < FAST
            what = [word for word, holds in (("behind", ratio < BEHIND), ("falls", falls)) if holds]
            if what:
                result.append(Finding(name, sweep, place, ratio, " and ".join(what), best if falls else None))
    return sorted(result, key=lambda finding: finding.ratio)
