"""Runs one case on one target, and checks the results against the accuracy contract.

The contract decides each element of a result by its bits, or by the bound that `refxla_spec.bounds` derives for it from
the program: ULPs of each operation, n additions of a sum, and the propagation of errors. There is no other tolerance.
Elements that the contract leaves undecided are compared, bit for bit, only if the case itself states the results;
otherwise they are counted, and a case in which they are the majority is not a pass: it is undecided.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import TINY, bits_equal, digest, distance, same_bits, ulp_distance
from refxla_spec.errors import InvalidProgramError, ParseError, UnsupportedError, is_refusal, plural
from refxla_spec.numerics import component_type, type_of
from refxla_spec.properties import Decomposition, decided
from refxla_spec.text import format_literal
from refxla_spec.types import Shape, Value

from .cases import Case
from .differences import DIFFERENCES, Difference
from .targets import Misconduct, Target, arrays, contained, forms, leaves, loaded, result_arrays
from .targets.child import ChildDied, ChildError
from .targets.reference import Reference

Array = np.ndarray

FLUSHED = "subnormals are flushed to zero"


class Outcome(Enum):
    """The outcome of a case. Only a pass is a pass."""

    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"  # the target says that it does not support this program
    UNDECIDED = "undecided"  # nothing is wrong, but the contract decides less than half of the elements
    EXCUSED = "excused"  # wrong, in a known way of this target that is documented in differences/


@dataclass(frozen=True)
class Verdict:
    """The outcome of one case on one target; for all but a pass with the reason.

    `got`, `expected` and `inputs` are literals as text, long ones truncated, for a fail or an excused case.
    `differences` are the names of the known differences that excuse the case. `undecided` counts the elements that the
    contract does not decide. `bits` is a digest of the results (`refxla_spec.compare.digest`), "" if there are none.
    """

    case: str
    target: str
    outcome: Outcome
    reason: str = ""
    kind: str = ""
    opcode: str = ""
    type: str = ""
    seconds: float = 0.0
    undecided: int = 0
    bits: str = ""
    differences: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    got: tuple[str, ...] = ()


class Literals(NamedTuple):
    """A Verdict's `inputs`, `expected` and `got`."""

    inputs: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    got: tuple[str, ...] = ()


NO_LITERALS = Literals()


@dataclass(frozen=True)
class Expectation:
    """The expectation of a value case: the value of each leaf, and for each element the maximum distance of a result
    (f64).

    A bound of 0 requires the same bits, one of inf nothing. Decompositions must in addition have the properties of
    their factors (`refxla_spec.properties`), which decide about all their elements together.
    """

    values: tuple[Array, ...]
    bounds: tuple[Array, ...]
    decompositions: tuple[Decomposition, ...] = ()

    @property
    def undecided(self) -> int:
        """The number of elements for which any value would pass: those whose bound is at least their type's largest
        number."""
        together = {k for d in self.decompositions for k in d.decides}
        pairs = enumerate(zip(self.values, self.bounds, strict=True))
        return sum(int(np.count_nonzero(~(b < _largest(v)))) for k, (v, b) in pairs if k not in together)

    def wrong(self, actual: Sequence[Array]) -> list[Array]:
        """For each leaf, which elements break the contract. The results have the types and dimensions of the values."""
        with np.errstate(all="ignore"):
            wrong = [
                ~same_bits(g, v) & ~(np.maximum(distance(g, v), TINY) <= b)
                for g, v, b in zip(actual, self.values, self.bounds, strict=True)
            ]
        for d in self.decompositions:
            matrices, _ = d.broken(actual)
            for k in d.decides:
                wrong[k] = wrong[k] | matrices.reshape(matrices.shape + (1,) * (wrong[k].ndim - matrices.ndim))
        return wrong

    def explains(self, actual: Sequence[Array], other: Expectation) -> list[Array]:
        """For each leaf, which elements are right by this expectation, if it decides them and the other one does
        not."""
        pairs = zip(self.wrong(actual), self.values, self.bounds, other.values, strict=True)
        return [~w & np.isfinite(b) & ~same_bits(v, o) for w, v, b, o in pairs]


