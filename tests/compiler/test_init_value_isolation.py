"""The initial values of a reduction enter each result exactly once: of any reducer, any length, in any grouping."""

import numpy as np
import pytest
from agreement import assert_agree, flat
from refxla_conformance.fuzz.differ import cheap
from refxla_conformance.fuzz.generate import generate
from refxla_spec.errors import UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

REDUCERS = {  # name: (types, initial values, the computation, whose result is the last line's)
    "pairs of sums": (
        ("s32", "f32"),
        ("3", "1"),
        """e = s32[] add(a0, b0)
        f = f32[] add(a1, b1)
        ROOT r = (s32[], f32[]) tuple(e, f)""",
    ),
    "a sum and one": (
        ("s32",),
        ("5",),
        "one = s32[] constant(1)\nc = s32[] add(a0, b0)\nROOT r = s32[] add(c, one)",
    ),
    "a product of complex numbers": (("c64",), ("(0,2)",), "ROOT r = c64[] multiply(a0, b0)"),
    "exactly one": (("pred",), ("0",), "c = pred[] xor(a0, b0)\nROOT r = pred[] not(c)"),
    "a sum of halves in f32": (
        ("bf16",),
        ("1",),
        """a = f32[] convert(a0)
        b = f32[] convert(b0)
        c = f32[] add(a, b)
        ROOT r = bf16[] convert(c)""",
    ),
    "the larger, and a sum": (
        ("f32", "s32", "s32"),
        ("2", "7", "9"),
        """first = pred[] compare(a0, b0), direction=GE
        v = f32[] select(first, a0, b0)
        s = s32[] add(a1, b1)
        t = s32[] maximum(a2, b2)
        ROOT r = (f32[], s32[], s32[]) tuple(v, s, t)""",
    ),
}
SHAPES = [  # dimensions, those reduced
    *(((5,), "0"), ((100,), "0"), ((300001,), "0"), ((0,), "0"), ((3, 33), "1"), ((33, 7), "0"), ((3000, 80), "0")),
    *(((4, 37, 5), "0,2"), ((2, 5, 67), "1"), ((3, 0), "1"), ((6, 1), "1"), ((64, 2, 64), "0,2"), ((2, 3), "")),
]


def program(name: str, dims: tuple[int, ...], reduced: str, constants: bool = True) -> str:
    types, starts, lines = REDUCERS[name]
    many = len(types)
    parameters = "\n".join(f"{'ab'[n // many]}{n % many} = {t}[] parameter({n})" for n, t in enumerate(types * 2))
    sizes = ",".join(map(str, dims))
    kept = ",".join(str(n) for d, n in enumerate(dims) if str(d) not in reduced.split(","))
    given = [f"x{n} = {t}[{sizes}] parameter({n})" for n, t in enumerate(types)]
    inits = [
        f"i{n} = {t}[] constant({v})" if constants else f"i{n} = {t}[] parameter({n + many})"
        for n, (t, v) in enumerate(zip(types, starts, strict=True))
    ]
    operands = ", ".join([f"x{n}" for n in range(many)] + [f"i{n}" for n in range(many)])
    shape = ", ".join(f"{t}[{kept}]" for t in types)
    shape = shape if many == 1 else f"({shape})"
    body = "\n".join([*given, *inits])
    return f"""HloModule m
      f {{ {parameters}
          {lines} }}
      ENTRY e {{ {body}
                ROOT r = {shape} reduce({operands}), dimensions={{{reduced}}}, to_apply=f }}"""


def arguments(module, rng) -> list[np.ndarray]:
    """Numbers of which sums and products are exact."""
    made = []
    for p in module.entry.parameters:
        dtype, size = p.shape.element_type.dtype, p.shape.dimensions
        if p.shape.element_type.is_complex:
            made.append(np.array([1, -1, 1j, -1j]).astype(dtype)[rng.integers(0, 4, size)])
        else:
            made.append(
                np.asarray(rng.integers(0, 2, size) * 2 - 1 if dtype != np.bool_ else rng.integers(0, 2, size)).astype(
                    dtype
                )
            )
    return made


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize(("dims", "reduced"), SHAPES, ids=str)
def test_they_enter_once(name, dims, reduced):
    rng = np.random.default_rng(1)
    for constants in (True, False) if dims == (100,) else (True,):
        text = program(name, dims, reduced, constants)
        module = parse(text)
        given = arguments(module, rng)
        assert_agree(refxla.compile(text)(*given), flat(run(module, given)), eps=0)


def test_the_same_bits_without_fusion():
    text = program("the larger, and a sum", (67, 133), "1").replace("s32[] add(a1, b1)", "s32[] multiply(a1, b1)")
    given = arguments(parse(text), np.random.default_rng(3))
    whole, apart = (flat(refxla.compile(text, without=w)(*given)) for w in ((), ("fusion",)))
    assert [a.tobytes() for a in whole] == [a.tobytes() for a in apart]


ARGMAX = """argmax { a = f32[] parameter(0)
    i = s32[] parameter(1)
    b = f32[] parameter(2)
    j = s32[] parameter(3)
    gt = pred[] compare(a, b), direction=GT
    ne = pred[] compare(a, a), direction=NE
    first = pred[] or(gt, ne)
    eq = pred[] compare(a, b), direction=EQ
    lower = pred[] compare(i, j), direction=LT
    tie = pred[] and(eq, lower)
    keep = pred[] or(first, tie)
    v = f32[] select(first, a, b)
    k = s32[] select(keep, i, j)
    ROOT r = (f32[], s32[]) tuple(v, k) }
"""


