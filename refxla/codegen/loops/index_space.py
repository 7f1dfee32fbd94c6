"""The index space of a loop kernel: what is computed at each index, in which boxes, and over which loops.

The dimensions of the outputs become as few loops as all reads allow (`IndexSpace.groups`): an elementwise chain is one
loop. A concatenate is cut into one segment for each of its operands. The emitters for CPUs and GPUs share this; they
decide which part of it an item computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Protocol

from refxla_spec.module import Instruction

from ...analysis import index_maps
from ...analysis.access_patterns import AccessPattern
from ...analysis.in_place_updates import reads_where_it_writes
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.index_maps import is_elementwise
from ...ir.op_table import FUNCTIONS
from ...ir.plan import Fusion
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import update_starts
from ..kernel_arguments import hero_of
from . import row_unrolling

VECTOR = 16  # elements of a vector, about
FEW_READS = 3  # reads for each element, up to which vectors of elements that are not neighbours are gathered
MAX_SEGMENTS = 64
MOST_RESHAPES = 4  # dimensions that are tried for the loops
MAX_COPIED_SEGMENTS = 4096  # each of which is a call (elementwise.py)

Indices = tuple[Index, ...]


@dataclass(frozen=True)
class Segment:
    """A box of the outputs' index space, computed by one nest of loops."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.sizes)


class Body(Protocol):
    """What is computed at each index of the loops."""

    updates: dict[Instruction, Instruction]  # outputs that are in the memory of an operand, with that operand

    def emit(self, e: ElementalIrEmitter, indices: Indices, block: Block) -> None:
        """Emits the statements that compute and store the elements at these indices."""

    def note(self, pattern: AccessPattern, indices: Indices) -> None:
        """Records what these statements read and store."""


class Outputs:
    """All outputs of a fusion, which have equally many elements. The loops run over the dimensions of the first one or,
    if that is a reshape of a value with a concatenate in it, over those of the value. Otherwise they run over those of
    a value of which it is a reshape where the indices of what is read then take fewer divisions: a reshape of a
    transpose goes by the parts that lie together in memory."""

    def __init__(self, fusion: Fusion) -> None:
        self.outputs, self.dimensions = fusion.outputs, fusion.outputs[0].shape.dimensions
        self.updates: dict[Instruction, Instruction] = {}
        inner = _before_reshapes(fusion, fusion.outputs[0]).shape.dimensions
        if inner != self.dimensions and _root_concatenate(fusion, inner) is not None:
            self.dimensions = inner
        elif shapes := _reshaped_from(fusion, fusion.outputs[0]):
            self.dimensions = min([self.dimensions, *shapes], key=partial(self._divisions, fusion))

    def _divisions(self, fusion: Fusion, dimensions: tuple[int, ...]) -> int:
        """The divisions in the indices of what is read, by loops over these dimensions."""
        pattern = AccessPattern(fusion)
        indices = tuple(variable(f"i{d}", 0, n - 1) for d, n in enumerate(dimensions))
        for output in self.outputs:
            pattern.value(output, _reindexed(indices, dimensions, output))
        return pattern.divisions

    def _indices(self, indices: Indices) -> dict[Instruction, Indices]:
        return {output: _reindexed(indices, self.dimensions, output) for output in self.outputs}

    def emit(self, e: ElementalIrEmitter, indices: Indices, block: Block) -> None:
        # All values before the first store: an output may be in the memory of an input that is read at the same index.
        own = self._indices(indices)
        for output, at in own.items():
            e.value(output, at, block)
        for output, at in own.items():
            e.store(output, at, block)

    def note(self, pattern: AccessPattern, indices: Indices) -> None:
        own = self._indices(indices)
        for output, at in own.items():
            pattern.value(output, at)
        for output, at in own.items():
            pattern.store(output, at)


