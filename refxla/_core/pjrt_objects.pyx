# cython: cdivision=True, boundscheck=False, wraparound=False
"""The events and the buffers of PJRT's interface (pjrt_interface.pxd), and the functions on them.

Everything here is plain memory with reference counts, and no function needs the GIL: JAX calls them from its own
threads, even while Python shuts down. A buffer is in storage (storage.pyx), which a call may still have to write.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from refxla._core.errors cimport Error, copy_of, no_memory, plain_error
from refxla._core.execution cimport in_main_thread, wait_for
from refxla._core.pjrt_interface cimport *
from refxla._core.storage cimport (
    Completion,
    Storage,
    add,
    drop,
    drop_completion,
    failure_of,
    hold,
    hold_completion,
    host_data,
    is_done,
    is_written,
    lock,
    new_storage,
    storage_at,
    unlock,
    when_done,
)

# HLO's names of the interface's element types, by their numbers there.
TYPE_NAMES = (
    None, "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16", "c64", "c128",
    "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s4", "u4", "token", "s2", "u2", "f8e4m3",
    "f8e3m4", "f8e8m0fnu", "f4e2m1fn", "s1", "u1", "f6e2m3fn", "f6e3m2fn",
)  # fmt: skip
_WIDE = {"s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4, "c128": 16}

cdef int _number
for _number in range(TYPES):
    _name = TYPE_NAMES[_number]
    ELEMENT_BYTES[_number] = 0 if _name is None else _WIDE.get(_name, 8 if _name.endswith("64") else 1)

cdef char _event = 0
READY = &_event


# Errors --------------------------------------------------------------------------------------------------------------


cdef void error_destroy(SubjectArgs* args) noexcept nogil:
    free(args.subject)


cdef void error_message(TextArgs* args) noexcept nogil:
    cdef Error* error = <Error*> args.subject
    args.text, args.text_size = error.text, error.size


cdef Error* error_code(IntArgs* args) noexcept nogil:
    args.answer = (<Error*> args.subject).code
    return NULL


# Events --------------------------------------------------------------------------------------------------------------


cdef Error* event_destroy(SubjectArgs* args) noexcept nogil:
    if args.subject != READY:
        drop_completion(<Completion*> args.subject)
    return NULL


cdef Error* event_is_ready(BoolArgs* args) noexcept nogil:
    args.answer = args.subject == READY or is_done(<Completion*> args.subject)
    return NULL


cdef Error* event_error(SubjectArgs* args) noexcept nogil:
    cdef Completion* completion = <Completion*> args.subject
    if args.subject == READY or not is_done(completion) or completion.error == NULL:
        return NULL
    return copy_of(completion.error)


cdef Error* event_await(SubjectArgs* args) noexcept nogil:
    if args.subject != READY:
        wait_for(<Completion*> args.subject)
    return event_error(args)


cdef Error* event_on_ready(OnReadyArgs* args) noexcept nogil:
    if args.event == READY:
        args.callback(NULL, args.argument)
    else:
        when_done(<Completion*> args.event, args.callback, args.argument)
    return NULL


# Buffers -------------------------------------------------------------------------------------------------------------


cdef Buffer* new_buffer(
    Storage* storage, Memory* memory, int element_type, const int64_t* dimensions, int rank
) noexcept nogil:
    cdef int n
    cdef Buffer* buffer = <Buffer*> malloc(sizeof(Buffer) + 2 * rank * sizeof(int64_t))
    if buffer == NULL:
        return NULL
    buffer.references, buffer.outside, buffer.lock, buffer.donated = 1, 0, 0, 0
    buffer.storage, buffer.external_storage, buffer.memory = storage, NULL, memory
    buffer.element_type, buffer.rank = element_type, rank
    buffer.dimensions = <int64_t*> (buffer + 1)
    buffer.minor_to_major = buffer.dimensions + rank
    buffer.bytes = ELEMENT_BYTES[element_type]
    for n in range(rank):
        buffer.dimensions[n] = dimensions[n]
        buffer.minor_to_major[n] = rank - 1 - n
        buffer.bytes *= dimensions[n]
    return buffer


cdef Storage* storage_of(Buffer* buffer) noexcept nogil:
    lock(&buffer.lock)
    cdef Storage* storage = buffer.storage
    if storage != NULL:
        hold(storage)
    unlock(&buffer.lock)
    return storage


cdef void delete_buffer(Buffer* buffer) noexcept nogil:
    lock(&buffer.lock)
    cdef Storage* storage = buffer.storage
    buffer.storage = NULL
    unlock(&buffer.lock)
    drop(storage)


cdef void destroy_buffer(Buffer* buffer) noexcept nogil:
    if buffer == NULL or add(&buffer.references, -1) > 0:
        return
    drop(buffer.storage)
    drop(buffer.external_storage)
    free(buffer)


cdef Error* deleted() noexcept nogil:
    return plain_error(INVALID_ARGUMENT, "the array was deleted or donated")


cdef Error* buffer_destroy(SubjectArgs* args) noexcept nogil:
    destroy_buffer(<Buffer*> args.subject)
    return NULL


cdef Error* buffer_element_type(IntArgs* args) noexcept nogil:
    args.answer = (<Buffer*> args.subject).element_type
    return NULL


cdef Error* buffer_dimensions(ListArgs* args) noexcept nogil:
    args.items, args.count = (<Buffer*> args.subject).dimensions, (<Buffer*> args.subject).rank
    return NULL


cdef Error* buffer_dynamic_dimensions(ListArgs* args) noexcept nogil:
    args.items, args.count = NULL, 0
    return NULL


cdef Error* buffer_layout(LayoutArgs* args) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> args.subject
    args.layout.kind = TILED
    args.layout.layout.tiled.minor_to_major = buffer.minor_to_major
    args.layout.layout.tiled.rank = buffer.rank
    args.layout.layout.tiled.tiles = NULL
    args.layout.layout.tiled.tile_ranks = NULL
    args.layout.layout.tiled.tile_count = 0
    return NULL


cdef Error* buffer_size(LongArgs* args) noexcept nogil:
    args.answer = (<Buffer*> args.subject).bytes
    return NULL


cdef Error* buffer_device(PointerArgs* args) noexcept nogil:
    args.answer = (<Buffer*> args.subject).memory.device
    return NULL


cdef Error* buffer_memory(PointerArgs* args) noexcept nogil:
    args.answer = (<Buffer*> args.subject).memory
    return NULL


cdef Error* buffer_delete(SubjectArgs* args) noexcept nogil:
    delete_buffer(<Buffer*> args.subject)
    return NULL


cdef Error* buffer_is_deleted(BoolArgs* args) noexcept nogil:
    args.answer = (<Buffer*> args.subject).storage == NULL
    return NULL


cdef Error* buffer_is_on_cpu(BoolArgs* args) noexcept nogil:
    args.answer = 1
    return NULL


cdef Error* buffer_ready_event(PointerArgs* args) noexcept nogil:
    """JAX calls this in order to wait, in a way in which no signal ends the running work: the main thread waits
    here."""
    cdef Storage* storage = storage_of(<Buffer*> args.subject)
    cdef Completion* writer
    if storage == NULL:
        return deleted()
    writer = storage.writer
    if writer != NULL and in_main_thread() and wait_for(writer) and writer.error != NULL:
        # Nobody sees the values, since the signal handler's exception comes first, and nobody must see them later.
        delete_buffer(<Buffer*> args.subject)
        args.answer = READY
    elif writer == NULL or (is_done(writer) and writer.error == NULL):
        args.answer = READY
    else:
        hold_completion(writer)
        args.answer = writer
    drop(storage)
    return NULL


cdef Error* read_storage(Buffer* buffer, Storage** answer) noexcept nogil:
    """The storage, with a reference to it, when it holds its values on the host as well."""
    cdef Storage* storage = storage_of(buffer)
    cdef Error* error
    if storage == NULL:
        return deleted()
    if not is_written(storage):
        wait_for(storage.writer)
    error = failure_of(storage)
    if error != NULL:
        drop(storage)
        return error
    if host_data(storage) == NULL and buffer.bytes:
        drop(storage)
        return no_memory("a copy of an array", buffer.bytes)
    answer[0] = storage
    return NULL


cdef Error* buffer_pointer(PointerArgs* args) noexcept nogil:
    """The array's address on the host. A caller that holds an external reference may use it even after a deletion. JAX
    asks before the values are there: only then does the host have a copy of an array on a device."""
    cdef Buffer* buffer = <Buffer*> args.subject
    cdef Storage* storage
    lock(&buffer.lock)
    storage = buffer.storage if buffer.storage != NULL else buffer.external_storage
    if storage != NULL:
        hold(storage)
    unlock(&buffer.lock)
    if storage == NULL:
        return deleted()
    if storage.handle != NULL and not is_written(storage):
        wait_for(storage.writer)
    args.answer = host_data(storage)
    drop(storage)
    return no_memory("a copy of an array", buffer.bytes) if args.answer == NULL and buffer.bytes else NULL


cdef Error* buffer_read_outside(SubjectArgs* args) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> args.subject
    cdef bint gone
    lock(&buffer.lock)
    gone = buffer.storage == NULL and buffer.external_storage == NULL
    if not gone:
        buffer.outside += 1
        if buffer.external_storage == NULL:
            buffer.external_storage = buffer.storage
            hold(buffer.external_storage)
    unlock(&buffer.lock)
    if gone:
        return deleted()
    add(&buffer.references, 1)
    return NULL


cdef Error* buffer_read_no_more(SubjectArgs* args) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> args.subject
    cdef Storage* storage = NULL
    lock(&buffer.lock)
    buffer.outside -= 1
    if buffer.outside == 0:
        storage, buffer.external_storage = buffer.external_storage, NULL
    unlock(&buffer.lock)
    drop(storage)
    destroy_buffer(buffer)
    return NULL


cdef Error* copied(Buffer* buffer, Memory* memory, void** answer) noexcept nogil:
    """A copy in a memory. All memories are the host's, but a donation may overwrite one and not the other."""
    cdef Storage* source = NULL
    cdef Storage* target
    cdef Error* error = read_storage(buffer, &source)
    if error != NULL:
        return error
    target = new_storage(buffer.bytes)
    if target != NULL:
        memcpy(target.data, source.data, buffer.bytes)
    drop(source)
    return give_buffer(target, memory, buffer.element_type, buffer.dimensions, buffer.rank, answer)


