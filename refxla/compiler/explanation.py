"""The compiler's decisions for a program in words: fusions, bytes, and why edges were not fused."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

from refxla_spec.errors import plural
from refxla_spec.module import Instruction

from ..analysis.cost_analysis import Cost, bytes_text, cost_of, fusion_cost
from ..ir.library_calls import LibraryRoutine, batch, is_batched, library_call, routine_name
from ..ir.plan import Fusion, Kernel, Loop, Repeat
from ..passes.winograd_convolution import WinogradDecision
from ..scheduling.fusion_group import Refusal
from ..scheduling.merged_kernel import MergedLaunch
from ..scheduling.scheduler import PlanningResult
from ..scheduling.tiled_fusion import TilingDecision

__all__ = ["Cost", "Explanation", "bytes_text", "cost_of", "fusion_cost", "terms_of"]

INDENT, LABEL_WIDTH = 3, 9  # columns of the rows of a fusion
GLOSSARY = "docs/glossary.md, in refxla's documentation,"
# Terms of an explanation that a reader may not know; the glossary has all of them.
TERMS = {
    "fusion": "instructions that are computed together, by a kernel of their own or a part of one",
    "moves": "bytes read from memory and written to it",
    "saves": "one write and one read of each value that is computed within a fusion and not stored; not counted are "
    "further reads, and values that only move or repeat others, as a broadcast does",
    "work item": "one call of a kernel's function; a launch runs a number of them",
    "emitter": "what writes the OpenCL C of one kind of kernel",
    "producer": "the instruction that computes a value",
    "user": "an instruction, or a kernel, that reads a value",
    "in one launch": "kernels that share a launch run in sequence in one work item, or in parallel in several",
    "persistent kernel": "one launch whose workers go through several phases together, and wait for each other after "
    "each; refxla show --plan lists them",
    "tile": "a part of the rows or columns that is worked on at once",
}


def terms_of(text: str) -> dict[str, str]:
    """Those of TERMS that occur in a text."""
    return {term: meaning for term, meaning in TERMS.items() if re.search(rf"\b{term}s?\b", text)}


class Explanation:
    """Prints as text; `fusions` (and costs), `refusals`, `merged_launches`, `tiled_fusions` hold the same as data."""

    def __init__(self, planned: PlanningResult) -> None:
        self.name = planned.plan.name
        self.plan = planned.plan
        self.fusions: list[tuple[Fusion, Cost]] = [(f, fusion_cost(f)) for f in planned.plan.fusions]
        self.refusals: list[Refusal] = planned.refusals
        self.merged_launches: list[MergedLaunch] = planned.merged_launches
        self.winograd: tuple[WinogradDecision, ...] = planned.winograd
        self.tiled_fusions: list[TilingDecision] = planned.tiled_fusions
        self.costs = planned.costs
        self._sharing = {name: m for m in planned.merged_launches for section in m.sections for name in section}

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.totals}", *self.winograd_convolutions()]
        for number, (fusion, cost) in enumerate(self.fusions, 1):
            lines += ["", f"{number}. {fusion.name} ({fusion.kind})"]
            lines += [f"{'':{INDENT}}{label:<{LABEL_WIDTH}} {text}" for label, text in self.rows(fusion, cost)]
        return "\n".join([*lines, "", self.rates])

    @property
    def totals(self) -> str:
        """Fusions, launched kernels, the work of a call and its temporary memory, in one line."""
        fusions, kernels = len(self.fusions), len(self.plan.kernels)
        shape = f"{plural(fusions, 'fusion')}, launched as {plural(kernels, 'kernel')}"
        once = " (of loops, one iteration)" if self._has_loops else ""
        total, memory = cost_of(self.plan), bytes_text(self.plan.arena_bytes)
        moved, saved = bytes_text(total.bytes_read + total.bytes_written), bytes_text(total.bytes_saved)
        return f"{shape}; moves {moved}, saves {saved}{once}; {memory} of temporary memory"

    @property
    def rates(self) -> str:
        """The rates of the device that the cost model used, in one line."""
        c = self.costs
        return f"costs: {c.byte:g} ns a byte, {c.flop:g} ns an operation, {c.launch / 1e3:g} us a launch"

    @property
    def _has_loops(self) -> bool:
        merged = any(m.trip_count > 1 and not m.each for m in self.merged_launches)
        return merged or any(isinstance(step, (Loop, Repeat)) for step in self.plan.steps)

    def rows(self, fusion: Fusion, cost: Cost) -> list[tuple[str, str]]:
        """The properties of a fusion, each a label with a text."""
        rows = [
            ("computes", self.operations(fusion)),
            ("reads", ", ".join(_value(i) for i in fusion.inputs) or "nothing"),
            ("writes", ", ".join(_value(i) for i in fusion.outputs)),
            ("moves", f"{bytes_text(cost.bytes_read + cost.bytes_written)}, saves {bytes_text(cost.bytes_saved)}"),
        ]
        return rows + self.execution(fusion) + [("not fused", str(refusal)) for refusal in self.refusals_of(fusion)]

    def execution(self, fusion: Fusion) -> list[tuple[str, str]]:
        """How a fusion runs, as labels with a text each: "runs", how it shares launches with others (the innermost
        first; its own launch if it shares none), "calls", the library's routine, "tiles", its tiled fusion."""
        rows = [("runs", text) for text in self._launches(fusion)]
        if fusion.hero is not None and (routine := library_call(fusion.hero)) is not None:
            rows.append(("calls", _called(fusion.hero, routine)))
        return rows + [("tiles", str(d)) for d in self.tiled_fusions if fusion.name == d.fusions[0]]

    def refusals_of(self, fusion: Fusion) -> list[Refusal]:
        """The edges into a fusion that were not fused, each once, with the first reason."""
        refusals: dict[Instruction, Refusal] = {}
        for r in self.refusals:
            if r.user == fusion.name:
                refusals.setdefault(r.producer, r)
        return list(refusals.values())

    def _launches(self, fusion: Fusion) -> list[str]:
        launches, name = [], fusion.name
        while name in self._sharing:
            m = self._sharing[name]
            launches.append(("in " if m.name in self._sharing else "in one launch, ") + _sharing(m, name))
            name = m.name
        return launches

    @cached_property
    def _fusions_by_name(self) -> dict[str, Fusion]:
        return {f.name: f for f, _ in self.fusions}

    def fusion_of(self, kernel: Kernel) -> Fusion | None:
        """The fusion that a kernel belongs to; None for one that copies or calls others."""
        return self._fusions_by_name.get(kernel.fusion)

    @cached_property
    def _kernels_by_fusion(self) -> dict[str, list[Kernel]]:
        kernels: dict[str, list[Kernel]] = {}
        parts = (part for k in self.plan.kernels for part in k.parts())
        for kernel in {(part.fusion, part.name): part for part in parts}.values():
            if kernel.fusion:
                kernels.setdefault(kernel.fusion, []).append(kernel)
        return kernels

    def kernels_of(self, fusion: Fusion) -> list[Kernel]:
        """The kernels of a fusion in the order of their launches: those that pack its operands, then its own."""
        return self._kernels_by_fusion.get(fusion.name, [])

    def winograd_convolutions(self) -> list[str]:
        """Which convolutions are computed in tiles and which are not, and why; [] if that was not requested."""
        reasons: dict[tuple[bool, str], list[str]] = {}
        for d in self.winograd:
            reasons.setdefault((d.done, d.reason), []).append(d.name)
        words = {True: "in tiles", False: "no tiles"}
        return [f"{words[done]}: {', '.join(names)}: {reason}" for (done, reason), names in reasons.items()]

    @staticmethod
    def operations(fusion: Fusion) -> str:
        """The fusion's operations, counted: "2 multiply, add, reduce"."""
        counts = Counter(i.opcode for i in fusion.instructions if i.opcode not in ("constant", "get-tuple-element"))
        return ", ".join(f"{n} {opcode}" if n > 1 else opcode for opcode, n in counts.items())


