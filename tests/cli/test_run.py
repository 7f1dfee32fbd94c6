"""refxla run: values in and out, random ones, devices, the check."""

import io
import pickle
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from command_line import BF16, EXAMPLES, NESTED
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

from refxla.cli.argument_files import from_npz, random_arguments, read_npz, write_npz
from refxla.cli.results_table import abbreviated
from refxla.cli.run_command import check
from refxla.compiler import driver

X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20, 30], np.float32)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("names", [("arg0", "arg1"), ("x", "y"), ("arg0", "y")])
@pytest.mark.parametrize("device", ["pocl", "reference"])
def test_values_go_in_and_come_out_by_number_or_name(refxla, program, tmp_path, names, device):
    given = npz(tmp_path / "in.npz", **dict(zip(names, (X, Y), strict=True)))
    out = tmp_path / "results"
    result = refxla("run", program(), "--inputs", given, "--output", out, "--device", device)
    assert result.status == 0 and not result.err
    with np.load(out) as file:
        assert sorted(file.files) == ["out0", "out1"]
        np.testing.assert_array_equal(file["out0"], X + Y)
        assert file["out1"] == 3 and file["out1"].dtype == np.int32
    assert "out0  f32[2,3]" in result.out and "out1  s32[]     3" in result.out
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("device", ["pocl", "reference"])
def test_tuples_are_flat_in_order(refxla, program, tmp_path, device):
    values = {"p.0": np.float32([1, 2]), "arg1": np.int32(7), "p.2": np.float32(3), "q": np.float32([5, 6])}
    given, out = npz(tmp_path / "in.npz", **values), tmp_path / "out.npz"
    ran = refxla("run", program(NESTED), "--inputs", given, "--output", out, "--device", device, "--check")
    assert ran.status == 0, ran.err
    with np.load(out) as file:
        np.testing.assert_array_equal(file["out0"], [5, 6])
        np.testing.assert_array_equal(file["out1"], [8, 12])
        assert file["out2"] == 7


def test_types_that_numpy_does_not_know_keep_their_bits(refxla, program, tmp_path):
    value = np.array([1.5, -2, np.inf], ml_dtypes.bfloat16)
    noted = npz(tmp_path / "noted.npz", x=value.view(np.uint16), **{"x.type": "bf16"})
    plain = npz(tmp_path / "plain.npz", x=value)  # what numpy makes of it: two bytes without a type
    for given in (noted, plain):
        out = tmp_path / "out.npz"
        assert refxla("run", program(BF16), "--inputs", given, "--output", out).status == 0
        with np.load(out) as file:
            assert str(file["out0.type"]) == "bf16"
            np.testing.assert_array_equal(file["out0"].view(ml_dtypes.bfloat16), value + value)


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if t.is_array])
def test_every_type_is_read_as_numpy_writes_it_and_written_after_pickling(name):
    """NumPy writes f8e5m2 as a float of one byte, which it cannot read; a pickled dtype is not built in any more."""
    module = parse(f"x = {name}[2,3] parameter(0)\nROOT y = {name}[2,3] copy(x)")
    dtype = ELEMENT_TYPES[name].dtype
    value = pickle.loads(pickle.dumps(np.arange(6).reshape(2, 3).astype(dtype)))
    file = io.BytesIO()
    np.savez(file, x=value)
    for data in (file.getvalue(), write_npz([value], ["x"])):
        (read,) = from_npz(module, read_npz(data, "in.npz"), "in.npz")
        assert read.dtype == dtype and read.shape == (2, 3) and read.tobytes() == value.tobytes()
    assert abbreviated(value) == abbreviated(np.arange(6).reshape(2, 3).astype(dtype))


def test_random_arguments_are_those_of_the_seed(refxla, program, tmp_path):
    outs = []
    for seed in (5, 5, 6):
        assert refxla("run", program(), "--random", seed, "--output", tmp_path / "o.npz").status == 0
        with np.load(tmp_path / "o.npz") as file:
            outs.append(file["out0"])
    assert np.array_equal(outs[0], outs[1]) and not np.array_equal(outs[0], outs[2])


def test_random_values_suit_roots_and_indices():
    text = """HloModule m
ENTRY e {
  v = f32[64] parameter(0)
  w = f32[64] parameter(1)
  i = s32[64] parameter(2)
  n = s32[] parameter(3)
  q = u2[64] parameter(4)
  d = f32[64] add(v, v)
  r = f32[64] sqrt(d)
  ROOT t = (f32[64], f32[64], s32[64], s32[], u2[64]) tuple(r, w, i, n, q)
}"""
    v, w, i, n, q = random_arguments(parse(text), 0)
    assert v.min() >= 0 and w.min() < 0
    assert i.min() == 0 and i.max() == 9 and 1 <= n <= 9
    assert q.astype(int).max() == 3 and q.dtype == ml_dtypes.uint2