def _largest(value: Array) -> float:
    """The largest finite number of an array's type; inf for types whose elements are either right or wrong."""
    element_type = component_type(type_of(value))
    return float(ml_dtypes.finfo(element_type.dtype).max) if element_type.is_float else np.inf


@lru_cache(maxsize=8)
def expectation(case: Case) -> Expectation:
    """The expectation of a value case, from the reference and the contract; raises what the reference raises."""
    own = None if case.expected is None else arrays(case.expected)
    if case.devices > 1 or case.infeed is not None:  # these cases are exact
        values = own if own is not None else asked(Reference(), case)
        return Expectation(tuple(values), tuple(np.zeros(v.shape) for v in values))
    value, bound = run_with_bounds(case.module, case.inputs)
    values, bounds, decompositions = arrays(value), arrays(bound), decided(case.module, case.inputs)
    if own is not None:
        bounds = [np.where(np.isfinite(b), b, 0.0) for b in bounds]
        values = own
    return Expectation(tuple(values), tuple(bounds), tuple(decompositions))


def wanted_of(case: Case, target: Target) -> Expectation:
    """The same for a target that may compute another program (`Target.meant`)."""
    meant = target.meant(case.module)
    return expectation(case if meant is case.module else replace(case, hlo=str(meant), expected=None))


def check(case: Case, target: Target, differences: Sequence[Difference] = DIFFERENCES) -> Verdict:
    """Runs the case on the target. UnsupportedError is an outcome; CompilerError and all others are a fail, as is
    whatever the contract forbids, unless a known difference of this target explains it."""
    relevant = [d for d in differences if d.touches(case, target.name)]
    return _refusal(case, target, relevant) if case.is_negative else _value(case, target, relevant)


def verdict(
    case: Case,
    target: str,
    outcome: Outcome,
    reason: str = "",
    *,
    undecided: int = 0,
    bits: str = "",
    differences: tuple[str, ...] = (),
    values: Literals = NO_LITERALS,
) -> Verdict:
    """A Verdict with the data of the case filled in."""
    try:
        element_type = case.element_type
    except Exception:  # a program that cannot be parsed has none
        element_type = ""
    return Verdict(
        case.name,
        target,
        outcome,
        reason,
        case.kind,
        case.opcode,
        element_type,
        0.0,
        undecided,
        bits,
        differences,
        *values,
    )


def _refusal(case: Case, target: Target, differences: Sequence[Difference]) -> Verdict:
    try:
        with contained(target, "verify"):
            verify: Callable[[str], object] = target.verify  # which a user's class may answer by False
            answer = verify(case.hlo)
    except UnsupportedError as error:
        return verdict(case, target.name, Outcome.UNSUPPORTED, str(error))
    except (InvalidProgramError, ParseError) as error:
        label = getattr(error, "constraint", None)
        if label in (None, case.constraint):
            return verdict(case, target.name, Outcome.PASS)
        return _fail(
            case, target, differences, f"refused by rule {label}, and {case.constraint} is the one that is broken"
        )
    except Exception as error:
        return _fail(case, target, differences, _raised(error))
    rule = f" ({case.note})" if case.note else ""
    told = "" if answer is None else f" (verify gave {answer!r:.80}; it refuses by raising InvalidProgramError)"
    return _fail(case, target, differences, f"accepts a program that breaks {case.constraint}{rule}{told}")


def _value(case: Case, target: Target, differences: Sequence[Difference]) -> Verdict:
    if case.devices > target.devices:
        reason = f"the program runs on {case.devices} devices, and {target.name} takes {target.devices}"
        return verdict(case, target.name, Outcome.UNSUPPORTED, reason)
    expected = wanted_of(case, target)
    try:
        _accepted(case, target)
        actual: list[Array] | Exception = asked(target, case)
    except Exception as error:  # whatever an implementation does, the other cases must still be checked
        actual = error
    return _judged(case, target, differences, expected, actual)


