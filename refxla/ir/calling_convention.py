"""How a function is called, as data that can be stored in a file: the structure of its arguments and results, and how
its arrays are passed.

The leaves of the arguments' trees, in order, are arrays and Python numbers (`ArrayLeaf`); everything else, such as
strings and None, is part of the program (`Constant`). A parameter of the program takes the leaf of a number, an array
that never changes, or a value that Python computes from numbers (`NumberArray`).
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, a_type


@dataclass(frozen=True)
class ArrayLeaf:
    """An array, or a Python number that is passed as one."""


@dataclass(frozen=True)
class EmptyLeaf:
    """A result without bytes, of JAX's type float0 (the gradient of an integer), which replaces the program's array."""

    dimensions: tuple[int, ...]


@dataclass(frozen=True)
class LeafResult:
    """A result that is a leaf of the arguments, which the function has written to."""

    leaf: int


@dataclass(frozen=True)
class Constant:
    """A value that is part of the program: if it is an argument, a call must pass an equal one. `leaf`: it still counts
    as a leaf."""

    value: Any
    leaf: bool = False


@dataclass(frozen=True)
class Container:
    """A tuple, list, dict or named tuple (`kind`) of trees: a dict with its `keys`, in flattening order, a named tuple
    with its fields, and the name of its class in `name`."""

    kind: str
    children: tuple[Any, ...]
    keys: tuple[Any, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class DerivedNumber:
    """A Python number that is computed at each call: `function` of NUMBER_FUNCTIONS applied to `operands`, each of
    which is the number of a leaf, a Constant or a DerivedNumber."""

    function: str
    operands: tuple[Any, ...]


@dataclass(frozen=True)
class NumberArray:
    """A Python number as the 0-d array that NumPy converts it to; `filled` converts like `np.full`, which accepts
    values out of the type's range."""

    number: Any  # a leaf's number, Constant or DerivedNumber
    element_type: str
    filled: bool = False


Tree = ArrayLeaf | EmptyLeaf | LeafResult | Constant | Container | DerivedNumber


@dataclass(frozen=True)
class CallingConvention:
    """How a function is called. `positional` and `keywords` are its arguments, (name, tree) each. `sources` has for
    each parameter of the program the number of a leaf, an array, or a NumberArray. `narrowed`: 64-bit arrays are
    converted to 32 bits if a parameter is 32 bits wide, as JAX does without jax_enable_x64.

    The program's results are the arrays of `result`, then the new values of the leaves `writes`, to which the function
    writes, then the outcomes of its checks: `checks` has for each the class and the message of the error that is raised
    if it fails.
    """

    name: str
    positional: tuple[tuple[str, Any], ...]
    keywords: tuple[tuple[str, Any], ...]
    sources: tuple[Any, ...]
    result: Any
    narrowed: bool = False
    writes: tuple[int, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()


def index_from_start(size: int, dimension: int, index: int) -> int:
    """An index counted from the beginning. Raises IndexError if it is out of range."""
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {dimension} with size {size}")
    return index % size


def _conjugate(value: Any) -> Any:
    return value.conjugate()


_OPERATORS = (
    "neg pos abs invert add sub mul truediv floordiv mod and or xor lshift rshift pow eq ne lt le gt ge".split()
)
NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, f"__{name}__") for name in _OPERATORS},
    "real": operator.attrgetter("real"),
    "imag": operator.attrgetter("imag"),
    "conjugate": _conjugate,
    "index": index_from_start,
    "max": max,
    "min": min,
}


def number(source: Any, leaves: Sequence[Any]) -> Any:
    """The value of a leaf's number, a Constant or a DerivedNumber in a call with these leaves."""
    if isinstance(source, int):
        return leaves[source]
    if isinstance(source, Constant):
        return source.value
    return NUMBER_FUNCTIONS[source.function](*(number(o, leaves) for o in source.operands))


def flattened(tree: Tree, value: Any, where: str) -> Iterator[Any]:
    """The leaves of an argument, in order. Raises InputError for one of another structure, and names the place."""
    if isinstance(tree, ArrayLeaf):
        yield value
    elif isinstance(tree, Constant):
        if not _same(tree.value, value):
            raise InputError(f"{where} is {_shown(value)}, and the function was saved for {_shown(tree.value)}")
        if tree.leaf:
            yield value
    elif isinstance(tree, Container):
        for key, child, part in _parts(tree, value, where):
            yield from flattened(child, part, f"{where}{key}")
    else:
        raise InputError(f"{where}: {a_type(tree)} is no argument")


def _parts(tree: Container, value: Any, where: str) -> list[tuple[str, Any, Any]]:
    """For each child, the key in source form, its tree and its value."""
    form = f"a {tree.kind} of {len(tree.children)}"
    if tree.kind == "dict":
        if isinstance(value, dict) and set(value) == set(tree.keys):
            return [(f"[{k!r}]", child, value[k]) for k, child in zip(tree.keys, tree.children, strict=True)]
        listed = ", ".join(map(repr, tree.keys[:8])) + (", ..." if len(tree.keys) > 8 else "")
        form = f"a dict with the keys {listed}" if tree.keys else "an empty dict"
    elif isinstance(value, list if tree.kind == "list" else tuple) and len(value) == len(tree.children):
        return [(f"[{n}]", child, v) for n, (child, v) in enumerate(zip(tree.children, value, strict=True))]
    raise InputError(f"{where} is {_shown(value)}, and the function was saved for {form}")


def _same(first: Any, second: Any) -> bool:
    """Whether two values make the same program: 0.0 and -0.0 do not, nor do 1 and True."""
    if isinstance(first, np.ndarray) and hasattr(second, "shape"):
        other = np.asarray(second)
        return (first.dtype, first.shape) == (other.dtype, other.shape) and first.tobytes() == other.tobytes()
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple):
        return len(second) == len(first) and all(map(_same, first, second))
    return repr(first) == repr(second) if isinstance(first, (float, complex)) else bool(first == second)


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array ({value.dtype}{list(value.shape)})"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(map(repr, list(value)[:8]))}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        return f"{a_type(value)} of {len(value)}"
    return repr(value)[:60]


def rebuilt(tree: Tree, arrays: Iterator[Any], leaves: Sequence[Any] = ()) -> Any:
    """The result of a structure, from its arrays in order; `leaves` are those of the call."""
    if isinstance(tree, ArrayLeaf):
        return next(arrays)
    if isinstance(tree, LeafResult):
        return leaves[tree.leaf]
    if isinstance(tree, EmptyLeaf):
        next(arrays)
        return np.zeros(tree.dimensions, [("float0", "V")])
    if not isinstance(tree, Container):
        return number(tree, leaves)
    children = [rebuilt(child, arrays, leaves) for child in tree.children]
    if tree.kind == "list":
        return children
    if tree.kind == "dict":
        return dict(zip(tree.keys, children, strict=True))
    if tree.kind == "named tuple":
        return collections.namedtuple(tree.name, tree.keys)(*children)  # noqa: PYI024 - its fields are in the file
    return tuple(children)
