"""Values that a function reaches in addition to its arguments: globals, closures, defaults, attributes.

A compiled function must return what the function would return now. So all values that it can reach by the names in its
code are listed as *variables*, each of which can be read, and written during a trace. Those of arrays become parameters
that are read at each call; the values of others decide which program a call runs. The search follows functions that are
called, containers, objects with their attributes, and the names that are read from a module or a class. It does not
enter Python's own library, NumPy and other large packages.
"""

from __future__ import annotations

import array
import collections
import dis
import functools
import hashlib
import random
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import getitem, is_, setitem
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import BY_DTYPE

from ..traced import TracedFunction
from .location import LIBRARIES as _LIBRARIES
from .subclasses import require_plain

MAX_CAPTURED_VALUES = 20_000
_LONG_LIST_ELEMENTS = 1000  # elements of a list that are compared as text
SOURCES = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_BOUND = (types.MethodType, types.BuiltinMethodType)
_BUFFERS = (bytearray, memoryview, array.array, np.ndarray, np.generic)
_SCALARS = (type(None), bool, int, float, complex, str, bytes)
MISSING = (KeyError, IndexError, ValueError, AttributeError)


class CapturedVariable:
    """A global, attribute or element that a function reaches: `get` reads it, `set` writes it (None: it cannot be
    written). `value` is the value when it was found."""

    __slots__ = ("name", "get", "set", "value", "root")

    def __init__(
        self, name: str, get: Callable[[], Any], set: Callable[[Any], Any] | None, root: CapturedVariable | None = None
    ) -> None:
        self.name, self.get, self.set, self.value = name, get, set, get()
        # the variable that is written: for an element of a tuple, the tuple's
        self.root = self if root is None else root

    def put(self, value: Any) -> None:
        """Writes another value to a writable variable."""
        assert self.set is not None, self.name
        self.set(value)

    def refresh(self) -> bool:
        """Reads the array again into `value`. Returns whether its type and shape are unchanged."""
        old, self.value = self.value, self.get()
        return (
            isinstance(self.value, (np.ndarray, np.generic))
            and self.value.dtype == old.dtype
            and self.value.shape == old.shape
        )


