"""Reduction: from a program with a divergence to a few instructions that still have it.

Each step proposes smaller programs; a valid one with the same divergence replaces the last one. Steps are repeated
until none helps, or the time is over:

    keep one result, or make an inner value the result
    replace an instruction by a parameter with its value, by an operand, or by an earlier value of the same shape
    inline a call or fusion
    make numbers simple, and dimensions small
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from refxla_spec.errors import Error
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Instruction, Module, order_computations, post_order
from refxla_spec.text import parse
from refxla_spec.types import Shape, Value, leaves
from refxla_spec.verify import verify

from .generate import Sample
from .program_builder import flatten
from .runs import nested

Shows = Callable[[Sample], bool]


def reduced(sample: Sample, shows: Shows, seconds: float = 60) -> Sample:
    """A smaller program with the same divergence; the given one if there is none."""
    until = time.monotonic() + seconds
    sample = _cleaned(sample) if _valid(_cleaned(sample)) and shows(_cleaned(sample)) else sample
    steps = (_one_result, _shorter, _as_parameters, _simpler, _inlined, _plain, _smaller)
    again = True
    while again and time.monotonic() < until:
        again = False
        for step in steps:
            sample, better = _repeat(sample, step, shows, until)
            again = again or better
    return sample


def _repeat(
    sample: Sample, step: Callable[[Sample], Iterator[Sample]], shows: Shows, until: float
) -> tuple[Sample, bool]:
    """Takes the first candidate of a step with the divergence, and tries the step again, until there is none."""
    changed = False
    again = True
    while again:
        again = False
        for candidate in step(sample):
            if time.monotonic() > until:
                return sample, changed
            if _weight(candidate) < _weight(sample) and _valid(candidate) and shows(candidate):
                sample, changed, again = candidate, True, True
                break
    return sample, changed


def _weight(sample: Sample) -> tuple[float, ...]:
    """The measure that must decrease: computations' instructions, then sizes, then how unusual the numbers are."""
    instructions = list(sample.module.instructions())
    counted = [i for i in instructions if i.opcode not in ("parameter", "get-tuple-element", "tuple")]
    size = sum(i.shape.bytes for i in instructions)
    odd = sum(float(np.count_nonzero(a != np.zeros((), a.dtype))) + len(set(a.ravel().tolist()))
              for a in sample.arguments if a.size)  # fmt: skip
    return len(counted), len(instructions), size, odd


def _valid(sample: Sample) -> bool:
    try:
        verify(sample.module)
    except Error:
        return False
    return True


# -- making candidates ------------------------------------------------------------------------------------------------


class _Copy:
    """A clone of a program, in which instructions can be found by those of the original."""

    def __init__(self, sample: Sample) -> None:
        self.sample, self.module = sample, sample.module.clone()
        self.new: dict[Instruction, Instruction] = {}
        for a, b in zip(sample.module.computations, self.module.computations, strict=True):
            self.new.update(zip(a.instructions, b.instructions, strict=True))
        self.arguments = list(nested(self.module, sample.arguments))

    def parameter(self, shape: Shape, value: Value, name: str) -> Instruction:
        """A new parameter of the entry."""
        number = len(self.arguments)
        parameter = Instruction(name, "parameter", shape.without_layout(), [], {"number": number})
        self.arguments.append(value)
        self.module.entry.instructions.insert(0, parameter)
        return parameter

    def done(self) -> Sample:
        return _cleaned(Sample(self.sample.seed, self.module, tuple(a for v in self.arguments for a in flatten(v))))


def _cleaned(sample: Sample) -> Sample:
    """Without dead instructions, unused parameters, and computations that are not called."""
    module = sample.module.clone()
    values = nested(module, sample.arguments)
    for c in module.computations:
        needed = set(post_order(c.root))
        instructions = [i for i in c.instructions if i in needed or (i.opcode == "parameter" and c is not module.entry)]
        c.instructions = instructions
    entry = module.entry
    parameters = [i for i in entry.parameters]
    arguments = [values[i.attributes["number"]] for i in parameters]
    for n, i in enumerate(parameters):
        i.attributes["number"] = n
    called, waiting = {entry}, [entry]
    while waiting:
        for i in waiting.pop().instructions:
            for d in i.called:
                if d not in called:
                    called.add(d)
                    waiting.append(d)
    module.computations = order_computations([c for c in module.computations if c in called])
    module.aliases, module.entry_layout = (), None
    return Sample(sample.seed, module, tuple(a for v in arguments for a in flatten(v)))


def _values(sample: Sample) -> dict[Instruction, Value]:
    """The value of each instruction of the entry."""
    try:
        with np.errstate(all="ignore"):
            return dict(Interpreter().steps(sample.module.entry, nested(sample.module, sample.arguments)))
    except Error:
        return {}


# -- steps ------------------------------------------------------------------------------------------------------------


def _one_result(sample: Sample) -> Iterator[Sample]:
    root = sample.module.entry.root
    if root.opcode == "tuple":
        for o in root.operands:
            copy = _Copy(sample)
            copy.module.entry.root = copy.new[o]
            yield copy.done()


