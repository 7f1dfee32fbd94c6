"""References to Python objects that threads without the GIL return: they are put on a list, which threads with the GIL
empty at the next opportunity."""

from cpython.ref cimport Py_DECREF
from libc.stdlib cimport free

from refxla._core.storage cimport lock, unlock

cdef Release* _released = NULL
cdef unsigned char _lock = 0


cdef void release_later(Release* release) noexcept nogil:
    global _released
    lock(&_lock)
    release.next = _released
    _released = release
    unlock(&_lock)


cdef void release_all() noexcept:
    global _released
    cdef Release* release
    cdef Release* following
    if _released == NULL:
        return
    lock(&_lock)
    release, _released = _released, NULL
    unlock(&_lock)
    while release != NULL:
        following = release.next
        Py_DECREF(<object> release.owner)
        free(release)
        release = following
