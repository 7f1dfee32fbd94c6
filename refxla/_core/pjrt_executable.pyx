# cython: cdivision=True, boundscheck=False, wraparound=False
"""The executables of PJRT's interface: compilation, which calls Python, and execution, which does not.

The program that Python compiled is read once into plain memory (Executable in the .pxd). An execution takes the storage
of its arguments, creates that of its results, and runs the program's Executor, at once or later (execution.pyx),
without the GIL.

Functions that destroy may be called while Python shuts down, and must not ask for the GIL: they put executables on a
list, which the next compilation empties.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from refxla._core.errors cimport Error, no_memory, plain_error, python_error
from refxla._core.execution cimport Call, end_call, is_deferred, new_call, run_later, run_now, take_results
from refxla._core.executor cimport Executor
from refxla._core.pjrt_client cimport device_of
from refxla._core.pjrt_interface cimport *
from refxla._core.pjrt_objects cimport (
    Buffer,
    Device,
    Memory,
    READY,
    delete_buffer,
    destroy_buffer,
    new_buffer,
    storage_of,
)
from refxla._core.storage cimport Completion, add, drop, drop_completion, hold, hold_completion

cdef extern from *:
    """
    #include <stdint.h>
    static uint8_t rx_list_lock = 0;
    static inline void rx_enter(void) { while (__atomic_test_and_set(&rx_list_lock, __ATOMIC_ACQUIRE)) {} }
    static inline void rx_leave(void) { __atomic_clear(&rx_list_lock, __ATOMIC_RELEASE); }
    """
    void rx_enter() noexcept nogil
    void rx_leave() noexcept nogil

cdef Executable* ended = NULL
cdef object compile_program = None  # (code, format, options) -> program; see refxla/pjrt/programs.py
cdef object load_program = None  # (serialized, options) -> program


def set_compiler(compile: object, load: object) -> None:
    """Registers the compiler: `compile(code, format, options)` and `load(serialized, options)`, with bytes as
    arguments, return a Program (refxla/pjrt/programs.py) or raise. Both are called from JAX's threads."""
    global compile_program, load_program
    compile_program, load_program = compile, load


# From Python -----------------------------------------------------------------------------------------------------


