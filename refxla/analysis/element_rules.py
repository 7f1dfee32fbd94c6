"""Rules for single elements: generators that ask for elements of operands, run on a stack of their own.

A rule yields (instruction, indices) for each element that it needs, is sent what that is, and returns its own: a C
variable where code is written (codegen/elemental_rules.py), a name of the value where loads are only noted
(access_patterns.py); for an instruction with several results a tuple of them. Since no rule calls another one, a chain
of a hundred thousand instructions is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from refxla_spec.module import Instruction

from .index_maps import Indices

Request = tuple[Instruction, Indices]
Rule = Generator[Request, Any, Any]


def run_rule(
    rule: Rule,
    rule_of: Callable[[Instruction, Indices], Rule],
    recall: Callable[[Request], Any],
    remember: Callable[[Request, Any], None],
) -> Any:
    """What a rule returns, its requests answered by what `recall` knows of them (None: nothing) or by their own rules,
    whose answers are given to `remember`."""
    stack: list[tuple[Request | None, Rule]] = [(None, rule)]
    answer = None
    while stack:
        request, rule = stack[-1]
        try:
            question = rule.send(answer)
        except StopIteration as stop:
            answer = stop.value
            if request is not None:
                remember(request, answer)
            stack.pop()
            continue
        answer = recall(question)
        if answer is None:
            stack.append((question, rule_of(*question)))
    return answer
