"""Programs that JAX itself has lowered (jax.stages.Lowered and Compiled, jax.export.Exported), called as their
functions.

JAX drops arguments that the program does not need, and passes some constants as arguments; this is read from the
lowered program.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError, indefinite, plural
from refxla_spec.module import Module

from ..analysis.donation import donate
from ..compiler import executable_file
from ..compiler.driver import Compiled, Reference, compile_module
from ..compiler.options import Options
from ..ir.calling_convention import ArrayLeaf, CallingConvention, Constant, Container, EmptyLeaf, Tree
from ..ir.fingerprint import Source
from ..ir.proto import from_proto
from .stablehlo import from_stablehlo
from .traced import Lowered

WITHIN_TRACE = (
    "a compiled function is not an operation of JAX: inside of jax.jit, jax.grad or jax.vmap call the function itself, "
    "and compile the outermost one"
)


@dataclass(frozen=True)
class JaxStage:
    """A program that JAX has lowered.

    `inputs` and `results` are trees of objects with a shape and a dtype: of (args, kwargs), and of the function's
    results. The program takes `constants` and then the leaves of the arguments, but only those with the numbers in
    `used`. `ordered` names the effects that JAX orders by additional parameters. `keepalive` holds the objects of this
    process that the program needs.
    """

    name: str
    source: Source
    inputs: Any
    results: Any
    used: Sequence[int]
    constants: Sequence[Any] = ()
    ordered: Sequence[str] = ()
    keepalive: Any = field(default=None, repr=False)

    @staticmethod
    def of(stage: Any) -> JaxStage | None:
        """The stage of a jax.stages.Lowered or Compiled or a jax.export.Exported; None for anything else."""
        import jax
        from jax import export

        if isinstance(stage, jax.stages.Lowered):
            made = lowered_stage(stage)
            arguments = stage._lowering.compile_args
            _refuse_callbacks(made.name, arguments.get("host_callbacks"), arguments.get("backend"))
            return made
        if isinstance(stage, jax.stages.Compiled):
            return _compiled_stage(stage)
        return _exported_stage(stage) if isinstance(stage, export.Exported) else None


def lowered_stage(lowered: Any, name: str = "", on_device: Sequence[bool] = ()) -> JaxStage:
    """The stage of a jax.stages.Lowered. Arguments that JAX was told to donate are donated if `on_device` says that the
    leaf will be a refxla.Array."""
    import jax

    lowering = lowered._lowering
    constants, used = list(getattr(lowering, "const_args", ())), sorted(lowering.compile_args["kept_var_idx"])
    flags = [info.donated for info in jax.tree.leaves(lowered.args_info)]
    flags = [False] * len(constants) + [a and b for a, b in zip(flags, on_device, strict=False)]
    donated = [k for k, n in enumerate(used) if n < len(flags) and flags[n]]
    return JaxStage(
        name or _name(lowered.compiler_ir("stablehlo").operation.attributes["sym_name"].value),
        _source(lowered, donated),
        lowered.args_info,
        lowered.out_info,
        used,
        constants,
        sorted(map(str, lowering.compile_args.get("ordered_effects", ()))),
        lowering.compile_args.get("keepalive"),  # functions of this process that the program calls
    )


def _compiled_stage(compiled: Any) -> JaxStage:
    """The stage of a jax.stages.Compiled: the program as optimised by JAX's compiler."""
    modules = compiled.runtime_executable().hlo_modules()
    if len(modules) != 1:
        raise UnsupportedError(f"JAX compiled {plural(len(modules), 'program')} of one function: compile its lowering")
    module = from_proto(modules[0].as_serialized_hlo_module_proto())
    executable, name = compiled._executable, _name(module.name)
    call = executable.unsafe_call
    _refuse_callbacks(name, getattr(call, "has_host_callbacks", False), getattr(call, "backend", None))
    return JaxStage(
        name,
        Source.of(module),
        compiled.args_info,
        compiled.out_info,
        sorted(executable._kept_var_idx),
        list(getattr(compiled._params, "const_args", ())),
        sorted(map(str, getattr(call, "ordered_effects", ()))),
        compiled,
    )


