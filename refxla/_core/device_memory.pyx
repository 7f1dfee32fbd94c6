"""Memory of a device that has its own, kept between calls.

A device takes long to allocate memory, and longer to touch it first. So returned memory is kept for requests of the
same size class, like the host's memory (buffer_pool.pyx). If the device has no more, kept memory is returned to it.
Memory is counted here because many drivers allocate it only when it is first touched, and then running out of memory is
an error of a kernel.
"""

from libc.stdlib cimport calloc, free, malloc

from refxla._core.buffer_pool cimport CLASSES, capacity, order_of
from refxla._core.opencl cimport SUCCESS, api, bind

from libc.stdint cimport uintptr_t

cdef extern from *:
    """
    #include <pthread.h>

    static void* rx_new_mutex(void) {
        pthread_mutex_t* mutex = malloc(sizeof(pthread_mutex_t));
        if (mutex) pthread_mutex_init(mutex, 0);
        return mutex;
    }
    static void rx_lock_mutex(void* mutex) { pthread_mutex_lock(mutex); }
    static void rx_unlock_mutex(void* mutex) { pthread_mutex_unlock(mutex); }
    """
    void* rx_new_mutex() noexcept nogil
    void rx_lock_mutex(void*) noexcept nogil
    void rx_unlock_mutex(void*) noexcept nogil

cdef enum:
    READ_WRITE = 1  # CL_MEM_READ_WRITE

cdef dict _spaces = {}  # keyed by context and device: (the address of a Space, the pyopencl objects that it needs)


cdef Space* space_of(object context, object device) except NULL:
    import pyopencl

    cdef Space* space
    bind()
    key = context.int_ptr, device.int_ptr
    if key not in _spaces:
        space = <Space*> calloc(1, sizeof(Space))
        if space == NULL:
            raise MemoryError
        space.mutex, space.free = rx_new_mutex(), <Free**> calloc(CLASSES, sizeof(Free*))
        if space.mutex == NULL or space.free == NULL:
            raise MemoryError
        own = pyopencl.CommandQueue(context, device)
        space.context, space.queue = <Handle> <uintptr_t> context.int_ptr, <Handle> <uintptr_t> own.int_ptr
        space.limit = device.global_mem_size
        _spaces[key] = <uintptr_t> space, context, own
    return <Space*> <uintptr_t> _spaces[key][0]


cdef Handle obtain_device(Space* space, size_t size, int* order) noexcept nogil:
    cdef Handle handle = NULL
    cdef Free* first
    cdef size_t block_size
    order[0] = order_of(size)
    if order[0] >= CLASSES:
        return NULL
    block_size = capacity(order[0])
    rx_lock_mutex(space.mutex)
    first = space.free[order[0]]
    if first != NULL:
        space.free[order[0]], handle = first.next, first.handle
        free(first)
        space.free_bytes -= block_size
    else:
        if space.live + space.free_bytes + block_size > space.limit:
            release_free(space)
        if space.live + block_size <= space.limit:
            handle = fresh(space, block_size)
            if handle == NULL and space.free_bytes:
                release_free(space)
                handle = fresh(space, block_size)
    if handle != NULL:
        space.live += block_size
    rx_unlock_mutex(space.mutex)
    return handle


cdef Handle fresh(Space* space, size_t block_size) noexcept nogil:
    cdef int32_t status = SUCCESS
    cdef Handle handle = api.create_buffer(space.context, READ_WRITE, block_size, NULL, &status)
    return handle if status == SUCCESS else NULL


cdef void give_back_device(Space* space, Handle handle, int order) noexcept nogil:
    cdef size_t block_size = capacity(order)
    cdef Free* first = <Free*> malloc(sizeof(Free))
    rx_lock_mutex(space.mutex)
    space.live -= block_size
    if first == NULL:
        api.release_buffer(handle)
        space.released += 1
    else:
        first.handle, first.next = handle, space.free[order]
        space.free[order] = first
        space.free_bytes += block_size
    rx_unlock_mutex(space.mutex)


cdef void release_free(Space* space) noexcept nogil:
    """Returns unused memory to the device; the caller holds the mutex."""
    cdef int order
    cdef Free* first
    for order in range(CLASSES):
        while space.free[order] != NULL:
            first = space.free[order]
            space.free[order] = first.next
            api.release_buffer(first.handle)
            free(first)
    space.free_bytes = 0
    space.released += 1


cdef int32_t upload(Space* space, Handle target, const void* source, size_t size) noexcept nogil:
    if size == 0:
        return SUCCESS
    return api.write_buffer(space.queue, target, 1, 0, size, source, 0, NULL, NULL)


cdef int32_t download(Space* space, void* target, Handle source, size_t size) noexcept nogil:
    if size == 0:
        return SUCCESS
    return api.read_buffer(space.queue, source, 1, 0, size, target, 0, NULL, NULL)


def usage() -> tuple[int, int]:
    """(bytes of device memory in use, bytes kept for later), over all devices with their own memory."""
    cdef Space* space
    live = free_bytes = 0
    for address, _, _ in _spaces.values():
        space = <Space*> <uintptr_t> address
        live, free_bytes = live + space.live, free_bytes + space.free_bytes
    return live, free_bytes


def trim() -> int:
    """Returns unused memory to devices. Returns the number of bytes."""
    cdef Space* space
    released = 0
    for address, _, _ in _spaces.values():
        space = <Space*> <uintptr_t> address
        rx_lock_mutex(space.mutex)
        released += space.free_bytes
        release_free(space)
        rx_unlock_mutex(space.mutex)
    return released


def set_limit(limit: int) -> int:
    """Sets how many bytes may be obtained from each device with its own memory. Returns the old limit, the smallest
    one."""
    cdef Space* space
    old = []
    for address, _, _ in _spaces.values():
        space = <Space*> <uintptr_t> address
        old.append(space.limit)
        space.limit = limit
    return min(old, default=0)
