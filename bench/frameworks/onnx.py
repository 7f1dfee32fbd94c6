"""ONNX Runtime: a model is run once on symbols, which record an ONNX graph; parameters become its constants.

Forward passes and kernels only. Images keep ONNX's layout, features first, as long as only convolutions, pools,
batch-norms and elementwise operations use them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ..parameter_trees import leaves, map_tree, rebuild
from .base import Array, Framework, Function, Tree

OPSET = 20
_TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


class Graph:
    """Nodes, constants and inputs of the graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def name(self) -> str:
        return f"v{len(self.nodes)}_{len(self.constants)}_{len(self.inputs)}"

    def constant(self, array: Any) -> Symbol:
        array = np.asarray(array)
        symbol = Symbol(self, self.name(), array.shape, array.dtype, value=array)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), symbol.raw))
        return symbol

    def input(self, array: np.ndarray) -> Symbol:
        symbol = Symbol(self, self.name(), array.shape, array.dtype)
        self.inputs.append(helper.make_tensor_value_info(symbol.raw, _TYPES[array.dtype.name], array.shape))
        return symbol

    def node(self, op: str, operands: list[Any], shape: Any, dtype: Any, **attributes: Any) -> Symbol:
        """Adds a node with one output; operands are symbols, names, or arrays, which become constants."""
        names = [o if isinstance(o, str) else self._lift(o).name for o in operands]
        symbol = Symbol(self, self.name(), tuple(shape), np.dtype(dtype))
        self.nodes.append(helper.make_node(op, names, [symbol.raw], **attributes))
        return symbol

    def _lift(self, operand: Any) -> Symbol:
        return operand if isinstance(operand, Symbol) else self.constant(operand)


