import os
import subprocess
import sys

import pytest
from refxla_spec.errors import InputError

from refxla.runtime import cores as limits
from refxla.runtime.cores import VARIABLE, Cores, cores


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of 8 cores without limits; returns where its control groups and the memberships of this process lie."""
    monkeypatch.setattr(limits.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(limits, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "_MEMBERSHIP", tmp_path / "membership")
    limits._quota.cache_clear()
    monkeypatch.delenv(VARIABLE, raising=False)
    yield tmp_path
    limits._quota.cache_clear()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    limits._quota.cache_clear()


def test_affinity_and_what_the_user_asks_for(machine, monkeypatch):
    assert cores() == Cores(8)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: {1, 2, 5}, raising=False)
    assert cores() == Cores(3, "affinity")
    monkeypatch.setenv(VARIABLE, "2")
    assert cores() == Cores(2, VARIABLE)
    monkeypatch.setenv(VARIABLE, "64")
    assert cores() == Cores(3, "affinity")
    for wrong in ("0", "-1", "two"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(InputError, match=f"REFXLA_THREADS is '{wrong}'"):
            cores()


@pytest.mark.parametrize(
    "quota, expected",
    [("max 100000", Cores(8)), ("400000 100000", Cores(4, "a control group's quota of 4 cores")),
     ("250000 100000", Cores(2, "a control group's quota of 2.5 cores")),
     ("50000 100000", Cores(1, "a control group's quota of 0.5 cores")), ("what 0", Cores(8))],
)  # fmt: skip
def test_the_quota_of_a_control_group_or_one_around_it(machine, quota, expected):
    write(machine / "membership", "0::/a/b\n")
    write(machine / "cgroup/a/b/cpu.max", "max 100000\n")
    write(machine / "cgroup/a/cpu.max", quota)
    assert cores() == expected


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_the_quota_of_version_1(machine, folder):
    write(machine / "membership", "4:cpu,cpuacct:/docker/x\n2:memory:/\n0::/\n")  # inside, the group is the root
    write(machine / "cgroup" / folder / "cpu.cfs_quota_us", "300000")
    write(machine / "cgroup" / folder / "cpu.cfs_period_us", "100000")
    assert cores() == Cores(3, "a control group's quota of 3 cores")
    write(machine / "cgroup" / folder / "cpu.cfs_quota_us", "-1")
    assert cores() == Cores(8)


def test_devices_have_no_more_cores_than_that():
    code = "import refxla; print({d.compute_units for d in refxla.devices() if d.kind == 'cpu'})"
    environment = os.environ | {VARIABLE: "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "{1}\n", done.stderr
