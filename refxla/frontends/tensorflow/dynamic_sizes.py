"""Which operations TensorFlow lowers correctly if sizes are known only at run time.

`tf.where`, `tf.boolean_mask`, `tf.unique` and the like return tensors whose sizes depend on data. In HLO, such a tensor
has its maximum size, and in addition its actual size. Some of the kernels with which TensorFlow generates HLO use the
maximum instead of the actual size: then `kept[-1]` is not the last element, and `tf.roll` returns too many. So an
operation on such a tensor is compiled only if it is in the table below. Tests compare all of its rows with TensorFlow,
at several sizes.

The analysis tracks which values depend on such a size. Those of them whose shape TensorFlow does not know have such a
size themselves. The arguments of a compiled function have known sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .graph import FunctionGraph, Node, Value, called_by, function_of, read
from .xla_support import definitions

# Operations that return tensors whose sizes depend on data.
_SOURCES = {
    "DynamicPartition", "NonMaxSuppressionV3", "Unique", "UniqueV2", "Where", "XlaSetBound",
    "XlaSetDynamicDimensionSize",
}  # fmt: skip
_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")


def refused_for_size(graph: FunctionGraph, values: Sequence[Any]) -> dict[Node, str]:
    """The operations of a graph that may be lowered wrongly for tensors of sizes known only at run time, with the
    reason.

    `values` are those of the graph's first inputs. Operations after such an operation are not included: once TensorFlow
    has run it, the sizes of its results are known.
    """
    if not any(d.op in _SOURCES for d in definitions(graph.content)):
        return {}
    constants = dict(zip(graph.inputs, values, strict=False))
    nothing = [False] * len(graph.inputs)
    return _Analysis(graph, nothing, nothing, constants).reasons


class _Analysis:
    """Which values of a graph depend on a size known only at run time, if some of its inputs do.

    `varying` are those that are not constants of a compiled program: values that depend on such a size, and values that
    change between iterations of a loop.
    """

    def __init__(
        self, graph: FunctionGraph, dependent: Iterable[bool], varying: Iterable[bool], constants: Mapping[Value, Any]
    ) -> None:
        self.graph, self.constants = graph, constants
        self.dependent = set(itertools.compress(graph.inputs, dependent))
        self.varying = set(itertools.compress(graph.inputs, varying))
        self.used = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
        self.reasons: dict[Node, str] = {}
        for node in graph.nodes:
            reason, results = self.visit(node)
            if reason is not None:
                self.reasons[node] = reason
                continue
            values = [Value(node, n) for n in range(len(node.types))]
            self.dependent.update(itertools.compress(values, results))
            if any(v in self.varying for v in node.inputs):
                self.varying.update(values)
            self.varying.update(itertools.compress(values, results))

    @property
    def outputs(self) -> list[bool]:
        """Which results of the graph depend on such a size."""
        return [v in self.dependent for v in self.graph.outputs]

    def visit(self, node: Node) -> tuple[str | None, Sequence[bool]]:
        """Why a node may be lowered wrongly, or None, and which of its results depend on such a size."""
        bodies = called_by(node.definition, self.graph.functions)
        if bodies:
            return self.visit_bodies(node, bodies)
        depends = any(v in self.dependent for v in node.inputs)
        if depends and self.has_to_be_right(node) and not self.is_right(node):
            return "XLA's kernel may take the largest possible size for one that is known only at run time", ()
        if node.operation in ("IdentityN", "ShapeN"):
            return None, [v in self.dependent for v in node.inputs]
        return None, [depends or node.operation in _SOURCES] * len(node.types)

    def visit_bodies(self, node: Node, names: Sequence[str]) -> tuple[str | None, Sequence[bool]]:
        """The same for an operation that calls functions: a loop, a branch, a call."""
        inputs = node.inputs[1:] if node.operation in _BRANCHES else node.inputs
        dependent, varying = [v in self.dependent for v in inputs], [v in self.varying for v in inputs]
        bodies = [read(function_of(node.origin.graph, name)) for name in names]
        if any(len(body.inputs) != len(inputs) for body in bodies):  # the parameters are not the operands
            return ("its function may take a size known only at run time" if any(dependent) else None), ()
        if node.operation in _LOOPS:
            for body in bodies:
                for n, (first, next_one) in enumerate(zip(body.inputs, body.outputs, strict=False)):
                    varying[n] |= len(body.outputs) == len(inputs) and first != next_one
        results = [node.operation in _BRANCHES and node.inputs[0] in self.dependent] * len(node.types)
        before: list[bool] = []
        while before != dependent:  # a loop passes on the results of its body
            before = list(dependent)
            for body in bodies:
                analysis = _Analysis(body, dependent, varying, {})
                for inner, reason in analysis.reasons.items():
                    return f"{inner.operation} in it: {reason}", ()
                if len(body.outputs) == len(results):  # not the condition of a loop
                    results = [a or b for a, b in zip(results, analysis.outputs, strict=True)]
            if node.operation in _LOOPS:
                dependent = [a or b for a, b in zip(dependent, results, strict=True)]
        return None, dependent if node.operation in _LOOPS else results

    def has_to_be_right(self, node: Node) -> bool:
        """Whether a node that depends on such a size could be wrong: it takes a tensor of such a size, or an integer,
        which may be one; or it returns a tensor of such a size."""
        import tensorflow as tf

        taken = [v for v in node.inputs if v in self.dependent]
        return any(v.type.is_integer or v.type == tf.variant or not _is_static(v) for v in taken) or any(
            not _is_static(Value(node, n)) for n in range(len(node.types))
        )

    def is_right(self, node: Node) -> bool:
        """Whether TensorFlow lowers an operation correctly although it depends on such a size."""
        if node.operation in _RIGHT:
            return True
        condition = _RIGHT_IF.get(node.operation)
        return condition is not None and condition(self, node)

    # -- helpers of the conditions

    def dynamic_axes(self, value: Value) -> set[int] | None:
        """The dimensions with a size known only at run time, from the last one on: -1, -2, ...; None if not even their
        number is known."""
        if value not in self.dependent:
            return set()
        shape = _shape(value)
        return None if shape.rank is None else {n - shape.rank for n, size in enumerate(shape) if size is None}

    def is_static_along(self, value: Value, axes: Iterable[int]) -> bool:
        """Whether a tensor has known sizes in these dimensions, counted from either end."""
        dynamic = self.dynamic_axes(value)
        if not dynamic:
            return dynamic is not None
        rank = _shape(value).rank
        return dynamic.isdisjoint(a if a < 0 else a - rank for a in axes)

    def elements(self, value: Value) -> list[Any]:
        """The elements of a vector, or the one of a scalar; None for those that are unknown at compile time."""
        import tensorflow as tf

        if value in self.constants:
            return list(np.ravel(self.constants[value]))
        if value.node.operation == "Pack":
            return [self.elements(v)[0] for v in value.node.inputs]
        if value.node.operation == "FloorMod":  # as in the gradient of a concatenation, for an axis
            operands = [self.elements(v) for v in value.node.inputs]
            return [None if None in pair else pair[0] % pair[1] for pair in zip(*operands, strict=False)]
        array = tf.get_static_value(value.node.origin.outputs[value.number])
        if array is None:
            return [None] * (_shape(value).num_elements() or 1)
        return list(np.ravel(array))


def _shape(value: Value) -> Any:
    return value.node.origin.outputs[value.number].shape


def _is_static(value: Value) -> bool:
    is_static: bool = _shape(value).is_fully_defined()
    return is_static


# -- the table


def _static_along_axis(axis_input: int) -> Callable[[_Analysis, Node], bool]:
    """The size along the axes named by an input is known."""

    def condition(analysis: _Analysis, node: Node) -> bool:
        axes = analysis.elements(node.inputs[axis_input])
        return None not in axes and analysis.is_static_along(node.inputs[0], axes)

    return condition


def _static_but_for(count: int) -> Callable[[_Analysis, Node], bool]:
    """All inputs have known sizes except in the first `count` dimensions; if negative, in all but the last ones."""

    def condition(analysis: _Analysis, node: Node) -> bool:
        for value in node.inputs:
            rank = _shape(value).rank
            if rank is None and value in analysis.dependent:
                return False
            axes = range(count, 0) if count < 0 else range(min(count, rank or 0), rank or 0)
            if not analysis.is_static_along(value, axes):
                return False
        return True

    return condition


def _broadcasts(analysis: _Analysis, node: Node) -> bool:
    """The single size of an operand that is known only at run time is not paired with a known one other than 1:
    TensorFlow would assume that it is 1 or equal, depending on its value."""
    shapes = [_shape(v) for v in node.inputs]
    for value in node.inputs:
        axes = analysis.dynamic_axes(value)
        if axes and len(axes) == 1:
            (axis,) = axes
            if any(shape.rank is not None and shape.rank >= -axis and shape[axis] not in (1, None) for shape in shapes):
                return False
    return True


def _scans(analysis: _Analysis, node: Node) -> bool:
    attributes = node.definition.attr
    return not attributes["exclusive"].b or attributes["reverse"].b or _static_along_axis(1)(analysis, node)


def _slices(analysis: _Analysis, node: Node) -> bool:
    """Along sizes known only at run time, a slice takes every element from one counted from the front; or it takes one
    element: an index that is not a constant is checked against the size."""
    if node.operation == "StridedSlice":
        operand, begin, strides = node.inputs[0], node.inputs[1], node.inputs[3]
    else:  # the gradient: shape, begin, end, strides, and the incoming gradient
        operand, begin, strides = Value(node, 0), node.inputs[1], node.inputs[3]
    rank = _shape(operand).rank
    dynamic = analysis.dynamic_axes(operand) if node.operation == "StridedSlice" else _unknown_axes(operand)
    if rank is None or dynamic is None:
        return False
    begins, steps = analysis.elements(begin), analysis.elements(strides)
    whole, single = node.definition.attr["begin_mask"].i, node.definition.attr["shrink_axis_mask"].i
    for n, axis in _sliced_axes(node, len(steps), rank):
        if axis - rank in dynamic:
            in_front = begins[n] is not None and begins[n] >= 0
            compared = begins[n] is None and begin in analysis.varying
            if not (in_front or compared if single >> n & 1 else in_front or whole >> n & 1) or steps[n] != 1:
                return False
    return True


def _sliced_axes(node: Node, count: int, rank: int) -> Iterator[tuple[int, int]]:
    """Which of the `count` positions in the bounds of a slice are those of a dimension, with the dimension."""
    masks = node.definition.attr
    ellipsis, new = masks["ellipsis_mask"].i, masks["new_axis_mask"].i
    given = sum(not (ellipsis | new) >> n & 1 for n in range(count))
    axis = 0
    for n in range(count):
        if ellipsis >> n & 1:
            axis += rank - given
        elif not new >> n & 1:
            yield n, axis
            axis += 1


def _unknown_axes(value: Value) -> set[int] | None:
    shape = _shape(value)
    return None if shape.rank is None else {n - shape.rank for n, size in enumerate(shape) if size is None}


def _counts_up(analysis: _Analysis, node: Node) -> bool:
    """A range starts and steps by constants, and increases."""
    (start,), (step,) = analysis.elements(node.inputs[0]), analysis.elements(node.inputs[2])
    return start is not None and step is not None and step > 0


def _repeats(analysis: _Analysis, node: Node) -> bool:
    """A tensor that is repeated a number of times known only at run time has one element in that dimension."""
    counts, shape = analysis.elements(node.inputs[1]), _shape(node.inputs[0])
    return shape.rank == len(counts) and all(n is not None or size == 1 for n, size in zip(counts, shape, strict=True))


def _mirrors(analysis: _Analysis, node: Node) -> bool:
    amounts = analysis.elements(node.inputs[1])
    padded = {n // 2 for n, amount in enumerate(amounts) if amount != 0}
    return None not in amounts and analysis.is_static_along(node.inputs[0], padded)


def _reverses(analysis: _Analysis, node: Node) -> bool:
    return analysis.is_static_along(node.inputs[0], [node.definition.attr["seq_dim"].i])


def _splits(analysis: _Analysis, node: Node) -> bool:
    value, axis = (node.inputs[1], node.inputs[0]) if node.operation == "Split" else (node.inputs[0], node.inputs[2])
    axes = analysis.elements(axis)
    return None not in axes and analysis.is_static_along(value, axes)


def _offsets(analysis: _Analysis, node: Node) -> bool:
    """No offset comes after an operand whose size along the axis is known only at run time."""
    (axis,), taken = analysis.elements(node.inputs[0]), [v.number for v in analysis.used if v.node is node]

    def is_static(shape: Value) -> bool:
        if shape not in analysis.dependent:
            return True
        source = shape.node
        if axis is None or source.operation not in ("Shape", "ShapeN"):
            return False
        return analysis.is_static_along(source.inputs[shape.number], [axis])

    return all(map(is_static, node.inputs[1 : max(taken, default=0) + 1]))


def _in_inference(analysis: _Analysis, node: Node) -> bool:
    return not node.definition.attr["is_training"].b and _static_but_for(1)(analysis, node)


def _one_dimension(analysis: _Analysis, node: Node) -> bool:
    value = node.inputs[0]
    return _shape(value).rank == 1 or value not in analysis.dependent or _is_static(value)


def _pools(analysis: _Analysis, node: Node) -> bool:
    return node.definition.attr["padding"].s == b"VALID" or _static_but_for(1)(analysis, node)


# For any sizes.
_RIGHT = frozenset(
    # element by element
    """
    Abs Acos Acosh AddN Angle Asin Asinh Atan Atanh BesselI0e BesselI1e Betainc Bitcast Cast Ceil ClipByValue
    ComplexAbs Conj Cos Cosh Digamma Elu EluGrad EnsureShape Erf Erfc Erfinv Exp Expm1 FakeQuantWithMinMaxArgs
    Floor Identity IdentityN Igamma Igammac Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Lgamma
    Log Log1p LogicalNot Ndtri Neg Polygamma PopulationCount PreventGradient Real Reciprocal ReciprocalGrad Relu
    Relu6 Relu6Grad ReluGrad Rint Round Rsqrt RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Snapshot
    Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square StopGradient Tan Tanh TanhGrad ZerosLike
    Zeta
    """
    # shapes and moves
    """
    BroadcastGradientArgs BroadcastTo ConcatV2 ConjugateTranspose ExpandDims Fill OneHot Pack Pad PadV2 Rank
    Reshape ReverseV2 Shape ShapeN Size Slice Squeeze Transpose Unpack
    """
    # reductions, sorts, products
    """
    All Any ArgMax ArgMin BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd BiasAddGrad Cross Einsum InTopKV2
    L2Loss LogSoftmax LowerBound MatMul Max Mean Min Prod Softmax SoftmaxCrossEntropyWithLogits
    SparseSoftmaxCrossEntropyWithLogits Sum TopKV2 UpperBound
    """
    # indices
    """
    Bucketize DenseBincount DynamicPartition DynamicStitch GatherNd GatherV2 MatrixBandPart
    ParallelDynamicStitch QuantizeAndDequantizeV4 ResourceGather ResourceScatterAdd ResourceScatterNdAdd
    ResourceScatterSub ResourceScatterUpdate ScatterNd TensorScatterAdd TensorScatterMax TensorScatterMin
    TensorScatterSub TensorScatterUpdate UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
    """
    # random numbers, lists
    """
    StatelessRandomNormalV2 StatelessRandomUniformV2 TensorListFromTensor TensorListGetItem TensorListReserve
    TensorListSetItem TensorListStack
    """.split()
)

_ELEMENTS_OF_SEVERAL = """
    Add AddV2 ApproximateEqual Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan Equal FloorDiv
    FloorMod Greater GreaterEqual LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan
    NextAfter NotEqual Pow RealDiv RightShift Select SelectV2 SquaredDifference Sub TruncateDiv TruncateMod
    Xdivy Xlog1py Xlogy