def _shorter(sample: Sample) -> Iterator[Sample]:
    """An inner value as the result."""
    for i in sample.module.entry.instructions:
        if i is not sample.module.entry.root and i.opcode not in ("parameter", "constant") and i.shape.is_array:
            copy = _Copy(sample)
            copy.module.entry.root = copy.new[i]
            yield copy.done()


def _as_parameters(sample: Sample) -> Iterator[Sample]:
    """A parameter for an instruction, with its value: its producers become dead."""
    values = _values(sample)
    for n, i in enumerate(reversed(sample.module.entry.instructions)):
        if i.opcode == "parameter" or i is sample.module.entry.root or i not in values:
            continue
        if any(v is None for v in flatten(values[i])):
            continue
        copy = _Copy(sample)
        parameter = copy.parameter(i.shape, values[i], f"arg.{n}.{i.name}")
        copy.module.entry.replace({copy.new[i]: parameter})
        yield copy.done()


def _simpler(sample: Sample) -> Iterator[Sample]:
    """An earlier value of the same shape for an instruction: its operands first. A loop becomes its initial state, an
    element of a body's result the state from the previous iteration."""
    for c in sample.module.computations:
        for n, i in reversed(list(enumerate(c.instructions))):
            if i.opcode == "parameter":
                continue
            alike = [v for v in (*i.operands, *c.instructions[:n]) if v.shape.compatible(i.shape) and v is not i]
            for v in list(dict.fromkeys(alike))[:3]:
                copy = _Copy(sample)
                computation = next(d for d in copy.module.computations if copy.new[i] in d.instructions)
                computation.replace({copy.new[i]: copy.new[v]})
                yield copy.done()


def _inlined(sample: Sample) -> Iterator[Sample]:
    """Inlines the computation of a call or a fusion."""
    for i in sample.module.entry.instructions:
        name = {"call": "to_apply", "fusion": "calls"}.get(i.opcode)
        if name is None:
            continue
        copy = _Copy(sample)
        entry, call = copy.module.entry, copy.new[i]
        at = entry.instructions.index(call)
        copies: dict[Instruction, Instruction] = {}
        for inner in call.attributes[name].instructions:
            if inner.opcode == "parameter":
                copies[inner] = call.operands[inner.attributes["number"]]
            else:
                operands = [copies[o] for o in inner.operands]
                copies[inner] = replace(inner, name=f"{call.name}.{inner.name}", operands=operands)
        entry.instructions[at:at] = [m for inner, m in copies.items() if inner.opcode != "parameter"]
        entry.replace({call: copies[call.attributes[name].root]})
        yield copy.done()


def _plain(sample: Sample) -> Iterator[Sample]:
    """Zeros or ones as arguments, whole arrays and then parts of them."""
    for n, a in enumerate(sample.arguments):
        zero = np.zeros((), a.dtype)
        for candidate in (np.zeros_like(a), np.ones_like(a)):
            yield _with_argument(sample, n, candidate)
        places = np.flatnonzero(a != zero)
        for part in (4, 16, 64):
            for some in np.array_split(places, part):
                if some.size:
                    changed = a.copy()
                    changed.reshape(-1)[some] = zero
                    yield _with_argument(sample, n, changed)


def _with_argument(sample: Sample, n: int, value: np.ndarray) -> Sample:
    return replace(sample, arguments=(*sample.arguments[:n], value, *sample.arguments[n + 1 :]))


SHAPE = re.compile(r"(?<=\[)[\d,]+(?=\])")


def _smaller(sample: Sample) -> Iterator[Sample]:
    """One size reduced wherever it occurs in a shape or a list of sizes; arguments are sliced to fit."""
    text = str(replace_layout(sample.module))
    sizes = sorted({int(n) for dims in SHAPE.findall(text) for n in dims.split(",")}, reverse=True)
    for old in sizes:
        for new in dict.fromkeys((1, 2, old // 2, old - 1)):
            if not 0 < new < old:
                continue

            def change(m: re.Match[str], old: int = old, new: int = new) -> str:
                return re.sub(rf"\b{old}\b", str(new), m[0])

            for pattern in (SHAPE, re.compile(r"(?<=\[)[\d,]+(?=\])|(?<=sizes=\{)[\d,]+(?=\})")):
                try:
                    module = parse(pattern.sub(change, text))
                except Error:
                    continue
                shapes = [s for p in module.entry.parameters for s in leaves(p.shape)]
                pairs = list(zip(sample.arguments, shapes, strict=False))
                if len(pairs) != len(sample.arguments) or any(a.ndim != s.rank for a, s in pairs):
                    continue
                arguments = tuple(np.ascontiguousarray(a[tuple(slice(0, n) for n in s.dimensions)]) for a, s in pairs)
                if all(a.shape == s.dimensions for a, (_, s) in zip(arguments, pairs, strict=True)):
                    yield Sample(sample.seed, module, tuple(a.reshape(s.dimensions) for a, (_, s) in
                                                            zip(arguments, pairs, strict=True)))  # fmt: skip


def replace_layout(module: Module) -> Module:
    """A copy without layouts, which would have to match the sizes of shapes."""
    copy = module.clone()
    for i in copy.instructions():
        i.shape = i.shape.without_layout()
    return copy
