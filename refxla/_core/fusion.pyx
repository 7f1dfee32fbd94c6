"""Instruction fusion: which instructions become one kernel.

The nodes of a graph are visited from the results back, so that all users of a node are in groups when the node is
visited. The node then either

    joins every group that uses it (its value then never reaches memory; in several groups, it is recomputed), if their
    emitters can compute it and the cost model finds that cheaper than storing the value once,
    or joins the first of these groups that can have it as one more output,
    or starts a group of its own.

A group is a loop until a hero (a reduce, a dot, ...) joins it; then the users of the hero are the epilogue of its
kernel. Finally, sibling groups that run over the same space and read the same value are merged. Every edge that stays
unfused is recorded with its reason.

All dots are assumed to pack their operands (R_PACKED), even those for which their emitter writes plain loops
(codegen/products/small_products.py): only producers that merely change index or type can join one.

No two groups may wait for each other. So each group has the set of groups that depend on it, as bits, which grows with
each output that has users elsewhere (XLA: HloReachabilityMap). Following the edges between groups again for each value
with several users would take a time quadratic in the number of layers of a network that is trained.
"""

from refxla._core.graph import KIND_NAMES
from refxla._core.topological_order import topological_order
from refxla.device.description import Costs
from refxla.ir.op_table import MOST_IN_PIECES
from refxla.scheduling.fusion_group import FusionGroup, UnfusedEdge

# The text for each Reason.
REASONS = {
    U_NEEDS_MEMORY: "the user needs it in memory: its emitter does not evaluate producers",
    U_SHARED: "several kernels use it, and computing it in each costs more than writing it once",
    U_AMPLIFIED: "computing it at every use costs more than writing it once",
    U_SECOND_HERO: "the kernel already has an operation that needs an emitter of its own",
    U_INDEX: "the user reads it at other indices than those it is computed at",
    U_CYCLE: "fusing would make two kernels wait for each other",
    U_TOO_LARGE: "the kernel would be too large",
    U_RUNS_OTHERS: "it runs other computations",
    U_NOT_LIGHT: "only changes of index and type are done while a product packs its operands",
    U_ROWS: "its rows are too long to be reduced one after the other",
    U_NOT_ASKED: "fusion is left out",
    U_CODE: "its code would be written once for each of too many ways in which the kernel indexes it",
    U_HERO_SHARED: "an operation with an emitter of its own is computed once, and several kernels use it",
    U_OTHER_ITERATION: "it is the state of a loop, which the next iteration reads",
    U_SHORT_ROWS: "the rows are too short for its function, which is computed of many elements that lie side by side",
    U_FEW_AT_ONCE: "its kernel makes a few elements at a time, and a function that uses it is computed of many at once",
    U_EPILOGUE: "what follows the sums of its kernel makes a few elements at a time, and the function many at once",
    U_CASES: "its pads and concatenates make an element in so many ways that it is read from memory instead",
    U_FUNCTIONS: "the kernel has as many functions that are computed of many elements at once as arrays for them",
}

# The size of a kernel.
cdef int LARGEST = 800  # members of a group
cdef int MOST_MAPS = 15  # at which a member is evaluated: its code is written once for each
cdef long long MOST_CASES = 7  # from which the loop of a reduction does not compute the elements of a concatenate
cdef long long MANY_CASES = 32  # from which several kernels do not repeat them
cdef long long MOST_PIECES = 128  # from which a concatenate reads others from memory (concatenate_decomposer.py)
cdef long long MANY_ELEMENTS = 1 << 12  # from which they are not computed one by one
cdef long long MOST_COPIED = 16  # statements that are repeated rather than storing a small value
cdef long long LONGEST_ROW = 1 << 17  # elements of a row that one item reads again: longer ones are split among items

# The costs of recomputing a value, in operations (flops_of) and bytes.
cdef double SLIGHT = 64  # bytes that may be read again for a value that is only moved
cdef double ROOT = 6  # operations of a division or a square root
cdef double COSTLY = 14  # operations of a function: it is not computed while a product packs
# The ratio of evaluations to elements from which recomputing a value is charged with its whole chain, and from which a
# phase of its own is worthwhile for a small costly value.
cdef double OFTEN = 8
cdef int LONGEST_CHAIN = 100  # values of a recomputed chain that are examined

# Operations that computing an element of 8 or 16 bits takes where a loop goes through part of a row from a place that is
# not known, and tests in which piece of the row each element is: clang does not vectorize that for such types.
cdef double TESTED = 100

# The body of a loop with short iterations, whose kernels are called in sequence: computing a costly function separately
# costs one call.
cdef double SHORT_ITERATION = 300  # nanoseconds of all operations
cdef double CALL = 5  # nanoseconds, with operations counted as if they were vectorized

# Functions in short rows, which are not vectorized, and those that are computed in pieces.
cdef long long LANES = 8  # the factor by which an operation takes longer then
cdef long long FEW_COLUMNS = 32  # lanes of the vectors in which functions are computed
# elements of a row up to which functions that are computed in pieces are computed one by one
cdef long long SHORT_ROW = 128
cdef long long PIECE = 256  # elements from which such functions are computed in a loop of their own
cdef int most_functions = MOST_IN_PIECES

