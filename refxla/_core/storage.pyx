"""The memory of arrays that stay on a device, and when it holds its values.

Everything here is plain memory with reference counts, and nothing needs the GIL. If kernels can access the host's
memory, storage is host memory, from the pool of all of refxla's results. If the device has its own memory, storage is
device memory, and values are copied to the host on request.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from refxla._core.buffer_pool cimport give_back, obtain
from refxla._core.device_memory cimport Space, download, give_back_device, obtain_device, upload
from refxla._core.errors cimport Error, copy_of
from refxla._core.opencl cimport SUCCESS, Handle

cdef extern from *:
    """
    #include <pthread.h>
    #include <stdint.h>
    /* of copies between host and device */
    static pthread_mutex_t rx_copies = PTHREAD_MUTEX_INITIALIZER;
    static inline void rx_begin_copy(void) { pthread_mutex_lock(&rx_copies); }
    static inline void rx_end_copy(void) { pthread_mutex_unlock(&rx_copies); }
    static inline int64_t rx_count(int64_t* p, int64_t n) { return __atomic_add_fetch(p, n, __ATOMIC_SEQ_CST); }
    static inline void rx_lock(uint8_t* p) { while (__atomic_test_and_set(p, __ATOMIC_ACQUIRE)) {} }
    static inline void rx_unlock(uint8_t* p) { __atomic_clear(p, __ATOMIC_RELEASE); }
    static inline int64_t rx_load(int64_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void rx_store(int64_t* p, int64_t n) { __atomic_store_n(p, n, __ATOMIC_SEQ_CST); }
    """
    void rx_begin_copy() noexcept nogil
    void rx_end_copy() noexcept nogil
    int64_t rx_count(int64_t*, int64_t) noexcept nogil
    void rx_lock(uint8_t*) noexcept nogil
    void rx_unlock(uint8_t*) noexcept nogil
    int64_t rx_load(int64_t*) noexcept nogil
    void rx_store(int64_t*, int64_t) noexcept nogil


cdef int64_t add(int64_t* count, int64_t change) noexcept nogil:
    return rx_count(count, change)


cdef void lock(uint8_t* flag) noexcept nogil:
    rx_lock(flag)


cdef void unlock(uint8_t* flag) noexcept nogil:
    rx_unlock(flag)


cdef Storage* new_storage(size_t size) noexcept nogil:
    cdef int order = -1
    cdef void* data = obtain(size, &order)
    cdef Storage* storage
    if data == NULL:
        return NULL
    storage = storage_at(data, size)
    if storage == NULL:
        give_back(data, order)
        return NULL
    storage.order = order
    return storage


cdef Storage* storage_at(void* data, size_t size) noexcept nogil:
    cdef Storage* storage = <Storage*> malloc(sizeof(Storage))
    if storage == NULL:
        return NULL
    storage.references, storage.queued, storage.data, storage.order, storage.bytes = 1, 0, data, -1, size
    storage.space, storage.handle, storage.device_order = NULL, NULL, -1
    storage.writer, storage.on_delete, storage.on_delete_argument = NULL, NULL, NULL
    return storage


cdef Storage* new_device_storage(Space* space, size_t size) noexcept nogil:
    cdef Storage* storage = storage_at(NULL, size)
    if storage != NULL and not obtain_on_device(storage, space):
        free(storage)
        return NULL
    return storage


cdef bint obtain_on_device(Storage* storage, Space* space) noexcept nogil:
    storage.handle = obtain_device(space, storage.bytes, &storage.device_order)
    storage.space = space if storage.handle != NULL else NULL
    return storage.handle != NULL


cdef void* host_data(Storage* storage) noexcept nogil:
    cdef void* data
    cdef int order = -1
    if storage.handle == NULL:
        return storage.data
    rx_begin_copy()
    if storage.data == NULL:
        data = obtain(storage.bytes, &order)
        if data != NULL and download(storage.space, data, storage.handle, storage.bytes) != SUCCESS:
            give_back(data, order)
            data = NULL
        if data != NULL:
            storage.data, storage.order = data, order
    data = storage.data
    rx_end_copy()
    return data


cdef Handle device_data(Storage* storage, Space* space) noexcept nogil:
    cdef Handle handle = NULL
    rx_begin_copy()
    if storage.handle == NULL and obtain_on_device(storage, space):
        if upload(space, storage.handle, storage.data, storage.bytes) != SUCCESS:
            give_back_device(space, storage.handle, storage.device_order)
            storage.handle, storage.space = NULL, NULL
    if storage.space == space:
        handle = storage.handle
    rx_end_copy()
    return handle


cdef void forget_host(Storage* storage) noexcept nogil:
    if storage.order >= 0:
        give_back(storage.data, storage.order)
    storage.data, storage.order = NULL, -1


cdef void hold(Storage* storage) noexcept nogil:
    rx_count(&storage.references, 1)


cdef void drop(Storage* storage) noexcept nogil:
    if storage == NULL or rx_count(&storage.references, -1) > 0:
        return
    if storage.on_delete != NULL:
        storage.on_delete(storage.data, storage.on_delete_argument)
    elif storage.order >= 0:
        give_back(storage.data, storage.order)
    if storage.handle != NULL:
        give_back_device(storage.space, storage.handle, storage.device_order)
    drop_completion(storage.writer)
    free(storage)


cdef bint is_exclusive(Storage* storage) noexcept nogil:
    cdef bint pooled = storage.order >= 0 or storage.data == NULL
    return pooled and rx_load(&storage.references) - rx_load(&storage.queued) == 1


cdef bint is_written(Storage* storage) noexcept nogil:
    return storage.writer == NULL or rx_load(&storage.writer.done)


cdef Error* failure_of(Storage* storage) noexcept nogil:
    if storage.writer == NULL or not rx_load(&storage.writer.done) or storage.writer.error == NULL:
        return NULL
    return copy_of(storage.writer.error)


# Completions ---------------------------------------------------------------------------------------------------------


cdef Completion* new_completion() noexcept nogil:
    cdef Completion* completion = <Completion*> malloc(sizeof(Completion))
    if completion != NULL:
        completion.references, completion.lock, completion.done = 1, 0, 0
        completion.error, completion.callbacks = NULL, NULL
    return completion


cdef void hold_completion(Completion* completion) noexcept nogil:
    rx_count(&completion.references, 1)


cdef void drop_completion(Completion* completion) noexcept nogil:
    if completion == NULL or rx_count(&completion.references, -1) > 0:
        return
    free(completion.error)
    free(completion)


cdef bint is_done(Completion* completion) noexcept nogil:
    return rx_load(&completion.done) != 0


cdef void complete(Completion* completion, Error* error) noexcept nogil:
    cdef Callback* callback
    cdef Callback* following
    completion.error = error
    rx_lock(&completion.lock)
    rx_store(&completion.done, 1)
    callback, completion.callbacks = completion.callbacks, NULL
    rx_unlock(&completion.lock)
    while callback != NULL:  # without the lock: they may do anything
        following = callback.next
        callback.call(NULL if error == NULL else copy_of(error), callback.argument)
        free(callback)
        callback = following


cdef void when_done(
    Completion* completion, void (*call)(void* error, void* argument) noexcept nogil, void* argument
) noexcept nogil:
    cdef Callback* callback = <Callback*> malloc(sizeof(Callback))
    cdef bint waits = False
    if callback != NULL:
        callback.call, callback.argument = call, argument
        rx_lock(&completion.lock)
        if not completion.done:
            callback.next, completion.callbacks, waits = completion.callbacks, callback, True
        rx_unlock(&completion.lock)
    if not waits:
        free(callback)
        call(NULL if completion.error == NULL else copy_of(completion.error), argument)
