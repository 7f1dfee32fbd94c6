"""JAX's own tests, run on refxla: `python -m refxla_conformance.jax_tests CHECKOUT [FILE ...]`.

CHECKOUT is a checkout of JAX's repository at the version that is installed; nothing of it is kept. Tests run in child
processes, some at a time, with JAX_PLATFORMS=refxla. A child that dies or takes too long costs the one test that it was
at: the next child goes on after it. The table says for each file how many tests passed, failed, were skipped by JAX,
and crashed or hung; those that fail on JAX's own CPU, too, are counted beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from refxla_spec.errors import InputError

from refxla.cli.failures import guarded
from refxla.cli.options import Parser
from refxla.files import write_whole

from .arguments import output_file, positive, whole

FILES = (
    "api lax lax_numpy lax_control_flow nn random linalg fft scipy_fft image dtypes array pmap shard_map debug_nans "
    "checkify export compilation_cache lax_vmap jax_jit python_callback debugging_primitives memories host_callback"
).split()
OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")
_VERDICT = re.compile(r"(?:^| )(PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")
_MEANING = {"PASSED": "passed", "XFAIL": "passed", "SKIPPED": "skipped"}


class Runner:
    """Runs tests of a checkout on a platform.

    `limit` is how many seconds a child may say nothing; `devices` how many devices refxla makes, and `cases` how many
    cases JAX generates for each of its parametrized tests. `posing` is the platform that the tests are told they run
    on: many say for which platforms of JAX's own they are, and are skipped elsewhere.
    """

    def __init__(self, checkout: Path, platform: str, limit: float, devices: int, cases: int, posing: str = "") -> None:
        self.checkout, self.limit = checkout, limit
        self.environment = {
            **os.environ,
            "JAX_PLATFORMS": platform,
            "REFXLA_DEVICES": str(devices),
            "JAX_NUM_CPU_DEVICES": str(devices),
            "JAX_NUM_GENERATED_CASES": str(cases),
            "JAX_SKIP_SLOW_TESTS": "1",
            "JAX_TEST_DUT": posing,  # "device under test"; "" is the platform itself
        }

    def collect(self, file: str, expression: str) -> tuple[list[str], str]:
        """The names of a file's tests; or none, and why not."""
        arguments = ["--collect-only", "-q", *(["-k", expression] if expression else []), file]
        process = subprocess.run(self._command(arguments), **self._where(), capture_output=True, text=True)
        names = [line for line in process.stdout.splitlines() if "::" in line and not line.startswith(("ERROR", "E "))]
        if process.returncode not in (0, 5) or not names:
            words = [line for line in process.stdout.splitlines() if line.startswith("E ")] or ["no test"]
            return [], words[-1].removeprefix("E").strip()
        return names, ""

    def run(self, names: Sequence[str], at_once: int = 100) -> Iterator[tuple[str, str]]:
        """Each test with its outcome."""
        waiting = list(names)
        while waiting:
            outcomes = self._child(waiting[:at_once])
            yield from outcomes.items()
            if not outcomes:  # not even the first one began
                yield waiting[0], "crashed"
                outcomes = {waiting[0]: "crashed"}
            waiting = [name for name in waiting if name not in outcomes]

    def _child(self, names: Sequence[str]) -> dict[str, str]:
        """The outcomes of tests that a child came to."""
        with tempfile.TemporaryDirectory() as directory:
            listed = Path(directory, "tests.txt")
            listed.write_text("\n".join(names))
            log = Path(directory, "said.txt")
            with log.open("wb") as out:
                child = subprocess.Popen(
                    self._command(["-v", f"@{listed}"]), **self._where(), stdout=out, stderr=subprocess.STDOUT
                )
                hung = not self._ends(child, log)
            return self._outcomes(log.read_text(errors="replace"), set(names), hung)

    def _ends(self, child: subprocess.Popen, log: Path) -> bool:
        """Wait for a child; one that says nothing for too long is ended."""
        size = -1
        while True:
            try:
                child.wait(self.limit)
                return True
            except subprocess.TimeoutExpired:
                if log.stat().st_size == size:
                    child.kill()
                    child.wait()
                    return False
                size = log.stat().st_size
            except BaseException:
                child.kill()
                child.wait()
                raise

    @staticmethod
    def _outcomes(text: str, names: set[str], hung: bool) -> dict[str, str]:
        outcomes: dict[str, str] = {}
        begun = None
        for line in text.splitlines():
            word = _VERDICT.search(line)
            name = (line[: word.start()] if word else line).rstrip()
            if name in names and name not in outcomes:
                begun = name
            if begun is not None and word:
                outcomes[begun] = _MEANING.get(word[1], "failed")
                begun = None
        if begun is not None:
            outcomes[begun] = "hung" if hung else "crashed"
        return outcomes

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--tb=line", *arguments]

    def _where(self) -> dict:
        return {"cwd": self.checkout, "env": self.environment}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 1 if a test crashed or hung, or a file could not be run, 2 for a wrong argument."""
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
        "--as-cpu",
        action="store_true",
        help="tell the tests that they run on JAX's CPU: those for it alone run, too",
    )
    parser.add_argument("--report", type=output_file, help="a file for the names of tests that did not pass")
    options = parser.parse_args(arguments)
    if not (options.checkout / "tests").is_dir():
        raise InputError(f"{options.checkout} is no checkout of JAX: it has no folder tests")
    platforms = ("refxla,cpu", "cpu")  # all that tests need, so that refxla adds none to JAX's configuration
    posing = "cpu" if options.as_cpu else ""
    ours, cpu = (Runner(options.checkout, p, options.limit, options.devices, options.cases, posing) for p in platforms)
    total: Counter[str] = Counter()
    lines, left_out = [], 0
    print(f"{'file':34}" + "".join(f"{o:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
    for name in options.files or FILES:
        file = name if name.endswith(".py") else f"tests/{name}_test.py"
        tests, why = ours.collect(file, options.expression)
        if why:
            print(f"{file:34} not run: {why}", flush=True)
            left_out += 1
            continue
        outcomes = dict(ours.run(tests[:: options.every]))
        counts = Counter(outcomes.values())
        wrong = [test for test, outcome in outcomes.items() if outcome not in ("passed", "skipped")]
        also = {test for test, outcome in cpu.run(wrong) if outcome != "passed"} if wrong else set()
        counts["cpu too"] = len(also)
        lines += [f"{outcomes[test]:8} {'(on the CPU, too) ' if test in also else ''}{test}" for test in wrong]
        print(f"{file:34}" + "".join(f"{counts[o]:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
        total += counts
    print(f"{'all':34}" + "".join(f"{total[o]:>9}" for o in (*OUTCOMES, "cpu too")))
    if options.report:
        write_whole(options.report, "\n".join([*lines, ""]).encode())
    return 1 if total["crashed"] + total["hung"] + left_out else 0


if __name__ == "__main__":
    sys.exit(main())
