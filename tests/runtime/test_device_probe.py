"""Probing in a child process: checks that end it, hang it or answer."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import replace
from subprocess import Popen

import pytest

from refxla.device.capabilities import CLANG_CPU
from refxla.runtime import device_probe
from refxla.runtime.pocl import builtins_library

CHILD = """
import json, os, signal, sys, time
actions = dict(
    runs=lambda: {"works": True},
    memory=lambda: {"host_pointers": True},
    aborts=lambda: os.abort(),
    hangs=lambda: time.sleep(10_000),
    leaves=lambda: (print("a last word", file=sys.stderr), sys.exit(3)),
    full=lambda: (print("IO failure: " + os.strerror(28), file=sys.stderr), os.abort()),
    raises=lambda: 1 // 0,
    vectors=lambda: {"max_vector": 8},
)
if sys.argv[1] == "dead":
    sys.exit("no such device")
for name in sys.argv[2:]:
    print("begin", name, flush=True)
    print("noise from a driver", flush=True)
    print("answer", json.dumps(actions[name]()), flush=True)
"""


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    return (sys.executable, str(path))


def test_a_check_that_ends_the_child_is_recorded_and_the_rest_goes_on(command):
    names = ["runs", "aborts", "memory", "leaves", "raises", "vectors"]
    answers = device_probe.run_checks("device", names, command=command)
    assert answers == {
        "runs": {"works": True},
        "aborts": "the check ended with signal 6",
        "memory": {"host_pointers": True},
        "leaves": "the check ended with exit code 3: a last word",
        "raises": "the check ended with exit code 1: ZeroDivisionError: integer division or modulo by zero",
        "vectors": {"max_vector": 8},
    }
    found = device_probe._conclude(answers)
    assert found.works and found.access == "host" and found.max_vector == 8 and not found.clang


def test_a_full_disk_is_named(command, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    answer = device_probe.run_checks("device", ["full"], command=command)["full"]
    assert answer.endswith(
        f"No space left on device ({tmp_path} is full: free space there, or name another directory by TMPDIR)"
    )


def test_a_check_that_hangs_is_ended(command):
    answers = device_probe.run_checks("device", ["runs", "hangs", "vectors"], limit=3.0, command=command)
    uncounted = "not counting time in which it was stopped or waited for a processor"
    assert answers["hangs"] == f"the check ended with no answer within 3 s ({uncounted})"
    assert answers["vectors"] == {"max_vector": 8}


def test_an_interruption_ends_the_child(command, monkeypatch):
    started = []
    monkeypatch.setattr(device_probe.subprocess, "Popen", lambda *a, **k: started.append(Popen(*a, **k)) or started[-1])

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 2)
            device_probe.run_checks("device", ["runs", "hangs"], command=command)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert [child.returncode for child in started] == [-signal.SIGKILL]
    assert not [t for t in threading.enumerate() if t.name == "refxla-watchdog"]


def test_a_check_that_was_stopped_for_longer_than_its_limit_is_not_ended(command, monkeypatch):
    """As by Ctrl-Z, or on a machine that suspends processes."""

    def stopped(*arguments, **options):
        child = Popen(*arguments, **options)
        child.send_signal(signal.SIGSTOP)
        threading.Timer(4.0, child.send_signal, (signal.SIGCONT,)).start()
        return child

    monkeypatch.setattr(device_probe.subprocess, "Popen", stopped)
    monkeypatch.setattr(device_probe, "START_SECONDS", 0.0)
    answers = device_probe.run_checks("device", ["runs"], limit=2.0, command=command)
    assert answers == {"runs": {"works": True}}


def test_a_device_that_runs_nothing_is_not_tried_further(command):
    answers = device_probe.run_checks("dead", ["runs", "memory"], command=command)
    assert answers["runs"] == "the check ended with exit code 1: no such device"
    assert answers["memory"] == "not tried, since no program runs"
    found = device_probe._conclude(answers)
    assert not found.works and "no such device" in found.problem


def test_pocl(device):
    found = device.properties
    assert found.works and found.access == "host" and found.clang and found.fp64 and found.rounded
    assert found.max_vector == 8 and found.bare
    target = device.target
    assert target.capabilities is CLANG_CPU and target.max_vector == 8 and target.compute_units >= 1


@pytest.fixture
def own_pocl(device):
    """The path from which PoCL is loaded with refxla's library."""
    path = device_probe._own_pocl(device)
    if path is None:
        pytest.skip("only the PoCL of the wheel finds its library relative to itself")
    return path


