"""Planted bugs, each of which the fuzzer has to find, and attribute to the right part.

A row of BUGS temporarily replaces a piece of the compiler by a wrong one. `find` compiles random programs until one
diverges that does not diverge without the bug, and determines the cause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from refxla_spec.module import Instruction, Module, PaddingDimension, WindowDimension

from refxla._core.executor import Executor
from refxla._core.fusion import fusion_groups
from refxla.analysis.index_expression import variable
from refxla.codegen import scalar
from refxla.codegen.elemental_ir_emitter import ElementalIrEmitter
from refxla.codegen.products import packing_functions
from refxla.codegen.products.packing import open_columns
from refxla.compiler import diagnostics, planning
from refxla.ir.builder import Build
from refxla.passes import algebraic_simplifier, constant_folding, cse, pipeline
from refxla.scheduling import computation_scheduler, grouped_computation, memory_blocks
from refxla.scheduling.grouped_computation import GroupedComputation
from refxla.scheduling.plan_builder import PlanBuilder, Steps

from .cause import Cause, cause
from .differ import Divergence, Unsupported, attempt, cheap
from .generate import Sample, generate
from .replay import same_check
from .runs import Expected, Kernels, call

Plant = Callable[[], contextlib.AbstractContextManager[Any]]
BATCH = 10  # programs whose kernels are built as one


@dataclass(frozen=True)
class Bug:
    """`what` describes the bug; `plant` inserts it; `blamed` is the required beginning and content of the cause;
    `kernels` says that only kernels show it; `within` bounds the number of programs."""

    what: str
    plant: Plant
    blamed: tuple[str, ...]
    kernels: bool = False
    often: tuple[str, ...] = ()  # rules of growth for the operations that the bug affects, taken 25 times as often
    types: tuple[str, ...] = ()  # element types of the programs; a few at random by default
    within: int = 300


@dataclass(frozen=True)
class Discovery:
    """How a bug was found: after how many programs, by which divergence, and the cause."""

    programs: int
    divergence: Divergence
    cause: Cause | None


def find(bug: Bug, kernels: Callable[[], Kernels], first: int = 0) -> Discovery | None:
    """Searches for a bug among the programs from seed `first` on; None if it is not found."""
    step = BATCH if bug.kernels else 1
    for at in range(first, first + bug.within, step):
        weights = dict.fromkeys(bug.often, 25.0)
        samples = [generate(seed, types=bug.types, weights=weights) for seed in range(at, at + step)]
        with bug.plant():
            shown = _of_kernels(samples, kernels()) if bug.kernels else list(_of_plans(samples))
        for sample, divergence in shown:
            if divergence.like(same_check(sample, divergence, kernels)):
                continue  # it diverges without the bug
            with bug.plant():
                why = cause(sample, kernels if bug.kernels else None)
            return Discovery(sample.seed - first + 1, divergence, why)
    return None


def _of_plans(samples: list[Sample]) -> Iterator[tuple[Sample, Divergence]]:
    for sample in samples:
        divergence = cheap(sample).divergence
        if divergence:
            yield sample, divergence


def _difference(reference: Expected, executable: Executor, sample: Sample) -> str:
    return reference.difference(call(executable, sample))


def _of_kernels(samples: list[Sample], kernels: Kernels) -> list[tuple[Sample, Divergence]]:
    planned = []
    for sample in samples:
        with contextlib.suppress(Exception):  # not what is looked for here
            result = cheap(sample, ())
            if not result.unsupported and result.divergence is None:
                planned.append((sample, result.wanted, kernels.plan(sample)))
    divergences = []
    for (sample, reference, _), executable in zip(planned, kernels.executables([p for *_, p in planned]), strict=True):
        with contextlib.suppress(Unsupported):
            divergence = attempt(sample.seed, "kernels", partial(_difference, reference, executable, sample))
            if divergence:
                divergences.append((sample, divergence))
    return divergences


# -- ways to plant ----------------------------------------------------------------------------------------------------


def a_rule(opcode: str, rule: algebraic_simplifier.Rule) -> Plant:
    """One more rule of the simplifier, before all others."""
    return lambda: patch.dict(algebraic_simplifier.RULES, {opcode: [rule, *algebraic_simplifier.RULES.get(opcode, [])]})


def behind_a_pass(name: str, change: Callable[[Module], None]) -> Plant:
    """A pass that changes the module once more at its end."""

    def wrapped(run: pipeline.Pass) -> pipeline.Pass:
        def both(module: Module) -> int:
            count = run(module)
            change(module)
            return count

        return both

    def passes() -> tuple[tuple[str, pipeline.Pass], ...]:
        return tuple((n, wrapped(run) if n == name else run) for n, run in pipeline.PASSES)

    return lambda: patch.object(pipeline, "PASSES", passes())


def scalar_code(opcode: str, text: Callable[[tuple[str, ...], str, tuple[str, ...]], str | None]) -> Plant:
    """Other C for an elementwise operation, where `text(operand types, result type, arguments)` returns any."""
    original = scalar._expression

    def expression(code: str, types: Any, result: str, args: Any, attributes: Any) -> str | None:
        own = text(tuple(types), result, tuple(args)) if code == opcode else None
        return own or original(code, types, result, args, attributes)

    return lambda: patch.object(scalar, "_expression", expression)


def seen_by_emitters(opcode: str, change: Callable[[Instruction], dict[str, Any]]) -> Plant:
    """Emitters that treat an instruction as another one: with other operands or attributes."""
    original = diagnostics.emit

    def emit(fusion: Any, target: Any) -> Any:
        originals = []
        for i in fusion.instructions:
            if i.opcode == opcode:
                originals.append((i, i.operands, i.attributes))
                changed = change(i)
                i.operands = changed.pop("operands", i.operands)
                i.attributes = {**i.attributes, **changed}
        try:
            return original(fusion, target)
        finally:
            for i, operands, attributes in originals:
                i.operands, i.attributes = operands, attributes

    @contextlib.contextmanager
    def both() -> Iterator[None]:
        from . import single

        with patch.object(planning, "emit", emit), patch.object(single, "emit", emit):
            yield

    return both


# -- the bugs ---------------------------------------------------------------------------------------------------------


def _zero(i: Instruction) -> Instruction:
    return Build(f"{i.name}.zero").full(0, i.shape)


def _is_float(i: Instruction) -> bool:
    return i.shape.element_type.is_float


def _minus_itself(i: Instruction) -> Instruction | None:
    return _zero(i) if i.operands[0] is i.operands[1] else None


def _times_zero(i: Instruction) -> Instruction | None:
    value = algebraic_simplifier.scalar_value(i.operands[1])
    return _zero(i) if _is_float(i) and value is not None and value == 0 else None


def _plus_zero(i: Instruction) -> Instruction | None:
    value = algebraic_simplifier.scalar_value(i.operands[1])
    return i.operands[0] if _is_float(i) and value is not None and value == 0 else None


def _equals_itself(i: Instruction) -> Instruction | None:
    same = i.operands[0] is i.operands[1] and i.attributes["direction"] == "EQ"
    return Build(f"{i.name}.true").full(True, i.shape) if same else None


def _slice_of_pad(i: Instruction) -> Instruction | None:
    inner = i.operands[0]
    fits = inner.opcode == "pad" and inner.operands[0].shape.dimensions == i.shape.dimensions
    return inner.operands[0] if fits else None


def _logical(i: Instruction, values: list[np.ndarray]) -> np.ndarray:
    if i.opcode == "shift-right-arithmetic":
        i = Instruction(i.name, "shift-right-logical", i.shape, i.operands, i.attributes)
    return _evaluate(i, values)


_evaluate = constant_folding._evaluate
_key = cse.attribute_key


def _no_words(value: Any, same: Any) -> Any:
    return "" if isinstance(value, str) else _key(value, same)


def _one_iteration_more(module: Module) -> None:
    for loop in module.instructions():
        if loop.opcode == "while":
            root = loop.attributes["condition"].root
            if root.attributes.get("direction") == "LT":
                root.attributes["direction"] = "LE"


def _all_at_the_start(start: Any, end: Any, size: Any, alignment: int) -> tuple[Any, int]:
    return np.zeros(len(size), np.int64), int(max(size, default=0))


def _one_after_another(builder: PlanBuilder, results: Any, targets: Any, steps: Steps) -> None:
    for result, target in zip(results, targets, strict=True):
        builder.copy(steps, result, target)


def _last_two_exchanged(graph: Any, costs: Any, fuse: bool, shared: bool, in_loop: bool) -> Any:
    groups, unfused = fusion_groups(graph, costs, fuse, shared, in_loop)
    if fuse and len(groups) > 1:
        groups = [*groups[:-2], groups[-1], groups[-2]]
        unfused = []
    return groups, unfused


def _from_the_end(self: ElementalIrEmitter, value: str, element_type: str, limit: int, block: Any) -> Any:
    name = self.names.fresh("s")
    text = f"{value} > {limit} ? {limit} : {value}"
    if not element_type.startswith("u"):
        text = f"{value} < 0 ? ({value} < -{limit} ? 0 : {limit} + {value}) : ({text})"
    block.line(f"const int {name} = (int)({text});")
    return variable(name, 0, limit)


def _one_late(block: Any, name: str, first: str, *rest: Any) -> None:
    open_columns(block, name, f"{first} + 1", *rest)


def _swapped(i: Instruction) -> dict[str, Any]:
    return {"operands": [i.operands[1], i.operands[0]]}


def _later(i: Instruction) -> dict[str, Any]:
    return {"padding": tuple(PaddingDimension(p.low + 1, p.high - 1, p.interior) for p in i.attributes["padding"])}


def _shifted(i: Instruction) -> dict[str, Any]:
    return {
        "window": tuple(
            WindowDimension(w.size, w.stride, w.padding_low + 1, w.padding_high - 1, w.base_dilation, w.window_dilation,
                            w.reversal) for w in i.attributes["window"]
        )
    }  # fmt: skip


def _undilated(i: Instruction) -> dict[str, Any]:
    return {
        "window": tuple(
            WindowDimension(w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation, 1)
            for w in i.attributes["window"]
        )
    }


def _tie(i: Instruction) -> dict[str, Any]:
    select = i.attributes["select"]
    other = {"GE": "GT", "LE": "LT", "GT": "GE", "LT": "LE"}.get(select.root.attributes.get("direction"))
    if other is None:
        return {}
    from refxla_spec.module import clone_computation

    copy = clone_computation(select, lambda c: c)
    copy.root.attributes["direction"] = other
    return {"select": copy}


def _ternary(types: tuple[str, ...], result: str, args: tuple[str, ...]) -> str | None:
    return f"({args[0]} > {args[1]} ? {args[0]} : {args[1]})" if result == "f32" else None


def _from_zero(types: tuple[str, ...], result: str, args: tuple[str, ...]) -> str | None:
    return f"(0.0f - {args[0]})" if result == "f32" else None


def _as_signed(types: tuple[str, ...], result: str, args: tuple[str, ...]) -> str | None:
    return f"((int){args[0]} > (int){args[1]} ? {args[0]} : {args[1]})" if result == "u32" else None


def _unsigned_order(types: tuple[str, ...], result: str, args: tuple[str, ...]) -> str | None:
    return f"((float)(int){args[0]})" if (types[0], result) == ("u32", "f32") else None


_STALE = ("AttributeError", "NameError", "TypeError")  # raised by a bug that does not fit the code it replaces
SIMPLIFY = ("pass", "algebraic-simplifier")
FLOATS = ("f32", "s32", "pred")
U32 = ("u32", "f32", "pred", "s32")
BUGS: tuple[Bug, ...] = (
    Bug("x - x is 0, of NaN and infinities too", a_rule("subtract", _minus_itself), SIMPLIFY, False,
        ("with_itself",), FLOATS),
    Bug("x * 0 is 0, of NaN, infinities and -x too", a_rule("multiply", _times_zero), SIMPLIFY, False,
        ("with_constant",), FLOATS),
    Bug("x + 0 is x, of -0 too", a_rule("add", _plus_zero), SIMPLIFY, False, ("with_constant",), FLOATS),
    Bug("x == x is true, of NaN too", a_rule("compare", _equals_itself), SIMPLIFY, False, ("with_itself",), FLOATS),
    Bug("a slice of a pad is what was padded, wherever it begins", a_rule("slice", _slice_of_pad), SIMPLIFY, False,
        ("pad", "slice"), FLOATS, 800),
    Bug("an arithmetic shift is folded as a logical one", lambda: patch.object(constant_folding, "_evaluate", _logical),
        ("pass", "constant-folding"), False, ("shift_of_constant",), ("s32",)),
    Bug("equal but for an attribute that is a word is equal", lambda: patch.object(cse, "attribute_key", _no_words),
        ("pass", "cse"), False, ("attributes_differ",)),
    Bug("a loop takes one iteration more", behind_a_pass("tuple-simplifier", _one_iteration_more),
        ("pass", "tuple-simplifier"), False, ("while",)),
    Bug("values that live at the same time lie in one place",
        lambda: patch.object(memory_blocks, "assign", _all_at_the_start), ("planner",), False, ("reduce",)),
    Bug("a loop's state is written back while it is still read",
        lambda: patch.object(computation_scheduler, "write_back", _one_after_another), ("planner",), False,
        ("while",), FLOATS, 800),
    Bug("a loop is written over an input that it reads elsewhere",
        lambda: patch.object(GroupedComputation, "in_place", lambda *_: True), ("planner",), False,
        ("reverse",)),
    Bug("two fused kernels run in the wrong order",
        lambda: patch.object(grouped_computation, "fusion_groups", _last_two_exchanged), ("fusion",), False,
        ("reduce",)),
    Bug("the operands of subtract are exchanged", seen_by_emitters("subtract", _swapped), ("kernel", "subtract"), True,
        ("with_constant",)),
    Bug("the operands of divide are exchanged", seen_by_emitters("divide", _swapped), ("kernel", "divide"), True,
        ("with_constant",)),
    Bug("padding begins one element late", seen_by_emitters("pad", _later), ("kernel", "pad"), True, ("pad",)),
    Bug("reverse turns all dimensions but the last", seen_by_emitters(
        "reverse", lambda i: {"dimensions": tuple(i.attributes["dimensions"])[:-1]}), ("kernel", "reverse"), True,
        ("reverse",)),
    Bug("the dilation of a window is forgotten", seen_by_emitters("reduce-window", _undilated),
        ("kernel", "reduce-window"), True, ("reduce_window",)),
    Bug("the padding of a convolution is off by one", seen_by_emitters("convolution", _shifted),
        ("kernel", "convolution"), True, ("convolution",)),
    Bug("columns that are turned in registers begin one element late",
        lambda: patch.object(packing_functions, "open_columns", _one_late), ("kernel", "dot"), True, ("wide_dot",),
        FLOATS),
    Bug("of equal values select-and-scatter takes the other one", seen_by_emitters("select-and-scatter", _tie),
        ("kernel", "select-and-scatter"), True, ("select_and_scatter",)),
    Bug("a negative start index counts from the end",
        lambda: patch.object(ElementalIrEmitter, "clamped", _from_the_end),
        ("kernel", "dynamic"), True, ("dynamic_slice", "dynamic_update_slice")),
    Bug("maximum drops NaN", scalar_code("maximum", _ternary), ("kernel",), True, ("with_constant",), FLOATS),
    Bug("negate loses the sign of zero", scalar_code("negate", _from_zero), ("kernel", "negate"), True,
        ("negated",), FLOATS),
    Bug("unsigned numbers are compared as signed ones", scalar_code("maximum", _as_signed), ("kernel",), True,
        ("unsigned_order",), U32),
    Bug("unsigned numbers are converted as signed ones", scalar_code("convert", _unsigned_order),
        ("kernel", "convert"), True, ("unsigned_order", "convert"), U32),
)  # fmt: skip


def report(console: Any) -> int:
    """Searches for every bug and prints a table; 1 if one is not found, or attributed to another part."""
    from functools import cache

    from rich.table import Table

    kernels = cache(Kernels)
    table = Table("bug", "programs", "found by", "blamed", box=None)
    missed = 0
    for bug in BUGS:
        with console.status(bug.what):
            result = find(bug, kernels)
        right = result is not None and is_blamed(bug, result)
        missed += not right
        row = (
            ("not found", "", "")
            if result is None
            else (str(result.programs), result.divergence.check, str(result.cause))
        )
        table.add_row(bug.what, row[0], row[1], row[2][:60] + ("" if right else "  (wrong)"))
    console.print(table)
    return 1 if missed else 0


def is_blamed(bug: Bug, result: Discovery) -> bool:
    """Whether the cause names the part in which the bug was planted. A bug that fails itself, because the code it
    replaces is now called differently, does not count."""
    if result.cause is None or result.divergence.raised in _STALE:
        return False
    text = f"{result.cause.kind} {result.cause.name}"
    return text.startswith(bug.blamed[0]) and all(word in text for word in bug.blamed)
