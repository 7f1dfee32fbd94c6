"""`--lenient` of every command that reads a program."""

import pytest

NEWER = """x = f32[2] parameter(0)
ROOT y = f32[2] negate(x), frobnicate=false"""


@pytest.mark.parametrize("command", ["verify", "run", "show", "explain", "convert"])
def test_every_command_that_reads_a_program(refxla, program, command):
    file = program(NEWER)
    more = {"run": ["--random", "0"], "convert": ["-", "--to", "text"]}.get(command, [])
    assert "frobnicate" in refxla(command, file, *more).error
    done = refxla(command, file, *more, "--lenient")
    assert done.status == 0 and "frobnicate" in done.err
