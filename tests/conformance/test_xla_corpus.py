"""XLA's own programs: how they are found in C++ and in files, what is asked of them, and the table of judgements."""

import re

import pytest
from refxla_conformance.xla_corpus import worker
from refxla_conformance.xla_corpus.__main__ import main
from refxla_conformance.xla_corpus.extract import corpus
from refxla_conformance.xla_corpus.judged import Judgement, judge, listed, read, write
from refxla_conformance.xla_corpus.worker import PLAIN, REFUSED_BY_XLA, TO_JUDGE, run_texts
from refxla_spec.errors import InputError

SOURCE = """
// TEST(Not, ThisOne) { R"(HloModule no)" }
TEST_F(Suite, Raw) {
  const char* text = R"hlo(
    HloModule raw
    ENTRY e { ROOT x = f32[2] parameter(0) })hlo";
  char quote = '"';
  Parse("HloModule plain\\n"
        "ENTRY e { ROOT x = f32[3]"  // and on
        " parameter(0) }");
  Parse(absl::Substitute(R"(HloModule hole
    ENTRY e { ROOT x = f32[$0] parameter(0) })", 3));
  EXPECT_EQ("no program", "at all");
  Parse(R"(
    HloModule raw
    ENTRY e { ROOT x = f32[2] parameter(0) })");
}
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "xla").mkdir()
    (tmp_path / "xla/some_test.cc").write_text(SOURCE)
    (tmp_path / "xla/two.hlo").write_text(
        "HloModule a\nENTRY e { ROOT x = f32[] parameter(0) }\n// -----\nHloModule b\nENTRY e { ROOT x = f32[ }\n"
    )
    return tmp_path


def test_texts_are_found_in_strings_and_files(checkout):
    found = corpus(checkout)
    names = [(t.file, t.test, re.search(r"HloModule (\w+)", t.text)[1]) for t in found.texts]
    assert names == [
        ("xla/some_test.cc", "Suite.Raw/0", "raw"),
        ("xla/some_test.cc", "Suite.Raw/1", "plain"),
        ("xla/two.hlo", "0", "a"),
        ("xla/two.hlo", "1", "b"),
    ]
    assert "f32[3] parameter(0)" in found.texts[1].text
    assert found.holes == 1
    with pytest.raises(InputError, match="no checkout of XLA"):
        corpus(checkout / "nowhere")


def test_each_text_is_read_run_and_compared(checkout, tmp_path, capsys):
    pytest.importorskip("refxla_conformance.targets.xla_cpu")
    rows = tmp_path / "rows"
    assert main([str(checkout), "--rows", str(rows), "-j", "1"]) == 0
    first = rows.read_text()
    assert first.count('"outcome": "agreed"') == 3 and first.count('"outcome": "both refuse"') == 1
    assert main([str(checkout), "--rows", str(rows), "-j", "1"]) == 0
    assert rows.read_text() == first, "what is there is not asked again"


def test_what_would_not_end_is_not_run():
    endless = """HloModule m
    c { x = f32[] parameter(0)
        a = s32[] constant(1)
        ROOT g = pred[] compare(a, a), direction=EQ }
    b { x = f32[] parameter(0)
        ROOT y = f32[] add(x, x) }
    ENTRY e { x = f32[] parameter(0)
              ROOT w = f32[] while(x), condition=c, body=b }"""
    large = "HloModule m\nENTRY e { c = f32[4096,4096] constant(0)\n ROOT r = f32[4096,4096] negate(c) }"
    given = [(endless, "its condition looks at nothing"), (large, "it is large")]
    made = run_texts([("f", "", str(n), text) for n, (text, _) in enumerate(given)])
    assert [r["outcome"] for r in made] == ["not run"] * 2
    assert all(why in r["reason"] for r, (_, why) in zip(made, given, strict=True))


def test_a_constant_may_be_a_tuple_of_different_shapes():
    text = "HloModule m\nENTRY e { ROOT c = (f32[2,1], f32[2]) constant(({{1},{2}}, {2,42})) }"
    (made,) = run_texts([("f", "", "1", text)])
    assert made["outcome"] == "agreed" and not made["reason"]


def row(outcome: str, reason: str, key: str = "1") -> dict:
    return {"file": "f", "test": "t", "key": key, "outcome": outcome, "reason": reason, "xla": "", "excuses": ()}


def test_what_is_not_judged_is_left(tmp_path):
    table = [
        Judgement("known", "differs", "at all", "so it is"),
        Judgement("one", "fault", "", "too", (("f", "t", "2"),)),
    ]
    rows = [
        row("differs", "not at all"),
        row("differs", "so"),
        row("fault", "x", "2"),
        row("agreed", ""),
        row("fault", "x"),
    ]
    found = judge(rows, table)
    assert {name: len(made) for name, made in found.items()} == {"known": 1, "one": 1, "": 2}
    write(listed(table, rows), tmp_path / "table.json")
    again = read(tmp_path / "table.json")
    assert [j.texts for j in again] == [(("f", "t", "1"),), (("f", "t", "2"),)]


def test_a_refusal_of_xla_is_judged_beside_the_outcome():
    refused = {**row("agreed", ""), "xla": "refused", "excuses": ("INTERNAL: no such thing",)}
    table = [Judgement("limits", REFUSED_BY_XLA, "no such", "XLA has none")]
    assert list(judge([refused], table)) == ["limits"]
    assert list(judge([{**refused, "excuses": ("INTERNAL: another",)}], table)) == [""]
    assert list(judge([{**refused, "outcome": "differs"}], table)) == ["", "limits"]


def test_the_table_names_outcomes_and_reasons():
    table = read()
    assert len({j.name for j in table}) == len(table)
    for j in table:
        assert j.outcome in TO_JUDGE and j.outcome not in PLAIN
        assert j.reason or j.texts, "a judgement is of a kind of reason, or of texts"
        for crash in ("its process ended with signal SIGSEGV", "took longer than its time limit, and was ended"):
            assert not j.judges(row("fault", crash)) and not j.judges(row("XLA differs", crash)), "accepts anything"
        assert not j.judges(row("XLA differs", "result 0: 1 of 2 elements break the contract, at [0] 1 instead of 2"))
        assert len(j.says) > 20 and re.compile(j.reason)
        assert all(len(key) == 12 for *_, key in j.texts)


def test_a_loop_is_given_arguments_for_which_it_ends(monkeypatch):
    monkeypatch.setattr(worker, "ITERATIONS", 100)
    text = """HloModule m
    c { x = f32[] parameter(0)
        zero = f32[] constant(0)
        ROOT g = pred[] compare(x, zero), direction=%s }
    b { x = f32[] parameter(0)
        ROOT y = f32[] add(x, x) }
    ENTRY e { x = f32[] parameter(0)
              ROOT w = f32[] while(x), condition=c, body=b }"""
    some, none = run_texts([("f", "", key, text % direction) for key, direction in (("some", "NE"), ("none", "EQ"))])
    assert some["outcome"] == "agreed" and "compiled" in some["ran"]
    assert none["outcome"] == "agreed"  # what is drawn is no zero
    (never,) = run_texts([("f", "", "never", text.replace("compare(x, zero)", "compare(x, x)") % "EQ")])
    assert never["outcome"] == "not run" and "100 iterations" in never["reason"]
