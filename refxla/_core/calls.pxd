"""Calls of a compiled function whose arguments are like those of a call before."""

from cpython.buffer cimport Py_buffer

from refxla._core.arguments cimport Form
from refxla._core.launch cimport Executor

# What an argument must be.
cdef enum ArgumentKind:
    ARRAY = 0  # of this type and shape
    NUMBER = 1  # of this Python type
    SAME = 2  # this very value
    DEVICE = 3  # a refxla.Array of this type and shape


# Where the data of a parameter is during a call.
cdef struct Held:
    Py_buffer view  # of an array of another library
    bint viewed


cdef class Shortcut:
    cdef readonly object target  # what the caller's `executable` is after such a call
    cdef Executor executor
    cdef int count  # leaves of the arguments
    cdef bint on_device  # whether one of them is a refxla.Array
    cdef ArgumentKind* kinds
    cdef Form* forms
    cdef bint* weak
    cdef list wanted  # of each leaf: its dtype, its Python type, or itself
    cdef list shapes  # of each leaf that is an array
    cdef list seen  # of each leaf: what another library calls its type, when that was last found to be right
    cdef int* sources  # of each parameter: the number of a leaf, or -1 for a constant
    cdef list constants
    cdef tuple settings  # pairs of what has a value, and that value
    cdef object flatten, structure, foreign, finish

    # The result, or MISS if the arguments are others.
    cdef object call(self, tuple arguments)
    cdef bint fits(self, object leaf, int n) except -1
    cdef object run(self, object leaves)
    cdef object run_on_device(self, object leaves)
    cdef object finished(self, list results)


cdef class Caller:
    cdef public object executable  # the one used last, or None
    cdef list shortcuts
