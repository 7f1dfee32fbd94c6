"""Memory that is handed out as arrays and comes back when they die."""


cdef class PoolBlock:
    """One piece of memory. It returns to the pool when the last reference to it is gone."""

    cdef void* data  # the first byte; aligned to 64 bytes at least, to a page where it is large
    cdef readonly size_t size  # bytes asked for
    cdef int order  # the number of its size class, or -1 for a block that is not kept
    cdef int exports  # buffer protocol: how many views are open (they hold references, so it is for show)
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]


# The classes of sizes, four to an octave: how many bytes each has room for, and the smallest that has room for `size`
# bytes, or CLASSES or more when none has.
cdef enum:
    CLASSES = 4 * 44  # 64 bytes to 2**50

cdef size_t capacity(int order) noexcept nogil
cdef int order_of(size_t size) noexcept nogil

# A block of at least `size` bytes with undefined contents. Raises MemoryError.
cdef PoolBlock take(size_t size)


# Memory for at least `size` bytes, with undefined contents; NULL if there is none. `order` is set to what give_back
# takes with it. Both may be called without the GIL.
cdef void* obtain(size_t size, int* order) noexcept nogil
cdef void give_back(void* data, int order) noexcept nogil

# Bytes in memory that is out, and the most that ever were.
cdef size_t live_bytes() noexcept nogil
cdef size_t peak_bytes() noexcept nogil
