"""Replaces a `dot` that is not a matrix product. An inner product, or a few of them over long rows, becomes a
multiplication and a reduction; an outer product becomes a multiplication.

    dot(x[b.., k..], y[b.., k..]) -> reduce(multiply(x, y), 0, add) over k..
    dot(x[b.., m.., 1], y[b.., 1, n..]) -> add(multiply(x, y), 0) in [b.., m.., n..]
    dot(x[b.., m.., k], y[b.., n.., k]) -> reduce(multiply(x, y), 0, add) over k in [b.., m.., n.., k], for small m n,
    and large k
    dot(x[b.., k], y[b.., k, n..]) -> reduce(multiply(x, y), 0, add) over k in [b.., k, n..], of complex numbers
    dot(x[b.., k..], y[k.., n.., b..]) -> reduce(multiply(x, y), 0, add) over k in the order of y, for small k
    dot(x[b.., m.., k], y[b.., p.., k, n..]) -> dot(broadcast(x) in [b.., p.., m.., k], y), a batch of p, for small m

The 0 is the initial value of the sum: a sum of -0 alone is 0.

A matrix product would pad both sides to the width of its tiles, and copy a complex matrix to make it real; as a
reduction, the sum fuses with the producers of x and y. Products and sums are computed in at least f32, as in a dot.
XLA's algebraic simplifier has a pass of this name.

The sum has the order of a reduction, not of a matrix product. So this pass cannot be left out, and it runs before those
that can: which dots become reductions, and hence the bits of a program's results, depends on the program alone.
"""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction, Module
from refxla_spec.types import F32, ElementType, Shape

from ..ir.builder import Build
from .dce import rewrite

FEW_ROWS = 16  # at most so many products of rows become reductions: the tiles of a matrix product would be almost empty
LONG_ROWS = 1024  # elements of such a row, at least
MATRIX = 32  # several matrices with at least so many rows and columns become a batch: as panels of one product,
BATCH_ROWS = 32  # they would be copied for the few rows of the other side, which are at most so many
FEWER_ROWS = 8  # of each product of a batch: fewer than fill a vector,
SHORTER_ROWS = 64  # whose rows have at least so many elements
FEW_TERMS = 16  # of each sum, up to which matrices that alternate in memory are read once, as they lie there


def run(module: Module) -> int:
    """Rewrites all such dots. Returns their number."""
    return sum(rewrite(c, _rewritten) for c in module.computations)


def _rewritten(i: Instruction) -> Instruction | None:
    """The replacement of an instruction; None for anything but such a dot."""
    if i.opcode != "dot":
        return None
    return _reduced(i) or _outer(i) or _of_few_rows(i) or _complex_columns(i) or _of_interleaved(i) or _of_matrices(i)


def _reduced(dot: Instruction) -> Instruction | None:
    """A dot without free dimensions as a reduction; None for any other."""
    element_type = _computed_in(dot.shape.element_type)
    orders = [order for number in (0, 1) if (order := _order(dot, number)) is not None]
    if element_type is None or len(dot.operands) != 2 or len(orders) != 2:
        return None
    batch = dot.attributes.get("lhs_batch_dims", ())
    sorted_batch = [o for o in orders if (first := [d for d in o if d < len(batch)]) == sorted(first)]
    if not sorted_batch:
        return None
    common = sorted_batch[0]
    lhs = dot.operands[0].shape
    paired = (*batch, *dot.lhs_contracting_dims)
    b = Build(dot.name)
    sides: list[Instruction] = []
    for o, order in zip(dot.operands, orders, strict=True):
        dimensions = tuple(lhs.dimensions[paired[d]] for d in order)
        side = o if o.shape.dimensions == dimensions else b.reshape(o, dimensions)
        if order != common:
            side = b.make("transpose", side, dimensions=tuple(order.index(d) for d in common))
        sides.append(b.convert(side, element_type))
    product = b.multiply(*sides)
    along = tuple(n for n, d in enumerate(common) if d >= len(batch))
    sum = b.sum(product, along) if along else _of_one_term(b, product)
    sum = b.convert(sum, dot.shape.element_type)
    return sum if sum.shape.dimensions == dot.shape.dimensions else b.reshape(sum, dot.shape.dimensions)


def _outer(dot: Instruction) -> Instruction | None:
    """An outer product as a multiplication; None for a dot that contracts more than one element, or packed operands."""
    element_type, shape = _computed_in(dot.shape.element_type), dot.shape
    sizes = [dot.operands[0].shape.dimensions[d] for d in dot.lhs_contracting_dims]
    if element_type is None or len(dot.operands) != 2 or prod(sizes) != 1 or not shape.size:
        return None
    b, sides, free = Build(dot.name), [], 0
    for number, o in enumerate(dot.operands):
        batch, _, own = _dimensions(dot, number)
        first = len(batch) + free
        free += len(own)
        places = {**{d: n for n, d in enumerate(batch)}, **{d: first + n for n, d in enumerate(own)}}
        order = sorted(places)
        x = o if len(order) == o.shape.rank else b.reshape(o, tuple(o.shape.dimensions[d] for d in order))
        sides.append(b.spread(b.convert(x, element_type), shape, tuple(places[d] for d in order)))
    return b.convert(_of_one_term(b, b.multiply(*sides)), shape.element_type)


