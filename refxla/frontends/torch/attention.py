"""Attention: queries, keys and values are [batch, heads, length, features].

With grouped queries, keys and values have fewer heads: each serves a group of consecutive query heads, whose queries
are the rows of one product.

Half of the scores of causal attention are masked out. So its queries are cut into segments, each of which only attends
to the keys up to its last query: with four segments, five eighths of the work are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from refxla_spec.types import PRED, ElementType

from .elementwise import is_nan
from .lowering import DRAWN, I, Lowering, NotLowered, lowers, lowest, reducer, wide
from .products import dot

_SEGMENTS = 4  # at most: each has its own kernels, which take time to compile
_SEGMENT = 128  # queries of a segment, at least


def _segments(q: I, k: I, causal: bool) -> Iterator[tuple[int, int, int]]:
    """The first query of each segment, the query where it ends, and the number of keys that it attends to."""
    queries, keys = q.shape.dimensions[-2], k.shape.dimensions[-2]
    count = max(1, min(_SEGMENTS, queries // _SEGMENT)) if causal else 1
    for n in range(count):
        start, end = (queries * m // count for m in (n, n + 1))
        yield start, end, min(end, keys) if causal else keys


def _part_of_mask(b: Lowering, mask: I | None, start: int, end: int, keys: int) -> I | None:
    """The part for queries from `start` to `end` and so many keys of a mask that [.., queries, keys] is expanded
    from."""
    if mask is None:
        return None
    for dimension, bounds in ((mask.shape.rank - 2, (start, end)), (mask.shape.rank - 1, (0, keys))):
        if dimension >= 0 and mask.shape.dimensions[dimension] != 1:
            mask = b.cut(mask, dimension, *bounds)
    return mask


def _grouped(b: Lowering, x: I, heads: int) -> I:
    """[batch, heads of queries, length, n] as [batch, heads, group * length, n]."""
    *batch, own, length, n = x.shape.dimensions
    return b.view(x, (*batch, heads, own // heads * length, n))


def _dot_of_heads(b: Lowering, x: I, y: I, kind: ElementType) -> I:
    """Products of rows of queries by keys or values."""
    product = dot(b, _grouped(b, x, y.shape.dimensions[-3]), y, kind)
    return b.view(product, (*x.shape.dimensions[:-1], y.shape.dimensions[-1]))


def _dot_of_groups(b: Lowering, x: I, y: I, heads: int, kind: ElementType) -> I:
    """x' y, summed over the rows of all queries that share a head of keys."""
    return dot(b, b.transpose(_grouped(b, x, heads)), _grouped(b, y, heads), kind)


def _scores(b: Lowering, q: I, k: I, causal: bool, first: int, mask: I | None, scale: float | None) -> I:
    """q k' scale + mask; the first query has this number."""
    kind = wide(q.shape.element_type)
    factor = q.shape.dimensions[-1] ** -0.5 if scale is None else scale
    scores = b.multiply(_dot_of_heads(b, q, b.transpose(k), kind), factor)
    dims = scores.shape.dimensions
    if mask is not None:
        if mask.shape.element_type is PRED:
            scores = b.select(b.expand(mask, dims), scores, lowest(kind))
        else:
            scores = b.add(scores, b.expand(b.cast(mask, kind), dims))
    if causal:
        row, column = (b.iota("s32", dims, len(dims) - n) for n in (2, 1))
        scores = b.select(b.compare(column, b.add(row, first), direction="LE"), scores, lowest(kind))
    return scores


@lowers("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    b: Lowering, q: I, k: I, v: I, dropout: float = 0.0, causal: bool = False, *, attn_mask: I | None = None,
    scale: float | None = None,
) -> list[I]:  # fmt: skip
    """softmax(q k' scale + mask) v, and the logarithm of the softmax's sums; a fully masked row is NaN or 0."""
    if dropout:
        raise NotLowered(DRAWN)
    rows = q.shape.rank - 2
    outs, logarithms = [], []
    for start, end, keys in _segments(q, k, causal):
        own_q, own_k, own_v = b.cut(q, rows, start, end), b.cut(k, rows, 0, keys), b.cut(v, rows, 0, keys)
        scores = _scores(b, own_q, own_k, causal, start, _part_of_mask(b, attn_mask, start, end, keys), scale)
        out, logarithm = _attended(b, scores, own_v)
        outs.append(out)
        logarithms.append(logarithm)
    # PyTorch keeps the logarithms as [batch, heads, length]
    logarithm = b.concatenate(logarithms, rows)
    return [b.concatenate(outs, rows), b.view(b.cast(logarithm, b.result[1].element_type), b.result[1].dimensions)]


