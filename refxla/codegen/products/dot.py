"""The kernels of kind "dot": a sum of products as a matrix product, with producers and consumers.

Any dimension numbers become result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n], where g counts the batches,
m and n the free dimensions of lhs and rhs, and k the contracting ones in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import constant, variable
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
from .small_products import dot_is_loop, dot_is_unrolled
from .words import product as product_of_words
from .words import words_of


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a dot with its producers and consumers.

    The outputs are elementwise in the dot, or reshapes of values that are. Types without vectors, and small products,
    become plain loops.
    """
    numbers, result = DotDimensions(hero_of(fusion)), type_name(hero_of(fusion))
    is_complex = result in complex_dot.PARTS
    name = complex_dot.PARTS[result] if is_complex else accumulation_type(result)
    if name is None or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    if not is_complex:
        return _real_kernels(fusion, target, numbers, name)
    if _is_loop(fusion, numbers):
        return elementwise.emit(fusion, target)
    return kernels(complex_dot.product(fusion, target, numbers))


def _real_kernels(fusion: Fusion, target: Target, numbers: DotDimensions, name: str) -> tuple[Kernel, ...]:
    """The kernels of a dot that is accumulated in type `name`: of the first form that fits it."""
    gemv = next((p for p in _matrix_vector(fusion, target, numbers, name) if p.applies()), None)
    if gemv is None and _is_loop(fusion, numbers):
        return elementwise.emit(fusion, target)
    words = words_of(fusion, target, numbers, name)
    if words is not None:
        return kernels(product_of_words(fusion, target, numbers, words, _is_symmetric(fusion, numbers)))
    if gemv is None:  # the columns of the right side fill vectors; a vector would be a single column
        dimensions = SwappedDimensions(numbers) if numbers.n == 1 < numbers.m else numbers
        return kernels(_product(fusion, target, dimensions, name))
    if _is_loop_invariant(fusion, gemv.matrix_operand):  # panels that are packed before the loop are read faster
        swapped = gemv.matrix_operand is not hero_of(fusion).operands[1]
        return kernels(_product(fusion, target, SwappedDimensions(numbers) if swapped else numbers, name))
    return (gemv.kernel(),)


def _is_loop(fusion: Fusion, n: DotDimensions) -> bool:
    sizes = n.groups, n.m, n.n, n.k
    return dot_is_loop(*sizes) or (dot_is_unrolled(*sizes) and elementwise.unrolls_rows(fusion))


def _product(fusion: Fusion, target: Target, n: DotDimensions | SwappedDimensions, name: str) -> Product:
    """The product of real numbers for a dot."""
    rows = MatrixRows(fusion, target, n, name)
    return Product(
        fusion, target, name, n.groups, n.m, n.n, n.k, rows, n.right_operand, n.right,
        lambda g, m, column: (n.result(g, m, column), True), n.terms, n.right_matrix, lines=rows.lines,
        symmetric=_is_symmetric(fusion, n),
    )  # fmt: skip


def _is_symmetric(fusion: Fusion, n: DotDimensions | SwappedDimensions) -> bool:
    """Whether a value is multiplied by its own transpose, so that result[g, i, j] is result[g, j, i]."""
    if n.m != n.n:
        return False
    g, i, k = variable("g", 0, n.groups - 1), variable("i", 0, n.m - 1), variable("k", 0, n.k - 1)
    pattern = AccessPattern(fusion)
    return bool(pattern.value(n.left_operand, n.left(g, i, k)) == pattern.value(n.right_operand, n.right(g, k, i)))


def _is_loop_invariant(fusion: Fusion, operand: Instruction) -> bool:
    """Whether an operand depends only on values that are invariant in the enclosing loop."""
    inputs = set(inputs_of(fusion, [operand]))
    return bool(inputs) and inputs <= set(fusion.loop_invariant)


def _matrix_vector(fusion: Fusion, target: Target, n: DotDimensions, name: str) -> Iterator[MatrixVector]:
    """The dot as the product of a matrix and a vector, in either order."""
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
