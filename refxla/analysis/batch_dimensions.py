"""Batch dimensions of a loop: those along which it computes elements that do not need each other.

A function that has a loop and is mapped over a batch (JAX's vmap) is a loop over arrays with one more dimension, and
what it computes for one element of the batch depends on no other one. Such a dimension is found as tiles are
(dimension_classes.py): in no instruction of the loop, and of the loops and conditionals in it, are elements combined,
moved or chosen along it. Whatever has no such dimension, like a counter or a condition, is then computed from values
that are the same for the whole batch.

There is one exception. A loop that ends by a predicate, mapped over a batch, runs until the predicate is false for all
elements, and changes only elements for which it is true:

    while any(p(state)) { state = select(p(state), f(state), state) }

An element for which p is false stays as it is, and p stays false for it. So a part of the batch may stop earlier, as
soon as p is false for all of its elements, and the loop's condition does not combine them.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction

from ..ir.op_table import ROWS
from .accumulation import commutative_opcode
from .conditional_analysis import branch_computations, root_leaves
from .dimension_classes import Dimension, DimensionClasses, Value
from .reduction_order import reduction_order
from .while_loop_analysis import loop_invariant_elements, state_values

_ROUNDED = frozenset({"float", "complex"})  # kinds of element types whose sums depend on their order


class BatchDimensions:
    """The classes of dimensions of a loop. `is_supported` is false if the loop has something that the analysis does not
    know."""

    def __init__(self, loop: Instruction) -> None:
        self.loop = loop
        self.classes = DimensionClasses()
        self.instructions: list[Instruction] = []  # of all computations
        self._exempt: set[Instruction] = set()  # conditions that need not be those of the whole batch
        self.is_supported = self._link_loop(loop, ())

    def candidates(self) -> list[Dimension]:
        """The batch dimensions: classes that are dimensions of what the loop computes, the outermost first."""
        fixed = self.classes.fixed(self.instructions)
        found: dict[Dimension, int] = {}
        invariant = loop_invariant_elements(self.loop)
        for k, shape in enumerate(self.loop.shape.elements):
            for d in range(shape.rank if k not in invariant else 0):
                c = self.classes.of(((self.loop, k), d))
                if shape.dimensions[d] > 1 and c not in fixed:
                    found[c] = min(d, found.get(c, d))
        return sorted(found, key=lambda c: found[c])

    def dimension(self, value: Value, rank: int, batch: Dimension) -> int | None:
        """Which dimension of a value is this batch dimension; None if it has none."""
        return next((d for d in range(rank) if self.classes.of((value, d)) == batch), None)

    def size(self, batch: Dimension) -> int:
        """The number of elements along a batch dimension."""
        value, d = batch
        shape = value.shape if isinstance(value, Instruction) else value[0].shape.elements[value[1]]
        return int(shape.dimensions[d])

    def keeps_orders(self, batch: Dimension, part: int) -> bool:
        """Whether all sums have the same order if the batch has only `part` elements."""
        for i in self.instructions:
            if not _is_reduction(i) or not any(o.shape.element_type.kind in _ROUNDED for o in i.operands):
                continue
            dimensions = i.operands[0].shape.dimensions
            d = self.dimension(i.operands[0], len(dimensions), batch)
            if d is None:
                continue
            of_part = (*dimensions[:d], part, *dimensions[d + 1 :])
            if reduction_order(dimensions, i.dimensions).key != reduction_order(of_part, i.dimensions).key:
                return False
        return True

    # -- control flow --------------------------------------------------------------------------------------------------

    def _link_loop(self, loop: Instruction, initial: tuple[Instruction, ...]) -> bool:
        """Links what a loop computes; `initial` are the values of its state before it, if they are part of the
        analysis."""
        shapes = loop.shape.elements
        for k, value in enumerate(initial):
            self.classes.join_all(value, (loop, k), shapes[k].rank)
        for k, value in enumerate(root_leaves(loop.body)):
            self.classes.join_all(value, (loop, k), shapes[k].rank)
        if waits_for_all(loop):
            self._exempt.add(loop.condition.root)
        for computation in (loop.body, loop.condition):
            for i in self._elements(computation):
                self.classes.join_all(i, (loop, i.index), i.shape.rank)
            if not self._link(computation):
                return False
        return True

    @staticmethod
    def _elements(computation: Computation) -> list[Instruction]:
        """The instructions that read elements of a computation's tuple parameter."""
        parameter = computation.parameters[0]
        return [i for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] is parameter]

    def _link(self, computation: Computation) -> bool:
        """Links the instructions of a computation, with the control flow in it."""
        parameter = computation.parameters[0]
        for i in computation.instructions:
            if i.opcode == "get-tuple-element" and i.operands[0] is parameter or i in self._exempt:
                continue
            self.instructions.append(i)
            match i.opcode:
                case "while":
                    if i.operands[0].opcode != "tuple" or not self._link_loop(i, tuple(i.operands[0].operands)):
                        return False
                case "conditional":
                    if not self._link_conditional(i):
                        return False
                case "custom-call" | "outfeed" | "infeed" | "send" | "recv":
                    return False
                case _:
                    self.classes.link(i)
        return True

    def _link_conditional(self, i: Instruction) -> bool:
        for called, operand in zip(branch_computations(i), i.operands[1:], strict=True):
            if operand.opcode != "tuple" or not i.shape.is_tuple:
                return False
            for element in self._elements(called):
                self.classes.join_all(element, operand.operands[element.index], element.shape.rank)
            for k, value in enumerate(root_leaves(called)):
                self.classes.join_all(value, (i, k), value.shape.rank)
            if not self._link(called):
                return False
        return True


