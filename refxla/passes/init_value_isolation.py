"""Makes the initial values of a reduction count exactly once in each result, whatever they are.

A reduction keeps many accumulators for one result: vector lanes, partial reductions, columns of a strip, blocks of a
long cumulative window. For a plain sum, product, maximum and the like the accumulators start from the neutral element,
and the initial values are combined at the end. For any other reducer no neutral element is known, and the accumulators
start from the initial values. That is harmless if the reducer is idempotent on the initial values and commutes on them
and any element: then they count once, however often and wherever they are combined. This pass decides whether that
holds: for constants by evaluation, trying elements of all kinds for the second condition (unless the reducer is known
to commute), and otherwise for reducers that commute and select one of their operands. Every other reduction gets one
more operand, which says where there is a value,

    reduce(x, init, f)  =  f(init, total)    where (total, present) = reduce((x, true), (0, false), g)
    g((a, p), (b, q))   =  (p ? q ? f(a, b) : a : q ? b : 0, p or q)

and neutral initial values; g commutes if f does.

Elements whose type differs from the accumulators' are converted first, if the reducer does nothing else with them.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

import ml_dtypes
import numpy as np
from refxla_spec.compare import bits_equal
from refxla_spec.errors import UnsupportedError
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.numerics import component_type, type_of
from refxla_spec.types import PRED, Shape
from refxla_spec.vectorize import COMMUTATIVE, binary_opcode, lift

from ..analysis.commutativity import Order, order_of
from ..analysis.cumulative_windows import combines_arrays, goes_by_blocks
from ..analysis.window_decomposition import decomposition
from ..ir.builder import Build
from .algebraic_simplifier import scalar_value
from .call_inliner import mapped
from .dce import sort

_CHOOSING = frozenset("maximum minimum and or".split())  # idempotent: f(x, x) is x


def run(module: Module) -> int:
    """Rewrites reductions where needed. Returns their number.

    Raises UnsupportedError for a reducer that computes with elements of another type than its accumulated values.
    """
    once: dict[Computation, Computation] = {}
    return sum(_rewrite(c, once) for c in module.computations)


def _rewrite(computation: Computation, once: dict[Computation, Computation]) -> int:
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        dynamic = any(o.shape.is_dynamic for o in i.operands)  # elements beyond a size become the initial value
        if i.opcode == "reduce" or (i.opcode == "reduce-window" and (dynamic or _is_blockwise(i))):
            reduction = _of_one_type(i) if i.opcode == "reduce" else i
            if not is_plain(reduction.to_apply) and not _counts_once(reduction):
                reduction = _with_presence(reduction, once)
            if reduction is not i:
                replaced[i] = reduction
    if replaced:
        computation.replace(replaced)
        sort(computation)
    return len(replaced)


def _is_blockwise(i: Instruction) -> bool:
    """Whether a reduce-window is computed in blocks that begin with its initial values."""
    is_cut = goes_by_blocks(i) or bool(decomposition(i))
    return is_cut and binary_opcode(i.to_apply) is None and combines_arrays(i.to_apply)


def reductions_that_are_not_plain(computation: Computation) -> list[Instruction]:
    """The `reduce` instructions whose reducer is not plain."""
    return [i for i in computation.instructions if i.opcode == "reduce" and not is_plain(i.to_apply)]


def is_plain(reducer: Computation) -> bool:
    """Whether a reducer is a single operation whose neutral element kernels know."""
    opcode = binary_opcode(reducer)
    return opcode in COMMUTATIVE and not (opcode == "multiply" and reducer.root.shape.element_type.is_complex)


def _counts_once(i: Instruction) -> bool:
    """Whether the initial values can be combined several times, at any position, without a change of the result. False
    where that cannot be decided."""
    inits = i.operands[len(i.operands) // 2 :]
    values = [v for v in map(scalar_value, inits) if v is not None]
    order = order_of(i.to_apply)
    if len(values) < len(inits):
        return order is not Order.CHOICE and _chooses(i.to_apply)
    with np.errstate(all="ignore"):
        results = Interpreter().run(i.to_apply, *values, *values)
    results = results if isinstance(results, tuple) else (results,)
    same = all(bits_equal(r, v) for r, v in zip(results, values, strict=True))
    return same and (order is not Order.CHOICE or _enters_anywhere(i.to_apply, values))


def _enters_anywhere(reducer: Computation, values: list[np.ndarray]) -> bool:
    """Whether a reducer that selects one of its operands commutes on these values and any others. The others tried are
    the numbers at which comparisons change."""
    columns = [_edges(v) for v in values]
    size = max(len(c) for c in columns) ** min(2, len(columns))
    # Each element of a column is paired with each of the next one; later columns vary in step with these.
    others = [np.resize(np.repeat(c, len(columns[0])) if n % 2 else c, size) for n, c in enumerate(columns)]
    inits = [np.broadcast_to(v, (size,)) for v in values]
    lifted = lift(reducer, (size,))
    if lifted is None:
        return False
    with np.errstate(all="ignore"):
        first, last = (Interpreter().run(lifted, *pair) for pair in ((*inits, *others), (*others, *inits)))
    return bits_equal(first, last)


def _edges(value: np.ndarray) -> np.ndarray:
    """The value, the limits of its type, and values next to them and to zero."""
    element_type = type_of(value)
    if element_type.kind == "pred":
        return np.array([False, True])
    if element_type.is_integer:
        info = ml_dtypes.iinfo(element_type.array_dtype)
        numbers: list[float] = [0, 1, 2, info.max, info.max - 1, info.min, info.min + 1]
    else:
        with np.errstate(all="ignore"):
            largest = float(ml_dtypes.finfo(component_type(element_type).array_dtype).max)
        numbers = [0.0, -0.0, 1.0, -1.0, largest, -largest, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(numbers).astype(element_type.array_dtype), np.reshape(value, (1,))])


def _chooses(reducer: Computation) -> bool:
    """Whether f(x, x) is x for every x, by the form of f: each result is selected from an accumulated value and the
    corresponding element."""
    count = len(reducer.parameters) // 2
    values: dict[Instruction, Hashable] = {}
    for i in reducer.instructions:
        operands = tuple(values[o] for o in i.operands)
        if i.opcode == "parameter":
            values[i] = i.attributes["number"] % count
        elif i.opcode == "copy":
            values[i] = operands[0]
        elif i.opcode == "select" and operands[1] == operands[2]:
            values[i] = operands[1]
        elif i.opcode in _CHOOSING and operands[0] == operands[1]:
            values[i] = operands[0]
        else:
            values[i] = i
    root = reducer.root
    results = [values[o] for o in root.operands] if root.opcode == "tuple" else [values[root]]
    return results == list(range(count))


def _of_one_type(i: Instruction) -> Instruction:
    """The reduce with its elements converted to the types of the accumulated values."""
    count = len(i.operands) // 2
    operands, inits = i.operands[:count], i.operands[count:]
    if all(o.shape.element_type is v.shape.element_type for o, v in zip(operands, inits, strict=True)):
        return i
    b = Build(i.name)
    shapes = {p: inits[n - count].shape for n, p in enumerate(i.to_apply.parameters) if n >= count}
    copies: dict[Instruction, Instruction] = {}
    for j in i.to_apply.instructions:
        if j in shapes:
            copies[j] = Instruction(j.name, "parameter", shapes[j], [], j.attributes)
        elif j.opcode == "convert" and j.operands[0] in shapes and j.shape.compatible(shapes[j.operands[0]]):
            copies[j] = copies[j.operands[0]]
        else:
            other = any(o in shapes and o.shape.element_type is not shapes[o].element_type for o in j.operands)
            copies[j] = _copy(j, copies) if not other else j
            if other:
                break
    else:
        reducer = _computation(f"{i.to_apply.name}.converted", list(copies.values()), copies[i.to_apply.root])
        if is_plain(reducer) or _chooses(reducer):
            converted = [b.convert(o, v.shape.element_type) for o, v in zip(operands, inits, strict=True)]
            return b.make(i.opcode, *converted, *inits, dimensions=i.dimensions, to_apply=reducer)
    raise UnsupportedError(
        f"{i.name}: {i.to_apply.name} computes with elements of another type than its accumulated values; convert the "
        "elements before they are reduced, or run the program on the reference with device='reference'"
    )


def _with_presence(i: Instruction, once: dict[Computation, Computation]) -> Instruction:
    """The reduction with an operand that says where there is a value, and the combination of its result with the
    initial values."""
    count, b = len(i.operands) // 2, Build(i.name)
    operands, inits = i.operands[:count], i.operands[count:]
    if i.to_apply not in once:
        once[i.to_apply] = _aware_of_presence(i.to_apply)
    there = b.full(True, Shape(PRED, operands[0].shape.dimensions))
    nothing = [b.make("constant", shape=v.shape, literal=np.zeros((), v.shape.element_type.dtype)) for v in inits]
    attributes = {k: v for k, v in i.attributes.items() if k in ("dimensions", "window")}
    absent = b.make("constant", shape=Shape(PRED), literal=np.array(False))
    pairs = b.make(i.opcode, *operands, there, *nothing, absent, to_apply=once[i.to_apply], **attributes)
    *totals, presence = (b.make("get-tuple-element", pairs, index=n) for n in range(count + 1))
    starts = [b.spread(v, presence.shape, ()) if presence.shape.rank else v for v in inits]
    results = mapped(i.to_apply, [*starts, *totals], presence, i.name)
    empty = i.opcode == "reduce-window" or not prod(operands[0].shape.dimensions[d] for d in i.dimensions)
    if empty or any(o.shape.is_dynamic for o in operands):
        results = [b.make("select", presence, r, s) for r, s in zip(results, starts, strict=True)]
    return b.tuple(*results) if i.shape.is_tuple else results[0]


def _aware_of_presence(reducer: Computation) -> Computation:
    """g of the module's docstring."""
    parameters = reducer.parameters
    count = len(parameters) // 2
    b = Build(f"{reducer.name}.there")
    shapes = [p.shape for p in parameters[:count]] + [Shape(PRED)]
    left, right = (
        [
            Instruction(f"{b.name}.{side}{n}", "parameter", s, [], {"number": n + k * len(shapes)})
            for n, s in enumerate(shapes)
        ]
        for k, side in enumerate("ab")
    )
    copies = dict(zip(parameters, [*left[:-1], *right[:-1]], strict=True))
    for j in reducer.instructions:
        if j not in copies:
            copies[j] = _copy(j, copies)
    root = copies[reducer.root]
    both = root.operands if root.opcode == "tuple" else [root]
    results = [
        b.select(left[-1], b.select(right[-1], c, a), b.select(right[-1], e, b.full(0, e.shape)))
        for a, e, c in zip(left[:-1], right[:-1], both, strict=True)
    ]
    end = b.make("tuple", *results, b.or_(left[-1], right[-1]))
    return _computation(b.name, [*left, *right, end], end)


def _copy(i: Instruction, copies: dict[Instruction, Instruction]) -> Instruction:
    return Instruction(i.name, i.opcode, i.shape, [copies[o] for o in i.operands], dict(i.attributes), i.metadata)


def _computation(name: str, instructions: list[Instruction], root: Instruction) -> Computation:
    computation = Computation(name, list(dict.fromkeys(instructions)), root)
    sort(computation)
    return computation
