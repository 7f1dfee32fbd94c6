"""The cases: programs about one operation each, and their expected results.

There are two kinds of cases. A *value case* is a program, its inputs, and its results: either `expected`, written by
hand, or, if that is None, the reference's results within the bounds of the accuracy contract. A *negative case* is a
program that breaks a rule, which a verifier must reject; its `constraint` is the rule's label.

There is no list of the cases. Every module of this package and its subpackages that defines

    cases(thorough: bool) -> Iterator[Case]

is called: for the default set, which runs in minutes on two cores, or with `thorough` for all its cases (including the
default set). Names are unique and the same in every run, and so is everything else about a case: random values come
from `seeded(name)`.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
from refxla_spec import text
from refxla_spec.devices import device_counts
from refxla_spec.errors import InputError
from refxla_spec.lexer import suggestion
from refxla_spec.module import Module
from refxla_spec.operation import operations
from refxla_spec.types import Value

KINDS = {
    "example": "the examples of the specification, with the results stated there",
    "counterexample": "for each constraint of each operation, a program that violates it",
    "edge": "elementwise operations on the edge values of each element type",
    "structured": "generated programs over the attributes of the structured operations",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One program about one operation.

    `name` is unique and begins with the kind and the opcode: "edge/add/f32/0". `hlo` is a module as text, or only the
    lines of its entry computation. `inputs` has one value for each parameter; for a program for several devices, all
    inputs of the first device come first, then all of the second. `expected` has one array for each leaf of the result,
    likewise device by device; None: the reference's. Programs for several devices, and those with a host, have results
    that are exact: sums in another order give the same.

    `before` are the arguments of earlier calls: the program is loaded once, called with these one after another, and
    then with `inputs`. The last call's result is checked, and that it changes no earlier result.

    `infeed` is None for most; () or values for a program with infeeds or outfeeds, whose infeeds get these values in
    order; the values of outfeeds follow in `expected` after the result. `constraint` is "" for a value case, and for a
    negative case the label of the broken rule, such as "add_c1" or "S4". `type` is the HLO name of the element type
    that the case is about; if it is "", see `element_type`.
    """

    name: str
    kind: str
    opcode: str
    hlo: str
    inputs: tuple[Value, ...] = ()
    expected: tuple[np.ndarray, ...] | None = None
    constraint: str = ""
    type: str = ""
    note: str = ""
    infeed: tuple[Value, ...] | None = None
    before: tuple[tuple[Value, ...], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # cached values are not pickled

    @property
    def is_negative(self) -> bool:
        """Whether the program must be rejected."""
        return bool(self.constraint)

    @cached_property
    def module(self) -> Module:
        """The program, parsed. Raises ParseError, or InvalidProgramError for errors that the text already shows."""
        return text.parse(self.hlo)

    @cached_property
    def element_type(self) -> str:
        """The element type the case is about: the first operand's of the operation, or its result's; "" if unknown."""
        if self.type or self.is_negative:
            return self.type
        for i in self.module.instructions():
            if i.opcode == self.opcode:
                return (i.operands[0] if i.operands else i).shape.element_type.name
        return ""

    @property
    def devices(self) -> int:
        """How many devices the program runs on: its replicas times its partitions, as the header says."""
        return prod(device_counts(self.module))


def collect(
    opcodes: Collection[str] = (), kinds: Collection[str] = (), names: Collection[str] = (), thorough: bool = False
) -> list[Case]:
    """The cases of these operations, kinds and names (patterns such as "edge/add/*"), in order; () does not restrict.

    Raises InputError for an unknown opcode or kind.
    """
    for opcode in opcodes:
        if opcode not in operations():
            hint = suggestion(opcode, operations())
            raise InputError(f"{opcode!r} is not an operation of the specification{hint}")
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not a kind of case; there are: {', '.join(KINDS)}")
    return [
        case
        for generator in generators(kinds)
        for case in cases_of(generator, thorough)
        if (not opcodes or case.opcode in opcodes)
        and (not kinds or case.kind in kinds)
        and (not names or any(fnmatchcase(case.name, pattern) for pattern in names))
    ]


@cache
def cases_of(generator: Callable[[bool], Iterator[Case]], thorough: bool) -> tuple[Case, ...]:
    """The cases of a generator, created once per process: they are the same at every call."""
    return tuple(generator(thorough))


def generators(kinds: Collection[str] = ()) -> Iterator[Callable[[bool], Iterator[Case]]]:
    """The function `cases` of every module of this package that has one, and that may have cases of these kinds.

    A module or subpackage named after a kind (examples, edges, structured) has only cases of that kind.
    """
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        name = info.name.removeprefix(f"{__name__}.").split(".")[0]
        own = name if name in KINDS else name.removesuffix("s")
        if kinds and own in KINDS and own not in kinds:
            continue
        module = importlib.import_module(info.name)
        if hasattr(module, "cases"):
            yield module.cases


def seeded(name: str) -> np.random.Generator:
    """Random numbers that depend only on the name."""
    return np.random.default_rng(zlib.crc32(name.encode()))
