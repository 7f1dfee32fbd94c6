"""The kernel of kind "scatter": updates combined, in place, into an operand that is in the output's memory already.

The updates of an element are applied in row-major order, whatever the number of items: an item owns a part of the
elements and walks all updates of these in order. It owns a range of the dimensions that operand and updates share: the
batching dimensions or, without these, the dimensions of a block that are not indexed. Where such parts would be short
runs of memory, one item owns everything, which reaches the speed of memory if blocks are prefetched; if there are many
items, each owns some of the blocks: it scans the indices of all updates, a few at a time, and applies the updates of
its own blocks. Updates that are known to write different elements (unique_indices) need no order: then an item owns a
part of the updates. Where there are many updates of few elements, and the results do not depend on how updates are
grouped (minima, maxima, sums of integers), an item combines a part of the updates, too: the first one in the operand,
the others in copies of their own, which start as the neutral element. The last item that has finished combines these
with the operand, in their order. Sums and products of f16 and bf16 are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

from ..analysis.access_patterns import AccessPattern
from ..analysis.accumulation import accumulator_types, commutative_opcode
from ..analysis.index_expression import Index, constant, delinearize, linearize, variable
from ..device.description import LINE, Target
from ..ir.plan import Argument, Fusion, Kernel
from . import scalar, work_items
from .c_block import Block
from .element_builder import type_name
from .elemental_ir_emitter import ElementalIrEmitter
from .elemental_rules import combine as combine_in_f32
from .index_printer import c_of
from .kernel_arguments import hero_of, input_argument, output_argument
from .reductions.accumulators import neutral_element

LITTLE = 16384  # updates up to which one item is enough
SHORTEST = 16  # elements of a cache line of f32
SHORT = 64  # elements of a block's part, below which blocks are not divided
LONG = 32  # elements of a block, from which on it pays that each item scans all indices
MANY = 4  # compute units, from which on items own blocks: fewer are no faster than one that reads all updates in order
PARTED = 4096  # updates, from which on items combine them in copies
TIMES = 16  # updates for each element of a copy, at least: other cores have written what the last one combines
STRIP = 4096  # contiguous elements with one owner, at most: processors prefetch pages, not only lines
LOOKED_AT = 1024  # indices that an item scans before it applies its own updates among them
# The distance, in updates, at which blocks, and elements of updates that are not contiguous, are prefetched.
PREFETCH_DISTANCE = 12
MOST_PREFETCHED = 256  # elements of them, at most
CACHED = 1 / 4  # of a core's own caches: a smaller operand stays there anyway
FAR = 2  # of the same: of a larger operand, lines that are only written are prefetched


# Operations, and the types in which results do not depend on how their operands are grouped.
_INTEGERS = ("s32", "u32", "s64", "u64")
_GROUPED = {
    **dict.fromkeys(("maximum", "minimum"), ("f32", "f64", *_INTEGERS)),
    **dict.fromkeys(("add", "multiply", "and", "or", "xor"), _INTEGERS),
}


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a scatter. Raises UnsupportedError if one of several results is unused."""
    return kernels(fusion, target, combining_kernel)


# From what writes the kernels that combine updates: (the fusion, the target, the walk, the arguments that are written).
Combining = Callable[[Fusion, Target, "ScatterWalk", Sequence[Argument]], tuple[Kernel, ...]]


