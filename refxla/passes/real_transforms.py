"""Computes Fourier transforms between real numbers, which a program writes as complex ones, with half of the work.

    real(ifft(z)) of a Hermitian z -> fft of kind IRFFT of half of z
    slice(fft(complex(x, 0))) within the first half of the spectrum -> slice of fft of kind RFFT of x

The spectrum of real numbers is Hermitian, z[-k] = conj(z[k]), and so are sums and products of such spectra. Half of
them is computed from halves. So a convolution that goes through complex transforms, as `jnp.fft.ifft2(k *
jnp.fft.fft2(image)).real` does, never has the other half.

A whole spectrum is not computed as half and its mirror image: that takes about as long.

Roundings differ, within the bounds of a transform. So this pass cannot be left out, and it runs before those that can.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import C64, F32, F64

from ..analysis.fft_plan import is_planned
from ..analysis.while_loop_analysis import loop_invariant_elements
from ..ir.builder import Build
from .algebraic_simplifier import scalar_value
from .dce import sort

_MOVES = ("reshape", "transpose", "broadcast", "slice", "reverse", "copy")  # of one operand, that move elements
_HERMITIAN = ("add", "subtract", "negate", "multiply", "divide")  # of which results are if all operands are
Length = tuple[int, ...]  # fft_length of a transform: sizes of the last dimensions


def run(module: Module) -> int:
    """Rewrites all such transforms. Returns the number of instructions replaced."""
    if not any(i.opcode == "fft" for i in module.instructions()):
        return 0
    invariants = _loop_invariants(module)
    return sum(_Rewrite(c, invariants).run() for c in module.computations)


Invariants = dict[Instruction, tuple[Instruction, int]]


def _loop_invariants(module: Module) -> Invariants:
    """What the bodies of loops read of loop-invariant elements of their state, with the tuple of initial values and the
    element's number."""
    found: Invariants = {}
    for loop in [i for i in module.instructions() if i.opcode == "while" and i.operands[0].opcode == "tuple"]:
        elements, (state,) = loop_invariant_elements(loop), loop.body.parameters
        for i in loop.body.instructions:
            if i.opcode == "get-tuple-element" and i.operands[0] is state and i.index in elements:
                found[i] = loop.operands[0], i.index
    return found


