"""LAPACK's routines on many small matrices at once."""

from libc.stdint cimport int64_t

# Runs on `lanes` matrices; that of lane l starts at p[a] + l * bytes[a]. `flags` and the sizes are those of the
# routine's function in lapack.pyx, and `work` has `work_bytes()` bytes.
ctypedef void (*BatchedRoutine)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) noexcept nogil

# How many matrices of real numbers of so many bytes a routine takes at once.
cdef int lanes_of(int part)
cdef int64_t work_bytes()
cdef BatchedRoutine batched_routine(str kind, int part) except NULL
