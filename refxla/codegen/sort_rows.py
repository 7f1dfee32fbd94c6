"""The rows of a sort, and the positions of their elements in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from ..analysis.index_expression import Index, delinearize, linearize, variable
from ..device.description import Target
from ..ir.plan import Argument, Fusion
from . import scalar
from .c_block import Block
from .element_builder import type_name
from .elemental_ir_emitter import ElementalIrEmitter
from .index_printer import c_of
from .kernel_arguments import input_argument, output_argument

PER_ITEM = 4096  # elements that one item sorts, of short rows


class SortRows:
    """The rows of a sort: `rows` of them, of `length` elements that lie along `dimension` of arrays of `sizes`.

    By operand number: `operands`, their `types`, and the C types `storage` of their elements in memory; `outputs` are
    the instructions of the sorted values that are used. An item sorts `per_item` rows.
    """

    def __init__(self, fusion: Fusion, target: Target) -> None:
        assert fusion.hero is not None
        self.fusion, self.target, self.hero = fusion, target, fusion.hero
        self.operands = self.hero.operands
        self.types = [type_name(o) for o in self.operands]
        self.storage = [scalar.storage_type(t) for t in self.types]
        self.sizes = self.operands[0].shape.dimensions
        (self.dimension,) = self.hero.dimensions
        self.length = self.sizes[self.dimension]
        self.others = [n for d, n in enumerate(self.sizes) if d != self.dimension]
        self.rows = prod(self.others)
        self.per_item = max(1, min(self.rows, PER_ITEM // max(1, self.length)))
        self.items = -(-self.rows // self.per_item) if self.length else 0
        if self.hero.shape.is_tuple:
            self.outputs = {i.index: i for i in fusion.outputs if i.opcode == "get-tuple-element"}
        else:
            self.outputs = {0: self.hero}
        self.begin_function()
        self._read = [o for o in dict.fromkeys(self.operands) if o in fusion.inputs]
        self._values = [*self._read, *self.outputs.values()]

    def begin_function(self) -> None:
        """Restarts the names for a new function, so that functions that do the same have equal text."""
        self.e = ElementalIrEmitter(self.fusion, self.target, {})

    def input(self, k: int) -> Argument:
        """The argument by which a kernel reads operand k."""
        return input_argument(self.operands[k])

    def output_argument(self, k: int) -> Argument:
        """The argument by which a kernel writes the sorted values of operand k."""
        return output_argument(self.outputs[k])

    def inputs_and_outputs(self) -> list[Argument]:
        """The arguments of a kernel that reads all operands and writes all outputs, which `operand` and `output`
        use."""
        return [*map(input_argument, self._read), *map(output_argument, self.outputs.values())]

    def scratch(self, name: str, k: int) -> Argument:
        """Scratch memory for all values of operand k, row after row."""
        size = prod(self.sizes) * self.operands[k].shape.element_type.bytes
        return Argument("scratch", self.storage[k], bytes=size, scratch=f"{name}{k}")

    def _indices(self, row: str, i: str) -> tuple[Index, ...]:
        """The indices of element i of a row in the arrays."""
        outer = list(delinearize(variable(row, 0, max(0, self.rows - 1)), self.others))
        return (*outer[: self.dimension], variable(i, 0, self.length - 1), *outer[self.dimension :])

    def position(self, row: str, i: str) -> str:
        """Where element i of a row lies in the arrays."""
        return c_of(linearize(self._indices(row, i), self.sizes))

    def operand(self, k: int, row: str, i: str, block: Block) -> str:
        """The C expression of element i of a row of operand k as it is stored."""
        if self.operands[k] in self._read:  # others are computed from the position
            return f"a{self._values.index(self.operands[k])}[{self.position(row, i)}]"
        return scalar.store(self.types[k], self.e.value(self.operands[k], self._indices(row, i), block))

    def output(self, k: int, row: str, i: str) -> str:
        """The C lvalue of element i of a row of the sorted operand k."""
        return f"a{self._values.index(self.outputs[k])}[{self.position(row, i)}]"

    @contextmanager
    def open_row(self, block: Block) -> Iterator[str]:
        """The loop over the rows of an item; gives the C variable that counts them."""
        end = f"(item + 1) * {self.per_item}"
        if self.rows % self.per_item:
            end = f"({end} < {self.rows} ? {end} : {self.rows})"
        with block.scope(f"for (int row = item * {self.per_item}; row < {end}; ++row)"):
            yield "row"
