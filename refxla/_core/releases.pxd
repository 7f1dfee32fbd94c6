"""References to Python objects that threads without the GIL return."""

cdef struct Release:
    void* owner  # a Python object whose reference is returned
    Release* next

cdef void release_later(Release* release) noexcept nogil  # from any thread; allocated by malloc
cdef void release_all() noexcept  # with the GIL: releases those returned so far
