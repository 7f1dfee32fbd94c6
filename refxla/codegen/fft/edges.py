"""The first and the last pass of a stage as C functions that read memory, or write it, directly.

They are for adjacent lanes, as in the columns of an array. Separate steps for loading and storing would write and read
all vectors once more, in a cache that is not the first. (Rows would be read at more addresses a power of two apart than
a cache has ways.)
"""

from __future__ import annotations

from ..c_block import Block
from .passes import Butterfly, Parts


def first(radix: int, p: Parts, swapped: bool) -> str:
    """fft_first: the pass from `from`, whose elements are `apart` complex numbers from each other, to vectors. `m` and
    `w` are those of passes.function. A `swapped` one exchanges real and imaginary parts."""
    block = Block()
    with (
        block.scope(
            f"void fft_first{'_swapped' * swapped}_{radix}_{p.name}(__global const {p.scalar}* restrict from, "
            f"const long apart, __global {p.vector}* restrict to, const int m, __global const {p.scalar}* restrict w)"
        ),
        block.scope("for (int p = 0; p < m; ++p)"),
    ):
        block.line(f"typedef {p.vector} __attribute__((aligned(sizeof({p.scalar})))) loose_vector;")
        block.line(f"__global {p.vector}* const y = to + {2 * radix} * p;")
        block.line(f"__global const {p.scalar}* const u = w + {2 * (radix - 1)} * p;")
        b = Butterfly(p, block)
        elements = []
        for j in range(radix):
            place = f"(__global const loose_vector*)(from + 2 * apart * (p + {j} * m))"
            block.line(f"const {p.vector} a{j} = ({place})[0], b{j} = ({place})[1];")
            parts = (f"({p.vector})(a{j}.{lanes}, b{j}.{lanes})" for lanes in ("even", "odd"))
            elements.append(b.let(*(reversed(list(parts)) if swapped else parts)))
        for k, value in enumerate(b.transform(elements)):
            if k:
                value = b.rotate(value, f"({p.vector})(u[{2 * k - 2}])", f"({p.vector})(u[{2 * k - 1}])")
            block.line(f"y[{2 * k}] = {value[0]};")
            block.line(f"y[{2 * k + 1}] = {value[1]};")
    return block.text()


def final(radix: int, p: Parts, swapped: bool, divided: bool) -> str:
    """fft_final: the pass from vectors to `to`, whose elements are `apart` complex numbers from each other, divided by
    `divisor`. `s` is that of passes.function; m is 1."""
    block, divisor = Block(), f", const {p.scalar} divisor" if divided else ""
    with (
        block.scope(
            f"void fft_final{'_swapped' * swapped}{'_divided' * divided}_{radix}_{p.name}("
            f"__global const {p.vector}* restrict from, const int s, __global {p.scalar}* restrict to, "
            f"const long apart{divisor})"
        ),
        block.scope("for (int q = 0; q < s; ++q)"),
    ):
        block.line(f"typedef {p.vector} __attribute__((aligned(sizeof({p.scalar})))) loose_vector;")
        block.line(f"__global const {p.vector}* const x = from + 2 * q;")
        b = Butterfly(p, block)
        results = b.transform([b.let(f"x[{2 * j} * s]", f"x[{2 * j} * s + 1]") for j in range(radix)])
        pairs = [f"{part}{{0}}.s{lane:x}" for lane in range(p.lanes) for part in "ab"]
        for k, value in enumerate(results):
            re, im = (f"{part}{' / divisor' * divided}" for part in (reversed(value) if swapped else value))
            block.line(f"const {p.vector} a{k} = {re}, b{k} = {im};")
            block.line(f"__global loose_vector* const y{k} = (__global loose_vector*)(to + 2 * apart * (q + {k} * s));")
            for n, half in enumerate((pairs[: p.lanes], pairs[p.lanes :])):
                block.line(f"y{k}[{n}] = ({p.vector})({', '.join(half).format(k)});")
    return block.text()
