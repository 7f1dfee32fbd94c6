"""The executor: a plan as a flat list of numbers, and the loop that runs it on an OpenCL queue."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from refxla._core.arguments cimport Signature
from refxla._core.device_memory cimport Space
from refxla._core.lapack cimport MOST, LapackCall
from refxla._core.opencl cimport Handle

# How kernels reach memory.
cdef enum MemoryAccess:
    HOST = 0  # host pointers are SVM pointers: arguments and results are used where they lie
    BUFFER = 1  # cl_mem objects, and where in them things lie; what lies on the host is copied


# What a run may end with beside OpenCL's status codes, which are 0 and negative.
cdef enum:
    INTERRUPTED = 1  # by a signal handler that raised
    HOST_FAILED = 3  # a host function raised
    REENTERED = 2  # a signal handler calls the executor whose call it interrupts


# A kernel as a function: `arguments` has a pointer to each argument; the item is the one that `base` names.
ctypedef void (*Function)(void** arguments, void* context, size_t x, size_t y, size_t z) noexcept nogil


# What all launch steps of an executor have in common.
cdef struct Machine:
    MemoryAccess access
    int members  # threads that share a launch, each with a queue and kernels of its own
    Handle* queues
    void** address  # of each buffer: a pointer; under BUFFER the cl_mem that it lies in,
    int64_t* offsets  # and how many bytes from its beginning
    Handle* event  # where the event of what is enqueued goes; NULL: none is wanted


# One launch step. A step owns a kernel object for each thread, so that an argument is set again only when it has
# changed.
cdef struct Launch:
    Machine* machine
    Function call  # NULL: it is launched by OpenCL
    void** arguments  # of each thread: what `call` takes, pointing to `which`, its own of `bases` and of `current`
    Handle program
    const char* function
    Handle* kernels  # NULL until a thread needs its own
    size_t items
    size_t local  # work items in a group; 0 leaves it to the device
    int32_t which
    int32_t* bases  # the item that each thread's kernel was last to begin with
    int32_t count  # pointer arguments
    int32_t* buffers  # the number of each argument's buffer
    void** current  # the pointer that each argument of each thread's kernel was last set to
    int32_t number  # the kernel's number in the plan, for messages


# One call of a library. `work` has, for each thread, memory of `call.scratch` bytes, or NULL until it needs it.
cdef struct LibraryCall:
    LapackCall* call
    void** address  # of each buffer of the plan
    int32_t* buffers  # of each operand and result: its number; -1 where it is not in memory
    char* first[MOST]  # in this call: where each lies
    char** work
    int64_t matrices
    int64_t items  # what threads share: as many matrices each as the call does at once
    int members  # threads that share the items
    int library_threads  # that the library may use for a matrix
    int64_t base  # the item that the threads begin with


# A buffer whose address differs from call to call: it is an argument, or a result.
cdef struct Moving:
    int32_t buffer
    int32_t index
    bint result


# Memory on the device that an executor owns; NULL: none.
cdef struct Owned:
    Handle handle
    int order  # what the device's memory takes it back with


# A parameter whose memory a run changes: it is given away with the call, or copied first.
cdef struct Overwritten:
    int32_t parameter
    int32_t result  # that lies in its memory, or -1
    void* copy  # in this call, on the host: the memory of a copy that is no result's, or NULL
    int order  # what the pool takes it back with


cdef class Executor:
    cdef readonly object plan
    cdef readonly Signature signature
    cdef bint single  # the program returns one array, not a tuple
    cdef object keep  # what must outlive the executor: program, queue, context
    cdef list blocks  # what owns the host memory of the constants, the arena, the workspace
    cdef object error  # what a signal handler or a host function raised during a call
    cdef bint calls_host  # whether it calls functions of the host
    cdef int64_t last_ns  # what the last run took, or 0
    cdef int64_t usual_ns  # the shorter of the last two: a thread that has to wait for a processor says little
    cdef int64_t* cancelled  # in a run that waits for no signals: whether it is to end
    cdef list host_calls  # of each: (key, operands, results), buffers as (number, dtype, shape)
    cdef void* lock
    cdef long owner  # the thread that holds the lock, or 0
    cdef MemoryAccess access
    cdef bint calls_kernels  # as functions, and does all else itself: nothing is ever in the queue
    cdef Machine machine
    cdef Handle queue
    cdef int64_t* code
    cdef Launch* launches
    cdef int32_t launch_count
    cdef LibraryCall* library_calls
    cdef int32_t library_call_count
    cdef void** address  # of each buffer: a pointer, or under BUFFER the cl_mem that it lies in
    cdef int64_t* size  # of each buffer, in bytes
    cdef Moving* moving
    cdef int32_t moving_count
    cdef void** inputs  # of each argument, in this call: its data
    cdef void** outputs  # of each result, in this call: its data
    cdef Overwritten* overwritten
    cdef int32_t overwritten_count
    cdef uint8_t* donated  # of each parameter: whether an array that stays on a device is given away with a call
    cdef uint8_t* given  # of each parameter, in this call: whether its memory was given away
    # Of a device with memory of its own, which is `space` (else NULL):
    cdef Space* space
    cdef Handle* resident_inputs  # of each argument, in this call: where the device has it; NULL: the host has it
    cdef Handle* resident_outputs  # of each result, in this call: where the device is to have it; NULL: the host is
    cdef Owned* staged_inputs  # where the device has copies of arguments that the host has, and of what it overwrites
    cdef Owned* staged_outputs
    cdef Handle* input_roots  # of each argument, in this call: where the device has it
    cdef Handle* output_roots
    cdef int32_t* homes  # of each argument: the result that lies in its memory, or -1
    cdef int32_t* result_homes  # of each result: the argument whose memory it lies in, or -1
    cdef uint8_t* is_overwritten  # of each argument
    cdef int64_t released  # what `space.released` was in the last call
    cdef int parameter_count, result_count  # for the end, when there may be no signature any more
    cdef Owned* roots  # memory that lasts from call to call
    cdef int root_count
    cdef int64_t* offsets  # of each buffer: where it lies in its cl_mem
    cdef int64_t* iteration  # of each Repeat: the one it is in
    cdef int64_t pending  # launches since the queue was last known to be empty
    cdef int32_t failed  # the launch step that an error came from, or -1
    cdef int64_t* events  # of a traced call: (kind, number, begin, end) of each step that ran; else NULL
    cdef Handle event  # of the step that was enqueued last in a traced call, on a device with memory of its own, or NULL
    cdef int64_t room  # rows of `events`
    cdef int64_t noted  # steps that ran

    # New arrays for the results, and a run into them from arguments whose data is of the parameters' types and shapes.
    cdef list results(self)
    cdef int execute(self, void** data, list results) except -1

    cdef object root(self, size_t size, object content)
    cdef object zeroed(self, size_t size)

    # A call without the GIL: acquire (0, or REENTERED), fill `inputs` and `outputs`, run, release. What lies on a device
    # with memory of its own is named in `resident_inputs` and `resident_outputs` instead, which are NULL again before
    # the release. Of a parameter that is given away, set `given`, and let the output that lies in its memory be its
    # input. `fail` raises the error of
    # what a run, or acquire, ended with; it is called before release.
    cdef int acquire(self) noexcept nogil
    cdef int run(self) noexcept nogil
    cdef int fail(self, int status) except -1
    cdef void release(self) noexcept nogil

    cdef int interpret(self) noexcept nogil
    cdef int finish(self) noexcept nogil
    cdef int note(self, int64_t kind, int64_t number, int64_t begun) noexcept nogil
    cdef int launch(self, Launch* step) noexcept nogil
    cdef int library_call(self, LibraryCall* step) noexcept nogil
    cdef int count(self, int64_t* repeat) noexcept nogil
    cdef int copy(self, int64_t source, int64_t target) noexcept nogil
    cdef Handle staged(self, Owned* memory, size_t size) noexcept nogil
    cdef int place_arguments(self) noexcept nogil
    cdef int place_results(self) noexcept nogil
    cdef int read(self, int64_t buffer, void* target, size_t size) noexcept nogil
    cdef int make_copies(self) noexcept nogil
    cdef void end_copies(self) noexcept nogil
    cdef int move(self) noexcept nogil
    cdef int fetch(self) noexcept nogil
    cdef int interrupted(self) noexcept nogil
    cdef int host_call(self, int64_t n) noexcept nogil
    cdef int call_host(self, int64_t n) except -1
    cdef object array_of(self, tuple buffer)
