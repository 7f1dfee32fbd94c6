"""The kernels of kind "dot": a sum of products as matrix product, with what is computed before and after it.

Any dimension numbers become result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n], where g counts the batches,
m and n the free dimensions of lhs and rhs, and k the contracted ones in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec.module import Instruction

from ...analysis.index_expression import constant
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..element_builder import type_name
from ..kernel_arguments import hero_of, inputs_of
from ..loops import elementwise
from . import complex_dot
from .dot_dimensions import DotDimensions, SwappedDimensions
from .gemm import kernels
from .gemv import MatrixVector
from .matrix_rows import MatrixRows
from .packing import accumulation_type
from .prepacked_constants import can_prepack
from .product import Product
from .words import product as product_of_words
from .words import words_of

TINY = 2048  # multiply-adds up to which plain loops are as quick, save for a matrix that lies along its sums,
CHAIN = 32  # if each sum has no more terms than this: a processor computes several sums at once then,
FEW = 8  # or where there are not as many sums as a vector has lanes
SHORT = 16  # terms of the sums of matrices times vectors, however many, up to which loops are quicker than panels,
SMALL = 8  # and the multiply-adds of each of many products: 2 x 2 matrices


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a dot with its producers and consumers.

    The outputs are elementwise in the dot, or reshapes of what is. Types without vectors of their own, and tiny
    products, become plain loops.
    """
    hero = hero_of(fusion)
    numbers = DotDimensions(hero)
    whole = type_name(hero)
    name = complex_dot.PARTS.get(whole) or accumulation_type(whole)
    if name is None or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    is_complex = whole in complex_dot.PARTS
    gemvs = () if is_complex else _matrix_vector(fusion, target, numbers, name)
    gemv = next((p for p in gemvs if p.applies()), None)
    if gemv is None and _is_loop(numbers):
        return elementwise.emit(fusion, target)
    if is_complex:
        return kernels(complex_dot.product(fusion, target, numbers))
    words = words_of(fusion, target, name)
    if words is not None:
        return kernels(product_of_words(fusion, target, numbers, words))
    if gemv is None:
        return kernels(_product(fusion, target, numbers, name))
    if _is_loop_invariant(fusion, gemv.matrix_operand):  # panels that are made before the loop are read faster
        swapped = gemv.matrix_operand is not hero.operands[1]
        return kernels(_product(fusion, target, SwappedDimensions(numbers) if swapped else numbers, name))
    return (gemv.kernel(),)


def _is_loop(n: DotDimensions) -> bool:
    """Whether loops over the elements are quicker than blocks of a matrix product."""
    terms = n.m * n.n * n.k
    if n.groups * terms <= TINY and (n.k <= CHAIN or n.groups * n.m * n.n < FEW):
        return True
    return terms <= SMALL or min(n.m, n.n) == 1 and n.k <= SHORT


def _product(fusion: Fusion, target: Target, n: DotDimensions | SwappedDimensions, name: str) -> Product:
    """The product of real numbers for a dot."""
    rows = MatrixRows(fusion, target, n, name)
    return Product(
        fusion, target, name, n.groups, n.m, n.n, n.k, rows, n.right_operand, n.right,
        lambda g, m, column: (n.result(g, m, column), True), n.terms, n.right_matrix, lines=rows.lines,
    )  # fmt: skip


def _is_loop_invariant(fusion: Fusion, operand: Instruction) -> bool:
    """Whether an operand follows from what is the same in every iteration of the enclosing loop."""
    inputs = set(inputs_of(fusion, [operand]))
    return bool(inputs) and inputs <= set(fusion.loop_invariant)


def _matrix_vector(fusion: Fusion, target: Target, n: DotDimensions, name: str) -> Iterator[MatrixVector]:
    """The dot as the product of a matrix and a vector, either way round."""
    lhs, rhs = hero_of(fusion).operands
    one = constant(0)
    if n.n == 1:
        yield MatrixVector(
            fusion, target, name, n.groups, n.m, n.k, lhs, rhs,
            n.left, lambda g, k: n.right(g, k, one), lambda g, m: n.result(g, m, one),
        )  # fmt: skip
    if n.m == 1 and not can_prepack(fusion, rhs, name):  # panels of a constant are read faster
        yield MatrixVector(
            fusion, target, name, n.groups, n.n, n.k, rhs, lhs,
            lambda g, m, k: n.right(g, k, m), lambda g, k: n.left(g, one, k), lambda g, m: n.result(g, one, m),
        )  # fmt: skip
