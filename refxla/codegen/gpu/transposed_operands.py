"""Operands of a product that its items would read across memory, transposed by a kernel of their own beforehand.

The terms of the gradient of a convolution's filter run over the image and then over the batch. If the features come
first in memory, adjacent items read neither adjacent features nor adjacent terms: each takes a sector of memory for one
element of it, and does so in each tile. With the features last, the same product reads vectors. So an operand is copied
to scratch memory with its features last, if that moves less in total. The product's terms stay in their order, and so
do the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index
from ...device.description import Target
from ...ir.builder import Build
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..element_builder import type_name
from ..kernel_arguments import inputs_of, members_of
from . import elementwise
from .vector_access import size_of

SUB_GROUP, LINES = 32, 8  # adjacent items, and adjacent lines of a block, whose reads are counted
SECTOR = 32  # bytes that are moved together
LAUNCH_BYTES = 20_000_000  # that a large GPU moves in the time of a launch
HIDDEN = 2  # times the bytes of a copy, which it has to save
LEAST_EXCESS = 2.0  # below which adjacent items read along memory, except at its borders
MOST_BYTES = 1 << 30  # of an operand's copy


def excess_sectors(fusion: Fusion, operand: Instruction, at: Sequence[Sequence[Index]]) -> float:
    """The bytes of the sectors that hold the elements of an operand at these constant indices, for each byte of
    those."""
    touched, needed = set[tuple[int, int]](), set[tuple[int, int]]()
    for indices in at:
        pattern = AccessPattern(fusion)
        pattern.value(operand, indices)
        for n, a in enumerate(pattern.accesses):
            size = size_of(a.instruction)
            touched.add((n, a.position.low * size // SECTOR))
            needed |= {(n, a.position.low * size + byte) for byte in range(size)}
    return len(touched) * SECTOR / len(needed) if needed else 1.0


def bytes_saved(operand: Instruction, reads: int, excess: Callable[[], float]) -> float:
    """The bytes that a copy of an operand saves, of which the items read so many elements in all, with `excess` bytes
    for each that is needed; less than zero if it costs more. It has to save many, since the product's arithmetic hides
    some."""
    size, own = operand.shape.size * size_of(operand), size_of(operand)
    cost = HIDDEN * (2 * size + LAUNCH_BYTES)
    if size > MOST_BYTES or reads * (SECTOR - own) <= cost:
        return -cost  # whatever the excess is
    ratio = excess()
    return reads * own * (ratio - 1) - cost if ratio >= LEAST_EXCESS else -cost


class TransposedOperands:
    """The fusion of a product, some of whose operands are transposed by `kernels`."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.target = fusion, target
        self._from = fusion
        self._kernels: list[Kernel] = []
        self._scratch: dict[Instruction, Argument] = {}

    def add(self, side: str, operand: Instruction, order: Sequence[int]) -> Instruction:
        """The operand on a side with its dimensions in another order, an input of the product's fusion from now on."""
        name = f"{self._from.name}.{side}"
        transposed = Build(name).transposed(operand, tuple(order))
        members = members_of(self._from, [operand])
        inputs = tuple(inputs_of(self._from, [operand]))
        copy = Fusion(name, "loop", (*members, transposed), inputs, (transposed,))
        self._scratch[transposed] = Argument(
            "scratch", scalar.storage_type(type_name(transposed)), bytes=transposed.shape.bytes, scratch=name
        )
        self._kernels += elementwise.emit(copy, self.target)
        self.fusion = replace(self.fusion, inputs=(transposed, *self.fusion.inputs))
        return transposed

    def kernels(self, product: Sequence[Kernel]) -> tuple[Kernel, ...]:
        """The kernels that transpose, and then those of the product."""

        def of(a: Argument) -> Argument:
            return a if a.instruction is None else self._scratch.get(a.instruction, a)

        return tuple(replace(k, arguments=tuple(map(of, k.arguments))) for k in (*self._kernels, *product))
