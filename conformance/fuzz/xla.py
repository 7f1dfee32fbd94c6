"""XLA:CPU beside the reference, for programs on which the two are to agree.

XLA promises no accuracy. What its elementary functions really have was measured by sweeps (sweep/xla_cpu.json), and
the bounds of a program are widened as far as the worst of its functions goes beyond the contract; a function that was
not swept is not compared. Programs are left out that meet what XLA:CPU is known to do differently: it flushes
subnormals to zero, and some operations are its own (OWN).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from refxla_conformance.targets.child import ChildDied, ChildError
from refxla_spec.accuracy import max_ulp
from refxla_spec.compare import TINY
from refxla_spec.errors import Error, UnsupportedError
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Instruction
from refxla_spec.types import Value

from ..differences import in_any_part, subnormal
from ..sweep.table import KEPT, read
from .differ import Divergence, attempt
from .frame import flatten
from .generate import Sample
from .runs import Expected, expected, nested

#: What XLA:CPU computes in another way than HLO says, or in a way that HLO leaves open.
OWN = {
    "reduce-precision": "of NaN with few bits, and of subnormals",
    "bitcast-convert": "pred has 8 bits there",
    "rng-bit-generator": "its own algorithm and order",
    "rng": "its own numbers",
    "rng-get-and-update-state": "its own state",
    "custom-call": "its own targets",
    "partition-id": "of one device",
    "replica-id": "of one device",
}
#: Sums that begin with the first term there, and with 0 here: of a sum of terms -0 the zero has another sign.
SUMS = frozenset("dot convolution".split())
TYPES = frozenset("pred s8 s16 s32 s64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128".split())


class LeftOut(Error):
    """A program on which the two are known to differ, or that XLA does not take; the message says why."""


@cache
def _target() -> Any:
    from refxla_conformance.targets.xla_cpu import XlaCpu

    return XlaCpu(limit=60.0)


def check(sample: Sample, wanted: Expected | None = None) -> Divergence | None:
    """XLA:CPU against the reference. Raises LeftOut, ModuleNotFoundError where the pinned jaxlib is not installed."""
    _refuse(sample)
    target = _target()
    wanted = wanted or expected(sample)
    sums = any(i.opcode in SUMS for i in sample.module.instructions())
    least = TINY if sums else 0.0
    widening = max((_beyond(i) for i in sample.module.instructions()), default=1.0)
    loose = replace(wanted, bounds=[np.maximum(b * widening, least) for b in wanted.bounds])
    try:
        got = target.run(sample.module, nested(sample.module, sample.arguments))
    except (UnsupportedError, ChildError) as error:
        raise LeftOut(f"XLA refuses it: {str(error)[:60]}") from None
    except ChildDied as error:
        return Divergence(sample.seed, "xla-cpu", f"{type(error).__name__}: {error}", type(error).__name__)
    return attempt(sample.seed, "xla-cpu", lambda: loose.difference(got))


def _beyond(i: Instruction) -> float:
    """How many times its bound in the contract an XLA:CPU function may be off, as sweeps have seen; at least 1."""
    element_type = i.operands[0].shape.element_type.name if i.operands else ""
    bound = max_ulp(i.opcode, element_type)
    if not bound:
        return 1.0
    worst = _worst().get((i.opcode, element_type))
    if worst is None:
        raise LeftOut(f"nobody knows how accurate {i.opcode} of {element_type} is")
    return max(1.0, worst / bound)


@cache
def _worst() -> dict[tuple[str, str], float | None]:
    """The largest errors that sweeps of XLA:CPU have found, in ULP."""
    return {(row.opcode, row.type): row.worst for row in read(KEPT.with_name("xla_cpu.json"))}


def _refuse(sample: Sample) -> None:
    for i in sample.module.instructions():
        if i.opcode in OWN:
            raise LeftOut(f"{i.opcode}: {OWN[i.opcode]}")
        if i.opcode == "convolution" and i.shape.element_type.is_integer:
            raise LeftOut("sums of an integer convolution saturate where XLA folds it")
        if i.shape.is_array and i.shape.element_type.name not in TYPES:
            raise LeftOut(f"type {i.shape.element_type}")
        if i.opcode in ("maximum", "minimum", "clamp", "power", "cbrt") and i.shape.element_type.is_complex:
            raise LeftOut(f"complex {i.opcode}")

    def trace(i: Instruction, value: Value) -> None:
        for a in flatten(value):
            if a is not None and in_any_part(subnormal, a).any():
                raise LeftOut("subnormals are flushed to zero")

    with np.errstate(all="ignore"):
        Interpreter(trace).run(sample.module.entry, *nested(sample.module, sample.arguments))
