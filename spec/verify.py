"""The verifier: whether a module follows the rules of HLO, those of its structure and those of each operation.

Structure, checked here:

    S1  the module has an entry, which is one of its computations
    S2  names of computations are unique in the module, names of instructions in their computation
    S3  each computation has instructions, and its root is one of them
    S4  operands and control predecessors stand before, in the same computation (so nothing is cyclic)
    S5  called computations stand before the one that calls them, in the module (so nothing is recursive)
    S6  the parameters of a computation have the numbers 0 to n-1, each once
    S7  input_output_alias and entry_computation_layout refer to what the entry has, with the same shapes
    S8  an instruction has as many operands, and the attributes, that its operation declares

Then each operation's `infer` is run on the shapes of the operands: it checks the operation's own constraints, and what
it gives must be the stated shape but for the layout. Where the module's header counts several replicas or partitions
(`replica_count`, `num_partitions`), the groups and pairs of collectives are held to these counts (`check_devices`); a
count that is not stated, or 1, is left unchecked, as XLA leaves it: a program may be run on more. When it runs, they
are held to the number that it runs on (`devices.misfit`).
"""

from __future__ import annotations

from typing import NoReturn

from . import grammar
from .attributes import REQUIRED
from .devices import device_counts
from .errors import Error, InvalidProgramError, UnsupportedError, in_file, plural
from .lexer import excerpt, suggestion
from .module import Computation, Instruction, Module, Position
from .operation import Operation, Violation, operations
from .types import Shape


def verify(module: Module) -> None:
    """Check every rule. Raises InvalidProgramError for the first that is broken, UnsupportedError for an operation that
    the specification does not have; the message says where: the file, and the line of the text it was parsed from."""
    _Verifier(module).module_rules()


