"""Constant operands of products are packed once, when the program is compiled.

What a stage would write to scratch memory at every call, from constants alone, becomes a constant of the plan, which
the product reads. The original constants are then not part of the plan, unless other kernels read them.
"""

from __future__ import annotations

import numpy as np
from refxla_spec import accuracy
from refxla_spec.module import Instruction
from refxla_spec.operation import operation
from refxla_spec.types import ELEMENT_TYPES, Shape

from ...ir.op_table import ELEMENTWISE, MOVEMENT, ROWS
from ...ir.plan import Argument, Fusion
from ..element_builder import type_name
from ..kernel_arguments import input_argument, inputs_of, members_of

GROWTH = 2  # the growth in bytes that packing may cause: f32 for bf16, but not u32 for s8


def can_prepack(fusion: Fusion, operand: Instruction, name: str, terms: int = 1) -> bool:
    """Whether an operand is computed exactly from constants in memory, and takes little more memory than they do when
    packed as elements of accumulation type `name`, each with `terms` of the operand's elements."""
    inputs = inputs_of(fusion, [operand])
    if not inputs or any(i.opcode != "constant" for i in inputs):
        return False
    stored = sum(i.shape.bytes for i in inputs)
    if operand.shape.size * ELEMENT_TYPES[name].array_dtype.itemsize > GROWTH * stored * terms:
        return False
    return operand in inputs or all(_is_exact(i) for i in members_of(fusion, [operand]))


def constant_value(fusion: Fusion, operand: Instruction, name: str) -> np.ndarray:
    """The elements of a constant operand, of accumulation type `name`: never rounded, wrapped as in C."""
    values: dict[Instruction, np.ndarray] = {i: np.asarray(i.literal) for i in inputs_of(fusion, [operand])}
    for i in members_of(fusion, [operand]):
        values[i] = np.asarray(operation(i.opcode).evaluate(i, *(values[o] for o in i.operands)))
    value, own = values[operand], type_name(operand)
    if own != name and own[0] == "s":  # sign-extend before wrapping
        value = value.astype(np.int64)
    return value.astype(ELEMENT_TYPES[name].dtype)


def prepacked_argument(fusion: Fusion, which: str, elements: np.ndarray) -> Argument:
    """The argument by which a kernel reads packed elements of an accumulation type that are part of the plan."""
    value = np.ascontiguousarray(elements).reshape(-1)
    name = f"{fusion.name}.{which}"
    return input_argument(Instruction(name, "constant", Shape.of(value), [], {"literal": value}))


def panels_of(matrix: np.ndarray, width: int) -> np.ndarray:
    """[group][panel][k][column] of [group, k, n], with zeros beyond the last column."""
    groups, k, n = matrix.shape
    panels = -(-n // width)
    wide = np.zeros((groups, k, panels * width), matrix.dtype)
    wide[:, :, :n] = matrix
    result: np.ndarray = wide.reshape(groups, k, panels, width).transpose(0, 2, 1, 3)
    return result


def strips_of(matrix: np.ndarray, strip: int) -> np.ndarray:
    """[group][strip][k][row of the strip] of [group, m, k]; the last strip repeats the last row."""
    groups, m, k = matrix.shape
    strips = -(-m // strip)
    rows = np.minimum(np.arange(strips * strip), m - 1)
    result: np.ndarray = matrix[:, rows].reshape(groups, strips, strip, k).transpose(0, 1, 3, 2)
    return result


def _is_exact(i: Instruction) -> bool:
    """Whether the interpreter computes the same bits as a kernel."""
    if i.opcode == "constant":
        return True
    row = ROWS.get(i.opcode)
    if row is None or row.op_class not in (ELEMENTWISE, MOVEMENT) or not i.shape.is_array:
        return False
    return not any(accuracy.max_ulp(i.opcode, s.shape.element_type.name) for s in (i, *i.operands))
