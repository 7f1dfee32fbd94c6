"""What the generators of cases share: shapes and computations as text, and random values.

`edge(...)` and `structured(...)` make a case from the lines of an ENTRY computation and its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from refxla_spec import text
from refxla_spec.module import Instruction
from refxla_spec.numerics import type_of
from refxla_spec.operation import operation
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from . import Case, seeded


def array_types(*kinds: str) -> list[ElementType]:
    """The element types of arrays, of these kinds or all of them, in the specification's order."""
    return [t for t in ELEMENT_TYPES.values() if t.is_array and (not kinds or t.kind in kinds)]


def groups(thorough: bool, *kinds: str) -> list[tuple[str, list[ElementType]]]:
    """The element types with a label each, grouped into cases. The signed f8 types share one, as do the integers of one
    bit, and those of two and four; each other type, and with `thorough` every type, has a case of its own."""
    by_label: dict[str, list[ElementType]] = {}
    for t in array_types(*kinds):
        label = t.name
        if not thorough and t.is_float and t.bits == 8 and t.name != "f8e8m0fnu":
            label = "f8"
        elif not thorough and t.is_integer and t.bits < 8:
            label = "s1_u1" if t.bits == 1 else "s2_to_u4"
        by_label.setdefault(label, []).append(t)
    return list(by_label.items())


def shape(element_type: str | ElementType, dimensions: Sequence[int] = (), layout: Sequence[int] | None = None) -> str:
    """An array's shape as text, with minor_to_major `layout` if given."""
    text = f"{element_type}[{','.join(map(str, dimensions))}]"
    return text if layout is None else text + braces(layout)


