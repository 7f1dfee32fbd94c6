"""Makes bounded dynamic shapes static: an array is padded to its bound, and an `s32[]` holds its actual size.

    f32[<=4,3] parameter(0)     becomes   f32[4,3] parameter(0) and s32[] parameter(n), the size of its first dimension
    a dynamic result            becomes   the padded array; its sizes follow after all results
    while, conditional          carry the sizes that change as values
    get-dimension-size          is that s32[]

Elements beyond the actual size have arbitrary values, and each operation has a rule that keeps them from mattering:
elementwise operations ignore them, a reduction masks them with the neutral element of its reducer, a concatenation
overwrites them, and a sort puts them last (movement_ops.py, reducing_ops.py). An operation without a rule raises
UnsupportedError.

Sizes are propagated through the program regardless of its declared shapes: the marks (<=) matter only on the parameters
of the entry. A result whose size can vary must be marked, so that the caller knows.
"""

from __future__ import annotations

from refxla_spec.elementwise import is_elementwise
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module, clone_computation
from refxla_spec.types import S32, Shape, leaves

from ...ir.builder import Build
from .. import tuple_simplifier
from ..dce import called_first, sort
from . import movement_ops, reducing_ops
from .dimension_sizes import Rule, Size, SizedArray, Value, met, number, unsupported

RULES: dict[str, Rule] = {**movement_ops.RULES, **reducing_ops.RULES}
ALIKE = frozenset("copy domain reduce-precision optimization-barrier opt-barrier map".split())
MAKERS = frozenset("set-dimension-size dynamic-reshape".split())  # their results have sizes known only at run time
ASKERS = frozenset({"get-dimension-size"})
MARKERS = frozenset("LayoutConstraint MoveToDevice MoveToHost Sharding annotate_device_placement".split())


def is_dynamic(module: Module) -> bool:
    """Whether any value of the module has, or may have, a size that is known at run time only."""
    return any(
        i.shape.is_dynamic or i.opcode in MAKERS or i.attributes.get("custom_call_target") in movement_ops.TARGETS
        for i in module.instructions()
    )


def run(module: Module) -> int:
    """Makes the module static. Returns 1 if it was dynamic, otherwise 0. Raises UnsupportedError for an operation
    without a rule.

    `sizes_of` says which parameters and results the entry has then.
    """
    if not is_dynamic(module):
        return 0
    tuple_simplifier.run(module)
    entry = module.entry
    stated = leaves(entry.root.shape)  # before parameters lose their marks: the root may be one
    parameters: dict[Instruction, Value] = {}
    extra: list[Instruction] = []
    for p in entry.parameters:
        sizes: list[Size] = []
        for d, mark in enumerate(p.shape.marks):
            size = None
            if mark:
                at = {"number": len(entry.parameters) + len(extra)}
                size = Instruction(f"{p.name}.size.{d}", "parameter", Shape(S32), [], at)
                extra.append(size)
            sizes.append(size)
        p.shape = p.shape.static()
        parameters[p] = SizedArray(p, tuple(sizes))
    result = _rewrite(entry, parameters)
    results = _elements(result)
    b = Build("results")
    arrays, counts = [r.array for r in results], []
    for r, shape in zip(results, stated, strict=True):
        for d, mark in enumerate(shape.marks):
            if mark:
                counts.append(number(b, r, d))
            elif r.sizes and r.sizes[d] is not None:
                raise UnsupportedError(
                    f"{entry.root.name}: a result is stated as {shape.without_layout()}, and dimension {d} has a size "
                    f"that is known at run time only: state it as a bound (<={shape.dimensions[d]})"
                )
    if isinstance(result, list) or counts:
        entry.root = b.tuple(*arrays, *counts)
    else:
        entry.root = arrays[0]
    entry.instructions = [*parameters, *extra]
    sort(entry, entry.instructions)
    module.entry_layout, module.aliases = None, () if counts else module.aliases
    module.computations = called_first(entry)
    return 1


def _rewrite(computation: Computation, parameters: dict[Instruction, Value]) -> Value:
    """The root of a computation, made static, with its sizes; its instructions are replaced or changed in place."""
    values: dict[Instruction, Value] = dict(parameters)
    for i in computation.instructions:
        if i not in values:
            values[i] = _value(i, [values[o] for o in i.operands])
    return values[computation.root]


def _value(i: Instruction, operands: list[Value]) -> Value:
    b = Build(i.name)
    match i.opcode:
        case "tuple":
            return [_array(o) for o in operands]
        case "get-tuple-element" if isinstance(operands[0], list):
            index: int = i.index
            return _elements(operands[0])[index]
        case "while":
            return _while(b, i, _elements(operands[0]))
        case "conditional":
            return _conditional(b, i, _array(operands[0]), [_elements(o) for o in operands[1:]])
        case "custom-call" if i.custom_call_target in MARKERS:
            return operands[0]
        case "custom-call" if i.custom_call_target in movement_ops.TARGETS:
            return movement_ops.TARGETS[i.custom_call_target](b, i, *operands)
    rule, arrays = RULES.get(i.opcode), [_array(o) for o in operands]
    dynamic = any(o.is_dynamic for o in arrays)
    if (dynamic or i.opcode in MAKERS | ASKERS) and rule is not None:
        return _copy_metadata(i, rule(b, i, *arrays))
    if dynamic and not (is_elementwise(i.opcode) or i.opcode in ALIKE):
        raise unsupported(i, "with a size that is known at run time only")
    i.operands, i.shape = [o.array for o in arrays], i.shape.static()
    if i.shape.is_tuple:
        elements = enumerate(leaves(i.shape))
        return [
            SizedArray.whole(Instruction(f"{i.name}.{n}", "get-tuple-element", s, [i], {"index": n}))
            for n, s in elements
        ]
    return SizedArray(i, met(b, arrays) if dynamic else (None,) * i.shape.rank)


