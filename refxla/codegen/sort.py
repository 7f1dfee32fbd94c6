"""The kernels of kind "sort": rows in the order of a comparator, stable whether that is asked for or not.

A comparator that compares keys goes by way of `radix`. Any other is inlined and the rows are merged: runs of a few
elements are sorted by insertion, then merged two by two between two buffers. An item sorts one row or several short
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from refxla_spec.module import Instruction
from refxla_spec.ops.compare import is_total
from refxla_spec.sorting import keys_of

from ..analysis.index_expression import delinearize, linearize, variable
from ..device.description import Target
from ..ir.plan import Argument, Fusion, Kernel
from . import radix_sort, scalar
from .c_block import Block
from .elemental_ir_emitter import ElementalIrEmitter, type_name
from .kernel_arguments import input_argument, output_argument

RUN = 8  # elements that are sorted by insertion
PER_ITEM = 4096  # elements that one item sorts, of short rows


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a sort of one or several operands along one dimension."""
    rows = Rows(fusion, target)
    found = keys_of(rows.hero.to_apply)
    if found is not None and rows.items and target.kind == "cpu":
        keys = [
            radix_sort.Key(rows, number, key, compare.direction == "GT", is_total(compare.attributes))
            for number, key, compare in found
        ]
        if radix_sort.applies(rows, keys):
            return radix_sort.kernels(rows, keys)
    return (_merged(rows),)


class Rows:
    """The rows of a sort: `rows` of them, of `length` elements that lie along `dimension` of arrays of `sizes`.

    By operand number: `operands`, their `types`, and the C types `storage` of their elements in memory; `outputs` are
    the instructions that take the sorted values, of those that somebody uses. An item sorts `per_item` rows.
    """

    def __init__(self, fusion: Fusion, target: Target) -> None:
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
        self.e = ElementalIrEmitter(fusion, target, {})
        self._values: list[Instruction] = list(dict.fromkeys(self.operands)) + list(self.outputs.values())

    def input(self, k: int) -> Argument:
        """The argument by which a kernel reads operand k."""
        return input_argument(self.operands[k])

    def output_argument(self, k: int) -> Argument:
        """The argument by which a kernel writes the sorted values of operand k."""
        return output_argument(self.outputs[k])

    def inputs_and_outputs(self) -> list[Argument]:
        """The arguments of a kernel that reads all operands and writes all outputs: what `operand` and `output` use."""
        inputs = [input_argument(i) for i in dict.fromkeys(self.operands)]
        return inputs + [output_argument(o) for o in self.outputs.values()]

    def scratch(self, name: str, k: int) -> Argument:
        """Scratch memory for all values of operand k, row after row."""
        size = prod(self.sizes) * self.operands[k].shape.element_type.bytes
        return Argument("scratch", self.storage[k], bytes=size, scratch=f"{name}{k}")

    def position(self, row: str, i: str) -> str:
        """Where element i of a row lies in the arrays."""
        outer = list(delinearize(variable(row, 0, max(0, self.rows - 1)), self.others))
        inside = variable(i, 0, self.length - 1)
        return str(linearize((*outer[: self.dimension], inside, *outer[self.dimension :]), self.sizes))

    def operand(self, k: int, row: str, i: str) -> str:
        """The C lvalue of element i of a row of operand k."""
        return f"a{self._values.index(self.operands[k])}[{self.position(row, i)}]"

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


def _merged(rows: Rows) -> Kernel:
    """The kernel that merges. For operand k, s_k and d_k are the buffers that are merged from and to."""
    block = Block()
    every = range(len(rows.operands))
    arguments = rows.inputs_and_outputs()
    first = len(arguments)
    arguments += [rows.scratch(b, k) for k in every for b in "xy"]
    if rows.items:
        with rows.open_row(block) as row:
            for k, c in enumerate(rows.storage):
                block.line(f"__global {c}* s{k} = a{first + 2 * k} + (long){row} * {rows.length};")
                block.line(f"__global {c}* d{k} = a{first + 2 * k + 1} + (long){row} * {rows.length};")
            with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                for k in every:
                    block.line(f"s{k}[i] = {rows.operand(k, row, 'i')};")
            _insert(rows, block)
            if rows.length > RUN:
                _merge(rows, block)
            with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                for k in rows.outputs:
                    block.line(f"{rows.output(k, row, 'i')} = s{k}[i];")
    return Kernel(rows.fusion.name, block.text(), tuple(arguments), rows.items)


def _insert(rows: Rows, block: Block) -> None:
    every, length = range(len(rows.operands)), rows.length
    with block.scope(f"for (int low = 0; low < {length}; low += {RUN})"):
        block.line(f"const int high = low + {RUN} < {length} ? low + {RUN} : {length};")
        with block.scope("for (int i = low + 1; i < high; ++i)"):
            for k, c in enumerate(rows.storage):
                block.line(f"const {c} t{k} = s{k}[i];")
            block.line("int j = i;")
            with block.scope("while (j > low)"):
                before = _before(rows, block, [f"t{k}" for k in every], [f"s{k}[j - 1]" for k in every])
                block.line(f"if (!{before}) break;")
                for k in every:
                    block.line(f"s{k}[j] = s{k}[j - 1];")
                block.line("--j;")
            for k in every:
                block.line(f"s{k}[j] = t{k};")


def _merge(rows: Rows, block: Block) -> None:
    every, length = range(len(rows.operands)), rows.length
    with block.scope(f"for (int width = {RUN}; width < {length}; width *= 2)"):
        with block.scope(f"for (int low = 0; low < {length}; low += 2 * width)"):
            block.line(f"const int middle = low + width < {length} ? low + width : {length};")
            block.line(f"const int high = low + 2 * width < {length} ? low + 2 * width : {length};")
            block.line("int i = low, j = middle, n = low;")
            with block.scope("while (i < middle & j < high)"):
                # The right one goes first only if it must: that keeps equal ones in order.
                before = _before(rows, block, [f"s{k}[j]" for k in every], [f"s{k}[i]" for k in every])
                block.line(f"const int right = {before} != 0;")
                block.line("const int from = right ? j : i;")
                for k in every:
                    block.line(f"d{k}[n] = s{k}[from];")
                block.line("j += right;")
                block.line("i += !right;")
                block.line("++n;")
            for side, end in (("i", "middle"), ("j", "high")):
                moves = " ".join(f"d{k}[n] = s{k}[{side}];" for k in every)
                block.line(f"for (; {side} < {end}; ++{side}, ++n) {{ {moves} }}")
        for k, c in enumerate(rows.storage):
            block.line(f"{{ __global {c}* t = s{k}; s{k} = d{k}; d{k} = t; }}")


def _before(rows: Rows, block: Block, left: list[str], right: list[str]) -> str:
    """The comparator's answer to whether one tuple of stored values comes before another."""
    args = []
    for t, a, b in zip(rows.types, left, right, strict=True):
        args += [rows.e.assign(t, scalar.load(t, a), block), rows.e.assign(t, scalar.load(t, b), block)]
    (answer,) = rows.e.apply(rows.hero.to_apply, args, block)
    return answer
