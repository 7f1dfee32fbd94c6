"""The kernels of kind "dot" for GPUs: a tiled matrix product, with producers and consumers."""

from __future__ import annotations

from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..element_builder import type_name
from ..kernel_arguments import hero_of
from ..products.dot_dimensions import DotDimensions
from ..products.packing import accumulation_type
from ..products.small_products import has_little_work
from . import elementwise, few_rows
from .gemm import MatrixProduct, kernels


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a dot with its producers and consumers.

    The outputs are elementwise in the dot, or reshapes of values that are. Types without accumulators, and tiny
    products, become plain loops.
    """
    hero = hero_of(fusion)
    numbers = DotDimensions(hero)
    name = accumulation_type(type_name(hero))
    if name is None or has_little_work(hero.shape.size, numbers.k) or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    left, right = hero.operands
    product = MatrixProduct(
        fusion, target, name, numbers.groups, numbers.m, numbers.n, numbers.k,
        left, right, numbers.left, numbers.right, numbers.result,
    )  # fmt: skip
    return few_rows.kernels(product) or kernels(product)
