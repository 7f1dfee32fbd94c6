"""Dead code elimination: removes instructions that no result depends on, and computations that nothing calls."""

from __future__ import annotations

from collections.abc import Callable

from refxla_spec.custom_calls import TARGETS
from refxla_spec.module import Computation, Instruction, Module, post_order


def run(module: Module) -> int:
    """Removes dead code. Parameters stay, since they are the signature. Returns the number of instructions removed."""
    before = sum(len(c.instructions) for c in module.computations)
    for computation in module.computations:
        live = set(post_order(computation.root))
        computation.instructions = [i for i in computation.instructions if i in live or i.opcode == "parameter"]
    module.computations = called_first(module.entry)
    return before - sum(len(c.instructions) for c in module.computations)


def called_first(entry: Computation) -> list[Computation]:
    """The computations that the entry calls, directly or indirectly, callees first; the entry comes last."""
    order: list[Computation] = []
    visited: set[Computation] = set()
    stack: list[tuple[Computation, bool]] = [(entry, False)]
    while stack:
        computation, done = stack.pop()
        if done:
            order.append(computation)
        elif computation not in visited:
            visited.add(computation)
            stack.append((computation, True))
            calling = (i for i in reversed(computation.instructions) if i.attributes)
            stack.extend((c, False) for i in calling for c in reversed(i.called))
    return order


def rewrite(computation: Computation, rule: Callable[[Instruction], Instruction | None]) -> int:
    """Replaces instructions by what a rule returns for them, operands first, so that the rule sees rewritten operands.
    A rule that returns None leaves the instruction. Returns the number of replacements."""
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        replacement = rule(i)
        if replacement is not None:
            replaced[i] = replacement
    if replaced:
        settle(computation, replaced)
    return len(replaced)


def settle(computation: Computation, replaced: dict[Instruction, Instruction]) -> None:
    """Completes a rewrite that has replaced instructions in all operands: updates the root and the order."""
    computation.root = replaced.get(computation.root, computation.root)
    for i in computation.instructions:
        i.control_predecessors = []
    sort(computation)


def sort(computation: Computation, instructions: list[Instruction] | None = None) -> None:
    """Sorts instructions topologically and removes dead ones, except parameters and calls with side effects: nothing
    depends on those until their order is a value (host_call_threading.py)."""
    members = instructions or computation.instructions
    parameters = [i for i in members if i.opcode == "parameter"]
    acting = [i for i in members if acts(i)]
    if acting:
        order = list(dict.fromkeys([*post_order(acting[0], acting[1:]), *post_order(computation.root)]))
    else:
        order = post_order(computation.root)
    computation.instructions = parameters + [i for i in order if i.opcode != "parameter"]


def acts(i: Instruction) -> bool:
    """Whether an instruction is, or runs, a custom call with side effects."""
    if i.opcode == "custom-call":  # except the specification's markers
        return bool(i.attributes.get("custom_call_has_side_effect")) and i.custom_call_target not in TARGETS
    return bool(i.attributes) and any(acts(j) for c in i.called for j in c.instructions)
