"""Programs with dynamic shapes for XLA:CPU, which takes none as arguments, and reading the results that it gives.

A dynamic parameter becomes a static one at its bounds, filled with what must not matter, and s32[] sizes set by
set-dimension-size. Behind the results come their sizes. XLA:CPU returns a dynamic array as a buffer of the bound's
length that begins with the elements at their actual sizes, packed, in row-major order; the rest is arbitrary.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from refxla_spec.module import Instruction, Module
from refxla_spec.operation import make
from refxla_spec.text import parse
from refxla_spec.types import S32, Shape, Value, leaves


def static_entry(hlo: str) -> Module:
    """The program with static parameters, sizes behind them, and sizes behind its results, in a flat tuple."""
    module = parse(hlo)
    entry = module.entry
    count = len(entry.parameters)
    made: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    for p in entry.parameters:
        shape, value = p.shape, p
        made.append(p)
        p.shape = shape.static()
        for d, mark in enumerate(shape.marks):
            if mark:
                number = {"number": count + sum(i.name.startswith("size_of_") for i in made)}
                size = Instruction(f"size_of_{p.name}_{d}", "parameter", Shape(S32), [], number)
                value = make("set-dimension-size", value, size, name=f"{p.name}_{d}", dimensions=(d,))
                made += [size, value]
        replaced[p] = value
    body = [i for i in entry.instructions if i.opcode != "parameter"]
    for i in body:
        i.operands = [replaced.get(o, o) for o in i.operands]
    root = replaced.get(entry.root, entry.root)
    made += body
    elements = [root]
    if root.shape.is_tuple:
        elements = [
            make("get-tuple-element", root, name=f"result_{n}", index=n) for n in range(len(root.shape.elements))
        ]
        made += elements
    sizes = [
        make("get-dimension-size", e, name=f"size_{n}_{d}", dimensions=(d,))
        for n, e in enumerate(elements)
        for d, mark in enumerate(e.shape.marks)
        if mark
    ]
    entry.root = make("tuple", *elements, *sizes, name="results_and_sizes")
    entry.instructions = [*made, *sizes, entry.root]
    module.entry_layout = None
    return module


def garbage(shape: Shape) -> np.ndarray:
    """Elements that would be seen wherever they took part: NaN, and large numbers."""
    kind = shape.element_type.kind
    value = np.nan if kind in ("float", "complex") else True if kind == "pred" else 77
    return np.full(shape.dimensions, value, shape.element_type.dtype)


def xla_sized(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """What XLA:CPU computes for a program with dynamic parameters, at the sizes that the results have."""
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    shapes = [p.shape for p in parse(hlo).entry.parameters]
    arrays, sizes = [], []
    for x, shape in zip(inputs, shapes, strict=True):
        whole = garbage(shape) if shape.is_dynamic else np.asarray(x)
        if shape.is_dynamic:
            whole[tuple(map(slice, x.shape))] = x
            sizes += [np.int32(n) for n, mark in zip(x.shape, shape.marks, strict=True) if mark]
        arrays.append(whole)
    module = static_entry(hlo)
    results = oracle.xla_cpu(str(module), [*arrays, *sizes])
    stated = [s for s in leaves(parse(hlo).entry.root.shape)]
    counts = iter(results[len(stated) :])
    cut = []
    for r, s in zip(results, stated, strict=False):
        dims = tuple(int(next(counts)) if mark else n for n, mark in zip(s.dimensions, s.marks, strict=True))
        cut.append(r.reshape(-1)[: prod(dims)].reshape(dims) if s.is_dynamic and prod(dims) <= r.size else r)
    return cut


def listed(value: Value) -> list[np.ndarray]:
    return list(value) if isinstance(value, tuple) else [value]
