"""topk by selection: rows are cut into blocks, and only the largest element of most blocks is examined.

    best[j]     = the largest element of block j
    chosen      = the blocks with the k largest best[j], ascending             (a topk of a shorter row)
    candidates  = the elements of the chosen blocks                            (k blocks)
    result      = the first k of a stable sort of the candidates

At least k elements precede any element of another block: the best of each chosen block is larger, or equal and further
left. Candidates stay in the order of the row, so among equal ones the leftmost comes first. Where k blocks are not much
smaller than the row, the row is sorted.

All steps work on signed integers in the order of the elements, for floats IEEE 754's total order. The first few of a
row are found one by one, each as the largest element below the previous one: an element with its index appended is a
64-bit number that occurs once.

    packed[i] = key[i] * 2^32 + (2^31 - 1 - index[i])
    first[n]  = max of packed[i] < first[n - 1]

On CPUs, a few elements are the first of a sort, whose kernel selects them in one pass over the row (codegen/sort.py). A
few long rows are cut into pieces: the first of each piece are selected, and then the first of those.
"""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, PaddingDimension
from refxla_spec.types import ELEMENT_TYPES, Shape

from ..._core.shapes import make
from ...ir.builder import Build, reducer

LEAST = 4  # blocks pay if a row has so many times the elements that are examined after the first pass
ROUNDS = 8  # so many of a row are found one by one; more are sorted
FEW = 64  # elements that a sort selects, at most, and at most a quarter of the row
ROWS = 16  # enough for all cores: fewer rows are cut into pieces
PIECES, PIECE = 16, 4096  # of a row at most, and elements of one at least
_ORDERED = {"f16": "s16", "bf16": "s16", "f32": "s32", "f64": "s64"}  # floats: bits are ordered, except for the sign


def _expand(i: Instruction) -> Instruction:
    b, (x,) = Build(i.name), i.operands
    *rows, length = x.shape.dimensions
    index_type = i.shape.elements[1].element_type
    name = x.shape.element_type.name
    signed = name[0] == "s" and x.shape.element_type.bits >= 8
    fits = 0 < prod(x.shape.dimensions) < 1 << 31 and (signed or name in _ORDERED)
    if not fits or not i.k or (i.k > ROUNDS and _block(length, i.k) is None):
        parts = _sorted(b, x, b.iota(index_type, x.shape.dimensions, len(rows)), i.k, i.largest)
        return b.tuple(*parts)
    flat = b.reshape(x, (prod(rows), length))
    keys = flat if signed else _exchanged(b, b.bitcast_convert(flat, shape=_like(flat, _ORDERED[name])))
    keys = keys if i.largest else b.not_(keys)
    keys, index = _top(b, keys, i.k)
    keys = keys if i.largest else b.not_(keys)
    values = keys if signed else b.bitcast_convert(_exchanged(b, keys), shape=_like(keys, name))
    results = (*rows, i.k)
    return b.tuple(b.reshape(values, results), b.reshape(b.convert(index, index_type), results))


