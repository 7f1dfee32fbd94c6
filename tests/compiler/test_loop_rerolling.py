"""Programs that hold every iteration of a loop become loops, and keep their bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec.interpreter import run
from refxla_spec.module import Computation, Instruction, Module, post_order
from refxla_spec.types import F32, Shape

import refxla
from refxla.ir.builder import Build
from refxla.passes import loop_rerolling
from refxla.passes.dce import called_first
from refxla.passes.pipeline import optimize

SIZE, ROWS = 3, 90
LIMITS = ("LEAST", "LEAST_OF_ONE", "LEAST_WITH_NUMBERS")


def module(results: list[Instruction], parameters: list[Instruction], b: Build) -> Module:
    root = b.make("tuple", *results)
    entry = Computation("entry", [*parameters, *(i for i in post_order(root) if i.opcode != "parameter")], root)
    result = Module("m", called_first(entry), entry)
    for n, i in enumerate(entry.instructions):
        i.name = f"{i.opcode}.{n}"
    return result


class Program:
    """What a function of x f32[SIZE] and rows f32[ROWS,SIZE] computes when it is traced."""

    def __init__(self, function) -> None:
        self.b = Build("t")
        self.x = Instruction("x", "parameter", Shape(F32, (SIZE,)), [], {"number": 0})
        self.rows = Instruction("rows", "parameter", Shape(F32, (ROWS, SIZE)), [], {"number": 1})
        self.module = module(list(function(self)), [self.x, self.rows], self.b)

    def row(self, n: int) -> Instruction:
        part = self.b.slice(self.rows, (n, 0), (n + 1, SIZE))
        return self.b.reshape(part, (SIZE,))

    def stack(self, values: list[Instruction]) -> Instruction:
        parts = [self.b.reshape(v, (1, *v.shape.dimensions)) for v in values]
        return self.b.make("concatenate", *parts, dimensions=(0,))

    def vector(self, *values: float) -> Instruction:
        return self.b.make("constant", shape=Shape(F32, (SIZE,)), literal=np.array(values, np.float32))


def carried(p, n=60):
    x = p.x
    for _ in range(n):
        x = p.b.multiply(p.b.add(x, p.b.sine(x)), 0.5)
    return [x]


def rows_and_numbers(p, n=60):
    x = p.x
    for t in range(n):
        x = p.b.add(p.b.multiply(x, 1.0 / (t + 1)), p.b.multiply(p.row(t), p.row(t + 2)))
    return [x, p.row(3)]


def vectors(p, n=60):
    x = p.x
    for t in range(n):
        x = p.b.add(p.b.multiply(x, p.vector(t, 1, -t)), p.vector(0.5, 0.5, 0.5))
    return [x]


def two_before(p, n=80):
    x, y = p.x, p.row(0)
    for _ in range(n):
        x, y = p.b.multiply(p.b.add(x, y), 0.5), x
    return [x, y]


def collected(p, n=60):
    x, seen = p.x, []
    for t in range(n):
        x = p.b.sine(p.b.add(x, p.row(t)))
        seen.append(x)
    return [p.stack(seen), p.stack(seen[::-1]), seen[7], p.stack([p.x, *seen[10:20], p.x])]


def backwards(p, n=60):
    x, seen = p.x, []
    for _ in range(n):
        x = p.b.sine(x)
        seen.append(x)
    g = p.row(0)
    for y in seen[::-1]:
        g = p.b.add(p.b.multiply(g, p.b.cosine(y)), g)
    return [x, g]


def two_sums(p, n=60):
    """All iterations of the first sum are written before those of the second, as in a walk from the results."""
    weights = [p.b.sine(p.b.add(p.row(t), p.x)) for t in range(n)]
    first, second = p.x, p.x
    for t in range(n):
        first = p.b.add(first, p.b.multiply(weights[t], p.row(t)))
        second = p.b.add(second, weights[t])
    return [first, second]


def nested(p, n=8, m=20):
    x = p.x
    for t in range(n):
        x = p.b.add(x, p.row(t))
        for s in range(m):
            x = p.b.multiply(p.b.subtract(x, p.row(s)), p.b.cosine(p.row(s + t)))
    return [x]


def triangle(p, n=24):
    x = p.x
    for t in range(n):
        for s in range(t):
            x = p.b.multiply(p.b.subtract(x, p.row(s)), p.b.cosine(p.row(t)))
    return [x]


def with_loops(p, n=20):
    """Each iteration has a loop of its own, of more instructions than small computations have."""
    x = p.x

    def body(k, y):
        for _ in range(10):
            y = p.b.sine(p.b.add(y, 0.5))
        return [y]

    for t in range(n):
        (x,) = p.b.repeat(3, body, [p.b.add(x, p.row(t))])
    return [x]


def unlike(p, n=60):
    x, y = p.x, p.row(0)
    for t in range(n):
        x = p.b.add(p.b.sine(x), p.b.multiply(y, x) if t * t % 7 in (1, 2) else y)
    return [x]


CASES = {
    carried: 1,
    rows_and_numbers: 1,
    vectors: 1,
    two_before: 1,
    collected: 1,
    backwards: 2,
    two_sums: 1,
    nested: 2,
    triangle: 1,
    with_loops: 2,
}


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((SIZE,), (ROWS, SIZE))]


def same_bits(a: Module, b: Module) -> bool:
    found = [np.asarray(v).tobytes() for m in (a, b) for v in run(m, inputs())]
    return found[: len(found) // 2] == found[len(found) // 2 :]


@pytest.fixture
def few(monkeypatch):
    for name in LIMITS:
        monkeypatch.setattr(loop_rerolling, name, 10)


@pytest.mark.parametrize("function", CASES)
def test_a_loop_that_was_traced_is_a_loop_again(function, few):
    program = Program(function).module
    rolled = optimize(program, after="loop-rerolling")
    loops = sum(i.opcode == "while" for i in rolled.instructions())
    assert loops == CASES[function]
    assert sum(len(c.instructions) for c in rolled.computations) < 0.7 * len(program.entry.instructions)
    assert same_bits(program, rolled)


def test_the_compiled_loop_gives_the_same_bits(few):
    for function in (collected, nested):
        program = Program(function).module
        a, b = (refxla.compile(program, without=w)(*inputs()) for w in ((), ("loop-rerolling",)))
        assert [np.asarray(v).tobytes() for v in a] == [np.asarray(v).tobytes() for v in b]


def test_iterations_that_differ_stay_as_they_are(few):
    program = Program(unlike).module
    rolled = optimize(program, after="loop-rerolling")
    assert same_bits(program, rolled)


def test_what_nobody_reads_is_no_loop(few):
    def function(p):
        p.unread = [p.b.sine(p.b.add(p.row(t), p.x)) for t in range(60)]
        return [p.x]

    program = Program(function)
    entry = program.module.entry
    entry.instructions = [*entry.parameters, *post_order(program.unread[0], program.unread[1:]), *entry.instructions]
    entry.instructions = list(dict.fromkeys(entry.instructions))
    assert same_bits(program.module, optimize(program.module, after="loop-rerolling"))


def test_a_short_program_stays_as_it_is():
    program = Program(carried).module
    assert loop_rerolling.run(program.clone()) == 0


@st.composite
def loops(draw):
    """Functions whose iterations take what they take from many places."""
    period, count, before = draw(st.integers(2, 6)), draw(st.integers(4, 20)), draw(st.integers(1, 3))
    body = [
        (
            draw(st.sampled_from(["add", "multiply", "subtract", "maximum"])),
            [
                (
                    draw(st.sampled_from(["carried", "made", "row", "number", "vector", "first"])),
                    draw(st.integers(0, 5)),
                    draw(st.integers(1, before)),
                    draw(st.integers(-1, 2)),
                )
                for _ in range(2)
            ],
        )
        for _ in range(period)
    ]
    taken = draw(st.lists(st.integers(0, period - 1), max_size=3, unique=True))
    odd = draw(st.integers(0, count - 1)) if draw(st.booleans()) else -1
    reverse = draw(st.booleans())

    def function(p):
        made: list[list[Instruction]] = []

        def value(t, now, source):
            kind, which, back, step = source
            if kind == "made" and now:
                return now[which % len(now)]
            if kind in ("carried", "made"):
                return made[t - back][which % period] if t >= back else p.row(which + back)
            if kind == "row":
                return p.row(25 + which + step * t)
            if kind == "number":
                return p.b.full(which + step * t * 0.25, p.x.shape)
            if kind == "vector":
                return p.vector(which, step * t, (which * t) % 3)
            return p.x

        for t in range(count):
            now: list[Instruction] = []
            for opcode, sources in body:
                a, b = (value(t, now, s) for s in sources)
                now.append(p.b.make("minimum" if t == odd and opcode == "add" else opcode, a, b))
            made.append(now)
        chosen = [[now[n] for now in made] for n in taken]
        return [p.stack(values[::-1] if reverse else values) for values in chosen] + [made[-1][-1], made[count // 2][0]]

    return function


@given(loops())
def test_random_loops_keep_their_bits(function):
    program = Program(function).module
    rolled = program.clone()
    with pytest.MonkeyPatch.context() as patch:
        for name in LIMITS:
            patch.setattr(loop_rerolling, name, 6)
        loop_rerolling.run(rolled)
    with np.errstate(all="ignore"):
        assert same_bits(program, optimize(rolled, after="single-device-lowering"))


def test_more_parameters_than_instructions():
    """As an optimizer's update of many arrays has them."""
    count = 300
    names = [f"p{n}" for n in range(2 * count)]
    lines = [f"{name} = f32[{SIZE}] parameter({n})" for n, name in enumerate(names)]
    lines += [f"a{n} = f32[{SIZE}] add(p{2 * n}, p{2 * n + 1})" for n in range(count)]
    shapes, sums = (", ".join(x) for x in ([f"f32[{SIZE}]"] * count, [f"a{n}" for n in range(count)]))
    program = "\n".join(["HloModule m", "ENTRY main {", *lines, f"ROOT r = ({shapes}) tuple({sums}) }}"])
    results = refxla.compile(program)(*(np.full(SIZE, n, np.float32) for n in range(2 * count)))
    assert [r.tolist() for r in results] == [[4 * n + 1] * SIZE for n in range(count)]
