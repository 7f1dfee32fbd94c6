"""How StableHLO's own interpreter (of jaxlib 0.10.2) differs from the specification."""

from __future__ import annotations

import numpy as np
from refxla_spec.numerics import type_of

from .cases import Case
from .differences import (
    Difference,
    extreme,
    in_any_part,
    not_finite,
    of,
    subnormal,
    types_of,
    where,
    whole,
    with_types,
    within_ulp,
)
from .differences_xla import COMPLEX_FUNCTIONS

STABLEHLO = "stablehlo"

# The largest error seen of each function beyond the contract, in ULP, on the cases of this suite: cosh, sinh, erf and
# cbrt are composed of functions that are rounded each.
SEEN: dict[tuple[str, str], float] = {
    ("cbrt", "f64"): 3.0,
    ("cosh", "f32"): 19.0,
    ("cosh", "f64"): 373.0,
    ("cosh", "c64"): 7.0,
    ("cosh", "c128"): 11.0,
    ("erf", "f32"): 24.0,
    ("sinh", "c64"): 18.0,
    ("sinh", "c128"): 18.0,
    ("sinh", "f32"): 19.0,
    ("sinh", "f64"): 373.0,
}


def _unsigned_starts(case: Case) -> bool:
    return case.opcode in ("gather", "scatter", "dynamic-slice", "dynamic-update-slice") and "limits_u" in case.name


def _complex(case: Case) -> bool:
    return not types_of(case).isdisjoint(("c64", "c128"))


