"""The layouts of PJRT's C interface, through which JAX uses a device: the table of functions and their arguments.

Each function is called with one structure, which begins with its own size, a list of extensions, and the object that
the function is about. Many functions differ only in what they answer, so one layout here serves all functions with the
same kind of answer. Layouts are those of version 0.90; later versions append, and the sizes tell how far a structure
reaches.
"""

from libc.stdint cimport int64_t, intptr_t, uint8_t

cdef enum:
    MAJOR_VERSION = 0
    MINOR_VERSION = 90  # from 105 on, what a handle points to must begin with a table of functions

# The functions of the table, in its order.
cdef enum:
    ERROR_DESTROY
    ERROR_MESSAGE
    ERROR_GET_CODE
    PLUGIN_INITIALIZE
    PLUGIN_ATTRIBUTES
    EVENT_DESTROY
    EVENT_IS_READY
    EVENT_ERROR
    EVENT_AWAIT
    EVENT_ON_READY
    CLIENT_CREATE
    CLIENT_DESTROY
    CLIENT_PLATFORM_NAME
    CLIENT_PROCESS_INDEX
    CLIENT_PLATFORM_VERSION
    CLIENT_DEVICES
    CLIENT_ADDRESSABLE_DEVICES
    CLIENT_LOOKUP_DEVICE
    CLIENT_LOOKUP_ADDRESSABLE_DEVICE
    CLIENT_ADDRESSABLE_MEMORIES
    CLIENT_COMPILE
    CLIENT_DEFAULT_DEVICE_ASSIGNMENT
    CLIENT_BUFFER_FROM_HOST_BUFFER
    DEVICE_DESCRIPTION_ID
    DEVICE_DESCRIPTION_PROCESS_INDEX
    DEVICE_DESCRIPTION_ATTRIBUTES
    DEVICE_DESCRIPTION_KIND
    DEVICE_DESCRIPTION_DEBUG_STRING
    DEVICE_DESCRIPTION_TO_STRING
    DEVICE_GET_DESCRIPTION
    DEVICE_IS_ADDRESSABLE
    DEVICE_LOCAL_HARDWARE_ID
    DEVICE_ADDRESSABLE_MEMORIES
    DEVICE_DEFAULT_MEMORY
    DEVICE_MEMORY_STATS
    MEMORY_ID
    MEMORY_KIND
    MEMORY_DEBUG_STRING
    MEMORY_TO_STRING
    MEMORY_ADDRESSABLE_BY_DEVICES
    EXECUTABLE_DESTROY
    EXECUTABLE_NAME
    EXECUTABLE_NUM_REPLICAS
    EXECUTABLE_NUM_PARTITIONS
    EXECUTABLE_NUM_OUTPUTS
    EXECUTABLE_SIZE_OF_GENERATED_CODE_IN_BYTES
    EXECUTABLE_GET_COST_ANALYSIS
    EXECUTABLE_OUTPUT_MEMORY_KINDS
    EXECUTABLE_OPTIMIZED_PROGRAM
    EXECUTABLE_SERIALIZE
    LOADED_EXECUTABLE_DESTROY
    LOADED_EXECUTABLE_GET_EXECUTABLE
    LOADED_EXECUTABLE_ADDRESSABLE_DEVICES
    LOADED_EXECUTABLE_DELETE
    LOADED_EXECUTABLE_IS_DELETED
    LOADED_EXECUTABLE_EXECUTE
    EXECUTABLE_DESERIALIZE_AND_LOAD
    LOADED_EXECUTABLE_FINGERPRINT
    BUFFER_DESTROY
    BUFFER_ELEMENT_TYPE
    BUFFER_DIMENSIONS
    BUFFER_UNPADDED_DIMENSIONS
    BUFFER_DYNAMIC_DIMENSION_INDICES
    BUFFER_GET_MEMORY_LAYOUT
    BUFFER_ON_DEVICE_SIZE_IN_BYTES
    BUFFER_DEVICE
    BUFFER_MEMORY
    BUFFER_DELETE
    BUFFER_IS_DELETED
    BUFFER_COPY_TO_DEVICE
    BUFFER_TO_HOST_BUFFER
    BUFFER_IS_ON_CPU
    BUFFER_READY_EVENT
    BUFFER_UNSAFE_POINTER
    BUFFER_INCREASE_EXTERNAL_REFERENCE_COUNT
    BUFFER_DECREASE_EXTERNAL_REFERENCE_COUNT
    BUFFER_OPAQUE_DEVICE_MEMORY_DATA_POINTER
    COPY_TO_DEVICE_STREAM_DESTROY
    COPY_TO_DEVICE_STREAM_ADD_CHUNK
    COPY_TO_DEVICE_STREAM_TOTAL_BYTES
    COPY_TO_DEVICE_STREAM_GRANULE_SIZE
    COPY_TO_DEVICE_STREAM_CURRENT_BYTES
    TOPOLOGY_DESCRIPTION_CREATE
    TOPOLOGY_DESCRIPTION_DESTROY
    TOPOLOGY_DESCRIPTION_PLATFORM_NAME
    TOPOLOGY_DESCRIPTION_PLATFORM_VERSION
    TOPOLOGY_DESCRIPTION_GET_DEVICE_DESCRIPTIONS
    TOPOLOGY_DESCRIPTION_SERIALIZE
    TOPOLOGY_DESCRIPTION_ATTRIBUTES
    COMPILE
    EXECUTABLE_OUTPUT_ELEMENT_TYPES
    EXECUTABLE_OUTPUT_DIMENSIONS
    BUFFER_COPY_TO_MEMORY
    CLIENT_CREATE_VIEW_OF_DEVICE_BUFFER
    EXECUTABLE_FINGERPRINT
    CLIENT_TOPOLOGY_DESCRIPTION
    EXECUTABLE_GET_COMPILED_MEMORY_STATS
    MEMORY_KIND_ID
    EXECUTE_CONTEXT_CREATE
    EXECUTE_CONTEXT_DESTROY
    BUFFER_COPY_RAW_TO_HOST
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_DESTROY
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_TRANSFER_DATA
    CLIENT_CREATE_BUFFERS_FOR_ASYNC_HOST_TO_DEVICE
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_RETRIEVE_BUFFER
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_DEVICE
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_BUFFER_COUNT
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_BUFFER_SIZE
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_SET_BUFFER_ERROR
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_ADD_METADATA
    CLIENT_DMA_MAP
    CLIENT_DMA_UNMAP
    CLIENT_CREATE_UNINITIALIZED_BUFFER
    CLIENT_UPDATE_GLOBAL_PROCESS_INFO
    TOPOLOGY_DESCRIPTION_DESERIALIZE
    CLIENT_CREATE_ALIAS_BUFFER
    CLIENT_FULFILL_ALIAS_BUFFER
    LOADED_EXECUTABLE_GET_DEVICE_ASSIGNMENT
    CLIENT_CREATE_ERROR_BUFFER
    ASYNC_HOST_TO_DEVICE_TRANSFER_MANAGER_TRANSFER_LITERAL
    BUFFER_COPY_RAW_TO_HOST_FUTURE
    DEVICE_POISON_EXECUTION
    DEVICE_CREATE_ASYNC_TRACKING_EVENT
    ASYNC_TRACKING_EVENT_DESTROY
    EXECUTABLE_GET_COMPILE_OPTIONS
    BUFFER_DONATE_WITH_CONTROL_DEPENDENCY
    EVENT_CREATE
    EVENT_SET
    FUNCTIONS  # how many there are

