"""Tests of StableHLO's repository, taken apart and run: written here in its forms, each outcome once."""

import json

import numpy as np
import pytest
from refxla_conformance.stablehlo_data import extract
from refxla_conformance.stablehlo_data.__main__ import main
from refxla_conformance.stablehlo_data.checks import Check

pytest.importorskip("jaxlib")

JAX_DATA = """
module @jit_main {
  func.func public @main() -> (tensor<2x2xf32> {jax.result_info = ""}) {
    %0:2 = call @inputs() : () -> (tensor<2x2xf32>, tensor<f32>)
    %1 = call @expected() : () -> tensor<2x2xf32>
    %2 = call @f(%0#0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true}
        : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
    return %2 : tensor<2x2xf32>
  }
  func.func private @f(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.sqrt %a : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
  func.func private @inputs() -> (tensor<2x2xf32>, tensor<f32>) {
    %0 = stablehlo.constant dense<[[4.0, 9.0], [0.0, 2.0]]> : tensor<2x2xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    return %0, %1 : tensor<2x2xf32>, tensor<f32>
  }
  func.func private @expected() -> tensor<2x2xf32> {
    %0 = stablehlo.constant dense<[[2.0, 3.0], [0.0, LAST]]> : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
"""

INTERPRET = """
// RUN: a runner
func.func @pad() {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %result = stablehlo.pad %a, %zero, low = [1], high = [0], interior = [0]
      : (tensor<2xi64>, tensor<i64>) -> tensor<3xi64>
  check.expect_eq_const %result, dense<[0,
                                        1, 2]> : tensor<3xi64>
  func.return
}

// -----

func.func @complex() {
  %a = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  %result = stablehlo.add %a, %a : tensor<complex<f32>>
  check.expect_almost_eq_const %result, dense<(2.0, 4.0)> : tensor<complex<f32>>
  "check.expect_eq_const"(%result) <{value = dense<(2.0, 4.0)> : tensor<complex<f32>>}> : (tensor<complex<f32>>) -> ()
  check.expect_close %result, %a, max_ulp_difference = 9000000, min_ulp_difference = 5
      : tensor<complex<f32>>, tensor<complex<f32>>
  func.return
}

// -----

func.func @wrong() {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %result = stablehlo.negate %a : tensor<2xi64>
  check.expect_eq_const %result, dense<[-1, 2]> : tensor<2xi64>
  func.return
}

// -----

module @replicas {
  func.func @f(%a: tensor<2xi64>) -> tensor<2xi64> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<i64>, %y: tensor<i64>):
        %1 = stablehlo.add %x, %y : tensor<i64>
        stablehlo.return %1 : tensor<i64>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi64>) -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %b = stablehlo.constant dense<[3, 5]> : tensor<2xi64>
    %r:2 = "interpreter.run_parallel"(%a, %b) {programs = [[@f], [@f]]}
      : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<[4, 7]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[4, 7]> : tensor<2xi64>
    func.return
  }
}

// -----

func.func @probe() {
  %a = stablehlo.constant dense<1> : tensor<i64>
  %0 = interpreter.probe %a, probe_id = "p" : tensor<i64>
  check.expect_serialized_eq %0, probe_id = "p" : tensor<i64>
  func.return
}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """What the command writes of a checkout with tests of all kinds."""
    root = tmp_path_factory.mktemp("checkout")
    for folder in ("testdata/dynamic", "tests/interpret"):
        (root / "stablehlo" / folder).mkdir(parents=True)
    data = root / "stablehlo" / "testdata"
    (data / "sqrt.mlir").write_text(JAX_DATA.replace("LAST", "1.4142137"))  # 1 ULP off
    (data / "bad.mlir").write_text(JAX_DATA.replace("LAST", "1.5"))
    (data / "broken.mlir").write_text("module @x {")
    (data / "dynamic" / "d.mlir").write_text("func.func @main(%a: tensor<?xf32>) { return }")
    (root / "stablehlo" / "tests" / "interpret" / "i.mlir").write_text(INTERPRET)
    assert main([str(root), "-j", "1", "--json", str(root / "out.json")]) == 1
    report = json.loads((root / "out.json").read_text())
    assert report["target"] == "reference"
    return {(r["file"].rsplit("/")[-1], r["test"]): r for r in report["tests"]}


def test_each_outcome(rows):
    outcomes = {key: (r["outcome"], r["stage"]) for key, r in rows.items()}
    assert outcomes == {
        ("sqrt.mlir", "main"): ("pass", ""),
        ("bad.mlir", "main"): ("fail", "check"),
        ("broken.mlir", ""): ("unsupported", "mlir"),
        ("d.mlir", ""): ("no data", ""),
        ("i.mlir", "0:pad"): ("pass", ""),
        ("i.mlir", "1:complex"): ("pass", ""),
        ("i.mlir", "2:wrong"): ("fail", "check"),
        ("i.mlir", "3:main"): ("pass", ""),
        ("i.mlir", "4:probe"): ("unsupported", "mlir"),
    }


def test_what_a_row_says(rows):
    assert rows["sqrt.mlir", "main"]["contract"] == "outside"  # 1 ULP, where sqrt is correctly rounded
    assert rows["sqrt.mlir", "main"]["operations"] == ["stablehlo.sqrt"]
    assert rows["i.mlir", "0:pad"]["contract"] == "same bits"
    reason = rows["bad.mlir", "main"]["reason"]
    assert "1 of 4 elements differ, at [1, 1]" in reason and "allowed 3 ULP" in reason
    assert "1 of 2 elements differ, at [1]" in rows["i.mlir", "2:wrong"]["reason"]


def test_inputs_are_parameters_and_nothing_else_is_left():
    from refxla.frontends.stablehlo import Converter

    (test,) = extract.tests(JAX_DATA.replace("LAST", "1.0"))
    with Converter() as convert:
        main_module = convert(test.main)
    assert [str(p.shape.without_layout()) for p in main_module.entry.parameters] == ["f32[2,2]", "f32[]"]
    assert {i.opcode for i in main_module.instructions()} == {"parameter", "call", "sqrt"}


@pytest.mark.parametrize(
    "check, got, expected, holds",
    [
        (Check("eq"), [1.0, np.nan, -0.0], [1.0, np.nan, 0.0], True),
        (Check("eq"), [1.0], [1.0000001], False),
        (Check("eq", 1e-4), [1.0], [1.00005], True),
        (Check("almost", 0.1), [1.0, np.inf], [1.05, np.inf], True),
        (Check("almost", 0.1), [np.inf], [1.0], False),
        (Check("close", 3), [1.0, np.nan], [1.0000002, np.nan], True),
        (Check("close", 3), [1.0], [1.000001], False),
        (Check("close", 3), [np.inf], [3.4028235e38], False),
        (Check("close", 9, least=2), [1.0], [1.0000001], False),
        (Check("close", 2.0**64, least=2.0**64), [np.inf], [-np.inf], True),
    ],
)
def test_checks(check, got, expected, holds):
    difference = check.difference(np.array(got, np.float32), np.array(expected, np.float32))
    assert (difference == "") is holds


def test_what_is_no_checkout(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "is no checkout of StableHLO" in capsys.readouterr().err
