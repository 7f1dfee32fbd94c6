"""`--elided` of every command that reads a program, and the same in the library."""

import numpy as np
import pytest

import refxla as library

SHORTENED = """x = f32[3] parameter(0)
c = f32[3] constant({...})
ROOT y = f32[3] multiply(x, c)"""


@pytest.mark.parametrize("command", ["verify", "run", "show", "explain", "convert"])
def test_every_command_that_reads_a_program(refxla, program, command):
    file = program(SHORTENED)
    more = {"run": ["--random", "0"], "convert": ["-", "--to", "text"]}.get(command, [])
    refused = refxla(command, file, *more)
    assert refused.status == 2 and "--elided" in refused.error and "line 2" in refused.error
    for how in ("zeros", "random"):
        done = refxla(command, file, *more, "--elided", how)
        assert done.status == 0 and "warning: " in done.err and "a constant, left out of the text" in done.err
        assert {"zeros": "zeros are taken", "random": "random numbers are taken"}[how] in done.err


def test_nothing_is_said_of_a_program_that_leaves_nothing_out(refxla, program):
    file = program(SHORTENED.replace("{...}", "{1,2,3}"))
    assert "warning" not in refxla("verify", file, "--elided", "zeros").err


def test_the_library_takes_what_the_caller_says():
    x = np.array([1, 2, 3], np.float32)
    with pytest.raises(library.Error, match="elided"):
        library.compile(SHORTENED)
    with pytest.warns(UserWarning, match="zeros are taken"):
        assert not library.compile(SHORTENED, elided="zeros", device="reference")(x).any()
    with pytest.warns(UserWarning, match="random numbers are taken"):
        random = library.compile(SHORTENED, elided="random")(x)
    assert random.any() and np.array_equal(random, library.compile(SHORTENED, elided="random", device="reference")(x))
    with pytest.raises(library.Error, match="'zeros' or 'random'"):
        library.compile(SHORTENED, elided="ones")
    with pytest.raises(library.Error, match="leave `elided` out"):
        library.compile(np.sin, x, elided="zeros")