cdef void* table(size_t count, size_t size) except NULL:
    """Zeroed memory for `count` elements."""
    cdef void* memory = calloc(max(count, 1), size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef Executable* read(object program) except NULL:
    """A compiled program in plain memory."""
    cdef int n, d, place
    cdef Executor executor = program.executor
    cdef NamedValue* properties
    cdef Memory* memory
    cdef Executable* e = <Executable*> table(1, sizeof(Executable))
    Py_INCREF(program)
    e.references, e.program, e.executor = 1, <void*> program, <void*> executor
    try:
        e.device_count, e.replicas, e.partitions = len(program.devices), program.replicas, program.partitions
        e.devices = <Device**> table(e.device_count, sizeof(Device*))
        for n in range(e.device_count):
            e.devices[n] = device_of(program.devices[n])
            if e.devices[n] == NULL:
                raise ValueError(f"there is no device {program.devices[n]}")
        e.parameter_count = executor.signature.parameter_count // e.device_count
        e.result_count = len(program.results)
        if executor.signature.result_count != e.result_count * e.device_count:
            raise ValueError(f"{executor.signature.result_count} results for {e.device_count} devices")
        e.donated = <uint8_t*> table(e.parameter_count, 1)
        for n in program.donated:
            e.donated[n] = 1
        e.types = <int*> table(e.result_count, sizeof(int))
        e.ranks = <size_t*> table(e.result_count, sizeof(size_t))
        e.bytes = <size_t*> table(e.result_count, sizeof(size_t))
        e.kinds = <int*> table(e.result_count, sizeof(int))
        e.memory_kinds = <const char**> table(e.result_count, sizeof(char*))
        e.memory_kind_sizes = <size_t*> table(e.result_count, sizeof(size_t))
        e.dimensions = <int64_t*> table(sum(len(dimensions) for _, dimensions in program.results), sizeof(int64_t))
        place = 0
        for n, (number, dimensions) in enumerate(program.results):
            e.types[n], e.ranks[n], e.bytes[n] = number, len(dimensions), executor.signature.results[n].bytes
            e.kinds[n] = program.memory_kinds[n]
            memory = &e.devices[0].memories[e.kinds[n]]
            e.memory_kinds[n], e.memory_kind_sizes[n] = memory.kind, memory.kind_size
            for d in range(len(dimensions)):
                e.dimensions[place] = dimensions[d]
                place += 1
        e.name, e.name_size = <const char*> (<bytes> program.name), len(program.name)
        e.fingerprint, e.fingerprint_size = <const char*> (<bytes> program.fingerprint), len(program.fingerprint)
        for n in range(5):
            e.memory[n] = program.memory[n]
        e.property_count = len(program.cost)
        properties = <NamedValue*> table(e.property_count, sizeof(NamedValue))
        e.properties = properties
        for n, (name, value) in enumerate(program.cost):
            properties[n].size = sizeof(NamedValue)
            properties[n].name, properties[n].name_size = <const char*> (<bytes> name), len(name)
            properties[n].kind, properties[n].value.real, properties[n].value_size = FLOAT, value, 1
    except BaseException:
        destroy(e)
        raise
    return e


cdef void destroy(Executable* e) noexcept:
    """Frees an executable without references."""
    Py_DECREF(<object> e.program)
    free(e.devices)
    free(e.donated)
    free(e.types)
    free(e.ranks)
    free(e.bytes)
    free(e.kinds)
    free(e.memory_kinds)
    free(e.memory_kind_sizes)
    free(e.dimensions)
    free(e.properties)
    free(e)


cdef void destroy_ended() noexcept:
    global ended
    cdef Executable* e
    cdef Executable* following
    rx_enter()
    e, ended = ended, NULL
    rx_leave()
    while e != NULL:
        following = e.next
        destroy(e)
        e = following


cdef void release(Executable* e) noexcept nogil:
    global ended
    if add(&e.references, -1) > 0:
        return
    rx_enter()
    e.next, ended = ended, e
    rx_leave()


cdef Error* client_compile(CompileArgs* args) noexcept with gil:
    cdef const Program* program = args.program
    try:
        destroy_ended()
        args.executable = read(
            compile_program(
                program.code[: program.code_size], program.format[: program.format_size], args.options[: args.options_size]
            )
        )
    except BaseException as error:
        return python_error(error)
    return NULL


cdef Error* deserialize(DeserializeArgs* args) noexcept with gil:
    try:
        destroy_ended()
        options = b""
        if args.size >= sizeof(DeserializeArgs) and args.options != NULL:
            options = args.options[: args.options_size]
        args.executable = read(load_program(args.data[: args.data_size], options))
    except BaseException as error:
        return python_error(error)
    return NULL


# Execution -----------------------------------------------------------------------------------------------------------


cdef Error* execute(ExecuteArgs* args) noexcept nogil:
    """A call. Arguments and results of the Executor are those of all devices, concatenated.

    A donated argument is gone when this returns. If the program has a result that may be in its memory, it is, unless
    somebody else holds that memory: then, and if an argument is not donated in this call, the executor copies it first.
    """
    cdef Executable* e = <Executable*> args.executable
    cdef int devices = <int> args.device_count, parameters = e.parameter_count, results = e.result_count
    cdef int n
    cdef Call* call
    cdef Error* error = NULL
    cdef Completion* completion = NULL
    cdef bint interrupted = False
    if e.deleted:
        return plain_error(INVALID_ARGUMENT, "the executable was deleted")
    if devices != e.device_count or args.argument_count != <size_t> parameters:
        return plain_error(INVALID_ARGUMENT, "the program is called with another number of devices or arguments than it has")
    call = new_call(e.executor, devices * parameters, devices * results)
    if call == NULL:
        return no_memory("a call", sizeof(Call))
    for n in range(devices * parameters):
        call.arguments[n] = storage_of(<Buffer*> args.arguments[n // parameters][n % parameters])
        if call.arguments[n] == NULL:
            end_call(call)
            return plain_error(INVALID_ARGUMENT, "an argument of the call was deleted or donated")
    error = check_donations(e, args)
    if error == NULL:
        error = obtain_results(e, args, call)
    if error != NULL:
        end_call(call)
        return error
    if is_deferred(call):
        add(&e.references, 1)
        call.ended, call.owner = release_executable, e
        completion = run_later(call)
        if completion != NULL:
            if args.events != NULL:
                for n in range(devices):
                    hold_completion(completion)
                    args.events[n] = completion
            drop_completion(completion)
            return NULL
    error = run_now(call, &interrupted)
    if error != NULL or interrupted:
        for n in range(devices * results):
            if error != NULL:
                destroy_buffer(<Buffer*> args.results[n // results][n % results])
            else:  # nobody sees them: the handler's exception is raised where they would be returned
                delete_buffer(<Buffer*> args.results[n // results][n % results])
    if error == NULL and args.events != NULL:
        for n in range(devices):
            args.events[n] = READY
    end_call(call)
    return error


cdef Error* check_donations(Executable* e, ExecuteArgs* args) noexcept nogil:
    """An error if an array is given away and passed again in the same call."""
    cdef int n, d
    cdef bint again = False
    cdef Buffer* buffer
    for d in range(e.device_count):
        for n in range(e.parameter_count):
            buffer = <Buffer*> args.arguments[d][n]
            if is_donated(e, args, n):
                if buffer.donated:
                    again = True
                buffer.donated = 1
        for n in range(e.parameter_count):
            buffer = <Buffer*> args.arguments[d][n]
            if buffer.donated and not is_donated(e, args, n):
                again = True
        for n in range(e.parameter_count):
            (<Buffer*> args.arguments[d][n]).donated = 0
    if again:
        return plain_error(
            INVALID_ARGUMENT, "an array that is donated is passed twice in one call: pass a copy of it, or do not donate it"
        )
    return NULL


cdef Error* obtain_results(Executable* e, ExecuteArgs* args, Call* call) noexcept nogil:
    """Takes the arguments that the caller gives away, and creates the buffers of the results, with storage for the call
    to write."""
    cdef int n, d, k, parameters = e.parameter_count, results = e.result_count
    cdef int64_t* dimensions
    cdef Buffer* buffer
    cdef Device* device
    cdef uint8_t* donated = <uint8_t*> calloc(call.argument_count + 1, 1)
    if donated == NULL:
        return no_memory("a call", call.argument_count)
    for n in range(call.argument_count):
        donated[n] = is_donated(e, args, n % parameters)
        if donated[n]:
            delete_buffer(<Buffer*> args.arguments[n // parameters][n % parameters])
    d = take_results(call, donated)
    free(donated)
    if d:
        return no_memory("the results of a call", result_bytes(e))
    for d in range(e.device_count):
        dimensions = e.dimensions
        device = <Device*> args.device if args.device != NULL else e.devices[d]
        for n in range(results):
            hold(call.results[d * results + n])
            buffer = new_buffer(
                call.results[d * results + n], &device.memories[e.kinds[n]], e.types[n], dimensions, <int> e.ranks[n],
            )
            dimensions += e.ranks[n]
            args.results[d][n] = buffer
            if buffer == NULL:
                drop(call.results[d * results + n])
                for k in range(d * results + n):
                    destroy_buffer(<Buffer*> args.results[k // results][k % results])
                return no_memory("the results of a call", result_bytes(e))
    return NULL


cdef size_t result_bytes(Executable* e) noexcept nogil:
    """The bytes of all results, on all devices."""
    cdef int n
    cdef size_t size = 0
    for n in range(e.result_count):
        size += e.bytes[n]
    return size * e.device_count


cdef void release_executable(void* e) noexcept nogil:
    release(<Executable*> e)


cdef bint is_donated(Executable* e, ExecuteArgs* args, int n) noexcept nogil:
    """Whether the caller gives away argument `n` on each device."""
    cdef size_t k
    if not e.donated[n]:
        return False
    if args.options != NULL:
        for k in range(args.options.non_donatable_count):
            if args.options.non_donatable[k] == n:
                return False
    return True


# Queries about executables ----------------------------------------------------------------------------------------


cdef Error* executable_destroy(SubjectArgs* args) noexcept nogil:
    if args.subject != NULL:
        release(<Executable*> args.subject)
    return NULL


cdef Error* get_executable(PointerArgs* args) noexcept nogil:
    add(&(<Executable*> args.subject).references, 1)
    args.answer = args.subject
    return NULL


cdef Error* executable_delete(SubjectArgs* args) noexcept nogil:
    (<Executable*> args.subject).deleted = 1
    return NULL


cdef Error* executable_is_deleted(BoolArgs* args) noexcept nogil:
    args.answer = (<Executable*> args.subject).deleted
    return NULL


cdef Error* executable_devices(ListArgs* args) noexcept nogil:
    args.items, args.count = (<Executable*> args.subject).devices, (<Executable*> args.subject).device_count
    return NULL


cdef Error* executable_name(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Executable*> args.subject).name, (<Executable*> args.subject).name_size
    return NULL


cdef Error* executable_fingerprint(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Executable*> args.subject).fingerprint, (<Executable*> args.subject).fingerprint_size
    return NULL


cdef Error* executable_replicas(LongArgs* args) noexcept nogil:
    args.answer = (<Executable*> args.subject).replicas
    return NULL


cdef Error* executable_partitions(LongArgs* args) noexcept nogil:
    args.answer = (<Executable*> args.subject).partitions
    return NULL


cdef Error* executable_outputs(LongArgs* args) noexcept nogil:
    args.answer = (<Executable*> args.subject).result_count
    return NULL


cdef Error* executable_code_size(LongArgs* args) noexcept nogil:
    args.answer = (<Executable*> args.subject).memory[0]
    return NULL


cdef Error* executable_types(ListArgs* args) noexcept nogil:
    args.items, args.count = (<Executable*> args.subject).types, (<Executable*> args.subject).result_count
    return NULL


cdef Error* executable_dimensions(DimensionsArgs* args) noexcept nogil:
    cdef Executable* e = <Executable*> args.subject
    args.count, args.dimensions, args.ranks = e.result_count, e.dimensions, e.ranks
    return NULL


cdef Error* executable_memory_kinds(MemoryKindsArgs* args) noexcept nogil:
    cdef Executable* e = <Executable*> args.subject
    args.count, args.kinds, args.kind_sizes = e.result_count, e.memory_kinds, e.memory_kind_sizes
    return NULL


cdef Error* executable_cost(CountedListArgs* args) noexcept nogil:
    args.count, args.items = (<Executable*> args.subject).property_count, (<Executable*> args.subject).properties
    return NULL


cdef Error* executable_memory(CompiledMemoryArgs* args) noexcept nogil:
    """All in the memory of the device; nothing on a separate host."""
    cdef Executable* e = <Executable*> args.subject
    cdef int n
    args.code, args.arguments, args.results, args.aliases, args.temporaries = (
        e.memory[0], e.memory[1], e.memory[2], e.memory[3], e.memory[4]
    )
    for n in range(5):
        args.host[n] = 0
    if args.size >= sizeof(CompiledMemoryArgs):
        args.peak = args.total = e.memory[1] + e.memory[2] - e.memory[3] + e.memory[4]
    return NULL


cdef void forget(void* holder) noexcept with gil:
    """Frees bytes that a caller has read."""
    Py_DECREF(<object> holder)


cdef Error* answer_bytes(BytesArgs* args, str name) noexcept:
    """The result of the program's method of that name."""
    cdef bytes content
    try:
        content = getattr(<object> (<Executable*> args.subject).program, name)()
    except BaseException as error:
        return python_error(error)
    Py_INCREF(content)
    args.data, args.data_size, args.holder, args.deleter = <const char*> content, len(content), <void*> content, forget
    return NULL


cdef Error* executable_serialize(BytesArgs* args) noexcept with gil:
    return answer_bytes(args, "serialized")


cdef Error* executable_options(BytesArgs* args) noexcept with gil:
    return answer_bytes(args, "compile_options")


cdef Error* executable_assignment(BytesArgs* args) noexcept with gil:
    return answer_bytes(args, "device_assignment")


cdef Error* executable_optimized(PointerArgs* args) noexcept with gil:
    """The program with its layouts and shardings. JAX asks for the size first."""
    cdef Program* out = <Program*> args.answer
    cdef bytes content
    try:
        content = (<object> (<Executable*> args.subject).program).optimized()
    except BaseException as error:
        return python_error(error)
    out.format, out.format_size = "hlo_with_config", 15
    if out.code != NULL:
        memcpy(out.code, <const char*> content, min(out.code_size, <size_t> len(content)))
    out.code_size = len(content)
    return NULL


cdef void add_functions(void** functions) noexcept nogil:
    functions[CLIENT_COMPILE] = <void*> client_compile
    functions[EXECUTABLE_DESERIALIZE_AND_LOAD] = <void*> deserialize
    functions[LOADED_EXECUTABLE_EXECUTE] = <void*> execute
    functions[EXECUTABLE_DESTROY] = <void*> executable_destroy
    functions[LOADED_EXECUTABLE_DESTROY] = <void*> executable_destroy
    functions[LOADED_EXECUTABLE_GET_EXECUTABLE] = <void*> get_executable
    functions[LOADED_EXECUTABLE_DELETE] = <void*> executable_delete
    functions[LOADED_EXECUTABLE_IS_DELETED] = <void*> executable_is_deleted
    functions[LOADED_EXECUTABLE_ADDRESSABLE_DEVICES] = <void*> executable_devices
    functions[LOADED_EXECUTABLE_FINGERPRINT] = <void*> executable_fingerprint
    functions[LOADED_EXECUTABLE_GET_DEVICE_ASSIGNMENT] = <void*> executable_assignment
    functions[EXECUTABLE_NAME] = <void*> executable_name
    functions[EXECUTABLE_FINGERPRINT] = <void*> executable_fingerprint
    functions[EXECUTABLE_NUM_REPLICAS] = <void*> executable_replicas
    functions[EXECUTABLE_NUM_PARTITIONS] = <void*> executable_partitions
    functions[EXECUTABLE_NUM_OUTPUTS] = <void*> executable_outputs
    functions[EXECUTABLE_SIZE_OF_GENERATED_CODE_IN_BYTES] = <void*> executable_code_size
    functions[EXECUTABLE_OUTPUT_ELEMENT_TYPES] = <void*> executable_types
    functions[EXECUTABLE_OUTPUT_DIMENSIONS] = <void*> executable_dimensions
    functions[EXECUTABLE_OUTPUT_MEMORY_KINDS] = <void*> executable_memory_kinds
    functions[EXECUTABLE_GET_COST_ANALYSIS] = <void*> executable_cost
    functions[EXECUTABLE_GET_COMPILED_MEMORY_STATS] = <void*> executable_memory
    functions[EXECUTABLE_SERIALIZE] = <void*> executable_serialize
    functions[EXECUTABLE_GET_COMPILE_OPTIONS] = <void*> executable_options
    functions[EXECUTABLE_OPTIMIZED_PROGRAM] = <void*> executable_optimized