def _refuse_callbacks(name: str, has_callbacks: Any, backend: Any) -> None:
    """Raises UnsupportedError for a program that calls functions of this process by another platform's mechanism."""
    if not has_callbacks:
        return
    from .jax_lowerings import PLATFORM  # requires internals of JAX

    platform = getattr(backend, "platform", "its own platform")
    if platform != PLATFORM:
        raise UnsupportedError(
            f"{name} calls functions of Python, and JAX lowered these calls for {platform}: compile what was traced, "
            f"jax.jit({name}).trace(...), in the place of .lower(...)"
        )


def _exported_stage(exported: Any) -> JaxStage:
    """The stage of a jax.export.Exported. Raises UnsupportedError for one whose shapes are not all known, or that was
    exported for several platforms."""
    import jax

    name = exported.fun_name
    if len(exported.platforms) != 1:
        raise UnsupportedError(f"{name} was exported for {exported.platforms}: export it for one platform")
    for aval in (*exported.in_avals, *exported.out_avals):
        if not all(isinstance(n, int) for n in aval.shape):
            raise UnsupportedError(
                f"{name} was exported with the shape {aval.str_short()}: export it for shapes that are known"
            )
    return JaxStage(
        name,
        Source.of(from_stablehlo(exported.mlir_module_serialized)),
        jax.tree.unflatten(exported.in_tree, exported.in_avals),
        jax.tree.unflatten(exported.out_tree, exported.out_avals),
        exported.module_kept_var_idx,
    )


def _name(module: str) -> str:
    """A function's name, from the name that JAX gives its program."""
    name = module.removeprefix("jit_")
    return "<lambda>" if name == "_lambda" else name


def _source(lowered: Any, donated: Sequence[int] = ()) -> Source:
    """The program of a lowering, whose parameters of these numbers are donated. It is identified by its StableHLO,
    without source locations, which is converted to HLO when needed."""
    from jax import lib, version

    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=False)
    digest = hashlib.sha256(text.encode()).hexdigest()

    def module() -> Module:
        hlo = from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        donate(hlo, donated)
        return hlo

    numbers = f" {list(donated)}" if donated else ""
    return Source(f"jax {version.__version__} {lib.__version__} {digest}{numbers}", module, text.count("\n"))


# positional and keyword arguments: names, PyTreeDefs or Constant
Arguments = tuple[list[tuple[str, Any]], list[tuple[str, Any]]]


class LoweredStage(Lowered):
    """A compiled JaxStage: called with the leaves of the arguments. `arguments` are the arguments' structures."""

    def __init__(self, stage: JaxStage, build: Callable[[Source], Compiled | Reference], arguments: Arguments) -> None:
        import jax

        self.arguments = arguments
        self.keepalive = stage.keepalive
        self.constant_arguments, self.used_arguments = list(stage.constants), list(stage.used)
        self.program = build(stage.source)
        parameters = self.program.arity
        if parameters != len(self.used_arguments):
            ordered = ", ".join(stage.ordered)
            raise UnsupportedError(
                f"the program has {plural(parameters, 'parameter')} for "
                f"{plural(len(self.used_arguments), 'argument')}: what else it takes "
                + (
                    f"(a token that orders calls: {ordered}) is not supported; leave ordered=True out"
                    if ordered
                    else "(sizes) is not supported"
                )
            )
        types = [c.dtype for c in self.constant_arguments] + [a.dtype for a in jax.tree.leaves(stage.inputs)]
        self.types = [types[n] for n in self.used_arguments]
        results, self.structure = jax.tree.flatten(stage.results)
        self.special = [(n, maker) for n, info in enumerate(results) if (maker := _maker(info)) is not None]
        self.empty = {n: info.shape for n, info in enumerate(results) if info.dtype == jax.dtypes.float0}
        flat = jax.tree.structure((0,) * len(results)) if len(results) > 1 else jax.tree.structure(0)
        plain = not self.special and self.structure == flat
        program = self.program
        plain = plain and isinstance(program, Compiled) and program.plan.single == (len(results) == 1)
        self.finish: Callable[..., Any] | None = None if plain else self._finish  # of a shortcut

    def sources(self, types: Sequence[Any]) -> list[Any] | None:
        """For each parameter the number of a leaf, or an array, if leaves of these types (None: Python numbers) need no
        conversion; otherwise None."""
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
            raise InputError(WITHIN_TRACE) from None
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
        """What the function returns, from the program's results."""
        import jax

        if self.special:
            results = list(results)
            for n, maker in self.special:
                results[n] = maker(np.asarray(results[n]))
        return jax.tree.unflatten(self.structure, results)


