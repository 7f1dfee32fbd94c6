"""StableHLO in: text, bytecode, artifacts and exports become HLO through jaxlib; what is broken is an error."""

import random
import sys

import numpy as np
import pytest
from refxla_spec import equality, interpreter
from refxla_spec.errors import Error, InputError, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.verify import verify

import refxla
from refxla.frontends import load
from refxla.frontends.stablehlo import Converter, from_stablehlo, is_stablehlo, to_stablehlo

jax = pytest.importorskip("jax")
X = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)

TEXT = """\
// RUN: a comment before the module
module @two {
  func.func public @main(%a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32, mhlo.sharding = "{replicated}"},
                         %b: tensor<f32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
    %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %1 = stablehlo.multiply %a, %0 : tensor<2x3xf32>
    %2 = call @last(%1) : (tensor<2x3xf32>) -> tensor<3xf32>
    return %1, %2 : tensor<2x3xf32>, tensor<3xf32>
  }
  func.func private @last(%a: tensor<2x3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.slice %a [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""


def one(body: str, types: str = "tensor<3xf32>") -> str:
    return f"func.func public @main(%a: {types}) -> {types} {{\n  {body}\n  return %0 : {types}\n}}\n"


@pytest.fixture(scope="module")
def convert():
    with Converter() as made:
        yield made


@pytest.fixture(scope="module")
def forms():
    """The program in bytecode and as a portable artifact, of the current version and of an old one."""
    import io

    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(TEXT.replace("tf.aliasing_output = 0 : i32, ", ""))
        data = io.BytesIO()
        module.operation.write_bytecode(data)
        versions = (stablehlo.get_current_version(), "1.0.0")
        artifacts = [stablehlo.serialize_portable_artifact_str(str(module), v) for v in versions]
    return [data.getvalue(), *artifacts]


def test_what_looks_like_stablehlo_and_what_does_not():
    assert is_stablehlo(TEXT) and is_stablehlo("module {}") and is_stablehlo("#loc = loc(unknown)\nmodule @m {}")
    assert is_stablehlo(one("%0 = stablehlo.abs %a : tensor<3xf32>")) and is_stablehlo(b"ML\xefR...")
    assert is_stablehlo('"builtin.module"() ({ }) : () -> ()')
    assert is_stablehlo('// a mesh\nsdy.mesh @m = <["a"=2]>\nfunc.func @main() { return }')
    assert is_stablehlo('"sdy.mesh"() <{sym_name = "m"}> : () -> ()')
    hlo = "module {\n  ROOT x = f32[2] parameter(0)\n}\n\nENTRY e {\n  ROOT z = f32[2] parameter(0)\n}"
    for text in (
        "HloModule m\n",
        "",
        "// module @m {",
        "ENTRY e { ROOT z = f32[2] parameter(0) }",
        "sdy.mesh { ROOT z = f32[] parameter(0) }",
        hlo,
    ):
        assert not is_stablehlo(text)
    assert not is_stablehlo(b"HloModule m") and not is_stablehlo(b"\n\x03abc")


def test_text_runs_with_its_results_as_a_tuple():
    exe = refxla.compile(TEXT)
    both, last = exe(X, np.float32(2))
    np.testing.assert_array_equal(both, X * 2)
    np.testing.assert_array_equal(last, X[1] * 2)
    assert exe.hlo.name == "two" and "input_output_alias" in str(exe.hlo).split("\n")[0]
    single = refxla.compile(one("%0 = stablehlo.abs %a : tensor<3xf32>"), device="reference")
    assert isinstance(single(X[0]), np.ndarray)
    nothing = refxla.parse("func.func public @main() { return }")
    assert interpreter.run(nothing, []) == ()


def test_bytecode_and_artifacts_are_the_same_program(forms, convert, tmp_path):
    wanted = interpreter.run(refxla.parse(TEXT), [X, np.float32(3)])
    for n, data in enumerate(forms):
        for module in (convert(data), load(data) if not n else None):
            if module is not None:
                for got, expected in zip(interpreter.run(module, [X, np.float32(3)]), wanted, strict=True):
                    np.testing.assert_array_equal(got, expected)
    path = tmp_path / "program.dat"
    path.write_bytes(forms[1])
    assert equality.difference(load(path), convert(forms[1])) is None
    path.write_text(TEXT)
    assert load(str(path)).name == "two"


def test_what_jax_lowers_with_chlo_in_it():
    def f(x):
        return {"e": jax.lax.erf_inv(x), "l": jax.lax.lgamma(x), "t": jax.lax.top_k(x, 2)[0], "s": jax.numpy.sinh(x)}

    text = jax.jit(f).lower(X).as_text()
    assert "chlo.erf_inv" in text
    for got, wanted in zip(refxla.compile(text)(X), jax.tree.leaves(jax.jit(f)(X)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_sizes_that_follow_from_constants_are_found():
    text = """func.func public @main() -> tensor<?x?xi64> {
      %s = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
      %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<?x?xi64>
      return %0 : tensor<?x?xi64>
    }"""
    assert interpreter.run(refxla.parse(text), []).tolist() == [[k] * 4 for k in range(3)]


def test_an_export_is_called_as_the_function_was():
    from jax import export

    def f(unused, d):
        return {"s": d["a"] * 2 + 1, "t": d["b"].T}

    given = {"a": X, "b": np.arange(6).reshape(2, 3)}
    exported = export.deserialize(export.export(jax.jit(f))(1.0, given).serialize())
    exe = refxla.compile(exported)
    got = exe(1.0, given)
    np.testing.assert_array_equal(got["s"], X * 2 + 1)
    np.testing.assert_array_equal(got["t"], given["b"].T)
    assert "transpose" in str(exe.hlo) and "f" in repr(exe)
    with pytest.raises(InputError, match="for 2 positional arguments"):
        exe(given)
    with pytest.raises(InputError, match="compile it alone"):
        refxla.compile(exported, X)
    with pytest.raises(UnsupportedError, match="one platform"):
        refxla.compile(export.export(jax.jit(f), platforms=("cpu", "tpu"))(1.0, given))
    with pytest.raises(UnsupportedError, match="known"):
        refxla.compile(export.export(jax.jit(abs))(jax.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)))


@pytest.mark.parametrize(
    "text, kind, line, words",
    [
        (one("%0 = stablehlo.add %a, %a : tensor<4xf32>"), ParseError, 2, "different type than prior uses"),
        (one("%0 = toy.add %a : tensor<3xf32>"), ParseError, 2, "Dialect `toy' not found"),
        (one("%0 = stablehlo.abs %b : tensor<3xf32>"), ParseError, 2, "undeclared SSA value"),
        ("func.func @other() { return }", InvalidProgramError, None, "begins with its function @main"),
        ("module {}", InvalidProgramError, None, "begins with its function @main"),
        (
            one("%0 = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<3xf32>"),
            ParseError,
            2,
            "uniform_quantize",
        ),
        (
            one("%0 = stablehlo.cbrt %a : tensor<3xcomplex<f64>>", "tensor<3xcomplex<f64>>"),
            UnsupportedError,
            None,
            "floating for cbrt",
        ),
    ],
)
def test_an_error_says_where(text, kind, line, words, convert):
    with pytest.raises(kind) as caught:
        convert(text)
    assert words in str(caught.value)
    if line is not None:
        assert caught.value.line == line and f"line {line}, " in str(caught.value) and "^" in str(caught.value)


def test_a_source_that_the_locations_name_is_shown():
    text = one('%0 = stablehlo.custom_call @f(%a) : (tensor<3xf32>) -> tensor<?xf32> loc("model.py":7:1)')
    with pytest.raises(ParseError):
        refxla.parse(text)
    quantize = """func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 1.0:1>> loc("m.py":7:1)
      %1 = stablehlo.uniform_dequantize %0 : (tensor<3x!quant.uniform<i8:f32, 1.0:1>>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    with pytest.raises(UnsupportedError, match="m.py:7: 'stablehlo.uniform_quantize' .*jaxlib finds no HLO"):
        refxla.parse(quantize)


def test_a_converter_that_aborts_is_an_error_and_is_started_again(convert):
    """jaxlib 0.10 aborts on constants of 6-bit floats; whatever it does to another one, the process goes on."""
    text = """func.func public @main() -> tensor<4xf6E2M3FN> {
      %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 0.5]> : tensor<4xf6E2M3FN>
      return %0 : tensor<4xf6E2M3FN>
    }"""
    try:
        convert(text)
    except UnsupportedError as problem:
        assert "died of signal" in str(problem)
    assert convert(TEXT).name == "two"


@pytest.mark.parametrize("seen", [False, True])
def test_a_converter_that_was_killed_is_an_error_and_is_started_again(seen, convert):
    """While a program is sent, and before: then nobody reads the pipe any more, and what was written stays in it."""
    convert(TEXT)
    convert._child.process.kill()
    if seen:
        convert._child.process.wait()
    with pytest.raises(UnsupportedError, match="died of signal 9"):
        convert(TEXT)
    assert convert(TEXT).name == "two"


def test_mutated_programs_are_errors_and_never_more(forms, convert):
    """Texts with characters changed, bytecode with bytes changed: HLO that verifies, or one of refxla's errors."""
    chance = random.Random(5)
    outcomes = set()
    for source in [TEXT, *forms[:2]] * 40:
        broken = list(source)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(broken))
            if isinstance(source, str):
                broken[at : at + chance.randrange(3)] = chance.choice(list("%@<>{}x?0 9-:") + ["f64", "tensor<", "add"])
            else:
                broken[at] = chance.randrange(256)
        try:
            verify(convert("".join(broken) if isinstance(source, str) else bytes(broken)))
            outcomes.add("valid")
        except Error as problem:
            outcomes.add(type(problem).__name__)
    assert "ParseError" in outcomes


