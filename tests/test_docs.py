"""The pages that the documentation makes from the specification: one for each operation, every label an anchor."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest
from pages import run_as_printed
from refxla_spec import grammar, left_out
from refxla_spec.compare import bits_equal
from refxla_spec.errors import ParseError, UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.operation import operations
from refxla_spec.text import parse, parse_literal
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify

EXTENSION = Path(__file__).parents[1] / "docs" / "_ext"
OPCODES = list(operations())
# As in xla_data.proto.
XLA_TYPES = """
    pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 f32 bf16 f64 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4
    f8e5m2fnuz f8e4m3fnuz f8e8m0fnu f6e3m2fn f6e2m3fn f4e2m1fn c64 c128 tuple opaque token buffer
    """.split()


@pytest.fixture(scope="module")
def pages():
    pytest.importorskip("pygments")
    sys.path.insert(0, str(EXTENSION))
    from specification.pages import pages

    yield dict(pages())
    sys.path.remove(str(EXTENSION))


def test_every_operation_has_its_page_and_the_index_links_it(pages):
    assert {name for name in pages if name.startswith("ops/")} == {f"ops/{o}" for o in OPCODES}
    assert all(f"(ops/{o}.md)" in pages["operations"] for o in OPCODES)


@pytest.mark.parametrize("opcode", OPCODES)
def test_every_constraint_has_its_anchor_and_what_the_verifier_says(pages, opcode):
    page, rule = pages[f"ops/{opcode}"], operations()[opcode]
    for label in rule.constraints:
        assert page.count(f"({opcode}-{label.lower()})=\n") == 1
        assert f"[{opcode.replace('-', '_')}_{label.lower()}]" in page or opcode == "constant"


def test_every_opcode_is_in_one_group_of_the_index(pages):
    from specification.groups import GROUPS

    grouped = [o for opcodes in GROUPS.values() for o in opcodes.split()]
    assert sorted(grouped) == sorted(grammar.OPCODES)


def test_an_opcode_without_a_group_is_named_with_the_file_to_change(pages):
    from specification.groups import group_of

    with pytest.raises(LookupError, match=r"the operation softsign is in no group .* add it .*groups\.py"):
        group_of("softsign")


def test_what_hlo_has_is_specified_or_left_out_for_a_reason():
    absent = {n.name for n in left_out.LEFT_OUT}
    assert all(n.reason for n in left_out.LEFT_OUT)
    assert grammar.OPCODES - set(OPCODES) == absent & grammar.OPCODES
    assert set(XLA_TYPES) - set(ELEMENT_TYPES) == absent & set(XLA_TYPES)


@pytest.mark.parametrize("program", [n.program for n in left_out.LEFT_OUT if n.program])
def test_what_is_left_out_is_refused(program):
    with pytest.raises((ParseError, UnsupportedError)):
        module = parse(program)
        verify(module)
        run(module, [])


def test_formulas_are_well_formed_and_keep_every_word(pages):
    from specification.formulas import to_html

    for rule in operations().values():
        lines = [line[4:] for line in rule.semantics.splitlines() if line.startswith("    ")]
        if not lines:
            continue
        text = "".join(n.data for n in _texts(minidom.parseString(to_html(lines))))
        for word in re.findall(r"[a-z]{4,}", re.sub(r"\b(sqrt|floor|ceil|infinity|over)\b", "", " ".join(lines))):
            assert word in text, f"{rule.opcode}: {word!r} is lost in {text!r}"


def _texts(node):
    return [node] if node.nodeType == node.TEXT_NODE else [t for child in node.childNodes for t in _texts(child)]


def test_formulas_show_their_signs(pages):
    from specification.formulas import to_mathml

    assert to_mathml("x^2") == "<math><msup><mi>x</mi><mrow><mn>2</mn></mrow></msup></math>"
    assert "<msqrt>" in to_mathml("1 / sqrt(x + 1)") and "sqrt" not in re.sub("</?msqrt>", "", to_mathml("sqrt(x)"))
    assert "<munder><mo>∑</mo>" in to_mathml("sum over k.. of a[k..]")
    assert "<msub><mi>i</mi><mn>0</mn></msub>" in to_mathml("a[i0]")


@pytest.mark.parametrize("opcode", OPCODES)
def test_the_snippet_of_an_example_prints_its_results(pages, opcode):
    from specification.operation_page import snippet

    example = operations()[opcode].examples[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
        exec(snippet(example), {})
    lines = [line for line in printed.getvalue().splitlines() if line != "token"]
    results = [leaf for line in lines for leaf in leaves(parse_literal(line))]
    expected = [leaf for text in example.expected for leaf in leaves(parse_literal(text))]
    assert len(results) == len(expected)
    assert all(bits_equal(a, b) for a, b in zip(results, expected, strict=True)), printed.getvalue()


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


# The pages that are written by hand

DOCS = EXTENSION.parent


def test_the_tutorial_runs_as_it_is_printed(tmp_path):
    """Its program and its Python, block after block, where nothing is kept from another run."""
    (program,) = re.findall(r"```hlo\n(.*?)```", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.S)
    (tmp_path / "tutorial.hlo").write_text(program)
    printed = run_as_printed("tutorial.md", tmp_path, REFXLA_CACHE_DIR=str(tmp_path / "cache"))
    (told,) = re.findall(r"off by ([\d,]+) units", printed)
    assert int(told.replace(",", "")) > 1000


@pytest.mark.parametrize("page", ["numpy.md", "array_api.md"])  # those of other doors: tests/frontends/test_pages.py
def test_the_page_runs_as_it_is_printed(page, tmp_path):
    run_as_printed(page, tmp_path)


def test_the_worked_example_of_the_suite_prints_what_its_page_shows():
    page = (DOCS / "conformance.md").read_text(encoding="utf-8").partition("### A worked example")[2]
    command, shown = re.findall(r"(?:^    .*\n)+", page, re.M)[:2]
    program, *arguments = command.split()
    assert program == "refxla-conformance"
    done = subprocess.run(
        [sys.executable, "-m", "refxla_conformance", *arguments],
        cwd=DOCS.parent / "examples" / "conformance", capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.split() == shown.split(), done.stdout + done.stderr


def test_the_page_of_profile_shows_its_tables():
    from refxla.cli import profile_command
    from refxla.compiler.kernel_profile import Profile

    page = (DOCS / "profile.md").read_text(encoding="utf-8")
    heads = [line.split() for line in page.splitlines() if line.startswith(" kernel ")]
    assert heads == [" ".join(Profile.HEAD).split()] * 2
    assert profile_command.NOTE in page


def test_every_environment_variable_has_its_row():
    """Each that a source names, and no other."""
    root = DOCS.parent
    sources = (p for folder in ("refxla", "spec", "conformance", "bench") for p in (root / folder).rglob("*.py"))
    named = {v for p in [*sources, root / "setup.py"] for v in re.findall(r"\bREFXLA_[A-Z_]+\b", p.read_text("utf-8"))}
    rows = re.findall(r"^\| `(REFXLA_[A-Z_]+)` \|", (DOCS / "environment.md").read_text(encoding="utf-8"), re.M)
    assert sorted(rows) == sorted(named)


def test_every_link_of_a_page_is_alive_in_the_sources(pages):
    """Where pages are read as files; and on the site the specification's sources are its pages."""
    from specification import FOLDER, LINKS, linked

    targets = set()
    for page in DOCS.glob("*.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            assert (DOCS / link).exists(), f"{page.name} links to {link}"
            targets.add(link)
    assert {t for t in targets if t.startswith("../spec")} == set(LINKS)
    for source, page in LINKS.items():
        assert page in pages and linked(f"[a]({source})") == f"[a]({FOLDER}/{page}.md)"


def test_a_dead_link_of_the_site_is_found(tmp_path):
    """The build of the site looks at all of its links (docs/_ext/links.py)."""
    pytest.importorskip("sphinx")
    sys.path.insert(0, str(EXTENSION))
    try:
        from links import dead_links
    finally:
        sys.path.remove(str(EXTENSION))
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a> <a href="#top"></a> <a href="https://x.org/y"></a>')
    (tmp_path / "b.html").write_text('<p id="here">a <a href="a.html#there"></a> <img src="c.svg"></p>')
    assert list(dead_links(tmp_path)) == ["a.html: #top", "b.html: a.html#there", "b.html: c.svg"]


def test_the_walkthrough_has_every_form_of_its_programs():
    pytest.importorskip("docutils")
    sys.path.insert(0, str(EXTENSION))
    try:
        from walkthrough import FORMS, PROGRAMS
    finally:
        sys.path.remove(str(EXTENSION))
    for program in PROGRAMS.glob("*.hlo"):
        for form in FORMS.keys() - {"prelude"} if program.stem == "sum" else FORMS:  # a sum calls no function
            assert "".join(node.astext() for node in FORMS[form](program.stem)), (program.stem, form)


def test_every_step_of_the_walkthrough_links_its_source():
    page = (DOCS / "from_text_to_kernel.md").read_text(encoding="utf-8")
    steps = re.split(r"^## ", page, flags=re.M)[1:]
    assert [s[:20] for s in steps if s[0].isdigit() and ".. autofunction::" not in s] == []


def test_the_glossary_has_the_words_of_the_sources():
    """Terms of this compiler that its docstrings use without explaining them."""
    terms = """section; donation; library call; index space; segment; strip; fast path; unit of work; sub-group; hero;
        device description; persistent kernel; serial control flow; tiled fusion; lanes; panel; work-group;
        sibling fusion"""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    heads = ", ".join(re.findall(r"^\| \*\*(.*?)\*\*", text, re.M)).split(", ")
    assert {term.strip() for term in terms.split(";")} <= set(heads)
    assert "`Target`" in text