cdef Error* give_buffer(
    Storage* storage, Memory* memory, int element_type, const int64_t* dimensions, int rank, void** answer
) noexcept nogil:
    """Answers with a buffer that takes over the storage, which may be NULL if there is no memory."""
    cdef Buffer* buffer
    cdef size_t size = ELEMENT_BYTES[element_type]
    cdef int n
    for n in range(rank):
        size *= dimensions[n]
    if storage == NULL:
        return no_memory("an array", size)
    buffer = new_buffer(storage, memory, element_type, dimensions, rank)
    if buffer == NULL:
        drop(storage)
        return no_memory("an array", size)
    answer[0] = buffer
    return NULL


cdef Error* buffer_copy_to_device(TargetArgs* args) noexcept nogil:
    return copied(<Buffer*> args.subject, &(<Device*> args.target).memories[DEVICE_MEMORY], &args.answer)


cdef Error* buffer_copy_to_memory(TargetArgs* args) noexcept nogil:
    return copied(<Buffer*> args.subject, <Memory*> args.target, &args.answer)


# To and from arrays of the host --------------------------------------------------------------------------------------


cdef bint is_dense(const int64_t* strides, const int64_t* dimensions, int rank, int64_t item) noexcept nogil:
    """Whether elements are contiguous in row-major order."""
    cdef int n
    for n in range(rank - 1, -1, -1):
        if dimensions[n] != 1 and strides[n] != item:
            return False
        item *= dimensions[n]
    return True