def _of_few_rows(dot: Instruction) -> Instruction | None:
    """A dot of a few long rows, or a batch of dots of even fewer, as reductions; None for any other."""
    element_type, shape = _computed_in(dot.shape.element_type), dot.shape
    if element_type is None or len(dot.operands) != 2 or not shape.size:
        return None
    dims = [_dimensions(dot, number) for number in (0, 1)]
    batch = tuple(range(len(dims[0][0])))
    if any((own_batch, contracted) != (batch, (o.shape.rank - 1,)) for o, (own_batch, contracted, _) in
           zip(dot.operands, dims, strict=True)):  # fmt: skip
        return None
    k = dot.operands[0].shape.dimensions[-1]
    rows = prod(shape.dimensions[len(batch) :])
    if (rows >= FEWER_ROWS or k < SHORTER_ROWS) if batch else (rows > FEW_ROWS or k < LONG_ROWS):
        return None
    b, pairs, at, sides = Build(dot.name), Shape(element_type, (*shape.dimensions, k)), len(batch), []
    for o, (*_, own) in zip(dot.operands, dims, strict=True):
        places = (*batch, *range(at, at + len(own)), shape.rank)
        at += len(own)
        sides.append(b.spread(b.convert(o, element_type), pairs, places))
    return b.convert(b.sum(b.multiply(*sides), (shape.rank,)), shape.element_type)


def _complex_columns(dot: Instruction) -> Instruction | None:
    """A product of a complex vector and a matrix whose columns are summed, or a batch of them, as a reduction; None for
    any other."""
    shape = dot.shape
    if not shape.element_type.is_complex or len(dot.operands) != 2 or not shape.size:
        return None
    dims = [_dimensions(dot, number) for number in (0, 1)]
    batch = tuple(range(len(dims[0][0])))
    sizes = [prod(o.shape.dimensions[d] for d in own) for o, (*_, own) in zip(dot.operands, dims, strict=True)]
    if 1 not in sizes or any(own_batch != batch for own_batch, *_ in dims):
        return None
    number = 1 - sizes.index(1)
    matrix, vector = dot.operands[number], dot.operands[1 - number]
    _, contracted, own = dims[number]
    if not own or own[-1] != matrix.shape.rank - 1:
        return None
    _, of_vector, _ = dims[1 - number]
    order = sorted((*batch, *of_vector))
    places = {**{d: d for d in batch}, **dict(zip(of_vector, contracted, strict=True))}
    b = Build(dot.name)
    values = b.reshape(vector, tuple(vector.shape.dimensions[d] for d in order))
    sides = [matrix, b.spread(values, matrix.shape, tuple(places[d] for d in order))]
    product = b.multiply(*(b.convert(x, shape.element_type) for x in (sides if number == 0 else sides[::-1])))
    sum = b.sum(product, tuple(sorted(contracted)))
    return sum if sum.shape.dimensions == shape.dimensions else b.reshape(sum, shape.dimensions)


def _of_interleaved(dot: Instruction) -> Instruction | None:
    """Products of short vectors and matrices that alternate in memory, since a dimension of the batch is the innermost
    of them, as a reduction in the order of the matrices; None for any other. tf.image.resize has one for each pixel."""
    element_type, shape = _computed_in(dot.shape.element_type), dot.shape
    if element_type is None or len(dot.operands) != 2 or not shape.size:
        return None
    dims = [_dimensions(dot, number) for number in (0, 1)]
    sizes = [prod(o.shape.dimensions[d] for d in own) for o, (*_, own) in zip(dot.operands, dims, strict=True)]
    terms = prod(dot.operands[0].shape.dimensions[d] for d in dims[0][1])
    if 1 not in sizes or terms > FEW_TERMS:
        return None
    number = 1 - sizes.index(1)
    matrices, vectors = dot.operands[number], dot.operands[1 - number]
    batch, contracted, own = dims[number]
    innermost = [d for d, n in enumerate(matrices.shape.dimensions) if n > 1][-1:]
    if not set(innermost) & set(batch):
        return None
    batch_of_vectors, of_vectors, _ = dims[1 - number]
    places = dict(zip((*batch_of_vectors, *of_vectors), (*batch, *contracted), strict=True))
    order = sorted(places)
    b = Build(dot.name)
    values = b.reshape(b.convert(vectors, element_type), tuple(vectors.shape.dimensions[d] for d in order))
    pairs = matrices.shape.with_element_type(element_type)
    sides = [b.convert(matrices, element_type), b.spread(values, pairs, tuple(places[d] for d in order))]
    sum = b.sum(b.multiply(*(sides if number == 0 else sides[::-1])), tuple(sorted(contracted)))
    left = [d for d in range(matrices.shape.rank) if d not in contracted]
    sum = b.convert(b.transposed(sum, tuple(left.index(d) for d in (*batch, *own))), shape.element_type)
    return sum if sum.shape.dimensions == shape.dimensions else b.reshape(sum, shape.dimensions)


