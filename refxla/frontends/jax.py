"""Functions of JAX: lowered by JAX to HLO for a platform that is nobody's, then compiled.

Lowering for a platform name that JAX does not know gives neutral HLO, without calls of a vendor's library. JAX drops
arguments that the program does not need; which ones are kept is asked of the lowering.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from refxla_spec.errors import InputError, UnsupportedError

from .proto import from_proto

PLATFORM = "refxla"


def compile_jax(
    function: Any, arguments: tuple, device: str | None = None, without: Collection[str] = ()
) -> JaxFunction:
    """A JaxFunction; compiled at once if example arguments are given, else at the first call."""
    try:
        import jax
    except ImportError:
        raise InputError(
            "compiling a Python function needs JAX to trace it: pip install 'refxla[jax]'; HLO itself needs nothing"
        ) from None
    made = JaxFunction(function if hasattr(function, "trace") else jax.jit(function), device, without)
    if arguments:
        made.executable = made.compiled_for(arguments, {})
    return made


class JaxFunction:
    """Called like the function it was made from, with pytrees of arrays; gives a pytree of NumPy arrays.

    It is compiled once for each structure, shapes and types of the arguments (and values of static ones). What an
    executable has (`hlo`, `optimized_hlo`, `plan`, `opencl`, `memory`, `cost`, `explain`) is read from `executable`,
    the one that was used last.
    """

    def __init__(self, function: Any, device: str | None, without: Collection[str]) -> None:
        self.function, self.device, self.without = function, device, without
        self.executable: _Lowered | None = None
        self._compiled: dict[Any, _Lowered] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.executable = self.compiled_for(args, kwargs)
        return self.executable(args, kwargs)

    def compiled_for(self, args: tuple, kwargs: dict) -> _Lowered:
        """The executable for arguments like these. Raises UnsupportedError for what has no neutral lowering."""
        import jax

        leaves, structure = jax.tree.flatten((args, kwargs))
        key = (structure, tuple(_signature(leaf) for leaf in leaves))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _Lowered(self.function, args, kwargs, self.device, self.without)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self.executable is None:
            raise AttributeError(f"{name}: the function is compiled when it is first called, or with example arguments")
        return getattr(self.executable.program, name)


class _Lowered:
    """One lowering: which leaves of the arguments the program takes, and the structure of its results."""

    def __init__(self, function: Any, args: tuple, kwargs: dict, device: str | None, without: Collection[str]) -> None:
        import jax

        from ..compiler import compile_module

        try:
            lowered = function.trace(*args, **kwargs).lower(lowering_platforms=(PLATFORM,))
        except NotImplementedError as problem:
            raise UnsupportedError(f"JAX has no neutral lowering for this function: {problem}") from None
        if lowered.in_tree != jax.tree.structure((args, kwargs)):
            raise UnsupportedError(
                "the function has static arguments, which are no part of its program: bind them first, as in "
                "jax.jit(functools.partial(f, axis=0)), and compile that"
            )
        proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        self.program = compile_module(from_proto(proto), device, without)
        self.structure = lowered.in_tree
        self.kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
        self.results = jax.tree.leaves(lowered.out_info)
        self.out_structure = lowered.out_tree

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        import jax

        leaves, structure = jax.tree.flatten((args, kwargs))
        if structure != self.structure:
            raise InputError(f"the arguments have structure {structure}, the program was compiled for {self.structure}")
        given = [_raw(leaves[n]) for n in self.kept]
        results = self.program(*given)
        if not isinstance(results, tuple):
            results = (results,)
        wrapped = [_wrapped(r, info) for r, info in zip(results, self.results, strict=True)]
        return jax.tree.unflatten(self.out_structure, wrapped)


def _signature(leaf: Any) -> Any:
    """What of a leaf decides about the program: shape and type, weak ones apart; of anything else its value."""
    import jax

    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return (tuple(leaf.shape), str(leaf.dtype), bool(getattr(leaf, "weak_type", False)))
    if isinstance(leaf, (bool, int, float, complex)):
        return (type(leaf), str(jax.dtypes.canonicalize_dtype(type(leaf))))
    return leaf


def _raw(leaf: Any) -> Any:
    """The array behind a leaf: the words of a random key."""
    import jax

    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return jax.random.key_data(leaf)
    return leaf


def _wrapped(result: Any, info: Any) -> Any:
    """A result as the function gives it: words become a random key again."""
    import jax

    if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(result, impl=info.dtype._impl.name)
    return result
