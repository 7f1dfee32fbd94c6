"""The arguments and results of a program: the check of each argument, and new arrays for results."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, PyTypeObject
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free

cimport numpy as np
from numpy cimport dtype, ndarray, npy_intp

from refxla._core.buffer_pool cimport PoolBlock, take

import numpy

from refxla_spec.errors import InputError, UnsupportedError, a_type

np.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Descr "PyArray_Descr":
        pass
    PyTypeObject PyArray_Type
    Descr* descr_of "PyArray_DESCR"(ndarray array)
    unsigned char equivalent "PyArray_EquivTypes"(Descr* one, Descr* other)
    object PyArray_NewFromDescr(
        PyTypeObject* kind, dtype descr, int rank, const npy_intp* dimensions, const npy_intp* strides,
        void* data, int flags, PyObject* like
    )
    int PyArray_SetBaseObject(ndarray array, object base) except -1


cdef class Signature:
    """The parameters and results of a program.

    `parameter_shapes` and `result_shapes` are array shapes (Shape); `parameter_names` are used in messages. Raises
    UnsupportedError for a parameter or result that is not an array (a token, an opaque value).
    """

    def __cinit__(self, parameter_shapes, parameter_names, result_shapes):
        self.parameter_shapes = tuple(parameter_shapes)
        self.parameter_names = tuple(parameter_names)
        self.result_shapes = tuple(result_shapes)
        self.result_names = tuple(f"result {n}, {plain(s)}" for n, s in enumerate(self.result_shapes))
        self.parameter_count = len(self.parameter_shapes)
        self.result_count = len(self.result_shapes)
        self.parameters = forms(self.parameter_shapes, "parameter")
        self.results = forms(self.result_shapes, "result")
        self.parameter_types = tuple(s.element_type.dtype for s in self.parameter_shapes)
        self.result_types = tuple(s.element_type.dtype for s in self.result_shapes)

    def __dealloc__(self):
        free(self.parameters)
        free(self.results)

    cdef ndarray argument(self, object value, int n):
        cdef Form* form = &self.parameters[n]
        cdef dtype parameter_type = <dtype> self.parameter_types[n]
        cdef Descr* descr = <Descr*> <void*> parameter_type
        cdef ndarray array
        if isinstance(value, ndarray):
            array = <ndarray> value
            if type(value) is not ndarray:
                self.check_mask(value, n)
            if descr_of(array) != descr and not equivalent(descr_of(array), descr):
                raise self.misfit(array, n)
        else:
            array = as_array(value, parameter_type, form.rank, self.parameter_names[n], self.parameter_shapes[n])
            if not equivalent(descr_of(array), descr):
                raise self.misfit(array, n)
        if np.PyArray_NDIM(array) != form.rank or not np.PyArray_CompareLists(
            np.PyArray_DIMS(array), form.dimensions, form.rank
        ):
            raise self.misfit(array, n)
        # Dense, row-major, aligned; by NumPy's rule of alignment, half an element is enough for a complex number.
        if not np.PyArray_CHKFLAGS(array, np.NPY_ARRAY_CARRAY_RO) or (
            <uintptr_t> np.PyArray_DATA(array) % form.alignment
        ):
            array = numpy.array(array, parameter_type, order="C")
        return array

    cdef ndarray result(self, int n):
        cdef Form* form = &self.results[n]
        cdef PoolBlock block = take(form.bytes, <str> self.result_names[n])
        cdef dtype descr = <dtype> self.result_types[n]
        Py_INCREF(descr)  # the next call takes over a reference
        cdef ndarray array = PyArray_NewFromDescr(
            &PyArray_Type, descr, form.rank, form.dimensions, NULL, block.data, np.NPY_ARRAY_CARRAY, NULL
        )
        Py_INCREF(block)  # likewise
        PyArray_SetBaseObject(array, block)
        return array

    cdef int check_mask(self, object value, int n) except -1:
        """Raises InputError for an array of a subclass of NumPy's in which elements are masked, since a program would
        compute with them."""
        if numpy.ma.is_masked(value):
            raise InputError(
                f"{self.parameter_names[n]} is a {type(value).__name__} with masked elements, which a program does not "
                "leave out; pass x.filled(value), or x.data and x.mask to a program that takes both"
            )
        return 0

    def misfit(self, array: object, n: int) -> InputError:
        """The error for argument `n`, whose type or shape differs from the parameter's."""
        shape = self.parameter_shapes[n]
        advice = "compile the program for arguments of this shape"
        if array.size == shape.size:
            advice = "convert it before the call" if array.shape == shape.dimensions else "reshape it before the call"
        return InputError(f"{self.parameter_names[n]} is {describe(array)}, and the program takes {plain(shape)}; {advice}")

    def wrong_count(self, count: int) -> InputError:
        """The error for a call with `count` arguments."""
        listed = ", ".join(
            f"{name}: {plain(shape)}" for name, shape in zip(self.parameter_names[:8], self.parameter_shapes)
        )
        more = ", ..." if self.parameter_count > 8 else ""
        plural = "" if self.parameter_count == 1 else "s"
        return InputError(
            f"the program takes {self.parameter_count} argument{plural} ({listed}{more}), {count} given"
        )

    def check(self, value: object, n: int) -> object:
        """Argument `n` as the array that a call would use. Raises InputError."""
        return self.argument(value, n)