cdef void copy_strided(
    char* target, const int64_t* target_strides, const char* source, const int64_t* source_strides,
    const int64_t* dimensions, int rank, int64_t item,
) noexcept nogil:
    """Copies elements of `item` bytes with strides in bytes in both arrays; NULL: dense, row-major."""
    cdef int64_t n, target_step, source_step
    cdef int d
    if rank == 0:
        memcpy(target, source, item)
        return
    target_step = source_step = item
    for d in range(1, rank):
        target_step *= dimensions[d]
        source_step *= dimensions[d]
    if target_strides != NULL:
        target_step = target_strides[0]
    if source_strides != NULL:
        source_step = source_strides[0]
    for n in range(dimensions[0]):
        copy_strided(
            target + n * target_step, NULL if target_strides == NULL else target_strides + 1,
            source + n * source_step, NULL if source_strides == NULL else source_strides + 1,
            dimensions + 1, rank - 1, item,
        )


cdef Memory* memory_of(Device* device, Memory* memory) noexcept nogil:
    """Where the caller wants an array: in a memory, or, if that is NULL, in a device's default one."""
    return memory if memory != NULL else &device.memories[DEVICE_MEMORY]


cdef Error* client_buffer_from_host(FromHostArgs* args) noexcept nogil:
    """A copy, whatever the caller promises: JAX promises that users will not change their arrays, but they do."""
    cdef Memory* memory = memory_of(<Device*> args.device, <Memory*> args.memory)
    cdef Storage* storage
    cdef size_t size
    cdef int n, rank = <int> args.rank
    if args.element_type <= 0 or args.element_type >= TYPES:
        return plain_error(UNIMPLEMENTED, "refxla has no arrays of this element type")
    size = ELEMENT_BYTES[args.element_type]
    for n in range(rank):
        size *= args.dimensions[n]
    storage = new_storage(size)
    if storage != NULL and size:
        if args.stride_count == 0 or is_dense(args.strides, args.dimensions, rank, ELEMENT_BYTES[args.element_type]):
            memcpy(storage.data, args.data, size)
        else:
            copy_strided(
                <char*> storage.data, NULL, <const char*> args.data, args.strides, args.dimensions, rank,
                ELEMENT_BYTES[args.element_type],
            )
    args.event = READY
    return give_buffer(storage, memory, args.element_type, args.dimensions, rank, &args.buffer)


