"""Which dimensions of several instructions index the same thing.

An elementwise operation has the dimensions of its operands, a dot the batch and free dimensions of its operands, a
reduce the kept ones, and so on. Such dimensions are joined into classes. A dimension along which an operation combines
elements, or takes only some of them, is *fixed*: nothing can be computed for a part of it alone. The rules are those of
the operations' definitions (spec/ops).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refxla_spec.module import Instruction, WindowDimension

from ..ir.op_table import ELEMENTWISE, ROWS
from .index_maps import THROUGH

Value = Instruction | tuple[Instruction, int]  # an array, or an element of a tuple
Dimension = tuple[Value, int]

_WHOLE = WindowDimension(1)  # of a window along a dimension on which it does not act


class DimensionClasses:
    """Classes of dimensions, as they result from `link` of each instruction."""

    def __init__(self) -> None:
        self._joined: dict[Dimension, Dimension] = {}
        self._fixed: list[Dimension] = []
        self.free: list[Dimension] = []  # dimensions of dots' results that come from one operand

    def of(self, d: Dimension) -> Dimension:
        """The class of a dimension: one of its members."""
        root = d
        while root in self._joined:
            root = self._joined[root]
        while d != root:  # shorter paths for later
            self._joined[d], d = root, self._joined[d]
        return root

    def fixed(self, instructions: Iterable[Instruction]) -> set[Dimension]:
        """The classes along which nothing can be computed for a part alone: those that have a fixed dimension, or
        several dimensions of one of the arrays that `instructions` compute, which has an element for each pair."""
        found = {self.of(d) for d in self._fixed}
        for i in instructions:
            classes = [self.of((i, d)) for d in range(i.shape.rank)] if i.shape.is_array else []
            found.update(c for c in classes if classes.count(c) > 1)
        return found

    def join(self, a: Dimension, b: Dimension) -> None:
        """Makes one class of those of two dimensions."""
        a, b = self.of(a), self.of(b)
        if a != b:
            self._joined[a] = b

    def join_all(self, a: Value, b: Value, rank: int) -> None:
        """Joins each dimension of one value with the same one of another."""
        for d in range(rank):
            self.join((a, d), (b, d))

    def fix(self, value: Value, dimensions: Iterable[int]) -> None:
        """Makes dimensions fixed."""
        self._fixed += [(value, d) for d in dimensions]

    def link(self, i: Instruction) -> None:
        """Joins the dimensions of an instruction, which has no called control flow, with those of its operands."""
        rule = getattr(self, f"_link_{i.opcode.replace('-', '_')}", None)
        if rule is not None:
            rule(i)
        elif _is_elementwise(i):
            for o in i.operands:
                if o.shape.rank:
                    self.join_all(o, i, o.shape.rank)
        else:
            self.fix_all(i)

    # The rules of operations, each called by the operation's name.

    def _link_parameter(self, i: Instruction) -> None:
        """Nothing has to be joined: it has no operands, or its elements are joined where they are read."""

    _link_constant = _link_iota = _link_tuple = _link_parameter

    def _link_get_tuple_element(self, i: Instruction) -> None:
        self.join_all(i, (i.operands[0], i.index), i.shape.rank)

    def _link_broadcast(self, i: Instruction) -> None:
        (o,) = i.operands
        for k, d in enumerate(i.attributes.get("dimensions", ())):
            if o.shape.dimensions[k] == i.shape.dimensions[d]:
                self.join((o, k), (i, d))

    def _link_transpose(self, i: Instruction) -> None:
        for d, k in enumerate(i.dimensions):
            self.join((i.operands[0], k), (i, d))

    def _link_slice(self, i: Instruction) -> None:
        (o,) = i.operands
        cuts = zip(i.attributes["slice"], o.shape.dimensions, strict=True)
        self._join_whole(o, i, [(s.start, s.limit, s.stride) == (0, size, 1) for s, size in cuts])

    def _link_concatenate(self, i: Instruction) -> None:
        for o in i.operands:
            self._join_whole(o, i, [d not in i.dimensions for d in range(i.shape.rank)])

    _link_reverse = _link_concatenate

    def _link_pad(self, i: Instruction) -> None:
        self._join_whole(i.operands[0], i, [not (x.low or x.high or x.interior) for x in i.padding])

    def _link_dynamic_slice(self, i: Instruction) -> None:
        pairs = zip(i.operands[0].shape.dimensions, i.shape.dimensions, strict=True)
        self._join_whole(i.operands[0], i, [n == m for n, m in pairs])

    def _link_dynamic_update_slice(self, i: Instruction) -> None:
        pairs = zip(i.shape.dimensions, i.operands[1].shape.dimensions, strict=True)
        whole = [n == m for n, m in pairs]
        for o in i.operands[:2]:
            self._join_whole(o, i, whole)

    def _link_reshape(self, i: Instruction) -> None:
        (o,) = i.operands
        if not i.shape.size:
            return self.fix_all(i)
        for old, new in runs(o.shape.dimensions, i.shape.dimensions):
            if len(old) == len(new) == 1:
                self.join((o, old[0]), (i, new[0]))
            else:
                self.fix(o, old)
                self.fix(i, new)

    _link_bitcast = _link_reshape

    def _link_reduce(self, i: Instruction) -> None:
        first = i.operands[0]
        kept = [d for d in range(first.shape.rank) if d not in i.dimensions]
        for n, o in enumerate(i.operands[: len(i.operands) // 2]):
            self.join_all(o, first, first.shape.rank)  # all have the same dimensions; likewise below
            for k, d in enumerate(kept):
                self.join((o, d), (_result(i, n), k))
            self.fix(o, i.dimensions)

    def _link_reduce_window(self, i: Instruction) -> None:
        for n, o in enumerate(i.operands[: len(i.operands) // 2]):
            self.join_all(o, i.operands[0], o.shape.rank)
            self._join_whole(o, _result(i, n), [w == _WHOLE for w in i.window])

    def _link_sort(self, i: Instruction) -> None:
        for n, o in enumerate(i.operands):
            self.join_all(o, i.operands[0], o.shape.rank)
            self._join_whole(o, _result(i, n), [d not in i.dimensions for d in range(o.shape.rank)])

    def _link_fft(self, i: Instruction) -> None:
        rank = i.shape.rank
        self._join_whole(i.operands[0], i, [d < rank - len(i.fft_length) for d in range(rank)])

    def fix_all(self, i: Instruction) -> None:
        """Makes all dimensions of an instruction and of its operands fixed."""
        for o in i.operands:
            if o.shape.is_array:
                self.fix(o, range(o.shape.rank))
        shapes = [i.shape] if i.shape.is_array else list(i.shape.elements) if i.shape.is_tuple else []
        for n, shape in enumerate(shapes):
            if shape.is_array:
                self.fix(_result(i, n), range(shape.rank))

    def _join_whole(self, operand: Instruction, result: Value, whole: Sequence[bool]) -> None:
        """Joins the dimensions of a result that are the operand's as a `whole` with these; the others are fixed."""
        for d, is_whole in enumerate(whole):
            if is_whole:
                self.join((operand, d), (result, d))
            else:
                self.fix(operand, [d])
                self.fix(result, [d])

    def _link_dot(self, i: Instruction) -> None:
        if len(i.operands) != 2:
            return self.fix_all(i)
        at = 0
        for side, o in zip(("lhs", "rhs"), i.operands, strict=True):
            batch = i.attributes.get(f"{side}_batch_dims", ())
            contracted = i.attributes.get(f"{side}_contracting_dims", ())
            for n, d in enumerate(batch):
                self.join((o, d), (i, n))
            at = max(at, len(batch))
            for d in range(o.shape.rank):
                if d not in batch and d not in contracted:
                    self.join((o, d), (i, at))
                    self.free.append((i, at))
                    at += 1
            self.fix(o, contracted)

    def _link_convolution(self, i: Instruction) -> None:
        image, kernel = i.operands
        labels = i.dim_labels
        batches = (image, labels.input_batch), (i, labels.output_batch)
        if i.attributes.get("batch_group_count", 1) == 1:
            self.join(*batches)
        else:
            self._fixed += batches
        self.fix(image, (d for d in range(image.shape.rank) if d != labels.input_batch))
        self.fix(kernel, range(kernel.shape.rank))
        self.fix(i, (d for d in range(i.shape.rank) if d != labels.output_batch))

    def _link_gather(self, i: Instruction) -> None:
        operand, indices = i.operands
        at = i.attributes.get
        batching, collapsed = at("operand_batching_dims", ()), at("collapsed_slice_dims", ())
        index_dimensions = [d for d in range(indices.shape.rank) if d != i.index_vector_dim]
        results = [d for d in range(i.shape.rank) if d not in i.offset_dims]
        for d, k in zip(results, index_dimensions, strict=True):
            self.join((indices, k), (i, d))
        for d, k in zip(batching, at("start_indices_batching_dims", ()), strict=True):
            self.join((operand, d), (indices, k))
        windows = [d for d in range(operand.shape.rank) if d not in collapsed and d not in batching]
        for d, k in zip(windows, i.offset_dims, strict=True):
            if i.slice_sizes[d] == operand.shape.dimensions[d]:
                self.join((operand, d), (i, k))
            else:
                self.fix(operand, [d])
                self.fix(i, [k])
        self.fix(operand, collapsed)
        self.fix(indices, [i.index_vector_dim] if i.index_vector_dim < indices.shape.rank else ())

    def _link_scatter(self, i: Instruction) -> None:
        count = len(i.operands) // 2
        operands, indices, updates = i.operands[:count], i.operands[count], i.operands[count + 1 :]
        at = i.attributes.get
        batching, inserted = at("input_batching_dims", ()), at("inserted_window_dims", ())
        of_index = dict(zip(at("scatter_indices_batching_dims", ()), batching, strict=True))
        index_dimensions = [d for d in range(indices.shape.rank) if d != i.index_vector_dim]
        self.fix(indices, [i.index_vector_dim] if i.index_vector_dim < indices.shape.rank else ())
        for n, (operand, update) in enumerate(zip(operands, updates, strict=True)):
            self.join_all(operand, operands[0], operand.shape.rank)
            self.join_all(operand, _result(i, n), operand.shape.rank)
            outside = [d for d in range(update.shape.rank) if d not in i.update_window_dims]
            for d, k in zip(outside, index_dimensions, strict=True):
                self.join((indices, k), (update, d))
                if k in of_index:
                    self.join((operand, of_index[k]), (update, d))
                else:
                    self.fix(update, [d])
            windows = [d for d in range(operand.shape.rank) if d not in inserted and d not in batching]
            for d, k in zip(windows, i.update_window_dims, strict=True):
                if update.shape.dimensions[k] == operand.shape.dimensions[d]:
                    self.join((operand, d), (update, k))
                else:
                    self.fix(operand, [d])
                    self.fix(update, [k])
            self.fix(operand, inserted)