def _judged(
    case: Case,
    target: Target,
    differences: Sequence[Difference],
    expected: Expectation,
    actual: list[Array] | Exception,
) -> Verdict:
    """The verdict on a target's results or exception."""
    if isinstance(actual, Exception) and is_refusal(actual):
        return verdict(case, target.name, Outcome.UNSUPPORTED, str(actual))
    if isinstance(actual, Exception):
        return _fail(case, target, differences, _raised(actual), expected=expected.values)
    bits, values = digest(actual), expected.values
    if len(actual) != len(values):
        return _fail(case, target, differences, f"{forms(actual)} instead of {forms(values)}", values, actual)
    for n, (g, v) in enumerate(zip(actual, values, strict=True)):
        if (g.dtype, g.shape) != (v.dtype, v.shape):
            reason = f"result {n} is {Shape.of(g)} instead of {Shape.of(v)}"
            return _fail(case, target, differences, reason, values, actual)
    wrong = expected.wrong(actual)
    undecided, elements = expected.undecided, sum(v.size for v in values)
    if not any(w.any() for w in wrong):
        if 2 * undecided > elements:
            reason = f"the contract decides {elements - undecided} of {elements} elements"
            return verdict(case, target.name, Outcome.UNDECIDED, reason, undecided=undecided, bits=bits)
        return verdict(case, target.name, Outcome.PASS, undecided=undecided, bits=bits)
    reason = describe(expected, actual, wrong, case.inputs)
    names = _excuses(case, target, differences, expected, actual, wrong)
    outcome = Outcome.EXCUSED if names else Outcome.FAIL
    literals = _literals(case, values, actual)
    return verdict(
        case, target.name, outcome, reason, undecided=undecided, bits=bits, differences=names, values=literals
    )


def check_many(cases: Sequence[Case], target: Target, differences: Sequence[Difference] = DIFFERENCES) -> list[Verdict]:
    """Like `check` of each case, with those that can be combined run on the target at once (`Target.run_many`).

    A case that fails in a batch is checked alone. If it is right alone, the batch breaks it: that is a fail, too.
    """
    together = [
        c for c in cases if not c.is_negative and c.devices == 1 and c.infeed is None and not c.before
        and c.kind != "example"
    ]  # fmt: skip
    arguments = [copied(c.inputs) for c in together]
    with contained(target, "run_many"):
        results = target.run_many([(c.module, inputs) for c, inputs in zip(together, arguments, strict=True)])
    if not isinstance(results, (list, tuple)) or len(results) != len(together):
        told = plural(len(results), "result") if isinstance(results, (list, tuple)) else repr(results)[:80]
        wanted = f"a list of {plural(len(together), 'result')}, one for each program"
        problem = Misconduct(f"run_many of class {type(target).__name__} gave {told}; it has to give {wanted}")
        results = [problem] * len(together)
    by_name = {
        c.name: [r if bits_equal(inputs, c.inputs) else Misconduct(CHANGES_ARGUMENTS)]
        for c, inputs, r in zip(together, arguments, results, strict=True)
    }
    return [_in_company(case, target, by_name.get(case.name), differences) for case in cases]


def _in_company(
    case: Case, target: Target, results: list[list[Array] | Exception] | None, differences: Sequence[Difference]
) -> Verdict:
    if results is None:
        return check(case, target, differences)
    relevant = [d for d in differences if d.touches(case, target.name)]
    try:
        actual = (
            results[0]
            if isinstance(results[0], Exception)
            else result_arrays(target, "run_many", case.module, results[0])
        )
    except Misconduct as error:
        actual = error
    judgement = _judged(case, target, relevant, wanted_of(case, target), actual)
    if judgement.outcome is not Outcome.FAIL:
        return judgement
    alone = check(case, target, differences)
    if alone.outcome is Outcome.FAIL:
        return alone
    return replace(
        judgement, reason=f"right alone, and wrong when it is run together with other cases: {judgement.reason}"
    )


