"""Sizes that are known only at run time: what is compiled agrees with TensorFlow at each size, the rest is refused."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.python.framework import op_def_registry  # noqa: E402

import refxla.tensorflow  # noqa: E402
from refxla import UnsupportedError  # noqa: E402
from refxla.frontends.tensorflow.dynamic_sizes import _RIGHT, _RIGHT_IF, refused_for_size  # noqa: E402
from refxla.frontends.tensorflow.graph import read  # noqa: E402
from refxla.frontends.tensorflow.xla_support import definitions  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::refxla.tensorflow.ClusteringWarning")
# Three, one and six of six elements are positive, and none.
ROWS = [
    [1.0, -2.0, 3.0, 4.0, -5.0, -6.0], [-1.0, 0.5, -3.0, -4.0, -5.0, -6.0], [0.3, 0.2, 0.7, 0.4, 0.5, 0.6],
    [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0],
]  # fmt: skip
WEIGHT = tf.reshape(tf.cos(tf.range(20.0)), (4, 5))
FILTER = tf.reshape(tf.sin(tf.range(54.0)), (3, 3, 2, 3))
TABLE = tf.Variable(tf.reshape(tf.range(24.0), (6, 4)))


class Operands:
    """Tensors that have as many elements, rows or images as `x` has positive elements."""

    def __init__(self, x):
        mask = self.mask = x > 0

        def chosen(values, axis=0):
            return tf.boolean_mask(values, mask, axis=axis)

        self.x = x
        self.a, self.b = chosen(x), chosen(1.25 - x)
        self.n = tf.size(self.a)
        self.i, self.at = chosen(tf.cast(x * 10, tf.int32)), chosen(tf.range(6))
        self.t = chosen(tf.cos(x * 3) > 0)
        self.c = tf.complex(self.a, self.b)
        self.rows = chosen(tf.stack([x, x * 2, 1 / x, x - 1], 1))
        self.columns = chosen(tf.reshape(tf.range(24.0), (4, 6)), axis=1)
        self.matrices = chosen(tf.reshape(tf.range(72.0) % 7, (6, 4, 3)))
        self.squares = tf.matmul(self.matrices, self.matrices, transpose_a=True) + tf.eye(3) * 50
        self.images = chosen(tf.reshape(tf.cos(tf.range(192.0)), (6, 4, 4, 2)))
        self.colours = chosen(tf.reshape(tf.cos(tf.range(6 * 48.0)) ** 2, (6, 4, 4, 3)))
        self.ends = tf.concat([self.a, [7.0, 8.0, 9.0]], 0)  # three elements at least
        self.starts = tf.concat([[7.0, 8.0, 9.0], self.a], 0)


def op(name, *inputs, **attributes):
    """An operation of TensorFlow by its name."""
    names = [argument.name for argument in op_def_registry.get(name).input_arg]
    return getattr(tf.raw_ops, name)(**dict(zip(names, inputs, strict=True)), **attributes)


def each(names, *inputs):
    return {name: lambda o, name=name: op(name, *(f(o) for f in inputs)) for name in names.split()}


def square(f, variable):
    """The gradient of the sum of the squares of what a function gives."""
    return lambda o: tf.gradients(tf.reduce_sum(f(o) ** 2), variable(o))[0]


A, B, INTEGERS, C, X = (lambda o, name=name: getattr(o, name) for name in ("a", "b", "i", "c", "x"))
ROW = tf.constant([1.0, 2.0, 3.0, 4.0])
BINARY = (
    "Add AddV2 Sub Mul MulNoNan Div RealDiv DivNoNan Xdivy Xlogy Xlog1py FloorDiv FloorMod Maximum Minimum Pow "
    "SquaredDifference Atan2 NextAfter Less LessEqual Greater GreaterEqual Equal NotEqual"
)
WHOLE = "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift Mod TruncateDiv TruncateMod"

GROUPS = {
    "unary": each(
        "Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1 "
        "FakeQuantWithMinMaxArgs Floor Inv IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p Ndtri Neg PreventGradient "
        "Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square StopGradient "
        "Tan Tanh ZerosLike Snapshot Identity L2Loss",
        A,
    ),
    "gradients": each(
        "EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad ReciprocalGrad RsqrtGrad "
        "SigmoidGrad SqrtGrad TanhGrad",
        A,
        B,
    ),
    "binary": each(BINARY + " Complex ApproximateEqual", A, B) | each(WHOLE, INTEGERS, lambda o: o.i // 3 + 1),
    "with a scalar": each(BINARY, lambda o: 2.0, A) | each(WHOLE, INTEGERS, lambda o: 3),
    "outer": each(BINARY, lambda o: o.a[:, None], lambda o: o.b[None]) | {"a row": lambda o: o.rows + ROW},
    "other elements": each("Real Imag Conj Angle ComplexAbs", C)
    | each("Invert PopulationCount", INTEGERS)
    | each("Igamma Igammac", A, A)
    | each("LogicalAnd LogicalOr", lambda o: o.t[:, None], lambda o: o.a[None] > 1)
    | {
        "LogicalNot": lambda o: ~o.t,
        "Polygamma": lambda o: tf.math.polygamma(tf.round(o.a) + 1, o.a),
        "Zeta": lambda o: tf.math.zeta(o.a + 1, o.a),
        "Betainc": lambda o: tf.math.betainc(o.a, o.a, 1 / (1 + o.a)),
        "Cast": lambda o: tf.cast(o.a, tf.int64),
        "Bitcast": lambda o: [tf.bitcast(o.a, tf.int32), tf.bitcast(o.a, tf.int16)],
        "ClipByValue": lambda o: op("ClipByValue", o.a, 0.5, 2.0),
        "AddN": lambda o: tf.add_n([o.a, o.b, o.a]),
        "Select": lambda o: tf.raw_ops.Select(condition=o.t, x=o.a, y=o.b),
        "SelectV2": lambda o: [tf.where(o.t, o.a, o.b), tf.where(o.t[:, None], o.rows, 0.0)],
        "IdentityN": lambda o: op("IdentityN", [o.a, o.i]),
        "EnsureShape": lambda o: tf.ensure_shape(o.rows, (None, 4)),
        "QuantizeAndDequantize": lambda o: tf.quantization.quantize_and_dequantize_v2(o.a, -6.0, 6.0),
    },
    "shapes": {
        "Shape": lambda o: [tf.shape(o.rows), tf.shape(o.rows)[0], tf.size(o.columns), op("Rank", o.rows)],
        "ShapeN": lambda o: op("ShapeN", [o.a, o.rows]),
        "Reshape": lambda o: [tf.reshape(o.rows, s) for s in ([-1], [-1, 2, 2], [-1, 2], [4, -1])],
        "Reshape of columns": lambda o: [tf.reshape(o.columns, s) for s in ([-1], [-1, 4], [2, 2, -1])],
        "Reshape to a shape": lambda o: [tf.reshape(o.a, [o.n, 1]), tf.reshape(o.rows, tf.shape(o.rows))],
        "Reshape of two": lambda o: tf.reshape(o.a[:, None] * o.b[None], [-1]),
        "ExpandDims": lambda o: [tf.expand_dims(o.a, n) for n in (0, 1)],
        "Squeeze": lambda o: tf.squeeze(o.a[:, None], 1),
        "Transpose": lambda o: [tf.transpose(o.rows), tf.transpose(o.matrices, [1, 0, 2])],
        "ConjugateTranspose": lambda o: op("ConjugateTranspose", tf.stack([o.c, o.c]), [1, 0]),
        "Pack": lambda o: [tf.stack([o.a, o.b], n) for n in (0, 1)],
        "Unpack": lambda o: tf.unstack(o.rows, axis=1),
        "ConcatV2": lambda o: [tf.concat([o.a, o.x, o.b], 0), tf.concat([o.columns, tf.ones((4, 2)), o.columns], 1)],
        "ReverseV2": lambda o: [op("ReverseV2", o.rows, [n]) for n in (0, 1)],
        "Pad": lambda o: [tf.pad(o.a, [[1, 2]]), tf.pad(o.a, [[0, 6 - o.n]]), tf.pad(tf.ones(3), [[0, o.n]])],
        "PadV2": lambda o: [tf.pad(o.a, [[1, 2]], constant_values=9.0), tf.pad(o.rows, [[0, 0], [1, 2]])],
        "MirrorPad": lambda o: tf.pad(o.rows, [[0, 0], [1, 1]], "SYMMETRIC"),
        "Split": lambda o: [tf.split(o.rows, 2, 1), tf.split(o.rows, [1, 3], 1)],
        "Tile": lambda o: [tf.tile(o.a, [2]), tf.tile(o.rows, [2, 3]), tf.tile([[1.0, 2.0]], [o.n, 1])],
        "BroadcastTo": lambda o: [tf.broadcast_to(o.a, [2, o.n]), tf.broadcast_to(o.a[:, None], [o.n, 3])],
        "Fill": lambda o: [tf.fill([o.n, o.n], 7.0), tf.zeros(tf.shape(o.rows))],
        "Range": lambda o: [tf.range(o.n), tf.range(1, o.n + 1), tf.range(0, 2 * o.n, 2), tf.range(0, o.n, 2)],
        "OneHot": lambda o: [tf.one_hot(o.at, 5), tf.one_hot(o.at, 5, axis=0)],
        "Roll": lambda o: tf.roll(o.rows, 1, 1),
        "ReverseSequence": lambda o: tf.reverse_sequence(o.rows, tf.zeros_like(o.i) + 2, seq_axis=1),
        "MatrixDiagV3": lambda o: [tf.linalg.diag(o.rows), op("MatrixDiag", o.rows)],
        "MatrixBandPart": lambda o: [tf.linalg.band_part(m, 0, -1) for m in (o.matrices, o.rows, o.columns)],
        "DiagPart": lambda o: [tf.linalg.diag_part(o.matrices), op("MatrixDiagPart", o.matrices)],
        "MatrixSetDiagV3": lambda o: tf.linalg.set_diag(o.matrices, o.matrices[:, :3, 0]),
        "random": lambda o: [tf.shape(f([o.n], [1, 2])) for f in NOISE],
    },
    "slices": {
        "from the front": lambda o: [o.ends[1:], o.ends[:2], o.ends[2:4], o.ends[0], o.ends[:], o.ends[None, 1:, None]],
        "to the end": lambda o: [o.ends[:-1], o.ends[1:-1], o.starts[:-2], o.ends[5:], o.ends[:100], o.ends[2:2]],
        "along what is known": lambda o: [o.rows[:, -1], o.rows[..., -2:], o.rows[1:, ::-1], o.rows[:, 1:-1]],
        "to a size": lambda o: [o.x[: o.n], o.x[o.n :], o.x[-o.n :], o.x[: -o.n], o.ends[: tf.size(o.ends) - 1]],
        "Slice": lambda o: [tf.slice(o.ends, [1], [2]), tf.slice(o.rows, [0, 1], [-1, 2]), tf.slice(o.x, [0], [o.n])],
        "gradients": lambda o: [
            tf.gradients(tf.reduce_sum(part**2), o.x)[0]
            for part in (o.starts[1:], o.starts[:-1], o.starts[2:5], o.rows[:, -1], o.rows[1:, 1:], o.starts[None, 2:])
        ],
    },
    "reductions": {
        name: lambda o, name=name: [
            *(getattr(tf.raw_ops, name)(input=o.rows, axis=axis) for axis in (0, 1, [0, 1])),
            *(getattr(tf.raw_ops, name)(input=o.columns, axis=axis, keep_dims=True) for axis in (0, -1)),
        ]
        for name in ("Sum", "Mean", "Prod", "Max", "Min")
    }
    | {
        "All": lambda o: [f(o.rows > 1, n) for n in (0, 1) for f in (tf.reduce_all, tf.reduce_any)],
        "ArgMax": lambda o: [f(o.rows, 1) for f in (tf.argmax, tf.argmin)],
        "ArgMax of all": lambda o: [f(o.ends) for f in (tf.argmax, tf.argmin)],
        "Cumsum": lambda o: [tf.cumsum(o.a, reverse=r) for r in (False, True)] + [tf.cumsum(o.rows, 1, exclusive=True)],
        "Cumsum, exclusive": lambda o: tf.cumsum(o.a, exclusive=True, reverse=True),
        "Cumprod": lambda o: tf.math.cumprod(o.a),
        "CumulativeLogsumexp": lambda o: tf.math.cumulative_logsumexp(o.a),
        "TopKV2": lambda o: [tf.math.top_k(o.ends, 2), tf.math.top_k(-o.ends, 2), tf.math.top_k(o.rows, 2)],
        "sort": lambda o: [tf.sort(o.a), tf.sort(-o.a, direction="DESCENDING"), tf.argsort(o.a), tf.sort(o.columns, 1)],
        "searches": lambda o: [tf.searchsorted(tf.sort(v), w, s) for v, w in ((o.x, o.a), (o.a, o.x)) for s in SIDES],
        "Softmax": lambda o: [f(m) for f in (tf.nn.softmax, tf.nn.log_softmax) for m in (o.rows, -o.columns)],
        "moments": lambda o: [tf.nn.moments(o.rows, [0]), tf.reduce_logsumexp(-o.a), tf.norm(o.a)],
        "cross entropies": lambda o: [
            tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(o.rows), o.rows),
            tf.nn.sparse_softmax_cross_entropy_with_logits(o.at % 4, o.rows),
            tf.math.in_top_k(o.at % 4, o.rows, 2),
        ],
    },
    "products": {
        "MatMul": lambda o: [o.rows @ WEIGHT, o.columns @ o.rows, tf.matmul(o.rows, o.rows, transpose_b=True)],
        "BatchMatMulV2": lambda o: [o.matrices @ tf.ones((3, 2)), tf.matmul(o.columns[None], o.rows[None])],
        "BatchMatMul": lambda o: op("BatchMatMul", o.matrices, o.matrices, adj_x=True),
        "BatchMatMulV3": lambda o: op("BatchMatMulV3", o.matrices, o.matrices, Tout=tf.float32, adj_x=True),
        "Einsum": lambda o: [tf.einsum("i,i->", o.a, o.b), tf.einsum("ij,ik->jk", o.rows, o.rows)],
        "Cross": lambda o: tf.linalg.cross(o.rows[:, :3], o.rows[:, 1:]),
        "BiasAdd": lambda o: [tf.nn.bias_add(o.rows, ROW), op("BiasAddGrad", o.images)],
        "Cholesky": lambda o: [tf.linalg.cholesky(o.squares), tf.linalg.inv(o.squares)],
        "MatrixSolve": lambda o: tf.linalg.solve(o.squares, tf.zeros_like(o.squares) + 1),
        "Qr": lambda o: tf.matmul(*tf.linalg.qr(o.matrices)),
        "Svd": lambda o: tf.linalg.svd(o.matrices, compute_uv=False),
        "FFT": lambda o: [f(tf.cast(o.rows, tf.complex64)) for f in FOURIER] + [tf.signal.rfft(o.rows)],
    },
    "indices": {
        "GatherV2": lambda o: [tf.gather(o.x, o.at), tf.gather(o.rows, tf.range(o.n))],
        "GatherV2 of columns": lambda o: tf.gather(o.rows, [3, 1], axis=1),
        "GatherV2 in batches": lambda o: tf.gather(o.rows, o.at % 4, batch_dims=1),
        "GatherNd": lambda o: tf.gather_nd(o.rows, tf.stack([tf.range(o.n), o.at % 4], 1)),
        "ResourceGather": lambda o: tf.nn.embedding_lookup(TABLE, o.at),
        "ScatterNd": lambda o: [tf.scatter_nd(o.at[:, None], o.a, [6]), tf.scatter_nd(o.at[:, None], o.rows, [6, 4])],
        **{
            name: lambda o, name=name: [
                op(name, o.x, o.at[:, None], o.a),
                op(name, o.ends, [[0], [1]], [4.0, -5.0]),
                op(name, o.rows, tf.range(o.n)[:, None], o.rows * 2),
            ]
            for name in (f"TensorScatter{n}" for n in "Update Add Sub Max Min".split())
        },
        **{
            name: lambda o, name=name: [op(name, o.a, o.at // 2, 3), op(name, o.rows, o.at // 2, 3)]
            for name in (f"UnsortedSegment{n}" for n in "Sum Prod Max Min".split())
        },
        "DenseBincount": lambda o: op("DenseBincount", o.at, 6, tf.zeros(0)),
        "Bucketize": lambda o: op("Bucketize", o.a, boundaries=[0.3, 1.0, 3.0]),
        "DynamicPartition": lambda o: tf.dynamic_partition(o.rows, tf.cast(o.t, tf.int32), 2),
        "DynamicStitch": lambda o: [op(name, *partitions(o)) for name in ("DynamicStitch", "ParallelDynamicStitch")],
        "Where": lambda o: [tf.where(o.t), tf.where(tf.reshape(o.x, (2, 3)) > 0), tf.boolean_mask(o.rows, o.t)],
    },
    "rows of variables": {
        name: lambda o, write=write: changed(o, write)
        for name, write in {
            "add": lambda o: TABLE.scatter_add(tf.IndexedSlices(o.rows, o.at)),
            "sub": lambda o: TABLE.scatter_sub(tf.IndexedSlices(o.rows, o.at)),
            "update": lambda o: TABLE.scatter_update(tf.IndexedSlices(o.rows, o.at)),
            "nd_add": lambda o: TABLE.scatter_nd_add(o.at[:, None], o.rows),
        }.items()
    },
    "images": {
        "Conv2D": lambda o: [tf.nn.conv2d(o.images, FILTER, s, "SAME") for s in (1, 2)],
        "DepthwiseConv2dNative": lambda o: tf.nn.depthwise_conv2d(o.images, FILTER, [1, 1, 1, 1], "VALID"),
        "Conv3D": lambda o: tf.nn.conv3d(o.images[..., None], tf.ones((2, 2, 1, 1, 3)), [1] * 5, "SAME"),
        "MaxPool": lambda o: tf.nn.max_pool2d(o.images, 2, 2, "SAME"),
        "AvgPool": lambda o: [tf.nn.avg_pool2d(o.images, 2, 1, "SAME"), valid_average(o)],
        "Conv2D's gradient": square(lambda o: tf.nn.conv2d(*scaled(o), 1, "SAME"), X),
        "DepthwiseConv2dNative's": square(lambda o: tf.nn.depthwise_conv2d(*scaled(o), [1, 1, 1, 1], "SAME"), X),
        "MaxPool's": square(lambda o: tf.nn.max_pool2d(o.images * o.x[0], 2, 2, "VALID"), X),
        "AvgPool's": square(lambda o: tf.nn.avg_pool2d(o.images * o.x[0], 2, 1, "SAME"), X),
        "FusedBatchNormV3": lambda o: op(
            "FusedBatchNormV3", o.images, [1.0, 2.0], [0.0, 1.0], [0.0, 0.1], [1.0, 2.0], is_training=False
        )[0],
        "LRN": lambda o: tf.nn.lrn(o.images),
        "SpaceToDepth": lambda o: [tf.nn.space_to_depth(o.images, 2), tf.nn.depth_to_space(o.images[..., :1] * ROW, 2)],
        "SpaceToBatchND": lambda o: tf.space_to_batch(o.images, [2, 2], [[0, 0], [0, 0]]),
        "resize": lambda o: [tf.image.resize(o.images, (6, 6), how) for how in ("bilinear", "nearest")],
        "ExtractImagePatches": lambda o: tf.image.extract_patches(o.images, [1, 2, 2, 1], *[[1] * 4] * 2, "VALID"),
        "colours": lambda o: [tf.image.rgb_to_hsv(o.colours), tf.image.hsv_to_rgb(o.colours)],
        "adjusted": lambda o: [
            f(o.colours, 0.1) for f in (tf.image.adjust_contrast, tf.image.adjust_hue, tf.image.adjust_saturation)
        ],
    },
    "loops": {
        "map_fn": lambda o: [tf.map_fn(lambda e: e * 2, o.a), tf.map_fn(tf.reduce_sum, o.rows)],
        "vectorized_map": lambda o: tf.vectorized_map(lambda e: e * 2, o.a),
        "scan": lambda o: tf.scan(lambda s, e: s * 0.5 + e, o.ends),
        "foldl": lambda o: tf.foldl(lambda s, e: s * 0.5 + tf.reduce_sum(e), o.rows, 0.0),
        "count": lambda o: tf.while_loop(lambda i, s: i < o.n, lambda i, s: (i + 1, s + 1.5), (0, 0.0))[1],
        "carried": lambda o: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2), (0, o.a))[1],
        "cond": lambda o: [
            tf.cond(o.n > 2, lambda: o.a * 2, lambda: o.a),
            tf.cond(o.n > 0, lambda: tf.reduce_mean(o.a), lambda: 0.0),
            tf.switch_case(o.n % 2, [lambda: o.a * 2, lambda: o.a]),
        ],
        "a size that suppression finds": lambda o: tf.image.non_max_suppression(
            tf.stack([o.x, o.x, o.x + 1.5, o.x + 1.5], 1), o.x, 4
        ),
    },
    "whole gradients": {
        name: lambda o, f=f: tf.gradients(f(o), o.x)[0]
        for name, f in {
            "masked loss": lambda o: tf.reduce_mean(tf.square(o.a - o.b)),
            "products": lambda o: tf.reduce_sum(tf.nn.relu(o.rows @ WEIGHT) ** 2),
            "centred": lambda o: tf.reduce_sum(tf.square(o.rows - tf.reduce_mean(o.rows, 0))),
            "concat behind": lambda o: tf.reduce_sum(tf.concat([o.a, tf.ones(2)], 0) ** 2),
            "max": lambda o: tf.reduce_sum(tf.reduce_max(o.rows, 1) ** 2),
            "outer": lambda o: tf.reduce_sum((o.a[:, None] * o.a[None]) ** 2),
            "concat": lambda o: tf.reduce_sum(tf.concat([tf.ones(2), o.a], 0) ** 2),
            "concat of columns": lambda o: tf.reduce_sum(tf.concat([o.rows, o.rows * 2], 1) ** 2),
            "pad": lambda o: tf.reduce_sum(tf.pad(o.a, [[1, 2]]) ** 2),
            "repeat": lambda o: tf.reduce_sum(tf.repeat(o.a, 2) ** 2),
            "cumsum": lambda o: tf.reduce_sum(tf.cumsum(o.a) ** 2),
            "softmax": lambda o: tf.reduce_sum(tf.nn.softmax(o.rows)[:, 0]),
            "mask": lambda o: tf.reduce_sum(tf.boolean_mask(o.a, o.a > 1) ** 2),
            "scatter": lambda o: tf.reduce_sum(tf.scatter_nd(o.at[:, None], o.a, [6]) ** 2),
            "gather_nd": lambda o: tf.reduce_sum(tf.gather_nd(o.x * o.x, tf.where(o.mask)) ** 2),
            "where": lambda o: tf.reduce_sum(tf.where(o.a > 1, o.a**2, tf.sin(o.a))),
            "mirror": lambda o: tf.reduce_sum(
                tf.pad(tf.concat([o.rows, ROW[None]], 0), [[0, 0], [1, 1]], "REFLECT") ** 2
            ),
            "segments": lambda o: tf.reduce_sum(tf.math.unsorted_segment_sum(o.a, o.at // 2, 3) ** 2),
            "cross entropy": lambda o: tf.reduce_sum(
                tf.nn.sparse_softmax_cross_entropy_with_logits(o.at % 4, o.rows) * o.a
            ),
        }.items()
    },
}  # fmt: skip
SIDES, FOURIER = ("left", "right"), (tf.signal.fft, tf.signal.ifft, tf.signal.irfft)
NOISE = (tf.random.stateless_uniform, tf.random.stateless_normal)


def changed(o, write):
    TABLE.assign(tf.ones((6, 4)))
    write(o)
    return TABLE.read_value()


def partitions(o):
    where = tf.cast(o.mask, tf.int32)
    return tf.dynamic_partition(tf.range(6), where, 2), tf.dynamic_partition(o.x, where, 2)


def scaled(o):
    """Images, one at least, and a filter, which all depend on x."""
    return tf.concat([o.images, tf.ones((1, 4, 4, 2))], 0) * o.x[0], FILTER * o.x[1]


def valid_average(o):
    return tf.nn.avg_pool1d(o.ends[None, :, None], 2, 1, "VALID")


def of_operands(cases):
    """A function of x: what all the cases give."""

    @tf.autograph.experimental.do_not_convert
    def function(x):
        operands = Operands(x)
        return {name: case(operands) for name, case in cases.items()}

    return tf.function(function)


def agree(got, wanted):
    tf.nest.assert_same_structure(got, wanted)
    for name in wanted:
        for a, b in zip(tf.nest.flatten(got[name]), tf.nest.flatten(wanted[name]), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            np.testing.assert_allclose(a, b, 2e-3, 1e-4, err_msg=name)


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_compiled_is_right_at_each_size(group):
    function = of_operands(GROUPS[group])
    compiled = refxla.compile(function, device="reference")
    for row in ROWS:
        agree(compiled(tf.constant(row)), function(tf.constant(row)))


def test_every_row_of_the_table_is_tried():
    tried = set()
    for cases in GROUPS.values():
        content = of_operands(cases).get_concrete_function(tf.constant(ROWS[0])).graph.as_graph_def()
        tried |= {node.op for node in definitions(content)}
    assert sorted({*_RIGHT, *_RIGHT_IF} - tried) == []


def test_some_on_a_device():
    cases = GROUPS["slices"] | GROUPS["loops"] | GROUPS["whole gradients"]
    function = of_operands(cases)
    compiled = refxla.compile(function)
    for row in ROWS:
        agree(compiled(tf.constant(row)), function(tf.constant(row)))


# What TensorFlow's own bridge gets wrong: refused by `compile`, right by `cluster`.


WRONG = {
    "the last": lambda o: o.ends[-1],
    "the last two": lambda o: o.ends[-2:],
    "between": lambda o: o.ends[-3:-1],
    "from a number on": lambda o: o.ends[o.n - 4 :],
    "of its gradient": lambda o: tf.gradients(o.starts[-1] ** 2, o.x)[0],
    "roll": lambda o: tf.roll(o.a, 1, 0),
    "exclusive": lambda o: tf.math.cumprod(o.a, exclusive=True),
    "eye": lambda o: tf.eye(o.n),
    "diag": lambda o: tf.linalg.diag(o.a),
    "trace": lambda o: tf.linalg.trace(o.a[:, None] * o.a[None]),
    "mirror": lambda o: tf.pad(o.ends, [[1, 1]], "REFLECT"),
    "reverse_sequence": lambda o: tf.reverse_sequence(o.ends[None], [2], seq_axis=1),
    "ones_like": lambda o: tf.raw_ops.OnesLike(x=o.a),
    "tile": lambda o: tf.tile([1.0, 2.0], [o.n]),
    "range from": lambda o: tf.range(o.n, 10),
    "range down": lambda o: tf.range(o.n, 0, -1),
    "where of rows": lambda o: tf.where(o.columns > 9),
    "average": lambda o: tf.nn.avg_pool1d(o.ends[None, :, None], 2, 1, "SAME"),
    "in a loop": lambda o: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + o.ends[-1]), (0, 0.0))[1],
    "in a branch": lambda o: tf.cond(o.x[0] > 0, lambda: o.ends[-1], lambda: 0.0),
    "offsets": lambda o: tf.gradients(tf.reduce_sum(tf.concat([o.a, o.a * 2], 0) ** 2), o.x)[0],
    "one element for all": lambda o: o.x + o.x[o.mask & (o.x >= tf.reduce_max(o.x))],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_would_be_wrong(name):
    function = of_operands({name: WRONG[name]})
    with pytest.raises(UnsupportedError, match="known only at run time") as caught:
        refxla.compile(function)(tf.constant(ROWS[0]))
    assert f"{__file__.rpartition('/')[2]}:" in str(caught.value)  # the line of the user's program
    clustered = refxla.tensorflow.cluster(function)
    for row in ROWS[:3]:
        agree(clustered(tf.constant(row)), function(tf.constant(row)))


def test_a_cluster_follows_with_known_sizes():
    """The last element is TensorFlow's; what comes before and after it is compiled, for the sizes that there are."""

    def function(x):
        kept = tf.boolean_mask(tf.tanh(tf.exp(x) - x * 0.5), x > 0)
        last = kept[-1]
        return tf.reduce_sum(tf.sin(kept * last) + tf.exp(-last) * kept[::-1])

    clustered = refxla.tensorflow.cluster(function)
    for row in ROWS[:3]:
        np.testing.assert_allclose(clustered(tf.constant(row)), function(tf.constant(row)), 1e-5)
    report = refxla.tensorflow.report(clustered)
    assert len(report.clusters) == 2
    assert any(o.operation == "StridedSlice" and "run time" in o.reason for o in report.in_tensorflow)
    assert any(o.operation == "Where" for o in report.clusters[0])
    assert any(o.operation == "Sin" for o in report.clusters[1])


def test_an_argument_that_is_an_index():
    function = tf.function(lambda x, i: tf.boolean_mask(x, x > 0)[i])
    compiled = refxla.compile(function)
    x = tf.constant(ROWS[0])
    assert [float(compiled(x, tf.constant(i))) for i in (0, 2)] == [1, 4]
    with pytest.raises(UnsupportedError, match="known only at run time"):
        compiled(x, tf.constant(-1))


def test_nothing_is_refused_where_all_sizes_are_known():
    graph = tf.function(lambda x: tf.roll(x, 1, 0)[-1]).get_concrete_function(tf.TensorSpec([None])).graph
    assert not refused_for_size(read(graph), [])
