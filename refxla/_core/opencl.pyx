"""OpenCL's C functions as pointers, and its status codes as text.

pyopencl finds platforms, creates contexts and builds programs. A call of an executable bypasses it and calls the C
functions of the library that pyopencl has loaded, because its own argument handling costs more than a launch.
"""

import ctypes

from libc.stdint cimport uintptr_t

from refxla_spec.errors import DeviceError

# The fields of Api, in their order there.
_FUNCTIONS = (
    "clCreateKernel",
    "clReleaseKernel",
    "clSetKernelArg",
    "clSetKernelArgSVMPointer",
    "clEnqueueNDRangeKernel",
    "clFinish",
    "clEnqueueSVMMemcpy",
    "clCreateBuffer",
    "clReleaseMemObject",
    "clEnqueueWriteBuffer",
    "clEnqueueReadBuffer",
    "clEnqueueCopyBuffer",
    "clGetEventProfilingInfo",
    "clReleaseEvent",
)

cdef bint _bound = False


cdef int bind() except -1:
    global _bound
    cdef void** fields = <void**> &api
    cdef int n
    if _bound:
        return 0
    if sizeof(Api) != len(_FUNCTIONS) * sizeof(void*):
        raise AssertionError("the fields of Api and _FUNCTIONS differ")
    try:
        from pyopencl import _cl
    except ImportError as error:
        raise DeviceError(f"pyopencl cannot be loaded ({error}); run: pip install 'pyopencl[pocl]'") from error
    # A look-up in pyopencl's own extension module also searches the OpenCL library that it is linked with.
    library = ctypes.CDLL(_cl.__file__)
    for n, name in enumerate(_FUNCTIONS):
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            raise DeviceError(
                f"the OpenCL library that pyopencl uses has no {name}, which OpenCL 2.0 asks for; "
                "run: pip install --force-reinstall 'pyopencl[pocl]'"
            ) from None
        fields[n] = <void*> <uintptr_t> address
    _bound = True
    return 0


def status_name(status: int) -> str:
    """OpenCL's name of a status code, such as "OUT_OF_RESOURCES"; "status -N" if it has none."""
    import pyopencl

    return pyopencl.status_code.to_string(status, "status %d")
