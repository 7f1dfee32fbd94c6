"""A compiler that is a program of its own, put to the conformance suite: files go in, and a file comes out.

    cd examples/conformance
    refxla-conformance --target command_target:Command --limit 60 add dot

The program here is refxla's own command, which runs the reference. Put yours into COMMAND. It reads HLO text and an
npz file with arg0, arg1, ... and writes an npz file with out0, out1, ... Types that NumPy's files do not have, such as
bf16, are stored as unsigned integers with the same bits; beside arg0 stands the name of its type then, arg0.type.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from refxla_conformance.targets import Target, leaves
from refxla_spec.errors import InvalidProgramError, UnsupportedError
from refxla_spec.types import BY_DTYPE
from refxla_spec.types import leaves as shapes

COMMAND = (sys.executable, "-m", "refxla", "run", "program.hlo", "--device", "reference")
FILES = ("--inputs", "inputs.npz", "--output", "outputs.npz")
VERIFY = (sys.executable, "-m", "refxla", "verify", "program.hlo")
REFUSAL = "is not supported"  # what the program says of what it does not take


def as_bits(arrays):
    """What a file holds for the arguments."""
    held = {}
    for n, array in enumerate(arrays):
        element_type = BY_DTYPE[array.dtype]
        if not element_type.in_numpy:
            held[f"arg{n}.type"] = element_type.name
            array = array.view(f"u{array.dtype.itemsize}")
        held[f"arg{n}"] = array
    return held


class Command(Target):
    """The adapter."""

    name = "command"

    def run(self, module, arguments):
        results = shapes(module.entry.root.shape)
        taken = [shape for p in module.entry.parameters for shape in shapes(p.shape)]
        if any(not shape.is_array or any(shape.dynamic) for shape in (*taken, *results)):
            raise UnsupportedError("tokens and dynamic shapes have no place in a file")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.hlo").write_text(str(module))
            np.savez(Path(folder, "inputs.npz"), **as_bits(leaves(arguments)))
            done = subprocess.run([*COMMAND, *FILES], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise UnsupportedError(done.stderr) if REFUSAL in done.stderr else RuntimeError(done.stderr)
            with np.load(Path(folder, "outputs.npz")) as file:
                arrays = [file[f"out{n}"] for n in range(len(results))]
        types = [shape.element_type.dtype for shape in results]
        return [a if a.dtype == t else a.view(t) for a, t in zip(arrays, types, strict=True)]

    def verify(self, text):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.hlo").write_text(text)
            done = subprocess.run(VERIFY, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise InvalidProgramError(done.stderr or done.stdout)
