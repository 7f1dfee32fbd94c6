"""Lowerings for refxla of operations that JAX lowers only for its own platforms.

Linear algebra becomes the LAPACK calls that JAX makes for a CPU: refxla makes them itself (ir/library_calls.py), or
expands them (passes/expanders/lapack.py). Where it does not make them, operations without code in refxla become calls
of host functions (runtime/host_calls.py), as Python callbacks do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from jax._src import callback, core, custom_partitioning, debugging, dtypes, ffi, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax._src.lax.control_flow import conditionals
from jax._src.sharding_impls import SdyArrayList
from jax.interpreters import mlir as public_mlir

from ..compiler.driver import uses_library
from ..compiler.options import Options
from ..passes.host_call_threading import HOST_CALL
from ..runtime.host_calls import HostFunction
from . import buffer_callbacks, eager_shard_map, host_linalg

PLATFORM = "refxla"

_AS_ON_CPU = (linalg.svd_p,)  # in addition to those without another rule
_AS_ON_CPU_FOR_LIBRARY = (linalg.lu_p, linalg.tridiagonal_solve_p)  # which are loops otherwise
_ON_THE_HOST: dict[Any, Callable[..., list[np.ndarray]]] = {
    linalg.eig_p: host_linalg.eig,
    linalg.hessenberg_p: host_linalg.hessenberg,
    linalg.schur_p: host_linalg.schur,
    linalg.tridiagonal_p: host_linalg.tridiagonal,
    linalg.geqp3_p: host_linalg.geqp3,
}


@cache
def register() -> None:
    """Registers the platform's name with JAX, and the lowerings of these primitives for it; a second call does
    nothing."""
    xla_bridge._nonexperimental_plugins.add(PLATFORM)
    mlir._platform_specific_lowerings[PLATFORM] = rules = _Lowerings()
    for primitive in _AS_ON_CPU:
        rules[primitive] = mlir._platform_specific_lowerings["cpu"][primitive]
    for primitive in _AS_ON_CPU_FOR_LIBRARY:
        neutral = mlir._lowerings[primitive].rule
        mlir.register_lowering(primitive, _library_rule(primitive, neutral), platform=PLATFORM)
    systems = perturbed_on_the_host(rules[linalg.tridiagonal_solve_p].rule)
    mlir.register_lowering(linalg.tridiagonal_solve_p, systems, platform=PLATFORM, cacheable=False)
    for primitive, function in _ON_THE_HOST.items():
        rule = _library_rule(primitive, _host_rule(function))
        mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)
    for primitive, rule in (
        (debugging.debug_callback_p, debugging.debug_callback_lowering),
        (debugging.debug_print_p, debugging.debug_print_lowering_rule),
    ):
        mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)
    mlir.register_lowering(linalg.triangular_solve_p, _flags_rule(linalg.triangular_solve_p), platform=PLATFORM)
    mlir.register_lowering(custom_partitioning.custom_partitioning_p, _as_one, platform=PLATFORM)
    mlir.register_lowering(debugging.inspect_sharding_p, _no_shardings_within, platform=PLATFORM)
    for primitive, name in ((conditionals.platform_index_p, "platforms"), (conditionals.cond_p, "branches_platforms")):
        rule = _platform_rule(mlir._lowerings[primitive].rule, name)
        mlir.register_lowering(primitive, rule, platform=PLATFORM)
    eager_shard_map.register(PLATFORM)
    callback.emit_python_callback = public_mlir.emit_python_callback = _emitter(callback.emit_python_callback)


def _platform_rule(neutral: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The rule of a primitive for `lax.platform_dependent`, whose parameter `name` has the platforms of each branch, or
    None for the default. A program without a branch for refxla and without a default gets that for a CPU."""

    def rule(ctx: mlir.LoweringRuleContext, *arguments: Any, **parameters: Any) -> Any:
        branches = parameters.get(name)
        if branches is not None and None not in branches and not any(PLATFORM in branch for branch in branches):
            branches = tuple((*branch, PLATFORM) if "cpu" in branch else branch for branch in branches)
            parameters = {**parameters, name: branches}
        return neutral(ctx, *arguments, **parameters)

    return rule


