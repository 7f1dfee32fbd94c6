"""The comparison of kernels' texts: what is a renaming and what is not, and that the command finds a difference."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

KERNEL = """
#define RX_TWICE(a) ((a) * 2.0f)
// The sum of a row.
static inline float rx_sum(__global const float* row, const int count) {
    float total = 0.0f, other = 1.0f;
    for (int i = 0; i < count; ++i) total = fmax(total, row[i] - other);
    return RX_TWICE(total);
}
__kernel void refxla_0(const int which, __global float* p0) {
    switch (which) { case 0: p0[0] = rx_sum(p0, 8); break; case 1: p0[1] = 0.5f; break; }
}
"""


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def difference(changed: str) -> tuple[int, int] | None:
    from bench import canonical

    assert changed != KERNEL
    tokens = canonical.opencl(KERNEL).first_difference(canonical.opencl(changed))
    return tokens and (tokens[0].line, tokens[1].line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total", "sum"),  # a variable
        ("other", "bias"),  # one that is declared after a comma
        ("count", "length"),  # a parameter
        ("rx_sum", "rx_total"),  # a function
        ("RX_TWICE", "RX_DOUBLE"),  # a macro
        ("(a)", "(x)"),  # its parameter
        ("refxla_0", "refxla_0_ab12"),
        ("// The sum of a row.", "/* What a row\n adds up to. */"),
        (" = ", "="),
        (";\n", ";\n\n  "),
    ],
)
def test_a_renaming_changes_nothing(old, new):
    assert difference(KERNEL.replace(old, new)) is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("8", "9", 10),  # a number
        ("0.5f", "0.5", 10),
        ("row[i] - other", "other - row[i]", 6),  # names swapped
        ("total, row[i]", "other, row[i]", 6),  # another variable
        ("fmax", "fmin", 6),  # a function that the text does not declare
        ("row[i] - other", "i[row] - other", 6),
        ("const float* row", "float* row", 4),
        ("float total", "double total", 5),
        ("++i", "i++", 6),
        ("<", "<=", 6),
        (" break; case 1", " case 1", 10),
    ],
)
def test_anything_else_is_a_difference(old, new, line):
    assert difference(KERNEL.replace(old, new)) == (line, line)


def test_the_end_of_a_directive_counts():
    from bench import canonical

    one, two = "#define A 1\nint b;", "#define A \\\n1\nint b;"
    assert canonical.opencl(one).first_difference(canonical.opencl(two)) is None
    assert canonical.opencl(one).first_difference(canonical.opencl("#define A 1 int b;")) is not None


def test_a_text_that_ends_before_the_other_differs_from_it():
    from bench import canonical

    whole, part, nothing = canonical.opencl("int a;\nint b;"), canonical.opencl("int a;"), canonical.opencl("")
    assert [t.line for t in whole.first_difference(part)] == [2, 1]
    assert [t.line for t in nothing.first_difference(whole)] == [1, 1]
    assert nothing.first_difference(nothing) is None


def test_two_names_do_not_become_one():
    assert difference(KERNEL.replace("other", "total")) is not None
    assert difference(KERNEL.replace("p0[0] = rx_sum(p0", "p0[0] = rx_sum(row")) is not None


def test_a_name_may_be_another_in_each_function():
    text = "void f(int a) { g(a); }\nvoid h(int a) { g(a); }\n"
    from bench import canonical

    changed = text.replace("f(int a) { g(a)", "f(int b) { g(b)")
    assert canonical.opencl(text).first_difference(canonical.opencl(changed)) is None
    swapped = "void h(int a) { f(a); }\nvoid f(int a) { h(a); }\n"
    declared = "void f(int a) { f(a); }\nvoid h(int a) { h(a); }\n"
    assert canonical.opencl(declared).first_difference(canonical.opencl(swapped)) is not None


def test_the_plan_keeps_its_numbers_and_its_graph():
    from bench import canonical

    text = "plan m: 1 kernel\n  b0 x: f32[8] at arena +128, 32 bytes\n  b1 = loop.1(b0)  [3 items]\n"

    def equal(changed: str) -> bool:
        return canonical.plan(text).first_difference(canonical.plan(changed)) is None

    assert equal(text.replace("loop.1", "elementwise.1").replace("items", "chunks"))
    assert not equal(text.replace("128", "192"))
    assert not equal(text.replace("[3 items]", "[4 items]"))
    assert not equal(text.replace("loop.1(b0)", "loop.1(b1)"))


def test_kernels_are_counted():
    from bench import canonical

    assert canonical.kernels(canonical.opencl(KERNEL)) == 2
    gpu = "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\nvoid k(__global float* p) { p[0] = 1; }\n"
    assert canonical.kernels(canonical.opencl(gpu + gpu.replace("k(", "l("))) == 2


def test_refusals_and_differences_are_told_apart():
    from bench.kernel_text import Text, compared

    text, other, no = Text("plan", KERNEL), Text("plan", KERNEL.replace("8", "9")), Text(refused="no sort of strings")
    assert compared("p", text, text).kind == "identical"
    assert compared("p", text, Text("plan", KERNEL.replace("total", "sum"))).kind == "renamed"
    assert compared("p", text, Text("other name", KERNEL)).kind == "different"
    assert "rx_sum(p0, 9)" in compared("p", text, other).detail
    assert compared("p", text, no).kind == "refused now" and compared("p", no, text).kind == "compiled now"
    assert compared("p", no, Text(refused="strings are not sorted")).kind == "refused"


def test_changes_are_grouped_by_their_kinds():
    """A directive that is new hides nothing; names and numbers make no kinds of their own."""
    from bench import canonical
    from bench.kernel_text import Program, Text, TextCollection, kinds_of_changes

    changed = "#define RX_NEW 1\n" + KERNEL.replace("i < count", "i <= count").replace("rx_sum(p0, 8)", "rx_sum(p0, 9)")
    (new, bound, number) = canonical.changes(canonical.opencl(KERNEL), canonical.opencl(changed))
    assert [t.text for t in new.after[:2]] == ["#define", "RX_NEW"] and not new.before
    assert bound.key == ("<", "<=") and number.key == ("", "")
    renamed = changed.replace("total", "all")
    assert len(canonical.changes(canonical.opencl(KERNEL), canonical.opencl(renamed))) == 3
    swapped = KERNEL.replace("return RX_TWICE(total)", "return RX_TWICE(other)")
    assert len(canonical.changes(canonical.opencl(KERNEL), canonical.opencl(swapped))) == 1

    device = {"device": "pocl"}
    programs = {name: Program(name, "") for name in ("a", "b")}
    before = TextCollection("one", device, programs, {name: Text("plan", KERNEL) for name in programs})
    after = TextCollection(
        "two", device, programs, {"a": Text("plan", changed), "b": Text("plan", f"#define RX_NEW 2\n{KERNEL}")}
    )
    kinds = kinds_of_changes(before, after, ["a", "b"])
    assert [len(kind.programs) for kind in kinds] == [2, 1, 1]
    assert str(kinds[0]) == "2 changes in 2 programs, such as a:\n+     1 #define RX_NEW 1"


def test_a_sample_takes_of_every_group():
    from bench.kernel_text import group, sample

    names = [f"{g}/{n}" for g, count in (("a", 3), ("b", 50), ("c", 1000)) for n in range(count)]
    chosen = sample(names, 100)
    counts = {g: sum(group(name) == g for name in chosen) for g in "abc"}
    assert counts == {"a": 3, "b": 48, "c": 49} and len(set(chosen)) == 100


def test_every_exception_has_a_reason(tmp_path):
    from bench.kernel_text import Impossible, exceptions

    file = tmp_path / "accepted"
    file.write_text("# why\nmodels/GPT*: one constant of the caches, 1 % faster\n\n")
    assert exceptions(file) == {"models/GPT*": "one constant of the caches, 1 % faster"}
    file.write_text("models/GPT*\n")
    with pytest.raises(Impossible, match="accepted:1: .* reason"):
        exceptions(file)


def test_the_command_compares_what_was_kept(tmp_path, capsys):
    from bench.kernel_text import Text, TextCollection, main

    before, after = tmp_path / "before", tmp_path / "after"
    assert main(["collect", str(before), "--only", "fused_sum", "-j", "1"]) == 0

    def compared(*options: str) -> tuple[int, str]:
        capsys.readouterr()
        return main(["compare", str(before), str(after), *options]), capsys.readouterr().out

    kept = TextCollection.load(before)
    ((name, text),) = kept.texts.items()
    assert "__kernel" in text.opencl and "parameter 0" in text.plan
    kept.save(after)
    status, shown = compared()
    assert status == 0 and "1 programs: 1 identical" in shown

    kept.texts[name] = Text(text.plan, text.opencl.replace("get_global_id(0)", "get_global_id(1)"))
    kept.save(after)
    status, shown = compared()
    assert status == 1 and f"different: {name}" in shown and "get_global_id(1)" in shown
    accepted = tmp_path / "accepted"
    accepted.write_text(f"{name}: another dimension\nmodels/*: none\n")
    status, shown = compared("--accept", str(accepted))
    assert status == 0 and "accepted, different" in shown and "models/* excuses nothing" in shown

    kept.programs[name] = replace(kept.programs[name], hlo="HloModule another")
    kept.save(after)
    assert compared()[0] == 2, "the two are of different programs"


def test_a_version_whose_core_is_not_built_is_not_taken_for_the_installed_one(tmp_path):
    from bench.kernel_text import Impossible, Program, collect

    for folder in ("refxla", "spec"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    with pytest.raises(Impossible, match="core is not built"):
        collect(tmp_path, "a copy", [Program("m", "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n")], "pocl", 1)
