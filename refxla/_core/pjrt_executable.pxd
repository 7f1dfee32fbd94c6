"""The executables of PJRT's interface."""

from libc.stdint cimport int64_t, uint8_t

from refxla._core.pjrt_objects cimport Device

# A compiled program: loaded and unloaded executables are the same, with a reference for each handle.
cdef struct Executable:
    int64_t references
    void* program  # the Python object from which all of this was read; a reference is owned
    void* executor  # its Executor
    int device_count
    Device** devices  # the devices it runs on; row r has those of replica r
    size_t replicas, partitions
    int parameter_count  # of a device
    uint8_t* donated  # for each parameter: whether callers give it away
    int result_count  # of a device
    int* types  # of each result
    size_t* ranks
    int64_t* dimensions  # of all results, concatenated
    size_t* bytes
    int* kinds  # the numbers of the kinds of the results' memories
    const char** memory_kinds  # their names
    size_t* memory_kind_sizes
    void* properties  # of the cost analysis: named values
    size_t property_count
    int64_t memory[5]  # bytes of code, arguments, results, aliases, temporaries
    const char* name
    size_t name_size
    const char* fingerprint
    size_t fingerprint_size
    uint8_t deleted
    Executable* next  # in the list of those to destroy


cdef void add_functions(void** functions) noexcept nogil
