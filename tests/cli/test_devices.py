"""refxla run of programs for several devices: arguments and results of each, and what is refused."""

import ml_dtypes
import numpy as np

from refxla.tools.cli import parser

SUM = """HloModule sum, num_partitions=3
add { a = bf16[] parameter(0)
      b = bf16[] parameter(1)
      ROOT c = bf16[] add(a, b) }
ENTRY main { x = bf16[2] parameter(0)
             n = s32[] parameter(1)
             me = u32[] partition-id()
             s = bf16[2] all-reduce(x), channel_id=1, replica_groups={}, to_apply=add
             ROOT r = (bf16[2], u32[], s32[]) tuple(s, me, n) }
"""
X = np.array([1, 2], ml_dtypes.bfloat16)


def npz(path, **arrays):
    bits = {}
    for name, a in arrays.items():
        bits[name] = a.view(np.uint16) if a.dtype == X.dtype else a
        if a.dtype == X.dtype:
            bits[f"{name}.type"] = np.array("bf16")
    np.savez(path, **bits)
    return path


def test_each_device_has_arguments_and_results(refxla, program, tmp_path):
    given = npz(tmp_path / "in.npz", arg0=X, n=np.int32(5), **{"dev1.x": 10 * X, "dev2.arg1": np.int32(7)})
    out = tmp_path / "out.npz"
    ran = refxla("run", program(SUM), "--device", "reference", "--inputs", given, "--output", out)
    assert ran.status == 0, ran.err
    assert "3 devices" in ran.out and "dev2.out0  bf16[2]" in ran.out
    with np.load(out) as file:
        assert len([f for f in file.files if f.startswith("dev")]) == 12  # nine arrays, and the type of three
        for n in range(3):
            assert np.array_equal(file[f"dev{n}.out0"].view(X.dtype), np.array([12, 24], X.dtype))
            assert file[f"dev{n}.out1"] == n and file[f"dev{n}.out2"] == (7 if n == 2 else 5)


def test_random_arguments_differ_from_device_to_device(refxla, program):
    text = SUM.replace("tuple(s, me, n)", "tuple(x, me, n)").replace(", num_partitions=3", "")
    ran = refxla("run", program(text), "--device", "reference", "--random", "1", "--partitions", "2")
    again = refxla("run", program(text), "--device", "reference", "--random", "2", "--replicas", "1")
    lines = [line.split("]", 1)[1] for line in ran.out.splitlines() if ".out0" in line]
    assert ran.status == 0 and len(lines) == 2 and lines[0] != lines[1]
    assert lines[1].strip() in again.out  # device n has the arguments of the seed SEED + n


def test_what_is_refused(refxla, program, tmp_path):
    def said(*options):
        ran = refxla("run", program(SUM), *options)
        assert ran.status == 2
        return " ".join(ran.err.split())

    assert "3 devices" in said("--random", "0") and "add --device reference" in said("--random", "0")
    reference = ("--device", "reference")
    assert "dev0.arg0 (x) bf16[2]" in said(*reference)
    assert "--check" in said(*reference, "--random", "0", "--check")
    assert "there is at least one" in said(*reference, "--random", "0", "--replicas", "0")
    wrong = npz(tmp_path / "in.npz", arg0=X, arg1=np.int32(1), **{"dev3.arg0": X})
    assert "dev3.arg0 is for device 3, and the devices are 0 to 2" in said(*reference, "--inputs", wrong)


def test_it_is_documented():
    assert "dev1.arg0" in parser().format_help()
