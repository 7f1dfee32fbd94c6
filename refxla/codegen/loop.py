"""The kernel of kind "loop": every element of the outputs by itself, in loops that clang vectorises.

The dimensions of the outputs become as few nested loops as all reads allow (`_groups`): an elementwise chain is one
loop. On a CPU an item is a chunk of the elements, the innermost loop runs along memory; where a read runs across memory
(a transpose), the loops go in tiles whose cache lines stay in the cache. A concatenate is split into one nest for each
operand, and loops fall into ranges where a pad asks for the border (`ranges`). On a GPU an item is one element.

Kind "update" is a dynamic-update-slice in place: the loops run over the update alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from refxla_spec.module import Instruction

from ..optable import ELEMENTWISE, ROWS
from ..plan import Argument, Fusion, Kernel
from . import scalar
from .block import Block
from .expressions import Access, Elements, is_elementwise, type_name, update_starts
from .indexing import Index, constant, delinearize, linearize, variable
from .ranges import Cut, Range, cut
from .stretch import Part, Stretch
from .target import Target

CHUNK = 16384  # elements that one item computes, for cheap elements
ADDITION_NS, BYTE_NS = 0.05, 0.03  # of an element, about: what is computed, what is moved
CHEAP_NS = 0.8  # what an element may cost to be cheap
LEAST_CHUNK = 1024  # elements of an item, however dear
SHARE_NS = 1000.0  # of a core in a team: less is not shared out
WHOLE = 16  # elements of which an item has whole ones
EVEN_ITEMS = 64  # up to which it matters that all cores have as many
NARROW = 16  # an innermost loop shorter than this is joined with the next one, at the price of divisions
MAX_SEGMENTS = 64
TILE_ROWS, TILE_COLUMNS = 64, 16  # of a tile of a transpose: whole cache lines of f32 both ways
MAX_STAGED = 4  # inputs of which a tile is kept
WIDENED = {"char": "int", "uchar": "uint", "short": "int", "ushort": "uint"}  # what narrow ones are in a tile
# Operations with constants of their own: functions, and not what the processor has an instruction for.
FUNCTIONS = frozenset(o for o, row in ROWS.items() if row.group == ELEMENTWISE and row.flops > ROWS["sqrt"].flops)
CUT_FROM = 1024  # elements of a nest whose loops fall into ranges
CUT_MEMBERS = 256  # instructions of a fusion, up to which its code may be written once for each range

Indices = tuple[Index, ...]


@dataclass(frozen=True)
class Segment:
    """A box of the outputs' index space, computed by one nest of loops."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.sizes)


# Emits the statements that compute and store the elements at these indices.
Body = Callable[[Elements, Indices, Block], None]


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a fusion whose outputs all have the same dimensions."""
    dimensions = fusion.outputs[0].shape.dimensions

    def body(e: Elements, indices: Indices, block: Block) -> None:
        places = {}
        for output in fusion.outputs:
            own = indices
            if output.shape.dimensions != dimensions:
                own = delinearize(linearize(indices, dimensions), output.shape.dimensions)
            places[output] = own
        # All values before the first store: an output may lie in the memory of an input that is read at the same index.
        for output, own in places.items():
            e.value(output, own, block)
        for output, own in places.items():
            e.store(output, own, block)

    return (_kernel(fusion, target, _segments(fusion, dimensions), body, {}),)


def emit_update(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a dynamic-update-slice that writes only its update; the operand's value is there already.

    Where the update itself reads the operand, the items could see each other's writes: then every element is written.
    """
    hero = fusion.hero
    operand, update = hero.operands[:2]
    if fusion.outputs != (hero,):
        return emit(fusion, target)

    def body(e: Elements, indices: Indices, block: Block) -> None:
        starts = e.run(update_starts(e, hero, block), block)
        place = tuple(x + s for x, s in zip(indices, starts, strict=True))
        e.bind(hero, place, e.value(update, indices, block))
        e.store(hero, place, block)

    segment = Segment((0,) * update.shape.rank, update.shape.dimensions)
    kernel = _kernel(fusion, target, [segment], body, {hero: operand})
    if any(a.instruction is operand and a.role == "input" for a in kernel.arguments):
        return emit(fusion, target)
    return (kernel,)


