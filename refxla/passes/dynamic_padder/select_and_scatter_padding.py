"""The rule of select-and-scatter: elements beyond the operand's size are never selected, those beyond the source's are
not added.

Integers beyond the size are replaced by the number that loses every comparison: a window visits them after the elements
within, since its first element lies within if any does. No floating-point number loses to a NaN, for which each
comparison is false, so that the next element is taken. So floating-point numbers are selected by their bits, as
unsigned integers. All NaNs are made one pattern, and another NaN pattern says that there is no element:

    keep(a, b)  =  b is nothing or (a is something and select(number of a, number of b))
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.module import Computation, Instruction, WindowDimension, post_order
from refxla_spec.ops.compare import is_total
from refxla_spec.types import F32, U32, U64, ElementType, Shape

from ...ir.builder import Build
from ..call_inliner import mapped
from ..init_value_isolation import is_plain
from .dimension_sizes import SizedArray, least, masked, neutral, placings, unsupported


def select_and_scatter(b: Build, i: Instruction, x: SizedArray, source: SizedArray, init: SizedArray) -> SizedArray:
    sliding = [d for d, w in enumerate(i.window) if x.sizes[d] is not None and w != WindowDimension(1)]
    met_there = zip(x.sizes, i.window, source.sizes, strict=True)
    counts = tuple(least(b, placings(b, s, w), t) for s, w, t in met_there)
    if not is_plain(i.scatter) and any(s is not None for s in counts):
        raise unsupported(i, "whose second computation has no neutral element that is known")
    added = masked(b, SizedArray(source.array, counts), neutral(b, i, i.scatter, source.array, init.array))
    select, operand = i.select, x.array
    if sliding and x.array.shape.element_type.is_float:
        bits = _bits(b, x.array)
        nothing = b.scalar(_NOTHING, bits.shape.element_type)
        operand = masked(b, SizedArray(bits, x.sizes), nothing, sliding)
        select = _by_bits(i, bits.shape.element_type, x.array.shape.element_type)
    elif sliding:
        operand = masked(b, x, _loser(b, i, x.array.shape), sliding)
    attributes = {**i.attributes, "select": select}
    return SizedArray(b.make("select-and-scatter", operand, added, init.array, **attributes), x.sizes)


_NOTHING = -1  # all bits are ones: the sign, a NaN's exponent, and a mantissa other than that of the one NaN


def _bits(b: Build, x: Instruction) -> Instruction:
    """Floating-point numbers as their bits, all NaNs as one, which is not _NOTHING; narrow ones as f32, exactly."""
    wide = x if x.shape.element_type.name == "f64" else b.convert(x, F32)
    one = b.select(b.compare(wide, wide, direction="EQ"), wide, float("nan"))
    unsigned = U64 if wide.shape.element_type.bits == 64 else U32
    return b.make("bitcast-convert", one, shape=one.shape.with_element_type(unsigned))


def _by_bits(i: Instruction, unsigned: ElementType, element_type: ElementType) -> Computation:
    """The select of two numbers that are given as bits, one of which may be nothing."""
    b = Build(f"{i.name}.{i.select.name}")
    scalar = Shape(unsigned)
    held, following = (Instruction(f"{b.name}.p{n}", "parameter", scalar, [], {"number": n}) for n in range(2))
    nothing = b.scalar(_NOTHING, unsigned)
    wide = Shape(element_type if unsigned is U64 else F32)
    numbers = [b.convert(b.make("bitcast-convert", p, shape=wide), element_type) for p in (held, following)]
    (keep,) = mapped(i.select, numbers, held, f"{b.name}.of")
    there = b.compare(held, nothing, direction="NE")
    root = b.or_(b.compare(following, nothing, direction="EQ"), b.and_(there, keep))
    instructions = [held, following, *(j for j in post_order(root) if j not in (held, following))]
    return Computation(b.name, instructions, root)


def _loser(b: Build, i: Instruction, shape: Shape) -> Instruction:
    root, parameters = i.select.root, i.select.parameters
    direction = root.direction if root.opcode == "compare" and root.operands == parameters else None
    if direction not in ("GE", "LE") or is_total(root.attributes) or not shape.element_type.is_integer:
        raise unsupported(i, "a window over a dynamic size with another select than a >= b or a <= b")
    info = ml_dtypes.iinfo(shape.element_type.array_dtype)
    value = np.asarray(int(info.max if direction == "LE" else info.min)).astype(shape.element_type.dtype)
    return b.make("constant", shape=Shape(shape.element_type), literal=value)
