"""A verdict on each element of a program's results: within the contract, suspect, wrong, or undecided.

`verdicts(module, args, results)` compares results with the reference, which evaluates each operation in a wider type
and rounds it once, as the program says. Two limits say how far an element may lie from it:

    certain     the bound of bounds.py: what no program exceeds that keeps the contract. inf where it says nothing.
    by chance   k deviations, as an ensemble of programs that keep the contract shows them (sampling.py). For m members
                the distance, in units of the deviation that they show, follows Student's distribution with m degrees of
                freedom; k is chosen so that of all elements together one exceeds it with probability FALSE_ALARM
                (`suspect`) or CERTAINTY (`wrong`). To it comes, where comparisons and the like lie within k deviations
                of their edge, twice what comes of it if they fall otherwise (for `wrong` in proportion). Where an error
                is possible at all, it is one ULP at least, since it may end on either side of the middle of two
                numbers (of types narrower than f32 this is a decision like others).

    within      both limits are kept, and the smaller one is smaller than the reference's value, so that a zero, say,
                would not have been taken for it; or the bits are the reference's.
    undecided   both are kept and neither is smaller than the value: errors may be as large as what they err from. Of an
                integer or a boolean: it is another one than the reference's, and so it is with members.
    suspect     more than k deviations away, though no certain bound is broken: improbable.
    wrong       a certain bound is broken, or errors of that size have a probability below CERTAINTY.

The results of decompositions (eigenvectors, the factors of a matrix) have no such limits. Where a program gives what a
custom call makes of its arguments, they are held to what defines them (properties.py): all elements of a matrix are
`wrong` where a property does not hold, and those that would be undecided `within` where all hold.

What it cannot decide: errors as small as those that rounding may make. `sharpness` says how small these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from math import prod, sqrt
from typing import Any

import numpy as np

from .bounds import run_with_bounds
from .compare import TINY, distance, same_bits, ulp
from .errors import InputError, plural
from .interpreter import check_arguments, last_uses
from .module import Computation, Instruction, Module
from .numerics import component_type, type_of
from .properties import decided
from .sampling import Ensemble
from .types import Array, Shape, Value, leaves

MEMBERS = 16
FEWEST = 4
MEMORY = 8 << 30  # bytes that the values of all members may take: of larger programs there are fewer members
FALSE_ALARM = 1e-3  # the probability that a program which keeps the contract has one suspect element
CERTAINTY = 1e-9  # that it has one that is called wrong


class Verdict(IntEnum):
    """What is said of an element."""

    WITHIN = 0
    UNDECIDED = 1
    SUSPECT = 2
    WRONG = 3


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The verdicts on one array of the results. All arrays have its dimensions."""

    shape: Shape
    codes: Array  # uint8: of Verdict
    apart: Array  # f64: how far the result lies from the reference
    allowed: Array  # f64: the smaller of the two limits
    same: Array  # whether the bits are the reference's
    result: Array
    reference: Array

    def count(self, verdict: Verdict) -> int:
        """How many elements have that verdict."""
        return int(np.count_nonzero(self.codes == verdict))

    @property
    def verdict(self) -> Verdict:
        """The worst of all elements; but of undecided ones only if there are no others."""
        for verdict in (Verdict.WRONG, Verdict.SUSPECT):
            if self.count(verdict):
                return verdict
        undecided = self.count(Verdict.UNDECIDED)
        return Verdict.UNDECIDED if undecided and undecided == self.codes.size else Verdict.WITHIN

    @property
    def worst(self) -> tuple[int, ...] | None:
        """The index of an element with the worst verdict, among these the one that exceeds its limit most."""
        if not self.codes.size:
            return None
        with np.errstate(all="ignore"):
            share = np.where(self.apart == 0, 0.0, self.apart / self.allowed)
        share = np.where(self.codes == np.max(self.codes), np.nan_to_num(share, nan=np.inf), -1.0)
        return tuple(int(k) for k in np.unravel_index(int(np.argmax(share)), share.shape))

    @property
    def sharpness(self) -> float:
        """The median of the limits relative to the values, over the elements that are not zero: what relative error is
        found in half of them. NaN if there are none; of integers the share of those that are not decided."""
        if not (type_of(self.reference).is_float or type_of(self.reference).is_complex):
            return float(np.mean(np.isinf(self.allowed))) if self.codes.size else float("nan")
        size = np.abs(self.reference.astype(np.clongdouble if np.iscomplexobj(self.reference) else np.longdouble))
        used = np.isfinite(size) & (size > 0)
        return float(np.median(self.allowed[used] / size[used])) if used.any() else float("nan")


