"""OpenCL C of merged kernels: the bodies of ir/merged_body.py as statements that call other kernels' functions.

A kernel of control flow runs for a limited time, since signals are answered between launches. It can be left and
resumed: it stores its progress (the position that it has reached) and sets the pred `more`, upon which the host
launches it again. Where one loop is inside another, the outer kernel calls the inner one; when that one leaves, the
outer one leaves, too, and when it is resumed it skips what it has done and calls the inner one again. The nanoseconds
spent are those of the cost model, and an inner kernel reports its own to the outer one.

On a GPU, a work-group executes the statements: each of its items follows the same control flow, and one of them writes
the progress. A call is for a work-group of the called kernel, or for all of them in order. The items wait at a barrier
before a call with a data dependence on an earlier one: one that reads or writes what that has written, or writes what
that has read. No two arguments share memory (analysis/liveness.py). Consecutive calls of single items are made by one
item, and all wait before and after them. They also wait where control flow begins and ends, so that all have read its
operands before any makes a call that may write them. No barrier is under a condition. A loop that may end in any
iteration has its barrier at the beginning of its body, after the condition that ends it (codegen/primitives.py).

A loop may keep arguments in private memory (FrameBody). Then its function copies them there, calls an inlined function
with the loop, and copies the written ones back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir.merged_body import (
    AnyBody,
    Axis,
    ConditionalBody,
    CopyBody,
    CountedLoopBody,
    ExitPhase,
    FrameBody,
    FrameOffset,
    IterationOffset,
    IterationsBody,
    KernelCall,
    MergedBody,
    NestedPhases,
    Offset,
    PersistentBody,
    Phase,
    SectionBody,
    SharedPhase,
    TiledPhase,
    TileNumberOffset,
    TileOffset,
    WhileLoopBody,
    WorkerOffset,
)
from ..ir.plan import Argument, Kernel, Predicate

# Elements of `progress`, longs: the iteration, the call in progress (0: none), the nanoseconds of this launch.
_ITERATION, _POSITION, _SPENT = 0, 1, 2
_SYNC = "(__global long*)a0"  # the shared memory of a persistent kernel's workers
_WAIT = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"


class AliasingTypes:
    """The C types that may alias others in some text: "float" is `any_float` there."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def of(self, ctype: str) -> str:
        """The type like `ctype` whose objects may alias those of other types."""
        self.names.add(ctype)
        return f"any_{ctype}"

    @staticmethod
    def declarations(names: Iterable[str]) -> list[str]:
        """The typedefs of these types."""
        return [f"typedef {name} __attribute__((may_alias)) any_{name};" for name in sorted(names)]


def body_text(
    kernel: Kernel,
    functions: Sequence[str] | None = None,
    private: Mapping[int, str] | None = None,
    aliasing: AliasingTypes | None = None,
) -> str:
    """The statements of a kernel's function. `functions` names those of the kernels that it calls; "call_n" is the n-th
    by default. `private`: the C types of the arguments in private memory, by their numbers. `aliasing` collects the
    types that have to be declared."""
    start = "".join(f"    if ({_fails(predicate)}) return;\n" for predicate in kernel.predicates)
    if isinstance(kernel.body, str):
        return start + kernel.body
    names = functions or [f"call_{n}" for n in range(len(kernel.calls))]
    return start + _Writer(kernel, names, private or {}, aliasing or AliasingTypes()).text()


