"""Loops and conditionals whose parts one core runs, as one kernel.

A launch runs for about LAUNCH_NS, since signals are answered between launches, and loops may take for ever. So such a
kernel can be left and resumed, at an iteration or inside an inner loop: codegen/merged_kernel_emitter.py says how. A
loop that ends by a predicate, and has no other loop inside, needs to note nothing: its predicate says whether there is
more.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import merged_body as m
from ..ir import plan as p
from .merged_kernel import ArgumentList, MergeableLaunch, Section

LAUNCH_US = 10_000.0  # of a loop in one launch: signals are answered between launches
LAUNCH_NS = round(1e3 * LAUNCH_US)
LEAST_NS = 50  # of an iteration: a call takes this
MOST_NS = 1_000_000_000  # of an iteration, as it is counted: longs are far from their end


def iterations_per_launch(us: float) -> int:
    """How many iterations of so many microseconds one launch runs: one at least, however long it takes."""
    return max(1, int(LAUNCH_US / us))


# The bodies of such kernels. `progress` is a buffer of PROGRESS_BYTES, zero before the first launch of a run; `more` is
# that of a pred, true as long as the kernel must be launched again. A part that is such a kernel itself has both of its
# own (MergeableLaunch.resumable).


def counted_loop(
    arguments: ArgumentList, section: Section, trip_count: int, progress: int, more: int
) -> m.CountedLoopBody:
    """Run a section so many times."""
    state = m.ResumeState(_progress(arguments, progress), _more(arguments, more))
    calls = tuple(map(arguments.call, section.parts))
    return m.CountedLoopBody(trip_count, calls, state, own_ns(section.parts), LAUNCH_NS)


def while_loop(
    arguments: ArgumentList, test: Section, predicate: int, section: Section, progress: int
) -> m.WhileLoopBody:
    """Run a section while the pred that `test` makes is true: it is `more`, too."""
    noted = _progress(arguments, progress)
    tested = tuple(map(arguments.call, test.parts))
    condition = arguments.argument(predicate, p.Argument("input", "uchar", bytes=1))
    calls = tuple(map(arguments.call, section.parts))
    return m.WhileLoopBody(tested, condition, calls, noted, own_ns([*test.parts, *section.parts]), LAUNCH_NS)


def conditional(
    arguments: ArgumentList, index: int, of_pred: bool, sections: Sequence[Section], resume: tuple[int, int] | None
) -> m.ConditionalBody:
    """Run one of the sections: by a pred the first if it is true, by an s32 the last if it is out of range. `resume`:
    the buffers of progress and `more`, where a section has a part that can be left."""
    noted = None if resume is None else _progress(arguments, resume[0])
    ctype, size = ("uchar", 1) if of_pred else ("int", 4)
    number = arguments.argument(index, p.Argument("input", ctype, bytes=size))
    branches, state = [], None
    for section in sections:
        calls = []
        for part in section.parts:
            calls.append(arguments.call(part))
            if part.resumable is not None and noted is not None and resume is not None:
                state = m.ResumeState(noted, _more(arguments, resume[1]))
        branches.append(tuple(calls))
    return m.ConditionalBody(number, of_pred, tuple(branches), state)


def _progress(arguments: ArgumentList, buffer: int) -> int:
    return arguments.argument(buffer, p.Argument("output", "long", bytes=m.PROGRESS_BYTES))


def _more(arguments: ArgumentList, buffer: int) -> int:
    return arguments.argument(buffer, p.Argument("output", "uchar", bytes=1))


def own_ns(parts: Sequence[MergeableLaunch]) -> int:
    """The nanoseconds of parts, without those that count their own."""
    us = sum(part.us for part in parts if part.resumable is None)
    return min(MOST_NS, max(LEAST_NS, round(1e3 * us)))
