"""The meaning of a program: each instruction's `evaluate`, in order.

    run(module, args)                the value of the entry computation
    steps(module, args)              the same one instruction at a time: yields (instruction, value)
    run(module, args, trace=print)   calls trace(instruction, value) for each instruction of each computation that runs
    run(module, args, host=Host())   with what infeeds take, and what outfeeds give (see devices.py)

A program for several devices is run by devices.run_devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .devices import Device, Host
from .dynamic import check_sizes, meet
from .elementwise import is_elementwise
from .errors import Error, EvaluationError, InputError, a_type, plural
from .module import Computation, Instruction, Module
from .operation import operation
from .random_state import RandomState
from .types import BY_DTYPE, Shape, Value

Trace = Callable[[Instruction, Value], Any]

MAX_DEPTH = (
    150  # of computations that call each other; HLO has no recursion, so only a deep or broken program gets there
)


def run(module: Module, args: Sequence[Value], trace: Trace | None = None, host: Host | None = None) -> Value:
    """The value of the entry computation on `args`, one for each of its parameters.

    Raises InputError where the arguments do not fit the parameters, EvaluationError where a value cannot be computed,
    and UnsupportedError where an operation has no meaning here.
    """
    arguments = check_arguments(module.entry, args)
    return Interpreter(trace, Device.alone(module, host)).run(module.entry, *arguments)


def steps(module: Module, args: Sequence[Value]) -> Iterator[tuple[Instruction, Value]]:
    """The instructions of the entry computation with their values, as they are computed. Errors as `run`."""
    arguments = check_arguments(module.entry, args)
    return Interpreter(device=Device.alone(module)).steps(module.entry, arguments)


def check_arguments(computation: Computation, args: Sequence[Value]) -> tuple[Value, ...]:
    """The arguments as arrays; InputError unless they fit the computation's parameters in number, type and shape."""
    parameters = computation.parameters
    if len(args) != len(parameters):
        signature = ", ".join(f"{p.name} {p.shape.without_layout()}" for p in parameters)
        raise InputError(
            f"{plural(len(args), 'argument')} for {plural(len(parameters), 'parameter')}; {computation.name} "
            f"takes ({signature})"
        )
    return tuple(
        conform(a, p.shape, f"parameter {p.attributes['number']} ({p.name})")
        for a, p in zip(args, parameters, strict=True)
    )