def waits_for_all(loop: Instruction) -> bool:
    """Whether a loop runs while a predicate is true for any element of a batch, and changes nothing of the elements for
    which it is false (see the module)."""
    test, root = loop.condition.root, loop.body.root
    if not _is_reduction(test) or len(test.operands) != 2 or test.shape.rank or root.opcode != "tuple":
        return False
    predicate, initial = test.operands
    if initial.opcode != "constant" or bool(initial.literal) or commutative_opcode(test.to_apply) != "or":
        return False
    invariant, inside = loop_invariant_elements(loop), state_values(loop.body)
    equal: set[Instruction] = set()
    for k, value in enumerate(root.operands):
        if k in invariant:
            continue
        if value.opcode != "select" or value.operands[2] is not inside.get(k):
            return False
        chosen = value.operands[0]
        if chosen.opcode == "broadcast":
            chosen = chosen.operands[0]
        if chosen not in equal and not _compute_the_same(loop, predicate, chosen):
            return False
        equal.add(chosen)
    return True


def _is_reduction(i: Instruction) -> bool:
    return i.opcode in ROWS and ROWS[i.opcode].kind == "reduction"


def _compute_the_same(loop: Instruction, test: Instruction, value: Instruction) -> bool:
    """Whether an instruction of a loop's condition and one of its body compute the same from the loop's state."""
    parameters = loop.condition.parameters[0], loop.body.parameters[0]
    waiting = [(test, value)]
    seen = {(test, value)}
    while waiting:
        x, y = waiting.pop()
        if (x, y) == parameters:
            continue
        if not _same_operation(x, y):
            return False
        more = [pair for pair in zip(x.operands, y.operands, strict=True) if pair not in seen]
        seen.update(more)
        waiting += more
    return True


def _same_operation(x: Instruction, y: Instruction) -> bool:
    """Whether two instructions are the same operation, on whatever operands; a call of a computation is not."""
    if x.opcode != y.opcode or x.shape != y.shape or len(x.operands) != len(y.operands) or x.opcode == "parameter":
        return False
    if x.opcode == "constant":
        return bool(x.literal.tobytes() == y.literal.tobytes())
    return x.opcode != "custom-call" and not x.called and x.attributes == y.attributes
