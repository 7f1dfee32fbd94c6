"""One element of every elementwise HLO operation, as an OpenCL C expression.

A value has two C types: that of its array in memory (`storage_type`) and that of a variable holding it
(`register_type`). They differ where the device computes in a wider type: pred is a uchar in memory and an int that is 0
or 1 in a register; f16, bf16 and the smaller types are raw bits in memory and an f32 in a register, whose value is
always representable in the narrow type, so that each operation is computed in f32 and rounded once. Integers of fewer
than 8 bits take a byte each; they are computed in 8 bits, and the result is truncated to the bits of the type.

Anything but an operator is a call of the function rx_<opcode>_<type> of the prelude: adding a function there is enough
to support an operation here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.ops.compare import is_total
from refxla_spec.types import ELEMENT_TYPES

from ..ir.op_table import MIRRORED, ROWS
from . import prelude

_SIGNED = {"s8": "char", "s16": "short", "s32": "int", "s64": "long"}
_UNSIGNED = {"u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong"}
_INTEGER = _SIGNED | _UNSIGNED
UNSIGNED_OF_BITS = {int(name[1:]): c_type for name, c_type in _UNSIGNED.items()}
_SMALL = {"s1": "s8", "s2": "s8", "s4": "s8", "u1": "u8", "u2": "u8", "u4": "u8"}  # and the types of computation
_EIGHT_BITS = (
    "f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e8m0fnu", "f6e2m3fn",
    "f6e3m2fn", "f4e2m1fn",
)  # fmt: skip
_NARROW = {"f16": "ushort", "bf16": "ushort"} | dict.fromkeys(_EIGHT_BITS, "uchar")
_FLOAT = {"f32": "float", "f64": "double"}
_COMPLEX = {"c64": "float2", "c128": "double2"}
_STORAGE = {"pred": "uchar"} | _INTEGER | {s: _INTEGER[w] for s, w in _SMALL.items()} | _NARROW | _FLOAT | _COMPLEX
_REGISTER = _STORAGE | {"pred": "int"} | dict.fromkeys(_NARROW, "float")
_PART = {"c64": "f32", "c128": "f64"}
_BITS = {name: ELEMENT_TYPES[name].bits for name in _STORAGE}

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^"}
_PRED_INFIX = {"add": "|", "maximum": "|", "multiply": "&", "minimum": "&", "and": "&", "or": "|", "xor": "^"}
_BITWISE = {"and", "or", "xor", "not"}
# Forms of operations whose last or first operand is a constant (analysis/sign_analysis.py).
_BY_CONSTANT, _OF_CONSTANT = "-by-constant", "-of-constant"
_COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
# Operations that are one primitive of the target.
_PRIMITIVES = {"abs": "FABS", "floor": "FLOOR", "ceil": "CEIL", "sqrt": "SQRT", "round-nearest-even": "RINT"}
# Operations of small integers on their bits without sign extension; others extend the sign.
_ON_BITS = {"shift-right-logical", "popcnt", "count-leading-zeros"}
# Integers of which bf16 with its 8 bits has all. For f16 they are rounded: a compiler that sees one converted does
# so in f16 itself (see rx_load_f16).
_WITHIN_BF16 = {"pred", "s8", "u8"}
# The names of functions and operators by the facts of their operations, with those of the forms by a constant, which
# have the same results.
_KEEPS_FORMAT = {form for r in ROWS.values() if r.keeps_format for form in (r.opcode, f"{r.opcode}{_BY_CONSTANT}")}
_QUIETS_NANS = {r.opcode for r in ROWS.values() if r.quiets_nans}
_NONZERO = {r.opcode for r in ROWS.values() if r.nonzero}


def storage_type(name: str) -> str:
    """The C type of an element of HLO type `name` in memory; UnsupportedError if the generator has none."""
    return _lookup(_STORAGE, name)


def register_type(name: str) -> str:
    """The C type of a variable that holds an element of HLO type `name`; UnsupportedError if the generator has none."""
    return _lookup(_REGISTER, name)


def part_type(name: str) -> str:
    """The type of the real and the imaginary part of complex numbers of type `name`; "" for other types."""
    return _PART.get(name, "")


def load(name: str, place: str) -> str:
    """The register value of an element of type `name` in memory, at the C lvalue `place`, such as "x[i]"."""
    if name in _NARROW:
        return f"rx_load_{name}({place})"
    if name == "pred":
        return f"({place} != 0)"
    _lookup(_STORAGE, name)
    return _wrapped(name, place) if name in _SMALL else place


def store(name: str, value: str, opcode: str = "") -> str:
    """The C expression that stores the register value `value` of type `name` when assigned to memory; `opcode`, if
    given, is the operation whose result it is."""
    if name == "f16" and opcode in _QUIETS_NANS:
        return f"rx_store_rounded_f16({value})"
    if name in _NARROW:
        return f"rx_store_{name}({value})"
    if name == "pred":
        return f"(uchar)({value})"
    _lookup(_STORAGE, name)
    return value


def selection(name: str, condition: str, a: str, b: str) -> str:
    """The C expression for `a` where `condition` holds, else `b`; both are register values of type `name`."""
    if name in _COMPLEX:  # by parts: see _complex_arithmetic
        return f"({_COMPLEX[name]})({condition} ? {a}.x : {b}.x, {condition} ? {a}.y : {b}.y)"
    return f"({condition} ? {a} : {b})"


def load_in_loop(name: str, place: str) -> str:
    """As `load`, from an array over which a loop runs: without loads of OpenCL's vectors, which keep clang from
    vectorizing the loop."""
    return f"RX_LOAD_PARTS({_COMPLEX[name]}, {place})" if name in _COMPLEX else load(name, place)


def store_in_loop(name: str, place: str, value: str, opcode: str = "") -> str:
    """The C statement that stores the register value `value`, a C variable, to a place in an array over which a loop
    runs; `opcode` as in `store`."""
    if name in _COMPLEX:
        return f"RX_STORE_PARTS({place}, {value});"
    return f"{place} = {store(name, value, opcode)};"


def from_array(name: str, place: str) -> str:
    """A register value from an array of register values over which a loop runs."""
    return load_in_loop(name, place) if name in _COMPLEX else place


def to_array(name: str, place: str, value: str) -> str:
    """The statement that writes a register value, a C variable, to an array of register values over which a loop
    runs."""
    return store_in_loop(name, place, value) if name in _COMPLEX else f"{place} = {value};"


Names = tuple[str, ...]  # of HLO's element types, or of C variables: one for each operand
Attributes = Mapping[str, Any]  # of the instruction


def expression(
    opcode: str,
    operand_types: Sequence[str],
    result_type: str,
    args: Sequence[str],
    attributes: Mapping[str, Any] | None = None,
) -> str:
    """The C expression of one element of an elementwise operation, register values in and out.

    `operand_types` and `result_type` are HLO element type names; `args` are C variable names, one per operand, and may
    be repeated in the text. `attributes` are those of the instruction: `direction` and `type` of compare,
    `exponent_bits` and `mantissa_bits` of reduce-precision.
    Raises UnsupportedError, naming opcode and types, if there is no such expression.
    """
    types, inputs = tuple(operand_types), (tuple(args), attributes or {})
    for name in (*types, result_type):
        _lookup(_STORAGE, name)
    if opcode == "bitcast-convert" and _BITS[types[0]] != _BITS[result_type]:
        text = None
    elif any(name in _SMALL for name in (*types, result_type)):
        text = _small_expression(opcode, types, result_type, *inputs)
    else:
        text = _expression(opcode, types, result_type, *inputs)
    if text is None:
        raise UnsupportedError(
            f"{opcode} of ({', '.join(types)}) to {result_type} has no scalar code; "
            "convert the operands to a type that has"
        )
    return text


def _expression(opcode: str, operand_types: Names, result_type: str, args: Names, attributes: Attributes) -> str | None:
    if opcode.endswith(_OF_CONSTANT):
        opcode, args = opcode.replace(_OF_CONSTANT, _BY_CONSTANT), args[::-1]
        if "direction" in attributes:
            attributes = {**attributes, "direction": MIRRORED[attributes["direction"]]}
    rule = _RULES.get(opcode)
    if rule:
        return rule(operand_types, result_type, args, attributes)
    return _arithmetic(opcode, operand_types[0], args)


def _small_expression(opcode: str, types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    """An operation with operands or a result of fewer than 8 bits, by way of 8-bit integers."""
    bits = _BITS[result]
    if opcode == "mulhi":
        return _wrapped(result, f"((int){args[0]} * (int){args[1]} >> {bits})")
    if opcode in _ON_BITS:
        args = tuple(f"({_INTEGER[_SMALL[t]]})({a} & {(1 << _BITS[t]) - 1})" for a, t in zip(args, types, strict=True))
    if opcode == "shift-right-arithmetic":  # the highest bit is shifted in, for unsigned integers too
        args = (f"({_INTEGER[_SMALL[result]]}){_wrapped('s' + result[1:], args[0])}", args[1])
    wide = _SMALL.get(result, result)
    text = _expression(opcode, tuple(_SMALL.get(t, t) for t in types), wide, args, attributes)
    if text is None or result not in _SMALL:
        return text
    if opcode == "count-leading-zeros":
        text = f"({text} - {8 - bits})"
    if opcode == "convert" and (types[0] in _FLOAT or types[0] in _NARROW):  # out of range, the nearest number
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if result[0] == "s" else (0, (1 << bits) - 1)
        return f"rx_clamp_{wide}(({_INTEGER[wide]}){low}, {text}, ({_INTEGER[wide]}){high})"
    return _wrapped(result, text)


def is_complex(name: str) -> bool:
    """Whether an element of that type is a vector of two in C."""
    return name in _COMPLEX


def has_fast_path(opcode: str, name: str) -> bool:
    """Whether a function of operands of type `name` has a cheap form for moderate operands in the prelude
    (fast_path_math.py)."""
    return _call(_fast(opcode), _computed_as(name), ()) is not None


class FastPaths(NamedTuple):
    """The C expressions of a function that has a fast path, as functions of the elements of an array.

    `fast` is right for moderate operands, `far` also for those not far beyond, and `whole` for all. Where there is
    `apart`, operands for which the others are not right are few, and it is for them alone.
    """

    fast: str
    far: str | None
    whole: str | None
    apart: str | None


def fast_paths(opcode: str, name: str, result: str, args: Sequence[str], parameter: str | None) -> FastPaths:
    """The forms of a function of operands of type `name` with this `result`; `args` are register values, and
    `parameter` is that of the `fast_family`, if it has one."""
    family, _ = fast_family(opcode, name)
    given = [*args, parameter] if parameter else args

    def form(suffix: str) -> str | None:
        exists = _call(f"{family}{suffix}", _computed_as(name), ()) is not None
        return _arithmetic(f"{family}{suffix}", name, given) if exists else None

    fast, apart = form("-fast"), form("-apart")
    assert fast is not None, f"{opcode} of {name} has no fast path: see has_fast_path"
    whole = None if apart else expression(opcode, [name] * len(args), result, args)
    return FastPaths(fast, form("-far-fast"), whole, apart)


def fast_family(opcode: str, name: str) -> tuple[str, str | None]:
    """The function of which one with a fast path is a special case, and the value of its parameter there. Sine and
    cosine have one C function, for which the device's compiler takes half as long as for two."""
    if opcode in _QUARTERS and not is_complex(name):
        return "shifted-sine", _QUARTERS[opcode]
    return opcode, None