cdef enum Code:  # of errors
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13

cdef enum ValueKind:  # of named values
    STRING = 0
    INTEGER = 1
    INTEGERS = 2
    FLOAT = 3
    BOOLEAN = 4

cdef enum:
    TYPES = 34  # element types, by number (see pjrt_objects.TYPE_NAMES)
    TILED = 0  # memory layouts: an order of dimensions, ...
    STRIDES = 1  # ... or strides in bytes


cdef struct Version:
    size_t size
    void* extensions
    int major
    int minor

cdef struct PjrtApi:
    size_t size
    void* extensions
    Version version
    void* functions[FUNCTIONS]

cdef union Value:
    const char* string
    int64_t integer
    const int64_t* integers
    float real
    uint8_t boolean

cdef struct NamedValue:
    size_t size
    void* extensions
    const char* name
    size_t name_size
    int kind
    Value value
    size_t value_size  # elements of a string or a list, else 1


# Arguments of functions --------------------------------------------------------------------------------------------

cdef struct SubjectArgs:  # functions without an answer: destroy, delete, count references
    size_t size
    void* extensions
    void* subject

cdef struct PointerArgs:
    size_t size
    void* extensions
    void* subject
    void* answer

cdef struct IntArgs:
    size_t size
    void* extensions
    void* subject
    int answer

cdef struct LongArgs:
    size_t size
    void* extensions
    void* subject
    int64_t answer

cdef struct BoolArgs:
    size_t size
    void* extensions
    void* subject
    uint8_t answer

cdef struct TextArgs:
    size_t size
    void* extensions
    void* subject
    const char* text
    size_t text_size

cdef struct ListArgs:
    size_t size
    void* extensions
    void* subject
    const void* items
    size_t count

cdef struct CountedListArgs:  # the same, in reverse
    size_t size
    void* extensions
    void* subject
    size_t count
    const void* items

cdef struct NumberedArgs:  # a look-up by number
    size_t size
    void* extensions
    void* subject
    int number
    void* answer

cdef struct TargetArgs:  # copies of a buffer: to a device or a memory
    size_t size
    void* extensions
    void* subject
    void* target
    void* answer

cdef struct BytesArgs:  # bytes in `holder`, which the caller finally passes to `deleter`
    size_t size
    void* extensions
    void* subject
    const char* data
    size_t data_size
    void* holder
    void (*deleter)(void* holder) noexcept nogil

