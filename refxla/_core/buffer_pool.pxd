"""Memory that is handed out as arrays and comes back when they die."""


cdef class Block:
    """One piece of memory. It returns to the pool when the last reference to it is gone."""

    cdef void* data  # the first byte; aligned to 64 bytes at least, to a page where it is large
    cdef readonly size_t size  # bytes asked for
    cdef int order  # the number of its size class, or -1 for a block that is not kept
    cdef int exports  # buffer protocol: how many views are open (they hold references, so it is for show)
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]


# A block of at least `size` bytes with undefined contents. Raises MemoryError.
cdef Block take(size_t size)
