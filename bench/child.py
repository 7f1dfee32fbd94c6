"""One framework in a separate process: thread pools of different libraries stay apart, and a crash costs one cell.

with Child("torch", threads=2) as child:
    about = child.prepare("GEMM 256", folder)     # compiled, warm, and compared
    samples = child.measure(0.5)                  # seconds, one for each call
"""

from __future__ import annotations

import compileall
import functools
import importlib.metadata
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from .frameworks import CACHES, KEEP_ALL, limit_threads, load
from .models import ENTRIES, Entry
from .parameter_trees import leaves

WARM = 2  # calls after the first one, before measuring
LIMIT_S = 900.0  # an answer that takes longer is discarded, unless another limit is given


class Absent(Exception):
    """A cell that stays empty: not installed, not expressible, not right, too slow. The message says why."""


def entry(name: str) -> Entry:
    """The entry of exactly this name, from the suite, the list of programs or the sweeps, otherwise the chain of this
    text."""
    match = next((e for e in ENTRIES if e.name == name), None)
    if match is None:
        from .cliffs import POINTS  # these import JAX, which the children of other frameworks avoid
        from .programs import PROGRAMS

        match = next((e for e in (*PROGRAMS, *POINTS) if e.name == name), None)
    if match is None:
        from . import chains

        match = chains.entry_of(chains.parsed(name))
    return match


class Prepared:
    """An entry on a framework: compiled by its first call, which takes `first` seconds."""

    def __init__(self, framework: str, name: str, small: bool = False) -> None:
        self.entry = entry(name)
        self.framework = load(framework)
        self.framework.wide_types(self.entry.x64)
        arguments = self.entry.arguments(**(self.entry.small if small else self.entry.sizes))
        self.arguments = self.framework.place(arguments)
        begin = time.perf_counter()
        function = functools.partial(self.entry.function, self.framework)
        self.function = self.framework.compile(function, self.entry.trains)
        self.results = self()
        self.first = time.perf_counter() - begin

    def __call__(self) -> Any:
        """One call, until its results are ready."""
        results = self.function(*self.arguments)
        self.framework.wait(results)
        return results

    def flat(self) -> list[np.ndarray]:
        """The results of the first call, with types that NumPy's files do not support as f32."""
        arrays = [np.asarray(leaf) for leaf in leaves(self.framework.numpy(self.results))]
        return [a if a.dtype.type.__module__ == "numpy" else a.astype(np.float32) for a in arrays]

    def measure(self, seconds: float) -> tuple[list[float], float]:
        """Seconds of each of as many calls as fit, at least one; and the processor time of all of them, which is more
        reliable than a clock on a shared machine."""
        samples = []
        processor = time.process_time()
        end = time.perf_counter() + seconds
        while True:
            begin = time.perf_counter()
            self()
            now = time.perf_counter()
            samples.append(now - begin)
            if now >= end:
                return samples, time.process_time() - processor


