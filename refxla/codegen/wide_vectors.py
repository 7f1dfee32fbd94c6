"""Which kernels for CPUs are compiled for the widest vectors (Kernel.wide_vectors), where a processor has AVX-512.

All others use the baseline of such processors: 16 registers of 32 bytes. Each family of emitters asks here, except two
that always gain: matrix products, whose sums fill the registers, and Fourier transforms, whose passes do. (Depthwise
convolutions write vectors of 32 bytes explicitly and have few sums.) A merged kernel uses the widest vectors if parts
that do take most of its time (scheduling/register_promotion.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ..analysis.accumulation import is_narrow
from ..ir.op_table import ELEMENTWISE, FUNCTIONS, class_of
from . import scalar

GATHER = 6  # operations on an element that take as long as a gather in AVX-512


def loop_gains(instructions: Sequence[Instruction], gathers: int) -> bool:
    """Whether a loop gains that computes these instructions, with so many gathers and scatters in each iteration: it
    computes something, and not much less than it gathers, since vectors of any width gather element by element."""
    if any(map(_has_wide_instructions, instructions)):
        return True
    operations = sum(class_of(i) == ELEMENTWISE for i in instructions)
    return operations > 0 and operations >= GATHER * gathers


def _has_wide_instructions(i: Instruction) -> bool:
    """Whether AVX-512 more than doubles the speed of an instruction: products and conversions of 64-bit integers, for
    which it has instructions; narrow and complex types, which take several masked ones; functions."""
    types = {i.shape.element_type.name, *(o.shape.element_type.name for o in i.operands)}
    if i.opcode in FUNCTIONS or i.opcode in ("multiply", "convert") and not types.isdisjoint(("s64", "u64")):
        return True
    return class_of(i) == ELEMENTWISE and any(is_narrow(t) or ELEMENT_TYPES[t].is_complex for t in types)


def reduction_gains(masks: bool, accumulators: Iterable[str]) -> bool:
    """Whether a reduction gains: if the wide vectors mask reads and writes of any type (`masks`), or if its
    accumulators, given by their types, are floating-point, with many independent chains."""
    return masks or any(scalar.register_type(t).startswith(("float", "double")) for t in accumulators)


def window_gains(stride: int) -> bool:
    """Whether a reduce-window gains whose window moves along its lanes by so many elements (1: also if not along
    them)."""
    return stride == 1
