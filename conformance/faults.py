"""Faults planted in the results of programs, and whether `refxla run --check` finds them.

    python -m refxla_conformance.faults [example.hlo ...]      the table of docs/checking.md

A fault changes what a program computes (one instruction of it, chosen as the fault says) or only the results. Each is
checked by the verdicts of refxla_spec.verdicts.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from refxla_spec.errors import InputError
from refxla_spec.interpreter import Interpreter, run
from refxla_spec.module import Instruction, Module
from refxla_spec.numerics import type_of
from refxla_spec.text import parse
from refxla_spec.types import Value
from refxla_spec.verdicts import Judge, Report

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded

Array = np.ndarray
Results = list[Array]
Fault = Callable[[Module, Sequence[Value], Results], Results | None]  # None if a program has no place for it

FAULTS: dict[str, Fault] = {}


def _fault(name: str) -> Callable[[Fault], Fault]:
    def entered(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return entered


def flat(value: Value) -> Results:
    """The arrays of a value, with tuples flattened."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [] if value is None else [np.asarray(value)]


# Faults of results.


def _largest(results: Results) -> int:
    """The number of the largest floating-point result."""
    return max(range(len(results)), key=lambda n: (type_of(results[n]).is_float, results[n].size))


def _changed(results: Results, change: Callable[[Array], Array]) -> Results:
    n = _largest(results)
    return [change(a.copy()) if k == n else a for k, a in enumerate(results)]


@_fault("all zero")
def zero(module: Module, args: Sequence[Value], results: Results) -> Results:
    return [np.zeros_like(a) for a in results]


@_fault("one result constant")
def constant(module: Module, args: Sequence[Value], results: Results) -> Results:
    return _changed(results, lambda a: np.full_like(a, a.flat[0]))


@_fault("one element zero")
def one_zero(module: Module, args: Sequence[Value], results: Results) -> Results:
    return _changed(results, lambda a: _at_the_median(a, lambda x: 0 * x))


@_fault("one element off by 2^-10 of itself")
def one_off(module: Module, args: Sequence[Value], results: Results) -> Results:
    return _changed(results, lambda a: _at_the_median(a, lambda x: x * a.dtype.type(1 + 2.0**-10)))


@_fault("one element off by 2^-16 of itself")
def one_little_off(module: Module, args: Sequence[Value], results: Results) -> Results:
    return _changed(results, lambda a: _at_the_median(a, lambda x: x * a.dtype.type(1 + 2.0**-16)))