def _attended(b: Lowering, scores: I, v: I) -> tuple[I, I]:
    """softmax(scores) v, and the logarithm of the softmax's sums."""
    kind, last = scores.shape.element_type, scores.shape.rank - 1
    rows = tuple(range(last))
    largest = b.reduce(scores, lowest(kind), (last,), reducer("maximum", kind))
    shift = b.select(b.compare(largest, lowest(kind), direction="EQ"), 0, largest)
    weights = b.exponential(b.subtract(scores, b.spread(shift, scores.shape, rows)))
    sums = b.reduce(weights, 0, (last,), reducer("add", kind))
    some = b.select(b.compare(sums, 0, direction="EQ"), 1, sums)
    weights = b.divide(weights, b.spread(some, scores.shape, rows))
    own = b.result[0].element_type
    return b.cast(_dot_of_heads(b, b.cast(weights, own), v, kind), own), b.add(b.log(sums), shift)


@lowers("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    b: Lowering, g: I, q: I, k: I, v: I, out: I, logarithms: I, dropout: float, causal: bool, *,
    attn_mask: I | None = None, scale: float | None = None,
) -> list[I]:  # fmt: skip
    """With p the weights: dv = p' g, ds = p (g v' - rowsum(g out)), dq = ds k scale, dk = ds' q scale."""
    rows, all_keys = q.shape.rank - 2, k.shape.dimensions[-2]
    logarithms = b.view(logarithms, q.shape.dimensions[:-1])
    of_queries, of_keys, of_values = list[I](), list[I](), list[I]()
    for start, end, keys in _segments(q, k, causal):
        g_, q_, out_, logarithms_ = (b.cut(x, rows, start, end) for x in (g, q, out, logarithms))
        k_, v_ = (b.cut(x, rows, 0, keys) for x in (k, v))
        scores = _scores(b, q_, k_, causal, start, _part_of_mask(b, attn_mask, start, end, keys), scale)
        dq, *others = _gradients(b, scores, g_, q_, k_, v_, out_, logarithms_, scale)
        of_queries.append(dq)
        for x, gradients in zip(others, (of_keys, of_values), strict=True):
            gradients.append(b.padded(x, 0, *((0, (all_keys - keys) * (d == rows), 0) for d in range(rows + 2))))
    totals = b.concatenate(of_queries, rows), reduce(b.add, of_keys), reduce(b.add, of_values)
    return [b.cast(x, s.element_type) for x, s in zip(totals, b.result, strict=True)]


def _gradients(
    b: Lowering, scores: I, g: I, q: I, k: I, v: I, out: I, logarithms: I, scale: float | None
) -> tuple[I, I, I]:
    """The gradients by queries, keys and values."""
    kind, last = scores.shape.element_type, scores.shape.rank - 1
    rows = tuple(range(last))
    sums = b.cast(logarithms, kind)
    sums = b.select(b.and_(b.is_finite(sums), b.make("not", is_nan(b, sums))), sums, 0)
    p = b.exponential(b.subtract(scores, b.spread(sums, scores.shape, rows)))
    g, q, k, v, out = (b.cast(x, kind) for x in (g, q, k, v, out))
    delta = b.reduce(b.multiply(g, out), 0, (last,), reducer("add", kind))
    ds = b.multiply(p, b.subtract(_dot_of_heads(b, g, b.transpose(v), kind), b.spread(delta, scores.shape, rows)))
    ds = b.multiply(ds, q.shape.dimensions[-1] ** -0.5 if scale is None else scale)
    heads = k.shape.dimensions[-3]
    return _dot_of_heads(b, ds, k, kind), _dot_of_groups(b, ds, q, heads, kind), _dot_of_groups(b, p, g, heads, kind)
