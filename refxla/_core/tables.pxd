# Memory for C arrays, whose owner frees it.

from libc.stdlib cimport calloc


cdef inline void* table(size_t count, size_t size) except NULL:
    """Zeroed memory for `count` elements."""
    cdef void* memory = calloc(max(count, 1), size)
    if memory == NULL:
        raise MemoryError
    return memory