CHANGES_ARGUMENTS = "the target changes its arguments"
CHANGES_RESULTS = "a call changes the results of a call before it"


def asked(target: Target, case: Case) -> list[Array]:
    """The target's results for a value case. Raises Misconduct if it changes its arguments, or earlier results."""
    inputs = copied(case.inputs)
    if case.infeed is not None:
        with contained(target, "run_fed"):
            fed = target.run_fed(case.module, inputs, copied(case.infeed))
        actual = result_arrays(target, "run_fed", case.module, fed)
    elif case.before:
        call = loaded(target, case.module)
        earlier = [call(copied(arguments)) for arguments in case.before]
        copies = copied(earlier)
        actual = call(inputs)
        if not bits_equal(tuple(map(tuple, earlier)), copies):
            raise Misconduct(CHANGES_RESULTS)
    else:
        with contained(target, "run"):
            result = target.run(case.module, inputs)
        actual = result_arrays(target, "run", case.module, result)
    if not bits_equal(inputs, case.inputs):
        raise Misconduct(CHANGES_ARGUMENTS)
    return actual


def copied(value: Any) -> Value:
    """A value in separate memory; lists become tuples."""
    if isinstance(value, (tuple, list)):
        return tuple(copied(v) for v in value)
    return None if value is None else np.array(value)


def _accepted(case: Case, target: Target) -> None:
    """A verifier that rejects everything would pass all negative cases: it has to accept the examples."""
    if case.kind != "example":
        return
    try:
        with contained(target, "verify"):
            target.verify(case.hlo)
    except UnsupportedError:
        pass


def died(case: Case, target: str, reason: str, differences: Sequence[Difference] = DIFFERENCES) -> Verdict:
    """The verdict of a case that ended the target's process, or exceeded its time."""
    relevant = [d for d in differences if d.touches(case, target) and d.excuses(reason)]
    outcome = Outcome.EXCUSED if relevant else Outcome.FAIL
    return verdict(case, target, outcome, reason, differences=tuple(d.name for d in relevant), values=_literals(case))


def _raised(error: Exception) -> str:
    if isinstance(error, (ChildDied, ChildError, Misconduct)):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({place[0].filename.rsplit('/', 1)[-1]}, line {place[0].lineno})" if place else ""
    if place and place[0].filename == __file__:  # it was not even entered
        where = "; it is called as run(module, arguments), see refxla_conformance.targets.Target"
    return f"{type(error).__name__}{f': {error}' if str(error) else ''}{where}"


def _fail(
    case: Case,
    target: Target,
    differences: Sequence[Difference],
    reason: str,
    expected: Sequence[Array] = (),
    got: Sequence[Array] = (),
) -> Verdict:
    """A fail of a whole case without a result to compare."""
    names = tuple(d.name for d in differences if d.excuses(reason))
    outcome = Outcome.EXCUSED if names else Outcome.FAIL
    return verdict(case, target.name, outcome, reason, differences=names, values=_literals(case, expected, got))


def _literals(case: Case, expected: Sequence[Array] = (), got: Sequence[Array] = ()) -> Literals:
    return Literals(*(tuple(shown(v) for v in group) for group in (leaves(list(case.inputs)), expected, got)))