class _Writer:
    """The statements of one merged kernel."""

    def __init__(
        self, kernel: Kernel, functions: Sequence[str], private: Mapping[int, str], aliasing: AliasingTypes
    ) -> None:
        self.kernel, self.functions, self.private, self.aliasing = kernel, functions, private, aliasing
        self.group = kernel.work_group
        self._lines: list[str] = []
        self._position = 0  # of the last call that can be left
        self._read: set[_Place] = set()  # by the calls since the last barrier,
        self._written: set[_Place] = set()  # and what these have written
        self._local = False  # and whether they used local memory
        self._single = ""  # the condition under which one item of the work-group makes the calls; "" if all do

    def text(self) -> str:
        """All statements, a newline after each."""
        match self.kernel.body:
            case CopyBody() as body:
                self._copy(body)
            case AnyBody() as body:
                self._any(body)
            case MergedBody() as body:
                self._merged(body)
            case IterationsBody() as body:
                self._independent_iterations(body)
            case PersistentBody() as body:
                self._persistent(body)
            case CountedLoopBody() as body:
                self._counted_loop(body)
            case WhileLoopBody() as body:
                self._while_loop(body)
            case ConditionalBody() as body:
                self._conditional(body)
            case FrameBody() as body:
                self._frame(body)
        if self._single:
            self._lines.append("}")
        return "".join(f"    {line}\n" for line in self._lines)

    def _line(self, text: str) -> None:
        if self._single:
            self._lines.append("}")
            self._single = ""
        self._lines.append(text)

    def _frame(self, body: FrameBody) -> None:
        """Copy arguments to private memory, call the kernel with them there, and copy back what that may write. What
        lies in private memory already stays where it is."""
        kernel, offsets = self.kernel.calls[body.call.kernel], dict(body.call.offsets)
        behind, pointers = [], []
        for n, (number, argument) in enumerate(zip(body.call.arguments, kernel.arguments, strict=True)):
            address = f"a{number}" if n not in offsets else f"((__global uchar*)a{number} + {_bytes(offsets[n])})"
            if n not in body.promoted or number in self.private:
                pointers.append(f"({self._pointer(number, _qualified(argument))}){address}")
                continue
            pointers.append(f"p{n}")
            count = f"{argument.bytes} / sizeof({argument.ctype})"
            each = f"for (int i = 0; i < (int)({count}); ++i)"
            self._line(f"{argument.ctype} p{n}[{count}];")
            ctype = self.aliasing.of(argument.ctype)
            self._line(f"{each} p{n}[i] = ((__global const {ctype}*){address})[i];")
            if argument.role != "input":
                behind.append(f"{each} ((__global {ctype}*){address})[i] = p{n}[i];")
        head = "group, item, local_memory" if self.group else "item"
        self._line(f"{self.functions[body.call.kernel]}({head}, {', '.join(pointers)});")
        for line in behind:
            self._line(line)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, call: KernelCall, item: str = "", condition: str = "") -> None:
        """A call for one work item, or for all items of the called kernel in order. `condition` says when a work-group
        makes it."""
        kernel, name = self.kernel.calls[call.kernel], self.functions[call.kernel]
        offsets, moved, pointers = dict(call.offsets), None, []
        if isinstance(kernel.body, CopyBody):
            moved = next((self.private[n] for n in call.arguments if n in self.private), None)
        for n, (number, argument) in enumerate(zip(call.arguments, kernel.arguments, strict=True)):
            const = "const " if argument.role == "input" else ""
            address = f"a{number}"
            if n in offsets:
                address = f"(({self._pointer(number, f'{const}uchar')})a{number} + {_bytes(offsets[n])})"
            ctype = argument.ctype if moved is None else self.aliasing.of(moved)
            pointers.append(f"({self._pointer(number, f'{const}{ctype}')}){address}")
        if moved is not None:  # element by element: the copy's function is for global memory
            source, target = pointers
            count = f"{kernel.arguments[0].bytes} / sizeof({moved})"
            self._line(f"for (int i = 0; i < (int)({count}); ++i) ({target})[i] = ({source})[i];")
            return
        if self.group:
            self._group_call(call, name, pointers, item, condition)
            return
        if kernel.persistent:
            self._line(f"{name}(item, workers, phase, {', '.join(pointers)});")
            return
        loop = f"for (int i = 0; i < {kernel.items}; ++i) " if not item and kernel.items > 1 else ""
        item = item or ("i" if loop else "0")
        self._line(f"{loop}{name}({item}, {', '.join(pointers)});")

    def _group_call(self, call: KernelCall, name: str, pointers: Sequence[str], number: str, condition: str) -> None:
        """A call by a work-group: for a work-group of the called kernel, or for all of them in order."""
        kernel, arguments = self.kernel.calls[call.kernel], ", ".join(pointers)
        places = list(zip(_places(call), kernel.arguments, strict=True))
        read, written = ({p for p, a in places if (a.role == "input") == inputs} for inputs in (True, False))
        single = f"item == 0 && {condition}" if condition else "item == 0"
        if kernel.items == 1:
            if self._single != single:
                self._wait()
                self._line(f"if ({single}) {{")
                self._single = single
            self._lines.append(f"{name}(0, {arguments});")
        else:
            local = self._local and kernel.local_bytes > 0
            if self._single or local or _meet(written, self._read | self._written) or _meet(read, self._written):
                self._wait()
            self._group_statement(kernel, name, arguments, number, condition)
            self._local |= kernel.local_bytes > 0
        self._read |= read
        self._written |= written

    def _group_statement(self, kernel: Kernel, name: str, arguments: str, number: str, condition: str) -> None:
        """The statement of such a call, for all items of the work-group."""
        count = -(-kernel.items // self.group)
        if loop := not number and count > 1:
            holds = f" && {condition}" if condition else ""
            self._line(f"for (int g = 0; g < {count}{holds}; ++g) {{")
        number = number or ("g" if loop else "0")
        conditions = [condition] if condition and not loop else []
        if kernel.work_group:
            statement = f"{name}({number}, item, local_memory, {arguments});"
        else:
            own = f"({number}) * {self.group} + item"
            statement = f"{name}({own}, {arguments});"
            conditions += [f"{own} < {kernel.items}"] if kernel.items % self.group else []
        self._line(f"if ({' && '.join(conditions)}) {statement}" if conditions else statement)
        if loop:
            if kernel.local_bytes:  # the next one uses the same local memory
                self._line(_WAIT)
            self._line("}")

    def _wait(self, always: bool = False) -> None:
        """Emits a barrier, if there is anything to wait for."""
        if self.group and (self._read or self._written or always):
            self._line(_WAIT)
        self._forget()

    def _forget(self) -> None:
        """Forgets earlier accesses: the next statements do not run after them, or are behind a barrier."""
        self._read.clear()
        self._written.clear()
        self._local = False

    def _pointer(self, number: int, ctype: str) -> str:
        """The C type of a pointer into an argument."""
        return f"{'__private' if number in self.private else '__global'} {ctype}*"

    def _sections(self, sections: Sequence[SectionBody], item: str, trip_count: int = 1) -> None:
        """Runs the section that has the work item, or work-group, `item`, a C variable."""
        if self.group:
            self._group_sections(sections, trip_count)
            return
        begin = 0
        for n, section in enumerate(sections):
            if len(sections) > 1:
                self._line(f"{'else ' if n else ''}if ({item} < {begin + section.units}) {{")
            if trip_count > 1:
                self._iterations(trip_count)
            for call in section.calls:
                self._call(call, "" if section.serial else f"{item} - {begin}")
            for _ in range((trip_count > 1) + (len(sections) > 1)):
                self._line("}")
            begin += section.units

    def _group_sections(self, sections: Sequence[SectionBody], trip_count: int) -> None:
        """Runs the section that has the work-group: the first calls of all sections, then the second ones, and so
        on."""
        if trip_count > 1:
            self._iterations(trip_count)
        begins = [sum(s.units for s in sections[:n]) for n in range(len(sections) + 1)]
        for k in range(max(len(section.calls) for section in sections)):
            for section, begin, end in zip(sections, begins, begins[1:], strict=False):
                if k < len(section.calls):
                    condition = f"group >= {begin} && group < {end}" if len(sections) > 1 else ""
                    self._call(section.calls[k], "" if section.serial else f"group - {begin}", condition)
        if trip_count > 1:
            self._wait()
            self._line("}")

    def _iterations(self, trip_count: int) -> None:
        """The head of a loop, of whose variable an IterationOffset is a multiple."""
        self._line(f"for (int iteration = 0; iteration < {trip_count}; ++iteration) {{")

    # -- copies and parallel launches ------------------------------------------------------------------------------

    def _copy(self, body: CopyBody) -> None:
        if body.groups > 1:
            first, step = f"group * {self.group} + item", body.groups * self.group
            self._line(f"for (long i = {first}; i < {body.count}; i += {step}) a1[i] = a0[i];")
            return
        if self.group:
            self._line("#pragma unroll 4")
            self._line(f"for (int i = item; i < {body.count}; i += {self.group}) a1[i] = a0[i];")
            return
        if body.count <= body.per_item:
            self._line(f"for (int i = 0; i < {body.count}; ++i) a1[i] = a0[i];")
            return
        self._line(f"const long begin = (long)item * {body.per_item};")
        rest = f"{body.count} - begin"
        self._line(f"const int n = {rest} < {body.per_item} ? (int)({rest}) : {body.per_item};")
        self._line("for (int i = 0; i < n; ++i) a1[begin + i] = a0[begin + i];")

    def _any(self, body: AnyBody) -> None:
        self._line("uchar any = 0;")
        self._line(f"for (int i = 0; i < {body.count}; ++i) any |= a0[i];")
        self._line("*a1 = any;")

    def _merged(self, body: MergedBody) -> None:
        self._sections(body.sections, "group" if self.group else "item", body.trip_count)

    # -- independent iterations -------------------------------------------------------------------------------------

    def _independent_iterations(self, body: IterationsBody) -> None:
        """A call in each item of the work-groups, which do not wait for each other; t0 is the number of the item."""
        self._line(f"const int t0 = group * {self.group} + item;")
        self.group = 0
        conditions = [f"t0 < {body.count}"]
        if body.unfinished is not None:
            conditions.append(f"(({self._pointer(body.unfinished, 'const uchar')})a{body.unfinished})[t0]")
        self._line(f"if ({' && '.join(conditions)}) {{")
        self._call(body.call)
        if body.more is not None:
            self._line(f"if ({conditions[1]}) atomic_or(({self._pointer(body.more, 'volatile int')})a{body.more}, 1);")
        self._line("}")

    # -- persistent kernels --------------------------------------------------------------------------------------------

    def _persistent(self, body: PersistentBody) -> None:
        repeated = body.trip_count > 1 or any(isinstance(phase, ExitPhase) for phase in body.phases)
        if repeated:
            self._iterations(body.trip_count)
        for phase in body.phases:
            self._phase(phase)
        if repeated:
            self._line("}")

    def _phase(self, phase: Phase) -> None:
        match phase:
            case SharedPhase(sections):
                self._share_out(sum(section.units for section in sections))
                self._sections(sections, "at")
                self._line("}")
            case NestedPhases(call):
                self._call(call)
            case TiledPhase():
                self._tiles(phase)
            case ExitPhase(predicate):
                self._share_out(1)
                self._line(f"rx_note_s32({_SYNC}, {self._value('uchar', predicate)} != 0);")
                self._line("}")
                self._line(f"if (!rx_goes_s32({_SYNC}, phase[0])) return;")

    def _share_out(self, count: int) -> None:
        """The head of a loop over this worker's share of `count` work items; `at` is the item."""
        self._line(f"for (int at; (at = rx_next_s32({_SYNC}, phase, item, workers, {count})) >= 0;) {{")

    def _tiles(self, phase: TiledPhase) -> None:
        """A loop over tiles: t0, t1, ... are a tile's numbers along the axes, and s0, s1, ... its first elements."""
        count = 1
        for axis in phase.axes:
            count *= axis.count
        if phase.once:
            self._line("int before = -1;")
        self._share_out(count)
        inner = 1
        for n, axis in reversed(list(enumerate(phase.axes))):
            self._line(f"const int t{n} = at / {inner} % {axis.count};")
            self._line(f"const int s{n} = {_start(axis, f't{n}')};")
            inner *= axis.count
        if phase.unfinished is not None:
            self._line(f"if (!(({self._pointer(phase.unfinished, 'const uchar')})a{phase.unfinished})[at]) continue;")
        if phase.once:
            row = f"at / {phase.axes[-1].count}"
            self._line(f"if (before != {row}) {{")
            for call in phase.once:
                self._call(call)
            self._line(f"before = {row};")
            self._line("}")
        for call in phase.each:
            self._call(call)
        self._line("}")

    # -- control flow --------------------------------------------------------------------------------------------------

    def _counted_loop(self, body: CountedLoopBody) -> None:
        note = f"progress[{_ITERATION}] = iteration;"
        resumable = _can_leave(body.calls)
        self._progress(body.state.progress)
        self._line(f"long iteration = progress[{_ITERATION}], at = progress[{_POSITION}], spent = 0;")
        self._wait(always=True)
        self._line(f"for (; iteration < {body.trip_count}; ++iteration) {{")
        self._line(f"if (spent >= {body.limit_ns}) {{")
        self._leave(body.state.more, note)
        self._line("}")
        self._wait(always=True)
        self._calls(body.calls, resumable, body.state.more, note)
        self._line(f"spent += {body.iteration_ns};")
        self._line("}")
        self._end(body.state.more, note=f"progress[{_ITERATION}] = 0;")

    def _while_loop(self, body: WhileLoopBody) -> None:
        resumable = _can_leave(body.calls)
        self._progress(body.progress)
        if resumable:
            self._line(f"long at = progress[{_POSITION}], spent = 0;")
            self._line("for (;;) {")
            self._line("if (at == 0) {")
        else:
            self._line(f"long spent = 0; for (; spent < {body.limit_ns}; spent += {body.iteration_ns}) {{")
        self._wait(always=True)
        self._calls(body.test, False)
        self._line(f"if (!{self._value('uchar', body.predicate)}) break;")
        if resumable:
            self._line(f"if (spent >= {body.limit_ns}) {{")
            self._leave()
            self._line("} }")
        self._calls(body.calls, resumable)
        if resumable:
            self._line(f"spent += {body.iteration_ns};")
        self._line("}")
        self._end(None, resumable)

    def _conditional(self, body: ConditionalBody) -> None:
        ctype, last = "uchar" if body.of_pred else "int", len(body.branches) - 1
        more = None if body.state is None else body.state.more
        if body.state is not None:
            self._progress(body.state.progress)
        self._line(f"int branch = {self._value(ctype, body.index)}{' ? 0 : 1' if body.of_pred else ''};")
        if not body.of_pred:
            self._line(f"if (branch < 0 || branch > {last}) branch = {last};")
        if body.state is not None:
            self._line(f"long at = progress[{_POSITION}], spent = 0;")
            first = 1  # the buffer of the index may have been reused: the position says which branch it was
            for n, calls in enumerate(body.branches):
                count = sum(call.state is not None for call in calls)
                if count:
                    self._line(f"if (at >= {first} && at < {first + count}) branch = {n};")
                first += count
        self._wait()
        for n, calls in enumerate(body.branches):
            if self.group:
                for call in calls:
                    self._call(call, condition=f"branch == {n}")
                continue
            self._line(f"{'else ' if n else ''}if (branch == {n}) {{")
            self._calls(calls, body.state is not None, more)
            self._line("}")
        if body.state is not None:
            self._end(more)

    def _calls(self, calls: Sequence[KernelCall], resumable: bool, more: int | None = None, note: str = "") -> None:
        """Makes the calls; `resumable`: skips those that were made before the kernel was left."""
        for call in calls:
            if call.state is None:
                if resumable:
                    self._line("if (at == 0)")
                self._call(call)
                continue
            self._position += 1
            self._line(f"if (at == 0 || at == {self._position}) {{")
            self._call(call)
            spent = f"(({self._pointer(call.state.progress, 'const long')})a{call.state.progress})[{_SPENT}]"
            self._line(f"spent += {spent};")
            self._line(f"if ({self._value('uchar', call.state.more)}) {{")
            self._line(f"at = {self._position};")
            self._leave(more, note)
            self._line("} at = 0; }")

    def _progress(self, argument: int) -> None:
        pointer = self._pointer(argument, "long")
        self._line(f"{pointer} progress = ({pointer})a{argument};")

    def _value(self, ctype: str, argument: int) -> str:
        """The first element of an argument."""
        place = (argument, None)
        if self.group and _meet({place}, self._written):
            self._wait()
        self._read.add(place)
        return f"*({self._pointer(argument, f'const {ctype}')})a{argument}"

    def _leave(self, more: int | None = None, note: str = "") -> None:
        """Stores the position and returns. A while loop has no `more`: its predicate is true then."""
        self._note([note, f"progress[{_POSITION}] = at;", f"progress[{_SPENT}] = spent;", *self._set_more(more, 1)])
        self._line("return;")

    def _end(self, more: int | None, resumable: bool = True, note: str = "") -> None:
        position = f"progress[{_POSITION}] = 0;" if resumable else ""
        self._note([note, position, f"progress[{_SPENT}] = spent;", *self._set_more(more, 0)])

    def _note(self, statements: Sequence[str]) -> None:
        """Statements that write to memory, of which one item of a work-group makes one."""
        noted = " ".join(filter(None, statements))
        self._line(f"if (item == 0) {{ {noted} }}" if self.group else noted)

    def _set_more(self, more: int | None, value: int) -> list[str]:
        return [] if more is None else [f"*({self._pointer(more, 'uchar')})a{more} = {value};"]


# An argument, and the offset of a part that is disjoint from parts at other offsets; None: all of it.
_Place = tuple[int, int | None]


def _places(call: KernelCall) -> list[_Place]:
    """The places of a call's arguments."""
    offsets = dict(call.offsets)
    starts = (offsets.get(n) for n in range(len(call.arguments)))
    return [
        (number, start.offset if isinstance(start, FrameOffset) else None)
        for number, start in zip(call.arguments, starts, strict=True)
    ]


def _meet(some: set[_Place], others: set[_Place]) -> bool:
    """Whether two sets have memory in common."""
    return any(n == m and (a is None or b is None or a == b) for n, a in some for m, b in others)


def _can_leave(calls: Sequence[KernelCall]) -> bool:
    """Whether one of the calls may return before it has finished."""
    return any(call.state is not None for call in calls)


def _bytes(offset: Offset) -> str:
    """An offset in bytes, in terms of the iteration, the worker (`item`), or the tile."""
    match offset:
        case IterationOffset(stride):
            return f"iteration * {stride}"
        case WorkerOffset(stride, start):
            return f"((long)item * {stride} + {start})"
        case TileOffset(strides, start):
            steps = [f"(long)s{n} * {stride}" for n, stride in enumerate(strides) if stride]
            return "(" + " + ".join([*steps, str(start)]) + ")"
        case TileNumberOffset(axis, stride, 0):
            return f"t{axis} * {stride}"
        case TileNumberOffset(axis, stride, start):
            return f"((long)t{axis} * {stride} + {start})"
        case FrameOffset(start):
            return str(start)


def _fails(predicate: Predicate) -> str:
    """The condition under which a predicate does not hold."""
    value, last = f"*a{predicate.argument}", predicate.branches - 1
    if predicate.of_pred:
        return value if predicate.branch else f"!{value}"
    return f"(uint){value} < {last}u" if predicate.branch == last else f"{value} != {predicate.branch}"


def _qualified(argument: Argument) -> str:
    """The qualified C type to which an argument of a kernel points."""
    return f"{'const ' if argument.role == 'input' else ''}{argument.ctype}"


def _start(axis: Axis, number: str) -> str:
    """The element at which a tile begins, from its number along the axis."""
    if axis.block == 1:
        return number
    begin, last = f"({number}) * {axis.block}", axis.size - axis.block
    return begin if axis.size % axis.block == 0 else f"({begin} < {last} ? {begin} : {last})"