def _sharing(m: MergedLaunch, name: str) -> str:
    """The place of a kernel in a merged launch, and the cost model's reason for it."""
    places = [(n + 1, len(section)) for section in m.sections for n, each in enumerate(section) if each == name]
    (number, length), parts = places[0], []
    if m.persistent:
        parts.append(f"phase {number} of {length} of a persistent kernel")
    elif length > 1:
        parts.append(f"number {number} of {length} in sequence")
    if len(places) > 1:
        parts.append(f"{len(places)} times in all")
    if len(m.sections) > 1:
        parts.append(f"in parallel with {len(m.sections) - 1} other{'s' * (len(m.sections) > 2)}")
    if m.each == "tile":
        parts.append(f"for each of {plural(m.trip_count, 'tile')} of a persistent kernel")
    elif m.each:
        parts.append(f"in each of {plural(m.trip_count, 'iteration')}, which cores run apart from each other")
    elif m.trip_count > 1:
        parts.append(f"{m.trip_count} iterations")
    costs = f"{m.kernels_us:.1f} us of work; launches saved: {m.saved_us:.1f} us"
    return f"{m.name}: {', '.join(parts)} ({costs})"


def _called(i: Instruction, routine: LibraryRoutine) -> str:
    """The routine that computes an instruction, and its sizes."""
    count = batch(i)
    if is_batched(i, routine):
        how = f"{routine_name(i, routine)} on {count} matrices, one in each lane of a vector"
    else:
        matrices = "a matrix" if count == 1 else f"each of {count} matrices"
        how = f"LAPACK's {routine_name(i, routine)}, as SciPy has it, on {matrices}"
    return f"{how}; 'expanded' makes kernels of it"


def _value(i: Instruction) -> str:
    return f"{i.name} {i.shape.without_layout()}"
