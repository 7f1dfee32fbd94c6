"""Errors as plain memory, for functions that run without the GIL. A code is one of PJRT's (pjrt_interface.Code)."""


# Allocated by malloc; its text follows it.
cdef struct Error:
    int code
    size_t size
    char* text


cdef Error* new_error(int code, const char* text, size_t size) noexcept nogil
cdef Error* plain_error(int code, const char* text) noexcept nogil
cdef Error* no_memory(const char* what, size_t size) noexcept nogil  # for so many bytes of `what`
cdef Error* python_error(object error) noexcept  # the error of an exception
cdef Error* copy_of(const Error* error) noexcept nogil
cdef object exception_of(const Error* error)  # the exception of an error, one of refxla's if there is a matching class