def beyond_fast_path(opcode: str, name: str, args: Sequence[str]) -> str:
    """The C expression that is 0 where all operands are moderate, and 1 where some are not but none is far beyond;
    where the function has no form for those it is a condition."""
    family, _ = fast_family(opcode, name)
    text = _call(f"{family}-beyond-fast", _computed_as(name), args)
    assert text is not None, f"{opcode} of {name} has no fast path: see has_fast_path"
    return text


def _computed_as(name: str) -> str:
    """The type that functions of a floating-point or complex type are computed in."""
    return name if name == "f64" or name in _COMPLEX else "f32"


def function_in_doubles(opcode: str, operand_types: Sequence[str], result_type: str) -> str:
    """The prelude's function that computes an operation in doubles and can be vectorized; "" if there is none."""
    of_float = result_type in ("f16", "bf16") and opcode in _KEEPS_FORMAT
    source = operand_types[0] if operand_types else ""
    types = [_computed_as(source) if source in _FLOAT else source] if opcode == "convert" else []
    name = "_".join(["rx", opcode, "in_f64", *types, "f32" if of_float else result_type])
    return name if name in prelude.names() else ""


_QUARTERS = {"sine": "0", "cosine": "1"}  # sin(x + quarters pi/2)


def _fast(opcode: str) -> str:
    """The name of the prelude's function for that form, without its type."""
    return f"{opcode}-fast"