cdef struct PluginArgs:
    size_t size
    void* extensions
    const NamedValue* attributes
    size_t count

cdef struct OnReadyArgs:
    size_t size
    void* extensions
    void* event
    void (*callback)(void* error, void* argument) noexcept nogil
    void* argument

cdef struct CreateClientArgs:
    size_t size
    void* extensions
    const NamedValue* options
    size_t option_count
    void* get_callback
    void* get_argument
    void* put_callback
    void* put_argument
    void* client

cdef struct AssignmentArgs:
    size_t size
    void* extensions
    void* client
    int replicas
    int partitions
    size_t assignment_size
    int* assignment

cdef struct Program:
    size_t size
    void* extensions
    char* code
    size_t code_size
    const char* format
    size_t format_size

cdef struct CompileArgs:
    size_t size
    void* extensions
    void* client
    const Program* program
    const char* options
    size_t options_size
    void* executable

cdef struct DeserializeArgs:
    size_t size
    void* extensions
    void* client
    const char* data
    size_t data_size
    void* executable
    const char* options
    size_t options_size

cdef struct ExecuteOptions:
    size_t size
    void* extensions
    void* send_callbacks
    void* receive_callbacks
    size_t send_count
    size_t receive_count
    int launch
    const int64_t* non_donatable  # the numbers of arguments that are not donated in this call
    size_t non_donatable_count

cdef struct ExecuteArgs:
    size_t size
    void* extensions
    void* executable
    ExecuteOptions* options
    void*** arguments  # of each device: its buffers
    size_t device_count
    size_t argument_count  # of a device
    void*** results
    void** events  # for each device: when its results are ready; or NULL
    void* device  # the one to run on, for an executable that is not bound to one

cdef struct DimensionsArgs:  # of all results, concatenated
    size_t size
    void* extensions
    void* subject
    size_t count
    const int64_t* dimensions
    const size_t* ranks

cdef struct MemoryKindsArgs:
    size_t size
    void* extensions
    void* subject
    size_t count
    const char** kinds
    const size_t* kind_sizes

cdef struct CompiledMemoryArgs:  # bytes
    size_t size
    void* extensions
    void* subject
    int64_t code
    int64_t arguments
    int64_t results
    int64_t aliases
    int64_t temporaries
    int64_t host[5]  # the same, on the host
    int64_t peak
    int64_t total

cdef struct Statistic:
    int64_t value
    uint8_t is_set

cdef struct DeviceMemoryArgs:  # bytes, unless the name says otherwise
    size_t size
    void* extensions
    void* subject
    int64_t in_use
    Statistic peak_in_use
    Statistic allocations
    Statistic largest_allocation
    Statistic limit
    Statistic reserved
    Statistic peak_reserved
    Statistic reservable
    Statistic largest_free
    Statistic pool
    Statistic peak_pool

cdef struct TiledLayout:
    size_t size
    void* extensions
    const int64_t* minor_to_major
    size_t rank
    const int64_t* tiles
    const size_t* tile_ranks
    size_t tile_count

cdef struct StridedLayout:
    size_t size
    void* extensions
    const int64_t* strides  # bytes
    size_t rank

cdef union AnyLayout:
    TiledLayout tiled
    StridedLayout strided

cdef struct MemoryLayout:
    size_t size
    void* extensions
    AnyLayout layout
    int kind

cdef struct LayoutArgs:
    size_t size
    void* extensions
    void* subject
    MemoryLayout layout

cdef struct FromHostArgs:
    size_t size
    void* extensions
    void* client
    const void* data
    int element_type
    const int64_t* dimensions
    size_t rank
    const int64_t* strides  # bytes; none: dense, row-major
    size_t stride_count
    int semantics
    void* device
    void* memory
    MemoryLayout* layout
    void* event
    void* buffer

cdef struct UninitializedArgs:
    size_t size
    void* extensions
    void* client
    const int64_t* dimensions
    size_t rank
    int element_type
    MemoryLayout* layout
    void* device
    void* memory
    void* buffer

cdef struct ViewArgs:
    size_t size
    void* extensions
    void* client
    void* data
    const int64_t* dimensions
    size_t rank
    int element_type
    MemoryLayout* layout
    void* device
    void (*on_delete)(void* data, void* argument) noexcept nogil
    void* on_delete_argument
    intptr_t stream
    void* buffer
    void* memory

cdef struct ToHostArgs:
    size_t size
    void* extensions
    void* buffer
    MemoryLayout* layout  # of the requested copy; NULL: row-major
    void* target  # NULL: only the size is requested
    size_t target_size
    void* event

cdef struct RawToHostArgs:
    size_t size
    void* extensions
    void* buffer
    void* target
    int64_t offset
    int64_t count
    void* event

cdef struct TopologyArgs:
    size_t size
    void* extensions
    const char* name
    size_t name_size
    const NamedValue* options
    size_t option_count
    void* topology
