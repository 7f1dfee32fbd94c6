"""The executor: runs the code of a plan (plan_code.pyx), with the arguments and results of a call.

No Python object is touched while it runs, and the GIL is released, except in host functions. The host waits for the
device at the end of a call, and before that only to read a predicate. If there are several queues, which then run their
work in the calling thread, the items of a launch (launch.pyx) are distributed over threads (thread_pool.pyx), and a
launch ends before the next one begins. The matrices of a library call (library_call.pyx) are distributed in the same
way. If the kernels are available as functions (runtime/pocl/kernel_library.py), they are called directly, and the queue
is not used.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.math cimport sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cimport numpy as np

from refxla._core.thread_pool cimport share_out
from refxla._core.opencl cimport SUCCESS, Handle, api, bind
from refxla._core.argument_aliasing cimport OverwrittenParameter
from refxla._core.argument_aliasing cimport copy_overwritten, end_copies, free_aliasing, prepare_aliasing
from refxla._core.arguments cimport Signature
from refxla._core.buffer_pool cimport PoolBlock, take
from refxla._core.device_arguments cimport DeviceBlock, fetch_results, free_device_arguments, give_back_blocks
from refxla._core.device_arguments cimport names_other_memory, place_arguments, place_results, prepare_device_arguments
from refxla._core.device_memory cimport obtain_device, space_of, upload
from refxla._core.lapack cimport Routine, hold_threads, release_threads
from refxla._core.launch cimport BUFFER, HOST, Function, Launch
from refxla._core.launch cimport free_launch, make_kernel, prepare_arguments, prepare_launch, run_items
from refxla._core.library_call cimport LibraryCall, call_library_items, free_library_call, prepare_library_call
from refxla._core.plan_code cimport BEGIN, CALL, COPY, JUMP, LAST_WORK, LAUNCH, NEXT, POLL, REPEAT, SWITCH, UNLESS
from refxla._core.tables cimport table

cdef extern from "Python.h" nogil:  # none of them needs the GIL, which cpython.pythread does not declare
    enum:
        WAIT_LOCK
        NOWAIT_LOCK
    void* PyThread_allocate_lock()
    void PyThread_free_lock(void* lock)
    int PyThread_acquire_lock(void* lock, int wait)
    void PyThread_release_lock(void* lock)
    long PyThread_get_thread_ident()

from threading import current_thread, main_thread

import numpy

from refxla.ir import plan as plans
from refxla.runtime import host_calls
from refxla._core.opencl import status_name
from refxla._core.plan_code import PlanCode
from refxla_spec.errors import DeviceError, Error

np.import_array()

cdef enum:
    CHECK_SIGNALS_NS = 20_000_000
    MOST_PENDING = 1000  # launches in the queue
    MOST_AT_ONCE = 1 << 24  # matrices
    LINE = 64  # bytes of a cache line, to which memory is aligned
    ROOTS = 3  # constants, arena, workspace
    OUT_OF_DEVICE_MEMORY = -4  # MEM_OBJECT_ALLOCATION_FAILURE
    PROFILING_COMMAND_START = 0x1282
    PROFILING_COMMAND_END = 0x1283
    CHUNK_NS = 5_000_000  # matrices that take less are processed several at a time

cdef object _array_type = None  # the class of arrays that stay on a device, once registered
cdef object _array_call = None  # handles a call with such an array


def register_arrays(kind: type, call: object) -> None:
    """Registers how an executor handles arguments of type `kind`: it returns `call(executor, arguments)`."""
    global _array_type, _array_call
    _array_type, _array_call = kind, call


_ACCESS = {"host": HOST, "buffer": BUFFER}


cdef class Executor:
    """Runs a plan.

    `queue` and `context` are pyopencl objects. `access` is "host" or "buffer" (see MemoryAccess), `local` the size of a
    work-group for kernels without one of their own, or 0. `others` are more queues of the same device, one for each
    additional thread; each must run its work in the thread that submits it. `assemble` adds the kernels, perhaps in
    another thread (see `assembled_by`).

    Call it with the flattened arguments; it returns a tuple of new arrays, or the single array of a `plan.single`.
    Calls from several threads run one at a time. Raises DeviceError if the device reports an error.
    """

    def __cinit__(self):
        self.blocks = []
        self.host_calls = []
        self.failed = -1
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __init__(self, plan, queue, context, access="host", local=1, others=()):
        bind()
        if self.roots != NULL:
            raise TypeError("an executor is initialised once")
        self.plan = plan
        self.single = plan.single
        self.calls_host = any(isinstance(step, plans.HostCall) for step in plans.all_steps(plan.steps))
        self.keep = (queue, context, others)
        self.access = _ACCESS[access]
        self.local = local
        self.queue = <Handle> <uintptr_t> queue.int_ptr
        if self.access == BUFFER:
            self.device.space = space_of(context, queue.device)
        self.machine.access, self.machine.members = self.access, 1 + len(others)
        self.machine.queues = <Handle*> table(1 + len(others), sizeof(Handle))
        for n, each in enumerate((queue, *others)):
            self.machine.queues[n] = <Handle> <uintptr_t> each.int_ptr
        names = [f"argument {n}" for n in range(len(plan.parameters))]
        for buffer in plan.buffers:
            if buffer.space == plans.PARAMETER and buffer.offset == 0:
                names[buffer.index] = f"argument {buffer.index} ({buffer.name})"
        self.signature = Signature(plan.parameters, names, plan.results)
        self.place()

    def __dealloc__(self):
        cdef int32_t n
        for n in range(self.launch_count):
            free_launch(&self.launches[n])
        for n in range(self.library_call_count):
            free_library_call(&self.library_calls[n], self.machine.members)
        free(self.library_calls)
        give_back_blocks(self.device.space, self.roots, self.root_count)
        free_device_arguments(&self.device)
        free_aliasing(&self.aliasing)
        free(self.launches)
        free(self.code)
        free(self.iteration)
        free(self.address)
        free(self.offsets)
        free(self.machine.queues)
        free(self.size)
        free(self.call_buffers)
        free(self.inputs)
        free(self.outputs)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    # Setting up ------------------------------------------------------------------------------------------------------

    def place(self):
        """Creates the memory that is kept between calls, fills in the constants, and gives each buffer its address."""
        cdef int32_t n
        cdef Signature signature = self.signature
        plan = self.plan
        count = len(plan.buffers)
        self.roots = <DeviceBlock*> table(ROOTS, sizeof(DeviceBlock))
        self.offsets = self.machine.offsets = <int64_t*> table(count, sizeof(int64_t))
        self.address = self.machine.address = <void**> table(count, sizeof(void*))
        self.size = <int64_t*> table(count, sizeof(int64_t))
        self.call_buffers = <CallBuffer*> table(count, sizeof(CallBuffer))
        self.inputs = <void**> table(signature.parameter_count, sizeof(void*))
        self.outputs = <void**> table(signature.result_count, sizeof(void*))
        prepare_aliasing(&self.aliasing, plan)
        if self.access == BUFFER:
            prepare_device_arguments(
                &self.device, signature.parameters, signature.parameter_count, signature.results, signature.result_count
            )
        constants = numpy.zeros(plan.constant_bytes, numpy.uint8)
        for offset, value in plan.constants:
            raw = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
            constants[offset : offset + raw.size] = raw
        roots = {
            (plans.CONSTANT, 0): self.root(plan.constant_bytes, "the constants of the program", constants),
            (plans.ARENA, 0): self.root(plan.arena_bytes, "the temporary values of the program", None),
            (plans.WORKSPACE, 0): self.zeroed(plan.workspace_bytes),
        }
        for n, buffer in enumerate(plan.buffers):
            self.size[n] = buffer.bytes
            index = buffer.index if buffer.space in (plans.PARAMETER, plans.RESULT) else 0
            if (buffer.space, index) in roots:
                # Sub-buffers would do, too, but NVIDIA's driver crashes when some of them are released.
                inside = buffer.offset if self.access == HOST else 0
                self.address[n] = <void*> <uintptr_t> (roots[buffer.space, index] + inside)
                self.offsets[n] = buffer.offset
            else:
                self.call_buffers[self.call_buffer_count] = CallBuffer(n, index, buffer.space == plans.RESULT)
                self.call_buffer_count += 1

    cdef object root(self, size_t size, str purpose, object content):
        """The address (or cl_mem) of new memory that the executor owns, with `content` (bytes as an array) if given;
        `purpose` is for messages."""
        cdef int32_t status
        cdef int order
        cdef const uint8_t[:] source
        cdef Handle handle
        cdef PoolBlock block
        if self.access == HOST:
            block = take(size, purpose)
            self.blocks.append(block)
            if content is not None and size:
                source = content
                memcpy(block.data, &source[0], size)
            return <uintptr_t> block.data
        handle = obtain_device(self.device.space, size, &order)
        if handle == NULL:
            raise DeviceError(f"the device has no memory left for {purpose}: {size} bytes; use smaller arrays")
        self.roots[self.root_count].handle, self.roots[self.root_count].order = handle, order
        self.root_count += 1
        if content is not None and content.size:
            source = content
            status = upload(self.device.space, handle, &source[0], content.size)
            if status != SUCCESS:
                raise DeviceError(f"constants cannot be copied to the device: {status_name(status)}")
        return <uintptr_t> handle

    cdef object zeroed(self, size_t size):
        """The same with zeros. On the host, kernels are the first to touch its pages."""
        cdef np.ndarray zeros = numpy.zeros(size + LINE, numpy.uint8)
        cdef uintptr_t data
        if self.access != HOST:
            return self.root(size, "the workspace of the program", zeros[:size])
        self.blocks.append(zeros)
        data = <uintptr_t> np.PyArray_DATA(zeros)
        return data + (-data) % LINE

    def assembled_by(self, builder):
        """Another thread assembles the executor, and calls wait for that. `builder` is the Future of its work, which
        ends with `assemble` or `give_up`."""
        self.builder = builder

    def give_up(self):
        """The executor cannot be assembled: its calls raise the error of `builder`."""
        self.assembly = FAILED

    def wait_until_assembled(self):
        """Waits for the thread that assembles the executor, if there is one. Raises the error that kept it from it."""
        if self.builder is not None:
            self.builder.result()

    def assemble(self, entries, programs, pointers=None):
        """Creates the launch steps and the code. `entries` gives, for each kernel of the plan, the function to launch
        and the value of its first argument, `which`; `programs` has the built pyopencl program of each function, which
        may also have `addresses`: those of its kernels as functions. `pointers` says how many pointers a function
        takes, if that is more than its kernels use. Raises DeviceError if the device reports an error."""
        cdef int32_t n, status
        cdef Launch* launch
        if self.code != NULL:
            raise TypeError("an executor is assembled once")
        pointers = pointers or {}
        local = self.local
        names = {function: function.encode() for function in programs}
        self.keep += (programs, names)
        plan_code = PlanCode(self.plan)
        code, steps = plan_code.code, plan_code.launches
        for step in plan_code.host_calls:
            parts = [
                tuple((b, s.element_type.dtype, s.dimensions) for b, s in zip(buffers, shapes, strict=True))
                for buffers, shapes in ((step.operands, step.operand_shapes), (step.results, step.result_shapes))
            ]
            self.host_calls.append((step.key, *parts))
        self.iteration = <int64_t*> table(plan_code.repeats, sizeof(int64_t))
        self.code = <int64_t*> table(len(code), sizeof(int64_t))
        for n in range(len(code)):
            self.code[n] = code[n]
        self.launches = <Launch*> table(len(steps), sizeof(Launch))
        self.launch_count = len(steps)
        addresses = {}
        for program in programs.values():
            addresses.update(getattr(program, "addresses", ()))
        alone = local == 1 and not any(kernel.work_group for kernel in self.plan.kernels)
        within = all(entries[step.kernel][0] in addresses for step in steps)
        self.calls_kernels = self.access == HOST and alone and within
        for n, step in enumerate(steps):
            kernel = self.plan.kernels[step.kernel]
            launch = &self.launches[n]
            function, launch.which = entries[step.kernel]
            if len(step.buffers) != len(kernel.arguments):
                raise ValueError(f"kernel {kernel.name} takes {len(kernel.arguments)} buffers, not {len(step.buffers)}")
            launch.number = step.kernel
            launch.items = kernel.items
            launch.local = kernel.work_group or local
            prepare_launch(launch, &self.machine, list(step.buffers), pointers.get(function, 0))
            if self.calls_kernels:
                launch.call = <Function> <uintptr_t> addresses[function]
                prepare_arguments(launch)
                continue
            launch.program = <Handle> <uintptr_t> programs[function].int_ptr
            launch.function = <bytes> names[function]
            status = make_kernel(launch, 0)
            if status != SUCCESS:
                raise DeviceError(f"kernel {kernel.name} ({function}) cannot be made: {status_name(status)}")

        self.prepare_library_calls(plan_code.library_calls)
        self.acquire()  # what this thread has written is seen by all others that acquire the executor
        self.assembly = ASSEMBLED
        self.release()

    def prepare_library_calls(self, calls):
        """Creates the steps that call a library."""
        cdef int32_t n
        cdef Routine routine
        if calls and self.access != HOST:
            raise DeviceError(f"{self.plan.name} calls {calls[0].function}, and the device does not use the host's memory")
        self.library_calls = <LibraryCall*> table(len(calls), sizeof(LibraryCall))
        self.library_call_count = len(calls)
        for n, step in enumerate(calls):
            present = [b is not None for b in (*step.operands, *step.results)]
            routine = Routine(step.function, step.sizes, step.flags, step.bytes, present)
            self.keep += (routine,)
            prepare_library_call(&self.library_calls[n], &routine.call, step, self.address, self.machine.members)

    # Calls -----------------------------------------------------------------------------------------------------------

    def __call__(self, *arguments):
        cdef Signature signature = self.signature
        cdef list arrays = []
        cdef int n
        if len(arguments) != signature.parameter_count:
            raise signature.wrong_count(len(arguments))
        if _array_type is not None:
            for n in range(signature.parameter_count):
                if type(arguments[n]) is _array_type:
                    return _array_call(self, arguments)
        for n in range(signature.parameter_count):
            arrays.append(signature.argument(arguments[n], n))
        return run_with(self, arrays, self.results())

    def in_place(self, arguments, parameters):
        """A call with NumPy arrays that gives away those of these parameters: a result that the plan places in the
        memory of such a parameter is that array, if it is dense and aligned; otherwise it has memory of its own."""
        cdef Signature signature = self.signature
        cdef list arrays = []
        cdef list results
        cdef int n, parameter
        if len(arguments) != signature.parameter_count:
            raise signature.wrong_count(len(arguments))
        for n in range(signature.parameter_count):
            arrays.append(signature.argument(arguments[n], n))
        results = self.results()
        for parameter in parameters:
            if self.aliasing.homes[parameter] >= 0 and arrays[parameter] is arguments[parameter]:
                results[self.aliasing.homes[parameter]] = arrays[parameter]
        return run_with(self, arrays, results)

    def traced(self, arguments, size_t most_rows):
        """(results, events, count) of a call with these flattened arguments, with a wait for each step.

        `events` has for each step that ran, in order, a row of s64: the name's number in STEPS, the number of the
        kernel in the plan (for a copy that of the buffer it writes, for a call that of the step among its kind), and
        its beginning and end in nanoseconds: of the system's monotonic clock, or, for kernels and copies on a device
        with its own memory, of the device's. There are at most `most_rows`; `count` is the number of steps that ran. No
        other thread may call the executor meanwhile.
        """
        cdef np.ndarray events = numpy.empty((most_rows, 4), numpy.int64)
        cdef Handle plain = self.queue
        if self.access == BUFFER:
            queue = self.timing_queue()
            self.queue = self.machine.queues[0] = <Handle> <uintptr_t> queue.int_ptr
            self.machine.event = &self.trace.event
        self.trace.events, self.trace.rows, self.trace.count = <int64_t*> np.PyArray_DATA(events), most_rows, 0
        try:
            results = Executor.__call__(self, *arguments)
        finally:
            self.trace.events = NULL
            self.queue = self.machine.queues[0] = plain
            self.machine.event = NULL
            if self.trace.event != NULL:  # of a step that failed
                api.release_event(self.trace.event)
                self.trace.event = NULL
        return results, events[: min(self.trace.count, self.trace.rows)], self.trace.count

    def timing_queue(self):
        """A queue that records when the device begins and ends its commands."""
        import pyopencl

        queue, context = self.keep[:2]
        return pyopencl.CommandQueue(context, queue.device, pyopencl.command_queue_properties.PROFILING_ENABLE)

    cdef list results(self):
        """New arrays for the results. They are created before the lock is taken: no user code runs under it."""
        cdef int n
        cdef list results = []
        for n in range(self.signature.result_count):
            results.append(self.signature.result(n))
        return results

    cdef int execute(self, void** data, list results) except -1:
        """Runs with the arguments' data, each of the parameter's type and shape, into `results`."""
        cdef int n, status
        cdef OverwrittenParameter* each
        if self.assembly != ASSEMBLED:
            self.wait_until_assembled()
        with nogil:
            status = self.acquire()
        if status == REENTERED:
            self.fail(status)
        try:
            for n in range(self.signature.parameter_count):
                self.inputs[n] = data[n]
            for n in range(self.signature.result_count):
                self.outputs[n] = np.PyArray_DATA(<np.ndarray> results[n])
            for n in range(self.aliasing.overwritten_count):
                each = &self.aliasing.overwritten[n]
                if each.result >= 0 and self.outputs[each.result] == self.inputs[each.parameter]:
                    self.aliasing.is_donated[each.parameter] = 1
            with nogil:
                status = self.run()
            if status != SUCCESS:
                self.fail(status)
        finally:
            self.release()
        return 0

    cdef int acquire(self) noexcept nogil:
        cdef long here = PyThread_get_thread_ident()
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if self.owner == here:
                return REENTERED
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.owner = here
        return SUCCESS

    cdef void release(self) noexcept nogil:
        self.owner = 0
        PyThread_release_lock(self.lock)

    cdef int fail(self, int status) except -1:
        """Raises the error that ended the run."""
        if status == INTERRUPTED or status == HOST_FAILED:
            error, self.error = self.error, None
            raise error
        if status == NOT_ASSEMBLED:
            self.wait_until_assembled()
        if status == REENTERED:
            raise Error("an executable cannot be called from a signal handler that runs during its own call")
        where = ""
        if self.failed >= 0:
            where = f"kernel {self.plan.kernels[self.launches[self.failed].number].name} of "
        if status == OUT_OF_DEVICE_MEMORY:
            raise DeviceError(f"the device has no memory left for the arguments and results of {self.plan.name}; delete arrays")
        raise DeviceError(f"{where}{self.plan.name} failed on the device: {status_name(status)}")

    cdef int run(self) noexcept nogil:
        """Runs the code, then waits for the queue. Returns OpenCL's status, or INTERRUPTED."""
        cdef int status
        cdef int64_t begun = clock_ns()
        if self.assembly != ASSEMBLED:
            return NOT_ASSEMBLED
        self.failed = -1
        self.pending = self.reads = 0
        status = self.move()
        if status == SUCCESS:
            status = self.interpret()
        if status == SUCCESS and self.access != HOST:
            status = fetch_results(&self.device, self.queue, self.outputs)
        cdef int ended = self.finish()
        end_copies(&self.aliasing)
        begun = clock_ns() - begun
        self.usual_ns = min(begun, self.last_ns) if self.last_ns else begun
        self.last_ns = begun
        return status if status != SUCCESS else ended

    cdef int interpret(self) noexcept nogil:
        cdef int64_t* code = self.code
        cdef int64_t at = 0
        cdef int64_t target
        cdef int status = SUCCESS
        cdef uint8_t pred
        cdef int32_t index
        cdef int64_t checked
        cdef int64_t begun = 0
        checked = clock_ns()
        while True:
            if code[at] <= LAST_WORK:
                if self.trace.events != NULL:
                    begun = clock_ns()
                status = self.step(&code[at])
                if status == SUCCESS and self.trace.events != NULL:
                    status = self.note(&code[at], begun)
                if status != SUCCESS:
                    if code[at] == LAUNCH:
                        self.failed = code[at + 1]
                    return status
                at += 3 if code[at] == COPY else 2
            elif code[at] == REPEAT:
                self.iteration[code[at + 1]] = 0
                if code[at + 2] == 0:
                    at = code[at + 5]
                    continue
                status = self.count(&code[at])
                if status != SUCCESS:
                    return status
                at += 6
            elif code[at] == JUMP or code[at] == NEXT:
                target = code[at + 1]
                if code[at] == NEXT:
                    target = code[at + 5]
                    self.iteration[code[at + 1]] += 1
                    if self.iteration[code[at + 1]] >= code[at + 2]:
                        at += 6
                        continue
                    status = self.count(&code[at])
                    if status != SUCCESS:
                        return status
                if target < at:  # a loop's next iteration: check whether the user wants to stop
                    if self.pending > MOST_PENDING:  # nobody may wait in the loop, and a queue takes memory
                        self.pending = 0
                        status = self.finish()
                        if status != SUCCESS:
                            return status
                    if clock_ns() - checked > CHECK_SIGNALS_NS:
                        if self.interrupted():
                            return INTERRUPTED
                        checked = clock_ns()
                at = target
            elif code[at] == UNLESS:
                status = self.read(code[at + 1], &pred, 1)
                if status != SUCCESS:
                    return status
                at = at + 3 if pred else code[at + 2]
            elif code[at] == BEGIN:
                self.iteration[code[at + 1]] = 0
                self.iteration[code[at + 1] + 1] = 1
                at += 2
            elif code[at] == POLL:
                pred = 1
                status = self.poll(&code[at], &pred)
                if status != SUCCESS:
                    return status
                at = at + 6 if pred else code[at + 5]
            elif code[at] == SWITCH:
                if code[at + 2] == 0:
                    status = self.read(code[at + 1], &pred, 1)
                    index = 0 if pred else 1
                else:
                    status = self.read(code[at + 1], &index, 4)
                    if index < 0 or index >= code[at + 3]:
                        index = code[at + 3] - 1
                if status != SUCCESS:
                    return status
                at = code[at + 4 + index]
            else:
                return SUCCESS

    cdef int finish(self) noexcept nogil:
        """Waits for the queue. Returns OpenCL's status."""
        return SUCCESS if self.calls_kernels else api.finish(self.queue)

    cdef int step(self, int64_t* code) noexcept nogil:
        """Does the work of one instruction: LAUNCH, COPY, CALL or LIBRARY. Returns OpenCL's status, INTERRUPTED or
        HOST_FAILED."""
        if code[0] == LAUNCH:
            return self.launch(&self.launches[code[1]])
        if code[0] == COPY:
            return self.copy(code[1], code[2])
        if code[0] == CALL:
            return self.host_call(code[1])
        return self.library_call(&self.library_calls[code[1]])

    cdef int note(self, int64_t* code, int64_t begun) noexcept nogil:
        """Waits for a step of a traced call and records it, if there is room. Returns OpenCL's status."""
        cdef int status = self.finish()
        cdef int64_t ended = clock_ns()
        cdef Trace* trace = &self.trace
        cdef int64_t* row = trace.events + 4 * trace.count
        self.pending = 0
        if trace.event != NULL:
            if status == SUCCESS:
                status = api.event_time(trace.event, PROFILING_COMMAND_START, sizeof(int64_t), &begun, NULL)
            if status == SUCCESS:
                status = api.event_time(trace.event, PROFILING_COMMAND_END, sizeof(int64_t), &ended, NULL)
            api.release_event(trace.event)
            trace.event = NULL
        if trace.count < trace.rows:
            row[0], row[1], row[2], row[3] = code[0], code[1], begun, ended
            if code[0] == LAUNCH:
                row[1] = self.launches[code[1]].number
            elif code[0] == COPY:
                row[1] = code[2]
        trace.count += 1
        return status

    cdef int launch(self, Launch* step) noexcept nogil:
        self.pending += 1
        return share_out(run_items, step, <int> step.items, self.machine.members)

    cdef int library_call(self, LibraryCall* step) noexcept nogil:
        """Calls a library for each matrix, with the queue empty. Returns OpenCL's status, or INTERRUPTED.

        Threads that share matrices keep the library from starting more. The library may use several threads for a large
        matrix; for a small one, they would mostly wait for each other.
        """
        cdef int status = self.finish()
        cdef int64_t some, chunk = step.members
        cdef int64_t begun, ended, checked
        cdef int32_t n
        self.pending = 0
        if status != SUCCESS:
            return status
        for n in range(step.call.count):
            step.first[n] = NULL if step.buffers[n] < 0 else <char*> self.address[step.buffers[n]]
        hold_threads(step.library_threads)
        step.base = 0
        begun = checked = clock_ns()
        while step.base < step.items:
            some = min(chunk, step.items - step.base)
            status = share_out(call_library_items, step, <int> some, step.members)
            step.base += some
            if status != SUCCESS:
                break
            ended = clock_ns()
            if step.base < step.items and ended - checked > CHECK_SIGNALS_NS:
                if self.interrupted():
                    status = INTERRUPTED
                    break
                checked = clock_ns()
            if ended - begun < CHUNK_NS and chunk < MOST_AT_ONCE:
                chunk *= 2
            begun = clock_ns()
        release_threads()
        return status

    cdef int count(self, int64_t* repeat) noexcept nogil:
        """Sets the counter of a REPEAT or NEXT to its value in this iteration: an element of a table of constants."""
        cdef int64_t counter = repeat[3]
        cdef int64_t size
        if counter < 0:
            return SUCCESS
        size = self.size[counter]
        if self.access == BUFFER:
            return api.copy_buffer(
                self.queue, self.address[repeat[4]], self.address[counter],
                self.offsets[repeat[4]] + self.iteration[repeat[1]] * size, self.offsets[counter], size, 0, NULL, NULL
            )
        self.address[counter] = <char*> self.address[repeat[4]] + self.iteration[repeat[1]] * size
        return SUCCESS

    cdef int poll(self, int64_t* poll, uint8_t* pred) noexcept nogil:
        """Reads the pred of a POLL in some iterations. Returns OpenCL's status.

        A read takes as long as so many launches that do nothing, `reads`. If reads are w iterations apart, the loop may
        have ended up to w iterations earlier, w / 2 on average, whose `launches` were for nothing. After n iterations,
        that and n / w reads take least if w is the square root of 2 n reads / launches.
        """
        cdef int64_t* iteration = self.iteration + poll[1]
        iteration[0] += 1
        if iteration[0] < iteration[1]:
            return SUCCESS
        iteration[1] = iteration[0] + max(<int64_t> 1, <int64_t> sqrt(2.0 * iteration[0] * poll[2] / poll[3]))
        return self.read(poll[4], pred, 1)

    cdef int copy(self, int64_t source, int64_t target) noexcept nogil:
        cdef size_t size = self.size[source]
        if self.access == BUFFER:
            return api.copy_buffer(
                self.queue, self.address[source], self.address[target], self.offsets[source], self.offsets[target], size,
                0, NULL, self.machine.event
            )
        if not self.calls_kernels:
            return api.svm_copy(self.queue, 0, self.address[target], self.address[source], size, 0, NULL, NULL)
        memcpy(self.address[target], self.address[source], size)
        return SUCCESS

    cdef int read(self, int64_t buffer, void* target, size_t size) noexcept nogil:
        """Waits for the queue and reads the first bytes of a buffer."""
        cdef int status
        self.reads += 1
        self.pending = 0
        if self.access == HOST:
            status = self.finish()
            memcpy(target, self.address[buffer], size)
            return status
        return api.read_buffer(self.queue, self.address[buffer], 1, self.offsets[buffer], size, target, 0, NULL, NULL)

    cdef int move(self) noexcept nogil:
        """Places the arguments and results of a call, and sets the addresses of the buffers in them. Returns OpenCL's
        status."""
        cdef int32_t n
        cdef int32_t status
        cdef CallBuffer* each
        cdef void** inputs = self.inputs
        cdef void** outputs = self.outputs
        if self.access == HOST:
            status = copy_overwritten(&self.aliasing, self.signature.parameters, inputs, outputs)
        else:
            inputs, outputs = <void**> self.device.input_roots, <void**> self.device.output_roots
            status = place_arguments(&self.device, &self.aliasing, self.queue, self.inputs)
            if status == SUCCESS:
                status = place_results(&self.device, &self.aliasing)
            if status == SUCCESS and names_other_memory(&self.device):
                for n in range(self.launch_count):
                    memset(self.launches[n].current, 0, self.launches[n].count * sizeof(void*))
        if status != SUCCESS:
            return status
        for n in range(self.call_buffer_count):
            each = &self.call_buffers[n]
            self.address[each.buffer] = outputs[each.index] if each.result else inputs[each.index]
        return SUCCESS

    cdef int interrupted(self) noexcept nogil:
        """Lets Python's signal handlers run. Returns 1 if one of them raised (Control-C does), and keeps its error.

        A run outside the main thread is told to end by the thread that waits for it."""
        if self.cancelled != NULL:
            return self.cancelled[0] != 0
        with gil:
            try:
                PyErr_CheckSignals()
            except BaseException as error:
                self.error = error
                return 1
            return 0

    cdef int host_call(self, int64_t n) noexcept nogil:
        """Waits for the queue and calls a host function. HOST_FAILED keeps its exception, and so does INTERRUPTED, for
        one that is no error of the function, but asks the main thread to end (Control-C while it runs)."""
        cdef int status = self.finish()
        if status != SUCCESS:
            return status
        with gil:
            try:
                self.call_host(n)
            except BaseException as error:
                self.error = error
                asks_to_end = not isinstance(error, Exception) and current_thread() is main_thread()
                return INTERRUPTED if asks_to_end else HOST_FAILED
        return SUCCESS

    cdef int call_host(self, int64_t n) except -1:
        cdef int status = SUCCESS
        cdef np.ndarray array
        key, operands, results = self.host_calls[n]
        inputs = [numpy.array(self.array_of(b)) for b in operands]  # the function may keep them
        outputs = [self.array_of(b) for b in results] if self.access == HOST else [numpy.empty(b[2], b[1]) for b in results]
        host_calls.call(key, inputs, outputs)
        if self.access != HOST:
            for (buffer, _, _), array in zip(results, outputs):
                if array.nbytes == 0:
                    continue
                status = api.write_buffer(
                    self.queue, self.address[<int64_t> buffer], 1, self.offsets[<int64_t> buffer], array.nbytes,
                    np.PyArray_DATA(array), 0, NULL, NULL,
                )
                if status != SUCCESS:
                    raise DeviceError(f"the result of a host function cannot be copied: {status_name(status)}")
        return 0

    cdef object array_of(self, tuple buffer):
        """A buffer as an array: of the memory itself, or of a copy if the device has its own."""
        cdef int64_t number = buffer[0]
        cdef np.ndarray array
        cdef size_t size = self.size[number]
        if self.access == HOST:
            if size == 0:
                return numpy.empty(buffer[2], buffer[1])
            flat = np.PyArray_SimpleNewFromData(1, [<np.npy_intp> size], np.NPY_UINT8, self.address[number])
            return flat.view(buffer[1]).reshape(buffer[2])
        array = numpy.empty(buffer[2], buffer[1])
        if size and self.read(number, np.PyArray_DATA(array), size) != SUCCESS:
            raise DeviceError("an operand of a host function cannot be copied from the device")
        return array


cdef object run_with(Executor executor, list arrays, list results):
    """The results of a run with these arrays, of the parameters' types and shapes, into `results`."""
    cdef Signature signature = executor.signature
    cdef void** data
    cdef int n
    data = <void**> table(signature.parameter_count, sizeof(void*))
    try:
        for n in range(signature.parameter_count):
            data[n] = np.PyArray_DATA(<np.ndarray> arrays[n])
        executor.execute(data, results)
    finally:
        free(data)
    return results[0] if executor.single else tuple(results)


cdef int64_t clock_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * <int64_t> 1_000_000_000 + now.tv_nsec