def _tree(structure: Any, where: str, empty: dict[int, tuple[int, ...]] | None = None) -> Tree:
    """A PyTreeDef as data; a Constant unchanged. `empty` are the leaves of type float0, by number, with their
    dimensions.

    Raises UnsupportedError for nodes of classes that JAX knows and a file does not support.
    """
    if isinstance(structure, Constant):
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
            return Constant(None)
        if kind in (tuple, list):
            return Container(kind.__name__, children)
        if kind in (dict, collections.OrderedDict):
            return Container("dict", children, tuple(keys))
        if issubclass(kind, tuple) and keys is None and len(getattr(kind, "_fields", ())) == len(children):
            return Container("named tuple", children, kind._fields, kind.__name__)
        raise UnsupportedError(
            f"{where} holds {indefinite(kind.__name__)}, a class that a file does not know: take and give "
            "tuples, lists, dicts and named tuples in what is saved"
        )

    return tree_of(structure)


class JaxProgram:
    """A compiled program that JAX has lowered: called like the original function, with NumPy results.

    It has the attributes of an executable (`hlo`, `plan`, `explain`, ...). Nothing is donated.
    """

    def __init__(self, stage: JaxStage, options: Options) -> None:
        import jax

        self.name = stage.name
        self._structure = jax.tree.structure(stage.inputs)
        positional, keywords = self._structure.children()
        names = keywords.node_data()[1]
        arguments = (
            [(f"argument {n}", s) for n, s in enumerate(positional.children())],
            list(zip(names, keywords.children(), strict=True)),
        )
        self._lowered = LoweredStage(stage, lambda source: compile_module(source, options), arguments)
        self.program = self._lowered.program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        leaves, structure = jax.tree.flatten((args, kwargs))
        if structure != self._structure:
            raise InputError(f"{self.name} {self._difference(args, kwargs)}")
        return self._lowered(leaves)

    def _difference(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """How arguments differ from those for which the program was lowered."""
        import jax

        positional, keywords = (dict(part) for part in self._lowered.arguments)
        static = "; static ones are part of the program, and are left out"
        if len(args) != len(positional):
            count = plural(len(positional), "positional argument")
            return f"was lowered for {count}, and was given {len(args)}{static}"
        if missing := [k for k in keywords if k not in kwargs]:
            return f"was lowered with the keyword argument {missing[0]!r}, which is missing"
        if extra := [k for k in kwargs if k not in keywords]:
            return f"was lowered without the keyword argument {extra[0]!r}{static}"
        structures = positional | keywords
        given = {k: jax.tree.structure(v) for k, v in (*zip(positional, args, strict=True), *kwargs.items())}
        other = next(k for k in given if given[k] != structures[k])
        return f"takes {structures[other]} as {other}, and was given {given[other]}"

    def save(self, path: str | Path) -> None:
        """Writes it to a file; see `TracedFunction.save`."""
        if not isinstance(self.program, Compiled):
            raise InputError("the reference has no kernels to save: compile it for a device")
        executable_file.write(path, self.program.saved(self._lowered.calling(self.name)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    def __repr__(self) -> str:
        return f"<JaxProgram {self.name}>"


def _raw(leaf: Any, dtype: Any) -> Any:
    """A leaf in the form that the program takes: the words of a random key, wide NumPy numbers in the type to which JAX
    converts them.

    Raises InputError if only one of the two is a random key, or if they are keys of different kinds.
    """
    if type(leaf) is np.ndarray and leaf.dtype == dtype:
        return leaf
    import jax

    given = getattr(leaf, "dtype", dtype)
    if given != dtype:
        if any(jax.dtypes.issubdtype(t, jax.dtypes.extended) for t in (given, dtype)):
            raise InputError(
                f"an argument is of the type {given}, and the program takes {dtype} there: jax.random.key makes keys, "
                "jax.random.key_data gives their words, jax.random.wrap_key_data makes keys of words"
            )
        return np.asarray(leaf).astype(dtype)
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return jax.random.key_data(leaf)
    return leaf


def _maker(info: Any) -> Callable[..., Any] | None:
    """How a result is converted to what the function returns, if the program's array is not already that."""
    import jax

    if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
        return lambda words: jax.random.wrap_key_data(words, impl=info.dtype._impl.name)
    if info.dtype == jax.dtypes.float0:  # the gradient of an integer
        return lambda _: np.zeros(info.shape, jax.dtypes.float0)
    return None
