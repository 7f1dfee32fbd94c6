# cython: cdivision=True
"""The client of PJRT's interface: devices, each with its memories. There is one client for the life of the process.

Devices here are numbers: all of them are the OpenCL device that refxla uses, and the compiler distributes a program
over them (passes/virtual_devices/). A PJRT topology is a list of devices, and the client is its own topology.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc

from refxla._core.buffer_pool cimport live_bytes, peak_bytes
from refxla._core.errors cimport Error, plain_error
from refxla._core.pjrt_interface cimport *
from refxla._core.pjrt_objects cimport DEVICE_MEMORY, MEMORY_KINDS, Device, Memory

cdef extern from "unistd.h" nogil:
    long sysconf(int name)
    int _SC_PHYS_PAGES
    int _SC_PAGESIZE

cdef Device* devices = NULL
cdef Memory* memories = NULL
cdef void** device_pointers = NULL
cdef void** memory_pointers = NULL
cdef char client  # its address is the handle
cdef const char* platform = "refxla"
cdef const char* platform_version = ""
cdef const char* DEVICE_KIND_TEXT = "cpu"
# Names of the kinds of memory, in the order of their numbers. An array's kind is only a label: all arrays are where the
# device computes.
MEMORY_KIND_NAMES = ("device", "pinned_host", "unpinned_host")

cdef list texts = []  # keeps the memory of C strings
device_count = 0


cdef class GarbageCallback:
    """A function for `gc.callbacks` that calls `collect` without arguments. Python handles no signal when it is called:
    it would when a function in Python is, and an exception of the handler would be reported there, and lost."""

    def __init__(self, collect):
        self.collect = collect

    def __call__(self, phase, info):
        self.collect()


def configure(count: int, version: str) -> None:
    """Creates `count` devices; `version` is the version that the platform reports. It is called once, before all else.

    Raises ValueError for a second call, or a count below 1.
    """
    global devices, memories, device_pointers, memory_pointers, device_count, platform_version
    cdef int n, kind, number
    if device_count or count < 1:
        raise ValueError("devices are made once, and there is one at least")
    devices = <Device*> calloc(count, sizeof(Device))
    memories = <Memory*> calloc(count * MEMORY_KINDS, sizeof(Memory))
    device_pointers = <void**> calloc(count, sizeof(void*))
    memory_pointers = <void**> calloc(count * MEMORY_KINDS, sizeof(void*))
    if devices == NULL or memories == NULL or device_pointers == NULL or memory_pointers == NULL:
        raise MemoryError
    platform_version = text(version)
    for n in range(count):
        device_pointers[n] = &devices[n]
        devices[n].number, devices[n].memories = n, &memories[n * MEMORY_KINDS]
        devices[n].name, devices[n].name_size = text(f"refxla:{n}"), len(f"refxla:{n}")
        devices[n].kind, devices[n].kind_size = DEVICE_KIND_TEXT, 3
        for kind, kind_name in enumerate(MEMORY_KIND_NAMES):
            number = n * MEMORY_KINDS + kind
            name = f"{kind_name} memory of refxla:{n}"
            memory_pointers[number] = &memories[number]
            memories[number].number, memories[number].kind_number = number, kind
            memories[number].kind, memories[number].kind_size = text(kind_name), len(kind_name)
            memories[number].name, memories[number].name_size = text(name), len(name)
            memories[number].device, memories[number].devices = &devices[n], &device_pointers[n]
    device_count = count


cdef const char* text(str content) except NULL:
    encoded = content.encode()
    texts.append(encoded)
    return <const char*> encoded


cdef Device* device_of(int number) noexcept nogil:
    return &devices[number] if 0 <= number < device_count else NULL


cdef Error* nothing(SubjectArgs* args) noexcept nogil:
    return NULL


cdef Error* client_create(CreateClientArgs* args) noexcept nogil:
    args.client = &client
    return NULL


cdef Error* platform_name(TextArgs* args) noexcept nogil:
    args.text, args.text_size = platform, 6
    return NULL


cdef Error* version_text(TextArgs* args) noexcept nogil:
    cdef size_t size = 0
    while platform_version[size]:
        size += 1
    args.text, args.text_size = platform_version, size
    return NULL


cdef Error* process_index(IntArgs* args) noexcept nogil:
    args.answer = 0
    return NULL


cdef Error* client_devices(ListArgs* args) noexcept nogil:
    args.items, args.count = device_pointers, device_count
    return NULL


cdef Error* client_memories(ListArgs* args) noexcept nogil:
    args.items, args.count = memory_pointers, device_count * MEMORY_KINDS
    return NULL


cdef Error* look_up_device(NumberedArgs* args) noexcept nogil:
    args.answer = device_of(args.number)
    return NULL if args.answer != NULL else plain_error(INVALID_ARGUMENT, "there is no device of this number")


cdef Error* default_assignment(AssignmentArgs* args) noexcept nogil:
    """The first devices, in order: row r has those of replica r."""
    cdef int64_t n, count = <int64_t> args.replicas * args.partitions
    if count > device_count:
        return plain_error(INVALID_ARGUMENT, "there are not so many devices; REFXLA_DEVICES says how many there are")
    if <size_t> count > args.assignment_size:
        return plain_error(INVALID_ARGUMENT, "the assignment has no room for so many devices")
    for n in range(count):
        args.assignment[n] = <int> n
    return NULL


cdef Error* client_topology(PointerArgs* args) noexcept nogil:
    args.answer = &client
    return NULL


cdef Error* create_topology(TopologyArgs* args) noexcept nogil:
    args.topology = &client
    return NULL


# Devices are their own descriptions ---------------------------------------------------------------------------------


cdef Error* device_number(IntArgs* args) noexcept nogil:
    args.answer = (<Device*> args.subject).number
    return NULL


cdef Error* no_attributes(CountedListArgs* args) noexcept nogil:
    args.count, args.items = 0, NULL
    return NULL


cdef Error* topology_attributes(ListArgs* args) noexcept nogil:
    args.items, args.count = NULL, 0
    return NULL


cdef Error* device_kind(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Device*> args.subject).kind, (<Device*> args.subject).kind_size
    return NULL


cdef Error* device_text(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Device*> args.subject).name, (<Device*> args.subject).name_size
    return NULL


cdef Error* device_description(PointerArgs* args) noexcept nogil:
    args.answer = args.subject
    return NULL


cdef Error* device_is_addressable(BoolArgs* args) noexcept nogil:
    args.answer = 1
    return NULL


cdef Error* device_memories(ListArgs* args) noexcept nogil:
    args.items, args.count = &memory_pointers[(<Device*> args.subject).number * MEMORY_KINDS], MEMORY_KINDS
    return NULL


cdef Error* device_memory(PointerArgs* args) noexcept nogil:
    args.answer = &(<Device*> args.subject).memories[DEVICE_MEMORY]
    return NULL


cdef Error* device_memory_stats(DeviceMemoryArgs* args) noexcept nogil:
    """The memory of arrays; all devices share the host's memory."""
    args.in_use = live_bytes()
    args.peak_in_use = Statistic(peak_bytes(), 1)
    args.limit = Statistic(<int64_t> sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), 1)
    args.allocations.is_set = args.largest_allocation.is_set = args.reserved.is_set = args.peak_reserved.is_set = 0
    args.reservable.is_set = args.largest_free.is_set = args.pool.is_set = args.peak_pool.is_set = 0
    return NULL


