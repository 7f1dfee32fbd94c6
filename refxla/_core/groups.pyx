"""The groups of instruction fusion: sets of nodes, each of which becomes one kernel.

`Groups` has all of one graph, and what follows from their members: at which indices a member is evaluated, and which
group needs which others. It decides nothing; fusion.pyx and sibling_fusion.pyx do.
"""

from refxla._core.graph cimport (
    Graph, K_CONVOLUTION, K_DOT, K_LOOP, K_REDUCTION, K_SCATTER, K_UPDATE, R_BROADCAST, R_FULL, R_PACKED, R_SAME, R_UPDATE,
)
from refxla._core.index_maps cimport IndexMaps
from refxla._core.node_facts cimport is_piecewise
from refxla._core.reachability cimport Reachability

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


cdef class Groups:
    """The groups of one graph; at first there are none."""

    def __init__(self, Graph graph):
        self.g = graph
        self.maps = IndexMaps(graph)
        self.users = Reachability()
        self.all = []
        self.member_of = [[] for _ in range(graph.count)]

    # -- changes --------------------------------------------------------------------------------------------------

    cdef Group start(self, int p, int kind):
        """A new group that writes p, its hero unless it is a loop."""
        cdef Graph g = self.g
        cdef Group group = Group(self.users.add_node(self.readers(p)), kind, g.space[p])
        self.all.append(group)
        if kind:
            group.heroes.append(p)
            group.signature = g.signature[p]
            if kind == K_UPDATE:
                group.space = 0
            elif kind == K_REDUCTION:
                group.space = -group.signature
        self.add(group, p, FULL if kind != K_REDUCTION else group.signature, g.elements[p])
        group.outputs.add(p)
        return group

    cdef add(self, Group group, int p, int tag, double evaluations):
        """Makes p a member."""
        cdef Graph g = self.g
        cdef int e
        for e in range(g.first_user[p], g.first_user[p + 1]):
            if g.user[e] in group.tags and (g.relation[g.user_edge[e]] == R_PACKED or g.user[e] in group.packed):
                group.packed.add(p)
        group.tags[p] = tag
        group.evaluations[p] = evaluations
        group.functions += is_piecewise(g, p)
        if group.maps is not None:
            group.maps[p] = self.maps_of(group, p, self.edges_from(group, p))
        self.member_of[p].append(group.number)

    cdef add_hero(self, Group group, int p, int tag):
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

    cdef write(self, Group group, int p):
        """Makes member p an output."""
        group.outputs.add(p)
        group.maps = None
        self.users.connect(group.number, self.readers(p))

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
        self.users.merge(into.number, other.number)

    # -- where members are evaluated ------------------------------------------------------------------------------

    cdef int tag_of(self, Group group, int p, list edges):
        """The tag that p would get in a group through the edges from its users there."""
        cdef Graph g = self.g
        cdef int e, u, tag, result = -2
        for e in edges:
            u = g.reader[e]
            if u not in group.tags:
                continue
            tag = group.tags[u]
            if g.relation[e] == R_SAME:
                pass
            elif g.relation[e] == R_BROADCAST and tag == FULL:
                tag = g.signature[u]
            elif g.relation[e] == R_FULL and group.kind == K_REDUCTION and u in group.heroes:
                tag = FULL
            elif g.relation[e] == R_UPDATE and group.kind == K_UPDATE:
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
            u = g.reader[e]
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

    # -- how groups depend on each other --------------------------------------------------------------------------

    cdef dict readers(self, int p):
        """The groups that read p from memory: by number, the edges from p by which they do."""
        cdef Graph g = self.g
        cdef int e
        cdef dict result = {}
        for e in range(g.first_user[p], g.first_user[p + 1]):
            for number in self.member_of[g.user[e]]:
                if p not in (<Group>self.all[number]).tags:
                    result.setdefault(number, []).append(g.user_edge[e])
        return result

    cdef bint closes_cycle(self, int host, users):
        """Whether another group that uses a node leads back to the host, which would compute the node for all."""
        cdef int number
        for number in users:
            if number != host and self.users.leads(number, host):
                return True
        return False

    cdef bint independent(self, Group a, Group b):
        """Whether neither of two groups needs the other."""
        return not self.users.leads(a.number, b.number) and not self.users.leads(b.number, a.number)

    cdef set sources(self, Group group, dict makers):
        """The other groups whose outputs a group reads; `makers` has the group that writes a node."""
        cdef Graph g = self.g
        cdef int p, e, o
        cdef set result = set()
        for p in group.tags:
            for e in range(g.first[p], g.first[p + 1]):
                o = g.operand[e]
                if o not in group.tags and o in makers:
                    result.add(makers[o])
        result.discard(group.number)
        return result

    cdef set readers_of_updated(self, Group group):
        """The other groups that read the value that a dynamic-update-slice or scatter of this one updates in place."""
        cdef Graph g = self.g
        cdef int hero, e, u, p, count
        numbers = set()
        for hero in group.heroes:
            if g.kind[hero] == K_UPDATE:
                count = 1
            elif g.kind[hero] == K_SCATTER:
                count = (g.first[hero + 1] - g.first[hero]) // 2
            else:
                continue
            for e in range(g.first[hero], g.first[hero] + count):
                p = g.operand[e]
                for u in range(g.first_user[p], g.first_user[p + 1]):
                    numbers.update(self.member_of[g.user[u]])
        numbers.discard(group.number)
        return numbers

    cdef set pointwise_inputs(self, Group group):
        """The values that a loop, or the epilogue of a product, reads from memory only at the index that it writes."""
        cdef Graph g = self.g
        cdef int n, e, p
        if group.kind not in (K_LOOP, K_DOT, K_CONVOLUTION):
            return set()
        readers = {}
        for n in group.tags:
            for e in range(g.first[n], g.first[n + 1]):
                if g.operand[e] not in group.tags:
                    readers.setdefault(g.operand[e], []).append(e)
        return {p for p, edges in readers.items() if self.tag_of(group, p, edges) == FULL}