class Captures:
    """The variables reachable from some roots: those of `arrays`, of `sources` of random numbers, of the module numpy
    (`numpys`), and of all other values (`constants`).

    `caches` are variables of functions that cache their results (lru_cache, cached_property), each with a function that
    does not, for a trace, whose results must not be cached. `sizes` are containers, by name, with their number of
    elements, `namespaces` the globals of functions. `kind` is equal if everything except the contents of arrays is
    equal. `is_plain` says that `unchanged` detects every change, and not only other objects. Raises UnsupportedError
    for more than MAX_CAPTURED_VALUES.
    """

    def __init__(self, *roots: tuple[str, Any]) -> None:
        self._names: set[str] = set()
        count = -1
        # a name in one function may be an attribute of something that another one reaches
        while len(self._names) != count:
            count = len(self._names)
            self.arrays: list[CapturedVariable] = []
            self.sources: list[CapturedVariable] = []
            self.numpys: list[CapturedVariable] = []
            self.constants: list[CapturedVariable] = []
            self.caches: list[tuple[CapturedVariable, Any]] = []
            self.sizes: list[tuple[str, Any, int]] = []
            self.namespaces: dict[int, dict[str, Any]] = {}
            self.is_plain = True
            self._kind: list[Hashable] = []
            self._seen: dict[Hashable, int] = {}
            self._alive: list[Any] = []
            for name, root in roots:
                self._visit(root, name, None)
        self.kind = tuple(self._kind)
        del self._kind, self._seen, self._alive  # the objects that it examined may be deleted

    def unchanged(self) -> bool:
        """Whether every value except the arrays is the same object as before."""
        try:
            return all(len(c) == n for _, c, n in self.sizes) and all(p.get() is p.value for p in self.constants)
        except MISSING:
            return False

    def refuse_assignments(self) -> None:
        """Raises UnsupportedError if a trace has assigned a number that the function reads, which then has its old
        value."""
        for variable in self.constants:
            old = variable.value
            if variable.set is not None and type(old) in (int, float, complex) and not _holds(variable, old):
                variable.put(old)
                raise AssignmentRefused(variable.name)

    def like(self) -> bool:
        """Whether `unchanged`, and the arrays have the same types and shapes as before. The variables then hold the
        present arrays."""
        try:
            return self.unchanged() and all(map(CapturedVariable.refresh, self.arrays))
        except MISSING:
            return False

    # -- the walk
    def _add(
        self,
        where: Hashable,
        name: str,
        get: Callable[[], Any],
        set: Callable[[Any], Any] | None,
        root: CapturedVariable | None = None,
    ) -> None:
        """Adds a variable, identified by `where`, and what it leads to."""
        if where in self._seen:
            return
        self._seen[where] = len(self._seen)
        try:
            variable = CapturedVariable(name, get, set, root)
        except MISSING:  # an empty cell, a slot without a value
            return
        if len(self.constants) + len(self.arrays) > MAX_CAPTURED_VALUES:
            raise UnsupportedError(
                f"the function reaches more than {MAX_CAPTURED_VALUES} values, {name} among them, and whether they "
                "changed would have to be looked at before each call; pass what it needs as arguments, as arrays"
            )
        value = variable.value
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype in BY_DTYPE:
            require_plain(value, name)
            self.arrays.append(variable)
            self._kind.append((name, "array", value.shape, value.dtype))
        elif isinstance(value.__self__ if isinstance(value, _BOUND) else value, SOURCES):
            self.sources.append(variable)
            self._kind.append((name, "random"))
        elif isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in _LIBRARIES:
            if value is np:
                self.numpys.append(variable)
            return
        else:
            self.constants.append(variable)
            if isinstance(value, functools._lru_cache_wrapper) and variable.set is not None:
                self.caches.append((variable, value.__wrapped__))
            self._visit(value, name, variable)

    def _visit(self, value: Any, name: str, variable: CapturedVariable | None) -> None:
        kind = type(value)
        if kind in _SCALARS:
            same = (value.real.hex(), value.imag.hex()) if kind in (float, complex) else value
            self._kind.append((name, kind, same))
            return
        if (
            isinstance(value, (list, tuple))
            and len(value) > _LONG_LIST_ELEMENTS
            and all(type(v) in _SCALARS for v in value)
        ):
            self.is_plain = False
            self._kind.append((name, kind, hashlib.sha256(repr(value).encode()).hexdigest()))
            return
        if isinstance(value, tuple):
            self._tuple(value, name, variable)
            return
        if id(value) in self._seen:
            self._kind.append((name, "again", self._seen[id(value)]))
            return
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        if isinstance(value, TracedFunction):
            self._visit(value.function, name, None)
        elif isinstance(value, types.FunctionType):
            self._function(value, name)
        elif isinstance(value, types.MethodType):
            self._visit(value.__func__, name, None)
            self._visit(value.__self__, name.rpartition(".")[0] or "self", None)
        elif isinstance(value, functools.partial):
            for part in ("func", "args", "keywords"):
                self._visit(getattr(value, part), f"{name}.{part}", None)
        elif isinstance(value, dict):
            self._kind.append((name, kind, tuple(map(_key, value))))
            self.sizes.append((name, value, len(value)))
            for key in list(value):
                self._add(
                    (id(value), key), f"{name}[{key!r}]", functools.partial(getitem, value, key), _setter(value, key)
                )
        elif isinstance(value, (list, collections.deque)):
            self._kind.append((name, kind, len(value)))
            self.sizes.append((name, value, len(value)))
            for n in range(len(value)):
                self._add((id(value), n), f"{name}[{n}]", functools.partial(getitem, value, n), _setter(value, n))
        elif isinstance(value, (set, frozenset)):
            self._kind.append((name, kind, frozenset(map(_key, value))))
            self.sizes.append((name, value, len(value)))
        elif isinstance(value, types.ModuleType):
            self._module(value, name)
        elif isinstance(value, type):
            self._kind.append((name, "class", value))
            self._class(value, name)
        elif isinstance(value, _BUFFERS):
            self.is_plain = False
            self._kind.append((name, kind, _digest(np.asarray(value))))
        elif hasattr(value, "__wrapped__") and callable(value):
            self._kind.append((name, "wraps", kind))
            self._visit(value.__wrapped__, name, None)
        elif _package(kind) in _LIBRARIES and not isinstance(value, types.SimpleNamespace):
            self._library_object(value, name)
        else:
            self._object(value, name)

    def _library_object(self, value: Any, name: str) -> None:
        """An object whose code is not traced, and computes with its arrays when the function is traced, as a sparse
        matrix of SciPy's does: their contents are part of the program."""
        attributes = getattr(value, "__dict__", None)
        arrays = {k: v for k, v in attributes.items() if type(v) is np.ndarray} if isinstance(attributes, dict) else {}
        if arrays:
            self.is_plain = False
        self._kind.append((name, "object", _Same(value), tuple((k, _digest(v)) for k, v in arrays.items())))

    def _tuple(self, value: tuple[Any, ...], name: str, variable: CapturedVariable | None) -> None:
        self._kind.append((name, type(value), len(value)))
        for n in range(len(value)):
            where = object(), n  # a different one in each place
            if variable is None or variable.set is None:
                self._add(where, f"{name}[{n}]", functools.partial(getitem, value, n), None)
            else:
                set = _tuple_setter(variable, n)
                self._add(where, f"{name}[{n}]", functools.partial(_element, variable, n), set, variable.root)

    def _function(self, f: types.FunctionType, name: str) -> None:
        self._kind.append((name, "function", f.__code__))
        if _package(f) in _LIBRARIES:
            return
        for n, cell in enumerate(f.__closure__ or ()):
            contents = functools.partial(getattr, cell, "cell_contents")
            self._add(id(cell), f.__code__.co_freevars[n], contents, _cell_setter(cell))
        self.namespaces[id(f.__globals__)] = f.__globals__
        names, used_globals = _names_of(f.__code__)
        self._names |= names
        for used in used_globals:
            if used in f.__globals__:
                get = functools.partial(getitem, f.__globals__, used)
                self._add((id(f.__globals__), used), used, get, _setter(f.__globals__, used))
        for attribute in ("__defaults__", "__kwdefaults__"):
            if getattr(f, attribute):
                get, set = functools.partial(getattr, f, attribute), functools.partial(setattr, f, attribute)
                self._add((id(f), attribute), f"{name}.{attribute}", get, set)

    def _module(self, module: types.ModuleType, name: str) -> None:
        self._kind.append((name, "module", module.__name__))
        if module.__name__.partition(".")[0] in _LIBRARIES:
            return
        content = vars(module)
        for used in sorted(self._names & content.keys()):
            get = functools.partial(getitem, content, used)
            self._add((id(content), used), f"{name}.{used}", get, _setter(content, used))

    def _class(self, cls: type, name: str) -> None:
        """The attributes of a class that the code names, and the methods that create and call its objects."""
        for base in cls.__mro__:
            if _package(base) in _LIBRARIES:
                continue
            content = vars(base)
            for used in sorted((self._names | _IMPLIED) & content.keys()):
                member = content[used]
                if isinstance(member, types.MemberDescriptorType):
                    continue
                where = f"{name}.{used}"
                if isinstance(member, (staticmethod, classmethod)):
                    self._visit(member.__func__, where, None)
                elif isinstance(member, property):
                    self._visit(member.fget, where, None)
                elif isinstance(member, functools.cached_property):
                    if (id(base), used) not in self._seen:
                        self._seen[id(base), used] = len(self._seen)
                        get = functools.partial(getitem, content, used)
                        variable = CapturedVariable(where, get, functools.partial(type.__setattr__, base, used))
                        self.caches.append((variable, _Uncached(member.func)))
                    self._visit(member.func, where, None)
                else:
                    get = functools.partial(getitem, content, used)
                    self._add((id(base), used), where, get, functools.partial(type.__setattr__, base, used))

    def _object(self, value: Any, name: str) -> None:
        cls = type(value)
        self._kind.append((name, "a", cls))
        content = getattr(value, "__dict__", None)
        slots = [s for base in cls.__mro__ for s in _slots(base)]
        if content is None and not slots:
            self._kind.append((name, "object", _Same(value)))
        if isinstance(content, dict):
            self._kind.append((name, tuple(content)))
            self.sizes.append((f"{name}.", content, len(content)))
            for key in list(content):
                get = functools.partial(getitem, content, key)
                self._add((id(content), key), f"{name}.{key}", get, _setter(content, key))
        for slot, member in slots:
            get = functools.partial(member.__get__, value)
            self._add((id(value), slot), f"{name}.{slot}", get, functools.partial(member.__set__, value))
        self._class(cls, name)