cdef Form* forms(tuple shapes, str what) except NULL:
    cdef Form* out = <Form*> calloc(max(1, len(shapes)), sizeof(Form))
    cdef int n, d
    if out == NULL:
        raise MemoryError
    for n, shape in enumerate(shapes):
        if not shape.is_array or shape.rank > MAX_RANK:
            free(out)
            reason = f"has {shape.rank} dimensions (at most {MAX_RANK} are" if shape.is_array else "is no array (these are not"
            raise UnsupportedError(f"{what} {n}, {shape}, {reason} supported by compiled programs)")
        out[n].rank = shape.rank
        out[n].alignment = shape.element_type.dtype.itemsize
        out[n].bytes = shape.size * shape.element_type.dtype.itemsize
        for d, size in enumerate(shape.dimensions):
            out[n].dimensions[d] = size
    return out


cdef ndarray as_array(object value, dtype parameter_type, int rank, str name, object shape):
    """`value`, which is not an ndarray, as one: without a copy if its protocol allows that."""
    # some of NumPy's scalars are also Python numbers, but have a type of their own
    if isinstance(value, numpy.generic):
        return numpy.asarray(value)
    if isinstance(value, (bool, int, float, complex)):
        return from_scalar(value, parameter_type, name, shape)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return numpy.asarray(value)
    if hasattr(value, "__dlpack__"):
        return numpy.from_dlpack(value)
    try:
        return numpy.asarray(memoryview(value))
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {a_type(value)}, and the program takes {plain(shape)}; pass a NumPy array, "
            "or an object with __array__, __dlpack__ or the buffer protocol"
        ) from None


cdef ndarray from_scalar(object value, dtype parameter_type, str name, object shape):
    """A Python number as a 0-d array of the parameter's type, if that loses nothing but a float's last bits."""
    kind = shape.element_type.kind
    order = ("pred", "signed", "float", "complex")
    rank = order.index("signed" if kind == "unsigned" else kind)
    value_rank = 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2 if isinstance(value, float) else 3
    # True is 1 to Python. Here only a pred can become a pred, and it becomes nothing else, as in the program itself.
    fits = value_rank == rank if 0 in (value_rank, rank) else value_rank <= rank
    if fits and shape.rank == 0:
        try:
            array = numpy.asarray(value, parameter_type)
        except OverflowError:
            fits = False
        else:
            if value_rank != 1 or rank != 1 or int(array) == value:
                return array
    raise InputError(
        f"{name} is the {type(value).__name__} {value!r}, and the program takes {plain(shape)}; "
        "pass a NumPy array of that type and shape"
    )


def plain(shape: object) -> str:
    """HLO's notation of a shape without its layout."""
    return str(shape.without_layout())


def describe(array: object) -> str:
    """HLO's notation of an array, or NumPy's name of its dtype if HLO has none."""
    from refxla_spec.types import BY_DTYPE

    element_type = BY_DTYPE.get(array.dtype)
    if element_type is None:
        return f"an array of NumPy type {array.dtype!s} ({array.dtype.str}) and shape {array.shape}"
    return f"{element_type}[{','.join(map(str, array.shape))}]"
