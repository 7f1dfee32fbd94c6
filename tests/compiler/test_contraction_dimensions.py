"""A contraction as a matrix product: the matrices of its operands are what the indices say."""

import numpy as np
import pytest
from refxla_spec.text import parse

from refxla.analysis.index_expression import constant
from refxla.codegen.products.dot_dimensions import DotDimensions
from refxla.codegen.products.implicit_gemm import ImplicitGemm

DOT = """HloModule m
    ENTRY e { x = f32[3,4,2,5] parameter(0)
        y = f32[5,3,6,2] parameter(1)
        ROOT d = f32[3,4,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={3,2},
            rhs_contracting_dims={0,3} }"""
CONVOLUTION = """HloModule m
    ENTRY e {{ x = f32[{x}] parameter(0)
        w = f32[{w}] parameter(1)
        ROOT c = f32[{out}] convolution(x, w), window={{{window}}}, dim_labels={labels} }}"""
CONVOLUTIONS = {
    "strides and dilations": ("2,9,7,4", "3,2,4,5", "2,3,6,5", "size=3x2 stride=2x1 rhs_dilate=2x1", "b01f_01io->b01f"),
    "another order": ("4,9,2", "5,3,4", "7,2,5", "size=3", "f0b_o0i->0bf"),
    "feature groups": ("2,6,8", "3,2,12", "2,4,12", "size=3", "b0f_0io->b0f, feature_group_count=4"),
    "batch groups": ("6,5,2", "2,2,9", "2,4,9", "size=2", "b0f_0io->b0f, batch_group_count=3"),
    "a part of lhs": ("1,8,2", "3,2,4", "1,4,4", "size=3 pad=-1_-1", "b0f_0io->b0f"),
}


def check(n: DotDimensions | ImplicitGemm) -> None:
    """`left_matrix` and `right_matrix` have the elements of which `left` and `right` give the indices."""
    lhs, rhs = (np.arange(np.prod(d)).reshape(d) for d in (n.lhs, n.rhs))
    left, right = n.left_matrix(lhs), n.right_matrix(rhs)
    assert left.shape == (n.groups, n.m, n.k) and right.shape == (n.groups, n.k, n.n)
    for g, m, k in np.ndindex(left.shape):
        assert left[g, m, k] == lhs[tuple(i.constant for i in n.left(*map(constant, (g, m, k))))]
    for g, k, column in np.ndindex(right.shape):
        assert right[g, k, column] == rhs[tuple(i.constant for i in n.right(*map(constant, (g, k, column))))]


def test_the_matrices_of_a_dot():
    check(DotDimensions(parse(DOT).entry.root))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_matrices_of_a_convolution(name):
    x, w, out, window, labels = CONVOLUTIONS[name]
    n = ImplicitGemm(parse(CONVOLUTION.format(x=x, w=w, out=out, window=window, labels=labels)).entry.root)
    assert n.is_plain
    check(n)
