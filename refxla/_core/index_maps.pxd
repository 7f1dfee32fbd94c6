# The contract of index maps: numbers that are equal where two members of a kernel are read at the same indices.

from refxla._core.graph cimport Graph

cdef class IndexMaps:
    cdef Graph g
    cdef dict numbers  # (map, step) -> map
    cdef dict steps    # what an operation makes of an index -> its number
    cdef list step     # by edge: the number of its step, -1 before it is asked for
    cdef list scope    # by map: the map with which the C scope begins in which it is evaluated

    cdef int through(self, int map, int u, int e)
    cdef int step_of(self, int u, int e)
