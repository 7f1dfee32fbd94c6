"""LAPACK routines on contiguous matrices, which a library call of a plan runs."""

from libc.stdint cimport int32_t, int64_t

from refxla._core.batched_lapack cimport BatchedRoutine

cdef enum:
    MOST = 12  # operands and results


# One routine on matrices of one shape. `one` computes one matrix: `p` points to its operands, then its results; `work`
# is `scratch` bytes of memory that no other thread uses. If `batched` is not NULL, it computes up to `lanes` of them.
cdef struct LapackCall:
    int (*one)(LapackCall* c, char** p, char* work) noexcept nogil
    void* routine  # LAPACK's
    BatchedRoutine batched
    int32_t lanes  # matrices that are computed at once
    int32_t m, n, k  # sizes, as the routine names them
    int32_t size  # bytes of an element
    int32_t part  # bytes of a real number of its precision: the same, or half of it
    char flag[4]
    int32_t lwork, lrwork, liwork  # elements of the routine's workspaces
    int64_t at[6]  # the offsets in the scratch memory, as each routine defines them
    int64_t scratch
    int32_t count  # operands and results
    int64_t bytes[MOST]  # of a matrix of each
    int64_t missing[MOST]  # the offset in the scratch memory of a result that nobody reads, or -1


cdef class Routine:
    cdef LapackCall call

    cdef int64_t place(self, int64_t bytes) except -1
    cdef int64_t elements(self, double* first) except -1
    cdef int32_t rounded_up(self, double count) except? -1

# Runs a call on `count` matrices from number `begin` on, whose first ones are at `first`.
cdef int run_matrices(LapackCall* c, char** first, char* work, int64_t begin, int64_t count) noexcept nogil

# Limits the library to so many threads until `release_threads` has been called as often.
cdef void hold_threads(int most) noexcept nogil
cdef void release_threads() noexcept nogil
