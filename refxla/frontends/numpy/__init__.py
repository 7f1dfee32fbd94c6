"""NumPy functions, unchanged: run once on traced arrays, which record HLO instead of computing.

A Traced (array.py) represents an array whose shape and type are known and whose values are not, a Number (number.py) a
Python number. NumPy passes them every call of a ufunc and of most functions; the files listed in tables.py define what
each becomes. Functions that create arrays are replaced while the function runs (creation.py). Arrays that the function
reads in addition to its arguments are further parameters (captures.py). Anything that needs unknown values, such as an
`if` on an element, is an UnsupportedError that says so; if the values are available, as for a size, they become part of
the program (tracing.py).
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from refxla_spec.errors import Error, InputError, InvalidProgramError, UnsupportedError, a_type, indefinite
from refxla_spec.module import Computation, Instruction, Module, post_order
from refxla_spec.types import BY_DTYPE, conversion

from ..._core.array import Array
from ..._core.calls import Shortcut
from ...compiler.driver import Compiled, Reference
from ...compiler.options import Options
from ...ir.calling_convention import ArrayLeaf, CallingConvention, Constant, DerivedNumber, LeafResult, Tree
from ..randomness import Guard, refused
from ..saved_trees import argument_trees, tree_of
from ..shared_memory import check_written
from ..traced import Lowered, TracedFunction, static_parameters
from . import tables  # noqa: F401 - it fills the tables of dispatch.py
from .advice import advice_for
from .array import Traced, TracedStorage
from .captures import SOURCES, AssignmentRefused, CapturedVariable, Captures, PatchedVariables
from .containers import GivenContainers, put, reaches, require_apart
from .creation import NumpyModule, replacement
from .impure import Watch
from .location import line_of, line_of_assignment
from .number import Number
from .selection import Selection
from .subclasses import require_plain
from .tracing import Tracing, running
from .trees import fields_of, is_dataclass, leaves, rebuild

_LARGEST = 2**63  # from which a Python integer is part of the program


def compile_numpy(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    options: Options,
    **static: Any,
) -> NumpyFunction:
    """A NumpyFunction; compiled at once if example arguments are given, otherwise at the first call. `static` has the
    values of static_argnums and static_argnames.

    Raises UnsupportedError for what np.vectorize returns, whose loop over elements is NumPy's.
    """
    if isinstance(function, np.vectorize):
        raise UnsupportedError(f"np.vectorize has no compiled form: {advice_for('np.vectorize')}")
    numpy_function = NumpyFunction(function, options, **static)
    numpy_function.compile_examples(arguments, keywords)
    return numpy_function


class NumpyFunction(TracedFunction):
    """Called with arrays in any nesting of tuples, lists and dicts, like the original function; returns NumPy arrays
    likewise.

    Python numbers are parameters, too, unless the function needs their values when it is traced, or they are named in
    `static_argnums` or `static_argnames`. Everything else (strings, booleans, None) is part of the program: another
    value gives another program. Arrays that the function reads from globals, closures, defaults, attributes or objects
    among its arguments are read at each call; if another value that it reads in this way has changed, it is compiled
    again.
    """

    value_advice = "its value is part of the program; pass it as np.float32(x) or as an array, if it is no size"

    def __init__(
        self, function: Callable[..., Any], options: Options, static_argnums: Any = (), static_argnames: Any = ()
    ) -> None:
        super().__init__(function, options)
        self._static = static_parameters(function, static_argnums, static_argnames)
        self._captures: Captures | None = None
        self._objects: dict[Hashable, Captures] = {}
        self._by_value: dict[Hashable, frozenset[int]] = {}  # for each kind: the leaves that are part of the program

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if running() is not None:  # a part of the function being traced
            return self.function(*args, **kwargs)
        return super().call(args, kwargs)

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Inputs:
        with _tracing:  # a trace temporarily changes values that others see
            inputs = _Inputs(self, args, kwargs)
            if inputs.objects:
                inputs.take(self._captures_with(inputs.objects))
                return inputs
            if self._captures is None or not self._captures.is_plain or not self._captures.like():
                self._captures = Captures((self.name, self.function))
            inputs.take(self._captures)
            return inputs

    def _captures_with(self, objects: list[tuple[str, Any]]) -> Captures:
        """What the function and objects among its arguments reach; cached for the lifetime of the objects."""
        key = tuple((name, id(value)) for name, value in objects)
        captures = self._objects.get(key)
        if captures is None or not captures.is_plain or not captures.like():
            captures = Captures((self.name, self.function), *objects)
            try:
                for _, value in objects:
                    weakref.finalize(value, self._objects.pop, key, None).atexit = False
                self._objects[key] = captures
            except TypeError:  # an object without weak references
                pass
        return captures

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Sequence[Any]]:
        inputs = self._inputs(args, kwargs)
        by_value = self._by_value.get(inputs.kind, ())
        return (inputs.kind, tuple((n, _content(inputs.leaves[n])) for n in by_value)), inputs.leaves

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        inputs = self._inputs(args, kwargs)
        fixed = self._by_value.get(inputs.kind, ())
        free = {inputs.names[n] for n in range(inputs.of_arguments) if n in inputs.open and n not in fixed}
        free |= {name for name, _ in inputs.objects}
        parts = [(k, type(v) if k in free else v) for k, v in super()._parts(args, kwargs)]
        parts += [(p.name, p.value) for p in inputs.captures.constants if type(p.value) in (*_NUMBERS, bool, str)]
        return parts + [(p.name, p.value) for p in inputs.captures.arrays]

    def _shortcut(self, args: tuple[Any, ...], executable: _NumpyLowered) -> Shortcut | None:
        inputs = self._inputs(args, {})
        captures, by_value = inputs.captures, self._by_value.get(inputs.kind, frozenset())
        if (
            executable.writes
            or inputs.objects
            or executable.numbers
            or not captures.is_plain
            or any(n >= inputs.of_arguments for n in by_value)
        ):
            return None
        # For each argument; then for captured arrays, and for parameters that numbers become.
        kinds: list[tuple[Any, ...]] = []
        places: list[int] = []  # for each leaf among the arguments
        for n, value in enumerate(args):
            is_leaf = n not in self._static and (type(value) in (np.ndarray, Array) or _is_number(value))
            if type(value) is np.ndarray and is_leaf:
                kinds.append((value.dtype, value.shape, False))
            elif type(value) is Array and is_leaf:
                kinds.append((value.dtype, value.shape, False, True))
            elif is_leaf and len(places) not in by_value:
                kinds.append((type(value),))
            elif type(value) in (bool, int, str, type(None)):
                kinds.append((None, value))
            else:
                return None
            places += [n] if is_leaf else []
        count, arrays = len(args), captures.arrays
        kinds += [(p.value.dtype, p.value.shape, False) for p in arrays]
        evaluated = [s for s in executable.sources if not isinstance(s, int)]
        kinds += [(s(inputs.leaves).dtype, (), False) for s in evaluated]
        later = iter(range(count + len(arrays), len(kinds)))
        of_leaf = [*places, *range(count, count + len(arrays))]
        sources = [of_leaf[s] if isinstance(s, int) else next(later) for s in executable.sources]
        plain = executable.structure is _RESULT or (
            type(executable.structure) is tuple and all(leaf is _RESULT for leaf in executable.structure)
        )
        plain = plain and not executable.checks
        assert isinstance(executable.program, Compiled)  # the reference has no shortcuts
        finish = (
            None if plain and executable.program.plan.single == (executable.structure is _RESULT) else executable.finish
        )
        if not (arrays or evaluated or captures.constants or captures.sizes):
            return Shortcut(executable, executable.program, kinds, sources, finish=finish)
        numbers = [(n, kinds[n][0]) for n in places if len(kinds[n]) == 1]

        def flattened(arguments: tuple[Any, ...]) -> tuple[Sequence[Any], bool]:
            """The arguments, captured arrays and the parameters that numbers become; whether everything else is
            unchanged."""
            if (
                len(arguments) != count
                or not captures.unchanged()
                or any(type(arguments[n]) is not k for n, k in numbers)
            ):
                return arguments, False
            try:
                values = [p.get() for p in arrays]
                if not all(issubclass(type(v), (np.ndarray, np.generic)) for v in values):  # or values of another trace
                    return arguments, False
                values = [np.asarray(v) for v in values]
                leaves = [*(arguments[n] for n in places), *values]
                return [*arguments, *values, *(evaluate(leaves) for evaluate in evaluated)], True
            except Exception:  # the slower path reports what is wrong, if anything
                return arguments, False

        return Shortcut(
            executable, executable.program, kinds, sources, flatten=flattened, structure=True, finish=finish
        )

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        with _tracing:
            inputs = self._inputs(args, kwargs)
            while True:
                by_value = self._by_value.get(inputs.kind, frozenset())
                tracing = Tracing(self._title, inputs.leaves, inputs.open)
                try:
                    module, structure, contents = _traced(self.function, tracing, inputs, by_value)
                except Exception as problem:  # possibly because a value is missing: with it, the trace starts again
                    if tracing.asked <= by_value:
                        raise with_python_location(problem, self.function) from problem.__cause__
                else:
                    if tracing.asked <= by_value:
                        break
                self._by_value[inputs.kind] = by_value | tracing.asked
        numpy_lowered = _NumpyLowered(self._build(module), structure, contents, tracing, inputs)
        if inputs.objects:  # such a function is not saved, and the objects may be deleted
            kinds = (v if isinstance(v, type) else type(v) for _, v in inputs.objects)
            numpy_lowered.objects = [kind.__name__ for kind in kinds]
            return numpy_lowered
        arguments = [(self._argument(n), n in self._static, value) for n, value in enumerate(args)]
        keywords = [(name, name in self._static, value) for name, value in kwargs.items()]
        values = {n: inputs.leaves[n] for n in by_value if n < inputs.of_arguments}
        trees = argument_trees(arguments + keywords, values, lambda v: is_array(v) or _is_number(v))
        numpy_lowered.arguments = trees[: len(args)], trees[len(args) :]
        return numpy_lowered

    @property
    def _title(self) -> str:
        return self.name.strip("<>") or "function"


class _NumpyLowered(Lowered):
    """A compiled traced function, the structure of its result, and the sources of its parameters: a leaf (those from
    number `of_arguments` on are the captured arrays), or a value computed from leaves. `arguments` are the positional
    ones and the others, each with its name and its tree.

    The program's results are the arrays that the function returns or puts into lists and dicts among its arguments
    (`contents`, by leaf what is in them), then the new values of the arguments to which it writes (`writes`, their
    leaves), then the outcomes of its checks (`checks`, each of which creates an error).
    """

    arguments: tuple[list[tuple[str, Tree]], list[tuple[str, Tree]]] = ([], [])

    objects: Sequence[str] = ()  # the types of those among the arguments

    def __init__(
        self,
        program: Compiled | Reference,
        structure: Any,
        contents: dict[int, Any],
        tracing: Tracing,
        inputs: _Inputs,
    ) -> None:
        self.captures, self.of_arguments = weakref.ref(inputs.captures), inputs.of_arguments
        self.names = [f"argument {name}" for name in inputs.names] + [p.name for p in inputs.captures.arrays]
        self.contents, self.first_container = contents, len(self.names)
        self.names += [f"argument {name}" for name in inputs.container_names]
        self.program, self.structure, self.sources = program, structure, tracing.sources
        self.writes, self.checks = tuple(tracing.written), [error for _, error in tracing.top.checks]
        self.numbers = [leaf for leaf in leaves(structure) if isinstance(leaf, Number)]

    def __call__(self, leaves: Sequence[Any]) -> Any:
        if self.writes:
            check_written(leaves, self.writes, self.names)
        if self.contents:
            first = self.first_container
            require_apart(leaves[first:], [n - first for n in self.contents], self.names[first:])
        results = self.program(*self.parameters(leaves))
        return self.finish(results if isinstance(results, tuple) else (results,), leaves)

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        return [leaves[s] if isinstance(s, int) else s(leaves) for s in self.sources]

    def calling(self, name: str) -> CallingConvention:
        """Freezes arrays that the function reads in addition to its arguments at their present values."""
        if self.objects:
            raise TypeError(f"a value of type {self.objects[0]} has no form in a file")
        captures = self.captures()
        if captures is None:
            raise UnsupportedError(
                f"{name}: what the function reads was changed or is gone; call it before it is saved"
            )
        changed = [self.names[n] for n in self.writes if n >= self.of_arguments]
        if changed:
            raise UnsupportedError(
                f"{name} changes {changed[0]} in place, which is not saved with it: make it an argument"
            )
        if self.contents:
            raise UnsupportedError(
                f"{name} changes {self.names[next(iter(self.contents))]}, which is not saved with it: return a new one"
            )
        captured = [np.asarray(place.get()) for place in captures.arrays]
        sources = [
            s.data if not isinstance(s, int) else s if s < self.of_arguments else captured[s - self.of_arguments]
            for s in self.sources
        ]
        positional, keywords = map(tuple, self.arguments)
        errors = [error() for error in self.checks]
        return CallingConvention(
            name,
            positional,
            keywords,
            tuple(sources),
            tree_of(self.structure, _leaf_tree),
            writes=self.writes,
            checks=tuple((type(error).__name__, str(error)) for error in errors),
        )

    def finish(self, results: Sequence[np.ndarray], values: Sequence[Any] = ()) -> Any:
        """What the function returns, from the program's results and the leaves of the call."""
        first_check = len(results) - len(self.checks)
        for is_met, error in zip(results[first_check:], self.checks, strict=True):
            if not is_met:
                raise error()
        for leaf, value in zip(self.writes, results[first_check - len(self.writes) :], strict=False):
            np.copyto(values[leaf], value)
        rest = iter(results)

        def value_of(leaf: Any) -> Any:
            if leaf is _RESULT:
                return next(rest)
            if isinstance(leaf, _Written):
                return values[leaf.leaf]
            return leaf.evaluate(values) if isinstance(leaf, Number) else leaf

        result = rebuild(self.structure, value_of)
        for leaf, content in {n: rebuild(content, value_of) for n, content in self.contents.items()}.items():
            put(values[leaf], content)
        return result