"""
_IMAGES = """
    AdjustContrastv2 AdjustHue AdjustSaturation AvgPoolGrad Conv2D Conv2DBackpropFilter Conv2DBackpropInput
    Conv3D DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput ExtractImagePatches HSVToRGB LRN MaxPoolGrad RGBToHSV ResizeBilinear
    ResizeNearestNeighbor SpaceToBatchND SpaceToDepth
"""
_MATRICES = "Cholesky MatrixDiagPart MatrixDiagPartV3 MatrixInverse MatrixSolve Qr Svd"
# On a condition.
_RIGHT_IF: dict[str, Callable[[_Analysis, Node], bool]] = {
    **dict.fromkeys(_ELEMENTS_OF_SEVERAL.split(), _broadcasts),
    **dict.fromkeys(_IMAGES.split(), _static_but_for(1)),
    **dict.fromkeys(_MATRICES.split(), _static_but_for(-2)),
    **dict.fromkeys("FFT IFFT IRFFT MatrixDiag MatrixDiagV3 RFFT".split(), _static_but_for(-1)),
    **dict.fromkeys("AvgPool MaxPool".split(), _pools),
    **dict.fromkeys("Cumprod Cumsum CumulativeLogsumexp".split(), _scans),
    **dict.fromkeys("MirrorPad MirrorPadGrad".split(), _mirrors),
    **dict.fromkeys("Split SplitV".split(), _splits),
    **dict.fromkeys("StridedSlice StridedSliceGrad".split(), _slices),
    "ConcatOffset": _offsets,
    "FusedBatchNormV3": _in_inference,
    "MatrixSetDiagV3": lambda analysis, node: analysis.is_static_along(node.inputs[0], (-2, -1)),
    "Range": _counts_up,
    "ReverseSequence": _reverses,
    "Roll": _static_along_axis(2),
    "Tile": _repeats,
    "Where": _one_dimension,
}
