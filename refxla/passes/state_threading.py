"""Makes a hidden state a value, which each computation that uses it takes and returns changed.

Instructions use the state in the order that they have in the original program. A call or fusion gets the state as one
more operand, and returns a pair of its result and the new state; a loop's state and a branch's operand become pairs in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.operation import operation
from refxla_spec.types import Shape

from .._core.shapes import make
from .dce import called_first

CALLS = {"call": "to_apply", "fusion": "calls"}


@dataclass(frozen=True)
class State:
    """A state to thread: its shape, its initial value, a word for it in names, its description in error messages, with
    advice for a use in a computation that is applied to elements; whether an instruction uses it; and, for one that
    does, its result and the new state as a function of the old one."""

    shape: Shape
    initial: np.ndarray
    word: str
    description: str
    applied: str
    is_user: Callable[[Instruction], bool]
    replace: Callable[[Instruction, Instruction], tuple[Instruction, Instruction]]


def thread(module: Module, kind: State) -> tuple[int, Instruction | None]:
    """Threads the state through its users. Returns the number of instructions replaced and the state at the end of the
    entry.

    Raises UnsupportedError for a computation that uses it and is applied to elements, whose order HLO does not fix.
    """
    computations = called_first(module.entry)
    users = _users(computations, kind)
    if not users:
        return 0, None
    threaded: dict[Computation, Computation] = {}
    for c in computations:
        if c in users and c is not module.entry:
            threaded[c] = _Threading(kind, c, threaded).pair()
    count = sum(kind.is_user(i) for c in users for i in c.instructions)
    entry = _Threading(kind, module.entry, threaded)
    entry.in_place()
    module.computations = called_first(module.entry)
    return count, entry.state


def _users(computations: list[Computation], kind: State) -> set[Computation]:
    """The computations that use the state, or call one that does, callees first."""
    users: set[Computation] = set()
    for c in computations:
        if any(kind.is_user(i) or any(d in users for d in i.called) for i in c.instructions):
            users.add(c)
    return users


class _Threading:
    """One pass over a computation: `state` is the state before the instruction at hand."""

    def __init__(self, kind: State, computation: Computation, threaded: dict[Computation, Computation]) -> None:
        self.kind, self.computation, self.threaded = kind, computation, threaded
        self.copies: dict[Instruction, Instruction] = {}
        self.order: list[Instruction] = []
        self.ordered: set[Instruction] = set()  # those in `order`
        self.count = 0
        self.state: Instruction

    def add(self, instruction: Instruction) -> Instruction:
        """Adds an instruction, and before it those of its operands that are new."""
        stack = [instruction]
        while stack:
            i = stack[-1]
            waiting = [o for o in i.operands if o not in self.ordered]
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                if i not in self.ordered:
                    self.ordered.add(i)
                    self.order.append(i)
        return instruction

    def in_place(self) -> None:
        """Rewrites the entry, which keeps its signature: the initial state is a constant."""
        self.state = self.add(
            make("constant", name=f"{self.kind.word}_state", shape=self.kind.shape, literal=self.kind.initial)
        )
        self.walk(self.computation.instructions)
        self.computation.instructions = self.order
        self.computation.root = self.copies[self.computation.root]

    def pair(self) -> Computation:
        """A copy of the computation with pairs for its parameter and its result: (the old parameter or a tuple of
        several, the state) and (the old result, the new state)."""
        parameters = self.computation.parameters
        shapes = [p.shape for p in parameters]
        shape = shapes[0] if len(shapes) == 1 else Shape.tuple_of(*shapes)
        name = f"{self.computation.name}.{self.kind.word}"
        whole = Instruction(f"{name}.in", "parameter", Shape.tuple_of(shape, self.kind.shape), [], {"number": 0})
        self.add(whole)
        arguments = self.add(make("get-tuple-element", whole, name=f"{name}.given", index=0))
        self.state = self.add(make("get-tuple-element", whole, name=f"{name}.state", index=1))
        for n, p in enumerate(parameters):
            one = len(shapes) == 1
            self.copies[p] = arguments if one else self.add(make("get-tuple-element", arguments, name=p.name, index=n))
        self.walk([i for i in self.computation.instructions if i.opcode != "parameter"])
        root = self.add(make("tuple", self.copies[self.computation.root], self.state, name=f"{name}.out"))
        return Computation(name, self.order, root)

    def walk(self, instructions: list[Instruction]) -> None:
        for i in instructions:
            i.operands = [self.copies[o] for o in i.operands]
            i.control_predecessors = [self.copies[o] for o in i.control_predecessors]
            self.copies[i] = self.add(self.replaced(i))

    def replaced(self, i: Instruction) -> Instruction:
        if self.kind.is_user(i):
            self.count += 1
            result, after = self.kind.replace(i, self.state)
            self.state = self.add(after)
            return result
        if not any(c in self.threaded for c in i.called):
            return i
        if i.opcode in CALLS:
            value = i.operands[0] if len(i.operands) == 1 else make("tuple", *i.operands, name=f"{i.name}.given")
            callee = self.threaded[i.attributes[CALLS[i.opcode]]]
            return self.opened(
                make("call", self.pair_with_state(i, value), name=f"{i.name}.{self.kind.word}", to_apply=callee)
            )
        if i.opcode == "while":
            return self.opened(self.loop(i))
        if i.opcode == "conditional":
            return self.opened(self.conditional(i))
        raise UnsupportedError(
            f"{i.name}: {i.opcode} applies {i.called[0].name}, which uses {self.kind.description}, in no order that "
            f"HLO fixes; {self.kind.applied}"
        )

    def loop(self, i: Instruction) -> Instruction:
        """A loop whose state is a pair. If the condition changes the hidden state, which HLO's conditions cannot
        return, it is computed before the loop and at the end of the body, and its value is part of the state."""
        given = self.pair_with_state(i, i.operands[0])
        name = f"{i.name}.{self.kind.word}"
        condition, body = self.threaded.get(i.condition), self.threaded.get(i.body)
        if condition is None:
            assert body is not None
            return make("while", given, name=name, condition=self.without_state(i.condition), body=body)
        body = body or self.without_state(i.body, gives_pair=True)

        def with_predicate(pair: Instruction, prefix: str) -> list[Instruction]:
            """The instructions that compute ((value, new state), predicate) of (value, state); the last one is it."""
            tested = make("call", pair, name=f"{prefix}.tested", to_apply=condition)
            predicate = make("get-tuple-element", tested, name=f"{prefix}.predicate", index=0)
            state = make("get-tuple-element", tested, name=f"{prefix}.state", index=1)
            value = make("get-tuple-element", pair, name=f"{prefix}.value", index=0)
            after = make("tuple", value, state, name=f"{prefix}.pair")
            return [tested, predicate, state, value, after, make("tuple", after, predicate, name=f"{prefix}.out")]

        first = with_predicate(given, f"{name}.first")[-1]
        inner = Instruction(f"{name}.body.in", "parameter", first.shape, [], {"number": 0})
        pair = make("get-tuple-element", inner, name=f"{name}.body.given", index=0)
        called = make("call", pair, name=f"{name}.body.called", to_apply=body)
        following = with_predicate(called, f"{name}.body")
        whole = Instruction(f"{name}.condition.in", "parameter", first.shape, [], {"number": 0})
        test = make("get-tuple-element", whole, name=f"{name}.condition.out", index=1)
        rotated = make(
            "while", first, name=f"{name}.rotated",
            condition=Computation(f"{name}.condition", [whole, test], test),
            body=Computation(f"{name}.body", [inner, pair, called, *following], following[-1]),
        )  # fmt: skip
        return make("get-tuple-element", rotated, name=name, index=0)

    def conditional(self, i: Instruction) -> Instruction:
        attributes: dict[str, Any] = {  # the branches; annotations are not copied
            k: tuple(self.threaded.get(c) or self.without_state(c, True) for c in v)
            if isinstance(v, tuple)
            else self.threaded.get(v) or self.without_state(v, True)
            for k, v in i.attributes.items()
            if k in operation("conditional").attributes
        }
        operands = [self.pair_with_state(i, o, n) for n, o in enumerate(i.operands[1:])]
        return make("conditional", i.operands[0], *operands, name=f"{i.name}.{self.kind.word}", **attributes)

    def pair_with_state(self, i: Instruction, value: Instruction, number: int = 0) -> Instruction:
        return make("tuple", value, self.state, name=f"{i.name}.in.{number}")

    def opened(self, pair: Instruction) -> Instruction:
        """The result of an operation that returns a pair; the other half becomes the state."""
        self.add(pair)
        self.state = self.add(make("get-tuple-element", pair, name=f"{pair.name}.state", index=1))
        return make("get-tuple-element", pair, name=f"{pair.name}.result", index=0)

    def without_state(self, computation: Computation, gives_pair: bool = False) -> Computation:
        """A computation that does not use the state, as one that takes it: a condition or, with `gives_pair`, a branch
        or body."""
        (p,) = computation.parameters
        name = f"{computation.name}.{self.kind.word}"
        whole = Instruction(f"{name}.in", "parameter", Shape.tuple_of(p.shape, self.kind.shape), [], {"number": 0})
        value = make("get-tuple-element", whole, name=f"{name}.given", index=0)
        called = make("call", value, name=f"{name}.call", to_apply=computation)
        instructions = [whole, value, called]
        if gives_pair:
            state = make("get-tuple-element", whole, name=f"{name}.state", index=1)
            instructions += [state, make("tuple", called, state, name=f"{name}.out")]
        return Computation(name, instructions, instructions[-1])
