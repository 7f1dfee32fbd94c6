"""JAX's own tests, run on refxla: `python -m refxla_conformance.jax_tests CHECKOUT [FILE ...]`.

CHECKOUT is a checkout of JAX's repository at the installed version; nothing of it is kept. Tests run in child
processes, several at a time, with JAX_PLATFORMS=refxla. A child that dies or takes too long costs only its current
test: the next child continues after it. The table says for each file how many tests passed, failed, were skipped by
JAX, and crashed or hung; those that also fail on JAX's own CPU are counted separately.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded
from refxla.files import write_whole

from .arguments import output_file, positive, whole

FILES = """
    api jax_jit dtypes array memories export compilation_cache debug_nans checkify
    lax lax_control_flow lax_autodiff lax_vmap lax_vmap_op batching
    lax_numpy lax_numpy_einsum lax_numpy_indexing lax_numpy_operators lax_numpy_reducers lax_numpy_setops
    lax_numpy_ufuncs lax_numpy_vectorize
    nn image random random_lax random_impl fft linalg eigh svd qdwh
    lax_scipy lax_scipy_sparse lax_scipy_special_functions lax_scipy_spectral_dac
    scipy_fft scipy_interpolate scipy_ndimage scipy_optimize scipy_signal scipy_spatial scipy_stats
    pmap shard_map python_callback debugging_primitives
    """.split()
OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")
RECORDER = Path(__file__).with_name("pytest_recorder.py")


class Runner:
    """Runs tests of a checkout on a platform.

    `limit` is how many seconds a child may be silent; `devices` how many devices refxla has, and `cases` how many cases
    JAX generates for each of its parametrized tests. `posing` is the platform on which the tests are told they run:
    many name the JAX platforms that they are for, and are skipped elsewhere.
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
        with tempfile.TemporaryDirectory() as directory:
            record = Path(directory, "record.jsonl")
            arguments = ["--collect-only", "-q", *(["-k", expression] if expression else []), file]
            process = subprocess.run(
                self._command(record, arguments), **self._where(directory), capture_output=True, text=True
            )
            names = [name for event, name in _events(record) if event == "found"]
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
        """The outcomes of tests that a child reached."""
        with tempfile.TemporaryDirectory() as directory:
            listed, record = Path(directory, "names.json"), Path(directory, "record.jsonl")
            listed.write_text(json.dumps(names))
            record.touch()
            files = dict.fromkeys(name.partition("::")[0] for name in names)
            child = subprocess.Popen(
                self._command(record, ["-q", f"--names={listed}", *files]), **self._where(directory),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            hung = not self._ends(child, record)
            outcomes = {name: event for event, name in _events(record)}
        return {name: ("hung" if hung else "crashed") if o == "begun" else o for name, o in outcomes.items()}

    def _ends(self, child: subprocess.Popen, record: Path) -> bool:
        """Waits for a child; one that is silent for too long is ended."""
        size = -1
        while True:
            try:
                child.wait(self.limit)
                return True
            except subprocess.TimeoutExpired:
                if record.stat().st_size == size:
                    child.kill()
                    child.wait()
                    return False
                size = record.stat().st_size
            except BaseException:
                child.kill()
                child.wait()
                raise

    @staticmethod
    def _command(record: Path, arguments: Sequence[str]) -> list[str]:
        options = ["-p", "no:cacheprovider", "-p", RECORDER.stem, f"--record={record}", "--tb=line"]
        return [sys.executable, "-X", "faulthandler", "-m", "pytest", *options, *arguments]

    def _where(self, directory: str) -> dict:
        """In the checkout, with only the recorder of this package, from a directory."""
        shutil.copy(RECORDER, directory)
        path = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"cwd": self.checkout, "env": {**self.environment, "PYTHONPATH": path}}


def _events(record: Path) -> list[tuple[str, str]]:
    """The output of a child; the last line may be incomplete, if it died."""
    lines = record.read_text().split("\n")[:-1] if record.exists() else []
    return [tuple(json.loads(line)) for line in lines]


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
    print(f"{'file':42}" + "".join(f"{o:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
    for name in options.files or FILES:
        file = name if name.endswith(".py") else f"tests/{name}_test.py"
        tests, why = ours.collect(file, options.expression)
        if why:
            print(f"{file:42} not run: {why}", flush=True)
            left_out += 1
            continue
        outcomes = dict(ours.run(tests[:: options.every]))
        counts = Counter(outcomes.values())
        wrong = [test for test, outcome in outcomes.items() if outcome not in ("passed", "skipped")]
        also = {test for test, outcome in cpu.run(wrong) if outcome != "passed"} if wrong else set()
        counts["cpu too"] = len(also)
        for test in wrong:
            shown = test.replace("\n", "\\n")
            lines.append(f"{outcomes[test]:8} {'(on the CPU, too) ' if test in also else ''}{shown}")
        print(f"{file:42}" + "".join(f"{counts[o]:>9}" for o in (*OUTCOMES, "cpu too")), flush=True)
        total += counts
    print(f"{'all':42}" + "".join(f"{total[o]:>9}" for o in (*OUTCOMES, "cpu too")))
    if options.report:
        write_whole(options.report, "\n".join([*lines, ""]).encode())
    return 1 if total["crashed"] + total["hung"] + left_out else 0


if __name__ == "__main__":
    sys.exit(main())
