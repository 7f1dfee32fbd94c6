"""What runs in PyTorch itself of compiled graphs, and why."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass


class EagerWarning(UserWarning):
    """An operation has no lowering and runs in PyTorch: once for each operation."""


@dataclass
class EagerOperation:
    """An operation of a compiled graph that runs in PyTorch: its overload's name, the reason, the user's source line
    that called it ("" if PyTorch does not say), and how often it ran."""

    operation: str
    reason: str
    source: str
    calls: int = 0


NO_GRAPHS = (
    "no graph has reached refxla yet: what was called so far ran in eager mode. torch.compile compiles at the first "
    "call; of a module with nn.RNN, nn.LSTM or nn.GRU it hands over no graph unless torch._dynamo.config.allow_rnn = "
    "True was set before, nor of a function with a graph break within a loop; TORCH_LOGS=graph_breaks shows these and "
    "what else it left out"
)


class Report(tuple[EagerOperation, ...]):
    """The operations that run in PyTorch, the most frequent first; it prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "every operation of the graphs compiled so far runs compiled" if _graphs else NO_GRAPHS
        rows = [("operation", "calls", "why", "where")]
        rows += [(e.operation, str(e.calls), e.reason, e.source) for e in self]
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        return "\n".join(
            "  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows
        )


_lock = threading.Lock()
_operations: dict[tuple[str, str, str], EagerOperation] = {}
_warned: set[str] = set()
_graphs = 0  # compiled so far in this process


def enter(operation: str, reason: str, source: str, expected: bool = False) -> EagerOperation:
    """The entry of an operation at a line; the first one of an operation warns, unless it is `expected`."""
    with _lock:
        entry = _operations.setdefault((operation, reason, source), EagerOperation(operation, reason, source))
        first = operation not in _warned
        _warned.add(operation)
    if first and not expected:
        at = f" ({source})" if source else ""
        message = f"{operation} runs in PyTorch, not compiled: {reason}{at}; refxla.frontends.torch.report() lists all"
        warn_at(source, message, EagerWarning)
    return entry


def warn_at(source: str, message: str, category: type[Warning]) -> None:
    """Warns at the user's line, file:line, if it is known: the caller is deep in a compiler."""
    file, _, line = source.rpartition(":")
    if file and line.isdigit():
        warnings.warn_explicit(message, category, file, int(line))
    else:
        warnings.warn(message, category, stacklevel=3)


def note_graph() -> None:
    """Records that a graph is being compiled."""
    global _graphs
    with _lock:
        _graphs += 1


def count(entries: Iterable[EagerOperation]) -> None:
    """Records that the operations of a graph ran once more."""
    with _lock:
        for entry in entries:
            entry.calls += 1


def report() -> Report:
    """The operations that ran, or will run, in PyTorch in the graphs compiled so far in this process."""
    with _lock:
        return Report(sorted(_operations.values(), key=lambda e: (-e.calls, e.operation, e.source)))


def clear() -> None:
    """Forgets all that ran so far, and warns again."""
    with _lock:
        _operations.clear()
        _warned.clear()
