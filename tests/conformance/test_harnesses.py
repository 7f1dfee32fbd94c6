"""JAX's own programs, a few of them: what a JAX writes differently would show itself here."""

import json

import pytest
from refxla_conformance.command import main
from refxla_conformance.harnesses.command import drawn

pytest.importorskip("jax")
pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
pytest.importorskip("refxla_conformance.targets.xla_cpu")

# Of what changed since JAX 0.10 something: orders of comparisons, sorts, largest numbers.
# (Sorts that are not stable may give ties in another order than JAX does.)
PATTERNS = "lt sort_*isstable_True* top_k argmax cumsum dot_general gather clamp".split()


def test_a_few_pass(tmp_path, capsys):
    file = tmp_path / "found.json"
    status = main(["harnesses", *PATTERNS, "--each", "1", "-j", "1", "--json", str(file)])
    programs = json.loads(file.read_text())["programs"]
    out = capsys.readouterr().out
    assert status == 0, out
    assert {p["primitive"] for p in programs} == {pattern.partition("_*")[0] for pattern in PATTERNS}
    assert {p["outcome"] for p in programs} <= {"pass", "undecided", "skipped"}, out
    assert sum(p["outcome"] == "pass" for p in programs) >= len(PATTERNS) - 2


def test_a_seed_draws_the_same():
    known = [(p, f"{p}_{n}") for p in ("add", "sort") for n in range(9)]
    assert drawn(known, [], 3, 0) == drawn(known, [], 3, 0) != drawn(known, [], 3, 1)
    assert len(drawn(known, [], 3, 0)) == 6 and len(drawn(known, [], None, 0)) == 18
    assert drawn(known, ["sort"], None, 0) == known[9:] and drawn(known, ["*_3"], None, 0) == [known[3], known[12]]


def test_what_cannot_be(capsys):
    assert main(["harnesses", "no_such_primitive", "-j", "1"]) == 2
    assert "refxla-conformance: " in capsys.readouterr().err
