"""The memory of arrays that stay on a device, shared by counted references, and when it holds its values."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.device_memory cimport Space
from refxla._core.errors cimport Error
from refxla._core.opencl cimport Handle


# Who is told of an end, once.
cdef struct Callback:
    void (*call)(void* error, void* argument) noexcept nogil  # takes over the error, which may be NULL
    void* argument
    Callback* next


# The end of a piece of work in another thread. It has a reference for each event, storage and task that knows of it.
cdef struct Completion:
    int64_t references
    uint8_t lock
    int64_t done
    Error* error  # set before `done`; NULL: it went well
    Callback* callbacks


# Memory of the host's pool (`order` is what it takes back), or of somebody who is told of its end (`order` -1); memory
# of a device that has its own; or both, which then hold the same values.
cdef struct Storage:
    int64_t references
    int64_t queued  # how many of them are of calls that have not ended
    void* data  # the host's; NULL: none yet
    int order
    size_t bytes
    Space* space  # of the device's memory; NULL: none
    Handle handle
    int device_order
    Completion* writer  # the end of the call that writes it, or NULL
    void (*on_delete)(void* data, void* argument) noexcept nogil
    void* on_delete_argument


# Exact counts across threads, and locks for a few instructions.
cdef int64_t add(int64_t* count, int64_t change) noexcept nogil
cdef void lock(uint8_t* flag) noexcept nogil
cdef void unlock(uint8_t* flag) noexcept nogil

cdef Storage* new_storage(size_t size) noexcept nogil  # with a reference; NULL: no memory
cdef Storage* storage_at(void* data, size_t size) noexcept nogil  # of somebody's memory, which is not the pool's
cdef Storage* new_device_storage(Space* space, size_t size) noexcept nogil  # on a device
cdef void hold(Storage* storage) noexcept nogil
cdef void drop(Storage* storage) noexcept nogil  # NULL: nothing

# Where the values of written storage lie, on the host or on a device. They are copied there if they are not there yet,
# which takes as long as it takes. NULL: there is no memory, or they cannot be copied.
cdef void* host_data(Storage* storage) noexcept nogil
cdef Handle device_data(Storage* storage, Space* space) noexcept nogil

# A call overwrites the device's memory: the values on the host are no longer those.
cdef void forget_host(Storage* storage) noexcept nogil

# Whether the caller and calls in the queue alone have references, and the memory is a pool's: then who comes after
# those calls may write there.
cdef bint is_exclusive(Storage* storage) noexcept nogil

# Whether it holds its values (or never will), and what kept the call that writes it from it: a copy, or NULL.
cdef bint is_written(Storage* storage) noexcept nogil
cdef Error* failure_of(Storage* storage) noexcept nogil

cdef Completion* new_completion() noexcept nogil  # NULL: no memory
cdef void hold_completion(Completion* completion) noexcept nogil
cdef void drop_completion(Completion* completion) noexcept nogil  # NULL: nothing
cdef bint is_done(Completion* completion) noexcept nogil
cdef void complete(Completion* completion, Error* error) noexcept nogil  # takes over the error
cdef void when_done(
    Completion* completion, void (*call)(void* error, void* argument) noexcept nogil, void* argument
) noexcept nogil
