"""Whether the order of two operands of a reducer matters: f(a, b) against f(b, a), as expressions.

Both are evaluated symbolically, for each combination of outcomes of the conditions in them (the predicates among the
operands, and the comparisons). An expression that is symmetric in a and b is the same in both orders.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum

from refxla_spec.module import Computation, Instruction
from refxla_spec.types import PRED
from refxla_spec.vectorize import COMMUTATIVE

from ..ir.op_table import MIRRORED

MOST_CONDITIONS = 12  # whose combinations are all examined

Term = Hashable


class Order(Enum):
    """What is known about a reducer."""

    ANY = "it gives the same whichever operand is first"
    CHOICE = "each result is that of one of the operands"
    SEQUENCE = "the order matters"


class _Undecided(Exception):
    """A condition whose outcome has to be assumed."""

    def __init__(self, condition: Term) -> None:
        super().__init__()
        self.condition = condition


def order_of(reducer: Computation) -> Order:
    """What is known about a reducer of n accumulated values and n elements of the same types."""
    count = len(reducer.parameters) // 2
    first = [("a", n) for n in range(count)]
    second = [("b", n) for n in range(count)]
    commutes = chooses = True
    open_cases: list[dict[Term, bool]] = [{}]
    while open_cases and (commutes or chooses):
        case = open_cases.pop()
        try:
            evaluation = _Evaluation(reducer, case)
            forward = evaluation.results([*first, *second])
            commutes = commutes and forward == evaluation.results([*second, *first])
            own = [[evaluation.operand(s, n) for s in pair] for n, pair in enumerate(zip(first, second, strict=True))]
            chooses = chooses and all(r in pair for r, pair in zip(forward, own, strict=True))
        except _Undecided as undecided:
            if len(case) == MOST_CONDITIONS:
                return Order.SEQUENCE
            open_cases += [{**case, undecided.condition: True}, {**case, undecided.condition: False}]
    return Order.ANY if commutes else Order.CHOICE if chooses else Order.SEQUENCE


class _Evaluation:
    """The symbolic evaluation of a reducer, where conditions have the outcomes in `case`."""

    def __init__(self, reducer: Computation, case: Mapping[Term, bool]) -> None:
        self.reducer, self.case = reducer, case

    def results(self, operands: list[Term]) -> list[Term]:
        """The results on these operands; raises _Undecided."""
        values: dict[Instruction, Term] = {}
        root = self.reducer.root
        results = root.operands if root.opcode == "tuple" else [root]
        return [self._value(r, operands, values) for r in results]

    def operand(self, symbol: Term, n: int) -> Term:
        """The value of an operand for parameter number n."""
        return self._decided(symbol) if self.reducer.parameters[n].shape.element_type is PRED else symbol

    def _decided(self, condition: Term) -> bool:
        if isinstance(condition, bool):
            return condition
        if condition not in self.case:
            raise _Undecided(condition)
        return self.case[condition]

    def _value(self, i: Instruction, operands: list[Term], values: dict[Instruction, Term]) -> Term:
        if i not in values:
            values[i] = self._computed(i, operands, values)
        return values[i]

    def _computed(self, i: Instruction, operands: list[Term], values: dict[Instruction, Term]) -> Term:
        if i.opcode == "parameter":
            number = i.attributes["number"]
            return self.operand(operands[number], number)
        if i.opcode == "select":
            chosen = 1 if self._value(i.operands[0], operands, values) else 2
            return self._value(i.operands[chosen], operands, values)
        terms = [self._value(o, operands, values) for o in i.operands]
        if i.opcode == "constant":
            literal = i.literal
            return bool(literal) if i.shape.element_type is PRED else ("constant", str(i.shape), literal.tobytes())
        if i.opcode == "copy":
            return terms[0]
        if i.shape.element_type is PRED and all(isinstance(t, bool) for t in terms):
            if i.opcode in ("and", "or", "xor", "not"):
                logic = {"and": all(terms), "or": any(terms), "xor": terms[0] != terms[-1], "not": not terms[0]}
                return logic[i.opcode]
        direction = i.attributes.get("direction")
        if i.opcode == "compare" and direction in ("GT", "GE"):
            terms, direction = terms[::-1], MIRRORED[direction]
        if i.opcode in COMMUTATIVE or direction in ("EQ", "NE"):
            terms.sort(key=repr)
        if i.opcode == "compare" and direction == "NE":  # the negation of EQ
            return not self._decided(self._term(i, terms, "EQ"))
        term = self._term(i, terms, direction)
        return self._decided(term) if i.shape.element_type is PRED else term

    @staticmethod
    def _term(i: Instruction, terms: list[Term], direction: str | None) -> Term:
        attributes = {k: repr(v) for k, v in i.attributes.items() if k != "direction"}
        return i.opcode, direction, str(i.shape), tuple(sorted(attributes.items())), tuple(terms)
