"""Convolutions in Winograd's tiles: right within bounds of their own, the same bits everywhere, where asked for."""

import numpy as np
import pytest
from refxla_conformance.case_check import Outcome, check
from refxla_conformance.cases import Case
from refxla_conformance.targets import make_target
from refxla_spec.bounds import run_with_bounds
from refxla_spec.text import parse
from refxla_spec.verify import verify

import refxla
from refxla.cli.main import main
from refxla.passes.winograd_convolution import A, B, G, apply_winograd

PLAIN = ((2, 7, 6, 5), (3, 3, 5, 4), (2, 7, 6, 4), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f")
FORMS = [
    PLAIN,
    ((2, 7, 6, 5), (3, 3, 5, 4), (2, 5, 4, 4), "size=3x3", "b01f_01io->b01f"),
    ((2, 7, 6, 5), (3, 3, 4, 5), (2, 9, 7, 4), "size=3x3 pad=2_2x2_1 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((2, 5, 7, 6), (4, 5, 3, 3), (2, 4, 3, 7), "size=3x3 pad=1_1x-1_0", "bf01_oi01->bf10"),
    ((7, 6, 2, 5), (3, 5, 3, 4), (4, 2, 6, 6), "size=3x3 pad=-1_2x3_-1", "01bf_0i1o->fb01"),
    ((1, 1, 1, 1), (3, 3, 1, 1), (1, 1, 1, 1), "size=3x3 pad=1_1x1_1 rhs_reversal=0x1", "b01f_01io->b01f"),
]
GROUPS = ", feature_group_count=2"
LARGE = ((4, 14, 14, 256), (3, 3, 256, 256), (4, 14, 14, 256), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f")


def text(lhs, rhs, out, window, labels, more="", type_="f32"):
    shapes = [f"{type_}[{','.join(map(str, s))}]" for s in (lhs, rhs, out)]
    return f"""HloModule convolution
ENTRY main {{
  x = {shapes[0]} parameter(0)
  w = {shapes[1]} parameter(1)
  ROOT r = {shapes[2]} convolution(x, w), window={{{window}}}, dim_labels={labels}{more} }}"""


def values(lhs, rhs, *_):
    random = np.random.default_rng(0)
    return [random.standard_normal(s).astype(np.float32) for s in (lhs, rhs)]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f[3]} {f[4]}")
def test_it_keeps_its_bounds_and_the_convolutions_value(form):
    module = parse(text(*form))
    tiled, (decision,) = apply_winograd(module, always=True)
    verify(tiled)
    assert decision.done and "convolution" not in {i.opcode for i in tiled.entry.instructions}
    given = values(*form)
    (got, want), (value, bound) = (refxla.compile(m)(*given) for m in (tiled, module)), run_with_bounds(tiled, given)
    assert np.isfinite(bound).all() and (np.abs(got - value) <= bound).all()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert refxla.compile(tiled, without=("fusion",))(*given).tobytes() == got.tobytes()


def test_the_matrices_give_a_convolution():
    """A[(G g G') * (B d B')]A' is the convolution of integers, exactly."""
    random = np.random.default_rng(1)
    d, g = random.integers(-9, 9, (4, 4)), random.integers(-9, 9, (3, 3))
    a, b, gs = (np.array(m) for m in (A, B, G))
    tile = a @ ((gs @ g @ gs.T) * (b @ d @ b.T)) @ a.T
    want = [[(d[r : r + 3, s : s + 3] * g).sum() for s in range(2)] for r in range(2)]
    assert tile.tolist() == want


def test_the_bound_that_is_stated():
    """16 for F(2 x 2, 3 x 3), of sums of absolute values: and it covers random tiles whose roundings are simulated."""
    a, b, g = (np.abs(np.array(m)) for m in (A, B, G))
    assert (np.einsum("ye,er,e->yr", a, g, b.sum(1)).max()) ** 2 == 16
    form = ((1, 8, 8, 64), (3, 3, 64, 8), (1, 6, 6, 8), "size=3x3", "b01f_01io->b01f")
    x, w = values(*form)
    x[0, 3, 3] *= 1e4  # one large element among small ones: what the bound is about
    got = refxla.compile(apply_winograd(parse(text(*form)), always=True)[0])(x, w)
    exact = sum(
        np.einsum("bhwc,co->bhwo", x[:, r : r + 6, s : s + 6].astype(np.float64), w[r, s].astype(np.float64))
        for r in range(3)
        for s in range(3)
    )
    n, u = 64 + 10, 2.0**-24
    size = np.abs(x).max((0, 1, 2)).astype(np.float64)  # of each feature: no less than in any tile
    bound = n * u / (1 - n * u) * 16 * np.einsum("rsco,c->o", np.abs(w).astype(np.float64), size)
    error = np.abs(got - exact)
    assert (error <= bound).all() and error.max() > 0


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ((*PLAIN, "", "f64"), "not of f32"),
        (((2, 7, 6, 5), (1, 3, 5, 4), (2, 7, 6, 4), "size=1x3 pad=0_0x1_1", "b01f_01io->b01f"), "1 x 3, not 3 x 3"),
        (((2, 9, 5), (3, 5, 4), (2, 7, 4), "size=3", "b0f_0io->b0f"), "window is 3, not 3 x 3"),
        (((2, 7, 7, 5), (3, 3, 5, 4), (2, 3, 3, 4), "size=3x3 stride=2x2", "b01f_01io->b01f"), "strides or dilations"),
        (
            ((2, 7, 6, 4), (3, 3, 2, 4), (2, 5, 4, 4), "size=3x3", "b01f_01io->b01f", ", feature_group_count=2"),
            "groups",
        ),
        (((0, 7, 6, 5), (3, 3, 5, 4), (0, 5, 4, 4), "size=3x3", "b01f_01io->b01f"), "no elements"),
    ],
)
def test_what_has_no_tiles_stays_as_it_is(form, reason):
    module = parse(text(*form))
    tiled, (decision,) = apply_winograd(module, always=True)
    assert str(tiled) == str(module) and not decision.done and reason in decision.reason


