"""The functions of a program: one for each kernel, and for each kernel that another one calls.

Equal bodies with equal argument types are one function. On a CPU the functions are not inlined into the `__kernel`,
which halves the compile time; a call for each item costs next to nothing. The functions that a merged kernel calls are
not inlined either, so that one reads what another has written, although the pointers of each are `restrict`.

A loop with arguments in private memory (FrameBody) is the exception: functions that take one of those are specialized
for it and inlined, so that private memory becomes registers. In these, arguments that may be the same are not
`restrict`, and objects in global memory have types (`any_...`) that may alias others: two values of different types may
use the same memory at different times.

The functions that a merged kernel calls on a GPU are inlined there, and none of their pointers is `restrict`: where
they were, items of an NVIDIA H100 used values from before a barrier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..device.description import Target
from ..ir import merged_body as m
from ..ir.plan import Kernel
from . import prelude
from .kernel_dispatcher import pointer_type
from .merged_kernel_emitter import AliasingTypes, body_text
from .primitives import wide_attribute

DEEPEST = 8  # calls within calls: PoCL copies a function once for each path of calls, twice as many for each level


@dataclass(frozen=True)
class KernelFunction:
    """A function: `text` has its parameters and its body, `attribute` is that for wide vectors or "".

    `calls` has the names of the functions of kernels that it calls, `helpers` the texts of other functions, which are
    compiled with it, and `library_functions` the texts of those that are compiled apart from the program. `aliasing`:
    the types that it needs, see AliasingTypes. `depth`: how deep the calls in it are nested that are not inlined, with
    the call of itself. `pointers`: the types of its pointers if it takes an item and pointers alone, so that
    other parts of the program may call it; otherwise None.
    """

    name: str
    text: str
    attribute: str
    calls: tuple[str, ...]
    helpers: tuple[str, ...]
    library_functions: tuple[str, ...]
    aliasing: frozenset[str]
    inlined: bool
    depth: int
    pointers: tuple[str, ...] | None

    @property
    def size(self) -> int:
        """Its characters."""
        return len(self.text)


@dataclass(frozen=True)
class _Inlining:
    """How a kernel's function is written for being inlined into a loop: the C types of its arguments in private memory,
    by their numbers; the numbers of those that are not `restrict`, since another one may be the same; and whether the
    loop has the widest vectors."""

    private: Mapping[int, str]
    repeated: frozenset[int]
    wide: bool


class KernelFunctions:
    """The functions of all parts of a program, by their names."""

    def __init__(self, target: Target, links: bool = False, apart: Collection[str] = ()) -> None:
        """`links`: library functions are compiled apart from the program, as `apart` are, functions of the prelude."""
        self.links, self.apart = links, apart
        self.are_called = target.capabilities.function_calls
        wide = target.features and self.are_called
        self._wide = f" {wide_attribute(target)}" if wide else ""
        self._names: dict[tuple[str, str, int], str] = {}  # by attribute, text and work-group
        self._functions: dict[str, KernelFunction] = {}
        self._counts: Counter[int] = Counter()  # of functions, by the number of their arguments
        self._compiled: dict[str, dict[str, int]] = {}  # see compiled_sizes

    def __getitem__(self, name: str) -> KernelFunction:
        return self._functions[name]

    def of(self, kernel: Kernel, inlining: _Inlining | None = None, part: bool = False) -> KernelFunction:
        """A kernel's function, which is added unless there is an equal one. `part`: it is called by a merged kernel."""
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
        key = (self._wide if wide else "", text, kernel.work_group)
        if key not in self._names:
            count = len(kernel.arguments)
            name = self._names[key] = f"k{count}_{self._counts[count]}"
            self._counts[count] += 1
            calls = tuple(c for c in called if c)
            deepest = max((self[c].depth for c in calls), default=0)
            # PoCL may give two work-groups the same local memory if it is passed on.
            inlined = inlining is not None or bool(kernel.work_group) or part and self.are_called and deepest >= DEEPEST
            self._functions[name] = KernelFunction(
                name,
                text,
                attribute=key[0],
                calls=calls,
                helpers=kernel.helpers if self.links else (*kernel.helpers, *kernel.library_functions),
                library_functions=kernel.library_functions if self.links else (),
                aliasing=frozenset(aliasing.names),
                inlined=inlined,
                depth=deepest + (not inlined),
                pointers=None if inlined or kernel.persistent else tuple(map(pointer_type, kernel.arguments)),
            )
        return self[self._names[key]]

    def _called(self, kernel: Kernel, private: Mapping[int, str], wide: bool) -> list[str]:
        """The functions of the kernels that a kernel calls; those that take private memory are inlined."""
        if isinstance(kernel.body, m.FrameBody) and kernel.body.promoted:
            (inner,) = kernel.calls
            types = {n: private[k] for n, k in enumerate(kernel.body.call.arguments) if k in private}
            types |= {n: inner.arguments[n].ctype for n in kernel.body.promoted}
            return [self.of(inner, _Inlining(types, frozenset(), wide), part=True).name]
        if not private or isinstance(kernel.body, str):
            return [self.of(k, part=True).name for k in kernel.calls]
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
                "" if inlining and isinstance(called.body, m.CopyBody) else self.of(called, inlining, part=True).name
            )
        return names

    def _parameter(
        self, n: int, kernel: Kernel, calls: bool, inlining: _Inlining | None, aliasing: AliasingTypes
    ) -> str:
        """The declaration of a parameter."""
        a = kernel.arguments[n]
        if inlining is None:
            restrict = "" if calls else " restrict"  # two arguments of a merged kernel may be the same value
            return f"{pointer_type(a)}{restrict} a{n}"
        const = "const " if a.role == "input" else ""
        if n in inlining.private:
            return f"__private {const}{a.ctype}* a{n}"
        restrict = " restrict" if self.are_called and not calls and n not in inlining.repeated else ""
        return f"__global {const}{a.ctype if calls else aliasing.of(a.ctype)}*{restrict} a{n}"

    def with_called(self, names: Iterable[str], apart: Collection[str] = ()) -> list[KernelFunction]:
        """These functions and those that they call, callees first, except those `apart`."""
        found: dict[str, KernelFunction] = {}

        def visit(name: str) -> None:
            if name not in found:
                for other in self[name].calls:
                    if other not in apart:
                        visit(other)
                found[name] = self[name]

        for name in names:
            visit(name)
        return list(found.values())

    def head(self, name: str, external: bool = False) -> str:
        """The qualifiers and attributes of a function, which other parts may call if it is external."""
        qualifier = "__attribute__((noinline))" if external else self.qualifier(self[name].inlined)
        return f"{qualifier}{self[name].attribute}"

    def qualifier(self, inlined: bool = False) -> str:
        """The qualifiers of a function that is inlined or not, without its attribute."""
        if not self.are_called:
            return "__attribute__((always_inline)) static inline" if inlined else "static inline"
        return f"__attribute__(({'always_inline' if inlined else 'noinline'})) static"

    def sizes_of(self, name: str) -> dict[str, int]:
        """The characters of a function, of those that it calls and of their helpers, each by its name or text."""
        called = self.with_called([name])
        return {f.name: f.size for f in called} | {h: len(h) for f in called for h in f.helpers}

    def compiled_sizes(self, functions: Iterable[KernelFunction]) -> dict[str, int]:
        """The characters of these functions, and of the helpers and functions of the prelude that they call, each by
        its name or text."""
        sizes: dict[str, int] = {}
        for f in functions:
            if f.name not in self._compiled:
                own = self._compiled[f.name] = {f.name: f.size, **{h: len(h) for h in f.helpers}}
                for text in (f.text, *f.helpers):
                    own |= prelude.sizes(text, self.apart)
            sizes |= self._compiled[f.name]
        return sizes


def attributes_of(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The attribute of each text from the (attribute, text) of those who call it: that for wide vectors if one of them
    has it."""
    attributes: dict[str, str] = {}
    for attribute, text in texts:
        attributes[text] = attributes.get(text) or attribute
    return attributes