class _Same:
    """An object as part of a key: equal only to itself, and kept alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


class _Uncached:
    """A cached_property that caches nothing."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.function(instance)


class PatchedVariables:
    """A context in which variables have other values. If the function itself wrote to one of them, that is an error,
    and so is a change in one of the `containers`, which get their elements back.

    Sets and dicts may get further elements for which `is_symbol` does not hold, unless they are among the `arguments`:
    such a function caches constants, which are the same at each call.
    """

    def __init__(
        self,
        values: list[tuple[CapturedVariable, Any]],
        containers: list[tuple[str, Any, int]],
        is_symbol: Callable[[Any], bool],
        arguments: Sequence[Any],
    ) -> None:
        self.values, self.containers, self.is_symbol, self.arguments = values, containers, is_symbol, arguments

    def __enter__(self) -> None:
        self.originals = [(root, root.get()) for root in {id(p.root): p.root for p, _ in self.values}.values()]
        try:
            for variable, value in self.values:
                variable.put(value)
        except BaseException:
            self._restore()
            raise
        self.before = [(name, c, c.copy()) for name, c, _ in self.containers if not isinstance(c, frozenset)]

    def __exit__(self, kind: Any, *_: Any) -> None:
        changed = [variable.name for variable, value in self.values if not _holds(variable, value)]
        for name, container, before in self.before:
            put_back = self._put_back_keys if isinstance(container, dict) else self._put_back_elements
            changed += put_back(name, container, before)
        self._restore()
        if changed and kind is None:
            raise AssignmentRefused(changed[0])

    def _put_back_keys(self, name: str, container: dict[Any, Any], before: dict[Any, Any]) -> list[str]:
        """Undoes what a trace changed in a dict, except for new constants. Yields the names of the elements."""
        new = [key for key, value in container.items() if key not in before and self.is_symbol(value)]
        for key in new:
            del container[key]
        lost = {key: value for key, value in before.items() if key not in container}
        container.update(lost)
        if not name or name.endswith("."):  # globals, and attributes of an object
            return [f"{name}{key}" for key in (*new, *lost)]
        return [f"{name}[{key!r}]" for key in (*new, *lost)]

    def _put_back_elements(self, name: str, container: Any, before: Any) -> list[str]:
        """Undoes what a trace changed in a list, a deque or a set. Yields its name if there was a change."""
        if isinstance(container, set):
            if container == before or (container > before and all(v is not container for v in self.arguments)):
                return []
            container.clear()
            container.update(before)
            return [f"the set {name}"]
        if len(container) == len(before) and all(map(is_, container, before)):
            return []
        container.clear()
        container.extend(before)
        return [f"{name}[...]"]

    def _restore(self) -> None:
        for root, value in self.originals:
            root.put(value)


