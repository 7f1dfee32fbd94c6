"""The events and the buffers that PJRT's functions return."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.pjrt_interface cimport TYPES
from refxla._core.storage cimport Storage

cdef enum:  # kinds of memory
    DEVICE_MEMORY  # the default
    PINNED_HOST_MEMORY
    UNPINNED_HOST_MEMORY
    MEMORY_KINDS


cdef struct Memory:
    int number
    int kind_number  # of the kinds above
    const char* kind
    size_t kind_size
    const char* name
    size_t name_size
    Device* device
    void** devices  # the same one, as a list


cdef struct Device:
    int number
    Memory* memories  # one of each kind
    const char* name
    size_t name_size
    const char* kind
    size_t kind_size


# An array on a device: dense, row-major, one byte per element for types of less than eight bits.
cdef struct Buffer:
    int64_t references  # one for the handle, one for all external readers of its memory
    int64_t outside  # the number of external readers of its memory
    uint8_t lock
    uint8_t donated  # to the call that is being prepared
    Storage* storage  # NULL once the buffer is deleted or donated
    Storage* external_storage  # read externally, which outlives a deletion
    Memory* memory
    size_t bytes
    int element_type
    int rank
    int64_t* dimensions  # stored after this structure, followed by minor_to_major
    int64_t* minor_to_major


cdef size_t ELEMENT_BYTES[TYPES]

# The event of finished work; any other is a Completion.
cdef void* READY

# A buffer that takes over a reference to its storage; NULL: no memory.
cdef Buffer* new_buffer(Storage* storage, Memory* memory, int element_type, const int64_t* dimensions, int rank) noexcept nogil
# The storage, with a reference to it; NULL if the buffer is deleted.
cdef Storage* storage_of(Buffer* buffer) noexcept nogil
cdef void delete_buffer(Buffer* buffer) noexcept nogil
cdef void destroy_buffer(Buffer* buffer) noexcept nogil

# Enters the functions of this file into the table.
cdef void add_functions(void** functions) noexcept nogil
