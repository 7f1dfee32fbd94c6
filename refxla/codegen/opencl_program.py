"""Assembles kernels into one OpenCL C program.

Each kernel's body becomes a function (kernel_functions.py); functions are called by a few `__kernel`s
(kernel_dispatcher.py). Where a GPU's items work together, the size of the work-group is part of the __kernel.

A program that takes long to compile may be cut into parts, each a program of its own, which are compiled in parallel. A
part is handed on as soon as it is full, while later kernels are still being emitted. The name of a `__kernel` contains
a digest of its part, which makes it unique: PoCL identifies what it built from a binary by the names of its kernels.

Most programs are one merged kernel, which is one part. Where machine code can be linked, its functions are distributed
over parts that call each other (linked_parts.py), and call function libraries (function_library.py) in the same way.
A program of a single small kernel shares its code with those that differ in sizes alone (size_variables.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..device.description import Target
from ..ir.plan import Kernel
from . import function_library, prelude, size_variables
from .kernel_dispatcher import Dispatcher, WorkGroupDispatcher, pointer_type
from .kernel_functions import KernelFunction, KernelFunctions, attributes_of
from .linked_parts import linked_parts
from .merged_kernel_emitter import AliasingTypes
from .primitives import build_options, primitives, with_target_features
from .program_part import EFFECTFUL, ProgramPart, stub

# The numbers of pointers that __kernels of a program in parts have, each for functions with at most so many: few
# kernels.
_WIDTHS = (8, 32, 1 << 30)
_GROWTH = 2  # every so many parts, their size grows by that of the first
_LARGEST = 8  # times the size of the first, at most
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
        return "\n".join(part.specialized.source for part in self.parts)

    @property
    def is_linked(self) -> bool:
        """Whether parts call each other's functions."""
        return any(part.imports for part in self.parts)


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
        self._links = links
        self._apart = prelude.libraries() if links else _NONE
        self._libraries: dict[ProgramPart, None] = {}  # those of the prelude that parts call
        self._functions = KernelFunctions(target, links, self._apart)
        self._launched: dict[str, tuple[Dispatcher, int]] = {}  # functions that are not only called by others
        self._open: dict[int, list[Dispatcher]] = {}  # by their width
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
        is_one_kernel = not self._parts and sum(len(d.functions) for d in rest) == 1
        while rest and not linked:
            group = [rest.pop(0)]
            while rest and (self.part is None or sum(d.size for d in group) + rest[0].size <= self.part):
                group.append(rest.pop(0))
            self._close(group, has_size_variables=self._links and is_one_kernel)
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

    def _enter(self, kernel: Kernel) -> tuple[Dispatcher, int]:
        name = self._functions.of(kernel).name
        if name not in self._launched:
            types = [pointer_type(a) for a in kernel.arguments]
            sizes = self._functions.sizes_of(name)
            dispatcher = self._dispatcher(kernel, sizes)
            self._launched[name] = (dispatcher, len(dispatcher.functions))
            dispatcher.functions.append((name, types, kernel.items if kernel.persistent else 0))
            dispatcher.sizes |= sizes
            dispatcher.items = max(dispatcher.items, kernel.items)
        return self._launched[name]

    def _dispatcher(self, kernel: Kernel, sizes: dict[str, int]) -> Dispatcher:
        """The dispatcher to which these functions add least, some of which it may have, while it stays near the size of
        a part. On a GPU, a new one."""
        pointers = len(kernel.arguments)
        width = pointers if self.part is None else next(w for w in _WIDTHS if w >= pointers)
        same = self._open.setdefault(width, [])
        if not self.target.capabilities.kernel_switch:
            name, offsets = f"refxla_{self._count}", self.target.offsets
            alone = Dispatcher(name, offsets)
            if kernel.work_group:
                alone = WorkGroupDispatcher(name, offsets, kernel.work_group, kernel.local_bytes)
            same.append(alone)
            self._count += 1
            return alone

        def cost(d: Dispatcher) -> float:
            more = sum(size for name, size in sizes.items() if name not in d.sizes)
            return more if self.part is None else more + max(0, d.size + more - 2 * self._part_length) / 2

        best = min(same, key=cost, default=None)
        if best is None or cost(best) > sum(sizes.values()):
            best = Dispatcher(f"refxla_{self._count}", self.target.offsets)
            same.append(best)
            self._count += 1
        return best

    def _close(self, dispatchers: Sequence[Dispatcher], has_size_variables: bool = False) -> None:
        """Completes a part with these dispatchers. With `has_size_variables`, a single function that calls no other one
        reads its sizes from a table."""
        own = self._functions.with_called(name for d in dispatchers for name, _, _ in d.functions)
        self._finish(dispatchers, own, has_size_variables=has_size_variables and len(own) == 1)

    def _close_linked(self, dispatchers: Sequence[Dispatcher]) -> bool:
        """Completes linked parts with these dispatchers. Returns False if there would be only one."""
        parts = linked_parts(self._functions, dispatchers, self.linked)
        for part in parts:
            launched = part.dispatchers
            if part.exports and not launched:  # PoCL drops functions that no __kernel calls
                launched = [Dispatcher(f"refxla_{self._count}", False)]
                self._count += 1
            for name, external in part.exports.items():
                types = self._functions[name].pointers
                assert types is not None  # or it would not be exported
                launched[-1].functions.append((external, list(types), 0))
            self._finish(launched, part.functions, part.imports, part.exports)
        return bool(parts)

    def _finish(
        self,
        dispatchers: Sequence[Dispatcher],
        own: Sequence[KernelFunction],
        imports: Mapping[str, str] = _NONE,
        exports: Mapping[str, str] = _NONE,
        has_size_variables: bool = False,
    ) -> None:
        """Completes a part of dispatchers and of its own functions, callees first. `imports` and `exports` have the
        external names of functions, by their names in the program."""
        functions = self._functions
        qualifier = functions.qualifier()
        helpers = attributes_of((f.attribute, text) for f in own for text in f.helpers)
        bodies = [f"{qualifier}{attribute} {text}" for text, attribute in helpers.items()]
        shared = attributes_of((f.attribute, text) for f in own for text in f.library_functions)
        libraries = [function_library.of_function(self.target, *function) for function in shared.items()]
        for name, external in imports.items():
            text = functions[name].text
            bodies.append(stub("void", name, text[: text.index(") {") + 1], external))
        sizes: tuple[int, ...] = ()
        for f in own:
            text = f.text.replace("{\n", EFFECTFUL, 1) if f.name in exports else f.text
            if has_size_variables:
                text, sizes = size_variables.with_size_variables(text)
            bodies.append(f"{functions.head(f.name, f.name in exports)} void {exports.get(f.name, f.name)}{text}")
        if sizes:
            bodies.insert(0, size_variables.table([0] * len(sizes)))
        present = {f.name for f in own} | set(imports)
        bodies[:0] = AliasingTypes.declarations({t for name in present for t in functions[name].aliasing})

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
                size_values=sizes,
            )
        )

    def _add(self, part: ProgramPart) -> None:
        self._parts.append(part)
        self.ready(part)