@dataclass(frozen=True, eq=False)
class Report:
    """The verdicts on all arrays of the results, in order, what was unknown of the program, counted in words, and a
    sentence about each decomposition whose results have not the properties that define them."""

    results: list[Verdicts]
    unknown: Counter[str]
    properties: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[int]:
        """The numbers of the results with an element that is suspect or wrong."""
        return [n for n, v in enumerate(self.results) if v.verdict >= Verdict.SUSPECT]


def verdicts(
    module: Module, args: Sequence[Value], results: Sequence[Any], members: int | None = None, seed: int = 0
) -> Report:
    """What is to be said of `results`, which a program gave for the module's entry computation on `args`.

    `results` are the arrays of its value, tuples opened. The same seed gives the same verdicts. Raises InputError if
    the results have not the types and dimensions of the reference's, or the arguments do not fit the program.
    `members` is an even number; by default `members_of` says how many.
    """
    return Judge(module, args, members, seed).judge(results)


class Judge:
    """Knows what a module's entry computation may give for `args`: the reference's values, and both limits of each."""

    def __init__(self, module: Module, args: Sequence[Value], members: int | None = None, seed: int = 0) -> None:
        arguments = check_arguments(module.entry, args)
        members = members or members_of(module)
        with np.errstate(all="ignore"):
            value, bounds = run_with_bounds(module, arguments)
            self.references, self._bounds = _leaves(value), _leaves(bounds)
            total = max(1, sum(v.size for v in self.references))
            suspect, wrong = (student(p / total, members) for p in (FALSE_ALARM, CERTAINTY))
            # A decision in doubt falls alike in all of 8 deciders in one of 256 cases.
            ensemble = Ensemble(members, members // 2, seed, suspect)
            values = ensemble.run(module.entry, [ensemble.shared(a) for a in arguments])
            spreads, jumps = _leaves(ensemble.spread(values)), _leaves(ensemble.jumps(values))
            self._chances = [suspect * s + 2 * j for s, j in zip(spreads, jumps, strict=True)]
        self._ratio = wrong / suspect
        self._unknown = ensemble.unknown
        arrays = all(s.is_array for s in leaves(module.entry.root.shape))  # their numbers are those of the leaves
        self._decompositions = decided(module, arguments) if arrays else []

    def judge(self, results: Sequence[Any]) -> Report:
        """The verdicts on results, as `verdicts` gives them."""
        if len(self.references) != len(results):
            raise InputError(f"the reference has {plural(len(self.references), 'result')}, not {len(results)}")
        cases = zip(results, self.references, self._bounds, self._chances, strict=True)
        with np.errstate(all="ignore"):
            judged = [_judged(np.asarray(r), of, bound, chance, self._ratio) for r, of, bound, chance in cases]
        told = []
        for decomposition in self._decompositions:
            wrong, sentence = decomposition.broken([v.result for v in judged])
            for n in decomposition.decides:
                judged[n] = _by_matrices(judged[n], wrong)
            if sentence:
                told.append(f"{decomposition.instruction.name}: {sentence}")
        return Report(judged, self._unknown, told)


def members_of(module: Module) -> int:
    """How many members there are: fewer, and so wider limits, where their values would take more than MEMORY."""
    largest = max(_live_bytes(c) for c in module.computations)
    members = MEMBERS
    while members > FEWEST and (members + members // 2) * largest > MEMORY:
        members //= 2
    return members


def _live_bytes(computation: Computation) -> int:
    """The most bytes that the values of a computation take at a time, parameters apart, which members share."""
    live = most = 0
    for i, dead in zip(computation.instructions, last_uses(computation), strict=True):
        live += _bytes(i)
        most = max(most, live)
        live -= sum(map(_bytes, dead))
    return most


def _bytes(i: Instruction) -> int:
    if i.opcode in ("parameter", "constant", "tuple", "get-tuple-element"):  # which share their parts
        return 0
    return sum(prod(s.dimensions) * s.element_type.array_dtype.itemsize for s in leaves(i.shape) if s.is_array)


def _leaves(value: Value) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [] if value is None else [value]


def _judged(result: Array, reference: Array, bound: Array, chance: Array, ratio: float) -> Verdicts:
    """`chance` is the limit of what is suspect, and `ratio` times it of what is wrong."""
    if result.dtype != reference.dtype or result.shape != reference.shape:
        raise InputError(f"the result is {Shape.of(result)} and the reference {Shape.of(reference)}")
    element_type = type_of(reference)
    same = same_bits(result, reference)
    if element_type.is_complex:  # one NaN is as good as another
        same |= np.isnan(result) & np.isnan(reference)
    apart = np.where(same, 0.0, np.maximum(distance(result, reference), TINY))
    floating = element_type.is_float or element_type.is_complex
    wide = floating and component_type(element_type).bits >= 32
    least = np.where(bound > 0, np.nan_to_num(ulp(reference), nan=0.0, posinf=0.0), 0) if wide else 0.0
    probable, possible = np.maximum(chance, least), np.maximum(ratio * chance, least)
    allowed = np.minimum(bound, probable)
    size = np.abs(reference).astype(np.float64) if floating else 1.0
    codes = np.where(allowed < np.where(np.isnan(size), np.inf, size), Verdict.WITHIN, Verdict.UNDECIDED)
    codes = np.where(same | (allowed == 0), Verdict.WITHIN, codes)
    codes = np.where(apart > probable, Verdict.SUSPECT, codes)
    codes = np.where((apart > possible) | (apart > bound), Verdict.WRONG, codes).astype(np.uint8)
    return Verdicts(Shape.of(reference), codes, apart, allowed, same, result, reference)


def _by_matrices(v: Verdicts, wrong: Array) -> Verdicts:
    """The verdicts on a result of a decomposition, by whether the properties of each matrix of its batch hold."""
    broken = wrong.reshape(wrong.shape + (1,) * (v.codes.ndim - wrong.ndim))
    codes = np.where(v.codes == Verdict.UNDECIDED, Verdict.WITHIN, v.codes)
    return replace(v, codes=np.where(broken, Verdict.WRONG, codes).astype(np.uint8))


@cache
def student(probability: float, degrees: int) -> float:
    """The t beyond which, on either side, Student's distribution of an even number of degrees of freedom has that
    probability (Abramowitz and Stegun, 26.7.4: here the series' tail, which loses no digits)."""
    if degrees < 2 or degrees % 2:
        raise ValueError(f"{degrees} degrees of freedom; give an even number")

    def beyond(t: float) -> float:
        cosine2 = degrees / (degrees + t * t)
        sine, term, total, k = t / sqrt(degrees + t * t), 1.0, 0.0, 0
        while k < degrees // 2 or term > total * 1e-17:
            if k >= degrees // 2:
                total += term
            k += 1
            term *= cosine2 * (2 * k - 1) / (2 * k)
        return sine * total

    low, high = 0.5, 1.0
    while beyond(high) > probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > probability else (low, middle)
    return high
