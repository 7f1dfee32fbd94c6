"""What is compiled of a TensorFlow function, what TensorFlow runs, and why: by node and by source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ASIDE = ("ReadVariableOp", "Identity", "NoOp")  # which say little about a cluster


class ClusteringWarning(UserWarning):
    """Some operations of a function stay in TensorFlow."""


@dataclass(frozen=True)
class Operation:
    """A node of the graph: its name, its operation, the user's source line ("" if there is none), the number of the
    cluster in which it is compiled, or None and the reason why it stays in TensorFlow."""

    node: str
    operation: str
    source: str
    cluster: int | None
    reason: str = ""


class Report(tuple[Operation, ...]):
    """The nodes of a function's graph in the order of the segments. It prints as two tables: the clusters, and the
    nodes that stay in TensorFlow. Empty if the whole function is one program."""

    name: str

    @classmethod
    def of(cls, name: str, operations: Sequence[Operation]) -> Report:
        """The report of the function of this name."""
        report = cls(operations)
        report.name = name
        return report

    @property
    def clusters(self) -> tuple[tuple[Operation, ...], ...]:
        """The nodes of each cluster."""
        numbers = dict.fromkeys(o.cluster for o in self if o.cluster is not None)
        return tuple(tuple(o for o in self if o.cluster == n) for n in numbers)

    @property
    def in_tensorflow(self) -> tuple[Operation, ...]:
        """The nodes that TensorFlow runs."""
        return tuple(o for o in self if o.cluster is None)

    def __str__(self) -> str:
        if not self:
            return f"{self.name} is compiled as a whole"
        compiled, clusters = len(self) - len(self.in_tensorflow), len(self.clusters)
        verb = "cluster holds" if clusters == 1 else "clusters hold"
        lines = [f"{self.name}: {clusters} {verb} {compiled} of {len(self)} operations", ""]
        if clusters:
            rows = [("cluster", "size", "operations", "lines")]
            for n, nodes in enumerate(self.clusters):
                operations = [o.operation for o in nodes if o.operation not in _ASIDE]
                rows.append((str(n), str(len(nodes)), _most(operations), _most(o.source for o in nodes)))
            lines += [*_table(rows), ""]
        rows = [("in TensorFlow", "operation", "why", "line")]
        rows += [(o.node, o.operation, o.reason, o.source) for o in self.in_tensorflow]
        return "\n".join([*lines, *_table(rows)])


class Reports(dict[str, Report]):
    """Reports by the names of functions; prints one after the other."""

    def __str__(self) -> str:
        return "\n\n".join(str(report) for report in self.values())


def _most(values: Iterable[str], count: int = 4) -> str:
    """The most frequent of some texts, with how often they occur."""
    counter = Counter(v for v in values if v)
    shown = [f"{name} x{n}" if n > 1 else name for name, n in counter.most_common(count)]
    return ", ".join([*shown, *(["..."] if len(counter) > count else [])])


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]) - 1)]
    return ["  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows]