def test_the_check_says_how_each_result_stands(refxla):
    once = refxla("run", EXAMPLES / "fused_sum" / "fused_sum.hlo", "--random", 0).out
    assert re.search(r"ran +once, in [\d.]+ .?s\n +compilation not counted", once)
    result = refxla("run", EXAMPLES / "fused_sum" / "fused_sum.hlo", "--random", 0, "--check", "--repeat", 3)
    assert result.status == 0
    assert "The result keeps the numeric contract." in result.out and "within" in result.out
    assert "ran       3 times: best" in result.out and "pocl" in result.out


@pytest.mark.parametrize("wrong", [1e-5, float("nan"), 1.0])
def test_a_wrong_result_is_found(refxla, program, monkeypatch, wrong):
    run = driver.Reference.__call__

    def spoiled(self, *arguments):
        first, second = run(self, *arguments)
        return first + np.float32([[0, 0, wrong], [0, 0, 0]]), second

    monkeypatch.setattr(driver.Reference, "__call__", spoiled)
    result = refxla("run", program(), "--random", 0, "--device", "reference", "--check")
    assert result.status == 1 and not result.err
    assert "1 of 2 results break the numeric contract: out0." in result.out
    counts, worst = (next(w for w in result.out.splitlines()[k:] if w.startswith(" out0")).split() for k in (9, 15))
    assert counts == ["out0", "f32[2,3]", "5", "1", "0", "wrong"]
    assert worst[:3] == ["out0", "[0,", "2]"] and worst[-2:] == ["0", "wrong"]


def test_errors_that_are_improbable_are_suspect_and_then_wrong():
    """Also within certain bounds that are wide: that of this sum is 10."""
    from refxla_spec.text import parse

    text = """HloModule m
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[10000] parameter(0)
  z = f32[] constant(0)
  ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply=f
}"""
    x = np.random.default_rng(0).standard_normal(10000, np.float32)
    right = np.float32(x.astype(np.float64).sum())
    results = [check(parse(text), [x], [right + np.float32(d)]).results[0] for d in (0, 1e-5, 1e-3, 0.5, 100)]
    assert [r.verdict.name for r in results] == ["WITHIN", "WITHIN", "SUSPECT", "WRONG", "WRONG"]


def test_a_program_without_parameters_needs_no_values(refxla, program):
    text = "HloModule m\nENTRY e {\n  ROOT c = f32[2] constant({1, 2})\n}\n"
    assert "[1. 2.]" in refxla("run", program(text)).out


def test_results_go_to_a_pipe(program):
    path = program("HloModule m\nENTRY e {\n  ROOT c = f32[2] constant({1, 2})\n}\n")
    command = [sys.executable, "-m", "refxla", "run", str(path), "--output", "-", "--device", "reference"]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    with np.load(io.BytesIO(data)) as file:
        np.testing.assert_array_equal(file["out0"], [1, 2])


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"arg0": X}, ["has no arg1 (y)", "f32[3]", "the file has arg0"]),
        ({"arg0": X, "x": X, "arg1": Y}, ["both arg0 and x"]),
        ({"arg0": X, "arg1": Y, "arg2": Y}, ["has arg2, which is no parameter", "arg1 (y) f32[3]"]),
        ({"arg0": X.T, "arg1": Y}, ["arg0 is f32[3,2]", "takes f32[2,3]"]),
        ({"arg0": X.astype(np.float64), "arg1": Y}, ["arg0 is f64[2,3]", "takes f32[2,3]"]),
        ({"arg0": np.array([["a"] * 3] * 2), "arg1": Y}, ["<U1", "takes f32[2,3]"]),
        ({"arg0": X, "arg0.type": "f99", "arg1": Y}, ["arg0.type says 'f99'"]),
        ({}, ["has no arg0 (x)", "the file has nothing"]),
    ],
)
def test_values_that_do_not_fit(refxla, program, tmp_path, arrays, words):
    result = refxla("run", program(), "--inputs", npz(tmp_path / "in.npz", **arrays))
    for word in words:
        assert word in result.error


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken", "npy", "cut", "pickle"])
def test_a_file_that_is_no_npz(refxla, program, tmp_path, content):
    path = tmp_path / "in.npz"
    npz(path, arg0=X, arg1=Y)
    if content == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif content == "npy":
        with path.open("wb") as file:
            np.save(file, X)
    elif content == "pickle":
        npz(path, arg0=np.array([{}], object))
    else:
        path.write_bytes(content)
    error = refxla("run", program(), "--inputs", path).error
    assert "in.npz" in error and "numpy.savez" in error


