"""StableHLO: converted to HLO by jaxlib, if it is installed, in a child process that may abort without harm.

A program is MLIR text (the output of `jax.jit(f).lower(x).as_text()`; also CHLO and VHLO), MLIR bytecode, or a portable
artifact, which is bytecode of the versioned dialect. The form is recognised from the contents.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from refxla_spec.errors import InputError, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.lexer import excerpt
from refxla_spec.module import Module, Position

from .stablehlo_child import receive, send

BYTECODE = b"ML\xefR"
CHILD = Path(__file__).with_name("stablehlo_child.py")

# How MLIR text begins, after comments: a module, an operation that has a symbol (`sdy.mesh @m = ...`) or is in quotes,
# an alias, or (in a file with resources) its metadata.
_SPACE = re.compile(r"(?:\s+|//[^\n]*)+")
_HEAD = re.compile(
    r"(?P<module>(?:builtin\.)?module\b)|(?:func|vhlo)\.func\b"
    r'|[a-z]\w*\.\w+\s*@|"[a-z]\w*\.[\w.]+"|[#!][\w.$-]+\s*=|\{-#'
)
_INSIDE = re.compile(r"\b(?:(?:func|vhlo)\.func\b|(?:stablehlo|mhlo|chlo|sdy)\.)|\bmodule\s*(?:@|attributes\b|\{\s*\})")


def is_stablehlo(source: str | bytes) -> bool:
    """Whether a text or the contents of a file look like MLIR, and not like HLO."""
    if isinstance(source, (bytes, bytearray)):
        return source[:4] == BYTECODE
    space = _SPACE.match(source)
    head = _HEAD.match(source, space.end() if space else 0)
    # A computation of HLO may be called "module".
    return head is not None and (head["module"] is None or _INSIDE.search(source) is not None)


def from_stablehlo(source: str | bytes) -> Module:
    """The HLO module of a StableHLO program: text, bytecode or a portable artifact.

    The function `main` is its entry: arguments are parameters, one result is the root, several are a tuple. Sharding
    stays an attribute; donation becomes input_output_alias. Raises InputError if jaxlib is not installed, ParseError
    for programs that MLIR rejects, with the line and column of a text, UnsupportedError for anything that HLO cannot
    represent.
    """
    with Converter() as convert:
        return convert(source)


def to_stablehlo(module: Module) -> str:
    """The StableHLO text of a module. Raises InputError if jaxlib is not installed, UnsupportedError if it refuses."""
    with Converter() as convert:
        return convert.back(module)


# What a request needs jaxlib for, and what to do without it.
READ_ADVICE = (
    "this is StableHLO, which jaxlib converts to HLO, and {missing}: pip install 'refxla[jax]', or give HLO "
    "(jax.jit(f).lower(x).compiler_ir('hlo') has it)"
)
WRITE_ADVICE = "jaxlib writes StableHLO, and {missing}: pip install 'refxla[jax]', or write HLO (a .hlo or .pb file)"
ADVICE = {b"t": READ_ADVICE, b"b": READ_ADVICE, b"h": WRITE_ADVICE}  # by the kind of a request (stablehlo_child.py)


class Converter:
    """A child process with jaxlib, which converts any number of programs; it is started on first use, and again after a
    program that killed it. Close it, or use it as a context."""

    def __init__(self) -> None:
        self.version = ""  # jaxlib's, once the child has started
        self._child: _Child | None = None
        self._lock = threading.Lock()

    def __call__(self, source: str | bytes) -> Module:
        """See `from_stablehlo`."""
        from ..ir.proto import from_proto  # and Google's protobuf, which a process without protos need not load

        if isinstance(source, str):
            kind, answer = self._ask(b"t", source.encode())
        else:
            kind, answer = self._ask(b"b", bytes(source))
        if kind == b"o":
            return from_proto(answer)
        raise _error(answer.decode(errors="replace"), source if isinstance(source, str) else None)

    def back(self, module: Module) -> str:
        """See `to_stablehlo`."""
        from ..ir.proto import to_proto

        kind, answer = self._ask(b"h", to_proto(module))
        if kind == b"o":
            return answer.decode()
        raise UnsupportedError(f"jaxlib cannot write {module.name} as StableHLO: {_first(answer.decode())}")

    def close(self) -> None:
        """Ends the child."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def __enter__(self) -> Converter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        with self._lock:
            child = self._child or self._start(ADVICE[kind])
            try:
                send(child.requests, kind, body)
                answer = receive(child.answers)
            except OSError:  # the child is gone
                answer = None
            except BaseException:  # interrupted: the pending answer would be mistaken for the next one
                self.close()
                raise
            if answer is None:
                raise UnsupportedError(
                    f"jaxlib {self.version}, which converts StableHLO, {self._died(child)} on this program"
                )
            return answer

    def _start(self, advice: str) -> _Child:
        child = self._child = _Child()
        try:
            answer = receive(child.answers)
        except BaseException:
            self.close()
            raise
        if answer is None:
            raise InputError(f"jaxlib, which converts StableHLO, {self._died(child)} when it was loaded")
        kind, message = answer
        self.version = message.decode()
        if kind != b"o":
            self.close()
            raise InputError(advice.format(missing=self.version))
        return child

    def _died(self, child: _Child) -> str:
        """How the child ended, with its last output; it is closed."""
        code, lines = child.process.wait(), child.complaints()
        self.close()
        fatal = [line for line in lines if "Check failed" in line or "LLVM ERROR" in line or "Assertion" in line]
        words = (fatal or lines or [""])[0 if fatal else -1]
        ended = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{ended}{f' ({words[:300]})' if words else ''}"


class _Child:
    """The process and its pipes."""

    def __init__(self) -> None:
        code = f"import runpy, sys; sys.path[:] = {sys.path!r}; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
        self.errors = tempfile.TemporaryFile()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=self.errors, bufsize=-1
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # they are pipes
        self.requests, self.answers = self.process.stdin, self.process.stdout

    def complaints(self) -> list[str]:
        """The lines that it has written to standard error."""
        self.errors.seek(0)
        return [line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]

    def end(self) -> None:
        with contextlib.suppress(OSError):  # closing flushes the buffer, which fails if the process has died
            self.requests.close()
        self.answers.close()
        self.process.kill()
        self.process.wait()
        self.errors.close()


# jaxlib's errors -----------------------------------------------------------------------------------------------------

_DIAGNOSTIC = re.compile(
    r"^(?:[A-Z_]+: )?(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): error: (?P<what>.*)$", re.MULTILINE
)


def _error(message: str, text: str | None) -> Exception:
    """The error for the converter's message about a text, or bytecode: its first diagnostic, with its location."""
    match = _DIAGNOSTIC.search(message)
    if match is None:
        return UnsupportedError(f"jaxlib cannot convert this StableHLO program: {_first(message)}")
    what, line, column = match["what"].strip(), int(match["line"]), int(match["column"])
    if "requires module with `main`" in what:
        return InvalidProgramError("a StableHLO program begins with its function @main, and this module has none")
    where, shown = "", ""
    place: tuple[int, int] | tuple[None, None] = (None, None)
    if match["file"] != "-":  # a source file named by the program's locations
        where = f"{match['file']}:{line}: "
    elif text is not None and line:
        place = line, column
        where, shown = f"line {line}, column {column}: ", f"\n{excerpt(text, Position(line, column))}"
    if "Failed to parse" in message:
        return ParseError(f"{where}{what}{shown}", *place)
    return UnsupportedError(f"{where}{what.removesuffix('.')}: jaxlib finds no HLO for it{shown}")


def _first(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "no reason given")
