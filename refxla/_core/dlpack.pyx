# cython: cdivision=True, boundscheck=False, wraparound=False
"""DLPack: exchanges arrays in the host's memory with other libraries without a copy.

The structures are those of DLPack 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html). A capsule named "dltensor" has
the tensor of earlier versions, one named "dltensor_versioned" that of version 1, which can be read-only.
"""

from cpython.object cimport PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

cimport numpy as np
from numpy cimport ndarray

from refxla._core.releases cimport Release, release_all, release_later

from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.types import ELEMENT_TYPES

np.import_array()

cdef extern from "Python.h" nogil:
    int PyGILState_Check()
    int Py_AddPendingCall(int (*call)(void*) except -1, void* argument) noexcept

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr:
        pass
    object PyArray_NewFromDescr(
        PyTypeObject* kind, PyArray_Descr* descr, int rank, np.npy_intp* dimensions, np.npy_intp* strides, void* data,
        int flags, PyObject* like,
    )
    PyTypeObject PyArray_Type

cdef struct Tensor:
    void* data
    int32_t device_type
    int32_t device_id
    int32_t rank
    uint8_t code
    uint8_t bits
    uint16_t lanes
    int64_t* shape
    int64_t* strides  # in elements; NULL: dense, row-major
    uint64_t byte_offset

cdef struct ManagedTensor:
    Tensor tensor
    void* context
    void (*deleter)(ManagedTensor*) noexcept nogil

cdef struct VersionedTensor:
    uint32_t major
    uint32_t minor
    void* context
    void (*deleter)(VersionedTensor*) noexcept nogil
    uint64_t flags
    Tensor tensor

cdef enum:
    CPU = 1  # a kDLDeviceType
    READ_ONLY = 1  # flags
    COPIED = 2

_FAMILIES = {  # for each type code, HLO's types by the bits of an element
    0: {8: "s8", 16: "s16", 32: "s32", 64: "s64"},
    1: {8: "u8", 16: "u16", 32: "u32", 64: "u64"},
    2: {16: "f16", 32: "f32", 64: "f64"},
    4: {16: "bf16"},
    5: {64: "c64", 128: "c128"},
    6: {8: "pred"},
    7: {8: "f8e3m4"},
    8: {8: "f8e4m3"},
    9: {8: "f8e4m3b11fnuz"},
    10: {8: "f8e4m3fn"},
    11: {8: "f8e4m3fnuz"},
    12: {8: "f8e5m2"},
    13: {8: "f8e5m2fnuz"},
    14: {8: "f8e8m0fnu"},
}
_TYPES = {(code, bits): ELEMENT_TYPES[name].dtype for code, sizes in _FAMILIES.items() for bits, name in sizes.items()}
_CODES = {dtype: key for key, dtype in _TYPES.items()}


# Out -----------------------------------------------------------------------------------------------------------------


def capsule_of(view: ndarray, max_version: object = None, copied: bool = False) -> object:
    """A capsule of an array's memory, which is kept until the consumer frees it.

    It is of version 1 if `max_version` allows that, and then read-only if the array is. Earlier versions cannot express
    read-only: their consumers must not write. `copied` says that nobody else reads the memory. Raises BufferError, as
    DLPack requires, for types that it does not have.
    """
    cdef int n, rank = view.ndim
    cdef bint versioned = max_version is not None and max_version[0] >= 1
    cdef VersionedTensor* new
    cdef ManagedTensor* old
    cdef Tensor* tensor
    key = _CODES.get(view.dtype)
    if key is None:
        raise BufferError(f"DLPack has no type for {view.dtype}: convert the array, or take numpy.asarray of it")
    release_all()
    memory = malloc((sizeof(VersionedTensor) if versioned else sizeof(ManagedTensor)) + 2 * rank * sizeof(int64_t))
    if memory == NULL:
        raise MemoryError("no memory for a tensor")
    if versioned:
        new = <VersionedTensor*> memory
        new.major, new.minor, new.flags = 1, 0, (0 if view.flags.writeable else READ_ONLY) | (COPIED if copied else 0)
        new.context, new.deleter = <void*> view, delete_versioned
        tensor = &new.tensor
        tensor.shape = <int64_t*> (new + 1)
    else:
        old = <ManagedTensor*> memory
        old.context, old.deleter = <void*> view, delete_managed
        tensor = &old.tensor
        tensor.shape = <int64_t*> (old + 1)
    tensor.data, tensor.device_type, tensor.device_id, tensor.byte_offset = np.PyArray_DATA(view), CPU, 0, 0
    tensor.rank, tensor.code, tensor.bits, tensor.lanes = rank, key[0], key[1], 1
    tensor.strides = tensor.shape + rank
    for n in range(rank):
        tensor.shape[n], tensor.strides[n] = view.shape[n], view.strides[n] // view.itemsize
    Py_INCREF(view)
    try:
        return PyCapsule_New(memory, "dltensor_versioned" if versioned else "dltensor", end_capsule)
    except BaseException:
        Py_DECREF(view)
        free(memory)
        raise