def _array(value: Value) -> SizedArray:
    assert isinstance(value, SizedArray)
    return value


def _elements(value: Value) -> list[SizedArray]:
    return value if isinstance(value, list) else [value]


def _copy_metadata(i: Instruction, value: Value) -> Value:
    for v in _elements(value):
        v.array.metadata = v.array.metadata or i.metadata
    return value


# -- control flow -----------------------------------------------------------------------------------------------------

Places = tuple[tuple[int, int], ...]  # (element of a flat tuple, dimension) of the sizes that it carries


def _places(*each: list[SizedArray]) -> Places:
    places = {(n, d) for values in each for n, v in enumerate(values) for d, s in enumerate(v.sizes) if s is not None}
    return tuple(sorted(places))


def _carried(b: Build, values: list[SizedArray], places: Places) -> Instruction:
    """A flat tuple of the arrays, followed by the sizes at these places."""
    return b.make("tuple", *(v.array for v in values), *(number(b, values[n], d) for n, d in places))


def _opened(b: Build, source: Instruction, shapes: list[Shape], places: Places) -> list[SizedArray]:
    """The values that `_carried` has put into a flat tuple."""
    arrays = [b.make("get-tuple-element", source, index=n) for n in range(len(shapes))]
    sizes: list[list[Size]] = [[None] * s.rank for s in shapes]
    for k, (n, d) in enumerate(places):
        sizes[n][d] = b.make("get-tuple-element", source, index=len(shapes) + k)
    return [SizedArray(a, tuple(s)) for a, s in zip(arrays, sizes, strict=True)]


def _entered(called: Computation, shapes: list[Shape], places: Places) -> tuple[Computation, Value, Build]:
    """A static copy of a computation that takes one flat tuple with these sizes at its end; and its result."""
    copy = clone_computation(called, lambda c: c)
    (old,) = copy.parameters
    b = Build(f"{called.name}.{old.name}")
    shape = Shape.tuple_of(*(s.static() for s in shapes), *(Shape(S32) for _ in places))
    new = Instruction(old.name, "parameter", shape, [], {"number": 0}, old.metadata)
    result = _rewrite(copy, {old: _opened(b, new, shapes, places)})
    copy.instructions = [new]
    return copy, result, b


def _left(b: Build, computation: Computation, result: Value, places: Places) -> None:
    """Sets a computation's root: a flat tuple with the sizes at its end."""
    computation.root = _carried(b, _elements(result), places)
    sort(computation, computation.instructions)


def _while(b: Build, i: Instruction, init: list[SizedArray]) -> list[SizedArray]:
    shapes = [v.array.shape for v in init]
    places = _places(init)
    while True:  # an element that the body makes dynamic is dynamic in the next iteration
        body, result, inner = _entered(i.body, shapes, places)
        more = _places(_elements(result))
        if set(more) <= set(places):
            break
        places = tuple(sorted({*places, *more}))
    _left(inner, body, result, places)
    condition, verdict, _ = _entered(i.condition, shapes, places)
    condition.root = _array(verdict).array
    sort(condition, condition.instructions)
    loop = b.make("while", _carried(b, init, places), body=body, condition=condition)
    return _opened(b, loop, shapes, places)


def _conditional(b: Build, i: Instruction, index: SizedArray, operands: list[list[SizedArray]]) -> list[SizedArray]:
    from refxla_spec.ops.conditional import branches

    operands_made, entered = [], []
    for branch, values in zip(branches(i), operands, strict=True):
        places = _places(values)
        operands_made.append(_carried(b, values, places))
        entered.append(_entered(branch, [v.array.shape for v in values], places))
    results = [_elements(r) for _, r, _ in entered]
    places = _places(*results)
    for (computation, result, inner), _ in zip(entered, results, strict=True):
        _left(inner, computation, result, places)
    called = tuple(c for c, _, _ in entered)
    conditional = b.make("conditional", index.array, *operands_made, branch_computations=called)
    return _opened(b, conditional, [v.array.shape for v in results[0]], places)


def sizes_of(shapes: list[Shape]) -> list[tuple[int, int]]:
    """The dynamic dimensions of array shapes, as (number of the shape, dimension), in the order in which their sizes
    follow the parameters, or the results, of a module that `run` has made static."""
    return [(n, d) for n, s in enumerate(shapes) for d, mark in enumerate(s.marks) if mark]
