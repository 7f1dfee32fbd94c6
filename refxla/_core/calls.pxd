"""Calls of a compiled function with arguments like those of an earlier call."""

from cpython.buffer cimport Py_buffer

from refxla._core.arguments cimport Form
from refxla._core.executor cimport Executor

# What is required of an argument.
cdef enum ArgumentKind:
    ARRAY = 0  # this type and shape
    NUMBER = 1  # this Python type
    SAME = 2  # this very value
    DEVICE = 3  # a refxla.Array of this type and shape


# Where the data of a parameter is during a call.
cdef struct ArgumentView:
    Py_buffer view  # of an array of another library
    bint viewed


cdef class Shortcut:
    cdef readonly object target  # the value of the caller's `executable` after such a call
    cdef Executor executor
    cdef int count  # leaves of the arguments
    cdef bint on_device  # whether one of them is a refxla.Array
    cdef ArgumentKind* kinds
    cdef Form* forms
    cdef bint* weak
    cdef list expectations  # for each leaf: its dtype, its Python type, or the value itself
    cdef list shapes  # for each leaf that is an array
    cdef list avals  # for each leaf: another library's description of its type, when that was last found to match
    cdef int* sources  # for each parameter: the number of a leaf, or -1 for a constant
    cdef list constants
    cdef tuple settings  # pairs of an object with a value, and that value
    cdef object flatten, structure, foreign, finish

    # The result, or MISS if the arguments do not match.
    cdef object call(self, tuple arguments)
    cdef bint fits(self, object leaf, int n) except -1
    cdef object run(self, object leaves)
    cdef object run_on_device(self, object leaves)
    cdef object finished(self, list results)


cdef class Caller:
    cdef public object executable  # the one used last, or None
    cdef list shortcuts
