"""build, and what the commands do with an executable; --without."""

import re

import numpy as np
import pytest
from command_line import SMALL


@pytest.fixture
def built(refxla, program, tmp_path):
    path = tmp_path / "small.refxla"
    said = refxla("build", program(), "-o", path)
    assert said.status == 0 and re.fullmatch(rf"{re.escape(str(path))}: 1 kernel for pocl: .*KiB\n", said.out)
    return path


def test_what_is_built_runs_and_is_checked(refxla, built, program, tmp_path):
    out = refxla("run", built, "--random", 0, "--check", "--output", tmp_path / "built.npz")
    assert out.status == 0 and f"its kernels are those in {built}" in out.out and "keep the numeric contract" in out.out
    refxla("run", program(), "--random", 0, "--output", tmp_path / "compiled.npz")
    one, two = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("built", "compiled"))
    assert list(one) == list(two) == ["out0", "out1"] and all(np.array_equal(one[k], two[k]) for k in one)


def test_an_executable_is_run_without_its_machine_code(refxla, built):
    assert "its machine code was not to be run" in refxla("run", built, "--random", 0, "--no-machine-code").out


def test_the_program_in_an_executable_is_shown(refxla, built, program):
    assert refxla("show", built).out == refxla("convert", program(), "-", "--to", "text").out
    assert refxla("verify", built).out == "small is valid: 6 instructions in 1 computation\n"
    assert "reference" in refxla("run", built, "--random", 0, "--device", "reference").out


def test_an_executable_comes_from_standard_input_and_goes_to_standard_output(child, built):
    again = child("run", "-", "--random", 0, input=built.read_bytes())
    assert again.status == 0 and "its kernels are those in standard input" in again.out
    said = child("build", "-", "-o", "/dev/null", input=SMALL)
    assert said.status == 0 and said.err == ""


@pytest.mark.parametrize("option", ["--winograd", "--tune", "--without=fusion", "--linear-algebra=library"])
def test_options_of_the_compiler_belong_to_build(refxla, built, option):
    error = refxla("run", built, "--random", 0, option).error
    assert "is compiled already" in error and option.partition("=")[0] in error


def test_what_is_not_built(refxla, program, built, tmp_path):
    assert "the reference has no kernels" in refxla("build", program(), "-o", "x", "--device", "reference").error
    assert "-o/--output" in refxla("build", program()).error
    cut = tmp_path / "cut.refxla"
    cut.write_bytes(built.read_bytes()[:-5])
    assert f"{cut} is cut off" in refxla("run", cut, "--random", 0).error


def test_passes_are_left_out(refxla, program, tmp_path):
    assert "1 fusion, launched as 1 kernel" in refxla("explain", program()).out
    apart = refxla("explain", program(), "--without", "fusion").out
    assert "2 fusions" in apart
    assert refxla("explain", program(), "--without", "cse, fusion").out == apart
    assert refxla("explain", program(), "--without", "cse", "--without", "fusion").out == apart
    assert "plan small: 2 kernels" in refxla("show", program(), "--plan", "--without", "fusion").out
    assert refxla("run", program(), "--random", 0, "--without", "fusion", "--check").status == 0
    error = refxla("explain", program(), "--without", "fussion").error
    assert "there is no pass 'fussion'; the passes are " in error
    assert "cannot be left out; those that can are" in refxla("run", program(), "--random", 0, "--without", "dce").error
    path = tmp_path / "apart.refxla"
    assert refxla("build", program(), "-o", path, "--without", "fusion").status == 0


def test_the_program_is_not_overwritten(refxla, tmp_path):
    program = tmp_path / "p.hlo"
    program.write_text("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x) }\n")
    for command in (
        ("build", "p.hlo", "-o"),
        ("explain", "p.hlo", "--html"),
        ("run", "p.hlo", "--random", "0", "--output"),
    ):
        words = [str(program) if word == "p.hlo" else word for word in command]
        done = refxla(*words, str(program))
        assert done.status == 2 and "would overwrite the program; name another file" in done.error
    assert program.read_text().startswith("HloModule m")
