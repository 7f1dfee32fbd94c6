"""The layouts of XLA's foreign function interface (FFI), through which programs call functions of users' libraries: a
handler gets a call frame, which has its arguments, results and attributes, and a table of functions that it may call.

Layouts are those of version 0.5. Each structure begins with its own size and a list of extensions.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    FFI_MAJOR_VERSION = 0
    FFI_MINOR_VERSION = 5

cdef enum HandlerStage:
    INSTANTIATE = 0  # once, with attributes alone; what it returns is the state of all executions
    EXECUTE = 3

cdef enum AttributeKind:
    ARRAY = 1
    DICTIONARY = 2
    SCALAR = 3
    TEXT = 4

cdef enum:
    BUFFER = 1  # the only kind of argument and of result


cdef struct ByteSpan:
    const char* data
    size_t size


cdef struct ScalarAttribute:
    int type  # XLA's PrimitiveType, as in all that follows
    void* value


cdef struct ArrayAttribute:
    int type
    size_t size
    void* data


cdef struct FfiBuffer:
    size_t size
    void* extensions
    int type
    void* data
    int64_t rank
    int64_t* dimensions


cdef struct Operands:  # the arguments, or the results
    size_t size
    void* extensions
    int64_t count
    int* kinds
    void** buffers


cdef struct Attributes:  # in the order of their names
    size_t size
    void* extensions
    int64_t count
    int* kinds
    void** names  # of ByteSpan
    void** values


cdef struct FfiVersion:
    size_t size
    void* extensions
    int major
    int minor


cdef struct CallFrame:
    size_t size
    void* extensions
    const void* functions
    void* context
    int stage
    Operands arguments
    Operands results
    Attributes attributes
    void* future  # set by a handler that returns before its work is done


ctypedef void* (*Handler)(CallFrame* frame) noexcept nogil  # returns an error, or NULL


# The functions that a handler may call. Each takes a structure and returns an error, or NULL.
cdef struct FfiFunctions:
    size_t size
    void* extensions
    FfiVersion version
    const void* internal
    void* error_create
    void* error_details
    void* error_destroy
    void* register_handler
    void* stream
    void* register_type
    void* user_data
    void* set_state
    void* get_state
    void* allocate
    void* release
    void* schedule
    void* thread_count
    void* future_create
    void* future_done
    void* future_failed
    void* run_number
    void* device_number
    void* find_extension
    void* custom_options


# The structures of these functions' arguments.
cdef struct ErrorArgs:
    size_t size
    void* extensions
    const char* message
    int code


cdef struct DetailsArgs:
    size_t size
    void* extensions
    void* error
    const char* message
    int code


cdef struct ContextArgs:  # of functions that answer with a pointer or a number
    size_t size
    void* extensions
    void* context
    int64_t answer


cdef struct StateArgs:
    size_t size
    void* extensions
    void* context
    int stage
    int64_t* type_id
    void* state


cdef struct AllocationArgs:
    size_t size
    void* extensions
    void* context
    size_t bytes
    size_t alignment
    void* data


cdef struct ReleaseArgs:
    size_t size
    void* extensions
    void* context
    size_t bytes
    void* data


cdef struct TaskArgs:
    size_t size
    void* extensions
    void* context
    void (*task)(void* data) noexcept nogil
    void* data


cdef struct DeviceArgs:
    size_t size
    void* extensions
    void* context
    int32_t number


cdef struct FutureArgs:
    size_t size
    void* extensions
    void* future
    void* error


cdef struct ExtensionArgs:
    size_t size
    void* extensions
    void* context
    int64_t type
    const void* extension