def low_bits(name: str, text: str) -> str:
    """A wider C integer, truncated to the integer type `name`, as a register value."""
    return _wrapped(name, text) if name in _SMALL else f"({register_type(name)})({text})"


def _wrapped(name: str, text: str) -> str:
    """An integer of 8 bits or more, truncated to type `name`."""
    bits = _BITS[name]
    if name[0] == "u":
        return f"((uchar)({text} & {(1 << bits) - 1}))"
    return f"((char)((char)(({text}) << {8 - bits}) >> {8 - bits}))"


def largest(name: str) -> int:
    """The largest number of an integer type."""
    bits = int(name[1:])
    return (1 << bits - 1) - 1 if name[0] == "s" else (1 << bits) - 1


def literal(name: str, value: Any) -> str:
    """The exact C literal of a Python or NumPy scalar of HLO type `name`, as a register value.

    NaNs keep sign and payload. The value must be representable in the type: nothing else is rounded.
    """
    register_type(name)
    if name == "pred":
        return "1" if bool(value) else "0"
    if name in _COMPLEX:
        part = _PART[name]
        value = np.complex128(value) if name == "c128" else np.complex64(value)
        return f"({_COMPLEX[name]})({literal(part, value.real)}, {literal(part, value.imag)})"
    if name in _SMALL:
        return _integer_literal(_SMALL[name], int(value))
    if name in _INTEGER:
        return _integer_literal(name, int(value))
    if name == "f64":
        bits = struct.unpack("<Q", np.float64(value).tobytes())[0]
        return _float_literal(float(value), f"as_double(0x{bits:016x}ul)", "")
    single = np.asarray(value).astype(np.float32)[()]
    bits = struct.unpack("<I", single.tobytes())[0]
    return _float_literal(float(single), f"as_float(0x{bits:08x}u)", "f")


