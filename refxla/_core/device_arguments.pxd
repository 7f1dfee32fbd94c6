# The arguments and results of calls on a device with its own memory: see device_arguments.pyx.

from libc.stdint cimport int64_t

from refxla._core.argument_aliasing cimport Aliasing
from refxla._core.arguments cimport Form
from refxla._core.device_memory cimport Space
from refxla._core.opencl cimport Handle


# Device memory that an executor owns; NULL: none.
cdef struct DeviceBlock:
    Handle handle
    int order  # its size class, for giving it back


# Where they are. `space` is NULL for a device that uses the host's memory, where nothing of this is used.
cdef struct DeviceArguments:
    Space* space
    Form* parameters
    Form* results
    int parameter_count, result_count
    Handle* inputs  # for each argument, in this call: its device memory; NULL: it is on the host
    Handle* outputs  # for each result, in this call: its device memory; NULL: it goes to the host
    DeviceBlock* staged_inputs  # device copies of host arguments, and of arguments that the run overwrites
    DeviceBlock* staged_outputs
    Handle* input_roots  # for each argument, in this call: the device memory that kernels read
    Handle* output_roots
    int64_t released  # the value of `space.released` in the last call


cdef int prepare_device_arguments(
    DeviceArguments* device, Form* parameters, int parameter_count, Form* results, int result_count
) except -1
cdef int place_arguments(
    DeviceArguments* device, Aliasing* aliasing, Handle queue, void** host_inputs
) noexcept nogil
cdef int place_results(DeviceArguments* device, Aliasing* aliasing) noexcept nogil
cdef bint names_other_memory(DeviceArguments* device) noexcept nogil
cdef int fetch_results(DeviceArguments* device, Handle queue, void** host_outputs) noexcept nogil
cdef void free_device_arguments(DeviceArguments* device) noexcept nogil
cdef void give_back_blocks(Space* space, DeviceBlock* blocks, int count) noexcept nogil