def _of_matrices(dot: Instruction) -> Instruction | None:
    """A product with several matrices as a batch of products, where each matrix is contiguous in memory, as the weights
    of an attention's heads are; None for any other."""
    if len(dot.operands) != 2 or not dot.shape.size:
        return None
    dims = [_dimensions(dot, number) for number in (0, 1)]
    batch = tuple(range(len(dims[0][0])))
    if any(own_batch != batch for own_batch, *_ in dims):
        return None
    for number in (1, 0):
        (_, contracted, own), (*_, own_other) = dims[number], dims[1 - number]
        sizes, others = (dot.operands[n].shape.dimensions for n in (number, 1 - number))
        front = tuple(d for d in own if d < min(contracted, default=0))
        rows, columns = prod(sizes[d] for d in contracted), prod(sizes[d] for d in own if d not in front)
        several = prod(sizes[d] for d in front) > 1 and min(rows, columns) >= MATRIX
        if several and prod(others[d] for d in own_other) <= BATCH_ROWS:
            return _batch_of_matrices(dot, number, front)
    return None


def _batch_of_matrices(dot: Instruction, number: int, front: tuple[int, ...]) -> Instruction:
    """The dot of whose operands the one with that number has several matrices, along the dimensions `front` after those
    of the batch."""
    b, matrices, other = Build(dot.name), dot.operands[number], dot.operands[1 - number]
    (batch, contracted, _), (_, of_other, own_other) = (_dimensions(dot, n) for n in (number, 1 - number))
    batch_of_all, at = batch + front, len(batch + front)
    shape = Shape(
        other.shape.element_type,
        (*(matrices.shape.dimensions[d] for d in batch_of_all), *other.shape.dimensions[len(batch) :]),
    )
    spread = b.spread(other, shape, tuple(d if d in batch else d + len(front) for d in range(other.shape.rank)))
    sides = [(matrices, contracted), (spread, tuple(d + len(front) for d in of_other))][:: 1 if number == 0 else -1]
    attributes = {**dot.attributes}
    for name, (_, terms) in zip(("lhs", "rhs"), sides, strict=True):
        attributes[f"{name}_batch_dims"], attributes[f"{name}_contracting_dims"] = batch_of_all, terms
    if not number:
        return b.make("dot", *(o for o, _ in sides), shape=dot.shape, **attributes)
    # In the result, `front` comes before the dimensions of the other side, and has to come after them.
    wanted, count = dot.shape.dimensions, len(own_other)
    order = (*batch, *range(at, at + count), *range(len(batch), at), *range(at + count, len(wanted)))
    result = dot.shape.with_dimensions(tuple(wanted[order.index(d)] for d in range(len(wanted))))
    product = b.make("dot", *(o for o, _ in sides), shape=result, **attributes)
    is_vector = prod(other.shape.dimensions[d] for d in own_other) == 1
    return b.reshape(product, wanted) if is_vector else b.transposed(product, order)


def _dimensions(dot: Instruction, number: int) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """The batch, contracting and free dimensions of an operand."""
    side = ("lhs", "rhs")[number]
    batch, contracted = (tuple(dot.attributes.get(f"{side}_{name}_dims", ())) for name in ("batch", "contracting"))
    own = [d for d in range(dot.operands[number].shape.rank) if d not in batch + contracted]
    return batch, contracted, own


def _of_one_term(b: Build, product: Instruction) -> Instruction:
    """The sum of a single product, with the initial value 0 as in any other."""
    kind = product.shape.element_type
    return b.add(product, 0) if kind.is_float or kind.is_complex else product


def _computed_in(result: ElementType) -> ElementType | None:
    """The type of the products and the sum; None for a result that is not numeric."""
    if result.kind == "pred":
        return None
    return F32 if result.is_float and result.bits < 32 else result


def _order(dot: Instruction, number: int) -> list[int] | None:
    """The pairs of batch and contracting dimensions in an operand's order, without those of one element; None if the
    operand has free dimensions of more than one element."""
    side, shape = ("lhs", "rhs")[number], dot.operands[number].shape
    used = (*dot.attributes.get(f"{side}_batch_dims", ()), *dot.attributes.get(f"{side}_contracting_dims", ()))
    if prod(n for d, n in enumerate(shape.dimensions) if d not in used) != 1:
        return None
    return [used.index(d) for d, n in enumerate(shape.dimensions) if d in used and n != 1]
