"""scan as a while loop with one iteration for each index of its dimension, as its page in the specification says."""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction

from ...ir.builder import Build, copied


def _expand(i: Instruction) -> Instruction:
    b, carries, (d,) = Build(i.name), i.num_carries, i.dimensions
    count = len(i.operands) - carries
    inputs, inits = i.operands[:count], i.operands[count:]
    results = i.shape.elements or (i.shape,)
    outputs = [b.full(0, s) for s in results[: len(results) - carries]]
    size = inputs[0].shape.dimensions[d]

    def iteration(k: Instruction, *values: Instruction) -> list[Instruction]:
        stacks, carried, inputs = values[: len(outputs)], values[len(outputs) : len(results)], values[len(results) :]
        at = b.subtract(b.scalar(size - 1, k.shape.element_type), k) if i.is_reverse else k
        slices = [_without(b, b.part(x, d, at, 1), d) for x in inputs]
        root = applied(b, i.to_apply, [*slices, *carried])
        parts = root.operands if root.opcode == "tuple" else [root]
        if root.shape.is_tuple and root.opcode != "tuple":
            parts = [b.make("get-tuple-element", root, index=n) for n in range(len(root.shape.elements))]
        new = [
            b.put(x, b.reshape(p, (*p.shape.dimensions[:d], 1, *p.shape.dimensions[d:])), d, at)
            for x, p in zip(stacks, parts, strict=False)
        ]
        return [*new, *parts[len(outputs) :]]

    state = [*outputs, *inits]
    if size:
        state = b.repeat(size, iteration, state, inputs)
    return b.tuple(*state) if i.shape.is_tuple else state[0]


def _without(b: Build, x: Instruction, d: int) -> Instruction:
    """x without its dimension d, of size 1."""
    return b.reshape(x, x.shape.dimensions[:d] + x.shape.dimensions[d + 1 :])


def applied(b: Build, computation: Computation, operands: list[Instruction]) -> Instruction:
    """The result of a computation on these operands: copies of its instructions."""
    copies: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        if i.opcode == "parameter":
            copies[i] = operands[i.attributes["number"]]
        else:
            b.count += 1
            copies[i] = copied(i, f"{b.name}.{b.count}", [copies[o] for o in i.operands])
    return copies[computation.root]


EXPANSIONS = {"scan": _expand}
