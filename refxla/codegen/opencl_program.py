"""Assembles kernels into one OpenCL C program.

Each kernel's body becomes a function; equal bodies with equal argument types are one function. Functions with similar
numbers of arguments are cases of a `switch` in one `__kernel`: a device compiles one kernel with fifty cases much
faster than fifty kernels. On a CPU the functions are not inlined there, which halves the compile time; a call for each
item costs next to nothing. The functions that a merged kernel calls are not inlined either, so that one reads what
another has written, although the pointers of each are `restrict`.

A loop with arguments in private memory (FrameBody) is the exception: functions that take one of those are specialized
for it and inlined, so that private memory becomes registers. In these, arguments that may be the same are not
`restrict`, and objects in global memory have types (`any_...`) that may alias others: two values of different types may
use the same memory at different times.

On a GPU each function has a __kernel of its own, with its own registers and local memory. Where its items work
together, the size of the work-group is part of the __kernel. The functions that a merged kernel calls are inlined
there, and none of their pointers is `restrict`: where they were, items of an NVIDIA H100 used values from before a
barrier.

A program that takes long to compile may be cut into parts, each a program of its own, which are compiled in parallel. A
part is handed on as soon as it is full, while later kernels are still being emitted. The name of a `__kernel` contains
a digest of its part, which makes it unique: PoCL identifies what it built from a binary by the names of its kernels.

Most programs are one merged kernel, which is one part. Where machine code can be linked after it is compiled
(runtime/pocl/kernel_library.py), its functions are distributed over parts. A function of another part is called through
a *stub*, which jumps to an address that is filled in when all parts are loaded. So each function is compiled only once,
whichever kernels call it. Those of function libraries (function_library.py) are called in the same way.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..device.description import Target
from ..ir import merged_body as m
from ..ir.plan import Argument, Kernel
from . import function_library, prelude
from .merged_kernel_emitter import AliasingTypes, body_text
from .primitives import build_options, primitives, wide_attribute, with_target_features
from .program_part import EFFECTFUL, EXTERNAL, ProgramPart, stub

# The numbers of pointers that __kernels of a program in parts have, each for functions with at most so many: few
# kernels.
_WIDTHS = (8, 32, 1 << 30)
_GROWTH = 2  # every so many parts, their size grows by that of the first
_LARGEST = 8  # times the size of the first, at most
_DEEPEST = 8  # calls within calls: PoCL copies a function once for each path of calls, twice as many for each level
_LEAST_LINKED = 1_500  # characters of one of several linked parts, on average
_KERNEL = 2_000  # characters that take as long as a __kernel does
_LEAST_SAVED = 1_000  # characters that the largest of them has fewer than all together
_LEAST_EXPORTED = 400  # characters of a function and its helpers, from which on a stub and a case of a switch pay
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Program:
    """OpenCL C in parts, none where there are no kernels, and, for each kernel given, its (name of the __kernel, value
    of its argument `which`).

    A __kernel takes `which` and `base` (both int), then as many pointers as `pointers` says, of which a function may
    use only the first ones; item = base + get_global_id(0). One with a work-group ignores `which` and `base`. For
    targets with `offsets`, as many numbers of type long follow: the byte offset of each argument from its pointer.
    """

    parts: tuple[ProgramPart, ...]
    entries: tuple[tuple[str, int], ...]
    pointers: dict[str, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The source of all parts, for readers; it can be compiled if there is a single part."""
        return "\n".join(part.source for part in self.parts)

    @property
    def is_linked(self) -> bool:
        """Whether parts call each other's functions."""
        return any(part.imports for part in self.parts)


