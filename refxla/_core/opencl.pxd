"""OpenCL's C functions as pointers, and its status codes as text."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

ctypedef void* Handle  # cl_command_queue, cl_kernel, cl_program, cl_mem, cl_context, cl_event

cdef enum:
    SUCCESS = 0


cdef struct Api:
    Handle (*create_kernel)(Handle program, const char* name, int32_t* status) noexcept nogil
    int32_t (*release_kernel)(Handle kernel) noexcept nogil
    int32_t (*set_kernel_arg)(Handle kernel, uint32_t number, size_t size, const void* value) noexcept nogil
    int32_t (*set_kernel_arg_svm)(Handle kernel, uint32_t number, const void* value) noexcept nogil
    int32_t (*enqueue_kernel)(
        Handle queue, Handle kernel, uint32_t rank, const size_t* offset, const size_t* size, const size_t* local,
        uint32_t waits, const void* wait_list, void* event
    ) noexcept nogil
    int32_t (*finish)(Handle queue) noexcept nogil
    int32_t (*svm_copy)(
        Handle queue, uint32_t blocking, void* target, const void* source, size_t size,
        uint32_t waits, const void* wait_list, void* event
    ) noexcept nogil
    Handle (*create_buffer)(Handle context, uint64_t flags, size_t size, void* host, int32_t* status) noexcept nogil
    int32_t (*release_buffer)(Handle buffer) noexcept nogil
    int32_t (*write_buffer)(
        Handle queue, Handle buffer, uint32_t blocking, size_t offset, size_t size, const void* host,
        uint32_t waits, const void* wait_list, void* event
    ) noexcept nogil
    int32_t (*read_buffer)(
        Handle queue, Handle buffer, uint32_t blocking, size_t offset, size_t size, void* host,
        uint32_t waits, const void* wait_list, void* event
    ) noexcept nogil
    int32_t (*copy_buffer)(
        Handle queue, Handle source, Handle target, size_t source_offset, size_t target_offset, size_t size,
        uint32_t waits, const void* wait_list, void* event
    ) noexcept nogil
    int32_t (*event_time)(
        Handle event, uint32_t name, size_t size, void* value, size_t* value_size
    ) noexcept nogil
    int32_t (*release_event)(Handle event) noexcept nogil


cdef Api api

# Fills `api` from the library that pyopencl itself calls. Raises DeviceError if pyopencl cannot be loaded.
cdef int bind() except -1
