# cython: cdivision=True, boundscheck=False, wraparound=False
"""LAPACK routines on contiguous matrices, which a library call of a plan runs.

The routines are those of SciPy, called as C functions (scipy.linalg.cython_lapack), so that no GIL is needed. Each
function here implements a custom call or operation of HLO with one of them. HLO's matrices are row-major, and LAPACK's
column-major: a matrix a there is transpose(a) here. Some routines are called for the transposed problem (triangles and
sides change, and the factors of a singular value decomposition change places); for others, the matrix is transposed
before and after.

LAPACK is not defined for values that are not finite. The eigenvalues, singular values and Schur forms of such a matrix
are NaN here, with an info of 1, as the specification says. A triangular system whose solution is not finite is solved
again by substitution, as it is defined: kernels that work on tiles multiply elements outside the triangle by zero, and
on some processors this spreads NaN to elements that do not depend on it.
"""

import ctypes

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset

from refxla._core.batched_lapack cimport batched_routine, lanes_of, work_bytes
from refxla._core.lapack cimport MOST, LapackCall

from refxla_spec.errors import DeviceError, UnsupportedError

cdef extern from *:
    """
    #include <complex.h>
    #include <math.h>
    #include <pthread.h>
    #include <stdint.h>

    typedef struct { uint64_t low, high; } rx_u128;

    /* target[columns, rows] is the transpose of source[rows, columns], by blocks that fit in the nearest cache. */
    #define RX_TRANSPOSE(T)                                                                                           \\
        static void rx_transpose_##T(const T* source, int64_t rows, int64_t columns, T* target) {                    \\
            for (int64_t i = 0; i < rows; i += 16) {                                                                  \\
                const int64_t below = i + 16 < rows ? i + 16 : rows;                                                  \\
                for (int64_t j = 0; j < columns; j += 16) {                                                           \\
                    const int64_t right = j + 16 < columns ? j + 16 : columns;                                        \\
                    for (int64_t b = j; b < right; ++b)                                                               \\
                        for (int64_t a = i; a < below; ++a) target[b * rows + a] = source[a * columns + b];           \\
                }                                                                                                     \\
            }                                                                                                         \\
        }                                                                                                             \\
        static void rx_transpose_square_##T(T* matrix, int64_t n) {                                                   \\
            for (int64_t i = 0; i < n; i += 16) {                                                                     \\
                const int64_t below = i + 16 < n ? i + 16 : n;                                                        \\
                for (int64_t j = 0; j <= i; j += 16) {                                                                \\
                    const int64_t right = j + 16 < n ? j + 16 : n;                                                    \\
                    for (int64_t a = i; a < below; ++a)                                                               \\
                        for (int64_t b = j; b < (right < a ? right : a); ++b) {                                       \\
                            const T kept = matrix[a * n + b];                                                         \\
                            matrix[a * n + b] = matrix[b * n + a];                                                    \\
                            matrix[b * n + a] = kept;                                                                 \\
                        }                                                                                             \\
                }                                                                                                     \\
            }                                                                                                         \\
        }
    RX_TRANSPOSE(uint32_t)
    RX_TRANSPOSE(uint64_t)
    RX_TRANSPOSE(rx_u128)

    static void rx_transpose(int size, const void* source, int64_t rows, int64_t columns, void* target) {
        if (size == 4) rx_transpose_uint32_t((const uint32_t*)source, rows, columns, (uint32_t*)target);
        else if (size == 8) rx_transpose_uint64_t((const uint64_t*)source, rows, columns, (uint64_t*)target);
        else rx_transpose_rx_u128((const rx_u128*)source, rows, columns, (rx_u128*)target);
    }

    static void rx_transpose_square(int size, void* matrix, int64_t n) {
        if (size == 4) rx_transpose_square_uint32_t((uint32_t*)matrix, n);
        else if (size == 8) rx_transpose_square_uint64_t((uint64_t*)matrix, n);
        else rx_transpose_square_rx_u128((rx_u128*)matrix, n);
    }

    /* Whether `count` real numbers are all finite, by their exponents: the largest one is that of infinities and NaN. */
    static int rx_finite(int part, const void* numbers, int64_t count) {
        int found = 0;
        if (part == 4) {
            const uint32_t* x = (const uint32_t*)numbers;
            for (int64_t n = 0; n < count; ++n) found |= (x[n] & 0x7f800000u) == 0x7f800000u;
        } else {
            const uint64_t* x = (const uint64_t*)numbers;
            for (int64_t n = 0; n < count; ++n) found |= (x[n] & 0x7ff0000000000000u) == 0x7ff0000000000000u;
        }
        return !found;
    }

    /* Fills `count` elements of `size` bytes with NaN, whose imaginary parts are 0. */
    static void rx_fill_nan(int size, int part, void* elements, int64_t count) {
        for (int64_t n = 0; n < count; ++n) {
            if (part == 4) {
                float* x = (float*)((char*)elements + n * size);
                x[0] = NAN;
                if (size == 8) x[1] = 0;
            } else {
                double* x = (double*)((char*)elements + n * size);
                x[0] = NAN;
                if (size == 16) x[1] = 0;
            }
        }
    }

    static double rx_real(int part, const void* number) {
        return part == 4 ? (double)*(const float*)number : *(const double*)number;
    }

    /* Row-major complex vectors of what geev gives for a real matrix: a column for each real eigenvalue, and for a pair
       of conjugate ones a column of real and one of imaginary parts. */
    #define RX_EIGENVECTORS(T)                                                                                        \\
        static void rx_eigenvectors_##T(const T* columns, const T* imaginary, int64_t n, T* vectors) {                \\
            for (int64_t j = 0; j < n; ++j) {                                                                         \\
                const T* v = columns + j * n;                                                                         \\
                if (imaginary[j] == 0 || j + 1 == n) {                                                                \\
                    for (int64_t i = 0; i < n; ++i) {                                                                 \\
                        vectors[2 * (i * n + j)] = v[i];                                                              \\
                        vectors[2 * (i * n + j) + 1] = 0;                                                             \\
                    }                                                                                                 \\
                    continue;                                                                                         \\
                }                                                                                                     \\
                for (int64_t i = 0; i < n; ++i) {                                                                     \\
                    vectors[2 * (i * n + j)] = vectors[2 * (i * n + j + 1)] = v[i];                                   \\
                    vectors[2 * (i * n + j) + 1] = v[n + i];                                                          \\
                    vectors[2 * (i * n + j + 1) + 1] = -v[n + i];                                                     \\
                }                                                                                                     \\
                ++j;                                                                                                  \\
            }                                                                                                         \\
        }
    RX_EIGENVECTORS(float)
    RX_EIGENVECTORS(double)

    /* BLAS's trsm, by its definition: op(a) x = b for each of the columns of b[rows, columns], or x op(a) = b for each of
       its rows, in place; matrices lie by columns. What is beside the triangle is not read. */
    #define RX_SUBSTITUTE(NAME, T, CONJUGATE)                                                                         \\
        static void rx_substitute_##NAME(const char* flags, int64_t rows, int64_t columns, const T* a, T* b) {        \\
            const int left = flags[0] == 'L', turned = (flags[2] == 'N') != left;                                     \\
            const int lower = (flags[1] == 'L') != turned, conjugated = flags[2] == 'C', unit = flags[3] == 'U';      \\
            const int64_t k = left ? rows : columns, step = left ? 1 : rows, next = left ? rows : 1;                  \\
            for (int64_t system = 0; system < (left ? columns : rows); ++system) {                                    \\
                T* x = b + system * next;                                                                             \\
                for (int64_t n = 0; n < k; ++n) {                                                                     \\
                    const int64_t r = lower ? n : k - 1 - n;                                                          \\
                    T value = x[r * step];                                                                            \\
                    for (int64_t m = 0; m <= n - unit; ++m) {                                                         \\
                        const int64_t s = lower ? m : k - 1 - m;                                                      \\
                        const T given = turned ? a[r * k + s] : a[s * k + r];                                         \\
                        const T factor = conjugated ? CONJUGATE(given) : given;                                       \\
                        value = m == n ? value / factor : value - factor * x[s * step];                               \\
                    }                                                                                                 \\
                    x[r * step] = value;                                                                              \\
                }                                                                                                     \\
            }                                                                                                         \\
        }
    RX_SUBSTITUTE(s, float, )
    RX_SUBSTITUTE(d, double, )
    RX_SUBSTITUTE(c, float _Complex, conjf)
    RX_SUBSTITUTE(z, double _Complex, conj)

    static void rx_substitute(
        int size, int part, const char* flags, int64_t rows, int64_t columns, const void* a, void* b
    ) {
        if (size == 4) rx_substitute_s(flags, rows, columns, (const float*)a, (float*)b);
        else if (size == 16) rx_substitute_z(flags, rows, columns, (const double _Complex*)a, (double _Complex*)b);
        else if (part == 8) rx_substitute_d(flags, rows, columns, (const double*)a, (double*)b);
        else rx_substitute_c(flags, rows, columns, (const float _Complex*)a, (float _Complex*)b);
    }

    /* The threads of the library's own: how many it uses is one number for the process. */
    static pthread_mutex_t rx_threads_mutex = PTHREAD_MUTEX_INITIALIZER;
    static int (*rx_get_threads)(void);
    static void (*rx_set_threads)(int);
    static int rx_holders, rx_usual, rx_now;

    static void rx_hold_threads(int most) {
        pthread_mutex_lock(&rx_threads_mutex);
        if (rx_set_threads) {
            if (rx_holders == 0) rx_usual = rx_now = rx_get_threads();
            if (rx_now > most) rx_set_threads(rx_now = most);
        }
        ++rx_holders;
        pthread_mutex_unlock(&rx_threads_mutex);
    }

    static void rx_release_threads(void) {
        pthread_mutex_lock(&rx_threads_mutex);
        if (--rx_holders == 0 && rx_set_threads && rx_now < rx_usual) rx_set_threads(rx_usual);
        pthread_mutex_unlock(&rx_threads_mutex);
    }

    static void rx_threads_by(void* get, void* set) {
        pthread_mutex_lock(&rx_threads_mutex);
        rx_get_threads = (int (*)(void))get;
        if (!rx_holders) rx_set_threads = (void (*)(int))set;
        pthread_mutex_unlock(&rx_threads_mutex);
    }
    """
    void rx_transpose(int, const void*, int64_t, int64_t, void*) nogil
    void rx_transpose_square(int, void*, int64_t) nogil
    bint rx_finite(int, const void*, int64_t) nogil
    void rx_fill_nan(int, int, void*, int64_t) nogil
    double rx_real(int, const void*) nogil
    void rx_eigenvectors_float(const float*, const float*, int64_t, float*) nogil
    void rx_eigenvectors_double(const double*, const double*, int64_t, double*) nogil
    void rx_substitute(int, int, const char*, int64_t, int64_t, const void*, void*) nogil
    void rx_hold_threads(int) nogil
    void rx_release_threads() nogil
    void rx_threads_by(void*, void*)

