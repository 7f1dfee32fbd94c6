"""Memory of a device that has its own, kept from call to call."""

from libc.stdint cimport int32_t, int64_t

from refxla._core.opencl cimport Handle


# A device's memory: all that lies in one is reached by the same kernels. It lives as long as the process.
cdef struct Space:
    Handle context
    Handle queue  # of copies that wait until they are done, one at a time
    void* mutex
    size_t limit  # bytes that may be obtained
    size_t live  # bytes that are out
    size_t kept  # bytes that were given back, and wait in `free`
    int64_t released  # how often kept memory went back to the device: handles may name other memory since
    Free** free  # by size class


# Memory that waits for a size of its class.
cdef struct Free:
    Handle handle
    Free* next


# The memory of a pyopencl device in its context. Raises DeviceError.
cdef Space* space_of(object context, object device) except NULL

# A buffer of at least `size` bytes with undefined contents, and its size class, for give_back_device; NULL: there is no
# memory for it. The device must have ended all work with memory that is given back.
cdef Handle obtain_device(Space* space, size_t size, int* order) noexcept nogil
cdef void give_back_device(Space* space, Handle handle, int order) noexcept nogil

# Copy bytes and wait until they are there; OpenCL's status.
cdef int32_t upload(Space* space, Handle target, const void* source, size_t size) noexcept nogil
cdef int32_t download(Space* space, void* target, Handle source, size_t size) noexcept nogil
