"""doctor: each check says what is wrong when it is, and the exit status says whether something is."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from refxla_spec.errors import DeviceError

from refxla.cli import doctor_command as doctor
from refxla.runtime import device_probe
from refxla.runtime import devices as found
from refxla.runtime.cores import Cores

ROOT = Path(__file__).parents[2]


def texts(findings, verdict):
    return [f.text for f in findings if f.verdict == verdict]


@pytest.fixture
def healthy(monkeypatch):
    """A machine that others leave alone."""
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(doctor, "cores", lambda: Cores(4))


def test_nothing_is_wrong_here(refxla, healthy):
    done = refxla("doctor")
    assert done.status == 0 and re.search(r"^Nothing is wrong; \d+ notes?\.$", done.out, re.M), done.out
    for line in (r"^ok +refxla +0\.", r"numpy \d", r"pocl is used: ", r"^\w+ +threads +\d+ core", r"is right$"):
        assert re.search(line, done.out, re.M), line
    assert "jax " in done.out and " fault " not in done.out


def test_a_fault_is_the_exit_status(refxla, monkeypatch):
    def none(name=None):
        raise DeviceError("no OpenCL device was found; run: pip install 'pyopencl[pocl]'")

    monkeypatch.setattr(found, "choose", none)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.devices, doctor.threads))
    done = refxla("doctor")
    assert done.status == 1 and "fault  devices  no OpenCL device was found; run: pip install" in done.out
    assert re.search(r"^1 fault, \d+ notes?\.$", done.out, re.M)


def test_packages_that_are_missing_or_old(monkeypatch):
    needed = ["numpy>=1.26", "gone>=2", "scipy>=99.1", 'jax>=99; extra == "jax"', 'pytest>=99; extra == "test"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needed)
    findings = list(doctor.packages())
    faults, notes = texts(findings, doctor.FAULT), texts(findings, doctor.NOTE)
    assert faults[0] == "gone is missing: pip install 'gone>=2'"
    assert re.match(r"scipy [\d.]+ is too old, and refxla needs 99.1 or newer: pip install -U 'scipy>=99.1'", faults[1])
    assert len(faults) == 2 and len(notes) <= 1 and not any("pytest" in f.text for f in findings)


def test_environment(monkeypatch):
    for name, value in (
        ("REFXLA_CALIBRATION", "no"), ("REFXLA_LINEAR_ALGEBRA", "blas"), ("REFXLA_DEVICES", "0"),
        ("REFXLA_GPU_MERGING", "yes"), ("REFXLA_DEVISE", "gpu"), ("POCL_CACHE_DIR", "/x"), ("REFXLA_TRACEBACK", "1"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    findings = list(doctor.environment())
    notes = "\n".join(texts(findings, doctor.NOTE))
    assert "REFXLA_TRACEBACK=1" in texts(findings, doctor.FINE)
    for said in (
        "REFXLA_CALIBRATION=no: say off", "REFXLA_LINEAR_ALGEBRA=blas: say library or expanded",
        "REFXLA_GPU_MERGING=yes: say work-groups",
        "REFXLA_DEVICES=0: say how many", "REFXLA_DEVISE=gpu: refxla knows no such variable; did you mean",
        "POCL_CACHE_DIR=/x, which decides",
    ):  # fmt: skip
        assert said in notes
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(REFXLA_\w+)`", page, re.M)) == sorted(doctor.VARIABLES)


def test_devices_that_do_not_work(monkeypatch):
    listed = [d for d in found.devices() if d.kind == "cpu"][:2]
    broken = device_probe.Properties(works=False, problem="it crashed")
    for device in listed:
        monkeypatch.setitem(vars(device), "properties", broken)
    monkeypatch.setattr(found, "devices", lambda: tuple(listed))
    monkeypatch.setattr(found, "choose", lambda name=None: (listed[0], "why"))
    monkeypatch.setattr(doctor, "_GPUS", (("a GPU of NVIDIA", ("/", "/none"), "its driver"),))
    findings = list(doctor.devices())
    assert texts(findings, doctor.FAULT) == [f"{listed[0].name} does not run a small program correctly: it crashed"]
    assert any(t.startswith(f"{listed[1].name} does not run") for t in texts(findings, doctor.NOTE))
    assert any("a GPU of NVIDIA is here, and has no OpenCL driver" in t for t in texts(findings, doctor.NOTE))


def test_a_linker_that_is_missing(monkeypatch, tmp_path):
    assert all(d.properties.works for d in found.devices())  # which needs a linker, unless it was found out before
    monkeypatch.setenv("PATH", str(tmp_path))
    (fault,) = texts(doctor.devices(), doctor.FAULT)
    assert fault == "PoCL links kernels with ld, which is not on the PATH: apt install binutils"
    device = found.choose()[0]
    monkeypatch.setitem(vars(device), "properties", device_probe.Properties(works=False, problem="linking failed"))
    with pytest.raises(DeviceError, match="linking failed; PoCL links kernels with ld"):
        _ = device.target


def test_threads_and_memory(monkeypatch, healthy):
    monkeypatch.setattr(doctor, "cores", lambda: Cores(4, "affinity"))
    monkeypatch.setattr(doctor.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: (9.0, 0.0, 0.0))
    notes = texts(doctor.threads(), doctor.NOTE)
    assert notes[0] == "4 cores of 8: affinity" and "load is 9.0" in notes[1]
    monkeypatch.setattr(doctor, "_free_memory", lambda: 1000)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    notes = texts(doctor.memory(), doctor.NOTE)
    assert notes[0] == "1000 bytes free" and len(notes) == 3


def test_a_cache_that_others_could_write(monkeypatch, tmp_path):
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(path))
    (note,) = doctor.cache()
    assert note.verdict == doctor.NOTE and "is not used" in note.text and "chmod go-w" in note.text


def test_a_wrong_result_is_a_fault(monkeypatch):
    real = doctor.compile_module(doctor.parse(doctor._PROGRAM.replace("TWO", "2")), doctor.Options())
    monkeypatch.setattr(doctor, "compile_module", lambda *_: real)
    (fault,) = doctor.program()
    assert fault.verdict == doctor.FAULT and "gives wrong values" in fault.text
