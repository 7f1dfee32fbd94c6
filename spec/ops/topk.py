"""The k largest (or smallest) values along the last dimension, and where they stand.

    values[b.., n] = operand[b.., indices[b.., n]]     for n in 0..k-1, in descending order (ascending if not largest)

Of equal values the one with the lower index comes first; if not `is_stable`, a program may not rely on it (here it
holds all the same, so that the result is one). The order is the total order of IEEE 754: a NaN is larger than
infinity, and 0 is larger than -0.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, INT, REQUIRED, Attribute
from ..dynamic import marked
from ..module import Instruction
from ..numerics import total_order_key, type_of
from ..operation import Example, require
from ..types import S32, Array, Shape

INPUTS = {"operand": "an array of integers, floating-point numbers or predicates (false below true)"}
ATTRIBUTES = {
    "k": Attribute(INT, REQUIRED, "how many"),
    "largest": Attribute(BOOL, True, "whether the largest ones, else the smallest"),
    "is_stable": Attribute(BOOL, True, "whether equals keep their order"),
}
CONSTRAINTS = {
    "C1": "operand is an array of rank at least 1, not complex",
    "C2": "k is at least 0 and at most the size of the last dimension",
    "C3": "the result is a tuple of the values and their indices, s32: the last dimension is k, the others stay",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    ordered = operand.is_array and not operand.element_type.is_complex
    require(ordered and operand.rank >= 1, "C1", f"operand is {operand}")
    k = instruction.k
    require(0 <= k <= operand.dimensions[-1], "C2", f"k is {k}, operand is {operand}")
    values = marked(operand.element_type, (*operand.dimensions[:-1], k), (*operand.marks[:-1], False))
    return Shape.tuple_of(values, values.with_element_type(S32))


def evaluate(instruction: Instruction, operand: Array) -> tuple[Array, Array]:
    return top(operand, instruction.k, instruction.largest)


def top(operand: Array, k: int, largest: bool) -> tuple[Array, Array]:
    """The first k along the last dimension in descending (largest) or ascending order, and their indices, s32."""
    keys = total_order_key(operand) if type_of(operand).is_float else operand
    ranks = np.unique(keys, return_inverse=True)[1].reshape(operand.shape)
    indices = np.argsort(-ranks if largest else ranks, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(operand, indices, axis=-1), indices.astype(np.int32)


EXAMPLES = (
    Example(
        """x = f32[2,4] parameter(0)
           ROOT r = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true""",
        ("f32[2,4] {{1,3,2,3},{-inf,-0,nan,0}}",),
        ("f32[2,2] {{3,3},{nan,0}}", "s32[2,2] {{1,3},{2,3}}"),
    ),
    Example(
        """x = s32[3] parameter(0)
           ROOT r = (s32[2], s32[2]) topk(x), k=2, largest=false""",
        ("s32[3] {2,-1,-1}",),
        ("s32[2] {-1,-1}", "s32[2] {1,2}"),
    ),
    Example(
        """x = f32[4] parameter(0)
           ROOT r = (f32[3], s32[3]) topk(x), k=3, largest=true, is_stable=true""",
        ("f32[4] {0,nan,-0,0}",),
        ("f32[3] {nan,0,0}", "s32[3] {1,0,3}"),
        "the two zeros, which are equal, keep their order",
    ),
    Example(
        """x = f32[3] parameter(0)
           ROOT r = (f32[2], s32[2]) topk(x), k=2, largest=true, is_stable=false""",
        ("f32[3] {2,-inf,7}",),
        ("f32[2] {7,2}", "s32[2] {2,0}"),
    ),
    Example(
        """x = s32[<=3,4] parameter(0)
           ROOT r = (s32[<=3,1], s32[<=3,1]) topk(x), k=1, largest=true""",
        ("s32[1,4] {{1,9,3,4}}",),
        ("s32[1,1] {{9}}", "s32[1,1] {{1}}"),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = c64[2] parameter(0)\nROOT r = (c64[1], s32[1]) topk(x), k=1, largest=true",
    "C2": "x = f32[2] parameter(0)\nROOT r = (f32[3], s32[3]) topk(x), k=3, largest=true",
    "C3": "x = f32[2] parameter(0)\nROOT r = (f32[1], s64[1]) topk(x), k=1, largest=true",
}