def conform(value: Any, shape: Shape, where: str) -> Value:
    """`value` as a value of that shape (lists become tuples, scalars arrays), or an InputError that names `where`."""
    if shape.is_tuple:
        if not isinstance(value, (tuple, list)):
            raise InputError(
                f"{where} is {shape}: give a tuple of {plural(len(shape.elements), 'value')}, not {_described(value)}"
            )
        if len(value) != len(shape.elements):
            raise InputError(f"{where} is {shape}: give {plural(len(shape.elements), 'value')}, not {len(value)}")
        return tuple(
            conform(v, s, f"{where}, element {n},") for n, (v, s) in enumerate(zip(value, shape.elements, strict=True))
        )
    if not shape.is_array:
        if value is not None:
            raise InputError(f"{where} is a {shape.element_type}: give None, not {_described(value)}")
        return None
    if isinstance(value, (tuple, list)) or value is None:
        raise InputError(f"{where} is {shape.without_layout()}: give an array, not {_described(value)}")
    array = np.asarray(value)
    if array.dtype != shape.element_type.dtype:
        raise InputError(
            f"{where} has element type {shape.element_type}, the array given is {_described(array)}; "
            f"convert it with .astype({shape.element_type.array_dtype.name!r})"
        )
    if array.shape != shape.dimensions and not check_sizes(array.shape, shape):
        advice = "give one of at most these sizes" if shape.is_dynamic else "reshape it"
        raise InputError(f"{where} is {shape.without_layout()}, the array given is {_described(array)}; {advice}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"{a_type(value)} of {len(value)}"
    array = np.asarray(value)
    if array.dtype in BY_DTYPE:
        return str(Shape.of(array))
    return f"an array of NumPy type {array.dtype} and shape {array.shape}"


class Interpreter:
    """Runs computations; one object serves one run, and remembers for each computation when its values die."""

    def __init__(self, trace: Trace | None = None, device: Device | None = None) -> None:
        self._trace = trace
        self._device = device or Device.alone()
        self._random = RandomState()
        self._depth = 0
        # weak, since operations make computations that live for one call (see vectorize.py)
        self._last_uses: MutableMapping[Computation, list[list[Instruction]]] = WeakKeyDictionary()

    def run(self, computation: Computation, *args: Value) -> Value:
        """The value of a computation on arguments that fit its parameters."""
        value = None
        for instruction, result in self.steps(computation, args):
            if instruction is computation.root:
                value = result
        return value

    def steps(self, computation: Computation, args: Sequence[Value]) -> Iterator[tuple[Instruction, Value]]:
        """Each instruction of a computation with its value. A value is let go after its last use."""
        if self._depth >= MAX_DEPTH:
            raise EvaluationError(
                f"{computation.name}: computations call each other {MAX_DEPTH} deep; inline some of them"
            )
        dying = self._last_uses.get(computation)
        if dying is None:
            dying = self._last_uses[computation] = last_uses(computation)
        values: dict[Instruction, Value] = {}
        for instruction, dead in zip(computation.instructions, dying, strict=True):
            if instruction.opcode == "parameter":
                value = args[instruction.attributes["number"]]
            else:
                value = self.evaluate(instruction, [values[o] for o in instruction.operands])
            values[instruction] = value
            if self._trace is not None:
                self._trace(instruction, value)
            yield instruction, value
            for i in dead:
                del values[i]

    def evaluate(self, instruction: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction on the values of its operands. Errors as `run`."""
        rule = operation(instruction.opcode)
        if len(operands) > 1 and is_elementwise(instruction.opcode):
            operands = meet(operands)
        self._depth += 1
        try:
            if rule.takes_device:
                keywords = {"run": self.run} if rule.takes_run else {}
                value = rule.evaluate(instruction, *operands, device=self._device, **keywords)
            elif rule.takes_run:
                value = rule.evaluate(instruction, *operands, run=self.run)
            elif rule.takes_state:
                value = rule.evaluate(instruction, *operands, state=self._random)
            else:
                value = rule.evaluate(instruction, *operands)
        except Error:
            raise
        except RecursionError:
            raise EvaluationError(f"{instruction.name}: computations call each other too deep; inline some") from None
        except MemoryError:
            raise EvaluationError(f"{instruction.name}: not enough memory for a value of {instruction.shape}") from None
        except Exception as e:
            raise EvaluationError(
                f"{instruction.name} = {instruction.shape} {instruction.opcode}(...) cannot be evaluated: "
                f"{type(e).__name__}: {e}; verify the program first"
            ) from e
        finally:
            self._depth -= 1
        return _normal(value, instruction.shape)


def _normal(value: Value, shape: Shape) -> Value:
    """The value with NumPy scalars made arrays, tuples of them likewise, and element types as the shape says."""
    if shape.is_tuple:
        return tuple(_normal(v, s) for v, s in zip(value, shape.elements, strict=True))
    if not shape.is_array:
        return None
    array = np.asarray(value)
    if array.dtype != shape.element_type.dtype:
        raise EvaluationError(f"a value of {shape.element_type} came out as {array.dtype}; report this as a bug")
    return array


def last_uses(computation: Computation) -> list[list[Instruction]]:
    """For each position the instructions whose values nobody needs after it (the root's is always kept)."""
    last: dict[Instruction, int] = {}
    for position, instruction in enumerate(computation.instructions):
        last[instruction] = position  # a value without users dies at once
        for operand in instruction.operands:
            last[operand] = position
    dying: list[list[Instruction]] = [[] for _ in computation.instructions]
    for instruction, position in last.items():
        if instruction is not computation.root:
            dying[position].append(instruction)
    return dying