def test_a_decomposition_is_checked_by_its_properties(refxla, program):
    call = 'custom-call(x), custom_call_target="Qr"'
    text = f"HloModule m\nENTRY e {{\n  x = f32[6,4] parameter(0)\n  ROOT q = (f32[6,4], f32[4]) {call}\n}}\n"
    ran = refxla("run", program(text), "--random", 0, "--check")
    assert ran.status == 0 and "All results keep the numeric contract." in ran.out
    assert "Undecided because" not in ran.out


def test_values_must_come_from_somewhere(refxla, program, tmp_path):
    assert "--inputs FILE or --random SEED" in refxla("run", program()).error
    assert "not allowed with" in refxla("run", program(), "--random", 0, "--inputs", "x").error
    assert "cannot read" in refxla("run", program(), "--inputs", tmp_path / "absent.npz").error
    assert "at least once" in refxla("run", program(), "--random", 0, "--repeat", 0).error
    assert "--random -1" in refxla("run", program(), "--random", "-1").error


def test_a_token_cannot_be_made_up(refxla, program):
    text = "HloModule m\nENTRY e {\n  t = token[] parameter(0)\n  ROOT c = f32[2] constant({1, 2})\n}\n"
    assert "token" in refxla("run", program(text), "--random", 0, "--device", "reference").error


def test_a_program_that_is_refused_is_refused_before_arguments_are_made(refxla, program, monkeypatch):
    """Gigabytes at random, and then an error, would be a long wait for nothing."""
    made = []
    monkeypatch.setattr("refxla.cli.run_command.random_arguments", lambda *_: made.append(1))
    head = "HloModule m\nENTRY e {\n  x = f32[50000,50000] parameter(0)\n"
    unknown = head + '  ROOT y = f32[2] custom-call(x), custom_call_target="unheard_of"\n}\n'
    assert "unheard_of" in refxla("run", program(unknown), "--random", 0).error
    invalid = head + "  ROOT y = f32[2] negate(x)\n}\n"
    assert "negate" in refxla("run", program(invalid), "--random", 0).error
    assert not made


def test_large_arrays_at_random():
    """They are drawn in blocks, by several threads; the same seed gives the same."""
    text = (
        "HloModule m\nENTRY e {\n  a = f32[5] parameter(0)\n  b = f32[2100,2000] parameter(1)\n"
        "  c = s8[2100,2000] parameter(2)\n  ROOT t = (f32[5], f32[2100,2000], s8[2100,2000]) tuple(a, b, c)\n}\n"
    )
    a, b, c = random_arguments(parse(text), 7)
    np.testing.assert_array_equal(a, np.random.default_rng(7).standard_normal(5, np.float32))
    assert (b.dtype, b.shape, c.dtype) == (np.float32, (2100, 2000), np.int8)
    assert abs(b.mean()) < 0.005 and abs(b.std() - 1) < 0.005 and set(np.unique(c)) == set(range(10))
    assert len(np.unique(b[:, 0])) > 2090  # no block is another one again
    for again, before in zip(random_arguments(parse(text), 7), (a, b, c), strict=True):
        np.testing.assert_array_equal(again, before)


class Kept:
    """An executable that changes what it must leave as it is."""

    def __init__(self, fault):
        self.fault, self.first = fault, None

    def __call__(self, x):
        result = x + x
        if self.fault == "arguments":
            x[...] = 0
        if self.first is None:
            self.first = result
        elif self.fault == "results":
            self.first[...] = result
        return result


@pytest.mark.parametrize("fault", ["arguments", "results", ""])
def test_the_check_sees_what_a_call_changes_besides(fault):
    from refxla.cli.run_command import _Left

    module, x = parse("x = f32[3] parameter(0)\nROOT y = f32[3] add(x, x)"), np.arange(3, dtype=np.float32)
    executable = Kept(fault)
    left = _Left(executable, module, [x])
    executable(x)
    assert [fault in what for what in left.changed()] == [True] * bool(fault)


def test_the_call_before_has_other_arguments():
    from refxla.cli.run_command import _Left

    module, seen = parse("x = f32[3] parameter(0)\nROOT y = f32[3] add(x, x)"), []
    _Left(seen.append, module, [np.arange(3, dtype=np.float32)])
    assert seen[0].tolist() == [2, 1, 0]


def test_an_argument_file_that_is_none_says_what_it_is(refxla, program, tmp_path):
    """A text named .npz is not to be read with a flag of NumPy's."""
    for content, kind in ((b"1 2 3\n", "a text"), (b"", "empty"), (b"\x00\x01\x02", "no npz file")):
        (tmp_path / "in.npz").write_bytes(content)
        failed = refxla("run", program(), "--inputs", tmp_path / "in.npz")
        assert failed.status == 2 and kind in failed.error and "numpy.savez" in failed.error
        assert "pickle" not in failed.error
