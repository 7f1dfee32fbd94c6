# Launch steps: see launch.pyx.

from libc.stdint cimport int32_t, int64_t

from refxla._core.opencl cimport Handle

# How kernels reach memory.
cdef enum MemoryAccess:
    HOST = 0  # host pointers are SVM pointers: arguments and results are used in place
    BUFFER = 1  # cl_mem objects and offsets in them; host data is copied


# A kernel as a function: `arguments` has a pointer to each argument; `base` selects the item.
ctypedef void (*Function)(void** arguments, void* context, size_t x, size_t y, size_t z) noexcept nogil


# What all launch steps of an executor share.
cdef struct Machine:
    MemoryAccess access
    int members  # threads that share a launch, each with its own queue and kernels
    Handle* queues
    void** address  # for each buffer: a pointer; under BUFFER its cl_mem,
    int64_t* offsets  # and its offset in that in bytes
    Handle* event  # where the event of an enqueued command goes; NULL: none is wanted


# One launch step. It has a kernel object for each thread, so that an argument is set again only when it has changed.
cdef struct Launch:
    Machine* machine
    Function call  # NULL: OpenCL launches it
    # for each thread: the arguments of `call`, pointing to `which` and to the thread's entries of `bases` and `current`
    void** arguments
    Handle program
    const char* function
    Handle* kernels  # NULL until a thread needs one
    size_t items
    size_t local  # work items in a work-group; 0 leaves it to the device
    int32_t which
    int32_t* bases  # the first item that was last set in each thread's kernel
    int32_t count  # pointer arguments
    int32_t* buffers  # the number of each argument's buffer
    void** current  # the pointer that was last set for each argument of each thread's kernel
    int32_t number  # the kernel's number in the plan, for messages


cdef int prepare_launch(Launch* step, Machine* machine, list buffers, int pointers) except -1
cdef int prepare_arguments(Launch* step) except -1
cdef int make_kernel(Launch* step, int who) noexcept nogil
cdef int run_items(void* step, int who, int begin, int count) noexcept nogil
cdef void free_launch(Launch* step) noexcept nogil
