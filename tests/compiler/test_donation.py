"""Donated arguments: which results lie in their memory, and that no value is lost by it."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from refxla_conformance.fuzz.generate import generate
from refxla_conformance.fuzz.simulator import with_donations
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

import refxla
from refxla.compiler.driver import flatten
from refxla.ir import plan as p

EXAMPLES = Path(__file__).parents[2] / "examples"
N = 4096


def donating(lines: str, aliases: str) -> refxla.Compiled:
    """A program of x, y, g: f32[N], and a cache of 64 rows with an update of one and its place."""
    return refxla.compile(f"""HloModule m, input_output_alias={{ {aliases} }}
    add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
    ENTRY main {{ x = f32[{N}] parameter(0)  y = f32[{N}] parameter(1)  g = f32[{N}] parameter(2)
        cache = f32[64,{N}] parameter(3)  row = f32[1,{N}] parameter(4)  at = s32[] parameter(5)
        zero = s32[] constant(0)  none = f32[] constant(0)
        {lines} }}""")


FIRST = "{}: (0, {}, may-alias)"
# The last lines of a program, its aliases, and the aliases that its plan is to have.
PROGRAMS = {
    "element by element": ("ROOT r = f32[4096] add(x, g)", FIRST, [(0, 0)]),
    "of another parameter": ("ROOT r = f32[4096] add(y, g)", FIRST, [(0, 0)]),
    "read elsewhere in the same kernel": (
        "z = f32[4096] reverse(x), dimensions={0}\nROOT r = f32[4096] add(x, z)", FIRST, []),
    "read later": (
        "a = f32[4096] add(x, g)\nb = f32[4096] reverse(x), dimensions={0}\nc = f32[4096] multiply(b, a)\n"
        "ROOT r = (f32[4096], f32[4096]) tuple(a, c)", "{0}: (0, {}, may-alias)", []),
    "moments of an optimizer": (
        "a = f32[4096] add(x, g)\nb = f32[4096] multiply(y, a)\nc = f32[4096] subtract(b, a)\n"
        "ROOT r = (f32[4096], f32[4096]) tuple(a, c)",
        "{0}: (0, {}, may-alias), {1}: (1, {}, may-alias)", [(0, 0), (1, 1)]),
    "swapped": (
        "ROOT r = (f32[4096], f32[4096]) tuple(y, x)",
        "{0}: (0, {}, may-alias), {1}: (1, {}, may-alias)", [(0, 1), (1, 0)]),
    "swapped and changed": (
        "a = f32[4096] add(x, g)\nb = f32[4096] add(y, a)\nROOT r = (f32[4096], f32[4096]) tuple(b, a)",
        "{0}: (0, {}, may-alias), {1}: (1, {}, may-alias)", None),
    "as it came": ("ROOT r = (f32[4096], f32[4096]) tuple(x, x)", "{0}: (0, {}, must-alias)", [(0, 0)]),
    "a cache": (
        "ROOT r = f32[64,4096] dynamic-update-slice(cache, row, at, zero)", "{}: (3, {}, may-alias)", [(0, 3)]),
    "a cache that is read": (
        "n = f32[64,4096] dynamic-update-slice(cache, row, at, zero)\n"
        "s = f32[4096] reduce(n, none), dimensions={0}, to_apply=add\n"
        "ROOT r = (f32[4096], f32[64,4096]) tuple(s, n)", "{1}: (3, {}, may-alias)", [(1, 3)]),
    "a cache whose old rows are read": (
        "n = f32[64,4096] dynamic-update-slice(cache, row, at, zero)\n"
        "s = f32[4096] reduce(cache, none), dimensions={0}, to_apply=add\n"
        "ROOT r = (f32[4096], f32[64,4096]) tuple(s, n)", "{1}: (3, {}, may-alias)", None),
}  # fmt: skip


def values() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(N,), (N,), (N,), (64, N), (1, N)]
    return [*(rng.standard_normal(s).astype(np.float32) for s in shapes), np.array(17, np.int32)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_in_donated_memory(name):
    lines, aliases, wanted = PROGRAMS[name]
    made, plain = donating(lines, aliases), donating(lines, "")
    if wanted is not None:
        assert list(made.plan.aliases) == wanted, made.plan
        copies = [s for s in made.plan.steps if isinstance(s, p.Copy)]
        assert not copies or name in ("as it came", "read later"), made.plan
    given = values()
    before = [a.copy() for a in given]
    for a, b in zip(flatten(made(*given)), flatten(plain(*given)), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(given, before, strict=True):  # nobody gave them away: the program worked on copies
        np.testing.assert_array_equal(a, b)
    assert made.memory.aliases == sum(made.plan.results[r].bytes for r, _ in made.plan.aliases)


def test_leaves_of_tuples():
    """An alias names an element of a tuple; the plan knows arrays alone."""
    made = refxla.compile("""HloModule m, input_output_alias={ {1,0}: (1, {1}, may-alias) }, buffer_donor={ (0, {0}) }
    ENTRY main { p = (f32[4], s32[2]) parameter(0)  q = (f32[], f32[8]) parameter(1)
        i = s32[2] get-tuple-element(p), index=1
        x = f32[8] get-tuple-element(q), index=1
        y = f32[8] negate(x)
        t = (f32[8]) tuple(y)
        ROOT r = (s32[2], (f32[8])) tuple(i, t) }""")
    assert made.plan.aliases == ((1, 3),)
    i, y = made(np.zeros(4, "f"), np.arange(2, dtype=np.int32), np.float32(0), np.arange(8, dtype="f"))
    assert i.tolist() == [0, 1] and y.tolist() == [-n for n in range(8)]


def test_a_donor_lends_its_memory_to_what_comes_between():
    made = refxla.compile("""HloModule m, buffer_donor={ (0, {}) }
    ENTRY main { x = f32[64,64] parameter(0)
        y = f32[64,64] exponential(x)
        z = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = f32[64,64] dot(z, y), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""")
    x = np.full((64, 64), -1, np.float32)
    np.testing.assert_allclose(made(x), np.full((64, 64), np.exp(-3) * 64 * 64), rtol=1e-5)
    assert (x == -1).all()


PRODUCTS = {
    "weights": ("f32[{k},{m}]", "f32[{k},{n}]", "f32[{m},{n}]",
                "dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"),
    "vector": ("f32[{k}]", "f32[{k},{n}]", "f32[{n}]",
               "dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"),
    "filter": ("f32[{m},9,9,{k}]", "f32[3,3,{k},{n}]", "f32[{m},7,7,{n}]",
               "convolution(a, b), window={{size=3x3}}, dim_labels=b01f_01io->b01f"),
    "depthwise": ("f32[{m},9,9,{n}]", "f32[3,3,1,{n}]", "f32[{m},7,7,{n}]",
                  "convolution(a, b), window={{size=3x3}}, dim_labels=b01f_01io->b01f, feature_group_count={n}"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("k, m, n", [(8, 3, 5), (64, 130, 67), (700, 33, 40)])
def test_the_epilogue_of_a_product_updates_in_place(name, k, m, n):
    """Each element is updated once, whatever the tiles: a second update would be seen."""
    a, b, made, product = (text.format(k=k, m=m, n=n) for text in PRODUCTS[name])
    text = f"""HloModule m, input_output_alias={{ {{0}}: (2, {{}}, may-alias), {{1}}: (3, {{}}, may-alias) }}
    ENTRY main {{ a = {a} parameter(0)  b = {b} parameter(1)  w = {made} parameter(2)  v = {made} parameter(3)
        g = {made} {product}
        u = {made} subtract(v, g)
        x = {made} add(w, u)
        ROOT t = ({made}, {made}) tuple(x, u) }}"""
    module = parse(text)
    given = refxla.compile(module)
    assert list(given.plan.aliases) == [(0, 2), (1, 3)], given.plan
    rng = np.random.default_rng(1)
    arguments = [rng.standard_normal(q.shape.dimensions).astype(np.float32) for q in module.entry.parameters]
    module.aliases = ()
    for got, wanted in zip(given(*arguments), refxla.compile(module)(*arguments), strict=True):
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", ["lstm", "transformer", "kmeans", "heat"])
def test_examples(name):
    """Whole programs whose every argument is donated give the bits that they give without."""
    path = min((EXAMPLES / name).glob("*.hlo"))
    module, inputs = parse(path.read_text()), runpy.run_path(str(path.with_name("inputs.py")))["inputs"]()
    given = refxla.compile(with_donations(module))
    for a, b in zip(flatten(given(*inputs)), flatten(refxla.compile(module)(*inputs)), strict=True):
        assert a.tobytes() == b.tobytes()


def test_random_programs():
    """Merged and persistent kernels see the same memory as the steps that they are made of."""
    aliases = 0
    for seed in range(700, 716):
        sample = generate(seed)
        try:
            plain, given = refxla.compile(sample.module), refxla.compile(with_donations(sample.module))
        except UnsupportedError:
            continue
        aliases += len(given.plan.aliases)
        for a, b in zip(flatten(given(*sample.arguments)), flatten(plain(*sample.arguments)), strict=True):
            assert a.tobytes() == b.tobytes(), f"number {seed}"
    assert aliases
