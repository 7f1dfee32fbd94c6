"""How XLA:CPU (jaxlib 0.10 to 0.12) differs from the specification."""

from __future__ import annotations

import numpy as np
from refxla_spec.compare import same_bits
from refxla_spec.indexing import window_slices
from refxla_spec.numerics import round_to, type_of
from refxla_spec.types import F32

from ..cases import Case
from .difference import Difference
from .predicates import (
    extreme,
    in_any_part,
    is_complex,
    near,
    not_finite,
    of,
    operands,
    site,
    subnormal,
    tiny,
    types_of,
    where,
    where_given,
    with_types,
    within_ulp,
)

XLA = "xla-cpu"
SUBNORMAL = (
    "IEEE 754-2019, 3.3: subnormal numbers are numbers of the format. XLA sets flush-to-zero and denormals-are-zero on "
    "its threads."
)
ANNEX_G = "C99, annex G (and F.9.4.3 for the modulus), is what special values of complex functions follow here; "

# The largest error seen of each function where XLA:CPU goes beyond the contract, in ULP, on the cases of this suite.
SEEN: dict[tuple[str, str], float] = {
    ("cbrt", "f64"): 3.0,
    ("exponential-minus-one", "f32"): 3.0,
    ("sqrt", "f8e3m4"): 1.0,
    ("tanh", "f32"): 2.0,
}
# What JAX's wheel says where StableHLO cannot say a program.
NOT_READ = "Failed to parse using StableHLO"
# Complex functions whose special values are other ones, and that lose large and small numbers.
OF_NOT_FINITE = "abs cosine exponential exponential-minus-one logistic power sine sqrt".split()
OF_EXTREMES = (
    "abs cosine exponential exponential-minus-one log log-plus-one logistic power rsqrt sign sine sqrt tan tanh".split()
)


