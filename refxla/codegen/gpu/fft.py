"""The kernels of kind "fft" for GPUs: one for each stage of a transform, the same stages as on a CPU.

A work-group loads a few transforms into local memory, runs the passes from one half of it to the other and back, with
the butterflies of each pass distributed over its items, and stores the results. The first pass reads the operand
directly, and the last one writes the results, if the accesses of their items are coalesced; otherwise elements are
copied. A transform that is too long for local memory is in scratch memory, one for each work-group. The arithmetic is
that of a CPU's lanes (fft/passes.py, fft/lanes.py), with vectors of one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

from ...analysis.fft_plan import Strides
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..fft.lanes import real_pair, rotated, scaled
from ..fft.passes import UNROLLED, Butterfly, Complex, Numbers
from ..fft.stage_emitter import StageEmitter, extent, kernels
from .work_groups import BARRIER, LocalMemory, group_size

SECTOR = 32  # bytes that memory moves at a time
MOST_SCRATCH = 1 << 26  # bytes for all work-groups, unless one needs more
_FENCE = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

# From the C expressions of an element's number and of its transform's: the element, or the statements that write it.
Read = Callable[[str, str], Complex]
Write = Callable[[str, str, Complex], None]


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a transform."""
    return kernels(fusion, target, _WorkGroupStage)


@dataclass(frozen=True)
class _Share:
    """What a work-group computes at a time: `width` transforms, of one group of the stage or of several whole ones.

    Element e of transform t is at e * `element` + t * `transform` in a buffer of `size` complex numbers.
    """

    width: int
    element: int
    transform: int
    size: int


