"""refxla.Array: an array that stays on a device."""

from refxla._core.executor cimport Executor
from refxla._core.storage cimport Storage


cdef class Array:
    cdef Storage* storage  # NULL once it is deleted or donated
    cdef readonly tuple shape
    cdef readonly object dtype  # NumPy's
    cdef readonly object device  # a runtime.devices.Device
    cdef object __weakref__

    cdef int check(self) except -1  # raises InputError if it is deleted
    # with a reference, when it holds the values; raises the error that prevented that
    cdef Storage* values(self) except NULL


# The results of a call with at least one Array among its arguments, as Arrays. The other arguments are any that an
# Executor takes.
cdef list call_with_arrays(Executor executor, object arguments)
