"""A dot without free dimensions is a reduction of products, one of a single term a product; both stay within the bounds
of a dot."""

import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

BATCHES = "lhs_batch_dims={0}, rhs_batch_dims={0}, "
CASES = {
    "vectors": ("f32[], f32[1000], f32[1000]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "nothing": ("f32[], f32[0], f32[0]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "halves": ("f16[], f16[1000], f16[1000]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "bytes": ("s32[], s8[1000], s8[1000]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "bytes that wrap": ("s8[], s8[1000], s8[1000]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "wider": ("f64[], f32[300], f32[300]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "a batch": ("f32[5], f32[5,70], f32[5,70]", BATCHES + "lhs_contracting_dims={1}, rhs_contracting_dims={1}", True),
    "ones": ("f32[5,1], f32[5,1,70], f32[5,70]", BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}", True),
    "two": ("f32[], f32[5,70], f32[5,70]", "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}", True),
    "only a batch": ("f32[5], f32[5], f32[5]", BATCHES + "lhs_contracting_dims={}, rhs_contracting_dims={}", True),
    "numbers": ("f32[], f32[], f32[]", "operand_precision={default,default}", True),
    "outer": ("f32[5,70], f32[5], f32[70]", "lhs_contracting_dims={}, rhs_contracting_dims={}", True),
    "one term": (
        "f32[4,5,7], f32[4,5,1], f32[4,1,7]",
        BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        True,
    ),
    "one term, free dimension first": (
        "f32[4,5,7], f32[4,1,5], f32[7,4,1]",
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
        True,
    ),
    "one term of halves": (
        "bf16[5,7], bf16[5,1], bf16[7,1]",
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        True,
    ),
    "one term of bytes": ("s32[5,7], s8[5,1], s8[1,7]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", True),
    "few long rows": ("f32[3,2], f32[3,5000], f32[2,5000]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", True),
    "few long rows of halves": (
        "bf16[4,4], bf16[4,1024], bf16[4,1024]",
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        True,
    ),
    "few long rows by a vector": (
        "f32[5], f32[5,2000], f32[2000]",
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        True,
    ),
    "few rows in each batch": (
        "f32[6,5], f32[6,5,200], f32[6,200]",
        BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        True,
    ),
    "pairs of few rows in each batch": (
        "bf16[6,2,3], bf16[6,2,64], bf16[6,3,64]",
        BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        True,
    ),
    "short rows in each batch": (
        "f32[6,5], f32[6,5,40], f32[6,40]",
        BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        False,
    ),
    "rows of a vector in each batch": (
        "f32[6,8], f32[6,8,200], f32[6,200]",
        BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        False,
    ),
    "few rows": ("f32[3,2], f32[3,500], f32[2,500]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", False),
    "long rows": ("f32[6,3], f32[6,2000], f32[3,2000]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", False),
    "few long columns": (
        "f32[3,2], f32[5000,3], f32[5000,2]",
        "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        False,
    ),
    "exchanged": ("f32[], f32[5,7], f32[7,5]", "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}", True),
    "exchanged in each batch": (
        "f32[3], f32[3,5,7], f32[7,5,3]",
        "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}",
        True,
    ),
    "batches exchanged": (
        "f32[3,2], f32[2,5,3], f32[3,2,5]",
        "lhs_batch_dims={2,0}, rhs_batch_dims={0,1}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
        True,
    ),
    "batches exchanged on both sides": (
        "f32[3,2], f32[2,5,3], f32[2,3,5]",
        "lhs_batch_dims={2,0}, rhs_batch_dims={1,0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
        False,
    ),
    "a matrix": ("f32[5], f32[5,70], f32[70]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", False),
    "complex": ("c64[], c64[70], c64[70]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "complex columns": ("c64[9], c64[70], c64[70,9]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", True),
    "complex columns, of a matrix of one row": (
        "c64[9,8,1], c64[5,4,9,8], c64[4,1,5]",
        "lhs_contracting_dims={0,1}, rhs_contracting_dims={2,0}",
        True,
    ),
    "complex columns in each batch": (
        "c64[3,9], c64[3,70,9], c64[70,3]",
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        False,
    ),
    "complex columns of a vector in each batch": (
        "c64[3,9], c64[3,70,9], c64[3,70]",
        BATCHES + "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        True,
    ),
    "complex rows": ("c64[70], c64[70,9], c64[9]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", False),
    "one complex term": ("c64[5,7], c64[5], c64[7]", "lhs_contracting_dims={}, rhs_contracting_dims={}", True),
    "interleaved matrices": (
        "f32[8,9,5,3], f32[8,2,9,3], f32[5,3,2,3,8,9]",
        "lhs_batch_dims={0,2}, rhs_batch_dims={4,5}, lhs_contracting_dims={3,1}, rhs_contracting_dims={1,2}",
        True,
    ),
    "interleaved matrices on the left": (
        "bf16[9,5], bf16[4,5,9], bf16[9,4]",
        "lhs_batch_dims={2}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        True,
    ),
    "interleaved matrices of bytes, times one row": (
        "s32[9,1,5,1], s8[9,1,4], s8[4,5,9,1]",
        "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        True,
    ),
    "interleaved complex matrices": (
        "c64[9,5], c64[9,4], c64[4,5,9]",
        "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        True,
    ),
    "interleaved matrices, of many terms": (
        "f32[9,5], f32[9,17], f32[17,5,9]",
        "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        False,
    ),
    "interleaved matrices, times two rows": (
        "f32[9,2,5], f32[9,2,4], f32[4,5,9]",
        "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        False,
    ),
    "matrices one after the other": (
        "f32[9,5], f32[9,4], f32[9,4,5]",
        BATCHES + "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        False,
    ),
    "predicates": ("pred[], pred[70], pred[70]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_dot_of_vectors(name):
    shapes, attributes, reduced = CASES[name]
    made, x, y = shapes.split(", ")
    text = f"ENTRY e {{ x = {x} parameter(0)\ny = {y} parameter(1)\nROOT d = {made} dot(x, y), {attributes} }}"
    left = [i.opcode for i in optimize(parse(text)).entry.instructions]
    assert ("dot" not in left) == reduced
    random = np.random.default_rng(3)
    given = [(10 * random.standard_normal(p.shape.dimensions)).astype(p.shape.element_type.dtype)
             for p in parse(text).entry.parameters]  # fmt: skip
    assert_agree(refxla.compile(text)(*given), [interpreter.run(parse(text), given)])


@pytest.mark.parametrize("name", ["only a batch", "numbers", "outer", "one term", "one term of halves"])
def test_a_sum_of_one_zero_has_no_sign(name):
    shapes, attributes, _ = CASES[name]
    made, x, y = shapes.split(", ")
    text = f"ENTRY e {{ x = {x} parameter(0)\ny = {y} parameter(1)\nROOT d = {made} dot(x, y), {attributes} }}"
    left, right = (np.zeros(p.shape.dimensions, p.shape.element_type.dtype) for p in parse(text).entry.parameters)
    got = np.asarray(refxla.compile(text)(left, -np.ones_like(right)))
    assert not np.signbit(got).any() and not (got != 0).any()


@pytest.mark.parametrize(
    "made, x, y, attributes, batch",
    [
        ("f32[1,1,4,40]", "f32[1,1,50]", "f32[4,50,40]", "lhs_contracting_dims={2}, rhs_contracting_dims={1}", 4),
        ("f32[2,3,4,5,40]", "f32[2,3,50]", "f32[4,5,50,40]", "lhs_contracting_dims={2}, rhs_contracting_dims={2}", 20),
        ("bf16[3,4,40]", "bf16[50,3]", "bf16[4,50,40]", "lhs_contracting_dims={0}, rhs_contracting_dims={1}", 4),
        ("f32[4,40,7]", "f32[4,50,40]", "f32[50,7]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", 4),
        ("f32[2,3,4,40]", "f32[2,3,50]", "f32[2,4,50,40]",
         BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={2}", 8),
        ("s32[3,4,40]", "s8[3,6,10]", "s8[4,10,6,40]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={2,1}", 4),
        ("f32[40,4,40]", "f32[40,50]", "f32[4,50,40]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", 0),
        ("f32[3,4,5]", "f32[3,50]", "f32[4,50,5]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", 0),
        ("f32[3,40,4]", "f32[3,50]", "f32[50,40,4]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", 0),
    ],
)  # fmt: skip
def test_several_matrices_are_a_batch_for_few_rows(made, x, y, attributes, batch):
    """The weights of the heads of an attention, each in one piece: for the last token, no copy is made of them."""
    text = f"ENTRY e {{ x = {x} parameter(0)\ny = {y} parameter(1)\nROOT d = {made} dot(x, y), {attributes} }}"
    module = optimize(parse(text))
    (dot,) = (i for i in module.entry.instructions if i.opcode == "dot")
    dims = dot.attributes.get("lhs_batch_dims", ())
    assert np.prod([dot.operands[0].shape.dimensions[d] for d in dims]) == (batch or 1)
    random = np.random.default_rng(3)
    given = [(10 * random.standard_normal(p.shape.dimensions)).astype(p.shape.element_type.dtype)
             for p in parse(text).entry.parameters]  # fmt: skip
    assert_agree(refxla.compile(text)(*given), [interpreter.run(parse(text), given)])
