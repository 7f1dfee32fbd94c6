"""A transpose of a dot is a dot with its operands exchanged, where that is so, and has the same bits."""

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize


def program(lhs, rhs, dims, made, order):
    turned = ",".join(str(made[d]) for d in order)
    shape = lambda d: "f32[" + ",".join(map(str, d)) + "]"  # noqa: E731
    return f"""HloModule m
    ENTRY e {{ x = {shape(lhs)} parameter(0)
        y = {shape(rhs)} parameter(1)
        d = {shape(made)} dot(x, y), {dims}
        ROOT t = f32[{turned}] transpose(d), dimensions={{{",".join(map(str, order))}}} }}"""


CASES = {
    "matrices": ((5, 7), (5, 3), "lhs_contracting_dims={0}, rhs_contracting_dims={0}", (7, 3), (1, 0), True),
    "a batch": (
        (2, 5, 7), (2, 3, 7),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        (2, 5, 3), (0, 2, 1), True,
    ),
    "three free": (
        (5, 7, 2), (3, 7), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", (5, 2, 3), (2, 0, 1), True,
    ),
    "free ones exchanged": (
        (5, 7, 2), (3, 7), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", (5, 2, 3), (1, 0, 2), False,
    ),
    "the batch moved": (
        (2, 5, 7), (2, 3, 7),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        (2, 5, 3), (1, 0, 2), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_transposes(name):
    lhs, rhs, dims, made, order, goes = CASES[name]
    text = program(lhs, rhs, dims, made, order)
    left = [i.opcode for i in optimize(parse(text)).entry.instructions if i.opcode != "parameter"]
    assert left == (["dot"] if goes else ["dot", "transpose"])
    random = np.random.default_rng(3)
    given = [random.standard_normal(s).astype(np.float32) for s in (lhs, rhs)]
    want = refxla.compile(text, without=("transpose-folding",))(*given)
    got = refxla.compile(text)(*given)
    assert got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("order", [(2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_a_transpose_keeps_the_last_dimension_last(order):
    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    text = program((2, 5, 7), (2, 3, 7), dims, (2, 5, 3), order)
    left = [i for i in optimize(parse(text)).entry.instructions if i.opcode != "parameter"]
    assert all(i.dimensions[-1] == 2 for i in left if i.opcode == "transpose" and order[-1] != 0)
    random = np.random.default_rng(3)
    given = [random.standard_normal(s).astype(np.float32) for s in ((2, 5, 7), (2, 3, 7))]
    want = refxla.compile(text, without=("transpose-folding",))(*given)
    got = refxla.compile(text)(*given)
    assert got.shape == want.shape and got.tobytes() == want.tobytes()


def test_a_dot_that_others_read_stays():
    text = """HloModule m
    ENTRY e { x = f32[5,7] parameter(0)
        y = f32[5,3] parameter(1)
        d = f32[7,3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        t = f32[3,7] transpose(d), dimensions={1,0}
        ROOT r = (f32[7,3], f32[3,7]) tuple(d, t) }"""
    assert [i.opcode for i in optimize(parse(text)).entry.instructions].count("dot") == 1


def test_a_complex_dot_stays():
    text = program((5, 7), (5, 3), "lhs_contracting_dims={0}, rhs_contracting_dims={0}", (7, 3), (1, 0))
    assert "transpose" in [i.opcode for i in optimize(parse(text.replace("f32", "c64"))).entry.instructions]
