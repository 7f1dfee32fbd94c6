"""batch-norm-training, -inference and -grad as sums and elementwise arithmetic.

The statistics need one pass over the operand. With x0 the first value of each feature and d = x - x0,

    mean = x0 + sum d / n,    variance = sum d^2 / n - (sum d / n)^2

The shift by x0 avoids cancellation where the mean is large compared with the spread (Chan, Golub and LeVeque, 1983); an
x0 that is infinite or no number is taken as 0, since the mean may be infinite.
f16 and bf16 are computed in f32 and rounded once, as the specification says.
"""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction

from ...ir.builder import Build


class _Normalization:
    """What the three operations share: the operand and the features, in the type of the computation."""

    def __init__(self, i: Instruction) -> None:
        self.b = Build(i.name)
        self.result, self.feature = i.operands[0].shape, i.feature_index
        self.wide = "f64" if self.result.element_type.name == "f64" else "f32"
        self.x = self.b.convert(i.operands[0], self.wide)
        self.features = [self.b.convert(o, self.wide) for o in i.operands[1:]]
        self.others = tuple(d for d in range(self.result.rank) if d != self.feature)
        self.n = prod(self.result.dimensions[d] for d in self.others)  # the mean of no elements is NaN
        self.epsilon = i.epsilon

    def along(self, per_feature: Instruction) -> Instruction:
        return self.b.spread(per_feature, self.x.shape, (self.feature,))

    def sum(self, x: Instruction) -> Instruction:
        return self.b.sum(x, self.others)

    def deviation(self, variance: Instruction) -> Instruction:
        return self.b.sqrt(self.b.add(variance, self.epsilon))

    def narrow(self, x: Instruction, like: Instruction) -> Instruction:
        return self.b.convert(x, like.shape.element_type)


def training(i: Instruction) -> Instruction:
    s = _Normalization(i)
    b, (scale, offset) = s.b, s.features
    count = s.result.dimensions[s.feature]
    if s.result.size:
        start = tuple(0 for _ in s.others)
        low = (*start[: s.feature], 0, *start[s.feature :])
        high = tuple(count if d == s.feature else 1 for d in range(s.result.rank))
        first = b.reshape(b.slice(s.x, low, high), (count,))
        first = b.make("select", b.is_finite(first), first, b.full(0, first.shape))
    else:
        first = b.full(0, scale.shape)
    d = b.subtract(s.x, s.along(first))
    shift = b.divide(s.sum(d), s.n)
    mean = b.add(first, shift)
    squares = b.divide(s.sum(b.multiply(d, d)), s.n)
    # If squares of finite numbers overflow, the variance is infinite, not a difference of infinities.
    overflows = b.and_(b.is_finite(shift), b.not_(b.is_finite(squares)))
    squared_shift = b.make("select", overflows, b.full(0, shift.shape), b.multiply(shift, shift))
    variance = b.maximum(b.subtract(squares, squared_shift), 0)
    centered = b.subtract(s.x, s.along(mean))
    scaled = b.divide(b.multiply(s.along(scale), centered), s.along(s.deviation(variance)))
    output = b.add(scaled, s.along(offset))
    return b.tuple(s.narrow(output, i.operands[0]), *(s.narrow(v, i.operands[1]) for v in (mean, variance)))


def inference(i: Instruction) -> Instruction:
    s = _Normalization(i)
    b, (scale, offset, mean, variance) = s.b, s.features
    centered = b.subtract(s.x, s.along(mean))
    scaled = b.divide(b.multiply(s.along(scale), centered), s.along(s.deviation(variance)))
    return s.narrow(b.add(scaled, s.along(offset)), i.operands[0])


def gradient(i: Instruction) -> Instruction:
    s = _Normalization(i)
    b, (scale, mean, variance) = s.b, s.features[:3]
    g = s.features[3]
    d = b.subtract(s.x, s.along(mean))
    deviation = s.deviation(variance)
    sum_g, sum_gd = s.sum(g), s.sum(b.multiply(g, d))
    mean_g = b.divide(sum_g, s.n)
    slope = b.divide(sum_gd, b.multiply(b.add(variance, s.epsilon), s.n))
    rest = b.subtract(b.subtract(g, s.along(mean_g)), b.multiply(d, s.along(slope)))
    grad_operand = b.multiply(s.along(b.divide(scale, deviation)), rest)
    features = (s.narrow(f, i.operands[1]) for f in (b.divide(sum_gd, deviation), sum_g))
    return b.tuple(s.narrow(grad_operand, i.operands[0]), *features)


EXPANSIONS = {
    "batch-norm-training": training,
    "batch-norm-inference": inference,
    "batch-norm-grad": gradient,
}