cdef void end_capsule(object capsule) noexcept:
    """Frees a tensor that no consumer took."""
    cdef VersionedTensor* new
    cdef ManagedTensor* old
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        new = <VersionedTensor*> PyCapsule_GetPointer(capsule, "dltensor_versioned")
        new.deleter(new)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        old = <ManagedTensor*> PyCapsule_GetPointer(capsule, "dltensor")
        old.deleter(old)


# Consumers free tensors in any thread, even while Python shuts down; one that does not hold the GIL must not ask for
# it. The owner is then put on a list, from which the main thread releases it later.
cdef void delete_versioned(VersionedTensor* tensor) noexcept nogil:
    release_owner(tensor.context)
    free(tensor)


cdef void delete_managed(ManagedTensor* tensor) noexcept nogil:
    release_owner(tensor.context)
    free(tensor)


cdef void release_owner(void* owner) noexcept nogil:
    cdef Release* release
    if PyGILState_Check():
        with gil:
            Py_DECREF(<object> owner)
        return
    release = <Release*> malloc(sizeof(Release))
    if release == NULL:
        return  # its memory is leaked
    release.owner = owner
    release_later(release)
    Py_AddPendingCall(release_pending, NULL)


cdef int release_pending(void* nothing) except -1 with gil:
    release_all()
    return 0


# In ------------------------------------------------------------------------------------------------------------------


cdef class Lent:
    """A tensor of another library, freed together with this."""

    cdef VersionedTensor* new
    cdef ManagedTensor* old

    def __dealloc__(self):
        if self.new != NULL and self.new.deleter != NULL:
            self.new.deleter(self.new)
        if self.old != NULL and self.old.deleter != NULL:
            self.old.deleter(self.old)


def array_of(capsule: object) -> ndarray:
    """A read-only array of a capsule's memory. The capsule is consumed. Raises InputError for an invalid or consumed
    capsule, and UnsupportedError for memory that is not the host's and for types that HLO does not have."""
    cdef Lent lent = Lent.__new__(Lent)
    cdef VersionedTensor* new = NULL
    cdef ManagedTensor* old = NULL
    cdef Tensor* tensor
    cdef np.npy_intp shape[64]
    cdef np.npy_intp strides[64]
    cdef int n
    cdef ndarray array
    release_all()
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        new = <VersionedTensor*> PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if new.major != 1:
            raise UnsupportedError(f"the array comes in version {new.major} of DLPack: refxla reads versions 0 and 1")
        tensor = &new.tensor
    elif PyCapsule_IsValid(capsule, "dltensor"):
        old = <ManagedTensor*> PyCapsule_GetPointer(capsule, "dltensor")
        tensor = &old.tensor
    else:
        raise InputError("this is no DLPack capsule, or one that was used before: ask for another one with __dlpack__()")
    if tensor.device_type != CPU:
        raise UnsupportedError(f"the array is on a device of DLPack's type {tensor.device_type}: copy it to the host")
    dtype = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise UnsupportedError(
            f"HLO has no type for DLPack's ({tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes): convert the array"
        )
    if not 0 <= tensor.rank <= 64:
        raise UnsupportedError(f"the array has {tensor.rank} dimensions, and arrays of NumPy have 64 at most")
    size = dtype.itemsize
    for n in range(tensor.rank - 1, -1, -1):
        shape[n] = tensor.shape[n]
        strides[n] = size if tensor.strides == NULL else tensor.strides[n] * <int64_t> dtype.itemsize
        size *= shape[n]
    Py_INCREF(dtype)  # the call takes over a reference
    array = PyArray_NewFromDescr(
        &PyArray_Type, <PyArray_Descr*> dtype, tensor.rank, shape, strides, <char*> tensor.data + tensor.byte_offset, 0,
        NULL,
    )
    lent.new, lent.old = new, old
    PyCapsule_SetName(capsule, "used_dltensor_versioned" if new != NULL else "used_dltensor")
    np.set_array_base(array, lent)
    return array
