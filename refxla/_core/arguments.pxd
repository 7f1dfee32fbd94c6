"""The arguments and results of a program: the check of each argument, and new arrays for results."""

from libc.stdint cimport int32_t
from numpy cimport dtype, ndarray, npy_intp

from refxla._core.buffer_pool cimport PoolBlock

cdef enum:
    MAX_RANK = 32


# One array argument or result.
cdef struct Form:
    int32_t rank
    npy_intp dimensions[MAX_RANK]
    size_t bytes
    size_t alignment  # of an element, equal to its size


cdef class Signature:
    cdef readonly tuple parameter_names, parameter_shapes, result_shapes
    cdef tuple parameter_types, result_types  # NumPy dtypes
    cdef tuple result_names  # for messages
    cdef Form* parameters
    cdef Form* results
    cdef readonly int parameter_count, result_count

    # Argument `value` of parameter `n` as an array: dense, aligned, of the parameter's type and shape; `value` itself
    # if it is such an array. Raises InputError.
    cdef ndarray argument(self, object value, int n)

    # Raises InputError if argument `value` of parameter `n`, which is of a subclass of NumPy's arrays, has masked elements.
    cdef int check_mask(self, object value, int n) except -1

    # A new array for result `n`, in memory from the pool. Raises MemoryError.
    cdef ndarray result(self, int n)