DIFFERENCES = (
    Difference(
        "one-bit integers",
        STABLEHLO,
        "open",
        "StableHLO, types: IntegerType is si2 to si64 and ui2 to ui64; i1 is its boolean. XLA's xla_data.proto has S1 "
        "and U1.",
        with_types((), "s1", "u1"),
        None,
        "has no such types",
    ),
    Difference(
        "reductions of f6 types",
        STABLEHLO,
        "reference",
        "StableHLO, types: f6E2M3FN and f6E3M2FN are floating-point types; the constants of a program in them end the "
        "process that reads it.",
        with_types(("reduce", "reduce-window"), "f6e2m3fn", "f6e3m2fn"),
        None,
        "ends its process",
    ),
    Difference(
        "pred in bitcast-convert",
        STABLEHLO,
        "open",
        "StableHLO, bitcast_convert (C1) counts a boolean as one bit; xla/primitive_util.h has 8 for pred.",
        with_types(("bitcast-convert",), "pred"),
        None,
        "refuses",
    ),
    Difference(
        "integer division that has no quotient",
        STABLEHLO,
        "open",
        "XLA's operation_semantics: \"Integer division overflow (signed/unsigned division/remainder by zero or signed "
        'division/remainder of INT_SMIN with -1) produces an implementation defined value"; StableHLO is silent.',
        lambda case: case.opcode in ("divide", "remainder") and bool(_integers(case)),
        None,
        "ends its process (SIGFPE) on division by zero, and on the smallest integer divided by -1",
    ),
    Difference(
        "numbers that f8e8m0fnu does not have",
        STABLEHLO,
        "reference",
        "OCP microscaling formats: E8M0 has no zero, no sign and no infinity; what is none of its numbers is NaN.",
        with_types((), "f8e8m0fnu"),
        whole,
        "rounds negative numbers, zero and NaN to 2^-127 or 2^127, and sorts by the bits as signed integers",
    ),
    Difference(
        "overflow of f4e2m1fn and f6",
        STABLEHLO,
        "reference",
        "OCP microscaling formats: FP4 and FP6 have neither infinities nor NaN, and conversion to them saturates.",
        with_types((), "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"),
        whole,
        "gives zero, of either sign, for infinities and NaN",
    ),
    Difference(
        "total order of NaN and zeros",
        STABLEHLO,
        "reference",
        "IEEE 754-2019, 5.10: totalOrder orders NaN by sign and payload, -NaN below -inf, and -0 below +0.",
        of("compare"),
        where(lambda expected, *given: in_any_part(np.isnan, *given) | in_any_part(lambda x: x == 0, *given)),
        "takes NaN of different payloads for equal, and -0 and +0 likewise",
    ),
    Difference(
        "sorting NaN",
        STABLEHLO,
        "reference",
        "IEEE 754-2019, 5.10, as in compare with type TOTALORDER.",
        lambda case: case.opcode == "sort" and not types_of(case).isdisjoint(FLOATS),
        lambda case, leaf, got, expected: np.full(got.shape, any(_has_nan(x) for x in case.inputs)),
        "leaves NaN anywhere, and then other elements too",
    ),
    Difference(
        "NaN with no mantissa bits",
        STABLEHLO,
        "reference",
        'StableHLO, reduce_precision: "conversion of operand to another floating-point type ... and back": a NaN '
        "converts to a NaN.",
        of("reduce-precision"),
        where(lambda expected, *given: in_any_part(np.isnan, *given)),
        "gives an infinity for NaN where few mantissa_bits are left",
    ),
    Difference(
        "accumulation of narrow types",
        STABLEHLO,
        "reference",
        "StableHLO, convolution and dot_general: the element type of the result may be wider, and the sums are of it.",
        of("convolution", "dot"),
        lambda case, leaf, got, expected: np.full(got.shape, _widens(case)),
        "multiplies and adds in the operands' type, and widens what is left",
    ),
    Difference(
        "blocks that lie partly outside",
        STABLEHLO,
        "reference",
        'StableHLO, scatter, says "If result_index is in bounds for shape(results...)", element by element; XLA (the '
        "index check of its ScatterExpander) takes a block as a whole. HLO is specified here.",
        of("scatter"),
        whole,
        "writes those elements of an update's block that lie inside; the reference skips the whole block, as XLA does",
    ),
    Difference(
        "unsigned indices",
        STABLEHLO,
        "reference",
        "StableHLO, dynamic_slice: clamp(0, start_indices, shape - slice_sizes), of the number that the index is.",
        _unsigned_starts,
        whole,
        "reads large unsigned indices as negative ones",
    ),
    Difference(
        "batched triangular-solve",
        STABLEHLO,
        "reference",
        "StableHLO, triangular_solve: a and b have batch dimensions (C3).",
        of("triangular-solve"),
        None,
        "ends its process",
    ),
    Difference(
        "fft of lengths that are no powers of two",
        STABLEHLO,
        "reference",
        "StableHLO, fft: fft_length is any tensor of si64, and an IRFFT of odd length reads the elements that it has.",
        of("fft"),
        None,
        "ends its process in c64, and gives other numbers for an IRFFT of odd length",
    ),
    Difference(
        "complex maximum and minimum with NaN",
        STABLEHLO,
        "open",
        'StableHLO, maximum: "lexicographic maximum for the (real, imaginary) pair", which leaves open where NaN is.',
        lambda case: case.opcode in ("maximum", "minimum", "clamp") and _complex(case),
        where(lambda expected, *given: in_any_part(np.isnan, *given)),
        "drops NaN",
    ),
    Difference(
        "complex infinities and NaN",
        STABLEHLO,
        "reference",
        "C99, annex G, is what special values of complex functions follow here; StableHLO is silent.",
        lambda case: case.opcode in (*COMPLEX_FUNCTIONS, "abs") and _complex(case),
        where(lambda expected, *given: in_any_part(not_finite, expected, *given)),
        "gives NaN, or other signs and parts, where a part of operand or result is infinite or NaN",
    ),
    Difference(
        "erf of f8 and smaller",
        STABLEHLO,
        "reference",
        "chlo.erf takes any floating-point type; its decomposition knows f16 and wider alone.",
        lambda case: case.opcode == "erf" and case.element_type[:2] in ("f4", "f6", "f8"),
        None,
        "refuses",
    ),
    Difference(
        "sums of no terms",
        STABLEHLO,
        "reference",
        "StableHLO, dot_general and convolution: dimensions of any size; the sum of no terms is 0.",
        lambda case: case.opcode in ("dot", "convolution") and _empty(case),
        None,
        "ends its process on an empty contraction",
    ),
    Difference(
        "convolution with the features before the batch",
        STABLEHLO,
        "reference",
        "StableHLO, convolution: output_batch_dimension and output_feature_dimension are any two dimensions.",
        lambda case: case.opcode == "convolution" and _features_first(case),
        None,
        "ends its process where output_feature_dimension comes before output_batch_dimension",
    ),
    Difference(
        "complex functions where a part is small, large or zero",
        STABLEHLO,
        "reference",
        "the accuracy contract, and C99, annex G, for the sides of branch cuts; StableHLO promises nothing.",
        lambda case: case.opcode in COMPLEX_FUNCTIONS and _complex(case),
        where(lambda expected, *given: in_any_part(lambda x: (np.abs(x) < 1) | extreme(x), *given)),
        "composes the function of others: parts cancel, squares overflow, 0^0 is NaN, and a zero has lost its sign",
    ),
    Difference(
        "logistic that underflows",
        STABLEHLO,
        "reference",
        "the accuracy contract; StableHLO promises none.",
        of("logistic"),
        where(lambda expected, *given: in_any_part(subnormal, expected)),
        "gives 0 where exp(-x) overflows, though the result is a subnormal number",
    ),
    Difference(
        "functions of small floats",
        STABLEHLO,
        "reference",
        "the numeric contract: what is below f32 is computed in f32 and rounded once.",
        lambda case: case.opcode in DECOMPOSED and not types_of(case).isdisjoint(SMALL),
        where(lambda expected, *given: np.full(expected.shape, type_of(expected).name in SMALL)),
        "computes logistic, erf, sinh, ... by a formula whose every step is rounded to the type itself",
    ),
    Difference(
        "rounding of f8e3m4 to integers",
        STABLEHLO,
        "reference",
        "StableHLO, ceil, floor and round_nearest_afz: the roundToIntegral operations of IEEE 754.",
        of("ceil", "floor", "round-nearest-afz", "round-nearest-even"),
        where(lambda expected, *given: np.full(expected.shape, type_of(expected).name == "f8e3m4")),
        "gives NaN",
    ),
    Difference(
        "accuracy of elementary functions",
        STABLEHLO,
        "reference",
        "the accuracy contract of this specification; StableHLO promises none.",
        lambda case: case.kind == "edge",
        within_ulp(SEEN),
        "is farther from the exact result than the contract allows, by the ULPs listed in differences_stablehlo.SEEN",
    ),
)

DECOMPOSED = "acos acosh asin asinh atanh cosh erf logistic sinh tan".split()
SMALL = frozenset("f16 bf16 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e4m3 f8e3m4 f4e2m1fn".split())
FLOATS = frozenset("f16 bf16 f32 f64 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e4m3 f8e3m4".split())


def _integers(case: Case) -> set[str]:
    return {t for t in types_of(case) if t[0] in "su"}


def _has_nan(x: np.ndarray) -> bool:
    return type_of(x).is_float and bool(np.isnan(x).any())


def _empty(case: Case) -> bool:
    return any(0 in o.shape.dimensions for o in case.module.entry.root.operands)


def _features_first(case: Case) -> bool:
    labels = case.module.entry.root.dim_labels
    return labels.output_feature < labels.output_batch


def _widens(case: Case) -> bool:
    root = case.module.entry.root
    return any(o.shape.element_type.bits < root.shape.element_type.bits for o in root.operands)