class _Lowerings(dict[Any, Any]):
    """The rules of this platform. A primitive without one here, and without one for all platforms, has that of a CPU:
    it calls LAPACK or a function of this process, which refxla supports, or something else, which refxla rejects by
    name. Primitives of modules that JAX does not import by itself are known by their names (_RULES_BY_NAME)."""

    def __contains__(self, primitive: Any) -> bool:
        return (
            super().__contains__(primitive)
            or primitive.name in _RULES_BY_NAME
            or (primitive not in mlir._lowerings and primitive in self._of_a_cpu)
        )

    def __missing__(self, primitive: Any) -> Any:
        if primitive.name in _RULES_BY_NAME:
            neutral = mlir._lowerings[primitive]
            return replace(neutral, rule=_RULES_BY_NAME[primitive.name](neutral.rule))
        return self._of_a_cpu[primitive]

    @property
    def _of_a_cpu(self) -> dict[Any, Any]:
        rules: dict[Any, Any] = mlir._platform_specific_lowerings["cpu"]
        return rules


def _library_rule(primitive: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A CPU's lowering of a primitive if programs call the library, otherwise another one."""
    library = mlir._platform_specific_lowerings["cpu"][primitive].rule

    def rule(ctx: Any, *operands: Any, **parameters: Any) -> Sequence[Any]:
        with_library = uses_library(Options()) and not any(0 in a.shape for a in ctx.avals_out)
        results: Sequence[Any] = (library if with_library else otherwise)(ctx, *operands, **parameters)
        return results

    return rule


def _flags_rule(primitive: Any) -> Callable[..., Any]:
    """The neutral lowering of a primitive whose flags may be given as 0 and 1, as SciPy's users do: only that of a CPU
    accepts those."""
    neutral = mlir._lowerings[primitive].rule

    def rule(ctx: Any, *operands: Any, **flags: Any) -> Sequence[Any]:
        results: Sequence[Any] = neutral(ctx, *operands, **{name: bool(value) for name, value in flags.items()})
        return results

    return rule


def _interpreter_rule(neutral: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of a Pallas kernel, which JAX can turn into HLO only in its interpret mode."""

    def rule(ctx: Any, *operands: Any, interpret: Any, **parameters: Any) -> Sequence[Any]:
        if not interpret:
            raise ValueError(
                "refxla runs Pallas kernels in interpret mode alone: pallas_call(..., interpret=True), or "
                "jax.experimental.pallas.tpu.force_tpu_interpret_mode() around calls that are not yours"
            )
        results: Sequence[Any] = neutral(ctx, *operands, interpret=interpret, **parameters)
        return results

    return rule


def _exported_rule(neutral: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of a call of an exported program. One that was exported for a CPU, and not for refxla, is used as
    for a CPU: refxla compiles what JAX lowers for it."""

    def rule(ctx: Any, *operands: Any, exported: Any, **parameters: Any) -> Sequence[Any]:
        if PLATFORM not in exported.platforms:
            platforms = tuple(PLATFORM if platform == "cpu" else platform for platform in exported.platforms)
            exported = replace(exported, platforms=platforms)
        results: Sequence[Any] = neutral(ctx, *operands, exported=exported, **parameters)
        return results

    return rule


def _buffer_callback_rule(neutral: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of a callback that writes its results in place; JAX's own knows its platforms by name."""

    def rule(
        ctx: Any,
        *operands: Any,
        callback: Callable[..., None],
        in_tree: Any,
        out_tree: Any,
        has_side_effect: bool,
        input_output_aliases: Sequence[tuple[int, int]],
        **parameters: Any,
    ) -> Sequence[Any]:
        function = buffer_callbacks.host_function(callback, ctx.avals_out, in_tree, out_tree, input_output_aliases)
        host = HostFunction(function)
        ctx.module_context.add_keepalive(host)
        results: Sequence[Any] = _host_call(ctx, host, operands, ctx.avals_in, ctx.avals_out, has_side_effect).results
        return results

    return rule


# From the rule that a primitive has for all platforms to that for refxla.
_RULES_BY_NAME: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "buffer_callback": _buffer_callback_rule,
    "call_exported": _exported_rule,
    "pallas_call": _interpreter_rule,
}


def _no_shardings_within(ctx: Any, *operands: Any, **params: Any) -> Any:
    raise NotImplementedError(
        "jax.debug.inspect_array_sharding: one device stands for all of refxla's, so values within a program are not "
        "divided; x.sharding says how an argument or a result is"
    )


def _as_one(ctx: Any, *operands: Any, call: Any, **parameters: Any) -> Sequence[Any]:
    """The lowering of a function with its own partitioning: virtual devices compute it like a single one."""
    results: Sequence[Any] = mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *operands)
    return results


def _host_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of a primitive to a call of a host function, which also gets the primitive's parameters."""

    def rule(ctx: Any, *operands: Any, **parameters: Any) -> Sequence[Any]:
        host = HostFunction(partial(function, **parameters))
        ctx.module_context.add_keepalive(host)
        call = _host_call(ctx, host, operands, ctx.avals_in, ctx.avals_out, has_side_effect=False)
        results: Sequence[Any] = call.results
        return results

    return rule


def perturbed_on_the_host(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of tridiagonal systems: a call of a host function if singular ones should be perturbed, which no
    LAPACK routine does, otherwise another one."""
    host = _host_rule(host_linalg.tridiagonal_solve_perturbed)

    def rule(ctx: Any, *operands: Any, **parameters: Any) -> Sequence[Any]:
        results: Sequence[Any] = (host if parameters.get("perturb_singular") else otherwise)(
            ctx, *operands, **parameters
        )
        return results

    return rule


def _emitter(emitter: Callable[..., Any]) -> Callable[..., Any]:
    """JAX's emitter of callbacks, which rejects unknown platforms, extended by one platform."""

    def emit_python_callback(
        ctx: Any,
        function: Callable[..., Any],
        token: Any,
        operands: Sequence[Any],
        operand_avals: Sequence[Any],
        result_avals: Sequence[Any],
        *,
        has_side_effect: bool,
        sharding: Any = None,
        **more: Any,
    ) -> Any:
        """The results of JAX's own emitter: results, token, and the object to keep alive. A call whose order matters
        takes a token and returns one: the order in which a program's operations are written gets lost on the way to
        HLO."""
        if tuple(ctx.module_context.platforms) != (PLATFORM,):
            return emitter(
                ctx, function, token, operands, operand_avals, result_avals,
                has_side_effect=has_side_effect, sharding=sharding, **more,
            )  # fmt: skip
        host = HostFunction(_checked(function, result_avals))
        ctx.module_context.add_keepalive(host)
        tokens = [] if token is None else [core.abstract_token]
        inputs, outputs = (*tokens, *operand_avals), (*tokens, *result_avals)
        operands = operands if token is None else (token, *operands)
        call = _host_call(ctx, host, operands, inputs, outputs, has_side_effect)
        if sharding is not None:
            if tokens and result_avals:
                sharding = _with_token(sharding)
            mlir.set_sharding(ctx.module_context, call, sharding)
        token, *results = call.results if tokens else (None, *call.results)
        return results, token, host

    return emit_python_callback


def _with_token(sharding: Any) -> Any:
    """The shardings of a call's results with one for a token before them: on the same device, without dimensions. Those
    of XLA's own form, which JAX uses without Shardy, are for all results together."""
    if not isinstance(sharding, SdyArrayList):
        return sharding
    return SdyArrayList((replace(sharding.shardings[0], dim_shardings=()), *sharding.shardings))


def _host_call(
    ctx: Any, host: HostFunction, operands: Sequence[Any], operand_avals: Any, result_avals: Any, has_side_effect: bool
) -> Any:
    ctx = ctx.replace(avals_in=list(operand_avals), avals_out=list(result_avals))
    lower = ffi.build_ffi_lowering_function(HOST_CALL, has_side_effect=has_side_effect)
    return lower(ctx, *operands, key=np.uint64(host.key))


def _checked(function: Callable[..., Any], result_avals: Sequence[Any]) -> Callable[..., Any]:
    """The function, with results converted to arrays of the types and shapes that the program expects."""

    def call(*arguments: np.ndarray) -> list[np.ndarray]:
        outputs = function(*arguments)
        if len(outputs) != len(result_avals):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(result_avals)}, Actual: {len(outputs)}"
            )
        results = [np.asarray(dtypes.canonicalize_value(np.asarray(value))) for value in outputs]
        for n, (value, aval) in enumerate(zip(results, result_avals, strict=True)):
            for what in ("shape", "dtype"):
                if getattr(value, what) != getattr(aval, what):
                    raise RuntimeError(
                        f"Incorrect output {what} for return value #{n}: "
                        f"Expected: {getattr(aval, what)}, Actual: {getattr(value, what)}"
                    )
        return results

    return call


def primitives() -> list[str]:
    """The names of JAX's primitives that have a lowering for refxla: its own, that of all platforms, or a CPU's."""
    register()
    registry = (mlir._lowerings, *(mlir._platform_specific_lowerings[platform] for platform in (PLATFORM, "cpu")))
    return sorted({primitive.name for rules in registry for primitive in rules})
