# The contract of instruction fusion: groups of nodes of a graph, each of which becomes one kernel.

from refxla._core.graph cimport (
    Graph, K_CONTROL, K_CONVOLUTION, K_DOT, K_FFT, K_LIBRARY, K_LOOP, K_REDUCTION, K_SCATTER, K_SELECT, K_SORT, K_UPDATE,
    K_WINDOW,
    N_CONTROL, N_ELEMENTWISE, N_HERO, N_INLINE, N_MOVEMENT, N_SOURCE,
    R_BROADCAST, R_FULL, R_MEMORY, R_OTHER, R_PACKED, R_SAME, R_UPDATE, R_WINDOW,
)
from refxla._core.index_maps cimport IndexMaps

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

cdef class InstructionFusion:
    cdef Graph g
    cdef IndexMaps maps
    cdef double byte_ns, operation_ns, launch_ns, phase_ns  # see Costs of device/description.py
    cdef long long cache_bytes  # a larger value does not stay in a core's caches
    cdef bint fuse
    cdef bint shared
    cdef bint in_sequence  # the body of a loop with short iterations
    cdef public list groups
    cdef list reach              # group number -> bits: the groups that depend on it, directly or not
    cdef public list member_of   # node -> numbers of the groups of which it is a member
    cdef public list reasons     # (producer, group, reason, ns apart, ns fused)

    cdef double all_operations(self)
    cdef Group new_group(self, int p, int kind)
    cdef void add(self, Group group, int p, int tag, double evaluations)
    cdef void write(self, Group group, int p)
    cdef void refuse(self, int p, Group group, int reason, double unfused_ns=*, double fused_ns=*)
    cdef visit(self, int p)
    cdef int tag_of(self, Group group, int p, list edges)
    cdef list edges_from(self, Group group, int p)
    cdef set maps_of(self, Group group, int p, list edges)
    cdef set known_maps(self, Group group, int p)
    cdef int user_of(self, int e)
    cdef double evaluations_of(self, Group group, int p, list edges, int tag)
    cdef int obstacle(self, Group group, int p, list edges)
    cdef bint is_function_of_few(self, int p, int hero)
    cdef bint follows_reduction(self, int p)
    cdef tuple heroes_before(self, int p, bint by_element)
    cdef bint is_concatenate(self, int n)
    cdef bint is_of_pieces(self, int p)
    cdef bint is_of_many_cases(self, int p)
    cdef bint is_tested(self, int p, list edges)
    cdef bint is_of_rows(self, int p)
    cdef bint is_function_of_epilogue(self, Group group, int p)
    cdef bint is_piecewise(self, int p)
    cdef bint has_too_many_functions(self, Group group, int p, bint elsewhere)
    cdef bint copies_much(self, int p, long long maps)
    cdef bint reaches(self, int start, int goal)
    cdef link(self, Group group, int p)
    cdef spread(self, groups, others)
    cdef bint closes_cycle(self, int host, users)
    cdef place_elemental(self, int p, dict users, bint in_memory)
    cdef double chain_of(self, int p)
    cdef double launch_of(self, int p, double count, bint tested)
    cdef bint is_slight(self, int p, double read_bytes)
    cdef bint can_output(self, Group group, int p, int tag)
    cdef place_hero(self, int p, dict users, bint in_memory)
    cdef int hero_obstacle(self, Group group, int p, int tag, list edges)
    cdef bint is_long_epilogue(self, Group group, int p)
    cdef bint computes_in_pieces(self, Group group)
    cdef bint needs_rows(self, Group group, int p)
    cdef bint rows_fit(self, int p)
    cdef bint takes_in(self, Group group, Group other, int p, users)
    cdef host(self, Group group, int p, int tag)
    cdef bint same_space(self, Group a, Group b)
    cdef bint independent(self, Group a, Group b)
    cdef merge(self, Group into, Group other)
    cdef bint mergeable(self, Group a, Group b)
    cdef dict merge_users(self, int p, dict fits, dict users)
    cdef merge_siblings(self)
    cdef set readers_of_updated(self, Group group)
    cdef set pointwise_inputs(self, Group group)