def _at_the_median(a: Array, change: Callable[[Any], Any]) -> Array:
    """With the element of median size changed."""
    at = np.argsort(np.abs(a).reshape(-1))[a.size // 2]
    a.reshape(-1)[at] = change(a.reshape(-1)[at])
    return a


@_fault("last row left out")
def no_last_row(module: Module, args: Sequence[Value], results: Results) -> Results:
    def without(a: Array) -> Array:
        a[-1:] = 0
        return a

    return _changed(results, lambda a: without(np.atleast_1d(a)).reshape(a.shape))


@_fault("two elements change places")
def swapped(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    def change(a: Array) -> Array:
        row = a.reshape(-1)
        row[0], row[-1] = row[-1], row[0]
        return a

    return None if results[_largest(results)].size < 2 else _changed(results, change)


@_fault("stale: of the arguments before")
def stale(module: Module, args: Sequence[Value], results: Results) -> Results:
    return flat(run(module, [_reversed(a) for a in args]))


def _reversed(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(_reversed(v) for v in value)
    return None if value is None else np.flip(value).copy()


@_fault("rounded to bf16")
def rounded(module: Module, args: Sequence[Value], results: Results) -> Results:
    return _changed(results, lambda a: a.astype(ml_dtypes.bfloat16).astype(a.dtype))


@_fault("rounded towards zero, 16 bits kept")
def truncated(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    if results[_largest(results)].dtype != np.float32:
        return None
    return _changed(results, lambda a: (a.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32))


# Faults of one instruction: the first of its kind, or each time that it is executed.


# From the interpreter's evaluation, an instruction and its operands: the faulty value.
Evaluate = Callable[[Instruction, list[Value]], Value]
Change = Callable[[Evaluate, Instruction, list[Value]], Value]


class Faulty(Interpreter):
    """An interpreter that computes the instructions selected by `predicate` differently."""

    def __init__(self, predicate: Callable[[Instruction], bool], change: Change) -> None:
        super().__init__()
        self._predicate, self._change = predicate, change
        self.changed = False

    def evaluate(self, instruction: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction, or the faulty one."""
        if not self._predicate(instruction):
            return super().evaluate(instruction, operands)
        self.changed = True
        return self._change(super().evaluate, instruction, operands)


def _faulty(
    module: Module, args: Sequence[Value], predicate: Callable[[Instruction], bool], change: Change
) -> Results | None:
    faulty = Faulty(predicate, change)
    with np.errstate(all="ignore"):
        results = flat(faulty.run(module.entry, *args))
    return results if faulty.changed else None


def _first(module: Module, *opcodes: str) -> Callable[[Instruction], bool]:
    instruction = next(
        (i for c in module.computations for i in c.instructions if i.opcode in opcodes and _is_array(i)), None
    )
    return lambda i: i is instruction


def _is_array(i: Instruction) -> bool:
    return i.shape.is_array and i.shape.element_type.is_float and i.shape.rank > 0


@_fault("products of bf16 numbers")
def narrow_products(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    def change(evaluate: Any, i: Instruction, operands: list[Array]) -> Value:
        return evaluate(i, [o.astype(ml_dtypes.bfloat16).astype(o.dtype) for o in operands])

    return _faulty(module, args, lambda i: i.opcode in ("dot", "convolution"), change)


@_fault("a product without its last term")
def dropped_term(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    def change(evaluate: Any, i: Instruction, operands: list[Array]) -> Value:
        lhs = operands[0].copy()
        d = i.lhs_contracting_dims[0] if i.opcode == "dot" else i.dim_labels.input_feature
        lhs[(slice(None),) * d + (-1,)] = 0
        return evaluate(i, [lhs, operands[1]])

    return _faulty(module, args, _first(module, "dot", "convolution"), change)


@_fault("a sum without its last term")
def dropped_summand(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    def change(evaluate: Any, i: Instruction, operands: list[Array]) -> Value:
        terms = operands[0].copy()
        terms[(slice(None),) * i.dimensions[-1] + (-1,)] = 0
        return evaluate(i, [terms, operands[1]])

    def adds(i: Instruction) -> bool:
        return i.opcode == "reduce" and not i.shape.is_tuple and i.to_apply.root.opcode == "add"

    instruction = next((i for c in module.computations for i in c.instructions if adds(i)), None)
    return _faulty(module, args, lambda i: i is instruction, change)


@_fault("operands of a subtraction or division swapped")
def swapped_operands(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    change = lambda evaluate, i, operands: evaluate(i, operands[::-1])  # noqa: E731
    return _faulty(module, args, _first(module, "subtract", "divide"), change)


@_fault("a loop of one iteration less")
def short_loop(module: Module, args: Sequence[Value], results: Results) -> Results | None:
    class Short(Interpreter):
        changed = False

        def evaluate(self, instruction: Instruction, operands: list[Value]) -> Value:
            if instruction.opcode != "while":
                return super().evaluate(instruction, operands)
            value = before = operands[0]
            while self.run(instruction.condition, value):
                before, value, self.changed = value, self.run(instruction.body, value), True
            return before

    faulty = Short()
    with np.errstate(all="ignore"):
        outputs = flat(faulty.run(module.entry, *args))
    return outputs if faulty.changed else None


# The table.


def planted(judge: Judge, module: Module, args: Sequence[Value], fault: Fault) -> Report | None:
    """The verdicts on the reference's results with a fault; None if it has no place there, or changes nothing."""
    results = fault(module, args, [a.copy() for a in judge.references])
    if results is None or all(np.array_equal(a, b) for a, b in zip(results, judge.references, strict=True)):
        return None
    return judge.judge(results)


def finding(report: Report | None) -> str:
    """The outcome of a fault in a word."""
    if report is None:
        return ""
    if not report.broken:
        return "no"
    return "wrong" if any(v.verdict.name == "WRONG" for v in report.results) else "suspect"


def example(path: Path) -> tuple[Module, list[Array]]:
    """A committed example and its arguments."""
    inputs = path.with_name("inputs.py")
    for file in (path, inputs):
        if not file.is_file():
            raise InputError(f"cannot read {file}: {os.strerror(errno.ENOENT)}")
    return parse(path.read_text()), runpy.run_path(str(inputs))["inputs"]()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, in Markdown."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m refxla_conformance.faults", description=(__doc__ or "").split("\n")[0])
    examples = "programs, each with an inputs.py beside it; those of examples/ if none is named"
    parser.add_argument("paths", nargs="*", metavar="HLO", help=examples)
    paths = parser.parse_args(arguments).paths or sorted(map(str, Path("examples").glob("*/*.hlo")))
    if not paths:
        raise InputError("there is no folder examples here; name programs, or call this in a checkout of refxla")
    rows: dict[str, list[str]] = {name: [] for name in FAULTS}
    for path in map(Path, paths):
        module, args = example(path)
        judge = Judge(module, args)
        for name, fault in FAULTS.items():
            rows[name].append(finding(planted(judge, module, args, fault)))
    print("| fault |", " | ".join(f"{Path(p).parent.name}" for p in paths), "|")
    print("|---|", "---|" * len(paths), sep="")
    for name, cells in rows.items():
        print(f"| {name} |", " | ".join(cells), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
