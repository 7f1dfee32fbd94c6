"""A computation as flat arrays, which instruction fusion reads instead of objects.

A node is an instruction that produces array values. The get-tuple-elements of a multi-output operation (a reduce of
several operands, a while) belong to the operation's node; those of a parameter are nodes of their own; tuples are
transparent. Nodes are numbered in the order of the computation, so operands have smaller numbers.
"""

from math import prod

import numpy as np

from refxla.analysis.index_maps import FEWEST_PIECES
from refxla.analysis.reduction_order import columns_fit
from refxla.device.description import Caches
from refxla.ir.literals import is_splat
from refxla.ir.op_table import (
    ANY_INDEX, CONTROL, ELEMENTWISE, HERO, IN_MEMORY, MOVEMENT, PACKED, ROWS, SOURCE, UPDATE, WHOLE, WINDOWED, flops_of, row,
)

cdef long long FEWEST_LANES = 16  # of 8 or 16 bits in a vector
cdef long long MOST_STATEMENTS = 1 << 20  # counted at most: the statements of a value that is read twice count twice

cdef dict GROUP = {SOURCE: N_SOURCE, ELEMENTWISE: N_ELEMENTWISE, MOVEMENT: N_MOVEMENT, HERO: N_HERO, CONTROL: N_CONTROL}
cdef dict RELATION = {
    ANY_INDEX: R_OTHER, WHOLE: R_FULL, WINDOWED: R_WINDOW, PACKED: R_PACKED, UPDATE: R_UPDATE, IN_MEMORY: R_MEMORY,
}

# The kinds of fusions, in the order of the enumeration in the .pxd. They include the emitters of the operation table. A
# test compares the names of both.
KIND_NAMES = dict(
    enumerate(("loop", *dict.fromkeys(r.kind for r in ROWS.values() if r.op_class == HERO), "update", "control"))
)
cdef dict KIND = {name: kind for kind, name in KIND_NAMES.items()}


