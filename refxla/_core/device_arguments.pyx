"""The arguments and results of calls on a device with its own memory: they stay there between calls, or are copied."""

from libc.stdlib cimport free

from refxla._core.opencl cimport SUCCESS, Handle, api
from refxla._core.argument_aliasing cimport Aliasing
from refxla._core.arguments cimport Form
from refxla._core.device_memory cimport Space, give_back_device, obtain_device
from refxla._core.tables cimport table

cdef enum:
    OUT_OF_DEVICE_MEMORY = -4  # MEM_OBJECT_ALLOCATION_FAILURE


cdef int prepare_device_arguments(
    DeviceArguments* device, Form* parameters, int parameter_count, Form* results, int result_count
) except -1:
    """Prepares the tables for calls with these parameters and results, which must outlive them."""
    device.parameters, device.parameter_count = parameters, parameter_count
    device.results, device.result_count = results, result_count
    device.inputs = <Handle*> table(parameter_count, sizeof(Handle))
    device.outputs = <Handle*> table(result_count, sizeof(Handle))
    device.staged_inputs = <DeviceBlock*> table(parameter_count, sizeof(DeviceBlock))
    device.staged_outputs = <DeviceBlock*> table(result_count, sizeof(DeviceBlock))
    device.input_roots = <Handle*> table(parameter_count, sizeof(Handle))
    device.output_roots = <Handle*> table(result_count, sizeof(Handle))
    return 0


cdef int place_arguments(
    DeviceArguments* device, Aliasing* aliasing, Handle queue, void** host_inputs
) noexcept nogil:
    """Ensures that each argument is on the device, and that those that are overwritten are not in memory that others
    may read. Returns OpenCL's status."""
    cdef int n, status
    cdef size_t size
    cdef Handle root
    cdef Handle target
    for n in range(device.parameter_count):
        size = device.parameters[n].bytes
        root = device.inputs[n]
        if root == NULL or (aliasing.is_overwritten[n] and not aliasing.is_donated[n]):
            target = NULL if aliasing.homes[n] < 0 else device.outputs[aliasing.homes[n]]
            if target == NULL:
                target = staged(device, &device.staged_inputs[n], size)
            if target == NULL:
                return OUT_OF_DEVICE_MEMORY
            status = SUCCESS
            if size and root == NULL:
                status = api.write_buffer(queue, target, 0, 0, size, host_inputs[n], 0, NULL, NULL)
            elif size:
                status = api.copy_buffer(queue, root, target, 0, 0, size, 0, NULL, NULL)
            if status != SUCCESS:
                return status
            root = target
        device.input_roots[n] = root
    return SUCCESS


cdef int place_results(DeviceArguments* device, Aliasing* aliasing) noexcept nogil:
    """Ensures that each result has memory on the device, after the arguments were placed. Returns OpenCL's status."""
    cdef int n
    cdef Handle root
    for n in range(device.result_count):
        root = device.outputs[n]
        if root == NULL and aliasing.result_homes[n] < 0:
            root = staged(device, &device.staged_outputs[n], device.results[n].bytes)
            if root == NULL:
                return OUT_OF_DEVICE_MEMORY
        device.output_roots[n] = device.input_roots[aliasing.result_homes[n]] if aliasing.result_homes[n] >= 0 else root
    return SUCCESS


cdef bint names_other_memory(DeviceArguments* device) noexcept nogil:
    """Whether handles that were set in kernels before the last call of this function may name other memory now."""
    if device.space.released == device.released:
        return False
    device.released = device.space.released
    return True


cdef Handle staged(DeviceArguments* device, DeviceBlock* block, size_t size) noexcept nogil:
    """The device memory for an argument or a result on the host, which is kept."""
    if block.handle == NULL:
        block.handle = obtain_device(device.space, size, &block.order)
    return block.handle


cdef int fetch_results(DeviceArguments* device, Handle queue, void** host_outputs) noexcept nogil:
    """Copies the results for the host from the device, without a wait. Returns OpenCL's status."""
    cdef int n, status
    cdef size_t size
    for n in range(device.result_count):
        size = device.results[n].bytes
        if size == 0 or device.outputs[n] != NULL:
            continue
        status = api.read_buffer(queue, device.output_roots[n], 0, 0, size, host_outputs[n], 0, NULL, NULL)
        if status != SUCCESS:
            return status
    return SUCCESS


cdef void free_device_arguments(DeviceArguments* device) noexcept nogil:
    """Gives back and frees what it has."""
    give_back_blocks(device.space, device.staged_inputs, device.parameter_count)
    give_back_blocks(device.space, device.staged_outputs, device.result_count)
    free(device.inputs)
    free(device.outputs)
    free(device.input_roots)
    free(device.output_roots)


cdef void give_back_blocks(Space* space, DeviceBlock* blocks, int count) noexcept nogil:
    """Gives back the memory of blocks, and frees them."""
    cdef int n
    for n in range(count if blocks != NULL else 0):
        if blocks[n].handle != NULL:
            give_back_device(space, blocks[n].handle, blocks[n].order)
    free(blocks)
