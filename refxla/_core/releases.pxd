"""References to Python objects that threads without the GIL give back."""

cdef struct Release:
    void* owner  # a Python object, of which the reference is given back
    Release* next

cdef void release_later(Release* release) noexcept nogil  # from any thread; malloc'ed
cdef void release_all() noexcept  # with the GIL: what was given back so far
