"""Edge values of every elementwise operation and every element type that it takes.

The operations and the types that each takes are those of the specification: a new operation or type is included
automatically. For an operation with one operand, the operand is the type's table of edge values and some random bit
patterns; for one with two, all pairs of a table. One case is one operation and one type, with all its variants
(directions of a comparison, bits of a rounding) as elements of a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from refxla_spec.accuracy import max_ulp
from refxla_spec.compare import precision
from refxla_spec.elementwise import is_elementwise
from refxla_spec.errors import Error
from refxla_spec.module import Instruction
from refxla_spec.operation import Operation, operation, operations
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from . import Case, seeded
from .building import array_types, edge, groups, random_values, shape
from .values import all_values, edges, random_bits, spread, ties


def cases(thorough: bool) -> Iterator[Case]:
    """Every elementwise operation, in the specification's order; `thorough` has larger tables, and a case for each
    type."""
    for rule in operations().values():
        if rule.opcode in SPECIAL:
            yield from SPECIAL[rule.opcode](thorough)
        elif is_elementwise(rule.opcode):
            for label, types in groups(thorough):
                yield from _ordinary(rule, label, types, thorough)
            yield from _medium(rule)


MEDIUM = ((2053,), (3, 2, 5, 1, 7))  # more elements than a block or a work-group, and five dimensions


def _medium(rule: Operation) -> Iterator[Case]:
    """An array of some thousand elements and one of five dimensions, of the first of a few types that the operation
    takes."""
    for t in (ELEMENT_TYPES[name] for name in ("f32", "s32", "pred", "c64")):
        result = result_type(rule, t)
        if result is None:
            continue
        rng, lines = seeded(f"edge/{rule.opcode}/medium"), []
        inputs: list[np.ndarray] = []
        for dims in MEDIUM:
            names = ", ".join(f"p{len(inputs) + n}" for n in range(rule.fixed_arity))
            lines.append((shape(result, dims), f"{rule.opcode}({names})"))
            inputs += [random_values(rng, t, dims) for _ in range(rule.fixed_arity)]
        yield variants(rule.opcode, "medium", lines, *inputs)
        return


def _ordinary(rule: Operation, label: str, types: list[ElementType], thorough: bool) -> Iterator[Case]:
    """An operation whose operands have one type and that needs no attribute, on the types that it takes."""
    lines = []
    inputs: list[np.ndarray] = []
    for t in types:
        result = result_type(rule, t)
        if result is None:
            continue
        operands: Sequence[np.ndarray]
        if rule.arity == 1:
            operands = [unary_table(rule.opcode, t, thorough)]
            if t.is_float and t.bits >= 16 and max_ulp(rule.opcode, t.name):
                operands = [np.concatenate([*operands, spread(seeded(f"edge/{rule.opcode}/{t}/spread"), t)])]
        else:
            operands = tuples(edges(t, few=not thorough), rule.fixed_arity)
        names = ", ".join(f"p{len(inputs) + n}" for n in range(rule.fixed_arity))
        lines.append((shape(result, operands[0].shape), f"{rule.opcode}({names})"))
        inputs.extend(operands)
    if lines:
        yield variants(rule.opcode, label, lines, *inputs)


def result_type(rule: Operation, t: ElementType) -> ElementType | None:
    """The element type of the operation's result on operands of one type; None if it does not take that type."""
    operands = [Instruction(f"p{n}", "parameter", Shape.array(t, (1,))) for n in range(rule.fixed_arity)]
    trial = Instruction("r", rule.opcode, Shape.array(t, (1,)), operands)
    try:
        return rule.infer(trial, *(o.shape for o in operands)).element_type
    except Error:
        return None


def unary_table(opcode: str, t: ElementType, thorough: bool) -> np.ndarray:
    """The operand of an operation of one operand: edges and random bits, or all values of a small type."""
    if t.bits <= 8 or (thorough and t.bits <= 16):
        return all_values(t)
    count = 4000 if thorough else 64
    return np.concatenate([edges(t), random_bits(seeded(f"edge/{opcode}/{t}"), t, count)])


