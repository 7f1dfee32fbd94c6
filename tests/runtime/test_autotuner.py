"""The search for the blocks of matrix products: what it tries, what it keeps, and that results keep their bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.cli.main import main
from refxla.compiler import autotuner
from refxla.compiler.planning import plan_module
from refxla.device.tile_configurations import SPACE, TileConfiguration, neighbours, product_of, signature
from refxla.runtime import disk_cache
from refxla.runtime.devices import find

PROGRAM = """HloModule m
ENTRY main {
  a = f32[70,90] parameter(0)
  b = f32[90,50] parameter(1)
  bias = f32[50] parameter(2)
  c = f32[70,50] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[70,50] broadcast(bias), dimensions={1}
  ROOT d = f32[70,50] add(c, wide)
}"""
CONVOLUTION = """HloModule m
ENTRY main {
  a = f32[2,17,19,8] parameter(0)
  b = f32[3,3,8,24] parameter(1)
  ROOT c = f32[2,17,19,24] convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}"""


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    return disk_cache.cache()


def arguments(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse(text).entry.parameters]
    return [rng.standard_normal(s.dimensions).astype(np.float32) for s in shapes]


def the_fusion(text: str):
    plan = plan_module(parse(text), find("pocl").target)[1].plan
    return next(f for f in plan.fusions if f.kind in ("dot", "convolution"))


class FakeTimer:
    """Says what `cost` says of the configuration, and remembers what it was asked; no device is used."""

    def __init__(self, cost: Callable[[TileConfiguration], float | None]) -> None:
        self.cost = cost
        self.asked: list[TileConfiguration] = []
        self.confirmed = True

    def confirms(self, module, configurations) -> bool:
        return self.confirmed

    def __call__(self, module, target) -> float | None:
        configuration = next(iter(target.tile_configurations.values()), TileConfiguration())
        self.asked.append(configuration)
        return self.cost(configuration)


def found(text: str, cost: Callable[[TileConfiguration], float | None]) -> tuple[TileConfiguration, FakeTimer]:
    fusion, timer = the_fusion(text), FakeTimer(cost)
    device = find("pocl")
    best = autotuner.search(autotuner.program_of(fusion), signature(fusion), device.target, timer, lambda: None)
    return best, timer


def test_the_quickest_value_of_each_field_is_taken():
    wanted = TileConfiguration(tile=(4, 6), panels="direct", terms=256, columns=64, rows=24)

    def cost(configuration: TileConfiguration) -> float:
        return 100 - 10 * sum(getattr(configuration, f) == getattr(wanted, f) for f in SPACE)

    best, timer = found(PROGRAM, cost)
    assert best == wanted
    assert timer.asked[0] == TileConfiguration(), "the rules come first: they are what is to be beaten"
    assert len(timer.asked) == 1 + sum(len(values) for values in SPACE.values())


def test_what_is_hardly_quicker_or_not_new_is_not_taken():
    assert found(PROGRAM, lambda c: 1.0 if c == TileConfiguration() else 0.99)[0] == TileConfiguration()
    assert found(PROGRAM, lambda c: 1.0 if c == TileConfiguration() else None)[0] == TileConfiguration()


def test_neighbours_differ_in_one_field():
    start = TileConfiguration(terms=256)
    values = [c.terms for c in neighbours(start, "terms")]
    assert values == [None, *(v for v in SPACE["terms"] if v != 256)]
    assert all(replace(c, terms=256) == start for c in neighbours(start, "terms"))


def test_what_was_found_is_kept_by_product_and_device(empty_cache):
    device, fusion = find("pocl"), the_fusion(PROGRAM)
    timers = []

    def timer():
        timers.append(FakeTimer(lambda c: 1.0 if c.tile == (8, 2) else 2.0))
        return timers[-1]

    want = {signature(fusion): TileConfiguration(tile=(8, 2))}
    assert autotuner.tune([fusion, fusion], device, timer) == want
    assert len(timers) == 1, "one product, however often it occurs"
    assert autotuner.tune([fusion], device, timer) == want
    assert len(timers) == 1, "the second time it comes from the disk"
    assert autotuner.tune([fusion], replace(device, driver="another"), timer) == want
    assert len(timers) == 2, "another driver is measured anew"
    assert autotuner.tune([the_fusion(CONVOLUTION)], device, timer).keys() != want.keys()
    assert len(timers) == 3


def test_what_does_not_hold_in_turns_is_not_taken(empty_cache):
    def timer():
        made = FakeTimer(lambda c: 1.0 if c.tile == (8, 2) else 2.0)
        made.confirmed = False
        return made

    assert autotuner.tune([the_fusion(PROGRAM)], find("pocl"), timer) == {}


def test_turns_decide_by_their_medians(monkeypatch):
    times = {"rules": iter([10, 10, 30, 10, 10, 10, 10]), "best": iter([9, 11, 9, 9, 11, 9, 9])}
    measure = autotuner._OnDevice(find("pocl"))
    monkeypatch.setattr(measure, "program", lambda m, t: ("", lambda: "best" if t.tile_configurations else "rules"))
    monkeypatch.setattr(measure, "seconds", lambda m, executable: next(times[executable]))
    assert measure.confirms(None, {"a product": TileConfiguration(terms=256)})
    times |= {"rules": iter([10] * 7), "best": iter([5, 5, 5, 10, 10, 10, 10])}
    assert not measure.confirms(None, {"a product": TileConfiguration(terms=256)})


def test_small_products_are_left_to_the_rules(empty_cache):
    fusion = the_fusion(PROGRAM.replace("90", "8"))
    assert autotuner.tune([fusion], find("pocl"), lambda: pytest.fail("measured")) == {}


def test_a_signature_tells_products_apart_but_not_their_names_or_consumers():
    name = signature(the_fusion(PROGRAM))
    assert name == signature(the_fusion(PROGRAM.replace("a)", "x)").replace("a =", "x =").replace("a,", "x,")))
    assert name == signature(the_fusion(PROGRAM.replace("add(c", "multiply(c")))
    assert name != signature(the_fusion(PROGRAM.replace("70", "71")))
    turned = PROGRAM.replace("a = f32[70,90]", "a = f32[90,70]").replace("contracting_dims={1}", "contracting_dims={0}")
    assert name != signature(the_fusion(turned))


def test_the_program_that_is_measured_is_the_product_alone():
    fusion = the_fusion(PROGRAM)
    inputs, members = product_of(fusion)
    assert [i.name for i in inputs] == ["a", "b"] and members[-1] is fusion.hero
    module = autotuner.program_of(fusion)
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "parameter", "dot"]
    assert signature(the_fusion(str(module))) == signature(fusion)


CONFIGURATIONS = (
    TileConfiguration(tile=(8, 3), panels="packed", terms=32),
    TileConfiguration(tile=(3, 8), panels="local", columns=16, rows=12),
    TileConfiguration(tile=(12, 1), panels="direct", rows=24),
    TileConfiguration(tile=(4, 4), terms=7, columns=32, rows=192),
)


@pytest.mark.parametrize("text", [PROGRAM, CONVOLUTION])
def test_no_configuration_changes_a_bit(text, monkeypatch):
    values = arguments(text)
    plain = refxla.compile(text, device="pocl")
    want, sources = plain(*values), {plain.opencl}
    for configuration in CONFIGURATIONS:
        monkeypatch.setattr(
            autotuner, "tune", lambda fusions, device, c=configuration: {signature(f): c for f in fusions}
        )
        tuned = refxla.compile(text, device="pocl", tune=True)
        assert np.array_equal(tuned(*values).view(np.uint32), want.view(np.uint32)), configuration
        sources.add(tuned.opencl)
    assert len(sources) == 1 + len(CONFIGURATIONS), "every configuration makes other kernels"


def test_compile_measures_on_the_device(empty_cache, monkeypatch):
    monkeypatch.setattr(autotuner, "SPACE", {"tile": ((6, 2),)})
    monkeypatch.setitem(SPACE, "tile", ((6, 2), (4, 3)))
    monkeypatch.setattr(autotuner, "SECONDS", 0.0)
    values = arguments(PROGRAM)
    want = refxla.compile(PROGRAM, device="pocl")(*values)
    before = empty_cache.size()
    assert np.array_equal(refxla.compile(PROGRAM, device="pocl", tune=True)(*values), want)
    assert empty_cache.size() > before
    monkeypatch.setattr(autotuner, "search", lambda *_: pytest.fail("measured again"))
    refxla.compile(PROGRAM, device="pocl", tune=True)


def test_the_command_line_tunes(tmp_path, monkeypatch, capsys):
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM)
    configuration = TileConfiguration(tile=(4, 3), columns=24)
    monkeypatch.setattr(autotuner, "tune", lambda fusions, device: {signature(f): configuration for f in fusions})
    shown = []
    for options in (["show", str(path), "--opencl"], ["show", str(path), "--opencl", "--tune"]):
        assert main([*options, "--device", "pocl"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] != shown[1]
    assert main(["run", str(path), "--random", "0", "--check", "--tune", "--device", "pocl"]) == 0
