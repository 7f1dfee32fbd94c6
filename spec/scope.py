"""A computation while its text is read: what has a name, what has none yet, and shapes that the text leaves out."""

from __future__ import annotations

from .errors import Error, InvalidProgramError
from .module import Computation, Instruction, Position
from .operation import operation
from .types import Shape

UNSTATED = Shape.tuple_of()  # of an instruction whose shape has not been worked out yet


class Scope:
    """A computation while its text is read: its instructions by name, and those that the text gives no name."""

    def __init__(self, computation: Computation, single: bool) -> None:
        """`single`: the text is the lines of one computation, and the first of them stands here."""
        self.computation, self.single = computation, single
        self.names: dict[str, Instruction] = {}
        self.missing: Error | None = None  # what is wrong with operands that were taken for parameters
        self._unnamed: list[Instruction] = []
        self._elements: dict[tuple[Instruction, int], Instruction] = {}
        self._parameters = 0

    def add(self, instruction: Instruction) -> Instruction:
        """An instruction that no text can refer to; its name may still change."""
        self.computation.instructions.append(instruction)
        self._unnamed.append(instruction)
        return instruction

    def element(self, of: Instruction, n: int, position: Position) -> Instruction:
        """Element n of a tuple, the same instruction each time."""
        if (of, n) not in self._elements:
            name, shape = f"{of.name}_{n}", of.shape.elements[n]
            instruction = Instruction(name, "get-tuple-element", shape, [of], {"index": n}, position=position)
            self._elements[of, n] = self.add(instruction)
        return self._elements[of, n]

    def parameter(self, name: str, shape: Shape, position: Position) -> Instruction:
        """A parameter in the place of an operand that is only given by its shape, and perhaps a name."""
        instruction = Instruction(name or "parameter.anon", "parameter", shape, [], {"number": self._parameters}, None)
        instruction.position = position
        self._parameters += 1
        if not name:
            return self.add(instruction)
        self.computation.instructions.append(instruction)
        self.names[name] = instruction
        return instruction

    def name_the_rest(self) -> None:
        """Give instructions without names such that nobody has."""
        names = set(self.names)
        for i in self._unnamed:
            name, n = i.name, 0
            while i.name in names:
                n += 1
                i.name = f"{name}.{n}"
            names.add(i.name)


def inferred(i: Instruction) -> Shape:
    """The shape that an operation gives for its operands, where the text does not state it. InvalidProgramError, with
    the label of the rule, where it follows from none."""
    shapes = [o.shape for o in i.operands]
    try:
        defined = operation(i.opcode)
        return (defined.implied or defined.infer)(i, *shapes).without_layout()
    except Error as error:
        problem, label = str(error), getattr(error, "label", None)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        problem, label = f"the operands are ({', '.join(str(s.without_layout()) for s in shapes)})", None
    message = f"the shape of {i.name or i.opcode} does not follow from its operands: {problem}"
    raise InvalidProgramError(message, label and f"{i.opcode.replace('-', '_')}_{label.lower()}")