def expand_for_selection(i: Instruction) -> Instruction:
    """The expansion for devices whose sorts select."""
    b, (x,) = Build(i.name), i.operands
    *rows, length = x.shape.dimensions
    index_type = i.shape.elements[1].element_type
    if not 0 < i.k <= min(FEW, length // 4) or not prod(rows) or x.shape.element_type.is_complex:
        return _expand(i)
    values, index = x, b.iota(index_type, x.shape.dimensions, len(rows))
    pieces = min(PIECES, length // PIECE)
    if prod(rows) < ROWS and pieces > 1:
        values, index = _of_pieces(b, values, index, pieces, i)
    return b.tuple(*_sorted(b, values, index, i.k, i.largest))


def _of_pieces(b: Build, x: Instruction, index: Instruction, pieces: int, i: Instruction) -> list[Instruction]:
    """The first of each piece of a row, and their indices: the first of the row are among them. Equal elements stay in
    the order of the row."""
    *rows, length = x.shape.dimensions
    size, zeros = length // pieces, (0,) * len(rows)
    whole = pieces * size
    heads = [array if whole == length else b.slice(array, (*zeros, 0), (*rows, whole)) for array in (x, index)]
    values, places = (b.reshape(head, (*rows, pieces, size)) for head in heads)
    first = [b.reshape(part, (*rows, pieces * i.k)) for part in _sorted(b, values, places, i.k, i.largest)]
    if whole == length:
        return first
    rest = [b.slice(array, (*zeros, whole), (*rows, length)) for array in (x, index)]
    return [b.make("concatenate", *both, dimensions=(len(rows),)) for both in zip(first, rest, strict=True)]


def _like(x: Instruction, name: str) -> Shape:
    return Shape.array(ELEMENT_TYPES[name], x.shape.dimensions)


def _exchanged(b: Build, bits: Instruction) -> Instruction:
    """Converts the bits of floats to integers in the same order, and back."""
    kind = bits.shape.element_type
    sign = b.shift_right_arithmetic(bits, kind.bits - 1)
    exchanged: Instruction = b.xor(bits, b.and_(sign, int(np.iinfo(kind.dtype).max)))
    return exchanged


def _block(length: int, k: int) -> int | None:
    """How many elements a block has: about as many blocks as candidates, with a size that divides the length if there
    is one nearby; None where sorting the row is better. Depends on the shape alone."""
    size = isqrt(length // max(k, 1))
    near = [n for n in range(max(2, size // 2), 2 * size + 1) if length % n == 0]
    size = min(near, key=lambda n: (n % 8 != 0, abs(n - size))) if near else size
    if size < 2 or LEAST * (-(-length // size) + k * size) > length:
        return None
    return size


def _top(b: Build, keys: Instruction, k: int) -> tuple[Instruction, Instruction]:
    """The k largest of each row of keys[rows, length] in descending order, and their indices: two [rows, k]."""
    rows, length = keys.shape.dimensions
    size = _block(length, k)
    if size is None:
        return _first(b, keys, b.iota("s32", (rows, length), 1), k)
    kind = keys.shape.element_type
    blocks, least = -(-length // size), int(np.iinfo(kind.dtype).min)
    if blocks * size > length:  # padding comes last
        behind = (PaddingDimension(0, 0), PaddingDimension(0, blocks * size - length))
        keys = b.make("pad", keys, b.scalar(least, kind), padding=behind)
    best = b.reduce(b.reshape(keys, (rows, blocks, size)), least, (2,), reducer("maximum", kind))
    _, chosen = _top(b, best, k)
    ascending = b.make("sort", chosen, dimensions=(1,), is_stable=True, to_apply=_comparator([chosen.shape], False))
    place = b.add(b.multiply(b.iota("s32", (rows, k), 0), blocks), ascending)
    candidates = b.make(
        "gather",
        b.reshape(keys, (rows * blocks, size)),
        b.reshape(place, (rows * k, 1)),
        shape=Shape.array(kind, (rows * k, size)),
        offset_dims=(1,),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, size),
    )
    spread = b.spread(ascending, Shape.array("s32", (rows, k, size)), (0, 1))
    index = b.add(b.multiply(spread, size), b.iota("s32", (rows, k, size), 2))
    few = (rows, k * size)
    return _first(b, b.reshape(candidates, few), b.reshape(index, few), k)


def _first(b: Build, keys: Instruction, index: Instruction, k: int) -> tuple[Instruction, Instruction]:
    """The k largest of each row of keys[rows, n] in descending order, and the corresponding elements of `index`, which
    ascends where keys are equal: two [rows, k]."""
    rows, _ = keys.shape.dimensions
    kind = keys.shape.element_type
    if k > ROUNDS or kind.bits > 32:
        first, second = _sorted(b, keys, index, k, True)
        return first, second
    last, low = 2**31 - 1, 2**32 - 1
    packed = b.or_(b.shift_left(b.convert(keys, "s64"), 32), b.convert(b.subtract(last, index), "s64"))
    least = int(np.iinfo(np.int64).min)
    columns: list[Instruction] = []
    for n in range(k):
        rest = packed
        if n:
            after = b.compare(packed, b.spread(columns[-1], packed.shape, (0,)), direction="LT")
            rest = b.select(after, packed, b.full(least, packed.shape))
        columns.append(b.reduce(rest, least, (1,), reducer("maximum", packed.shape.element_type)))
    top = b.make("concatenate", *(b.reshape(c, (rows, 1)) for c in columns), dimensions=(1,))
    places = b.subtract(last, b.convert(b.and_(top, low), "s32"))
    return b.convert(b.shift_right_arithmetic(top, 32), kind), places


def _sorted(b: Build, values: Instruction, index: Instruction, k: int, largest: bool) -> list[Instruction]:
    """The first k along the last dimension of a stable sort of both arrays by the values."""
    axis = values.shape.rank - 1
    compare = _comparator([values.shape, index.shape], largest)
    pair = Shape.tuple_of(values.shape.without_layout(), index.shape)
    ordered = b.make("sort", values, index, shape=pair, dimensions=(axis,), is_stable=True, to_apply=compare)
    start, limit = (0,) * (axis + 1), (*values.shape.dimensions[:-1], k)
    return [b.slice(b.make("get-tuple-element", ordered, index=n), start, limit) for n in range(2)]


def _comparator(shapes: list[Shape], largest: bool) -> Computation:
    """The comparator by the first array of a sort, with floats in total order, so that NaNs are ordered; greatest first
    where the largest are wanted."""
    types = [s.element_type for s in shapes for _ in range(2)]
    parameters = [Instruction(f"p{n}", "parameter", Shape(t), [], {"number": n}) for n, t in enumerate(types)]
    kind: dict[str, Any] = {"order": "TOTAL"} if types[0].is_float else {}
    root = make("compare", *parameters[:2], name="before", direction="GT" if largest else "LT", **kind)
    return Computation("topk.before", [*parameters, root], root)


EXPANSIONS = {"topk": _expand}
FOR_SELECTION = {"topk": expand_for_selection}
