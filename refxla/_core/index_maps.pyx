"""The indices at which the members of a kernel are read, which decide how many times their code is written.

A fused producer is written once for each index map at which its users read it. Equal maps have equal numbers: a map is
that at which its user is evaluated, composed with the user's own step. A value that is read at two maps by a user that
is itself read at two has four, so that the code of a chain of such users doubles with each of them (XLA:
FusionNodeIndexingEvaluation).
"""

from refxla._core.graph cimport R_SAME

from refxla.analysis.index_expression import variable
from refxla.analysis.index_maps import GATHERS, SOURCES, THROUGH

cdef enum:  # steps that no operation has of its own
    SAME = 0    # the index is passed on
    SCALAR = 1  # one element, which has one index: it is written once in each scope

# Operations whose operand is evaluated in the scope of the result. Any other reads its operands under a condition, or
# in a loop.
cdef frozenset IN_SCOPE = frozenset(SOURCES) | GATHERS


cdef class IndexMaps:
    """The index maps of one graph. WRITTEN is the map of a kernel's outputs, REDUCED that of a reduction's operand (see
    the .pxd)."""

    def __init__(self, Graph graph):
        self.g = graph
        self.numbers = {}
        self.steps = {}
        self.step = [-1] * len(graph.relation)
        self.scope = [0, 1]

    cdef int through(self, int map, int u, int e):
        """The map at which node u, evaluated at a map, reads the operand of its edge e."""
        cdef int step = self.step[e], number
        if step < 0:
            step = self.step[e] = self.step_of(u, e)
        if step == SAME:
            return map
        key = (self.scope[map], SCALAR) if step == SCALAR else (map, step)
        entry = self.numbers.get(key)
        if entry is not None:
            return entry
        number = self.numbers[key] = len(self.scope)
        within = step == SCALAR or self.g.instructions[u][0].opcode in IN_SCOPE
        self.scope.append(self.scope[map] if within else number)
        return number

    cdef int step_of(self, int u, int e):
        i = self.g.instructions[u][0]
        if self.g.elements[self.g.operand[e]] == 1:
            return SCALAR
        if self.g.relation[e] == R_SAME or i.opcode in THROUGH:
            return SAME
        if i.opcode in SOURCES and self.g.elements[u]:
            dimensions = i.shape.dimensions
            index = tuple([variable(f"x{d}", 0, n - 1) for d, n in enumerate(dimensions)])
            key = (dimensions, SOURCES[i.opcode](i, index))
        else:
            key = (u, e)
        return self.steps.setdefault(key, len(self.steps) + 2)
