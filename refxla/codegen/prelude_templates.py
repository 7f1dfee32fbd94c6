"""The templates of the prelude's functions, and how they are filled in.

They live in `prelude/*.cl`, one file a subject. Each is written once for all the types it exists for: a line

    //! T = f32 f64; I = s32 u32

says that what follows, up to the next such line, is a template, to be written out for every combination. In it:

    T, I              the C type of the element type (float, char); T2 that of the complex numbers of T (float2); of
                      f32x8, a vector of f32, float8: only the next two lines are for vectors, too
    rx_name_T         the function of that type: rx_name_f32; RX_FMA_T is the primitive RX_FMA_F32
    BITS_T UBITS_T    the signed and unsigned integer type as wide as T;  as_T, as_BITS_T, as_UBITS_T reinterpret bits
    MANTISSA_T BIAS_T SIGN_T INF_T   the bits of T's mantissa, its exponent's bias, the bits of -0 and of infinity
    INFINITY_T NAN_T TINY_T LEAST_T  infinity, a quiet NaN, the least normal number and the least number above zero
    ROUND_T           rounds to an integer when added and subtracted again; its bits plus n are those of ROUND_T + n
    U_I S_I           the unsigned and signed type as wide as I; WIDE_U_I the unsigned one of at least 32 bits
    MIN_I MAX_I WIDTH_I LIMIT_I      the least and greatest I, its width in bits, and 2^n just above MAX_I as a T
    K(name)           the constant `name` of coefficients.json, as a literal of type T
    POLY(name, x)     the polynomial `name` of coefficients.json at x, by Horner's rule with one fma a step
    1.5, 0x1p-3       floating literals take the suffix of T

In names, a real type T gives its complex type C, and an integer type I its unsigned type U: rx_name_C, rx_name_U.

If the line ends in "; library", the functions of a type that follow are a function library (function_library.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

DEFINITION = re.compile(r"^static inline (?=[\w ]+?\b(rx_\w+)\()", re.MULTILINE)  # up to the type of the result

_FOLDER = Path(__file__).with_name("prelude")

_CL_TYPES = {
    "s8": "char", "s16": "short", "s32": "int", "s64": "long",
    "u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong",
    "f32": "float", "f64": "double", "c64": "float2", "c128": "double2",
}  # fmt: skip
# The formats in a byte: bits of mantissa, bias of the exponent, and which special values they lack.
_EIGHT_BITS = {
    "f8e5m2": (2, 15, ""), "f8e4m3": (3, 7, ""), "f8e3m4": (4, 3, ""), "f8e4m3fn": (3, 7, "fn"),
    "f8e4m3fnuz": (3, 8, "fnuz"), "f8e4m3b11fnuz": (3, 11, "fnuz"), "f8e5m2fnuz": (2, 16, "fnuz"),
    "f6e2m3fn": (3, 1, "special"), "f6e3m2fn": (2, 3, "special"), "f4e2m1fn": (1, 1, "special"),
}  # fmt: skip
_COMPLEX_OF = {"f32": "c64", "f64": "c128"}
_FLOAT_LITERAL = re.compile(  # or a comment, in which a number may end a sentence
    r"//.*|(?<![\w.])(0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?p[+-]?\d+|\d+\.\d*(?:e[+-]?\d+)?)(?![\w.])"
)


@dataclass(frozen=True)
class Template:
    """A function of the prelude with the comment above it, the element type of each template word, and the name of
    its function library; "" if it is in none."""

    text: str
    binding: Mapping[str, str]
    library: str = ""

    @property
    def name(self) -> str:
        """The name of the function, such as rx_exponential_f32."""
        (name,) = DEFINITION.findall(self.text)[:1]
        return _name(name, _words(self.binding))

    def instantiate(self) -> str:
        """The text of the function."""
        return instantiate(self.text, self.binding)


def templates() -> Iterator[Template]:
    """Each function of the prelude for each combination of types."""
    for path in sorted(_FOLDER.glob("*.cl")):
        parts = re.split(r"^//!(.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for header, body in zip(parts[1::2], parts[2::2], strict=True):
            functions = _split(body)
            *clauses, last = (clause.strip() for clause in header.split(";"))
            is_library = last == "library"
            for binding in _bindings(clauses if is_library else [*clauses, last]):
                library = "_".join([path.stem, *binding.values()]) if is_library else ""
                yield from (Template(text, binding, library) for text in functions)


def _bindings(clauses: Iterable[str]) -> Iterator[dict[str, str]]:
    """The element types of template words such as "T", in every combination that a line of a file states."""
    words, choices = [], []
    for clause in clauses:
        word, types = clause.split("=")
        words.append(word.strip())
        choices.append(types.split())
    for combination in product(*choices):
        yield dict(zip(words, combination, strict=True))


def _split(text: str) -> list[str]:
    """One string for each function: all lines after the previous function, up to its closing brace."""
    return [part.strip("\n") + "\n}\n" for part in re.split(r"^}\n", text, flags=re.MULTILINE) if "rx_" in part]


def _words(binding: Mapping[str, str]) -> dict[str, str]:
    """What the words of a template stand for within names."""
    words = dict(binding)
    if "T" in words and words["T"] in _COMPLEX_OF:
        words["C"] = _COMPLEX_OF[words["T"]]
    if "I" in words:
        words["U"] = words["I"].replace("s", "u")
    return words


def _name(identifier: str, words: Mapping[str, str]) -> str:
    """The name of a function with the types of its words."""
    return "_".join(words.get(part, part) for part in identifier.split("_"))


def instantiate(text: str, binding: Mapping[str, str]) -> str:
    """Writes out a template for one binding of its words."""
    words = _words(binding)
    macros = {"T2": _CL_TYPES[words["C"]]} if "C" in words else {}
    for word, name in binding.items():
        macros |= _macros(word, name)

    def replace(match: re.Match[str]) -> str:
        identifier: str = match[0]
        if identifier in macros:
            return macros[identifier]
        if identifier.startswith("as_") and identifier[3:] in macros:
            return "as_" + macros[identifier[3:]]
        if identifier.startswith("rx_"):
            return _name(identifier, words)
        if identifier.startswith("RX_"):
            return "_".join(words[part].upper() if part in words else part for part in identifier.split("_"))
        return identifier

    text = re.sub(r"\b[A-Za-z_]\w*", replace, text)
    real = words.get("T")
    if real:
        text = _FLOAT_LITERAL.sub(lambda m: m[0] + ("f" if m[1] and real == "f32" else ""), text)
        text = re.sub(r"\bK\((\w+)\)", lambda m: constant(real, m[1]), text)
        text = re.sub(r"\bPOLY\((\w+), (\w+)\)", lambda m: _polynomial(real, m[1], m[2]), text)
    return text


def _macros(word: str, name: str) -> dict[str, str]:
    """The text for a template word and the words derived from it, when it is bound to the element type `name`."""
    if name in _EIGHT_BITS:
        return _eight_bit_macros(word, name)
    element, _, lanes = name.partition("x")
    if lanes:
        of_element = _macros(word, element)
        return {key: of_element[key] + lanes for key in (word, f"BITS_{word}", f"UBITS_{word}")}
    result = {word: _CL_TYPES[name]}
    kind, bits = name[0], int(name[1:])
    if kind == "f":
        result[f"BITS_{word}"] = _CL_TYPES[f"s{bits}"]
        result[f"UBITS_{word}"] = _CL_TYPES[f"u{bits}"]
        mantissa = {32: 23, 64: 52}[bits]
        bias, unsigned = 2 ** (bits - mantissa - 2) - 1, "u" + "l" * (bits == 64)
        result[f"MANTISSA_{word}"], result[f"BIAS_{word}"] = str(mantissa), str(bias)
        result[f"SIGN_{word}"] = hex(1 << bits - 1) + unsigned
        infinity = hex((2 * bias + 1) << mantissa) + unsigned
        result[f"INF_{word}"], result[f"NAN_{word}"] = infinity, f"as_{_CL_TYPES[name]}({infinity} | {infinity} >> 1)"
        result[f"INFINITY_{word}"] = f"as_{_CL_TYPES[name]}({infinity})"
        result[f"TINY_{word}"], result[f"LEAST_{word}"] = f"0x1p{1 - bias}", f"0x1p{1 - bias - mantissa}"
        result[f"ROUND_{word}"] = f"0x1.8p{mantissa}"
    elif kind in "su":
        low, high = (0, 2**bits - 1) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        suffix = {"s": "", "u": "u"}[kind] + ("l" if bits == 64 else "")
        result[f"U_{word}"], result[f"S_{word}"] = _CL_TYPES[f"u{bits}"], _CL_TYPES[f"s{bits}"]
        result[f"WIDE_U_{word}"] = _CL_TYPES[f"u{max(bits, 32)}"]
        result[f"MIN_{word}"] = f"{low}{suffix}" if low == 0 else f"(-{high}{suffix} - 1)"
        result[f"MAX_{word}"] = f"{high}{suffix}"
        result[f"WIDTH_{word}"] = str(bits)
        result[f"LIMIT_{word}"] = f"0x1p{bits if kind == 'u' else bits - 1}"
    return result


def _eight_bit_macros(word: str, name: str) -> dict[str, str]:
    """The constants of a format of at most 8 bits, under the names that convert.cl uses; literals are f32's."""
    mantissa, bias, omits = _EIGHT_BITS[name]
    sign = 1 << int(name[1]) - 1
    top = {"fnuz": 127, "fn": 126, "special": sign - 1, "": ((127 >> mantissa) << mantissa) - 1}[omits]  # of numbers
    special = {"fnuz": 0x80, "fn": 0x7F, "special": 0x100, "": top + 1}[omits]
    largest = (2**mantissa + top % 2**mantissa) * 2.0 ** ((top >> mantissa) - bias - mantissa)
    values = {
        "EXPONENT_BITS": str(sign.bit_length() - 1 - mantissa),
        "MANTISSA_BITS": str(mantissa),
        "SIGN_CODE": f"{sign}u",
        "SIGN_PLACES": f"{31 - sign.bit_length() + 1}",
        "HALF": f"{1 << 22 - mantissa}u",
        "QUANTA": f"0x1p{24 - bias - mantissa}f",
        "LEAST": f"0x1p{1 - bias}f",
        "MAX": f"{largest}f",
        "OVERFLOW": "as_float(0x7fc00000u)" if omits else "as_float(0x7f800000u)",
        "ZERO_SIGN": "0u" if omits == "fnuz" else "0x80000000u",
        "SHIFT": str(23 - mantissa),
        "RAISE": f"0x1p{127 - bias}f",
        "LOWER": f"0x1p{bias - 127}f",
        "SPECIAL_CODE": f"{special}u",
        "INFINITY_CODE": f"{0x80 if omits else special}u",
        "NAN_CODE": f"{special}u",
        "QUIET": "0x00400000u" if omits else "0u",
        "PAYLOAD": "0u" if omits else f"{(1 << mantissa) - 1}u",
    }
    return {f"{key}_{word}": value for key, value in values.items()}


@cache
def _coefficients() -> dict[str, dict[str, Any]]:
    """For each type and name a number as text, or the coefficients of a polynomial."""
    coefficients: dict[str, dict[str, Any]] = json.loads((_FOLDER / "coefficients.json").read_text(encoding="utf-8"))
    return coefficients


def constant(real: str, name: str) -> str:
    """The constant `name` of coefficients.json, as a literal of type `real` ("f32" or "f64")."""
    return _literal(real, _coefficients()[real][name])


def _literal(real: str, value: str) -> str:
    text = value + ("f" if real == "f32" else "")
    return f"({text})" if value.startswith("-") else text


def _polynomial(real: str, name: str, x: str) -> str:
    *lower, result = (_literal(real, c) for c in _coefficients()[real][name])
    for c in reversed(lower):
        result = f"RX_FMA_{real.upper()}({result}, {x}, {c})"
    return result
