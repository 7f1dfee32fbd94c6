"""Calls of functions that users' libraries register with XLA's foreign function interface (ffi_interface.pxd).

A handler is C++ that was compiled with XLA's headers. It gets a call frame: the addresses, types and dimensions of its
operands and results, its attributes, and a table of functions by which it reports errors, obtains scratch memory, and
so on. It runs without the GIL, in the calling thread.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strlen

import threading

cimport numpy as np

from refxla._core.errors cimport Error, exception_of, new_error
from refxla._core.ffi_interface cimport *
from refxla._core.pjrt_interface cimport (
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)

from refxla_spec import errors
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import Shape

np.import_array()

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_init(pthread_mutex_t* mutex, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* mutex)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)
    int pthread_cond_init(pthread_cond_t* condition, void* attributes)
    int pthread_cond_destroy(pthread_cond_t* condition)
    int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex)
    int pthread_cond_broadcast(pthread_cond_t* condition)

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void** memory, size_t alignment, size_t size)

# Names of the codes of errors that no exception of refxla stands for.
_CODE_NAMES = {
    1: "CANCELLED", 2: "UNKNOWN", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED",
    10: "ABORTED", 11: "OUT_OF_RANGE", 14: "UNAVAILABLE", 15: "DATA_LOSS", 16: "UNAUTHENTICATED",
}  # fmt: skip


# What a handler's calls know of the function that it belongs to.
cdef struct Context:
    void* state  # what its first stage has returned
    int64_t type_id  # 0: none
    int64_t run_number


# The end of work that goes on after a handler has returned.
cdef struct Future:
    pthread_mutex_t mutex
    pthread_cond_t condition
    bint done
    Error* error


# The functions of the table --------------------------------------------------------------------------------------


cdef void* error_create(ErrorArgs* args) noexcept nogil:
    # The character that ends the text belongs to its memory, since `error_details` gives the text without its size.
    cdef Error* error = new_error(args.code, args.message, strlen(args.message) + 1)
    if error != NULL:
        error.size -= 1
    return error


cdef void error_details(DetailsArgs* args) noexcept nogil:
    args.message, args.code = (<Error*> args.error).text, (<Error*> args.error).code


cdef void error_destroy(DetailsArgs* args) noexcept nogil:
    free(args.error)


cdef void* report(int code, const char* text) noexcept nogil:
    """An error whose text `error_details` may return."""
    cdef ErrorArgs args
    args.message, args.code = text, code
    return error_create(&args)


cdef void* no_registration(void* args) noexcept nogil:
    return report(UNIMPLEMENTED, "handlers and types are registered with JAX, not by a call")


cdef void* no_stream(ContextArgs* args) noexcept nogil:
    return report(UNIMPLEMENTED, "a CPU has no stream")


cdef void* no_user_data(ContextArgs* args) noexcept nogil:
    return report(UNIMPLEMENTED, "there is no data of the caller")


cdef void* set_state(StateArgs* args) noexcept nogil:
    cdef Context* context = <Context*> args.context
    if args.size < sizeof(StateArgs):
        return report(UNIMPLEMENTED, "the handler was built with headers of XLA that are too old for its state")
    if args.stage != INSTANTIATE:
        return report(UNIMPLEMENTED, "a state is set when a handler is instantiated, at no other stage")
    context.state, context.type_id = args.state, args.type_id[0]
    return NULL


cdef void* get_state(StateArgs* args) noexcept nogil:
    cdef Context* context = <Context*> args.context
    if args.size < sizeof(StateArgs):
        return report(UNIMPLEMENTED, "the handler was built with headers of XLA that are too old for its state")
    if args.stage != INSTANTIATE or context.type_id == 0:
        return report(FAILED_PRECONDITION, "no state of this stage has been set")
    if context.type_id != args.type_id[0]:
        return report(INVALID_ARGUMENT, "the state is of another type")
    args.state = context.state
    return NULL


cdef void* allocate(AllocationArgs* args) noexcept nogil:
    args.data = NULL
    if posix_memalign(&args.data, max(args.alignment, sizeof(void*)), max(args.bytes, <size_t> 1)):
        return report(RESOURCE_EXHAUSTED, "no memory for what a foreign function allocates")
    return NULL


cdef void* release(ReleaseArgs* args) noexcept nogil:
    free(args.data)
    return NULL


cdef void* schedule(TaskArgs* args) noexcept nogil:
    """A task of a handler, done at once: it is the only thread of its pool."""
    args.task(args.data)
    return NULL


cdef void* thread_count(ContextArgs* args) noexcept nogil:
    (<int64_t*> args.answer)[0] = 1  # here the answer is where it goes
    return NULL


cdef void* future_create(FutureArgs* args) noexcept nogil:
    cdef Future* future = <Future*> calloc(1, sizeof(Future))
    if future == NULL:
        return report(RESOURCE_EXHAUSTED, "no memory for a future")
    pthread_mutex_init(&future.mutex, NULL)
    pthread_cond_init(&future.condition, NULL)
    args.future = future
    return NULL


cdef void* end_future(Future* future, Error* error) noexcept nogil:
    pthread_mutex_lock(&future.mutex)
    future.done, future.error = True, error
    pthread_cond_broadcast(&future.condition)
    pthread_mutex_unlock(&future.mutex)
    return NULL


cdef void* future_done(FutureArgs* args) noexcept nogil:
    return end_future(<Future*> args.future, NULL)


cdef void* future_failed(FutureArgs* args) noexcept nogil:
    return end_future(<Future*> args.future, <Error*> args.error)


cdef Error* wait_for(Future* future) noexcept nogil:
    """The error with which a future ends, or NULL. It is gone afterwards."""
    cdef Error* error
    pthread_mutex_lock(&future.mutex)
    while not future.done:
        pthread_cond_wait(&future.condition, &future.mutex)
    error = future.error
    pthread_mutex_unlock(&future.mutex)
    pthread_cond_destroy(&future.condition)
    pthread_mutex_destroy(&future.mutex)
    free(future)
    return error


cdef void* run_number(ContextArgs* args) noexcept nogil:
    args.answer = (<Context*> args.context).run_number
    return NULL


cdef void* device_number(DeviceArgs* args) noexcept nogil:
    args.number = 0  # all devices are one
    return NULL


cdef void* find_extension(ExtensionArgs* args) noexcept nogil:
    args.extension = NULL
    return NULL


cdef void* custom_options(ContextArgs* args) noexcept nogil:
    args.answer = 0  # a null pointer: there are none
    return NULL


cdef FfiFunctions functions
memset(&functions, 0, sizeof(FfiFunctions))
functions.size = sizeof(FfiFunctions)
functions.version.size = sizeof(FfiVersion)
functions.version.major, functions.version.minor = FFI_MAJOR_VERSION, FFI_MINOR_VERSION
functions.error_create = <void*> error_create
functions.error_details = <void*> error_details
functions.error_destroy = <void*> error_destroy
functions.register_handler = functions.register_type = <void*> no_registration
functions.stream = <void*> no_stream
functions.user_data = <void*> no_user_data
functions.set_state = <void*> set_state
functions.get_state = <void*> get_state
functions.allocate = <void*> allocate
functions.release = <void*> release
functions.schedule = <void*> schedule
functions.thread_count = <void*> thread_count
functions.future_create = <void*> future_create
functions.future_done = <void*> future_done
functions.future_failed = <void*> future_failed
functions.run_number = <void*> run_number
functions.device_number = <void*> device_number
functions.find_extension = <void*> find_extension
functions.custom_options = <void*> custom_options


# Functions -------------------------------------------------------------------------------------------------------


cdef void* pointer_of(object capsule) except NULL:
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


cdef class ForeignFunction:
    """A registered handler with the attributes of one call in a program.

    `handlers` has the stages' functions by name, as JAX's registry gives them: "execute", and maybe "instantiate",
    which is called once, before the first call; the state that it returns lives as long as the process. `attributes` by
    name: bytes, a text; an array of no dimension, a scalar; an array of one dimension; a mapping, which is a dictionary.

    Raises UnsupportedError for a handler with other stages.
    """

    cdef object name
    cdef object lock  # while the function is instantiated
    cdef bint instantiated
    cdef Handler first
    cdef Handler execute
    cdef Attributes attributes
    cdef Context context
    cdef list tables  # memory blocks, as integers
    cdef list references  # what the attributes point to

    def __cinit__(self, str name, object handlers, object attributes):
        others = sorted(set(handlers) - {"instantiate", "execute"})
        if others or "execute" not in handlers:
            raise UnsupportedError(
                f"the foreign function {name!r} has the stages {', '.join(sorted(handlers))}: it may have instantiate "
                "and execute"
            )
        self.name, self.lock, self.tables, self.references = name, threading.Lock(), [], []
        self.execute = <Handler> pointer_of(handlers["execute"])
        self.first = <Handler> pointer_of(handlers["instantiate"]) if "instantiate" in handlers else NULL
        self.instantiated = self.first == NULL
        memset(&self.context, 0, sizeof(Context))
        self.fill(&self.attributes, attributes)

    def __dealloc__(self):
        for address in self.tables or ():
            PyMem_Free(<void*> <size_t> address)

    cdef void* table(self, size_t count, size_t size) except NULL:
        """Zeroed memory for `count` elements, which lives as long as the function."""
        cdef void* memory = PyMem_Calloc(max(count, 1), size)
        if memory == NULL:
            raise MemoryError
        self.tables.append(<size_t> memory)
        return memory

    cdef int text(self, ByteSpan* span, bytes content) except -1:
        self.references.append(content)
        span.data, span.size = <const char*> content, len(content)
        return 0

    cdef int fill(self, Attributes* attributes, object values) except -1:
        """Writes attributes by name; a handler expects them in the order of the names."""
        cdef int64_t n
        cdef ByteSpan* span
        cdef size_t count = len(values)
        attributes.size, attributes.extensions, attributes.count = sizeof(Attributes), NULL, count
        attributes.kinds = <int*> self.table(count, sizeof(int))
        attributes.names = <void**> self.table(count, sizeof(void*))
        attributes.values = <void**> self.table(count, sizeof(void*))
        for n, name in enumerate(sorted(values)):
            span = <ByteSpan*> self.table(1, sizeof(ByteSpan))
            self.text(span, name.encode())
            attributes.names[n] = span
            attributes.values[n] = self.attribute(values[name], &attributes.kinds[n])
        return 0

    cdef void* attribute(self, object value, int* kind) except NULL:
        cdef void* place
        cdef np.ndarray array
        if isinstance(value, bytes):
            kind[0], place = TEXT, self.table(1, sizeof(ByteSpan))
            self.text(<ByteSpan*> place, value)
        elif isinstance(value, np.ndarray):
            array = value
            self.references.append(array)
            number = Shape.of(array).element_type.number
            if array.ndim == 0:
                kind[0], place = SCALAR, self.table(1, sizeof(ScalarAttribute))
                (<ScalarAttribute*> place).type = number
                (<ScalarAttribute*> place).value = np.PyArray_DATA(array)
            else:
                kind[0], place = ARRAY, self.table(1, sizeof(ArrayAttribute))
                (<ArrayAttribute*> place).type, (<ArrayAttribute*> place).size = number, array.size
                (<ArrayAttribute*> place).data = np.PyArray_DATA(array)
        else:
            kind[0], place = DICTIONARY, self.table(1, sizeof(Attributes))
            self.fill(<Attributes*> place, value)
        return place

    def call(self, operands, results, types) -> None:
        """Calls the function, which writes `results`. The memory of each array is whole, in some order of dimensions;
        `types` has XLA's number of the element type of each operand, then of each result. Raises the function's error."""
        cdef int64_t n, count = len(operands), total = count + len(results)
        cdef CallFrame frame
        cdef Context context
        cdef np.ndarray array
        cdef FfiBuffer* buffers = <FfiBuffer*> PyMem_Calloc(total + 1, sizeof(FfiBuffer))
        cdef void** addresses = <void**> PyMem_Calloc(total + 1, sizeof(void*))
        cdef int* kinds = <int*> PyMem_Calloc(total + 1, sizeof(int))
        try:
            if buffers == NULL or addresses == NULL or kinds == NULL:
                raise MemoryError
            self.instantiate()
            for n, array in enumerate((*operands, *results)):
                buffers[n].size, buffers[n].type, buffers[n].data = sizeof(FfiBuffer), types[n], np.PyArray_DATA(array)
                buffers[n].rank, buffers[n].dimensions = array.ndim, <int64_t*> np.PyArray_DIMS(array)
                addresses[n], kinds[n] = &buffers[n], BUFFER
            context = self.context
            self.begin(&frame, EXECUTE, &context)
            frame.arguments.count, frame.arguments.kinds, frame.arguments.buffers = count, kinds, addresses
            frame.results.count = total - count
            frame.results.kinds, frame.results.buffers = &kinds[count], &addresses[count]
            self.run(self.execute, &frame)
        finally:
            PyMem_Free(buffers)
            PyMem_Free(addresses)
            PyMem_Free(kinds)

    cdef int instantiate(self) except -1:
        cdef CallFrame frame
        with self.lock:
            self.context.run_number += 1
            if not self.instantiated:
                self.begin(&frame, INSTANTIATE, &self.context)
                self.run(self.first, &frame)
                self.instantiated = True
        return 0

    cdef void begin(self, CallFrame* frame, int stage, Context* context) noexcept:
        """A frame without operands and results."""
        memset(frame, 0, sizeof(CallFrame))
        # The size that a handler checks ends before the future, which was appended to the first version.
        frame.size = sizeof(CallFrame) - sizeof(void*)
        frame.functions, frame.context, frame.stage = &functions, context, stage
        frame.arguments.size = frame.results.size = sizeof(Operands)
        frame.attributes = self.attributes

    cdef int run(self, Handler handler, CallFrame* frame) except -1:
        cdef Error* error
        with nogil:
            error = <Error*> handler(frame)
            if error == NULL and frame.future != NULL:
                error = wait_for(<Future*> frame.future)
        if error == NULL:
            return 0
        try:
            if error.code in _CODE_NAMES or error.code == INTERNAL:
                text = error.text[: error.size].decode(errors="replace")
                raise errors.Error(f"{_CODE_NAMES[error.code]}: {text}" if error.code in _CODE_NAMES else text)
            raise exception_of(error)
        finally:
            free(error)
