"""The kernel of kind "sort": rows sorted by merging, stable whether that is asked for or not.

Runs of a few elements are sorted by insertion, then merged two by two between two buffers. An item sorts one row or
several short ones. The comparator is inlined.
"""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction

from ..plan import Argument, Fusion, Kernel
from . import scalar
from .block import Block
from .expressions import Elements, type_name
from .indexing import delinearize, linearize, variable
from .target import Target

RUN = 8  # elements that are sorted by insertion
PER_ITEM = 4096  # elements that one item sorts, of short rows


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a sort of one or several operands along one dimension."""
    return (_Sort(fusion, target).kernel(),)


class _Sort:
    """Names in the generated code: for operand k, x_k and y_k are the two buffers of a row, s_k and d_k the one that is
    merged from and the one that is merged to."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.hero = fusion, fusion.hero
        self.operands = self.hero.operands
        self.types = [type_name(o) for o in self.operands]
        self.sizes = self.operands[0].shape.dimensions
        (self.dimension,) = self.hero.dimensions
        self.length = self.sizes[self.dimension]
        self.others = [n for d, n in enumerate(self.sizes) if d != self.dimension]
        self.rows = prod(self.others)
        self.per_item = max(1, min(self.rows, PER_ITEM // max(1, self.length)))
        self.items = -(-self.rows // self.per_item) if self.length else 0
        inputs = list(dict.fromkeys(self.operands))
        self.outputs = self._outputs()
        storage = [scalar.storage_type(t) for t in self.types]
        size = prod(self.sizes)
        self.arguments = [Argument("input", scalar.storage_type(type_name(i)), i) for i in inputs]
        self.arguments += [Argument("output", scalar.storage_type(type_name(o)), o) for o in self.outputs.values()]
        self.first_scratch = len(self.arguments)
        for k, c in enumerate(storage):
            for buffer in "xy":
                bytes = size * self.operands[k].shape.element_type.bytes
                self.arguments.append(Argument("scratch", c, bytes=bytes, scratch=f"{buffer}{k}"))
        pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *self.outputs.values()))}
        self.pointers = pointers
        self.storage = storage
        self.e = Elements(fusion, target, pointers)

    def _outputs(self) -> dict[int, Instruction]:
        """By operand number the output that takes its sorted values; those that nobody uses are left out."""
        if not self.hero.shape.is_tuple:
            return {0: self.hero}
        return {i.index: i for i in self.fusion.outputs if i.opcode == "get-tuple-element"}

    def kernel(self) -> Kernel:
        block = Block()
        if self.items:
            row = self.e.names.fresh("r")
            end = f"(item + 1) * {self.per_item}"
            if self.rows % self.per_item:
                end = f"({end} < {self.rows} ? {end} : {self.rows})"
            with block.scope(f"for (int {row} = item * {self.per_item}; {row} < {end}; ++{row})"):
                self._row(block, row)
        return Kernel(self.fusion.name, block.text(), tuple(self.arguments), self.items)

    def _row(self, block: Block, row: str) -> None:
        outer = list(delinearize(variable(row, 0, max(0, self.rows - 1)), self.others))

        def position(i: str) -> str:
            at = outer[: self.dimension] + [variable(i, 0, self.length - 1)] + outer[self.dimension :]
            return str(linearize(at, self.sizes))

        for k, c in enumerate(self.storage):
            scratch = self.first_scratch + 2 * k
            block.line(f"__global {c}* s{k} = a{scratch} + (long){row} * {self.length};")
            block.line(f"__global {c}* d{k} = a{scratch + 1} + (long){row} * {self.length};")
        with block.scope(f"for (int i = 0; i < {self.length}; ++i)"):
            for k, o in enumerate(self.operands):
                block.line(f"s{k}[i] = {self.pointers[o]}[{position('i')}];")
        self._insert(block)
        if self.length > RUN:
            self._merge(block)
        with block.scope(f"for (int i = 0; i < {self.length}; ++i)"):
            for k, o in self.outputs.items():
                block.line(f"{self.pointers[o]}[{position('i')}] = s{k}[i];")

    def _insert(self, block: Block) -> None:
        with block.scope(f"for (int low = 0; low < {self.length}; low += {RUN})"):
            block.line(f"const int high = low + {RUN} < {self.length} ? low + {RUN} : {self.length};")
            with block.scope("for (int i = low + 1; i < high; ++i)"):
                for k, c in enumerate(self.storage):
                    block.line(f"const {c} t{k} = s{k}[i];")
                block.line("int j = i;")
                with block.scope("while (j > low)"):
                    before = self._before(block, [f"t{k}" for k in self._all()], [f"s{k}[j - 1]" for k in self._all()])
                    block.line(f"if (!{before}) break;")
                    for k in self._all():
                        block.line(f"s{k}[j] = s{k}[j - 1];")
                    block.line("--j;")
                for k in self._all():
                    block.line(f"s{k}[j] = t{k};")

    def _merge(self, block: Block) -> None:
        with block.scope(f"for (int width = {RUN}; width < {self.length}; width *= 2)"):
            with block.scope(f"for (int low = 0; low < {self.length}; low += 2 * width)"):
                block.line(f"const int middle = low + width < {self.length} ? low + width : {self.length};")
                block.line(f"const int high = low + 2 * width < {self.length} ? low + 2 * width : {self.length};")
                block.line("int i = low, j = middle, n = low;")
                with block.scope("while (i < middle & j < high)"):
                    # The right one goes first only if it must: that keeps equal ones in order.
                    before = self._before(block, [f"s{k}[j]" for k in self._all()], [f"s{k}[i]" for k in self._all()])
                    block.line(f"const int from = {before} ? j : i;")
                    for k in self._all():
                        block.line(f"d{k}[n] = s{k}[from];")
                    block.line("if (from == j) ++j; else ++i;")
                    block.line("++n;")
                moves = " ".join(f"d{k}[n] = s{k}[i];" for k in self._all())
                block.line(f"for (; i < middle; ++i, ++n) {{ {moves} }}")
                moves = " ".join(f"d{k}[n] = s{k}[j];" for k in self._all())
                block.line(f"for (; j < high; ++j, ++n) {{ {moves} }}")
            for k, c in enumerate(self.storage):
                block.line(f"{{ __global {c}* t = s{k}; s{k} = d{k}; d{k} = t; }}")

    def _all(self) -> range:
        return range(len(self.operands))

    def _before(self, block: Block, left: list[str], right: list[str]) -> str:
        """The comparator's answer to whether one tuple of stored values comes before another."""
        args = []
        for t, a, b in zip(self.types, left, right, strict=True):
            args += [self.e.assign(t, scalar.load(t, a), block), self.e.assign(t, scalar.load(t, b), block)]
        (answer,) = self.e.apply(self.hero.to_apply, args, block)
        return answer
