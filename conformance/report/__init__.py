"""The results of a run: as data and JSON (here), on the terminal, as an HTML page, as JUnit's XML, and as the
difference of two runs.

The JSON is one object:

    format      "refxla-conformance"
    version     3; those of versions 1 and 2 can be read, too, which know no "undecided" outcome (1) and no bits
    started     when, as ISO 8601 in UTC
    seconds     how long it took
    complete    false if the run was interrupted: then cases are missing
    machine     {"system", "processor", "cores", "python"}
    versions    {"refxla", "numpy", "ml_dtypes"}: of the suite and the reference; in a checkout "commit", too
    targets     for each target, by the name it was asked for by, the versions that it reports
    cases       a list, one object for each case that ran:
        name, kind, opcode, type    as in `refxla_conformance.cases.Case`; type is "" where a case is about none
        note                        "" or a sentence; of a counterexample the rule that is broken
        program                     HLO text, of a case that failed or was excused on a target (otherwise left out)
        results                     for each target:
            outcome                 "pass", "fail", "unsupported", "undecided" or "excused"
            seconds                 time taken, the comparison included
            reason                  what is wrong, for all but a pass (left out if empty, as are those below)
            undecided               how many elements of the result the contract says nothing of
            bits                    a digest of the results, if there are any (`refxla_spec.compare.digest`)
            differences             names of the known differences that excuse the case
            inputs, expected, got   literals in HLO's syntax, long ones cut, of fails and excused cases
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from refxla_spec.errors import InputError

from refxla.files import write_whole
from refxla.version import commit

from ..case_check import Outcome, Verdict
from ..cases import Case
from ..machine import machine

FORMAT, VERSION = "refxla-conformance", 3


@dataclass
class Row:
    """One case and its verdict on each target, by the target's name."""

    name: str
    kind: str
    opcode: str
    type: str
    note: str
    program: str = ""
    results: dict[str, Verdict] = field(default_factory=dict)


@dataclass
class Results:
    """A run of the suite; see this module's docstring for the fields."""

    targets: dict[str, dict[str, str]]
    started: str = ""
    seconds: float = 0.0
    complete: bool = False
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def begin(cls, targets: dict[str, dict[str, str]]) -> Results:
        """Results without a case, of a run that begins now on this machine."""
        versions = {name: importlib.metadata.version(name) for name in ("refxla", "numpy", "ml_dtypes")}
        versions |= {"commit": commit()} if commit() else {}
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(targets, now, machine=machine(), versions=versions)

    def resume(self, path: Path) -> None:
        """Adds the results of an earlier run of the same targets, in the same versions. Raises InputError for another
        file, and for the report of other versions: its cases might have other results now."""
        earlier = Results.read(path)
        for what, then, now in (
            ("targets", earlier.targets, self.targets),
            ("versions", earlier.versions, self.versions),
        ):
            if then != now:
                raise InputError(
                    f"{path} is of other {what}: {_listed(then)} there, {_listed(now)} now; leave --resume out, or "
                    "name another file with --json"
                )
        self.started, self.seconds, self.rows = earlier.started, earlier.seconds, earlier.rows

    def has(self, name: str) -> bool:
        """Whether there is a verdict on that case for each target."""
        return name in self.rows and set(self.rows[name].results) >= set(self.targets)

    def add(self, case: Case, verdict: Verdict) -> None:
        """Adds one verdict."""
        row = self.rows.setdefault(case.name, Row(case.name, case.kind, case.opcode, "", case.note, case.hlo))
        row.type = row.type or verdict.type
        row.results[verdict.target] = verdict

    def sort(self, order: Iterable[str]) -> None:
        """Puts the cases in the order of these names, whatever the order in which they came."""
        self.rows = {name: self.rows[name] for name in order if name in self.rows}

    def count(self, target: str) -> Counter[Outcome]:
        """How many cases had which outcome on a target."""
        return Counter(row.results[target].outcome for row in self.rows.values() if target in row.results)

    def failures(self) -> list[Verdict]:
        """Every fail, case by case."""
        verdicts = (verdict for row in self.rows.values() for verdict in row.results.values())
        return [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL]

    def to_json(self) -> dict[str, Any]:
        """The object described in this module's docstring."""
        head = {"format": FORMAT, "version": VERSION}
        body = {k: getattr(self, k) for k in ("started", "seconds", "complete", "machine", "versions", "targets")}
        cases = []
        for row in self.rows.values():
            results = {target: _result(verdict) for target, verdict in row.results.items()}
            names = ("name", "kind", "opcode", "type", "note")
            told = any(v.outcome in (Outcome.FAIL, Outcome.EXCUSED) for v in row.results.values())
            program = {"program": row.program} if told else {}
            cases.append({**{n: getattr(row, n) for n in names}, **program, "results": results})
        return {**head, **body, "cases": cases}

    def write(self, path: Path) -> None:
        """Writes the JSON to a file. Raises InputError if it cannot be written."""
        write_whole(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Results:
        """Reads what `write` has written. Raises InputError for another file, or one of a later version."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{path} is no report of this suite; write one with --json")
        if not 1 <= data["version"] <= VERSION:
            raise InputError(f"{path} has version {data['version']} of the format, and this suite reads 1 to {VERSION}")
        results = cls(**{k: data[k] for k in ("targets", "started", "seconds", "complete", "machine", "versions")})
        for case in data["cases"]:
            about = {n: case[n] for n in ("name", "kind", "opcode", "type", "note")}
            row = Row(**about, program=case.get("program", ""))
            for target, result in case["results"].items():
                fields: dict[str, Any] = {
                    k: tuple(v) if isinstance(v, list) else v for k, v in result.items() if k != "outcome"
                }
                outcome = Outcome(result["outcome"])
                row.results[target] = Verdict(
                    row.name, target, outcome, kind=row.kind, opcode=row.opcode, type=row.type, **fields
                )
            results.rows[row.name] = row
        return results


def _listed(versions: Mapping[str, Any]) -> str:
    """Targets and versions in words: "reference (numpy 2.0)"."""
    told = [f"{k} ({_listed(v)})" if isinstance(v, Mapping) and v else k if isinstance(v, Mapping) else f"{k} {v}"
            for k, v in versions.items()]  # fmt: skip
    return ", ".join(told) or "none"


def _result(verdict: Verdict) -> dict[str, Any]:
    always = {"outcome": verdict.outcome.value, "seconds": round(verdict.seconds, 4)}
    fields = ("reason", "undecided", "bits", "differences", "inputs", "expected", "got")
    return {**always, **{k: v for k, v in asdict(verdict).items() if k in fields and v}}
