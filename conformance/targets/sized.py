"""Programs with dynamic shapes (f32[<=4]) for XLA:CPU, which accepts no dynamic arguments, and its results.

A dynamic parameter becomes a static one of its maximum size, padded with values that must not matter, and its sizes,
s32[], which set-dimension-size gives it. The results are followed by their sizes. XLA:CPU returns a dynamic array in a
buffer of the maximum length, which begins with the elements at their actual sizes, packed, in row-major order; the rest
is arbitrary.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.operation import make
from refxla_spec.types import S32, Shape, leaves


def is_sized(module: Module) -> bool:
    """Whether the entry has parameters or results of dynamic shape, and no tuples as parameters."""
    shapes = [p.shape for p in module.entry.parameters]
    return any(s.is_dynamic for s in (*shapes, module.entry.root.shape)) and not any(s.is_tuple for s in shapes)


def static_form(module: Module) -> Module:
    """The program with static parameters, sizes after them, and sizes after its results, in a flat tuple."""
    module = module.clone()
    entry = module.entry
    parameters = entry.parameters
    instructions: list[Instruction] = []
    values: dict[Instruction, Instruction] = {}
    count = len(parameters)
    for p in parameters:
        shape, value = p.shape, p
        instructions.append(p)
        p.shape = shape.static()
        for d, mark in enumerate(shape.marks):
            if mark:
                size = Instruction(f"size_of_{p.name}_{d}", "parameter", Shape(S32), [], {"number": count})
                value = make("set-dimension-size", value, size, name=f"{p.name}_{d}", dimensions=(d,))
                instructions += [size, value]
                count += 1
        values[p] = value
    body = [i for i in entry.instructions if i.opcode != "parameter"]
    for i in body:
        i.operands = [values.get(o, o) for o in i.operands]
    instructions += body
    results = _leaves(values.get(entry.root, entry.root), instructions)
    sizes = [
        make("get-dimension-size", r, name=f"size_{n}_{d}", dimensions=(d,))
        for n, r in enumerate(results)
        for d, mark in enumerate(r.shape.marks)
        if mark
    ]
    entry.root = make("tuple", *results, *sizes, name="results_and_sizes")
    entry.instructions = [*instructions, *sizes, entry.root]
    module.entry_layout, module.aliases = None, ()
    return module


def _leaves(value: Instruction, instructions: list[Instruction]) -> list[Instruction]:
    """The arrays of a value, by instructions that are appended."""
    if not value.shape.is_tuple:
        return [value]
    elements = [
        make("get-tuple-element", value, name=f"{value.name}_{n}", index=n) for n in range(len(value.shape.elements))
    ]
    instructions += elements
    return [leaf for e in elements for leaf in _leaves(e, instructions)]


def static_arguments(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arguments padded to their bounds, and their actual sizes."""
    arrays, sizes = [], []
    for x, p in zip(map(np.asarray, arguments), module.entry.parameters, strict=True):
        whole = x
        if p.shape.is_dynamic:
            whole = filler(p.shape)
            whole[tuple(map(slice, x.shape))] = x
            sizes += [np.asarray(n, np.int32) for n, mark in zip(x.shape, p.shape.marks, strict=True) if mark]
        arrays.append(whole)
    return [*arrays, *sizes]


def filler(shape: Shape) -> np.ndarray:
    """Elements that would show wherever they were used: NaN, and large numbers."""
    kind = shape.element_type.kind
    value = (
        np.nan if kind in ("float", "complex") else True if kind == "pred" else 77 if shape.element_type.bits > 4 else 1
    )
    return np.full(shape.dimensions, value).astype(shape.element_type.dtype)


class ImpossibleSizeError(Exception):
    """A result has a negative size, or one above the bound that its shape states."""


def at_their_sizes(module: Module, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the static form, each at its actual size. Raises ImpossibleSizeError."""
    stated = leaves(module.entry.root.shape)
    sizes = iter(results[len(stated) :])
    cut = []
    for r, s in zip(results, stated, strict=False):
        dims = tuple(int(next(sizes)) if mark else n for n, mark in zip(s.dimensions, s.marks, strict=True))
        if any(not 0 <= n <= bound for n, bound in zip(dims, s.dimensions, strict=True)):
            raise ImpossibleSizeError(f"a result of shape {s.without_layout()} has the sizes {list(dims)}")
        cut.append(r.reshape(-1)[: prod(dims)].reshape(dims) if s.is_dynamic else r)
    return cut
