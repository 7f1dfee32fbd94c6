# The contract of reachability: see reachability.pyx.

cdef class Reachability:
    cdef list sets  # by node: the nodes that it leads to, directly or not, as bits

    cpdef int add_node(self, goals) except -1
    cpdef bint leads(self, int start, int goal)
    cpdef object connect(self, int start, goals)
    cpdef object merge(self, int into, int other)
    cdef _reached(self, goals)
    cdef _spread(self, starts, reached)
