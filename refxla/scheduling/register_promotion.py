"""Register promotion: the values that the kernel of a loop keeps in registers while it runs.

The parts of a loop that one core runs hand their values on through memory, and each reads what the one before it has
just written. Where the values are small, the kernel copies them to private memory when it begins, and those that it
writes back when it returns. The functions of its parts are inlined into it (codegen/kernel_functions.py), and the
device's compiler makes registers of private memory.

Small values that nothing but the loop uses share a buffer, the *frame* of the kernel: so a loop may have any number of
them, although a launch takes few arguments. They are kept there from one launch of the loop to the next.

A value that is copied back must not share its memory with another one while the kernel runs: analysis/liveness.py has
it live from the first point of the kernel to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from ..ir import merged_body as m
from ..ir import plan as p
from .merged_kernel import BoundKernel

# Each value in private memory is copied whenever the kernel begins and returns (m.MOST_PROMOTED_BYTES limits its size).
MOST_BYTES_TOGETHER = 4096  # of all of them
MOST_CODE = 1 << 15  # of the parts (Kernel.code_size), which are compiled together
FRAME_BYTES = 1024  # of a value in a frame: larger ones may share memory with others
FRAME = "frame"  # the name of the buffer
_ALIGNMENT = 64  # as of any buffer


def with_frame(
    inner: BoundKernel,
    internal: Collection[int],
    bytes_of: Callable[[int], int],
    scratch: Callable[[str, str, int], int],
    promotes: bool = True,
    shared: Collection[int] = (),
) -> BoundKernel:
    """A kernel that calls one of control flow, which has an argument for each of its buffers: the small ones of
    `internal`, which nothing else uses, are in a frame, and those that can be promoted in private memory. It is that
    one itself where there are neither. `scratch(name, type, count)` gives a new buffer. Without `promotes` none are in
    private memory: a work-group has none that its items share. Nor are the buffers `shared`: others write parts of them
    at the same time, which a copy of the whole, back from private memory, would overwrite."""
    sizes = [bytes_of(b) for b in inner.buffers]
    fixed = [n for n, b in enumerate(inner.buffers) if b in shared]
    promoted = promotable(inner.kernel, sizes, fixed) if promotes else Promotable({}, False)
    offsets, size = {}, 0
    for b, bytes in zip(inner.buffers, sizes, strict=True):
        if b in internal and bytes <= FRAME_BYTES:
            offsets[b] = size
            size += -(-bytes // _ALIGNMENT) * _ALIGNMENT
    if not promoted.types and not offsets:
        return inner
    frame = scratch(FRAME, "u8", size) if offsets else -1
    outer: dict[int, p.Argument] = {}  # by buffer
    typed: list[p.Argument] = []
    for n, (b, a) in enumerate(zip(inner.buffers, inner.kernel.arguments, strict=True)):
        typed.append(replace(a, ctype=promoted.types.get(n, a.ctype), bytes=sizes[n]))
        if b in offsets:
            outer.setdefault(frame, p.Argument("output", "uchar", bytes=size))
        else:
            outer[b] = a
    numbers = {b: n for n, b in enumerate(outer)}
    positions = tuple(numbers[frame if b in offsets else b] for b in inner.buffers)
    parts = tuple((n, m.FrameOffset(offsets[b])) for n, b in enumerate(inner.buffers) if b in offsets)
    kernel = replace(
        inner.kernel,
        body=m.FrameBody(m.KernelCall(0, positions, parts), tuple(sorted(promoted.types))),
        arguments=tuple(outer.values()),
        calls=(replace(inner.kernel, arguments=tuple(typed)),),
        wide_vectors=bool(promoted.types) and promoted.wide_vectors,
    )
    return BoundKernel(kernel, tuple(outer))


@dataclass(frozen=True)
class Promotable:
    """The arguments that a kernel can keep in private memory, by their numbers, with the C types that its parts take
    them for; and whether most of the parts, by their time, ask for all vector registers."""

    types: dict[int, str]
    wide_vectors: bool


def promotable(kernel: p.Kernel, bytes: Sequence[int], fixed: Collection[int] = ()) -> Promotable:
    """What can be promoted of the arguments of a kernel, whose sizes are `bytes`, the smallest first; none of those
    with the numbers `fixed`."""
    if not isinstance(kernel.body, m.CountedLoopBody | m.WhileLoopBody | m.MergedBody):
        return Promotable({}, False)
    uses = _Uses()
    uses.walk(kernel, range(len(kernel.arguments)))
    promoted, total = {}, 0
    for number in sorted(uses.types.keys() - uses.fixed - set(fixed), key=lambda n: (bytes[n], n)):
        types = uses.types[number]
        total += bytes[number]
        if len(types) == 1 and 0 < bytes[number] <= m.MOST_PROMOTED_BYTES and total <= MOST_BYTES_TOGETHER:
            promoted[number] = next(iter(types))
    wide_vectors = uses.us.get(True, -1.0) >= uses.us.get(False, 0.0)
    return Promotable(promoted if uses.code_size <= MOST_CODE else {}, wide_vectors)


@dataclass
class _Uses:
    """What the parts of a kernel do with its arguments: the C types that they take each for, but for copies, which take
    any; the arguments that have to stay where they are; how much code the parts have; and the microseconds of those
    that ask for all vector registers (True) and of the others (False), as the cost model says."""

    types: dict[int, set[str]] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    code_size: int = 0
    us: dict[bool, float] = field(default_factory=dict)

    def walk(self, kernel: p.Kernel, numbers: Sequence[int | None]) -> None:
        """Note what a kernel does whose arguments are the arguments of these numbers; None: a part of one."""
        body = kernel.body
        if isinstance(body, str):
            self.code_size += kernel.code_size
            self.us[kernel.wide_vectors] = self.us.get(kernel.wide_vectors, 0.0) + kernel.us
            for number, a in zip(numbers, kernel.arguments, strict=True):
                if number is not None:
                    self.types.setdefault(number, set()).add(a.ctype)
                    if kernel.global_only or a.role == "workspace":
                        self.fixed.add(number)
            return
        for own, ctype in m.own_arguments(body):
            number = numbers[own]
            if number is not None:
                self.types.setdefault(number, set()).add(ctype)
        for call in m.calls(body):
            parts = dict(call.offsets)
            self.fixed.update(n for k in parts if (n := numbers[call.arguments[k]]) is not None)
            inner = [None if k in parts else numbers[n] for k, n in enumerate(call.arguments)]
            self.walk(kernel.calls[call.kernel], inner)
