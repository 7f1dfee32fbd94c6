"""NumPy functions, unchanged: run once on traced arrays, which write down HLO instead of computing.

A Traced (array.py) stands for an array whose shape and type are known and whose values are not. NumPy hands it every
call of a ufunc and of most functions; what each becomes stands in ufuncs.py, reductions.py, movement.py and
functions.py. What would need the values, such as an `if` on an element, is an UnsupportedError that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError
from refxla_spec.module import Computation, Instruction, Module, post_order
from refxla_spec.types import Shape

from ..._core.calls import Shortcut
from ...build import Build
from ...compiler import Compiled, Reference
from ..traced import Lowered, TracedFunction
from .array import Traced


def compile_numpy(function: Callable, arguments: tuple, **options: Any) -> NumpyFunction:
    """A NumpyFunction; compiled at once if example arguments are given, else at the first call. `options` are those of
    `refxla.compile`."""
    made = NumpyFunction(function, **options)
    if arguments:
        made.compile(*arguments)
    return made


class NumpyFunction(TracedFunction):
    """Called with arrays in any nesting of tuples, lists and dicts, as the function was; gives NumPy arrays likewise.

    Arguments that are no arrays (Python numbers, strings, None) are part of the program: another value makes another
    program; pass a number that changes as np.float32(x).
    """

    def _describe(self, args: tuple, kwargs: dict) -> tuple[Hashable, Sequence[Any]]:
        return _key((args, kwargs)), [leaf for leaf in leaves((args, kwargs)) if is_array(leaf)]

    def _shortcut(self, args: tuple, found: _NumpyLowered) -> Shortcut | None:
        leaves: list[tuple] = []
        for value in args:
            if type(value) is np.ndarray:
                leaves.append((value.dtype, value.shape, False))
            elif type(value) in (bool, int, str, type(None)):
                leaves.append((None, value))
            else:
                return None
        sources = [n for n, leaf in enumerate(leaves) if len(leaf) == 3]
        plain = found.structure is _RESULT or (
            type(found.structure) is tuple and all(leaf is _RESULT for leaf in found.structure)
        )
        finish = None if plain and found.program.plan.single == (found.structure is _RESULT) else found.finish
        return Shortcut(found, found.program, leaves, sources, finish=finish)

    def _lower(self, args: tuple, kwargs: dict) -> Lowered:
        module, structure = trace(self.function, args, kwargs)
        return _NumpyLowered(self._build(module), structure)


class _NumpyLowered(Lowered):
    """A traced function, compiled, and the structure of its result."""

    def __init__(self, program: Compiled | Reference, structure: Any) -> None:
        self.program, self.structure = program, structure

    def __call__(self, leaves: Sequence[Any]) -> Any:
        results = self.program(*leaves)
        return self.finish(results if isinstance(results, tuple) else (results,))

    def finish(self, results: Sequence[np.ndarray]) -> Any:
        """What the function returns, of the program's results."""
        left = iter(results)
        return rebuild(self.structure, lambda leaf: next(left) if leaf is _RESULT else leaf)


_RESULT = object()  # in the structure of a result: an array that the program makes


def trace(function: Callable, args: tuple, kwargs: dict | None = None) -> tuple[Module, Any]:
    """The module that a function computes for arguments like these, and the structure of its result.

    Raises UnsupportedError for what has no HLO form, InputError for an array of a type that HLO does not have.
    """
    name = getattr(function, "__name__", "function").strip("<>") or "function"
    build = Build(name)
    parameters: list[Instruction] = []

    def traced(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        shape = Shape.of(leaf)
        number = len(parameters)
        parameters.append(Instruction(f"arg{number}", "parameter", shape, [], {"number": number}))
        return Traced(parameters[-1], build, f"argument {number}")

    given_args, given_kwargs = rebuild((args, kwargs or {}), traced)
    try:
        result = function(*given_args, **given_kwargs)
    except Exception as problem:
        framework = _framework_of(problem)
        if framework is None:
            raise
        raise InputError(
            f"{name} is a function of {framework[0]}, not of NumPy: compile {framework[1]} in its place"
        ) from problem
    returned: list[Instruction] = []

    def collect(leaf: Any) -> Any:
        if isinstance(leaf, Traced):
            returned.append(leaf.instruction)
            return _RESULT
        return leaf

    structure = rebuild(result, collect)
    root = returned[0] if len(returned) == 1 else build.tuple(*returned)
    order = post_order(root, parameters)
    entry = Computation(f"{name}.entry", parameters + [i for i in order if i.opcode != "parameter"], root)
    called = list(dict.fromkeys(c for i in order for c in i.called))
    return Module(name, [*called, entry], entry), structure


def is_array(leaf: Any) -> bool:
    """Whether an argument is an array (or a NumPy scalar): a parameter of the program."""
    return isinstance(leaf, (np.ndarray, np.generic)) or hasattr(leaf, "__array_interface__")


def leaves(tree: Any) -> list[Any]:
    """What a nesting of tuples, lists and dicts holds, in order; a dict by its own order of keys."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    return [leaf for e in tree for leaf in leaves(e)] if isinstance(tree, (tuple, list)) else [tree]


def rebuild(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same nesting with `change(leaf)` for each leaf; named tuples stay what they are."""
    if isinstance(tree, dict):
        return {k: rebuild(v, change) for k, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        values = [rebuild(v, change) for v in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    return change(tree)


def _key(tree: Any) -> Any:
    """Equal for arguments that have the same program."""
    if isinstance(tree, dict):
        return ("dict", tuple((k, _key(v)) for k, v in tree.items()))
    if isinstance(tree, (tuple, list)):
        return (type(tree), tuple(_key(v) for v in tree))
    if is_array(tree):
        array = np.asarray(tree)
        return ("array", array.shape, array.dtype)
    if isinstance(tree, (float, complex)):  # 0.0 == -0.0, and they are different programs
        return (type(tree), tree.real.hex(), tree.imag.hex())
    try:
        hash(tree)
    except TypeError:
        raise InputError(
            f"an argument of type {type(tree).__name__} is neither an array nor hashable; pass arrays"
        ) from None
    return (type(tree), tree)


def _framework_of(problem: Exception) -> tuple[str, str] | None:
    """The framework in whose code an exception arose, and how its functions are compiled."""
    frame, packages = problem.__traceback__, {type(problem).__module__.split(".")[0]}
    while frame is not None:
        packages.add(frame.tb_frame.f_globals.get("__name__", "").split(".")[0])
        frame = frame.tb_next
    if packages & {"jax", "jaxlib"} or "JAX type" in str(problem):  # JAX hides its frames
        return "JAX", "jax.jit(f)"
    return ("TensorFlow", "tf.function(f)") if "tensorflow" in packages else None
