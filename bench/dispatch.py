"""What a call costs beside its work, of this checkout and of another one that is built, too.

    python -m bench.dispatch --beside ../other

The programs do next to nothing, many times: the time is that of the check of arguments, of new results, of the
executor's steps and of launches. Each version has a process of its own, and they take turns: read the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LOOP = """HloModule loop
body {{
  s = (s32[], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[1] add(x, x)
  ROOT t = (s32[], f32[1]) tuple(j, y)
}}
condition {{
  s = (s32[], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({count})
  ROOT more = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[1] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[1]) tuple(zero, x)
  w = (s32[], f32[1]) while(t), condition=condition, body=body
  ROOT y = f32[1] get-tuple-element(w), index=1
}}
"""
PROGRAMS = {  # HLO text, and the passes that are left out
    "x + x": ("HloModule m\nENTRY e {\n  x = f32[1] parameter(0)\n  ROOT y = f32[1] add(x, x)\n}\n", ()),
    "1,000 iterations of x + x as launches": (LOOP.format(count=1000), ("launch-merging",)),
}
CHILD = """
import json, sys, time
import numpy as np
import refxla

times = {}
for name, (text, without) in json.loads(sys.argv[1]).items():
    program, x = refxla.compile(text, without=without), np.ones(1, np.float32)
    program(x)
    calls, spans = 1, []
    while len(spans) < 10:
        begin = time.perf_counter()
        for _ in range(calls):
            program(x)
        span = time.perf_counter() - begin
        if span < 0.02 and not spans:
            calls *= 2
        else:
            spans.append(span / calls)
    times[name] = min(spans)
print(json.dumps(times))
"""


def times(root: Path, paths: Path) -> dict[str, float]:
    """Seconds of the fastest call of each program by the checkout at `root`; `paths` is a folder for its modules."""
    path = paths / ("here" if root == HERE else "there")
    if not path.exists():
        path.mkdir()
        (path / "refxla").symlink_to(root / "refxla")
        (path / "refxla_spec").symlink_to(root / "spec")
    environment = os.environ | {"PYTHONPATH": str(path), "REFXLA_CACHE_DIR": str(path / "cache")}
    command = [sys.executable, "-c", CHILD, json.dumps(PROGRAMS)]
    done = subprocess.run(command, env=environment, cwd=path, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dispatch", description=__doc__.split("\n")[0])
    parser.add_argument("--beside", metavar="ROOT", type=Path, help="another checkout, whose core is built")
    parser.add_argument("--turns", metavar="N", type=int, default=5, help="processes of each (default: 5)")
    options = parser.parse_args()
    roots = [HERE] if options.beside is None else [HERE, options.beside.resolve()]
    with tempfile.TemporaryDirectory() as folder:
        turns = [[times(root, Path(folder)) for root in roots] for _ in range(options.turns)]
    for name in PROGRAMS:
        here = min(turn[0][name] for turn in turns)
        print(f"{name}: {here * 1e6:.2f} us", end="")
        if options.beside is not None:
            there = min(turn[1][name] for turn in turns)
            ratio = statistics.median(turn[0][name] / turn[1][name] for turn in turns)
            print(f"; {options.beside}: {there * 1e6:.2f} us; median of the ratios {ratio:.2f}", end="")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
