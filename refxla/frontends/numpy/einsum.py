"""np.einsum: sums of products of elements selected by labels, as reductions, transposes and dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refxla_spec.errors import plural

from .array import Traced
from .dispatch import adopted, all_known, implements, require_cast, values_of
from .functions import dot_general
from .shape_functions import writable_diagonal
from .untyped import np
from .values import array_of, builder_of, promoted, wrap

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@implements(np.einsum, aliasing=True)
def einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, casting: Any = "safe", **_: Any
) -> Traced:
    b = builder_of(operands)
    terms, result, arrays = _parsed(b, operands)
    is_view = len(arrays) == 1 and set(terms[0]) == set(result)  # with any dtype=, as in NumPy
    if not is_view and all_known(operands):
        return adopted(np.einsum(*values_of(operands), optimize=optimize, dtype=dtype), b)
    kind = promoted(*arrays) if dtype is None or is_view else np.dtype(dtype)
    if dtype is not None and not is_view:
        for a in arrays:
            require_cast(np.einsum, a.dtype, kind, casting)
    is_bool = kind.kind == "b" and not is_view
    values = [array_of(b, a, np.int32 if is_bool else kind) for a in arrays]
    sizes: dict[str, int] = {}
    for labels, a in zip(terms, values, strict=True):
        for label, n in zip(labels, a.shape, strict=True):
            if n != 1 and sizes.get(label, 1) not in (1, n):
                raise ValueError(f"operands could not be broadcast together: label {label!r} has the sizes "
                                 f"{sizes[label]} and {n}")  # fmt: skip
            sizes[label] = max(n, sizes.get(label, 1)) if n != 0 else 0
    parts = [_without_repeats(labels, a, sizes) for labels, a in zip(terms, values, strict=True)]
    for pair in _order(parts, result):
        chosen = [parts[n] for n in pair]
        parts = [p for n, p in enumerate(parts) if n not in pair]
        needed = set(result).union(*(labels for labels, _ in parts))
        parts.append(_product(b, chosen[0], chosen[1], needed) if len(chosen) == 2 else chosen[0])
    labels, a = parts[0]
    a = _summed(labels, a, set(result))
    labels = [label for label in labels if label in result]
    a = np.transpose(a, [labels.index(label) for label in result]) if labels else a
    a = a if is_view else wrap(b, a.instruction)
    return a != 0 if is_bool else a


def _parsed(b: Any, operands: Sequence[Any]) -> tuple[list[list[str]], list[str], list[Traced]]:
    """The labels of each operand and of the result, with `...` expanded, and the operands."""
    if isinstance(operands[0], str):
        text, arrays = operands[0].replace(" ", ""), [array_of(b, x) for x in operands[1:]]
        left, arrow, right = text.partition("->")
        terms = left.split(",")
    else:
        pairs, rest = list(operands), None
        if len(pairs) % 2:
            rest = pairs.pop()

        def text_of(sublist: Any) -> str:
            return "".join("..." if label is Ellipsis else _LETTERS[label] for label in sublist)

        arrays = [array_of(b, x) for x in pairs[::2]]
        terms = [text_of(s) for s in pairs[1::2]]
        arrow, right = ("", "") if rest is None else ("->", text_of(rest))
    if len(terms) != len(arrays):
        raise ValueError(f"einsum: {plural(len(terms), 'term')} for {plural(len(arrays), 'operand')}")
    free = [c for c in _LETTERS + "αβγδεζηθικλμ" if not any(c in t for t in (*terms, right))]
    lengths = []
    for term, a in zip(terms, arrays, strict=True):
        count = a.ndim - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term):
            raise ValueError(f"einstein sum subscripts string {term!r} does not fit an array of {a.ndim} dimensions")
        lengths.append(count)
    rank = max(lengths, default=0)
    spare = free[:rank]
    operand_labels = [
        list(term.replace("...", "".join(spare[rank - count :]) if count else ""))
        for term, count in zip(terms, lengths, strict=True)
    ]
    if arrow:
        result = list(right.replace("...", "".join(spare)))
        if len(set(result)) < len(result):
            raise ValueError("einstein sum subscripts string includes output subscript multiple times")
        unknown = set(result) - {label for labels in operand_labels for label in labels}
        if unknown:
            raise ValueError(f"einstein sum subscripts string included output subscript {unknown.pop()!r} which never "
                             "appeared in an input")  # fmt: skip
    else:
        every = [label for labels in operand_labels for label in labels]
        result = [*spare, *sorted({c for c in every if every.count(c) == 1 and c not in spare})]
    return operand_labels, result, arrays


_Part = tuple[list[str], Traced]


def _without_repeats(labels: list[str], a: Traced, sizes: dict[str, int]) -> _Part:
    """An operand with each label once: the diagonal for a label that occurs twice, and without dimensions of size 1
    that are broadcast."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if a.shape[first] != a.shape[second]:
                raise ValueError(f"dimensions in operand for collapsing index {label!r} don't match")
            a = writable_diagonal(a, first, second)
            labels = [c for n, c in enumerate(labels) if n not in (first, second)] + [label]
    narrow = tuple(n for n, label in enumerate(labels) if a.shape[n] == 1 and sizes[label] != 1)
    if narrow:
        a, labels = np.squeeze(a, axis=narrow), [c for n, c in enumerate(labels) if n not in narrow]
    return labels, a


