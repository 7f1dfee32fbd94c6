"""`python -m bench.gpu_parallelism`: kernels for GPUs that are serial over data, or read it again and again.

    python -m bench.gpu_parallelism                      the suite, the programs and the cliffs, for an H200
    python -m bench.gpu_parallelism programs conformance some of them; "conformance": the cases of that suite
    python -m bench.gpu_parallelism FILE.hlo ...         programs of one's own
    python -m bench.gpu_parallelism --plans conformance  from the plans alone, of all kernels, without a compiler
    python -m bench.gpu_parallelism --json FILE          a line for each kernel that was examined

The kernels are those of the plan, before launches are merged. The accesses of a few items of each are traced
(gpu_transactions.py), those of the first work-group and of one in the middle:

    serial      an item makes SPAN accesses or more, to local memory, too, and a launch has fewer than ITEMS of them
    repeated    the items request REPEATED times the bytes that there are: those of the arguments, and of the values
                that the kernel computes, so that a fused product of all pairs is none. Products and transforms, whose
                work-groups share what they read, are left out

Indices that are computed are all 0 here, so that all updates of a scatter would fall on one element: kernels that
combine sorted updates are left out, too. Their items have as many steps as the most frequent target has updates.

With --plans, nothing is traced, and no kernel is left out: a kernel is serial if its arguments and values have more
than ITEM_BYTES for each of its items.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from refxla_spec.errors import Error
from refxla_spec.text import parse

from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.capabilities import CLANG_GPU
from refxla.device.gpu_models import MODELS
from refxla.ir.plan import Kernel
from refxla.passes.pipeline import LAUNCH_MERGING

from .gpu_compilers import Refused, missing
from .gpu_transactions import accesses_of_items
from .kernel_text import Impossible
from .models import Entry

SPAN = 8192  # accesses of an item, which take longer than some launches do
ITEMS = 4096  # of a launch: an eighth of those that an H200's compute units need to be busy
REPEATED = 64.0
ITEM_BYTES = 4096  # of arguments and values, of which each item has its part
LEAST_BYTES = SPAN  # of arguments, of which one access has one byte or more
MEMORY_LIMIT = 1 << 31  # bytes of arrays up to which addresses are traced
EXAMINED = 2  # adjacent items, of each work-group that is looked at
SHARED = ("dot", "convolution", "fft")  # kinds whose work-groups share what they read, by way of local memory
# The compiler here is clang, whose builtins need no library.
TARGET = replace(MODELS["gpu:nvidia-sm90"].target, capabilities=CLANG_GPU)
GROUPS = ("models", "programs", "cliffs", "conformance")


@dataclass(frozen=True)
class Parallelism:
    """A kernel: its work `items`, the accesses of the busiest one traced, `span`, and how often the bytes of its
    arguments and values are `requested`."""

    program: str
    kernel: str
    kind: str
    hero: str
    items: int
    span: int
    requested: float

    @property
    def is_serial(self) -> bool:
        """Whether few items make many accesses each."""
        return self.span >= SPAN and self.items < ITEMS

    @property
    def is_repeated(self) -> bool:
        """Whether the items read far more than there is."""
        return self.requested >= REPEATED and self.kind not in SHARED

    def __str__(self) -> str:
        found = " and ".join(w for w, is_so in (("serial", self.is_serial), ("repeated", self.is_repeated)) if is_so)
        kind = f"{self.kind} ({self.hero})" if self.hero else self.kind
        return (
            f"{self.program}: {self.kernel}, {kind}: {found or 'parallel'}: {self.items} items, of which one makes "
            f"{self.span} accesses; all request {self.requested:.1f} times what there is"
        )


@dataclass(frozen=True)
class Share:
    """A kernel of a plan: its work `items`, and the bytes of its arguments and values for each of them; of a loop,
    those of its results."""

    program: str
    kernel: str
    kind: str
    items: int
    bytes: float

    @property
    def is_serial(self) -> bool:
        """Whether an item has more of the data than a small constant."""
        return self.bytes > ITEM_BYTES

    def __str__(self) -> str:
        return f"{self.program}: {self.kernel}, {self.kind}: {self.items} items, of {self.bytes:.0f} bytes each"


def shares(name: str, hlo: str) -> Iterator[Share]:
    """The kernels of a program's plan for an H200, with merged launches and predicates, as it would run there. Raises
    Error for a program that is not compiled."""
    plan = plan_module(parse(hlo), TARGET)[1].plan
    fusions = {f.name: f for f in plan.fusions}
    for kernel in plan.kernels:
        if kernel.items:
            fusion = fusions.get(kernel.fusion)
            kind = fusion.kind if fusion else type(kernel.body).__name__
            is_largest = all(k.items <= kernel.items for k in plan.kernels if k.fusion == kernel.fusion)
            # An element of a loop takes a number of steps that is fixed, however large the arrays that it reads from;
            # kernels beside the largest one of a fusion work on what that has left.
            roles = ("output",) if kind == "loop" else ("input", "output", "scratch")[0 if is_largest else 1 :]
            counted = [a for a in kernel.arguments if a.role in roles]
            bytes = sum(a.bytes if a.instruction is None else a.instruction.shape.bytes for a in counted)
            if fusion and kind != "loop" and is_largest:
                bytes = max(bytes, sum(i.shape.bytes for i in fusion.instructions if i.shape.is_array))
            yield Share(name, kernel.name, kind, kernel.items, bytes / kernel.items)


def of_program(name: str, hlo: str, cache: dict[str, tuple[int, float]] | None = None) -> Iterator[Parallelism]:
    """The kernels of a program for an H200 that have more than LEAST_BYTES of arguments. `cache` has what was found
    out about kernels, by their text, and gets more. Raises Error for a program that is not compiled."""
    cache = {} if cache is None else cache
    plan = plan_module(parse(hlo), TARGET, (LAUNCH_MERGING,))[1].plan
    fusions = {f.name: f for f in plan.fusions}
    sorted_ = {k.fusion for k in plan.kernels if ".order" in k.name}  # those of scatters that sort their updates
    for kernel in plan.kernels:
        sizes = [a.bytes if a.instruction is None else a.instruction.shape.bytes for a in kernel.arguments]
        combines = kernel.fusion in sorted_ and ".order" not in kernel.name
        if not kernel.items or kernel.calls or combines or not LEAST_BYTES < sum(sizes) < MEMORY_LIMIT:
            continue
        fusion = fusions.get(kernel.fusion)
        assert isinstance(kernel.body, str)  # it has no calls
        key = kernel.body + repr((sizes, kernel.items))
        if key not in cache:
            cache[key] = _examined(kernel, sizes)
        span, requested = cache[key]
        values = sum(i.shape.bytes for i in fusion.instructions if i.shape.is_array) if fusion else 0
        yield Parallelism(
            name, kernel.name, fusion.kind if fusion else "copy",
            fusion.hero.opcode if fusion is not None and fusion.hero is not None else "",
            kernel.items, span, requested / (sum(sizes) + values),
        )  # fmt: skip


def _examined(kernel: Kernel, sizes: list[int]) -> tuple[int, float]:
    """The accesses of the busiest of a few items, and the bytes of arguments that all items request."""
    opencl, size = program([kernel], TARGET), kernel.work_group
    groups = sorted({0, kernel.items // size // 2}) if size else [0]
    items = [(group, item) for group in groups for item in range(min(EXAMINED, size or kernel.items))]
    each = accesses_of_items(opencl.source, opencl.entries[0][0], sizes, items)
    return max(a.steps for a in each), sum(a.bytes for a in each) / len(each) * kernel.items


def programs(names: Sequence[str]) -> Iterator[tuple[str, Callable[[], str]]]:
    """The programs of groups, "group/name", and those in files, each with a function that returns its HLO text."""
    for name in names:
        if name not in GROUPS:
            yield name, partial(Path(name).read_text, "utf-8")
        elif name == "conformance":
            from refxla_conformance.cases import collect

            yield from ((f"{name}/{c.name}", partial(str, c.hlo)) for c in collect() if not c.is_negative)
        else:
            from .kernel_text import traced as hlo

            yield from ((f"{name}/{e.name}", partial(hlo, e, e.sizes)) for e in _entries(name))


def _entries(group: str) -> Sequence[Entry]:
    if group == "models":
        from .models import ENTRIES as entries
    elif group == "programs":
        from .programs import PROGRAMS as entries
    else:
        from .cliffs import POINTS as entries
    return entries


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status: 1 if a kernel is serial or repeated."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_parallelism", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("programs", nargs="*", default=GROUPS[:3], help=f"groups ({', '.join(GROUPS)}) or files of HLO")
    parser.add_argument("--json", type=Path, metavar="FILE", help="a line for each kernel")
    parser.add_argument("--plans", action="store_true", help="the items of all kernels, from the plans alone")
    options = parser.parse_args(arguments)
    if options.plans:
        return _serial_in_plans(options.programs)
    if lacking := missing("amd"):  # clang alone
        print(lacking, file=sys.stderr)
        return 2
    cache: dict[str, tuple[int, float]] = {}
    kernels = found = 0
    with options.json.open("w", encoding="utf-8") if options.json else nullcontext() as out:
        for name, hlo in programs(options.programs):
            try:
                for kernel in of_program(name, hlo(), cache):
                    kernels += 1
                    if out is not None:
                        out.write(json.dumps(asdict(kernel)) + "\n")
                    if kernel.is_serial or kernel.is_repeated:
                        found += 1
                        print(kernel, flush=True)
            except (Error, Refused, Impossible) as problem:
                print(f"{name}: {problem}", file=sys.stderr, flush=True)
    print(f"{found} of {kernels} kernels are serial, or read their arguments again and again")
    return 1 if found else 0


def _serial_in_plans(names: Sequence[str]) -> int:
    """Prints the kernels of programs whose items have too much each; returns 1 if there are some."""
    kernels, serial = 0, 0
    for name, hlo in programs(names):
        try:
            each = list(shares(name, hlo()))
        except (Error, Impossible) as problem:
            print(f"{name}: {problem}", file=sys.stderr, flush=True)
            continue
        kernels += len(each)
        for share in each:
            if share.is_serial:
                serial += 1
                print(share, flush=True)
    print(f"{kernels} kernels, {serial} of them serial")
    return 1 if serial else 0


if __name__ == "__main__":
    sys.exit(main())
