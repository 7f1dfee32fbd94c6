"""ops: what is supported, from the tables."""

import re

import pytest
from refxla_spec.accepted_types import accepted
from refxla_spec.operation import operations

from refxla.cli.ops_command import TYPES, in_short
from refxla.compiler.operation_support import REFERENCE_ONLY, compiled_as


def test_every_operation_has_its_line(refxla):
    out = refxla("ops").out
    assert set(re.findall(r"^ (\S+)  +\S", out, re.M)) - {"operation"} == set(operations())
    count, refused = len(operations()), sum(compiled_as(o) == REFERENCE_ONLY for o in operations())
    assert f"{count} of {count} operations; {count - refused} are compiled, all run on the reference." in out


@pytest.mark.parametrize(
    "opcode, how",
    [
        ("add", "elementwise"),
        ("transpose", "movement"),
        ("dot", "a kernel of its own (dot)"),
        ("cholesky", "LAPACK, or expanded"),
        ("batch-norm-training", "expanded"),
        ("call", "inlined"),
        ("bitcast", "lowered by a pass"),
        ("infeed", REFERENCE_ONLY),
    ],
)
def test_how_an_operation_is_compiled(opcode, how):
    assert compiled_as(opcode) == how


def test_operations_of_a_type(refxla):
    out = refxla("ops", "--type", "c64").out
    names = set(re.findall(r"^ (\S+)  +\S", out, re.M)) - {"operation"}
    assert names == {o for o in operations() if "c64" in accepted(o)} and "add" in names and "floor" not in names


def test_types_in_short():
    assert in_short(TYPES) == "all" and in_short(()) == "no arrays"
    assert in_short(("pred", "f32")) == "pred, f32"
    assert in_short(tuple(t for t in TYPES if t != "pred")) == "numbers"
    assert in_short(accepted("sine")) == "floats and complex"
    for opcode in ("and", "popcnt", "sort", "dot"):
        assert in_short(accepted(opcode))


def test_names_and_patterns(refxla):
    out = refxla("ops", "reduce*", "dot").out
    assert set(re.findall(r"^ (\S+)  +\S", out, re.M)) - {"operation"} == {
        o for o in operations() if o.startswith("reduce") or o == "dot"
    }
    assert "'convlution' is not an operation of HLO; did you mean 'convolution'?" in refxla("ops", "convlution").error
    assert "there is no element type 'f23'; did you mean 'f32'" in refxla("ops", "--type", "f23").error


def test_frontends(refxla):
    out = refxla("ops", "--frontend", "numpy").out
    assert re.search(r"^universal functions \(\d+\):$", out, re.M) and " tanh," in out and "linalg.solve" in out
    assert refxla("ops", "--frontend", "numpy", "tanh").out == "universal functions (1):\n  tanh\n"
    assert "has nothing of that name" in refxla("ops", "--frontend", "numpy", "tahn").error
    assert "--type is about operations of HLO" in refxla("ops", "--frontend", "numpy", "--type", "f32").error


def test_the_door_of_jax(refxla):
    pytest.importorskip("jax")
    out = refxla("ops", "--frontend", "jax").out
    assert all(name in out for name in ("dot_general", "while", "pure_callback", "eigh", "scan"))


def test_the_door_of_pytorch(refxla, monkeypatch):
    pytest.importorskip("torch")
    assert "add.Tensor" in refxla("ops", "--frontend", "torch").out


def test_a_framework_that_is_not_installed(refxla, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "torch is not installed, whose operations are listed" in refxla("ops", "--frontend", "torch").error
