"""Steps that call a library: the matrices of a batch, shared by threads."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from refxla._core.lapack cimport LapackCall, run_matrices
from refxla._core.tables cimport table

cdef extern from "stdlib.h" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef enum:
    LINE = 64  # bytes of a cache line, to which memory is aligned
    OUT_OF_HOST_MEMORY = -6  # OpenCL's status
    THREAD_US = 20_000  # of work that are worth one more thread of the library's own


cdef int prepare_library_call(LibraryCall* step, LapackCall* call, object planned, void** address, int threads) except -1:
    """Prepares a step of a plan, `planned`, which calls a routine in at most so many threads. `address` has the place
    of each buffer."""
    cdef int32_t n
    cdef list buffers = [-1 if b is None else b for b in (*planned.operands, *planned.results)]
    cdef int own_threads = 1 + int(planned.us / THREAD_US)
    step.call = call
    step.address = address
    step.matrices = planned.items
    step.items = -(-planned.items // call.lanes)
    step.members = min(threads, step.items)
    if own_threads > 1 and planned.items * 4 <= threads:
        step.members = 1
    step.library_threads = 1 if step.members > 1 else own_threads
    step.buffers = <int32_t*> table(len(buffers), sizeof(int32_t))
    step.work = <char**> table(threads, sizeof(char*))
    for n in range(len(buffers)):
        step.buffers[n] = buffers[n]
    return 0


cdef void free_library_call(LibraryCall* step, int threads) noexcept nogil:
    """Frees what a step has, which was prepared for so many threads."""
    cdef int32_t who
    for who in range(threads if step.work != NULL else 0):
        free(step.work[who])
    free(step.work)
    free(step.buffers)


cdef int call_library_items(void* step, int who, int begin, int count) noexcept nogil:
    """Calls a library for so many items in this thread, which has that number in the pool. Returns OpenCL's status."""
    cdef LibraryCall* library_call = <LibraryCall*> step
    cdef int64_t matrix = (library_call.base + begin) * library_call.call.lanes
    cdef int64_t some
    if library_call.work[who] == NULL:
        library_call.work[who] = <char*> aligned_alloc(LINE, max(library_call.call.scratch, LINE))
        if library_call.work[who] == NULL:
            return OUT_OF_HOST_MEMORY
    some = min(<int64_t> count * library_call.call.lanes, library_call.matrices - matrix)
    return run_matrices(library_call.call, library_call.first, library_call.work[who], matrix, some)