def test_with_and_without_refxlas_library_the_answers_are_the_same(device, own_pocl):
    checks = ["runs", "memory", "header", "clang", "fp64", "rounding", "float8", "builtins"]
    answers = device_probe.run_checks(device.name, checks)
    assert answers["builtins"] == {"builtins": False}
    with_library = device_probe.run_checks(device.name, checks, command=device_probe.with_pocl(own_pocl))
    assert with_library == answers | {"builtins": {"builtins": True}}


def test_refxlas_library_is_read_beside_libraries_of_the_users(device, own_pocl, monkeypatch):
    """A user may replace malloc, say."""
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    answers = device_probe.run_checks(device.name, ["runs", "builtins"], command=device_probe.with_pocl(own_pocl))
    assert answers["runs"]["works"] and answers["builtins"] == {"builtins": True}


def test_a_library_that_pocl_does_not_read_is_left_out(device, own_pocl, monkeypatch, tmp_path):
    """That of a PoCL whose LLVM has another text, for one."""
    wanted = replace(device.properties, builtins=False)  # before the cache is another one: a device keeps them
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(builtins_library, "LIBRARY", "no text of LLVM's")
    folder = builtins_library.folder.__wrapped__(tmp_path / "pocl", own_pocl.resolve())
    monkeypatch.setattr(builtins_library, "folder", lambda *_: folder)
    found = device_probe.properties(device)
    assert found == wanted and found.works


def test_items_of_pocl_are_found_to_go_through_phases_together(device):
    if "pocl" not in device.name or device.kind != "cpu":
        pytest.skip("another device need not")
    assert device_probe.run_checks(device.name, ["persistent"]) == {"persistent": {"persistent": True}}


def test_host_pointers_are_not_tried_on_a_gpu(device):
    bench = device_probe.Bench(replace(device, kind="gpu"))
    assert device_probe._memory(bench) == {}


def test_answers_are_kept(device, monkeypatch):
    _ = device.properties
    monkeypatch.setattr(device_probe, "run_checks", lambda *_, **__: pytest.fail("probed twice"))
    assert device_probe.properties(device) == device.properties


def test_failures_are_not_kept(device, monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    good = {name: {} for name in device_probe.CHECKS} | {"runs": {"works": True}}
    for bad in ({"runs": "no space left on device"}, {"memory": "no answer within 10 s"}):
        monkeypatch.setattr(device_probe, "run_checks", lambda *_, bad=bad, **__: good | bad)
        assert device_probe.properties(device).works == ("runs" not in bad)
        assert not list(tmp_path.glob("*/*"))
    monkeypatch.setattr(device_probe, "run_checks", lambda *_, **__: good | {"float8": "the check ended with signal 6"})
    assert device_probe.properties(device).max_vector == 4
    assert len(list(tmp_path.glob("*/*"))) == 1


def test_a_real_compiler_that_crashes_is_survived(device):
    """A kernel that ends the process when it runs, called as every other check is."""
    script = (
        "import sys; from refxla.runtime import device_probe\n"
        "def crash(bench):\n"
        "    import numpy as np\n"
        "    program = bench.build('__kernel void f(__global int* a) { *(volatile __global int*)8 = a[0]; }')\n"
        "    bench.run(program, 'f', [np.zeros(1, np.int32)])\n"
        "    return {}\n"
        "device_probe.CHECKS['crash'] = crash\n"
        "device_probe.main(sys.argv[1:])\n"
    )
    answers = device_probe.run_checks("pocl:basic", ["crash", "fp16"], command=(sys.executable, "-c", script))
    assert "signal" in answers["crash"] and answers["fp16"] == {"fp16": False}


def test_only_a_processor_without_the_instructions_settles_that_it_has_no_features():
    assert device_probe._is_settled("avx512", {}) and device_probe._is_settled(
        "avx512", "the check ended with signal 4"
    )
    assert not device_probe._is_settled("avx512", "the check ended with no answer within 30 s")


def test_the_folder_that_one_stands_in_does_not_matter(device, monkeypatch, tmp_path):
    """A checkout that is not built has a package of the same name."""
    (tmp_path / "refxla").mkdir()
    (tmp_path / "refxla" / "__init__.py").write_text("raise ImportError('not built')")
    monkeypatch.chdir(tmp_path)
    assert device_probe.run_checks(device.name, ["runs"])["runs"]["works"]
