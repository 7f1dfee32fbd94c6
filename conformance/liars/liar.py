"""The definition of a liar, and the table of all of them.

Three decorators register a function, under its name with `-` for `_`; its docstring says what class of bugs it
represents.

    @of_results()           lie(results) -> results: what the program returns, its arrays in order, is changed
    @of_operation("add")    lie(truth, instruction, *operands) -> value: the value of an operation is another one;
                            truth(instruction, *operands) is the right value, also for other operands or attributes
    @of_target              a class: a target that is wrong in a way of its own
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.operation import operations, replaced
from refxla_spec.types import Value

from ..bounded_loops import bounded_while
from ..targets.base import Target
from ..targets.reference import Reference

TOOLS = ("suite", "check", "fuzz")
SUITE_ALONE = TOOLS[:1]

Results = list[np.ndarray]
Lie = Callable[..., Value]
AboutResults = Callable[[Results], Results]


@dataclass(frozen=True)
class Liar:
    """`name` follows "liar:" on the command line; `what` is the class of bugs, a sentence. A program without one of
    `opcodes` is computed correctly (() if any program may be wrong). `everywhere` says that no result is right, so that
    no case may pass, and `verifier` that results are right, but verdicts on programs are wrong. `tools` are those that
    run programs which show the lie: for example, only the suite has programs for several devices, or invalid ones, and
    the fuzzer none with more than six dimensions.
    """

    name: str
    what: str
    make: Callable[[], Target]
    opcodes: tuple[str, ...] = ()
    everywhere: bool = False
    verifier: bool = False
    tools: tuple[str, ...] = TOOLS

    def target(self) -> Target:
        """The liar, as a target of the suite."""
        target = self.make()
        target.name = f"liar:{self.name}"
        return target

    def touches(self, opcodes: Iterable[str]) -> bool:
        """Whether programs of these operations may give wrong results."""
        return not self.opcodes or not set(self.opcodes).isdisjoint(opcodes)


def context(truth: Lie, name: str) -> Any:
    """What the interpreter gives an operation besides its operands: "run", "state" or "device"."""
    assert isinstance(truth, functools.partial)
    return truth.keywords[name]


ITERATIONS = 3000  # of a loop in a program under a lie; programs of the suite and the fuzzer have fewer
LIARS: dict[str, Liar] = {}


def _enter(function: Callable[..., Any], make: Callable[[], Target], **more: Any) -> None:
    name = function.__name__.replace("_", "-")
    assert name not in LIARS, f"two liars are called {name}"
    LIARS[name] = Liar(name, _summary(function), make, **more)


def _summary(entry: Callable[..., Any]) -> str:
    """The first paragraph of the docstring, which every lie has."""
    assert entry.__doc__
    return " ".join(inspect.cleandoc(entry.__doc__).split("\n\n")[0].split())


def of_results(*, everywhere: bool = False) -> Callable[[AboutResults], AboutResults]:
    """Registers a lie about the results of whole programs."""

    def enter(function: AboutResults) -> AboutResults:
        _enter(function, lambda: _AboutResults(function), everywhere=everywhere)
        return function

    return enter


def of_operation(*opcodes: str, tools: tuple[str, ...] = TOOLS) -> Callable[[Lie], Lie]:
    """Registers a lie about the values of some operations."""

    def enter(function: Lie) -> Lie:
        _enter(function, lambda: _AboutOperations(opcodes, function), opcodes=opcodes, tools=tools)
        return function

    return enter


def of_target(**more: Any) -> Callable[[type[Target]], type[Target]]:
    """Registers a class of targets, under the name of the class in lower case."""

    def enter(cls: type[Target]) -> type[Target]:
        name = "".join(f"-{c.lower()}" if c.isupper() else c for c in cls.__name__).strip("-")
        LIARS[name] = Liar(name, _summary(cls), cls, **more)
        return cls

    return enter


class _AboutResults(Reference):
    """The reference, with its results changed."""

    def __init__(self, lie: Callable[[Results], Results]) -> None:
        self.lie = lie

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        with np.errstate(all="ignore"):
            return [np.asarray(r) for r in self.lie([r.copy() for r in super().run(module, arguments)])]


class _AboutOperations(Reference):
    """The reference, with the meaning of some operations changed while it runs."""

    def __init__(self, opcodes: Sequence[str], lie: Lie) -> None:
        self.opcodes, self.lie = opcodes, lie

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        with redefined(self.opcodes, self.lie):
            return super().run(module, arguments)

    def run_fed(self, module: Module, arguments: Sequence[Value], infeed: Sequence[Value]) -> Results:
        with redefined(self.opcodes, self.lie):
            return super().run_fed(module, arguments, infeed)


@contextmanager
def redefined(opcodes: Sequence[str], lie: Lie) -> Iterator[None]:
    """A context in which the operations mean what `lie` says; a lie about its condition may keep a loop from ending."""
    registry = operations()

    def bent(truth: Callable[..., Value]) -> Callable[..., Value]:
        def evaluate(instruction: Instruction, *operands: Value, **keywords: Any) -> Value:
            with np.errstate(all="ignore"):
                return lie(functools.partial(truth, **keywords), instruction, *operands)

        return evaluate

    truths = {opcode: registry[opcode].evaluate for opcode in opcodes} | {"while": bounded_while(ITERATIONS)}
    changed = {o: replace(registry[o], evaluate=bent(truth) if o in opcodes else truth) for o, truth in truths.items()}
    with replaced(changed):
        yield


def with_attributes(instruction: Instruction, **attributes: Any) -> Instruction:
    """The instruction with other attributes."""
    return replace(instruction, attributes={**instruction.attributes, **attributes})


def same_shapes(*values: Value) -> bool:
    """Whether arrays have the same types and dimensions, so that they can be exchanged."""
    return all(v.dtype == values[0].dtype and v.shape == values[0].shape for v in values)
