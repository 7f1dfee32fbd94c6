"""Moves work that is the same in every iteration of a loop out of the loop.

    a dot, a transpose, an expensive function ... of loop-invariant values    is computed before the loop
    some cheap operations on arrays together, such as a - diagonal(a)         are computed before the loop
    dot(x[i], w), with x and w loop-invariant                                 is a slice of dot(x, w)
    x[:, i], with x loop-invariant                                            is a row of transpose(x)

Where a loop multiplies one slice of an array after another by the same matrix, one large product before the loop
replaces all of them, and each iteration reads its part. Every element is the same sum in the same order, so the bits
are the same. This is done only if it computes no more than the loop would (the trip count is known and at least the
number of slices), and only for slices of few rows, since a product of few rows does little work for reading the whole
matrix.

A loop that reads a column in each iteration would read elements a row apart, as those of coordinate descent and of
Gram-Schmidt do. The transpose is computed if the loop reads as many elements as there are.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import Shape

from .._core.shapes import make
from ..analysis.while_loop_analysis import Counter, counter_of, loop_invariant_elements
from ..ir.op_table import ELEMENTWISE, HERO, MOVEMENT, ROWS, SOURCE, class_of, flops_of
from .algebraic_simplifier import constant
from .dce import called_first, settle, sort

MOST_ROWS = 256  # of a slice: a product of more rows uses the matrix often enough
LEAST_ARRAY = 16  # elements: fewer are computed in registers
MOST_BYTES = 256 << 20  # of the product of all slices
MOST_HELD = 16 << 20  # bytes of a product that is much larger than its operands, kept for the whole loop
SHORTEST_COLUMN = 16  # elements: fewer are not worth a transpose
EXPENSIVE = 14.0  # of a function: of one element, in additions
# The same of cheap operations that are together worth an array: reading it takes about as long as so many.
WORTH_AN_ARRAY = 4.0
WORTH_A_COPY = 1.0  # if a dot or the like reads them, which does not fuse with each of its operands for nothing
MOST_TOGETHER = 256  # of them that are looked at
GATHERED = 4.0  # an element of a gather


def run(module: Module) -> int:
    """Rewrites all loops. Returns the number of instructions moved out of one."""
    count = 0
    callers: dict[Computation, int] = {}
    for computation in module.computations:
        for i in computation.instructions:
            for called in i.called:
                callers[called] = callers.get(called, 0) + 1
    for computation in called_first(module.entry):  # what moves out of an inner loop may then move out of the outer one
        changed = 0
        for i in list(computation.instructions):
            if i.opcode == "while" and callers[i.body] == callers[i.condition] == 1 and i.body is not i.condition:
                if i.body.root.opcode == "tuple" and i.operands[0].opcode == "tuple":
                    changed += _Loop(i).move_invariants()
        if changed:
            sort(computation)
        count += changed
    return count


def _wider(n: int, d: int) -> int:
    """The number of dimension n after the insertion of dimension d."""
    return n + (n >= d)


class _Loop:
    """A while whose computations nothing else runs, and whose state is a flat tuple."""

    def __init__(self, loop: Instruction) -> None:
        self.loop, self.body = loop, loop.body
        self.parameter = self.body.parameters[0]
        self.invariant = loop_invariant_elements(loop)
        self.users = self.body.users()
        self.outside: dict[Instruction, Instruction | None] = {}  # a loop-invariant value -> its copy before the loop
        self.transposes: dict[Instruction, Instruction] = {}  # what reads them, by array before the loop
        self.added: list[tuple[Instruction, Instruction]] = []  # (value before the loop, new element of the state)

    def move_invariants(self) -> int:
        counter = counter_of(self.loop)
        for i in self.body.instructions:  # operands before their users: no call goes deep
            self.before(i)
        replaced: dict[Instruction, Instruction] = {}
        for i in self.body.instructions:
            replacement = None
            if counter is not None and i.opcode in ("dot", "dynamic-slice"):
                replacement = self.product(i, counter) if i.opcode == "dot" else self.column(i, counter)
            if replacement is None and self.is_worth(i) and (before := self.before(i)) is not None:
                replacement = self.element(before, i.name)
            if replacement is not None:
                replaced[i] = replacement
        if not replaced:
            return 0
        for i in self.body.instructions:
            i.operands = [replaced.get(o, o) for o in i.operands]
        self.widen()
        settle(self.body, replaced)
        return len(replaced)

    # -- loop-invariant values --------------------------------------------------------------------------------

    def before(self, i: Instruction) -> Instruction | None:
        """A copy, before the loop, of an instruction that is loop-invariant; None if it is not."""
        if i not in self.outside:
            self.outside[i] = None
            if i.opcode == "get-tuple-element" and i.operands[0] is self.parameter:
                if i.index in self.invariant:
                    self.outside[i] = self.loop.operands[0].operands[i.index]
            elif i.opcode in ROWS and i.opcode != "parameter" and i.shape.is_array and _is_pure(i):
                operands = [b for b in map(self.before, i.operands) if b is not None]
                if len(operands) == len(i.operands):
                    self.outside[i] = Instruction(i.name, i.opcode, i.shape, operands, dict(i.attributes), i.metadata)
        return self.outside[i]

    def is_worth(self, i: Instruction) -> bool:
        """Whether an instruction is expensive, and its value is not much larger than its operands, from which users
        could compute it; a product is in memory in any case, so that may be larger."""
        if i.opcode not in ROWS or not i.shape.is_array or not i.operands:
            return False
        costly = ROWS[i.opcode].invariant or (
            ROWS[i.opcode].op_class == ELEMENTWISE and ROWS[i.opcode].flops >= EXPENSIVE
        )
        read_bytes = sum(o.shape.bytes for o in i.operands if o.shape.is_array and o.opcode != "broadcast")
        most = max(2 * read_bytes, MOST_HELD if ROWS[i.opcode].op_class == HERO else 0)
        return (costly and i.shape.bytes <= most) or self._are_worth_an_array(i)

    def _are_worth_an_array(self, i: Instruction) -> bool:
        """Whether an instruction is the last of loop-invariant cheap ones that are together worth an array, which is
        not larger than those that they read."""
        classes = ELEMENTWISE, MOVEMENT
        users = self.users[i]
        if class_of(i) not in classes or i.shape.size < LEAST_ARRAY or all(self.before(u) is not None for u in users):
            return False
        if self.before(i) is None:
            return False
        work, read_bytes, waiting, visited = 0.0, 0, [i], {i}
        while waiting:
            x = waiting.pop()
            if x.opcode == "get-tuple-element":
                read_bytes += x.shape.bytes
                continue
            if class_of(x) not in (*classes, SOURCE):
                return False
            if len(visited) > MOST_TOGETHER:
                break
            share = x.shape.size / i.shape.size
            work += share * (GATHERED if x.opcode == "gather" else flops_of(x) if class_of(x) == ELEMENTWISE else 0.0)
            waiting += [o for o in x.operands if o not in visited]
            visited.update(x.operands)
        is_copied = any(class_of(u) not in classes for u in users)
        return i.shape.bytes <= read_bytes and work >= (WORTH_A_COPY if is_copied else WORTH_AN_ARRAY)

    # -- products of slices ----------------------------------------------------------------------------------------

    def product(self, dot: Instruction, counter: Counter) -> Instruction | None:
        """A dot of a slice as a slice of one large dot before the loop; None if it is not such a dot or does not
        pay."""
        if len(dot.operands) != 2:
            return None
        for side in ("lhs", "rhs"):
            sliced, whole = dot.operands if side == "lhs" else dot.operands[::-1]
            cut = self.slice(sliced)
            if cut is None or (matrix := self.before(whole)) is None:
                continue
            source, index, d = cut
            free = _free(dot, side)
            rows = int(np.prod([sliced.shape.dimensions[f] for f in free], dtype=np.int64))
            count = source.shape.dimensions[d]
            if count > counter.trip_count or rows > MOST_ROWS or count * dot.shape.bytes > MOST_BYTES:
                continue
            attributes = dict(dot.attributes)
            for name in (f"{side}_contracting_dims", f"{side}_batch_dims"):
                attributes[name] = tuple(_wider(n, d) for n in attributes.get(name, ()))
            operands = (source, matrix) if side == "lhs" else (matrix, source)
            # In the result: the batch, the free dimensions of lhs, those of rhs.
            at = len(dot.attributes.get("lhs_batch_dims", ())) + sum(_wider(f, d) < d for f in free)
            at += len(_free(dot, "lhs")) if side == "rhs" else 0
            shape = dot.shape.with_dimensions((*dot.shape.dimensions[:at], count, *dot.shape.dimensions[at:]))
            product = make("dot", *operands, name=f"{dot.name}.all", shape=shape, **attributes)
            return self.part(dot, self.element(product, product.name), index, at)
        return None

    def slice(self, i: Instruction) -> tuple[Instruction, Instruction, int] | None:
        """(array before the loop, index, dimension) if the value is that slice of that array; else None."""
        if i.opcode != "reshape" or i.operands[0].opcode != "dynamic-slice":
            return None
        cut = i.operands[0]
        source = self.before(cut.operands[0])
        if source is None:
            return None
        whole, part = source.shape.dimensions, cut.shape.dimensions
        along = [d for d, (n, m) in enumerate(zip(whole, part, strict=True)) if n != m]
        if len(along) != 1 or part[along[0]] != 1:
            return None
        d = along[0]
        return (source, cut.operands[1 + d], d) if i.shape.dimensions == whole[:d] + whole[d + 1 :] else None

    def part(self, dot: Instruction, product: Instruction, index: Instruction, d: int) -> Instruction:
        """In the body: slice `index` of the product along dimension d, in the shape of the dot."""
        zero = constant(np.zeros((), index.shape.element_type.dtype), f"{dot.name}.zero")
        rank = product.shape.rank
        sizes = tuple(1 if n == d else size for n, size in enumerate(product.shape.dimensions))
        starts = [index if n == d else zero for n in range(rank)]
        cut = make("dynamic-slice", product, *starts, name=f"{dot.name}.slice", dynamic_slice_sizes=sizes)
        return make("reshape", cut, name=dot.name, shape=dot.shape)

    # -- columns ---------------------------------------------------------------------------------------------------

    def column(self, cut: Instruction, counter: Counter) -> Instruction | None:
        """A dynamic-slice of a column as a row of the transpose, which is computed before the loop; None if it is not
        such a slice or does not pay."""
        whole, part = cut.operands[0].shape.dimensions, cut.shape.dimensions
        d = len(whole) - 1
        if d < 1 or part[d] != 1 or whole[d] == 1 or part[d - 1] < SHORTEST_COLUMN:
            return None
        source = self.before(cut.operands[0])
        if source is None or counter.trip_count * cut.shape.size < source.shape.size:
            return None
        if source not in self.transposes:
            order = (d, *range(d))
            transpose = make("transpose", source, name=f"{cut.name}.columns", dimensions=order)
            self.transposes[source] = self.element(transpose, transpose.name)
        starts = [cut.operands[1 + d], *cut.operands[1 : 1 + d]]
        sizes = (1, *part[:d])
        row = make("dynamic-slice", self.transposes[source], *starts, name=f"{cut.name}.row", dynamic_slice_sizes=sizes)
        return make("reshape", row, name=cut.name, shape=cut.shape)

    # -- the state ---------------------------------------------------------------------------------------------------

    def element(self, value: Instruction, name: str) -> Instruction:
        """Adds a value to the loop state. Returns what reads it in the body."""
        index = len(self.loop.operands[0].operands) + len(self.added)
        attributes = {"index": index}
        instruction = Instruction(f"{name}.invariant", "get-tuple-element", value.shape, [self.parameter], attributes)
        self.added.append((value, instruction))
        return instruction

    def widen(self) -> None:
        """Adds the new elements to the loop's initial state, its next state and its shapes."""
        init, root = self.loop.operands[0], self.body.root
        shape = Shape.tuple_of(*init.shape.elements, *(v.shape for v, _ in self.added))
        values, elements = [v for v, _ in self.added], [e for _, e in self.added]
        self.loop.operands = [Instruction(f"{init.name}.wide", "tuple", shape, [*init.operands, *values])]
        self.body.root = Instruction(f"{root.name}.wide", "tuple", shape, [*root.operands, *elements])
        self.body.instructions.append(self.body.root)
        self.loop.shape = self.parameter.shape = self.loop.condition.parameters[0].shape = shape


def _free(dot: Instruction, side: str) -> list[int]:
    """The dimensions of an operand that are neither batch nor contracting dimensions."""
    others = (*dot.attributes.get(f"{side}_batch_dims", ()), *dot.attributes.get(f"{side}_contracting_dims", ()))
    rank = dot.operands[0 if side == "lhs" else 1].shape.rank
    return [d for d in range(rank) if d not in others]


def _is_pure(i: Instruction) -> bool:
    """Whether an instruction has no side effect, so that computing it once is enough."""
    return i.opcode not in ("custom-call", "infeed", "outfeed", "send", "recv", "rng", "rng-bit-generator", "while")
