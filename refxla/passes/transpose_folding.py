"""Folds transposes of matrix products into the products.

    transpose(dot(x, y)) -> dot(y, x)
    transpose(dot(x, y)) -> transpose(dot(y, x)), where the last dimension then stays in its place

Each element is the same sum in the same order, with the factors of each product exchanged, so the bits are the same. (A
complex product consists of real ones, whose order would change.) Gradients of weights are transposes of the first kind,
and need no kernel of their own then; attention has one of the second kind, which moves whole rows then.

    dot(transpose(x), y) -> dot(x, y) with other dimension numbers

is done by `transpose_sinking.py`, before it is decided which dots are matrix products: `with_operands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from refxla_spec.module import Computation, Instruction, Module

from .._core.shapes import make
from .dce import rewrite

LEAST_MATRIX = 64  # elements of a matrix, from which on a transpose that brings them together is kept
_SIDES = ("batch_dims", "contracting_dims")


def run(module: Module) -> int:
    """Rewrites all such transposes. Returns their number."""
    return sum(_rewrite_all(c) for c in module.computations)


def _rewrite_all(computation: Computation) -> int:
    users: dict[Instruction, int] = {}
    for i in computation.instructions:
        for o in i.operands:
            users[o] = users.get(o, 0) + 1

    def folded(i: Instruction) -> Instruction | None:
        if i.opcode != "transpose" or i.operands[0] is computation.root:
            return None
        dot = i.operands[0]
        return exchanged(i, dot) if dot.opcode == "dot" and users.get(dot) == 1 else None

    return rewrite(computation, folded)


def with_operands(dot: Instruction) -> Instruction | None:
    """A dot with the transposes of its operands folded into its dimension numbers, where free dimensions keep their
    order and no matrix of a batch comes to lie across memory; None without such transposes, or for another
    operation."""
    if dot.opcode != "dot":
        return None
    attributes, operands = dict(dot.attributes), list(dot.operands)
    for n, side in enumerate(("lhs", "rhs") if len(operands) == 2 else ()):
        x = operands[n]
        roles = [name for name in (f"{side}_batch_dims", f"{side}_contracting_dims") if name in attributes]
        taken = {d for name in roles for d in attributes[name]}
        free = [d for place, d in enumerate(x.dimensions) if place not in taken] if x.opcode == "transpose" else []
        if x.opcode == "transpose" and free == sorted(free) and not _spreads_matrices(x, attributes, side):
            operands[n] = x.operands[0]
            attributes |= {name: tuple(x.dimensions[d] for d in attributes[name]) for name in roles}
    if operands == dot.operands:
        return None
    return Instruction(dot.name, dot.opcode, dot.shape, operands, attributes, dot.metadata)


def _spreads_matrices(transpose: Instruction, attributes: Mapping[str, Any], side: str) -> bool:
    """Whether the innermost dimension of a transpose's operand is one of the batch, and that of the transpose is not:
    the elements of a matrix would lie apart. (Those of small matrices may: vectors then have one of each.)"""
    batch = attributes.get(f"{side}_batch_dims", ())
    last, sizes = transpose.shape.rank - 1, transpose.shape.dimensions
    spreads = last not in batch and transpose.dimensions.index(last) in batch
    return spreads and prod(n for d, n in enumerate(sizes) if d not in batch) >= LEAST_MATRIX


def exchanged(transpose: Instruction, dot: Instruction) -> Instruction | None:
    """The same value, computed by the dot with its operands exchanged; None if nothing is gained."""
    lhs, rhs = dot.operands[:2]
    batch, order = len(dot.attributes.get("lhs_batch_dims", ())), tuple(transpose.dimensions)
    left = lhs.shape.rank - batch - len(dot.lhs_contracting_dims)
    right = dot.shape.rank - batch - left
    if len(dot.operands) != 2 or dot.shape.element_type.is_complex or not left or not right:
        return None
    # The position of each dimension when those of the right side come first.
    place = [*range(batch), *(batch + right + d for d in range(left)), *(batch + d for d in range(right))]
    after = tuple(place[d] for d in order)
    if after[-1] != dot.shape.rank - 1 or transpose.shape.dimensions[-1] == 1:
        return None
    attributes = dict(dot.attributes)
    for side in _SIDES:
        for new, old in (("lhs", "rhs"), ("rhs", "lhs")):
            if f"{old}_{side}" in dot.attributes:
                attributes[f"{new}_{side}"] = dot.attributes[f"{old}_{side}"]
    if "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    dimensions = [0] * dot.shape.rank
    for d, n in zip(place, dot.shape.dimensions, strict=True):
        dimensions[d] = n
    moved = after != tuple(range(len(after)))
    name = dot.name if moved else transpose.name
    product = make("dot", rhs, lhs, name=name, shape=dot.shape.with_dimensions(tuple(dimensions)), **attributes)
    return make("transpose", product, name=transpose.name, dimensions=after) if moved else product