class _WorkGroupStage(StageEmitter):
    """A stage whose work-groups share transforms."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.numbers, self.group = Numbers(self.parts.name), group_size(self.target)
        self.pair = f"{self.parts.scalar}2"
        self.bytes = 2 * self.parts.dtype.itemsize
        # Elements of a buffer for each transform.
        self.elements = max(self.stage.length + (self.stage.real != ""), self.stage.convolution)
        in_place = self.stage.source == self.stage.target
        self.barrier = _FENCE if in_place else BARRIER

    def kernel(self) -> Kernel:
        """The kernel itself."""
        local = LocalMemory()
        groups = self._transforms(local) if self.stage.passes else self._numbers()
        items = groups * self.group
        text, arguments = self.block.text(), tuple(self.arguments)
        return Kernel(self.name, text, arguments, items, work_group=self.group, local_bytes=local.bytes)

    # -- what a work-group takes ---------------------------------------------------------------------------------------

    def _share_of(self, width: int) -> _Share:
        """The share of so many transforms. Those that are adjacent in memory are adjacent in the buffer."""
        aside = [self._aside(strides) for strides in (self.stage.reads, self.stage.writes)]
        if any(aside):
            pitch = width if all(aside) else width | 1  # odd, so that a transform's elements are in different banks
            return _Share(width, pitch, 1, self.elements * pitch)
        pitch = self.elements if width == 1 else self.elements | 1
        return _Share(width, 1, pitch, width * pitch)

    def _aside(self, strides: Strides) -> bool:
        """Whether the transforms of a group are adjacent in memory."""
        return strides.lane == 1 and self.stage.lanes > 1

    def _chosen_share(self) -> _Share | None:
        """As many transforms as keep all items busy, or fill sectors; fewer if local memory is not enough, None if not
        even one fits."""
        stage = self.stage
        whole = SECTOR // self.bytes if self._aside(stage.reads) or self._aside(stage.writes) else 1
        work = min((self._tasks(radix) for radix in stage.radices), default=1)
        width = max(whole, -(-self.group // work))
        if width > stage.lanes:
            width = stage.lanes * min(stage.outer, width // stage.lanes)
        while 2 * self._share_of(width).size * self.bytes > self.target.local_bytes:
            if width == 1:
                return None
            width = width - stage.lanes if width > stage.lanes else 1 << (width - 1).bit_length() - 1
        if width < stage.lanes:  # shares of about the same size
            even = -(-stage.lanes // -(-stage.lanes // width))
            width = min(width, -(-even // whole) * whole)
        return self._share_of(width)

    def _tasks(self, radix: int) -> int:
        """The number of items that have work in a pass, for each transform."""
        count = (self.stage.convolution or self.stage.length) // radix
        return count if radix <= UNROLLED else count * (radix // 2 + 1)

    # -- stages of passes ----------------------------------------------------------------------------------------------

    def _transforms(self, local: LocalMemory) -> int:
        """Emits the statements of a work-group. Returns the number of work-groups."""
        stage, block = self.stage, self.block
        chosen = self._chosen_share()
        self.share = share = chosen or self._share_of(min(stage.lanes, SECTOR // self.bytes))
        if chosen is None:
            self.barrier = _FENCE
        several = share.width // stage.lanes
        parts = 1 if several else -(-stage.lanes // share.width)
        units = -(-stage.outer // several) if several else stage.outer * parts
        groups = units
        source, target = self.place(stage.source, False), self.place(stage.target, True)
        if chosen is None:
            groups = min(units, max(1, MOST_SCRATCH // (2 * share.size * self.bytes)))
            size = groups * 2 * share.size * self.bytes
            scratch = self.pointer(Argument("scratch", self.pair, bytes=size, scratch=self.work))
            block.line(f"__global {self.pair}* const x = {scratch} + (long)group * {2 * share.size};")
            block.line(f"__global {self.pair}* const y = x + {share.size};")
        else:
            for name in "xy"[: self._buffers]:
                local.declare(block, name, self.pair, self.bytes, share.size)
        self.tables = self.pass_tables()
        with block.scope(f"for (int unit = group; unit < {units}; unit += {groups})" if groups < units else ""):
            unit = "unit" if groups < units else "group"
            block.line(f"const int outer = {f'{unit} * {several}' if several else f'{unit} / {parts}'};")
            block.line(f"const int lane = {'0' if several else f'{unit} % {parts} * {share.width}'};")
            rest = f"({stage.outer} - outer) * {stage.lanes}" if several else f"{stage.lanes} - lane"
            block.line(f"const int left = {rest}, valid = left < {share.width} ? left : {share.width};")
            for name, const, place, strides in (
                ("from", "const ", source, stage.reads),
                ("to", "", target, stage.writes),
            ):
                ctype = f"__global {const}{self.pair}*"
                begin = f"outer * {strides.outer}l + lane * {strides.lane}l"
                block.line(f"{ctype} const {name} = ({ctype}){place} + {begin};")
            self._unit()
            if groups < units:
                block.line(self.barrier)
        return groups

    def _unit(self) -> None:
        """Emits the computation of a work-group's transforms."""
        stage, radices = self.stage, self.stage.radices
        count, first, final = len(radices), self._loads, self._stores
        if not first:
            joined = stage.real == "join"
            with self._each(stage.length + joined, stage.reads) as (e, t):
                self._put("x")(e, t, self._load(e, t, stage.swaps[0] and not joined))
            self.block.line(self.barrier)
            if joined:
                self._real_pass("x", join=True, swap=stage.swaps[0])
        here = "x"
        if stage.convolution:
            here = self._convolution()
        else:
            for number in range(count):
                there = "y" if here == "x" else "x"
                read, strides = self._get(here), None
                if number == 0 and first:
                    there, read, strides = "x", lambda e, t: self._load(e, t, stage.swaps[0]), stage.reads
                if number == count - 1 and final:
                    self._pass(number, read, self._store, strides or stage.writes)
                    return
                self._pass(number, read, self._put(there), strides)
                self.block.line(self.barrier)
                here = there
        separated = stage.real == "separate"
        if separated:
            self._real_pass(here, join=False, swap=False)
        with self._each(stage.length + separated, stage.writes) as (e, t):
            self._store(e, t, self._get(here)(e, t))

    @property
    def _buffers(self) -> int:
        """The number of buffers."""
        return 2 if self.stage.convolution else min(2, len(self.stage.radices) + 1 - self._loads - self._stores)

    @property
    def _loads(self) -> bool:
        """Whether the first pass reads the stage's source directly."""
        stage = self.stage
        return stage.real != "join" and bool(stage.radices) and self._reaches(stage.reads, stage.radices[0])

    @property
    def _stores(self) -> bool:
        """Whether the last pass writes the stage's target directly."""
        stage = self.stage
        return stage.real != "separate" and bool(stage.radices) and self._reaches(stage.writes, stage.radices[-1])

    def _reaches(self, strides: Strides, radix: int) -> bool:
        """Whether the items of a pass access whole sectors of memory."""
        stage = self.stage
        neighbours = 1
        if self._aside(strides):
            neighbours = min(self.share.width, stage.lanes)
        elif strides.element == 1:
            neighbours = stage.length // radix
        whole = neighbours * self.bytes >= SECTOR or prod(stage.radices) == radix
        return whole and not stage.convolution and radix <= UNROLLED

    def _convolution(self) -> str:
        """Emits transforms of x as convolutions. Returns the buffer with the results."""
        n, size = self.stage.length, self.stage.convolution
        chirp, response = self.convolution_tables()
        self._scale("x", n, chirp, (False, False))
        if size > n:
            with self._each(size - n, None) as (e, t):
                self._put("x")(f"({e} + {n})", t, (self.numbers.literal(0), self.numbers.literal(0)))
            self.block.line(self.barrier)
        here = self._all_passes("x")
        self._scale(here, size, response, (False, True))  # the next passes are the inverse
        here = self._all_passes(here)
        self._scale(here, n, chirp, (True, False))
        return here

    def _all_passes(self, here: str) -> str:
        """Emits all passes between the buffers. Returns the one with the results."""
        for number in range(len(self.stage.radices)):
            there = "y" if here == "x" else "x"
            self._pass(number, self._get(here), self._put(there), None)
            self.block.line(self.barrier)
            here = there
        return here

    def _scale(self, here: str, n: int, table: str, swaps: tuple[bool, bool]) -> None:
        with self._each(n, None) as (e, t):
            value = _swapped(self._get(here)(e, t), swaps[0])
            value = scaled(self.numbers, self.block, value, (f"{table}[2 * {e}]", f"{table}[2 * {e} + 1]"))
            self._put(here)(e, t, _swapped(value, swaps[1]))
        self.block.line(self.barrier)

    def _real_pass(self, here: str, join: bool, swap: bool) -> None:
        with self._each(self.stage.length // 2 + 1, None, "k") as (_, t):
            self.block.line(f"const int h = {self.stage.length};")
            self.block.line(f"__global const {self.parts.scalar}* const w = {self.real_table()};")
            get = self._get(here)
            real_pair(
                self.numbers, self.block, join, lambda k: get(k, t), lambda k: _swapped(get(k, t), swap)
            )  # fmt: skip
        self.block.line(self.barrier)

    # -- passes --------------------------------------------------------------------------------------------------------

    def _pass(self, number: int, read: Read, write: Write, strides: Strides | None) -> None:
        """Emits a pass, whose items are in the order of an array in memory, or else of the buffers."""
        radices = self.stage.radices
        radix, s, m = radices[number], prod(radices[:number]), prod(radices[number + 1 :])
        w, roots = self.tables[number]
        step, b = m * s, Butterfly(self.numbers, self.block)
        with self._each(self._tasks(radix) if radix > UNROLLED else step, strides) as (e, t):
            if radix > UNROLLED:
                self.block.line(f"const int k = {e} / {step}, n = {e} % {step};")
                e = "n"
            # The butterfly's operands are at e = p s + q, `step` apart; its results at r p s + q, s apart.
            if s == 1:
                begin = f"{radix} * {e}" if m > 1 else "0"
            else:
                begin = f"({e} / {s} * {radix * s} + {e} % {s})" if m > 1 else e
            if m > 1:
                row = e if s == 1 else f"({e} / {s})"
                self.block.line(f"__global const {self.parts.scalar}* const u = {w} + {2 * (radix - 1)} * {row};")

            def put(k: str, value: Complex) -> None:
                if m > 1 and k != "0":
                    value = b.rotate(value, f"u[2 * {k} - 2]", f"u[2 * {k} - 1]")
                write(f"({begin} + {k} * {s})", t, value)

            if radix > UNROLLED:
                self._large_radix(radix, b, lambda j: read(f"(n + {j} * {step})", t), put, roots)
                return
            elements = [b.let(*read(f"({e} + {j * step})", t)) for j in range(radix)]
            for k, value in enumerate(b.transform(elements)):
                put(str(k), value)

    def _large_radix(
        self, radix: int, b: Butterfly, read: Callable[[str], Complex], put: Callable[[str, Complex], None], roots: str
    ) -> None:
        """Results k and radix - k of a butterfly of an odd radix; as Butterfly._odd."""
        block, v, m, pairs = self.block, self.numbers.vector, self.numbers.multiply_add, radix // 2
        block.line(f"{v} re = {read('0')[0]}, im = {read('0')[1]};")

        @contextmanager
        def each_pair() -> Iterator[None]:
            with block.scope(f"for (int j = 1; j <= {pairs}; ++j)"):
                for name, place in (("near", "j"), ("far", f"({radix} - j)")):
                    b_re, b_im = read(place)
                    block.line(f"const {v} {name}_re = {b_re}, {name}_im = {b_im};")
                yield

        with block.scope("if (k == 0)"):
            with each_pair():
                block.line("re = re + (near_re + far_re);")
                block.line("im = im + (near_im + far_im);")
            put("0", ("re", "im"))
        with block.scope("else"):
            block.line(f"{v} dr = 0, di = 0;")
            block.line("int at = 0;")
            with each_pair():
                block.line(f"at = at + k < {radix} ? at + k : at + k - {radix};")
                block.line(f"const {v} c = {roots}[2 * at], s = {roots}[2 * at + 1];")
                block.line(f"re = {m('near_re + far_re', 'c', 're')};")
                block.line(f"im = {m('near_im + far_im', 'c', 'im')};")
                block.line(f"dr = {m('near_re - far_re', 's', 'dr')};")
                block.line(f"di = {m('near_im - far_im', 's', 'di')};")
            put("k", b.subtract_rotated(("re", "im"), ("dr", "di")))
            put(f"({radix} - k)", b.add_rotated(("re", "im"), ("dr", "di")))

    # -- elements ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _each(self, count: int, strides: Strides | None, name: str = "e") -> Iterator[tuple[str, str]]:
        """The loop over an item's part of `count` elements or butterflies of each transform; gives the C variables of
        their numbers and of the transform's. Neighbouring items are in the order of an array in memory, or else of the
        buffers."""
        block, width = self.block, self.share.width
        if strides is None:
            near = width if self.share.transform == 1 else 1
        else:
            near = min(width, self.stage.lanes) if self._aside(strides) else 1
        with block.scope(f"for (int i = item; i < {count * width}; i += {self.group})"):
            if near == 1:
                block.line(f"const int {name} = i % {count}, t = i / {count};")
            elif near == width:
                block.line(f"const int {name} = i / {near}, t = i % {near};")
            else:
                far = f"i / {near * count} * {near} + i % {near}"
                block.line(f"const int {name} = i / {near} % {count}, t = {far};")
            with block.scope("if (t < valid)"):
                yield name, "t"

    def _get(self, buffer: str) -> Read:
        """The element of a buffer."""

        def read(e: str, t: str) -> Complex:
            place = self._place(buffer, e, t)
            return f"{place}.x", f"{place}.y"

        return read

    def _place(self, buffer: str, e: str, t: str) -> str:
        """The C lvalue of an element of a buffer."""
        return f"{buffer}[{_product(e, self.share.element)} + {_product(t, self.share.transform)}]"

    def _put(self, buffer: str) -> Write:
        """The statements that write an element of a buffer."""

        def write(e: str, t: str, value: Complex) -> None:
            self.block.line(f"{self._place(buffer, e, t)} = ({self.pair})({value[0]}, {value[1]});")

        return write

    def _position(self, strides: Strides, e: str, t: str) -> str:
        """The position of an element in memory, relative to the first one of the work-group."""
        stage = self.stage
        span = extent(stage, strides, True) + strides.outer
        cast = "(long)" if span >= 1 << 31 else ""
        inside = f"{_product(cast + e, strides.element)} + "
        if self.share.width <= stage.lanes:
            return inside + _product(cast + t, strides.lane)
        group, lane = f"({cast}{t} / {stage.lanes})", f"({cast}{t} % {stage.lanes})"
        return f"{inside}{_product(group, strides.outer)} + {_product(lane, strides.lane)}"

    def _load(self, e: str, t: str, swap: bool) -> Complex:
        """Loads an element of the stage's source."""
        place = f"from[{self._position(self.stage.reads, e, t)}]"
        return _swapped((f"{place}.x", f"{place}.y"), swap)

    def _store(self, e: str, t: str, value: Complex) -> None:
        """The statements that write a result of the stage."""
        stage, p = self.stage, self.numbers
        with self.block.scope() if stage.twiddles else nullcontext():
            if stage.twiddles:
                first, each = self.lane_tables()
                lanes = self.parts.lanes
                self.block.line(f"const int l = (lane + {t}) % {stage.lanes};")
                at = f"2 * (l / {lanes} * {stage.length} + {e})"
                quotient = f"{each}[2 * {e} * {lanes} + l % {lanes}]", f"{each}[(2 * {e} + 1) * {lanes} + l % {lanes}]"
                value = rotated(p, self.block, value, (f"{first}[{at}]", f"{first}[{at} + 1]"), quotient)
            if stage.divisor != 1:
                divisor = p.literal(stage.divisor)
                value = f"({value[0]}) / {divisor}", f"({value[1]}) / {divisor}"
            re, im = _swapped(value, stage.swaps[1])
            self.block.line(f"to[{self._position(stage.writes, e, t)}] = ({self.pair})({re}, {im});")

    # -- stages of real passes alone -----------------------------------------------------------------------------------

    def _numbers(self) -> int:
        """Emits the real pass of two numbers of a row. Returns the number of work-groups."""
        stage, block = self.stage, self.block
        count = stage.length // 2 + 1
        source, target = self.place(stage.source, False), self.place(stage.target, True)
        block.line(f"const int unit = group * {self.group} + item, row = unit / {count}, k = unit % {count};")
        block.line(f"const int h = {stage.length};")
        block.line(f"__global const {self.parts.scalar}* const w = {self.real_table()};")
        block.line(
            f"__global const {self.pair}* const x = (__global const {self.pair}*){source} + {stage.reads.lane}l * row;"
        )
        block.line(f"__global {self.pair}* const y = (__global {self.pair}*){target} + {stage.writes.lane}l * row;")
        with block.scope(f"if (row < {stage.lanes})"):
            real_pair(
                self.numbers, block, stage.real == "join", lambda k: (f"x[{k}].x", f"x[{k}].y"),
                lambda k: _swapped((f"y[{k}].x", f"y[{k}].y"), stage.swaps[1]),
            )  # fmt: skip
        return -(-stage.lanes * count // self.group)


def _product(value: str, factor: int) -> str:
    return value if factor == 1 else f"{value} * {factor}"


def _swapped(value: Complex, swap: bool) -> Complex:
    return (value[1], value[0]) if swap else value
