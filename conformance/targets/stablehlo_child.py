"""The process in which StableHLO's interpreter runs; see stablehlo.py.

Python can access only the interpreter's values of plain types (integers of 8 to 64 bits, pred, f16, f32, f64). The
others are passed as plain ones, bit for bit: the program converts arguments and results, by operations that keep every
bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jaxlib._hlo as hlo
import ml_dtypes
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager
from refxla_spec.errors import UnsupportedError

from .child import serve

# Deprecated operations that the interpreter only knows by other names; the pass that renames them rejects map and rng.
DEPRECATED = r"\bstablehlo\.(dot|create_token) "

FUNCTIONS = frozenset("acos acosh asin asinh atanh cosh sinh erf".split())

PLAIN = {np.dtype(t) for t in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 f2 f4 f8".split()}


def run(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of the module's entry computation, a tuple's elements in order."""
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    try:
        converted = _jax.mlir.hlo_to_stablehlo(proto)
    except Exception as error:
        raise UnsupportedError(f"there is no StableHLO for this program: {error}") from None
    context = jax_mlir.make_ir_context()
    stablehlo.register_interpreter_dialect(context)
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(converted)
        except ir.MLIRError as error:
            if "mhlo." in str(error):  # operations that HLO has and StableHLO does not
                raise UnsupportedError(f"there is no StableHLO for this program: {error}") from None
            raise
        _as_chlo(module)
        _run_pass(module, "chlo-legalize-to-stablehlo")
        if re.search(DEPRECATED, str(module)):
            _run_pass(module, "stablehlo-legalize-deprecated-ops")
        foreign = sorted(set(re.findall(r"\bmhlo\.(?!\w+ =)\w+(?=[ \"(])", str(module))))
        if foreign:
            raise UnsupportedError(f"there is no StableHLO for {', '.join(foreign)}")
        main = next(op for op in module.body.operations if op.name.value == "main")
        block = main.regions[0].blocks[0]
        if len(block.arguments) != len(inputs):
            raise UnsupportedError("a parameter that is a tuple or a token has no form that Python can give")
        arguments = _arguments(block, inputs)
        types = [_dtype(value.type) for value in block.operations[len(block.operations) - 1].operands]
        rebuild = _results(block, types)
        results = block.operations[len(block.operations) - 1].operands
        signature = ir.FunctionType.get([a.type for a in block.arguments], [r.type for r in results])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)
        for name in ("arg_attrs", "res_attrs"):
            if name in main.attributes:
                del main.attributes[name]
        if not module.operation.verify():
            raise RuntimeError("the program with plain arguments does not verify")
        messages: list[str] = []

        def keep(diagnostic: Any) -> bool:
            messages.append(diagnostic.message)
            return True

        context.attach_diagnostic_handler(keep)
        try:
            values = stablehlo.eval_module(module, [_constant(x) for x in arguments])
        except ValueError as error:
            raise RuntimeError("; ".join([str(error), *messages])) from None
        return rebuild([np.array(x).reshape(x.type.shape) for x in values])


def _run_pass(module: ir.Module, name: str) -> None:
    PassManager.parse(f"builtin.module(func.func({name}))").run(module.operation)


def _as_chlo(module: ir.Module) -> None:
    """Moves the functions that HLO shares with StableHLO's client dialect to that dialect, which has their
    expansion."""
    operations: list[ir.Operation] = []

    def collect(operation: ir.Operation) -> ir.WalkResult:
        if operation.name.removeprefix("mhlo.") in FUNCTIONS:
            operations.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for operation in operations:
        name, types = operation.name.replace("mhlo.", "chlo."), [r.type for r in operation.results]
        with ir.InsertionPoint(operation):
            replacement = ir.Operation.create(name, results=types, operands=list(operation.operands))
        operation.results[0].replace_all_uses_with(replacement.results[0])
        operation.erase()


def _constant(x: np.ndarray) -> ir.Attribute:
    if x.dtype == bool or not x.size:
        return ir.DenseElementsAttr.get(np.ascontiguousarray(x), type=_element(x.dtype), shape=x.shape)
    return ir.DenseElementsAttr.get(np.ascontiguousarray(x), signless=x.dtype.kind != "u", shape=x.shape)


