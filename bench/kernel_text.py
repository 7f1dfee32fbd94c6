"""What the compiler writes, before and after a change: the plan and the OpenCL C of a corpus of programs, compared.

    python -m bench.kernel_text compare COMMIT                  this working tree beside a commit
    python -m bench.kernel_text compare COMMIT COMMIT           two commits
    python -m bench.kernel_text collect FOLDER --commit COMMIT  what a commit writes, kept in a folder
    python -m bench.kernel_text compare FOLDER                  this working tree beside what is kept there

The corpus: the examples, the suite's models (as measured and small), and conformance cases at equal distances. The
programs are generated once, as text, by this checkout; each version gets them in a process with its own packages,
through the one interface that survives internal renaming: `refxla show --plan` and `--opencl`. No kernel is built or
run. Both sides have the same device, with the default rates used before it is measured. `--device gpu` is a simulated
GPU.

Differences are shown twice: all changes of OpenCL C by their kinds, with how many programs have each, and the first
difference of each program.

Texts are compared without their names (bench/canonical.py): equal up to a one-to-one renaming is equal. Exit status: 0,
or 1 if a program differs that the file of `--accept` does not name, or 2 if nothing could be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import canonical, machine

if TYPE_CHECKING:
    from .models import Entry

ROOT = Path(__file__).parents[1]
CHILD = Path(__file__).with_name("kernel_text_child.py")
POSING = Path(__file__).with_name("kernel_text_gpu.py")
GPU = "gpu"  # the device that simulates one
PACKAGES = {"refxla": "refxla", "refxla_spec": "spec"}  # of a checkout, and the folder of each
CASES = 2000
GROUPS = ("examples", "models", "conformance")
FILE = "texts.jsonl.gz"
LIMIT_S = 600.0  # for one program
_END_S = 5.0  # for a process to end after it has closed its output
_SAY_S = 5.0  # between two lines of progress
_EXCERPT = 3  # lines before the first difference
_WIDTH = 160  # characters of them


class Impossible(Exception):
    """A request cannot be fulfilled; says why."""


@dataclass(frozen=True)
class Program:
    """A program of the corpus."""

    name: str
    hlo: str
    options: tuple[str, ...] = ()  # of `refxla show`


@dataclass(frozen=True)
class Text:
    """The output of a version for a program: its plan and its kernels, or, if `refused` is not empty, the message."""

    plan: str = ""
    opencl: str = ""
    refused: str = ""


@dataclass
class TextCollection:
    """The output of a version for programs. `device` has everything about the machine on which kernels depend."""

    version: str
    device: dict[str, Any]
    programs: dict[str, Program] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Writes it; an existing file is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / FILE, "wt", encoding="utf-8") as file:
            file.write(json.dumps({"version": self.version, "device": self.device}) + "\n")
            for name, program in self.programs.items():
                file.write(json.dumps(asdict(program) | asdict(self.texts[name])) + "\n")

    @staticmethod
    def load(folder: Path) -> TextCollection:
        """Reads what `save` wrote."""
        with gzip.open(folder / FILE, "rt", encoding="utf-8") as file:
            collection = TextCollection(**json.loads(file.readline()))
            for line in file:
                row = json.loads(line)
                program = Program(row["name"], row["hlo"], tuple(row["options"]))
                collection.programs[program.name] = program
                collection.texts[program.name] = Text(row["plan"], row["opencl"], row["refused"])
        return collection


# The programs --------------------------------------------------------------------------------------------------------


def corpus() -> dict[str, Callable[[], str]]:
    """The names of all programs, "group/name", each with a function that returns its text; the same at each call."""
    return {name: make for programs in (_examples, _models, _cases) for name, make in programs()}


def sample(names: Sequence[str], count: int) -> list[str]:
    """About so many of them, evenly from each group, the same at each call. Larger groups make up for small ones."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(group(name), []).append(name)
    chosen: list[str] = []
    for rest, members in zip(range(len(groups), 0, -1), sorted(groups.values(), key=len), strict=True):
        chosen += evenly(members, (count - len(chosen)) // rest)
    return chosen


def evenly(items: Sequence[Any], count: int) -> list[Any]:
    """So many of them, or all, at equal distances."""
    count = min(count, len(items))
    return [items[n * len(items) // count] for n in range(count)]


def group(name: str) -> str:
    """The group of GROUPS to which a program belongs."""
    return name.split("/")[0]


def _examples() -> Iterator[tuple[str, Callable[[], str]]]:
    for file in sorted((ROOT / "examples").rglob("*.hlo")):
        yield f"examples/{file.relative_to(ROOT / 'examples')}", partial(file.read_text, "utf-8")


def _models() -> Iterator[tuple[str, Callable[[], str]]]:
    from .models import ENTRIES

    for entry in ENTRIES:
        for label, sizes in (("", entry.sizes), (" (small)", entry.small)):
            yield f"models/{entry.name}{label}", partial(traced, entry, sizes)


def traced(entry: Entry, sizes: dict[str, int]) -> str:
    """A model as HLO. Raises Impossible if JAX is not installed."""
    from .frameworks import load

    try:
        import jax

        framework = load("refxla")
    except ImportError as problem:
        raise Impossible(f"the models cannot be traced: {problem}") from None
    function = jax.jit(partial(entry.function, framework))
    hlo = function.lower(*entry.arguments(**sizes)).compiler_ir("hlo")
    text: str = hlo.as_hlo_text(print_large_constants=True)
    return text


def _cases() -> Iterator[tuple[str, Callable[[], str]]]:
    from refxla_conformance.cases import collect as cases

    for case in evenly([c for c in cases() if not c.is_negative], CASES):
        yield f"conformance/{case.name}", partial(str, case.hlo)


# What a version makes of them ----------------------------------------------------------------------------------------


def collect(checkout: Path, version: str, programs: Sequence[Program], device: str, jobs: int) -> TextCollection:
    """The output of the checkout, whose core is built, for the programs on a device. Raises Impossible."""
    collection = TextCollection(version, describe(device), {p.name: p for p in programs})
    with tempfile.TemporaryDirectory(prefix="kernel-text-") as folder:
        packages = Path(folder) / "packages"
        packages.mkdir()
        for name, source in PACKAGES.items():
            (packages / name).symlink_to(checkout.resolve() / source, target_is_directory=True)
        (Path(folder) / "temporary").mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REFXLA_")}
        environment |= {"REFXLA_CACHE_DIR": f"{folder}/cache", "TMPDIR": f"{folder}/temporary"}
        environment["PYTHONPATH"] = str(packages)
        if device == GPU:  # a GPU comes before all others: it need not be named
            environment["PYTHONPATH"] += f"{os.pathsep}{folder}"
            (Path(folder) / "sitecustomize.py").symlink_to(POSING)
        else:
            environment["REFXLA_DEVICE"] = device
        first = _Child(packages, environment)  # which probes the device for all of them
        tried = first.ask(Program("first", "HloModule m\nENTRY e { ROOT p = f32[8] parameter(0) }\n"))
        if tried.refused:
            first.close()
            raise Impossible(f"{version} compiles nothing for {device}: {tried.refused}")
        children = [first, *(_Child(packages, environment) for _ in range(jobs - 1))]
        _share_out(children, programs, collection, f"{version} for {device}")
    collection.texts = {p.name: collection.texts[p.name] for p in programs}
    return collection


def _share_out(children: Sequence[_Child], programs: Sequence[Program], collection: TextCollection, what: str) -> None:
    """Runs all programs on the children, several at a time, and ends them."""
    tasks: queue.SimpleQueue[Program] = queue.SimpleQueue()
    # the longest first, so that all children finish together
    for program in sorted(programs, key=lambda p: -len(p.hlo)):
        tasks.put(program)
    stop = threading.Event()

    def work(child: _Child) -> None:
        while not stop.is_set():
            try:
                program = tasks.get_nowait()
            except queue.Empty:
                return
            collection.texts[program.name] = child.ask(program)

    threads = [threading.Thread(target=work, args=(child,)) for child in children]
    for thread in threads:
        thread.start()
    last = begin = time.monotonic()
    try:
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.1) if threads[0].is_alive() else time.sleep(0.1)
            if time.monotonic() > last + _SAY_S:
                last = time.monotonic()
                say(f"{what}: {len(collection.texts)} of {len(programs)} programs, {last - begin:.0f} s")
    finally:
        stop.set()
        for child in children:
            child.close()
    say(f"{what}: {len(collection.texts)} programs in {time.monotonic() - begin:.0f} s")


class _Child:
    """A process of kernel_text_child.py, which is restarted when it ends or takes too long."""

    def __init__(self, packages: Path, environment: dict[str, str]) -> None:
        self._packages, self._environment = packages, environment
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")

    def ask(self, program: Program) -> Text:
        """The output for the program."""
        if self._process is None:
            self._process = self._started()
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # they are pipes
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"hlo": program.hlo, "options": program.options}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return Text(**json.loads(line))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        self.close()
        self._complaints.seek(0)
        last = self._complaints.read().strip().rpartition("\n")[2]
        return Text(refused=f"the process ended with {process.returncode}: {last}")

    def _started(self) -> subprocess.Popen[str]:
        self._complaints.truncate(0)
        code = f"import runpy; runpy.run_path({str(CHILD)!r})"  # as a script, its folder would be searched for modules
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=self._packages,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def close(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def describe(device: str) -> dict[str, Any]:
    """What kernels depend on besides the program and the version."""
    from importlib.metadata import version

    vectors = [f for f in machine.flags() if f.startswith(("avx", "sse", "fma"))]
    return {
        "device": device,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "vectors": " ".join(sorted(vectors)),
        "pyopencl": version("pyopencl"),
    }


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A commit's files in a temporary folder, with its core built. Raises Impossible."""
    with tempfile.TemporaryDirectory(prefix="kernel-text-") as folder:
        place = Path(folder) / "checkout"
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit)), mode="r") as archive:
            archive.extractall(place, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(place)
        _build(place, commit)
        yield place


def _build(place: Path, commit: str) -> None:
    """Builds the core there, or copies this checkout's if its sources are the same."""
    sources = _core_sources(ROOT)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    newest = max(f.stat().st_mtime for f in sources.values())
    libraries = {p: ROOT / p.with_suffix(suffix) for p in sources if p.suffix == ".pyx"}
    theirs = {p: f.read_bytes() for p, f in _core_sources(place).items()}
    if theirs == {p: f.read_bytes() for p, f in sources.items()} and all(
        b.exists() and b.stat().st_mtime >= newest for b in libraries.values()
    ):
        for path, file in libraries.items():
            shutil.copy2(file, place / path.parent)
        return
    say(f"building the core of {commit}")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    process = subprocess.run(command, cwd=place, capture_output=True, text=True)
    if process.returncode:
        raise Impossible(f"the core of {commit} cannot be built: {(process.stderr or process.stdout).strip()[-2000:]}")


def _core_sources(root: Path) -> dict[Path, Path]:
    """The sources of the core: its files by their paths in a checkout."""
    files = [f for f in (root / "refxla").rglob("*") if f.suffix in (".pyx", ".pxd")]
    return {f.relative_to(root): f for f in sorted(files)}


def _git(*arguments: str) -> bytes:
    process = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    if process.returncode:
        raise Impossible(f"git {' '.join(arguments)}: {process.stderr.decode(errors='replace').strip()}")
    return process.stdout


# The comparison ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The result for a program: `kind` is "identical", "renamed" (identical up to names), "refused" (by both),
    "different", "refused now" or "compiled now"; `detail` shows it."""

    program: str
    kind: str
    detail: str = ""

    @property
    def is_equal(self) -> bool:
        return self.kind in ("identical", "renamed", "refused")


def compared(name: str, before: Text, after: Text) -> Difference:
    """How the outputs of two versions for a program differ."""
    if before.refused and after.refused:
        words = "" if before.refused == after.refused else f"- {before.refused}\n+ {after.refused}"
        return Difference(name, "refused", words)
    if before.refused or after.refused:
        return Difference(name, "refused now" if after.refused else "compiled now", before.refused or after.refused)
    if before == after:
        return Difference(name, "identical")
    forms: tuple[tuple[str, Callable[[str], canonical.Canonical], str, str], ...] = (
        ("plan", canonical.plan, before.plan, after.plan),
        ("OpenCL C", canonical.opencl, before.opencl, after.opencl),
    )
    for what, form, old, new in forms:
        tokens = None if old == new else form(old).first_difference(form(new))
        if tokens is not None:
            shown = f"{_excerpt(old, tokens[0], '-')}\n{_excerpt(new, tokens[1], '+')}"
            return Difference(name, "different", f"{what}:\n{shown}")
    return Difference(name, "renamed")


def _excerpt(text: str, token: canonical.Token, sign: str) -> str:
    """The token's line and those before it; for long lines the surroundings of the token, or the beginning."""
    lines = text.splitlines()[: token.line][-_EXCERPT - 1 :]
    cut = max(0, token.column - _WIDTH // 2)
    lines[-1:] = [("... " if cut else "") + line[cut : cut + _WIDTH] for line in lines[-1:]]
    return "\n".join(
        f"{sign if number == token.line else ' '} {number:5} {line[:_WIDTH]}"
        for number, line in enumerate(lines, token.line - len(lines) + 1)
    )


@dataclass
class KindOfChange:
    """Changes of OpenCL C with the same words: how many there are in each program, and one of them."""

    example: str
    programs: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        programs, first = len(self.programs), next(iter(self.programs))
        count = f"{self.programs.total()} changes in {programs} program{'s' * (programs != 1)}, such as {first}"
        return f"{count}:\n{self.example}"


def kinds_of_changes(before: TextCollection, after: TextCollection, names: Sequence[str]) -> list[KindOfChange]:
    """All changes of the OpenCL C of these programs by their kinds, those in most programs first."""
    kinds: dict[tuple[str, str], KindOfChange] = {}
    for name in names:
        old, new = before.texts[name].opencl, after.texts[name].opencl
        if not old or not new or old == new:
            continue
        for change in canonical.changes(canonical.opencl(old), canonical.opencl(new)):
            if change.key not in kinds:
                sides = ((old, change.before, "-"), (new, change.after, "+"))
                kinds[change.key] = KindOfChange("\n".join(_line(*side) for side in sides if side[1]))
            kinds[change.key].programs[name] += 1
    return sorted(kinds.values(), key=lambda kind: -len(kind.programs))


def _line(text: str, tokens: Sequence[canonical.Token], sign: str) -> str:
    """The line of the first of the tokens."""
    line = tokens[0].line
    return f"{sign} {line:5} {text.splitlines()[line - 1].strip()[:_WIDTH]}"


@dataclass(frozen=True)
class Size:
    """The amount of a version's output: kernels, tokens and characters of OpenCL C."""

    kernels: int = 0
    tokens: int = 0
    characters: int = 0

    @staticmethod
    def of(texts: Sequence[Text]) -> Size:
        forms = [canonical.opencl(t.opencl) for t in texts]
        counts = (sum(map(canonical.kernels, forms)), sum(len(f.tokens) for f in forms))
        return Size(*counts, sum(len(t.opencl) for t in texts))


def exceptions(file: Path) -> dict[str, str]:
    """The name patterns in a file of exceptions, each with its reason. Raises Impossible.

    A line is "pattern: reason"; empty lines, and those that begin with #, are ignored.
    """
    reasons = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            if not reason.strip():
                raise Impossible(f"{file}:{number}: an exception is `pattern: reason`, and the reason is missing")
            reasons[pattern.strip()] = reason.strip()
    return reasons


def report(before: TextCollection, after: TextCollection, accepted: dict[str, str], shown: int) -> int:
    """Prints how two collections of the same programs differ; the exit status."""
    comparisons = [compared(n, before.texts[n], after.texts[n]) for n in before.programs]
    bad = [d for d in comparisons if not d.is_equal]
    reasons = {d.program: next((r for p, r in accepted.items() if fnmatchcase(d.program, p)), "") for d in bad}
    open_ = [d for d in bad if not reasons[d.program]]
    for kind in kinds_of_changes(before, after, [d.program for d in open_])[:shown]:
        print(f"{kind}\n")
    for d in open_[:shown]:
        print(f"{d.kind}: {d.program}\n{d.detail}\n")
    if len(open_) > shown:
        print(f"... and {len(open_) - shown} more:", *(f"{d.kind}: {d.program}" for d in open_[shown:]), "", sep="\n  ")
    for d in bad:
        if reasons[d.program]:
            print(f"accepted, {d.kind}: {d.program}: {reasons[d.program]}")
    for pattern in accepted:
        if not any(fnmatchcase(d.program, pattern) for d in bad):
            print(f"the exception {pattern} excuses nothing")
    words = sorted({d.detail for d in comparisons if d.kind == "refused" and d.detail})
    if words:
        print(f"{len(words)} messages of refused programs have other words, such as:\n{words[0]}\n")
    print(f"before: {before.version}, after: {after.version}, for {before.device['device']}")
    kinds = ("identical", "renamed", "refused", "different", "refused now", "compiled now")
    counts = {kind: sum(d.kind == kind for d in comparisons) for kind in kinds}
    print(f"{len(comparisons)} programs:", ", ".join(f"{count} {kind}" for kind, count in counts.items() if count))
    old, new = (Size.of(list(c.texts.values())) for c in (before, after))
    for name in ("kernels", "tokens", "characters"):
        a, b = getattr(old, name), getattr(new, name)
        print(f"{name:>12}: {a:,} before, {b:,} after" + (f" ({b / a - 1:+.2%})" if a != b and a else ""))
    return 1 if open_ else 0


# The command ---------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _chosen(names: Collection[str], options: argparse.Namespace) -> list[str]:
    """The programs that the command asks for."""
    only = options.only or []
    matches = [n for n in names if not only or any(o == group(n) or o.lower() in n.lower() for o in only)]
    if not matches:
        raise Impossible(f"no program's name holds {' or '.join(map(repr, only))}")
    return matches if options.sample is None else sample(matches, options.sample)


def _programs(options: argparse.Namespace) -> list[Program]:
    """The programs of the corpus that the command asks for."""
    programs = corpus()
    return [Program(name, programs[name]()) for name in _chosen(list(programs), options)]


def _collected(version: str | None, programs: Sequence[Program], options: argparse.Namespace) -> TextCollection:
    """For a commit, or for the working tree if None."""
    if version is None:
        return collect(ROOT, "the working tree", programs, options.device, options.jobs)
    name = _git("rev-parse", "--short", f"{version}^{{commit}}").decode().strip()
    with checked_out(name) as checkout:
        return collect(checkout, name, programs, options.device, options.jobs)


def _compare(options: argparse.Namespace) -> int:
    sides = (options.before, options.after)
    archives = [TextCollection.load(Path(s)) if s is not None and (Path(s) / FILE).exists() else None for s in sides]
    accepted = exceptions(options.accept) if options.accept else {}
    first = next((k for k in archives if k is not None), None)
    if first is None:
        programs = _programs(options)
    else:
        programs = [first.programs[name] for name in _chosen(list(first.programs), options)]
        options.device = first.device["device"]
    collections = [_collected(s, programs, options) if k is None else k for k, s in zip(archives, sides, strict=True)]
    if collections[0].device != collections[1].device:
        raise Impossible(f"the two are of different machines: {collections[0].device} and {collections[1].device}")
    for k in collections:
        changed = [p.name for p in programs if k.programs.get(p.name) != p]
        if changed:
            raise Impossible(f"{k.version}: {len(changed)} programs are others or missing, such as {changed[0]}")
        k.programs = {p.name: p for p in programs}
        k.texts = {p.name: k.texts[p.name] for p in programs}
    return report(collections[0], collections[1], accepted, options.show)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.kernel_text", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keep = commands.add_parser("collect", help="keep what a version writes in a folder")
    keep.add_argument("folder", type=Path)
    keep.add_argument("--commit", help="of which version; none: the working tree")
    both = commands.add_parser("compare", help="compare what two versions write")
    both.add_argument("before", help="a commit, or a folder of `collect`")
    both.add_argument("after", nargs="?", help="likewise; none: the working tree")
    both.add_argument("--accept", metavar="FILE", type=Path, help="programs that may differ: lines `pattern: reason`")
    both.add_argument(
        "--show", metavar="N", type=int, default=10, help="how many kinds of changes and programs are shown"
    )
    for command in (keep, both):
        command.add_argument("--only", nargs="+", metavar="NAME", help=f"groups ({', '.join(GROUPS)}) or names")
        command.add_argument("--sample", metavar="N", type=int, help="so many programs of all groups, evenly")
        command.add_argument("--device", default="pocl", help="as `refxla devices` names it, or gpu")
        command.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes for each version")
    options = parser.parse_args(arguments)
    try:
        if options.command == "compare":
            return _compare(options)
        _collected(options.commit, _programs(options), options).save(options.folder)
        return 0
    except Impossible as problem:
        say(f"kernel_text: {problem}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
