"""JAX's own tests, run on refxla: `python -m refxla_conformance.jax_tests CHECKOUT [FILE ...]`.

CHECKOUT is a checkout of JAX's repository at the installed version; nothing of it is kept. Tests run in child
processes, several at a time, with JAX_PLATFORMS=refxla. A child that dies or takes too long costs only its current
test: the next child continues after it. The table says for each file how many tests passed, failed, were skipped by
JAX, and crashed or hung; those that also fail on JAX's own CPU are counted separately.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded
from refxla.files import write_whole

from ..arguments import output_file, positive, whole
from .outcomes import PASSES, keep
from .runner import Runner

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
OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")


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
    parser.add_argument("--json", type=output_file, help="a file that gets the table's data, file by file")
    parser.add_argument("--report", type=output_file, help="a file for the tests that did not pass, with reasons")
    options = parser.parse_args(arguments)
    if options.offset >= options.every:
        raise InputError(f"--offset {options.offset} is not below --every {options.every}: it would repeat a sample")
    if not (options.checkout / "tests").is_dir():
        raise InputError(f"{options.checkout} is no checkout of JAX: it has no folder tests")
    platforms = ("refxla,cpu", "cpu")  # all that tests need, so that refxla adds none to JAX's configuration
    posing = "cpu" if options.as_cpu else ""
    ours, cpu = (Runner(options.checkout, p, options.limit, options.devices, options.cases, posing) for p in platforms)
    plain = Runner(options.checkout, platforms[0], options.limit, options.devices, options.cases)
    total: Counter[str] = Counter()
    lines, left_out = [], 0
    print(f"{'file':42}" + "".join(f"{o:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
    for name in options.files or FILES:
        file = name if name.endswith(".py") else f"tests/{name}_test.py"
        tests, why = ours.collect(file, options.expression)
        if why:
            print(f"{file:42} not run: {why}", flush=True)
            left_out += 1
            continue
        sample = tests[options.offset :: options.every]
        if not sample:
            print(f"{file:42} not run: it has only {len(tests)} tests", flush=True)
            left_out += 1
            continue
        outcomes = dict(ours.run(sample))
        if posing:  # a test of what the platform is called passes only if it is told the truth
            failed = [test for test, outcome in outcomes.items() if outcome.ended == "failed"]
            outcomes |= {test: outcome for test, outcome in plain.run(failed) if outcome.ended == "passed"}
        counts = Counter(outcome.ended for outcome in outcomes.values())
        wrong = [test for test, outcome in outcomes.items() if outcome.ended not in PASSES]
        also = frozenset(test for test, outcome in cpu.run(wrong) if outcome.ended != "passed")
        counts["cpu too"] = len(also)
        for test in wrong:
            ended, reason = outcomes[test]
            shown = test.replace("\n", "\\n") + (f": {reason}" if reason else "")
            lines.append(f"{ended:8} {'(on the CPU, too) ' if test in also else ''}{shown}")
        print(f"{file:42}" + "".join(f"{counts[o]:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
        total += counts
        if options.json and not options.expression:
            kept = {name: getattr(options, name) for name in ("devices", "cases", "every", "offset", "as_cpu")}
            keep(options.json, file, outcomes, also, kept)
    print(f"{'all':42}" + "".join(f"{total[o]:>9}" for o in (*OUTCOMES, "cpu too")))
    if options.report:
        write_whole(options.report, "\n".join([*lines, ""]).encode())
    return 1 if total["crashed"] + total["hung"] + left_out else 0


if __name__ == "__main__":
    sys.exit(main())
