# The contract of instruction fusion: groups of nodes of a graph, each of which becomes one kernel.

from refxla._core.fusion_costs cimport FusionCosts
from refxla._core.graph cimport Graph
from refxla._core.groups cimport Group, Groups
from refxla._core.sibling_fusion cimport SiblingFusion

cpdef enum Reason:  # why a producer and a user are not in one kernel; REASONS has the texts
    U_NEEDS_MEMORY = 0
    U_SHARED = 1
    U_AMPLIFIED = 2
    U_SECOND_HERO = 3
    U_INDEX = 4
    U_CYCLE = 5
    U_TOO_LARGE = 6
    U_RUNS_OTHERS = 7
    U_NOT_LIGHT = 8
    U_ROWS = 9
    U_NOT_ASKED = 10
    U_CODE = 11
    U_HERO_SHARED = 12
    U_OTHER_ITERATION = 13
    U_SHORT_ROWS = 14
    U_FEW_AT_ONCE = 15
    U_CASES = 16
    U_FUNCTIONS = 17
    U_EPILOGUE = 18

cdef class InstructionFusion:
    cdef Graph g
    cdef bint fuse
    cdef public Groups groups
    cdef FusionCosts costs
    cdef SiblingFusion siblings
    cdef public list reasons     # (producer, group number, reason, ns unfused, ns fused)

    cdef _refuse(self, int p, number, int reason, double unfused_ns=*, double fused_ns=*)
    cdef _visit(self, int p)
    # values that are computed element by element
    cdef _place_elemental(self, int p, dict users, bint in_memory)
    cdef dict _groups_that_fit(self, int p, dict users, bint in_memory)
    cdef int _obstacle(self, Group group, int p, list edges)
    cdef bint _is_function_of_epilogue(self, Group group, int p)
    cdef bint _has_too_many_functions(self, Group group, int p, bint elsewhere)
    cdef bint _can_output(self, Group group, int p, int tag)
    # heroes
    cdef _place_hero(self, int p, dict users, bint in_memory)
    cdef int _hero_obstacle(self, Group group, int p, int tag, list edges)
    cdef bint _computes_in_pieces(self, Group group)
    cdef bint _needs_rows(self, Group group, int p)
    cdef bint _takes_in(self, Group group, Group other, int p, users)