def distance(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference of any result, relative to that result's largest number; infinite for other shapes."""
    if [a.shape for a in actual] != [a.shape for a in expected]:
        return float("inf")
    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        if a.size:
            wide = np.complex128 if np.iscomplexobj(a) else np.float64
            difference = np.abs(a.astype(wide) - b.astype(wide)).max()
            scale = max(float(np.abs(b).max()), 1e-6)
            worst = max(worst, float(difference / scale) if np.isfinite(difference) else float("inf"))
    return worst


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Those that are installed."""
    by_package = {}
    for package in packages:
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_package


def _serve(connection: Connection, framework: str) -> None:
    """The child's main loop: answers (True, result) or (False, reason) to each (method, arguments)."""
    if not os.environ.get("REFXLA_BENCH_TRACEBACK"):  # frameworks print a lot while they start
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    prepared: Prepared | None = None
    while True:
        try:
            what, arguments = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            if what == "load":
                answer: Any = versions(load(framework).packages)
            elif what == "prepare":
                name, folder, small = arguments
                prepared = None  # frees its memory first
                prepared = Prepared(framework, name, small)
                answer = {"first": prepared.first, "distance": _compare(prepared.flat(), folder, name)}
                for _ in range(WARM):
                    prepared()
            elif what == "measure" and prepared is not None:
                answer = prepared.measure(*arguments)
            else:
                raise ValueError(f"nothing is prepared to {what}")
            connection.send((True, answer))
        except KeyboardInterrupt:
            return
        except Exception as problem:
            words = str(problem).strip().split("\n")[0][:300] or type(problem).__name__
            if os.environ.get("REFXLA_BENCH_TRACEBACK"):
                traceback.print_exc()
            connection.send(
                (False, words if isinstance(problem, ImportError) else f"{type(problem).__name__}: {words}")
            )


def _compare(actual: list[np.ndarray], folder: str, name: str) -> float:
    """The difference of the results from those of the first framework, which are kept in the folder."""
    file = Path(folder) / (name.replace("/", " ") + ".npz")
    if not file.exists():
        arrays: dict[str, Any] = {str(n): a for n, a in enumerate(actual)}  # Any: savez has keywords of other types
        np.savez(file, **arrays)
        return 0.0
    with np.load(file) as archive:
        return distance(actual, [archive[str(n)] for n in range(len(archive.files))])


def _peak() -> int:
    """Peak resident memory of this process so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Record(TypedDict):
    """What a process of `alone` has measured."""

    versions: dict[str, str]
    loaded: int  # resident memory in bytes, with the framework alone
    first: float  # seconds to the first result
    peak: int  # resident memory in bytes, at most


def _once() -> None:
    """The main function of a process of `alone`: FRAMEWORK, ENTRY, SMALL are its arguments."""
    framework, name, small = sys.argv[1:4]
    packages, loaded = versions(load(framework).packages), _peak()
    prepared = Prepared(framework, name, small == "small")
    for _ in range(WARM):
        prepared()
    record: Record = {"versions": packages, "loaded": loaded, "first": prepared.first, "peak": _peak()}
    print(json.dumps(record))


@functools.cache
def _compile_sources() -> None:
    """Compiles refxla's Python bytecode, as pip does for installed packages: a checkout may have none."""
    for package in ("refxla", "refxla_spec"):  # not imported here: a child measures its own framework's memory
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            compileall.compile_dir(Path(spec.origin).parent, quiet=2)


def environment(caches: str | None) -> dict[str, str]:
    """The environment of a process that is measured by itself. `caches`: a folder for everything that is kept on disk;
    None: as usual."""
    variables = {**os.environ, **({} if caches is None else dict.fromkeys(CACHES, caches) | KEEP_ALL)}
    variables.pop("POCL_CACHE_DIR", None)  # otherwise kernels come from there
    variables["REFXLA_CALIBRATION"] = "off"  # otherwise the device is measured during the next framework's turn
    return variables


def alone(
    framework: str,
    name: str,
    caches: str | None = None,
    small: bool = False,
    threads: int = 0,
    limit: float = LIMIT_S,
) -> Record:
    """An entry in a process that does nothing else. See `environment` for `caches`.

    Raises Absent.
    """
    if threads:
        limit_threads(threads)
    _compile_sources()
    root = str(Path(__file__).parents[1])
    code = f"import sys; sys.path.append({root!r}); from bench.child import _once; _once()"
    command = [sys.executable, "-c", code, framework, name, "small" if small else "full"]
    try:
        process = subprocess.run(command, env=environment(caches), capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Absent(f"no result within {limit:.0f} s") from None
    if process.returncode:
        raise Absent(
            (process.stderr.strip().split("\n") or [""])[-1][:300] or f"the process ended with {process.returncode}"
        )
    record: Record = json.loads(process.stdout.strip().split("\n")[-1])
    return record


class Child:
    """A framework's process. Each method raises Absent with the reason if the child cannot answer."""

    def __init__(self, framework: str, threads: int, limit: float = LIMIT_S) -> None:
        limit_threads(threads)  # of this process too: a child reads it before it runs a line of ours
        context = multiprocessing.get_context("spawn")
        self.framework, self.limit = framework, limit
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, framework), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.versions = self.ask("load")
        except Absent:
            self.close()
            raise

    def ask(self, what: str, *arguments: Any) -> Any:
        """The child's answer; after `limit` seconds, the child is ended."""
        try:
            self.connection.send((what, arguments))
            if not self.connection.poll(self.limit):
                self.process.kill()
                self.close()
                raise Absent(f"no answer within {self.limit:.0f} s")
            good, answer = self.connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join(5)
            code = self.process.exitcode
            self.close()
            raise Absent(f"the process ended with {code}") from None
        if not good:
            raise Absent(answer)
        return answer

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def prepare(self, name: str, folder: Path | str, small: bool = False) -> dict[str, float]:
        """{"first": seconds of compiling and the first call, "distance": from the results kept in the folder}."""
        answer: dict[str, float] = self.ask("prepare", name, str(folder), small)
        return answer

    def measure(self, seconds: float) -> tuple[list[float], float]:
        """See Prepared.measure."""
        samples: tuple[list[float], float] = self.ask("measure", seconds)
        return samples

    def close(self) -> None:
        self.connection.close()
        self.process.join(1)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(5)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