def _kernel(
    fusion: Fusion, target: Target, segments: Sequence[Segment], body: Body, updates: dict[Instruction, Instruction]
) -> Kernel:
    segments = [s for s in segments if s.size]
    probes = [_Nest(fusion, target, s, body) for s in segments]
    read = {access.instruction for p in probes for access in p.accesses}
    inputs = [i for i in fusion.inputs if i in read]
    pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))}
    elements = Elements(fusion, target, pointers)
    block = Block()
    # A little work is one item; each nest then runs in turn.
    single = target.kind == "cpu" and sum(p.segment.size * p.turns for p in probes) <= chunk_of(fusion, target)
    items = 0
    for n, nest in enumerate(probes):
        if single:
            with block.scope():
                nest.emit(elements, block, "0", nest.items)
            items = 1
        elif len(probes) == 1:
            nest.emit(elements, block, "item", 1)
            items = nest.items
        else:
            with block.scope(f"{'else ' if n else ''}if (item < {items + nest.items})"):
                nest.emit(elements, block, f"(item - {items})", 1)
            items += nest.items
    arguments = [Argument("input", scalar.storage_type(type_name(i)), i) for i in inputs]
    arguments += [
        Argument("output", scalar.storage_type(type_name(o)), o, updates=updates.get(o)) for o in fusion.outputs
    ]
    # A masked instruction that takes a constant from a page not yet touched is very slow while its mask is empty: only
    # code that has other constants is compiled for the processor's masks.
    wide = any(i.opcode in FUNCTIONS for i in fusion.instructions)
    return Kernel(fusion.name, block.text(), tuple(arguments), items, registers=wide)


