"""vmap: applies a function of NumPy to all elements along a dimension of its arguments at once.

The function is traced for one element, into a region. Its instructions are then recreated for all elements: a value
that depends on the element is *batched*, and has the elements along a new first dimension; any other value is
unchanged. A rule below does this for each kind of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from refxla_spec.errors import InputError, UnsupportedError, a_type, plural
from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import PRED, S64, Shape

from ...compiler.options import Options
from ...ir.builder import reducer
from . import NumpyFunction
from .array import Traced
from .control_flow import closed, free_values, shown
from .reduction_functions import REDUCERS, identity_of
from .tracing import Tracing, running
from .trees import from_leaves, leaves
from .untyped import np
from .values import I, array_of, lift

if TYPE_CHECKING:
    from ...typing import Tree

R = TypeVar("R")
Value = tuple[I, bool]  # an instruction, and whether it is batched
Rule = Callable[["_Batch", I, Sequence[Value]], I]


def vmap(fun: Callable[..., R], in_axes: Tree = 0, out_axes: Tree = 0) -> Callable[..., R]:
    """A function that takes arrays with one more dimension, and returns the stacked results of `fun` for the elements
    along it:

        vmap(f)(x, y)  is  np.stack([f(a, b) for a, b in zip(x, y)])

    `in_axes` says which dimension of an argument that is (None: the argument is the same for all elements): one number
    for all arguments, or a tuple with one for each, in which a nesting like the argument's gives it for each array.
    `out_axes` is its position in the results. Outside a compiled function, it is compiled when it is called.
    """
    if not callable(fun):
        raise InputError(f"refxla.vmap takes a function, and is given {a_type(fun)}")

    def call(*arguments: Any) -> Any:
        b = running()
        if b is None:
            return compiled(*arguments)
        return _vmapped(b, fun, in_axes, out_axes, arguments)

    compiled = NumpyFunction(call, Options())
    call.__name__, call.__doc__ = f"vmap_of_{getattr(fun, '__name__', 'function')}", fun.__doc__
    # so that the values that `fun` reads are found (captures.py)
    call.__module__ = getattr(fun, "__module__", __name__)
    return call


def _axes(spec: Any, tree: Any) -> list[int | None]:
    """The dimension for each array of an argument, from in_axes."""
    count = len(leaves(tree))
    if spec is None or isinstance(spec, int):
        return [spec] * count
    axes = leaves(spec)
    if len(axes) != count:
        raise InputError(
            f"in_axes of refxla.vmap has {plural(len(axes), 'axis', 'axes')} for an argument with "
            f"{plural(count, 'array')} ({shown(tree)})"
        )
    return axes


def _vmapped(b: Tracing, fun: Callable[..., Any], in_axes: Any, out_axes: Any, arguments: tuple[Any, ...]) -> Any:
    specs = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(arguments)
    if len(specs) != len(arguments):
        raise InputError(
            f"in_axes of refxla.vmap has {plural(len(specs), 'axis', 'axes')} for {plural(len(arguments), 'argument')}"
        )
    arrays = leaves(arguments)
    axes = [axis for spec, argument in zip(specs, arguments, strict=True) for axis in _axes(spec, argument)]
    moved = []
    for x, axis in zip(arrays, axes, strict=True):
        if axis is not None and not -np.ndim(x) <= axis < np.ndim(x):
            raise InputError(
                f"refxla.vmap goes along dimension {axis} of an argument of shape {np.shape(x)}: say None in in_axes "
                "for what is the same for all elements"
            )
        moved.append(x if axis is None else np.moveaxis(array_of(b, x), axis, 0))
    sizes = {np.shape(x)[0] for x, axis in zip(moved, axes, strict=True) if axis is not None}
    if len(sizes) != 1:
        raise InputError(
            f"refxla.vmap goes along dimensions of the sizes {sorted(sizes)}: they must be one, and at least one "
            "argument has it"
        )
    (size,) = sizes
    inputs: dict[I, Value] = {}
    with b.within(f"the function of refxla.vmap ({getattr(fun, '__name__', 'function')})") as region:
        own = []
        for x, axis in zip(moved, axes, strict=True):
            if axis is None:
                own.append(x)
                continue
            whole = x.instruction
            element = b.stand_in(Shape(whole.shape.element_type, whole.shape.dimensions[1:]))
            inputs[element] = whole, True
            own.append(Traced(element, b))
        result = fun(*from_leaves(arguments, own))
        outputs = [None if leaf is None else array_of(b, leaf) for leaf in leaves(result)]
        values = [a.instruction for a in outputs if a is not None]
    checks = [condition for condition, _ in region.checks]
    order, free = free_values(b, region, [*values, *checks])
    batch = _Batch(b, size, {**inputs, **{i: (i, False) for i in free}})
    batch.run(order)
    for condition, error in region.checks:
        is_met, _ = batch.value(condition)
        if is_met.shape.rank:
            is_met = b.make("reduce", is_met, b.scalar(True, PRED), dimensions=(0,), to_apply=reducer("and", PRED))
        b.region.checks.append((is_met, error))
    results: list[Any] = []
    own_values = iter(values)
    for a, place in zip(outputs, _out_axes(out_axes, result), strict=True):
        if a is None:
            results.append(None)
            continue
        instruction = next(own_values)
        if place is None:
            value, is_batched = batch.value(instruction)
            if is_batched:
                raise InputError("out_axes of refxla.vmap is None for a result that is not the same for all elements")
            results.append(Traced(value, b))
        else:
            results.append(np.moveaxis(Traced(batch.batched(instruction), b), 0, place))
    return from_leaves(result, results)


def _out_axes(spec: Any, tree: Any) -> list[int | None]:
    count = len(leaves(tree))
    if spec is None or isinstance(spec, int):
        return [spec] * count
    axes = leaves(spec)
    if len(axes) != count:
        raise InputError(
            f"out_axes of refxla.vmap has {plural(len(axes), 'axis', 'axes')} for {plural(count, 'result')}"
        )
    return axes


class _Batch:
    """Recreates instructions for all elements of a batch; `values` maps instructions to their replacements."""

    def __init__(self, b: Tracing, size: int, values: dict[I, Value]) -> None:
        self.b, self.size, self.values = b, size, values
        self.tuples: dict[I, list[Value]] = {}  # tuples are not recreated: a tuple is represented by its elements

    def run(self, order: Sequence[I]) -> None:
        for i in order:
            if i in self.values:
                continue
            operands = [self.value(o) for o in i.operands]
            if i.opcode == "tuple":
                self.tuples[i] = operands
            elif i.opcode == "get-tuple-element" and i.operands[0] in self.tuples:
                self.values[i] = self.tuples[i.operands[0]][i.index]
            elif i.opcode == "get-tuple-element":
                self.values[i] = self.b.make("get-tuple-element", operands[0][0], index=i.index), operands[0][1]
            elif i.opcode in _CONTROL:
                self.tuples[i] = _CONTROL[i.opcode](self, i, operands)
            elif not any(is_batched for _, is_batched in operands):
                self.values[i] = self.remake(i, [o for o, _ in operands], i.shape), False
            else:
                rule = _RULES.get(i.opcode)
                if rule is None:
                    raise UnsupportedError(f"refxla.vmap: {i.opcode} has no form for several elements at once")
                self.values[i] = rule(self, i, operands), True

    def value(self, i: I) -> Value:
        """The replacement of an instruction: itself, if it depends on nothing in the region."""
        return self.values.get(i, (i, False))

    def batched(self, i: I) -> I:
        """The replacement of an instruction, batched."""
        return self.spread(self.value(i))

    def spread(self, value: Value) -> I:
        x, is_batched = value
        if is_batched:
            return x
        dims = x.shape.dimensions
        return self.b.spread(x, Shape(x.shape.element_type, (self.size, *dims)), tuple(range(1, len(dims) + 1)))

    def shape(self, s: Shape) -> Shape:
        return Shape(s.element_type, (self.size, *s.dimensions))

    def remake(self, i: I, operands: Sequence[I], shape: Shape, **attributes: Any) -> I:
        """The same operation on other operands, with some attributes changed."""
        changed = {**i.attributes, **attributes}
        return self.b.make(i.opcode, *operands, shape=shape, backend_config=i.backend_config, **changed)


_RULES: dict[str, Rule] = {}


def _rule(*opcodes: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for opcode in opcodes:
            _RULES[opcode] = function
        return function

    return enter


def _up(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(d + 1 for d in dims)


def _shapes(batch: _Batch, s: Shape) -> Shape:
    return Shape.tuple_of(*(batch.shape(e) for e in s.elements)) if s.is_tuple else batch.shape(s)


@_rule(
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan2", "atanh", "bitcast-convert", "cbrt", "ceil", "clamp",
    "compare", "complex", "convert", "copy", "cosh", "cosine", "count-leading-zeros", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic", "maximum", "minimum",
    "multiply", "negate", "not", "or", "popcnt", "power", "real", "remainder", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic",
    "shift-right-logical", "sign", "sine", "sinh",
    "sqrt", "subtract", "tan", "tanh", "xor", "cholesky", "triangular-solve", "custom-call", "fft",
)  # fmt: skip
def _same(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    """Operations that allow further leading dimensions unchanged."""
    return batch.remake(i, [batch.spread(o) for o in operands], _shapes(batch, i.shape))


@_rule("reshape")
def _reshape(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    return batch.b.reshape(operands[0][0], (batch.size, *i.shape.dimensions))


@_rule("broadcast")
def _broadcast(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    return batch.remake(i, [operands[0][0]], batch.shape(i.shape), dimensions=(0, *_up(i.dimensions)))


@_rule("transpose")
def _transpose(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    return batch.remake(i, [operands[0][0]], batch.shape(i.shape), dimensions=(0, *_up(i.dimensions)))


@_rule("reverse")
def _reverse(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    return batch.remake(i, [operands[0][0]], batch.shape(i.shape), dimensions=_up(i.dimensions))


@_rule("concatenate")
def _concatenate(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    return batch.remake(i, [batch.spread(o) for o in operands], batch.shape(i.shape), dimensions=_up(i.dimensions))


@_rule("slice")
def _slice(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    whole = SliceDimension(0, batch.size, 1)
    return batch.remake(i, [operands[0][0]], batch.shape(i.shape), slice=(whole, *i.attributes["slice"]))


@_rule("pad")
def _pad(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    (x, value), b = operands, batch.b
    padding = (PaddingDimension(0, 0), *i.padding)
    if not value[1]:
        return batch.remake(i, [batch.spread(x), value[0]], batch.shape(i.shape), padding=padding)
    kind = x[0].shape.element_type
    padded = batch.remake(i, [batch.spread(x), b.scalar(0, kind)], batch.shape(i.shape), padding=padding)
    inside = b.make(
        "pad", b.full(True, Shape(PRED, batch.spread(x).shape.dimensions)), b.scalar(False, PRED), padding=padding
    )
    return b.select(inside, padded, b.spread(value[0], padded.shape, (0,)))


@_rule("reduce")
def _reduce(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    n = len(operands) // 2
    if any(is_batched for _, is_batched in operands[n:]):
        return _reduce_from(batch, i, operands)
    inputs = [batch.spread(o) for o in operands[:n]] + [o for o, _ in operands[n:]]
    return batch.remake(i, inputs, _shapes(batch, i.shape), dimensions=_up(i.dimensions))


def _reduce_from(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    """A reduction with an initial value for each element: the value becomes one more element of the reduction."""
    if len(operands) != 2 or len(i.dimensions) < 1:
        raise UnsupportedError("refxla.vmap: a reduction of several arrays with initial values that differ")
    b, x, start = batch.b, batch.spread(operands[0]), operands[1][0]
    d = i.dimensions[0] + 1
    shape = tuple(1 if k == d else n for k, n in enumerate(x.shape.dimensions))
    front = b.spread(start, Shape(x.shape.element_type, shape), (0,))
    rest = [k for k in i.dimensions if k + 1 != d]
    if rest:
        raise UnsupportedError("refxla.vmap: a reduction of several dimensions with initial values that differ")
    opcode = i.to_apply.root.opcode
    if opcode not in REDUCERS.values():
        raise UnsupportedError("refxla.vmap: np.fmax, np.fmin and extremes of complex numbers with an initial value")
    joined = b.make("concatenate", front, x, dimensions=(d,))
    identity = lift(b, identity_of(opcode, np.dtype(x.shape.element_type.dtype)))
    return batch.remake(i, [joined, identity], batch.shape(i.shape), dimensions=(d,))


@_rule("reduce-window")
def _reduce_window(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    if operands[1][1]:
        raise UnsupportedError("refxla.vmap: a window with initial values that differ")
    window = (WindowDimension(1), *i.window)
    return batch.remake(i, [operands[0][0], operands[1][0]], batch.shape(i.shape), window=window)


@_rule("sort")
def _sort(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    inputs = [batch.spread(o) for o in operands]
    return batch.remake(i, inputs, _shapes(batch, i.shape), dimensions=_up(i.dimensions))


@_rule("dot")
def _dot(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    x, y = (batch.spread(o) for o in operands)
    attributes = {
        "lhs_batch_dims": (0, *_up(i.lhs_batch_dims)), "rhs_batch_dims": (0, *_up(i.rhs_batch_dims)),
        "lhs_contracting_dims": _up(i.lhs_contracting_dims), "rhs_contracting_dims": _up(i.rhs_contracting_dims),
    }  # fmt: skip
    return batch.remake(i, [x, y], batch.shape(i.shape), **attributes)


@_rule("convolution")
def _convolution(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    """For vectors, as np.convolve creates them: each element's is a group of features."""
    x, w = (batch.spread(o) for o in operands)
    (n, _, _, length), (_, _, _, k) = x.shape.dimensions, w.shape.dimensions
    b = batch.b
    result = b.make(
        "convolution", b.reshape(x, (1, n, length)), b.reshape(w, (n, 1, k)), dim_labels=i.dim_labels, window=i.window,
        feature_group_count=n,
    )  # fmt: skip
    return b.reshape(result, (n, *i.shape.dimensions))