class _Rewrite:
    """The rewrite of one computation."""

    def __init__(self, computation: Computation, invariants: Invariants) -> None:
        self.computation, self.invariants = computation, invariants
        self.users = computation.users()
        self.halves: dict[tuple[Instruction, Length], Instruction] = {}
        self.replaced: dict[Instruction, Instruction] = {}

    def run(self) -> int:
        """Replaces real parts and slices, operands first. Returns their number."""
        for i in list(self.computation.instructions):
            i.operands = [self.replaced.get(o, o) for o in i.operands]
            if i.opcode in ("real", "slice") and i.operands[0].opcode == "fft":
                replacement = self._real_part(i) if i.opcode == "real" else self._part_of_half(i)
                if replacement is not None:
                    self.replaced[i] = replacement
        if self.replaced:
            self.computation.root = self.replaced.get(self.computation.root, self.computation.root)
            sort(self.computation)
        return len(self.replaced)

    def _real_part(self, i: Instruction) -> Instruction | None:
        """The real part of an inverse transform of a Hermitian spectrum whose imaginary part nothing reads."""
        inverse = i.operands[0]
        if inverse.fft_type != "IFFT" or not is_planned("IRFFT", inverse.shape.dimensions, inverse.fft_length):
            return None
        if not self._is_read_by(inverse, "real") or not self._is_hermitian(inverse.operands[0], inverse.fft_length):
            return None
        half = self._half(inverse.operands[0], inverse.fft_length)
        line = Build(i.name).make("fft", half, fft_type="IRFFT", fft_length=inverse.fft_length)
        line.metadata = inverse.metadata
        return line

    def _part_of_half(self, i: Instruction) -> Instruction | None:
        """A slice of the spectrum of real numbers of which nothing reads the second half."""
        spectrum = i.operands[0]
        if not _is_spectrum_of_real_numbers(spectrum) or not self._is_read_by(spectrum, "slice"):
            return None
        if any(u.slice[-1].limit > spectrum.fft_length[-1] // 2 + 1 for u in self.users[spectrum]):
            return None
        half = self._half(spectrum, spectrum.fft_length)
        return Instruction(i.name, "slice", i.shape, [half], dict(i.attributes), i.metadata)

    def _is_read_by(self, i: Instruction, opcode: str) -> bool:
        """Whether all that reads a value are such operations."""
        return i is not self.computation.root and all(u.opcode == opcode for u in self.users.get(i, ()))

    def _is_hermitian(self, x: Instruction, length: Length) -> bool:
        """Whether x[-k] = conj(x[k]) along the dimensions of a transform."""
        visited, waiting = {x}, [x]
        while waiting:
            now = waiting.pop()
            sources: list[Instruction] = []
            if now in self.invariants:
                state, number = self.invariants[now]
                sources = [state.operands[number]]
            elif now.opcode in _HERMITIAN or _is_broadcast_of_batch(now, length):
                sources = now.operands
            elif now.opcode == "fft":
                if now.fft_length != length or not _is_spectrum_of_real_numbers(now):
                    return False
            elif _real_scalar(now) is None:
                return False
            waiting += [o for o in sources if o not in visited]
            visited.update(sources)
        return True

    def _half(self, spectrum: Instruction, length: Length) -> Instruction:
        """The first half of a Hermitian spectrum along its last dimension, where it is computed from halves."""
        waiting = [spectrum]
        while waiting:
            x = waiting[-1]
            missing = [o for o in self._sources(x) if (o, length) not in self.halves]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if (x, length) not in self.halves:
                self.halves[x, length] = self._new_half(x, length)
        return self.halves[spectrum, length]

    def _sources(self, x: Instruction) -> list[Instruction]:
        """The spectra whose halves the half of a Hermitian one is computed from."""
        is_leaf = x in self.invariants or x.opcode == "fft" or _real_scalar(x) is not None
        return [] if is_leaf else x.operands

    def _new_half(self, x: Instruction, length: Length) -> Instruction:
        b, dimensions = Build(x.name), (*x.shape.dimensions[:-1], length[-1] // 2 + 1)
        shape = x.shape.with_dimensions(dimensions)
        if x in self.invariants:
            return b.slice(x, (0,) * len(dimensions), dimensions)
        if x.opcode == "fft":
            numbers = _real_numbers(b, x.operands[0])
            assert numbers is not None
            half = b.make("fft", numbers, fft_type="RFFT", fft_length=length)
            half.metadata = x.metadata
            return half
        if (scalar := _real_scalar(x)) is not None:
            return b.spread(scalar, shape, ())
        operands = [self.halves[o, length] for o in x.operands]
        return Instruction(f"{x.name}.half", x.opcode, shape, operands, dict(x.attributes), x.metadata)


def _is_spectrum_of_real_numbers(i: Instruction) -> bool:
    """Whether an instruction transforms a complex array without imaginary parts, and there is a plan for the transform
    of its real parts."""
    if i.opcode != "fft" or i.fft_type != "FFT" or i.shape.is_dynamic:
        return False
    is_real = _real_numbers(Build(i.name), i.operands[0]) is not None
    return is_real and is_planned("RFFT", i.shape.dimensions, i.fft_length)


def _is_broadcast_of_batch(x: Instruction, length: Length) -> bool:
    """Whether an instruction repeats spectra along further dimensions in front of those of a transform."""
    rank = x.shape.rank
    return x.opcode == "broadcast" and tuple(x.dimensions[-len(length) :]) == tuple(range(rank - len(length), rank))


def _real_scalar(x: Instruction) -> Instruction | None:
    """The scalar without imaginary part that is all elements of a complex array; None if there is none."""
    while x.opcode == "broadcast" and x.shape.element_type.is_complex:
        x = x.operands[0]
    if x.shape.rank:
        return None
    value = scalar_value(x)
    return x if _real_source(x) is not None or (value is not None and np.imag(value) == 0) else None


def _real_source(x: Instruction) -> Instruction | None:
    """The real array that a complex one was made of, without imaginary parts; None if there is none."""
    if x.opcode == "convert" and x.shape.element_type.is_complex and not x.operands[0].shape.element_type.is_complex:
        return x.operands[0]
    if x.opcode == "complex" and (imaginary := scalar_value(x.operands[1])) is not None and imaginary == 0:
        return x.operands[0]
    return None


def _real_numbers(b: Build, x: Instruction) -> Instruction | None:
    """The real parts of a complex array without imaginary parts, which may have been moved since it was made of them;
    None if there may be imaginary parts."""
    element_type = F32 if x.shape.element_type is C64 else F64
    moves: list[Instruction] = []
    while x.opcode in _MOVES:
        moves.append(x)
        x = x.operands[0]
    source = _real_source(x)
    if source is None:
        return None
    numbers = b.convert(source, element_type)
    for move in reversed(moves):
        shape = move.shape.with_element_type(element_type)
        numbers = Instruction(f"{move.name}.real", move.opcode, shape, [numbers], dict(move.attributes), move.metadata)
    return numbers