def argmax_from(start: str) -> str:
    return f"""HloModule m
      {ARGMAX}
      ENTRY e {{ x = f32[40,99] parameter(0)
                n = s32[40,99] iota(), iota_dimension=1
                z = s32[] constant(0)
                s = {start}
                ROOT r = (f32[40], s32[40]) reduce(x, n, s, z), dimensions={{1}}, to_apply=argmax }}"""


@pytest.mark.parametrize("start", ["f32[] constant(-inf)", "f32[] constant(3)"])
def test_an_argmax_stays_as_it_is(start):
    """It gives one of what it is given, and so its initial values may enter as often as they like."""
    (reduce,) = (i for i in optimize(parse(argmax_from(start))).instructions() if i.opcode == "reduce")
    assert len(reduce.operands) == 4


@pytest.mark.parametrize("start", ["f32[] constant(nan)", "f32[] parameter(1)"])
def test_an_argmax_whose_start_may_be_nan_takes_the_first_of_several(start):
    """It comes before every NaN among the elements, and has the index 0."""
    module = parse(argmax_from(start))
    x = np.random.default_rng(0).standard_normal((40, 99)).astype(np.float32)
    x[3:20, 7] = x[5:9, 50] = np.nan
    for first in (np.nan, 0.5) if "parameter" in start else (np.nan,):
        given = [x, np.float32(first)][: len(module.entry.parameters)]
        for a, b in zip(refxla.compile(module)(*given), run(module, given), strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype == np.float32)


@pytest.mark.parametrize(("line", "start"), [("add(a, b)", "0"), ("multiply(a, b)", "3"), ("maximum(a, b)", "7")])
def test_a_plain_reducer_stays_as_it_is(line, start):
    text = f"""HloModule m
      f {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] {line} }}
      ENTRY e {{ x = f32[40,99] parameter(0)
                s = f32[] constant({start})
                ROOT r = f32[40] reduce(x, s), dimensions={{1}}, to_apply=f }}"""
    (reduce,) = (i for i in optimize(parse(text)).instructions() if i.opcode == "reduce")
    assert len(reduce.operands) == 2


MIXED = """HloModule m
  f {{ a = f32[] parameter(0)
      b = bf16[] parameter(1)
      c = f32[] convert(b)
      {} }}
  ENTRY e {{ x = bf16[3,77] parameter(0)
            s = f32[] constant(1)
            ROOT r = f32[3] reduce(x, s), dimensions={{1}}, to_apply=f }}"""


def test_elements_of_another_type():
    text = MIXED.format("ROOT g = f32[] add(a, c)")
    module = parse(text)
    given = arguments(module, np.random.default_rng(5))
    assert_agree(refxla.compile(text)(*given), flat(run(module, given)), eps=0)
    with pytest.raises(UnsupportedError, match="(?s)line 9.*convert the elements before"):
        refxla.compile(MIXED.format("d = f32[] multiply(c, c)\nROOT g = f32[] add(a, d)"))


@pytest.mark.parametrize("size", [0, 1, 63, 100])
def test_of_dynamic_sizes(size):
    text = program("pairs of sums", (100,), "0").replace("[100]", "[<=100]")
    module = parse(text)
    given = [a[:size] for a in arguments(parse(program("pairs of sums", (100,), "0")), np.random.default_rng(9))]
    assert_agree(refxla.compile(text)(*given), flat(run(module, given)), eps=0)
    text = """HloModule m
      f { a = s32[] parameter(0)
          b = s32[] parameter(1)
          one = s32[] constant(1)
          c = s32[] add(a, b)
          ROOT r = s32[] add(c, one) }
      ENTRY e { x = s32[<=100] parameter(0)
                s = s32[] constant(5)
                ROOT r = s32[<=102] reduce-window(x, s), window={size=3 pad=2_2}, to_apply=f }"""
    module, given = parse(text), [np.arange(size, dtype=np.int32)]
    assert_agree(refxla.compile(text)(*given), flat(run(module, given)), eps=0)


def test_random_programs():
    for seed in range(40):
        found = cheap(generate(seed, weights={"reduce": 8, "reduce_two": 8, "reduce_window": 4}), ())
        assert found.divergence is None, f"seed {seed}: {found.divergence}"


EARLIER = """earlier {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  before = pred[] compare(i, j), direction=LT
  v = f32[] select(before, a, b)
  ROOT r = (f32[], s32[]) tuple(v, i)
}

ENTRY e {
  x = f32[7,100] parameter(0)
  %s
  n = s32[7,100] iota(), iota_dimension=1
  ROOT r = (f32[7], s32[7]) reduce(x, n, v, k), dimensions={1}, to_apply=earlier
}
"""


@pytest.mark.parametrize(
    "inits",
    [
        "v = f32[] constant(5)\n  k = s32[] constant(0)",
        "v = f32[] constant(5)\n  k = s32[] constant(-1)",
        "v = f32[] parameter(1)\n  k = s32[] parameter(2)",
    ],
)
def test_an_initial_value_that_ties_with_the_first_element_comes_before_it(inits):
    """Of equal indices the reducer takes the second, and 0 is that of the first element, too."""
    module = parse(EARLIER % inits)
    x = np.random.default_rng(1).standard_normal((7, 100)).astype(np.float32)
    arguments = [x, np.float32(5), np.int32(0)][: 3 if "parameter" in inits else 1]
    assert_agree(refxla.compile(module)(*arguments), flat(run(module, arguments)))
