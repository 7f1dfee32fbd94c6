"""What fusing a node into groups costs, in time and in code, and what a kernel of its own would."""

from refxla._core.graph cimport Graph, K_REDUCTION, N_ELEMENTWISE, R_FULL, R_PACKED, R_WINDOW
from refxla._core.groups cimport Group, MOST_MAPS, OTHER
from refxla._core.node_facts cimport (
    chain_operations, COSTLY, FEW_COLUMNS, is_of_rows, is_tested, LANES, operand_bytes, ROOT, total_operations,
)

cdef long long MANY_CASES = 32  # from which several kernels do not repeat them
cdef long long MOST_COPIED = 16  # statements that are repeated rather than storing a small value

# The ratio of evaluations to elements from which recomputing a value is charged with its whole chain, and from which a
# phase of its own is worthwhile for a small costly value.
cdef double OFTEN = 8

# Operations that computing an element of 8 or 16 bits takes where a loop goes through part of a row from a place that is
# not known, and tests in which piece of the row each element is: clang does not vectorize that for such types.
cdef double TESTED = 100

# The body of a loop with short iterations, whose kernels are called in sequence: computing a costly function separately
# costs one call.
cdef double SHORT_ITERATION = 300  # nanoseconds of all operations
cdef double CALL = 5  # nanoseconds, with operations counted as if they were vectorized


cdef class FusionCosts:
    """The costs of one graph on one device; `shared` and `in_loop` as in fusion_groups."""

    def __init__(self, Graph graph, costs, bint shared, bint in_loop):
        self.g = graph
        self.byte_ns, self.operation_ns, self.launch_ns = costs.byte, costs.flop, costs.launch
        self.phase_ns = costs.phase
        self.cache_bytes = costs.caches.second
        self.shared = shared
        self.in_sequence = shared and in_loop and total_operations(graph) * self.operation_ns < SHORT_ITERATION

    cdef bint stays_in_cache(self, int p):
        """Whether the value of p stays in a core's caches."""
        return self.g.bytes[p] < self.cache_bytes

    # -- time -----------------------------------------------------------------------------------------------------

    cdef double evaluations_of(self, Group group, int p, list edges, int tag):
        """How often p would be evaluated in a group, where its users read it by some edges and it would get a tag."""
        cdef Graph g = self.g
        cdef double most = 0, now
        cdef int e, u
        cdef bint costly, stays
        if tag > 0:
            stays = group.kind == K_REDUCTION and g.kept_dimensions[tag] <= g.kept_dimensions[group.signature]
            if stays or g.leading[tag]:
                # Once per row, along which it does not change. A function is not vectorized then; if the row may end with
                # a value reduced from it, computing that separately gains less.
                costly = g.flops[p] >= (ROOT if group.kind == K_REDUCTION else COSTLY)
                if costly and 1 < g.run[tag] < LANES:
                    return g.elements[p] * LANES
                if g.flops[p] < COSTLY:
                    return g.elements[p]
                if group.kind == K_REDUCTION and not stays:  # once for each vector of lanes of the row
                    return g.elements[p] * LANES * max(1, g.run[tag] // FEW_COLUMNS)
                if is_of_rows(g, p):
                    return g.elements[p]
                return g.elements[p] * LANES
        for e in edges:
            u = g.reader[e]
            if g.relation[e] in (R_FULL, R_WINDOW):
                now = <double>g.elements[u] * g.window[u]
            elif g.relation[e] == R_PACKED:
                now = g.elements[p]
            else:
                now = group.evaluations[u]
            most = max(most, now)
        return min(most, 64.0) if g.elements[p] == 1 else most

    cdef bint is_repeated(self, int p, dict fits):
        """Whether a group that p fits would compute its elements so often that the cost includes that of its chain."""
        cdef Graph g = self.g
        if g.group[p] != N_ELEMENTWISE or g.elements[p] <= 1:  # (a number is computed before the loop)
            return False
        return any([count >= OFTEN * g.elements[p] for _tag, count in fits.values()])

    cdef (double, double) times(self, int p, dict fits, dict users, bint repeated):
        """The nanoseconds that p takes in a kernel of its own, and in all the groups that use it.

        `fits` has the tag and the evaluations of p in each group, `users` the edges, by the groups' numbers.
        """
        cdef Graph g = self.g
        cdef double work = (chain_operations(g, p) if repeated else g.flops[p]) * self.operation_ns
        cdef double unfused, fused = 0, launch, count
        tested = [number for number in fits if is_tested(g, p, users[number])]
        for number, (_tag, count) in fits.items():
            fused += (work + (TESTED * self.operation_ns if number in tested else 0)) * count
        fused += min(operand_bytes(g, p), <double>g.bytes[p] * 2) * self.byte_ns * (len(fits) - 1)
        launch = self._launch_of(p, max([count for _tag, count in fits.values()], default=0.0), bool(tested))
        unfused = work * g.elements[p] + g.bytes[p] * self.byte_ns * (1 + len(fits)) + launch
        if repeated:  # a load is an operation, too
            unfused += self.operation_ns * sum([count for _tag, count in fits.values()])
        if len(fits) > 1 and any([tag != OTHER for tag, _count in fits.values()]):
            unfused -= launch + g.bytes[p] * self.byte_ns  # as one more output of a kernel
        return unfused, fused

    cdef double _launch_of(self, int p, double count, bint tested):
        """The nanoseconds that a separate kernel for p takes in addition to its work: at most a phase for a function of
        a few values that others would compute `count` times, or `tested` elements (is_tested), if kernels share
        launches; a call in a short iteration."""
        cdef Graph g = self.g
        if self.in_sequence and g.flops[p] >= COSTLY and count >= 2 * g.elements[p]:
            return CALL
        few = self.stays_in_cache(p) and count >= OFTEN * g.elements[p]
        return self.phase_ns if self.shared and (tested or g.flops[p] >= COSTLY and few) else self.launch_ns

    cdef bint is_long_epilogue(self, Group group, int p):
        """Whether a loop over the results of p, a sum of rows, takes less time as a kernel of its own: the epilogue of a
        row has no vectors, unless the rows are so short that a vector has an element of each of several rows."""
        cdef Graph g = self.g
        cdef double work = 0
        cdef int n
        if not g.is_row[p] or g.row_length[p] < LANES or not g.pieces:  # (a GPU has no such vectors)
            return False
        for n in group.tags:
            if g.group[n] == N_ELEMENTWISE and g.elements[n] == g.elements[p]:
                work += g.flops[n]
        work *= g.elements[p] * (LANES - 1) * self.operation_ns
        return work > (self.phase_ns if self.shared else self.launch_ns) + 2 * g.bytes[p] * self.byte_ns

    # -- code -----------------------------------------------------------------------------------------------------

    cdef bint copies_much(self, int p, long long maps):
        """Whether the code of p is too large to be written at so many index maps.

        A value that stays in a cache is cheap to read again if kernels share a launch. In that case the code size
        decides.
        """
        if maps > MOST_MAPS:
            return True
        return self.shared and self.stays_in_cache(p) and (maps - 1) * self.g.statements[p] > MOST_COPIED

    cdef bint is_of_many_cases(self, int p):
        """Whether p has so many cases that several kernels that share a launch should read it from a cache rather than
        each recompute it: otherwise, each level of a scan by halves would contain the code of all levels below it, once
        for each component of what is scanned."""
        return self.shared and self.stays_in_cache(p) and self.g.cases[p] >= MANY_CASES