# LAPACK's routines take pointers, so a call only needs to know the number of their arguments.
ctypedef void* P
ctypedef void (*F5)(P, P, P, P, P) noexcept nogil
ctypedef void (*F6)(P, P, P, P, P, P) noexcept nogil
ctypedef void (*F8)(P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F9)(P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F10)(P, P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F11)(P, P, P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F13)(P, P, P, P, P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F14)(P, P, P, P, P, P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef void (*F15)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P) noexcept nogil
ctypedef int (*One)(LapackCall*, char**, char*) noexcept nogil


cdef int run_matrices(LapackCall* c, char** first, char* work, int64_t begin, int64_t count) noexcept nogil:
    cdef char* p[MOST]
    cdef int64_t item = 0
    cdef int32_t n
    for n in range(c.count):
        p[n] = work + c.missing[n] if c.missing[n] >= 0 else first[n] + begin * c.bytes[n]
    while item < count:
        if c.batched == NULL:
            c.one(c, p, work)
        else:
            c.batched(c.m, c.n, c.k, c.flag, p, c.bytes, <int> min(<int64_t> c.lanes, count - item), work + c.at[0])
        for n in range(c.count):
            if c.missing[n] < 0:
                p[n] += c.lanes * c.bytes[n]
        item += c.lanes
    return 0


