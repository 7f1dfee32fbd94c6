"""A run as JUnit's XML, which continuous integration systems read: a test suite for each target, a test case for each
case. JUnit has failures and skipped tests, and nothing in between.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from refxla.files import write_whole

from ..case_check import Outcome, Verdict
from . import Results

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SKIPPED = (Outcome.UNSUPPORTED, Outcome.UNDECIDED, Outcome.EXCUSED)


def write(results: Results, path: Path) -> None:
    """Writes the XML to a file. Raises InputError if it cannot be written."""
    root = Xml.Element("testsuites", name="refxla-conformance", time=f"{results.seconds:.3f}")
    for target in results.targets:
        _suite(root, results, target)
    Xml.indent(root, " ")
    write_whole(path, Xml.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _suite(root: Xml.Element, results: Results, target: str) -> None:
    counts = results.count(target)
    numbers = {"tests": sum(counts.values()), "failures": counts[Outcome.FAIL], "errors": 0}
    numbers["skipped"] = sum(counts[outcome] for outcome in SKIPPED)
    suite = Xml.SubElement(root, "testsuite", name=_text(target), timestamp=results.started)
    suite.attrib.update({name: str(number) for name, number in numbers.items()})
    for row in results.rows.values():
        if target in row.results:
            verdict = row.results[target]
            case = Xml.SubElement(
                suite, "testcase", classname=f"{_text(target)}.{row.kind}.{row.opcode}", name=row.name
            )
            case.set("time", f"{verdict.seconds:.4f}")
            _outcome(case, verdict, row.program)


def _outcome(case: Xml.Element, verdict: Verdict, program: str) -> None:
    """Nothing for a pass; for a fail the reason, then program, operands and results, if they are short."""
    if verdict.outcome is Outcome.FAIL:
        reason = (verdict.reason.splitlines() or [""])[0]
        lines = [verdict.reason, "", program]
        for label in ("inputs", "expected", "got"):
            values = enumerate(getattr(verdict, label))
            lines += [f"{label} {n}: {value}" for n, value in values if not value.endswith("{...}")]
        failure = Xml.SubElement(case, "failure", type="fail", message=_text(reason))
        failure.text = _text("\n".join(lines))
    elif verdict.outcome in SKIPPED:
        why = ", ".join(verdict.differences) or " ".join(verdict.reason.split())
        Xml.SubElement(case, "skipped", message=_text(f"{verdict.outcome.value}: {why}"))


def _text(text: str) -> str:
    """A text without characters that XML cannot contain, such as terminal colours."""
    return NOT_IN_XML.sub("?", text)
