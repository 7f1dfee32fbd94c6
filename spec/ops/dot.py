"""The sum of products over contracted dimensions, for each batch: matrix multiplication and its relatives.

    result[b.., m.., n..] = sum over k.. of lhs[b.., m.., k..] * rhs[b.., n.., k..]

where b are the batch dimensions, in the order of lhs_batch_dims; m those of lhs that are neither batch nor contracted,
n those of rhs, each in the operand's order; k the contracted ones, which lhs_contracting_dims and rhs_contracting_dims
pair. An empty sum is zero. The products and sums are computed in a wider type and rounded once. Integers wrap around; a
sum that is a pred is true where a term is. The result's element type is the instruction's, which may be wider than
those of the operands.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..accumulate import contraction_type, matrix_product, narrow, widen
from ..attributes import ENUM, ENUMS, INTS, Attribute
from ..dynamic import marked, meet_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, ElementType, Shape

INPUTS = {"lhs": "an array", "rhs": "an array"}
ATTRIBUTES = {
    "lhs_batch_dims": Attribute(INTS, (), "dimensions of lhs that run over the batches"),
    "rhs_batch_dims": Attribute(INTS, (), "the dimensions of rhs that go with them"),
    "lhs_contracting_dims": Attribute(INTS, (), "dimensions of lhs that are summed over"),
    "rhs_contracting_dims": Attribute(INTS, (), "the dimensions of rhs that go with them"),
    "operand_precision": Attribute(ENUMS, (), "how exact an implementation must be: default, high, highest"),
    "algorithm": Attribute(ENUM, "", "a particular algorithm of the implementation; the meaning is the same"),
}
CONSTRAINTS = {
    "C1": "each list of dimensions holds dimensions of its operand, none twice, and none is both batch and contracting",
    "C2": "as many dimensions of lhs as of rhs are batch dimensions, and as many are contracting",
    "C3": "batch dimensions and contracting dimensions that go together have equal sizes",
    "C4": "the operands are arrays of numbers or predicates",
    "C5": "the result is complex if an operand is, and at least floating-point if one is",
    "C6": "the result has the batch dimensions, then what is left of lhs, then what is left of rhs",
}


def _free(rank: int, *used: tuple[int, ...]) -> tuple[int, ...]:
    axes = {d for dims in used for d in dims}
    return tuple(d for d in range(rank) if d not in axes)


def infer(instruction: Instruction, lhs: Shape, rhs: Shape) -> Shape:
    lb, rb = instruction.lhs_batch_dims, instruction.rhs_batch_dims
    lc, rc = instruction.lhs_contracting_dims, instruction.rhs_contracting_dims
    require(lhs.is_array and rhs.is_array, "C4", f"the operands are {lhs} and {rhs}")
    for side, shape, dims in (("lhs", lhs, lb + lc), ("rhs", rhs, rb + rc)):
        inside = all(0 <= d < shape.rank for d in dims)
        require(inside and len(set(dims)) == len(dims), "C1", f"{side} is {shape}; its dimensions used are {dims}")
    require(len(lb) == len(rb), "C2", f"lhs_batch_dims is {lb}, rhs_batch_dims is {rb}")
    require(len(lc) == len(rc), "C2", f"lhs_contracting_dims is {lc}, rhs_contracting_dims is {rc}")
    for left, right in zip(lb + lc, rb + rc, strict=True):
        equal = lhs.dimensions[left] == rhs.dimensions[right]
        require(equal, "C3", f"dimension {left} of {lhs} does not go with dimension {right} of {rhs}")
    left, right = lb + _free(lhs.rank, lb, lc), _free(rhs.rank, rb, rc)
    dims = [lhs.dimensions[d] for d in left] + [rhs.dimensions[d] for d in right]
    marks = [lhs.marks[d] for d in left] + [rhs.marks[d] for d in right]
    return marked(result_type(instruction, lhs, rhs, "C5"), dims, marks)


def result_type(instruction: Instruction, lhs: Shape, rhs: Shape, label: str) -> ElementType:
    """The element type of a dot or convolution: what the instruction says, else the wider one of the operands'."""

    def order(t: ElementType) -> int:
        return 2 if t.is_complex else int(t.is_float)

    widest = max(lhs.element_type, rhs.element_type, key=lambda t: (order(t), t.bits))
    stated = instruction.shape.element_type if instruction.shape.is_array else widest
    require(order(stated) >= order(widest), label, f"the operands are {lhs} and {rhs}, the result is of type {stated}")
    return stated


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    lb, rb = instruction.lhs_batch_dims, instruction.rhs_batch_dims
    lc, rc = instruction.lhs_contracting_dims, instruction.rhs_contracting_dims
    lf, rf = _free(lhs.ndim, lb, lc), _free(rhs.ndim, rb, rc)
    lhs, rhs = meet_dimensions(lhs, rhs, zip(lb + lc, rb + rc, strict=True))

    def sizes(array: Array, dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(array.shape[d] for d in dims)

    b, m, n, k = prod(sizes(lhs, lb)), prod(sizes(lhs, lf)), prod(sizes(rhs, rf)), prod(sizes(lhs, lc))
    wide = contraction_type(instruction.shape.element_type, lhs, rhs, terms=k, products=b * m * n * k)
    left = widen(lhs.transpose(lb + lf + lc), wide).reshape(b, m, k)
    right = widen(rhs.transpose(rb + rc + rf), wide).reshape(b, k, n)
    with np.errstate(all="ignore"):
        result = narrow(matrix_product(left, right), instruction.shape.element_type)
    return result.reshape(sizes(lhs, lb) + sizes(lhs, lf) + sizes(rhs, rf))


EXAMPLES = (
    Example(
        """a = f32[2,3] parameter(0)
           b = f32[3,2] parameter(1)
           ROOT c = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}", "f32[3,2] {{1,0},{0,1},{1,1}}"),
        ("f32[2,2] {{4,5},{10,11}}",),
        "matrix times matrix",
    ),
    Example(
        """a = s8[2] parameter(0)
           b = s8[2] parameter(1)
           ROOT c = s32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}""",
        ("s8[2] {100,100}", "s8[2] {100,-1}"),
        ("s32[] 9900",),
        "a result wider than the operands",
    ),
    Example(
        """a = f32[2,0] parameter(0)
           b = f32[0,1] parameter(1)
           ROOT c = f32[2,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("f32[2,0] {{},{}}", "f32[0,1] {}"),
        ("f32[2,1] {{0},{0}}",),
        "an empty sum",
    ),
    Example(
        """x = f32[2,<=3] parameter(0)
           y = f32[<=3] parameter(1)
           ROOT z = f32[2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("f32[2,1] {{1},{2}}", "f32[1] {3}"),
        ("f32[2] {3,6}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2,3] parameter(0)
             y = f32[3,4] parameter(1)
             ROOT r = f32[2,4] dot(x, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}""",
    "C2": """x = f32[2,3] parameter(0)
             y = f32[3,4] parameter(1)
             ROOT r = f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={}""",
    "C3": """x = f32[2,3] parameter(0)
             y = f32[4,3] parameter(1)
             ROOT r = f32[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "C4": """x = f32[2,3] parameter(0)
             y = token[] parameter(1)
             ROOT r = f32[2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "C5": """x = f32[2,3] parameter(0)
             y = f32[3,4] parameter(1)
             ROOT r = s32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "C6": """x = f32[2,3] parameter(0)
             y = f32[3,4] parameter(1)
             ROOT r = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
}
