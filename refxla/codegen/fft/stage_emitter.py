"""The common part of the kernels of a transform's stages: the arrays that they read and write, and their tables."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from refxla_spec.types import C128, F64

from ...analysis.fft_plan import OPERAND, RESULT, Stage, Strides, stages
from ...analysis.twiddle_factors import rotation, transform_of_chirp
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..kernel_arguments import input_argument, output_argument
from ..products.prepacked_constants import prepacked_argument
from .passes import UNROLLED, Parts


class StageEmitter(ABC):
    """The kernel of stage number `number`; `space` has the complex numbers in each scratch array."""

    def __init__(
        self, fusion: Fusion, target: Target, parts: Parts, stage: Stage, number: int, space: dict[str, int]
    ) -> None:
        self.fusion, self.target, self.parts, self.stage, self.space = fusion, target, parts, stage, space
        self.name, self.number, self.work = f"{fusion.name}.{number}", number, f"work{number}"
        self.block = Block()
        self.arguments: list[Argument] = []

    @abstractmethod
    def kernel(self) -> Kernel:
        """The kernel itself."""

    def pointer(self, argument: Argument) -> str:
        """Adds an argument. Returns its C variable."""
        if argument not in self.arguments:
            self.arguments.append(argument)
        return f"a{self.arguments.index(argument)}"

    def place(self, place: str, written: bool) -> str:
        """A C pointer to the first part of an array of complex numbers."""
        hero = self.fusion.hero
        assert hero is not None
        if place == OPERAND:
            argument = input_argument(hero.operands[0])
        elif place == RESULT:
            argument = output_argument(hero)
        else:
            size = 2 * self.space[place] * self.parts.dtype.itemsize
            argument = Argument("scratch", self.parts.scalar, bytes=size, scratch=place)
        const = "" if written or place != OPERAND else "const "
        return f"(__global {const}{self.parts.scalar}*){self.pointer(argument)}"

    def table(self, name: str, values: np.ndarray) -> str:
        """The C pointer to complex numbers that are a constant of the program."""
        array = np.ascontiguousarray(values).reshape(-1).view(np.float64).astype(self.parts.dtype)
        return self.pointer(prepacked_argument(self.fusion, f"{self.number}.{name}", array))

    def pass_tables(self) -> list[tuple[str, str]]:
        """For each pass, the C pointers of its rotations and of its roots, "" if it has none."""
        tables, n = [], self.stage.convolution or self.stage.length
        for number, radix in enumerate(self.stage.radices):
            m, w, roots = n // radix, "", ""
            if m > 1:
                p, k = np.ogrid[:m, 1:radix]
                w = self.table(f"pass{number}", rotation(p * k, n, -1))
            if radix > UNROLLED:
                roots = self.table(f"roots{radix}", rotation(np.arange(radix), radix, 1))
            tables.append((w, roots))
            n = m
        return tables

    def convolution_tables(self) -> tuple[str, str]:
        """The C pointers of the factors before and after a convolution, and of the transform of its kernel."""
        n, size = self.stage.length, self.stage.convolution
        j = np.arange(n)
        chirp = self.table("chirp", rotation(j * j, 2 * n, -1))
        return chirp, self.table("response", transform_of_chirp(n, size, self.parts.name == "f64"))

    def lane_tables(self) -> tuple[str, str]:
        """The C pointers of exp(-2 pi i l k / n), n those of `twiddles`: of the first lane l of each vector for each k,
        and, for each k, its quotients by those of the vector's lanes, all real parts and then all imaginary parts."""
        stage, p = self.stage, self.parts
        vector, k = np.ogrid[: -(-stage.lanes // p.lanes), : stage.length]
        first = self.table("vectors", rotation(vector * p.lanes * k, stage.twiddles, -1))
        k, lane = np.ogrid[: stage.length, : p.lanes]
        turns = rotation(k * lane, stage.twiddles, -1)
        split = np.ascontiguousarray(np.stack([turns.real, turns.imag], 1)).reshape(-1).view(np.complex128)
        return first, self.table("lanes", split)

    def real_table(self) -> str:
        h = self.stage.length
        return self.table("real", rotation(np.arange(h // 2 + 1), 2 * h, -1))


def kernels(fusion: Fusion, target: Target, emitter: type[StageEmitter]) -> tuple[Kernel, ...]:
    """The kernels of a transform, one for each stage, that `emitter` writes."""
    hero = fusion.hero
    assert hero is not None
    sizes = (hero if hero.fft_type == "IRFFT" else hero.operands[0]).shape.dimensions
    wide = {C128, F64} & {hero.shape.element_type, hero.operands[0].shape.element_type}
    parts = Parts("f64" if wide else "f32")
    planned = stages(hero.fft_type, sizes, hero.fft_length, parts.lanes)
    space: dict[str, int] = {}
    for stage in planned:
        space[stage.target] = max(space.get(stage.target, 0), extent(stage, stage.writes, stage.real == "separate"))
    return tuple(emitter(fusion, target, parts, s, n, space).kernel() for n, s in enumerate(planned))


def extent(stage: Stage, strides: Strides, spectrum: bool) -> int:
    """The number of complex numbers from the first to the last one of an array."""
    last = (stage.outer - 1) * strides.outer + (stage.lanes - 1) * strides.lane
    return last + (stage.length - (not spectrum)) * strides.element + 1
