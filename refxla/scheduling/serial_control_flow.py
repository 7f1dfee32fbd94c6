"""Loops and conditionals whose parts one core runs, as one kernel: control flow becomes C.

A launch runs for about LAUNCH_NS, since signals are answered between launches, and loops may take for ever. So such a
kernel can be left and resumed: it notes its `progress` (where it is) and sets a pred, `more`, for which the host
launches it again. Where one loop is inside another, the outer kernel calls the inner one; when that one leaves, the
outer one leaves, too, and when it is resumed it passes over what it has done and calls the inner one again. A loop that
ends by a predicate, and has no such loop inside, needs to note nothing: its predicate says whether there is more.

Cost: the nanoseconds spent are counted from the cost model's figures, an inner kernel telling the outer one its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import plan as p
from .merged_kernel import Body, Call, Places, Section

LAUNCH_US = 10_000.0  # of a loop in one launch: signals are answered between launches
LAUNCH_NS = round(1e3 * LAUNCH_US)
LEAST_NS = 50  # of an iteration: a call takes this
MOST_NS = 1_000_000_000  # of an iteration, as it is counted: longs are far from their end
# Elements of `progress`, longs: the iteration, the part that was being run (0: none), the nanoseconds of this launch.
ITERATION, POSITION, SPENT, PROGRESS_BYTES = 0, 1, 2, 32


def iterations_per_launch(us: float) -> int:
    """How many iterations of so many microseconds one launch runs: one at least, however long it takes."""
    return max(1, int(LAUNCH_US / us))


class SerialControlFlow:
    """A kernel of control flow while it is written.

    `progress` is a buffer of PROGRESS_BYTES, zero before the first launch of a run; `more` a pred, true as long as the
    kernel must be launched again. A part that is such a kernel itself has both of its own (Call.resumable).
    """

    def __init__(self, progress: int | None, more: int | None, places: Places | None = None) -> None:
        self.body = Body(places)
        self.more = more
        self.position = 0  # of the last part that can be left
        if progress is not None:
            number = self.body.argument(progress, p.Argument("output", "long", bytes=PROGRESS_BYTES))
            self._line(f"__global long* progress = (__global long*)a{number};")

    def counted_loop(self, section: Section, trip_count: int) -> None:
        """Run a section so many times."""
        self._line(f"long iteration = progress[{ITERATION}], at = progress[{POSITION}], spent = 0;")
        self._line(f"for (; iteration < {trip_count}; ++iteration) {{")
        self._line(f"if (spent >= {LAUNCH_NS}) {{")
        self._leave(f"progress[{ITERATION}] = iteration;")
        self._line("}")
        self._run(section.parts, section.resumable, f"progress[{ITERATION}] = iteration;")
        self._line(f"spent += {own_ns(section.parts)};")
        self._line("}")
        self._line(f"progress[{ITERATION}] = 0;")
        self._end()

    def while_loop(self, test: Section, predicate: int, section: Section) -> None:
        """Run a section while the pred that `test` makes is true: it is `more`, too."""
        ns = own_ns([*test.parts, *section.parts])
        resumable = section.resumable
        if resumable:
            self._line(f"long at = progress[{POSITION}], spent = 0;")
            self._line("for (;;) {")
            self._line("if (at == 0) {")
        else:
            self._line(f"long spent = 0; for (; spent < {LAUNCH_NS}; spent += {ns}) {{")
        self._run(test.parts, False)
        number = self.body.argument(predicate, p.Argument("input", "uchar", bytes=1))
        self._line(f"if (!*(__global const uchar*)a{number}) break;")
        if resumable:
            self._line(f"if (spent >= {LAUNCH_NS}) {{")
            self._leave()
            self._line("} }")
        self._run(section.parts, resumable)
        if resumable:
            self._line(f"spent += {ns};")
        self._line("}")
        self._end(resumable)

    def branch(self, index: int, of_pred: bool, sections: Sequence[Section]) -> None:
        """Run one of the sections: by a pred the first if it is true, by an s32 the last if it is out of range."""
        resumable = any(section.resumable for section in sections)
        ctype, last = "uchar" if of_pred else "int", len(sections) - 1
        number = self.body.argument(index, p.Argument("input", ctype, bytes=1 if of_pred else 4))
        value = f"*(__global const {ctype}*)a{number}"
        self._line(f"int branch = {value}{' ? 0 : 1' if of_pred else ''};")
        if not of_pred:
            self._line(f"if (branch < 0 || branch > {last}) branch = {last};")
        if resumable:
            self._line(f"long at = progress[{POSITION}], spent = 0;")
            first = 1  # the buffer of the index may be another value's by now: the position says which branch it was
            for n, section in enumerate(sections):
                count = sum(part.resumable is not None for part in section.parts)
                if count:
                    self._line(f"if (at >= {first} && at < {first + count}) branch = {n};")
                first += count
        for n, section in enumerate(sections):
            self._line(f"{'else ' if n else ''}if (branch == {n}) {{")
            self._run(section.parts, resumable)
            self._line("}")
        if resumable:
            self._end()

    def _run(self, parts: Sequence[Call], resumable: bool, note: str = "") -> None:
        """Call the parts; `resumable`: unless they were called before the launch that left one of them."""
        for part in parts:
            if part.resumable is None:
                if resumable:
                    self._line("if (at == 0)")
                self.body.call(part)
                continue
            self.position += 1
            self._line(f"if (at == 0 || at == {self.position}) {{")
            self.body.call(part)
            progress, more = (self.body.numbers[b] for b in part.resumable)
            self._line(f"spent += ((__global const long*)a{progress})[{SPENT}];")
            self._line(f"if (*(__global const uchar*)a{more}) {{")
            self._line(f"at = {self.position};")
            self._leave(note)
            self._line("} at = 0; }")

    def _leave(self, note: str = "") -> None:
        self._line(f"{note} progress[{POSITION}] = at; progress[{SPENT}] = spent;".strip())
        self._set_more(1)
        self._line("return;")

    def _end(self, resumable: bool = True) -> None:
        if resumable:
            self._line(f"progress[{POSITION}] = 0;")
        self._line(f"progress[{SPENT}] = spent;")
        self._set_more(0)

    def _set_more(self, value: int) -> None:
        if self.more is not None:
            number = self.body.argument(self.more, p.Argument("output", "uchar", bytes=1))
            self._line(f"*(__global uchar*)a{number} = {value};")

    def _line(self, text: str) -> None:
        self.body.lines.append("    " + text)


def own_ns(parts: Sequence[Call]) -> int:
    """The nanoseconds of parts, without those that count their own."""
    us = sum(part.us for part in parts if part.resumable is None)
    return min(MOST_NS, max(LEAST_NS, round(1e3 * us)))