def _integer_literal(name: str, value: int) -> str:
    suffix = ("u" if name in _UNSIGNED else "") + ("l" if name.endswith("64") else "")
    if name in ("s32", "s64") and value == -(2 ** (_BITS[name] - 1)):
        return f"({value + 1}{suffix} - 1)"  # the magnitude of the least integer is not a literal of its type
    text = f"{value}{suffix}" if _BITS[name] >= 32 else f"({_INTEGER[name]}){value}"
    return f"({text})" if value < 0 or _BITS[name] < 32 else text


def _float_literal(value: float, as_bits: str, suffix: str) -> str:
    if not math.isfinite(value):
        return as_bits
    mantissa, exponent = value.hex().split("p")
    mantissa = mantissa.rstrip("0") if "." in mantissa else mantissa
    text = f"{mantissa.rstrip('.')}p{exponent}{suffix}"
    if text.startswith("0xp") or text.startswith("-0xp"):
        text = text.replace("0xp", "0x0p")
    return f"({text})" if text.startswith("-") else text


def _lookup(table: Mapping[str, str], name: str) -> str:
    if name not in table:
        raise UnsupportedError(f"element type {name} has no scalar code; known are {', '.join(table)}")
    return table[name]


def _call(opcode: str, name: str, args: Sequence[str]) -> str | None:
    """The call of the prelude's function for an operation on type `name`; None if there is none."""
    function = f"rx_{opcode.replace('-', '_')}_{name}"
    return f"{function}({', '.join(args)})" if function in prelude.names() else None


def _arithmetic(opcode: str, name: str, args: Sequence[str]) -> str | None:
    """Operations whose operands and result have one type, which selects the rule."""
    if name == "pred":
        return f"({args[0]} {_PRED_INFIX[opcode]} {args[1]})" if opcode in _PRED_INFIX else None
    if name in _INTEGER:
        return _integer_arithmetic(opcode, name, args)
    if name in _COMPLEX:
        return _complex_arithmetic(opcode, name, args)
    if name in _NARROW:
        text = _float_arithmetic(opcode, "f32", args)
        if name == "f8e8m0fnu" and opcode in _NONZERO:
            text = f"rx_above_zero_f32({text})"
        rounded = opcode in _KEEPS_FORMAT and name not in _EIGHT_BITS
        return text if text is None or rounded else f"rx_round_{name}({text})"
    return _float_arithmetic(opcode, name, args)


