"""A process that passes one text after another to the readers and the implementations; some texts may end it."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from math import prod, sqrt
from typing import Any

import numpy as np
from refxla_spec import equality, interpreter
from refxla_spec.devices import device_counts, misfit
from refxla_spec.errors import Error, EvaluationError, UnsupportedError, is_refusal
from refxla_spec.module import Module, post_order
from refxla_spec.text import parse, print_module
from refxla_spec.types import Shape, leaves
from refxla_spec.verify import verify

from ..bounded_loops import EndlessLoop, bounded_loops
from ..fuzz import xla
from ..fuzz.generate import Sample
from ..fuzz.runs import Expected, expected, nested
from ..fuzz.values import array
from ..targets.base import arrays
from ..targets.child import ChildDied, ChildError, serve
from ..targets.compiled import Compiled

# The outcomes of a text. All but the plain ones need a judgement.
AGREED = "agreed"
BOTH_REFUSE = "both refuse"
ONLY_XLA = "only XLA reads it"
ONLY_HERE = "only we read it"
INVALID = "refused by the verifier"
UNSUPPORTED = "unsupported"
NOT_RUN = "not run"
PRINTED = "printed otherwise"
DIFFERS = "differs"
XLA_DIFFERS = "XLA differs"
FAULT = "fault"
PLAIN = (AGREED, BOTH_REFUSE, NOT_RUN)
OUTCOMES = (*PLAIN, ONLY_XLA, ONLY_HERE, INVALID, UNSUPPORTED, PRINTED, DIFFERS, XLA_DIFFERS, FAULT)
REFUSED_BY_XLA = "refused by XLA:CPU"  # not an outcome, since the others may agree
TO_JUDGE = (*(o for o in OUTCOMES if o not in PLAIN), REFUSED_BY_XLA)

ELEMENTS = 1 << 19  # of all arrays of a program that is run
WORK = 1 << 28  # products of a dot or convolution, or elements of windows, of a program that is run
ITERATIONS = 10_000  # of a loop, after which it is assumed not to end for its arguments
DRAWN = 3  # sets of arguments that are tried for a program with a loop until it ends; the last ones are zeros
NOT_ASKED = "the command was told not to run anything"
HOST = ("infeed", "outfeed", "send", "recv")


@dataclass
class Row:
    """The result for one text.

    `outcome` is one of OUTCOMES, `reason` says more. `ran` names the implementations whose results were compared with
    the reference, `xla` is the outcome of XLA:CPU: agreed, excused, unsupported, refused, or "" if it did not run;
    `excuses` are the known differences (`refxla_conformance.differences`) that explain its results, or XLA's message.
    """

    file: str
    test: str
    key: str
    outcome: str
    reason: str = ""
    ran: tuple[str, ...] = ()
    xla: str = ""
    excuses: tuple[str, ...] = ()
    elements: int = 0  # of its results
    undecided: int = 0  # those of them that the contract does not decide
    seconds: float = 0.0  # without the compiler's


def run_texts(texts: Sequence[tuple[str, str, str, str]], running: bool = True) -> list[dict[str, Any]]:
    """The rows of texts, each given as (file, test, key, text), as dictionaries. The compiler compiles all those that
    run at once, since most of the time is the startup of OpenCL's compiler."""
    rows = [Row(file, test, key, AGREED) for file, test, key, _ in texts]
    waiting: list[tuple[Row, Sample, Expected]] = []
    for row, (*_, text) in zip(rows, texts, strict=True):
        with _faults(row):
            row.outcome, row.reason, module = _read(text)
            if module is not None and not running:
                row.outcome, row.reason = NOT_RUN, NOT_ASKED
            elif module is not None and (pair := _wanted(module, row)):
                waiting.append((row, *pair))
    programs = [(s.module, nested(s.module, s.arguments)) for _, s, _ in waiting]
    for (row, sample, reference), actual in zip(waiting, _compiler().run_many(programs), strict=True):
        with _faults(row):
            _compare(row, sample, reference, actual)
    return [asdict(row) for row in rows]


@cache
def _compiler() -> Compiled:
    return Compiled()


@contextmanager
def _faults(row: Row) -> Iterator[None]:
    """Records any exception other than refxla's refusals as a fault that does not end the run; measures the time."""
    start = time.perf_counter()
    try:
        yield
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}, {place.name}"
        row.outcome, row.reason = FAULT, f"{type(problem).__name__}: {_line(problem)} ({where})"
    row.seconds = round(row.seconds + time.perf_counter() - start, 3)


def _read(text: str) -> tuple[str, str, Module | None]:
    """The result of reading and verifying a text, with the program if it should run."""
    theirs = _xla_refusal(text)
    try:
        module = parse(text)
    except Error as problem:
        return (ONLY_XLA if theirs is None else BOTH_REFUSE), f"{type(problem).__name__}: {_line(problem)}", None
    try:
        verify(module)
    except Error as problem:
        label = getattr(problem, "constraint", None)
        outcome = UNSUPPORTED if isinstance(problem, UnsupportedError) else INVALID
        theirs = theirs or _xla_verdict(text)
        return (outcome if theirs is None else BOTH_REFUSE), (f"[{label}] " if label else "") + _line(problem), None
    if theirs is not None:
        return ONLY_HERE, theirs, None
    if any(i.opcode == "constant" and _elements(i.shape) > ELEMENTS for i in module.instructions()):
        return NOT_RUN, "it is large", None  # and so would be the printed text
    wrong = _printed_otherwise(module)
    if wrong:
        return PRINTED, wrong, None
    reason = _not_to_be_run(module)
    return (NOT_RUN, reason, None) if reason else (AGREED, "", module)


def _elements(shape: Shape) -> int:
    """How many elements a value has, those of a tuple together."""
    return sum(s.size for s in leaves(shape) if s.is_array)


