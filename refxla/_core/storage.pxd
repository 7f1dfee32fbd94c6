"""Reference-counted memory of arrays that stay on a device, and when it holds its values."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.device_memory cimport Space
from refxla._core.errors cimport Error
from refxla._core.opencl cimport Handle


# A listener that is called once when the work ends.
cdef struct Callback:
    void (*call)(void* error, void* argument) noexcept nogil  # takes over the error, which may be NULL
    void* argument
    Callback* next


# The completion of work in another thread. Each event, storage and task that uses it has a reference.
cdef struct Completion:
    int64_t references
    uint8_t lock
    int64_t done
    Error* error  # set before `done`; NULL: success
    Callback* callbacks


# Memory of the host's pool (`order` is needed to give it back), or of an owner that is notified of its release
# (`order` -1); memory of a device with its own; or both, which then hold the same values.
cdef struct Storage:
    int64_t references
    int64_t queued  # how many of them belong to unfinished calls
    void* data  # the host's; NULL: none yet
    int order
    size_t bytes
    Space* space  # of the device memory; NULL: none
    Handle handle
    int device_order
    Completion* writer  # the completion of the call that writes it, or NULL
    void (*on_delete)(void* data, void* argument) noexcept nogil
    void* on_delete_argument


# Exact counters across threads, and locks for a few instructions.
cdef int64_t add(int64_t* count, int64_t change) noexcept nogil
cdef void lock(uint8_t* flag) noexcept nogil
cdef void unlock(uint8_t* flag) noexcept nogil

cdef Storage* new_storage(size_t size) noexcept nogil  # with a reference; NULL: no memory
cdef Storage* storage_at(void* data, size_t size) noexcept nogil  # of an owner's memory, which is not the pool's
cdef Storage* new_device_storage(Space* space, size_t size) noexcept nogil  # on a device
cdef void hold(Storage* storage) noexcept nogil
cdef void drop(Storage* storage) noexcept nogil  # NULL: nothing

# The address of the values of written storage, on the host or on a device. They are copied there first if necessary,
# which takes time. NULL: there is no memory, or they cannot be copied.
cdef void* host_data(Storage* storage) noexcept nogil
cdef Handle device_data(Storage* storage, Space* space) noexcept nogil

# A call overwrites the device memory: the host's copy of the values is no longer valid.
cdef void forget_host(Storage* storage) noexcept nogil

# Whether only the caller and queued calls have references, and the memory is a pool's: then a call after those may
# overwrite it.
cdef bint is_exclusive(Storage* storage) noexcept nogil

# Whether it holds its values (or never will), and the error that kept its call from writing it: a copy, or NULL.
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
