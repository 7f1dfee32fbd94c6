# Which arguments a run overwrites, and which results are in their memory: see argument_aliasing.pyx.

from libc.stdint cimport int32_t, uint8_t

from refxla._core.arguments cimport Form


# A parameter whose memory a run changes: it is donated to the call, or copied first.
cdef struct OverwrittenParameter:
    int32_t parameter
    int32_t result  # in its memory, or -1
    void* copy  # in this call, on the host: the memory of a copy that is not a result's, or NULL
    int order  # its size class, for giving it back to the pool


# The aliasing of a plan, and what each call gives away.
cdef struct Aliasing:
    OverwrittenParameter* overwritten
    int32_t overwritten_count
    int32_t* homes  # for each parameter: the result in its memory, or -1
    int32_t* result_homes  # for each result: the parameter in whose memory it is, or -1
    uint8_t* is_overwritten  # of each parameter
    uint8_t* donated  # for each parameter: whether an array that stays on a device is given away with a call
    uint8_t* is_donated  # of each parameter, in this call: whether its memory was given away


cdef int prepare_aliasing(Aliasing* aliasing, object plan) except -1
cdef int copy_overwritten(Aliasing* aliasing, Form* parameters, void** inputs, void** outputs) noexcept nogil
cdef void end_copies(Aliasing* aliasing) noexcept nogil
cdef void free_aliasing(Aliasing* aliasing) noexcept nogil