def _reindexed(indices: Indices, dimensions: tuple[int, ...], output: Instruction) -> Indices:
    """The indices in an output of the element at these indices of an array with the same elements and `dimensions`."""
    own = output.shape.dimensions
    return indices if own == dimensions else tuple(delinearize(linearize(indices, dimensions), own))


class Update:
    """The update of a dynamic-update-slice, written into its operand."""

    def __init__(self, hero: Instruction) -> None:
        self.hero, (self.operand, self.update) = hero, hero.operands[:2]
        self.updates = {hero: self.operand}

    def emit(self, e: ElementalIrEmitter, indices: Indices, block: Block) -> None:
        place = index_maps.shifted(indices, e.run(update_starts(e, self.hero, block), block))
        e.bind(self.hero, place, e.value(self.update, indices, block))
        e.store(self.hero, place, block)

    def note(self, pattern: AccessPattern, indices: Indices) -> None:
        place = index_maps.shifted(indices, pattern.start_indices(index_maps.update_starts(self.hero)))
        pattern.store(self.hero, place, pattern.value(self.update, indices))


def update_of(fusion: Fusion) -> tuple[Update, Segment] | None:
    """The update of a dynamic-update-slice that is a kernel's only output, and its box; None if the update reads the
    operand at other elements than it writes, so that items could see each other's writes, or if there are other
    outputs."""
    hero = hero_of(fusion)
    if fusion.outputs != (hero,):
        return None
    body = Update(hero)
    segment = Segment((0,) * body.update.shape.rank, body.update.shape.dimensions)
    reads = IndexSpace(fusion, segment, body).accesses if segment.size else []
    reads_operand = any(a.instruction is body.operand for a in reads)
    if reads_operand and not reads_where_it_writes(hero, set(fusion.instructions), lambda i: i is body.operand):
        return None
    return body, segment


def segments(fusion: Fusion, dimensions: tuple[int, ...], may_unroll: bool = False) -> list[Segment]:
    """The whole index space; or, if an output is elementwise in a concatenate whose rows are not unrolled, a segment
    for each operand."""
    whole = Segment((0,) * len(dimensions), dimensions)
    root = _root_concatenate(fusion, dimensions)
    if root is None:
        return [whole]
    (axis,) = root.attributes["dimensions"]
    copied = may_unroll and _copies_runs(fusion, root, axis)
    if len(root.operands) > (MAX_COPIED_SEGMENTS if copied else MAX_SEGMENTS):
        return [whole]
    row = prod(dimensions[axis:])
    stacked = len(root.operands) == row < row_unrolling.NARROW
    if may_unroll and (stacked or row_unrolling.has_cheap_rows(fusion, row)):
        return [whole]  # the operand is then known for each element of a row
    segments, offset = [], 0
    for operand in root.operands:
        size = operand.shape.dimensions[axis]
        offsets = tuple(offset if d == axis else 0 for d in range(len(dimensions)))
        segments.append(Segment(offsets, operand.shape.dimensions))
        offset += size
    return segments


def _copies_runs(fusion: Fusion, root: Instruction, axis: int) -> bool:
    """Whether a fusion is a concatenate of inputs, each of which is a contiguous copy."""
    reshapes = {i for i in fusion.instructions if i.opcode == "reshape"}
    kind = root.shape.element_type
    whole = {root, *reshapes} == set(fusion.instructions) and prod(root.shape.dimensions[:axis]) == 1
    return whole and fusion.outputs == (root,) and kind.bits >= 8 and kind.name != "pred"


def _before_reshapes(fusion: Fusion, output: Instruction) -> Instruction:
    """The value of which an output is a reshape, seen through all reshapes in the fusion."""
    while output.opcode == "reshape" and output.operands[0] not in fusion.inputs:
        output = output.operands[0]
    return output


