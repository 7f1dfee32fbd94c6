"""show, explain, verify, convert, devices, cache, and what the output is."""

import json
import os
import re
import subprocess
import sys

import pytest
from command_line import EXAMPLES, SMALL
from refxla_spec import equality
from refxla_spec.text import parse

from refxla import __version__, compile
from refxla.cli.main import main

FUSED = EXAMPLES / "fused_sum" / "fused_sum.hlo"


def test_a_program_is_shown_in_each_of_its_forms(refxla, program):
    path = program()
    assert equality.difference(parse(refxla("show", path).out), parse(SMALL)) is None
    assert "broadcast" in refxla("show", path, "--after", "call-inliner").out
    assert parse(refxla("show", path, "--optimized").out).entry.root.opcode == "tuple"
    plan = refxla("show", path, "--plan").out
    assert plan.startswith("plan small: 1 kernel,") and "parameter 0: f32[2,3]" in plan
    assert "[n items]: the parts that a launch" in plan and "worker" not in plan
    assert "__kernel" in refxla("show", path, "--opencl").out


def test_standard_input_is_text_or_proto(child, program, tmp_path):
    assert child("verify", "-", input=SMALL).out == "small is valid: 6 instructions in 1 computation\n"
    assert child("convert", program(), tmp_path / "p.pb").status == 0
    assert child("verify", "-", input=(tmp_path / "p.pb").read_bytes()).out.startswith("small is valid")


def test_a_program_that_breaks_a_rule_is_a_check_that_failed_and_no_error(refxla, program):
    broken = program(SMALL.replace("sum = f32[2,3]{1,0} add", "sum = f32[3,2]{1,0} add"))
    assert refxla("verify", broken).status == 1
    assert refxla("show", broken, "--opencl").status == 2
    assert refxla("verify", program("ENTRY main {")).status == 2


def test_text_becomes_a_proto_and_text_again(refxla, program, tmp_path):
    for suffix, to in ((".pb", None), (".dat", "proto")):
        options = ["--to", to] if to else []
        assert refxla("convert", program(), tmp_path / f"p{suffix}", *options).status == 0
        assert refxla("convert", tmp_path / f"p{suffix}", tmp_path / "back.hlo").status == 0
        assert equality.difference(parse((tmp_path / "back.hlo").read_text()), parse(SMALL)) is None
    assert refxla("convert", tmp_path / "p.pb", "-", "--to", "text").out == (tmp_path / "back.hlo").read_text()


def test_a_file_that_is_written_has_the_rights_it_had_or_the_usual_ones(refxla, program, tmp_path):
    target, link = tmp_path / "p.pb", tmp_path / "link.pb"
    before = os.umask(0o027)
    try:
        refxla("convert", program(), target)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o640
    target.chmod(0o604)
    link.symlink_to(target)
    refxla("convert", program(), link)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o604


def test_what_is_explained(refxla, tmp_path):
    page = tmp_path / "step.html"
    out = refxla("explain", EXAMPLES / "mlp" / "step.hlo", "--html", page).out
    fusions = re.findall(r"^(\d+)\. (\S+) \((\S+)\)$", out, re.M)
    assert len(fusions) == int(re.search(r"(\d+) fusions", out)[1]) > 5
    assert out.count("computes ") == out.count("moves ") - 1 == len(fusions)
    assert ": the user reads it at other indices" in out or "not fused" in out
    html = page.read_text()
    for _, name, _ in fusions:
        assert name in html
    boxes = html.count("<rect ")
    assert boxes == len(fusions) and "<svg" in html and "http://www.w3.org/2000/svg" in html
    assert not re.search(r"<script|<link|src=", html)
    for text in (out, html):
        assert "docs/glossary.md, in refxla's documentation, has all terms" in " ".join(
            text.split()
        ) and "emitter: " in re.sub("<.*?>", "", text)
    assert 'class="legend"' in html and html.count("<details>") >= len(fusions) and "a0: input" in html
    links = re.findall(r'href="#([^"]+)"', html)
    assert len(links) == len(fusions) and all(html.count(f'id="{link}"') == 1 for link in links)


