"""Calls of executors with storage: at once in the calling thread, or in order in a thread of their own."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.errors cimport Error
from refxla._core.storage cimport Completion, Storage


# One call: malloc'ed, and freed when it has ended. The references of its arguments and results are its own.
cdef struct Call:
    void* executor  # an Executor
    void (*ended)(void* owner) noexcept nogil  # told that the executor is used no more
    void* owner
    int argument_count, result_count
    Storage** arguments
    Completion** writers  # of each argument in the queue: the end of the call that wrote it before this one, or NULL
    uint8_t* given  # of each argument: whether its memory is the call's to overwrite
    Storage** results
    Completion* completion  # NULL: it runs in the calling thread
    int64_t cancelled  # set by who wants it to end
    int64_t expected_ns
    Call* next


# A call with room for so many arguments and results; NULL: no memory.
cdef Call* new_call(void* executor, int argument_count, int result_count) noexcept nogil

# Free a call and its references.
cdef void end_call(Call* call) noexcept nogil

# Let each argument whose memory is overwritten, if `donated` says that it is given away and nobody else holds it, be the
# memory of its result, and obtain the other results. 0, or -1: no memory.
cdef int take_results(Call* call, const uint8_t* donated) noexcept nogil

# Whether a call is worth the thread, or has to wait for others: else it may run in the calling thread.
cdef bint is_deferred(Call* call) noexcept nogil

# Run in the calling thread, once all arguments hold their values. `interrupted` is set if a signal handler ended it,
# which raised: its exception is raised again when the main thread is back in Python, and there are no results. The
# results hold their values when this returns NULL.
cdef Error* run_now(Call* call, bint* interrupted) noexcept nogil

# Run in the thread; takes over the call. Each result knows its writer from here on. Gives the completion, with a
# reference; NULL: no memory, or no thread, and the call is the caller's still.
cdef Completion* run_later(Call* call) noexcept nogil

# Wait for an end, with the GIL released. In the main thread, signals are answered: after Control-C, what has not ended
# in a moment is cancelled, and the handler's exception is raised when the main thread is back in Python. Gives whether
# that is so.
cdef bint wait_for(Completion* completion) noexcept nogil

# Whether this is the main thread, which alone answers signals.
cdef bint in_main_thread() noexcept nogil
