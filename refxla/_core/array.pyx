"""refxla.Array: an array that stays on a device between calls.

It is memory with a type, a shape and a device: the host's memory, or that of a device with its own (storage.pyx). A
call with an Array returns Arrays, which may be in the memory of donated ones. If the work takes long, the call returns
before it is done (execution.pyx). NumPy sees the host's memory itself, read-only, because a queued call may still read
it. Memory is never overwritten: assigning to an Array (`x[0] = 1`) gives it new memory.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

cimport numpy as np
from numpy cimport ndarray

from refxla._core.device_memory cimport Space, space_of, upload
from refxla._core.errors cimport Error, exception_of
from refxla._core.execution cimport (
    Call,
    end_call,
    is_deferred,
    new_call,
    run_later,
    run_now,
    take_results,
    wait_for,
)
from refxla._core.executor cimport Executor
from refxla._core.opencl cimport SUCCESS
from refxla._core.releases cimport Release, release_all, release_later
from refxla._core.storage cimport (
    Completion,
    Storage,
    drop,
    drop_completion,
    failure_of,
    hold,
    host_data,
    is_written,
    new_device_storage,
    new_storage,
    storage_at,
)

import numpy

from refxla._core.dlpack import capsule_of
from refxla._core.executor import register_arrays
from refxla._core.opencl import status_name
from refxla_spec.errors import DeviceError, InputError
from refxla_spec.types import BY_DTYPE

np.import_array()


cdef class Array:
    """An array on a device, which executables take and return without a copy.

    `refxla.device_put` creates one; a call with at least one Array as an argument returns Arrays. `shape` is a tuple of
    integers, `dtype` NumPy's type of an element, `device` its device, `nbytes` its size in bytes. It may be deleted, by
    `delete` or by donation: afterwards, everything that needs its values raises InputError.

    Operators, indexing and `refxla.array_api`, which `__array_namespace__` returns, compute with Arrays as NumPy does
    with arrays, each operation compiled. `x[0] = 1` gives `x` new values; views and results taken from it before are
    unchanged.

    `numpy.asarray`, `numpy.from_dlpack` and the buffer protocol return views without a copy, which are read-only and
    stay valid when the Array is deleted. For an Array on a device with its own memory, they are views of one copy. They
    wait for the work that computes the values, and raise its errors.
    """

    def __init__(self):
        raise TypeError("refxla.device_put makes Arrays, and calls with Arrays do")

    def __dealloc__(self):
        drop(self.storage)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        cdef size_t count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def is_deleted(self) -> bool:
        """Whether the memory was freed or donated."""
        return self.storage == NULL

    def delete(self) -> None:
        """Frees the memory. Views of it, and calls already made with it, are not affected."""
        cdef Storage* storage = self.storage
        self.storage = NULL
        drop(storage)

    def block_until_ready(self) -> Array:
        """Waits until the values are there, and returns the Array itself. Raises the errors of the work that computes
        them."""
        drop(self.values())
        return self

    def is_ready(self) -> bool:
        """Whether the values are there, without waiting for them."""
        self.check()
        return is_written(self.storage)

    cdef int check(self) except -1:
        if self.storage == NULL:
            raise InputError(f"the array {described(self)} was deleted or donated; use the result of the call that took it")
        return 0

    cdef Storage* values(self) except NULL:
        """The storage, with a reference to it, when it holds the values."""
        cdef Storage* storage
        cdef Error* error
        self.check()
        storage = self.storage
        hold(storage)
        if not is_written(storage):
            with nogil:
                wait_for(storage.writer)
        error = failure_of(storage)
        if error == NULL:
            return storage
        drop(storage)
        try:
            raise exception_of(error)
        finally:
            free(error)

    def __array__(self, dtype=None, copy=None):
        """The values as a NumPy array: a read-only view, or a copy if that is requested or the type differs."""
        cdef Lease lease = Lease.__new__(Lease)
        cdef size_t size = self.nbytes
        cdef void* data
        lease.storage = self.values()
        lease.size = size
        with nogil:
            data = host_data(lease.storage)
        if data == NULL:
            raise MemoryError(f"no memory for the {size} bytes of {described(self)}, or the device does not give them")
        view = numpy.frombuffer(lease, numpy.uint8).view(self.dtype).reshape(self.shape) if size else numpy.empty(
            self.shape, self.dtype
        )
        view.flags.writeable = False
        if dtype is not None and numpy.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"an array of {self.dtype} is one of {dtype} by a copy only")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __getbuffer__(self, Py_buffer* view, int flags):
        if flags & PyBUF_WRITABLE:
            raise BufferError("an Array is read-only; take numpy.array(a), which is a copy")
        PyObject_GetBuffer(self.__array__(), view, flags)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule of a read-only view, or of a copy if that is requested. Raises BufferError for types that
        DLPack does not have, and for devices other than the host."""
        if stream is not None or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("an Array lies in the host's memory: ask for DLPack's device (1, 0), without a stream")
        return capsule_of(self.__array__(copy=copy), max_version, bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the memory: the host's."""
        return 1, 0

    def item(self):
        """The element of an array with one, as a Python number."""
        return self.__array__().item()

    def tolist(self):
        """The values as nested lists of Python numbers."""
        return self.__array__().tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __complex__(self):
        return complex(self.item())

    def __bool__(self):
        return bool(self.__array__())

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __index__(self):
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError("only an array of integers without dimensions is an index")
        return self.item()

    def __iter__(self):
        return iter([self[n] for n in range(len(self))])

    # -- the Array API standard
    @property
    def __array_priority__(self) -> float:
        """Higher than that of NumPy's arrays, so that they leave operators to an Array."""
        return 1000.0

    @property
    def T(self) -> Array:
        """A matrix transposed."""
        if len(self.shape) != 2:
            raise ValueError(f"T is of matrices, and {described(self)} is none: take mT or permute_dims")
        return _namespace().matrix_transpose(self)

    @property
    def mT(self) -> Array:
        """Matrices, the last two dimensions, transposed."""
        return _namespace().matrix_transpose(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> object:
        """The functions of the Array API standard for Arrays. Raises ValueError for a version that is not supported."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"refxla.array_api is of version 2024.12 of the Array API standard, not {api_version}")
        return _namespace()

    def to_device(self, device: object, /, *, stream: object = None) -> Array:
        """The Array on a device, or the device of that name: itself if it is there already. Raises ValueError for a
        stream."""
        if stream is not None:
            raise ValueError("there are no streams")
        return _namespace().asarray(self, device=device)

    def shaped_as(self, shape: tuple) -> Array:
        """An Array with the same memory and elements, in order, and another shape. Raises ValueError if the numbers of
        elements differ."""
        cdef size_t count = 1
        self.check()
        shape = tuple(int(n) for n in shape)
        for n in shape:
            count *= n
        if count != self.size:
            raise ValueError(f"{described(self)} has {self.size} elements, and the shape {shape} has {count}")
        hold(self.storage)
        return array_of(self.storage, self.dtype, shape, self.device)

    def __getitem__(self, index):
        return _namespace().indexing.getitem(self, index)

    def __setitem__(self, index, value):
        cdef Storage* former
        cdef Array changed = _namespace().indexing.setitem(self, index, value)
        if changed.dtype != self.dtype or changed.shape != self.shape:
            raise TypeError(f"{described(self)} cannot become {described(changed)}")
        hold(changed.storage)
        former, self.storage = self.storage, changed.storage
        drop(former)

    __hash__ = None

    def __eq__(self, other):
        return operation("__eq__", self, other)

    def __ne__(self, other):
        return operation("__ne__", self, other)

    def __lt__(self, other):
        return operation("__lt__", self, other)

    def __le__(self, other):
        return operation("__le__", self, other)

    def __gt__(self, other):
        return operation("__gt__", self, other)

    def __ge__(self, other):
        return operation("__ge__", self, other)

    def __abs__(self):
        return operation("__abs__", self)

    def __neg__(self):
        return operation("__neg__", self)

    def __pos__(self):
        return operation("__pos__", self)

    def __invert__(self):
        return operation("__invert__", self)

    def __add__(self, other):
        return operation("__add__", self, other)

    def __radd__(self, other):
        return operation("__add__", other, self)

    def __sub__(self, other):
        return operation("__sub__", self, other)

    def __rsub__(self, other):
        return operation("__sub__", other, self)

    def __mul__(self, other):
        return operation("__mul__", self, other)

    def __rmul__(self, other):
        return operation("__mul__", other, self)

    def __truediv__(self, other):
        return operation("__truediv__", self, other)

    def __rtruediv__(self, other):
        return operation("__truediv__", other, self)

    def __floordiv__(self, other):
        return operation("__floordiv__", self, other)

    def __rfloordiv__(self, other):
        return operation("__floordiv__", other, self)

    def __mod__(self, other):
        return operation("__mod__", self, other)

    def __rmod__(self, other):
        return operation("__mod__", other, self)

    def __matmul__(self, other):
        return operation("__matmul__", self, other)

    def __rmatmul__(self, other):
        return operation("__matmul__", other, self)

    def __and__(self, other):
        return operation("__and__", self, other)

    def __rand__(self, other):
        return operation("__and__", other, self)

    def __or__(self, other):
        return operation("__or__", self, other)

    def __ror__(self, other):
        return operation("__or__", other, self)

    def __xor__(self, other):
        return operation("__xor__", self, other)

    def __rxor__(self, other):
        return operation("__xor__", other, self)

    def __lshift__(self, other):
        return operation("__lshift__", self, other)

    def __rlshift__(self, other):
        return operation("__lshift__", other, self)

    def __rshift__(self, other):
        return operation("__rshift__", self, other)

    def __rrshift__(self, other):
        return operation("__rshift__", other, self)

    def __pow__(self, other, modulus):
        return operation("__pow__", self, other) if modulus is None else NotImplemented

    def __rpow__(self, other, modulus):
        return operation("__pow__", other, self) if modulus is None else NotImplemented

    def __repr__(self):
        name = getattr(self.device, "name", self.device)
        if self.storage == NULL:
            return f"<refxla.Array {described(self)} on {name}, deleted>"
        prefix = "refxla.Array("
        values = numpy.array2string(self.__array__(), separator=", ", prefix=prefix)
        return f"{prefix}{values}, dtype={self.dtype}, device={name})"


cdef class Lease:
    """A reference to storage, as the buffer that keeps a NumPy view's memory alive."""

    cdef Storage* storage
    cdef size_t size
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]

    def __dealloc__(self):
        drop(self.storage)

    def __getbuffer__(self, Py_buffer* view, int flags):
        self.shape[0], self.strides[0] = self.size, 1
        view.buf, view.obj, view.len, view.readonly, view.itemsize = self.storage.data, self, self.size, 0, 1
        view.format, view.ndim, view.shape, view.strides = NULL, 1, self.shape, self.strides
        view.suboffsets, view.internal = NULL, NULL


cdef Array array_of(Storage* storage, object dtype, tuple shape, object device):
    """An Array that takes over a reference to storage."""
    cdef Array array = Array.__new__(Array)
    array.storage, array.dtype, array.shape, array.device = storage, dtype, shape, device
    return array


def described(array: object) -> str:
    """HLO's notation of the type and the shape of an array."""
    return f"{BY_DTYPE[array.dtype]}[{','.join(map(str, array.shape))}]"


def put(value: object, device: object) -> Array:
    """An Array on a device, with a copy of the values. Raises InputError for values of types that HLO does not have."""
    cdef ndarray source
    cdef Storage* storage
    source = numpy.asarray(value)
    kind = source.dtype.newbyteorder("=")
    if kind not in BY_DTYPE:
        raise InputError(f"an array of NumPy type {source.dtype} has no type of HLO; convert it with astype")
    if not np.PyArray_CHKFLAGS(source, np.NPY_ARRAY_CARRAY_RO) or not source.dtype.isnative:
        source = numpy.array(source, kind, order="C")
    cdef size_t size = source.nbytes
    cdef Space* space = NULL
    cdef int32_t status = SUCCESS
    if getattr(device, "access", "host") == "buffer":
        space = space_of(device.context, device.raw)
    storage = new_storage(size) if space == NULL else new_device_storage(space, size)
    if storage == NULL:
        raise MemoryError(f"no memory for {size} bytes on {getattr(device, 'name', 'the host')}")
    with nogil:
        if space == NULL:
            memcpy(storage.data, np.PyArray_DATA(source), size)
        else:
            status = upload(space, storage.handle, np.PyArray_DATA(source), size)
    if status != SUCCESS:
        drop(storage)
        raise DeviceError(f"{size} bytes cannot be copied to {device.name}: {status_name(status)}")
    return array_of(storage, source.dtype, tuple(source.shape[n] for n in range(source.ndim)), device)


# Operations ----------------------------------------------------------------------------------------------------------

_NONE = object()  # stands for a missing second operand
_OPERANDS = (Array, bool, int, float, complex, numpy.ndarray, numpy.generic)


cdef object _modules = None  # registered by `register_namespace`


def register_namespace(namespace: object) -> None:
    """Registers the functions that compute with Arrays: a function that returns a module with the names of the Array
    API standard, `indexing` with `getitem` and `setitem`, and `operators` with a table OPERATORS. `refxla.api` does so
    before there are Arrays."""
    global _modules
    _modules = namespace


cdef object _namespace():
    return _modules()


cdef object operation(str name, object x, object y=_NONE):
    """An operator of one or two operands, by the name of its method; NotImplemented for operands that are neither
    arrays nor numbers."""
    if not isinstance(x, _OPERANDS) or not (y is _NONE or isinstance(y, _OPERANDS)):
        return NotImplemented
    function = _namespace().operators.OPERATORS[name]
    return function(x) if y is _NONE else function(x, y)


# Calls ---------------------------------------------------------------------------------------------------------------

cdef void note_end(void* release) noexcept nogil:
    """A call has ended in another thread and returns its reference to the executor."""
    release_later(<Release*> release)


cdef list call_with_arrays(Executor executor, object arguments):
    cdef int n, count = executor.signature.parameter_count
    cdef Call* call
    cdef Error* error
    cdef Release* release
    cdef Completion* completion
    cdef Array array
    cdef ndarray other
    cdef bint interrupted = False
    cdef unsigned char* donated
    cdef list keep = []
    if len(arguments) != count:
        raise executor.signature.wrong_count(len(arguments))
    release_all()
    call = new_call(<void*> executor, count, executor.signature.result_count)
    donated = <unsigned char*> calloc(count + 1, 1)
    try:
        if call == NULL or donated == NULL:
            raise MemoryError("no memory for a call")
        for n in range(count):
            value = arguments[n]
            if type(value) is Array:
                array = <Array> value
                check_argument(executor, array, n)
                hold(array.storage)
                call.arguments[n] = array.storage
                donated[n] = executor.aliasing.donated[n]
            else:
                other = executor.signature.argument(value, n)
                keep.append(other)
                call.arguments[n] = storage_at(np.PyArray_DATA(other), executor.signature.parameters[n].bytes)
                if call.arguments[n] == NULL:
                    raise MemoryError("no memory for a call")
        for n in range(count):
            if donated[n]:
                array = <Array> arguments[n]
                drop(array.storage)  # NULL if it was passed twice
                array.storage = NULL
        if take_results(call, donated):
            where = getattr(getattr(executor, "device", None), "name", "the device")
            name = executor.plan.name
            raise MemoryError(f"no memory on {where} for the results of {name}: delete arrays, or use smaller ones")
        results = []
        device = getattr(executor, "device", None)
        for n in range(executor.signature.result_count):
            hold(call.results[n])
            shape = executor.signature.result_shapes[n].dimensions
            results.append(array_of(call.results[n], executor.signature.result_types[n], tuple(shape), device))
        if is_deferred(call) and copy_lent(call, keep):
            release = <Release*> malloc(sizeof(Release))
            if release == NULL:
                raise MemoryError("no memory for a call")
            Py_INCREF(executor)
            release.owner = <void*> executor
            call.ended, call.owner = note_end, release
            with nogil:
                completion = run_later(call)
            if completion != NULL:
                call = NULL
                drop_completion(completion)
                return results
        with nogil:
            error = run_now(call, &interrupted)
        if error != NULL or interrupted:
            for array in results:
                array.delete()
        if error != NULL:
            try:
                raise exception_of(error)
            finally:
                free(error)
        return results
    finally:
        free(donated)
        if call != NULL:
            end_call(call)


cdef int check_argument(Executor executor, Array array, int n) except -1:
    """Raises InputError for an Array that does not fit, or is on another device."""
    name = executor.signature.parameter_names[n]
    if array.storage == NULL:
        raise InputError(f"{name}, {described(array)}, was deleted or donated; use the result of the call that took it")
    if array.dtype != executor.signature.parameter_types[n] or (
        array.shape != executor.signature.parameter_shapes[n].dimensions
    ):
        raise executor.signature.misfit(array, n)
    here = getattr(executor, "device", None)
    if here is not None and array.device is not here and array.device != here:
        raise InputError(
            f"{name} lies on {getattr(array.device, 'name', array.device)}, and the program runs on {here.name}: "
            f"refxla.device_put(x, {here.name!r}) copies it"
        )
    return 0


cdef bint copy_lent(Call* call, list keep) except -1:
    """Copies the arguments that belong to the caller, who may change them after the call has returned."""
    cdef int n
    cdef Storage* copy
    for n in range(call.argument_count):
        if call.arguments[n].order < 0 and call.arguments[n].handle == NULL:
            copy = new_storage(call.arguments[n].bytes)
            if copy == NULL:
                raise MemoryError("no memory for a call")
            memcpy(copy.data, call.arguments[n].data, copy.bytes)
            drop(call.arguments[n])
            call.arguments[n] = copy
    return True


def _call(executor: Executor, arguments: tuple) -> object:
    """The results of a call, as an Executor returns them."""
    results = call_with_arrays(executor, arguments)
    return results[0] if executor.single else tuple(results)


register_arrays(Array, _call)
