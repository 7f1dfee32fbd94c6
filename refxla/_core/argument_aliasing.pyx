"""Arguments whose memory a run changes: results are placed in it, or the program works in it.

A call may give such an argument away; the run copies those that were not given away first.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from refxla._core.opencl cimport SUCCESS
from refxla._core.arguments cimport Form
from refxla._core.buffer_pool cimport give_back, obtain
from refxla._core.tables cimport table

cdef enum:
    OUT_OF_HOST_MEMORY = -6  # OpenCL's status


cdef int prepare_aliasing(Aliasing* aliasing, object plan) except -1:
    """Fills in what does not change between calls."""
    cdef int32_t n
    cdef int parameters = len(plan.parameters), results = len(plan.results)
    aliasing.homes = <int32_t*> table(parameters, sizeof(int32_t))
    aliasing.result_homes = <int32_t*> table(results, sizeof(int32_t))
    aliasing.is_overwritten = <uint8_t*> table(parameters, 1)
    aliasing.is_donated = <uint8_t*> table(parameters, 1)
    aliasing.donated = <uint8_t*> table(parameters, 1)
    aliasing.overwritten = <OverwrittenParameter*> table(len(plan.overwritten), sizeof(OverwrittenParameter))
    aliasing.overwritten_count = len(plan.overwritten)
    for n in range(parameters):
        aliasing.homes[n] = -1
    for n in range(results):
        aliasing.result_homes[n] = -1
    for result, parameter in plan.aliases:
        aliasing.homes[<int> parameter], aliasing.result_homes[<int> result] = result, parameter
        aliasing.is_overwritten[<int> parameter] = 1
    for n, parameter in enumerate(plan.overwritten):
        aliasing.overwritten[n].parameter, aliasing.overwritten[n].result = parameter, aliasing.homes[<int> parameter]
        aliasing.is_overwritten[<int> parameter] = 1
    for parameter in plan.donated:
        aliasing.donated[<int> parameter] = 1
    return 0


cdef int copy_overwritten(Aliasing* aliasing, Form* parameters, void** inputs, void** outputs) noexcept nogil:
    """Copies the arguments on the host that the run overwrites and that were not given away: to their results, or to
    memory of their own. `inputs` then has the copies. Returns OpenCL's status."""
    cdef int32_t n
    cdef OverwrittenParameter* each
    cdef void* target
    cdef size_t size
    for n in range(aliasing.overwritten_count):
        each = &aliasing.overwritten[n]
        if aliasing.is_donated[each.parameter]:
            continue
        size = parameters[each.parameter].bytes
        if each.result >= 0:
            target = outputs[each.result]
        else:
            target = each.copy = obtain(size, &each.order)
            if target == NULL:
                return OUT_OF_HOST_MEMORY
        memcpy(target, inputs[each.parameter], size)
        inputs[each.parameter] = target
    return SUCCESS


cdef void end_copies(Aliasing* aliasing) noexcept nogil:
    """Ends a call: gives back the memory of its copies, and forgets what it was given."""
    cdef int32_t n
    cdef OverwrittenParameter* each
    for n in range(aliasing.overwritten_count):
        each = &aliasing.overwritten[n]
        aliasing.is_donated[each.parameter] = 0
        if each.copy != NULL:
            give_back(each.copy, each.order)
            each.copy = NULL


cdef void free_aliasing(Aliasing* aliasing) noexcept nogil:
    """Frees what it has."""
    free(aliasing.overwritten)
    free(aliasing.homes)
    free(aliasing.result_homes)
    free(aliasing.is_overwritten)
    free(aliasing.donated)
    free(aliasing.is_donated)
