# cython: cdivision=True, boundscheck=False, wraparound=False
"""LAPACK's routines on many small matrices at once, one in each lane of a vector (batched_lapack.h), for the widest
vectors that the processor has.

Starting a LAPACK call takes longer than computing a matrix of a few rows. Each operation is rounded separately here, so
that results are the same on every processor. ir/library_calls.py decides which calls use these routines.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>

    #define RX_MOST_ROWS 16
    #define RX_WORK_MATRICES 2

    typedef void (*rx_batched_routine)(
        int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
    );

    #pragma GCC diagnostic ignored "-Wpsabi"  /* only functions that are inlined take vectors */

    #define RX_BYTES 16
    #define RX_TARGET
    #define RX_DOUBLE 0
    #define RX_NAME(x) rx_narrow_float_##x
    #include "batched_lapack.h"
    #define RX_DOUBLE 1
    #define RX_NAME(x) rx_narrow_double_##x
    #include "batched_lapack.h"

    #if defined(__x86_64__)
    #undef RX_BYTES
    #undef RX_TARGET
    #define RX_BYTES 32
    #define RX_TARGET __attribute__((target("avx2")))
    #define RX_DOUBLE 0
    #define RX_NAME(x) rx_avx2_float_##x
    #include "batched_lapack.h"
    #define RX_DOUBLE 1
    #define RX_NAME(x) rx_avx2_double_##x
    #include "batched_lapack.h"

    #undef RX_BYTES
    #undef RX_TARGET
    #define RX_BYTES 64
    #define RX_TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
    #define RX_DOUBLE 0
    #define RX_NAME(x) rx_avx512_float_##x
    #include "batched_lapack.h"
    #define RX_DOUBLE 1
    #define RX_NAME(x) rx_avx512_double_##x
    #include "batched_lapack.h"
    #endif

    /* Bytes of the widest vectors of the processor, of at most `most`. */
    static int rx_vector_bytes(int most) {
    #if defined(__x86_64__)
        __builtin_cpu_init();
        if (most >= 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            return 64;
        if (most >= 32 && __builtin_cpu_supports("avx2")) return 32;
    #endif
        return 16;
    }

    static rx_batched_routine rx_batched(int number, int is_double, int bytes) {
    #if defined(__x86_64__)
        if (bytes == 64) return (is_double ? rx_avx512_double_routines : rx_avx512_float_routines)[number];
        if (bytes == 32) return (is_double ? rx_avx2_double_routines : rx_avx2_float_routines)[number];
    #endif
        return (is_double ? rx_narrow_double_routines : rx_narrow_float_routines)[number];
    }
    """
    int RX_MOST_ROWS
    int RX_WORK_MATRICES
    int rx_vector_bytes(int) nogil
    BatchedRoutine rx_batched(int, int, int) nogil

# in the order of the table at the end of batched_lapack.h
ROUTINES = ("potrf", "trsm", "getrf", "geqrf", "orgqr", "syevd")

cdef int _widest = 64  # bytes


def limit_vectors(int bytes):
    """Limits the vectors of routines that are set up from now on to so many bytes (16, 32, 64)."""
    global _widest
    _widest = bytes


cdef int lanes_of(int part):
    return rx_vector_bytes(_widest) // part


cdef int64_t work_bytes():
    return RX_WORK_MATRICES * RX_MOST_ROWS * RX_MOST_ROWS * <int64_t> rx_vector_bytes(_widest)


cdef BatchedRoutine batched_routine(str kind, int part) except NULL:
    return rx_batched(ROUTINES.index(kind), part == 8, rx_vector_bytes(_widest))
