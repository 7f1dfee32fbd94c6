"""How XLA:CPU (jaxlib 0.10 to 0.12) differs from the specification."""

from __future__ import annotations

import numpy as np
from refxla_spec.compare import same_bits
from refxla_spec.numerics import type_of

from .difference import Difference
from .predicates import (
    ELEMENTWISE,
    NARROW,
    extreme,
    in_any_part,
    is_complex,
    is_near,
    not_finite,
    of,
    tiny,
    to_the_next,
    types_of,
    where_given,
    with_parts_lost,
    with_some_flushed,
    with_types,
    within_ulp,
)
from .xla_relations import (
    ANNEX_G,
    NOT_READ,
    OF_EXTREMES,
    OF_NOT_FINITE,
    SEEN,
    SHARES,
    SUBNORMAL,
    XLA,
    _both_nan,
    _by_real_parts,
    _by_way_of_f32,
    _by_wider_precision,
    _end,
    _equal_real_parts,
    _integers_by_way_of_f32,
    _is_next_integer,
    _mirrored,
    _nan_for_infinities,
    _of_a_variance_in_one_pass,
    _of_distribution,
    _of_no_exponent,
    _of_six_bits,
    _one_of,
    _ones,
    _saturated,
    _spread_in_the_matrix,
    _steps,
    _subnormal_terms,
    _sums_by_way_of_f16,
    _tied,
    _without_the_smallest,
    case_of_one,
)

