"""Which devices there are and which one is chosen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from refxla_spec.errors import DeviceError, InputError

from refxla.runtime import calibration, devices, discovery
from refxla.runtime.calibration import MeasuredRates
from refxla.runtime.devices import Device, choose, find


def fake(name: str, kind: str) -> Device:
    return Device(name, kind, "label", "platform", "1.0", 4, None)


@pytest.fixture
def only(monkeypatch):
    """only(devices...): no other devices exist."""
    monkeypatch.delenv("REFXLA_DEVICE", raising=False)
    return lambda *given: monkeypatch.setattr(discovery, "_devices", {d.name: d for d in given})


def test_pocl_offers_both_ways_to_run(device):
    names = [d.name for d in devices.devices()]
    assert {"pocl", "pocl:pthread", "pocl:basic"} <= set(names)
    assert len(device.raws) == 2 and device.kind == "cpu"
    assert set(device.raws) <= set(device.context.devices)
    assert find("pocl:basic").context is device.context


def test_loading_leaves_the_environment_alone():
    script = (
        "import os; os.environ.pop('PYOPENCL_HOME', None); before = dict(os.environ)\n"
        "import refxla.runtime.devices as d, sys\n"
        "assert 'pyopencl' not in sys.modules and dict(os.environ) == before\n"
        "d.devices()\n"
        "assert {k: v for k, v in os.environ.items() if k != 'PYOPENCL_HOME'} == before\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_users_choice_of_pocl_devices_is_kept():
    script = "import refxla.runtime.devices as d; print([x.name for x in d.devices() if x.name.startswith('pocl')])"
    environment = {**os.environ, "POCL_DEVICES": "basic"}
    out = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['pocl']"


THREADS = """
import os
import refxla.runtime.devices as d
from refxla.runtime.pocl.platform import threads
before = threads()
d.devices()
print(*sorted(f"{sorted(os.sched_getaffinity(t))}" for t in threads() - before))
"""


def cores_of_threads(**environment: str) -> tuple[list[str], list[str]]:
    """The cores that each of the threads of OpenCL may use, and those that this process may."""
    environment = (
        {k: v for k, v in os.environ.items() if k != "POCL_AFFINITY"} | {"POCL_DEVICES": "pthread"} | environment
    )
    command = [sys.executable, "-c", THREADS]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\[.*?\]", out), sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads are not told apart")
def test_pocls_threads_have_a_core_each_unless_the_user_decides():
    found, cores = cores_of_threads()
    assert found == sorted(f"[{c}]" for c in cores)
    found, cores = cores_of_threads(POCL_AFFINITY="0")
    assert found == [str(cores)] * len(cores)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads are not told apart")
def test_threads_stay_as_they_are_where_they_are_not_one_for_each_core():
    found, cores = cores_of_threads(POCL_MAX_PTHREAD_COUNT="1")
    assert found == [str(cores)]  # on one core both are the same


def test_pocl_without_devices_is_not_said_to_be_missing():
    """The setting that hides them is named."""
    script = "import refxla.runtime.devices as d; d.choose('cpu')"
    environment = {**os.environ, "POCL_DEVICES": "none of them", "OCL_ICD_VENDORS": "/nowhere"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert "unset POCL_DEVICES: it is 'none of them', and PoCL has only the devices" in ended.stderr
    assert "pip install" not in ended.stderr


def test_a_gpu_comes_first_and_a_simulator_never(only):
    gpu, pocl, intel, simulator = (
        fake(*d) for d in (("nvidia:0", "gpu"), ("pocl", "cpu"), ("intel", "cpu"), ("oclgrind", "simulator"))
    )
    only(simulator, intel, pocl, gpu)
    device, reason = choose()
    assert device.name == "nvidia:0" and "GPU" in reason and device.why == reason
    only(simulator, intel, pocl)
    assert choose()[0].name == "pocl"
    only(intel, simulator)
    assert choose()[0].name == "intel"
    only(simulator)
    with pytest.raises(DeviceError, match="simulator"):
        choose()
    assert choose("oclgrind")[0].name == "oclgrind"


def test_who_decides(only, monkeypatch):
    only(fake("pocl", "cpu"), fake("pocl:basic", "cpu"), fake("nvidia:0", "gpu"))
    monkeypatch.setenv("REFXLA_DEVICE", "pocl:basic")
    assert choose()[0].name == "pocl:basic" and "REFXLA_DEVICE" in choose()[1]
    assert choose("pocl") == (fake("pocl", "cpu"), "it was asked for")
    assert find("nv").name == "nvidia:0"  # enough of the name
    monkeypatch.setenv("REFXLA_DEVICE", "cuda")
    with pytest.raises(DeviceError, match="no device is called 'cuda' .REFXLA_DEVICE names it.; there are: nvid"):
        choose()
    with pytest.raises(DeviceError, match="2 devices have names that start with 'po'"):
        find("po")


def test_the_interpreter_is_no_device(only, monkeypatch):
    only(fake("pocl", "cpu"))
    monkeypatch.setenv("REFXLA_DEVICE", "reference")
    message = "REFXLA_DEVICE names it.*is no device.*refxla.compile.f, device='reference'.*devices are: pocl"
    with pytest.raises(DeviceError, match=message):
        choose()


def test_devices_by_kind(only):
    only(*(fake(n, k) for n, k in (("nvidia:1", "gpu"), ("nvidia:0", "gpu"), ("intel", "cpu"), ("pocl", "cpu"))))
    found = {name: find(name).name for name in ("gpu", "gpu:0", "gpu:1", "cpu", "cpu:1", "nvidia:1")}
    assert found == {
        "gpu": "nvidia:0", "gpu:0": "nvidia:0", "gpu:1": "nvidia:1", "cpu": "pocl", "cpu:1": "intel",
        "nvidia:1": "nvidia:1",
    }  # fmt: skip
    for missing in ("gpu:2", "gpu:", "gpu:x", "accelerator"):
        with pytest.raises(DeviceError, match=f"no device is called '{missing}' .it was asked for.; there are: nv"):
            find(missing)


def test_a_kind_of_which_there_is_none(only):
    only(fake("pocl", "cpu"))
    for name in ("gpu", "gpu:1"):
        with pytest.raises(DeviceError, match=f"no GPU was found, and '{name}' is one .*there are: pocl.*; .*doctor"):
            find(name)


def test_no_devices(only):
    only()
    with pytest.raises(DeviceError, match="pip install 'pyopencl\\[pocl\\]'"):
        choose()
    assert devices.devices() == ()


def test_no_platform(tmp_path):
    """pyopencl as it is without its pocl extra: a copy made of links, without the files that name platforms."""
    import pyopencl

    original = Path(pyopencl.__file__).parent
    copy = tmp_path / "pyopencl"
    (copy / ".libs").mkdir(parents=True)
    for folder in ("", ".libs"):
        for path in (original / folder).iterdir():
            if path.name != ".libs" and path.suffix != ".icd":
                (copy / folder / path.name).symlink_to(path)
    (tmp_path / "vendors").mkdir()
    script = (
        "import refxla.runtime.devices as d\n"
        "from refxla_spec.errors import DeviceError\n"
        "assert d.devices() == ()\n"
        "try: d.find()\n"
        "except DeviceError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OCL_ICD_VENDORS": str(tmp_path / "vendors")}
    out = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert "no OpenCL device was found" in out.stdout and "pip install 'pyopencl[pocl]'" in out.stdout


def test_no_pyopencl(monkeypatch):
    monkeypatch.setattr(discovery, "_devices", None)
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceError, match="pyopencl cannot be loaded.*pip install 'pyopencl\\[pocl\\]'"):
        devices.devices()


def test_a_device_that_computes_wrongly_has_no_target(device, monkeypatch):
    from refxla.runtime import device_probe

    broken = find("pocl")
    monkeypatch.setattr(device_probe, "properties", lambda _: device_probe.Properties(works=False, problem="it gave 3"))
    with pytest.raises(DeviceError, match="does not run a small program correctly: it gave 3"):
        _ = broken.target


def test_the_query_of_another_vendor_is_no_error(device):
    """A driver answers what it does not know with an error: the width of an AMD GPU is found, and none is none."""
    from types import SimpleNamespace

    import pyopencl as cl

    from refxla.runtime.devices import _sub_group

    class Amd:
        wavefront_width_amd = 64
        warp_size_nv = property(lambda self: device.raw.warp_size_nv)  # PoCL has no such query

    with pytest.raises(cl.Error):
        _ = Amd().warp_size_nv
    assert _sub_group(Amd()) == 64
    assert _sub_group(SimpleNamespace(warp_size_nv=32)) == 32
    assert _sub_group(device.raw) == 0


def test_a_gpu_is_the_default_unless_the_cpu_was_measured_to_be_faster(only, monkeypatch):
    only(fake("pocl", "cpu"), fake("nvidia:0", "gpu"))
    rates: dict[str, MeasuredRates] = {}
    monkeypatch.setattr(calibration, "known_rates", lambda device: rates.get(device.name))
    assert choose()[0].name == "nvidia:0" and choose()[1] == "the best of 2 devices: a GPU comes before a CPU"
    rates["nvidia:0"] = MeasuredRates(30.0, 500.0, 6.0)
    assert choose()[0].name == "nvidia:0" and "comes before" in choose()[1]
    rates["pocl"] = MeasuredRates(15.0, 100.0, 3.0)
    assert choose()[0].name == "nvidia:0"
    assert choose()[1] == "the best of 2 devices: it was measured to be faster, 120 GB/s against 60 GB/s"
    rates["nvidia:0"] = MeasuredRates(5.0, 50.0, 6.0)
    assert [d.name for d in devices.devices()] == ["pocl", "nvidia:0"]
    assert choose()[1] == "the best of 2 devices: it was measured to be faster, 60 GB/s against 20 GB/s"
    assert find("gpu").name == "nvidia:0"


def test_work_groups_are_merged_where_that_is_asked_for(monkeypatch):
    for value, merges in (("", False), ("work-groups", True)):
        monkeypatch.setenv(devices.MERGING, value)
        assert devices._merges_work_groups() == merges
    monkeypatch.setenv(devices.MERGING, "yes")
    with pytest.raises(InputError, match="REFXLA_GPU_MERGING is 'yes': say work-groups"):
        devices._merges_work_groups()