def tuples(table: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """All pairs (triples, ...) of a table's elements, as `count` arrays of one dimension."""
    grid = np.indices((len(table),) * count).reshape(count, -1)
    return tuple(table[g] for g in grid)


# Operations with attributes, or with operands and results of several types.


def variants(opcode: str, label: str, lines: list[tuple[str, str]], *inputs: np.ndarray) -> Case:
    """A case with one result for each line, which is the result's shape and the instruction's text."""
    if len(lines) == 1:
        return edge(opcode, label, f"ROOT r = {lines[0][0]} {lines[0][1]}", *inputs)
    text = "".join(f"r{n} = {result} {instruction}\n" for n, (result, instruction) in enumerate(lines))
    text += f"ROOT r = ({', '.join(s for s, _ in lines)}) tuple({', '.join(f'r{n}' for n in range(len(lines)))})"
    return edge(opcode, label, text, *inputs)


def _convert(thorough: bool) -> Iterator[Case]:
    """From each type to all types of one kind at once: integers and pred, floats of 16 bits and more, f8 types, ..."""
    targets = {
        "integer": [t for t in array_types("pred", "signed", "unsigned") if t.bits > 1],
        "bit": [t for t in array_types("signed", "unsigned") if t.bits == 1],
        "float": [t for t in array_types("float") if t.bits >= 16],
        "f8": [t for t in array_types("float") if t.bits == 8 and t.name != "f8e8m0fnu"],
        **{t.name: [t] for t in array_types("float") if t.bits < 8 or t.name == "f8e8m0fnu"},
        "complex": array_types("complex"),
    }
    for label, sources in groups(thorough):
        for kind, types in targets.items():
            inputs, lines = [_convert_table(s, types, thorough) for s in sources], []
            for n, (source, operand) in enumerate(zip(sources, inputs, strict=True)):
                choices = types if kind == "complex" or not source.is_complex else []
                lines += [(shape(t, operand.shape), f"convert(p{n})") for t in choices]
            if lines:
                yield variants("convert", f"{label}_to_{kind}", lines, *inputs)


def _convert_table(source: ElementType, types: list[ElementType], thorough: bool) -> np.ndarray:
    """The operand of a conversion to these types: as for any operation, and numbers halfway between two."""
    table = unary_table("convert", source, thorough)
    if not (source.is_integer or source.is_float) or source.bits < 16:
        return table
    return np.concatenate([table, *(ties(source, t) for t in types if t.is_float)])


def _bitcast_convert(thorough: bool) -> Iterator[Case]:
    """Between all types: of the same width, to narrower ones (one dimension more) and to wider ones (one less)."""
    rule = operation("bitcast-convert")
    for label, sources in groups(thorough):
        inputs: list[np.ndarray] = []
        lines: dict[str, list[tuple[str, str]]] = {}
        for source in sources:
            table = unary_table("bitcast-convert", source, thorough)
            table = np.resize(table, max(384, len(table) // 384 * 384))  # 384: all ratios of widths divide it
            for t in array_types():
                operand, dims = table, table.shape
                if t.bits < source.bits:
                    dims = (*dims, source.bits // t.bits)
                elif t.bits > source.bits and t.bits % source.bits == 0:
                    operand = table.reshape(-1, t.bits // source.bits)
                    dims = operand.shape[:1]
                number = next((n for n, i in enumerate(inputs) if _same(i, operand)), len(inputs))
                if not takes(rule, Shape.array(t, dims), Shape.of(operand)):
                    continue
                if number == len(inputs):
                    inputs.append(operand)
                kind = "pred" if t.kind == "pred" else "small" if t.is_float and t.bits <= 8 else "other"
                kind = "bit" if t.bits == 1 else kind
                lines.setdefault(kind, []).append((shape(t, dims), f"bitcast-convert(p{number})"))
        for kind, some in lines.items():
            yield variants("bitcast-convert", f"{label}_to_{kind}", some, *inputs)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape


def takes(rule: Operation, result: Shape, *operands: Shape, **attributes: object) -> bool:
    """Whether the operation's constraints allow operands, attributes and result."""
    parameters = [Instruction(f"p{n}", "parameter", s) for n, s in enumerate(operands)]
    try:
        rule.infer(Instruction("r", rule.opcode, result, parameters, dict(attributes)), *operands)
    except Error:
        return False
    return True


def _compare(thorough: bool) -> Iterator[Case]:
    """All directions; for floats in both orders, each in both forms."""
    from refxla_spec.ops.compare import DIRECTIONS, ORDERS, TYPES

    for label, types in groups(thorough):
        lines = []
        inputs: list[np.ndarray] = []
        for t in types:
            lhs, rhs = tuples(edges(t, few=not thorough), 2)
            pair = f"p{len(inputs)}, p{len(inputs) + 1}"
            inputs += [lhs, rhs]
            directions = [d for d in DIRECTIONS if d in ("EQ", "NE") or not t.is_complex]
            options = (("order", ORDERS), ("type", TYPES))
            for suffix in (
                "",
                *(f", {n}={o}" for n, orders in options for o, kinds in orders.items() if t.kind in kinds),
            ):
                result = shape("pred", lhs.shape)
                lines += [(result, f"compare({pair}), direction={d}{suffix}") for d in directions]
        yield variants("compare", label, lines, *inputs)


def _clamp(thorough: bool) -> Iterator[Case]:
    """All triples of a table, and scalar bounds."""
    for label, types in groups(thorough):
        lines = []
        inputs: list[np.ndarray] = []
        for t in types:
            table = edges(t, few=True)
            if not thorough and len(table) > 12:
                table = table[:: -(-len(table) // 12)]
            low, operand, high = tuples(table, 3)
            a, x, b, c, d = (f"p{len(inputs) + n}" for n in range(5))
            inputs += [low, operand, high, np.asarray(table[len(table) // 3]), np.asarray(table[-1])]
            result = shape(t, operand.shape)
            lines += [(result, f"clamp({a}, {x}, {b})"), (result, f"clamp({c}, {x}, {d})")]
        yield variants("clamp", label, lines, *inputs)


def _select(thorough: bool) -> Iterator[Case]:
    """pred as an array and as a scalar: a NaN, or a zero's sign, passes unchanged."""
    for label, types in groups(thorough):
        lines = []
        inputs: list[np.ndarray] = []
        for t in types:
            on_true = unary_table("select", t, thorough)
            chosen, which, yes, no = (f"p{len(inputs) + n}" for n in range(4))
            inputs += [np.arange(len(on_true)) % 3 == 0, np.asarray(False), on_true, on_true[::-1].copy()]
            result = shape(t, on_true.shape)
            lines += [(result, f"select({chosen}, {yes}, {no})"), (result, f"select({which}, {yes}, {no})")]
        yield variants("select", label, lines, *inputs)


def _complex(thorough: bool) -> Iterator[Case]:
    for t in array_types("float"):
        result = result_type(operation("complex"), t)
        if result is not None:
            real, imag = tuples(edges(t, few=not thorough), 2)
            yield edge("complex", t.name, f"ROOT r = {shape(result, real.shape)} complex(p0, p1)", real, imag)


REDUCED = ((8, 23), (5, 10), (8, 7), (5, 2), (4, 3), (3, 4), (2, 1), (1, 0), (8, 0), (5, 0), (1, 7), (11, 52), (8, 1))


def _reduce_precision(thorough: bool) -> Iterator[Case]:
    """Formats wider and narrower than the operand's, down to one exponent bit and no mantissa bits."""
    formats = [(e, m) for e in range(1, 12) for m in (0, 1, 2, 3, 4, 7, 10, 22, 23, 51, 52)] if thorough else REDUCED
    rule = operation("reduce-precision")
    for t in array_types("float"):
        operand = unary_table("reduce-precision", t, thorough)
        if t.bits >= 16:
            operand = np.concatenate([operand, *(ties(t, ELEMENT_TYPES[n]) for n in ("f8e5m2", "f16", "bf16", "f32"))])
        if takes(rule, Shape.of(operand), Shape.of(operand), exponent_bits=5, mantissa_bits=2):
            result = shape(t, operand.shape)
            lines = [(result, f"reduce-precision(p0), exponent_bits={e}, mantissa_bits={m}") for e, m in formats]
            yield variants("reduce-precision", t.name, lines, operand)


def _stochastic_convert(thorough: bool) -> Iterator[Case]:
    """Each float to each signed integer type (others are undefined), with random bits of the operand's width."""
    rule = operation("stochastic-convert")
    for source in array_types("float"):
        operand = unary_table("stochastic-convert", source, thorough)
        for bits in array_types("unsigned"):
            random = random_bits(seeded(f"edge/stochastic-convert/{source}"), bits, len(operand))
            for label, few in (("", False), ("_to_s1", True)):
                lines = [
                    (shape(t, operand.shape), "stochastic-convert(p0, p1)")
                    for t in array_types("signed")
                    if (t.bits == 1) == few
                    and takes(rule, Shape.array(t, operand.shape), *map(Shape.of, (operand, random)))
                ]
                if lines:
                    yield variants("stochastic-convert", f"{source}{label}", lines, operand, random)


def _power(thorough: bool) -> Iterator[Case]:
    """All pairs, and integer exponents of every size, odd and even ones, for bases of both signs."""
    rule = operation("power")
    for label, types in groups(thorough):
        yield from _ordinary(rule, label, types, thorough)
    for t in (ELEMENT_TYPES[name] for name in ("f16", "bf16", "f32", "f64", "s8", "s32", "u32", "s64")):
        digits = precision(t)[0] if t.is_float else t.bits - 1
        whole = [(1 << k) + d for k in range(1, digits) for d in (-1, 0, 1)] + [(1 << digits) - 1]
        if t.is_float:
            near_one = [s * (1 + d * 2.0 ** (1 - digits)) for s in (-1, 1) for d in (0, 1, 4, -1)]
            bases = [*near_one, -2.0, -0.5, -3.0, 2.0, -0.0, 0.0, -np.inf, np.inf, -1.5]
            exponents = [*whole, *(-n for n in whole), *(n + 0.5 for n in whole)]
        else:
            bases = [b for b in (-3, -2, -1, 0, 1, 2, 3, 5, 10) if b >= 0 or t.kind == "signed"]
            exponents = [n for n in whole if n < 1 << (t.bits - (t.kind == "signed"))]
        base, exponent = (np.array(x).astype(t.dtype) for x in (bases, exponents))
        x, y = (g.reshape(-1) for g in np.meshgrid(base, exponent))
        yield edge("power", f"whole_{t}", "ROOT r = " + shape(t, x.shape) + " power(p0, p1)", x, y)


SPECIAL: dict[str, Callable[[bool], Iterator[Case]]] = {
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "compare": _compare,
    "clamp": _clamp,
    "select": _select,
    "complex": _complex,
    "power": _power,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic_convert,
}
