"""`jax.shard_map` outside of `jit`, where JAX runs each operation as a program of its own.

Between these programs, JAX keeps a value that does not vary along an axis of the mesh once for all devices. It takes
what functions that it does not know return (callbacks, foreign functions) for such values, whatever their operands are.
A platform of several processors has each device's own nevertheless; refxla, where one device stands for all of them,
would have the first device's. So the results of such a call vary along the axes along which its operands do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jax._src import core
from jax._src.shard_map import ShardMapTrace

_UNKNOWN_FUNCTIONS = frozenset(("pure_callback", "io_callback", "ffi_call", "buffer_callback"))


def register(platform: str) -> None:
    """Makes JAX see that the results of unknown functions vary, on the devices of a platform."""
    process = ShardMapTrace.process_primitive

    def process_primitive(
        self: ShardMapTrace, primitive: Any, tracers: Sequence[Any], parameters: Mapping[str, Any], /
    ) -> Any:
        devices = getattr(self.mesh, "devices", None)
        if self.check and devices is not None and devices.flat[0].platform == platform:
            if _calls_unknown_functions(primitive, parameters):
                primitive = _varying(primitive)
        return process(self, primitive, tracers, parameters)

    setattr(ShardMapTrace, "process_primitive", process_primitive)  # noqa: B010


def _calls_unknown_functions(primitive: Any, parameters: Mapping[str, Any]) -> bool:
    """Does an operation call a function that JAX does not know, by itself or in a program that it runs?"""
    return primitive.name in _UNKNOWN_FUNCTIONS or any(
        _calls_unknown_functions(equation.primitive, equation.params)
        for program in core.jaxprs_in_params(parameters)
        for equation in program.eqns
    )


@cache  # JAX finds the programs that it has compiled by the primitive
def _varying(primitive: Any) -> _Varying:
    return _Varying(primitive)


class _Varying:
    """A primitive whose results vary along all axes along which one of its operands does."""

    def __init__(self, primitive: Any) -> None:
        self.primitive = primitive

    def __getattr__(self, name: str) -> Any:
        return getattr(self.primitive, name)

    def abstract_eval(self, *operands: Any, **parameters: Any) -> tuple[Any, Any]:
        """The types of the results, and the effects."""
        results, effects = self.primitive.abstract_eval(*operands, **parameters)
        axes = frozenset[Any]().union(*(operand.mat.varying for operand in operands if hasattr(operand, "mat")))
        if self.primitive.multiple_results:
            return [_along(result, axes) for result in results], effects
        return _along(results, axes), effects


def _along(result: Any, axes: frozenset[Any]) -> Any:
    """The type of a result that varies along these axes, too."""
    if not hasattr(result, "mat") or result.mat.unreduced or result.mat.reduced:
        return result
    sharding = core.get_cur_mesh_sharding() if result.sharding.mesh.empty else result.sharding
    return result.update(sharding=sharding, manual_axis_type=core.ManualAxisType(varying=result.mat.varying | axes))