cdef enum:  # the tag of a member: at which index it is evaluated
    FULL = 0    # the index that the group runs over
    OTHER = -1  # any other; a positive tag is the signature of the kept dimensions of a reduction


cdef enum:  # index maps of a kernel: see IndexMaps
    WRITTEN = 0  # that of its outputs
    REDUCED = 1  # that of a reduction's operand


cdef class Group:
    """A future kernel: `tags` has its members, `outputs` those that are written to memory."""

    def __init__(self, number, kind, space):
        self.number = number
        self.kind = kind
        self.space = space
        self.signature = 0
        self.tags = {}
        self.evaluations = {}
        self.maps = None
        self.outputs = set()
        self.heroes = []
        self.packed = set()
        self.functions = 0
        self.alive = True


cdef class InstructionFusion:
    """One run over one graph; `fusion_groups` below is the entry point."""

    def __init__(self, Graph graph, costs, bint fuse, bint shared, bint in_loop):
        self.fuse = fuse
        self.shared = shared
        self.g = graph
        self.maps = IndexMaps(graph)
        self.byte_ns, self.operation_ns, self.launch_ns = costs.byte, costs.flop, costs.launch
        self.phase_ns = costs.phase
        self.cache_bytes = costs.caches.second
        self.in_sequence = shared and in_loop and self.all_operations() * self.operation_ns < SHORT_ITERATION
        self.groups = []
        self.reach = []
        self.member_of = [[] for _ in range(graph.count)]
        self.reasons = []
        cdef int p
        for p in range(graph.count - 1, -1, -1):
            self.visit(p)
        if fuse:
            self.merge_siblings()

    cdef double all_operations(self):
        """The total cost of the graph's operations."""
        cdef double total = 0
        cdef int p
        for p in range(self.g.count):
            total += self.g.flops[p] * self.g.elements[p]
        return total

    cdef Group new_group(self, int p, int kind):
        cdef Group group = Group(len(self.groups), kind, self.g.space[p])
        self.groups.append(group)
        self.reach.append(0)
        if kind:
            group.heroes.append(p)
            group.signature = self.g.signature[p]
            if kind == K_UPDATE:
                group.space = 0
            elif kind == K_REDUCTION:
                group.space = -group.signature
        self.add(group, p, FULL if kind != K_REDUCTION else group.signature, self.g.elements[p])
        group.outputs.add(p)
        self.link(group, p)
        return group

    cdef void add(self, Group group, int p, int tag, double evaluations):
        cdef int e
        for e in range(self.g.first_user[p], self.g.first_user[p + 1]):
            if self.g.user[e] in group.tags and (
                self.g.relation[self.g.user_edge[e]] == R_PACKED or self.g.user[e] in group.packed
            ):
                group.packed.add(p)
        group.tags[p] = tag
        group.evaluations[p] = evaluations
        group.functions += self.is_piecewise(p)
        if group.maps is not None:
            group.maps[p] = self.maps_of(group, p, self.edges_from(group, p))
        self.member_of[p].append(group.number)

    cdef void write(self, Group group, int p):
        """Makes member p an output."""
        group.outputs.add(p)
        group.maps = None
        self.link(group, p)

    cdef void refuse(self, int p, Group group, int reason, double unfused_ns=0, double fused_ns=0):
        self.reasons.append((p, group.number, reason, unfused_ns, fused_ns))

    cdef visit(self, int p):
        cdef Graph g = self.g
        cdef int e, u, kind = g.group[p]
        cdef bint in_memory = p in g.roots
        if kind == N_SOURCE:
            return
        users = {}  # group number -> [edges]
        for e in range(g.first_user[p], g.first_user[p + 1]):
            u = g.user[e]
            if g.relation[g.user_edge[e]] == R_MEMORY:
                in_memory = True
                for number in self.member_of[u]:
                    self.refuse(p, self.groups[number], U_RUNS_OTHERS if g.group[u] == N_CONTROL else U_NEEDS_MEMORY)
            for number in self.member_of[u]:
                users.setdefault(number, []).append(g.user_edge[e])
        if kind == N_INLINE:
            if in_memory and g.instructions[p][0].opcode != "constant":
                self.new_group(p, K_LOOP)
            return
        if not users and not in_memory:
            return  # dead
        if kind == N_CONTROL:
            self.new_group(p, K_CONTROL)
            for number in users:
                self.refuse(p, self.groups[number], U_RUNS_OTHERS)
        elif not self.fuse:
            self.new_group(p, g.kind[p])
            for number in users:
                self.refuse(p, self.groups[number], U_NOT_ASKED)
        elif kind == N_HERO:
            self.place_hero(p, users, in_memory)
        else:
            self.place_elemental(p, users, in_memory)

    # -- what a group would make of a member ------------------------------------------------------------------

    cdef int tag_of(self, Group group, int p, list edges):
        """The tag that p would get in a group through the edges from its users there."""
        cdef int e, u, tag, result = -2
        for e in edges:
            u = self.user_of(e)
            if u not in group.tags:
                continue
            tag = group.tags[u]
            if self.g.relation[e] == R_SAME:
                pass
            elif self.g.relation[e] == R_BROADCAST and tag == FULL:
                tag = self.g.signature[u]
            elif self.g.relation[e] == R_FULL and group.kind == K_REDUCTION and u in group.heroes:
                tag = FULL
            elif self.g.relation[e] == R_UPDATE and group.kind == K_UPDATE:
                tag = FULL
            else:
                tag = OTHER
            if result == -2:
                result = tag
            elif result != tag:
                result = OTHER
        return result

    cdef list edges_from(self, Group group, int p):
        """The edges from p to members of a group."""
        cdef int e
        return [self.g.user_edge[e] for e in range(self.g.first_user[p], self.g.first_user[p + 1])
                if self.g.user[e] in group.tags]

    cdef set maps_of(self, Group group, int p, list edges):
        """The index maps at which p would be evaluated in a group, through the edges from its users there."""
        cdef Graph g = self.g
        cdef int e, u, map
        cdef set result = set()
        if group.maps is None:
            group.maps = {}
            for n in sorted(group.tags, reverse=True):
                group.maps[n] = self.maps_of(group, n, self.edges_from(group, n))
        if p in group.outputs:
            result.add(REDUCED if group.kind == K_REDUCTION and group.tags[p] == FULL else WRITTEN)
        for e in edges:
            u = self.user_of(e)
            if u not in group.tags:
                continue
            if u in group.heroes:  # whose operands are read in loops of their own
                result.add(REDUCED if g.relation[e] == R_FULL else self.maps.through(WRITTEN, u, e))
                continue
            for map in group.maps[u]:
                if map == REDUCED and g.relation[e] == R_BROADCAST and g.signature[u] == group.signature:
                    result.add(WRITTEN)  # the kept dimensions of the reduction
                else:
                    result.add(self.maps.through(map, u, e))
        return result

    cdef set known_maps(self, Group group, int p):
        """The index maps of a member; empty for a single element."""
        if self.g.elements[p] == 1:
            return set()
        return group.maps[p] if group.maps is not None else self.maps_of(group, p, self.edges_from(group, p))

    cdef int user_of(self, int e):
        """The node that edge e belongs to (binary search in `first`)."""
        cdef int low = 0, high = self.g.count - 1, middle
        while low < high:
            middle = (low + high + 1) // 2
            if self.g.first[middle] <= e:
                low = middle
            else:
                high = middle - 1
        return low

    cdef double evaluations_of(self, Group group, int p, list edges, int tag):
        """How often p would be evaluated in a group."""
        cdef double most = 0, now
        cdef int e, u
        cdef bint costly, stays
        if tag > 0:
            stays = group.kind == K_REDUCTION and self.g.kept_dimensions[tag] <= self.g.kept_dimensions[group.signature]
            if stays or self.g.leading[tag]:
                # Once per row, along which it does not change. A function is not vectorized then; if the row may end with
                # a value reduced from it, computing that separately gains less.
                costly = self.g.flops[p] >= (ROOT if group.kind == K_REDUCTION else COSTLY)
                if costly and 1 < self.g.run[tag] < LANES:
                    return self.g.elements[p] * LANES
                if self.g.flops[p] < COSTLY:
                    return self.g.elements[p]
                if group.kind == K_REDUCTION and not stays:  # once for each vector of lanes of the row
                    return self.g.elements[p] * LANES * max(1, self.g.run[tag] // FEW_COLUMNS)
                if self.is_of_rows(p):
                    return self.g.elements[p]
                return self.g.elements[p] * LANES
        for e in edges:
            u = self.user_of(e)
            if self.g.relation[e] in (R_FULL, R_WINDOW):
                now = <double>self.g.elements[u] * self.g.window[u]
            elif self.g.relation[e] == R_PACKED:
                now = self.g.elements[p]
            else:
                now = group.evaluations[u]
            most = max(most, now)
        return min(most, 64.0) if self.g.elements[p] == 1 else most

    cdef int obstacle(self, Group group, int p, list edges):
        """Why the elemental node p cannot be evaluated inside a group; -1 if it can."""
        cdef int e, u
        if len(group.tags) >= LARGEST:
            return U_TOO_LARGE
        for e in edges:
            u = self.user_of(e)
            if self.g.relation[e] == R_MEMORY or not self.g.takes[u]:
                return U_NEEDS_MEMORY
            if self.g.is_carried(p, u):
                return U_OTHER_ITERATION
            if self.g.cases[u] > MOST_PIECES and self.is_concatenate(p) and self.is_concatenate(u):
                return U_CASES
            # (Functions are not vectorized there.)
            if self.g.relation[e] == R_PACKED and not self.g.light[p] or u in group.packed and self.g.flops[p] >= COSTLY:
                return U_NOT_LIGHT
        if group.kind == K_REDUCTION and self.is_function_of_few(p, group.heroes[0]):
            return U_SHORT_ROWS
        if self.is_function_of_epilogue(group, p):
            return U_EPILOGUE
        if group.kind == K_REDUCTION and self.g.cases[p] >= MOST_CASES and self.is_of_pieces(p):
            return U_CASES
        return U_CODE if self.g.elements[p] > 1 and self.copies_much(p, len(self.maps_of(group, p, edges))) else -1

    cdef bint is_concatenate(self, int n):
        return self.g.instructions[n][0].opcode == "concatenate"

    cdef bint is_of_pieces(self, int p):
        """Whether p is a large concatenate whose pieces themselves have several cases."""
        cdef Graph g = self.g
        cdef int count = g.first[p + 1] - g.first[p]
        return self.is_concatenate(p) and g.cases[p] > count and g.elements[p] >= MANY_ELEMENTS

    cdef bint is_function_of_few(self, int p, int hero):
        """Whether a reduction would evaluate p, a function, for each element of rows that are not long loops, or of too
        few columns to fill vectors."""
        cdef Graph g = self.g
        if g.elements[p] <= g.elements[hero]:
            return False
        if g.is_row[hero]:
            return g.in_pieces[p] and g.row_length[hero] < SHORT_ROW
        few = g.columns[hero] < FEW_COLUMNS and g.elements[p] >= MANY_ELEMENTS
        return few and g.pieces and g.flops[p] >= COSTLY and not self.follows_reduction(p)

    cdef bint follows_reduction(self, int p):
        """Whether p is computed from a reduction's result: it is computed in passes over the same columns anyway. (Not
        known for values that take many steps.)"""
        heroes, _ = self.heroes_before(p, False)
        return any([self.g.kind[n] == K_REDUCTION for n in heroes])

    cdef bint is_of_rows(self, int p):
        """Whether p is computed, element by element, from the result of a reduction, which its kernel may contain. (Also
        if that would take many steps to find out.)"""
        heroes, are_all = self.heroes_before(p, True)
        return bool(heroes) or not are_all

    cdef tuple heroes_before(self, int p, bint by_element):
        """The heroes whose results p is computed from without another hero, or with `by_element` element by element; and
        whether these are all: no more than LONGEST_CHAIN values are looked at."""
        cdef Graph g = self.g
        cdef list waiting = [p], heroes = []
        cdef set visited = {p}
        cdef int n, e, o
        cdef bint are_all = True
        while waiting:
            n = waiting.pop()
            if g.group[n] == N_HERO:
                heroes.append(n)
                continue
            for e in range(g.first[n], g.first[n + 1]):
                o = g.operand[e]
                if o in visited or by_element and g.relation[e] != R_SAME:
                    continue
                if len(visited) >= LONGEST_CHAIN:
                    are_all = False
                    continue
                visited.add(o)
                waiting.append(o)
        return heroes, are_all

    cdef bint is_function_of_epilogue(self, Group group, int p):
        """Whether p is a function that a loop computes in pieces, and a kernel with sums would compute for each of its
        results. (What a reduction computes of its operand is not such an epilogue.)"""
        if group.kind not in (K_REDUCTION, K_DOT, K_CONVOLUTION, K_WINDOW, K_SELECT) or not self.is_piecewise(p):
            return False
        return group.kind != K_REDUCTION or self.g.elements[p] <= self.g.elements[group.heroes[0]]

    cdef bint is_piecewise(self, int p):
        """Whether p is a function that a loop computes in pieces of an array."""
        return self.g.has_fast_path[p] and self.g.elements[p] >= PIECE

    cdef bint has_too_many_functions(self, Group group, int p, bint elsewhere):
        """Whether p, with the functions that it is computed from, would exceed the number of functions for which a loop
        has arrays: those would be computed one by one. A value that is also used `elsewhere` ends that kernel's
        functions."""
        if group.kind not in (K_LOOP, K_REDUCTION) or group.functions < most_functions:
            return False
        return self.is_piecewise(p) or elsewhere and self.g.after_fast_path[p] and self.g.elements[p] >= PIECE

    cdef bint copies_much(self, int p, long long maps):
        """Whether the code of p is too large to be written at so many index maps.

        A value that stays in a cache is cheap to read again if kernels share a launch. In that case the code size
        decides.
        """
        if maps > MOST_MAPS:
            return True
        return self.shared and self.g.bytes[p] < self.cache_bytes and (maps - 1) * self.g.statements[p] > MOST_COPIED

    cdef bint is_of_many_cases(self, int p):
        """Whether p has so many cases that several kernels that share a launch should read it from a cache rather than
        each recompute it: otherwise, each level of a scan by halves would contain the code of all levels below it, once
        for each component of what is scanned."""
        cdef Graph g = self.g
        return self.shared and g.bytes[p] < self.cache_bytes and g.cases[p] >= MANY_CASES

    cdef bint reaches(self, int start, int goal):
        """Whether a group depends on another, directly or not."""
        return (self.reach[start] & bit(goal)) != 0

    cdef link(self, Group group, int p):
        """Records that p is an output now: the groups that use it, and those reachable from them, become reachable from
        the group, and from all groups that reach it."""
        cdef Graph g = self.g
        cdef int e
        if not self.fuse:
            return
        others = 0
        for e in range(g.first_user[p], g.first_user[p + 1]):
            for number in self.member_of[g.user[e]]:
                if p not in (<Group>self.groups[number]).tags:
                    others |= bit(number) | self.reach[number]
        if others & ~self.reach[group.number]:
            self.reach[group.number] |= others
            self.spread(bit(group.number), others)

    cdef spread(self, groups, others):
        """Makes others reachable from everything that reaches one of some groups; both are sets of bits."""
        cdef Py_ssize_t n
        for n in range(len(self.reach)):
            reached = self.reach[n]
            if reached & groups:
                self.reach[n] = reached | others

    cdef bint closes_cycle(self, int host, users):
        """Whether another group that uses the node leads back to the host."""
        return any(number != host and self.reaches(number, host) for number in users)

    # -- placing ------------------------------------------------------------------------------------------------

    cdef place_elemental(self, int p, dict users, bint in_memory):
        cdef Graph g = self.g
        cdef Group group
        cdef double unfused_ns, fused_ns = 0, work, read_bytes = 0, count, launch_ns
        cdef int e, tag, why
        cdef bint again
        fits = {}
        for number, edges in users.items():
            group = self.groups[number]
            why = self.obstacle(group, p, edges)
            if why < 0 and self.has_too_many_functions(group, p, in_memory or len(users) > 1):
                why = U_FUNCTIONS
            if why >= 0:
                self.refuse(p, group, why)
                continue
            tag = self.tag_of(group, p, edges)
            fits[number] = (tag, self.evaluations_of(group, p, edges, tag))
        if len(users) > 1 and not in_memory and self.is_of_many_cases(p):
            for number in fits:
                self.refuse(p, self.groups[number], U_CASES)
            in_memory = True
        if not in_memory and len(fits) == len(users):
            again = g.group[p] == N_ELEMENTWISE and g.elements[p] > 1  # (a number is computed before the loop)
            again = again and any(t[1] >= OFTEN * g.elements[p] for t in fits.values())
            work = (self.chain_of(p) if again else g.flops[p]) * self.operation_ns
            for e in range(g.first[p], g.first[p + 1]):
                read_bytes += g.read[g.operand[e]]
            if len(fits) > 1 and not (self.shared and self.is_slight(p, read_bytes)):
                fits = self.merge_users(p, fits, users)
            tested = [n for n in fits if self.is_tested(p, users[n])]
            for number, (_tag, count) in fits.items():
                fused_ns += (work + (TESTED * self.operation_ns if number in tested else 0)) * count
            fused_ns += min(read_bytes, <double>g.bytes[p] * 2) * self.byte_ns * (len(fits) - 1)
            launch_ns = self.launch_of(p, max([count for _tag, count in fits.values()], default=0.0), bool(tested))
            unfused_ns = work * g.elements[p] + g.bytes[p] * self.byte_ns * (1 + len(fits)) + launch_ns
            if again:  # a load is an operation, too
                unfused_ns += self.operation_ns * sum([count for _tag, count in fits.values()])
            if len(fits) > 1 and any(t[0] != OTHER for t in fits.values()):
                unfused_ns -= launch_ns + g.bytes[p] * self.byte_ns  # as one more output of a kernel
            if fused_ns <= unfused_ns:
                for number, (tag, count) in fits.items():
                    self.add(self.groups[number], p, tag, count)
                return
            why = U_SHARED if len(fits) > 1 else U_AMPLIFIED
            for number in fits:
                self.refuse(p, self.groups[number], why, unfused_ns, fused_ns)
        for number, (tag, count) in fits.items():
            group = self.groups[number]
            if self.can_output(group, p, tag) and not self.closes_cycle(number, users):
                self.add(group, p, tag, count)
                self.write(group, p)
                return
        self.new_group(p, K_LOOP)

    cdef double chain_of(self, int p):
        """The operations of p and of the values that it is computed from, element by element, down to those in memory.

        Each of them is cheap to recompute, so that a kernel that repeats p would absorb them one by one.
        """
        cdef Graph g = self.g
        cdef double total = 0
        cdef int n, o, e
        cdef set visited = {p}
        cdef list waiting = [p]
        while waiting and len(visited) <= LONGEST_CHAIN:
            n = waiting.pop()
            total += g.flops[n]
            for e in range(g.first[n], g.first[n + 1]):
                o = g.operand[e]
                if g.relation[e] == R_SAME and g.group[o] == N_ELEMENTWISE and o not in visited and o not in g.roots:
                    visited.add(o)
                    waiting.append(o)
        return total

    cdef double launch_of(self, int p, double count, bint tested):
        """The nanoseconds that a separate kernel for p takes in addition to its work: at most a phase for a function of
        a few values that others would compute `count` times, or `tested` elements (is_tested), if kernels share
        launches; a call in a short iteration."""
        cdef Graph g = self.g
        if self.in_sequence and g.flops[p] >= COSTLY and count >= 2 * g.elements[p]:
            return CALL
        few = g.bytes[p] < self.cache_bytes and count >= OFTEN * g.elements[p]
        return self.phase_ns if self.shared and (tested or g.flops[p] >= COSTLY and few) else self.launch_ns

    cdef bint is_tested(self, int p, list edges):
        """Whether users would test for each element which piece of a row of p it is in, without vectors: p is of 8 or 16
        bits, and its rows are put together of pieces and read from places on that are computed from data."""
        cdef Graph g = self.g
        cdef int e
        if not g.pieces or not g.tests_columns[p] or g.bytes[p] > 2 * g.elements[p]:  # (a GPU has no such vectors)
            return False
        for e in edges:
            if e == g.first[self.user_of(e)] and g.reads_at_data(self.user_of(e)):
                return True
        return False

    cdef bint is_slight(self, int p, double read_bytes):
        """Whether p costs next to nothing to recompute, such as a number that is broadcast."""
        cdef Graph g = self.g
        return g.elements[p] <= 1 or (g.flops[p] < 1 and read_bytes <= SLIGHT)

    cdef bint can_output(self, Group group, int p, int tag):
        """Whether a group's kernel can write p: it evaluates p once for each of its elements.

        A value that stays in a cache is better computed by a loop of its own, which uses more cores than sums over few
        columns do.
        """
        cdef Graph g = self.g
        cdef int hero = group.heroes[0] if group.heroes else 0
        if group.kind == K_REDUCTION and tag == FULL and tag != group.signature:
            return g.bytes[p] >= self.cache_bytes or (g.is_row[hero] and self.rows_fit(hero))
        if group.kind == K_REDUCTION:
            return tag == group.signature
        return tag == FULL and group.kind not in (K_CONTROL, K_UPDATE, K_SCATTER, K_SORT, K_FFT, K_SELECT, K_LIBRARY)

    cdef place_hero(self, int p, dict users, bint in_memory):
        cdef Graph g = self.g
        cdef Group group
        cdef int tag, why
        if g.feeds[p]:
            # First try another reduction: then one kernel reads what both reduce.
            reductions = [n for n in users if (<Group>self.groups[n]).kind == K_REDUCTION]
            for number in reductions + [n for n in users if n not in reductions]:
                group, edges = self.groups[number], users[number]
                tag = self.tag_of(group, p, edges)
                why = self.hero_obstacle(group, p, tag, edges)
                if why < 0 and (len(users) > 1 or in_memory) and self.closes_cycle(number, users):
                    why = U_CYCLE
                if why >= 0:
                    self.refuse(p, group, why)
                    continue
                self.host(group, p, tag)
                outside = [n for n in users if n != number and not self.takes_in(group, self.groups[n], p, users)]
                if in_memory or outside:
                    self.write(group, p)
                    for other in outside:
                        self.refuse(p, self.groups[other], U_HERO_SHARED)
                return
        else:
            for number in users:
                self.refuse(p, self.groups[number], U_NEEDS_MEMORY)
        self.new_group(p, g.kind[p])

    cdef int hero_obstacle(self, Group group, int p, int tag, list edges):
        """Why hero p cannot run in the kernel of a group that uses it; -1 if it can."""
        cdef Graph g = self.g
        cdef int signature = g.signature[p]
        if len(group.tags) >= LARGEST:
            return U_TOO_LARGE
        if any(g.relation[e] in (R_MEMORY, R_PACKED, R_WINDOW) for e in edges):
            return U_SECOND_HERO
        if any(self.g.is_carried(p, self.user_of(e)) for e in edges):
            return U_OTHER_ITERATION
        if group.kind == K_LOOP and self.computes_in_pieces(group):
            return U_FEW_AT_ONCE
        if g.kind[p] != K_REDUCTION:
            if group.kind != K_LOOP:
                return U_SECOND_HERO
            return -1 if tag == FULL and group.space == g.space[p] else U_INDEX
        if group.kind == K_LOOP and tag == FULL and group.space == g.space[p]:
            return U_FEW_AT_ONCE if self.is_long_epilogue(group, p) else -1  # its users become the epilogue
        if tag != signature or tag <= 0:
            return U_INDEX
        if group.kind == K_REDUCTION:
            if group.signature != signature:
                return U_SECOND_HERO
            # Another reduction of the same rows. Between its users and it there are only values of the kept space,
            # unless a full-space value needs it first: then the rows are read again, which requires short rows.
            return -1 if not self.needs_rows(group, p) or self.rows_fit(group.heroes[0]) else U_ROWS
        if group.kind != K_LOOP:
            return U_SECOND_HERO
        return -1 if self.rows_fit(p) else U_ROWS

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

    cdef bint computes_in_pieces(self, Group group):
        """Whether a loop computes functions in pieces, which no epilogue does."""
        cdef int n
        for n in group.tags:
            if self.g.in_pieces[n] and self.g.elements[n] >= PIECE:
                return True
        return False

    cdef bint needs_rows(self, Group group, int p):
        """Whether a full-space member of the group depends on p (through the kept space)."""
        cdef Graph g = self.g
        stack, visited = [p], {p}
        while stack:
            n = stack.pop()
            for e in range(g.first_user[n], g.first_user[n + 1]):
                u = g.user[e]
                if u in group.tags and u not in visited:
                    if group.tags[u] == FULL:
                        return True
                    visited.add(u)
                    stack.append(u)
        return False

    cdef bint rows_fit(self, int p):
        """Whether one kernel may read rows again once hero p is known.

        A long row is then one item's work, and short pieces of columns are slow to read. That pays off if it saves
        several kernels: if p itself needs another reduction of the same rows, as the sum of a softmax needs the
        maximum.
        """
        cdef Graph g = self.g
        cdef int n, e, o
        if g.is_column[p] == 2:
            return True
        if not g.is_column[p] and (not g.is_row[p] or g.row_length[p] <= LONGEST_ROW):
            return g.is_row[p]
        stack, visited = [p], {p}
        while stack and len(visited) < 64:
            n = stack.pop()
            for e in range(g.first[n], g.first[n + 1]):
                o = g.operand[e]
                if g.kind[o] == K_REDUCTION and g.group[o] == N_HERO and g.signature[o] == g.signature[p]:
                    return True
                if o not in visited and g.group[o] in (N_ELEMENTWISE, N_MOVEMENT):
                    visited.add(o)
                    stack.append(o)
        return False

    cdef bint takes_in(self, Group group, Group other, int p, users):
        """Makes a loop over the kept dimensions of reduction p part of p's kernel if possible: the loop reads p at the
        index that it writes, and no other group that uses p leads to it."""
        cdef int n, tag
        if group.kind != K_REDUCTION or other.kind != K_LOOP or other.space != self.g.space[p]:
            return False
        if self.tag_of(other, p, users[other.number]) != FULL:
            return False
        if any(self.g.is_carried(p, n) for n in other.tags):
            return False
        if len(group.tags) + len(other.tags) > LARGEST or not self.independent(group, other):
            return False
        if any(n not in (group.number, other.number) and self.reaches(n, other.number) for n in users):
            return False
        tags = {n: group.signature if tag == FULL else OTHER for n, tag in other.tags.items()}
        for n in tags:
            if n in group.tags and group.tags[n] != tags[n] and (n in group.outputs or n in other.outputs):
                return False
            if n in group.tags and len(self.known_maps(group, n)) + len(self.known_maps(other, n)) > MOST_MAPS:
                return False  # an upper bound: the maps of the other group are not those that they would become
        other.tags = tags
        self.merge(group, other)
        return True

    cdef host(self, Group group, int p, int tag):
        """Makes hero p a member; the group takes its kind."""
        cdef Graph g = self.g
        cdef int n
        if g.kind[p] == K_REDUCTION:
            if group.kind == K_LOOP:
                if tag == FULL:  # the group ran over the kept space
                    for n in list(group.tags):
                        group.tags[n] = g.signature[p] if group.tags[n] == FULL else OTHER
                group.signature = g.signature[p]
                group.space = -group.signature
            tag = g.signature[p]
        group.kind = g.kind[p]
        group.heroes.append(p)
        group.maps = None
        self.add(group, p, tag, g.elements[p])

    # -- merging groups -------------------------------------------------------------------------------------------

    cdef bint same_space(self, Group a, Group b):
        """Whether two groups run over the same space in the same way."""
        if a.kind != b.kind or len(a.tags) + len(b.tags) > LARGEST:
            return False
        if a.kind == K_LOOP:
            return a.space == b.space
        return a.kind == K_REDUCTION and a.signature == b.signature

    cdef bint independent(self, Group a, Group b):
        return not self.reaches(a.number, b.number) and not self.reaches(b.number, a.number)

    cdef merge(self, Group into, Group other):
        """Merges a group into another. A member of both keeps its tag if they agree."""
        for n, tag in other.tags.items():
            self.member_of[n].remove(other.number)
            if n in into.tags:
                into.tags[n] = tag if into.tags[n] == tag else OTHER
                into.evaluations[n] = max(into.evaluations[n], other.evaluations[n])
            else:
                self.add(into, n, tag, other.evaluations[n])
        into.outputs |= other.outputs
        into.maps = None
        into.heroes += [h for h in other.heroes if h not in into.heroes]
        other.alive = False
        other.tags = {}
        other.outputs = set()
        self.reach[into.number] |= self.reach[other.number]
        self.spread(bit(into.number) | bit(other.number), bit(into.number) | self.reach[into.number])

    cdef bint mergeable(self, Group a, Group b):
        if not (a.alive and b.alive and self.same_space(a, b)):
            return False
        shared = [n for n in a.tags if n in b.tags]
        if any(a.tags[n] != b.tags[n] and (n in a.outputs or n in b.outputs) for n in shared):
            return False
        if any(self.copies_much(n, len(self.known_maps(a, n) | self.known_maps(b, n))) for n in shared):
            return False
        if a.functions and b.functions:
            functions = a.functions + b.functions - sum([self.is_piecewise(n) for n in shared])
            if functions > max(most_functions, a.functions, b.functions):
                return False
        return self.independent(a, b)

    cdef dict merge_users(self, int p, dict fits, dict users):
        """Merges the groups that use p at the index they run over, so that it is computed once."""
        cdef Group a
        hosts = [n for n, (tag, _) in fits.items() if tag == FULL or tag > 0]
        if len(hosts) < 2:
            return fits
        a = self.groups[hosts[0]]
        for number in hosts[1:]:
            if self.mergeable(a, self.groups[number]):
                self.merge(a, self.groups[number])
                users[a.number] = list(dict.fromkeys(users[a.number] + users.pop(number)))
                del fits[number]
        tag = self.tag_of(a, p, users[a.number])
        fits[a.number] = (tag, self.evaluations_of(a, p, users[a.number], tag))
        return fits

    cdef merge_siblings(self):
        """Merges groups that read the same value from memory at the index they run over."""
        cdef Graph g = self.g
        cdef int p, e
        for p in range(g.count):
            if g.group[p] in (N_INLINE,) or g.elements[p] <= 1:
                continue
            readers = {}
            for e in range(g.first_user[p], g.first_user[p + 1]):
                for number in self.member_of[g.user[e]]:
                    if p not in (<Group>self.groups[number]).tags:
                        readers.setdefault(number, []).append(g.user_edge[e])
            same = [n for n, edges in readers.items() if self.tag_of(self.groups[n], p, edges) == FULL]
            while len(same) > 1:
                a = self.groups[same.pop(0)]
                for number in list(same):
                    if self.mergeable(a, self.groups[number]):
                        self.merge(a, self.groups[number])
                        same.remove(number)

    cdef set readers_of_updated(self, Group group):
        """The other groups that read the value that a dynamic-update-slice or scatter of this one updates in place."""
        cdef int hero, e, u, count
        numbers = set()
        for hero in group.heroes:
            if self.g.kind[hero] == K_UPDATE:
                count = 1
            elif self.g.kind[hero] == K_SCATTER:
                count = (self.g.first[hero + 1] - self.g.first[hero]) // 2
            else:
                continue
            for e in range(self.g.first[hero], self.g.first[hero] + count):
                p = self.g.operand[e]
                for u in range(self.g.first_user[p], self.g.first_user[p + 1]):
                    numbers.update(self.member_of[self.g.user[u]])
        numbers.discard(group.number)
        return numbers

    cdef set pointwise_inputs(self, Group group):
        """The values that a loop, or the epilogue of a product, reads from memory only at the index that it writes."""
        if group.kind not in (K_LOOP, K_DOT, K_CONVOLUTION):
            return set()
        readers = {}
        for n in group.tags:
            for e in range(self.g.first[n], self.g.first[n + 1]):
                if self.g.operand[e] not in group.tags:
                    readers.setdefault(self.g.operand[e], []).append(e)
        return {p for p, edges in readers.items() if self.tag_of(group, p, edges) == FULL}


def fusion_groups(Graph graph, costs=None, bint fuse=True, bint shared=False, bint in_loop=False):
    """(groups, unfused edges): the FusionGroups in a valid order of execution, and the UnfusedEdges between them.

    `costs` are the Costs of the device, by default the usual ones. Without `fuse` every node is a group of its own.
    `shared` says that small kernels will share launches (scheduling/launch_merging.py): equal kernels, such as the
    updates of an optimiser, are then left separate, since they are emitted and compiled once. `in_loop`: the graph is
    the body of a loop.
    """
    cdef InstructionFusion s = InstructionFusion(graph, costs or Costs(), fuse, shared, in_loop)
    cdef Group group
    alive = [group for group in s.groups if group.alive]
    makers = {}  # node -> the group that writes it
    for group in alive:
        for p in group.outputs:
            makers[p] = group.number
    needs = {}
    for group in alive:
        sources = set()
        for p in group.tags:
            for e in range(graph.first[p], graph.first[p + 1]):
                o = graph.operand[e]
                if o not in group.tags and o in makers and makers[o] != group.number:
                    sources.add(makers[o])
        needs[group.number] = sources
    readers = {group.number: s.readers_of_updated(group) for group in alive}
    order = topological_order(needs, {group.number: min(group.outputs) for group in alive}, readers)
    place = {number: at for at, number in enumerate(order)}
    result = []
    for number in order:
        group = s.groups[number]
        result.append(
            FusionGroup(
                KIND_NAMES[group.kind],
                tuple(sorted(group.heroes)),
                tuple(sorted(group.tags)),
                tuple(sorted(group.outputs)),
                frozenset(s.pointwise_inputs(group)),
            )
        )
    reasons = [
        UnfusedEdge(p, place[number], REASONS[why], unfused_ns, fused_ns)
        for p, number, why, unfused_ns, fused_ns in s.reasons
        if number in place and p not in (<Group>s.groups[number]).tags
    ]
    return result, reasons


cdef bit(object number):
    """The set with one number in it, as bits."""
    return 1 << number
