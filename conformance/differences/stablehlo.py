"""How StableHLO's own interpreter (in jaxlib 0.10 to 0.12) differs from the specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
from refxla_spec.compare import distance, same_bits, ulp
from refxla_spec.indexing import index_vectors
from refxla_spec.interpreter import Interpreter, run
from refxla_spec.module import Instruction, PaddingDimension
from refxla_spec.numerics import round_to, type_of
from refxla_spec.operation import make, operation
from refxla_spec.types import ElementType

from ..cases import Case
from .difference import Difference
from .predicates import (
    ELEMENTWISE,
    NARROW,
    STEPS,
    evaluated,
    extreme,
    in_any_part,
    is_complex,
    is_near,
    known_value,
    not_finite,
    of,
    operands,
    parts,
    site,
    subnormal,
    to_the_next,
    types_of,
    where_given,
    with_parts_lost,
    with_types,
    within_ulp,
)
from .rounded_steps import IN_ORDER, SHARES, SMALL, in_steps, step, steps_in

STABLEHLO = "stablehlo"
ANNEX_G = "C99, annex G, is what special values and cuts of complex functions follow here; StableHLO is silent."
SMALL_FLOATS = "the numeric contract: what is below f32 is computed in f32 and rounded once."
COMPOSED = "acos acosh atanh cosh exponential-minus-one log-plus-one logistic power sign sinh".split()
# The largest observed error of each function beyond the contract, in ULP, on the cases of this suite.
SEEN: dict[tuple[str, str], float] = {
    ("cbrt", "f64"): 3.0,
    ("erf", "f32"): 24.0,
    ("logistic", "f32"): 2.0,
    ("logistic", "f64"): 2.0,
    ("tanh", "f64"): 2.0,
}
# Functions of small floats by formulas.
FORMULAS = "acos acosh asin atanh tan".split()
OF_NOT_FINITE = "atan2 atanh divide exponential-minus-one power rsqrt sign sqrt".split()
FLOATS = frozenset(
    "f8e8m0fnu f16 bf16 f32 f64 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e4m3 f8e3m4".split()
)


def _no_quotient(case: Case) -> bool:
    """Whether some integer is divided by zero, or the minimum by -1."""
    x, y = (np.asarray(a) for a in case.inputs[:2])
    if not type_of(x).is_integer:
        return False
    x, y = x.astype(object), y.astype(object)
    lowest = -(2 ** (type_of(np.asarray(case.inputs[0])).bits - 1))
    return bool(np.any((y == 0) | ((y == -1) & (x == lowest))))


def _outside_f8e8m0fnu(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are NaN, or the result of a NaN: everything that is not a power of two."""
    inputs = [o for o in operands(case, leaf) if o.shape == expected.shape]
    if case.opcode == "convert" and expected.dtype == bool:
        return np.asarray(inputs[0].astype(np.float64) == 2.0**-127)
    of_nan = in_any_part(np.isnan, *inputs) if inputs else np.full(actual.shape, any(_has_nan(x) for x in case.inputs))
    end = np.isnan(actual.astype(np.float64)) | np.isin(np.abs(actual.astype(np.float64)), (2.0**-127, 2.0**127))
    mask = end
    if case.opcode in ELEMENTWISE and type_of(actual).name == "f8e8m0fnu":
        wide = [o.astype(np.float64) for o in operands(case, leaf)]
        value = wide[0] if case.opcode == "convert" else evaluated(case, leaf, wide)
        with np.errstate(all="ignore"):
            if value.shape == actual.shape and value.dtype == np.float64:  # rounded up, at most
                apart = np.log2(actual.astype(np.float64)) - np.log2(np.abs(value))
                mask = mask | (np.abs(apart) <= 1) | ((value == 0) & (actual.astype(np.float64) == 1))
    if case.opcode in STEPS:
        mask = mask | (actual.astype(np.float64) <= 2.0**-100)  # zeros of padding, each 2^-127
    return np.asarray((of_nan | in_any_part(np.isnan, expected)) & mask)