cdef Error* memory_number(IntArgs* args) noexcept nogil:
    args.answer = (<Memory*> args.subject).number
    return NULL


cdef Error* memory_kind(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Memory*> args.subject).kind, (<Memory*> args.subject).kind_size
    return NULL


cdef Error* memory_kind_number(IntArgs* args) noexcept nogil:
    args.answer = (<Memory*> args.subject).kind_number
    return NULL


cdef Error* memory_text(TextArgs* args) noexcept nogil:
    args.text, args.text_size = (<Memory*> args.subject).name, (<Memory*> args.subject).name_size
    return NULL


cdef Error* memory_devices(ListArgs* args) noexcept nogil:
    args.items, args.count = (<Memory*> args.subject).devices, 1
    return NULL


cdef void add_functions(void** functions) noexcept nogil:
    functions[PLUGIN_INITIALIZE] = <void*> nothing
    functions[CLIENT_CREATE] = <void*> client_create
    functions[CLIENT_DESTROY] = <void*> nothing
    functions[CLIENT_PLATFORM_NAME] = <void*> platform_name
    functions[CLIENT_PROCESS_INDEX] = <void*> process_index
    functions[CLIENT_PLATFORM_VERSION] = <void*> version_text
    functions[CLIENT_DEVICES] = <void*> client_devices
    functions[CLIENT_ADDRESSABLE_DEVICES] = <void*> client_devices
    functions[CLIENT_LOOKUP_DEVICE] = <void*> look_up_device
    functions[CLIENT_LOOKUP_ADDRESSABLE_DEVICE] = <void*> look_up_device
    functions[CLIENT_ADDRESSABLE_MEMORIES] = <void*> client_memories
    functions[CLIENT_DEFAULT_DEVICE_ASSIGNMENT] = <void*> default_assignment
    # JAX reports the state of processes after jax.distributed.initialize, and aborts if it cannot; there is one process.
    functions[CLIENT_UPDATE_GLOBAL_PROCESS_INFO] = <void*> nothing
    functions[CLIENT_TOPOLOGY_DESCRIPTION] = <void*> client_topology
    functions[TOPOLOGY_DESCRIPTION_CREATE] = <void*> create_topology
    functions[TOPOLOGY_DESCRIPTION_DESTROY] = <void*> nothing
    functions[TOPOLOGY_DESCRIPTION_PLATFORM_NAME] = <void*> platform_name
    functions[TOPOLOGY_DESCRIPTION_PLATFORM_VERSION] = <void*> version_text
    functions[TOPOLOGY_DESCRIPTION_GET_DEVICE_DESCRIPTIONS] = <void*> client_devices
    functions[TOPOLOGY_DESCRIPTION_ATTRIBUTES] = <void*> topology_attributes
    functions[DEVICE_DESCRIPTION_ID] = <void*> device_number
    functions[DEVICE_DESCRIPTION_PROCESS_INDEX] = <void*> process_index
    functions[DEVICE_DESCRIPTION_ATTRIBUTES] = <void*> no_attributes
    functions[DEVICE_DESCRIPTION_KIND] = <void*> device_kind
    functions[DEVICE_DESCRIPTION_DEBUG_STRING] = <void*> device_text
    functions[DEVICE_DESCRIPTION_TO_STRING] = <void*> device_text
    functions[DEVICE_GET_DESCRIPTION] = <void*> device_description
    functions[DEVICE_IS_ADDRESSABLE] = <void*> device_is_addressable
    functions[DEVICE_LOCAL_HARDWARE_ID] = <void*> device_number
    functions[DEVICE_ADDRESSABLE_MEMORIES] = <void*> device_memories
    functions[DEVICE_DEFAULT_MEMORY] = <void*> device_memory
    functions[DEVICE_MEMORY_STATS] = <void*> device_memory_stats
    functions[MEMORY_ID] = <void*> memory_number
    functions[MEMORY_KIND] = <void*> memory_kind
    functions[MEMORY_KIND_ID] = <void*> memory_kind_number
    functions[MEMORY_DEBUG_STRING] = <void*> memory_text
    functions[MEMORY_TO_STRING] = <void*> memory_text
    functions[MEMORY_ADDRESSABLE_BY_DEVICES] = <void*> memory_devices