def test_the_rows_of_explain_fit_the_screen(refxla, program, tmp_path):
    """Fusions that do not depend on each other are in several rows; boxes do not overlap, and data flows down."""
    page = tmp_path / "p.html"
    sums = "".join(
        f"x{n} = f32[{n + 8},999] parameter({n})\n"
        f"a_sum_with_a_long_name_{n} = f32[{n + 8}] reduce(x{n}, zero), dimensions={{1}}, to_apply=add\n"
        f"s{n} = f32[{n + 8}] sort(a_sum_with_a_long_name_{n}), dimensions={{0}}, to_apply=less\n"
        for n in range(24)
    )
    text = (
        "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
        "ENTRY e {\nzero = f32[] constant(0)\n" + sums
    )
    names = ", ".join(f"s{n}" for n in range(24))
    refxla("explain", program(f"{text}ROOT t = ({', '.join(f'f32[{n + 8}]' for n in range(24))}) tuple({names})\n}}"),
           "--html", page)  # fmt: skip
    html = page.read_text()
    boxes = [
        tuple(map(float, box))
        for box in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', html)
    ]
    assert len(boxes) == 48 and max(x + width for x, _, width, _ in boxes) < 1300  # curves that pass by add some
    for n, (x, y, width, height) in enumerate(boxes):
        assert not any(
            x < left + wide and left < x + width and y < top + high and top < y + height
            for left, top, wide, high in boxes[:n]
        )
    edges = re.findall(r'class="edge"[^>]* d="M[\d.]+ ([\d.]+).*? ([\d.]+)"', html)
    assert len(edges) == 24 and all(float(start) < float(end) for start, end in edges)
    assert "color-scheme: light dark" in html and "fill: light-dark(#000" in html


def test_explain_prints_the_text_of_an_explanation(refxla):
    """One layout: what is printed is str(explain()), with the device in its first line and the terms below."""
    step = EXAMPLES / "mlp" / "step.hlo"
    name, rest = str(compile(step).explain()).split(": ", 1)
    out = refxla("explain", step).out
    assert out.startswith(f"{name} for ") and f": {rest}\n" in out and out.index(f": {rest}") < out.index("\n")


def test_explain_names_the_one_kernel_of_the_fused_sum(refxla):
    out = refxla("explain", FUSED).out
    assert "1 fusion, launched as 1 kernel" in out and "computes  multiply, add, reduce" in out
    assert re.search(r"reads +\S+ f32\[1048576\]", out)


def test_explain_says_which_routine_is_called_and_how_kernels_run(refxla, tmp_path):
    program, page = tmp_path / "p.hlo", tmp_path / "p.html"
    program.write_text(
        "HloModule m\nENTRY e { a = f32[64,64] parameter(0) ROOT c = f32[64,64] cholesky(a), lower=true }"
    )
    out = refxla("explain", program, "--html", page).out
    assert "calls     LAPACK's spotrf" in out and "calls LAPACK&#x27;s spotrf" in page.read_text()


def test_devices_are_listed_with_the_default_and_why(refxla):
    out = refxla("devices").out
    assert re.search(r"^ *pocl +cpu", out, re.M) and "pocl:basic" in out
    assert re.search(r"^\S+ is used: ", out, re.M)


def test_the_environment_names_a_device(refxla, monkeypatch, program):
    monkeypatch.setenv("REFXLA_DEVICE", "pocl:basic")
    assert "pocl:basic is used: REFXLA_DEVICE names it" in refxla("devices").out
    assert "pocl:basic" in refxla("run", program(), "--random", 0).out


def test_the_cache_is_counted_and_cleared(refxla, program, tmp_path, monkeypatch):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "own"))
    assert refxla("cache").out.startswith("0 bytes of at most")
    refxla("run", program(), "--random", 0)
    assert not refxla("cache").out.startswith("0 bytes")
    assert f"removed from {tmp_path / 'own'}" in refxla("cache", "--clear").out
    assert refxla("cache").out.startswith("0 bytes of at most")


@pytest.mark.parametrize("command", [["run", "--random", "0", "--check"], ["explain"]])
def test_what_goes_to_a_pipe_is_plain(child, program, command):
    result = child(command[0], program(), *command[1:], env={"TERM": "xterm-256color", "COLUMNS": "20"})
    assert result.status == 0 and result.err == ""
    assert "\x1b" not in result.out
    assert all(line == line.rstrip() for line in result.out.splitlines())


def test_help_and_version(capsys):
    def out(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert out("--version") == f"refxla {__version__}\n"
    shown = out("--help")
    for command in ("run", "show", "explain", "verify", "convert", "devices", "cache"):
        assert re.search(rf"^    {command} ", shown, re.M)
        assert "usage: refxla " + command in out(command, "--help")


def test_the_command_starts_without_opencl_or_a_framework():
    """What needs neither does not load it."""
    code = (
        "import json, sys; from refxla.cli.main import main; main(['verify', sys.argv[1]]);"
        "print(json.dumps([m for m in ('pyopencl', 'jax', 'tensorflow') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(FUSED)], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
