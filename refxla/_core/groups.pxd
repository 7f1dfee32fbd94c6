# The groups of instruction fusion: see groups.pyx.

from refxla._core.graph cimport Graph
from refxla._core.index_maps cimport IndexMaps
from refxla._core.reachability cimport Reachability

cdef enum:  # the tag of a member: at which index it is evaluated
    FULL = 0    # the index that the group runs over
    OTHER = -1  # any other; a positive tag is the signature of the kept dimensions of a reduction

cdef enum:  # the size of a kernel
    LARGEST = 800   # members of a group
    MOST_MAPS = 15  # at which a member is evaluated: its code is written once for each

cdef class Group:
    cdef public int number, kind
    cdef public int space        # the number of its dimensions, as Graph.space; minus the signature for a reduction
    cdef public int signature    # of a reduction
    cdef public dict tags        # member -> tag: at which index it is evaluated
    cdef public dict evaluations  # member -> how often
    cdef public dict maps        # member -> set of the index maps at which it is evaluated; None: unknown
    cdef public set outputs      # members that are written to memory
    cdef public list heroes
    cdef public set packed       # members that a product computes while it packs its operands
    cdef public int functions    # members that a loop computes with a fast path, in pieces
    cdef public bint alive

cdef class Groups:
    cdef Graph g
    cdef IndexMaps maps
    cdef Reachability users      # a group leads to those that need it, directly or not
    cdef public list all         # by number; merged ones are not alive
    cdef public list member_of   # node -> numbers of the groups of which it is a member

    # changes
    cdef Group start(self, int p, int kind)
    cdef add(self, Group group, int p, int tag, double evaluations)
    cdef add_hero(self, Group group, int p, int tag)
    cdef write(self, Group group, int p)
    cdef merge(self, Group into, Group other)
    # where members are evaluated
    cdef int tag_of(self, Group group, int p, list edges)
    cdef list edges_from(self, Group group, int p)
    cdef set maps_of(self, Group group, int p, list edges)
    cdef set known_maps(self, Group group, int p)
    # how groups depend on each other
    cdef dict readers(self, int p)
    cdef bint closes_cycle(self, int host, users)
    cdef bint independent(self, Group a, Group b)
    cdef set sources(self, Group group, dict makers)
    cdef set readers_of_updated(self, Group group)
    cdef set pointwise_inputs(self, Group group)
