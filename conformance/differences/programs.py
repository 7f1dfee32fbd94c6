"""How XLA:CPU differs from the specification in combinations of several instructions, or in constants.

Found by random programs (fuzz/xla.py), which also run every instruction of a differing program on XLA alone.
"""

from __future__ import annotations

import re
from math import prod

import ml_dtypes
import numpy as np
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import distance, same_bits, ulp
from refxla_spec.interpreter import Interpreter
from refxla_spec.numerics import type_of
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.vectorize import lift

from ..cases import Case
from ..targets.base import arrays
from .difference import CONSTANTS, Difference
from .predicates import of, operands, site, types_of, vanishes, where_given, with_types
from .xla_relations import SUBNORMAL, _contracted, _flushed_at_each_step

XLA = "xla-cpu"
LACKING = frozenset("acos acosh asin asinh atanh cosh sinh".split())
SIGNS = "signs of NaNs"  # fuzz/steps.py finds the instructions that depend on them
FLOATS = frozenset(t.name for t in ELEMENT_TYPES.values() if t.is_float or t.is_complex)


def _never(case: Case) -> bool:
    """For cases: these differences are those of whole programs."""
    return False


def _no_quotient_of_constants(case: Case) -> bool:
    """Whether constant integers are divided, one by zero or the minimum by -1."""
    if case.opcode not in ("divide", "remainder") or case.inputs:
        return False
    x, y = operands(case, 0)
    if not type_of(x).is_integer:
        return False
    x, y = x.astype(object), y.astype(object)
    lowest = -(2 ** (type_of(operands(case, 0)[0]).bits - 1))
    return bool(np.any((y == 0) | ((y == -1) & (x == lowest))))


