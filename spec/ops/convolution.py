"""The sum of products of a kernel with the parts of an array that it slides over.

With b the batch, f the input feature, c the output feature, o a placing of the window, k an element of it, for each d:

    position[d] = o[d] * stride + k[d] * rhs_dilate - pad_low        in the array dilated by lhs_dilate
    result[b, c, o..] = sum over f, k.. of lhs[b, f, position.. / lhs_dilate] * rhs[f, c, k..]

over those k for which each position is a multiple of lhs_dilate and lies inside lhs; elsewhere lhs counts as 0.
`rhs_reversal` takes the kernel at size - 1 - k. dim_labels say which dimension of each array is b, f, c, o or k. In a
text, `?` stands for a dimension without a label; XLA reads it too, and no valid program has one (C1).

With feature_group_count = G, input features and output features fall into G groups of neighbours; group g of the
output sees group g of the input alone. With batch_group_count = G, the batch of lhs falls into G groups; group g of the
output features sees group g of the batch, and the result's batch is one G-th. Products and sums are computed in a
wider type and rounded once; integers wrap around; a sum that is a pred is true where a term is. Whether a NaN or
infinity of the kernel that meets padding makes a NaN is not specified (here it does not, and the contract leaves such
elements open).
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..accumulate import contraction_type, matrix_product, narrow, widen
from ..attributes import CONVOLUTION, ENUM, ENUMS, INT, REQUIRED, VERBATIM, WINDOW, Attribute
from ..dynamic import marked, meet_dimensions
from ..indexing import placing_slices, window_count, window_slices
from ..module import Instruction, Window, window_text
from ..operation import Example, require
from ..types import Array, Shape
from .dot import result_type

INPUTS = {"lhs": "the array", "rhs": "the kernel"}
ATTRIBUTES = {
    "window": Attribute(WINDOW, (), "one window dimension for each spatial dimension"),
    "dim_labels": Attribute(CONVOLUTION, REQUIRED, "what each dimension of lhs, rhs and the result is"),
    "feature_group_count": Attribute(INT, 1, "into how many groups the features fall"),
    "batch_group_count": Attribute(INT, 1, "into how many groups the batch falls"),
    "operand_precision": Attribute(ENUMS, (), "how exact an implementation must be: default, high, highest"),
    "algorithm": Attribute(ENUM, "", "a particular algorithm of the implementation; the meaning is the same"),
    "convolution_kind": Attribute(ENUM, None, "fprop, dgrad or wgrad: a note for libraries; the meaning is the same"),
    "sparsity": Attribute(VERBATIM, "", "how the operands are stored by some implementations"),
}
CONSTRAINTS = {
    "C1": "lhs, rhs and dim_labels have the same number of dimensions, and dim_labels names each exactly once",
    "C2": "the window has one dimension for each spatial dimension, of the size that rhs has there",
    "C3": "strides and dilations are at least 1",
    "C4": "both group counts are at least 1, and one of them is 1",
    "C5": "feature_group_count divides the features of lhs, and rhs has one group's input features",
    "C6": "both group counts divide the output features of rhs, and batch_group_count the batch of lhs",
    "C7": "the operands are arrays of numbers or predicates",
    "C8": "the result is complex if an operand is, and at least floating-point if one is",
    "C9": "the result has where dim_labels says the batch of lhs over batch_group_count, the output features, "
    "and along each spatial dimension the number of placings of the window",
    "C10": "of rhs, only input features may be of dynamic size, and batch_group_count is 1 where the batch is",
}


def infer(instruction: Instruction, lhs: Shape, rhs: Shape) -> Shape:
    n, window = instruction.dim_labels, instruction.window
    feature_groups, batch_groups = instruction.feature_group_count, instruction.batch_group_count
    require(lhs.is_array and rhs.is_array, "C7", f"the operands are {lhs} and {rhs}")
    for array, dims, rank in (
        ("lhs", (n.input_batch, n.input_feature, *n.input_spatial), lhs.rank),
        ("rhs", (n.kernel_input_feature, n.kernel_output_feature, *n.kernel_spatial), rhs.rank),
        ("the result", (n.output_batch, n.output_feature, *n.output_spatial), lhs.rank),
    ):
        labelled = f"dim_labels is {n} and labels the dimensions {tuple(sorted(dims))} of {array}"
        require(sorted(dims) == list(range(rank)), "C1", f"{labelled}; the operands are {lhs} and {rhs}")
    sizes = tuple(rhs.dimensions[d] for d in n.kernel_spatial)
    require(
        tuple(w.size for w in window) == sizes, "C2", f"window is {window_text(window)}; rhs has spatial sizes {sizes}"
    )
    plain = all(min(w.stride, w.window_dilation, w.base_dilation) >= 1 for w in window)
    require(plain, "C3", f"window is {window_text(window)}")
    groups_fit = min(feature_groups, batch_groups) == 1
    require(groups_fit, "C4", f"feature_group_count is {feature_groups}, batch_group_count is {batch_groups}")
    features, batch = lhs.dimensions[n.input_feature], lhs.dimensions[n.input_batch]
    inputs, outputs = rhs.dimensions[n.kernel_input_feature], rhs.dimensions[n.kernel_output_feature]
    fits = features == inputs * feature_groups
    require(fits, "C5", f"lhs has {features} features, rhs {inputs}; feature_group_count is {feature_groups}")
    fits = outputs % feature_groups == 0 and outputs % batch_groups == 0 and batch % batch_groups == 0
    require(fits, "C6", f"{outputs} output features, a batch of {batch}; groups {feature_groups} and {batch_groups}")
    dimensions = [0] * lhs.rank
    dimensions[n.output_batch], dimensions[n.output_feature] = batch // batch_groups, outputs
    for d, input_d, w in zip(n.output_spatial, n.input_spatial, window, strict=True):
        dimensions[d] = window_count(lhs.dimensions[input_d], w)
    dynamic = [d for d, m in enumerate(rhs.marks) if m and d != n.kernel_input_feature]
    fits = not dynamic and (batch_groups == 1 or not lhs.marks[n.input_batch])
    require(fits, "C10", f"the operands are {lhs} and {rhs}, batch_group_count is {batch_groups}")
    marks = [False] * lhs.rank
    for d, source in zip((n.output_batch, *n.output_spatial), (n.input_batch, *n.input_spatial), strict=True):
        marks[d] = lhs.marks[source]
    return marked(result_type(instruction, lhs, rhs, "C8"), dimensions, marks)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    n, window = instruction.dim_labels, instruction.window
    groups = instruction.feature_group_count * instruction.batch_group_count  # one of them is 1
    element_type = instruction.shape.element_type
    if instruction.feature_group_count == 1:
        lhs, rhs = meet_dimensions(lhs, rhs, [(n.input_feature, n.kernel_input_feature)])

    x = lhs.transpose(n.input_batch, *n.input_spatial, n.input_feature)
    w = rhs.transpose(*n.kernel_spatial, n.kernel_input_feature, n.kernel_output_feature)
    w = w[tuple(slice(None, None, -1 if d.reversal else 1) for d in window)]
    batch, *sizes, features = x.shape
    *kernel, inputs, outputs = w.shape
    counts = tuple(window_count(s, d) for s, d in zip(sizes, window, strict=True))
    terms = prod(kernel) * inputs
    wide = contraction_type(element_type, lhs, rhs, terms, terms * prod(counts) * batch * outputs // groups)

    # Group first: x[g, b, s.., f], w[g, k.., f, c], result[g, b, o.., c].
    if instruction.batch_group_count > 1:
        x = x.reshape(groups, batch // groups, *sizes, features)
    else:
        x = np.moveaxis(x.reshape(batch, *sizes, groups, inputs), -2, 0)
    w = np.moveaxis(w.reshape(*kernel, inputs, groups, outputs // groups), -2, 0)
    x, w = widen(x, wide), widen(w, wide)
    result = np.zeros((groups, x.shape[1], *counts, outputs // groups), wide)
    with np.errstate(all="ignore"):
        (_by_element if prod(kernel) <= prod(counts) else _by_placing)(window, x, w, result)
        y = narrow(result, element_type)

    y = np.moveaxis(y, 0, -2).reshape(x.shape[1], *counts, outputs)
    back = (n.output_batch, *n.output_spatial, n.output_feature)
    return np.moveaxis(y, range(y.ndim), back)


_ALL = slice(None)


def _by_element(window: Window, x: Array, w: Array, result: Array) -> None:
    """For each element of the window, what it adds to all placings: a product of matrices."""
    for k in np.ndindex(w.shape[1:-2]):
        placings, elements = window_slices(window, k, x.shape[2:-1], result.shape[2:-1])
        source, factor, target = (_ALL, _ALL, *elements), (_ALL, *k), (_ALL, _ALL, *placings)
        part = x[source]
        product = matrix_product(part.reshape(len(x), prod(part.shape[1:-1]), x.shape[-1]), w[factor])
        result[target] += product.reshape(*part.shape[:-1], w.shape[-1])


def _by_placing(window: Window, x: Array, w: Array, result: Array) -> None:
    """For each placing of the window, its whole sum: quicker where there are fewer placings than elements."""
    for o in np.ndindex(result.shape[2:-1]):
        elements, positions = placing_slices(window, o, x.shape[2:-1])
        source, factor, target = (_ALL, _ALL, *positions), (_ALL, *elements), (_ALL, _ALL, *o)
        part, kernel = x[source], w[factor]
        result[target] = matrix_product(
            part.reshape(*part.shape[:2], prod(part.shape[2:])),
            kernel.reshape(len(kernel), prod(kernel.shape[1:-1]), kernel.shape[-1]),
        )


EXAMPLES = (
    Example(
        """x = f32[1,4,1] parameter(0)
           w = f32[2,1,1] parameter(1)
           ROOT y = f32[1,3,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f""",
        ("f32[1,4,1] {{{1},{2},{3},{4}}}", "f32[2,1,1] {{{10}},{{1}}}"),
        ("f32[1,3,1] {{{12},{23},{34}}}",),
        "the kernel is not mirrored",
    ),
    Example(
        """x = f32[1,3,1] parameter(0)
           w = f32[2,1,1] parameter(1)
           ROOT y = f32[1,5,1] convolution(x, w), window={size=2 pad=1_0 lhs_dilate=2}, dim_labels=b0f_0io->b0f""",
        ("f32[1,3,1] {{{1},{2},{3}}}", "f32[2,1,1] {{{10}},{{1}}}"),
        ("f32[1,5,1] {{{1},{10},{2},{20},{3}}}",),
        "a dilated array, padded below",
    ),
    Example(
        """x = f32[1,4,1] parameter(0)
           w = f32[2,1,1] parameter(1)
           ROOT y = f32[1,1,1] convolution(x, w), window={size=2 pad=-1_-1 rhs_reversal=1}, dim_labels=b0f_0io->b0f""",
        ("f32[1,4,1] {{{1},{2},{3},{4}}}", "f32[2,1,1] {{{10}},{{1}}}"),
        ("f32[1,1,1] {{{32}}}",),
        "negative padding crops, reversal mirrors the kernel",
    ),
    Example(
        """x = pred[1,5,1] parameter(0)
           w = pred[2,1,1] parameter(1)
           ROOT y = pred[1,4,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f""",
        ("pred[1,5,1] {{{1},{1},{0},{0},{1}}}", "pred[2,1,1] {{{1}},{{1}}}"),
        ("pred[1,4,1] {{{1},{1},{0},{1}}}",),
        "of predicates",
    ),
    Example(
        """x = f32[1,2,2] parameter(0)
           w = f32[1,1,2] parameter(1)
           ROOT y = f32[1,2,2] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2""",
        ("f32[1,2,2] {{{1,2},{3,4}}}", "f32[1,1,2] {{{10,100}}}"),
        ("f32[1,2,2] {{{10,200},{30,400}}}",),
        "each feature on its own",
    ),
    Example(
        """x = f32[<=2,<=4,1] parameter(0)
           w = f32[2,1,1] parameter(1)
           ROOT y = f32[<=2,<=3,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f""",
        ("f32[1,3,1] {{{1},{2},{3}}}", "f32[2,1,1] {{{10}},{{1}}}"),
        ("f32[1,2,1] {{{12},{23}}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[1,4] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f""",
    "C2": """x = f32[1,4,1] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f""",
    "C3": """x = f32[1,4,1] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=2 stride=0}, dim_labels=b0f_0io->b0f""",
    "C4": """x = f32[2,4,2] parameter(0)
             k = f32[2,1,2] parameter(1)
             ROOT r = f32[1,3,2] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2,
               batch_group_count=2""",
    "C5": """x = f32[1,4,1] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2""",
    "C6": """x = f32[1,4,2] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2""",
    "C7": """x = f32[1,4,1] parameter(0)
             k = token[] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f""",
    "C8": """x = f32[1,4,1] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = s32[1,3,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f""",
    "C9": """x = f32[1,4,1] parameter(0)
             k = f32[2,1,1] parameter(1)
             ROOT r = f32[1,4,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f""",
    "C10": """x = f32[1,4,1] parameter(0)
             w = f32[<=2,1,1] parameter(1)
             ROOT r = f32[1,3,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f""",
}