cdef Error* client_uninitialized_buffer(UninitializedArgs* args) noexcept nogil:
    cdef Memory* memory = memory_of(<Device*> args.device, <Memory*> args.memory)
    cdef size_t size
    cdef int n
    if args.element_type <= 0 or args.element_type >= TYPES:
        return plain_error(UNIMPLEMENTED, "refxla has no arrays of this element type")
    size = ELEMENT_BYTES[args.element_type]
    for n in range(<int> args.rank):
        size *= args.dimensions[n]
    return give_buffer(new_storage(size), memory, args.element_type, args.dimensions, <int> args.rank, &args.buffer)


cdef Error* client_view(ViewArgs* args) noexcept nogil:
    """An external array as a buffer: dense, row-major, aligned to its elements."""
    cdef bint is_told = args.size >= sizeof(ViewArgs)  # whether it names a memory
    cdef Memory* memory = memory_of(<Device*> args.device, <Memory*> args.memory if is_told else NULL)
    cdef size_t item, size
    cdef Storage* storage
    cdef int n
    if args.element_type <= 0 or args.element_type >= TYPES:
        return plain_error(UNIMPLEMENTED, "refxla has no arrays of this element type")
    item = ELEMENT_BYTES[args.element_type]
    if item and <uintptr_t> args.data % item:
        return plain_error(INVALID_ARGUMENT, "the array is not aligned to the size of its elements: copy it")
    if args.layout != NULL and not is_row_major(args.layout, args.dimensions, <int> args.rank, item):
        return plain_error(INVALID_ARGUMENT, "the array is not dense and row-major: copy it")
    size = item
    for n in range(<int> args.rank):
        size *= args.dimensions[n]
    storage = storage_at(args.data, size)
    if storage == NULL:
        return no_memory("an array", size)
    storage.on_delete, storage.on_delete_argument = args.on_delete, args.on_delete_argument
    return give_buffer(storage, memory, args.element_type, args.dimensions, <int> args.rank, &args.buffer)


cdef bint is_row_major(MemoryLayout* layout, const int64_t* dimensions, int rank, int64_t item) noexcept nogil:
    cdef int n
    if layout.kind == STRIDES:
        return is_dense(layout.layout.strided.strides, dimensions, rank, item)
    if layout.layout.tiled.tile_count or layout.layout.tiled.rank != <size_t> rank:
        return False
    for n in range(rank):
        if layout.layout.tiled.minor_to_major[n] != rank - 1 - n:
            return False
    return True


