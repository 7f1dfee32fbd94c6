"""Dead code elimination: removes instructions that no result depends on, and computations that nothing calls."""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, Module, post_order


def run(module: Module) -> int:
    """Remove what is dead; parameters stay, since they are the signature. Returns how many instructions went."""
    before = sum(len(c.instructions) for c in module.computations)
    for computation in module.computations:
        live = set(post_order(computation.root))
        computation.instructions = [i for i in computation.instructions if i in live or i.opcode == "parameter"]
    module.computations = called_first(module.entry)
    return before - sum(len(c.instructions) for c in module.computations)


def called_first(entry: Computation) -> list[Computation]:
    """The computations that the entry calls, directly or not, each after those it calls; the entry is the last."""
    order: list[Computation] = []
    seen: set[Computation] = set()
    stack: list[tuple[Computation, bool]] = [(entry, False)]
    while stack:
        computation, done = stack.pop()
        if done:
            order.append(computation)
        elif computation not in seen:
            seen.add(computation)
            stack.append((computation, True))
            calling = (i for i in reversed(computation.instructions) if i.attributes)
            stack.extend((c, False) for i in calling for c in reversed(i.called))
    return order


def settle(computation: Computation, replaced: dict[Instruction, Instruction]) -> None:
    """End a rewrite that has put instructions in the place of others in all operands: the root, and the order."""
    computation.root = replaced.get(computation.root, computation.root)
    for i in computation.instructions:
        i.control_predecessors = []
    sort(computation)


def sort(computation: Computation, instructions: list[Instruction] | None = None) -> None:
    """Put instructions in an order where each follows its operands; dead ones, except parameters, go away."""
    parameters = [i for i in instructions or computation.instructions if i.opcode == "parameter"]
    order = post_order(computation.root, parameters)
    computation.instructions = parameters + [i for i in order if i.opcode != "parameter"]
