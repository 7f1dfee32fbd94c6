# The contract of index maps: two members of a kernel have equal numbers if they are read at the same indices.

from refxla._core.graph cimport Graph

cdef class IndexMaps:
    cdef Graph g
    cdef dict numbers  # (map, step) -> map
    cdef dict steps    # how an operation transforms an index -> its number
    cdef list step     # by edge: the number of its step, -1 before it is requested
    cdef list scope    # by map: the map at the start of the C scope in which it is evaluated

    cdef int through(self, int map, int u, int e)
    cdef int step_of(self, int u, int e)
