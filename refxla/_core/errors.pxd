"""Errors as plain memory, for functions that run without the GIL. A code is one of PJRT's (pjrt_interface.Code)."""


# Malloc'ed; its text follows it.
cdef struct Error:
    int code
    size_t size
    char* text


cdef Error* new_error(int code, const char* text, size_t size) noexcept nogil
cdef Error* plain_error(int code, const char* text) noexcept nogil
cdef Error* no_memory(const char* what, size_t size) noexcept nogil  # for so many bytes of something
cdef Error* python_error(object error) noexcept  # that an exception is
cdef Error* copy_of(const Error* error) noexcept nogil
cdef object exception_of(const Error* error)  # that an error is, of refxla's where it has one
