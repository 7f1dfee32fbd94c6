"""Errors as plain memory, which can cross threads that do not hold the GIL."""

from libc.stdio cimport snprintf
from libc.stdlib cimport malloc
from libc.string cimport memcpy, strlen

from refxla._core.pjrt_interface cimport (
    CANCELLED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)

from refxla_spec import errors
from refxla_spec.errors import DeviceError, InputError, InvalidProgramError, ParseError, UnsupportedError


cdef Error* new_error(int code, const char* text, size_t size) noexcept nogil:
    cdef Error* error = <Error*> malloc(sizeof(Error) + size)
    if error == NULL:
        return NULL
    error.code, error.size, error.text = code, size, <char*> (error + 1)
    memcpy(error.text, text, size)
    return error


cdef Error* plain_error(int code, const char* text) noexcept nogil:
    return new_error(code, text, strlen(text))


cdef Error* no_memory(const char* what, size_t size) noexcept nogil:
    cdef char text[160]
    snprintf(text, sizeof(text), "no memory for %s: %zu bytes", what, size)
    return plain_error(RESOURCE_EXHAUSTED, text)


cdef Error* copy_of(const Error* error) noexcept nogil:
    return new_error(error.code, error.text, error.size)


cdef Error* python_error(object error) noexcept:
    cdef int code = INTERNAL
    if isinstance(error, UnsupportedError):
        code = UNIMPLEMENTED
    elif isinstance(error, (InputError, InvalidProgramError, ParseError)):
        code = INVALID_ARGUMENT
    elif isinstance(error, DeviceError):
        code = FAILED_PRECONDITION
    elif isinstance(error, MemoryError):
        code = RESOURCE_EXHAUSTED
    elif isinstance(error, KeyboardInterrupt):
        code = CANCELLED
    try:
        text = str(error) or type(error).__name__
        message = (text if isinstance(error, errors.Error) else f"{type(error).__name__}: {text}").encode(errors="replace")
        return new_error(code, message, len(message))
    except BaseException:  # raised by a signal handler, or by an error without a text
        return plain_error(code, "an error whose text could not be read")


cdef object exception_of(const Error* error):
    text = error.text[: error.size].decode(errors="replace")
    if error.code == RESOURCE_EXHAUSTED:
        return MemoryError(text)
    if error.code == UNIMPLEMENTED:
        return UnsupportedError(text)
    return InputError(text) if error.code == INVALID_ARGUMENT else DeviceError(text)
