"""The client of PJRT's interface: devices, each with its memories."""

from refxla._core.pjrt_objects cimport Device

cdef class GarbageCallback:
    cdef object collect

cdef int device_count
cdef Device* device_of(int number) noexcept nogil  # NULL: there is none
cdef void add_functions(void** functions) noexcept nogil
