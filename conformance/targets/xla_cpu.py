"""XLA itself, on the CPU, through JAX's wheel: takes HLO text, returns XLA's results.

XLA is used through private names of the installed jaxlib, in a child process, since some programs abort it; the child
stays for the next question, because starting it costs a second. Importing this module raises ModuleNotFoundError if
there is no jaxlib, or one without those names, so that a test module which needs it can begin with

    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")

The differences of XLA:CPU from the specification, intended or not, are in `refxla_conformance.differences`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import Error, InvalidProgramError, UnsupportedError
from refxla_spec.module import Module
from refxla_spec.releases import NEWEST, release_of
from refxla_spec.text import parse, print_module
from refxla_spec.types import Value

from .base import Target, leaves
from .child import Child, ChildDied, ChildError
from .private import DEVICES, environment, missing, version
from .sized import at_their_sizes, is_sized, static_arguments, static_form

LIMIT = 120.0  # seconds for one question

if missing():
    raise ModuleNotFoundError(missing())


def written(module: Module) -> str:
    """The text of a module in the form that the installed XLA reads. Raises UnsupportedError for features that it does
    not know."""
    return print_module(module, release=release_of(version()))


def readable(text: str) -> str:
    """A text in the form that the installed XLA reads: unchanged for the newest one, and if it is not a program."""
    if release_of(version()) == NEWEST:
        return text
    try:
        return written(parse(text))
    except Error:
        return text


class XlaCpu(Target):
    """XLA:CPU with its results unchanged: nothing is corrected for its known differences."""

    name = "xla-cpu"
    flushes_subnormals = True  # at run time; not in constants that it folds
    devices = DEVICES

    def __init__(self, limit: float = LIMIT, flags: str = "") -> None:
        """`limit` is in seconds for one question; `flags` are options of XLA, as in XLA_FLAGS."""
        self._child, self._limit = Child("refxla_conformance.targets.xla_child", environment(flags)), limit

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        _refuse_what_corrupts(module)
        flat = [np.asarray(leaf) for leaf in leaves(list(arguments)) if leaf is not None]
        if is_sized(module):
            results = self.ask("run", written(static_form(module)), static_arguments(module, flat))
            return at_their_sizes(module, results)
        values: list[np.ndarray] = self.ask("run", written(module), flat)
        return values

    def verify(self, text: str) -> None:
        """Runs XLA's parser, and the verifier with which its compiler begins."""
        try:
            self.ask("verify", readable(text))
        except ChildError as error:
            raise InvalidProgramError(str(error)) from None

    def ask(self, *question: Any) -> Any:
        """Sends a question to XLA's process; errors as for Child.ask."""
        return self._child.ask(*question, limit=self._limit)

    def versions(self) -> dict[str, str]:
        return {"jaxlib": version()}

    def close(self) -> None:
        self._child.close()


def _refuse_what_corrupts(module: Module) -> None:
    """UnsupportedError for programs for which XLA:CPU returns memory that is not the program's.

    It stores four elements of s2 or u2 in a byte, and sorts as many bytes as there are elements: it accesses memory
    past the array, so that the values differ between runs, and the process may stop answering."""
    for i in module.instructions():
        if i.opcode == "sort" and any(o.shape.element_type.bits < 4 for o in i.operands):
            raise UnsupportedError(
                f"{i.name}: XLA:CPU sorts elements of less than 4 bits as bytes, past the array's end"
            )


# The same as functions, for tests.


class OracleError(Exception):
    """XLA rejected the program; the message is XLA's own."""


class OracleAborted(OracleError):
    """XLA ended its process on this program, or ran past the time limit."""


_target: XlaCpu | None = None


def xla_cpu(hlo_text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the module's entry computation on XLA:CPU, a tuple's elements in order.

    Raises OracleError or OracleAborted.
    """
    results: list[np.ndarray] = _ask("run", readable(hlo_text), [np.asarray(x) for x in inputs])
    return results


def xla_parses(hlo_text: str) -> bool:
    """Whether XLA's own parser accepts the text."""
    try:
        _ask("print", readable(hlo_text))
    except OracleError:
        return False
    return True


def xla_prints(hlo_text: str) -> str:
    """The text as XLA parses and prints it again, with every constant in full. Raises OracleError."""
    text: str = _ask("print", readable(hlo_text))
    return text


def xla_proto(hlo_text: str) -> bytes:
    """The text as a serialized HloModuleProto, created by XLA. Raises OracleError."""
    proto: bytes = _ask("proto", readable(hlo_text))
    return proto


def xla_text(proto: bytes) -> str:
    """A serialized HloModuleProto as XLA prints it, with every constant in full. Raises OracleError."""
    text: str = _ask("text", proto)
    return text


def _ask(*question: Any) -> Any:
    global _target
    _target = _target or XlaCpu()
    try:
        return _target.ask(*question)
    except ChildDied as error:
        raise OracleAborted(f"XLA: {error}, on: {str(question[1])[:500]}") from error
    except (ChildError, UnsupportedError) as error:
        raise OracleError(str(error)) from error
