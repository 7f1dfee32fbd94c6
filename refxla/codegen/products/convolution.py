"""The kernels of kind "convolution": windows as the rows of a matrix product, with producers and consumers.

    result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n]

g counts the groups of features or of the batch, n the output features of a group, m the placings of the window in the
order of the result in memory (or, where many elements lie outside lhs, each placing for the whole batch before the
next, see `_goes_through_batch`), k the elements of the window, row by row, and within each the input features. The rows
of the left side are never written out: element k of row m begins a run of lhs at the position of that window element in
that placing. Elements outside of lhs are left out of the sum.

The forward convolution and the gradients of the input and of the filter all have this form. With a base dilation d, as
in the gradient of a strided convolution, only every d-th element of the window meets an element of lhs; which ones
depends on the placing modulo d. So placings are numbered phase by phase (phases are part of g), and all rows of a tile
use the same elements.
"""

from __future__ import annotations

from math import prod

from ...device.description import LINE, Costs, Target
from ...ir.plan import Fusion, Kernel
from ..element_builder import type_name
from ..elemental_rules import UNROLLED
from ..kernel_arguments import hero_of
from ..loops import elementwise
from . import depthwise, stencil
from .blocking import alike_rows
from .convolution_dimensions import ConvolutionDimensions
from .convolution_input import ConvolutionInput
from .gemm import kernels
from .implicit_gemm import ImplicitGemm
from .implicit_gemm_rows import WindowRows
from .matrix_rows import MatrixRows
from .packing import accumulation_type
from .product import Product, Rows
from .small_products import has_little_work

SHORT = 16  # elements of a window, up to which plain loops are as fast as a stencil, and can fuse producers


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a convolution with its producers and consumers.

    The outputs are elementwise in the convolution, or reshapes of values that are. Types without vectors, tiny
    convolutions, and short stencils become plain loops.
    """
    hero = hero_of(fusion)
    numbers = ImplicitGemm(hero)
    name = accumulation_type(type_name(hero))
    small = has_little_work(hero.shape.size, numbers.k) or 0 in numbers.lhs
    if name is None or small or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    input = ConvolutionInput(fusion, target, numbers, name)
    if depthwise.applies(numbers, input, name):
        return depthwise.kernels(fusion, target, numbers, input, name)
    if _is_short(numbers, SHORT):
        return elementwise.emit(fusion, target)
    if stencil.applies(numbers, input, name):
        return stencil.kernels(fusion, target, numbers, input, name)
    if _is_short(numbers, UNROLLED):
        return elementwise.emit(fusion, target)
    rows: Rows | None = None
    if numbers.is_plain:
        matrix = MatrixRows(fusion, target, numbers, name)
        rows = matrix if matrix.local or matrix.access is not None else None
    elif _goes_through_batch(numbers, target.costs):
        numbers = ImplicitGemm(hero, batch_last=True)
    return kernels(
        Product(
            fusion, target, name, numbers.groups * numbers.phases, numbers.m, numbers.n, numbers.k,
            rows or WindowRows(input, numbers), hero.operands[1], numbers.right, numbers.result,
            numbers.terms, numbers.right_matrix, numbers.phases, row_sizes=numbers.m_sizes, alike=numbers.alike,
        )
    )  # fmt: skip


def _is_short(numbers: ConvolutionDimensions, most: int) -> bool:
    """Whether each element is a sum over one feature in a window of at most so many elements, which plain loops unroll:
    the placings are the lanes of vectors, and nothing is packed for a product with one column."""
    return numbers.n == numbers.features == numbers.batch_groups == 1 and bool(1 < numbers.k <= most)


def _goes_through_batch(numbers: ConvolutionDimensions, costs: Costs) -> bool:
    """Whether a placing is computed for the whole batch before the next, so that all rows of a tile use the same
    elements of the window, and those outside of lhs cost nothing."""
    if not alike_rows(numbers.batch):
        return False
    out = list(numbers.out)
    batch, feature = (prod(out[d + 1 :]) for d in (numbers.dims.output_batch, numbers.dims.output_feature))
    longer = costs.batch_in_rows if feature == 1 else costs.batch_near if 4 * batch <= LINE else costs.batch_apart
    return bool(numbers.k * numbers.outside * costs.multiply_add > longer)