def _result(i: Instruction, n: int) -> Value:
    """Result number n of an instruction, which may return a tuple or a single array."""
    return (i, n) if i.shape.is_tuple else i


def _is_elementwise(i: Instruction) -> bool:
    """Whether an element of the result depends only on the operands' elements at its own indices, or on scalars."""
    if i.opcode in THROUGH:
        return i.shape.is_array and len(i.operands) == 1
    if i.opcode not in ROWS or ROWS[i.opcode].op_class != ELEMENTWISE:
        return False
    if i.opcode == "bitcast-convert" and i.operands[0].shape.rank != i.shape.rank:
        return False
    return all(o.shape.is_array and (not o.shape.rank or o.shape.dimensions == i.shape.dimensions) for o in i.operands)


def runs(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions of a reshape with equal numbers of elements, without dimensions of size 1."""
    pairs, a, b = [], 0, 0
    left, right = ([d for d, n in enumerate(s) if n != 1] for s in (old, new))
    while a < len(left) and b < len(right):
        first, second = [left[a]], [right[b]]
        m, n = old[left[a]], new[right[b]]
        while m != n:
            if m < n:
                a += 1
                first.append(left[a])
                m *= old[left[a]]
            else:
                b += 1
                second.append(right[b])
                n *= new[right[b]]
        pairs.append((first, second))
        a, b = a + 1, b + 1
    return pairs