def _saturated(x: np.ndarray) -> np.ndarray:
    """Where a number of f4 or f6 is the largest one of either sign, or the -0 that a NaN becomes."""
    if type_of(x).name[:2] not in ("f4", "f6"):
        return np.zeros(x.shape, bool)
    return np.asarray((np.abs(x) == ml_dtypes.finfo(x.dtype).max) | (x == 0))


def _partly_outside(case: Case) -> np.ndarray:
    """The elements of the operands of a scatter that are covered by blocks that are partly outside."""
    i = next(i for i in case.module.entry.instructions if i.opcode == "scatter")
    n = len(i.operands) // 2
    vectors = index_vectors(known_value(case, i.operands[n]), i.index_vector_dim)
    operand, updates = i.operands[0].shape.dimensions, i.operands[n + 1].shape.dimensions
    left_out = i.inserted_window_dims + i.input_batching_dims
    block = iter(updates[d] for d in i.update_window_dims)
    lengths = [1 if d in left_out else next(block) for d in range(len(operand))]
    touched = np.zeros(operand, bool)
    for vector in (vectors[at] for at in np.ndindex(vectors.shape[:-1])):  # which may have no elements
        places = [slice(None) if d in i.input_batching_dims else slice(0, lengths[d]) for d in range(len(operand))]
        outside = False
        for start, d in zip(map(int, vector), i.scatter_dims_to_operand_dims, strict=True):
            outside |= start < 0 or start + lengths[d] > operand[d]
            places[d] = slice(max(start, 0), max(start + lengths[d], 0))
        touched[tuple(places)] |= outside
    return touched


