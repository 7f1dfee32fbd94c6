"""Functions of JAX: lowered by JAX to HLO for a platform that is nobody's, then compiled.

Lowering for a platform name that JAX does not know gives neutral HLO, without calls of a vendor's library; what JAX
cannot lower so (callbacks, decompositions of matrices) is lowered for the platform "refxla" (jax_lowerings.py). Where
LAPACK computes linear algebra (ir/library_calls.py), each such operation is lowered as for a CPU, to a call of its
routine. JAX drops arguments that the program does not need; which ones are kept is asked of the lowering.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError, indefinite, plural
from refxla_spec.module import Module

from .._core.array import Array
from .._core.calls import Shortcut
from ..analysis.donation import donate
from ..compiler import executable_file
from ..compiler.driver import Compiled, compile_module, uses_library
from ..compiler.options import Options
from ..ir.fingerprint import Source
from ..ir.proto import from_proto
from ..ir.trees import ArrayLeaf, CallingConvention, EmptyLeaf, Fixed, Nested, Tree
from .randomness import refused
from .stablehlo import from_stablehlo
from .traced import Lowered, TracedFunction

PLATFORM = "neutral"  # nobody's

# The settings of JAX that change what a function means.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)


def compile_jax(
    function: Any, arguments: tuple[Any, ...], static: dict[str, Any], options: Options
) -> JaxFunction | JaxExported:
    """A JaxFunction, compiled at once if example arguments are given, else at the first call; of a jax.export.Exported
    a JaxExported, compiled at once. `static` has the static arguments of a function that is not jitted yet, as
    `jax.jit` takes them. `options` are those of `refxla.compile`."""
    try:
        import jax
    except ImportError:
        raise InputError(
            "compiling a Python function needs JAX to trace it: pip install 'refxla[jax]'; HLO itself needs nothing"
        ) from None
    from jax import export

    if static and isinstance(function, (jax.stages.Wrapped, export.Exported)):
        raise InputError(f"say {' and '.join(static)} to jax.jit, of which this function is: jax.jit(f, static_...)")
    if isinstance(function, export.Exported):
        if arguments:
            raise InputError("an exported function says its own shapes: compile it alone, then call the result")
        return JaxExported(function, options)
    jitted = function if isinstance(function, jax.stages.Wrapped) else jax.jit(function, **static)
    jax_function = JaxFunction(jitted, options)
    if arguments:
        jax_function.compile(*arguments)
    return jax_function


class JaxFunction(TracedFunction):
    """Called with pytrees of arrays, as the function was; gives a pytree of NumPy arrays (random keys stay JAX's).

    Arguments are NumPy arrays, JAX arrays (read where they lie when they lie on the CPU), Python numbers, random keys;
    for `compile` also jax.ShapeDtypeStruct. Arguments that `jax.jit` was told are static take part by their value.
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
        is_number = (bool, int, float, complex)  # those that are not static take part by their type
        return [(k, type(v) if k not in fixed and type(v) in is_number else v) for k, v in super()._parts(args, kwargs)]

    def _shortcut(self, args: tuple[Any, ...], executable: _JaxLowered) -> Shortcut | None:
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
        """The arguments that `jax.jit` was told are static: places and names."""
        info = getattr(self.function, "_jit_info", None)
        return tuple(getattr(info, "static_argnums", ())), tuple(getattr(info, "static_argnames", ()))

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
        """The static arguments, each with its place and type, and the other ones."""
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

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _JaxLowered:
        import jax

        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            raise InputError(_WITHIN_TRACE)
        on_device = [isinstance(leaf, Array) for leaf in jax.tree.leaves(self._split(args, kwargs)[1:])]
        args, kwargs = jax.tree.map(_stand_in, (args, kwargs))
        with refused(self.name, entropy=False):
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
        return _JaxLowered(lowered, self._build, structures, on_device)

    def _structures(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
        """The structure of each argument, in the order of their leaves; of a static one its value."""
        import jax

        numbers, names = self._static
        places = {n + len(args) if n < 0 else n for n in numbers}
        structure = jax.tree.structure
        positional = [(self._argument(n), Fixed(v) if n in places else structure(v)) for n, v in enumerate(args)]
        return positional, [(k, Fixed(kwargs[k]) if k in names else structure(kwargs[k])) for k in sorted(kwargs)]


def neutral_lowering(traced: Any, library_calls: bool = False) -> Any:
    """The lowering for nobody's platform; of what JAX has for particular ones alone (eigh, svd, schur, callbacks, ...),
    that for refxla: calls of LAPACK by name, whose meaning refxla_spec.custom_calls knows, and of functions of this
    process, which the lowering keeps alive. With `library_calls`, linear algebra is lowered to such calls in any
    case."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers")  # a hint that is not needed here
        rules = _library_rules() if library_calls else {}
        try:
            return traced.lower(lowering_platforms=(PLATFORM,), **rules)
        except (NotImplementedError, ValueError):  # a ValueError of callbacks
            from . import jax_lowerings

            jax_lowerings.register()
            return traced.lower(lowering_platforms=(jax_lowerings.PLATFORM,), **rules)


# Operations of linear algebra whose neutral lowering is a loop, or that have none.
_LIBRARY_PRIMITIVES = (
    "eig", "eigh", "geqp3", "hessenberg", "lu", "schur", "svd", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip


@functools.cache
def _library_rules() -> dict[str, Any]:
    """What makes `lower` take a CPU's rules for linear algebra, whatever the platform: by default LU and the solution
    of tridiagonal systems are loops. Empty where JAX, which shows this to nobody, has it no more; then these loops
    run."""
    try:
        from jax._src.interpreters.mlir import LoweringParameters, _platform_specific_lowerings
        from jax._src.lax import linalg

        lowerings = _platform_specific_lowerings["cpu"]
        primitives = [p for name in _LIBRARY_PRIMITIVES if (p := getattr(linalg, f"{name}_p", None)) in lowerings]
        rules = tuple((p, getattr(lowerings[p], "rule", lowerings[p])) for p in primitives)
        return {"_private_parameters": LoweringParameters(override_lowering_rules=rules)}
    except (ImportError, AttributeError, KeyError, TypeError):
        return {}


_WITHIN_TRACE = (
    "a compiled function is not an operation of JAX: inside of jax.jit, jax.grad or jax.vmap call the function itself, "
    "and compile the outermost one"
)


def _source(lowered: Any, donated: Sequence[int] = ()) -> Source:
    """The program of a lowering, whose parameters of these numbers are donated. It is known by its StableHLO, without
    places in the user's source, of which HLO is made when that is needed."""
    from jax import lib, version

    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=False)
    digest = hashlib.sha256(text.encode()).hexdigest()

    def module() -> Module:
        hlo = from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        donate(hlo, donated)
        return hlo

    numbers = f" {list(donated)}" if donated else ""
    return Source(f"jax {version.__version__} {lib.__version__} {digest}{numbers}", module, text.count("\n"))


def _internals() -> tuple[tuple[tuple[Any, Any], ...], type] | None:
    """What JAX shows to nobody: what holds each of the settings, with the value it has now; the class of its arrays."""
    try:
        from jax._src.array import ArrayImpl
        from jax._src.config import config

        return tuple((config._value_holders[name], config._value_holders[name].value) for name in _SETTINGS), ArrayImpl
    except (ImportError, AttributeError, KeyError):  # another version of JAX
        return None


_Arguments = tuple[list[tuple[str, Any]], list[tuple[str, Any]]]  # positional and others: names, PyTreeDefs or Fixed


class _JaxLowered(Lowered):
    def __init__(
        self, lowered: Any, build: Callable[..., Any], arguments: _Arguments, on_device: Sequence[bool] = ()
    ) -> None:
        """`on_device` says of each leaf of the arguments whether it is a refxla.Array: others are not donated."""
        import jax

        self.arguments = arguments

        lowering = lowered._lowering
        self.keepalive = lowering.compile_args.get("keepalive")  # functions of this process that the program calls
        self.constant_arguments = list(getattr(lowering, "const_args", ()))  # constants that JAX passes as arguments
        self.used_arguments = sorted(lowering.compile_args["kept_var_idx"])
        flags = [info.donated for info in jax.tree.leaves(lowered.args_info)]
        flags = [False] * len(self.constant_arguments) + [a and b for a, b in zip(flags, on_device, strict=False)]
        self.program = build(
            _source(lowered, [k for k, n in enumerate(self.used_arguments) if n < len(flags) and flags[n]])
        )
        parameters = self.program.arity
        if parameters != len(self.used_arguments):
            ordered = ", ".join(sorted(map(str, lowering.compile_args.get("ordered_effects", ()))))
            raise UnsupportedError(
                f"the program has {plural(parameters, 'parameter')} for "
                f"{plural(len(self.used_arguments), 'argument')}: what else it takes "
                + (
                    f"(a token that orders calls: {ordered}) is not supported; leave ordered=True out"
                    if ordered
                    else "(sizes) is not supported"
                )
            )
        types = [c.dtype for c in self.constant_arguments] + [a.dtype for a in jax.tree.leaves(lowered.args_info)]
        self.types = [types[n] for n in self.used_arguments]
        results, self.structure = jax.tree.flatten(lowered.out_info)
        self.special = [(n, maker) for n, info in enumerate(results) if (maker := _maker(info)) is not None]
        self.empty = {n: info.shape for n, info in enumerate(results) if info.dtype == jax.dtypes.float0}
        flat = jax.tree.structure((0,) * len(results)) if len(results) > 1 else jax.tree.structure(0)
        plain = not self.special and self.structure == flat
        program = self.program
        plain = plain and isinstance(program, Compiled) and program.plan.single == (len(results) == 1)
        self.finish: Callable[..., Any] | None = None if plain else self._finish  # of a shortcut

    def sources(self, types: Sequence[Any]) -> list[Any] | None:
        """For each parameter the number of a leaf, or an array, if leaves of these types (None: Python numbers) need no
        conversion; else None."""
        import jax

        if any(jax.dtypes.issubdtype(dtype, jax.dtypes.extended) for dtype in self.types):
            return None
        constants = len(self.constant_arguments)
        places = [
            n - constants if n >= constants else np.asarray(self.constant_arguments[n]) for n in self.used_arguments
        ]
        for n, dtype in zip(places, self.types, strict=True):
            if isinstance(n, int) and types[n] is not None and types[n] != dtype:
                return None
        return places

    def __call__(self, leaves: Sequence[Any]) -> Any:
        import jax

        try:
            results = self.program(*self.parameters(leaves))
        except jax.errors.TracerArrayConversionError:
            raise InputError(_WITHIN_TRACE) from None
        return self._finish(results if isinstance(results, tuple) else (results,))

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        if self.constant_arguments:
            leaves = [*self.constant_arguments, *leaves]
        if len(leaves) != len(self.used_arguments):
            leaves = [leaves[n] for n in self.used_arguments]
        return list(map(_raw, leaves, self.types))

    def calling(self, name: str) -> CallingConvention:
        import jax

        first = len(self.constant_arguments)
        sources = tuple(
            n - first if n >= first else np.asarray(self.constant_arguments[n]) for n in self.used_arguments
        )
        positional, keywords = (tuple((n, _tree(s, n)) for n, s in part) for part in self.arguments)
        result = _tree(self.structure, f"the result of {name}", self.empty)
        return CallingConvention(name, positional, keywords, sources, result, not jax.config.jax_enable_x64)

    def _finish(self, results: Sequence[Any]) -> Any:
        """What the function returns, of the program's results."""
        import jax

        if self.special:
            results = list(results)
            for n, maker in self.special:
                results[n] = maker(np.asarray(results[n]))
        return jax.tree.unflatten(self.structure, results)


def _tree(structure: Any, where: str, empty: dict[int, tuple[int, ...]] | None = None) -> Tree:
    """A PyTreeDef as data; a Fixed as it is. `empty` are the leaves of type float0, by number, with their dimensions.

    Raises UnsupportedError for nodes of classes that JAX knows and a file does not.
    """
    if isinstance(structure, Fixed):
        return structure
    count = 0

    def tree_of(node: Any) -> Tree:
        nonlocal count
        data = node.node_data()
        if data is None:
            count += 1
            return EmptyLeaf(tuple(empty[count - 1])) if empty and count - 1 in empty else ArrayLeaf()
        kind, keys = data
        children = tuple(map(tree_of, node.children()))
        if kind is type(None):
            return Fixed(None)
        if kind in (tuple, list):
            return Nested(kind.__name__, children)
        if kind in (dict, collections.OrderedDict):
            return Nested("dict", children, tuple(keys))
        if issubclass(kind, tuple) and keys is None and len(getattr(kind, "_fields", ())) == len(children):
            return Nested("named tuple", children, kind._fields, kind.__name__)
        raise UnsupportedError(
            f"{where} holds {indefinite(kind.__name__)}, a class that a file does not know: take and give "
            "tuples, lists, dicts and named tuples in what is saved"
        )

    return tree_of(structure)


class JaxExported:
    """What `jax.export` wrote down of a function, from its StableHLO: called as the function was, with NumPy results.

    What an executable has (`hlo`, `plan`, `explain`, ...) this has, too. Raises UnsupportedError for one whose shapes
    are not all known, or that was exported for several platforms.
    """

    def __init__(self, exported: Any, options: Options) -> None:
        if len(exported.platforms) != 1:
            raise UnsupportedError(
                f"{exported.fun_name} was exported for {exported.platforms}: export it for one platform"
            )
        for aval in (*exported.in_avals, *exported.out_avals):
            if not all(isinstance(n, int) for n in aval.shape):
                raise UnsupportedError(
                    f"{exported.fun_name} was exported with the shape {aval.str_short()}: export it for shapes "
                    "that are known"
                )
        self.exported = exported
        self.program = compile_module(from_stablehlo(exported.mlir_module_serialized), options)
        self._used_arguments = exported.module_kept_var_idx

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        leaves, structure = jax.tree.flatten((args, kwargs))
        if structure != self.exported.in_tree:
            raise InputError(f"{self.exported.fun_name} takes {self.exported.in_tree}, and was given {structure}")
        avals = self.exported.in_avals
        results = self.program(*(_raw(leaves[n], avals[n].dtype) for n in self._used_arguments))
        results = results if isinstance(results, tuple) else (results,)
        return jax.tree.unflatten(self.exported.out_tree, results)

    def save(self, path: str | Path) -> None:
        """Write it to a file; see `TracedFunction.save`."""
        if not isinstance(self.program, Compiled):
            raise InputError("the reference has no kernels to save: compile it for a device")
        import jax

        positional, keywords = self.exported.in_tree.children()
        names = keywords.node_data()[1]
        calling = CallingConvention(
            self.exported.fun_name,
            tuple((f"argument {n}", _tree(s, f"argument {n}")) for n, s in enumerate(positional.children())),
            tuple((k, _tree(s, k)) for k, s in zip(names, keywords.children(), strict=True)),
            tuple(self._used_arguments),
            _tree(self.exported.out_tree, "the result"),
            not jax.config.jax_enable_x64,
        )
        executable_file.write(path, self.program.saved(calling))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    def __repr__(self) -> str:
        return f"<JaxExported {self.exported.fun_name}>"


def _stand_in(leaf: Any) -> Any:
    """What JAX traces in the place of a leaf: it knows no arrays of refxla's."""
    import jax

    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Array) else leaf