class _Verifier:
    """The rules of a module, its computations and its instructions; each method raises for the first that is broken."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.operations = operations()
        self.counts = tuple(n if n > 1 else None for n in device_counts(module))

    def fail(
        self, message: str, where: Position | None, label: str | None, kind: type[Error] = InvalidProgramError
    ) -> Error:
        """The error for a broken rule, at a position in the module's text if there is one."""
        source = self.module.source
        if where is not None and source is not None:
            message = f"line {where.line}, column {where.column}: {message}\n{excerpt(source, where)}"
        error = InvalidProgramError(message, label) if kind is InvalidProgramError else kind(message)
        return in_file(error, self.module.file)

    def module_rules(self) -> None:
        module = self.module
        if module.entry is None or module.entry not in module.computations:
            raise self.fail(f"module {module.name} has no entry computation", None, "S1")
        by_name: dict[str, Computation] = {}
        before: set[Computation] = set()
        for computation in module.computations:
            if computation.name in by_name:
                raise self.fail(f"two computations are called {computation.name}", computation.position, "S2")
            by_name[computation.name] = computation
            self.computation_rules(computation, before)
            before.add(computation)
        self.alias_rules(module.entry)

    def computation_rules(self, computation: Computation, callable_: set[Computation]) -> None:
        where = computation.position
        names: set[str] = set()
        before: set[Instruction] = set()
        if not computation.instructions:
            raise self.fail(f"computation {computation.name} has no instructions", where, "S3")
        numbers: dict[int, Instruction] = {}
        for i in computation.instructions:
            if i.name in names:
                raise self.fail(f"two instructions of {computation.name} are called {i.name}", i.position, "S2")
            for o in (*i.operands, *i.control_predecessors):
                if o not in before:
                    what = "after it" if o in computation.instructions else f"not in computation {computation.name}"
                    raise self.fail(f"{i.name} depends on {o.name}, which is {what}", i.position, "S4")
            for called in i.called:
                if called not in callable_:
                    absent = called not in self.module.computations
                    what = "not in the module" if absent else "not before the computation that calls it"
                    raise self.fail(f"{i.name} calls {called.name}, which is {what}", i.position, "S5")
            if i.opcode == "parameter":
                number = i.attributes.get("number")
                if not isinstance(number, int) or number in numbers:
                    raise self.fail(f"{i.name}: parameter {number} is there twice", i.position, "S6")
                numbers[number] = i
            self.instruction_rules(i)
            names.add(i.name)
            before.add(i)
        if computation.root not in before:
            raise self.fail(f"the root of computation {computation.name} is none of its instructions", where, "S3")
        missing = next((n for n in range(len(numbers)) if n not in numbers), None)
        if missing is not None:
            highest = max(numbers)
            raise self.fail(
                f"computation {computation.name} has a parameter {highest} and no parameter {missing}",
                numbers[highest].position,
                "S6",
            )

    def instruction_rules(self, i: Instruction) -> None:
        operation = self.operations.get(i.opcode)
        if operation is None:
            hint = "" if grammar.is_opcode(i.opcode) else suggestion(i.opcode, self.operations)
            hint = hint or "; rewrite the program without it"
            raise self.fail(
                f"{i.name}: the operation {i.opcode} is not in the specification{hint}",
                i.position,
                None,
                UnsupportedError,
            )
        self.declared_rules(i, operation)
        shapes = [o.shape for o in i.operands]
        try:
            inferred = operation.infer(i, *shapes)
        except Violation as problem:
            self.violated(i, operation, problem)
        except (UnsupportedError, InvalidProgramError) as problem:
            raise self.fail(str(problem), i.position, getattr(problem, "constraint", None), type(problem)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            # An operand or attribute so far from the rules that the shape rule itself cannot be applied to it.
            text = ", ".join(str(s.without_layout()) for s in shapes)
            self.broken(
                i, None, f"the shape rule does not apply to ({text}): {type(problem).__name__}: {problem}", problem
            )
        if not inferred.compatible(i.shape):
            text = ", ".join(str(s.without_layout()) for s in shapes)
            self.broken(
                i,
                operation.result_label,
                f"the shape is stated as {i.shape.without_layout()}, and {i.opcode} of ({text}) "
                f"gives {inferred.without_layout()}",
            )
        if operation.check_devices is not None and any(self.counts):
            try:
                operation.check_devices(i, *self.counts)
            except Violation as problem:
                self.violated(i, operation, problem)

    def declared_rules(self, i: Instruction, operation: Operation) -> None:
        """S8: the number of operands and the attributes."""
        if operation.arity is not None and len(i.operands) != operation.arity:
            inputs = ", ".join(operation.inputs) or "none"
            message = f"takes {plural(operation.arity, 'operand')} ({inputs}), and has {len(i.operands)}"
            raise self.fail(f"{i.name}: {i.opcode} {message}", i.position, "S8")
        if len(i.operands) < len(operation.fixed):
            fixed = f"{plural(len(operation.fixed), 'operand')} ({', '.join(operation.fixed)})"
            message = f"takes at least {fixed}, and has {len(i.operands)}"
            raise self.fail(f"{i.name}: {i.opcode} {message}", i.position, "S8")
        for name, declared in operation.attributes.items():
            if declared.default is REQUIRED and i.attributes.get(name) is None:
                message = f"{i.name}: {i.opcode} needs the attribute {name} ({declared.meaning})"
                raise self.fail(message, i.position, "S8")
        for name in i.attributes:
            if name not in operation.attributes and name not in grammar.ANNOTATIONS:
                message = f"{i.name}: {i.opcode} has no attribute {name}{suggestion(name, operation.attributes)}"
                raise self.fail(message, i.position, "S8")

    def violated(self, i: Instruction, operation: Operation, problem: Violation) -> NoReturn:
        """Raise the error for a constraint that does not hold."""
        rule = operation.constraints.get(problem.label, "")
        self.broken(i, problem.label, f"{problem}" + (f"; the rule is: {rule}" if rule else ""))

    def broken(self, i: Instruction, label: str | None, message: str, cause: Exception | None = None) -> NoReturn:
        """Raise the error for a rule of an operation; its label names operation and rule, such as add_c1."""
        full = f"{i.opcode.replace('-', '_')}_{label.lower()}" if label else None
        raise self.fail(f"{i.name}: " + (f"[{full}] " if full else "") + message, i.position, full) from cause

    def alias_rules(self, entry: Computation) -> None:
        """S7."""
        parameters, result = [p.shape for p in entry.parameters], entry.root.shape
        outputs = set()
        for alias in self.module.aliases:
            if not 0 <= alias.parameter < len(parameters):
                message = f"parameter {alias.parameter}, and the entry has {plural(len(parameters), 'parameter')}"
                raise self.fail(f"input_output_alias names {message}", entry.position, "S7")
            source = _at(parameters[alias.parameter], alias.parameter_index)
            target = _at(result, alias.output_index)
            if source is None or target is None or alias.output_index in outputs:
                index = alias.output_index if source is not None else alias.parameter_index
                problem = (
                    "names an output twice" if alias.output_index in outputs else "names an element that is not there"
                )
                raise self.fail(f"input_output_alias {problem}: {set(index) or '{}'}", entry.position, "S7")
            if not source.compatible(target):
                message = f"parameter {alias.parameter} of shape {source} with a result of shape {target}"
                raise self.fail(f"input_output_alias puts together {message}", entry.position, "S7")
            outputs.add(alias.output_index)
        if self.module.entry_layout is not None:
            stated, stated_result = self.module.entry_layout
            fits = len(stated) == len(parameters) and all(
                a.compatible(b) for a, b in zip(stated, parameters, strict=True)
            )
            if not fits or not stated_result.compatible(result):
                here = f"({', '.join(map(str, stated))})->{stated_result}"
                there = f"({', '.join(map(str, parameters))})->{result}"
                message = f"entry_computation_layout says {here}, and the entry computation is {there}"
                raise self.fail(message, entry.position, "S7")


def _at(shape: Shape, index: tuple[int, ...]) -> Shape | None:
    """The shape at an index into nested tuples, or None."""
    for n in index:
        if not 0 <= n < len(shape.elements):
            return None
        shape = shape.elements[n]
    return shape
