"""LAPACK's routines on many small matrices at once."""

from libc.stdint cimport int64_t

# On `lanes` matrices, of which that of lane l lies l * bytes[a] into p[a]; the sizes and flags of the routine's function
# in lapack.pyx, and memory of `work_bytes()`.
ctypedef void (*BatchedRoutine)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) noexcept nogil

# How many matrices a routine takes at once, of real numbers of so many bytes.
cdef int lanes_of(int part)
cdef int64_t work_bytes()
cdef BatchedRoutine batched_routine(str kind, int part) except NULL