def _kind(leaf: Any) -> Any:
    """What of a leaf decides about the program: shape and type, weak ones apart; of a Python number its type."""
    if type(leaf) is np.ndarray and leaf.dtype.itemsize < 8:  # no width that JAX changes: the way of every call
        return leaf.shape, leaf.dtype, False
    import jax

    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), False
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return tuple(leaf.shape), leaf.dtype, bool(getattr(leaf, "weak_type", False))
    return type(leaf)


def _raw(leaf: Any, dtype: Any) -> Any:
    """A leaf as the program takes it: of a random key its words, of NumPy's wide numbers the type that JAX makes it."""
    if type(leaf) is np.ndarray and leaf.dtype == dtype:
        return leaf
    import jax

    if getattr(leaf, "dtype", dtype) != dtype:
        return np.asarray(leaf).astype(dtype)
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return jax.random.key_data(leaf)
    return leaf


def _maker(info: Any) -> Callable[..., Any] | None:
    """How a result becomes what the function gives, where the program's array is not yet that."""
    import jax

    if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
        return lambda words: jax.random.wrap_key_data(words, impl=info.dtype._impl.name)
    if info.dtype == jax.dtypes.float0:  # the gradient of an integer
        return lambda _: np.zeros(info.shape, jax.dtypes.float0)
    return None
