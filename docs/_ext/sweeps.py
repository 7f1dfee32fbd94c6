"""The directives `sweep-table` and `exact-functions`: what sweeps have found, made from the tables they wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.sweep.table import WORST_FILE, Row, read
from refxla_spec.types import ELEMENT_TYPES
from tables import table

XLA_CPU = WORST_FILE.with_name("xla_cpu.json")


class SweepTable(Directive):
    """A row for each function whose contract has a bound; the types of 8 bits and fewer share one."""

    def run(self) -> list[nodes.Node]:
        others = {row.function: row for row in read(XLA_CPU)}
        head = ("Function", "Operands", "Allowed", "refxla, ULP", "at", "commit", "XLA:CPU, ULP")
        rows, small = [], defaultdict(list)
        for row in read():
            if row.bound and ELEMENT_TYPES[row.type].bits > 8:
                rows.append(_bounded(row.function, [row], _error(others.get(row.function))))
            elif row.bound:
                small[row.opcode].append(row)
        rows += [_bounded(f"{opcode} of {len(group)} small types", group, "-") for opcode, group in small.items()]
        return [table(head, sorted(rows), (26, 14, 8, 12, 22, 10, 12))]


def _bounded(name: str, rows: Sequence[Row], other: str) -> tuple[str, ...]:
    """The line of functions of one operation: all their operands, and the worst of them."""
    worst = max(rows, key=lambda row: (not row.is_kept, row.worst or 0))
    where = ", ".join(worst.at) + (f" ({worst.type})" if len(rows) > 1 else "")
    commits = ", ".join(sorted({row.commit or "earlier" for row in rows}))
    return name, f"{sum(row.swept for row in rows):,}", f"{worst.bound:g}", _error(worst), where, commits, other


class ExactFunctions(Directive):
    """A row for each exact operation: the operand types on which all operands have been swept."""

    def run(self) -> list[nodes.Node]:
        types: dict[str, dict[str, None]] = defaultdict(dict)
        for row in read():
            if not row.bound:
                if not row.is_kept:
                    raise self.error(f"{row.function} is to be exact, and is not at {row.missed}")
                types[row.opcode][row.type] = None
        rows = [(opcode, ", ".join(names)) for opcode, names in types.items()]
        return [table(("Operation", "Operand types"), rows, (25, 75))]


def _error(row: Row | None) -> str:
    if row is None:
        return "-"
    return ("beyond measure" if row.worst is None else f"{row.worst:.3f}") + ("*" if row.missed else "")


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("sweep-table", SweepTable)
    app.add_directive("exact-functions", ExactFunctions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