cdef class Graph:
    """See the .pxd for the arrays. `instructions[n]` lists the instructions of node n, the operation first.

    `caches` are those of the device, by default the usual ones.
    """

    def __init__(self, computation, second=(), caches=None, bint pieces=False):
        """`second`: if the computation is two iterations of a loop, the instructions of the second, which read the
        first one's results from memory. `pieces`: whether the device computes functions in pieces of loops, as CPUs
        do."""
        self.caches = caches or Caches()
        self.pieces = pieces
        self.instructions = []
        self.node_of = {}
        self.spaces = {}
        self.signatures = {}
        self.roots = set()
        edges = []
        opened = {}  # tuple instruction -> its elements
        parts = {}  # multi-output instruction -> node
        for i in computation.instructions:
            if i.opcode == "tuple":
                opened[i] = i.operands
                continue
            if i.opcode == "get-tuple-element":
                source = i.operands[0]
                if source.opcode == "parameter":  # each element is a separate value
                    self.node_of[i] = len(self.instructions)
                    self.instructions.append([i])
                    edges.append([])
                elif source in opened:
                    chosen = opened[source][i.index]
                    if chosen in self.node_of:
                        self.node_of[i] = self.node_of[chosen]
                    elif chosen in opened:
                        opened[i] = opened[chosen]
                elif source in parts:
                    self.node_of[i] = parts[source]
                    self.instructions[parts[source]].append(i)
                continue
            if i.opcode in ("after-all", "add-dependency"):
                continue
            n = len(self.instructions)
            self.instructions.append([i])
            self.node_of[i] = n
            if i.shape.is_tuple:
                parts[i] = n
            operands = []
            for o in i.operands:
                operands.extend(leaves_of(o, opened, self.node_of))
            edges.append(operands)
        self.roots = {self.node_of[leaf] for leaf in root_leaves(computation.root, opened) if leaf in self.node_of}
        self._fill(edges, {self.node_of[i] for i in second if i in self.node_of})

    cdef _fill(self, list edges, set second):
        cdef int n = len(self.instructions), k, at, o
        self.count = n
        self.group = np.zeros(n, np.int32)
        self.second = np.zeros(n, np.int32)
        self.kind = np.zeros(n, np.int32)
        self.space = np.zeros(n, np.int32)
        self.signature = np.zeros(n, np.int32)
        self.takes = np.zeros(n, np.int32)
        self.feeds = np.zeros(n, np.int32)
        self.light = np.zeros(n, np.int32)
        self.in_pieces = np.zeros(n, np.int32)
        self.has_fast_path = np.zeros(n, np.int32)
        self.after_fast_path = np.zeros(n, np.int32)
        self.elements = np.zeros(n, np.int64)
        self.bytes = np.zeros(n, np.int64)
        self.read = np.zeros(n, np.int64)
        self.statements = np.zeros(n, np.int64)
        self.cases = np.zeros(n, np.int64)
        self.tests_columns = np.zeros(n, np.int32)
        self.window = np.ones(n, np.int64)
        self.row_length = np.zeros(n, np.int64)
        self.columns = np.zeros(n, np.int64)
        self.is_row = np.zeros(n, np.int32)
        self.is_column = np.zeros(n, np.int32)
        self.flops = np.zeros(n, np.float64)
        self.first = np.zeros(n + 1, np.int32)
        self.operand = np.zeros(max(1, sum(len(e) for e in edges)), np.int32)
        self.reader = np.zeros(max(1, len(self.operand)), np.int32)
        self.relation = np.zeros(max(1, len(self.operand)), np.int32)
        at = 0
        for k in second:
            self.second[k] = 1
        for k in range(n):
            self._node(k, self.instructions[k][0])
            i = self.instructions[k][0]
            self.first[k] = at
            for position, leaf in enumerate(edges[k]):
                o = self.node_of[leaf]
                self.operand[at] = o
                self.reader[at] = k
                self.relation[at] = self._relation(k, i, position, leaf)
                at += 1
            # A broadcast is read like its operand.
            self.statements[k] = self._statements(k, at)
            self.cases[k] = self._cases(k, i, at)
            self.tests_columns[k] = self._tests_columns(k, i, at)
            self.after_fast_path[k] = self._after_fast_path(k, at)
            self.read[k] = self.read[self.operand[at - 1]] if i.opcode == "broadcast" else self.bytes[k]
            if self.group[k] == N_INLINE:
                self.read[k] = 0
        self.first[n] = at
        self.kept_dimensions = [frozenset()] + [frozenset(dims) for _, dims in self.signatures]
        self.leading = [False] + [dims == tuple(range(len(dims))) for _, dims in self.signatures]
        self.run = [0] + [prod(dimensions[max(kept, default=-1) + 1 :]) for dimensions, kept in self.signatures]
        counts = np.bincount(np.asarray(self.operand)[:at], minlength=n) if at else np.zeros(n, np.int64)
        self.first_user = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.user = np.zeros(max(1, at), np.int32)
        self.user_edge = np.zeros(max(1, at), np.int32)
        cdef int[::1] fill = np.asarray(self.first_user).copy()
        for k in range(n):
            for at in range(self.first[k], self.first[k + 1]):
                o = self.operand[at]
                self.user[fill[o]] = k
                self.user_edge[fill[o]] = at
                fill[o] += 1

    cdef long long _statements(self, int k, int end):
        cdef long long result = 0 if self.light[k] else 1  # a load of a value in memory is one
        cdef int e, o
        if self.group[k] == N_INLINE:
            return 0
        if self.group[k] in (N_ELEMENTWISE, N_MOVEMENT):
            for e in range(self.first[k], end):
                o = self.operand[e]
                result += 1 if self.is_carried(o, k) else self.statements[o]
        return min(result, MOST_STATEMENTS)

    cdef bint is_carried(self, int p, int u):
        """Whether p is an array that one iteration of a loop leaves to the next, in which u uses it: it is part of the
        state."""
        return self.second[u] and not self.second[p] and self.elements[p] > 1

    cdef bint _after_fast_path(self, int k, int end):
        cdef int e
        if self.group[k] in (N_ELEMENTWISE, N_MOVEMENT):
            for e in range(self.first[k], end):
                if self.has_fast_path[self.operand[e]] or self.after_fast_path[self.operand[e]]:
                    return True
        return False

    cdef long long _cases(self, int k, i, int end):
        cdef long long result = 1
        cdef int e
        if self.group[k] not in (N_ELEMENTWISE, N_MOVEMENT):
            return 1
        if i.opcode == "pad":
            return min(1 + self.cases[self.operand[self.first[k]]], MOST_STATEMENTS)
        if i.opcode == "concatenate":
            pieces = [self.operand[e] for e in range(self.first[k], end)]
            if len(pieces) >= FEWEST_PIECES and len({(self._moved_from(n), self.space[n]) for n in pieces}) == 1:
                return self.cases[self._moved_from(pieces[0])]  # perhaps index_maps.window
            return min(sum([self.cases[n] for n in pieces]), MOST_STATEMENTS)
        for e in range(self.first[k], end):
            result = max(result, self.cases[self.operand[e]])
        return result

    cdef bint _tests_columns(self, int k, i, int end):
        cdef int e, last = len(i.shape.dimensions) - 1 if i.shape.is_array else -1
        if self.group[k] not in (N_ELEMENTWISE, N_MOVEMENT) or last < 0:
            return False
        if i.opcode in ("dynamic-slice", "gather"):
            return False
        if i.opcode == "pad":
            padding = i.attributes["padding"][last]
            if padding.low or padding.high or padding.interior:
                return True
        if i.opcode == "concatenate" and self.cases[k] > 1 and i.attributes["dimensions"][0] == last:
            return True
        for e in range(self.first[k], end):
            if self.tests_columns[self.operand[e]]:
                return True
        return False

    cdef bint reads_at_data(self, int k):
        """Whether node k reads parts of rows that fill a vector, from places on that are computed from data."""
        i = self.instructions[k][0]
        if i.opcode == "dynamic-slice":
            sizes = i.shape.dimensions
        elif i.opcode == "gather":
            sizes = i.attributes["slice_sizes"]
        else:
            return False
        cdef int rank = len(sizes)
        return rank > 0 and sizes[rank - 1] >= FEWEST_LANES

    cdef int _moved_from(self, int n):
        """The node from which another one is only moved."""
        while self.light[n] and self.group[n] == N_MOVEMENT and self.first[n + 1] > self.first[n]:
            n = self.operand[self.first[n]]
        return n

    cdef _node(self, int k, i):
        r = row(i)
        shape = i.shape.elements[0] if i.shape.is_tuple and i.shape.elements else i.shape
        self.group[k] = N_SOURCE if i.opcode == "get-tuple-element" else GROUP[r.op_class]
        self.elements[k] = shape.size if shape.is_array else 0
        self.bytes[k] = i.shape.bytes
        self.flops[k] = flops_of(i)
        self.space[k] = self._intern(self.spaces, shape.dimensions)
        if r.op_class == HERO:
            self.kind[k] = KIND[r.kind]
            self.takes[k] = r.fuses_operands
            self.feeds[k] = r.fuses_users
        else:
            self.takes[k] = r.op_class in (ELEMENTWISE, MOVEMENT)
        self.in_pieces[k] = self.pieces and r.in_pieces and shape.is_array and shape.element_type.is_float
        of_complex = r.complex_in_pieces and i.operands[0].shape.element_type.is_complex
        self.has_fast_path[k] = self.in_pieces[k] or self.pieces and of_complex
        self.light[k] = i.opcode in ("reshape", "transpose", "broadcast", "convert", "slice", "copy", "reverse", "iota")
        if i.opcode == "constant" and (self.elements[k] == 1 or is_splat(i.literal)):
            self.group[k] = N_INLINE
        elif i.opcode == "iota":
            self.group[k] = N_INLINE
        elif i.opcode == "broadcast" and self.group[self.node_of[i.operands[0]]] == N_INLINE:
            self.group[k] = N_INLINE
        elif i.opcode == "dynamic-update-slice":
            # In place on its operand: a kernel over the update only.
            self.group[k] = N_HERO
            self.kind[k] = K_UPDATE
            self.elements[k] = i.operands[1].shape.size
            self.takes[k] = 1
        elif r.kind == "reduction":
            full = i.operands[0].shape
            result_dimensions = tuple(d for d in range(full.rank) if d not in i.dimensions)
            self.signature[k] = self._intern(self.signatures, (full.dimensions, result_dimensions))
            self.window[k] = max(1, full.size) // max(1, self.elements[k])
            self.row_length[k] = self.window[k]
            self.columns[k] = prod(full.dimensions[max(i.dimensions, default=-1) + 1 :])
            self.is_row[k] = result_dimensions == tuple(range(len(result_dimensions)))
            self.is_column[k] = columns_fit(full.dimensions, result_dimensions, full.element_type.bytes, self.caches)
        elif i.opcode == "reduce-window":
            size = 1
            for w in i.window:
                size *= w.size
            self.window[k] = size

    cdef int _intern(self, dict table, key):
        return table.setdefault(key, len(table) + 1)

    cdef int _relation(self, int k, i, int position, leaf):
        """How node k reads operand number `position`: at the index it is evaluated at, or otherwise."""
        if self.group[k] == N_HERO:
            return RELATION[row(i).access(i, position)]
        if self.group[k] == N_CONTROL:
            return R_MEMORY
        if i.opcode == "broadcast":
            self.signature[k] = self._intern(self.signatures, (i.shape.dimensions, tuple(i.dimensions)))
            return R_BROADCAST
        if self.group[k] == N_ELEMENTWISE and leaf.shape.dimensions == i.shape.dimensions:
            return R_SAME
        return R_OTHER


cdef list leaves_of(i, dict opened, dict node_of):
    """The array values of an operand: itself, or the elements of nested tuples."""
    if i in node_of:
        return [i]
    if i in opened:
        return [leaf for e in opened[i] for leaf in leaves_of(e, opened, node_of)]
    return []


cdef list root_leaves(i, dict opened):
    if i in opened:
        return [leaf for e in opened[i] for leaf in root_leaves(e, opened)]
    return [i]
