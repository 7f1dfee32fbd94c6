"""Sweeps find the largest error there is, and what is wrong with functions that are made wrong on purpose."""

import argparse
import json

import numpy as np
import pytest
from refxla_conformance.sweep import command, functions, measure, table
from refxla_conformance.sweep.precise import error_at, suspect
from refxla_conformance.targets.compiled import Compiled
from refxla_conformance.targets.reference import Reference
from refxla_spec.errors import InputError
from refxla_spec.operation import operation


def one(opcode, type_, result=None):
    return next(f for f in functions([opcode], [type_]) if result in (None, f.result.name))


def options(*arguments):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("opcode", ["tanh", "exponential", "sine", "sqrt", "round-nearest-even"])
@pytest.mark.parametrize("type_", ["f16", "bf16", "f8e4m3fn", "f8e8m0fnu", "f4e2m1fn"])
def test_every_operand_of_a_narrow_type(opcode, type_):
    function = one(opcode, type_)
    found = measure(function, Compiled().load)
    assert found.swept == 2**function.operand.bits
    assert found.is_kept
    if function.bound and function.operand.bits == 16:
        assert found.error > 0.4  # among so many operands some results lie near a tie


@pytest.mark.parametrize("opcode", ["exponential", "log-plus-one", "cosine", "abs"])
def test_a_sample_of_f32(opcode):
    function, load = one(opcode, "f32"), Compiled().load
    found = measure(function, load, sample=4096)
    assert found.swept == 2**20 and found.is_kept
    assert not suspect(function, load)
    if function.bound:
        assert abs(error_at(function, found.bits, load) - found.error) < 1e-4


@pytest.mark.parametrize("opcode", ["add", "divide", "power", "maximum", "compare"])
def test_a_sample_of_pairs(opcode):
    function, load = one(opcode, "bf16"), Compiled().load
    found = measure(function, load, sample=16384)
    assert found.is_kept, found
    assert not suspect(function, load)


class Wrong:
    """The reference, with one operation that gives something else for some operands."""

    def __init__(self, monkeypatch, opcode, change):
        rule = operation(opcode)
        right = rule.evaluate

        def evaluate(instruction, *operands):
            result = right(instruction, *operands)
            return result if result.dtype == np.float64 else change(result, *operands)

        monkeypatch.setitem(rule.__dict__, "evaluate", evaluate)  # a frozen dataclass
        self.load = Reference().load


def test_an_error_in_one_operand_is_found(monkeypatch):
    """One result of 65536 is two steps off."""

    def off(result, x):
        return np.where(x == np.float16(0.5), result + np.float16(2 * 2**-12), result)

    function = one("tanh", "f16")
    found = measure(function, Wrong(monkeypatch, "tanh", off).load)
    assert not found.is_kept and found.operands == (0.5,) and 1 < found.error < 3


def test_a_special_value_that_is_missed(monkeypatch):
    def lost(result, x):
        return np.where(x == x, result, np.zeros_like(result))

    found = measure(one("tanh", "bf16"), Wrong(monkeypatch, "tanh", lost).load)
    assert not found.is_kept and np.isnan(found.operands[0].astype(np.float32))
    assert 0.4 < found.error < 0.5  # of the other operands


def test_subnormals_of_a_target_that_flushes_them_do_not_count(monkeypatch):
    def flushed(result, x):
        return np.where(np.abs(result) < np.finfo(np.float16).tiny, np.copysign(np.float16(0), result), result)

    load = Wrong(monkeypatch, "tanh", flushed).load
    assert not measure(one("tanh", "f16"), load).is_kept
    assert measure(one("tanh", "f16"), load, normal=True).is_kept


def test_wide_values_that_are_wrong_judge_nothing():
    """f64 results that are a relative 1e-6 off may give the same rounded ones, and are not to be trusted."""

    def rough(module):
        run = Reference().load(module)
        return lambda arguments: [part * (1 + 1e-6) for part in run(arguments)]

    function = one("sine", "f16")
    assert not suspect(function, Reference().load)
    assert "in f64 is" in suspect(function, rough)


def test_the_command_writes_a_table(tmp_path, capsys):
    path = tmp_path / "worst.json"
    status = command.main(options("tanh", "floor", "--types", "f16,bf16", "--json", str(path)))
    assert status == 0
    assert "4 kept, 0 broken" in capsys.readouterr().out
    rows = table.read(path)
    assert [row.function for row in rows] == ["floor of bf16", "floor of f16", "tanh of bf16", "tanh of f16"]
    assert all(row.is_kept and row.swept == 65536 for row in rows)
    assert json.loads(path.read_text())["functions"][2]["bound"] == 1.0
    assert len(list(table.markdown(rows))) == 6


def test_a_file_that_is_no_table(tmp_path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InputError, match="no table of sweeps"):
        table.read(tmp_path / "other.json")
