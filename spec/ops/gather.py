"""Blocks of an array, taken from the places that an array of indices names.

A result index r has batch coordinates b.. (the dimensions not in offset_dims) and window coordinates w.. (those in
offset_dims). With s = start_indices at b.., running along index_vector_dim (a missing trailing dimension counts as one
of size 1), and d a dimension of operand,

    start[d]  = clamp(0, s[n], size[d] - slice_sizes[d])     where d = start_index_map[n]
              = b at start_indices_batching_dims[n]          where d = operand_batching_dims[n]
              = 0                                            elsewhere
    window[d] = 0 where d is in collapsed_slice_dims or operand_batching_dims
              = the next of w.. elsewhere
    result[r] = operand[start[d] + window[d] ..]

Indices are clamped: every block lies inside the operand. A slice size that is the bound of a dynamic dimension takes
the whole dimension at the size that it has; any other must be there. A dimension that is left out of the result may
have slice size 0, as it has where the operand has no elements: what is taken then is 0, as XLA has it.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, INT, INTS, REQUIRED, Attribute
from ..dynamic import marked, meet_dimensions
from ..errors import EvaluationError
from ..indexing import batch_coordinates, clamped, index_vectors, without
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "the array", "start_indices": "integers: vectors of indices into operand"}
ATTRIBUTES = {
    "offset_dims": Attribute(INTS, (), "dimensions of the result that run inside a block"),
    "collapsed_slice_dims": Attribute(INTS, (), "dimensions of operand left out; the block has size 1 there, or 0"),
    "start_index_map": Attribute(INTS, (), "for each element of an index vector the dimension of operand it indexes"),
    "operand_batching_dims": Attribute(INTS, (), "dimensions of operand that run along with the batch"),
    "start_indices_batching_dims": Attribute(INTS, (), "the dimensions of start_indices that go with them"),
    "index_vector_dim": Attribute(INT, REQUIRED, "the dimension of start_indices that runs along an index vector"),
    "slice_sizes": Attribute(INTS, REQUIRED, "the dimensions of a block"),
    "indices_are_sorted": Attribute(BOOL, False, "a promise that implementations may use"),
}
CONSTRAINTS = {
    "C1": "start_indices is of an integer type, and index_vector_dim is one of its dimensions or its rank",
    "C2": "an index vector has as many elements as start_index_map, which names dimensions of operand, none twice",
    "C3": "slice_sizes has one size for each dimension of operand, at least 0 and at most the dimension",
    "C4": "collapsed_slice_dims and operand_batching_dims are ascending, differ, and their slice sizes are at most 1",
    "C5": "offset_dims is ascending, inside the result, one for each dimension of operand that C4 does not leave out",
    "C6": "operand_batching_dims pair with start_indices_batching_dims of equal size; neither is indexed",
    "C7": "the result has at offset_dims the dimensions of a block, else those of start_indices but index_vector_dim",
}


def infer(instruction: Instruction, operand: Shape, start_indices: Shape) -> Shape:
    i = instruction
    fits = start_indices.is_array and start_indices.element_type.is_integer
    fits = fits and 0 <= i.index_vector_dim <= start_indices.rank
    require(fits, "C1", f"start_indices is {start_indices}, index_vector_dim is {i.index_vector_dim}")
    vector = (*start_indices.dimensions, 1)[i.index_vector_dim]
    mapped = i.start_index_map
    fits = vector == len(mapped) == len(set(mapped)) and all(0 <= d < operand.rank for d in mapped)
    require(fits, "C2", f"start_index_map is {mapped}, an index vector has {vector} elements, operand is {operand}")
    fits = len(i.slice_sizes) == operand.rank
    fits = fits and all(0 <= s <= d for s, d in zip(i.slice_sizes, operand.dimensions, strict=True))
    require(fits, "C3", f"slice_sizes is {i.slice_sizes}, operand is {operand}")
    left_out = i.collapsed_slice_dims + i.operand_batching_dims
    fits = len(set(left_out)) == len(left_out) and all(0 <= d < operand.rank for d in left_out)
    fits = fits and list(i.collapsed_slice_dims) == sorted(i.collapsed_slice_dims)
    fits = fits and all(i.slice_sizes[d] <= 1 for d in left_out)
    require(fits, "C4", f"dimensions {left_out} are left out of blocks of {i.slice_sizes}")
    check_batching("C6", operand, i.operand_batching_dims, mapped, start_indices, i.start_indices_batching_dims, i)

    batch = without(start_indices.dimensions, (i.index_vector_dim,))
    block = without(i.slice_sizes, left_out)
    rank, offsets = len(batch) + len(block), i.offset_dims
    fits = len(offsets) == len(block) and list(offsets) == sorted(set(offsets))
    fits = fits and all(0 <= d < rank for d in offsets)
    require(fits, "C5", f"offset_dims is {offsets}; a block has dimensions {block}, the result rank {rank}")
    whole = tuple(m and s == d for m, s, d in zip(operand.marks, i.slice_sizes, operand.dimensions, strict=True))
    of_batch = zip(batch, without(start_indices.marks, (i.index_vector_dim,)), strict=True)
    of_block = zip(block, without(whole, left_out), strict=True)
    result = [next(of_block if d in offsets else of_batch) for d in range(rank)]
    return marked(operand.element_type, (size for size, _ in result), (mark for _, mark in result))


def check_batching(
    label: str,
    operand: Shape,
    dims: tuple[int, ...],
    mapped: tuple[int, ...],
    indices: Shape,
    index_dims: tuple[int, ...],
    instruction: Instruction,
) -> None:
    """C6, and C6 of scatter."""
    fits = len(dims) == len(index_dims) == len(set(index_dims))
    fits = fits and all(0 <= d < indices.rank and d != instruction.index_vector_dim for d in index_dims)
    fits = fits and not set(dims) & set(mapped)
    fits = fits and all(operand.dimensions[a] == indices.dimensions[b] for a, b in zip(dims, index_dims, strict=True))
    require(fits, label, f"dimensions {dims} of {operand} run along with dimensions {index_dims} of {indices}")


def evaluate(instruction: Instruction, operand: Array, start_indices: Array) -> Array:
    i = instruction
    operand, start_indices = meet_dimensions(
        operand, start_indices, zip(i.operand_batching_dims, i.start_indices_batching_dims, strict=True)
    )
    bounds = i.operands[0].shape.dimensions
    whole = zip(i.slice_sizes, bounds, operand.shape, strict=True)
    slice_sizes = tuple(min(s, n) if s == d else s for s, d, n in whole)
    vectors = index_vectors(start_indices, i.index_vector_dim)
    batch = vectors.shape[:-1]
    if 0 not in batch and any(s > n for s, n in zip(slice_sizes, operand.shape, strict=True)):
        message = f"blocks of sizes {list(slice_sizes)} of an array of {list(operand.shape)}"
        raise EvaluationError(f"{i.name}: {message}")
    starts: list[Array | int] = [0] * operand.ndim
    for n, d in enumerate(i.start_index_map):
        starts[d] = clamped(vectors[..., n], max(0, operand.shape[d] - slice_sizes[d]))
    for d, b in zip(i.operand_batching_dims, i.start_indices_batching_dims, strict=True):
        starts[d] = batch_coordinates(batch, b, i.index_vector_dim)

    # One index array for each dimension of operand, of shape [b.., w..]; NumPy broadcasts them.
    left_out = i.collapsed_slice_dims + i.operand_batching_dims
    block = without(slice_sizes, left_out)
    nothing = any(i.slice_sizes[d] == 0 for d in left_out)
    if not nothing and 0 not in batch + block and any(slice_sizes[d] == 0 for d in left_out):
        raise EvaluationError(f"{i.name}: there is no element to take from an array of {list(operand.shape)}")
    ones = (1,) * len(block)
    indices, w = [], 0
    for d, start in enumerate(starts):
        index = np.broadcast_to(start, batch).reshape(batch + ones)
        if d not in left_out:
            along = ones[:w] + (block[w],) + ones[w + 1 :]
            index = index + np.arange(block[w]).reshape(along)
            w += 1
        indices.append(index)
    if nothing or 0 in batch + slice_sizes:  # a start may lie outside
        result = np.zeros(batch + block, operand.dtype)
    else:
        result = np.broadcast_to(operand[tuple(indices)], batch + block)
    batch_dims = tuple(d for d in range(result.ndim) if d not in i.offset_dims)
    return np.moveaxis(result, range(result.ndim), batch_dims + i.offset_dims)


EXAMPLES = (
    Example(
        """x = f32[3,2] parameter(0)
           i = s32[4] parameter(1)
           ROOT r = f32[4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
             index_vector_dim=1, slice_sizes={1,2}""",
        ("f32[3,2] {{1,2},{3,4},{5,6}}", "s32[4] {2,0,-1,9}"),
        ("f32[4,2] {{5,6},{1,2},{1,2},{5,6}}",),
        "rows of a table; indices outside are clamped",
    ),
    Example(
        """x = f32[2,3] parameter(0)
           i = s32[2,1] parameter(1)
           ROOT r = f32[2,1] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
             operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}", "s32[2,1] {{2},{0}}"),
        ("f32[2,1] {{3},{4}}",),
        "one element of each row",
    ),
    Example(
        """x = s32[<=4,2] parameter(0)
           i = s32[<=3] parameter(1)
           ROOT y = s32[<=3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
             index_vector_dim=1, slice_sizes={1,2}""",
        ("s32[2,2] {{1,2},{3,4}}", "s32[2] {3,0}"),
        ("s32[2,2] {{3,4},{1,2}}",),
        "clamped to the size that it has",
    ),
    Example(
        """x = f32[0,2] parameter(0)
           i = s32[3] parameter(1)
           ROOT r = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
             index_vector_dim=1, slice_sizes={0,2}""",
        ("f32[0,2] {}", "s32[3] {2,0,-1}"),
        ("f32[3,2] {{0,0},{0,0},{0,0}}",),
        "of an array without elements",
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
               index_vector_dim=2, slice_sizes={1,2}""",
    "C2": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1},
               index_vector_dim=1, slice_sizes={1,2}""",
    "C3": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
               index_vector_dim=1, slice_sizes={1,3}""",
    "C4": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
               index_vector_dim=1, slice_sizes={2,2}""",
    "C5": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0},
               index_vector_dim=1, slice_sizes={1,2}""",
    "C6": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[4,1] gather(x, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1},
               operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}""",
    "C7": """x = f32[3,2] parameter(0)
             i = s32[4] parameter(1)
             ROOT r = f32[2,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
               index_vector_dim=1, slice_sizes={1,2}""",
}