class _Dispatcher:
    """A __kernel, whose name is whole when its part is, and the functions behind it: (name, pointer types, the
    items of a persistent kernel, which also takes the number of workers and its place in the phases; else 0)."""

    def __init__(self, name: str, offsets: bool) -> None:
        self.name, self.items, self.offsets = name, 1, offsets
        self.functions: list[tuple[str, list[str], int]] = []
        self.sizes: dict[str, int] = {}  # of the functions and of those that they call

    @property
    def size(self) -> int:
        """Characters of the functions, and of those that they call."""
        return sum(self.sizes.values())

    @property
    def count(self) -> int:
        """The number of its pointers."""
        return max(len(types) for _, types, _ in self.functions)

    def parameters(self) -> str:
        """Its parameters, as C."""
        pointers = "".join(f", __global void* p{n}" for n in range(self.count))
        offsets = "".join(f", const long o{n}" for n in range(self.count)) if self.offsets else ""
        return f"const int which, const int base{pointers}{offsets}"

    def arguments(self, types: Sequence[str]) -> str:
        """Its first pointers as a function's arguments, as C."""
        if not self.offsets:
            return "".join(f", ({t})p{n}" for n, t in enumerate(types))
        return "".join(f", ({t})((__global uchar*)p{n} + o{n})" for n, t in enumerate(types))

    def text(self) -> str:
        lines = [f"__kernel void {self.name}({self.parameters()}) {{"]
        lines.append("    const int item = base + (int)get_global_id(0);")
        lines.append("    switch (which) {")
        for which, (name, types, workers) in enumerate(self.functions):
            args = self.arguments(types)
            if not workers:
                lines.append(f"    case {which}: {name}(item{args}); break;")
                continue
            lines += [
                f"    case {which}: {{",
                "        int phase[3] = {0, 0, 0};",
                f"        {name}(item, {workers}, phase{args});",
                f"        rx_leave_s32({self.arguments(['__global long*'])[2:]}, {workers});",
                "        break;",
                "    }",
            ]
        lines += ["    }", "}", ""]
        return "\n".join(lines)


class _WorkGroups(_Dispatcher):
    """A __kernel of one function, with work-groups of `size` items."""

    def __init__(self, name: str, offsets: bool, size: int, local_bytes: int) -> None:
        super().__init__(name, offsets)
        self.work_group, self.local_bytes = size, local_bytes

    def text(self) -> str:
        ((name, types, _),) = self.functions
        lines = [f"__kernel __attribute__((reqd_work_group_size({self.work_group}, 1, 1)))"]
        lines.append(f"void {self.name}({self.parameters()}) {{")
        local = "0"
        if self.local_bytes:
            local = "(__local uchar*)local_memory"
            lines.append(f"    __local float4 local_memory[{-(-self.local_bytes // 16)}];")
        lines.append(f"    {name}((int)get_group_id(0), (int)get_local_id(0), {local}{self.arguments(types)});")
        return "\n".join([*lines, "}", ""])


def program(kernels: Sequence[Kernel], target: Target, part: int | None = None) -> Program:
    """The program of all kernels for a target: one part, or parts of at least about `part` characters."""
    return Builder(target, part).program(kernels)


