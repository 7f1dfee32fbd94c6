"""The registry: every file in `ops/` is one operation, and this is what such a file holds.

A file `ops/<op>.py` is named after the opcode, with `_` for `-`, and a `_` after Python's keywords: `and_.py`. It has

    the docstring    its first line is the summary, the rest the semantics, in prose and formulas
    INPUTS           {"lhs": "what it may be", ...} in order; a name that begins with `*` takes any number of operands
    ATTRIBUTES       {"dimensions": Attribute(kind, default, meaning), ...}
    CONSTRAINTS      {"C1": "the rule, as a sentence", ...}; `infer` breaks them by these labels. The last that begins
                     with "the result" is the verifier's: broken where the stated shape is not what `infer` gives
    infer(instruction, *operand_shapes) -> Shape
                     the shape of the result; raises by `require(condition, "C1", "what is wrong with these")`
    implied(instruction, *operand_shapes) -> Shape
                     where `infer` reads the stated shape: the one that a text means that states none
    evaluate(instruction, *operand_values) -> Value
                     the value; with a keyword parameter `run`, it is given run(computation, *values) -> Value,
                     with `state` the RandomState of the run
    check_devices(instruction, replicas, partitions)
                     of a collective: the rules about how many there are, broken as in `infer`; None for a count that is
                     not known. The verifier asks for them where the module's header counts more than one, whoever runs
                     a program (devices.misfit) for the number of devices it runs on
    EXAMPLES         a tuple of Example
    COUNTEREXAMPLES  {"C1": a module as text, written as an example's, that breaks this one constraint, ...};
                     OPCODE in it stands for the opcode, which lets families of operations share them
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from .attributes import REQUIRED, Attribute
from .errors import Error, InvalidProgramError, UnsupportedError
from .groups import Count
from .module import Instruction
from .types import Shape


class Violation(Error):
    """A constraint is broken; the verifier turns it into an InvalidProgramError that says where."""

    def __init__(self, label: str, message: str) -> None:
        super().__init__(message)
        self.label = label


def require(condition: bool, label: str, message: str) -> None:
    """Raise Violation(label, message) unless the condition holds."""
    if not condition:
        raise Violation(label, message)


@dataclass(frozen=True)
class Example:
    """A runnable example: an HLO module as text, inputs and expected results as text of literals.

    `hlo` is a whole module, or the lines of its ENTRY computation alone. `inputs` and `expected` are literals as HLO
    writes them after their shapes ("f32[2] {1, 2}"); `expected` is compared by the accuracy contract. Of a module for
    several devices they are given device after device: all inputs of the first one, then all of the second, ...
    `infeed` is what the device is fed, and `outfed` what it gives to its host, in order.
    A value of a dynamic shape is a literal of the size that it has ("f32[2] {1, 2}" where the shape says f32[<=4]).
    """

    hlo: str
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    note: str = ""
    infeed: tuple[str, ...] = ()
    outfed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """One operation of HLO, as its file in `ops/` defines it."""

    opcode: str
    summary: str
    semantics: str
    inputs: dict[str, str]
    attributes: dict[str, Attribute]
    constraints: dict[str, str]
    infer: Callable[..., Shape]
    evaluate: Callable[..., Any]
    examples: tuple[Example, ...]
    counterexamples: dict[str, str]  # of each constraint's label a module that breaks it
    takes_run: bool  # whether evaluate calls computations
    takes_device: bool  # whether it needs to know the device, or others
    takes_state: bool = False  # whether it uses the state of random numbers
    check_devices: Callable[[Instruction, Count, Count], None] | None = (
        None  # the rules about how many devices there are
    )
    implied: Callable[..., Shape] | None = None  # the shape that a text means that states none; None: what infer gives

    @cached_property
    def arity(self) -> int | None:
        """The number of operands, or None where any number is allowed."""
        return len(self.inputs) if len(self.fixed) == len(self.inputs) else None

    @property
    def fixed_arity(self) -> int:
        """`arity`, of an operation that has one; TypeError for any other."""
        if self.arity is None:
            raise TypeError(f"{self.opcode} takes any number of operands")
        return self.arity

    @cached_property
    def fixed(self) -> tuple[str, ...]:
        """The inputs that take one operand each."""
        return tuple(name for name in self.inputs if not name.startswith("*"))

    @cached_property
    def result_label(self) -> str | None:
        """The label of the constraint on the result, which a stated shape breaks that is not what infer gives."""
        return next((k for k, rule in reversed(self.constraints.items()) if rule.startswith("the result")), None)


def _operation(opcode: str, file: ModuleType) -> Operation:
    parameters = inspect.signature(file.evaluate).parameters
    summary, _, semantics = (file.__doc__ or "").strip().partition("\n")
    return Operation(
        opcode=opcode,
        summary=summary,
        semantics=inspect.cleandoc(semantics),
        inputs=file.INPUTS,
        attributes=getattr(file, "ATTRIBUTES", {}),
        constraints=getattr(file, "CONSTRAINTS", {}),
        infer=file.infer,
        evaluate=file.evaluate,
        examples=tuple(getattr(file, "EXAMPLES", ())),
        counterexamples={k: t.replace("OPCODE", opcode) for k, t in getattr(file, "COUNTEREXAMPLES", {}).items()},
        takes_run="run" in parameters,
        takes_device="device" in parameters,
        takes_state="state" in parameters,
        check_devices=getattr(file, "check_devices", None),
        implied=getattr(file, "implied", None),
    )


class _Operations(Mapping[str, Operation]):
    """Reads the file of an operation when it is first asked for: a program has few of them."""

    def __init__(self) -> None:
        from . import ops

        stems = (m.name for m in pkgutil.iter_modules(ops.__path__))
        files = {stem.rstrip("_").replace("_", "-"): f"{ops.__name__}.{stem}" for stem in stems}
        self._files = dict(sorted(files.items()))
        self.read: dict[str, Operation] = {}

    def __getitem__(self, opcode: str) -> Operation:
        if opcode not in self.read:
            self.read[opcode] = _operation(opcode, importlib.import_module(self._files[opcode]))
        return self.read[opcode]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, opcode: object) -> bool:
        return opcode in self._files


_OPERATIONS = _Operations()


def operations() -> Mapping[str, Operation]:
    """Every operation by its opcode, in alphabetical order."""
    return _OPERATIONS


@contextmanager
def replaced(definitions: Mapping[str, Operation]) -> Iterator[None]:
    """A context in which operations, by their opcodes, have other definitions: to bound a loop, or to test a tool that
    has to notice it."""
    before = {opcode: _OPERATIONS[opcode] for opcode in definitions}
    _OPERATIONS.read.update(definitions)
    try:
        yield
    finally:
        _OPERATIONS.read.update(before)


def operation(opcode: str) -> Operation:
    """The operation of that opcode; UnsupportedError if the specification has none."""
    try:
        return operations()[opcode]
    except KeyError:
        raise UnsupportedError(
            f"operation {opcode!r} is not in the specification; those that are: {', '.join(operations())}"
        ) from None


def default_of(instruction: Instruction, name: str) -> Any:
    """The default of an attribute that the instruction leaves out.

    AttributeError if the operation has no attribute of that name, InvalidProgramError if it must be given.
    """
    declared = operation(instruction.opcode).attributes.get(name)
    if declared is None:
        raise AttributeError(f"{instruction.opcode} has no attribute {name!r}")
    if declared.default is REQUIRED:
        raise InvalidProgramError(f"{instruction.name}: {instruction.opcode} needs the attribute {name}")
    return declared.default


def make(
    opcode: str, *operands: Instruction, name: str | None = None, shape: Shape | None = None, **attributes: Any
) -> Instruction:
    """A new instruction; its shape is inferred from the operands unless given.

    The caller puts it into a computation after its operands. Operations whose result does not follow from their
    operands (parameter, constant, iota, convert, broadcast, reshape, ...) need `shape`. Raises Violation for a broken
    constraint.
    """
    instruction = Instruction(name or opcode, opcode, shape or Shape.tuple_of(), list(operands), attributes)
    if shape is None:
        instruction.shape = operation(opcode).infer(instruction, *(o.shape for o in operands))
    return instruction
