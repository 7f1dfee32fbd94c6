"""Calls of executors with storage: at once in the calling thread, or in order in a separate thread."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.errors cimport Error
from refxla._core.storage cimport Completion, Storage


# One call: allocated by malloc, and freed when it has ended. It owns references to its arguments and results.
cdef struct Call:
    void* executor  # an Executor
    void (*ended)(void* owner) noexcept nogil  # called when the executor is no longer used
    void* owner
    int argument_count, result_count
    Storage** arguments
    Completion** writers  # for each argument in the queue: the completion of the previous call that wrote it, or NULL
    uint8_t* is_donated  # for each argument: whether the call may overwrite its memory
    Storage** results
    Completion* completion  # NULL: it runs in the calling thread
    int64_t cancelled  # set to request that it ends
    int64_t expected_ns
    Call* next


# A call with room for so many arguments and results; NULL: no memory.
cdef Call* new_call(void* executor, int argument_count, int result_count) noexcept nogil

# Free a call and its references.
cdef void end_call(Call* call) noexcept nogil

# For each argument whose memory is overwritten: if it is given away according to `donated`, and nobody else holds it,
# its memory becomes that of its result. Obtains the other results. Returns 0, or -1: no memory.
cdef int take_results(Call* call, const uint8_t* donated) noexcept nogil

# Whether a call is long enough for the thread, or has to wait for others; otherwise it may run in the calling thread.
cdef bint is_deferred(Call* call) noexcept nogil

# Runs in the calling thread, once all arguments hold their values. `interrupted` is set if a signal handler ended it by
# an exception: that is raised again when the main thread is back in Python, and there are no results. The results hold
# their values when this returns NULL.
cdef Error* run_now(Call* call, bint* interrupted) noexcept nogil

# Runs in the thread, and takes over the call. From now on, each result knows its writer. Returns the completion, with a
# reference. NULL: there is no memory or no thread, and the call still belongs to the caller.
cdef Completion* run_later(Call* call) noexcept nogil

# Waits for a completion, with the GIL released. In the main thread, signals are handled: after Control-C, calls that do
# not end soon are cancelled, and the handler's exception is raised when the main thread is back in Python. Returns
# whether that is so.
cdef bint wait_for(Completion* completion) noexcept nogil

# Whether this is the main thread, the only one that handles signals.
cdef bint in_main_thread() noexcept nogil