def test_without_jaxlib_the_message_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"jaxlib is not installed: pip install 'refxla\[jax\]'"):
        from_stablehlo(TEXT)
    with pytest.raises(InputError, match="^jaxlib writes StableHLO, and jaxlib is not installed: .* or write HLO"):
        to_stablehlo(refxla.parse("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }"))
    (tmp_path / "jaxlib" / "__init__.py").write_text("")
    (tmp_path / "jaxlib" / "version.py").write_text("__version__ = '9.9'")
    with pytest.raises(InputError, match="jaxlib 9.9 cannot be loaded"):
        from_stablehlo(TEXT)
    (tmp_path / "jaxlib" / "_jax.py").write_text("")
    with pytest.raises(InputError, match="jaxlib 9.9 has no converter"):
        from_stablehlo(TEXT)
    assert str(tmp_path) == sys.path[0]


def test_hlo_is_written_as_stablehlo_and_read_again():
    module = refxla.parse(TEXT)
    text = to_stablehlo(module)
    assert is_stablehlo(text)
    for got, wanted in zip(
        interpreter.run(refxla.parse(text), [X, np.float32(3)]),
        interpreter.run(module, [X, np.float32(3)]),
        strict=True,
    ):
        np.testing.assert_array_equal(got, wanted)


def test_commands_take_and_write_it(tmp_path, capsys):
    from refxla.cli.main import main

    program, hlo, back = (str(tmp_path / name) for name in ("p.mlir", "p.hlo", "back.mlir"))
    (tmp_path / "p.mlir").write_text(TEXT)
    assert main(["verify", program]) == 0 and "two is valid" in capsys.readouterr().out
    assert main(["convert", program, hlo]) == 0 and main(["convert", hlo, back]) == 0
    assert main(["show", back]) == 0 and "multiply(" in capsys.readouterr().out
    assert main(["run", back, "--random", "0", "--device", "reference", "--check"]) == 0
    (tmp_path / "p.mlir").write_text(TEXT.replace("stablehlo.multiply", "stablehlo.multiple"))
    assert main(["explain", program]) == 2
    assert "p.mlir: line 6, column 10: custom op 'stablehlo.multiple' is unknown" in capsys.readouterr().err