def kernels(fusion: Fusion, target: Target, combining: Combining) -> tuple[Kernel, ...]:
    """The kernels of a scatter whose updates `combining` combines; see `emit`."""
    hero = hero_of(fusion)
    operands, outputs = hero.operands[: len(hero.operands) // 2], _outputs(fusion)
    walk = ScatterWalk(hero, target)
    before, written, after = [], [], []
    for n, (operand, output, element_type) in enumerate(zip(operands, outputs, walk.types, strict=True)):
        if element_type == type_name(operand) or not walk.items:
            written.append(Argument("output", scalar.storage_type(type_name(output)), output, updates=operand))
            continue
        # Sums of halves stay in f32 until they are complete: a kernel before the scatter and one after it convert.
        number = str(n or "")
        sums = Argument("scratch", "float", bytes=4 * operand.shape.size, scratch=f"{fusion.name}.sums{number}")
        widths = (type_name(operand), "f32")
        before.append(_conversion(fusion, target, f"widened{number}", widths, (input_argument(operand), sums)))
        after.append(_conversion(fusion, target, f"rounded{number}", widths[::-1], (sums, output_argument(output))))
        written.append(sums)
    return *before, *combining(fusion, target, walk, written), *after


def inputs_of(fusion: Fusion, values: Iterable[Instruction]) -> list[Instruction]:
    """The inputs that the values, operands of the scatter, are computed from."""
    pattern = AccessPattern(fusion)
    for i in values:
        pattern.value(i, [variable(f"i{d}", 0, n - 1) for d, n in enumerate(i.shape.dimensions)])
    accessed = {a.instruction for a in pattern.accesses}
    return [i for i in fusion.inputs if i in accessed]


def combining_kernel(
    fusion: Fusion, target: Target, walk: ScatterWalk, written: Sequence[Argument]
) -> tuple[Kernel, ...]:
    """The kernel that combines the updates into the memory of the arguments `written`."""
    inputs = inputs_of(fusion, (walk.indices, *walk.updates))
    elements, block = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)}), Block()
    arguments, pointers = (*map(input_argument, inputs), *written), [f"a{len(inputs) + n}" for n in range(len(written))]
    if walk.parts == 1:
        walk.emit(elements, block, pointers)
        return (Kernel(fusion.name, block.text(), arguments, walk.items),)
    copies = Copies(walk, pointers[0], f"a{len(arguments)}")
    with copies.part(elements, block) as (pointer, bounds):
        walk.emit(elements, block, [pointer], bounds)
    arguments = (*arguments, Argument("workspace", "uchar", bytes=copies.bytes))
    return (Kernel(fusion.name, block.text(), arguments, walk.items, global_only=True),)