def _reshaped_from(fusion: Fusion, output: Instruction) -> list[tuple[int, ...]]:
    """The dimensions of values that the fusion computes and of which the output is a reshape, or elementwise in one."""
    members, found, waiting, visited = set(fusion.instructions), [], [output], {output}
    while waiting:
        i = waiting.pop()
        if i.opcode == "reshape" and i.operands[0] in members and i.operands[0].opcode != "reshape":
            found.append(i.operands[0].shape.dimensions)
        elif i.opcode != "reshape" and not is_elementwise(i):
            continue
        new = [o for o in i.operands if o in members and o not in visited and o.shape.size == output.shape.size]
        visited.update(new)
        waiting += new
    return list(dict.fromkeys(d for d in found if d != output.shape.dimensions))[:MOST_RESHAPES]


def _root_concatenate(fusion: Fusion, dimensions: tuple[int, ...]) -> Instruction | None:
    members, visited = set(fusion.instructions), set()
    waiting = [o for o in map(partial(_before_reshapes, fusion), fusion.outputs) if o.shape.dimensions == dimensions]
    while waiting:
        i = waiting.pop()
        if i in visited or i not in members:
            continue
        visited.add(i)
        if i.opcode == "concatenate":
            return i
        if is_elementwise(i):
            waiting += [o for o in i.operands if o.shape.dimensions == dimensions]
    return None