class AssignmentRefused(UnsupportedError):
    """A function assigns a variable, of this `name`, outside of it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the function assigns {name}, which a compiled one cannot: return the new value, and assign it outside"
        )
        self.name = name


def _element(variable: CapturedVariable, n: int) -> Any:
    return variable.get()[n]


def _holds(variable: CapturedVariable, value: Any) -> bool:
    try:
        return variable.get() is value
    except MISSING:
        return False


def _setter(container: Any, key: Any) -> Callable[[Any], None]:
    return functools.partial(setitem, container, key)


def _cell_setter(cell: types.CellType) -> Callable[[Any], None]:
    return lambda value: setattr(cell, "cell_contents", value)


def _tuple_setter(variable: CapturedVariable, n: int) -> Callable[[Any], None]:
    """A tuple is written by replacing it."""

    def write(value: Any) -> None:
        old = variable.get()
        new = [*old[:n], value, *old[n + 1 :]]
        variable.put(type(old)(*new) if hasattr(old, "_fields") else type(old)(new))

    return write


@functools.lru_cache(maxsize=4096)
def _names_of(code: types.CodeType) -> tuple[frozenset[str], tuple[str, ...]]:
    """All names that a function's code uses, including those in nested functions and classes; and the globals."""
    names, used = set(code.co_names), {i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner, used_there = _names_of(constant)
            names |= inner
            used.update(used_there)
    return frozenset(names), tuple(sorted(used))


_IMPLIED = {"__init__", "__call__", "__getattr__", "__post_init__"}  # methods that are called without being named
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")


def _digest(array: np.ndarray) -> Hashable:
    """Equal for arrays with the same contents, also of objects."""
    content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return array.shape, array.dtype, hashlib.sha256(content).hexdigest()


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _slots(cls: type) -> Iterator[tuple[str, Any]]:
    if _package(cls) not in _LIBRARIES:
        yield from ((n, m) for n, m in vars(cls).items() if isinstance(m, types.MemberDescriptorType))


def _key(value: Any) -> Hashable:
    return (type(value), value)
