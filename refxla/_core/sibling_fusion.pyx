"""Sibling fusion: groups that run over the same space and use the same value become one (XLA: MultiOutputFusion).

Such a kernel computes the value, or reads it from memory, once for all of its outputs.
"""

from refxla._core.fusion_costs cimport FusionCosts
from refxla._core.graph cimport Graph, K_LOOP, K_REDUCTION, N_INLINE
from refxla._core.groups cimport FULL, Group, Groups, LARGEST
from refxla._core.node_facts cimport is_piecewise
from refxla.ir.op_table import MOST_IN_PIECES

cdef int most_functions = MOST_IN_PIECES


cdef class SiblingFusion:
    """Merges groups of one graph."""

    def __init__(self, Graph graph, Groups groups, FusionCosts costs):
        self.g = graph
        self.groups = groups
        self.costs = costs

    cdef dict merge_users(self, int p, dict fits, dict users):
        """Merges the groups that use p at the index they run over, so that it is computed once.

        `fits` has the tag and the evaluations of p in each group, `users` the edges, by the groups' numbers. Returns
        `fits` of the groups that are left, and updates `users`.
        """
        cdef Group a
        hosts = [n for n, (tag, _) in fits.items() if tag == FULL or tag > 0]
        if len(hosts) < 2:
            return fits
        a = self.groups.all[hosts[0]]
        for number in hosts[1:]:
            if self._mergeable(a, self.groups.all[number]):
                self.groups.merge(a, self.groups.all[number])
                users[a.number] = list(dict.fromkeys(users[a.number] + users.pop(number)))
                del fits[number]
        tag = self.groups.tag_of(a, p, users[a.number])
        fits[a.number] = (tag, self.costs.evaluations_of(a, p, users[a.number], tag))
        return fits

    cdef merge_readers(self):
        """Merges the groups that read the same value from memory at the index they run over."""
        cdef int p
        for p in range(self.g.count):
            if self.g.group[p] == N_INLINE or self.g.elements[p] <= 1:
                continue
            readers = self.groups.readers(p)
            same = [n for n, edges in readers.items() if self.groups.tag_of(self.groups.all[n], p, edges) == FULL]
            while len(same) > 1:
                a = self.groups.all[same.pop(0)]
                for number in list(same):
                    if self._mergeable(a, self.groups.all[number]):
                        self.groups.merge(a, self.groups.all[number])
                        same.remove(number)

    cdef bint _mergeable(self, Group a, Group b):
        if not (a.alive and b.alive and same_space(a, b)):
            return False
        shared = [n for n in a.tags if n in b.tags]
        for n in shared:
            if a.tags[n] != b.tags[n] and (n in a.outputs or n in b.outputs):
                return False
            if self.costs.copies_much(n, len(self.groups.known_maps(a, n) | self.groups.known_maps(b, n))):
                return False
        if a.functions and b.functions:
            functions = a.functions + b.functions - sum([is_piecewise(self.g, n) for n in shared])
            if functions > max(most_functions, a.functions, b.functions):
                return False
        return self.groups.independent(a, b)


cdef bint same_space(Group a, Group b):
    """Whether two groups run over the same space in the same way, and are not too large for one kernel."""
    if a.kind != b.kind or len(a.tags) + len(b.tags) > LARGEST:
        return False
    if a.kind == K_LOOP:
        return a.space == b.space
    return a.kind == K_REDUCTION and a.signature == b.signature
