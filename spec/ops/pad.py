"""The operand with a padding value around and between its elements.

Along each dimension `interior` copies of the padding value come between neighbours, `low` before the first and
`high` after the last; negative low and high remove elements (after the interior padding). So

    result[j] = operand[i] where j = low + i (interior + 1) for some i, padding_value elsewhere
"""

import numpy as np

from ..attributes import PADDING, REQUIRED, Attribute
from ..dynamic import marked
from ..errors import plural
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type", "padding_value": "scalar of the same element type"}
ATTRIBUTES = {"padding": Attribute(PADDING, REQUIRED, "low, high and interior for each dimension of operand")}
CONSTRAINTS = {
    "C1": "operand is an array and padding_value a scalar of the same element type",
    "C2": "padding has one entry for each dimension of operand",
    "C3": "interior >= 0",
    "C4": "low + size + max(size - 1, 0) interior + high >= 0 in every dimension",
    "C5": "the result has in dimension d the size low + size + max(size - 1, 0) interior + high",
}


def infer(instruction: Instruction, operand: Shape, padding_value: Shape) -> Shape:
    padding = instruction.padding
    alike = operand.is_array and padding_value.is_scalar and operand.element_type is padding_value.element_type
    require(alike, "C1", f"operand is {operand} and padding_value {padding_value}")
    entries = plural(len(padding), "entry", "entries")
    require(len(padding) == operand.rank, "C2", f"padding has {entries} and operand is {operand}")
    sizes = []
    for d, (p, size) in enumerate(zip(padding, operand.dimensions, strict=True)):
        require(p.interior >= 0, "C3", f"the interior padding of dimension {d} is {p.interior}")
        sizes.append(p.low + size + max(size - 1, 0) * p.interior + p.high)
        require(sizes[-1] >= 0, "C4", f"dimension {d} would have the size {sizes[-1]}")
    return marked(operand.element_type, sizes, operand.marks)


def evaluate(instruction: Instruction, operand: Array, padding_value: Array) -> Array:
    padding = instruction.padding
    sizes = [p.low + n + max(n - 1, 0) * p.interior + p.high for p, n in zip(padding, operand.shape, strict=True)]
    sizes = [max(0, n) for n in sizes]  # a dynamic dimension may be shorter than what is removed of it
    result = np.full(sizes, padding_value, operand.dtype)
    source, target = [], []
    for p, n, size in zip(padding, operand.shape, sizes, strict=True):
        step = p.interior + 1
        first = max(0, -(p.low // step))  # the first i whose place low + i step is not negative
        last = min(n, (size - p.low + step - 1) // step)  # after the last i whose place is below size
        count = max(0, last - first)
        start = p.low + first * step
        source.append(slice(first, first + count))
        target.append(slice(start, start + count * step, step) if count else slice(0, 0))
    result[tuple(target)] = operand[tuple(source)]
    return result


EXAMPLES = (
    Example(
        "x = f32[2,2] parameter(0)\nz = f32[] parameter(1)\nROOT y = f32[3,4] pad(x, z), padding=1_0x0_1_1",
        ("f32[2,2] {{1, 2}, {3, 4}}", "f32[] nan"),
        ("f32[3,4] {{nan, nan, nan, nan}, {1, nan, 2, nan}, {3, nan, 4, nan}}",),
    ),
    Example(
        "x = s32[4] parameter(0)\nz = s32[] parameter(1)\nROOT y = s32[4] pad(x, z), padding=-2_-1_1",
        ("s32[4] {1, 2, 3, 4}", "s32[] 0"),
        ("s32[4] {2, 0, 3, 0}",),
        "negative padding cuts off the padding between elements too",
    ),
    Example(
        "x = s8[0] parameter(0)\nz = s8[] parameter(1)\nROOT y = s8[2] pad(x, z), padding=1_1_3",
        ("s8[0] {}", "s8[] -1"),
        ("s8[2] {-1, -1}",),
    ),
    Example(
        """x = s32[<=3] parameter(0)
           p = s32[] parameter(1)
           ROOT y = s32[<=5] pad(x, p), padding=1_1""",
        ("s32[2] {1,2}", "s32[] 9"),
        ("s32[4] {9,1,2,9}",),
        "padded at the size that it has",
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nv = s32[] parameter(1)\nROOT r = f32[3] pad(x, v), padding=0_1",
    "C2": "x = f32[2] parameter(0)\nv = f32[] parameter(1)\nROOT r = f32[3] pad(x, v), padding=0_1x0_0",
    "C3": "x = f32[2] parameter(0)\nv = f32[] parameter(1)\nROOT r = f32[2] pad(x, v), padding=0_1_-1",
    "C4": "x = f32[2] parameter(0)\nv = f32[] parameter(1)\nROOT r = f32[0] pad(x, v), padding=-2_-1",
    "C5": "x = f32[2] parameter(0)\nv = f32[] parameter(1)\nROOT r = f32[2] pad(x, v), padding=0_1",
}