def _smallest(got: np.ndarray, expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where 2^-127, which is subnormal in f32, goes in or comes out, and no number comes out of the type itself."""
    found = np.zeros(expected.shape, bool)
    for a in (expected, *given):
        if type_of(a).name == "f8e8m0fnu":
            found |= a.astype(np.float64) == 2.0**-127
    return found


def _tied(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are largest (or smallest) in some window together with another one, subnormal ones taken for zero,
    or are in a window with a NaN, which compares with none."""
    i = site(case, leaf)
    operand = operands(case, leaf)[0]
    if type_of(operand).is_float:
        operand = np.where(subnormal(operand), np.zeros((), operand.dtype), operand)
    counts = i.operands[1].shape.dimensions
    best = {"GE": np.maximum, "GT": np.maximum}.get(i.select.root.direction, np.minimum)
    placings = [window_slices(i.window, k, operand.shape, counts) for k in np.ndindex(*(w.size for w in i.window))]
    extreme = np.full(counts, np.nan)
    for placed, taken in placings:
        extreme[placed] = best(np.where(np.isnan(extreme[placed]), operand[taken], extreme[placed]), operand[taken])
    number = np.zeros(counts, int)
    for placed, taken in placings:
        number[placed] += operand[taken] == extreme[placed]
    tied = np.zeros(operand.shape, bool)
    unordered = np.zeros(counts, bool)
    for placed, taken in placings:
        unordered[placed] |= operand[taken] != operand[taken]
    for placed, taken in placings:
        tied[taken] |= ((operand[taken] == extreme[placed]) & (number[placed] > 1)) | unordered[placed]
    return tied


def _equal_real_parts(expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where two of the operands have the same real part, or a part of one is NaN."""
    found = in_any_part(np.isnan, *given)
    for k, a in enumerate(given):
        for b in given[k + 1 :]:
            found = found | (a.real == b.real)
    return found


def _subnormal_terms(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are subnormal, or near; and all, if there are subnormal ones among the operands."""
    if case.kind != "step":
        return in_any_part(tiny, expected) | in_any_part(subnormal, *case.inputs[0])
    given = operands(case, leaf)
    return in_any_part(tiny, expected) | any(in_any_part(subnormal, x).any() for x in given)


def _both_nan(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of each two results of topk, values and places: where both are NaNs, or places of NaNs."""
    if got.dtype.kind not in "iu":
        return np.isnan(got) & np.isnan(expected)
    nan = np.isnan(operands(case, leaf)[0])
    if got.shape[:-1] != nan.shape[:-1] or not np.all((got >= 0) & (got < nan.shape[-1])):
        return np.zeros(got.shape, bool)
    return np.take_along_axis(nan, got, -1) & np.take_along_axis(nan, expected, -1)


def _by_way_of_f32(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are what two roundings give."""
    (x,) = operands(case, leaf)
    if type_of(x).name != "f64" or not type_of(expected).is_float:
        return np.zeros(got.shape, bool)
    return same_bits(got, round_to(round_to(x, F32), type_of(expected)))


def _large_exponent(expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    return given[1].astype(object) >= 64


def _mirrored(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """On the cut of atan2: where the real part is pi or -pi, and the other one of these is asked for."""
    both = (np.abs(expected.real) > 3.14159) & (np.sign(got.real) == -np.sign(expected.real))
    return both & near(np.abs(got.real) + 1j * got.imag, np.abs(expected.real) + 1j * expected.imag)


def _one_of(got: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where the result is one of the operands."""
    return np.logical_or.reduce([same_bits(got, g.astype(got.dtype)) for g in given])


def _by_real_parts(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the result of clamp is an operand with the real part that is asked for, or one beside a NaN."""
    given = [np.broadcast_to(o, got.shape) for o in operands(case, leaf)]
    return _one_of(got, *given) & ((got.real == expected.real) | np.isnan(got) | np.isnan(expected))


def _beside(got: np.ndarray, expected: np.ndarray, x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    """Where the result is an integer next to the operand; of f4e2m1fn's 6 the largest or smallest integer."""
    exact = x.astype(np.float64)
    next_to = np.abs(got.astype(np.float64) - exact) < 1
    return next_to | ((np.abs(exact) == 6) & (type_of(x).name == "f4e2m1fn"))


def _of_distribution(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Numbers that rng may draw: of uniform ones those from a up to b, of normal ones all that are finite."""
    i = site(case, leaf)
    if i.distribution == "rng_normal":
        return np.isfinite(got.astype(np.float64))
    low, high = operands(case, leaf)
    return (got >= low) & (got < high)


DIFFERENCES = (
    Difference(
        "subnormal operands of functions that take the exponent apart",
        XLA,
        "reference",
        SUBNORMAL,
        of("atan2", "cbrt", "log", "power"),
        where(lambda expected, *given: in_any_part(subnormal, *given)),
        "gives anything for a subnormal operand; the reference computes with it",
    ),
    Difference(
        "results rounded up to the smallest normal number",
        XLA,
        "reference",
        SUBNORMAL,
        lambda case: True,
        where_given(lambda got, expected, *given: (got == 0) & in_any_part(tiny, expected)),
        "gives zero where a subnormal result is rounded up to the smallest normal number",
    ),
    Difference(
        "subnormal terms",
        XLA,
        "reference",
        "IEEE 754-2019, 3.3, as for elementwise operations.",
        lambda case: case.name.startswith("structured/reduce/edges_") or case.kind == "step",
        _subnormal_terms,
        "takes subnormal terms of sums and products for zeros, gives zero for subnormal ones, and takes them for equal "
        "to zero where it looks for the largest or smallest",
    ),
    Difference(
        "2^-127 in f8e8m0fnu",
        XLA,
        "reference",
        "OCP microscaling formats, 5.4: E8M0 holds 2^-127 to 2^127 and NaN. XLA computes in f32, where 2^-127 is "
        "subnormal and flushed to zero, which the type does not have: NaN.",
        with_types((), "f8e8m0fnu"),
        where_given(_smallest),
        "gives NaN where 2^-127 goes in or should come out",
    ),
    Difference(
        "one-bit integers",
        XLA,
        "reference",
        "XLA's xla_data.proto has S1 and U1; JAX's wheel gives programs to XLA as StableHLO, whose integer types have "
        "2 to 64 bits, and i1 is its boolean: a limit of the way to XLA, not of XLA.",
        with_types((), "s1", "u1"),
        None,
        "the conversion to StableHLO refuses programs with s1 or u1, or makes pred of them",
        fails=True,
        says=f"{NOT_READ}|must be (variadic of |statically shaped )?(ranked )?tensor of|Unsupported stochastic convert"
        "|ratio of bit-widths"
        "|E0102|is bool",
    ),
    Difference(
        "f6 types",
        XLA,
        "reference",
        "xla_data.proto has F6E2M3FN and F6E3M2FN; the CPU's code generator has no conversions for them.",
        with_types((), "f6e2m3fn", "f6e3m2fn"),
        None,
        "refuses, or ends its process",
        fails=True,
        says=f"(?i)f6e[23]m[23]fn|unsupported type 3[567]|llvm_module != nullptr|SIGSEGV|{NOT_READ}|ratio of bit-widths"
        "|array.h.*Check failed: std::distance",
    ),
    Difference(
        "pred in bitcast-convert",
        XLA,
        "reference",
        "xla/primitive_util.h: pred is 8 bits wide; in StableHLO, as which programs reach XLA here, i1 has one bit.",
        with_types(("bitcast-convert",), "pred"),
        None,
        "refuses: the widths of the two types count differently in StableHLO",
        fails=True,
        says=NOT_READ,
    ),
    Difference(
        "bitcast as an input",
        XLA,
        "open",
        "XLA's documentation has no bitcast among the operations; it is what layout assignment makes of reshapes, and "
        "the conversion to StableHLO loses the layouts that it is defined by.",
        of("bitcast"),
        None,
        "refuses a bitcast whose ranks or layouts differ",
        fails=True,
        says="layout minor_to_major field|Unexpected bitcast operation",
    ),
    Difference(
        "fusion as an input",
        XLA,
        "open",
        "fusion is made by XLA's own passes; its CPU compiler takes only fusions that it has made, with layouts.",
        of("fusion"),
        None,
        "refuses, or ends its process, where the program has a fusion",
        fails=True,
        says=r"has_layout\(\)|Unsupported fusion kind|Dot fusion supports only|has_backend_config\(\)",
    ),
    Difference(
        "topk and mixed dots of elements below 8 bits",
        XLA,
        "reference",
        "operation_semantics, DotGeneral: lhs and rhs are arrays of type T, whichever it is. XLA keeps the "
        "operand's element size in the layout of an s32, "
        'which its own verifier refuses ("custom element sizes on non-sub-byte types").',
        with_types(("topk", "dot"), "s2", "s4", "u2", "u4", "f4e2m1fn"),
        None,
        "refuses",
        fails=True,
        says="custom element sizes on non-sub-byte types",
    ),
    Difference(
        "popcnt below 8 bits",
        XLA,
        "reference",
        'operation_semantics, PopulationCount: "Computes the number of bits set in each element of operand", and an '
        "element of s2 has two.",
        with_types(("popcnt",), "s2", "s4"),
        where(lambda expected, x: x.astype(np.int8) < 0),
        "counts in the sign-extended byte",
    ),
    Difference(
        "f4e2m1fn to integers",
        XLA,
        "reference",
        'StableHLO, convert: "For conversions involving floating-point-to-integer, the fractional part is truncated", '
        "and 6 is a number of s4 and of all wider integers.",
        with_types(("convert",), "f4e2m1fn"),
        where(lambda expected, x: np.abs(x.astype(np.float32)) == 6),
        "makes the largest integer of 6, since it compares with that integer rounded to f4e2m1fn, which is 6",
    ),
    Difference(
        "bitcast-convert of complex numbers",
        XLA,
        "reference",
        "StableHLO, bitcast_convert: dim(result, R) * num_bits(E') = num_bits(E) in (C1), and in (C2) "
        "is_complex(operand) and is_complex(result), which c64 and c128 are.",
        with_types(("bitcast-convert",), "c64", "c128"),
        None,
        "refuses, or ends its process",
        fails=True,
        says=r"primitive_util\.h.*unhandled type|Conversion between complex and real type|state\.dimensions\.empty\(\)",
    ),
    Difference(
        "signed random bits",
        XLA,
        "reference",
        'operation_semantics, RngBitGenerator: "Generates an output with a given shape". The expander computes in '
        "unsigned integers and leaves the result so.",
        lambda case: case.opcode == "rng-bit-generator" and bool(types_of(case) & {"s8", "s16", "s32", "s64"}),
        None,
        "gives unsigned integers, of the same bits, where signed ones were asked for",
        fails=True,
        says=r"^result 1 is uint(\d+)(.*) instead of int\1\2$",
    ),
    Difference(
        "the numbers of rng",
        XLA,
        "open",
        'operation_semantics, RngUniform: "random numbers generated following the uniform distribution over the '
        'interval [a,b)", RngNormal: "following the N(mu, sigma) normal distribution"; no algorithm that makes them. '
        "The specification here has one, so that results can be reproduced.",
        of("rng"),
        _of_distribution,
        "draws other numbers of the distribution",
    ),
    Difference(
        "the state of random numbers",
        XLA,
        "reference",
        'hlo_instruction.h, CreateRngGetAndUpdateState: "to update the random number generator state to reflect the '
        'new state after delta units of 32 random bits are generated and returns the old state".',
        of("rng-get-and-update-state"),
        lambda case, leaf, got, expected: got == (expected if case.expected is None else case.expected[0]),
        "gives the first state again where a program asks several times",
    ),
    Difference(
        "f64 to narrow floats",
        XLA,
        "reference",
        "IEEE 754-2019, 5.4.2: a conversion rounds the number once.",
        with_types(("convert",), "f64"),
        _by_way_of_f32,
        "rounds to f32 first, and then again",
    ),
    Difference(
        "asynchronous operations by way of StableHLO",
        XLA,
        "reference",
        "hlo_instructions.h, HloAsyncInstruction: async-done gives what the computation gives. StableHLO has no such "
        "operation; on the way through it the computation's result becomes a tuple, which XLA's verifier refuses.",
        of("async-start", "async-update", "async-done"),
        None,
        "refuses the program",
        fails=True,
        says="async-done expects the shape of output to match|match the async computation result shape",
    ),
    Difference(
        "forms of collectives that StableHLO has not",
        XLA,
        "reference",
        "XLA parses and verifies both: groups of several sizes, and a collective-permute into a buffer. StableHLO, "
        "collective_permute, has one operand, and its groups are rows of one matrix: a limit of the way to XLA.",
        lambda case: case.name in ("example/collective-broadcast/0", "example/collective-permute/2"),
        None,
        "refuses the program",
        fails=True,
        says=NOT_READ,
    ),
    Difference(
        "integer power with a large exponent",
        XLA,
        "reference",
        "the number that repeated multiplication gives, which wraps modulo 2^bits: 3^32767 = -21845 in s16, since 3 * "
        "-21845 = 1. No document names a limit of the exponent.",
        of("power"),
        where(lambda expected, *given: _large_exponent(expected, *given) if type_of(expected).is_integer else False),
        "gives a wrong number for large exponents (seen from 64 on): its squaring ends early",
    ),
    Difference(
        "ties in select-and-scatter",
        XLA,
        "reference",
        "operation_semantics, SelectAndScatter: select \"is called with the property that the first parameter's index "
        "vector is lexicographically less than the second parameter's index vector\".",
        of("select-and-scatter"),
        _tied,
        "may pick another of several equal elements of a window, or of one with NaN, since it goes through them column "
        "by column",
    ),
    Difference(
        "complex maximum and minimum",
        XLA,
        "reference",
        'StableHLO, maximum: "For complex numbers: lexicographic maximum for the (real, imaginary) pair"; minimum '
        "likewise.",
        lambda case: case.opcode in ("maximum", "minimum") and is_complex(case),
        where_given(lambda got, expected, *given: _one_of(got, *given) & _equal_real_parts(expected, *given)),
        "compares the real parts alone",
    ),
    Difference(
        "complex clamp",
        XLA,
        "reference",
        "StableHLO, clamp: minimum(maximum(operand[result_index], min_element), max_element), and those "
        "compare imaginary parts where the real ones "
        "are equal.",
        lambda case: case.opcode == "clamp" and is_complex(case),
        _by_real_parts,
        "compares the real parts alone",
    ),
    Difference(
        "complex atan2 of zero, and on its cut",
        XLA,
        "reference",
        "StableHLO, atan2: complex atan2, by the formula of XLA's client library -i log((x + i y) / sqrt(x^2 + y^2)). "
        "Of y = 0 the "
        "quotient is 1 or -1 and its logarithm exact; on the cut the sign of zero says on which side a number lies.",
        lambda case: case.opcode == "atan2" and is_complex(case),
        where_given(lambda got, expected, y, x: near(got, expected) | _mirrored(got, expected)),
        "goes by sines and cosines of a rounded angle, so that 6e-17 is left of 0, and takes the other side of the cut",
    ),
    Difference(
        "NaNs in topk of small floats",
        XLA,
        "reference",
        "operation_semantics is silent on topk; StableHLO, compare with TOTALORDER, is the totalOrder of IEEE 754, "
        "which orders NaNs by their bits.",
        lambda case: case.opcode == "topk" and (case.element_type[:2] == "f8" or case.element_type == "bf16"),
        _both_nan,
        "takes NaNs for equal, since it compares in a wider type, where they are one",
    ),
    Difference(
        "ragged-all-to-all",
        XLA,
        "reference",
        "HandleRaggedAllToAll in XLA's hlo_verifier.cc takes the program, and XLA:CPU does not say that it lacks it.",
        lambda case: case.opcode == "ragged-all-to-all",
        None,
        "ends its process by SIGSEGV",
        fails=True,
        says="SIGSEGV",
    ),
    Difference(
        "reduce-precision of f8",
        XLA,
        "reference",
        'StableHLO, reduce_precision: "The mantissa bits of the original value are updated to round the original value '
        'to the nearest value representable with mantissa_bits".',
        lambda case: case.opcode == "reduce-precision" and case.element_type.startswith("f8"),
        where(lambda expected, x: in_any_part(subnormal, x)),
        "computes in a wider type, where subnormals of the f8 type have more mantissa bits to lose",
    ),
    Difference(
        "complex infinities and NaN",
        XLA,
        "reference",
        ANNEX_G + "operation_semantics is silent, and XLA's expansions apply the formula of finite numbers.",
        lambda case: case.opcode in OF_NOT_FINITE and is_complex(case),
        where(lambda expected, *given: in_any_part(not_finite, expected, *given)),
        "gives NaN, or loses the sign or one part, where a part of operand or result is infinite or NaN",
    ),
    Difference(
        "complex numbers near the ends of the range",
        XLA,
        "reference",
        "the accuracy contract of this specification holds for all finite numbers; XLA promises none.",
        lambda case: case.opcode in OF_EXTREMES and is_complex(case),
        where(lambda expected, *given: in_any_part(extreme, expected, *given)),
        "squares parts that overflow or underflow, and loses the result with them",
    ),
    Difference(
        "complex functions where a part is small",
        XLA,
        "reference",
        "the accuracy contract of this specification; XLA promises none.",
        lambda case: case.opcode in ("cosine", "sine", "tan", "tanh") and is_complex(case),
        where_given(lambda got, expected, *given: near(got, expected) & in_any_part(lambda x: np.abs(x) < 1, *given)),
        "computes sinh(y) as (exp(y) - exp(-y)) / 2, of which little is left for small y",
    ),
    Difference(
        "the branch cut of complex sqrt",
        XLA,
        "reference",
        "C99, G.6.4.2: csqrt(conj(z)) = conj(csqrt(z)), with the sign of a zero imaginary part too.",
        lambda case: case.opcode == "sqrt" and is_complex(case),
        where(lambda expected, *given: (given[0].imag == 0) & (given[0].real < 0)),
        "takes -0 for +0 in the imaginary part of a negative number",
    ),
    Difference(
        "stochastic-convert of small floats",
        XLA,
        "reference",
        "operation_semantics is silent; the probability of rounding up is the fraction that is cut off.",
        lambda case: case.opcode == "stochastic-convert" and case.element_type[:2] in ("f8", "f4", "f6"),
        where_given(_beside),
        "computes the fraction's random bits in the operand's type, which does not hold 2^8, and compares the result's "
        "limits in it",
    ),
    Difference(
        "sorting s2",
        XLA,
        "reference",
        'operation_semantics, Sort: for i < j "comparator(value[i], value[j]) = true" or neither way; and -1 is less '
        "than 1.",
        with_types(("sort",), "s2"),
        lambda case, leaf, got, expected: np.full(got.shape, any((np.asarray(x) < 0).any() for x in case.inputs)),
        "sorts elements of s2 as if they had no sign",
    ),
    Difference(
        "accuracy of elementary functions",
        XLA,
        "reference",
        "the accuracy contract of this specification; XLA promises none.",
        lambda case: case.kind == "edge",
        within_ulp(SEEN),
        "is farther from the exact result than the contract allows, by the ULPs listed in differences_xla.SEEN",
    ),
)
