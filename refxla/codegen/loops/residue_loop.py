"""Loops in which an iteration computes one element of each residue of the index, without a test of the residue.

A pad between elements has its operand's elements at each second, third, ... index, and padding at the others. A loop
over single elements divides each index and reads under a condition, which takes a gather. In a loop over periods every
element of an iteration is known to be one or the other, reads are contiguous, and clang interleaves the stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...analysis.index_expression import Index, constant, variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from .index_set_splitting import Range
from .strip_mining import StripMinedLoop

MOST_RESIDUES = 8  # elements of an iteration: clang interleaves stores up to this distance
MOST_STATEMENTS = 256  # elements of an iteration times instructions of the fusion


def emit(
    e: ElementalIrEmitter,
    block: Block,
    strip: StripMinedLoop,
    within: Range,
    period: int,
    body: Callable[[Index], None],
) -> None:
    """Writes the loop over those indices of a strip that lie in a range of at least 2 * `period`.

    Elements before the first whole period and after the last one are computed one by one: those of a whole range are
    known, those of a part of it are in loops of their own.
    """
    (low, high), c_type = within, strip.c_type
    if strip.whole:
        periods = (high - low + 1) // period
        with _iterations(e, block, c_type, "0", str(periods)) as name:
            _emit_period(variable(name, 0, periods - 1) * period + low, period, body)
        for at in range(low + periods * period, high + 1):
            with block.scope():
                body(constant(at))
        return
    _, first, last = strip.bounds(within)
    begin, end, from_, to = (e.names.fresh(prefix) for prefix in "bebe")
    block.line(f"const {c_type} {begin} = {first}, {end} = {last};")
    block.line(f"const {c_type} {from_} = ({begin} + {period - 1}) / {period}, {to} = {end} / {period};")

    def emit_elements(first: str, last: str) -> None:
        with _iterations(e, block, c_type, first, last) as name:
            body(variable(name, low, high))

    emit_elements(begin, f"({end} < {from_} * {period} ? {end} : {from_} * {period})")
    with _iterations(e, block, c_type, from_, to) as name:
        _emit_period(variable(name, -(-low // period), (high + 1) // period - 1) * period, period, body)
    emit_elements(f"({from_} > {to} ? {from_} : {to}) * {period}", end)


@contextmanager
def _iterations(e: ElementalIrEmitter, block: Block, c_type: str, first: str, last: str) -> Iterator[str]:
    """A loop from `first` up to `last`; gives the name of its index."""
    name = e.names.fresh("i")
    with block.scope(f"for ({c_type} {name} = {first}; {name} < {last}; ++{name})"):
        yield name


def _emit_period(first: Index, period: int, body: Callable[[Index], None]) -> None:
    """The statements of the elements from `first` on, which share what they have in common."""
    for residue in range(period):
        body(first + residue)
