"""What a traced function asks of the clock, of files and of iterators is the same at every call: a warning says so."""

import itertools
import os
import subprocess
import sys
import time
import warnings
from time import perf_counter

import numpy as np
import pytest
from refxla_spec.errors import InputError

import refxla
from refxla.frontends.numpy.impure import FrozenValueWarning

X = np.ones(3, np.float32)
COUNTER = itertools.count()
GENERATED = (n for n in range(100))


def file_of(folder):
    np.save(folder / "a.npy", np.arange(3, dtype=np.float32))
    return str(folder / "a.npy")


def clock(x, path):
    return x + time.time()


def clock_by_name(x, path):
    return x + perf_counter()


def counter(x, path):
    return x + next(COUNTER)


def generator(x, path):
    for n in GENERATED:
        return x + n


def environment(x, path):
    return x * len(os.getenv("PATH", ""))


def loaded(x, path):
    return x + np.load(path)


def text(x, path):
    with open(path, "rb") as file:
        return x + len(file.read())


CALLS = {
    clock: "time.time",
    clock_by_name: "time.perf_counter",
    counter: "next(COUNTER)",
    generator: "next(GENERATED)",
    environment: "os.getenv",
    loaded: "open",
    text: "open",
}


@pytest.mark.parametrize("function", CALLS)
def test_a_warning_names_the_call_and_its_line(function, tmp_path):
    path = file_of(tmp_path)
    compiled = refxla.compile(lambda x: function(x, path), device="reference")
    with pytest.warns(FrozenValueWarning, match="traced") as told:
        first = np.asarray(compiled(X))
    messages = [str(w.message) for w in told if w.category is FrozenValueWarning]
    assert messages[0].startswith(CALLS[function]) and all("test_numpy_impure.py:" in m for m in messages)
    assert len(messages) == 1 or function is loaded  # which reads the file that it has opened
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrozenValueWarning)
        assert np.array_equal(np.asarray(compiled(X)), first)
    assert time.time.__name__ == "time" and type(COUNTER) is itertools.count


def pure(x):
    import fractions  # an import reads files

    parts = [n for n in iter((1, 2, 3))]
    first = next(n for n in parts if n > 1)
    return x * first + float(fractions.Fraction(1, 2))


def test_what_begins_and_ends_in_the_function_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrozenValueWarning)
        assert np.asarray(refxla.compile(pure, device="reference")(X))[0] == 2.5


def test_clocks_that_another_framework_asks_are_no_warning():
    jax = pytest.importorskip("jax")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrozenValueWarning)
        with pytest.raises(InputError, match="is a function of JAX, not of NumPy: compile jax.jit"):
            refxla.compile(lambda x: jax.numpy.sin(x), device="reference")(X)


def test_files_that_refxla_reads_for_itself_are_no_warning():
    """In a process that has compiled nothing yet, the files of operations are read by the first function."""
    program = """
import warnings
import numpy as np
import refxla
from refxla.frontends.numpy.impure import FrozenValueWarning
warnings.simplefilter("error", FrozenValueWarning)
refxla.compile(lambda x: np.take(x, [[0, 2], [1, 2]], axis=0), device="reference")(np.ones(3))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
