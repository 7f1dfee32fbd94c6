# The executor: see executor.pyx.

from libc.stdint cimport int32_t, int64_t, uint8_t

from refxla._core.argument_aliasing cimport Aliasing
from refxla._core.arguments cimport Signature
from refxla._core.device_arguments cimport DeviceArguments, DeviceBlock
from refxla._core.launch cimport Launch, Machine, MemoryAccess
from refxla._core.library_call cimport LibraryCall
from refxla._core.opencl cimport Handle

# What a run may end with besides OpenCL's status codes, which are 0 and negative.
cdef enum:
    INTERRUPTED = 1  # by a signal handler that raised, or by what asks the process to end in a host function
    HOST_FAILED = 3  # a host function raised
    REENTERED = 2  # a signal handler calls the executor whose call it interrupts
    NOT_ASSEMBLED = 4  # its kernels could not be built


# Whether an executor has its kernels.
cdef enum Assembly:
    PENDING = 0
    ASSEMBLED = 1
    FAILED = 2


# A buffer whose address differs between calls: an argument or a result.
cdef struct CallBuffer:
    int32_t buffer
    int32_t index
    bint result


# In a traced call, what is noted of the steps that ran; see Executor.traced.
cdef struct Trace:
    int64_t* events  # (kind, number, begin, end) of each step; NULL: the call is not traced
    int64_t rows  # of `events`
    int64_t count  # steps that ran
    Handle event  # of the last enqueued step, on a device with its own memory, or NULL


cdef class Executor:
    cdef readonly object plan
    cdef readonly Signature signature
    cdef bint single  # the program returns one array, not a tuple
    cdef object keep  # must outlive the executor: queue, context, other queues, then programs and what they need
    cdef size_t local  # work items in a work-group of kernels without one of their own, or 0
    cdef Assembly assembly
    cdef object builder  # the Future of another thread's assembly, or None
    cdef list blocks  # the owners of the host memory of the constants, the arena, the workspace
    cdef object error  # raised by a signal handler or a host function during a call
    cdef readonly bint calls_host  # whether it calls host functions
    cdef int64_t last_ns  # the time of the last run, or 0
    # the shorter one of the last two: a run that had to wait for a processor is not representative
    cdef int64_t usual_ns
    cdef int64_t* cancelled  # in a run that does not handle signals: whether it should end
    cdef list host_calls  # for each: (key, operands, results), buffers as (number, dtype, shape)
    cdef void* lock
    cdef long owner  # the thread that holds the lock, or 0
    cdef MemoryAccess access
    cdef bint calls_kernels  # as functions, and does everything else itself: nothing is ever in the queue
    cdef Machine machine
    cdef Handle queue
    cdef int64_t* code
    cdef Launch* launches
    cdef int32_t launch_count
    cdef LibraryCall* library_calls
    cdef int32_t library_call_count
    cdef void** address  # of each buffer: a pointer, or under BUFFER the cl_mem that it lies in
    cdef int64_t* size  # of each buffer, in bytes
    cdef CallBuffer* call_buffers
    cdef int32_t call_buffer_count
    cdef void** inputs  # of each argument, in this call: its data
    cdef void** outputs  # of each result, in this call: its data
    cdef Aliasing aliasing
    cdef DeviceArguments device
    cdef DeviceBlock* roots  # memory that is kept between calls
    cdef int root_count
    cdef int64_t* offsets  # for each buffer: its offset in its cl_mem
    cdef int64_t* iteration  # for each Repeat: its current iteration
    cdef int64_t pending  # launches since the queue was last known to be empty
    cdef readonly int64_t reads  # of the last call: how often the host waited to read a predicate or an operand
    cdef int32_t failed  # the launch step that failed, or -1
    cdef Trace trace

    # New arrays for the results, and a run into them with argument data of the parameters' types and shapes.
    cdef list results(self)
    cdef int execute(self, void** data, list results) except -1

    cdef object root(self, size_t size, str purpose, object content)
    cdef object zeroed(self, size_t size)

    # A call without the GIL: acquire (0, or REENTERED), fill `inputs` and `outputs`, run, release. Data on a device
    # with its own memory goes into `device.inputs` and `device.outputs` instead, which must be NULL again before the
    # release. For a parameter that is given away, set `aliasing.is_donated`, and make its input the output in its memory.
    # `fail` raises the error with which a run, or acquire, ended; call it before release.
    cdef int acquire(self) noexcept nogil
    cdef int run(self) noexcept nogil
    cdef int fail(self, int status) except -1
    cdef void release(self) noexcept nogil

    cdef int interpret(self) noexcept nogil
    cdef int finish(self) noexcept nogil
    cdef int step(self, int64_t* code) noexcept nogil
    cdef int note(self, int64_t* code, int64_t begun) noexcept nogil
    cdef int launch(self, Launch* step) noexcept nogil
    cdef int library_call(self, LibraryCall* step) noexcept nogil
    cdef int count(self, int64_t* repeat) noexcept nogil
    cdef int poll(self, int64_t* poll, uint8_t* pred) noexcept nogil
    cdef int copy(self, int64_t source, int64_t target) noexcept nogil
    cdef int read(self, int64_t buffer, void* target, size_t size) noexcept nogil
    cdef int move(self) noexcept nogil
    cdef int interrupted(self) noexcept nogil
    cdef int host_call(self, int64_t n) noexcept nogil
    cdef int call_host(self, int64_t n) except -1
    cdef object array_of(self, tuple buffer)
