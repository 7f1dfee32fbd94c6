"""What a device reaches, and the costs that are made of it."""

import json
import subprocess
import sys

import pytest
from refxla_spec.errors import InputError

import refxla
from refxla.compiler import compilation_cache
from refxla.device.description import Costs
from refxla.runtime import calibration, disk_cache
from refxla.runtime.calibration import REFERENCE, MeasuredRates
from refxla.runtime.devices import choose

TEXT = "HloModule m\nENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] add(x, x) }"


def numbers(costs):
    return costs.byte, costs.flop, costs.launch


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Figures are asked for, of which nothing is known yet."""
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("REFXLA_CALIBRATION")
    monkeypatch.setattr(calibration, "_costs", {})
    return choose(None)[0]


def keep(device, made):
    disk_cache.cache().put(calibration._entry(device), json.dumps(vars(made)).encode())


def test_costs_are_scaled_in_powers_of_two():
    assert numbers(REFERENCE.costs()) == numbers(Costs())
    usual = Costs()
    half = MeasuredRates(REFERENCE.bandwidth / 2, REFERENCE.arithmetic * 4, REFERENCE.launch * 8)
    assert numbers(half.costs()) == (usual.byte * 2, usual.flop / 4, usual.launch * 8)
    near = MeasuredRates(REFERENCE.bandwidth * 1.35, REFERENCE.arithmetic / 1.35, REFERENCE.launch * 0.75)
    assert numbers(near.costs()) == numbers(usual)
    wild = MeasuredRates(REFERENCE.bandwidth * 1e9, REFERENCE.arithmetic, REFERENCE.launch)
    assert wild.costs().byte == usual.byte / 16


def test_the_target_has_the_costs_and_so_has_the_key(asked):
    text = refxla.parse(TEXT)
    usual = asked.target
    assert usual.costs == Costs()
    keep(asked, MeasuredRates(REFERENCE.bandwidth / 4, REFERENCE.arithmetic, REFERENCE.launch))
    assert asked.target == usual  # a process keeps to what it found first
    calibration._costs.clear()
    slow = asked.target
    assert slow.costs == Costs().scaled(byte=4, flop=1, launch=1)
    one, two = (compilation_cache.key("compilation", str(text), asked, t, ()) for t in (usual, slow))
    assert one != two
    made = refxla.compile(TEXT)
    assert "costs: 0.12 ns a byte" in str(made.explain())


def test_what_is_near_the_usual_keys_as_nothing_known(asked):
    usual = asked.target
    keep(asked, MeasuredRates(REFERENCE.bandwidth * 1.2, REFERENCE.arithmetic * 0.8, REFERENCE.launch))
    calibration._costs.clear()
    assert asked.target == usual


def test_what_another_version_kept_is_nothing(asked):
    disk_cache.cache().put(calibration._entry(asked), b'{"speed": 3}')
    assert calibration.load_rates(asked) is None


def test_off_measures_nothing(asked, monkeypatch):
    keep(asked, MeasuredRates(1.0, 1.0, 1.0))
    monkeypatch.setenv("REFXLA_CALIBRATION", "off")
    monkeypatch.setattr(calibration, "_begin", lambda name: pytest.fail("a child begins"))
    assert (
        calibration.load_rates(asked) is None and asked.target.costs == Costs() and calibration.calibrate(asked) is None
    )


def test_another_word_is_an_error(asked, monkeypatch):
    monkeypatch.setenv("REFXLA_CALIBRATION", "of")
    with pytest.raises(InputError, match="REFXLA_CALIBRATION is 'of': say off"):
        _ = asked.target
    monkeypatch.setenv("REFXLA_CALIBRATION", "")
    assert asked.target.costs == Costs()


def test_a_child_measures(asked, monkeypatch):
    """It keeps what it finds, or nothing on a machine that others keep busy."""
    children = []
    begin = calibration._begin
    monkeypatch.setattr(calibration, "_begin", lambda name: children.append(begin(name)) or children[-1])
    made = calibration.calibrate(asked)
    (child,) = children
    assert child.returncode == 0
    assert made is None or (made.bandwidth > 0.1 and made.arithmetic > 0.1 and made.launch > 0.01)


@pytest.mark.parametrize("known", [False, True])
def test_a_program_is_compiled_and_the_device_measured_when_the_process_ends(asked, known):
    """Once, and only if nothing is known of it: what the user runs meanwhile has the cores to itself."""
    if known:
        keep(asked, REFERENCE)
    script = f"""
import refxla
from refxla.runtime import calibration
calibration._begin = lambda name: print("measures", name, flush=True)
for operation in ("add", "multiply"):
    refxla.compile({TEXT!r}.replace("add", operation), device={asked.name!r})
print("ends", flush=True)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.stdout.split("\n")[:-1] == (["ends"] if known else ["ends", f"measures {asked.name}"]), ended.stderr