def chunk_of(fusion: Fusion, target: Target) -> int:
    """The elements that one item computes: fewer of those that take long, and of few no more than give all cores some,
    where that costs no launch."""
    inside = [i for i in fusion.instructions if i.opcode in ROWS and ROWS[i.opcode].group == ELEMENTWISE]
    moved = sum(i.shape.element_type.bits // 8 for i in (*fusion.inputs, *fusion.outputs))
    ns = sum(ROWS[i.opcode].flops for i in inside) * ADDITION_NS + moved * BYTE_NS
    chunk = max(LEAST_CHUNK, int(CHUNK / max(1.0, ns / CHEAP_NS)))
    size, cores = max(o.shape.size for o in fusion.outputs), target.compute_units
    items = -(-size // chunk)
    if target.team and size * ns >= SHARE_NS * cores:
        items = max(items, cores)
    if items <= 1 or items >= EVEN_ITEMS:
        return chunk
    share = -(-size // (-(-items // cores) * cores))  # as many for each core
    return -(-share // WHOLE) * WHOLE


def _segments(fusion: Fusion, dimensions: tuple[int, ...]) -> list[Segment]:
    """The whole index space, or where an output is elementwise in a concatenate, a segment for each of its operands."""
    whole = Segment((0,) * len(dimensions), dimensions)
    found = _root_concatenate(fusion, dimensions)
    if found is None or len(found.operands) > MAX_SEGMENTS:
        return [whole]
    (axis,) = found.attributes["dimensions"]
    segments, offset = [], 0
    for operand in found.operands:
        size = operand.shape.dimensions[axis]
        offsets = tuple(offset if d == axis else 0 for d in range(len(dimensions)))
        segments.append(Segment(offsets, operand.shape.dimensions))
        offset += size
    return segments


def _root_concatenate(fusion: Fusion, dimensions: tuple[int, ...]) -> Instruction | None:
    members, seen = set(fusion.instructions), set()
    waiting = [o for o in fusion.outputs if o.shape.dimensions == dimensions]
    while waiting:
        i = waiting.pop()
        if i in seen or i not in members:
            continue
        seen.add(i)
        if i.opcode == "concatenate":
            return i
        if is_elementwise(i):
            waiting += [o for o in i.operands if o.shape.dimensions == dimensions]
    return None


class _Nest:
    """The loops over one segment: how its dimensions are grouped, and into how many items they fall."""

    def __init__(self, fusion: Fusion, target: Target, segment: Segment, body: Body) -> None:
        self.fusion, self.target, self.segment, self.body = fusion, target, segment, body
        self._probes: dict[tuple, tuple[Elements, int]] = {}
        self.groups = self._choose_groups()
        elements, _ = self._probe(self.groups)
        self.accesses, self.turns = elements.accesses, elements.turns
        self.sizes = [prod(segment.sizes[d] for d in g) for g in self.groups]
        self.tiled = self._transposed_group()
        self.chunk = max(1, chunk_of(fusion, target) // self.turns)
        if target.kind == "gpu":
            self.items = segment.size
        elif self.tiled is not None:
            self.items = -(-self._tiles() // self._tiles_per_item())
        elif self.sizes[-1] >= self.chunk:
            self.items = prod(self.sizes[:-1]) * -(-self.sizes[-1] // self.chunk)
        else:
            self.items = -(-prod(self.sizes[:-1]) // self._rows_per_item())
        self.cut = self._choose_cut(elements)

    def emit(self, e: Elements, block: Block, item: str, turns: int) -> None:
        """The statements of one item, or for `turns` > 1 of all items in turn; `item` is a C expression."""
        if turns > 1:
            name = e.names.fresh("n")
            with block.scope(f"for (int {name} = 0; {name} < {turns}; ++{name})"):
                self._emit_item(e, block, name)
        else:
            self._emit_item(e, block, item)

    def _emit_item(self, e: Elements, block: Block, item: str) -> None:
        at = e.names.fresh("n")
        block.line(f"const int {at} = {item};")
        number = variable(at, 0, self.items - 1)
        if self.target.kind == "gpu":
            self._emit_body(e, block, delinearize(number, self.sizes))
        elif self.tiled is not None:
            self._emit_tiles(e, block, number)
        elif self.sizes[-1] >= self.chunk:
            parts = -(-self.sizes[-1] // self.chunk)
            outer = delinearize(number // parts, self.sizes[:-1])
            stretch = Stretch(e, block, number % parts, self.chunk, self.sizes[-1])
            self._emit_stretch(e, block, outer, stretch, self.cut)
        else:
            count = prod(self.sizes[:-1])
            with Stretch(e, block, number, self._rows_per_item(), count).loop() as row:
                outer = delinearize(row, self.sizes[:-1])
                stretch = Stretch(e, block, constant(0), self.sizes[-1], self.sizes[-1])
                self._emit_stretch(e, block, outer, stretch, self.cut)

    def _emit_stretch(
        self, e: Elements, block: Block, outer: Sequence[Index], stretch: Stretch, cut: Cut | None
    ) -> None:
        """The innermost loop, or what it falls into, inside loops with these indices."""
        if cut is None:
            with stretch.loop() as inner:
                self._emit_body(e, block, (*outer, inner))
        elif cut.loop == len(outer):
            for low, high, _ in cut.parts:
                with stretch.loop((low, high)) as inner:
                    self._emit_body(e, block, (*outer, inner))
        else:
            name, n = str(outer[cut.loop]), cut.loop
            if not name.isidentifier():
                name = e.names.fresh("n")
                block.line(f"const int {name} = {outer[n]};")
            for at, (low, high, inside) in enumerate(cut.parts):
                head = f"if ({name} <= {high})" if at < len(cut.parts) - 1 else ""
                with block.scope(f"{'else ' if at else ''}{head}".rstrip()):
                    here = (*outer[:n], variable(name, low, high), *outer[n + 1 :])
                    self._emit_stretch(e, block, here, stretch, inside)

    def _emit_tiles(self, e: Elements, block: Block, number: Index) -> None:
        """Tiles of rows (the group that reads run along) and columns (the innermost group, that writes run along)."""
        tiled, inner = self.tiled, len(self.sizes) - 1
        tiles = []
        for access in self._staged(self.accesses, f"g{tiled}", f"g{inner}"):
            own = scalar.register_type(type_name(access.instruction))
            c_type = WIDENED.get(own, own) if self._turns("int") else own
            read = self._is_turned_from_memory(access)
            tiles.append(
                ("" if read else e.names.fresh("tile"), e.names.fresh("turned") if self._turns(c_type) else "")
            )
            for name in filter(None, tiles[-1]):
                block.line(f"{c_type} {name}[{TILE_ROWS * TILE_COLUMNS}] __attribute__((aligned(64)));")
        with Stretch(e, block, number, self._tiles_per_item(), self._tiles()).loop() as tile:
            at = list(delinearize(tile, self._tile_counts()))
            row, column = e.names.fresh("t"), e.names.fresh("t")
            block.line(f"const int {row} = {at[tiled] * TILE_ROWS};")
            block.line(f"const int {column} = {at[inner] * TILE_COLUMNS};")
            rows, columns = (row, TILE_ROWS, self.sizes[tiled]), (column, TILE_COLUMNS, self.sizes[inner])
            whole = [f"{first} + {size} <= {limit}" for first, size, limit in (rows, columns) if limit % size]
            with block.scope(f"if ({' && '.join(whole)})" if whole else ""):
                self._emit_tile(e, block, at, tiles, rows, columns)
            if whole:  # what is left at the edges is little
                with block.scope("else"):
                    with Part(e, block, *rows, False) as at[tiled], Part(e, block, *columns, False) as at[inner]:
                        self._emit_body(e, block, tuple(at))

    def _turns(self, c_type: str) -> bool:
        """Whether a tile of this type is transposed in vector registers."""
        return self.target.clang and self.target.max_vector >= 8 and c_type in ("float", "int", "uint")

    def _is_turned_from_memory(self, access: Access) -> bool:
        """Whether a tile is transposed as it is read: memory holds what registers do, and rows run forward."""
        same = scalar.storage_type(type_name(access.instruction)) == scalar.register_type(type_name(access.instruction))
        forward = access.position.factor(f"g{self.tiled}") == 1
        return same and forward and self._turns(scalar.register_type(type_name(access.instruction)))

    def _emit_tile(
        self, e: Elements, block: Block, at: list[Index], tiles: Sequence, rows: tuple, columns: tuple
    ) -> None:
        """One whole tile: what is read across memory is first copied as it lies, turned, and then taken from there.

        `tiles` are the names of the two private arrays of each input, "" where one is not needed; `rows` and `columns`
        are as `Part` takes them.
        """
        tiled, inner, at = self.tiled, len(self.sizes) - 1, list(at)
        if any(tile for tile, _ in tiles):
            with Part(e, block, *columns, True) as column, Part(e, block, *rows, True) as row:
                at[tiled], at[inner] = row, column
                for (tile, _), access in zip(tiles, self._staged_at(at, row, column), strict=True):
                    if tile:
                        value = e.value(access.instruction, access.indices, block)
                        place = f"{tile}[({column} - {columns[0]}) * {TILE_ROWS} + {row} - {rows[0]}]"
                        block.line(f"{place} = {value};")
        first = [variable(name, 0, max(limit, 2) - 1) for name, _, limit in (rows, columns)]
        at[tiled], at[inner] = first
        for (tile, turned), access in zip(tiles, self._staged_at(at, *first), strict=True):
            source, step = tile, TILE_ROWS
            if not tile:
                source, step = e.address(access.instruction, access.indices), access.position.factor(columns[0])
            if turned:
                block.line(f"rx_transpose_tile_u32((ulong)({source}), {step}, {turned});")
        with Part(e, block, *rows, True) as row, Part(e, block, *columns, True) as column:
            at[tiled], at[inner] = row, column
            for (tile, turned), access in zip(tiles, self._staged_at(at, row, column), strict=True):
                place = f"{tile}[({column} - {columns[0]}) * {TILE_ROWS} + {row} - {rows[0]}]"
                if turned:
                    place = f"{turned}[({row} - {rows[0]}) * {TILE_COLUMNS} + {column} - {columns[0]}]"
                own = scalar.register_type(type_name(access.instruction))
                if own in WIDENED:
                    place = f"(({own}){place})"
                e.bind(access.instruction, access.indices, place)
            self._emit_body(e, block, tuple(at))

    def _staged(self, accesses: Sequence[Access], row: str, column: str) -> list[Access]:
        """The accesses that run along memory with the variable `row` and across it with `column`, each once."""
        found: dict[tuple, Access] = {}
        for a in accesses:
            step = a.position.factor(column)
            if a.conditional or step is None or abs(step) < TILE_COLUMNS or a.position.factor(row) not in (1, -1):
                continue
            if len(found) < MAX_STAGED:
                found[a.instruction, a.indices] = a
        return list(found.values())

    def _staged_at(self, at: Sequence[Index], row: Index, column: Index) -> list[Access]:
        """The same accesses, at these indices of the groups."""
        e, block = self._new_elements(), Block()
        self.body(e, self._indices(self.groups, at), block)
        return self._staged(e.accesses, str(row), str(column))

    def _emit_body(self, e: Elements, block: Block, at: Sequence[Index]) -> None:
        self.body(e, self._indices(self.groups, at), block)

    def _rows_per_item(self) -> int:
        return max(1, self.chunk // self.sizes[-1])

    def _tile_counts(self) -> list[int]:
        tiles = {self.tiled: TILE_ROWS, len(self.sizes) - 1: TILE_COLUMNS}
        return [-(-n // tiles.get(d, 1)) for d, n in enumerate(self.sizes)]

    def _tiles(self) -> int:
        return prod(self._tile_counts())

    def _tiles_per_item(self) -> int:
        return max(1, self.chunk // (TILE_ROWS * TILE_COLUMNS))

    def _indices(self, groups: Sequence[Sequence[int]], at: Sequence[Index]) -> Indices:
        """The output indices of the element at these indices of the groups."""
        result: list[Index] = []
        for group, index in zip(groups, at, strict=True):
            inside = delinearize(index, [self.segment.sizes[d] for d in group])
            result += [x + self.segment.offsets[d] for d, x in zip(group, inside, strict=True)]
        return tuple(result)

    def _new_elements(self) -> Elements:
        pointers = {i: "p" for i in (*self.fusion.inputs, *self.fusion.outputs)}
        return Elements(self.fusion, self.target, pointers)

    def _probe(self, groups: Sequence[Sequence[int]]) -> tuple[Elements, int]:
        """Emits one element into nowhere: the Elements that did it, and how many index divisions that took."""
        key = tuple(map(tuple, groups))
        if key in self._probes:
            return self._probes[key]
        e, block = self._new_elements(), Block()
        sizes = [prod(self.segment.sizes[d] for d in g) for g in groups]
        at = [variable(f"g{n}", 0, size - 1) for n, size in enumerate(sizes)]
        self.body(e, self._indices(groups, at), block)
        text = block.text()
        self._probes[key] = e, text.count("(int)((uint)") + text.count("(long)((ulong)")
        return self._probes[key]

    def _choose_groups(self) -> list[list[int]]:
        """The dimensions, neighbours joined where that takes no division more: outermost first."""
        dims = [d for d, n in enumerate(self.segment.sizes) if n != 1]
        if len(dims) <= 1:
            return [list(range(len(self.segment.sizes)))]
        # Dimensions of size 1 go with what stands before them.
        groups: list[list[int]] = []
        for d, n in enumerate(self.segment.sizes):
            if groups and (n == 1 or groups[-1] and all(self.segment.sizes[k] == 1 for k in groups[-1])):
                groups[-1].append(d)
            else:
                groups.append([d])
        joined = [[d for g in groups for d in g]]
        divisions = self._probe(joined)[1]
        if divisions == 0:
            return joined
        best = self._probe(groups)[1]
        if divisions <= best:
            return joined
        at = len(groups) - 2
        while at >= 0:
            trial = groups[:at] + [groups[at] + groups[at + 1]] + groups[at + 2 :]
            divisions = self._probe(trial)[1]
            if divisions <= best:
                groups, best = trial, divisions
            at -= 1
        while len(groups) > 1 and prod(self.segment.sizes[d] for d in groups[-1]) < NARROW:
            groups = groups[:-2] + [groups[-2] + groups[-1]]
        return groups

    def _choose_cut(self, elements: Elements) -> Cut | None:
        """How the loops fall into ranges: not on a GPU, where each element is an item, nor in tiles."""
        if not elements.tests or self.target.kind == "gpu" or self.tiled is not None:
            return None
        if self.segment.size < CUT_FROM or len(self.fusion.instructions) > CUT_MEMBERS:
            return None

        def tests(ranges: Sequence[Range]) -> Sequence[tuple[Index, int]]:
            e = self._new_elements()
            at = [variable(f"g{n}", low, high) for n, (low, high) in enumerate(ranges)]
            self.body(e, self._indices(self.groups, at), Block())
            return e.tests

        return cut([(0, size - 1) for size in self.sizes], tests)

    def _transposed_group(self) -> int | None:
        """The group along which a read runs through memory that runs across it in the innermost group, if any."""
        inner = len(self.sizes) - 1
        for n in reversed(range(inner)):
            if self.sizes[n] >= 4 and self._staged(self.accesses, f"g{n}", f"g{inner}"):
                return n
        return None
