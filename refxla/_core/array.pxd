"""refxla.Array: an array that stays on a device."""

from refxla._core.launch cimport Executor
from refxla._core.storage cimport Storage


cdef class Array:
    cdef Storage* storage  # NULL once it is deleted or donated
    cdef readonly tuple shape
    cdef readonly object dtype  # NumPy's
    cdef readonly object device  # a runtime.devices.Device
    cdef object __weakref__

    cdef int check(self) except -1  # raise InputError if it is deleted
    cdef Storage* values(self) except NULL  # with a reference, once it holds the values; raises what kept it from that


# The results of a call, of whose arguments one at least is an Array, as Arrays. The other arguments are what an Executor
# takes.
cdef list call_with_arrays(Executor executor, object arguments)
