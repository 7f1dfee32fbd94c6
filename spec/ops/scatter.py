"""Blocks of updates combined into arrays, at the places that an array of indices names.

An index u of updates has scatter coordinates b.. (the dimensions not in update_window_dims) and window coordinates w..
(those in update_window_dims). With s = scatter_indices at b.., running along index_vector_dim (a missing trailing
dimension counts as one of size 1), and d a dimension of the operands,

    start[d]  = s[n]                                         where d = scatter_dims_to_operand_dims[n]
              = b at scatter_indices_batching_dims[n]        where d = input_batching_dims[n]
              = 0                                            elsewhere
    window[d] = 0 where d is in inserted_window_dims or input_batching_dims
              = the next of w.. elsewhere
    results[start[d] + window[d] ..] = to_apply(results[there], updates[u])

for all u, beginning with results = operands. A block that does not lie inside the operands is skipped whole: so does
XLA, whose check is that 0 <= start[d] <= size of the operands - size of the block, though its documentation, and
StableHLO's, say it of each element by itself. Several updates may hit one place: to_apply should be associative and
commutative then, as their order is not part of the meaning; here it is row-major in u. Floating-point sums and products
are computed in a wider type and rounded once, as in reduce.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, COMPUTATION, INT, INTS, REQUIRED, Attribute
from ..dynamic import marked, meet, meet_dimensions
from ..errors import plural
from ..indexing import batch_coordinates, index_vectors, without
from ..module import Instruction
from ..operation import Example, require
from ..scattering import combine_at
from ..types import Array, Shape, Value
from ..vectorize import Run
from .gather import check_batching

INPUTS = {
    "*operands": "N arrays of equal dimensions",
    "scatter_indices": "integers: vectors of indices into the operands",
    "*updates": "N arrays of equal dimensions, of the operands' types",
}
ATTRIBUTES = {
    "update_window_dims": Attribute(INTS, (), "dimensions of updates that run inside a block"),
    "inserted_window_dims": Attribute(INTS, (), "dimensions of the operands in which a block has no extent"),
    "scatter_dims_to_operand_dims": Attribute(INTS, (), "for each element of an index vector the dimension it indexes"),
    "input_batching_dims": Attribute(INTS, (), "dimensions of the operands that run along with the indices"),
    "scatter_indices_batching_dims": Attribute(INTS, (), "the dimensions of scatter_indices that go with them"),
    "index_vector_dim": Attribute(INT, REQUIRED, "the dimension of scatter_indices that runs along an index vector"),
    "indices_are_sorted": Attribute(BOOL, False, "a promise that implementations may use"),
    "unique_indices": Attribute(BOOL, False, "a promise that implementations may use"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "takes N old values and N updates, gives N new values"),
}
CONSTRAINTS = {
    "C1": "there are N operands of equal dimensions, the indices, and N updates of equal dimensions",
    "C2": "scatter_indices is of an integer type, and index_vector_dim is one of its dimensions or its rank",
    "C3": "an index vector has as many elements as scatter_dims_to_operand_dims, which names dimensions, none twice",
    "C4": "update_window_dims is ascending and inside updates, with no block larger than the operands",
    "C5": "update_window_dims, inserted_window_dims and input_batching_dims account for each operand dimension once",
    "C6": "input_batching_dims pair with scatter_indices_batching_dims of equal size; neither is indexed",
    "C7": "the scatter dimensions of updates are the dimensions of scatter_indices without index_vector_dim",
    "C8": "to_apply takes N scalars of the operands' types twice and gives N of them",
    "C9": "the result has the shape of the operand, and is a tuple if to_apply gives one",
}


def infer(instruction: Instruction, *shapes: Shape) -> Shape:
    i, n = instruction, len(shapes) // 2
    operands, indices, updates = shapes[:n], shapes[n], shapes[n + 1 :]
    text = ", ".join(map(str, shapes))
    fits = len(shapes) % 2 == 1 and n > 0
    fits = fits and len({o.dimensions for o in operands}) == len({u.dimensions for u in updates}) == 1
    fits = fits and all(o.element_type is u.element_type for o, u in zip(operands, updates, strict=True))
    require(fits, "C1", f"the operands are ({text})")
    fits = indices.is_array and indices.element_type.is_integer and 0 <= i.index_vector_dim <= indices.rank
    require(fits, "C2", f"scatter_indices is {indices}, index_vector_dim is {i.index_vector_dim}")
    operand, update, mapped = operands[0], updates[0], i.scatter_dims_to_operand_dims
    vector = (*indices.dimensions, 1)[i.index_vector_dim]
    fits = vector == len(mapped) == len(set(mapped)) and all(0 <= d < operand.rank for d in mapped)
    require(fits, "C3", f"scatter_dims_to_operand_dims is {mapped}, a vector has {vector} elements, operand {operand}")
    left_out, window = i.inserted_window_dims + i.input_batching_dims, i.update_window_dims
    fits = len(set(left_out)) == len(left_out) and all(0 <= d < operand.rank for d in left_out)
    fits = fits and len(window) + len(left_out) == operand.rank
    sizes = plural(len(window), "dimension")
    require(fits, "C5", f"blocks have {sizes}, {left_out} are left out, operand is {operand}")
    fits = list(window) == sorted(set(window)) and all(0 <= d < update.rank for d in window)
    extents = without(operand.dimensions, left_out)
    fits = fits and all(update.dimensions[u] <= d for u, d in zip(window, extents, strict=True))
    require(fits, "C4", f"update_window_dims is {window}, updates is {update}, operand is {operand}")
    check_batching("C6", operand, i.input_batching_dims, mapped, indices, i.scatter_indices_batching_dims, i)
    batch = without(indices.dimensions, (i.index_vector_dim,))
    require(without(update.dimensions, window) == batch, "C7", f"updates is {update}, scatter_indices is {indices}")
    parameters, root = [p.shape for p in i.to_apply.parameters], i.to_apply.root.shape
    scalars = [Shape(o.element_type) for o in operands]
    fits = len(parameters) == 2 * n and all(t.compatible(s) for t, s in zip(parameters, scalars * 2, strict=True))
    results = root.elements or (root,)
    fits = fits and len(results) == n and all(r.compatible(s) for r, s in zip(results, scalars, strict=True))
    signature = f"{i.to_apply.name} takes ({', '.join(map(str, parameters))}) and gives {root}"
    require(fits, "C8", f"{signature}; the operands are ({text})")
    results = tuple(marked(o.element_type, o.dimensions, o.marks) for o in operands)
    return Shape.tuple_of(*results) if n > 1 or root.is_tuple else results[0]


def _met(
    i: Instruction, operands: list[Array], indices: Array, updates: list[Array]
) -> tuple[list[Array], Array, list[Array]]:
    """The values at the sizes that those of dynamic dimensions leave: batches, and blocks as large as the operands."""
    operand, update = i.operands[0].shape, i.operands[len(operands) + 1].shape
    batching = list(zip(i.input_batching_dims, i.scatter_indices_batching_dims, strict=True))
    left_out = i.inserted_window_dims + i.input_batching_dims
    extents = [d for d in range(operand.rank) if d not in left_out]
    pairs = zip(extents, i.update_window_dims, strict=True)
    whole = [(d, w) for d, w in pairs if operand.dimensions[d] == update.dimensions[w]]
    rows = [d for d in range(indices.ndim) if d != i.index_vector_dim]
    columns = [d for d in range(update.rank) if d not in i.update_window_dims]
    for k, (x, u) in enumerate(zip(operands, updates, strict=True)):
        x, indices = meet_dimensions(x, indices, batching)
        indices, u = meet_dimensions(indices, u, zip(rows, columns, strict=True))
        for d, w in whole:
            u = u[(slice(None),) * w + (slice(x.shape[d]),)]
        operands[k], updates[k] = x, u
    return operands, indices, updates


def evaluate(instruction: Instruction, *values: Array, run: Run) -> Value:
    i, n = instruction, len(values) // 2
    operands, indices, updates = _met(i, meet(values[:n]), values[n], meet(values[n + 1 :]))
    sizes, window = operands[0].shape, i.update_window_dims
    left_out = i.inserted_window_dims + i.input_batching_dims
    block = tuple(updates[0].shape[d] for d in window)
    extents = iter(block)
    lengths = tuple(1 if d in left_out else next(extents) for d in range(len(sizes)))

    vectors = index_vectors(indices, i.index_vector_dim)
    batch = vectors.shape[:-1]
    starts = [np.zeros(batch, np.int64) for _ in sizes]
    inside = np.full(batch, all(length <= size for length, size in zip(lengths, sizes, strict=True)))
    for k, d in enumerate(i.scatter_dims_to_operand_dims):
        v = vectors[..., k]
        if v.dtype != np.uint64:  # a size may be no number of a narrow type
            v = v.astype(np.int64)
        inside &= (v >= 0) & (v <= sizes[d] - lengths[d])
        starts[d] = np.where(inside, v, 0).astype(np.int64)
    for d, b in zip(i.input_batching_dims, i.scatter_indices_batching_dims, strict=True):
        starts[d] = batch_coordinates(batch, b, i.index_vector_dim)

    # The flat place of each update, with updates transposed to [b.., w..] and then back, so that the order is theirs.
    strides = np.cumprod((1, *sizes[:0:-1]))[::-1]
    places = sum((s * t for s, t in zip(starts, strides, strict=True)), np.zeros(batch, np.int64))
    window_strides = [t for d, t in enumerate(strides) if d not in left_out]
    offsets = np.zeros(block, np.int64)
    for axis, (length, stride) in enumerate(zip(block, window_strides, strict=True)):
        offsets = offsets + (np.arange(length) * stride).reshape((-1,) + (1,) * (len(block) - axis - 1))
    ones = (1,) * len(block)
    shape = batch + block
    places = places.reshape(batch + ones) + offsets
    inside = np.broadcast_to(inside.reshape(batch + ones), shape)
    scatter_dims = tuple(d for d in range(updates[0].ndim) if d not in window)
    places, inside = (np.moveaxis(a, range(len(shape)), scatter_dims + window) for a in (places, inside))

    flat = tuple(o.reshape(-1) for o in operands)
    results = combine_at(i.to_apply, flat, places[inside], tuple(u[inside] for u in updates), run)
    results = tuple(r.reshape(sizes) for r in results)
    return results if i.shape.is_tuple else results[0]


EXAMPLES = (
    Example(
        """HloModule add_rows
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[3,2] parameter(0)
                     i = s32[4] parameter(1)
                     u = f32[4,2] parameter(2)
                     ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
        ("f32[3,2] {{0,0},{0,0},{0,0}}", "s32[4] {2,0,2,3}", "f32[4,2] {{1,2},{3,4},{5,6},{7,8}}"),
        ("f32[3,2] {{3,4},{0,0},{6,8}}",),
        "row 2 is hit twice, row 3 does not exist and is skipped",
    ),
    Example(
        """HloModule write_block
        second { a = s32[] parameter(0)
                 ROOT b = s32[] parameter(1) }
        ENTRY main { x = s32[4] parameter(0)
                     i = s32[2,1] parameter(1)
                     u = s32[2,2] parameter(2)
                     ROOT r = s32[4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second }""",
        ("s32[4] {1,2,3,4}", "s32[2,1] {{3},{1}}", "s32[2,2] {{7,8},{9,9}}"),
        ("s32[4] {1,9,9,4}",),
        "a block that reaches outside is skipped whole",
    ),
    Example(
        """HloModule rounded_once
        add_and_multiply { a = f16[] parameter(0)
                           b = f16[] parameter(1)
                           c = f16[] parameter(2)
                           d = f16[] parameter(3)
                           e = f16[] add(a, c)
                           f = f16[] multiply(b, d)
                           ROOT r = (f16[], f16[]) tuple(e, f) }
        ENTRY main { x = f16[2] parameter(0)
                     i = s32[4] parameter(1)
                     u = f16[4] parameter(2)
                     ROOT r = (f16[2], f16[2]) scatter(x, x, i, u, u), update_window_dims={}, inserted_window_dims={0},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_and_multiply }""",
        ("f16[2] {2048,3}", "s32[4] {0,0,0,0}", "f16[4] {1,1,1,1}"),
        ("f16[2] {2052,3}", "f16[2] {2048,3}"),
        "2049 is no number of f16; several operands at once",
    ),
    Example(
        """HloModule dynamic
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)
                     i = s32[<=3] parameter(1)
                     u = f32[<=3] parameter(2)
                     ROOT r = f32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
        ("f32[4] {1,1,1,1}", "s32[2] {0,0}", "f32[2] {10,20}"),
        ("f32[4] {31,1,1,1}",),
    ),
)

_ADD = """HloModule counterexample
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
"""

COUNTEREXAMPLES = {
    "C1": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = s32[4,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "C2": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add }""",
    "C3": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add }""",
    "C4": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,3] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "C5": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "C6": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
                        scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0},
                        index_vector_dim=1, to_apply=add }""",
    "C7": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[5,2] parameter(2)
                      ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "C8": _ADD
    + """ENTRY main { x = s32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = s32[4,2] parameter(2)
                      ROOT r = s32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "C9": _ADD
    + """ENTRY main { x = f32[3,2] parameter(0)
                      i = s32[4] parameter(1)
                      u = f32[4,2] parameter(2)
                      ROOT r = f32[4,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
                        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
}