def _one_element(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a reduction of one element each gives that element."""
    mask = np.zeros(actual.shape, bool)
    for operand in operands(case, leaf):
        if operand.size == expected.size and operand.dtype == actual.dtype:
            mask |= same_bits(actual, operand.reshape(actual.shape))
    return mask


def _combined_again(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of a reduction of one array that XLA splits: the expected value, with the initial value combined again,
    at most as often as there are parts of 16, and by `reduce` as often for each element. For floats, they are within
    the bounds of the reduction there, relative to the other value."""
    i, mask = site(case, leaf), np.zeros(actual.shape, bool)
    inputs = operands(case, leaf)
    if len(inputs) != 2 or len(i.operands) != 2:
        return mask
    operand, init = map(np.asarray, inputs)
    sizes = [w.size for w in i.window] if i.opcode == "reduce-window" else [operand.shape[d] for d in i.dimensions]
    lifted = lift(i.to_apply, expected.shape)
    if max(sizes, default=0) < 16 or lifted is None:
        return mask
    allowed = arrays(run_with_bounds(case.module, case.inputs)[1])[leaf]
    value, counts = np.asarray(expected), [mask]
    with np.errstate(all="ignore"):
        for _ in range(prod(-(-n // 16) + 1 for n in sizes if n >= 16)):
            value = np.asarray(Interpreter().run(lifted, value, np.broadcast_to(init, value.shape)))
            within = distance(actual, value) <= allowed + 2 * ulp(value) if type_of(value).is_float else False
            counts.append(same_bits(actual, value) | within)
    if i.opcode == "reduce-window":  # a window takes part in some of the blocks
        return np.asarray(np.any(counts, axis=0))
    return max(counts, key=np.count_nonzero)


def _meets_groups(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """NaNs of a grouped convolution, one of whose operands has infinities or NaNs."""
    i = site(case, leaf)
    if max(i.feature_group_count, i.batch_group_count) == 1 or not type_of(expected).is_float:
        return np.zeros(actual.shape, bool)
    met = not all(np.isfinite(o).all() for o in operands(case, leaf))
    return np.asarray(np.isnan(actual) & met)


def _saturated(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the minimum or maximum integer of their type."""
    info = ml_dtypes.iinfo(expected.dtype)
    return np.asarray((actual == info.min) | (actual == info.max))


def _lacking(case: Case) -> bool:
    """Whether a program has a complex function that XLA:CPU reports as not implemented."""
    instructions = case.module.instructions() if not case.is_negative else ()
    return any(i.opcode in LACKING and i.shape.element_type.is_complex for i in instructions)


def _with_narrow_epsilon(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are right if epsilon is rounded to f32."""

    def narrow(match: re.Match[str]) -> str:
        return f"epsilon={float(np.float32(match[1]))!r}"

    value, bound = run_with_bounds(parse(re.sub(r"epsilon=([-+.\w]+)", narrow, case.hlo)), case.inputs)
    with np.errstate(all="ignore"):
        return distance(actual, arrays(value)[leaf]) <= arrays(bound)[leaf]


def _simplified(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Zeros of another sign for a sum with a constant, and quotients by one that are products with its reciprocal."""
    i, inputs = site(case, leaf), operands(case, leaf)
    if i.opcode in ("add", "subtract"):
        return np.asarray((actual == 0) & (expected == 0))
    y = i.operands[-1].operands[0] if i.opcode == "divide" and i.operands[-1].opcode == "broadcast" else i
    if y.opcode != "constant" or len(inputs) != 1:
        return np.zeros(actual.shape, bool)
    with np.errstate(all="ignore"):
        return same_bits(actual, inputs[0] * (np.ones((), actual.dtype) / y.literal).astype(actual.dtype))


def _by_itself(case: Case, leaf: int) -> np.ndarray:
    """Where an integer zero, which is a parameter, is divided by the same parameter."""
    i = site(case, leaf)
    if i.opcode != "divide" or i.operands[0] is not i.operands[1] or i.operands[0].opcode != "parameter":
        return np.zeros(i.shape.dimensions, bool)
    return np.asarray((operands(case, leaf)[0] == 0) & i.shape.element_type.is_integer)


def _of_vanishing(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of a selection between a parameter and constants, where the parameter is zero or subnormal: it, or
    zero."""
    (x,) = map(np.asarray, case.inputs)
    if site(case, leaf).opcode not in ("maximum", "minimum", "clamp", "select") or actual.dtype != x.dtype:
        return np.zeros(actual.shape, bool)
    return np.asarray(vanishes(x) & (same_bits(actual, x) | (actual == 0)))


DIFFERENCES = (
    Difference(
        "choices between a number and zeros",
        XLA,
        "reference",
        f"{SUBNORMAL} 9.6: maximum and minimum tell the zeros of both signs apart.",
        lambda case: case.name.startswith("structured/select/by_sign_"),
        _of_vanishing,
        "compares subnormal numbers as zeros, makes zeros of them, and takes one zero for the other",
    ),
    Difference(
        "complex functions that XLA:CPU lacks",
        XLA,
        "reference",
        "operation_semantics, element-wise unary functions: acos, acosh, asin, asinh, atanh, cosh and sinh are "
        "functions of complex numbers, too. XLA:CPU of jaxlib 0.10 says of each alone that it is unimplemented.",
        _lacking,
        None,
        "ends its process by SIGSEGV: since jaxlib 0.12 on each, before where it fuses one with other instructions",
        fails=True,
        says="SIGSEGV",
    ),
    Difference(
        "atan2 of constant zeros",
        XLA,
        "reference",
        "StableHLO, atan2: as IEEE 754-2019, 9.2, whose atan2(0, 0) is 0.",
        lambda case: case.opcode == "atan2" and not case.inputs,
        lambda case, leaf, actual, expected: np.isnan(actual) & (operands(case, leaf)[0] == 0),
        "gives NaN for atan2(0, 0) where it folds constants",
    ),
    Difference(
        "concatenation of elements below 8 bits",
        XLA,
        "reference",
        "operation_semantics, Concatenate, has no such restriction.",
        with_types(("concatenate",), "s2", "s4", "u2", "u4", "f4e2m1fn"),
        None,
        "ends its process by a failed check (ir_array.cc), where parts are so large that it copies them as blocks",
        fails=True,
        says=r"ir_array\.cc|SIGABRT",
    ),
    Difference(
        "leading zeros of constants",
        XLA,
        "reference",
        'StableHLO, count_leading_zeros: "element-wise count of the number of leading zero bits in the operand '
        'tensor", of which a negative number has none.',
        lambda case: case.opcode == "count-leading-zeros" and not case.inputs,
        where_given(lambda actual, expected, x: (x < 0) & (actual.astype(np.int64) == type_of(x).bits - 64)),
        "counts in 64 bits where it folds a constant, and gives -32 for a negative number of s32",
    ),
    Difference(
        "zeros of sums of products",
        XLA,
        "open",
        "StableHLO, dot_general, is a reduce from init_values=[constant(0, element_type(result))], and reduce inserts "
        '"init_values_converted at implementation-defined positions". Here a sum begins with it: a sum of -0 is 0.',
        of("dot", "convolution"),
        lambda case, leaf, actual, expected: (actual == 0) & (expected == 0),
        "begins with the first term, so that a sum of -0 is -0",
    ),
    Difference(
        "integer convolutions of constants",
        XLA,
        "reference",
        "StableHLO, convolution, adds integers as add does, which is modulo 2^bits; so do XLA's own compiled "
        "convolutions.",
        lambda case: case.opcode == "convolution" and not case.inputs and types_of(case).isdisjoint(FLOATS),
        _saturated,
        "saturates sums that overflow, where it folds a convolution of constants",
    ),
    Difference(
        "infinities of other groups of a convolution",
        XLA,
        "reference",
        "operation_semantics, ConvWithGeneralPadding: a group of outputs depends on its own group of inputs alone.",
        of("convolution"),
        _meets_groups,
        "multiplies the other groups by zeros, and gives NaN where they have an infinity or NaN",
    ),
    Difference(
        "initial values of long reductions",
        XLA,
        "open",
        'operation_semantics, Reduce: "All initial values have to form an identity under computation", and '
        "ReduceWindow: see Reduce for details. Here it is combined once, whatever it is.",
        of("reduce", "reduce-window"),
        _combined_again,
        "takes dimensions and windows of 16 elements and more apart, and combines the initial value with each part",
    ),
    Difference(
        "reductions of one element",
        XLA,
        "open",
        'operation_semantics, Reduce: "All initial values have to form an identity under computation." StableHLO, '
        'reduce, inserts "init_values_converted at implementation-defined positions". Here it is combined once, '
        "whatever it is.",
        of("reduce"),
        _one_element,
        "gives the element, without the initial value",
    ),
    Difference(
        "Eigh without options",
        XLA,
        "open",
        "No document names the options of this custom call. XLA:CPU wants a backend_config of which triangle, how many "
        "sweeps and which tolerance; here none is needed, and both triangles are alike.",
        lambda case: case.name.startswith("structured/custom-call/Eigh_"),
        None,
        "refuses the call",
        fails=True,
        says="Unable to parse arguments to Eigh custom call",
    ),
    Difference(
        "reductions into a wider type",
        XLA,
        "open",
        "HloVerifier lets a reduction's init_value and computation be wider than its operand, and the verifier that "
        "XLA:CPU's compiler begins with does not; no document says which.",
        lambda case: case.name.startswith("structured/reduce/widened_"),
        None,
        "refuses the program, or gives the operand itself, in its own type, where no dimension is reduced",
        fails=True,
        says=r"but mixed precision is disallowed|^result 0 is bf16\[.*\] instead of f32",
    ),
    Difference(
        "the epsilon of batch normalisation in f64",
        XLA,
        "target",
        "xla/service/hlo.proto: float epsilon = 16; the attribute is a number of f32, whatever the operands' type.",
        lambda case: case.opcode.startswith("batch-norm-") and case.element_type == "f64",
        _with_narrow_epsilon,
        "rounds epsilon to f32",
    ),
    Difference(
        "subnormal numbers between instructions",
        XLA,
        "reference",
        SUBNORMAL,
        lambda case: case.name.startswith("structured/divide/undone_"),
        _flushed_at_each_step,
        "takes subnormal results for zeros, and goes on with them",
    ),
    Difference(
        "a number divided by itself",
        XLA,
        "open",
        'operation_semantics, Element-wise binary arithmetic operations: integer division overflow "produces an '
        'implementation defined value". XLA simplifies x / x to 1.',
        lambda case: case.name.startswith("structured/divide/undone_"),
        lambda case, leaf, actual, expected: _by_itself(case, leaf) & (actual == 1),
        "gives 1 for 0 / 0 where both are the same instruction",
    ),
    Difference(
        "contraction of multiply and add",
        XLA,
        "reference",
        "operation_semantics: multiply and add are two operations; IEEE 754-2019, 5.1: each rounds its result. XLA "
        "tells LLVM that it may contract them (TargetOptions::AllowFPOpFusion).",
        lambda case: case.name.startswith("structured/add/to_product_"),
        _contracted,
        "makes one fma of a multiply and an add, which rounds once; not with `--xla_cpu_max_isa=AVX`, which has no fma",
        without="--xla_cpu_max_isa=AVX",
    ),
    Difference(
        SIGNS,
        XLA,
        "open",
        "IEEE 754-2019, 6.3: the sign of a NaN that an operation gives is not specified. Any NaN is as good as "
        "another, but the total order (topk, sort, compare) and bitcast-convert see its sign.",
        _never,
        None,
        "gives NaNs of another sign, by which later instructions differ",
    ),
    Difference(
        "algebraic simplification",
        XLA,
        "reference",
        "IEEE 754-2019, 6.3: -0 + 0 is 0; 5.4.1: a division rounds once.",
        lambda case: case.name.startswith("structured/multiply/by_constants_"),
        _simplified,
        "takes x + 0 for x where x is -0, x / y for x * (1 / y) where y is broadcast, and others of the sort; not with "
        "`--xla_disable_hlo_passes=algsimp`",
        without="--xla_disable_hlo_passes=algsimp",
    ),
    Difference(
        "folding of constants",
        XLA,
        "reference",
        "operation_semantics: a constant is a value like any other.",
        _never,
        None,
        "gives another result where constants are known, on the way through StableHLO or in XLA: -0 + 0 is -0 for some",
        without=CONSTANTS,
    ),
    Difference(
        "integer quotients of constants",
        XLA,
        "reference",
        'operation_semantics, Element-wise binary arithmetic operations: integer division overflow "produces an '
        'implementation defined value"; a value, so that such a program is valid.',
        _no_quotient_of_constants,
        None,
        "divides while it compiles, and ends its process by SIGFPE",
        fails=True,
        says="SIGFPE",
    ),
)
