"""What is compared for each program, and what counts as a divergence.

    valid            the generated program is valid, and so is its text, read again
    plan             the simulated plan against the reference: the bits where the contract is exact, else its bounds
    plan without X   an optional pass left out, all of them, or fusion: the same bits as the plan
    kernels          the kernels on the device against the reference
    kernels without X  the same bits as the kernels
    kernels again   called with other arguments in between: the same bits, and neither arguments nor results overwritten
    target T        a target of the conformance suite, T as `--target` has it, called twice likewise, against the
                    reference
    process         the process that compared them went on to its end

Any exception except UnsupportedError is a divergence, too: verified implies no crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from refxla_conformance.case_check import CHANGES_ARGUMENTS, CHANGES_RESULTS, copied, flush
from refxla_conformance.targets import Target, leaves, loaded
from refxla_spec.compare import bits_equal
from refxla_spec.errors import is_refusal
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Instruction
from refxla_spec.text import parse
from refxla_spec.types import Value
from refxla_spec.verify import verify

from refxla.passes.pipeline import OPTIONAL

from .generate import Sample
from .runs import Arrays, Expected, different_bits, expected, nested, other_arguments, simulated

VARIANTS: tuple[tuple[str, ...], ...] = (OPTIONAL, *((name,) for name in OPTIONAL))
TARGET = "target "  # the prefix of checks of a target of the suite
PROCESS = "process"
THROUGH_TEXT = 8  # one program in so many is printed and read again


@dataclass(frozen=True)
class Divergence:
    """`check` is what was compared (see above), `what` how it differs, `raised` the exception's type if there was
    one."""

    seed: int
    check: str
    what: str
    raised: str = ""

    def like(self, other: Divergence | None) -> bool:
        """Whether the other is of the same kind, so that a smaller program shows the same bug."""
        return other is not None and (self.check, self.raised) == (other.check, other.raised)


class Unsupported(Exception):
    """The compiler reports that it does not support the program."""


def named(without: tuple[str, ...]) -> str:
    return "optional passes" if set(without) == set(OPTIONAL) else ", ".join(without)


def attempt(seed: int, check: str, action: Callable[[], str]) -> Divergence | None:
    """A divergence if the action returns a difference, or raises. Raises Unsupported for an UnsupportedError that is
    not the compiler's fault."""
    try:
        with np.errstate(all="ignore"):
            what = action()
    except Exception as error:  # whatever it is, it is what we look for
        if is_refusal(error):
            raise Unsupported(str(error)) from None
        return Divergence(seed, check, f"{type(error).__name__}: {error}"[:2000], type(error).__name__)
    return Divergence(seed, check, what) if what else None


def is_valid(sample: Sample, through_text: bool = False) -> str:
    """Errors in a program itself, or in its text."""
    verify(sample.module)
    if through_text:
        text = str(sample.module)
        again = parse(text)
        verify(again)
        if str(again) != text:
            return "printed, read and printed again, the text is another"
    return ""


@dataclass
class Cheap:
    """The comparisons of one program that need no device.

    `wanted` and `plan`, the results of the reference and of the plan, are there if nothing diverges and nothing is
    unsupported.
    """

    divergence: Divergence | None = None
    unsupported: str = ""
    wanted: Expected = field(init=False)
    plan: Arrays = field(init=False)


def cheap(sample: Sample, variants: tuple[tuple[str, ...], ...] | None = None) -> Cheap:
    """Compares without a device; `variants` are the passes left out (by default one chosen by the seed)."""
    result, seed = Cheap(), sample.seed
    if variants is None:
        variants = (VARIANTS[seed % len(VARIANTS)],)

    def against_reference() -> str:
        result.plan = simulated(sample)
        return result.wanted.difference(result.plan)

    def reference() -> str:
        result.wanted = expected(sample)
        return ""

    def against_plan(without: tuple[str, ...]) -> str:
        return different_bits(result.plan, simulated(sample, without))

    checks = [("valid", lambda: is_valid(sample, seed % THROUGH_TEXT == 0)), ("reference", reference)]
    checks.append(("plan", against_reference))
    for without in variants:
        checks.append((f"plan without {named(without)}",
                       partial(against_plan, without)))  # fmt: skip
    try:
        for name, action in checks:
            result.divergence = attempt(seed, name, action)
            if result.divergence:
                break
    except Unsupported as problem:
        result.unsupported = str(problem)
    return result


def without_subnormals(sample: Sample) -> Sample:
    """The same program, with zeros in place of the subnormal numbers among its arguments."""
    return replace(sample, arguments=tuple(flush(a) for a in sample.arguments))


def meets_subnormals(sample: Sample) -> bool:
    """Whether any value in a program is subnormal."""
    found = False

    def trace(instruction: Instruction, value: Value) -> None:
        nonlocal found
        found = found or any(v is not None and not bits_equal(flush(v), v) for v in leaves(value))

    with np.errstate(all="ignore"):
        Interpreter(trace).run(sample.module.entry, *nested(sample.module, sample.arguments))
    return found


def of_target(sample: Sample, target: Target, reference: Expected | None = None) -> Divergence | None:
    """Runs one program on a target of the suite, with other arguments and then with its own. Raises Unsupported.

    For a target that flushes subnormals, the arguments have none. If a program still computes subnormals and its
    results differ, it counts as unsupported: HLO does not define flushing within a program.
    """
    check = TARGET + (target.specification or target.name)
    if target.flushes_subnormals:
        sample, reference = without_subnormals(sample), None

    def against_reference() -> str:
        call = loaded(target, sample.module)
        arguments = [nested(sample.module, values) for values in (other_arguments(sample), sample.arguments)]
        copies = copied(arguments)
        first = call(copies[0])
        snapshot = copied(first)
        actual = call(copies[1])
        if not bits_equal(copies, copied(arguments)):
            return CHANGES_ARGUMENTS
        return (
            CHANGES_RESULTS
            if not bits_equal(tuple(first), snapshot)
            else (reference or expected(sample)).difference(actual)
        )

    divergence = attempt(sample.seed, check, against_reference)
    if divergence and not divergence.raised and target.flushes_subnormals and meets_subnormals(sample):
        raise Unsupported("subnormals in the middle of the program, which the target flushes")
    return divergence