def _cut(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are covered by blocks that are partly outside, if they are the result for the parts inside: that of
    the scatter into an array padded by a block on each side."""
    i = site(case, leaf)
    operand, indices, updates = operands(case, leaf)
    room = max(updates.shape, default=1)
    indexed = [d not in i.input_batching_dims for d in range(operand.ndim)]
    wide = np.pad(operand, [(room * x, room * x) for x in indexed])
    vectors = np.moveaxis(indices[..., None] if i.index_vector_dim == indices.ndim else indices, i.index_vector_dim, -1)
    limits = [operand.shape[d] for d in i.scatter_dims_to_operand_dims]
    moved = np.clip(vectors.astype(np.int64), -room, limits) + room
    moved = np.moveaxis(moved, -1, i.index_vector_dim).reshape(indices.shape)
    if any(d not in i.scatter_dims_to_operand_dims and x for d, x in enumerate(indexed)):
        return np.zeros(actual.shape, bool)  # a dimension that no index moves has no padding
    with np.errstate(all="ignore"):
        value = operation("scatter").evaluate(i, wide, moved, updates, run=Interpreter().run)
        value = value[tuple(slice(room * x, room * x + n) for x, n in zip(indexed, operand.shape, strict=True))]
        close = distance(actual, value) <= 8 * ulp(value) if type_of(actual).is_float else same_bits(actual, value)
    return np.asarray(_partly_outside(case) & close)


def _misplaced(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of an IRFFT of odd length n for which the conjugate of number k, of which the last one has none, is at
    n - 1 - k and not at n - k, and at n - 1 there is an arbitrary, unwritten value: they are right at all other
    frequencies, within 64 units of the largest number."""
    i = site(case, leaf)
    if i.opcode != "fft" or i.fft_type != "IRFFT" or i.fft_length[-1] % 2 == 0 or not operands(case, leaf):
        return np.zeros(actual.shape, bool)
    (x,) = operands(case, leaf)
    half, n = (
        np.fft.ifftn(x.astype(np.complex128), axes=range(x.ndim - len(i.fft_length), x.ndim - 1)),
        actual.shape[-1],
    )
    mirrored = np.conj(half[..., -2:0:-1])
    gap = np.zeros((*half.shape[:-1], n - half.shape[-1] - mirrored.shape[-1]))
    value = np.fft.ifft(np.concatenate([half, mirrored, gap], axis=-1)).real
    largest = np.maximum(np.abs(actual).max(-1, initial=0), np.abs(x).max(initial=0))
    with np.errstate(all="ignore"):
        apart = np.abs(np.fft.fft(actual.astype(np.float64) - value))
        apart[..., [1 % n, n - 1]] = 0  # for a real array, both affect this position
    return np.broadcast_to((apart.max(-1) <= 64 * np.finfo(actual.dtype).eps * largest)[..., None], actual.shape)


def _padded_with_initial_values(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the reduction of windows of the operand with the initial value as its padding, bit for bit."""
    i = site(case, leaf)
    inputs = operands(case, leaf)
    if i.opcode != "reduce-window" or len(inputs) != 2 or type_of(actual).is_float or type_of(actual).is_complex:
        return np.zeros(actual.shape, bool)
    x, initial = inputs
    widths = [PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1) for d in i.window]
    padded = operation("pad").evaluate(make("pad", *i.operands[:2], name="padded", padding=tuple(widths)), x, initial)
    window = tuple(replace(d, padding_low=0, padding_high=0, base_dilation=1) for d in i.window)
    plain = replace(i, attributes={**i.attributes, "window": window})
    return same_bits(actual, operation("reduce-window").evaluate(plain, padded, initial, run=Interpreter().run))


def _unsigned_starts(case: Case) -> bool:
    return case.opcode in ("gather", "scatter", "dynamic-slice", "dynamic-update-slice") and any(
        name in case.name for name in ("limits_u", "scalars_u", "medium_u")
    )


def _as_signed(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are right for indices in which negative signed numbers are replaced by 0, or, for updates, which
    are dropped then, by an index outside."""
    indices = [i for i, p in enumerate(case.module.entry.parameters) if p.shape.element_type.kind == "unsigned"]
    inputs = list(case.inputs)
    for i in indices:
        x = np.asarray(inputs[i])
        other = np.iinfo(x.dtype).max if case.opcode == "scatter" else 0
        inputs[i] = np.where(x.view(f"i{x.dtype.itemsize}") < 0, np.asarray(other, x.dtype), x)
    value = run(case.module, inputs)
    return same_bits(actual, np.asarray(value[leaf] if isinstance(value, tuple) else value))


def _narrowly(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A sum in the operands' type: for integers modulo 2^bits of it, for floats with each step rounded to it."""
    i = site(case, leaf)
    if i.opcode not in ("dot", "convolution") or not _widens(case):
        return np.zeros(actual.shape, bool)
    types = [o.shape.element_type for o in i.operands]
    narrow = min(types, key=lambda t: t.bits)
    if all(t.is_float for t in types):
        return steps_in(narrow, case, leaf, actual)
    if not narrow.is_integer:
        return np.zeros(actual.shape, bool)
    turns, numbers = 2**narrow.bits, actual.astype(object)
    return np.asarray(((numbers - expected.astype(object)) % turns == 0) & (np.abs(numbers) < turns))


def _by_rounded_steps(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where it is the result of a chlo formula with each step rounded to the type; zeros of either sign are equal."""
    mask = np.zeros(actual.shape, bool)
    inputs = operands(case, leaf)
    if type_of(actual).name not in SMALL or len(inputs) != 1:
        return mask
    with np.errstate(all="ignore"):
        for signed in (False, True):
            for value in _formulas(site(case, leaf).opcode, inputs[0].astype(np.float64), type_of(actual), signed):
                value = value.astype(actual.dtype)
                mask |= same_bits(actual, value) | ((actual == 0) & (value == 0))
    return mask


def _formulas(opcode: str, x: np.ndarray, t: ElementType, signed: bool) -> Iterator[np.ndarray]:
    """The formulas that chlo has for a function, in jaxlib 0.12 and, if it differs, 0.10."""

    def r(value: np.ndarray | float) -> np.ndarray:
        return step(np.asarray(value), t, signed)

    def angle(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """If signs are kept, the functions treat NaN as an infinity."""
        return r(np.arctan2(*(np.where(np.isnan(v), np.inf, v) if signed else v for v in (y, x))))

    if opcode in ("acos", "asin"):
        root = r(np.sqrt(r(r(1 - x) * r(1 + x))))
        yield angle(root, x) if opcode == "acos" else angle(x, root)
        if opcode == "asin":
            half = angle(x, r(1 + root))
            yield r(half + half)
    elif opcode == "acosh":
        below, above = r(np.sqrt(r(x - 1))), r(np.sqrt(r(x + 1)))
        near_one = r(np.log1p(r(below * r(above + below))))
        large = x >= r(float(ml_dtypes.finfo(t.dtype).max) / 2)
        yield np.where(large, r(r(np.log(2.0)) + r(np.log(x))), near_one)
    elif opcode == "atanh":
        inside = r(0.5 * r(r(np.log1p(x)) - r(np.log1p(r(-x)))))
        yield np.where(np.abs(x) > 1, np.nan if t.has_nan else 0.0, inside)
    elif opcode == "tan":
        yield r(np.tan(x))


def _of_two_exponentials(actual: np.ndarray, expected: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where cosh or sinh is as near as e^(x - log 2) can be, whose exponent is rounded; sinh near 0 is a difference."""
    if type_of(actual).bits < 16:  # off by the next number at most
        return np.zeros(actual.shape, bool)
    size = np.abs(x.real.astype(np.float64))
    return np.asarray(distance(actual, expected) <= (25 + 0.6 * size) * ulp(expected))


def _logistic(actual: np.ndarray, expected: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where it is 1 / (1 + e^-x) with each step rounded to the type, one of at most 16 bits."""
    t, wide = type_of(x), x.astype(np.float64)
    if t.bits > 16:
        return np.zeros(actual.shape, bool)
    one = np.float64(1)
    sum_ = round_to(one + round_to(np.exp(-wide), t).astype(np.float64), t)
    return same_bits(actual, round_to(one / sum_.astype(np.float64), t))


def _permuted(actual: np.ndarray, x: np.ndarray) -> bool:
    """Whether the elements are those of x in some order."""
    a, b = (np.sort(np.ravel(v).view(f"u{v.dtype.itemsize}")) for v in (actual, np.asarray(x)))
    return a.shape == b.shape and bool(np.all(a == b))


def _batched_and_divided(case: Case) -> bool:
    """Whether a triangular-solve has batches, and divides by a diagonal or takes the adjoint of real matrices."""
    root = case.module.entry.root
    if case.opcode != "triangular-solve" or root.shape.rank == 2:
        return False
    return not root.unit_diagonal or (root.transpose_a == "ADJOINT" and not root.shape.element_type.is_complex)


def _other_side(actual: np.ndarray, expected: np.ndarray, x: np.ndarray) -> np.ndarray:
    """On a branch cut: where a part of the operand is zero, and the result is that of the other side."""

    def size(z: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(z.real) + 1j * np.abs(z.imag))

    return np.asarray(((x.real == 0) | (x.imag == 0)) & is_near(size(actual), size(expected)))


def _parts_of(actual: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Where each part is that of some operand."""
    mask = np.ones(actual.shape, bool)
    for k in (0, 1):
        mask &= np.any([same_bits(parts(actual)[k], parts(np.asarray(g))[k]) for g in inputs], axis=0)
    return mask


def _beside_nan(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where an operand has a NaN part, and each part of the result is that of some operand."""
    inputs = [np.broadcast_to(o, actual.shape) for o in operands(case, leaf)]
    return np.asarray(in_any_part(np.isnan, *inputs) & _parts_of(actual, inputs))


def _signs(actual: np.ndarray) -> np.ndarray:
    """Where the parts are -1, 0 or 1."""
    return np.asarray(np.all([np.isin(p, (-1, 0, 1)) for p in parts(actual)], axis=0))


def _of_those_sizes(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where each part is as large as the expected one, but for roundings."""
    return is_near(*(np.abs(z.real) + 1j * np.abs(z.imag) for z in (actual, expected)))


def _equal_by_value(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two NaNs, or two zeros, compare equal, or a NaN is unordered, as in the partial order."""
    inputs = operands(case, leaf)
    if len(inputs) == 2 and type_of(inputs[0]).is_float:
        x, y = inputs
        nan = np.isnan(x) | np.isnan(y)
        return np.asarray((nan & (actual == (site(case, leaf).direction == "NE"))) | _alike(case, leaf, actual, x, y))
    return np.zeros(actual.shape, bool)


def _alike(case: Case, leaf: int, actual: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    equal = site(case, leaf).direction in ("EQ", "GE", "LE")
    return np.asarray(((np.isnan(x) & np.isnan(y)) | ((x == 0) & (y == 0))) & (actual == equal))


DIFFERENCES = (
    Difference(
        "steps in narrow types",
        STABLEHLO,
        "reference",
        "the numeric contract: what takes several steps is computed in f32 at least, and rounded once. The interpreter "
        "does each step as StableHLO's text has it, in the type itself.",
        with_types((*IN_ORDER, *SHARES), *NARROW),
        in_steps,
        "rounds each step to the type, one term after the other: the result is that number",
    ),
    Difference(
        "functions of narrow types",
        STABLEHLO,
        "reference",
        SMALL_FLOATS,
        lambda case: case.opcode in ELEMENTWISE,
        to_the_next,
        "rounds twice, or computes in another type: off by one unit in the last place",
    ),
    Difference(
        "the branch cut of complex atan2",
        STABLEHLO,
        "reference",
        "C99, annex G: the sign of a zero says on which side of a cut a number lies. StableHLO, atan2, has no sentence "
        "on it.",
        lambda case: case.opcode == "atan2" and case.element_type in ("c64", "c128"),
        where_given(
            lambda actual, expected, *inputs: (np.abs(expected.real) > 3.14159) & _of_those_sizes(actual, expected)
        ),
        "gives pi where the sign of zero asks for -pi",
    ),
    Difference(
        "gaps of a reduce-window whose initial value is not neutral",
        STABLEHLO,
        "open",
        "StableHLO, reduce_window: padded_inputs = pad(inputs..., init_values..., padding[:, 0], padding[:, 1], "
        "base_dilations - 1), so that the initial value takes part again for each element of padding and each gap; in "
        "XLA, whose compiler and evaluator agree, gaps and padding take no part.",
        of("reduce-window"),
        _padded_with_initial_values,
        "reduces the initial value once more for each element of padding and each gap",
    ),
    Difference(
        "one-bit integers",
        STABLEHLO,
        "open",
        "StableHLO, types: BooleanType ::= 'i1', and integers are si2 to si64 and ui2 to ui64. XLA's "
        "xla_data.proto has S1 and U1.",
        with_types((), "s1", "u1"),
        None,
        "has no such types, or takes booleans for them",
        fails=True,
        says="must be (variadic of |statically shaped )?(ranked )?tensor of|is bool|is pred",
    ),
    Difference(
        "reductions into a wider type",
        STABLEHLO,
        "reference",
        "StableHLO, reduce, (C6) and (C7): the body's type is one to which the operand's can be promoted, and so is "
        "the result's.",
        lambda case: case.name.startswith("structured/reduce/widened_"),
        None,
        "ends its process",
        fails=True,
        says="Expected same type for an SSA register and its evaluated value",
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
        fails=True,
        says="Unhandled primitive type F6E",
    ),
    Difference(
        "pred in bitcast-convert",
        STABLEHLO,
        "open",
        "StableHLO, bitcast_convert (C1) counts a boolean as one bit; xla/primitive_util.h has 8 for pred.",
        with_types(("bitcast-convert",), "pred"),
        None,
        "refuses",
        fails=True,
        says="rank of smaller element type|requires compatible bit widths|must be ranked tensor of",
    ),
    Difference(
        "integer division that has no quotient",
        STABLEHLO,
        "open",
        "XLA's operation_semantics, Element-wise binary arithmetic operations: \"Integer division overflow "
        "(signed/unsigned division/remainder by zero or signed division/remainder of INT_SMIN with -1) produces an "
        'implementation defined value." StableHLO, divide and remainder, does not speak of it.',
        lambda case: case.opcode in ("divide", "remainder") and _no_quotient(case),
        None,
        "ends its process (SIGFPE) on division by zero, and on the smallest integer divided by -1",
        fails=True,
        says="SIGFPE",
    ),
    Difference(
        "numbers that f8e8m0fnu does not have",
        STABLEHLO,
        "reference",
        "OCP microscaling formats: E8M0 has no zero, no sign and no infinity; what is none of its numbers is NaN.",
        with_types((), "f8e8m0fnu"),
        lambda case, leaf, actual, expected: _outside_f8e8m0fnu(case, leaf, actual, expected) & (case.opcode != "sort"),
        "drops the sign of negative numbers, rounds zero and NaN to 2^-127 or 2^127, and takes 2^-127 for false",
    ),
    Difference(
        "overflow of f4e2m1fn and f6",
        STABLEHLO,
        "reference",
        "OCP microscaling formats: FP4 and FP6 have neither infinities nor NaN, and conversion to them saturates.",
        with_types((), "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"),
        lambda case, leaf, actual, expected: _saturated(expected) & (actual == 0),
        "gives zero, of either sign, for infinities and NaN",
    ),
    Difference(
        "total order of NaN and zeros",
        STABLEHLO,
        "reference",
        'StableHLO, compare: "For floating-point element types with compare_type = TOTALORDER, the op uses the '
        'combination of totalOrder and compareQuietEqual operations from IEEE-754" (5.10), where '
        "totalOrder puts -NaN below -inf, -0 below +0, and NaN in the order of their payloads.",
        of("compare"),
        _equal_by_value,
        "takes NaN of different payloads for equal, and -0 and +0 likewise",
    ),
    Difference(
        "sorting NaN",
        STABLEHLO,
        "reference",
        "IEEE 754-2019, 5.10, as in compare with type TOTALORDER.",
        lambda case: case.opcode == "sort" and not types_of(case).isdisjoint(FLOATS),
        lambda case, leaf, actual, expected: np.full(
            actual.shape, any(_has_nan(x) and _permuted(actual, x) for x in case.inputs)
        ),
        "leaves NaN anywhere, and then other elements too",
    ),
    Difference(
        "NaN with no mantissa bits",
        STABLEHLO,
        "reference",
        'StableHLO, reduce_precision: "element-wise conversion of operand to another floating-point type that uses '
        'exponent_bits and mantissa_bits and back"; operation_semantics, ReducePrecision: "NaN values are retained".',
        of("reduce-precision"),
        where_given(lambda actual, expected, *inputs: in_any_part(np.isnan, *inputs) & np.isinf(actual)),
        "gives an infinity for NaN where few mantissa_bits are left",
    ),
    Difference(
        "accumulation of narrow types",
        STABLEHLO,
        "reference",
        "StableHLO, dot_general: init_values=[constant(0, element_type(result))], so that the sum is of the result's "
        "type; convolution is made of dot_general.",
        of("convolution", "dot"),
        _narrowly,
        "multiplies and adds in the operands' type, and widens what is left",
    ),
    Difference(
        "blocks that lie partly outside",
        STABLEHLO,
        "reference",
        'XLA, scatter_expander.cc, CheckIndexValidity: "Valid range for the index: [0, operand_dims - window_sizes]"; '
        'its GPU emitter: "if the slice with the sizes slice_shape and the offsets offsets can be inserted into the '
        'operand"; XLA:CPU does so with constants, too. The documents test each element: operation_semantics, Scatter, '
        '"if O is a valid index for output"; StableHLO, scatter, "If result_index is in bounds for shape(results...)". '
        "HLO is what XLA runs.",
        lambda case: case.opcode == "scatter" and bool(_partly_outside(case).any()),
        _cut,
        "writes those elements of an update's block that lie inside; the reference skips the whole block, as XLA does",
    ),
    Difference(
        "slices of nothing",
        STABLEHLO,
        "open",
        "StableHLO, gather: slice_sizes lie between 0 and the operand's dimensions, and those of collapsed_slice_dims "
        "are at most 1, so that one of 0 is allowed; an element that is taken from nowhere it does not speak of.",
        lambda case: case.opcode == "gather" and any(0 in o.shape.dimensions for o in _root(case).operands[:1]),
        None,
        "ends its process on a gather from an array without elements",
        fails=True,
        says="while flattening index",
    ),
    Difference(
        "unsigned indices",
        STABLEHLO,
        "reference",
        "StableHLO, dynamic_slice: adjusted_start_indices = clamp(0, start_indices, shape(operand) - slice_sizes), of "
        "the number that the index is, which for an unsigned one is not negative; gather and scatter likewise.",
        _unsigned_starts,
        _as_signed,
        "reads large unsigned indices as negative ones",
    ),
    Difference(
        "batched triangular-solve",
        STABLEHLO,
        "reference",
        "StableHLO, triangular_solve, (C2): 2 <= rank(a) = rank(b) = R.",
        _batched_and_divided,
        None,
        "ends its process, unless the diagonal is that of ones",
        fails=True,
        says="while flattening index|SIGSEGV",
    ),
    Difference(
        "fft of lengths that are no powers of two",
        STABLEHLO,
        "reference",
        "StableHLO, fft, (C3): 1 <= size(fft_length) <= 3, and no constraint on the lengths; in (C5) an IRFFT has "
        "dim(result, -1) / 2 + 1 "
        "elements to read, for odd n too.",
        of("fft"),
        _misplaced,
        "ends its process in c64; puts the conjugate half of an IRFFT of odd length one place too far to the left, and "
        "reads memory in its last place that it has not written",
        fails=True,
        says="Semantics mismatch between provided type and complex value|Could not infer SliceOp",
    ),
    Difference(
        "complex maximum and minimum with NaN",
        STABLEHLO,
        "open",
        'StableHLO, maximum: "For complex numbers: lexicographic maximum for the (real, imaginary) pair", which leaves '
        "open where NaN is.",
        lambda case: case.opcode in ("maximum", "minimum", "clamp") and is_complex(case),
        _beside_nan,
        "drops NaN",
    ),
    Difference(
        "complex infinities and NaN",
        STABLEHLO,
        "reference",
        ANNEX_G,
        lambda case: case.opcode in OF_NOT_FINITE and is_complex(case),
        where_given(
            lambda actual, expected, *inputs: (
                in_any_part(not_finite, expected, *inputs) & with_parts_lost(actual, expected)
            )
        ),
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
        fails=True,
        says="failed to legalize operation 'chlo.erf'",
    ),
    Difference(
        "sums of no terms",
        STABLEHLO,
        "reference",
        "StableHLO, dot_general: a reduce from init_values=[constant(0, element_type(result))], of no terms 0.",
        lambda case: case.opcode in ("dot", "convolution") and _empty(case),
        None,
        "ends its process on an empty contraction",
        fails=True,
        says="while flattening index",
    ),
    Difference(
        "convolution with the features before the batch",
        STABLEHLO,
        "reference",
        "StableHLO, convolution: output_batch_dimension and output_feature_dimension are any two dimensions.",
        lambda case: case.opcode == "convolution" and _features_first(case),
        None,
        "ends its process where output_feature_dimension comes before output_batch_dimension",
        fails=True,
        says="while flattening index",
    ),
    Difference(
        "branch cuts of complex functions",
        STABLEHLO,
        "reference",
        ANNEX_G,
        lambda case: case.opcode in ("acos", "acosh", "asin", "asinh", "log-plus-one") and is_complex(case),
        where_given(_other_side),
        "gives the value on the other side of the cut where a part is a negative zero",
    ),
    Difference(
        "complex functions of small and large parts",
        STABLEHLO,
        "reference",
        "the accuracy contract; StableHLO promises nothing.",
        lambda case: case.opcode in COMPOSED and is_complex(case),
        where_given(
            lambda actual, expected, *inputs: (
                (is_near(actual, expected) & in_any_part(lambda x: np.abs(x) < 1, *inputs))
                | (
                    in_any_part(extreme, *inputs)
                    & (with_parts_lost(actual, expected) | is_near(actual, expected) | _signs(actual))
                )
            )
        ),
        "composes the function of others: parts cancel, and squares overflow or underflow",
    ),
    Difference(
        "zero to the power of zero",
        STABLEHLO,
        "open",
        'StableHLO, power: "For complex numbers: complex exponentiation", and no word on zero; real ones are "pow from '
        'IEEE-754", whose 0^0 is 1.',
        lambda case: case.opcode == "power" and is_complex(case),
        where_given(lambda actual, expected, x, y: (x == 0) & (y == 0) & np.isnan(actual)),
        "gives NaN for complex numbers",
    ),
    Difference(
        "logistic that underflows",
        STABLEHLO,
        "reference",
        "the accuracy contract; StableHLO promises none.",
        of("logistic"),
        where_given(lambda actual, expected, *inputs: in_any_part(subnormal, expected) & (actual == 0)),
        "gives 0 where exp(-x) overflows, though the result is a subnormal number",
    ),
    Difference(
        "functions of small floats",
        STABLEHLO,
        "reference",
        SMALL_FLOATS,
        with_types(FORMULAS, *SMALL),
        _by_rounded_steps,
        "computes acos, acosh, asin, atanh by a formula whose every step is rounded to the type itself; f8e8m0fnu "
        "without signs, or (jaxlib 0.10) with the sign in the highest bit of the exponent",
    ),
    Difference(
        "logistic of small floats",
        STABLEHLO,
        "reference",
        SMALL_FLOATS,
        of("logistic"),
        where_given(_logistic),
        "computes 1 / (1 + e^-x) with every step rounded to the type itself",
    ),
    Difference(
        "hyperbolic functions",
        STABLEHLO,
        "reference",
        "the accuracy contract of this specification; StableHLO promises none.",
        of("cosh", "sinh"),
        where_given(_of_two_exponentials),
        "computes e^(x - log 2), and rounds that exponent: off by as many ULP as half the exponent's size",
    ),
    Difference(
        "rounding of f8e3m4 and f6e2m3fn to integers",
        STABLEHLO,
        "reference",
        "StableHLO, ceil: the roundToIntegralTowardPositive operation from the IEEE-754 specification; floor and the "
        "rounds likewise.",
        of("ceil", "floor", "round-nearest-afz", "round-nearest-even"),
        where_given(
            lambda actual, expected, *inputs: (
                np.isnan(actual)
                if type_of(actual).name == "f8e3m4"
                else (actual == 0) & (type_of(actual).name == "f6e2m3fn")
            )
        ),
        "gives NaN, or 0 in f6e2m3fn",
    ),
    Difference(
        "accuracy of elementary functions",
        STABLEHLO,
        "reference",
        "the accuracy contract of this specification; StableHLO promises none.",
        lambda case: case.kind in ("edge", "example"),
        within_ulp(SEEN),
        "is farther from the exact result than the contract allows, by the ULPs listed in differences_stablehlo.SEEN",
    ),
)


def _has_nan(x: np.ndarray) -> bool:
    return type_of(x).is_float and bool(np.isnan(x).any())


def _root(case: Case) -> Instruction:
    return case.module.entry.root


def _empty(case: Case) -> bool:
    return any(0 in o.shape.dimensions for o in _root(case).operands)


def _features_first(case: Case) -> bool:
    labels = case.module.entry.root.dim_labels
    return bool(labels.output_feature < labels.output_batch)


def _widens(case: Case) -> bool:
    root = case.module.entry.root
    return any(o.shape.element_type.bits < root.shape.element_type.bits for o in root.operands)
