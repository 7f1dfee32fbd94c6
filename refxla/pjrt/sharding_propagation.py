"""The shardings of the results of a program for several devices, if the program does not specify them: they are
propagated from arguments and values by Shardy, as in XLA. JAX reads them from the compiled program."""

from __future__ import annotations

import io
from typing import Any

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

_PIPELINE = "builtin.module(sdy-propagation-pipeline)"
_SHARDING = "sdy.sharding"
_RESULTS = "res_attrs"  # the attributes of a function's results, one dictionary each


def with_result_shardings(program: bytes) -> bytes:
    """A StableHLO artifact, with the sharding of each result of its function main for which Shardy finds one; the same
    artifact if all results have one, or if no mesh is named."""
    with make_ir_context() as context, ir.Location.unknown(context):
        module = stablehlo.deserialize_portable_artifact(context, program)
        stated = _main(module)
        if not any(o.operation.name == "sdy.mesh" for o in module.body.operations) or _RESULTS not in stated.attributes:
            return program
        results = [dict(_items(r)) for r in stated.attributes[_RESULTS]]
        if all(_SHARDING in r for r in results):
            return program
        propagated = ir.Module.parse(_bytecode(module), context)
        passmanager.PassManager.parse(_PIPELINE).run(propagated.operation)
        found = [dict(_items(r)) for r in _main(propagated).attributes[_RESULTS]]
        attributes = [
            ir.DictAttr.get(r if _SHARDING in r or _SHARDING not in f else {**r, _SHARDING: f[_SHARDING]})
            for r, f in zip(results, found, strict=True)
        ]
        stated.attributes[_RESULTS] = ir.ArrayAttr.get(attributes)
        return _bytecode(module)


def _main(module: Any) -> Any:
    return ir.SymbolTable(module.operation)["main"]


def _items(attributes: Any) -> list[tuple[str, Any]]:
    return [(a.name, a.attr) for a in attributes]


def _bytecode(module: Any) -> bytes:
    target = io.BytesIO()
    module.operation.write_bytecode(target)
    return target.getvalue()
