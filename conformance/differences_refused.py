"""Invalid programs that XLA:CPU (jaxlib 0.10.2) does not refuse: what its parser and verifier leave unchecked."""

from __future__ import annotations

from .cases import Case
from .differences import Difference

XLA = "xla-cpu"

# Counterexamples, by operation and label, that XLA's own sources refuse, and the program that it is given as StableHLO
# no longer breaks: a result's stated shape is inferred anew on the way, and a ragged-all-to-all becomes a custom call.
MENDED = frozenset(
    "add-dependency/c2 after-all/c2 convert/c2 infeed/c2 map/c2 outfeed/c2 outfeed/c3 ragged-all-to-all/c6".split()
)
# Those that pass XLA's verifier.
ACCEPTED = frozenset(
    "compare/c3 convolution/c2 convolution/c7 convolution/c8 dot/c5 fft/c4 fusion/c3 rng-bit-generator/c3 "
    "set-dimension-size/c3".split()
)
# Those that end the process that parses or verifies them: a check of its own fails, or it reads memory not there.
ABORTED = frozenset(
    "dot/c4 dynamic-reshape/c2 dynamic-reshape/c3 get-tuple-element/c1 get-tuple-element/c2 partition-id/c1 "
    "ragged-all-to-all/c1 ragged-all-to-all/c2 ragged-all-to-all/c3 ragged-all-to-all/c4 ragged-all-to-all/c5 recv/c1 "
    "recv/c2 recv-done/c1 remainder/c1 replica-id/c1 reshape/c2 scan/c5 send/c1 send/c2 triangular-solve/c4".split()
)


def _named(names: frozenset[str]):
    def applies(case: Case) -> bool:
        return case.name.removeprefix("counterexample/") in names

    return applies


DIFFERENCES = (
    Difference(
        "invalid programs that the way to XLA mends",
        XLA,
        "reference",
        "XLA's sources: HandleAddDependency, HandleAfterAll, HandleInfeed, HandleOutfeed and HandleRaggedAllToAll in "
        "hlo_verifier.cc, InferConvertShape and InferMapShape in shape_inference.cc refuse them. The StableHLO in "
        "between states no shape that could be wrong, and has a custom call for ragged-all-to-all.",
        _named(MENDED),
        None,
        "accepts the program",
        fails=True,
        refusal=True,
    ),
    Difference(
        "invalid programs that are let through",
        XLA,
        "open",
        "the constraint of that label in the operation's file. They follow from the shapes and types that "
        "operation_semantics and StableHLO give a result (compare, dot, fft, ...); neither says what a program that "
        "breaks them means, and XLA's verifier does not look.",
        _named(ACCEPTED),
        None,
        "accepts the program",
        fails=True,
        refusal=True,
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
    ),
)