def braces(numbers: Sequence[int]) -> str:
    """{0,1}: a list of numbers as HLO writes it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def edge(opcode: str, variant: str, lines: str, *inputs: np.ndarray, type: str = "") -> Case:
    """The case "edge/<opcode>/<variant>"; otherwise as `structured`."""
    return _case("edge", opcode, variant, lines, inputs, "", type)


def structured(
    opcode: str, variant: str, lines: str, *inputs: np.ndarray, before: str = "", type: str = "", header: str = ""
) -> Case:
    """The case "structured/<opcode>/<variant>": a module of the computations `before` and an ENTRY computation.

    The ENTRY computation has one parameter for each input, called p0, p1, ..., and then `lines`, which include the
    ROOT. In a line with `_` for a shape ("ROOT r = _ dot(p0, p1), ..."), it is inferred; `_bf16` is inferred for a
    result of that element type, for operations that leave it to the instruction. `header` are attributes of the module.
    Raises Violation if the operation does not allow the line.
    """
    return _case("structured", opcode, variant, lines, inputs, before, type, header)


def _case(
    kind: str,
    opcode: str,
    variant: str,
    lines: str,
    inputs: Sequence[np.ndarray],
    before: str,
    type_: str,
    header: str = "",
) -> Case:
    name = f"{kind}/{opcode}/{variant}"
    parameters = [f"p{n} = {_entry_shape(value)} parameter({n})" for n, value in enumerate(inputs)]
    body = "\n".join(f"  {line.strip()}" for line in [*parameters, *lines.strip().splitlines()])
    called = f"{before.strip()}\n\n" if before else ""
    module = "".join(c if c.isalnum() else "_" for c in name)
    header = f", {header}" if header else ""
    hlo = f"HloModule {module}{header}\n\n{called}ENTRY main {{\n{body}\n}}\n"
    return Case(name, kind, opcode, _inferred(hlo), tuple(inputs), type=type_)


_OPEN = re.compile(r"(?<== )_(\w*)(?= )")


def _inferred(hlo: str) -> str:
    """The module with the missing shapes inferred, in order."""
    if not _OPEN.search(hlo):
        return hlo
    names = re.findall(r"(\S+) = _\w* ", hlo)
    module = text.parse(_OPEN.sub(lambda m: f"{m[1] or 'f32'}[]", hlo))
    by_name: dict[str, Instruction] = {i.name: i for i in module.entry.instructions}
    shapes = []
    for name in names:
        i = by_name[name]
        i.shape = operation(i.opcode).infer(i, *(o.shape for o in i.operands))
        shapes.append(str(i.shape))
    return _OPEN.sub(lambda m: shapes.pop(0), hlo)


def several(
    opcode: str, variant: str, lines: Sequence[str], *inputs: np.ndarray, before: str = "", constants: str = ""
) -> Case:
    """A structured case with one result for each line ("_ pad(p0, p1), ..."), in a tuple if there are several.

    `constants` are lines that come before them.
    """
    if len(lines) == 1:
        return structured(opcode, variant, f"{constants}ROOT r = {lines[0]}", *inputs, before=before)
    results = [f"r{n} = {line}" for n, line in enumerate(lines)]
    names = ", ".join(f"r{n}" for n in range(len(lines)))
    return structured(
        opcode, variant, constants + "\n".join([*results, f"ROOT r = _ tuple({names})"]), *inputs, before=before
    )


def _entry_shape(value: object) -> str:
    return str(Shape.of(value))


def not_finite(case: Case, labels: Sequence[str] = ("nan", "inf")) -> Iterator[Case]:
    """The same program on operands that are not finite: for each operand of a floating-point or complex type a case
    with NaN and one with infinities among its elements ("<name>_nan_0", "<name>_inf_0", ...), if the type has them;
    `labels` restricts these. With infinities, every third element of the other operands is 0: 0 times an infinity is
    NaN.

    Few elements are changed, so that much of the result stays finite and shows whether NaN has spread too far."""
    for n, x in enumerate(case.inputs):
        if not _is_real_or_complex(x) or not x.size:
            continue
        for label, specials in (("nan", (np.nan,)), ("inf", (np.inf, -np.inf))):
            name = f"{case.name}_{label}_{n}"
            rng, changed = seeded(name), x.copy()
            with np.errstate(all="ignore"):
                special = np.array(specials).astype(x.dtype)
            if label not in labels or not (np.isnan(special) if label == "nan" else np.isinf(special)).all():
                continue  # for example a type without infinities
            places = rng.choice(x.size, 1 + min(x.size - 1, x.size // 60), replace=False)
            changed.reshape(-1)[places] = np.resize(special, len(places))
            others = [_every_third_is_zero(v) if label == "inf" else v for v in case.inputs]
            yield replace(case, name=name, inputs=(*others[:n], changed, *others[n + 1 :]))


def _is_real_or_complex(value: object) -> bool:
    return isinstance(value, np.ndarray) and (type_of(value).is_float or type_of(value).is_complex)


def _every_third_is_zero(value: np.ndarray) -> np.ndarray:
    if not _is_real_or_complex(value) or value.size < 3 or type_of(value).name == "f8e8m0fnu":
        return value
    changed: np.ndarray = value.copy()
    changed.reshape(-1)[::3] = 0
    return changed


def random_values(
    rng: np.random.Generator, element_type: str | ElementType, dimensions: Sequence[int] = ()
) -> np.ndarray:
    """Integers over the whole range of their type, floats from a normal distribution, pred evenly."""
    t = ELEMENT_TYPES[element_type] if isinstance(element_type, str) else element_type
    dims = tuple(dimensions)
    if t.kind == "pred":
        return np.asarray(rng.random(dims) < 0.5)
    if t.is_integer:
        low = -(1 << (t.bits - 1)) if t.kind == "signed" else 0
        wide = np.int64 if t.kind == "signed" else np.uint64
        numbers = rng.integers(low, low + (1 << t.bits) - 1, dims, endpoint=True, dtype=wide)
        return np.asarray(numbers).astype(t.dtype)
    if t.is_complex:
        return np.asarray(rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(t.dtype)
    normal = np.asarray(rng.standard_normal(dims))
    return (np.exp2(np.round(normal)) if t.name == "f8e8m0fnu" else normal).astype(t.dtype)


def small_integers(
    rng: np.random.Generator, element_type: str | ElementType, dimensions: Sequence[int], low: int = -3, high: int = 3
) -> np.ndarray:
    """Integers between low and high in any type that has them; negative only if the type is signed."""
    t = ELEMENT_TYPES[element_type] if isinstance(element_type, str) else element_type
    if t.kind in ("unsigned", "pred") or t.name == "f8e8m0fnu":
        low = max(low, 0)
    if t.is_integer:
        high = min(high, (1 << (t.bits - (t.kind == "signed"))) - 1)
        low = max(low, -(1 << (t.bits - 1)))
    return np.asarray(rng.integers(low, high, tuple(dimensions), endpoint=True)).astype(t.dtype)


def combiner(name: str, opcode: str, element_type: str | ElementType) -> str:
    """A computation of two scalars by one operation."""
    t = element_type
    return f"{name} {{ a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT c = {t}[] {opcode}(a, b) }}\n"


def comparator(name: str, direction: str, element_type: str | ElementType, more: str = "") -> str:
    """A computation that compares two scalars; `more` are further attributes."""
    t = element_type
    return (
        f"{name} {{ a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(a, b), direction={direction}{more} }}\n"
    )


def neutral(opcode: str, element_type: str | ElementType) -> str:
    """The literal of the identity of add, multiply, maximum, minimum, and, or."""
    t = ELEMENT_TYPES[element_type] if isinstance(element_type, str) else element_type
    if t.kind == "pred":
        return "true" if opcode in ("and", "multiply", "minimum") else "false"
    if opcode in ("add", "or", "xor"):
        return "0"
    if opcode == "multiply":
        return "-1" if t.name == "s1" else "1"  # s1 is 0 or -1, and -1 * -1 wraps to -1
    if opcode == "and":
        return "-1" if t.kind == "signed" else str((1 << t.bits) - 1)
    if t.is_float:
        return "-inf" if opcode == "maximum" else "inf"
    low = -(1 << (t.bits - 1)) if t.kind == "signed" else 0
    return str(low if opcode == "maximum" else low + (1 << t.bits) - 1)


Program = tuple[Sequence[np.ndarray], Sequence[str], str]  # inputs, one line for each result, computations before them


def by_type(
    opcode: str, suffix: str, thorough: bool, program: Callable[[ElementType, int], Program | None], *kinds: str
) -> Iterator[Case]:
    """A case for each group of element types (see `groups`) of these kinds: "structured/<opcode>/<group><suffix>".

    program(t, n) returns the part of one type, whose inputs are the parameters from pn on; None if it has none.
    """
    for label, types in groups(thorough, *kinds):
        inputs: list[np.ndarray] = []
        lines: list[str] = []
        before = ""
        for t in types:
            part = program(t, len(inputs))
            if part is not None:
                inputs += part[0]
                lines += part[1]
                before += part[2]
        if lines:
            yield several(opcode, f"{label}{suffix}", lines, *inputs, before=before)