def _integer_arithmetic(opcode: str, name: str, args: Sequence[str]) -> str | None:
    own = _INTEGER[name]
    if opcode in ("maximum", "minimum"):
        a, b = args
        return f"({a} {'>' if opcode == 'maximum' else '<'} {b} ? {a} : {b})"
    # Unsigned arithmetic of at least 32 bits wraps; signed arithmetic and what C promotes to int need not.
    wide = "ulong" if _BITS[name] == 64 else "uint"
    if opcode == "negate":
        return f"({own})(0u - ({wide}){args[0]})"
    if opcode in _INFIX_BY_CONSTANT:
        return _integer_by_constant(opcode, name, wide, *args)
    if opcode in _INFIX and opcode != "divide":
        return f"({own})(({wide}){args[0]} {_INFIX[opcode]} ({wide}){args[1]})"
    return _call(opcode, name, args)


_INFIX_BY_CONSTANT = {
    f"{opcode}{_BY_CONSTANT}": sign
    for opcode, sign in {
        "divide": "/", "remainder": "%", "multiply": "*", "shift-left": "<<", "shift-right-logical": ">>",
        "shift-right-arithmetic": ">>",
    }.items()
}  # fmt: skip


def _integer_by_constant(opcode: str, name: str, wide: str, a: str, b: str) -> str:
    """Operators instead of calls, with a constant b for which they are defined (analysis/sign_analysis.py).

    The compiler has to see them in context. If the division in a - a / 4 * 4 is still a call, LLVM 14 turns the
    expression into a + (a >> 2) * -4; it finds out too late that this is not negative, and in AVX2 vectors it then
    takes the wrong side of i < 0 ? i + 4 : i. A negative factor would have the same effect.
    """
    own, sign = _INTEGER[name], _INFIX_BY_CONSTANT[opcode]
    if sign == "*":
        return f"({own})(0u - ({wide}){a} * (0u - ({wide}){b}))"
    if sign == "<<":
        return f"({own})(({wide}){a} << (int){b})"
    if sign == ">>":
        read_as = _UNSIGNED[f"u{name[1:]}"] if opcode.startswith("shift-right-logical") else _SIGNED[f"s{name[1:]}"]
        return f"({own})(({read_as}){a} >> (int){b})"
    return f"({own})({a} {sign} {b})"


def _float_arithmetic(opcode: str, name: str, args: Sequence[str]) -> str | None:
    if opcode in _BITWISE:
        return None
    if opcode in _INFIX:
        return f"({args[0]} {_INFIX[opcode]} {args[1]})"
    if opcode == "negate":
        return f"(-{args[0]})"
    if opcode in _PRIMITIVES:
        return f"RX_{_PRIMITIVES[opcode]}_{name.upper()}({args[0]})"
    return _call(opcode, name, args)


def _complex_arithmetic(opcode: str, name: str, args: Sequence[str]) -> str | None:
    # By parts, since compilers do not vectorize loops over vectors.
    if opcode in ("add", "subtract"):
        a, b = args
        return f"({_COMPLEX[name]})({a}.x {_INFIX[opcode]} {b}.x, {a}.y {_INFIX[opcode]} {b}.y)"
    if opcode == "negate":
        return f"({_COMPLEX[name]})(-{args[0]}.x, -{args[0]}.y)"
    return _call(opcode, name, args)