class _Written:
    """In the structure of a result: an argument that the function has written to or changed, and returns."""

    def __init__(self, leaf: int) -> None:
        self.leaf = leaf


def _leaf_tree(leaf: Any) -> Tree:
    """A leaf in the structure of a result as data."""
    if leaf is _RESULT:
        return ArrayLeaf()
    if isinstance(leaf, _Written):
        return LeafResult(leaf.leaf)
    if isinstance(leaf, Number):
        number = leaf.expression
        return number if isinstance(number, DerivedNumber) else DerivedNumber("pos", (number,))
    return Constant(leaf)


_RESULT = object()  # in the structure of a result: an array that the program computes
_NUMBERS = (int, float, complex)
_tracing = threading.RLock()  # held while variables have values other than the user's


class _Inputs:
    """The inputs of a call: `leaves` (see tracing.py), first those of the arguments, `of_arguments` of them, with
    `names`; and last the lists and dicts among the arguments, which the function may change, with `container_names`.
    `kind` decides about the program together with the values of leaves; `open` are the leaves whose values may be
    requested; `objects` are arguments whose attributes must be inspected."""

    captures: Captures

    def __init__(self, function: NumpyFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.containers: list[Any] = []
        self.container_names: list[str] = []
        self.open: set[int] = set()
        self.objects: list[tuple[str, Any]] = []
        self.arguments, self.static = (args, kwargs), function._static
        self._function = function.name
        kinds = [self._kind(v, function._argument(n), n in self.static) for n, v in enumerate(args)]
        kinds += [(k, self._kind(v, k, k in self.static)) for k, v in kwargs.items()]
        self.kind: Hashable = tuple(kinds)
        self.of_arguments = len(self.leaves)

    def take(self, captures: Captures) -> None:
        """Appends what the function reads in addition to its arguments."""
        self.captures = captures
        self.kind = (self.kind, captures.kind)
        for place in captures.arrays:
            self.open.add(len(self.leaves))
            self.leaves.append(place.value)
        self.leaves += self.containers

    def _kind(self, value: Any, name: str, static: bool) -> Hashable:
        if static:
            return ("static", _key(value))
        if isinstance(value, (list, dict)):
            self.containers.append(value)
            self.container_names.append(name)
        if isinstance(value, dict):
            return ("dict", tuple((k, self._kind(v, f"{name}[{k!r}]", False)) for k, v in value.items()))
        if isinstance(value, (tuple, list)):
            return (type(value), tuple(self._kind(v, f"{name}[{n}]", False) for n, v in enumerate(value)))
        if is_array(value):
            require_plain(value, f"argument {name}")
            array = value if isinstance(value, (np.ndarray, np.generic, Array)) else _as_numpy(value)
            if array.dtype not in BY_DTYPE:
                raise InputError(
                    f"argument {name} of {self._function} is of NumPy's type {array.dtype}, which HLO does not have: "
                    f"{conversion(array.dtype)}"
                )
            self._leaf(array, name)
            return ("array", array.shape, array.dtype, isinstance(array, np.generic))
        if _is_number(value):
            self.open.add(len(self.leaves))
            self._leaf(value, name)
            return ("number", type(value))
        if type(value) in (bool, int, str, bytes, type(None), type(Ellipsis), slice):
            return _key(value)
        if is_dataclass(value):
            self.objects.append((name, type(value)))
            kinds = ((k, self._kind(v, f"{name}.{k}", False)) for k, v in fields_of(value).items())
            return ("dataclass", type(value), tuple(kinds))
        self.objects.append((name, value))
        return ("object", type(value))

    def _leaf(self, value: Any, name: str) -> None:
        self.names.append(name)
        self.leaves.append(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a Python number that may be a parameter."""
    kind = type(value)
    return kind in (float, complex) or (kind is int and -_LARGEST <= value < _LARGEST)


def _parameter_name(inputs: _Inputs, source: object, number: int, names: Container[str]) -> str:
    """A parameter is named as in the function, `x` or `pair_0`, or arg0, arg1, ... if that is not a valid name: names
    of other instructions end in a number after a dot."""
    path = inputs.names[source] if isinstance(source, int) and source < inputs.of_arguments else ""
    name = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_")
    return name if re.match(r"(?!arg\d)[A-Za-z]", name) and name not in names else f"arg{number}"


def _traced(
    function: Callable[..., Any], tracing: Tracing, inputs: _Inputs, by_value: frozenset[int]
) -> tuple[Module, Any, dict[int, Any]]:
    """The module of a function of such inputs (those in `by_value` by their values), the structure of its result, and
    by leaf the final contents of lists and dicts among its arguments.

    Raises UnsupportedError for operations without an HLO form, InputError for an array of a type that HLO does not
    have.
    """
    numbers = iter(range(inputs.of_arguments))

    def symbol(n: int, value: Any, name: str) -> Any:
        if n in by_value:
            return _frozen(value)
        if type(value) in _NUMBERS:
            return Number(tracing, lambda leaves: leaves[n], frozenset((n,)), name, n)
        of_numpy = isinstance(value, np.ndarray)
        is_scalar = not isinstance(value, (np.ndarray, Array)) and not np.ndim(value)
        return Traced(tracing.array(n), tracing, name, leaf=n, is_scalar=is_scalar, is_writable=of_numpy)

    def argument(leaf: Any, static: bool) -> Any:
        if isinstance(leaf, SOURCES):
            return Guard(f"an argument, {a_type(leaf)}", leaf)
        if static or not (is_array(leaf) or _is_number(leaf)):
            return leaf
        n = next(numbers)
        return symbol(n, inputs.leaves[n], f"argument {inputs.names[n]}")

    args, kwargs = inputs.arguments
    static = inputs.static
    args = tuple(rebuild(v, partial(argument, static=n in static)) for n, v in enumerate(args))
    kwargs = {k: rebuild(v, partial(argument, static=k in static)) for k, v in kwargs.items()}
    before = [(o, fields_of(o)) for o in _dataclasses((args, kwargs))]
    given = GivenContainers(
        (*(v for n, v in enumerate(args) if n not in static), *(v for k, v in kwargs.items() if k not in static))
    )
    captures, watch = inputs.captures, Watch(tracing.name)
    swaps = _swaps(inputs, tracing, watch, symbol)
    with ExitStack() as stack:
        stack.enter_context(refused(tracing.name))
        stack.enter_context(watch.patched())
        namespaces = [("", content, len(content)) for content in captures.namespaces.values()]
        objects = [value for _, value in inputs.objects]
        stack.enter_context(PatchedVariables(swaps, [*captures.sizes, *namespaces], _is_symbol, objects))
        stack.enter_context(tracing.runs())
        try:
            result = function(*args, **kwargs)
        except Exception as problem:
            _refuse_other_framework(problem, tracing)
            raise
    captures.refuse_assignments()
    for instance, fields in before:
        _refuse_assignments(instance, fields)
    returned: list[Instruction] = []
    first_container = len(inputs.leaves) - len(inputs.containers)

    def collect(leaf: Any) -> Any:
        place = given.place(leaf)
        if place is not None:
            return _Written(first_container + place)
        if isinstance(leaf, Selection):
            raise leaf.unknown_size("returned")
        if not isinstance(leaf, Traced):
            _refuse_result(leaf, tracing)
            return leaf
        storage: TracedStorage = leaf.storage
        if leaf.alias is None and storage.leaf is not None and storage.leaf in tracing.written:
            return _Written(storage.leaf)
        returned.append(leaf.instruction)
        return _RESULT

    structure = rebuild(result, collect, given.is_changed)
    contents = {first_container + n: content for n, content in given.contents(collect).items()}
    returned += [s.value for s in tracing.written.values()] + [condition for condition, _ in tracing.top.checks]
    root = returned[0] if len(returned) == 1 else tracing.tuple(*returned)
    return _module_of(root, tracing, inputs), structure, contents


def _swaps(
    inputs: _Inputs, tracing: Tracing, watch: Watch, symbol: Callable[[int, Any, str], Any]
) -> list[tuple[CapturedVariable, Any]]:
    """The captured variables that have another value while the function is traced, and that value; `symbol` gives the
    traced value of an input, from its number, value and name."""
    captures, first = inputs.captures, inputs.of_arguments
    swaps: list[tuple[CapturedVariable, Any]] = []
    for n, place in enumerate(captures.arrays):
        if place.set is None:
            tracing.asked.add(first + n)
        else:
            swaps.append((place, symbol(first + n, place.value, place.name)))
    swaps += [(p, Guard(p.name, p.value)) for p in captures.sources if p.set is not None]
    numpy = NumpyModule(tracing)
    swaps += [(p, numpy) for p in captures.numpys if p.set is not None]
    swaps += [(p, new) for p in captures.constants if p.set is not None and (new := replacement(p.value, tracing))]
    swaps += captures.caches
    swaps += watch.swaps(captures.constants)
    return swaps


def _refuse_other_framework(problem: Exception, tracing: Tracing) -> None:
    """InputError for what another framework raises of a traced value: it is the function's own."""
    framework = _framework_of(problem)
    if framework is not None:
        raise InputError(
            f"{tracing.name} is a function of {framework[0]}, not of NumPy: compile {framework[1]} in its place"
        ) from problem


def _refuse_assignments(instance: Any, fields: dict[str, Any]) -> None:
    """UnsupportedError for a dataclass among the arguments whose `fields` were others before."""
    changed = [k for k, v in fields_of(instance).items() if k not in fields or fields[k] is not v]
    if changed:
        raise UnsupportedError(
            f"the function assigns the attribute {changed[0]} of {a_type(instance)} among its arguments, "
            "which a compiled one cannot: return dataclasses.replace(x, field=value)"
        )


def _refuse_result(leaf: Any, tracing: Tracing) -> None:
    """InputError for a result that computes later, UnsupportedError for an object that holds a traced value."""
    if isinstance(leaf, (Iterator, AsyncIterator, Coroutine)):
        if isinstance(leaf, Coroutine):
            leaf.close()  # nobody will await it
        kind = indefinite(type(leaf).__name__.replace("_", " "))
        raise InputError(
            f"{tracing.name} gives {kind}, which computes when it is asked for values (yield, async, a generator "
            "expression), and a compiled function gives all its results at once: return arrays, in a list say"
        )
    if type(leaf) is not Number and reaches(leaf, (Traced, Number, Selection)):
        raise UnsupportedError(
            f"{tracing.name} returns {a_type(leaf)} that holds an array, which has a value in the compiled "
            "function alone: return the array itself, in a tuple, a dict or a dataclass"
        )


def _module_of(root: Instruction, tracing: Tracing, inputs: _Inputs) -> Module:
    """The module with this result. Its parameters, and the tracing's sources, are those that are used, or whose check
    may raise."""
    order = post_order(root)
    there = set(order)
    pairs = [
        (p, s)
        for p, s in zip(tracing.parameters, tracing.sources, strict=True)
        if p in there or (s < inputs.of_arguments if isinstance(s, int) else s.may_raise)
    ]
    used, tracing.sources = [p for p, _ in pairs], [s for _, s in pairs]
    names: dict[str, None] = {}
    for number, (p, source) in enumerate(zip(used, tracing.sources, strict=True)):
        names[_parameter_name(inputs, source, number, names)] = None
        p.attributes["number"] = number
    for p, name in zip(used, names, strict=True):
        p.name = name
    entry = Computation(f"{tracing.name}.entry", used + [i for i in order if i.opcode != "parameter"], root)
    called: dict[Computation, None] = {}
    _add_called(order, called)
    for number, computation in enumerate(called):
        computation.name = f"{computation.name}.{number}"
    return Module(tracing.name, [*called, entry], entry)


def _add_called(instructions: Iterable[Instruction], computations: dict[Computation, None]) -> None:
    """Adds the computations that instructions call, each after those that it calls itself."""
    for i in instructions:
        for computation in i.called:
            if computation not in computations:
                _add_called(computation.instructions, computations)
                computations[computation] = None


def _dataclasses(tree: Any) -> Iterator[Any]:
    """The objects of dataclasses in a nesting."""
    if is_dataclass(tree):
        yield tree
        tree = tuple(fields_of(tree).values())
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        for element in tree:
            yield from _dataclasses(element)


def with_python_location(problem: Exception, function: Callable[..., Any]) -> Exception:
    """An error of a function's trace, with a message that ends with the user's source line."""
    reason = problem.__cause__ or problem.__context__
    if type(problem) in (ValueError, TypeError) and isinstance(reason, UnsupportedError):  # NumPy's errors for it
        problem = UnsupportedError(
            f"NumPy asks for the value of an array ({problem}), which is not known when the function is compiled: "
            "where you assign to an array that the function did not make with functions of NumPy, begin with "
            "a = np.array(a)"
        ).with_traceback(problem.__traceback__)
    if isinstance(problem, InvalidProgramError):
        problem = UnsupportedError(f"what the function asks for has no HLO: {problem}").with_traceback(
            problem.__traceback__
        )
    if isinstance(problem, Error) and problem.args and not getattr(problem, "is_located", False):
        if isinstance(problem, AssignmentRefused):
            line = line_of_assignment(function, problem.name)
        else:
            line = line_of(problem)
        problem.args = (f"{problem.args[0]}{line}", *problem.args[1:])
        problem.is_located = True  # type: ignore[attr-defined]  # for the next caller, which sees it, too
    return problem


def _is_symbol(value: Any) -> bool:
    """Whether a value belongs to a trace, or contains one that does."""
    return any(issubclass(type(leaf), (Traced, Number, Selection, Guard)) for leaf in leaves(value))


def _frozen(value: Any) -> Any:
    """A value that is part of a program: an array that nobody can change."""
    if not isinstance(value, np.ndarray):
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def _content(value: Any) -> Hashable:
    """Equal for leaves with the same value."""
    if isinstance(value, Array):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return _key(value)
    return (value.shape, value.dtype, value.tobytes())


def is_array(leaf: Any) -> bool:
    """Whether an argument is an array (or a NumPy scalar), possibly of another library: a parameter of the program."""
    if isinstance(leaf, (np.ndarray, np.generic, Array)):
        return True
    kind = type(leaf)
    return (hasattr(leaf, "__array_interface__") and not isinstance(leaf, type)) or (
        hasattr(kind, "__array__") and hasattr(kind, "__dlpack__")
    )


def _as_numpy(value: Any) -> np.ndarray:
    """An array of another library as a NumPy array, to which the function must not write, since it may be a copy.

    Raises InputError for one that represents a value while JAX traces.
    """
    try:
        array = np.asarray(value).view()
    except Exception as problem:  # JAX's class is only known by name here, since JAX is not imported
        if type(problem).__name__ != "TracerArrayConversionError":
            raise
        from ..jax_stages import WITHIN_TRACE

        raise InputError(WITHIN_TRACE) from None
    array.flags.writeable = False
    return array


def _key(tree: Any) -> Any:
    """Equal for arguments that have the same program."""
    if isinstance(tree, dict):
        return ("dict", tuple((k, _key(v)) for k, v in tree.items()))
    if isinstance(tree, (tuple, list)):
        return (type(tree), tuple(_key(v) for v in tree))
    if is_array(tree):
        raise InputError("a static argument is an array: its values would be part of the program; pass it as it is")
    if isinstance(tree, (float, complex)):  # 0.0 == -0.0, but they are different programs
        return (type(tree), tree.real.hex(), tree.imag.hex())
    try:
        hash(tree)
    except TypeError:
        raise InputError(
            f"an argument of type {type(tree).__name__} is neither an array nor hashable; pass arrays"
        ) from None
    return (type(tree), tree)


def _framework_of(problem: Exception) -> tuple[str, str] | None:
    """The framework in whose code an exception was raised, and how its functions are compiled."""
    frame, packages = problem.__traceback__, {type(problem).__module__.split(".")[0]}
    while frame is not None:
        packages.add(frame.tb_frame.f_globals.get("__name__", "").split(".")[0])
        frame = frame.tb_next
    if packages & {"jax", "jaxlib"} or "JAX type" in str(problem):  # JAX hides its frames
        return "JAX", "jax.jit(f)"
    if "torch" in packages or "must be Tensor" in str(problem):
        return "PyTorch", "a torch.nn.Module, or f with example arguments,"
    return ("TensorFlow", "tf.function(f)") if "tensorflow" in packages else None
