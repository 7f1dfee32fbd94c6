"""Launch steps: work items run by OpenCL on a thread's queue, or by calls of a kernel's function."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from refxla._core.opencl cimport SUCCESS, Handle, api
from refxla._core.tables cimport table

cdef extern from *:
    """
    /* Arithmetic as IEEE 754 has it by default, whatever the calling thread has set: rounding to nearest, subnormal
       numbers. What was set before is returned, to be set again. */
    #if defined(__x86_64__)
    #include <xmmintrin.h>
    enum { RX_MODES = 0xe040 };
    static inline unsigned long rx_set_modes(unsigned long before, unsigned long now) {
        if (before & RX_MODES) _mm_setcsr((unsigned)now);
        return before;
    }
    static inline unsigned long rx_modes(void) { return _mm_getcsr(); }
    #elif defined(__aarch64__)
    enum { RX_MODES = 0x1c80000 };
    static inline unsigned long rx_set_modes(unsigned long before, unsigned long now) {
        if (before & RX_MODES) __asm__ volatile("msr fpcr, %0" : : "r"(now));
        return before;
    }
    static inline unsigned long rx_modes(void) {
        unsigned long modes;
        __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
        return modes;
    }
    #else
    enum { RX_MODES = 0 };
    static inline unsigned long rx_set_modes(unsigned long before, unsigned long now) { return before; }
    static inline unsigned long rx_modes(void) { return 0; }
    #endif

    static inline unsigned long rx_default_modes(void) {
        const unsigned long before = rx_modes();
        return rx_set_modes(before, before & ~(unsigned long)RX_MODES);
    }
    static inline void rx_restore_modes(unsigned long before) { rx_set_modes(before, before); }
    """
    unsigned long rx_default_modes() nogil
    void rx_restore_modes(unsigned long before) nogil

cdef enum:
    CONTEXT = 256  # bytes of the launch context passed to a kernel that is called, all zeros: it reads none of it

cdef char _context[CONTEXT]


cdef int prepare_launch(Launch* step, Machine* machine, list buffers, int pointers) except -1:
    """Prepares a step with the buffers of these numbers, whose function takes at least so many pointers."""
    cdef int32_t n
    step.machine = machine
    # The function never reads the arguments beyond the kernel's own: repeat the first one.
    step.count = max(len(buffers), pointers) if buffers else 0
    step.buffers = <int32_t*> table(step.count, sizeof(int32_t))
    step.kernels = <Handle*> table(machine.members, sizeof(Handle))
    step.bases = <int32_t*> table(machine.members, sizeof(int32_t))
    step.current = <void**> table(machine.members * step.count, sizeof(void*))
    for n in range(step.count):
        step.buffers[n] = buffers[n if n < len(buffers) else 0]
    return 0


cdef void free_launch(Launch* step) noexcept nogil:
    """Frees what a step has."""
    cdef int32_t who
    for who in range(step.machine.members if step.kernels != NULL else 0):
        if step.kernels[who] != NULL:
            api.release_kernel(step.kernels[who])
    free(step.kernels)
    free(step.arguments)
    free(step.bases)
    free(step.buffers)
    free(step.current)


cdef int run_items(void* step, int who, int begin, int count) noexcept nogil:
    """Runs so many items of a launch step in this thread, which has that number in the pool. Returns OpenCL's
    status."""
    cdef Launch* launch = <Launch*> step
    cdef int status = SUCCESS
    if launch.call != NULL:
        call_kernel(launch, who, begin, count)
        return SUCCESS
    if launch.kernels[who] == NULL:
        status = make_kernel(launch, who)
    if status == SUCCESS:
        status = enqueue(launch, who, begin, count)
    if status == SUCCESS and launch.machine.members > 1:
        status = api.finish(launch.machine.queues[who])
    return status


cdef int prepare_arguments(Launch* step) except -1:
    """Creates the arguments of a step's function for each thread."""
    cdef int members = step.machine.members
    cdef int who
    cdef int32_t n
    cdef void** arguments
    step.arguments = <void**> table(members * (step.count + 2), sizeof(void*))
    for who in range(members):
        arguments = step.arguments + who * (step.count + 2)
        arguments[0], arguments[1] = &step.which, &step.bases[who]
        for n in range(step.count):
            arguments[n + 2] = &step.current[who * step.count + n]
    return 0


cdef void call_kernel(Launch* step, int who, int32_t begin, int count) noexcept nogil:
    """Calls the function of a step for so many items, from number `begin` on, in a thread."""
    cdef void** arguments = step.arguments + who * (step.count + 2)
    cdef void** current = step.current + who * step.count
    cdef unsigned long modes
    cdef int32_t n
    for n in range(step.count):
        current[n] = step.machine.address[step.buffers[n]]
    modes = rx_default_modes()
    for n in range(begin, begin + count):
        step.bases[who] = n
        step.call(arguments, _context, 0, 0, 0)
    rx_restore_modes(modes)


cdef int make_kernel(Launch* step, int who) noexcept nogil:
    """Creates the kernel object of a thread. Returns OpenCL's status."""
    cdef int32_t n, status = SUCCESS
    cdef int64_t offset
    cdef Handle kernel = api.create_kernel(step.program, step.function, &status)
    if status != SUCCESS:
        return status
    step.kernels[who] = kernel
    status = api.set_kernel_arg(kernel, 0, sizeof(int32_t), &step.which)
    if status == SUCCESS:
        status = api.set_kernel_arg(kernel, 1, sizeof(int32_t), &step.bases[who])
    for n in range(step.count if step.machine.access == BUFFER else 0):
        if status == SUCCESS:
            offset = step.machine.offsets[step.buffers[n]]
            status = api.set_kernel_arg(kernel, 2 + step.count + n, sizeof(int64_t), &offset)
    return status


cdef int enqueue(Launch* step, int who, int32_t begin, size_t items) noexcept nogil:
    """Enqueues so many items of a step, from number `begin` on, on a thread's queue. Returns OpenCL's status."""
    cdef Machine* machine = step.machine
    cdef Handle kernel = step.kernels[who]
    cdef void** current = step.current + who * step.count
    cdef int32_t n
    cdef int status
    cdef void* pointer
    if begin != step.bases[who]:
        status = api.set_kernel_arg(kernel, 1, sizeof(int32_t), &begin)
        if status != SUCCESS:
            return status
        step.bases[who] = begin
    for n in range(step.count):
        pointer = machine.address[step.buffers[n]]
        if pointer != current[n]:
            if machine.access == BUFFER:
                status = api.set_kernel_arg(kernel, n + 2, sizeof(Handle), &pointer)
            else:
                status = api.set_kernel_arg_svm(kernel, n + 2, pointer)
            if status != SUCCESS:
                return status
            current[n] = pointer
    return api.enqueue_kernel(
        machine.queues[who], kernel, 1, NULL, &items, &step.local if step.local else NULL, 0, NULL, machine.event
    )