def _copy(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    return args[0]


def _not(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    if result == "pred":
        return f"({args[0]} ^ 1)"
    return f"({_INTEGER[result]})(~{args[0]})" if result in _INTEGER else None


def _select(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    return selection(result, *args)


def _clamp(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    low, x, high = args
    if result in _COMPLEX:
        return None
    if result in _INTEGER or result == "pred":
        # minimum(maximum(low, x), high): high wins where the bounds cross.
        lower = f"({low} > {x} ? {low} : {x})"
        return f"({lower} < {high} ? {lower} : {high})"
    return _call("clamp", _computed_as(result), args)


def _clamp_by_constant(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    return _call("clamp-by-constant", _computed_as(result), args)


def _compare(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    (name, _), (a, b) = types, args
    direction = attributes["direction"]
    operator = _COMPARE[direction]
    if name in _COMPLEX:
        joined = {"EQ": "&", "NE": "|"}.get(direction)
        return joined and f"(({a}.x {operator} {b}.x) {joined} ({a}.y {operator} {b}.y))"
    if is_total(attributes) and (name in _FLOAT or name in _NARROW):
        key = f"rx_total_order_{'f64' if name == 'f64' else 'f32'}"
        a, b = f"{key}({a})", f"{key}({b})"
    return f"({a} {operator} {b})"


def _compare_with_zero(types: Names, result: str, args: Names, attributes: Attributes) -> str:
    """How a float compares with zero, by means of the numbers next to zero: LLVM 14 turns a comparison with +0 that
    selects -0, or the other way round, into a maximum or minimum that confuses the zeros."""
    least = "0x1p-1074" if types[0] == "f64" else "0x1p-149f"
    operator = {"LT": "<= -", "LE": "< ", "GT": ">= ", "GE": "> -"}[attributes["direction"]]
    return f"({args[0]} {operator}{least})"


def _is_finite(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    name = types[0]
    return _call("is-finite", "f32" if name in _NARROW else name, args)


def _complex(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    parts = types == (_PART.get(result),) * 2
    return f"({_COMPLEX[result]})({args[0]}, {args[1]})" if parts else None


def _real(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    return f"{args[0]}.x" if types[0] in _COMPLEX else args[0]


def _imag(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    zero = float("nan") if result == "f8e8m0fnu" else 0.0  # which has no zero
    return f"{args[0]}.y" if types[0] in _COMPLEX else literal(result, zero)


def _abs(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    if types[0] in _COMPLEX:
        return _call("abs", types[0], args)
    return _arithmetic("abs", types[0], args)


def _reduce_precision(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    # More bits than any format has make no difference; the limits keep the shifts in the code defined.
    bits = str(min(attributes["exponent_bits"], 11)), str(min(attributes["mantissa_bits"], 52))
    return _call("reduce-precision", result, (args[0], *bits))


def _convert(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    source, a = types[0], args[0]
    if source == result:
        return a
    if source in _COMPLEX:
        if result in _COMPLEX:
            part = _FLOAT[_PART[result]]
            return f"({_COMPLEX[result]})(({part}){a}.x, ({part}){a}.y)"
        if result == "pred":
            return f"(({a}.x != 0) | ({a}.y != 0))"
        return _convert((_PART[source],), result, (f"{a}.x",), attributes)
    if result in _COMPLEX:
        return f"({_COMPLEX[result]})({_convert((source,), _PART[result], args, attributes)}, 0)"
    if result == "pred":
        return f"({a} != 0)"
    if result in _INTEGER:
        if source in _FLOAT or source in _NARROW:
            return f"rx_convert_{'f64' if source == 'f64' else 'f32'}_{result}({a})"
        return f"({_INTEGER[result]}){a}"
    if result in _FLOAT or result == "bf16" and source in _WITHIN_BF16:
        return f"({_REGISTER[result]}){a}"
    # To a narrow float: exactly into f32, or by rounding to odd, so that only the last rounding counts. Integers beyond
    # 2^17 are infinite in f16, whichever they are, and f32 has those below.
    if result == "f16" and source in ("s32", "s64"):
        return f"rx_round_f16((float)({a} > 131072 ? 131072 : {a} < -131072 ? -131072 : (int){a}))"
    if result == "f16" and source in ("u32", "u64"):
        return f"rx_round_f16((float)({a} > 131072u ? 131072u : (uint){a}))"
    if source in ("f64", "s32", "u32", "s64", "u64"):
        return f"rx_round_{result}(rx_odd_{source}({a}))"
    return f"rx_round_{result}((float){a})"


def _bitcast_convert(types: Names, result: str, args: Names, attributes: Attributes) -> str | None:
    source = types[0]
    # A narrow float goes through its bits in memory; the other types are as wide in a register as in memory.
    bits = store(source, args[0]) if source in _NARROW or source == "pred" else args[0]
    if result in _NARROW or result == "pred":
        place = bits if storage_type(source) == storage_type(result) else f"({storage_type(result)}){bits}"
        return load(result, place)
    return f"as_{storage_type(result)}({bits})"


_RULES = {
    "copy": _copy,
    "not": _not,
    "select": _select,
    "clamp": _clamp,
    "clamp-by-constant": _clamp_by_constant,
    "compare": _compare,
    "compare-by-constant": _compare_with_zero,
    "is-finite": _is_finite,
    "complex": _complex,
    "real": _real,
    "imag": _imag,
    "abs": _abs,
    "reduce-precision": _reduce_precision,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
}
