"""JAX's own tests, run on refxla: `python -m refxla_conformance.jax_tests CHECKOUT [FILE ...]`.

CHECKOUT is a checkout of JAX's repository at the installed version; nothing of it is kept. Tests run in child
processes, several at a time, with JAX_PLATFORMS=refxla. A child that dies or takes too long costs only its current
test: the next child continues after it. The table says for each file how many tests passed, failed, were skipped by
JAX, and crashed or hung; those that also fail on JAX's own CPU are counted separately.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded
from refxla.files import write_whole

from ..arguments import output_file, positive, whole
from .outcomes import PASSES, keep, missing
from .runner import OUTCOMES, Outcome, Runner

FILES = """
    api jax_jit dtypes array memories export compilation_cache debug_nans checkify
    lax lax_control_flow lax_autodiff lax_vmap lax_vmap_op batching
    lax_numpy lax_numpy_einsum lax_numpy_indexing lax_numpy_operators lax_numpy_reducers lax_numpy_setops
    lax_numpy_ufuncs lax_numpy_vectorize
    nn image random random_lax random_impl fft linalg eigh svd qdwh
    lax_scipy lax_scipy_sparse lax_scipy_special_functions lax_scipy_spectral_dac
    scipy_fft scipy_interpolate scipy_ndimage scipy_optimize scipy_signal scipy_spatial scipy_stats
    pmap shard_map python_callback buffer_callback ffi debugging_primitives
    """.split()
BATCH = 100  # tests after which the outcomes are kept


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 if a test crashed or hung, or a file could not be run, 2 for a wrong argument."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m refxla_conformance.jax_tests", description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path, help="a checkout of JAX's repository")
    parser.add_argument(
        "files", nargs="*", default=[], help=f"test files, or their names without _test.py ({' '.join(FILES)})"
    )
    parser.add_argument("-k", dest="expression", default="", help="only tests that match, as pytest's -k")
    parser.add_argument("--devices", type=whole(1), default=8, help="devices that refxla makes of one (8)")
    parser.add_argument("--cases", type=whole(1), default=1, help="cases of each generated test (1)")
    parser.add_argument("--limit", type=positive, default=120, help="seconds of silence until a test hangs (120)")
    parser.add_argument("--every", type=whole(1), default=1, metavar="N", help="of each file only every N-th test")
    parser.add_argument(
        "--offset",
        type=whole(0),
        default=0,
        metavar="K",
        help="begin each sample after K tests: the N samples of 0 to N - 1 are the whole file (0)",
    )
    parser.add_argument(
        "--as-cpu",
        action="store_true",
        help="tell the tests that they run on JAX's CPU: those for it alone run, too; what fails is tried untold",
    )
    parser.add_argument("--json", type=output_file, help="a file to which the outcomes are added, for the tables")
    parser.add_argument("--rest", action="store_true", help="run only tests that have no outcome in --json FILE yet")
    parser.add_argument("--minutes", type=positive, default=math.inf, help="end after so many minutes")
    parser.add_argument("--report", type=output_file, help="a file for the tests that did not pass, with reasons")
    options = parser.parse_args(arguments)
    if options.offset >= options.every:
        raise InputError(f"--offset {options.offset} is not below --every {options.every}: it would repeat a sample")
    if options.rest and not options.json:
        raise InputError("--rest needs the outcomes of earlier runs: name their file by --json FILE")
    if not (options.checkout / "tests").is_dir():
        raise InputError(f"{options.checkout} is no checkout of JAX: it has no folder tests")
    judge = Judge(options)
    total: Counter[str] = Counter()
    lines, left_out = [], 0
    print(f"{'file':42}" + "".join(f"{o:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
    for name in options.files or FILES:
        if judge.is_over:
            print(f"The {options.minutes:g} minutes are over; {name} and the files after it were not run.", flush=True)
            break
        file = name if name.endswith(".py") else f"tests/{name}_test.py"
        tests, why = judge.collect(file)
        if why:
            print(f"{file:42} not run: {why}", flush=True)
            left_out += 1
            continue
        generation = {name: getattr(options, name) for name in ("devices", "cases", "as_cpu")}
        sample = tests[options.offset :: options.every]
        if not sample:
            print(f"{file:42} not run: it has only {len(tests)} tests", flush=True)
            left_out += 1
            continue
        if options.rest:
            sample = [t for t in missing(options.json, file, tests, generation) if t in frozenset(sample)]
        counts: Counter[str] = Counter()
        for first in range(0, len(sample), BATCH):
            outcomes, also = judge.outcomes(sample[first : first + BATCH])
            counts += Counter(outcome.ended for outcome in outcomes.values())
            counts["cpu too"] += len(also)
            for test, (ended, reason, stacks) in outcomes.items():
                if ended not in PASSES:
                    shown = test.replace("\n", "\\n") + (f": {reason}" if reason else "")
                    lines.append(f"{ended:8} {'(on the CPU, too) ' if test in also else ''}{shown}")
                    lines.extend(f"    {line}" for line in stacks.splitlines())
            if outcomes and options.json and not options.expression:
                keep(options.json, file, tests, outcomes, also, generation)
        print(f"{file:42}" + "".join(f"{counts[o]:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
        total += counts
    print(f"{'all':42}" + "".join(f"{total[o]:>9}" for o in (*OUTCOMES, "cpu too")))
    if options.report:
        write_whole(options.report, "\n".join([*lines, ""]).encode())
    return 1 if total["crashed"] + total["hung"] + left_out else 0


class Judge:
    """Runs tests on refxla, and those that do not pass once more in other ways."""

    def __init__(self, options: Namespace) -> None:
        platforms = "refxla,cpu", "cpu"  # all that tests need, so that refxla adds none to JAX's configuration
        self.deadline: float = time.monotonic() + 60 * options.minutes
        self.posing = "cpu" if options.as_cpu else ""
        self.ours, self.cpu, self.plain = (
            Runner(options.checkout, platform, options.limit, options.devices, options.cases, posing, self.deadline)
            for platform, posing in zip((*platforms, platforms[0]), (self.posing, self.posing, ""), strict=True)
        )
        self.expression = options.expression

    @property
    def is_over(self) -> bool:
        """Is the time over?"""
        return time.monotonic() >= self.deadline

    def collect(self, file: str) -> tuple[list[str], str]:
        """The names of a file's tests; or none, and why not."""
        return self.ours.collect(file, self.expression)

    def outcomes(self, tests: Sequence[str]) -> tuple[dict[str, Outcome], frozenset[str]]:
        """Tests with their outcomes, and those of them that do not pass on JAX's CPU, either.

        Those for which there is no time have no outcome, nor have those that did not pass and could not be tried on the
        CPU.
        """
        outcomes = dict(self.ours.run(tests))
        if self.posing:  # a test of what the platform is called passes only if it is told the truth
            failed = [test for test, outcome in outcomes.items() if outcome.ended == "failed"]
            outcomes |= {test: outcome for test, outcome in self.plain.run(failed) if outcome.ended == "passed"}
        wrong = [test for test, outcome in outcomes.items() if outcome.ended not in PASSES]
        cpu = dict(self.cpu.run(wrong))
        outcomes = {test: outcome for test, outcome in outcomes.items() if test in cpu or outcome.ended in PASSES}
        return outcomes, frozenset(test for test, outcome in cpu.items() if outcome.ended != "passed")


if __name__ == "__main__":
    sys.exit(main())
