"""Sums as C: multiply-adds, and segments.

The terms of a long sum are added in segments (analysis/contraction_order.py). Meanwhile a sum has two variables: the
*chain*, to which terms of the current segment are added, and the *total* of earlier segments. At the end of a segment,
the chain is added to the total and reset.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.index_expression import Index
from . import scalar
from .c_block import Block
from .element_builder import ElementBuilder
from .index_printer import c_of


def empty_sum(name: str) -> str:
    """The sum of no terms, of a floating-point or complex type: adding it changes no bit."""
    return scalar.literal(name, complex(-0.0, -0.0) if name[0] == "c" else -0.0)


def multiply_add(name: str, total: str, a: str, b: str) -> str:
    """The C expression of total + a * b in the accumulation type `name`: one fma, or a wrapping product and sum."""
    if name in ("f32", "f64"):
        return f"RX_FMA_{name.upper()}({a}, {b}, {total})"
    if name in ("c64", "c128"):
        part = "F32" if name == "c64" else "F64"
        real = f"RX_FMA_{part}(-{a}.y, {b}.y, RX_FMA_{part}({a}.x, {b}.x, {total}.x))"
        imag = f"RX_FMA_{part}({a}.y, {b}.x, RX_FMA_{part}({a}.x, {b}.y, {total}.y))"
        return f"({scalar.register_type(name)})({real}, {imag})"
    if name == "pred":
        return f"({total} | ({a} & {b}))"
    wide = "ulong" if name in ("s64", "u64") else "uint"
    return scalar.low_bits(name, f"(({wide}){total} + ({wide}){a} * ({wide}){b})")


@dataclass(frozen=True)
class SegmentedSum:
    """The two variables of a sum, C lvalues; `zero` is the initial value of a chain, `value` the C expression of the
    sum."""

    total: str
    chain: str
    zero: str
    value: str

    @staticmethod
    def of_numbers(name: str, total: str, chain: str, zero: str) -> SegmentedSum:
        """A sum in the accumulation type `name`."""
        return SegmentedSum(total, chain, zero, scalar.expression("add", (name, name), name, (total, chain)))

    @staticmethod
    def of_vectors(vector: str, total: str, chain: str) -> SegmentedSum:
        """A vector of sums, of the C type `vector`."""
        return SegmentedSum(total, chain, f"({vector})(0)", f"{total} + {chain}")

    def close(self, block: Block) -> None:
        """Emits the end of a segment."""
        block.line(f"{self.total} = {self.value};")
        block.line(f"{self.chain} = {self.zero};")


class ElementSum:
    """The sum for one element of a result, in loops whose terms are numbered, and which may leave terms out.

    It is accumulated in the type `name`, in segments of `segment` terms (0: one chain). `start` is the initial value of
    the sum, and `zero` that of the chain of a segment.
    """

    def __init__(self, e: ElementBuilder, name: str, segment: int, start: str, zero: str, block: Block) -> None:
        self.e, self.name, self.segment = e, name, segment
        self.chain = e.assign(name, zero if segment else start, block, changes=True)
        if segment:
            self.sum = SegmentedSum.of_numbers(name, e.assign(name, start, block, changes=True), self.chain, zero)
            self.open = e.names.fresh("segment")  # the number of the current segment
            block.line(f"int {self.open} = 0;")

    def begin(self, k: Index, block: Block) -> None:
        """Emits the start of a new segment, if term number k is the first present one of it."""
        if self.segment:
            number = f"(({c_of(k)}) >> {self.segment.bit_length() - 1})"
            with block.scope(f"if ({number} != {self.open})"):
                self.sum.close(block)
                block.line(f"{self.open} = {number};")

    def add(self, k: Index, a: str, b: str, block: Block) -> None:
        """Emits the addition of a * b, which is term number k."""
        self.begin(k, block)
        block.line(f"{self.chain} = {multiply_add(self.name, self.chain, a, b)};")

    def value(self, block: Block) -> str:
        """The C variable of the sum, when all terms have been added."""
        return self.e.assign(self.name, self.sum.value, block) if self.segment else self.chain