def _xla_refusal(text: str) -> str | None:
    """Why XLA's parser rejects a text; None if it accepts it."""
    try:
        xla.target().ask("parse", text)
    except (ChildError, ChildDied) as problem:
        message = str(problem)
        match = re.search(r"was parsing [\d:]+: error: ([^\n]*)\n(?!.*was parsing)", message, re.S)
        return match[1] if match else message[:300]
    return None


def _xla_verdict(text: str) -> str | None:
    """Why XLA rejects a program that its parser has read; None if it accepts it, or is not available."""
    try:
        xla.target().verify(text)
    except UnsupportedError:
        return None
    except (Error, ChildDied) as problem:
        return str(problem)[:300]
    return None


def _printed_otherwise(module: Module) -> str:
    """Errors in the printed text of a module, or nothing."""
    printed = print_module(module)
    try:
        again = parse(printed)
    except Error as problem:
        return f"what is printed cannot be read again: {_line(problem)}"
    apart = equality.difference(module, again)
    if apart or print_module(again) != printed:
        return f"what is printed reads as another program: {apart}"
    refusal = _xla_refusal(printed)
    return f"XLA cannot read what is printed: {refusal}" if refusal else ""


def _not_to_be_run(module: Module) -> str:
    """Why a program is only read and verified, or nothing."""
    if prod(device_counts(module)) > 1 or misfit(module, 1, 1):
        return "it is a program for several devices"
    elements = 0
    for i in module.instructions():
        if i.opcode == "while" and all(o.opcode != "parameter" for o in post_order(i.condition.root)):
            return "a loop in it has no end: its condition looks at nothing"
        opcode = i.opcode.removesuffix("-done").removesuffix("-start")
        if opcode in HOST:
            return "it talks to a host"
        if any(i.attributes.get(name) for name in ("replica_groups", "source_target_pairs")):
            return "it is a program for several devices"
        if opcode in ("rng", "rng-get-and-update-state", "partition-id", "replica-id"):
            return f"its results are not determined ({opcode})"
        elements += _elements(i.shape)
        if opcode in ("dot", "convolution") and _products(i.shape, [o.shape for o in i.operands]) > WORK:
            return "it is large"
        if opcode == "reduce-window" and _elements(i.shape) * prod(d.size for d in i.window) > WORK:
            return "it is large"
    if any(p.shape.is_dynamic for p in module.entry.parameters):
        return "its parameters have dynamic shapes"
    if not all(leaf.is_array for i in (*module.entry.parameters, module.entry.root) for leaf in leaves(i.shape)):
        return "it takes or gives what is no array"
    return "it is large" if elements > ELEMENTS else ""


def _products(result: Shape, operands: list[Shape]) -> float:
    return sqrt(result.size * prod(max(1, o.size) for o in operands))


def _wanted(module: Module, row: Row) -> tuple[Sample, Expected] | None:
    """A program with arguments drawn by its key, and its expected results from the reference; None, with the reason in
    the row, if it has no value."""
    try:
        with np.errstate(all="ignore"):
            sample = Sample(0, module, _arguments(module, row.key))
            reference = expected(sample)
    except UnsupportedError as problem:
        row.outcome, row.reason = UNSUPPORTED, f"reference: {_line(problem)}"
        return None
    except EvaluationError as problem:
        row.outcome, row.reason = NOT_RUN, f"its arguments have no meaning: {_line(problem)}"
        return None
    row.elements, row.undecided, row.ran = reference.elements, reference.undecided, ("reference",)
    return sample, reference


def _arguments(module: Module, key: str) -> tuple[np.ndarray, ...]:
    """Arguments drawn by the key; for a program with loops, arguments for which it ends. Raises EndlessLoop if none of
    those that are tried do."""
    shapes = [leaf for p in module.entry.parameters for leaf in leaves(p.shape)]
    drawn = random.Random(key)

    def draw() -> tuple[np.ndarray, ...]:
        modes = ("small" if s.element_type.is_integer else "normal" for s in shapes)
        return tuple(array(drawn, s.element_type, s.dimensions, mode) for s, mode in zip(shapes, modes, strict=True))

    arguments = draw()
    if all(i.opcode != "while" for i in module.instructions()):
        return arguments
    for attempt in range(1, DRAWN + 1):
        try:
            with bounded_loops(ITERATIONS):
                interpreter.run(module, nested(module, arguments))
            break
        except EndlessLoop:
            if attempt == DRAWN:
                raise
            arguments = draw() if attempt + 1 < DRAWN else tuple(map(np.zeros_like, arguments))
    return arguments


def _compare(row: Row, sample: Sample, reference: Expected, actual: list[np.ndarray] | Exception) -> None:
    """Checks the results of the compiler and of XLA:CPU against the contract."""
    if isinstance(actual, Exception) and is_refusal(actual):
        row.outcome, row.reason = UNSUPPORTED, f"compiler: {_line(actual)}"
    elif isinstance(actual, Exception):
        raise actual
    else:
        row.ran += ("compiled",)
        problem = reference.difference(arrays(actual))
        if problem:
            row.outcome, row.reason = DIFFERS, problem
    answer = xla.check(sample, reference)
    row.xla, row.excuses = answer.outcome, answer.why
    if answer.outcome in ("agreed", "excused"):
        row.ran += ("xla-cpu",)
    if answer.divergence is not None and row.outcome == AGREED:
        row.outcome, row.reason = XLA_DIFFERS, answer.divergence.what[:600]


def _line(problem: Exception) -> str:
    """The first line of an error message, without the location in the text."""
    first = next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
    return re.sub(r"^line \d+, column \d+: ", "", first)[:400]


if __name__ == "__main__":
    serve({"run_texts": run_texts})