def _order(parts: list[_Part], result: list[str]) -> list[tuple[int, ...]]:
    """The order of pairwise products, each by the numbers of the two parts among those that are left: the order that
    NumPy itself would choose."""
    if len(parts) == 1:
        return []
    if len(parts) == 2:
        return [(0, 1)]
    letters = {c: _LETTERS[n] for n, c in enumerate(dict.fromkeys(label for labels, _ in parts for label in labels))}
    terms = ",".join("".join(letters[c] for c in labels) for labels, _ in parts)
    models = [np.broadcast_to(np.float64(0), a.shape) for _, a in parts]
    path = np.einsum_path(
        f"{terms}->{''.join(letters[c] for c in result if c in letters)}", *models, optimize="greedy"
    )[0]
    pairs: list[tuple[int, ...]] = []
    for group in path[1:]:
        group = sorted(group)
        while len(group) > 2:  # a group that NumPy would multiply at once: two of it, then the product with the next
            pairs.append((group[0], group[1]))
            last = max(group) - 1
            group = [n - 2 for n in group[2:]] + [last]
            group = sorted(group)
        pairs.append(tuple(group))
    return pairs


def _summed(labels: list[str], a: Traced, needed: set[str]) -> Traced:
    axes = tuple(n for n, label in enumerate(labels) if label not in needed)
    return np.sum(a, axis=axes, dtype=a.dtype) if axes else a


def _product(b: Any, x: _Part, y: _Part, needed: set[str]) -> _Part:
    """The product of two parts, summed over labels that nothing else needs."""
    (left, p), (right, q) = x, y
    p, left = _summed(left, p, needed | set(right)), [c for c in left if c in needed or c in right]
    q, right = _summed(right, q, needed | set(left)), [c for c in right if c in needed or c in left]
    batch = [c for c in left if c in right and c in needed]
    contract = [c for c in left if c in right and c not in needed]
    if not contract:  # no sum: the product itself
        labels = [*left, *(c for c in right if c not in left)]
        wide = p.reshape(p.shape + (1,) * (len(labels) - len(left)))
        order = sorted(range(len(right)), key=lambda n: labels.index(right[n]))
        narrow = np.transpose(q, order) if right else q
        own = iter(narrow.shape)
        return labels, wide * narrow.reshape(tuple(next(own) if c in right else 1 for c in labels))
    product = dot_general(
        b, p.instruction, q.instruction, [(left.index(c), right.index(c)) for c in batch],
        [(left.index(c), right.index(c)) for c in contract],
    )  # fmt: skip
    labels = [*batch, *(c for c in left if c not in right), *(c for c in right if c not in left)]
    return labels, wrap(b, product)
