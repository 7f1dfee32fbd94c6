"""Fast shape inference: the specification's `infer()`, implemented a second time for the compiler's own use.

    infer(instruction)      the shape of the result, or an InvalidProgramError that names the operation and the broken rule
    make(opcode, ...)       a new instruction of that shape: how passes make instructions
    check(module)           whether every stated shape is the inferred one: run after the passes, at each compile

The rules are tested in the specification's order, and the labels are its labels (C1, C2, ...). Operations without a
rule here, which are those that passes expand, are inferred by the specification. So are dynamic shapes (f32[<=4]): the
rules here are for static ones.
"""

from refxla_spec.errors import Error, InvalidProgramError
from refxla_spec.module import Instruction
from refxla_spec.operation import Violation, operation
from refxla_spec.types import Shape

from refxla._core.shape_rules cimport Entry, rule_error, same
from refxla._core import shape_structured  # no-cython-lint: enters its rules into the table
from refxla._core.shape_rules import RULES as _RULES

cdef dict RULES = _RULES


cpdef object infer(object instruction):
    """The shape that the specification gives the result, without a layout if it follows from the operands.

    Raises InvalidProgramError if a rule is broken; its `constraint` is the label of that rule ("dot_c3").
    """
    cdef list operands = [o.shape for o in instruction.operands]
    cdef Entry entry = RULES.get(instruction.opcode)
    if entry is None:
        return _by_specification(instruction, operands)
    cdef Py_ssize_t count = len(operands)
    if count < entry.least or (entry.most >= 0 and count > entry.most):
        arity = entry.least if entry.least == entry.most else f"at least {entry.least}"
        raise InvalidProgramError(f"{instruction.name}: {instruction.opcode} takes {arity} operands, not {count}")
    try:
        if marked(instruction.shape, operands):
            return _by_specification(instruction, operands)
        return entry.rule(instruction, operands, entry.takes)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # An operand or attribute so invalid that the shape rule itself cannot be applied to it.
        shapes = ", ".join([str(s) for s in operands])
        raise InvalidProgramError(
            f"{instruction.name}: the shape rule of {instruction.opcode} does not apply to ({shapes}): {problem}"
        ) from problem


def make(opcode, *operands, name=None, shape=None, backend_config=None, **attributes):
    """A new instruction. Its shape is inferred; `shape` is needed if it does not follow from the operands.

    A given shape must equal the inferred one except for the layout. The caller puts the instruction into a computation
    after its operands. Raises InvalidProgramError for a broken rule.
    """
    instruction = Instruction(name or opcode, opcode, shape or Shape.tuple_of(), list(operands), attributes)
    instruction.backend_config = backend_config  # it says what a custom call returns
    inferred = infer(instruction)
    if shape is None:
        instruction.shape = inferred
    elif not same(inferred, shape):
        raise InvalidProgramError(f"{instruction.name}: {opcode} was to be {shape}, and is {inferred}")
    return instruction


def check(module):
    """Checks that every instruction's stated shape is the inferred one, apart from layouts. Raises an Error for the
    first that is not. The operands' shapes are taken as stated."""
    for computation in module.computations:
        for i in computation.instructions:
            inferred = infer(i)
            if inferred is not i.shape and not same(inferred, i.shape):
                raise Error(
                    f"{i.name} in {computation.name}: the shape is stated as {i.shape}, and {i.opcode} of "
                    f"({', '.join(str(o.shape) for o in i.operands)}) gives {inferred}"
                )


def covered():
    """The opcodes that have a rule here."""
    return set(RULES)


cdef bint marked(object stated, list operands):
    """Whether dynamic marks must be inferred: they are rare, and no module has them after the pass dynamic-padder."""
    if stated.dynamic:
        return True
    for shape in operands:
        if shape.dynamic:
            return True
    return False


cdef object _by_specification(object i, list operands):
    try:
        return operation(i.opcode).infer(i, *operands)
    except Violation as violation:
        raise rule_error(i, violation.label, str(violation)) from None