class IndexSpace:
    """One segment, and the loops over it: `groups` are the dimensions that each loop joins, `sizes` their elements.

    `accesses`, `starts` and `iterations` are those of the body at any index (see AccessPattern). `notes` says which
    operations a pattern records as calls, `may_unroll` whether short rows may be unrolled.
    """

    def __init__(
        self,
        fusion: Fusion,
        segment: Segment,
        body: Body,
        notes: Callable[[Instruction], bool] = lambda i: False,
        may_unroll: bool = False,
    ) -> None:
        self.fusion, self.segment, self.body, self._notes, self._may_unroll = fusion, segment, body, notes, may_unroll
        self._patterns: dict[tuple[tuple[int, ...], ...], AccessPattern] = {}
        self.groups = self._choose_groups()
        self.whole_pattern = pattern = self._pattern_of(self.groups)
        self.accesses, self.iterations, self.starts = pattern.accesses, pattern.iterations, pattern.starts
        self.sizes = [prod(segment.sizes[d] for d in g) for g in self.groups]
        self.is_stacked = self._stacks(self.groups)
        self.is_unrolled = self.is_stacked or len(self.groups) > 1 and self._unrolls(self.groups, self.sizes[-1])

    def emit_body(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> None:
        self.body.emit(e, self._indices(self.groups, at), block)

    def pattern(self, at: Sequence[Index]) -> AccessPattern:
        """What the body reads and stores at these indices of the groups."""
        return self._pattern_at(self.groups, at)

    def _pattern_at(self, groups: Sequence[Sequence[int]], at: Sequence[Index]) -> AccessPattern:
        pattern = AccessPattern(self.fusion, self._notes)
        self.body.note(pattern, self._indices(groups, at))
        return pattern

    def _indices(self, groups: Sequence[Sequence[int]], at: Sequence[Index]) -> Indices:
        """The output indices of the element at these indices of the groups."""
        result: list[Index] = []
        for group, index in zip(groups, at, strict=True):
            inside = delinearize(index, [self.segment.sizes[d] for d in group])
            result += [x + self.segment.offsets[d] for d, x in zip(group, inside, strict=True)]
        return tuple(result)

    def _pattern_of(self, groups: Sequence[Sequence[int]]) -> AccessPattern:
        """What the body reads and stores at indices g0, g1, ... of the given groups of dimensions."""
        key = tuple(map(tuple, groups))
        if key not in self._patterns:
            sizes = [prod(self.segment.sizes[d] for d in g) for g in groups]
            self._patterns[key] = self._pattern_at(groups, [variable(f"g{n}", 0, s - 1) for n, s in enumerate(sizes)])
        return self._patterns[key]

    def _choose_groups(self) -> list[list[int]]:
        """The groups of dimensions, outermost first: neighbours are joined where that takes no more divisions."""
        dims = [d for d, n in enumerate(self.segment.sizes) if n != 1]
        if len(dims) <= 1:
            return [list(range(len(self.segment.sizes)))]
        # Dimensions of size 1 join the group before them.
        groups: list[list[int]] = []
        for d, n in enumerate(self.segment.sizes):
            if groups and (n == 1 or groups[-1] and all(self.segment.sizes[k] == 1 for k in groups[-1])):
                groups[-1].append(d)
            else:
                groups.append([d])
        joined = [[d for g in groups for d in g]]
        divisions = self._pattern_of(joined).divisions
        if divisions == 0:
            return joined
        best = self._pattern_of(groups).divisions
        if divisions <= best:
            return joined
        at = len(groups) - 2
        while at >= 0:
            trial = groups[:at] + [groups[at] + groups[at + 1]] + groups[at + 2 :]
            divisions = self._pattern_of(trial).divisions
            if divisions <= best:
                groups, best = trial, divisions
            at -= 1
        few_reads = len(self._pattern_of(groups).accesses) <= FEW_READS
        while len(groups) > 1 and self._is_narrow(groups, few_reads):
            run = prod(self.segment.sizes[d] for d in groups[-1])
            if self._unrolls(groups, run):
                return self._longest_unrolled(groups)
            groups = groups[:-2] + [groups[-2] + groups[-1]]
        return groups

    def _longest_unrolled(self, groups: list[list[int]]) -> list[list[int]]:
        """Groups whose unrolled innermost one has as many dimensions as can be unrolled: the loop around it, which has
        the vectors, is then as long as can be."""
        while len(groups) > 2:
            trial = groups[:-2] + [groups[-2] + groups[-1]]
            if not self._unrolls(trial, prod(self.segment.sizes[d] for d in trial[-1])):
                break
            groups = trial
        return groups

    def _unrolls(self, groups: Sequence[Sequence[int]], run: int) -> bool:
        """Whether an innermost loop over `run` elements is unrolled (row_unrolling.py)."""
        return self._may_unroll and row_unrolling.applies(
            self.fusion,
            run,
            lambda: self._pattern_of(groups),
            self._patterns_of_elements(groups),
            functions=sum(map(self._notes, self.fusion.instructions)),
        )

    def _stacks(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether the elements of an innermost row are written out (row_unrolling.py)."""
        run, pattern = prod(self.segment.sizes[d] for d in groups[-1]), self._patterns_of_elements(groups)
        return self._may_unroll and row_unrolling.stacks(self.fusion, run, lambda: self._pattern_of(groups), pattern)

    def _patterns_of_elements(self, groups: Sequence[Sequence[int]]) -> Callable[[int], AccessPattern]:
        """A function that gives the pattern of the n-th element of any innermost row."""
        rows = [variable(f"g{n}", 0, prod(self.segment.sizes[d] for d in g) - 1) for n, g in enumerate(groups[:-1])]
        return lambda n: self._pattern_at(groups, (*rows, constant(n)))

    def _is_narrow(self, groups: Sequence[Sequence[int]], few_reads: bool) -> bool:
        """Whether an innermost loop takes longer than divisions of its indices: if it does not fill a vector, or if
        many elements are left over from whole vectors and each takes a function. The limit is higher if a vector would
        be gathered from many places."""
        size = prod(self.segment.sizes[d] for d in groups[-1])
        fills_no_vector = size % VECTOR > size // (8 if few_reads else 4)
        return size < row_unrolling.NARROW or fills_no_vector and self._has_functions(groups)

    def _has_functions(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether the innermost loop has functions, other than those of the whole row."""
        inner = f"g{len(groups) - 1}"
        calls = self._pattern_of(groups).calls
        of_rows = {c.instruction for c in calls if not any(inner in x.variables for x in c.indices)}
        return any(i.opcode in FUNCTIONS and i not in of_rows for i in self.fusion.instructions)
