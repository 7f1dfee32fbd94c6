"""scan: along any dimension, in both directions, with and without outputs, long and short, of several inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import not_finite, random_values, small_integers, structured

SUM = """step {{ x = {0} parameter(0)
  state = {0} parameter(1)
  new = {0} add(x, state)
  ROOT r = ({0}, {0}) tuple(new, new) }}
"""
HORNER = """step {{ x = {0} parameter(0)
  y = {0} parameter(1)
  state = {0} parameter(2)
  turned = {0} multiply(state, y)
  new = {0} add(turned, x)
  out = {0} subtract(new, state)
  ROOT r = ({0}, {0}) tuple(out, new) }}
"""
FORMS = (((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 4, 3), 1), ((1, 3), 0), ((0, 3), 0), ((333, 2), 0), ((2, 2001), 1))


def cases(thorough: bool) -> Iterator[Case]:
    """Running sums, then non-commutative reducers, in both directions."""
    for n, (dims, d) in enumerate(FORMS):
        rest = dims[:d] + dims[d + 1 :]
        for t in ("s32", "f32"):
            rng = seeded(f"scan/{t}_{n}")
            slice_ = f"{t}[{','.join(map(str, rest))}]"
            x, y = small_integers(rng, t, dims), small_integers(rng, t, dims, 1, 1 + (t == "s32"))
            init = small_integers(rng, t, rest)
            result = f"({t}[{','.join(map(str, dims))}], {slice_})"
            for label, more in (("", ""), ("_reverse", ", is_reverse=true")):
                attributes = f"dimensions={{{d}}}{more}, num_carries=1, to_apply=step"
                line = f"ROOT r = {result} scan(p0, p1), {attributes}"
                sums = structured("scan", f"sum_{t}_{n}{label}", line, x, init, before=SUM.format(slice_))
                yield sums
                line = f"ROOT r = {result} scan(p0, p1, p2), {attributes}"
                yield structured("scan", f"horner_{t}_{n}{label}", line, x, y, init, before=HORNER.format(slice_))
                if t == "f32" and n in (1, 2):
                    yield from not_finite(sums)
    x = random_values(seeded("scan/rank_7"), "s32", (2, 1, 3, 2, 2, 1, 3))
    slice_ = "s32[2,1,2,2,1,3]"
    line = f"ROOT r = (s32[2,1,3,2,2,1,3], {slice_}) scan(p0, p1), dimensions={{2}}, num_carries=1, to_apply=step"
    yield structured("scan", "rank_7", line, x, np.zeros((2, 1, 2, 2, 1, 3), np.int32), before=SUM.format(slice_))
