"""The table of sweep results: a JSON file, and its rows for the documentation.

{"functions": [{"function": "tanh of f32", "swept": 4294967296, "worst": 0.75, ..., "commit": "1234abcd"}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from refxla_spec.errors import InputError

from refxla.files import write_whole

WORST_FILE = Path(__file__).parent / "worst.json"


@dataclass(frozen=True)
class Row:
    """The data kept of one function's sweep. Errors are in ULP of the result."""

    function: str
    opcode: str
    type: str
    swept: int
    worst: float | None  # as measured by the sweep; None if it is beyond measure
    at: tuple[str, ...]  # the operands there
    missed: tuple[str, ...]  # the last operands whose result must be exact and is not; () if there are none
    precise: float | None  # the error there by mpmath
    bound: float
    seconds: float
    target: str
    commit: str  # of refxla's checkout; "" for an installed package
    machine: str  # the processor, its cores

    @property
    def is_kept(self) -> bool:
        return not self.missed and self.worst is not None and self.worst <= self.bound


def read(path: Path = WORST_FILE) -> list[Row]:
    """The rows of a file that `write` created; none if there is no file. InputError if it is another kind of file."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text())["functions"]
        return [
            Row(**{"commit": "", "machine": ""} | row | {"at": tuple(row["at"]), "missed": tuple(row["missed"])})
            for row in rows
        ]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is no table of sweeps ({error}); name another file or remove it") from None


def write(rows: list[Row], path: Path) -> None:
    """Writes the table, sorted by operation, number of operands and type."""
    functions = [asdict(row) for row in sorted(rows, key=lambda row: (row.opcode, row.type, row.function))]
    write_whole(path, (json.dumps({"functions": functions}, indent=1) + "\n").encode())


def markdown(rows: list[Row]) -> Iterator[str]:
    """The lines of a table for people."""
    yield "| function | operands swept | largest error, ULP | at | allowed |"
    yield "|---|---|---|---|---|"
    for row in rows:
        error = "exact" if not row.bound else "beyond measure" if row.worst is None else f"{row.worst:.4f}"
        error += f"; missed at {', '.join(row.missed)}" if row.missed else ""
        at = ", ".join(row.at) if row.bound else ""
        yield f"| {row.function} | {row.swept:,} | {error} | {at} | {row.bound or 'exact'} |"
