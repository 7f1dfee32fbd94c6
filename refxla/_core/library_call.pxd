# Steps that call a library: see library_call.pyx.

from libc.stdint cimport int32_t, int64_t

from refxla._core.lapack cimport MOST, LapackCall

# One library call. `work` has, for each thread, `call.scratch` bytes of memory, or NULL until it needs it.
cdef struct LibraryCall:
    LapackCall* call
    void** address  # of each buffer of the plan
    int32_t* buffers  # for each operand and result: its number; -1 if it is not in memory
    char* first[MOST]  # the address of each in this call
    char** work
    int64_t matrices
    int64_t items  # what threads share: each item is as many matrices as the routine computes at once
    int members  # threads that share the items
    int library_threads  # that the library may use for a matrix
    int64_t base  # the first item of the threads


cdef int prepare_library_call(LibraryCall* step, LapackCall* call, object planned, void** address, int threads) except -1
cdef int call_library_items(void* step, int who, int begin, int count) noexcept nogil
cdef void free_library_call(LibraryCall* step, int threads) noexcept nogil