cdef Error* buffer_to_host(ToHostArgs* args) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> args.buffer
    cdef int64_t item = <int64_t> ELEMENT_BYTES[buffer.element_type]
    cdef int64_t step = item
    cdef Storage* storage = NULL
    cdef Error* error
    cdef int64_t strides[64]
    cdef const int64_t* host_strides
    cdef int n
    cdef int64_t d
    if args.target == NULL:
        args.target_size = buffer.bytes
        return NULL
    if args.target_size < buffer.bytes:
        return plain_error(INVALID_ARGUMENT, "the array does not fit where it is to be copied")
    error = read_storage(buffer, &storage)
    if error != NULL:
        return error
    if args.layout == NULL or is_row_major(args.layout, buffer.dimensions, buffer.rank, item):
        memcpy(args.target, storage.data, buffer.bytes)
    elif buffer.bytes:
        host_strides = args.layout.layout.strided.strides
        if args.layout.kind == TILED:
            if args.layout.layout.tiled.tile_count or args.layout.layout.tiled.rank != <size_t> buffer.rank or buffer.rank > 64:
                drop(storage)
                return plain_error(UNIMPLEMENTED, "an array is copied to the host in dense layouts alone")
            for n in range(buffer.rank):
                d = args.layout.layout.tiled.minor_to_major[n]
                strides[d] = step
                step *= buffer.dimensions[d]
            host_strides = strides
        copy_strided(<char*> args.target, host_strides, <const char*> storage.data, NULL, buffer.dimensions, buffer.rank, item)
    drop(storage)
    args.event = READY
    return NULL


cdef Error* buffer_raw_to_host(RawToHostArgs* args) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> args.buffer
    cdef Storage* storage = NULL
    cdef Error* error
    if args.offset < 0 or args.count < 0 or args.offset + args.count > <int64_t> buffer.bytes:
        return plain_error(INVALID_ARGUMENT, "these bytes lie outside of the array")
    error = read_storage(buffer, &storage)
    if error != NULL:
        return error
    memcpy(args.target, <char*> storage.data + args.offset, args.count)
    drop(storage)
    args.event = READY
    return NULL


cdef void add_functions(void** functions) noexcept nogil:
    functions[ERROR_DESTROY] = <void*> error_destroy
    functions[ERROR_MESSAGE] = <void*> error_message
    functions[ERROR_GET_CODE] = <void*> error_code
    functions[EVENT_DESTROY] = <void*> event_destroy
    functions[EVENT_IS_READY] = <void*> event_is_ready
    functions[EVENT_ERROR] = <void*> event_error
    functions[EVENT_AWAIT] = <void*> event_await
    functions[EVENT_ON_READY] = <void*> event_on_ready
    functions[BUFFER_DESTROY] = <void*> buffer_destroy
    functions[BUFFER_ELEMENT_TYPE] = <void*> buffer_element_type
    functions[BUFFER_DIMENSIONS] = <void*> buffer_dimensions
    functions[BUFFER_UNPADDED_DIMENSIONS] = <void*> buffer_dimensions
    functions[BUFFER_DYNAMIC_DIMENSION_INDICES] = <void*> buffer_dynamic_dimensions
    functions[BUFFER_GET_MEMORY_LAYOUT] = <void*> buffer_layout
    functions[BUFFER_ON_DEVICE_SIZE_IN_BYTES] = <void*> buffer_size
    functions[BUFFER_DEVICE] = <void*> buffer_device
    functions[BUFFER_MEMORY] = <void*> buffer_memory
    functions[BUFFER_DELETE] = <void*> buffer_delete
    functions[BUFFER_IS_DELETED] = <void*> buffer_is_deleted
    functions[BUFFER_COPY_TO_DEVICE] = <void*> buffer_copy_to_device
    functions[BUFFER_COPY_TO_MEMORY] = <void*> buffer_copy_to_memory
    functions[BUFFER_TO_HOST_BUFFER] = <void*> buffer_to_host
    functions[BUFFER_COPY_RAW_TO_HOST] = <void*> buffer_raw_to_host
    functions[BUFFER_IS_ON_CPU] = <void*> buffer_is_on_cpu
    functions[BUFFER_READY_EVENT] = <void*> buffer_ready_event
    functions[BUFFER_UNSAFE_POINTER] = <void*> buffer_pointer
    functions[BUFFER_OPAQUE_DEVICE_MEMORY_DATA_POINTER] = <void*> buffer_pointer
    functions[BUFFER_INCREASE_EXTERNAL_REFERENCE_COUNT] = <void*> buffer_read_outside
    functions[BUFFER_DECREASE_EXTERNAL_REFERENCE_COUNT] = <void*> buffer_read_no_more
    functions[CLIENT_BUFFER_FROM_HOST_BUFFER] = <void*> client_buffer_from_host
    functions[CLIENT_CREATE_UNINITIALIZED_BUFFER] = <void*> client_uninitialized_buffer
    functions[CLIENT_CREATE_VIEW_OF_DEVICE_BUFFER] = <void*> client_view
