"""What functions of all frameworks share: they are traced and compiled once for each kind of arguments, then run."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError, plural
from refxla_spec.module import Module

from .._core.calls import Caller, Shortcut
from ..compiler import executable_file
from ..compiler.driver import Compiled, Reference, compile_module
from ..compiler.options import Options
from ..ir.calling_convention import CallingConvention
from ..ir.fingerprint import Source

if TYPE_CHECKING:
    from ..compiler.kernel_profile import Profile


class Lowered:
    """One compiled lowering of a function: called with the leaves of the arguments, returns the function's results."""

    program: Compiled | Reference
    shortcut_tried = False  # whether `_shortcut` was asked for one; it may have had none

    def __call__(self, leaves: Sequence[Any]) -> Any:
        raise NotImplementedError

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        """The program's arguments for these leaves."""
        raise NotImplementedError

    def calling(self, name: str) -> CallingConvention:
        """How the program is called for the function named `name`, as data for a file. Raises UnsupportedError for
        anything that a file cannot represent."""
        raise UnsupportedError(f"{name} cannot be saved with its arguments: save its HLO, {name}.hlo, compiled alone")


_thread = threading.local()  # `traces`: whether refxla traces a function in this thread


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """A context in which refxla traces a function: a compiled one that is called there becomes part of it."""
    before, _thread.traces = getattr(_thread, "traces", False), True
    try:
        yield
    finally:
        _thread.traces = before


WARN_COMPILATIONS = 5  # compilations because of one argument after which a warning says so


class RecompilationWarning(UserWarning):
    """A function is compiled again and again, because of the argument that the warning names."""


class _Description(NamedTuple):
    """What a part of the arguments means for a program; equal if programs are the same."""

    kind: Literal["array", "number", "object"]  # what it is to users, who can avoid compilations accordingly
    text: str  # for messages
    identity: Hashable