@_rule("gather")
def _gather(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    x, at = (batch.spread(o) for o in operands)
    attributes = {
        "offset_dims": _up(i.offset_dims), "collapsed_slice_dims": _up(i.collapsed_slice_dims),
        "start_index_map": _up(i.start_index_map), "index_vector_dim": i.index_vector_dim + 1,
        "operand_batching_dims": (0, *_up(i.operand_batching_dims)),
        "start_indices_batching_dims": (0, *_up(i.start_indices_batching_dims)), "slice_sizes": (1, *i.slice_sizes),
    }  # fmt: skip
    return batch.remake(i, [x, at], batch.shape(i.shape), **attributes)


@_rule("scatter")
def _scatter(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    attributes = {
        "update_window_dims": _up(i.update_window_dims), "inserted_window_dims": _up(i.inserted_window_dims),
        "scatter_dims_to_operand_dims": _up(i.scatter_dims_to_operand_dims), "index_vector_dim": i.index_vector_dim + 1,
        "input_batching_dims": (0, *_up(i.input_batching_dims)),
        "scatter_indices_batching_dims": (0, *_up(i.scatter_indices_batching_dims)),
    }  # fmt: skip
    return batch.remake(i, [batch.spread(o) for o in operands], batch.shape(i.shape), **attributes)


def _clamped_starts(batch: _Batch, starts: Sequence[Value], whole: Sequence[int], sizes: Sequence[int]) -> I:
    """[batch, rank] (s64): where blocks begin, clamped like those of dynamic-slice."""
    b = batch.b
    columns = []
    for start, n, size in zip(starts, whole, sizes, strict=True):
        at = b.convert(batch.spread(start), S64)
        at = b.clamp(b.full(0, at.shape), at, b.full(n - size, at.shape))
        columns.append(b.reshape(at, (batch.size, 1)))
    return columns[0] if len(columns) == 1 else b.make("concatenate", *columns, dimensions=(1,))


@_rule("dynamic-slice")
def _dynamic_slice(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    x, starts = operands[0], operands[1:]
    sizes, whole = i.dynamic_slice_sizes, i.operands[0].shape.dimensions
    if not any(is_batched for _, is_batched in starts):
        at = [batch.b.scalar(0, starts[0][0].shape.element_type), *(s for s, _ in starts)]
        return batch.remake(i, [x[0], *at], batch.shape(i.shape), dynamic_slice_sizes=(batch.size, *sizes))
    rank = len(whole)
    return batch.b.make(
        "gather", batch.spread(x), _clamped_starts(batch, starts, whole, sizes), shape=batch.shape(i.shape),
        offset_dims=tuple(range(1, rank + 1)), start_index_map=tuple(range(1, rank + 1)), index_vector_dim=1,
        operand_batching_dims=(0,), start_indices_batching_dims=(0,), slice_sizes=(1, *sizes),
    )  # fmt: skip


@_rule("dynamic-update-slice")
def _dynamic_update_slice(batch: _Batch, i: I, operands: Sequence[Value]) -> I:
    x, update, starts = operands[0], operands[1], operands[2:]
    sizes, whole = i.operands[1].shape.dimensions, i.operands[0].shape.dimensions
    if not any(is_batched for _, is_batched in starts):
        at = [batch.b.scalar(0, starts[0][0].shape.element_type), *(s for s, _ in starts)]
        return batch.remake(i, [batch.spread(x), batch.spread(update), *at], batch.shape(i.shape))
    rank, kind = len(whole), Shape(x[0].shape.element_type)
    p = [Instruction(n, "parameter", kind, [], {"number": k}) for k, n in enumerate("ab")]
    batch.b.count += 1
    return batch.b.make(
        "scatter", batch.spread(x), _clamped_starts(batch, starts, whole, sizes), batch.spread(update),
        update_window_dims=tuple(range(1, rank + 1)), scatter_dims_to_operand_dims=tuple(range(1, rank + 1)),
        index_vector_dim=1, input_batching_dims=(0,), scatter_indices_batching_dims=(0,),
        to_apply=Computation(f"{batch.b.name}.last.{batch.b.count}", p, p[1]),
    )  # fmt: skip


# -- loops and branches


def _inlined(batch: _Batch, computation: Computation, values: Sequence[Value]) -> list[Value]:
    """The results of a computation that takes a tuple, for all elements."""
    (parameter,) = [i for i in computation.instructions if i.opcode == "parameter"]
    inner = _Batch(batch.b, batch.size, {})
    inner.tuples[parameter] = list(values)
    inner.run([i for i in computation.instructions if i is not parameter])
    root = computation.root
    return inner.tuples[root] if root in inner.tuples else [inner.value(root)]


def _branches(batch: _Batch, i: I, operands: Sequence[Value]) -> list[Value]:
    """A condition for each element: both branches are computed, and each element selects one."""
    b, (index, is_batched) = batch.b, operands[0]
    sides = [
        _inlined(batch, c, batch.tuples[o])
        for c, o in zip((i.true_computation, i.false_computation), i.operands[1:], strict=True)
    ]
    values: list[Value] = []
    for x, y in zip(*sides, strict=True):
        if not (is_batched or x[1] or y[1]):
            scalar = b.spread(index, x[0].shape.with_element_type(PRED), ()) if x[0].shape.rank else index
            values.append((b.select(scalar, x[0], y[0]), False))
            continue
        left, right = batch.spread(x), batch.spread(y)
        wide = b.spread(index, left.shape.with_element_type(PRED), (0,) if is_batched else ())
        values.append((b.select(wide, left, right), True))
    return values


def _loop(batch: _Batch, i: I, operands: Sequence[Value]) -> list[Value]:
    """A loop that continues as long as any element's does; the others keep their state. Values that depend on the
    element in any iteration are batched from the beginning."""
    b = batch.b
    start = batch.tuples[i.operands[0]]
    flags = [is_batched for _, is_batched in start]
    while True:
        with b.within("the body of a loop of refxla.vmap") as body:
            inputs = [
                b.stand_in(batch.shape(s.shape) if f else s.shape)
                for s, f in zip(i.operands[0].operands, flags, strict=True)
            ]
            values = list(zip(inputs, flags, strict=True))
            (goes_on,) = _inlined(batch, i.condition, values)
            after = _inlined(batch, i.body, values)
            wider = [f or g or goes_on[1] for f, (_, g) in zip(flags, after, strict=True)]
            unchanged = [new is old for (new, _), old in zip(after, inputs, strict=True)]
            wider = [f if same else w for f, w, same in zip(flags, wider, unchanged, strict=True)]
            if wider != flags:
                flags = wider
                continue
            results = []
            for (new, is_new), old, f, same in zip(after, inputs, flags, unchanged, strict=True):
                value = new if same or not f else batch.spread((new, is_new))
                if goes_on[1] and f and not same:
                    mask = b.spread(goes_on[0], value.shape.with_element_type(PRED), (0,))
                    value = b.select(mask, value, old)
                results.append(value)
            break
    with b.within("the condition of a loop of refxla.vmap") as test:
        own = [b.stand_in(g.shape) for g in inputs]
        ((condition, several),) = _inlined(batch, i.condition, list(zip(own, flags, strict=True)))
        if several:
            condition = b.make(
                "reduce", condition, b.scalar(False, PRED), dimensions=(0,), to_apply=reducer("or", PRED)
            )
    free = list(dict.fromkeys((*free_values(b, test, [condition])[1], *free_values(b, body, results)[1])))
    first = [batch.spread(v) if f else v[0] for v, f in zip(start, flags, strict=True)]
    loop = b.make(
        "while", b.tuple(*first, *free),
        condition=closed(b, test, "condition", own, free, [condition], is_tuple=False),
        body=closed(b, body, "body", inputs, free, [*results, *free]),
    )  # fmt: skip
    return [(b.make("get-tuple-element", loop, index=n), f) for n, f in enumerate(flags)]


_CONTROL = {"while": _loop, "conditional": _branches}