class Builder:
    """Builds a program kernel by kernel.

    `part` is the number of characters at which the first part is full; later parts are larger, since code that parts
    share is compiled for each. None: there is one part, with a __kernel for each number of arguments. Each part is
    passed to `ready` when it is complete. A program that would have fewer parts than `linked` is cut into parts that
    call each other's functions. `links`: parts can call each other's functions, and those of function libraries, each
    of which is one of the parts.
    """

    def __init__(
        self,
        target: Target,
        part: int | None = None,
        ready: Callable[[ProgramPart], object] = lambda part: None,
        linked: int = 1,
        links: bool = False,
    ) -> None:
        self.target, self.part, self.ready, self.linked = target, part, ready, linked
        self._apart = prelude.libraries() if links else _NONE
        self._libraries: dict[ProgramPart, None] = {}  # those of the prelude that parts call
        self._functions = _Functions(target, links, self._apart)
        self._launched: dict[str, tuple[_Dispatcher, int]] = {}  # functions that are not only called by others
        self._open: dict[int, list[_Dispatcher]] = {}  # by their width
        self._parts: list[ProgramPart] = []
        self._count = 0

    def add(self, kernel: Kernel) -> None:
        """Adds a kernel that is launched. Its part may be full then."""
        self._enter(kernel)
        for dispatchers in self._open.values():
            for dispatcher in list(dispatchers):
                if self.part is not None and dispatcher.size >= self._part_length:
                    self._close([dispatcher])
                    dispatchers.remove(dispatcher)

    def program(self, kernels: Sequence[Kernel]) -> Program:
        """The program of these kernels and of those that were added before."""
        entered = list(map(self._enter, kernels))
        rest = sorted((d for same in self._open.values() for d in same), key=lambda d: -d.size)
        linked = self._close_linked(rest)
        while rest and not linked:
            group = [rest.pop(0)]
            while rest and (self.part is None or sum(d.size for d in group) + rest[0].size <= self.part):
                group.append(rest.pop(0))
            self._close(group)
        self._open.clear()
        for library in self._libraries:
            self._add(library)  # after the program's own parts, which take longer when it is not compiled yet
        pointers = {d.name: d.count for d, _ in self._launched.values()}
        return Program(tuple(self._parts), tuple((d.name, which) for d, which in entered), pointers)

    @property
    def _part_length(self) -> int:
        """The characters of the next part of several."""
        assert self.part is not None
        return min(self.part * (_GROWTH + len(self._parts)) // _GROWTH, self.part * _LARGEST)

    def _enter(self, kernel: Kernel) -> tuple[_Dispatcher, int]:
        name = self._functions.of(kernel)
        if name not in self._launched:
            types = [_pointer(a) for a in kernel.arguments]
            sizes = self._functions.sizes_of(name)
            dispatcher = self._dispatcher(kernel, sizes)
            self._launched[name] = (dispatcher, len(dispatcher.functions))
            dispatcher.functions.append((name, types, kernel.items if kernel.persistent else 0))
            dispatcher.sizes |= sizes
            dispatcher.items = max(dispatcher.items, kernel.items)
        return self._launched[name]

    def _dispatcher(self, kernel: Kernel, sizes: dict[str, int]) -> _Dispatcher:
        """The dispatcher to which these functions add least, some of which it may have, while it stays near the size of
        a part. On a GPU, a new one."""
        pointers = len(kernel.arguments)
        width = pointers if self.part is None else next(w for w in _WIDTHS if w >= pointers)
        same = self._open.setdefault(width, [])
        if not self.target.capabilities.kernel_switch:
            name, offsets = f"refxla_{self._count}", self.target.offsets
            alone = _Dispatcher(name, offsets)
            if kernel.work_group:
                alone = _WorkGroups(name, offsets, kernel.work_group, kernel.local_bytes)
            same.append(alone)
            self._count += 1
            return alone

        def cost(d: _Dispatcher) -> float:
            more = sum(size for name, size in sizes.items() if name not in d.sizes)
            return more if self.part is None else more + max(0, d.size + more - 2 * self._part_length) / 2

        best = min(same, key=cost, default=None)
        if best is None or cost(best) > sum(sizes.values()):
            best = _Dispatcher(f"refxla_{self._count}", self.target.offsets)
            same.append(best)
            self._count += 1
        return best

    def _close(self, dispatchers: Sequence[_Dispatcher]) -> None:
        """Completes a part with these dispatchers."""
        self._finish(dispatchers, self._functions.with_called(name for d in dispatchers for name, _, _ in d.functions))

    def _close_linked(self, dispatchers: Sequence[_Dispatcher]) -> bool:
        """Completes linked parts with these dispatchers, of about equal length. Returns False if there would be only
        one."""
        functions = self._functions
        needed = functions.with_called(name for d in dispatchers for name, _, _ in d.functions)
        whole = sum(functions.compiled_sizes(name for name, _ in needed).values()) + _KERNEL * (len(dispatchers) - 1)
        count = min(self.linked, whole // _LEAST_LINKED)
        parts = [] if count < 2 else functions.shared_out(dispatchers, [name for name, _ in needed], count)
        if len(parts) < 2 or max(map(_size, parts)) > whole - _LEAST_SAVED:
            return False
        assignment = repr([sorted(unit.functions) for part in parts for unit in part])
        # A digest of all parts: a part is linked to the same others, whichever program it is loaded for.
        digest = hashlib.sha256("".join([assignment, *(text for _, text in needed)]).encode()).hexdigest()[:16]
        users = Counter(name for part in parts for unit in part for name in unit.calls)
        calls = [{name for unit in part for name in unit.calls} for part in parts]
        external = [  # of each part: those of its functions that others call, or several of its own kernels
            {
                unit.export: f"{EXTERNAL}{unit.export}_{digest}"
                for unit in part
                if unit.export and (users[unit.export] > 1 or unit.export not in calls[n])
            }
            for n, part in enumerate(parts)
        ]
        for part, called, exports in zip(parts, calls, external, strict=True):
            own = {name for unit in part for name in unit.functions}
            imports = {name: outside for each in external for name, outside in each.items() if name in called}
            launched = [unit.dispatcher for unit in part if unit.dispatcher]
            if exports and not launched:  # PoCL drops functions that no __kernel calls
                launched.append(_Dispatcher(f"refxla_{self._count}", False))
                self._count += 1
            if exports:
                launched[-1].functions += [(e, functions.pointers[n], 0) for n, e in exports.items()]
            self._finish(launched, [(n, text) for n, text in needed if n in own], imports, exports)
        return True

    def _finish(
        self,
        dispatchers: Sequence[_Dispatcher],
        own: Sequence[tuple[str, str]],
        imports: Mapping[str, str] = _NONE,
        exports: Mapping[str, str] = _NONE,
    ) -> None:
        """Completes a part of dispatchers and of its own functions, callees first. `imports` and `exports` have the
        external names of functions, by their names in the program."""
        functions = self._functions
        qualifier = functions.qualifier()
        helpers = functions.with_attributes((name for name, _ in own), functions.helpers)
        bodies = [f"{qualifier}{attribute} {text}" for text, attribute in helpers.items()]
        shared = functions.with_attributes((name for name, _ in own), functions.shared)
        libraries = [function_library.of_function(self.target, *function) for function in shared.items()]
        for name, external in imports.items():
            text = functions.texts[name]
            bodies.append(stub("void", name, text[: text.index(") {") + 1], external))
        for name, text in own:
            if name in exports:
                text = text.replace("{\n", EFFECTFUL, 1)
            bodies.append(f"{functions.head(name, name in exports)} void {exports.get(name, name)}{text}")
        present = {name for name, _ in own} | set(imports)
        bodies[:0] = AliasingTypes.declarations({t for name in present for t in functions.aliasing[name]})

        def source() -> str:
            return "\n".join([*bodies, *(d.text() for d in dispatchers)])

        stubs = []
        for name in sorted(self._apart.keys() & prelude.sizes(source(), self._apart)):
            of_prelude = function_library.of_prelude(self.target, self._apart[name])
            self._libraries[of_prelude.part] = None
            stubs.append(of_prelude.stubs[name])
        for library in libraries:
            stubs += library.stubs.values()
            if library.part not in self._parts:  # before this part, which seldom takes longer
                self._add(library.part)
        helper_text = prelude.functions(source(), inlining=functions.are_called, apart=self._apart)
        helper_text = "".join([*(text for _, text in stubs), helper_text])

        def complete() -> str:
            return primitives(self.target) + with_target_features(f"{helper_text}\n{source()}", self.target)

        digest = hashlib.sha256("\n".join([*build_options(self.target), complete()]).encode()).hexdigest()
        for d in dispatchers:
            d.name = f"{d.name}_{digest[:16]}"
        self._add(
            ProgramPart(
                complete(),
                tuple(d.name for d in dispatchers),
                max((d.items for d in dispatchers), default=1),
                tuple(exports.values()),
                (*imports.values(), *(external for external, _ in stubs)),
                self.target.offsets,
            )
        )

    def _add(self, part: ProgramPart) -> None:
        self._parts.append(part)
        self.ready(part)


@dataclass(frozen=True)
class _Unit:
    """Functions that stay together when a program is cut into linked parts: `functions` of a dispatcher, or of one
    function that may be exported. `calls` has the functions of other units that they call, `sizes` the characters of
    the functions and of what else is compiled with them, each by its name or text: units have some in common."""

    dispatcher: _Dispatcher | None
    export: str
    functions: frozenset[str]
    calls: frozenset[str]
    sizes: Mapping[str, int]


def _size(units: Collection[_Unit]) -> int:
    """The characters of all that is compiled with these units in one part, and of its __kernels but one."""
    sizes: dict[str, int] = {}
    for unit in units:
        sizes |= unit.sizes
    return sum(sizes.values()) + _KERNEL * max(0, sum(unit.dispatcher is not None for unit in units) - 1)


@dataclass(frozen=True)
class _Inlining:
    """How a kernel's function is written for being inlined into a loop: the C types of its arguments in private memory,
    by their numbers; the numbers of those that are not `restrict`, since another one may be the same; and whether the
    loop has the widest vectors."""

    private: Mapping[int, str]
    repeated: frozenset[int]
    wide: bool


class _Functions:
    """The functions of all parts: `names` has the name of each by its attribute, its text and its work-group."""

    def __init__(self, target: Target, links: bool = False, apart: Collection[str] = ()) -> None:
        """`links`: library functions are compiled apart from the program, as `apart` are, functions of the prelude."""
        self.links, self.apart = links, apart
        self.are_called = target.capabilities.function_calls
        wide = target.features and self.are_called
        self.wide = f" {wide_attribute(target)}" if wide else ""
        self.names: dict[tuple[str, str, int], str] = {}
        self.attributes: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.sizes: dict[str, int] = {}  # characters of each
        self.called: dict[str, list[str]] = {}
        self.helpers: dict[str, tuple[str, ...]] = {}
        self.shared: dict[str, tuple[str, ...]] = {}  # the library functions of each that are compiled apart
        self.aliasing: dict[str, set[str]] = {}  # the types that each needs: see AliasingTypes
        self.inlined: set[str] = set()
        self.depths: dict[str, int] = {}  # how deep the calls in each are nested that are not inlined
        self.pointers: dict[str, list[str]] = {}  # the pointer types of those with an item and pointers alone
        self.counts: dict[int, int] = {}
        self.compiled: dict[str, dict[str, int]] = {}  # see compiled_sizes

    def of(self, kernel: Kernel, inlining: _Inlining | None = None, part: bool = False) -> str:
        """The name of a kernel's function, which is added unless there is an equal one. `part`: it is called by a
        merged kernel."""
        private = {} if inlining is None else inlining.private
        wide = kernel.wide_vectors if inlining is None else inlining.wide
        called = self._called(kernel, private, wide)
        aliasing = AliasingTypes()
        body = body_text(kernel, called, private, aliasing)
        every = range(len(kernel.arguments))
        if part and not self.are_called and inlining is None:
            inlining = _Inlining({}, frozenset(every), wide)
        parameters = ", ".join(self._parameter(n, kernel, bool(called), inlining, aliasing) for n in every)
        numbers = "const int item"
        if kernel.persistent:
            numbers += ", const int workers, __private int* phase"
        if kernel.work_group:
            numbers = "const int group, const int item, __local uchar* local_memory"
        text = f"({numbers}, {parameters}) {{\n{body}}}\n"
        key = (self.wide if wide else "", text, kernel.work_group)
        if key not in self.names:
            count = len(kernel.arguments)
            self.counts[count] = self.counts.get(count, 0) + 1
            name = self.names[key] = f"k{count}_{self.counts[count] - 1}"
            self.texts[name], self.called[name], self.attributes[name] = text, [c for c in called if c], key[0]
            self.helpers[name], self.aliasing[name] = kernel.helpers, aliasing.names
            self.shared[name] = kernel.library_functions if self.links else ()
            self.helpers[name] += () if self.links else kernel.library_functions
            self.sizes[name] = len(text)
            deepest = max((self.depths[c] for c in self.called[name]), default=0)
            # PoCL may give two work-groups the same local memory if it is passed on.
            if inlining is not None or kernel.work_group or part and self.are_called and deepest >= _DEEPEST:
                self.inlined.add(name)
                self.depths[name] = deepest
            else:
                self.depths[name] = deepest + 1
                if not kernel.persistent:
                    self.pointers[name] = [_pointer(a) for a in kernel.arguments]
        return self.names[key]

    def _called(self, kernel: Kernel, private: Mapping[int, str], wide: bool) -> list[str]:
        """The functions of the kernels that a kernel calls; those that take private memory are inlined."""
        if isinstance(kernel.body, m.FrameBody) and kernel.body.promoted:
            (inner,) = kernel.calls
            types = {n: private[k] for n, k in enumerate(kernel.body.call.arguments) if k in private}
            types |= {n: inner.arguments[n].ctype for n in kernel.body.promoted}
            return [self.of(inner, _Inlining(types, frozenset(), wide), part=True)]
        if not private or isinstance(kernel.body, str):
            return [self.of(k, part=True) for k in kernel.calls]
        names = [""] * len(kernel.calls)
        for call in m.calls(kernel.body):
            types = {n: private[number] for n, number in enumerate(call.arguments) if number in private}
            inlining = None
            if types:
                counts = Counter(call.arguments)
                repeated = frozenset(n for n, number in enumerate(call.arguments) if counts[number] > 1)
                inlining = _Inlining(types, repeated, wide)
            called = kernel.calls[call.kernel]
            names[call.kernel] = (
                "" if inlining and isinstance(called.body, m.CopyBody) else self.of(called, inlining, part=True)
            )
        return names

    def _parameter(
        self, n: int, kernel: Kernel, calls: bool, inlining: _Inlining | None, aliasing: AliasingTypes
    ) -> str:
        """The declaration of a parameter."""
        a = kernel.arguments[n]
        if inlining is None:
            restrict = "" if calls else " restrict"  # two arguments of a merged kernel may be the same value
            return f"{_pointer(a)}{restrict} a{n}"
        const = "const " if a.role == "input" else ""
        if n in inlining.private:
            return f"__private {const}{a.ctype}* a{n}"
        restrict = " restrict" if self.are_called and not calls and n not in inlining.repeated else ""
        return f"__global {const}{a.ctype if calls else aliasing.of(a.ctype)}*{restrict} a{n}"

    def with_attributes(self, names: Iterable[str], called: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """The attribute of each C function that these functions call: that for wide vectors if one of them has it."""
        attributes: dict[str, str] = {}
        for name in names:
            for text in called[name]:
                attributes[text] = attributes.get(text) or self.attributes[name]
        return attributes

    def head(self, name: str, external: bool = False) -> str:
        """The qualifiers and attributes of a function, which other parts may call if it is external."""
        qualifier = "__attribute__((noinline))" if external else self.qualifier(name in self.inlined)
        return f"{qualifier}{self.attributes[name]}"

    def qualifier(self, inlined: bool = False) -> str:
        """The qualifiers of a function that is inlined or not, without its attribute."""
        if not self.are_called:
            return "__attribute__((always_inline)) static inline" if inlined else "static inline"
        return f"__attribute__(({'always_inline' if inlined else 'noinline'})) static"

    def shared_out(self, dispatchers: Sequence[_Dispatcher], needed: Sequence[str], count: int) -> list[list[_Unit]]:
        """Distributes the units of these dispatchers, which need these functions, over so many parts of about equal
        length, or fewer if there are few units."""
        launched = {name for d in dispatchers for name, _, _ in d.functions}
        exportable = frozenset(
            name
            for name in self.pointers
            if name not in launched and self.sizes[name] + sum(map(len, self.helpers[name])) >= _LEAST_EXPORTED
        )

        def unit(dispatcher: _Dispatcher | None, export: str, roots: Iterable[str]) -> _Unit:
            functions = dict(self.with_called(roots, exportable))
            calls = exportable.intersection(other for name in functions for other in self.called[name])
            return _Unit(dispatcher, export, frozenset(functions), calls, self.compiled_sizes(functions))

        units = [unit(d, "", [name for name, _, _ in d.functions]) for d in dispatchers]
        units += [unit(None, name, [name]) for name in needed if name in exportable]
        parts: list[list[_Unit]] = [[] for _ in range(count)]
        contents: list[dict[str, int]] = [{} for _ in range(count)]
        totals = [0] * count
        for each in sorted(units, key=lambda u: -sum(u.sizes.values())):
            more = [sum(size for key, size in each.sizes.items() if key not in content) for content in contents]
            if each.dispatcher:  # one of a part that has a __kernel already; every part has one
                more = [m + _KERNEL * any(u.dispatcher for u in part) for m, part in zip(more, parts, strict=True)]
            smallest = min(range(count), key=lambda n: totals[n] + more[n])
            parts[smallest].append(each)
            contents[smallest] |= each.sizes
            totals[smallest] += more[smallest]
        return [part for part in parts if part]

    def compiled_sizes(self, names: Iterable[str]) -> dict[str, int]:
        """The characters of these functions, and of the helpers and functions of the prelude that they call, each by
        its name or text."""
        sizes: dict[str, int] = {}
        for name in names:
            if name not in self.compiled:
                texts = (self.texts[name], *self.helpers[name])
                own = {name: self.sizes[name], **{h: len(h) for h in self.helpers[name]}}
                self.compiled[name] = own.copy()
                for text in texts:
                    self.compiled[name] |= prelude.sizes(text, self.apart)
            sizes |= self.compiled[name]
        return sizes

    def sizes_of(self, name: str) -> dict[str, int]:
        """The characters of a function, of those that it calls and of their helpers, each by its name or text."""
        called = [n for n, _ in self.with_called([name])]
        return {n: self.sizes[n] for n in called} | {h: len(h) for n in called for h in self.helpers[n]}

    def with_called(self, names: Iterable[str], apart: Collection[str] = ()) -> list[tuple[str, str]]:
        """(name, text) of these functions and of those that they call, callees first, except those `apart`."""
        texts: dict[str, str] = {}

        def visit(name: str) -> None:
            if name not in texts:
                for other in self.called[name]:
                    if other not in apart:
                        visit(other)
                texts[name] = self.texts[name]

        for name in names:
            visit(name)
        return list(texts.items())


def _pointer(argument: Argument) -> str:
    return f"__global {'const ' if argument.role == 'input' else ''}{argument.ctype}*"
