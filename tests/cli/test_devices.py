"""refxla run of programs for several devices: arguments and results of each, and what is refused."""

import ml_dtypes
import numpy as np

from refxla.cli.main import parser

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


FED = """t = token[] after-all()
x = f32[2] parameter(0)
first = (f32[2], token[]) infeed(t)
u = token[] get-tuple-element(first), index=1
second = ((s32[], bf16[2]), token[]) infeed(u)
v = token[] get-tuple-element(second), index=1
a = f32[2] get-tuple-element(first), index=0
pair = (s32[], bf16[2]) get-tuple-element(second), index=0
o = token[] outfeed(pair, v), outfeed_shape=(s32[], bf16[2])
p = token[] outfeed(a, o), outfeed_shape=f32[2]
ROOT r = f32[2] add(x, a)"""


def fed_program(header=""):
    return f"HloModule fed{header}\nENTRY main {{\n{FED}\n}}\n"


def test_infeeds_and_outfeeds(refxla, program, tmp_path):
    x = np.array([1, 2], np.float32)
    given = npz(tmp_path / "in.npz", arg0=x)
    fed = npz(tmp_path / "fed.npz", infeed0=10 * x, **{"infeed1.0": np.int32(7), "infeed1.1": X})
    out = tmp_path / "out.npz"
    reference = ("--device", "reference", "--inputs", given)
    ran = refxla("run", program(fed_program()), *reference, "--infeed", fed, "--output", out, "--repeat", "2")
    assert ran.status == 0, ran.err
    assert "ran      2 times: best " in ran.out
    with np.load(out) as file:
        assert np.array_equal(file["out0"], 11 * x) and np.array_equal(file["outfeed1"], 10 * x)
        assert file["outfeed0.0"] == 7 and np.array_equal(file["outfeed0.1"].view(X.dtype), X)
    for_all = {"infeed0": 10 * x, "infeed1.0": np.int32(7), "infeed1.1": X}
    own = {f"dev1.{name}": array + array for name, array in for_all.items()}
    both = npz(tmp_path / "both.npz", **for_all, **own)
    ran = refxla("run", program(fed_program(", replica_count=2")), *reference, "--infeed", both, "--output", out)
    assert ran.status == 0, ran.err
    with np.load(out) as file:
        assert np.array_equal(file["dev0.out0"], 11 * x) and np.array_equal(file["dev1.out0"], 21 * x)
        assert file["dev0.outfeed0.0"] == 7 and file["dev1.outfeed0.0"] == 14


def test_infeeds_that_are_refused(refxla, program, tmp_path):
    x = np.array([1, 2], np.float32)
    given = npz(tmp_path / "in.npz", arg0=x)

    def said(*options, **infeed):
        fed = ("--infeed", npz(tmp_path / "fed.npz", **infeed)) if infeed else ()
        ran = refxla("run", program(fed_program()), "--inputs", given, *fed, *options)
        assert ran.status == 2
        return " ".join(ran.err.split())

    reference = ("--device", "reference")
    assert "infeeds or outfeeds runs on the reference: add --device reference" in said()
    assert "--infeed NPZ" in said(*reference)
    assert "has infeed1 and no infeed0" in said(*reference, infeed1=x)
    assert "has feed; values of infeeds are infeed0" in said(*reference, feed=x)
    assert "both whole and in parts" in said(*reference, infeed0=x, **{"infeed0.0": x})
    assert "the value of the infeed" in said(*reference, infeed0=x[:1])
