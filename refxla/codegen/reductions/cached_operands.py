"""Values of a row that a later pass needs again: kept where computing them again is dear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, linearize
from .. import scalar
from ..elemental_ir_emitter import is_elementwise, type_name
from .second_pass_outputs import gathered_place

if TYPE_CHECKING:
    from .reduction import _Reduction

ROW_LIMIT = 4096  # elements of a row that is kept in a private array, at most


class Held:
    """`made` has each value with the number of the pass that computes it. It lies in an array of the row, or where that
    would be too large, in the memory of an output that comes later."""

    def __init__(self, owner: _Reduction) -> None:
        self.owner = owner
        self.rows: dict[Instruction, str | Instruction] = {}
        self.made = self._choose()

    def declare(self) -> None:
        """The arrays."""
        owner = self.owner
        for i in self.made:
            if i not in self.rows:
                self.rows[i] = owner.elements.names.fresh("row")
                size = owner.tree.groups[-1].size
                owner.block.line(f"{scalar.register_type(type_name(i))} {self.rows[i]}[{size}];")

    def bind(self, number: int, at: dict[int, Index], full: tuple[Index, ...]) -> None:
        """In pass `number`, what earlier ones kept is known."""
        for i, made in self.made.items():
            if made < number:
                self.owner.elements.bind(i, full, self._place(i, at, full))

    def keep(self, number: int, at: dict[int, Index], full: tuple[Index, ...]) -> None:
        """What pass `number` computes for later ones is written."""
        for i, made in self.made.items():
            if made == number:
                value = self.owner.elements.value(i, full, self.owner.block)
                self.owner.block.line(f"{self._place(i, at, full)} = {value};")

    def _choose(self) -> dict[Instruction, int]:
        owner = self.owner
        if owner.target.kind == "gpu":
            return {}
        members, computed, held = set(owner.fusion.instructions), {}, {}
        for number, roots in enumerate(owner.roots()):
            waiting, seen = list(roots), set()
            while waiting:
                i = waiting.pop()
                if i in seen or i not in members or i.shape.dimensions != owner.dims:
                    continue
                seen.add(i)
                if i in computed and owner.expensive(i):
                    held[i] = computed[i]
                elif is_elementwise(i):
                    waiting += i.operands
            for i in seen:
                computed.setdefault(i, number)
        t, free = owner.tree, [o for o in owner.late if o.shape.dimensions == owner.dims]
        if t.style == "row" and t.single and t.reduced_size <= ROW_LIMIT:
            return held
        for i in list(held):
            name = type_name(i)
            same = [o for o in free if type_name(o) == name and scalar.storage_type(name) == scalar.register_type(name)]
            if same:
                self.rows[i] = same[0]
                free.remove(same[0])
            else:
                del held[i]
        return held

    def _place(self, i: Instruction, at: dict[int, Index], full: tuple[Index, ...]) -> str:
        """Where the element of a held value is, as C."""
        owner, row = self.owner, self.rows[i]
        if row in owner.gathered:
            return gathered_place(owner, row, at)
        if isinstance(row, str):
            return f"{row}[{at[len(owner.tree.groups) - 1]}]"
        return f"{owner.pointers[row]}[{linearize(full, owner.dims)}]"
