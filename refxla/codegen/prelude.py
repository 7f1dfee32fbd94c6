"""The prelude: refxla's own scalar functions in OpenCL C, and the choice of those a program needs.

The functions are written as templates (prelude_templates.py). Only those that a program calls, and those that these
need, are written out, as a linker resolves symbols.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from .prelude_templates import DEFINITION, Template, templates

MOST_INLINED = 16  # calls of a function, each of which is compiled for itself
_FAST = "_fast_"  # in the names of functions for loops over many moderate operands

_NAME = re.compile(r"\brx_\w+")
_CONTROL_FLOW = re.compile(r"\b(?:if|for|while|do|switch)\b")
_INLINING = re.compile(r"\bRX_(?:NOINLINE|UNOPTIMIZED|INLINE)\b")


@dataclass(frozen=True)
class PreludeFunction:
    """A function of the prelude, of certain types."""

    name: str
    text: str  # with the comment above it
    needs: tuple[str, ...]  # the functions that it calls, and those that its comments refer a reader to
    calls: frozenset[str]
    may_be_inlined: bool  # it has no control flow, and does not say itself whether it is inlined

    @property
    def inlined_text(self) -> str:
        """The text of the function as one that is always inlined."""
        return DEFINITION.sub(r"\g<0>RX_INLINE ", self.text, count=1)


def functions(source: str, inlining: bool = False, apart: Collection[str] = ()) -> str:
    """The text of the prelude functions that `source` calls, directly or through each other, in an order that compiles;
    without those `apart`, and without what only they call.

    A device's compiler vectorizes a loop only if it inlines what the loop calls, and it does not inline a long function
    more than once. `inlining`: functions without control flow that `source` calls a few times, or that are there for
    loops over many elements (scalar.fast_path), are always inlined, with what they call.

    Raises KeyError if the source names an rx_ function that the prelude does not define.
    """
    called = Counter(_NAME.findall(source))
    inlined: set[str] = set()
    if inlining:
        few = [f for f, n in called.items() if f in names() and (n > 1 or _FAST in f) and n <= MOST_INLINED]
        inlined.update(*map(_inlined_with, few))
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in texts and name not in apart:
            found = function(name)
            for other in found.needs:
                add(other)
            texts[name] = found.inlined_text if name in inlined else found.text

    for name in called:
        add(name)
    return "\n".join(texts.values())


def sizes(source: str, apart: Collection[str] = ()) -> dict[str, int]:
    """The characters of each function of the prelude that `source` calls, directly or through others, by its name; 0 of
    those `apart`, and nothing of what only they call."""
    found: dict[str, int] = {}
    pending = [name for name in _NAME.findall(source) if name in names()]
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = 0 if name in apart else len(function(name).text)
            pending += () if name in apart else function(name).calls
    return found


@cache
def _inlined_with(name: str) -> frozenset[str]:
    """A function and all that it calls, directly or not, if all of them may be inlined; else nothing."""
    closure, pending = {name}, [name]
    while pending:
        found = function(pending.pop())
        if not found.may_be_inlined:
            return frozenset()
        pending += found.calls - closure
        closure |= found.calls
    return frozenset(closure)


@cache
def names() -> frozenset[str]:
    """The names of all functions of the prelude, such as rx_exponential_f32."""
    return frozenset(_templates())


@cache
def libraries() -> Mapping[str, str]:
    """The name of the function library (function_library.py) of each function that belongs to one."""
    return {name: template.library for name, template in _templates().items() if template.library}


@cache
def function(name: str) -> PreludeFunction:
    """The function of that name. Raises KeyError if there is none."""
    text = _templates()[name].instantiate()
    code = re.sub("//.*", "", text)
    return PreludeFunction(
        name,
        text,
        needs=tuple(dict.fromkeys(other for other in _NAME.findall(text) if other != name)),
        calls=frozenset(_NAME.findall(code)) - {name},
        may_be_inlined=not _CONTROL_FLOW.search(code) and not _INLINING.search(code),
    )


@cache
def _templates() -> dict[str, Template]:
    """All functions, by their names."""
    return {template.name: template for template in templates()}