cdef void hold_threads(int most) noexcept nogil:
    rx_hold_threads(most)


cdef void release_threads() noexcept nogil:
    rx_release_threads()


# The routines, each with its operands and results, `flag` and `at`. ---------------------------------------------------


cdef int cholesky(LapackCall* c, char** p, char* work) noexcept nogil:
    """a -> its factor, info. Flags: LAPACK's triangle; whether the other one becomes 0, and everything NaN if a is not
    positive definite. transpose(a) = conj(a), whose other triangle in LAPACK is the factor's transpose."""
    cdef int32_t info = 0
    cdef int64_t i, n = c.n
    cdef char* row
    memcpy(p[1], p[0], n * n * c.size)
    if c.flag[1]:
        for i in range(n):
            row = p[1] + i * n * c.size
            if c.flag[0] == b"U":  # the lower triangle in row-major order
                memset(row + (i + 1) * c.size, 0, (n - i - 1) * c.size)
            else:
                memset(row, 0, i * c.size)
    (<F5> c.routine)(&c.flag[0], &c.n, p[1], &c.n, &info)
    for i in range(n):  # not all of them detect NaN
        if info == 0 and not rx_real(c.part, p[1] + (i * n + i) * c.size) > 0:
            info = <int32_t> (i + 1)
    if c.flag[1] and info:
        rx_fill_nan(c.size, c.part, p[1], n * n)
    (<int32_t*> p[2])[0] = info
    return 0