def _arguments(block: ir.Block, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Gives the block arguments of plain types. Returns the values for them."""
    arrays: list[np.ndarray] = []
    imaginary: list[np.ndarray] = []  # the second parts of complex values are arguments after all others
    for number, x in enumerate(inputs):
        if x.dtype in PLAIN:
            arrays.append(x)
            continue
        argument = block.arguments[number]
        target = argument.type
        parts = _plain(x)
        argument.set_type(_tensor(parts[0]))
        with ir.InsertionPoint.at_block_begin(block):
            if len(parts) == 2:
                second = block.add_argument(_tensor(parts[1]), ir.Location.unknown())
                result = stablehlo.ComplexOp(argument, second)
            else:
                result = _convert(x.dtype, target, argument)
        argument.replace_all_uses_except(result.result, result.operation)
        arrays.append(parts[0])
        imaginary += parts[1:]
    return [*arrays, *imaginary]


def _results(block: ir.Block, types: list[np.dtype]) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Makes the block return plain types. Returns the function that converts these to the results."""
    final = block.operations[len(block.operations) - 1]
    values = list(final.operands)
    returned: list[ir.Value] = []
    with ir.InsertionPoint(final):
        for value, dtype in zip(values, types, strict=True):
            if dtype in PLAIN:
                returned.append(value)
            elif dtype.kind == "c":
                returned += [stablehlo.RealOp(value).result, stablehlo.ImagOp(value).result]
            else:
                plain = ir.RankedTensorType.get(value.type.shape, _element(_carrier(dtype)))
                returned.append(_convert(dtype, plain, value).result)
        ir.Operation.create(final.operation.name, operands=returned)
    final.operation.erase()

    def rebuild(arrays: list[np.ndarray]) -> list[np.ndarray]:
        rest, results = iter(arrays), []
        for dtype in types:
            x = next(rest)
            if dtype in PLAIN:
                results.append(x.astype(dtype, copy=False))
            elif dtype.kind == "c":
                results.append(_complex(x, next(rest), dtype))
            elif _by_bits(dtype):
                results.append(x.view(dtype))
            else:
                results.append(x.astype(dtype))
        return results

    return rebuild


def _complex(real: np.ndarray, imag: np.ndarray, dtype: np.dtype) -> np.ndarray:
    result = np.empty(real.shape, dtype)
    result.real, result.imag = real, imag
    return result


def _plain(x: np.ndarray) -> list[np.ndarray]:
    if x.dtype.kind == "c":
        return [x.real.copy(), x.imag.copy()]
    return [x.view(_carrier(x.dtype)) if _by_bits(x.dtype) else x.astype(_carrier(x.dtype))]


def _by_bits(dtype: np.dtype) -> bool:
    """Whether values are passed as their bits; those of less than a byte are passed as numbers of a wider type."""
    return bool(dtype == ml_dtypes.bfloat16) or dtype.name.startswith("float8")


def _carrier(dtype: np.dtype) -> np.dtype:
    """The plain type in which values of another type are passed."""
    if _by_bits(dtype):
        return np.dtype(f"u{dtype.itemsize}")
    if dtype.name.startswith("int"):
        return np.dtype(np.int8)
    return np.dtype(np.uint8 if dtype.name.startswith("uint") else np.float32)


def _convert(dtype: np.dtype, target: ir.Type, value: ir.Value) -> Any:
    return (stablehlo.BitcastConvertOp if _by_bits(dtype) else stablehlo.ConvertOp)(target, value)


def _element(dtype: np.dtype) -> ir.Type:
    return jax_mlir.dtype_to_ir_type(dtype)


def _tensor(x: np.ndarray) -> ir.Type:
    return ir.RankedTensorType.get(x.shape, _element(x.dtype))


def _dtype(type_: ir.Type) -> np.dtype:
    """The NumPy type of a tensor type's elements."""
    if not isinstance(type_, ir.RankedTensorType):
        raise UnsupportedError(f"a result of type {type_} has no form that Python can take")
    name = str(ir.RankedTensorType(type_).element_type)
    if name not in _DTYPES:
        raise UnsupportedError(f"a result of element type {name} has no form that Python can take")
    return _DTYPES[name]


_DTYPES: dict[str, np.dtype] = {
    "i1": np.dtype(bool),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"i{n}": np.dtype(getattr(ml_dtypes, f"int{n}")) for n in (2, 4)},
    **{f"ui{n}": np.dtype(getattr(ml_dtypes, f"uint{n}")) for n in (2, 4)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    **{
        f"f{name.removeprefix('float').replace('_', '').upper()}": np.dtype(getattr(ml_dtypes, name))
        for name in dir(ml_dtypes)
        if name.startswith(("float8", "float6", "float4"))
    },
}

if __name__ == "__main__":
    stablehlo.register_stablehlo_passes()
    serve({"run": run})