def _excuses(
    case: Case,
    target: Target,
    differences: Sequence[Difference],
    expected: Expectation,
    actual: list[Array],
    wrong: list[Array],
) -> tuple[str, ...]:
    """The names of the differences that together explain every wrong element; () if some are unexplained."""
    rest, names = [w.copy() for w in wrong], []
    pairs = list(zip(actual, expected.values, strict=True))
    candidates = [(d.name, [_explained(d, case, n, g, v) for n, (g, v) in enumerate(pairs)]) for d in differences]
    if target.flushes_subnormals and case.devices == 1 and case.infeed is None:
        candidates.append((FLUSHED, flushed(case).explains(actual, expected)))
        candidates.append((FLUSHED, [(g == 0) & _subnormal(v) for g, v in pairs]))
    for name, explained in candidates:
        if any((w & e).any() for w, e in zip(rest, explained, strict=True)):
            names.append(name)
            rest = [w & ~e for w, e in zip(rest, explained, strict=True)]
    return () if any(w.any() for w in rest) else tuple(dict.fromkeys(names))


def _explained(difference: Difference, case: Case, leaf: int, actual: Array, expected: Array) -> Array:
    if difference.explains is None:
        return np.zeros(actual.shape, bool)
    return np.broadcast_to(difference.explains(case, leaf, actual, expected), actual.shape)


@lru_cache(maxsize=8)
def flushed(case: Case) -> Expectation:
    """The results of the case with subnormal inputs and results flushed to zero."""
    value, bound = run_with_bounds(case.module, tuple(flush(x) for x in case.inputs))
    return Expectation(tuple(flush(v) for v in arrays(value)), tuple(arrays(bound)))


def flush(value: Value) -> Value:
    """A value with zeros in place of its subnormal numbers."""
    if isinstance(value, tuple):
        return tuple(flush(v) for v in value)
    if value is not None and type_of(value).is_complex:
        flat = np.array(value, order="C")
        return flush(flat.reshape(-1).view(flat.real.dtype)).view(flat.dtype).reshape(flat.shape)
    if value is None or not type_of(value).is_float:
        return value
    return np.where(_subnormal(value), np.copysign(np.zeros((), value.dtype), value), value)


def _subnormal(value: Array) -> Array:
    if not type_of(value).is_float:
        return np.zeros(value.shape, bool)
    return np.asarray((value != 0) & (np.abs(value) < ml_dtypes.finfo(value.dtype).smallest_normal))


def describe(
    expected: Expectation, actual: Sequence[Array], wrong: Sequence[Array], arguments: Sequence[Value] = ()
) -> str:
    """The first wrong element: its position, its value, the expected value, and the allowed distance; for a
    decomposition, the violated property. If the arguments have the result's dimensions, with their elements there."""
    for d in expected.decompositions:
        if told := d.broken(actual)[1]:
            return f"{d.instruction.custom_call_target}: {told}"
    for n, (g, v, b, w) in enumerate(zip(actual, expected.values, expected.bounds, wrong, strict=True)):
        if not w.any():
            continue
        at = tuple(int(k) for k in np.argwhere(w)[0])
        count = int(np.count_nonzero(w))
        place = f"result {n}" if len(actual) > 1 else "the result"
        element = f"element {list(at)} of {place}" if at else place
        apart = float(ulp_distance(g[at][...], v[at][...]))
        allowed = "it has to be the same bits" if b[at] == 0 else f"it may be off by {b[at]:.3g}"
        comparison = f"{_number(g[at])} instead of {_number(v[at])}"
        more = f"; {count} of {w.size} elements are wrong" if w.size > 1 else ""
        distance_ = f"{apart:g} {'ULP' if type_of(v).is_float else ''}".strip()
        of = [_number(a[at]) for a in arguments if isinstance(a, np.ndarray) and a.shape == g.shape]
        operands = f" (of {', '.join(of)})" if of and len(of) == len(arguments) <= MOST_OPERANDS else ""
        return f"{element} is {comparison}{operands}: {distance_} apart, and {allowed}{more}"
    return ""


MOST_OPERANDS = 3  # operands shown


def _number(value: Value) -> str:
    return format_literal(np.asarray(value), with_shape=False)


def shown(value: Value) -> str:
    """A value as an HLO literal, truncated after 40 elements."""
    return "token" if value is None else format_literal(value, elide=40)