def test_what_does_not_pay_stays_as_it_is():
    assert refxla.compile(text(*PLAIN), winograd=True).opencl == refxla.compile(text(*PLAIN)).opencl
    features_first = ((4, 256, 14, 14), (3, 3, 256, 256), (4, 256, 14, 14), "size=3x3 pad=1_1x1_1", "bf01_01io->bf01")
    for form, done in ((LARGE, True), (PLAIN, False), (features_first, False)):
        assert [d.done for d in apply_winograd(parse(text(*form)))[1]] == [done]


def test_it_is_asked_for_and_explained(tmp_path, capsys):
    program = text(*LARGE)
    plain, tiled = refxla.compile(program), refxla.compile(program, winograd=True)
    assert plain.opencl != tiled.opencl and "tiles" not in str(plain.explain())
    assert "in tiles: r: " in str(tiled.explain()) and "million operations and" in str(tiled.explain())
    assert "dot" in {f.kind for f, _ in tiled.explain().fusions}
    assert "no tiles: r: " in str(refxla.compile(text(*PLAIN), winograd=True).explain())
    again = refxla.compile(program, winograd=True)  # from the cache: another program than the plain one
    assert again.opencl == tiled.opencl
    path = tmp_path / "convolution.hlo"
    path.write_text(text(*PLAIN))
    assert main(["explain", str(path), "--winograd"]) == 0
    assert "no tiles" in capsys.readouterr().out
    assert main(["run", str(path), "--random", "0", "--check", "--winograd"]) == 0


def test_functions_take_the_option():
    jax = pytest.importorskip("jax")

    def f(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    given = values((4, 14, 14, 256), (3, 3, 256, 256))
    tiled = refxla.compile(jax.jit(f), *given, winograd=True)
    assert "in tiles" in str(tiled.explain())
    want = np.asarray(refxla.compile(jax.jit(f))(*given))
    assert 0 < np.abs(np.asarray(tiled(*given)) - want).max() < 1e-5 * np.abs(want).max()


def test_conformance_holds_it_to_its_own_bounds():
    target = make_target("compiled-winograd")
    given = tuple(values(*PLAIN))
    case = Case("structured/convolution/f32/tiles", "structured", "convolution", text(*PLAIN), given)
    assert target.meant(case.module) is not case.module
    assert check(case, target).outcome is Outcome.PASS
    other = Case("structured/add/f32/0", "structured", "add", "x = f32[3] parameter(0)\nROOT r = f32[3] add(x, x)")
    assert target.meant(other.module) is other.module

    class Wrong(type(target)):
        def run(self, module, arguments):
            return [r * np.float32(1 + 1e-4) for r in super().run(module, arguments)]

    assert check(case, Wrong()).outcome is Outcome.FAIL
