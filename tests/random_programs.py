"""Random HLO programs, drawn by hypothesis: small shapes, all kinds of operations, loops and conditionals, nested.

    text, arguments = programs(draw, floats=False)

Without floats every value is s32 or pred, so a compiled program must give the interpreter's bits. Loops always end. The
same value may be the state of a loop twice, a result and a state, a result several times; states change places;
parameters may be tuples, and may be returned as they are; dimensions may be 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

LARGEST = 300  # elements of a value
SIZES = st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, 8, 17])

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    name: str
    type: str
    dims: Dims

    @property
    def shape(self) -> str:
        return shape_text(self.type, self.dims)


def shape_text(type: str, dims: Dims) -> str:
    return f"{type}[{','.join(map(str, dims))}]"


def braces(numbers) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


class Program:
    """The computations of a module so far, and names that are not taken."""

    def __init__(self, draw: Callable[[Any], Any], floats: bool) -> None:
        self.draw, self.floats = draw, floats
        self.computations: dict[str, str] = {}
        self.count = 0
        self.types = ["s32", "s32", "s32", "pred"] + (["f32"] * 6 + ["bf16"] if floats else [])

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def reducer(self, opcode: str, type: str) -> str:
        name = f"{opcode}_{type}"
        scalar = f"{type}[]"
        self.computations[name] = (
            f"{name} {{ {name}.a = {scalar} parameter(0)\n  {name}.b = {scalar} parameter(1)\n"
            f"  ROOT {name}.c = {scalar} {opcode}({name}.a, {name}.b) }}"
        )
        return name

    def less(self, type: str) -> str:
        name = f"less_{type}"
        self.computations[name] = (
            f"{name} {{ {name}.a = {type}[] parameter(0)\n  {name}.b = {type}[] parameter(1)\n"
            f"  ROOT {name}.c = pred[] compare({name}.a, {name}.b), direction=LT }}"
        )
        return name


class Frame:
    """One computation that grows."""

    def __init__(self, program: Program, depth: int, entry: bool = False) -> None:
        self.program, self.draw, self.depth, self.entry = program, program.draw, depth, entry
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.parameters: list[Value | list[Value]] = []

    # -- values -------------------------------------------------------------------------------------------------------

    def put(self, type: str, dims: Dims, text: str) -> Value:
        value = Value(self.program.fresh(), type, tuple(dims))
        self.lines.append(f"{value.name} = {value.shape} {text}")
        self.values.append(value)
        return value

    def parameter(self, type: str, dims: Dims) -> Value:
        value = self.put(type, dims, f"parameter({len(self.parameters)})")
        self.parameters.append(value)
        return value

    def tuple_parameter(self, shapes: list[tuple[str, Dims]]) -> list[Value]:
        name = self.program.fresh("p")
        joined = ", ".join(shape_text(t, d) for t, d in shapes)
        self.lines.append(f"{name} = ({joined}) parameter({len(self.parameters)})")
        elements = [self.put(t, d, f"get-tuple-element({name}), index={n}") for n, (t, d) in enumerate(shapes)]
        self.parameters.append(elements)
        return elements

    def of(self, type: str, dims: Dims) -> Value:
        """A value of that type and dimensions: one that is there, or a new one."""
        found = [v for v in self.values if v.type == type and v.dims == dims]
        choice = self.draw(st.integers(0, 5))
        if found and choice:
            return self.draw(st.sampled_from(found))
        if choice == 1 and dims and type != "pred":
            return self.put(type, dims, f"iota(), iota_dimension={self.draw(st.integers(0, len(dims) - 1))}")
        if choice == 2 and dims and 0 not in dims:
            numbers = [str(n % 7 - 3) if type != "pred" else ("true", "false")[n % 2] for n in range(prod(dims))]
            if len(dims) == 1:
                return self.put(type, dims, f"constant({{{', '.join(numbers)}}})")
            flat = self.put(type, (prod(dims),), f"constant({{{', '.join(numbers)}}})")
            return self.put(type, dims, f"reshape({flat.name})")
        if self.entry and choice != 3:
            return self.parameter(type, dims)
        scalar = self.scalar_constant(type)
        return self.put(type, dims, f"broadcast({scalar.name}), dimensions={{}}") if dims else scalar

    def scalar_constant(self, type: str, number: int | None = None) -> Value:
        number = self.draw(st.integers(-3, 4)) if number is None else number
        return self.put(type, (), f"constant({('false', 'true')[number % 2] if type == 'pred' else number})")

    def any(self, *types: str) -> Value:
        """Any value, of one of these types if any are named."""
        found = [v for v in self.values if not types or v.type in types]
        if found:
            return self.draw(st.sampled_from(found))
        return self.of(types[0], self.dims())

    def dims(self) -> Dims:
        dims = tuple(self.draw(st.lists(SIZES, max_size=3)))
        return dims if prod(dims) <= LARGEST else ()

    def index(self) -> Value:
        return self.of("s32", ())

    # -- growing -------------------------------------------------------------------------------------------------------

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            rules = SIMPLE + (CONTROL if self.depth else ())
            self.draw(st.sampled_from(rules))(self)

    def text(self, name: str, root: list[Value], force_tuple: bool) -> str:
        """The computation, returning these values."""
        if len(root) == 1 and not force_tuple:
            last = self.put(root[0].type, root[0].dims, f"copy({root[0].name})")
            at = next(n for n, line in enumerate(self.lines) if line.startswith(f"{last.name} ="))
            self.lines[at] = f"ROOT {self.lines[at]}"
        else:
            result = self.program.fresh("r")
            shapes, names = ", ".join(v.shape for v in root), ", ".join(v.name for v in root)
            self.lines.append(f"ROOT {result} = ({shapes}) tuple({names})")
        return f"{name} {{\n  " + "\n  ".join(self.lines) + "\n}"


# -- rules: each adds something to a frame ----------------------------------------------------------------------------


def arithmetic(f: Frame) -> None:
    a = f.any("s32", "f32", "bf16") if f.program.floats else f.any("s32")
    opcode = f.draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"]))
    f.put(a.type, a.dims, f"{opcode}({a.name}, {f.of(a.type, a.dims).name})")


def logic(f: Frame) -> None:
    a = f.any("pred", "s32")
    f.put(a.type, a.dims, f"{f.draw(st.sampled_from(['and', 'or', 'xor']))}({a.name}, {f.of(a.type, a.dims).name})")


def unary(f: Frame) -> None:
    a = f.any()
    if a.type == "pred":
        f.put("pred", a.dims, f"not({a.name})")
    elif a.type == "s32":
        f.put("s32", a.dims, f"{f.draw(st.sampled_from(['negate', 'abs', 'not', 'sign']))}({a.name})")
    else:
        opcodes = ["negate", "abs", "tanh", "exponential", "logistic", "sine", "floor", "rsqrt", "log"]
        f.put(a.type, a.dims, f"{f.draw(st.sampled_from(opcodes))}({a.name})")


def divide(f: Frame) -> None:
    a = f.any("s32", "f32")
    opcode = f.draw(st.sampled_from(["divide", "remainder"]))
    f.put(a.type, a.dims, f"{opcode}({a.name}, {f.of(a.type, a.dims).name})")


def convert(f: Frame) -> None:
    a = f.any()
    f.put(f.draw(st.sampled_from(sorted(set(f.program.types)))), a.dims, f"convert({a.name})")


def compare_and_select(f: Frame) -> None:
    a = f.any()
    b = f.of(a.type, a.dims)
    p = f.put("pred", a.dims, f"compare({a.name}, {b.name}), direction={f.draw(st.sampled_from(['LT', 'EQ', 'GE']))}")
    if f.draw(st.booleans()):
        c = f.any()
        scalar = f.of("pred", ())
        p = p if c.dims == p.dims else scalar
        f.put(c.type, c.dims, f"select({p.name}, {c.name}, {f.of(c.type, c.dims).name})")


def clamp(f: Frame) -> None:
    a = f.any("s32", "f32")
    low, high = (f.of(a.type, f.draw(st.sampled_from([(), a.dims]))) for _ in range(2))
    f.put(a.type, a.dims, f"clamp({low.name}, {a.name}, {high.name})")


def broadcast(f: Frame) -> None:
    a = f.any()
    extra, at = f.draw(SIZES), f.draw(st.integers(0, len(a.dims)))
    if prod(a.dims) * extra <= LARGEST and len(a.dims) < 4:
        dims = [d + (d >= at) for d in range(len(a.dims))]
        f.put(a.type, (*a.dims[:at], extra, *a.dims[at:]), f"broadcast({a.name}), dimensions={braces(dims)}")


def reshape(f: Frame) -> None:
    a = f.any()
    size, dims = prod(a.dims), []
    while size > 1 and len(dims) < 2:
        dims.append(f.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= dims[-1]
    f.put(a.type, (*dims, size), f"reshape({a.name})")


def transpose(f: Frame) -> None:
    a = f.any()
    order = f.draw(st.permutations(range(len(a.dims))))
    f.put(a.type, tuple(a.dims[d] for d in order), f"transpose({a.name}), dimensions={braces(order)}")


def slice_(f: Frame) -> None:
    a = f.any()
    parts, dims = [], []
    for n in a.dims:
        start = f.draw(st.integers(0, max(0, n - 1)))
        limit, stride = f.draw(st.integers(start, n)), f.draw(st.integers(1, 2))
        parts.append(f"[{start}:{limit}:{stride}]")
        dims.append(-(-(limit - start) // stride))
    f.put(a.type, tuple(dims), f"slice({a.name}), slice={braces(parts)}")


def reverse(f: Frame) -> None:
    a = f.any()
    f.put(
        a.type,
        a.dims,
        f"reverse({a.name}), dimensions={braces(d for d in range(len(a.dims)) if f.draw(st.booleans()))}",
    )


def pad(f: Frame) -> None:
    a = f.any()
    parts, dims = [], []
    for n in a.dims:
        low, high, interior = f.draw(st.integers(-1, 2)), f.draw(st.integers(-1, 2)), f.draw(st.integers(0, 1))
        parts.append(f"{low}_{high}" + (f"_{interior}" if interior else ""))
        dims.append(n + max(n - 1, 0) * interior + low + high)
    if dims and min(dims) >= 0 and prod(dims) <= LARGEST:
        f.put(a.type, tuple(dims), f"pad({a.name}, {f.of(a.type, ()).name}), padding={'x'.join(parts)}")


def concatenate(f: Frame) -> None:
    a = f.any()
    if a.dims:
        axis = f.draw(st.integers(0, len(a.dims) - 1))
        b = f.of(a.type, (*a.dims[:axis], f.draw(SIZES), *a.dims[axis + 1 :]))
        parts = f.draw(st.sampled_from([[a], [a, b], [b, a], [a, b, a]]))
        dims = (*a.dims[:axis], sum(v.dims[axis] for v in parts), *a.dims[axis + 1 :])
        if prod(dims) <= LARGEST:
            names = ", ".join(v.name for v in parts)
            f.put(a.type, dims, f"concatenate({names}), dimensions={{{axis}}}")


def dynamic_slice(f: Frame) -> None:
    a = f.any()
    dims = tuple(f.draw(st.integers(0, n)) for n in a.dims)
    starts = "".join(f", {f.index().name}" for _ in dims)
    f.put(a.type, dims, f"dynamic-slice({a.name}{starts}), dynamic_slice_sizes={braces(dims)}")


def dynamic_update_slice(f: Frame) -> None:
    a = f.any()
    for _ in range(f.draw(st.integers(1, 2))):
        update = f.of(a.type, tuple(f.draw(st.integers(0, n)) for n in a.dims))
        starts = "".join(f", {f.index().name}" for _ in a.dims)
        a = f.put(a.type, a.dims, f"dynamic-update-slice({a.name}, {update.name}{starts})")


def gather(f: Frame) -> None:
    a = f.any()
    if a.dims and 0 not in a.dims:
        rank, axis, count = len(a.dims), f.draw(st.integers(0, len(a.dims) - 1)), f.draw(st.integers(1, 3))
        sizes = [1 if d == axis else n for d, n in enumerate(a.dims)]
        dims = (count, *(n for d, n in enumerate(a.dims) if d != axis))
        if prod(dims) <= LARGEST:
            indices = f.of("s32", (count, 1))
            f.put(
                a.type,
                dims,
                f"gather({a.name}, {indices.name}), offset_dims={braces(range(1, rank))}, "
                f"collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, index_vector_dim=1, "
                f"slice_sizes={braces(sizes)}",
            )


def scatter(f: Frame) -> None:
    a = f.any("s32")
    if a.dims and 0 not in a.dims:
        rank, count = len(a.dims), f.draw(st.integers(1, 3))
        indices, updates = f.of("s32", (count, 1)), f.of("s32", (count, *a.dims[1:]))
        reducer = f.program.reducer(f.draw(st.sampled_from(["add", "maximum", "multiply"])), "s32")
        f.put(
            "s32",
            a.dims,
            f"scatter({a.name}, {indices.name}, {updates.name}), update_window_dims={braces(range(1, rank))}, "
            f"inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={reducer}",
        )


def reduce(f: Frame) -> None:
    a = f.any()
    if a.type == "bf16":
        return
    opcodes = ["and", "or"] if a.type == "pred" else ["add", "maximum", "minimum"]
    reducer = f.program.reducer(f.draw(st.sampled_from(opcodes)), a.type)
    over = [d for d in range(len(a.dims)) if f.draw(st.booleans())]
    dims = tuple(n for d, n in enumerate(a.dims) if d not in over)
    init = f.of(a.type, ())
    r = f.put(a.type, dims, f"reduce({a.name}, {init.name}), dimensions={braces(over)}, to_apply={reducer}")
    if f.draw(st.booleans()):  # as in a softmax: back to where it came from
        kept = [d for d in range(len(a.dims)) if d not in over]
        wide = f.put(a.type, a.dims, f"broadcast({r.name}), dimensions={braces(kept)}")
        f.put(a.type, a.dims, f"{'xor' if a.type == 'pred' else 'subtract'}({a.name}, {wide.name})")


def reduce_window(f: Frame) -> None:
    a = f.any("s32", "f32")
    if a.dims and 0 not in a.dims:
        sizes = [f.draw(st.integers(1, min(n, 3))) for n in a.dims]
        dims = tuple(n - s + 1 for n, s in zip(a.dims, sizes, strict=True))
        reducer = f.program.reducer(f.draw(st.sampled_from(["add", "maximum"])), a.type)
        window = "x".join(map(str, sizes))
        f.put(
            a.type,
            dims,
            f"reduce-window({a.name}, {f.of(a.type, ()).name}), window={{size={window}}}, to_apply={reducer}",
        )


def dot(f: Frame) -> None:
    a = f.any("s32", "f32")
    if 1 <= len(a.dims) <= 2:
        n = f.draw(st.sampled_from([1, 2, 5]))
        b = f.of(a.type, (a.dims[-1], n))
        dims = (*a.dims[:-1], n)
        numbers = f"lhs_contracting_dims={{{len(a.dims) - 1}}}, rhs_contracting_dims={{0}}"
        d = f.put(a.type, dims, f"dot({a.name}, {b.name}), {numbers}")
        if f.draw(st.booleans()):
            bias = f.of(a.type, (n,))
            wide = f.put(a.type, dims, f"broadcast({bias.name}), dimensions={{{len(dims) - 1}}}")
            f.put(a.type, dims, f"add({d.name}, {wide.name})")


def sort(f: Frame) -> None:
    a = f.any("s32")
    if a.dims:
        axis = f.draw(st.integers(0, len(a.dims) - 1))
        less = f.program.less("s32")
        f.put("s32", a.dims, f"sort({a.name}), dimensions={{{axis}}}, is_stable=true, to_apply={less}")


def while_loop(f: Frame) -> None:
    program, draw = f.program, f.draw
    carried = [f.any() for _ in range(draw(st.integers(1, 4)))]
    at = draw(st.integers(0, len(carried)))  # the place of the counter
    start = f.scalar_constant("s32", 0)
    init = [*carried[:at], start, *carried[at:]]
    shapes = [(v.type, v.dims) for v in init]
    turns = draw(st.integers(0, 4))

    body = Frame(program, f.depth - 1)
    state = body.tuple_parameter(shapes)
    body.grow(draw(st.integers(0, 5)))
    one = body.scalar_constant("s32", 1)
    counter = body.put("s32", (), f"add({state[at].name}, {one.name})")
    root = [counter if n == at else body.of(t, d) for n, (t, d) in enumerate(shapes)]
    body_name = program.fresh("body")

    condition = Frame(program, 0)
    asked = condition.tuple_parameter(shapes)
    last = condition.scalar_constant("s32", turns)
    go = condition.put("pred", (), f"compare({asked[at].name}, {last.name}), direction=LT")
    condition.lines[-1] = "ROOT " + condition.lines[-1]
    assert condition.lines[-1].startswith(f"ROOT {go.name} ")
    condition_name = program.fresh("condition")
    program.computations[body_name] = body.text(body_name, root, True)
    program.computations[condition_name] = f"{condition_name} {{\n  " + "\n  ".join(condition.lines) + "\n}"

    joined = ", ".join(v.shape for v in init)
    given, made = program.fresh("t"), program.fresh("w")
    f.lines.append(f"{given} = ({joined}) tuple({', '.join(v.name for v in init)})")
    f.lines.append(f"{made} = ({joined}) while({given}), condition={condition_name}, body={body_name}")
    for n, (t, d) in enumerate(shapes):
        if draw(st.integers(0, 3)):
            f.put(t, d, f"get-tuple-element({made}), index={n}")


def conditional(f: Frame) -> None:
    program, draw = f.program, f.draw
    count = draw(st.integers(1, 3))
    by_pred = count == 2 and draw(st.booleans())
    index = f.of("pred" if by_pred else "s32", ())
    shapes: list[tuple[str, Dims]] = []
    names, operands = [], []
    for n in range(count):
        given = [f.any() for _ in range(draw(st.integers(1, 3)))]
        branch = Frame(program, f.depth - 1)
        branch.tuple_parameter([(v.type, v.dims) for v in given])
        branch.grow(draw(st.integers(0, 4)))
        if n == 0:
            root = [branch.any() for _ in range(draw(st.integers(1, 3)))]
            shapes = [(v.type, v.dims) for v in root]
        else:
            root = [branch.of(t, d) for t, d in shapes]
        name = program.fresh("branch")
        program.computations[name] = branch.text(name, root, True)
        names.append(name)
        operands.append(program.fresh("t"))
        f.lines.append(
            f"{operands[-1]} = ({', '.join(v.shape for v in given)}) tuple({', '.join(v.name for v in given)})"
        )
    made = program.fresh("c")
    joined = ", ".join(shape_text(t, d) for t, d in shapes)
    called = f"branch_computations={braces(names)}"
    if by_pred:
        called = f"true_computation={names[0]}, false_computation={names[1]}"
    f.lines.append(f"{made} = ({joined}) conditional({index.name}, {', '.join(operands)}), {called}")
    for n, (t, d) in enumerate(shapes):
        f.put(t, d, f"get-tuple-element({made}), index={n}")


SIMPLE = (
    arithmetic, arithmetic, arithmetic, logic, unary, unary, divide, convert, compare_and_select, clamp, broadcast,
    reshape, transpose, slice_, reverse, pad, concatenate, dynamic_slice, dynamic_update_slice, gather, scatter, reduce,
    reduce, reduce_window, dot, sort,
)  # fmt: skip
CONTROL = (while_loop, while_loop, conditional)


def programs(
    draw: Callable[[Any], Any], floats: bool = False, steps: int = 12, depth: int = 2
) -> tuple[str, list[np.ndarray]]:
    """The text of a module, and flat arguments for it."""
    program = Program(draw, floats)
    entry = Frame(program, depth, entry=True)
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)):
            entry.parameter(draw(st.sampled_from(program.types)), entry.dims())
        else:
            entry.tuple_parameter([(draw(st.sampled_from(program.types)), entry.dims()) for _ in range(2)])
    entry.grow(draw(st.integers(1, steps)))
    root = [entry.values[-1]] + [entry.any() for _ in range(draw(st.integers(0, 3)))]
    text = entry.text("main", root, draw(st.booleans()))
    whole = "HloModule random\n\n" + "\n\n".join([*program.computations.values(), f"ENTRY {text}"])
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    leaves = [v for p in entry.parameters for v in (p if isinstance(p, list) else [p])]
    return whole, [_array(rng, v) for v in leaves]


def _array(rng: np.random.Generator, v: Value) -> np.ndarray:
    import ml_dtypes

    if v.type == "pred":
        return rng.integers(0, 2, v.dims).astype(bool)
    if v.type == "s32":
        return rng.integers(-9, 9, v.dims).astype(np.int32)
    return rng.standard_normal(v.dims).astype({"f32": np.float32, "bf16": ml_dtypes.bfloat16}[v.type])
