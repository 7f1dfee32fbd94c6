"""An HLO implementation in a hundred lines, put to the conformance suite: NumPy, one function for each operation.

    cd examples/conformance
    refxla-conformance --target numpy_target:NumPy add exponential dot reduce

What stands here is what the author of any implementation writes: a class with a name and `run`. This one walks the
parsed program itself; one that takes HLO as text would give `str(module)` to its own parser.
"""

import numpy as np
from refxla_conformance.targets import Target
from refxla_spec.errors import UnsupportedError

ELEMENTWISE = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosine": np.cos,
    "divide": np.divide,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "is-finite": np.isfinite,
    "log": np.log,
    "log-plus-one": np.log1p,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "power": np.power,
    "round-nearest-even": np.rint,
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": np.bitwise_xor,
}
REDUCERS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
COMPARISONS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater}
COMPARISONS["GE"] = np.greater_equal


def constant(i):
    return i.literal


def broadcast(i, x):
    shape = [1] * i.shape.rank
    for dimension, size in zip(i.dimensions, x.shape, strict=True):
        shape[dimension] = size
    return np.broadcast_to(x.reshape(shape), i.shape.dimensions)


def compare(i, x, y):
    return COMPARISONS[i.direction](x, y)


def convert(i, x):
    return x.astype(i.shape.element_type.dtype)


def iota(i):
    shape = [1] * i.shape.rank
    shape[i.iota_dimension] = -1
    count = np.arange(i.shape.dimensions[i.iota_dimension]).astype(i.shape.element_type.dtype)
    return np.broadcast_to(count.reshape(shape), i.shape.dimensions)


def reduce(i, x, start):
    body = [j for j in i.to_apply.instructions if j.opcode != "parameter"]
    if len(body) != 1 or body[0].opcode not in REDUCERS:
        raise UnsupportedError("only a reduction by one operation is taken here")
    ufunc = REDUCERS[body[0].opcode]
    return (
        ufunc(ufunc.reduce(x, axis=tuple(i.dimensions)), start)
        if x.size
        else np.broadcast_to(start, i.shape.dimensions)
    )


def reshape(i, x):
    return x.reshape(i.shape.dimensions)


def select(i, predicate, x, y):
    return np.where(predicate, x, y)


def slice_(i, x):
    return x[tuple(slice(d.start, d.limit, d.stride) for d in i.slice)]


def transpose(i, x):
    return x.transpose(i.dimensions)


def concatenate(i, *xs):
    return np.concatenate(xs, axis=i.dimensions[0])


def reverse(i, x):
    return np.flip(x, i.dimensions)


STRUCTURED = {
    f.__name__.rstrip("_"): f
    for f in (
        constant, broadcast, compare, convert, iota, reduce, reshape, select, slice_, transpose, concatenate, reverse
    )
}  # fmt: skip


class NumPy(Target):
    """The adapter."""

    name = "numpy"

    def run(self, module, arguments):
        values = {}
        with np.errstate(all="ignore"):
            for i in module.entry.instructions:
                values[i] = self.value(i, arguments, [values[o] for o in i.operands])
        result = values[module.entry.root]
        return list(result) if isinstance(result, tuple) else [result]

    def value(self, i, arguments, operands):
        if i.opcode == "parameter":
            return arguments[i.number]
        if i.opcode == "tuple":
            return tuple(operands)
        if i.opcode in ELEMENTWISE:
            result = ELEMENTWISE[i.opcode](*operands)
        elif i.opcode in STRUCTURED:
            result = STRUCTURED[i.opcode](i, *operands)
        else:
            raise UnsupportedError(f"{i.opcode} is not in this table")
        return np.asarray(result)

    def versions(self):
        return {"numpy": np.__version__}
