# The merge of sibling groups: see sibling_fusion.pyx.

from refxla._core.fusion_costs cimport FusionCosts
from refxla._core.graph cimport Graph
from refxla._core.groups cimport Group, Groups

cdef class SiblingFusion:
    cdef Graph g
    cdef Groups groups
    cdef FusionCosts costs

    cdef dict merge_users(self, int p, dict fits, dict users)
    cdef merge_readers(self)
    cdef bint _mergeable(self, Group a, Group b)
