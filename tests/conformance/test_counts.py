"""The counts that the documents publish are of differences that there are, and of whole runs."""

from __future__ import annotations

import json

import pytest
from refxla_conformance.case_check import FLUSHED
from refxla_conformance.command import main
from refxla_conformance.differences import DIFFERENCES, counts
from refxla_conformance.report import Results
from refxla_spec.errors import InputError


@pytest.mark.parametrize("target", ["xla-cpu", "stablehlo"])
def test_what_is_kept_is_of_known_differences(target):
    kept = counts.read()[target]
    known = {d.name for d in DIFFERENCES if d.target == target} | {FLUSHED}
    assert set(kept["excused"]) <= known
    assert sum(kept["outcomes"].values()) == kept["cases"] > 3000
    assert max(kept["excused"].values()) <= kept["outcomes"]["excused"] <= sum(kept["excused"].values())
    assert kept["machine"]["processor"] and kept["versions"]["commit"] and kept["target"]["jaxlib"]


def test_a_run_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "COUNTS_FILE", tmp_path / "counts.json")
    report = tmp_path / "report.json"
    assert main(["negate", "--kind", "example", "--target", "reference", "-j", "0", "--json", str(report)]) == 0
    counts.main([str(report)])
    kept = counts.read()["reference"]
    cases = json.loads(report.read_text())["cases"]
    assert kept["cases"] == kept["outcomes"]["pass"] == len(cases) > 0 and kept["excused"] == {}


def test_an_interrupted_run_is_not_kept():
    with pytest.raises(InputError, match="interrupted"):
        counts.counted(Results({"reference": {}}))