class Symbol:
    """A value of the graph. `first`: the same image with its features first; then `raw` is computed on first use."""

    def __init__(
        self, graph: Graph, raw: str, shape: Any, dtype: Any, value: Any = None, first: Symbol | None = None
    ) -> None:
        self.graph, self.raw, self.shape, self.dtype = graph, raw, tuple(shape), np.dtype(dtype)
        self.value: Any = value
        self.first: Symbol | None = first

    @property
    def name(self) -> str:
        if not self.raw:
            node = self.graph.node("Transpose", [self.first], self.shape, self.dtype, perm=(0, 2, 3, 1))
            self.raw = node.raw
        return self.raw

    def features_first(self) -> Symbol:
        if self.first is None:
            n, h, w, c = self.shape
            self.first = self.graph.node("Transpose", [self], (n, c, h, w), self.dtype, perm=(0, 3, 1, 2))
        return self.first

    def binary(self, op: str, other: Any, dtype: Any = None, swap: bool = False) -> Symbol:
        a, b = (self, other) if not swap else (other, self)
        pair = [x if isinstance(x, Symbol) else self.graph.constant(np.asarray(x, self.dtype)) for x in (a, b)]
        left, right = (x.first for x in pair)
        if left is not None and right is not None and pair[0].shape == pair[1].shape:
            return _image(left.binary(op, right, dtype))
        shape = np.broadcast_shapes(pair[0].shape, pair[1].shape)
        return self.graph.node(op, pair, shape, dtype or pair[0].dtype)

    def unary(self, op: str, **attributes: Any) -> Symbol:
        if self.first is not None:
            return _image(self.first.unary(op, **attributes))
        return self.graph.node(op, [self], self.shape, self.dtype, **attributes)

    def __neg__(self) -> Symbol:
        return self.unary("Neg")

    def __add__(self, other: Any) -> Symbol:
        return self.binary("Add", other)

    def __radd__(self, other: Any) -> Symbol:
        return self.binary("Add", other, swap=True)

    def __sub__(self, other: Any) -> Symbol:
        return self.binary("Sub", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.binary("Sub", other, swap=True)

    def __mul__(self, other: Any) -> Symbol:
        return self.binary("Mul", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.binary("Mul", other, swap=True)

    def __truediv__(self, other: Any) -> Symbol:
        return self.binary("Div", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.binary("Div", other, swap=True)

    def __gt__(self, other: Any) -> Symbol:
        return self.binary("Greater", other, bool)

    def __ge__(self, other: Any) -> Symbol:
        return self.binary("GreaterOrEqual", other, bool)

    def __le__(self, other: Any) -> Symbol:
        return self.binary("LessOrEqual", other, bool)

    def __matmul__(self, other: Symbol) -> Symbol:
        lead = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        return self.graph.node("MatMul", [self, other], (*lead, self.shape[-2], other.shape[-1]), self.dtype)

    def __getitem__(self, index: Any) -> Symbol:
        index = index if isinstance(index, tuple) else (index,)
        symbol, axis, dropped, added, place = self, 0, [], [], 0
        for item in index:
            if item is None:
                added.append(place)
                place += 1
                continue
            start, stop, _ = (slice(item, item + 1) if isinstance(item, int) else item).indices(symbol.shape[axis])
            if (start, stop) != (0, symbol.shape[axis]):
                shape = [*symbol.shape[:axis], stop - start, *symbol.shape[axis + 1 :]]
                symbol = self.graph.node("Slice", [symbol, *map(_list, (start, stop, axis))], shape, self.dtype)
            if isinstance(item, int):
                dropped.append(axis)
            else:
                place += 1
            axis += 1
        if dropped:
            shape = [n for a, n in enumerate(symbol.shape) if a not in dropped]
            symbol = self.graph.node("Squeeze", [symbol, np.array(dropped)], shape, self.dtype)
        if added:
            shape = list(symbol.shape)
            for place in added:
                shape.insert(place, 1)
            symbol = self.graph.node("Unsqueeze", [symbol, np.array(added)], shape, self.dtype)
        return symbol


def _list(n: int) -> np.ndarray:
    return np.array([n], np.int64)


def _image(first: Symbol) -> Symbol:
    """The value with its features innermost, from one with its features first."""
    n, c, h, w = first.shape
    return Symbol(first.graph, "", (n, h, w, c), first.dtype, first=first)


class OnnxRuntime(Framework):
    """A session with all graph optimisations enabled."""

    name = "onnxruntime"
    packages = ("onnxruntime", "onnx")

    def place(self, tree: Tree) -> Tree:
        return map_tree(np.asarray, tree)

    def compile(self, function: Function, trains: bool) -> Function:
        if trains:
            raise NotImplementedError("ONNX Runtime is measured on forward passes")
        return _Session(self, function)

    graph: Graph

    def reduce(self, op: str, x: Symbol, axis: Any, keepdims: bool) -> Symbol:
        axes = tuple(range(len(x.shape))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(a % len(x.shape) for a in axes)
        shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
        return self.graph.node(op, [x, np.array(axes)], shape, x.dtype, keepdims=int(keepdims))

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self.reduce("ReduceSum", x, axis, keepdims)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self.reduce("ReduceMean", x, axis, keepdims)

    def max(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return self.reduce("ReduceMax", x, axis, keepdims)

    def argmin(self, x: Array, axis: int) -> Array:
        shape = [n for a, n in enumerate(x.shape) if a != axis % len(x.shape)]
        return self.graph.node("ArgMin", [x], shape, np.int64, axis=axis, keepdims=0)

    def sort(self, x: Array) -> Array:
        names = [x.name, self.graph.constant(np.array([x.shape[-1]])).name]
        values = Symbol(self.graph, self.graph.name(), x.shape, x.dtype)
        self.graph.nodes.append(helper.make_node("TopK", names, [values.raw, values.raw + "_indices"], largest=0))
        return values

    def exp(self, x: Array) -> Array:
        return x.unary("Exp")

    def tanh(self, x: Array) -> Array:
        return x.unary("Tanh")

    def sqrt(self, x: Array) -> Array:
        return x.unary("Sqrt")

    def relu(self, x: Array) -> Array:
        return x.unary("Relu")

    def gelu(self, x: Array) -> Array:
        return x.unary("Gelu", approximate="tanh")

    def softmax(self, x: Array) -> Array:
        return x.unary("Softmax", axis=-1)

    def maximum(self, x: Array, y: Any) -> Array:
        return x.binary("Max", y)

    def where(self, condition: Array, x: Array, y: Any) -> Array:
        y = y if isinstance(y, Symbol) else self.graph.constant(np.asarray(y, x.dtype))
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        return self.graph.node("Where", [condition, x, y], shape, x.dtype)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        return self.graph.node("Reshape", [x, np.array(shape, np.int64)], shape, x.dtype)

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self.graph.node("Transpose", [x], [x.shape[a] for a in axes], x.dtype, perm=axes)

    def split(self, x: Array, count: int, axis: int) -> list[Array]:
        axis %= len(x.shape)
        part = x.shape[axis] // count
        return [x[(slice(None),) * axis + (slice(n * part, (n + 1) * part),)] for n in range(count)]

    def pad(self, x: Array, widths: tuple[tuple[int, int], ...]) -> Array:
        ends = np.array([low for low, _ in widths] + [high for _, high in widths])
        shape = [n + low + high for n, (low, high) in zip(x.shape, widths, strict=True)]
        return self.graph.node("Pad", [x, ends], shape, x.dtype)

    def arange(self, count: int) -> Array:
        return self.graph.constant(np.arange(count, dtype=np.int32))

    def take(self, table: Array, rows: Array) -> Array:
        return self.graph.node("Gather", [table, rows], (*rows.shape, *table.shape[1:]), table.dtype, axis=0)

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        indices = self.graph.node("Cast", [rows], rows.shape, np.int64, to=TensorProto.INT64)[:, None]
        return self.graph.node("ScatterND", [x, indices, updates], x.shape, x.dtype, reduction="add")

    def cumsum(self, x: Array, axis: int) -> Array:
        return self.graph.node("CumSum", [x, np.array(axis)], x.shape, x.dtype)

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        first = x.features_first()
        kernel = self.graph.constant(filters.value.transpose(3, 2, 0, 1))
        n, _, *sides = first.shape
        sides = [(s + 2 * padding - k) // stride + 1 for s, k in zip(sides, filters.shape, strict=False)]
        shape = (n, filters.shape[3], *sides)
        pads, strides = [padding] * 4, [stride] * 2
        return _image(
            self.graph.node("Conv", [first, kernel], shape, x.dtype, pads=pads, strides=strides, group=groups)
        )

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        first = x.features_first()
        n, c, *sides = first.shape
        shape = (n, c, *[(s + 2 * padding - window) // stride + 1 for s in sides])
        attributes = {"pads": [padding] * 4, "strides": [stride] * 2, "kernel_shape": [window] * 2}
        return _image(self.graph.node("MaxPool", [first], shape, x.dtype, **attributes))

    def mean_pool(self, x: Array) -> Array:
        n, c, *_ = x.features_first().shape
        pooled = self.graph.node("GlobalAveragePool", [x.features_first()], (n, c, 1, 1), x.dtype)
        return self.reshape(pooled, (n, c))

    def layer_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        return self.graph.node("LayerNormalization", [x, scale, offset], x.shape, x.dtype, axis=-1, epsilon=1e-5)

    def scale_and_shift(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        first = x.features_first()
        operands = [first, scale, offset, mean, variance]
        return _image(self.graph.node("BatchNormalization", operands, first.shape, x.dtype, epsilon=1e-5))

    def lstm(self, x: Array, weights: Array, recurrent: Array, bias: Array) -> Array:
        time, batch, _ = x.shape
        hidden = recurrent.shape[0]

        def gates(array: np.ndarray) -> np.ndarray:
            i, f, g, o = np.split(array, 4, -1)  # ONNX's order is i, o, f, g
            return np.concatenate([i, o, f, g], -1)

        w, r, b = (gates(p.value) for p in (weights, recurrent, bias))
        operands = [x, w.T[None], r.T[None], np.concatenate([b, np.zeros_like(b)])[None]]
        y = self.graph.node("LSTM", operands, (time, 1, batch, hidden), x.dtype, hidden_size=hidden)
        return self.reshape(y, (time, batch, hidden))

    def put(self, cache: Array, position: Array, new: Array) -> Array:
        time = self.arange(cache.shape[2])[None, None, :, None]
        here = self.graph.node("Equal", [time, position], time.shape, bool)
        return self.where(here, new, cache)


class _Session:
    """The function's graph, recorded at the first call."""

    def __init__(self, framework: OnnxRuntime, function: Function) -> None:
        self.framework, self.function = framework, function
        self.session: Any = None

    def __call__(self, *arguments: Any) -> Tree:
        if self.session is None:
            self._build(arguments)
        inputs = [leaf for a in arguments if not isinstance(a, dict) for leaf in leaves(a)]
        flat = self.session.run(None, dict(zip(self.names, inputs, strict=True)))
        return rebuild(self.results, iter(flat))

    def _build(self, arguments: tuple[Tree, ...]) -> None:
        graph = self.framework.graph = Graph()
        symbols = [map_tree(graph.constant if isinstance(a, dict) else graph.input, a) for a in arguments]
        self.results = self.function(*symbols)
        outputs = [helper.make_tensor_value_info(r.name, _TYPES[r.dtype.name], r.shape) for r in leaves(self.results)]
        proto = helper.make_graph(graph.nodes, "model", graph.inputs, outputs, graph.constants)
        model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        onnx.checker.check_model(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        options.log_severity_level = 3
        self.names = [i.name for i in graph.inputs]
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
