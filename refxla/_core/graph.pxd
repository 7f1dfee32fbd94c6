# The contract of a graph: one entry per node in the first block, one per edge in the second.

cpdef enum NodeClass:  # group[n]
    N_SOURCE = 0       # in memory already: a parameter, a constant array
    N_INLINE = 1       # recomputed wherever it is used: a scalar or splat constant, an iota
    N_ELEMENTWISE = 2
    N_MOVEMENT = 3
    N_HERO = 4         # has an emitter of its own: kind[n]
    N_CONTROL = 5      # runs other computations

cpdef enum Relation:  # relation[e]: how the user, evaluated at some index, reads the operand
    R_OTHER = 0        # at an index that is a function of that index
    R_SAME = 1         # at the same index
    R_BROADCAST = 2    # at the index without the dimensions that the broadcast adds, given by signature[user]
    R_FULL = 3         # a reduce reads every element of its operand once
    R_WINDOW = 4       # a reduce-window reads window[user] elements for each of its own
    R_PACKED = 5       # a dot or convolution reads it while packing
    R_UPDATE = 6       # the update of a dynamic-update-slice: every element once
    R_MEMORY = 7       # it must be in memory

cpdef enum Kind:  # kind[n]: the emitter that a kernel with the node needs; KIND_NAMES has their names
    K_LOOP = 0
    K_REDUCTION = 1
    K_DOT = 2
    K_CONVOLUTION = 3
    K_WINDOW = 4
    K_SELECT = 5
    K_SCATTER = 6
    K_SORT = 7
    K_FFT = 8
    K_LIBRARY = 9
    K_UPDATE = 10
    K_CONTROL = 11

cdef class Graph:
    cdef public list instructions   # per node: its instructions, the operation first
    cdef public dict node_of        # instruction -> node
    cdef public dict spaces         # dimensions -> number
    cdef public dict signatures     # (dimensions, kept dimensions) -> number
    cdef public list kept_dimensions  # by signature number
    cdef public list leading        # by signature number: whether the kept dimensions are the outermost
    cdef public list run            # by signature number: the elements of the dimensions inside the kept ones
    cdef public set roots           # nodes whose values the computation returns
    cdef public int count
    cdef object caches              # Caches of device/description.py
    cdef bint pieces                # whether functions are computed in pieces of loops
    # per node
    cdef public int[::1] second     # 1 in the second of two iterations: no kernel has nodes of both (see __init__)
    cdef public int[::1] group, kind
    cdef public int[::1] space      # number of the result's dimensions
    cdef public int[::1] signature  # of a reduce or broadcast: number of (full dimensions, kept dimensions)
    cdef public int[::1] takes      # its emitter evaluates producers element by element
    cdef public int[::1] feeds      # a hero whose result can feed elementwise users in its kernel
    cdef public int[::1] light      # costs nothing but a change of index or type
    cdef public int[::1] in_pieces  # a function that a loop computes in pieces (codegen/loops/fast_path_math.py)
    cdef public int[::1] has_fast_path    # the same, or such a function of complex numbers
    cdef public int[::1] after_fast_path  # it is computed from one, element by element
    cdef public int[::1] is_row     # a reduce over the innermost dimensions
    cdef public int[::1] is_column  # a column reduce whose kernel may read the columns again: 1 or 2 (columns_fit)
    cdef public long long[::1] elements, bytes
    cdef public long long[::1] read        # bytes that reading it takes; for a broadcast, those of its operand
    # in how many cases pads and concatenates compute an element of it, with all of them fused
    cdef public long long[::1] cases
    # whether a pad or concatenate among these compares the innermost index, up to the last read at an index from data
    cdef public int[::1] tests_columns
    cdef public long long[::1] statements  # of its code with all its producers fused, or MOST_STATEMENTS
    cdef public long long[::1] window      # elements combined for one element of the result
    cdef public long long[::1] row_length
    cdef public long long[::1] columns     # of a reduce: adjacent elements that go into different results
    cdef public double[::1] flops   # per element
    # edges: those of node n, which reads an operand by each, are first[n] .. first[n + 1]; users likewise by first_user
    cdef public int[::1] first, reader, operand, relation
    cdef public int[::1] first_user, user, user_edge

    cdef _fill(self, list edges, set second)
    cdef long long _statements(self, int k, int end)
    cdef bint is_carried(self, int p, int u)
    cdef long long _cases(self, int k, i, int end)
    cdef bint _tests_columns(self, int k, i, int end)
    cdef bint reads_at_data(self, int k)
    cdef bint _after_fast_path(self, int k, int end)
    cdef int _moved_from(self, int n)
    cdef _node(self, int k, instruction)
    cdef int _intern(self, dict table, key)
    cdef int _relation(self, int k, instruction, int position, leaf)