cdef int triangular_solve(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[k, k], b[m, n] -> x. Flags: LAPACK's side, triangle, operation and diagonal for the transposed equation."""
    cdef double one[2]
    one[0], one[1] = 0, 0
    if c.part == 4:
        (<float*> one)[0] = 1
    else:
        one[0] = 1
    memcpy(p[2], p[1], c.bytes[2])
    (<F11> c.routine)(
        &c.flag[0], &c.flag[1], &c.flag[2], &c.flag[3], &c.n, &c.m, one, p[0], &c.k, p[2], &c.n
    )
    if not rx_finite(c.part, p[2], c.bytes[2] // c.part):
        memcpy(p[2], p[1], c.bytes[2])
        rx_substitute(c.size, c.part, c.flag, c.n, c.m, p[0], p[2])
    return 0


cdef int lu(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[m, n] -> packed, pivots, info; with a flag, pivots counted from 0, and the permutation instead of info."""
    cdef int32_t info = 0
    cdef int32_t* pivots = <int32_t*> p[2]
    cdef int32_t* order = <int32_t*> p[3]
    cdef int32_t i, row
    rx_transpose(c.size, p[0], c.m, c.n, work + c.at[0])
    (<F6> c.routine)(&c.m, &c.n, work + c.at[0], &c.m, pivots, &info)
    rx_transpose(c.size, work + c.at[0], c.n, c.m, p[1])
    if not c.flag[0]:
        order[0] = info
        return 0
    for i in range(c.m):
        order[i] = i
    for i in range(min(c.m, c.n)):
        pivots[i] -= 1
        row = order[i]
        order[i] = order[pivots[i]]
        order[pivots[i]] = row
    return 0


cdef int qr(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[m, n] -> packed, tau."""
    cdef int32_t info = 0
    rx_transpose(c.size, p[0], c.m, c.n, work + c.at[0])
    (<F8> c.routine)(&c.m, &c.n, work + c.at[0], &c.m, p[2], work + c.at[1], &c.lwork, &info)
    rx_transpose(c.size, work + c.at[0], c.n, c.m, p[1])
    return 0


cdef int pivoted_qr(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[m, n], fixed[n], the columns that stay in place -> packed, columns[n], tau."""
    cdef int32_t info = 0
    rx_transpose(c.size, p[0], c.m, c.n, work + c.at[0])
    memcpy(p[3], p[1], 4 * c.n)
    if c.size == c.part:
        (<F9> c.routine)(&c.m, &c.n, work + c.at[0], &c.m, p[3], p[4], work + c.at[1], &c.lwork, &info)
    else:
        (<F10> c.routine)(
            &c.m, &c.n, work + c.at[0], &c.m, p[3], p[4], work + c.at[1], &c.lwork, work + c.at[2], &info
        )
    rx_transpose(c.size, work + c.at[0], c.n, c.m, p[2])
    return 0


cdef int reflectors(LapackCall* c, char** p, char* work) noexcept nogil:
    """packed[m, n], tau[k] -> the first n columns of Q."""
    cdef int32_t info = 0
    rx_transpose(c.size, p[0], c.m, c.n, work + c.at[0])
    (<F9> c.routine)(&c.m, &c.n, &c.k, work + c.at[0], &c.m, p[1], work + c.at[1], &c.lwork, &info)
    rx_transpose(c.size, work + c.at[0], c.n, c.m, p[2])
    return 0


cdef bint triangle_finite(LapackCall* c, const char* a) noexcept nogil:
    """Whether the triangle of a Hermitian matrix that is read is finite, except for the imaginary parts of the
    diagonal."""
    cdef int64_t i, parts = c.size // c.part, n = c.n
    cdef const char* row
    for i in range(n):
        row = a + i * n * c.size
        if not rx_finite(c.part, row + i * c.size, 1):
            return False
        if c.flag[1] == b"L":
            if not rx_finite(c.part, row, i * parts):
                return False
        elif not rx_finite(c.part, row + (i + 1) * c.size, (n - i - 1) * parts):
            return False
    return True


cdef int hermitian_eigen(LapackCall* c, char** p, char* work) noexcept nogil:
    """a -> vectors, values, info. Flags: whether there are vectors, which triangle is read. Vectors that are not
    requested are 0. The matrix is transposed first although transpose(a) has the same eigenvalues: an eigenvector may
    have either sign, and LAPACK's choice for a itself is the one that programs know from JAX, NumPy and PyTorch."""
    cdef int32_t info = 0
    cdef int64_t count = <int64_t> c.n * c.n
    if not triangle_finite(c, p[0]):
        info = 1
    else:
        rx_transpose(c.size, p[0], c.n, c.n, p[1])
        if c.size == c.part:
            (<F11> c.routine)(
                &c.flag[0], &c.flag[1], &c.n, p[1], &c.n, p[2], work + c.at[0], &c.lwork, work + c.at[2], &c.liwork,
                &info,
            )
        else:
            (<F13> c.routine)(
                &c.flag[0], &c.flag[1], &c.n, p[1], &c.n, p[2], work + c.at[0], &c.lwork, work + c.at[1], &c.lrwork,
                work + c.at[2], &c.liwork, &info,
            )
    if info:
        rx_fill_nan(c.size, c.part, p[1], count)
        rx_fill_nan(c.part, c.part, p[2], c.n)
    elif c.flag[0] == b"V":
        rx_transpose_square(c.size, p[1], c.n)
    if c.flag[0] == b"N":
        memset(p[1], 0, count * c.size)
    (<int32_t*> p[3])[0] = info
    return 0


cdef int singular_values(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[m, n] -> a, s, u, vh, info. The flag: how much of u and vh. The factors of transpose(a) would need no
    transposes, but a pair of singular vectors may have either sign, and LAPACK's choice for a itself is the one that
    programs know from JAX, NumPy and PyTorch."""
    cdef int32_t info = 0, mn = min(c.m, c.n)
    cdef int32_t columns = c.m if c.flag[0] == b"A" else mn  # of u
    cdef int32_t rows = c.n if c.flag[0] == b"A" else mn  # of vh
    cdef char* u = p[3] if columns == c.m else work + c.at[4]
    cdef char* vh = p[4] if rows == c.n else work + c.at[4]  # at most one of the two is not square
    if p[1] != work + c.missing[1]:
        memcpy(p[1], p[0], c.bytes[0])
    if not rx_finite(c.part, p[0], c.bytes[0] // c.part):
        info = 1
    else:
        rx_transpose(c.size, p[0], c.m, c.n, work + c.at[0])
        if c.size == c.part:
            (<F14> c.routine)(
                &c.flag[0], &c.m, &c.n, work + c.at[0], &c.m, p[2], u, &c.m, vh, &rows, work + c.at[1], &c.lwork,
                work + c.at[3], &info,
            )
        else:
            (<F15> c.routine)(
                &c.flag[0], &c.m, &c.n, work + c.at[0], &c.m, p[2], u, &c.m, vh, &rows, work + c.at[1], &c.lwork,
                work + c.at[2], work + c.at[3], &info,
            )
    if info:
        rx_fill_nan(c.part, c.part, p[2], c.bytes[2] // c.part)
        rx_fill_nan(c.size, c.part, p[3], c.bytes[3] // c.size)
        rx_fill_nan(c.size, c.part, p[4], c.bytes[4] // c.size)
    elif c.flag[0] != b"N":
        from_columns(c.size, u, c.m, columns, p[3])
        from_columns(c.size, vh, rows, c.n, p[4])
    if c.flag[0] == b"N":
        memset(p[3], 0, c.bytes[3])
        memset(p[4], 0, c.bytes[4])
    (<int32_t*> p[5])[0] = info
    return 0


cdef void from_columns(int size, char* source, int64_t rows, int64_t columns, char* target) noexcept nogil:
    """A row-major matrix from LAPACK's column-major result; a square one is transposed in place."""
    if source == target:
        rx_transpose_square(size, target, rows)
    else:
        rx_transpose(size, source, columns, rows, target)


cdef int eigen(LapackCall* c, char** p, char* work) noexcept nogil:
    """a -> values (of a real matrix: real parts, imaginary parts), left vectors, right vectors, info. Flags: whether
    there are left and right vectors; those that are not requested are 0."""
    cdef int32_t info = 0
    cdef int side, first, values = 2 if c.size == c.part else 1
    cdef int64_t count = <int64_t> c.n * c.n
    cdef char* vectors
    if not rx_finite(c.part, p[0], count * (c.size // c.part)):
        info = 1
    else:
        rx_transpose(c.size, p[0], c.n, c.n, work + c.at[0])
        if values == 2:
            (<F14> c.routine)(
                &c.flag[0], &c.flag[1], &c.n, work + c.at[0], &c.n, p[1], p[2], work + c.at[1], &c.n, work + c.at[2],
                &c.n, work + c.at[3], &c.lwork, &info,
            )
        else:
            (<F14> c.routine)(
                &c.flag[0], &c.flag[1], &c.n, work + c.at[0], &c.n, p[1], p[2], &c.n, p[3], &c.n, work + c.at[3],
                &c.lwork, work + c.at[4], &info,
            )
    if info:
        for first in range(values):
            rx_fill_nan(c.size, c.part, p[1 + first], c.n)
    for side in range(2):
        vectors = p[1 + values + side]
        if c.flag[side] != b"V":
            memset(vectors, 0, 2 * c.part * count)
        elif info:
            rx_fill_nan(2 * c.part, c.part, vectors, count)
        elif values == 1:
            rx_transpose_square(c.size, vectors, c.n)
        elif c.part == 4:
            rx_eigenvectors_float(<float*> (work + c.at[1 + side]), <float*> p[2], c.n, <float*> vectors)
        else:
            rx_eigenvectors_double(<double*> (work + c.at[1 + side]), <double*> p[2], c.n, <double*> vectors)
    (<int32_t*> p[3 + values])[0] = info
    return 0


cdef int32_t chosen(void* x, void* y) noexcept nogil:
    """The predicate by which gees would sort, which is never used."""
    return 0


cdef int schur(LapackCall* c, char** p, char* work) noexcept nogil:
    """a -> t, q, values (of a real matrix: real parts, imaginary parts), 0, info. The flag: whether there is q."""
    cdef int32_t info = 0
    cdef int n, values = 2 if c.size == c.part else 1
    cdef int64_t count = <int64_t> c.n * c.n
    cdef int32_t* sorted_values = <int32_t*> p[3 + values]
    cdef char no = b"N"
    if not rx_finite(c.part, p[0], count * (c.size // c.part)):
        info = 1
    else:
        rx_transpose(c.size, p[0], c.n, c.n, p[1])
        if values == 2:
            (<F15> c.routine)(
                &c.flag[0], &no, <void*> &chosen, &c.n, p[1], &c.n, sorted_values, p[3], p[4], p[2], &c.n,
                work + c.at[0], &c.lwork, work + c.at[2], &info,
            )
        else:
            (<F15> c.routine)(
                &c.flag[0], &no, <void*> &chosen, &c.n, p[1], &c.n, sorted_values, p[3], p[2], &c.n,
                work + c.at[0], &c.lwork, work + c.at[1], work + c.at[2], &info,
            )
    if info:
        for n in range(values + 2):
            rx_fill_nan(c.size, c.part, p[1 + n], count if n < 2 else c.n)
    else:
        rx_transpose_square(c.size, p[1], c.n)
        rx_transpose_square(c.size, p[2], c.n)
    if c.flag[0] != b"V":
        memset(p[2], 0, count * c.size)
    sorted_values[0] = 0
    (<int32_t*> p[4 + values])[0] = info
    return 0


cdef int hessenberg(LapackCall* c, char** p, char* work) noexcept nogil:
    """a[n, n] -> packed, tau, info; m and k are the first and last row that is not triangular yet."""
    cdef int32_t info = 0
    rx_transpose(c.size, p[0], c.n, c.n, p[1])
    (<F9> c.routine)(&c.n, &c.m, &c.k, p[1], &c.n, p[2], work + c.at[0], &c.lwork, &info)
    rx_transpose_square(c.size, p[1], c.n)
    (<int32_t*> p[3])[0] = info
    return 0


cdef int tridiagonal(LapackCall* c, char** p, char* work) noexcept nogil:
    """a, of which the lower triangle is read -> packed, diagonal, off-diagonal, tau, info."""
    cdef int32_t info = 0
    rx_transpose(c.size, p[0], c.n, c.n, p[1])
    (<F10> c.routine)(&c.flag[0], &c.n, p[1], &c.n, p[2], p[3], p[4], work + c.at[0], &c.lwork, &info)
    rx_transpose_square(c.size, p[1], c.n)
    (<int32_t*> p[5])[0] = info
    return 0


cdef int tridiagonal_solve(LapackCall* c, char** p, char* work) noexcept nogil:
    """Subdiagonal, diagonal[n], superdiagonal, b[n, m] -> these three, x, info: 1 if the matrix is singular, and x is
    then NaN. Without a flag for them, the first subdiagonal element and the last superdiagonal one are ignored."""
    cdef int32_t info = 0
    cdef int n
    cdef int64_t offset = c.bytes[0] - (c.n - 1) * <int64_t> c.size  # of the last n - 1 elements
    for n in range(3):
        if p[4 + n] != work + c.missing[4 + n]:
            memcpy(p[4 + n], p[n], c.bytes[n])
    memcpy(work + c.at[0], p[0] + offset, (c.n - 1) * <int64_t> c.size)
    memcpy(work + c.at[1], p[1], c.n * <int64_t> c.size)
    memcpy(work + c.at[2], p[2], (c.n - 1) * <int64_t> c.size)
    rx_transpose(c.size, p[3], c.n, c.m, work + c.at[3])
    (<F8> c.routine)(
        &c.n, &c.m, work + c.at[0], work + c.at[1], work + c.at[2], work + c.at[3], &c.n, &info
    )
    if info:
        info = 1
        rx_fill_nan(c.size, c.part, p[7], <int64_t> c.n * c.m)
    else:
        rx_transpose(c.size, work + c.at[3], c.m, c.n, p[7])
    (<int32_t*> p[8])[0] = info
    return 0


# Setting up -----------------------------------------------------------------------------------------------------------


cdef class Routine:
    """A LAPACK routine by its name ("sgetrf"), on matrices of one shape; "sgetrf_batched" is the one in
    batched_lapack.pyx.

    `sizes` are (m, n, k), as the function above names them, and `flags` its flags. `bytes` has the bytes of a matrix of
    each operand and result, `in_memory` whether each of them is in memory: a result that nobody reads is not. Raises
    DeviceError if SciPy does not have the routine, UnsupportedError if the routine's integers have too few bits.
    """

    def __init__(self, name, sizes, flags, bytes, in_memory):
        cdef LapackCall* c = &self.call
        cdef int32_t n, info = 0
        cdef double first[2]
        cdef double real[2]
        cdef int32_t integer[2]
        cdef P none = NULL
        cdef char no = b"N"
        cdef int64_t length, mn, mx
        name, _, batched = name.partition("_")
        letter, kind = name[0], name[1:]
        c.size, c.part = {"s": (4, 4), "d": (8, 8), "c": (8, 4), "z": (16, 8)}[letter]
        c.m, c.n, c.k = sizes
        for n in range(4):
            c.flag[n] = ord(flags[n]) if n < len(flags) else 0
        c.count = len(bytes)
        c.lanes = lanes_of(c.part) if batched else 1
        for n in range(c.count):
            c.bytes[n] = bytes[n]
            c.missing[n] = -1 if in_memory[n] else self.place(c.lanes * bytes[n])  # a routine may read its own results
        if batched:
            c.batched, c.at[0] = batched_routine(kind, c.part), self.place(work_bytes())
            return
        c.routine = routine(name)
        c.lwork = c.lrwork = c.liwork = -1
        is_real = c.size == c.part
        length, mn, mx = <int64_t> c.m * c.n * c.size, min(c.m, c.n), max(c.m, c.n)
        first[0] = first[1] = real[0] = 0
        integer[0] = 0
        if kind == "potrf":
            c.one = cholesky
        elif kind == "trsm":
            c.one = triangular_solve
        elif kind == "getrf":
            c.one = lu
            c.at[0] = self.place(length)
        elif kind == "geqrf":
            c.one = qr
            (<F8> c.routine)(&c.m, &c.n, none, &c.m, none, first, &c.lwork, &info)
            c.at[0], c.at[1] = self.place(length), self.elements(first)
        elif kind == "geqp3":
            c.one = pivoted_qr
            if is_real:
                (<F9> c.routine)(&c.m, &c.n, none, &c.m, none, none, first, &c.lwork, &info)
            else:
                (<F10> c.routine)(&c.m, &c.n, none, &c.m, none, none, first, &c.lwork, real, &info)
            c.at[0], c.at[1], c.at[2] = self.place(length), self.elements(first), self.place(2 * c.n * c.part)
        elif kind in ("orgqr", "ungqr"):
            c.one = reflectors
            (<F9> c.routine)(&c.m, &c.n, &c.k, none, &c.m, none, first, &c.lwork, &info)
            c.at[0], c.at[1] = self.place(length), self.elements(first)
        elif kind in ("syevd", "heevd"):
            c.one = hermitian_eigen
            if is_real:
                (<F11> c.routine)(
                    &c.flag[0], &c.flag[1], &c.n, none, &c.n, none, first, &c.lwork, integer, &c.liwork, &info
                )
            else:
                (<F13> c.routine)(
                    &c.flag[0], &c.flag[1], &c.n, none, &c.n, none, first, &c.lwork, real, &c.lrwork, integer,
                    &c.liwork, &info,
                )
            c.liwork = integer[0]
            c.lrwork = self.rounded_up(rx_real(c.part, real))
            c.at[0], c.at[1] = self.elements(first), self.place(c.lrwork * <int64_t> c.part)
            c.at[2] = self.place(4 * c.liwork)
        elif kind == "gesdd":
            c.one = singular_values
            n = c.n if c.flag[0] == b"A" else <int32_t> mn
            if is_real:
                (<F14> c.routine)(
                    &c.flag[0], &c.m, &c.n, none, &c.m, none, none, &c.m, none, &n, first, &c.lwork, none, &info
                )
            else:
                (<F15> c.routine)(
                    &c.flag[0], &c.m, &c.n, none, &c.m, none, none, &c.m, none, &n, first, &c.lwork, real, none, &info
                )
            c.at[0], c.at[1] = self.place(c.bytes[0]), self.elements(first)
            most = 7 * mn if c.flag[0] == b"N" else max(5 * mn * mn + 5 * mn, 2 * mx * mn + 2 * mn * mn + mn)
            c.at[2], c.at[3] = self.place(0 if is_real else most * c.part), self.place(8 * 4 * mn)
            c.at[4] = self.place(length if c.flag[0] == b"S" and c.m != c.n else 0)
        elif kind == "geev":
            c.one = eigen
            if is_real:
                (<F14> c.routine)(
                    &c.flag[0], &c.flag[1], &c.n, none, &c.n, none, none, none, &c.n, none, &c.n, first, &c.lwork, &info
                )
            else:
                (<F14> c.routine)(
                    &c.flag[0], &c.flag[1], &c.n, none, &c.n, none, none, &c.n, none, &c.n, first, &c.lwork, real, &info
                )
            c.at[0], c.at[3] = self.place(length), self.elements(first)
            c.at[1], c.at[2] = (self.place(length if is_real else 0) for _ in range(2))
            c.at[4] = self.place(2 * c.n * c.part)
        elif kind == "gees":
            c.one = schur
            if is_real:
                (<F15> c.routine)(
                    &c.flag[0], &no, <P> &chosen, &c.n, none, &c.n, integer, none, none, none, &c.n, first,
                    &c.lwork, none, &info,
                )
            else:
                (<F15> c.routine)(
                    &c.flag[0], &no, <P> &chosen, &c.n, none, &c.n, integer, none, none, &c.n, first, &c.lwork,
                    real, none, &info,
                )
            c.at[0], c.at[1], c.at[2] = self.elements(first), self.place(c.n * c.part), self.place(4 * c.n)
        elif kind == "gehrd":
            c.one = hessenberg
            (<F9> c.routine)(&c.n, &c.m, &c.k, none, &c.n, none, first, &c.lwork, &info)
            c.at[0] = self.elements(first)
        elif kind in ("sytrd", "hetrd"):
            c.one = tridiagonal
            (<F10> c.routine)(&c.flag[0], &c.n, none, &c.n, none, none, none, first, &c.lwork, &info)
            c.at[0] = self.elements(first)
        elif kind == "gtsv":
            c.one = tridiagonal_solve
            for n in range(3):
                c.at[n] = self.place(c.n * c.size)
            c.at[3] = self.place(length)
        else:
            raise ValueError(f"no routine {name}")
        if info:
            raise DeviceError(f"LAPACK's {name} refuses argument {-info}, asked how much memory it needs for {sizes}")

    cdef int64_t place(self, int64_t bytes) except -1:
        """Reserves so many bytes of the scratch memory. Returns their offset."""
        cdef int64_t at = self.call.scratch
        self.call.scratch += (max(bytes, 1) + 63) // 64 * 64
        return at

    cdef int64_t elements(self, double* first) except -1:
        """The offset of a workspace whose number of elements is in its first element, where a LAPACK query left it."""
        self.call.lwork = self.rounded_up(rx_real(self.call.part, first))
        return self.place(self.call.lwork * <int64_t> self.call.size)

    cdef int32_t rounded_up(self, double count) except? -1:
        """A number of elements that was rounded to the precision of the elements, at least 1."""
        if self.call.part == 4:
            count += count / (1 << 23)
        if count >= 0x7FFFFFFF:
            raise UnsupportedError(
                "LAPACK counts the elements of its workspace in 32 bits, which are too few for a matrix of "
                f"{self.call.m} x {self.call.n}; compile with linear_algebra='expanded'"
            )
        return max(1, <int32_t> count + 1)


cdef void* routine(str name) except NULL:
    """SciPy's C function for a routine."""
    try:
        from scipy.linalg import cython_blas, cython_lapack
    except ImportError as problem:
        raise DeviceError(
            f"the program calls LAPACK's {name}, which SciPy has, and SciPy cannot be imported ({problem}); install it, "
            "or compile with linear_algebra='expanded'"
        ) from None
    _know_threads(cython_blas.__file__)
    table = cython_blas.__pyx_capi__ if name[1:] == "trsm" else cython_lapack.__pyx_capi__
    capsule = table[name]
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


cdef object _library = None  # SciPy's extension, whose dependencies have the functions that count threads


def _know_threads(path):
    """Finds the function that sets the library's number of threads: OpenBLAS's, which SciPy's wheels rename. For other
    libraries there is none, and they decide themselves."""
    global _library
    if _library is not None:
        return
    _library = ctypes.CDLL(path)
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("", "64_"):
            try:
                get = getattr(_library, f"{prefix}_get_num_threads{suffix}")
                change = getattr(_library, f"{prefix}_set_num_threads{suffix}")
            except AttributeError:
                continue
            rx_threads_by(
                <void*> <uintptr_t> ctypes.cast(get, ctypes.c_void_p).value,
                <void*> <uintptr_t> ctypes.cast(change, ctypes.c_void_p).value,
            )
            return
