"""Functions of JAX: lowered by JAX to HLO for a neutral platform, then compiled.

Lowering for a platform name that JAX does not know gives neutral HLO, without calls of a vendor's library. What JAX
cannot lower like this (callbacks, decompositions of matrices) is lowered for the platform "refxla" (jax_lowerings.py).
If LAPACK computes linear algebra (ir/library_calls.py), each such operation is lowered as for a CPU, to a call of its
routine. Programs that JAX itself has lowered are used unchanged (jax_stages.py).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError

from .._core.array import Array
from .._core.calls import Shortcut
from ..compiler.driver import Compiled, uses_library
from ..compiler.options import Options
from ..ir.calling_convention import Constant
from .jax_stages import WITHIN_TRACE, Arguments, JaxProgram, JaxStage, LoweredStage, lowered_stage
from .randomness import refused
from .traced import TracedFunction, tracing

PLATFORM = "neutral"  # a name that no platform has

# The settings of JAX that change the meaning of a function.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)


def compile_jax(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], static: dict[str, Any], options: Options
) -> JaxFunction | JaxProgram:
    """A JaxFunction, compiled at once if example arguments are given, otherwise at the first call; for a
    jax.stages.Traced, Lowered or Compiled or a jax.export.Exported, a JaxProgram, compiled at once. `static` has the
    static arguments of a function that is not jitted yet, as for `jax.jit`. `options` are those of `refxla.compile`."""
    try:
        import jax
    except ImportError:
        raise InputError(
            "compiling a Python function needs JAX to trace it: pip install 'refxla[jax]'; HLO itself needs nothing"
        ) from None
    traced = isinstance(function, jax.stages.Traced)
    stage = JaxStage.of(neutral_lowering(function, uses_library(options)) if traced else function)
    if static and (stage is not None or isinstance(function, jax.stages.Wrapped)):
        raise InputError(f"say {' and '.join(static)} to jax.jit, of which this function is: jax.jit(f, static_...)")
    if stage is not None:
        if arguments or keywords:
            raise InputError(f"{stage.name} says its own shapes: compile it alone, then call the result")
        return JaxProgram(stage, options)
    if not callable(function):
        raise InputError(
            f"cannot compile a value of type {type(function).__name__}: of JAX give a function, jax.jit of one, what "
            "its `trace`, `lower` or `compile` made, a jax.export.Exported, or StableHLO as text"
        )
    jitted = function if isinstance(function, jax.stages.Wrapped) else jax.jit(function, **static)
    jax_function = JaxFunction(jitted, options)
    jax_function.compile_examples(arguments, keywords)
    return jax_function


class JaxFunction(TracedFunction):
    """Called with pytrees of arrays, like the original function; returns a pytree of NumPy arrays (random keys stay
    JAX's).

    Arguments are NumPy arrays, JAX arrays (read in place if they are on the CPU), Python numbers, random keys; for
    `compile` also jax.ShapeDtypeStruct. Arguments that `jax.jit` declares static matter by value.
    """

    value_advice = "jax.jit was told that it is static; leave it out there if it is no size and no switch"

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Sequence[Any]]:
        import jax

        fixed, args, kwargs = self._split(args, kwargs)
        leaves, structure = jax.tree.flatten((args, kwargs))
        settings = tuple(getattr(jax.config, name, None) for name in _SETTINGS)
        on_device = tuple(isinstance(leaf, Array) for leaf in leaves)  # those may be donated
        return (structure, tuple(map(_kind, leaves)), fixed, settings, on_device), leaves

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        numbers, names = self._static
        fixed = {*names, *(self._argument(n + len(args) if n < 0 else n) for n in numbers)}
        is_number = (bool, int, float, complex)  # those that are not static matter by type
        return [(k, type(v) if k not in fixed and type(v) in is_number else v) for k, v in super()._parts(args, kwargs)]

    def _shortcut(self, args: tuple[Any, ...], executable: LoweredStage) -> Shortcut | None:
        import jax

        assert isinstance(executable.program, Compiled)  # the reference has no shortcuts
        inside = _internals()
        if inside is None or self._static != ((), ()):
            return None
        settings, foreign = inside
        leaves, structure = jax.tree.flatten(args)
        kinds: list[tuple[Any, ...]] = []
        for leaf in leaves:
            kind = _kind(leaf)
            if type(leaf) is Array:
                kinds.append((kind[1], kind[0], False, True))
            elif type(leaf) in (np.ndarray, foreign) and isinstance(kind[1], np.dtype):
                kinds.append((kind[1], kind[0], kind[2]))
            elif kind in (bool, int, float, complex):
                kinds.append((kind,))
            else:
                return None
        sources = executable.sources([leaf[0] if len(leaf) >= 3 else None for leaf in kinds])
        if sources is None:
            return None
        if all(a is b for a, b in zip(args, leaves, strict=False)) and len(args) == len(leaves):
            return Shortcut(
                executable, executable.program, kinds, sources, settings, foreign=foreign, finish=executable.finish
            )
        flatten = jax.tree_util.default_registry.flatten
        return Shortcut(
            executable,
            executable.program,
            kinds,
            sources,
            settings,
            flatten,
            structure,
            foreign,
            finish=executable.finish,
        )

    @functools.cached_property
    def _static(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The static arguments of `jax.jit`: positions and names."""
        info = getattr(self.function, "_jit_info", None)
        return tuple(getattr(info, "static_argnums", ())), tuple(getattr(info, "static_argnames", ()))

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
        """The static arguments, each with its position and type, and the others."""
        numbers, names = self._static
        if not numbers and not names:
            return (), args, kwargs
        places = {n + len(args) if n < 0 else n for n in numbers}
        fixed: list[tuple[int | str, type, Any]] = [(n, type(v), v) for n, v in enumerate(args) if n in places]
        fixed += [(n, type(kwargs[n]), kwargs[n]) for n in sorted(names) if n in kwargs]
        try:
            hash(tuple(fixed))
        except TypeError as problem:
            raise InputError(f"a static argument is compared by its hash, and has none: {problem}") from None
        args = tuple(v for n, v in enumerate(args) if n not in places)
        return tuple(fixed), args, {n: v for n, v in kwargs.items() if n not in names}

    def _has_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        import jax

        return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LoweredStage:
        import jax

        if self._has_traced(args, kwargs):
            raise InputError(WITHIN_TRACE)
        on_device = [isinstance(leaf, Array) for leaf in jax.tree.leaves(self._split(args, kwargs)[1:])]
        args, kwargs = jax.tree.map(_stand_in, (args, kwargs))
        with refused(self.name, entropy=False), tracing():
            traced = self.function.trace(*args, **kwargs)
        try:
            lowered = neutral_lowering(traced, uses_library(self.options))
        except (NotImplementedError, ValueError) as problem:
            reason = str(problem).strip().split("\n")[0]
            raise UnsupportedError(
                f"JAX has no neutral lowering for {self.name}: {reason}; leave that operation "
                "outside of what is compiled"
            ) from None
        structures = self._structures(args, kwargs)
        _, args, kwargs = self._split(args, kwargs)
        if lowered.in_tree != jax.tree.structure((args, kwargs)):
            raise UnsupportedError(
                f"JAX took the arguments of {self.name} apart in another way than they are passed: bind the static "
                "ones first, as in jax.jit(functools.partial(f, axis=0)), and compile that"
            )
        return LoweredStage(lowered_stage(lowered, self.name, on_device), self._build, structures)

    def _structures(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The structure of each argument, in the order of their leaves; for a static one its value."""
        import jax

        numbers, names = self._static
        places = {n + len(args) if n < 0 else n for n in numbers}
        structure = jax.tree.structure
        positional = [(self._argument(n), Constant(v) if n in places else structure(v)) for n, v in enumerate(args)]
        return positional, [(k, Constant(kwargs[k]) if k in names else structure(kwargs[k])) for k in sorted(kwargs)]


def neutral_lowering(traced: Any, library_calls: bool = False) -> Any:
    """The lowering for the neutral platform; for operations that JAX supports only on particular platforms (eigh, svd,
    schur, callbacks, ...), that for refxla: calls of LAPACK by name, defined in refxla_spec.custom_calls, and of
    functions of this process, which the lowering keeps alive. With `library_calls`, linear algebra is always lowered to
    such calls."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers")  # a hint that is irrelevant here
        rules = _library_rules() if library_calls else {}
        try:
            return traced.lower(lowering_platforms=(PLATFORM,), **rules)
        except (NotImplementedError, ValueError):  # callbacks raise a ValueError
            from . import jax_lowerings

            jax_lowerings.register()
            return traced.lower(lowering_platforms=(jax_lowerings.PLATFORM,), **rules)


# Operations of linear algebra whose neutral lowering is a loop or missing.
_LIBRARY_PRIMITIVES = (
    "eig", "eigh", "geqp3", "hessenberg", "lu", "schur", "svd", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip


@functools.cache
def _library_rules() -> dict[str, Any]:
    """A context in which `lower` uses a CPU's rules for linear algebra on any platform: by default, LU and tridiagonal
    solves are loops. Empty if JAX no longer has this internal interface; then these loops run."""
    try:
        from jax._src.interpreters.mlir import LoweringParameters, _platform_specific_lowerings
        from jax._src.lax import linalg

        lowerings = _platform_specific_lowerings["cpu"]
        primitives = [p for name in _LIBRARY_PRIMITIVES if (p := getattr(linalg, f"{name}_p", None)) in lowerings]
        rules = {p: getattr(lowerings[p], "rule", lowerings[p]) for p in primitives}
        if (solve := getattr(linalg, "tridiagonal_solve_p", None)) in rules:
            from .jax_lowerings import perturbed_on_the_host

            rules[solve] = perturbed_on_the_host(rules[solve])
        return {"_private_parameters": LoweringParameters(override_lowering_rules=tuple(rules.items()))}
    except (ImportError, AttributeError, KeyError, TypeError):
        return {}


def _internals() -> tuple[tuple[tuple[Any, Any], ...], type] | None:
    """JAX's internals: the holders of the settings, with their present values; the class of its arrays."""
    try:
        from jax._src.array import ArrayImpl
        from jax._src.config import config

        return tuple((config._value_holders[name], config._value_holders[name].value) for name in _SETTINGS), ArrayImpl
    except (ImportError, AttributeError, KeyError):  # another version of JAX
        return None


def _stand_in(leaf: Any) -> Any:
    """What JAX traces in place of a leaf: it does not know refxla's arrays."""
    import jax

    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Array) else leaf


def _kind(leaf: Any) -> Any:
    """What matters of a leaf for the program: shape and type, whether it is weak; for a Python number its type."""
    if type(leaf) is np.ndarray and leaf.dtype.itemsize < 8:  # JAX changes no such width: the common case
        return leaf.shape, leaf.dtype, False
    import jax

    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), False
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return tuple(leaf.shape), leaf.dtype, bool(getattr(leaf, "weak_type", False))
    return type(leaf)
