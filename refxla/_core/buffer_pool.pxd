"""A memory pool for arrays, to which memory returns when they die."""


cdef class PoolBlock:
    """A block of memory. It returns to the pool when the last reference to it is gone."""

    cdef void* data  # the first byte; aligned to at least 64 bytes, and to a page if the block is large
    cdef readonly size_t size  # bytes requested
    cdef int order  # the number of its size class, or -1 for a block that does not return to the pool
    cdef int exports  # buffer protocol: the number of open views (informative, since views hold references)
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]


# The size classes, four to an octave: the bytes in a block of each, and the smallest with room for `size` bytes, or
# CLASSES or more if none has.
cdef enum:
    CLASSES = 4 * 44  # 64 bytes to 2**50

cdef size_t capacity(int order) noexcept nogil
cdef int order_of(size_t size) noexcept nogil

# A block of at least `size` bytes with undefined contents. Raises MemoryError, which says for what it would have been.
cdef PoolBlock take(size_t size, str purpose)


# Memory for at least `size` bytes, with undefined contents; NULL if there is none. `order` is set to the value that
# give_back needs. Both may be called without the GIL.
cdef void* obtain(size_t size, int* order) noexcept nogil
cdef void give_back(void* data, int order) noexcept nogil

# Bytes in use, and their maximum so far.
cdef size_t live_bytes() noexcept nogil
cdef size_t peak_bytes() noexcept nogil
