"""Rules for single elements: generators that request elements of operands, run on an explicit stack.

A rule yields (instruction, indices) for each element that it needs, is sent the answer, and returns its own value: a C
variable where code is written (codegen/elemental_rules.py), a name of the value where loads are only recorded
(access_patterns.py), and a tuple of these for an instruction with several results. Since no rule calls another one, a
chain of a hundred thousand instructions does not overflow the stack.
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
    """The result of a rule. `recall` answers its requests from memory; those for which it returns None are answered by
    their own rules, and `remember` gets these answers."""
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
