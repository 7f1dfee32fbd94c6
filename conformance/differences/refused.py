"""Invalid programs that XLA:CPU (jaxlib 0.10 to 0.12) does not reject: what its parser and verifier do not check."""

from __future__ import annotations

from collections.abc import Callable

from ..cases import Case
from .difference import Difference

XLA = "xla-cpu"
ACCEPTED = "^accepts a program that breaks "
SAID_OF_A_CRASH = r"process ended with signal SIG(SEGV|ABRT|FPE)"

# Counterexamples, by operation and label, that XLA's own sources reject, but that are no longer invalid in the
# StableHLO that XLA gets: a result's stated shape and a window's size are inferred again on the way, and a
# ragged-all-to-all becomes a custom call.
MENDED = frozenset(
    "add-dependency/c2 after-all/c2 convert/c2 convolution/c2 fusion/c3 infeed/c2 map/c2 outfeed/c2 outfeed/c3 "
    "ragged-all-to-all/c6 set-dimension-size/c3".split()
)
# Those that end the process that parses or verifies them: an internal check fails, or it reads invalid memory.
ABORTED = frozenset(
    (
        "async-done/c1 async-update/c1 dot/c4 dynamic-reshape/c2 dynamic-reshape/c3 get-tuple-element/c1 "
        "get-tuple-element/c2 partition-id/c1 ragged-all-to-all/c1 ragged-all-to-all/c2 ragged-all-to-all/c3 "
        "ragged-all-to-all/c4 ragged-all-to-all/c5 ragged-all-to-all/c6 recv/c1 recv/c2 recv-done/c1 remainder/c1 "
        "replica-id/c1 reshape/c2 scan/c5 send/c1 send/c2 triangular-solve/c4"
    ).split()
)


def _named(names: frozenset[str]) -> Callable[[Case], bool]:
    def applies(case: Case) -> bool:
        return case.name.removeprefix("counterexample/") in names

    return applies


DIFFERENCES = (
    Difference(
        "invalid programs that the way to XLA mends",
        XLA,
        "reference",
        "XLA's sources: HandleAddDependency, HandleAfterAll, HandleFusion, HandleInfeed, HandleOutfeed and "
        "HandleRaggedAllToAll in hlo_verifier.cc, InferConvertShape, InferConvolveShape, InferMapShape and "
        "InferSetDimensionSizeShape in shape_inference.cc refuse them. The StableHLO in between states no shape and no "
        "window that could be wrong, and has a custom call for ragged-all-to-all.",
        _named(MENDED),
        None,
        "accepts the program",
        fails=True,
        refusal=True,
        says=ACCEPTED,
    ),
    Difference(
        "floating-point sums as integers",
        XLA,
        "reference",
        "StableHLO, convolution, (C27): element_type(lhs) = element_type(rhs) = element_type(result); dot_general adds "
        "multiply(lhs, rhs) to constant(0, element_type(result)), and add, (C1), wants type(lhs) = type(rhs). No "
        "document says whether the terms or the sum are to be rounded, or how.",
        _named(frozenset(("convolution/c8", "dot/c5"))),
        None,
        "accepts the program, sums up floats, and drops the fraction of the sum",
        fails=True,
        refusal=True,
        says=ACCEPTED,
    ),
    Difference(
        "the order of complex numbers",
        XLA,
        "open",
        "StableHLO, compare: lexicographic comparison of (real, imag) pairs, and in the future we are planning to "
        "remove support for complex numbers when comparison_direction is GE, GT, LE or LT. XLA:CPU does not follow the "
        "first half: to it 1 + i is both greater than 1 and not greater.",
        _named(frozenset(("compare/c3",))),
        None,
        "accepts the program; LT and GT are lexicographic, LE and GE compare real parts alone",
        fails=True,
        refusal=True,
        says=ACCEPTED,
    ),
    Difference(
        "an fft of other lengths than the array's",
        XLA,
        "reference",
        "operation_semantics, Fft: fft_length is the time-domain lengths of the axes being transformed. "
        "InferFftShape compares them for RFFT and IRFFT alone.",
        _named(frozenset(("fft/c4",))),
        None,
        "accepts the program, and ends its process when it is to run it",
        fails=True,
        refusal=True,
        says=ACCEPTED,
    ),
    Difference(
        "random bits as floating-point numbers",
        XLA,
        "open",
        "StableHLO, rng_bit_generator: output is a tensor of integer or floating-point type, filled with uniform "
        "random bits. Neither document says which numbers these bits are then.",
        _named(frozenset(("rng-bit-generator/c3",))),
        None,
        "accepts the program, and gives u32 where f32 was asked for",
        fails=True,
        refusal=True,
        says=ACCEPTED,
    ),
    Difference(
        "invalid programs that end the process",
        XLA,
        "reference",
        "the constraint of that label in the operation's file. An error is to be told; XLA does not take the program "
        "either.",
        _named(ABORTED),
        None,
        "ends its process, by a failed check or SIGSEGV",
        fails=True,
        refusal=True,
        says=SAID_OF_A_CRASH,
    ),
)