class Copies:
    """The copies of an operand in which the items after the first one combine their parts of the updates: in the
    `workspace`, after the number of the items that have finished. `operand` is that in which the first one does."""

    def __init__(self, walk: ScatterWalk, operand: str, workspace: str) -> None:
        self.walk, self.operand, self.workspace = walk, operand, workspace
        self.size, self.type = walk.operands[0].shape.size, walk.types[0]
        self.c_type = scalar.storage_type(self.type)
        bytes = walk.operands[0].shape.element_type.bytes
        self.pitch = -(-self.size * bytes // LINE) * LINE // bytes  # elements: no two copies share a cache line
        self.bytes = LINE + (walk.parts - 1) * self.pitch * bytes

    @contextmanager
    def part(self, e: ElementalIrEmitter, block: Block) -> Iterator[tuple[str, tuple[str, str]]]:
        """The code around the loops of an item over its part of the updates: gives the C name of the array that they
        write, and the bounds of the outermost loop."""
        walk = self.walk
        assert walk.outermost is not None  # or there is one part
        size = walk.sizes[walk.outermost]
        each = -(-size // walk.parts)
        copies, own, i, begin, end = (e.names.fresh(prefix) for prefix in ("copies", "own", "i", "begin", "end"))
        block.line(f"__global {self.c_type}* {copies} = (__global {self.c_type}*)({self.workspace} + {LINE});")
        place = f"item == 0 ? {self.operand} : {copies} + (item - 1) * {self.pitch}"
        block.line(f"__global {self.c_type}* {own} = {place};")
        neutral = neutral_element(commutative_opcode(walk.hero.to_apply), self.type)
        block.line(f"if (item > 0) for (int {i} = 0; {i} < {self.size}; ++{i}) {own}[{i}] = {neutral};")
        block.line(f"const int {begin} = item * {each};")
        block.line(f"const int {end} = {begin} + {each} < {size} ? {begin} + {each} : {size};")
        yield own, (begin, end)
        counter, copy = f"((volatile __global int*){self.workspace})", e.names.fresh("copy")
        block.line(f"if (RX_ARRIVE({counter}) != {walk.parts - 1}) return;")
        block.line(f"*{counter} = 0;")
        with (
            block.scope(f"for (int {copy} = 0; {copy} < {walk.parts - 1}; ++{copy})"),
            block.scope(f"for (int {i} = 0; {i} < {self.size}; ++{i})"),
        ):
            other = e.assign(self.type, scalar.load(self.type, f"{copies}[{copy} * {self.pitch} + {i}]"), block)
            (value,) = walk.applied(e, block, [scalar.load(self.type, f"{self.operand}[{i}]")], [other])
            block.line(f"{self.operand}[{i}] = {scalar.store(self.type, value)};")


def _conversion(
    fusion: Fusion, target: Target, suffix: str, types: tuple[str, str], arguments: tuple[Argument, Argument]
) -> Kernel:
    """The kernel that converts an array to the second of the types."""
    size, chunk = hero_of(fusion).operands[0].shape.size, 1 if target.capabilities.coalescing else work_items.ELEMENTS
    block, elements = Block(), ElementalIrEmitter(fusion, target, {})
    with block.scope(f"for (int i = item * {chunk}; i < (item + 1) * {chunk} && i < {size}; ++i)"):
        value = elements.assign(types[0], scalar.load(types[0], "a0[i]"), block)
        value = elements.assign(types[1], scalar.expression("convert", types[:1], types[1], (value,)), block)
        block.line(f"a1[i] = {scalar.store(types[1], value)};")
    return Kernel(f"{fusion.name}.{suffix}", block.text(), arguments, -(-size // chunk))


def _outputs(fusion: Fusion) -> list[Instruction]:
    hero = hero_of(fusion)
    if not hero.shape.is_tuple:
        return [hero]
    results = {i.index: i for i in fusion.outputs if i.opcode == "get-tuple-element" and i.operands[0] is hero}
    if len(results) < len(hero.shape.elements):
        raise UnsupportedError(f"{hero.name}: a scatter of several operands of which only some results are used")
    return [results[n] for n in range(len(results))]


class ScatterWalk:
    """The loops over the updates: `shared` dimensions split among items, the others walked in order by each."""

    def __init__(self, hero: Instruction, target: Target) -> None:
        self.hero, self.caches = hero, target.caches
        count = len(hero.operands) // 2
        self.operands, self.indices, self.updates = (
            hero.operands[:count],
            hero.operands[count],
            hero.operands[count + 1 :],
        )
        self.sizes = self.updates[0].shape.dimensions
        self.window = hero.update_window_dims
        self.batch = [d for d in range(len(self.sizes)) if d not in self.window]
        left_out = (*hero.inserted_window_dims, *hero.input_batching_dims)
        rank = self.operands[0].shape.rank
        # The update dimension for each operand dimension of a block.
        inside = [d for d in range(rank) if d not in left_out]
        self.along = dict(zip(inside, self.window, strict=True))
        batched = [self._batch_dimension(b) for b in hero.scatter_indices_batching_dims]
        free = [u for d, u in self.along.items() if d not in hero.scatter_dims_to_operand_dims]
        if self.is_unique():
            self.shared, self.inner = self.batch, False
        else:
            self.shared = sorted(batched) or free
            # `inner`: whether the shared dimensions are the innermost loops: they can be, and they run along memory.
            last = max((d for d, n in enumerate(self.sizes) if n > 1), default=None)
            self.inner = not batched and last in free
        self.loop_dimensions = [d for d in range(len(self.sizes)) if d not in self.shared]
        self.outermost = next((d for d in self.loop_dimensions if self.sizes[d] > 1), None)
        # The types in which values are combined: the elements' own where each element is written once.
        own = [type_name(o) for o in self.operands]
        self.types = own if self.is_unique() else list(accumulator_types(hero.to_apply))
        self.width = prod(self.sizes[d] for d in self.shared)
        self.part = self.width
        if prod(self.sizes) > LITTLE and self.shared:
            part = -(-self.width // (4 * max(1, target.compute_units)))
            self.part = -(-part // SHORTEST) * SHORTEST if self.inner else part
        self.owners = 1
        if self.inner and self.width > self.part < SHORT:
            self.part = self.width
        if target.capabilities.coalescing:  # so neighbouring items own neighbouring elements
            self.part = 1
        elif self.part == self.width:
            self.owners = self._count_owners(target)
        empty = prod(self.sizes) == 0 or not self.operands[0].shape.size
        self.items = 0 if empty else self.owners if self.owners > 1 else -(-self.width // self.part)
        self.parts = self._count_parts(target) if self.items == 1 else 1
        self.items = max(self.items, self.parts)

    def _count_parts(self, target: Target) -> int:
        """The number of items that combine a part of the updates each, in copies of the operand."""
        opcode = commutative_opcode(self.hero.to_apply)
        if target.capabilities.coalescing or len(self.operands) > 1 or self.outermost is None or self.is_unique():
            return 1
        if self.types[0] not in _GROUPED.get(opcode or "", ()) or self.types[0] != type_name(self.operands[0]):
            return 1
        count, size = prod(self.sizes), self.operands[0].shape.size
        if count < PARTED:
            return 1
        return min(target.compute_units, self.sizes[self.outermost], 1 + count // (TIMES * size))

    def _count_owners(self, target: Target) -> int:
        """The number of work items that own strips of the blocks; 1 where each item takes a part of every block."""
        hero, shape = self.hero, self.operands[0].shape
        indexed = sorted(hero.scatter_dims_to_operand_dims)
        if prod(self.sizes) <= LITTLE or self.is_unique() or not self.inner or not self.is_single():
            return 1
        few = prod(self.sizes[d] for d in self.batch) < LOOKED_AT or target.compute_units < MANY
        if self.width < LONG or few or not indexed:
            return 1
        inside = prod(shape.dimensions[indexed[-1] + 1 :])  # contiguous elements of one index
        blocks = prod(shape.dimensions[d] for d in indexed)
        owners = target.compute_units
        strip = max(SHORTEST, min(STRIP, blocks * inside // (4 * owners)))
        self.strip = -(-strip // inside)
        shares: int = min(owners, -(-blocks // self.strip))
        return shares

    def is_single(self) -> bool:
        """Whether blocks have size 1 in all indexed dimensions, so that two of them are equal or disjoint."""
        return all(self.sizes[self.along[d]] == 1 for d in self.hero.scatter_dims_to_operand_dims if d in self.along)

    def is_unique(self) -> bool:
        """Whether no two index vectors write the same element: blocks of one element where they are indexed."""
        return self.hero.unique_indices and self.is_single() and prod(self.sizes[d] for d in self.batch) > 1

    def _batch_dimension(self, index_dimension: int) -> int:
        """The dimension of updates that corresponds to a dimension of the indices."""
        before: bool = index_dimension > self.hero.index_vector_dim
        return self.batch[index_dimension - before]

    def emit(
        self, e: ElementalIrEmitter, block: Block, pointers: list[str], bounds: tuple[str, str] | None = None
    ) -> None:
        """The loops over the updates that an item combines; of the outermost loop those within the bounds, if given."""
        if not self.items:
            return
        if self.owners > 1:
            return self._emit_owned(e, block, pointers)
        at: dict[int, Index] = {}
        with ExitStack() as scopes:
            if not self.inner:
                self._enter_shared(e, block, scopes, at)
            for d in self.loop_dimensions:
                if bounds is None or d != self.outermost:
                    at[d], scope = e.loop(self.sizes[d], block)
                else:
                    name = e.names.fresh("k")
                    at[d] = variable(name, 0, self.sizes[d] - 1)
                    scope = block.scope(f"for (int {name} = {bounds[0]}; {name} < {bounds[1]}; ++{name})")
                scopes.enter_context(scope)
            self._fetch_ahead(e, block, pointers, at)
            starts, conditions = self.starts(e, block, at)
            if conditions:
                scopes.enter_context(block.scope(f"if ({' & '.join(conditions)})"))
            if self.inner and self.shared:
                self._enter_shared(e, block, scopes, at)
            self.combine(e, block, pointers, at, self.place(at, starts))

    def _emit_owned(self, e: ElementalIrEmitter, block: Block, pointers: list[str]) -> None:
        """Applies the updates of this item's blocks, in order: first collects their numbers, then applies them."""
        sizes = [self.sizes[d] for d in self.loop_dimensions]
        count = prod(sizes)
        first, n, k, own = (e.names.fresh(prefix) for prefix in ("first", "n", "k", "own"))
        number = variable(k, 0, count - 1)
        at = dict(zip(self.loop_dimensions, delinearize(number, sizes), strict=True))
        block.line(f"int {own}[{LOOKED_AT + PREFETCH_DISTANCE}] = {{0}};")
        with block.scope(f"for (int {first} = 0; {first} < {count}; {first} += {LOOKED_AT})"):
            last = f"{first} + {LOOKED_AT}"
            block.line(f"int {n} = 0;")
            with block.scope(f"for (int {k} = {first}; {k} < {last} && {k} < {count}; ++{k})"):
                starts, conditions = self.starts(e, block, at)
                indexed = sorted(self.hero.scatter_dims_to_operand_dims)
                dims = [self.operands[0].shape.dimensions[d] for d in indexed]
                owner = linearize([starts[d] for d in indexed], dims) // self.strip % self.owners
                block.line(f"{own}[{n}] = {k};")
                inside = f"({' & '.join(conditions)}) && " if conditions else ""
                block.line(f"{n} += {inside}({c_of(owner)} == item);")
            mine = e.names.fresh("m")
            with block.scope(f"for (int {mine} = 0; {mine} < {n}; ++{mine})"), ExitStack() as scopes:
                ahead = e.names.fresh("k")
                block.line(f"const int {ahead} = {own}[{mine} + {PREFETCH_DISTANCE}];")
                then = dict(zip(self.loop_dimensions, delinearize(variable(ahead, 0, count - 1), sizes), strict=True))
                self._fetch(e, block, then, self.starts(e, block, then)[0], pointers, self.updates)
                block.line(f"const int {k} = {own}[{mine}];")
                starts, _ = self.starts(e, block, at)
                self._enter_shared(e, block, scopes, at)
                self.combine(e, block, pointers, at, self.place(at, starts))

    def _fetch_ahead(self, e: ElementalIrEmitter, block: Block, pointers: list[str], at: dict[int, Index]) -> None:
        """Prefetches the block of an update some iterations ahead; updates are visited in order."""
        d = max((d for d in self.loop_dimensions if self.sizes[d] > 1), default=None)
        bytes = self.operands[0].shape.bytes
        far = (
            bytes > CACHED * self.caches.second
            if self.inner
            else self._overwrites() and bytes > FAR * self.caches.second
        )
        if d is None or self.sizes[d] < LOOKED_AT or not far:
            return
        k, last = e.names.fresh("k"), self.sizes[d] - 1
        block.line(
            f"const int {k} = {c_of(at[d])} < {last - PREFETCH_DISTANCE} ? {c_of(at[d] + PREFETCH_DISTANCE)} : {last};"
        )
        ahead = {**at, d: variable(k, 0, last)}
        starts, conditions = self.starts(e, block, ahead)
        with block.scope(f"if ({' & '.join(conditions)})" if conditions else ""):
            self._fetch(e, block, ahead, starts, pointers, ())

    def _overwrites(self) -> bool:
        """Whether single elements are written without reading them. Stores wait for one line after the other; reads do
        not."""
        root, parameters = self.hero.to_apply.root, self.hero.to_apply.parameters
        return self.width == 1 and len(self.operands) == 1 and root is parameters[1]

    def _fetch(
        self,
        e: ElementalIrEmitter,
        block: Block,
        at: dict[int, Index],
        starts: list[Index],
        pointers: list[str],
        updates: Sequence[Instruction],
    ) -> None:
        """Prefetches a block, and the elements of some updates that are in memory."""
        if not e.target.capabilities.prefetch:
            return
        i, sizes = e.names.fresh("i"), [self.sizes[d] for d in self.shared]
        begin, _ = self._part_bounds()
        at = {**at, **dict(zip(self.shared, delinearize(variable(i, 0, self.width - 1), sizes), strict=True))}
        position = linearize(self.place(at, starts), self.operands[0].shape.dimensions)
        places = [f"{p} + ({c_of(position)})" for p in pointers]
        places += filter(None, (e.address(u, [at[d] for d in range(len(self.sizes))]) for u in updates))
        end = f"{begin} + {min(self.part, MOST_PREFETCHED)}" if begin != "0" else str(min(self.part, MOST_PREFETCHED))
        fetches = " ".join(f"__builtin_prefetch({p});" for p in places)
        block.line(f"for (int {i} = {begin}; {i} < {end}; {i} += {SHORTEST}) {{ {fetches} }}")

    def _part_bounds(self) -> tuple[str, str]:
        """The bounds of an item's part of the shared dimensions, as C."""
        if self.part >= self.width:
            return "0", str(self.width)
        begin = f"item * {self.part}"
        end = f"{begin} + {self.part}"
        if self.width % self.part:
            end = f"({end} < {self.width} ? {end} : {self.width})"
        return begin, end

    def _enter_shared(self, e: ElementalIrEmitter, block: Block, scopes: ExitStack, at: dict[int, Index]) -> None:
        name = e.names.fresh("i")
        begin, end = self._part_bounds()
        scopes.enter_context(block.scope(f"for (int {name} = {begin}; {name} < {end}; ++{name})"))
        position = variable(name, 0, max(0, self.width - 1))
        at.update(zip(self.shared, delinearize(position, [self.sizes[d] for d in self.shared]), strict=True))

    def starts(self, e: ElementalIrEmitter, block: Block, at: dict[int, Index]) -> tuple[list[Index], list[str]]:
        """The start of the block in the operand, and the conditions under which it is in bounds."""
        hero, shape = self.hero, self.operands[0].shape
        starts: list[Index] = [constant(0)] * shape.rank
        batch = [at[d] for d in self.batch]
        conditions = []
        for d, b in zip(hero.input_batching_dims, hero.scatter_indices_batching_dims, strict=True):
            starts[d] = at[self._batch_dimension(b)]
        for n, d in enumerate(hero.scatter_dims_to_operand_dims):
            place = list(batch)
            if hero.index_vector_dim < self.indices.shape.rank:
                place.insert(hero.index_vector_dim, constant(n))
            value = e.value(self.indices, place, block)
            length = self.sizes[self.along[d]] if d in self.along else 1
            limit = shape.dimensions[d] - length
            if limit < 0:
                conditions.append("0")
                continue
            kind, bits = self.indices.shape.element_type.kind, self.indices.shape.element_type.bits
            if kind == "signed" and bits >= 32:  # one comparison: as unsigned, a negative number is a large one
                conditions.append(f"((u{scalar.register_type(f's{bits}')}){value} <= {limit}u)")
            else:
                if limit < scalar.largest(type_name(self.indices)):
                    conditions.append(f"({value} <= {limit})")
                if kind == "signed":
                    conditions.append(f"({value} >= 0)")
            name = e.names.fresh("s")
            block.line(f"const int {name} = (int){value};")
            starts[d] = variable(name, 0, limit)
        return starts, conditions

    def place(self, at: dict[int, Index], starts: list[Index]) -> list[Index]:
        """The indices of the operand's element that an element of the updates writes, in a block that starts at
        `starts`."""
        return [s + at[self.along[d]] if d in self.along else s for d, s in enumerate(starts)]

    def combine(
        self, e: ElementalIrEmitter, block: Block, pointers: list[str], at: dict[int, Index], place: list[Index]
    ) -> None:
        """The statements that combine an element of the updates with the element of the operand at `place`."""
        spots = self.spots(pointers, place)
        combined = self.combined(e, block, [scalar.load(t, s) for t, s in zip(self.types, spots, strict=True)], at)
        for t, spot, value in zip(self.types, spots, combined, strict=True):
            block.line(f"{spot} = {scalar.store(t, value)};")

    def spots(self, pointers: Sequence[str], place: list[Index]) -> list[str]:
        """The C lvalues of the elements of the operands at `place`."""
        position = linearize(place, self.operands[0].shape.dimensions)
        return [f"{p}[{c_of(position)}]" for p in pointers]

    def combined(self, e: ElementalIrEmitter, block: Block, old: Sequence[str], at: dict[int, Index]) -> Sequence[str]:
        """The C values that result from an element of the updates and the expressions `old`."""
        return self.applied(e, block, old, self.new(e, block, at))

    def new(self, e: ElementalIrEmitter, block: Block, at: dict[int, Index]) -> Sequence[str]:
        """The C values of an element of the updates."""
        update_indices = [at[d] for d in range(len(self.sizes))]
        return [e.value(u, update_indices, block) for u in self.updates]

    def applied(self, e: ElementalIrEmitter, block: Block, old: Sequence[str], new: Sequence[str]) -> Sequence[str]:
        """The C values that result from `new` values of the updates and the expressions `old`."""
        before = [e.assign(t, value, block) for t, value in zip(self.types, old, strict=True)]
        own = self.types == [type_name(o) for o in self.operands]
        apply = e.apply if own else partial(combine_in_f32, e)
        return apply(self.hero.to_apply, (*before, *new), block)
