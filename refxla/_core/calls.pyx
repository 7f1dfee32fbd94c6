"""Calls of a compiled function with arguments like those of an earlier call.

How a Python function is compiled depends on the structure of its arguments, on their types and shapes, and on settings
of its framework. Describing and looking up all of that takes several times as long as a small program runs. A Shortcut
has it ready for comparison: if nothing has changed, the call goes straight to the executor.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free

cimport numpy as np
from numpy cimport dtype, ndarray

from refxla._core.arguments cimport MAX_RANK, Form
from refxla._core.array cimport Array, call_with_arrays

import numpy

np.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Descr "PyArray_Descr":
        pass
    Descr* descr_of "PyArray_DESCR"(ndarray array)
    unsigned char equivalent "PyArray_EquivTypes"(Descr* one, Descr* other)

cdef object MISS = object()
cdef int MOST = 8  # shortcuts that are tried


cdef class Shortcut:
    """The fast path of calls whose positional arguments are like those of an earlier call.

    `leaves` describes the leaves of the arguments: (dtype, shape, whether the type is weak) for an array, the same and
    True for a refxla.Array, (Python type,) for a number, (None, value) for a leaf that matters by its value, compared
    by ==. `sources` has for each parameter of `executor` the number of its leaf, or an array. `settings` are pairs of
    an object and the `value` that it must have. `flatten`, called with the tuple of arguments, returns their leaves and
    a structure, which must equal `structure`; None: the arguments are the leaves. `foreign` is another library's class
    of arrays with `aval` (an object that describes the array), `shape`, `dtype`, `weak_type` and the buffer protocol.
    `finish` turns the list of results into what the function returns; None: the one array, or the tuple of arrays.
    """

    def __cinit__(
        self, target, Executor executor, leaves, sources, settings=(), flatten=None, structure=None, foreign=None,
        finish=None,
    ):
        cdef int n, d
        self.target, self.executor = target, executor
        self.count = len(leaves)
        self.kinds = <ArgumentKind*> calloc(self.count + 1, sizeof(ArgumentKind))
        self.forms = <Form*> calloc(self.count + 1, sizeof(Form))
        self.weak = <bint*> calloc(self.count + 1, sizeof(bint))
        self.sources = <int*> calloc(len(sources) + 1, sizeof(int))
        if self.kinds == NULL or self.forms == NULL or self.weak == NULL or self.sources == NULL:
            raise MemoryError
        self.expectations, self.shapes, self.avals = [], [], [None] * self.count
        for n, leaf in enumerate(leaves):
            self.kinds[n] = (SAME, NUMBER, SAME, ARRAY, DEVICE)[len(leaf)]
            self.on_device = self.on_device or self.kinds[n] == DEVICE
            self.expectations.append(leaf[1] if self.kinds[n] == SAME else leaf[0])
            self.shapes.append(leaf[1] if self.kinds[n] in (ARRAY, DEVICE) else None)
            if self.kinds[n] == ARRAY:
                if not isinstance(leaf[0], dtype) or len(leaf[1]) > MAX_RANK:
                    raise ValueError(f"{leaf} is no array of NumPy's")
                self.weak[n] = leaf[2]
                self.forms[n].rank = len(leaf[1])
                for d, size in enumerate(leaf[1]):
                    self.forms[n].dimensions[d] = size
        self.constants = []
        if len(sources) != executor.signature.parameter_count:
            raise ValueError(f"{len(sources)} sources for {executor.signature.parameter_count} parameters")
        for n, source in enumerate(sources):
            self.sources[n] = source if isinstance(source, int) else -1
            self.constants.append(None if isinstance(source, int) else source)
        self.settings = tuple(settings)
        self.flatten, self.structure, self.foreign, self.finish = flatten, structure, foreign, finish

    def __dealloc__(self):
        free(self.kinds)
        free(self.forms)
        free(self.weak)
        free(self.sources)

    cdef object call(self, tuple arguments):
        cdef object leaves = arguments
        cdef int n
        if self.flatten is None:
            if len(arguments) != self.count:
                return MISS
        else:
            leaves, structure = self.flatten(arguments)
            if structure != self.structure:
                return MISS
        for n in range(self.count):
            if not self.fits(leaves[n], n):
                return MISS
        for setting, value in self.settings:
            state = setting.value
            if state is not value and state != value:
                return MISS
        return self.run(leaves)

    cdef bint fits(self, object leaf, int n) except -1:
        cdef ndarray array
        cdef dtype leaf_type
        cdef Descr* descr
        if self.kinds[n] == NUMBER:
            return type(leaf) is self.expectations[n]
        if self.kinds[n] == SAME:
            return type(leaf) is type(self.expectations[n]) and leaf == self.expectations[n]
        if self.kinds[n] == DEVICE:
            if type(leaf) is not Array or (<Array> leaf).dtype != self.expectations[n]:
                return False
            return (<Array> leaf).shape == self.shapes[n]
        if type(leaf) is ndarray:
            array = <ndarray> leaf
            leaf_type = <dtype> self.expectations[n]
            descr = <Descr*> <void*> leaf_type
            if descr_of(array) != descr and not equivalent(descr_of(array), descr):
                return False
            return (
                not self.weak[n]
                and np.PyArray_NDIM(array) == self.forms[n].rank
                and np.PyArray_CompareLists(np.PyArray_DIMS(array), self.forms[n].dimensions, self.forms[n].rank)
            )
        if self.foreign is None or type(leaf) is not self.foreign:
            return False
        aval = leaf.aval
        if aval is self.avals[n]:
            return True
        if leaf.shape != self.shapes[n] or leaf.dtype != self.expectations[n] or bool(leaf.weak_type) != self.weak[n]:
            return False
        self.avals[n] = aval
        return True

    cdef object run(self, object leaves):
        if self.on_device:
            return self.run_on_device(leaves)
        cdef int count = self.executor.signature.parameter_count
        cdef ArgumentView* views = <ArgumentView*> calloc(count + 1, sizeof(ArgumentView))
        cdef void** data = <void**> calloc(count + 1, sizeof(void*))
        cdef list keep = []
        cdef list results
        cdef ndarray array
        cdef int n
        try:
            if views == NULL or data == NULL:
                raise MemoryError
            for n in range(count):
                leaf = leaves[self.sources[n]] if self.sources[n] >= 0 else self.constants[n]
                if type(leaf) is self.foreign:
                    try:
                        PyObject_GetBuffer(leaf, &views[n].view, PyBUF_C_CONTIGUOUS)
                        views[n].viewed = True
                    except Exception:  # it is elsewhere, or buffers do not have its type
                        leaf = numpy.asarray(leaf)
                    else:
                        data[n] = views[n].view.buf
                        if <uintptr_t> data[n] % self.executor.signature.parameters[n].alignment == 0:
                            continue
                        leaf = numpy.asarray(leaf)
                array = self.executor.signature.argument(leaf, n)
                keep.append(array)
                data[n] = np.PyArray_DATA(array)
            results = self.executor.results()
            self.executor.execute(data, results)
        finally:
            if views != NULL:
                for n in range(count):
                    if views[n].viewed:
                        PyBuffer_Release(&views[n].view)
            free(views)
            free(data)
        return self.finished(results)

    cdef object run_on_device(self, object leaves):
        cdef list values = []
        cdef int n
        for n in range(self.executor.signature.parameter_count):
            values.append(leaves[self.sources[n]] if self.sources[n] >= 0 else self.constants[n])
        return self.finished(call_with_arrays(self.executor, values))

    cdef object finished(self, list results):
        if self.finish is not None:
            return self.finish(results)
        return results[0] if self.executor.single else tuple(results)


cdef class Caller:
    """A function that is called with arguments of any kind. `executable` is the one used last.

    A subclass has `call(arguments, keywords)`, which handles calls that no shortcut fits.
    """

    def __cinit__(self, *_, **__):
        self.shortcuts = []

    def __call__(self, *arguments, **keywords):
        cdef Shortcut shortcut
        if not keywords:
            for shortcut in self.shortcuts:
                result = shortcut.call(arguments)
                if result is not MISS:
                    self.executable = shortcut.target
                    return result
        return self.call(arguments, keywords)

    def remember(self, Shortcut shortcut not None) -> None:
        """Tries this shortcut first from now on, and keeps only the last few others."""
        self.shortcuts = [shortcut, *self.shortcuts[: MOST - 1]]
