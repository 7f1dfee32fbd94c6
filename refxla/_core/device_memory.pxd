"""Memory of a device that has its own, kept between calls."""

from libc.stdint cimport int32_t, int64_t

from refxla._core.opencl cimport Handle


# A device's memory: everything in one is reachable by the same kernels. It lives as long as the process.
cdef struct Space:
    Handle context
    Handle queue  # of copies with a wait, one at a time
    void* mutex
    size_t limit  # bytes that may be obtained
    size_t live  # bytes in use
    size_t free_bytes  # returned bytes, which wait in `free`
    int64_t released  # how often kept memory was returned to the device: since then, handles may name other memory
    Free** free  # by size class


# Memory that waits for a request of its size class.
cdef struct Free:
    Handle handle
    Free* next


# The memory of a pyopencl device in its context. Raises DeviceError.
cdef Space* space_of(object context, object device) except NULL

# A buffer of at least `size` bytes with undefined contents, and its size class, for give_back_device; NULL if there is
# no memory for it. The device must have finished all work with memory that is given back.
cdef Handle obtain_device(Space* space, size_t size, int* order) noexcept nogil
cdef void give_back_device(Space* space, Handle handle, int order) noexcept nogil

# Copies bytes and waits until they are there. Returns OpenCL's status.
cdef int32_t upload(Space* space, Handle target, const void* source, size_t size) noexcept nogil
cdef int32_t download(Space* space, void* target, Handle source, size_t size) noexcept nogil
