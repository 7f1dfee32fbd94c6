"""A memory pool for arrays, to which memory returns when they die.

The result of a call is in a PoolBlock, which is the base object of the array that the caller gets: the memory returns
to the pool only when the array and all views of it are gone. Fresh pages cost more than most arithmetic (the kernel
clears each one when it is first touched), so used memory is kept for the next call.

Free blocks are kept in one list per size class, four classes to an octave. Memory is obtained and returned without the
GIL (the buffers of the PJRT plugin are in the same pool), so a mutex guards the lists.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** pointer, size_t alignment, size_t size)

cdef extern from "sys/mman.h" nogil:
    int madvise(void* address, size_t length, int advice)
    int MADV_HUGEPAGE

cdef extern from *:
    """
    #include <pthread.h>

    static pthread_mutex_t rx_pool = PTHREAD_MUTEX_INITIALIZER;
    """
    ctypedef struct pthread_mutex_t:
        pass
    pthread_mutex_t rx_pool
    int pthread_mutex_lock(pthread_mutex_t*) noexcept nogil
    int pthread_mutex_unlock(pthread_mutex_t*) noexcept nogil
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)

cdef extern from "unistd.h" nogil:
    long sysconf(int name)
    int _SC_PHYS_PAGES
    int _SC_PAGESIZE

cdef enum:
    LINE = 64
    PAGE = 4096
    HUGE_PAGE = 2097152

cdef void* _free[CLASSES]  # the heads of lists, linked through the first word of each free block
cdef size_t _free_bytes = 0  # bytes in these lists
cdef size_t _live = 0  # bytes in blocks in use
cdef size_t _peak = 0  # the maximum of these
cdef size_t _limit = max(<size_t> 256 << 20, <size_t> sysconf(_SC_PHYS_PAGES) * <size_t> sysconf(_SC_PAGESIZE) // 4)

cdef int i
for i in range(CLASSES):
    _free[i] = NULL


cdef size_t capacity(int order) noexcept nogil:
    return (<size_t> (4 + (order & 3)) << (order >> 2)) * 16


cdef int order_of(size_t size) noexcept nogil:
    cdef int order = 0
    while order < CLASSES and capacity(order + 4) <= size:
        order += 4
    while order < CLASSES and capacity(order) < size:
        order += 1
    return order


@cython.freelist(64)
@cython.no_gc
cdef class PoolBlock:
    def __cinit__(self):
        self.data = NULL
        self.size = 0
        self.order = -1

    def __dealloc__(self):
        if self.data != NULL:
            give_back(self.data, self.order)

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return <uintptr_t> self.data

    def __len__(self) -> int:
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef PoolBlock take(size_t size, str purpose):
    cdef int order = -1
    cdef void* data
    if order_of(size) >= CLASSES:
        raise MemoryError(f"{size} bytes for {purpose} are more than an address space holds")
    cdef PoolBlock block = PoolBlock.__new__(PoolBlock)
    data = obtain(size, &order)
    if data == NULL:
        raise MemoryError(f"no memory for {purpose}: {size} bytes")
    block.data = data
    block.size = size
    block.order = order
    return block


cdef void* obtain(size_t size, int* order) noexcept nogil:
    global _free_bytes, _live, _peak
    cdef size_t block_size
    cdef void* data
    order[0] = order_of(size)
    if order[0] >= CLASSES:
        return NULL
    block_size = capacity(order[0])
    pthread_mutex_lock(&rx_pool)
    data = _free[order[0]]
    if data != NULL:
        _free[order[0]] = (<void**> data)[0]
        _free_bytes -= block_size
    else:
        data = fresh(block_size)
        if data == NULL and _free_bytes:
            release_all()
            data = fresh(block_size)
    if data != NULL:
        _live += block_size
        _peak = max(_peak, _live)
    pthread_mutex_unlock(&rx_pool)
    return data


cdef void* fresh(size_t block_size) noexcept nogil:
    cdef void* data = NULL
    cdef size_t alignment = LINE if block_size < 16 * PAGE else PAGE if block_size < 2 * HUGE_PAGE else HUGE_PAGE
    if posix_memalign(&data, alignment, block_size):
        return NULL
    if alignment == HUGE_PAGE:
        madvise(data, block_size, MADV_HUGEPAGE)  # a hint: if it is ignored, the pages are small
    return data


cdef void give_back(void* data, int order) noexcept nogil:
    global _free_bytes, _live
    cdef size_t block_size = capacity(order)
    pthread_mutex_lock(&rx_pool)
    _live -= block_size
    if _free_bytes + block_size > _limit:
        release_all()  # sizes that were needed once: start again rather than choose among them
    if block_size > _limit:
        free(data)
    else:
        (<void**> data)[0] = _free[order]
        _free[order] = data
        _free_bytes += block_size
    pthread_mutex_unlock(&rx_pool)


cdef size_t release_all() noexcept nogil:
    """Returns all unused memory to the system; the caller holds the mutex. Returns the number of bytes."""
    global _free_bytes
    cdef int order
    cdef void* data
    cdef size_t released = _free_bytes
    for order in range(CLASSES):
        while _free[order] != NULL:
            data = _free[order]
            _free[order] = (<void**> data)[0]
            free(data)
    _free_bytes = 0
    return released


cpdef size_t trim() noexcept:
    """Returns all unused memory to the system. Returns the number of bytes."""
    cdef size_t released
    pthread_mutex_lock(&rx_pool)
    released = release_all()
    pthread_mutex_unlock(&rx_pool)
    return released


cdef void lock_pool() noexcept nogil:
    pthread_mutex_lock(&rx_pool)


cdef void unlock_pool() noexcept nogil:
    pthread_mutex_unlock(&rx_pool)


pthread_atfork(lock_pool, unlock_pool, unlock_pool)  # so that a forked process has a pool in a consistent state


cdef size_t live_bytes() noexcept nogil:
    return _live


cdef size_t peak_bytes() noexcept nogil:
    return _peak


def allocate(size: int) -> PoolBlock:
    """A block of `size` bytes with undefined contents, as the buffer of an array (`np.frombuffer(block, ...)`)."""
    return take(size, "an array")


def usage() -> tuple[int, int]:
    """(bytes in blocks in use, bytes kept for later)."""
    return _live, _free_bytes


def set_limit(limit: int) -> int:
    """Sets how many bytes may be kept for later (initially a quarter of the machine's memory). Returns the old
    limit."""
    global _limit
    cdef size_t old = _limit
    _limit = limit
    if _free_bytes > _limit:
        trim()
    return old