DIFFERENCES = (
    Difference(
        "steps in narrow types",
        XLA,
        "reference",
        "the numeric contract: what takes several steps is computed in f32 at least, and rounded once. XLA computes "
        "each step as it is written, in the type itself, and promises nothing.",
        with_types((*SHARES, "reduce-window"), *NARROW),
        _steps,
        "rounds each step to the type, so that a sum of n terms is off by a part of n units of it",
    ),
    Difference(
        "functions of narrow types",
        XLA,
        "reference",
        "the numeric contract: what is below f32 is computed in f32 and rounded once.",
        lambda case: case.opcode in ELEMENTWISE and case.kind in ("edge", "example", "step"),
        to_the_next,
        "computes types of 8 bits and fewer in f16, and rounds twice: off by one unit in the last place",
    ),
    Difference(
        "convolutions of 8-bit floats",
        XLA,
        "reference",
        "the numeric contract: what is below f32 is computed in f32 and rounded once.",
        lambda case: case.opcode == "convolution" and case.element_type.startswith("f8"),
        _sums_by_way_of_f16,
        "rounds the sums to f16 first, and then again",
    ),
    Difference(
        "subnormal operands of functions that take the exponent apart",
        XLA,
        "reference",
        SUBNORMAL,
        of("atan2", "cbrt", "log", "power"),
        lambda case, leaf, actual, expected: (
            with_some_flushed(case, leaf, actual, expected) | _of_no_exponent(case, leaf, actual, expected)
        ),
        "takes some of the subnormal operands for zero, or gives NaN; of a cube root, a number near its zero",
    ),
    Difference(
        "results rounded up to the smallest normal number",
        XLA,
        "reference",
        SUBNORMAL,
        lambda case: True,
        lambda case, leaf, actual, expected: (actual == 0) & in_any_part(tiny, expected),
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
        _without_the_smallest,
        "gives NaN where 2^-127 goes in or should come out, or what comes in its place of zero or of half of "
        "f32's smallest number",
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
        where_given(
            lambda actual, expected, x: (
                (actual.astype(np.int64) - _ones(x.astype(np.int8))) % 2 ** type_of(actual).bits == 0
            )
        ),
        "counts in the sign-extended byte",
    ),
    Difference(
        "conversions that f6 types saturate",
        XLA,
        "reference",
        "OCP microscaling formats: FP6 has neither infinities nor NaN, and conversion to it saturates.",
        with_types(("convert",), "f6e2m3fn", "f6e3m2fn"),
        where_given(lambda actual, expected, x: (actual == 0) & _saturated(expected)),
        "gives zero for what is larger than all numbers of the type, and for NaN",
    ),
    Difference(
        "f4e2m1fn to integers",
        XLA,
        "reference",
        'StableHLO, convert: "For conversions involving floating-point-to-integer, the fractional part is truncated", '
        "and 6 is a number of s4 and of all wider integers.",
        with_types(("convert",), "f4e2m1fn"),
        where_given(
            lambda actual, expected, x: (
                (x.astype(np.float32) == 6) & (actual == _end(actual, 1))
                | (x.astype(np.float32) == -6) & (actual == _end(actual, -1))
            )
        ),
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
        says=r"^result 1 is u(\d+)(.*) instead of s\1\2$",
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
        lambda case, leaf, actual, expected: actual == (expected if case.expected is None else case.expected[0]),
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
        "integers to narrow floats",
        XLA,
        "reference",
        "IEEE 754-2019, 5.4.1: a conversion rounds the number once.",
        with_types(("convert",), "s32", "u32", "s64", "u64"),
        _integers_by_way_of_f32,
        "rounds to f32 first, and then again",
    ),
    Difference(
        "infinities in batch-norm-inference",
        XLA,
        "open",
        "operation_semantics, BatchNormInference, normalises each element by the mean and variance, and then scales "
        "and shifts it; of an infinite scale that is an infinity. No document says in which order that is computed.",
        of("batch-norm-inference"),
        _nan_for_infinities,
        "multiplies the mean by the scale first, and subtracts: NaN, where scale, offset or mean is infinite",
    ),
    Difference(
        "NaN and infinities in triangular-solve",
        XLA,
        "open",
        "operation_semantics, TriangularSolve: solves by forward or back substitution, in which an element depends on "
        "those before it alone. No document says how far a NaN may spread.",
        of("triangular-solve"),
        _spread_in_the_matrix,
        "computes inverses of blocks and products with zeros, so that all elements of the solution may be NaN",
    ),
    Difference(
        "scan of no elements",
        XLA,
        "reference",
        "hlo_verifier.cc, HandleScan, takes a dimension of size 0, of which nothing is to be done.",
        of("scan"),
        None,
        "refuses: its expansion has a slice of one element of none",
        fails=True,
        says=r"(?s)Slice dim size 1 greater than dynamic slice dimension: 0.*Failed after scan_",
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
        "XLA parses and verifies them: groups of several sizes, several operands, and a collective-permute into a "
        "buffer. StableHLO, collective_permute and collective_broadcast, have one operand, and their groups are rows "
        "of one matrix: a limit of the way to XLA.",
        lambda case: (
            case.name
            in ("example/collective-broadcast/0", "example/collective-broadcast/1", "example/collective-permute/2")
        ),
        None,
        "refuses the program",
        fails=True,
        says=rf"{NOT_READ}|'stablehlo.collective_broadcast' op result #0 must be variadic",
    ),
    Difference(
        "integer power with a large exponent",
        XLA,
        "reference",
        "the number that repeated multiplication gives, which wraps modulo 2^bits: 3^32767 = -21845 in s16, since 3 * "
        "-21845 = 1. No document names a limit of the exponent.",
        of("power"),
        where_given(_of_six_bits),
        "looks at the six lowest bits of the exponent alone",
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
        where_given(lambda actual, expected, *inputs: _one_of(actual, *inputs) & _equal_real_parts(expected, *inputs)),
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
        where_given(lambda actual, expected, y, x: is_near(actual, expected) | _mirrored(actual, expected)),
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
        _by_wider_precision,
        "computes in a wider type, where subnormals of the f8 type have more mantissa bits to lose",
    ),
    Difference(
        "complex infinities and NaN",
        XLA,
        "reference",
        ANNEX_G + "operation_semantics is silent, and XLA's expansions apply the formula of finite numbers.",
        lambda case: case.opcode in OF_NOT_FINITE and is_complex(case),
        where_given(
            lambda actual, expected, *inputs: (
                in_any_part(not_finite, expected, *inputs)
                & (with_parts_lost(actual, expected) | (case_of_one(inputs) & (actual == 1)))
            )
        ),
        "gives NaN, infinities or zeros for parts, or another sign, where a part of operand or result is infinite or "
        "NaN; of a power of one, one",
    ),
    Difference(
        "complex numbers near the ends of the range",
        XLA,
        "reference",
        "the accuracy contract of this specification holds for all finite numbers; XLA promises none.",
        lambda case: case.opcode in OF_EXTREMES and is_complex(case),
        where_given(
            lambda actual, expected, *inputs: (
                in_any_part(extreme, expected, *inputs)
                & (with_parts_lost(actual, expected) | is_near(actual, expected) | _one_of(actual, *inputs))
            )
        ),
        "squares parts that overflow or underflow: parts become NaN, infinite or zero, or lose digits; a sign is the "
        "number itself",
    ),
    Difference(
        "complex functions where a part is small",
        XLA,
        "reference",
        "the accuracy contract of this specification; XLA promises none.",
        lambda case: case.opcode in ("cosine", "sine", "tan", "tanh") and is_complex(case),
        where_given(
            lambda actual, expected, *inputs: is_near(actual, expected) & in_any_part(lambda x: np.abs(x) < 1, *inputs)
        ),
        "computes sinh(y) as (exp(y) - exp(-y)) / 2, of which little is left for small y",
    ),
    Difference(
        "variances in one pass",
        XLA,
        "reference",
        "StableHLO, batch_norm_training: the variance is the mean of the squares of what is left after the mean is "
        "subtracted. XLA, batchnorm_expander.cc: Var[X] = E[X^2] - E^2[X].",
        lambda case: (
            case.opcode == "batch-norm-training"
            and case.module.entry.root.opcode == case.opcode
            and case.element_type in ("f32", "f64")
        ),
        _of_a_variance_in_one_pass,
        "subtracts the square of the mean from the mean of the squares, of which nothing is left where numbers lie far "
        "from zero, and takes what is negative for zero",
    ),
    Difference(
        "the branch cut of complex sqrt",
        XLA,
        "reference",
        "C99, G.6.4.2: csqrt(conj(z)) = conj(csqrt(z)), with the sign of a zero imaginary part too.",
        lambda case: case.opcode == "sqrt" and is_complex(case),
        where_given(lambda actual, expected, x: (x.imag == 0) & (x.real < 0) & same_bits(actual, np.conj(expected))),
        "takes -0 for +0 in the imaginary part of a negative number",
    ),
    Difference(
        "stochastic-convert of small floats",
        XLA,
        "reference",
        "operation_semantics is silent; the probability of rounding up is the fraction that is cut off.",
        lambda case: case.opcode == "stochastic-convert" and case.element_type[:2] in ("f8", "f4", "f6"),
        where_given(_is_next_integer),
        "computes the fraction's random bits in the operand's type, which does not hold 2^8, and compares the result's "
        "limits in it",
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
