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

This file decides. What it decides by is in files of their own: the facts of a node (node_facts.pyx), the groups so far
and at which indices they evaluate their members (groups.pyx), which of them depend on each other (reachability.pyx),
what fusing costs (fusion_costs.pyx), and which siblings may be merged (sibling_fusion.pyx).
"""

from refxla._core.fusion_costs cimport FusionCosts
from refxla._core.graph cimport (
    Graph, K_CONTROL, K_CONVOLUTION, K_DOT, K_FFT, K_LIBRARY, K_LOOP, K_REDUCTION, K_SCATTER, K_SELECT, K_SORT, K_UPDATE,
    K_WINDOW,
    N_CONTROL, N_HERO, N_INLINE, N_SOURCE,
    R_MEMORY, R_PACKED, R_WINDOW,
)
from refxla._core.groups cimport FULL, Group, Groups, LARGEST, MOST_MAPS, OTHER
from refxla._core.node_facts cimport (
    COSTLY, is_concatenate, is_function_of_few, is_of_pieces, is_piecewise, is_slight, PIECE, rows_fit,
)
from refxla._core.sibling_fusion cimport SiblingFusion

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

cdef long long MOST_CASES = 7  # from which the loop of a reduction does not compute the elements of a concatenate
cdef long long MOST_PIECES = 128  # from which a concatenate reads others from memory (concatenate_decomposer.py)
cdef int most_functions = MOST_IN_PIECES  # of a kernel, that are computed of many elements at once


cdef class InstructionFusion:
    """One run over one graph; `fusion_groups` below is the entry point."""

    def __init__(self, Graph graph, costs, bint fuse, bint shared, bint in_loop):
        self.fuse = fuse
        self.g = graph
        self.groups = Groups(graph)
        self.costs = FusionCosts(graph, costs, shared, in_loop)
        self.siblings = SiblingFusion(graph, self.groups, self.costs)
        self.reasons = []
        cdef int p
        for p in range(graph.count - 1, -1, -1):
            self._visit(p)
        if fuse:
            self.siblings.merge_readers()

    cdef _refuse(self, int p, number, int reason, double unfused_ns=0, double fused_ns=0):
        """Records why p does not join a group that uses it."""
        self.reasons.append((p, number, reason, unfused_ns, fused_ns))

    cdef _visit(self, int p):
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
                for number in self.groups.member_of[u]:
                    self._refuse(p, number, U_RUNS_OTHERS if g.group[u] == N_CONTROL else U_NEEDS_MEMORY)
            for number in self.groups.member_of[u]:
                users.setdefault(number, []).append(g.user_edge[e])
        if kind == N_INLINE:
            if in_memory and g.instructions[p][0].opcode != "constant":
                self.groups.start(p, K_LOOP)
            return
        if not users and not in_memory:
            return  # dead
        if kind == N_CONTROL:
            self.groups.start(p, K_CONTROL)
            for number in users:
                self._refuse(p, number, U_RUNS_OTHERS)
        elif not self.fuse:
            self.groups.start(p, g.kind[p])
            for number in users:
                self._refuse(p, number, U_NOT_ASKED)
        elif kind == N_HERO:
            self._place_hero(p, users, in_memory)
        else:
            self._place_elemental(p, users, in_memory)

    # -- values that are computed element by element --------------------------------------------------------------

    cdef _place_elemental(self, int p, dict users, bint in_memory):
        cdef dict fits = self._groups_that_fit(p, users, in_memory)
        cdef double unfused_ns, fused_ns
        cdef bint repeated
        if len(users) > 1 and not in_memory and self.costs.is_of_many_cases(p):
            for number in fits:
                self._refuse(p, number, U_CASES)
            in_memory = True
        if not in_memory and len(fits) == len(users):
            repeated = self.costs.is_repeated(p, fits)
            if len(fits) > 1 and not (self.costs.shared and is_slight(self.g, p)):
                fits = self.siblings.merge_users(p, fits, users)
            unfused_ns, fused_ns = self.costs.times(p, fits, users, repeated)
            if fused_ns <= unfused_ns:
                for number, (tag, count) in fits.items():
                    self.groups.add(self.groups.all[number], p, tag, count)
                return
            for number in fits:
                self._refuse(p, number, U_SHARED if len(fits) > 1 else U_AMPLIFIED, unfused_ns, fused_ns)
        for number, (tag, count) in fits.items():
            group = self.groups.all[number]
            if self._can_output(group, p, tag) and not self.groups.closes_cycle(number, users):
                self.groups.add(group, p, tag, count)
                self.groups.write(group, p)
                return
        self.groups.start(p, K_LOOP)

    cdef dict _groups_that_fit(self, int p, dict users, bint in_memory):
        """The groups that can evaluate the elemental node p: number -> (its tag, how often it would be evaluated)."""
        cdef Group group
        cdef int tag, why
        cdef dict fits = {}
        for number, edges in users.items():
            group = self.groups.all[number]
            why = self._obstacle(group, p, edges)
            if why < 0 and self._has_too_many_functions(group, p, in_memory or len(users) > 1):
                why = U_FUNCTIONS
            if why >= 0:
                self._refuse(p, number, why)
                continue
            tag = self.groups.tag_of(group, p, edges)
            fits[number] = (tag, self.costs.evaluations_of(group, p, edges, tag))
        return fits

    cdef int _obstacle(self, Group group, int p, list edges):
        """Why the elemental node p cannot be evaluated inside a group; -1 if it can."""
        cdef Graph g = self.g
        cdef int e, u
        if len(group.tags) >= LARGEST:
            return U_TOO_LARGE
        for e in edges:
            u = g.reader[e]
            if g.relation[e] == R_MEMORY or not g.takes[u]:
                return U_NEEDS_MEMORY
            if g.is_carried(p, u):
                return U_OTHER_ITERATION
            if g.cases[u] > MOST_PIECES and is_concatenate(g, p) and is_concatenate(g, u):
                return U_CASES
            # (Functions are not vectorized there.)
            if g.relation[e] == R_PACKED and not g.light[p] or u in group.packed and g.flops[p] >= COSTLY:
                return U_NOT_LIGHT
        if group.kind == K_REDUCTION and is_function_of_few(g, p, group.heroes[0]):
            return U_SHORT_ROWS
        if self._is_function_of_epilogue(group, p):
            return U_EPILOGUE
        if group.kind == K_REDUCTION and g.cases[p] >= MOST_CASES and is_of_pieces(g, p):
            return U_CASES
        if g.elements[p] > 1 and self.costs.copies_much(p, len(self.groups.maps_of(group, p, edges))):
            return U_CODE
        return -1

    cdef bint _is_function_of_epilogue(self, Group group, int p):
        """Whether p is a function that a loop computes in pieces, and a kernel with sums would compute for each of its
        results. (What a reduction computes of its operand is not such an epilogue.)"""
        if group.kind not in (K_REDUCTION, K_DOT, K_CONVOLUTION, K_WINDOW, K_SELECT) or not is_piecewise(self.g, p):
            return False
        return group.kind != K_REDUCTION or self.g.elements[p] <= self.g.elements[group.heroes[0]]

    cdef bint _has_too_many_functions(self, Group group, int p, bint elsewhere):
        """Whether p, with the functions that it is computed from, would exceed the number of functions for which a loop
        has arrays: those would be computed one by one. A value that is also used `elsewhere` ends that kernel's
        functions."""
        if group.kind not in (K_LOOP, K_REDUCTION) or group.functions < most_functions:
            return False
        if is_piecewise(self.g, p):
            return True
        return elsewhere and self.g.after_fast_path[p] and self.g.elements[p] >= PIECE

    cdef bint _can_output(self, Group group, int p, int tag):
        """Whether a group's kernel can write p: it evaluates p once for each of its elements.

        A value that stays in a cache is better computed by a loop of its own, which uses more cores than sums over few
        columns do.
        """
        cdef Graph g = self.g
        cdef int hero = group.heroes[0] if group.heroes else 0
        if group.kind == K_REDUCTION and tag == FULL and tag != group.signature:
            return not self.costs.stays_in_cache(p) or (g.is_row[hero] and rows_fit(g, hero))
        if group.kind == K_REDUCTION:
            return tag == group.signature
        return tag == FULL and group.kind not in (K_CONTROL, K_UPDATE, K_SCATTER, K_SORT, K_FFT, K_SELECT, K_LIBRARY)

    # -- heroes ---------------------------------------------------------------------------------------------------

    cdef _place_hero(self, int p, dict users, bint in_memory):
        cdef Graph g = self.g
        cdef Group group
        cdef int tag, why
        if g.feeds[p]:
            # First try another reduction: then one kernel reads what both reduce.
            reductions = [n for n in users if (<Group>self.groups.all[n]).kind == K_REDUCTION]
            for number in reductions + [n for n in users if n not in reductions]:
                group, edges = self.groups.all[number], users[number]
                tag = self.groups.tag_of(group, p, edges)
                why = self._hero_obstacle(group, p, tag, edges)
                if why < 0 and (len(users) > 1 or in_memory) and self.groups.closes_cycle(number, users):
                    why = U_CYCLE
                if why >= 0:
                    self._refuse(p, number, why)
                    continue
                self.groups.add_hero(group, p, tag)
                outside = [n for n in users if n != number and not self._takes_in(group, self.groups.all[n], p, users)]
                if in_memory or outside:
                    self.groups.write(group, p)
                    for other in outside:
                        self._refuse(p, other, U_HERO_SHARED)
                return
        else:
            for number in users:
                self._refuse(p, number, U_NEEDS_MEMORY)
        self.groups.start(p, g.kind[p])

    cdef int _hero_obstacle(self, Group group, int p, int tag, list edges):
        """Why hero p cannot run in the kernel of a group that uses it; -1 if it can."""
        cdef Graph g = self.g
        cdef int signature = g.signature[p]
        if len(group.tags) >= LARGEST:
            return U_TOO_LARGE
        if any(g.relation[e] in (R_MEMORY, R_PACKED, R_WINDOW) for e in edges):
            return U_SECOND_HERO
        if any(g.is_carried(p, g.reader[e]) for e in edges):
            return U_OTHER_ITERATION
        if group.kind == K_LOOP and self._computes_in_pieces(group):
            return U_FEW_AT_ONCE
        if g.kind[p] != K_REDUCTION:
            if group.kind != K_LOOP:
                return U_SECOND_HERO
            return -1 if tag == FULL and group.space == g.space[p] else U_INDEX
        if group.kind == K_LOOP and tag == FULL and group.space == g.space[p]:
            return U_FEW_AT_ONCE if self.costs.is_long_epilogue(group, p) else -1  # its users become the epilogue
        if tag != signature or tag <= 0:
            return U_INDEX
        if group.kind == K_REDUCTION:
            if group.signature != signature:
                return U_SECOND_HERO
            # Another reduction of the same rows. Between its users and it there are only values of the kept space,
            # unless a full-space value needs it first: then the rows are read again, which requires short rows.
            return -1 if not self._needs_rows(group, p) or rows_fit(g, group.heroes[0]) else U_ROWS
        if group.kind != K_LOOP:
            return U_SECOND_HERO
        return -1 if rows_fit(g, p) else U_ROWS

    cdef bint _computes_in_pieces(self, Group group):
        """Whether a loop computes functions in pieces, which no epilogue does."""
        cdef int n
        for n in group.tags:
            if self.g.in_pieces[n] and self.g.elements[n] >= PIECE:
                return True
        return False

    cdef bint _needs_rows(self, Group group, int p):
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

    cdef bint _takes_in(self, Group group, Group other, int p, users):
        """Makes a loop over the kept dimensions of reduction p part of p's kernel if possible: the loop reads p at the
        index that it writes, and no other group that uses p leads to it."""
        cdef int n, tag
        if group.kind != K_REDUCTION or other.kind != K_LOOP or other.space != self.g.space[p]:
            return False
        if self.groups.tag_of(other, p, users[other.number]) != FULL:
            return False
        if any(self.g.is_carried(p, n) for n in other.tags):
            return False
        if len(group.tags) + len(other.tags) > LARGEST or not self.groups.independent(group, other):
            return False
        if self.groups.closes_cycle(other.number, [n for n in users if n != group.number]):
            return False
        tags = {n: group.signature if tag == FULL else OTHER for n, tag in other.tags.items()}
        for n in tags:
            if n not in group.tags:
                continue
            if group.tags[n] != tags[n] and (n in group.outputs or n in other.outputs):
                return False
            if len(self.groups.known_maps(group, n)) + len(self.groups.known_maps(other, n)) > MOST_MAPS:
                return False  # an upper bound: the maps of the other group are not those that they would become
        other.tags = tags
        self.groups.merge(group, other)
        return True


def fusion_groups(Graph graph, costs=None, bint fuse=True, bint shared=False, bint in_loop=False):
    """(groups, unfused edges): the FusionGroups in a valid order of execution, and the UnfusedEdges between them.

    `costs` are the Costs of the device, by default the usual ones. Without `fuse` every node is a group of its own.
    `shared` says that small kernels will share launches (scheduling/launch_merging.py): equal kernels, such as the
    updates of an optimiser, are then left separate, since they are emitted and compiled once. `in_loop`: the graph is
    the body of a loop.
    """
    cdef InstructionFusion fusion = InstructionFusion(graph, costs or Costs(), fuse, shared, in_loop)
    cdef Groups groups = fusion.groups
    cdef Group group
    alive = [group for group in groups.all if group.alive]
    makers = {p: group.number for group in alive for p in group.outputs}  # node -> the group that writes it
    sources = {group.number: groups.sources(group, makers) for group in alive}
    readers = {group.number: groups.readers_of_updated(group) for group in alive}
    order = topological_order(sources, {group.number: min(group.outputs) for group in alive}, readers)
    place = {number: at for at, number in enumerate(order)}
    result = []
    for number in order:
        group = groups.all[number]
        result.append(
            FusionGroup(
                KIND_NAMES[group.kind],
                tuple(sorted(group.heroes)),
                tuple(sorted(group.tags)),
                tuple(sorted(group.outputs)),
                frozenset(groups.pointwise_inputs(group)),
            )
        )
    unfused = [
        UnfusedEdge(p, place[number], REASONS[why], unfused_ns, fused_ns)
        for p, number, why, unfused_ns, fused_ns in fusion.reasons
        if number in place and p not in (<Group>groups.all[number]).tags
    ]
    return result, unfused