class NumbersInProgram:
    """The elements of an array whose values, not only its type and shape, are part of the program."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.text = str(array.tolist())


class TracedFunction(Caller):
    """Called like the original function.

    It is compiled at the first call, and again when arguments differ in structure, shapes, types, or values other than
    arrays. The attributes of an executable (`hlo`, `optimized_hlo`, `plan`, `opencl`, `memory`, `cost`, `explain`) are
    those of the one used last. It may be called from several threads.

    Calls with positional arguments like those of an earlier one take a shortcut (_core/calls.pyx), if the front end has
    one. As an attribute of a class it is a method, whose `self` is the first argument.
    """

    value_advice = "its value is part of the program; pass it as an array"

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function: Any = function  # it may have more than a call: JAX's can be traced
        self.options = options
        self._compiled: dict[Hashable, Lowered] = {}
        self._lock = threading.RLock()
        self._last: dict[str, _Description] = {}  # the parts of what was compiled last
        self._changes: Counter[str] = Counter()  # how often each part was the reason to compile

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without a shortcut, after which the next one like it may take one. If refxla traces a function, a call
        with its symbolic values becomes part of that, as if the called function were not compiled."""
        if getattr(_thread, "traces", False) and self._has_traced(args, kwargs):
            return self.function(*args, **kwargs)
        key, leaves = self._describe(args, kwargs)
        executable = self._compiled.get(key)
        if executable is None:
            executable, leaves = self._compile(args, kwargs)
        self.executable = executable
        if not kwargs and not executable.shortcut_tried:
            executable.shortcut_tried = True
            shortcut = self._shortcut(args, executable) if type(executable.program) is Compiled else None
            if shortcut is not None:
                self.remember(shortcut)
        return executable(leaves)

    def _has_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether arguments contain values of a function that is being traced."""
        return False

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles for arguments like these without running anything, unless that was done before."""
        self.executable, _ = self._compile(args, kwargs)

    def compile_examples(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compiles for the example arguments of `refxla.compile`, if there were any.

        Raises InputError for a keyword that the function does not take: possibly a misspelt option.
        """
        names = keyword_names(self._signed)
        for name in kwargs:
            if names is not None and name not in names:
                raise InputError(
                    f"{name!r} is neither an option of refxla.compile nor an argument of {self.name}, which takes "
                    f"{', '.join(names) or 'none by keyword'}"
                )
        if args or kwargs:
            self.compile(*args, **kwargs)

    def profile(self, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Profile:
        """How long each kernel takes in a call with these arguments, for which the function is compiled first if
        necessary; see `Compiled.profile`. The measured calls do not run any of the function's own Python."""
        executable, leaves = self._compile(args, kwargs)
        self.executable = executable
        if not isinstance(executable.program, Compiled):
            raise InputError(f"{self.name} runs on the reference, which has no kernels")
        return executable.program.profile(*executable.parameters(leaves), seconds=seconds)

    def save(self, path: str | Path) -> None:
        """Writes what was compiled last to a file, which `refxla.load` opens without the framework and the function's
        source, and calls as the function is called; see `Compiled.save`. A parameter that is static, or whose value the
        function needed, is saved with its value.

        Raises InputError if nothing was compiled yet or the file cannot be written, UnsupportedError for arguments or
        results that a file cannot represent, such as classes of the user's.
        """
        executable = self.executable
        if executable is None:
            raise InputError(
                f"{self.name} is compiled when it is first called, or with example arguments; save it then"
            )
        if not isinstance(executable.program, Compiled):
            raise InputError(
                f"{self.name} runs on the reference, which has no kernels to save: compile it for a device"
            )
        try:
            executable_file.write(path, executable.program.saved(executable.calling(self.name)))
        except TypeError as problem:
            raise UnsupportedError(f"{self.name} cannot be saved: {problem}") from None

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Lowered, Sequence[Any]]:
        with self._lock:  # two threads with the same arguments compile once
            key, leaves = self._describe(args, kwargs)
            executable = self._compiled.get(key)
            if executable is None:
                self._count(args, kwargs)
                executable = self._lower(args, kwargs)
                key, leaves = self._describe(args, kwargs)  # the lowering may have found more that matters
                self._compiled[key] = executable
            return executable, leaves

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Sequence[Any]]:
        """What decides about the program, and the leaves that are passed to it."""
        raise NotImplementedError

    def _count(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Warns, once for each argument, when it was the reason for several compilations."""
        parts = {name: _described(value) for name, value in self._parts(args, kwargs)}
        changed = [n for n in parts if n in self._last and parts[n] != self._last[n]]
        for name in changed:
            self._changes[name] += 1
            if self._changes[name] == WARN_COMPILATIONS:
                advice = self._advice(self._last[name], parts[name])
                warnings.warn(
                    f"{self.name} was compiled {WARN_COMPILATIONS} times anew because {name} changed, the last time "
                    f"from {self._last[name].text} to {parts[name].text}: {advice}",
                    RecompilationWarning,
                    stacklevel=caller_level(),
                )
        self._last = parts

    def _advice(self, *described: _Description) -> str:
        """How to avoid compilations because an argument changed from one description to another."""
        kinds = {d.kind for d in described}
        if kinds == {"array"}:
            return "each shape is a program of its own; pad arrays to a few"
        if "number" in kinds:
            return self.value_advice
        return "each value is a program of its own, and no array can take its place; use a few of them"

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """The parts of the decision whether to compile: names, and values, or types of values that matter only by type,
        or the NumbersInProgram of arrays that matter by value."""
        arguments = [(self._argument(n), value) for n, value in enumerate(args)] + list(kwargs.items())
        return [part for name, value in arguments for part in _leaves(name, value)]

    def _argument(self, n: int) -> str:
        """The name of the argument at a position."""
        return self._parameters[n] if n < len(self._parameters) else f"argument {n}"

    @functools.cached_property
    def _parameters(self) -> tuple[str, ...]:
        return positional(self._signed)

    @property
    def _signed(self) -> Any:
        """An object with the function's parameters as its signature."""
        return self.function

    def _shortcut(self, args: tuple[Any, ...], executable: Any) -> Shortcut | None:
        """The shortcut for calls with the same description as these arguments, for which `executable` was compiled;
        None if types, shapes and settings do not identify them."""
        return None

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        """Traces the function for arguments like these and compiles it."""
        raise NotImplementedError

    def _build(self, program: Module | Source) -> Compiled | Reference:
        return compile_module(program, self.options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(Compiled, name) and hasattr(self.function, name):
            raise AttributeError(f"a compiled function has no {name}; what it was compiled from has: f.function.{name}")
        if self.executable is None:
            raise AttributeError(f"{name}: the function is compiled when it is first called, or with example arguments")
        return self._of_program(name)

    def _of_program(self, name: str) -> Any:
        """This attribute of the program that was used last."""
        return getattr(self.executable.program, name)

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __repr__(self) -> str:
        kinds = len(self._compiled)
        return f"<{type(self).__name__} {self.name}: compiled for {kinds} kind{'' if kinds == 1 else 's'} of arguments>"


_TEXT = 60  # characters of a value in a message
_SHOWN = (bool, int, float, complex, str, bytes, type(None))


def positional(function: Any) -> tuple[str, ...]:
    """The names of a function's positional parameters; () if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def keyword_names(function: Any) -> tuple[str, ...] | None:
    """The keywords that a function takes; None if it takes any, or they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def static_parameters(function: Any, numbers: Any, names: Any) -> frozenset[int | str]:
    """The positions and the names of parameters given by either, as in `jax.jit`.

    Raises InputError for one that the function does not have.
    """
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    names = (names,) if isinstance(names, str) else tuple(names)
    order = positional(function)
    try:
        parameters = dict(inspect.signature(function).parameters)
        open_ended = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    except (TypeError, ValueError):
        parameters, open_ended = {}, True
    keys: set[int | str] = set()
    for n in numbers:
        place = n + len(order) if n < 0 else n
        if not (0 <= place < len(order) or open_ended):
            raise InputError(
                f"static_argnums: {n} is no place of {plural(len(order), 'parameter')} ({', '.join(order)})"
            )
        keys |= {place, order[place]} if place < len(order) else {place}
    for name in names:
        if not open_ended and name not in parameters:
            raise InputError(f"static_argnames: {name!r} is no parameter; there are {', '.join(parameters)}")
        keys |= {name, order.index(name)} if name in order else {name}
    return frozenset(keys)


_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def caller_level() -> int:
    """The `stacklevel` with which a warning shows the line that called this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, element in value.items():
            yield from _leaves(f"{name}[{key!r}]", element)
    elif isinstance(value, (list, tuple)):
        for n, element in enumerate(value):
            yield from _leaves(f"{name}[{n}]", element)
    else:
        yield name, value


def _described(value: Any) -> _Description:
    name = type(value).__name__
    if isinstance(value, NumbersInProgram):
        return _Description("number", value.text[:_TEXT], value.text)
    if isinstance(value, type):
        return _Description("object", value.__name__, value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        text = f"{value.dtype}{tuple(value.shape)}"
        return _Description("array", text, text)
    if isinstance(value, _SHOWN):
        is_number = isinstance(value, (int, float, complex))
        return _Description("number" if is_number else "object", repr(value)[:_TEXT], (name, value))
    return _Description("object", f"<{name}>", (name, id(value)))
