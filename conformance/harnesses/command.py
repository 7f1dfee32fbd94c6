"""refxla-conformance harnesses: the small programs that JAX's wheel carries, on whatever JAX is installed."""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fnmatch import fnmatchcase
from queue import SimpleQueue

from refxla_spec.errors import InputError
from rich.markup import escape
from rich.table import Table

from refxla.files import write_whole

from ..arguments import output_file, whole
from ..console import standard_output
from ..targets.child import Child, ChildDied, ChildError
from ..targets.private import environment, missing, version

OUTCOMES = ("pass", "fail", "refused", "undecided", "apart", "skipped")
LIMIT = 120.0  # seconds for one program
WORKER = "refxla_conformance.harnesses.worker"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("patterns", nargs="*", metavar="PATTERN", help="names of primitives or harnesses, such as sort or 'sort_*f32*'")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--each", type=whole(1), default=2, metavar="N", help="so many of each primitive (default: 2)")
    many.add_argument("--all", action="store_true", help="all of them, which takes hours")
    add("--seed", type=int, default=0, metavar="N", help="which are drawn, and the numbers that they are given")
    add(
        "-j",
        "--jobs",
        type=whole(1),
        default=os.cpu_count(),
        metavar="N",
        help="worker processes (default: one a core)",
    )
    add("--json", type=output_file, metavar="FILE", help="write what came of each")


def main(options: argparse.Namespace) -> int:
    """Runs them; prints a row for each primitive, and everything that is not a pass; 1 if anything failed, otherwise
    0."""
    console = standard_output()
    if reason := missing():
        raise InputError(reason)
    with ExitStack() as stack:
        children = [Child(WORKER, environment()) for _ in range(options.jobs)]
        for child in children:
            stack.callback(child.close)
        try:
            names = children[0].ask("names", limit=LIMIT)
        except (ChildError, ChildDied) as problem:
            raise InputError(f"JAX's harnesses cannot be had of jaxlib {version()}: {problem}") from None
        chosen = drawn(names, options.patterns, None if options.all else options.each, options.seed)
        if not chosen:
            raise InputError(f"none of JAX's {len(names)} harnesses is called so")
        console.print(f"JAX {version()}: {len(chosen)} of {len(names)} programs")
        results: dict[str, tuple[str, str, str]] = {}
        for primitive, name, outcome, reason in tried(children, chosen, options.seed):
            results[name] = primitive, outcome, reason
            if outcome in ("fail", "refused", "apart"):
                console.print(f"[bold]{outcome}[/] {escape(name)}: {escape(reason)}", soft_wrap=True)
    console.print(table({name: (primitive, outcome) for name, (primitive, outcome, _) in results.items()}))
    if options.json:
        rows = [{"primitive": p, "name": n, "outcome": o, "reason": r} for n, (p, o, r) in sorted(results.items())]
        report = {"jaxlib": version(), "seed": options.seed, "programs": rows}
        write_whole(options.json, json.dumps(report, indent=1).encode())
    return 1 if any(outcome == "fail" for _, outcome, _ in results.values()) else 0


def drawn(
    harnesses: Sequence[tuple[str, str]], patterns: Sequence[str], each: int | None, seed: int
) -> list[tuple[str, str]]:
    """Those that match a pattern, or all; `each` of each primitive, the same for the same seed."""
    fitting: dict[str, list[str]] = {}
    for primitive, name in harnesses:
        if not patterns or any(fnmatchcase(primitive, p) or fnmatchcase(name, p) for p in patterns):
            fitting.setdefault(primitive, []).append(name)
    chosen = []
    for primitive, names in sorted(fitting.items()):
        few = names if each is None else random.Random(f"{seed} {primitive}").sample(names, min(each, len(names)))
        chosen += [(primitive, name) for name in few]
    return chosen


def tried(
    children: Sequence[Child], chosen: Sequence[tuple[str, str]], seed: int
) -> Iterator[tuple[str, str, str, str]]:
    """Primitive, name, outcome and reason of each, in order; each child is used by one thread at a time."""
    idle: SimpleQueue[Child] = SimpleQueue()
    for child in children:
        idle.put(child)

    def ask(item: tuple[str, str]) -> tuple[str, str, str, str]:
        child = idle.get()
        try:
            return *item, *child.ask("try_one", item[1], seed, limit=LIMIT)
        except (ChildDied, ChildError) as problem:
            return *item, "fail", str(problem)
        finally:
            idle.put(child)

    with ThreadPoolExecutor(len(children)) as threads:
        yield from threads.map(ask, chosen)


def table(results: dict[str, tuple[str, str]]) -> Table:
    """A row for each primitive, and one for all of them."""
    counts: dict[str, Counter[str]] = {}
    for primitive, outcome in results.values():
        counts.setdefault(primitive, Counter())[outcome] += 1
    result = Table("primitive", *OUTCOMES, box=None, show_footer=True)
    total = sum(counts.values(), Counter())
    for column, text in zip(result.columns, ("all", *(str(total[o]) for o in OUTCOMES)), strict=True):
        column.footer = text
    for primitive, count in sorted(counts.items()):
        result.add_row(primitive, *(str(count[o] or "") for o in OUTCOMES))
    return result
