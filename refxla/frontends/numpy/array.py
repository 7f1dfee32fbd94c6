"""Traced: an array that records HLO instead of computing.

As in NumPy, arrays may share memory: a *storage* has the value of an array that the function created, and the arrays
that share its memory (x[1:], x.T, x.reshape(n)) are *views*, which read their value from the storage's, and change it
when they are assigned to. A value is an instruction; or a NumPy array, as long as all its inputs are known when the
function is traced (np.zeros(3), np.arange(4) % 2), and then NumPy itself computes with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE, Shape

from .advice import advice_for
from .dispatch import (
    ALIASING,
    ARRAYS,
    METHODS,
    Asking,
    Symbol,
    WriteRefused,
    adopted,
    all_known,
    casting_of,
    values_of,
    with_type_of,
    without_out,
    written,
)
from .location import called_function, is_library
from .tracing import Region, Tracing

I = Instruction  # noqa: E741


class TracedStorage:
    """The memory that an array and its views share.

    `value` is the present value, and `version` counts its changes. `owner` says whose it is if not the function's own;
    `leaf` is the argument that it is. `region` is the one that may change it (None: no region may).
    """

    __slots__ = ("value", "version", "owner", "leaf", "region")

    def __init__(self, value: I | np.ndarray, region: Region | None, owner: str = "", leaf: int | None = None) -> None:
        self.value, self.version, self.owner, self.leaf, self.region = value, 0, owner, leaf, region


class View:
    """How an array shows a part of another one, `of`: as a function of a NumPy array and of an instruction; and the new
    value of the other one as a function of its instruction and the part's new one (None: it is read-only). Unless it
    `is_known` at trace time where the part is, `of_array` gives one that is elsewhere, with the same strides."""

    __slots__ = ("of", "of_array", "of_instruction", "put", "is_known")

    def __init__(
        self, of: Traced, of_array: Callable[[np.ndarray], Any], of_instruction: Callable[[I], I],
        put: Callable[[I, I], I] | None, is_known: bool,
    ) -> None:  # fmt: skip
        self.of, self.of_array, self.of_instruction, self.put = of, of_array, of_instruction, put
        self.is_known = is_known


class Traced(Symbol, np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the traced program: `dtype`, `shape` and the like are an ndarray's; it has no values.

    `is_scalar` says that it is a NumPy scalar, which no operation changes, and not an array without dimensions.
    `python` is int, float or complex if it represents a Python number, such as a loop's counter: its type then yields
    to an array's.
    """

    __array_priority__ = 1000
    python: type | None = None

    def __init__(
        self, value: I | np.ndarray, build: Tracing, owner: str = "", *, leaf: int | None = None,
        is_scalar: bool | None = None, is_writable: bool = True,
    ) -> None:  # fmt: skip
        self.build = build
        self.storage = TracedStorage(value, build.region if is_writable else None, owner, leaf)
        self.alias: View | None = None
        shape = value.shape if isinstance(value, Instruction) else Shape(BY_DTYPE[value.dtype], value.shape)
        self._shape, self.is_scalar = shape, not shape.rank if is_scalar is None else is_scalar
        self._seen: tuple[int, I] | None = None  # a version, and the instruction of its value

    def viewed(
        self, of_array: Callable[[np.ndarray], Any], of_instruction: Callable[[I], I],
        put: Callable[[I, I], I] | None, is_known: bool = True, kind: Any = None,
    ) -> Traced:  # fmt: skip
        """An array (a `kind` of Traced) that shares memory with this one (see View); with a copy of it, if it is a
        NumPy scalar."""
        if self.is_scalar:
            value = self.known_value
            self = Traced(self.instruction if value is None else np.array(value), self.build, is_scalar=False)
        traced = object.__new__(kind or Traced)
        traced.build, traced.storage = self.build, self.storage
        traced.alias = View(self, of_array, of_instruction, put, is_known)
        traced._seen = None
        part = traced.known_value
        if part is None:
            instruction = of_instruction(self.instruction)
            traced._shape, traced._seen = instruction.shape, (self.storage.version, instruction)
        else:
            traced._shape = Shape(BY_DTYPE[part.dtype], part.shape)
        traced.is_scalar = False
        return traced

    # -- its value
    @property
    def known_value(self) -> np.ndarray | None:
        """Its value, if that is known when the function is traced. Changing it changes the array."""
        if isinstance(self.storage.value, Instruction):
            return None
        if self.alias is None:
            return self.storage.value
        whole = self.alias.of.known_value if self.alias.is_known else None
        return None if whole is None else self.alias.of_array(whole)

    @property
    def instruction(self) -> I:
        """The instruction of its present value."""
        version = self.storage.version
        if self._seen is None or self._seen[0] != version or not self.build.sees(self._seen[1]):
            if (value := self.known_value) is not None:
                instruction = constant(self.build, value)
            elif self.alias is not None:
                instruction = self.alias.of_instruction(self.alias.of.instruction)
            else:
                assert isinstance(self.storage.value, Instruction)
                instruction = self.storage.value
            self._seen = version, instruction
        instruction = self._seen[1]
        if not self.build.sees(instruction):
            raise UnsupportedError(
                f"{self.build.home(instruction).name} leaves an array behind, which is used outside of it: return it"
            )
        return instruction

    def assign(self, value: I) -> None:
        """Changes all elements to those of an instruction, of the same type and shape."""
        self._may_change()
        if self.alias is None:
            self.storage.value = value
            self._changed()
        elif self.alias.put is None:
            raise WriteRefused("the array is read-only, as in NumPy: change a copy of it, x = x.copy()")
        else:
            whole = self.alias.of
            whole.assign(self.alias.put(whole.instruction, value))

    def change(self, how: Callable[[np.ndarray], Any]) -> None:
        """Changes elements of an array whose value is known."""
        self._may_change()
        value = self.known_value
        assert value is not None
        how(value)
        self._changed()

    def _changed(self) -> None:
        self.storage.version += 1
        if self.storage.leaf is not None:
            self.build.written[self.storage.leaf] = self.storage

    def _may_change(self) -> None:
        storage = self.storage
        if self.is_scalar:
            raise TypeError(f"'numpy.{self.dtype}' object does not support item assignment")
        if storage.region is None:
            raise WriteRefused(
                f"{storage.owner or 'an array'} would be changed in place, which a compiled function does only with "
                "arrays of NumPy's and with those that it makes: begin with x = np.array(x) and return it"
            )
        if storage.region is not self.build.region:
            raise WriteRefused(
                f"{self.build.region.name} changes an array that was made outside of it, which is not seen there: "
                "make the array a part of the state that it takes and returns, and change that"
            )

    def ask(self) -> bool:
        """Records that the values are needed. Returns whether they will be available when the function is traced
        again."""
        return self.build.ask(self.build.origins_of(self.instruction))

    # -- properties of an ndarray
    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape.dimensions

    @shape.setter
    def shape(self, shape: Any) -> None:
        """As in NumPy, the array itself gets another shape: it becomes a view of its old form."""
        before = object.__new__(Traced)
        before.__dict__.update(self.__dict__)
        self.__dict__.update(METHODS["reshape"](before, shape).__dict__)
        if self.storage is not before.storage:
            raise AttributeError("incompatible shape for in-place modification: use x.reshape(shape)")

    @property
    def dtype(self) -> np.dtype:
        return self._shape.element_type.array_dtype

    @property
    def ndim(self) -> int:
        return self._shape.rank

    @property
    def size(self) -> int:
        return self._shape.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Traced:
        transposed: Any = np.transpose(self)  # NumPy passes this to this package
        return transposed

    @property
    def mT(self) -> Traced:
        transposed: Any = np.matrix_transpose(self)
        return transposed

    @property
    def flat(self) -> Any:
        b, own, size = self.build, self.shape, (self.size,)
        known = self.known_value
        return self.viewed(
            lambda x: x.reshape(size), lambda i: b.reshape(i, size), lambda _, part: b.reshape(part, own),
            known is None or known.flags.c_contiguous, Flat,
        )  # fmt: skip

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = np.resize(value, self.size) if self.size else value

    @property
    def real(self) -> Traced:
        return np.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        np.real(self)[...] = value

    @property
    def imag(self) -> Traced:
        return np.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        np.imag(self)[...] = value

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[n] for n in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self == value))

    def __repr__(self) -> str:
        return f"Traced({self._shape})" if self.known_value is None else repr(self.known_value)

    def __getitem__(self, key: Any) -> Any:
        with Asking(self, key):
            return METHODS["__getitem__"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        with Asking(self, key):
            METHODS["__setitem__"](self, key, value)

    def __getattr__(self, name: str) -> Any:
        # Methods that are also functions of NumPy: x.sum(axis=0) is np.sum(x, axis=0).
        value = None if name in ALIASING or name.startswith("__") else self.known_value
        if value is not None:
            member = getattr(value, name)
            if not callable(member):
                return member
        if name not in METHODS and value is None:
            if hasattr(np.ndarray, name) and not name.startswith("__"):
                self.ask()
                raise UnsupportedError(f"the method {name} of arrays has no compiled form{advice_of(name)}")
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")

        def method(*args: Any, **kwargs: Any) -> Any:
            functions = [f for f in (METHODS.get(name), getattr(np, name, None)) if f is not None]
            out, given, kwargs = without_out((self, *args), kwargs, *functions)
            given, kwargs = with_type_of(out, functions[0], given, kwargs) if functions else (given, kwargs)
            args = given[1:]
            with Asking(self, args, kwargs):
                if value is not None and all_known(args, kwargs):
                    result = adopted(member(*values_of(args), **values_of(kwargs)), self.build)
                elif name in METHODS:
                    result = METHODS[name](self, *args, **kwargs)
                else:
                    raise UnsupportedError(f"the method {name} of arrays has no compiled form{advice_of(name)}")
                function = getattr(np.ndarray, name)
                return result if out is None else written(out, result, function, casting_of(name), self)

        return method

    # -- operators that NumPy's arrays implement without ufuncs
    def __eq__(self, other: Any) -> Any:
        return self._differs(False) if _is_no_number(other) else super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        return self._differs(True) if _is_no_number(other) else super().__ne__(other)

    def _differs(self, answer: bool) -> Any:
        """The result for all elements of a comparison with a value that is not a number."""
        return answer if self.is_scalar else ARRAYS["of"](np.full(self.shape, answer), self.build)

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other == 2 and self.dtype == bool and not self.is_scalar:
            return np.square(self)  # int8
        return super().__pow__(other)

    def __mul__(self, other: Any) -> Any:
        if self.is_scalar and isinstance(other, (list, tuple)):  # a NumPy scalar repeats it, as a Python integer does
            if self.dtype.kind not in "iu":
                raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{self.dtype.type.__name__}'")
            return self.__index__() * other
        return super().__mul__(other)

    def __rmul__(self, other: Any) -> Any:
        return self * other if isinstance(other, (list, tuple)) else super().__rmul__(other)

    # -- operations that need its values
    def _value(self, conversion: Callable[[np.ndarray], Any], what: str, advice: str) -> Any:
        value = self.known_value
        if value is not None:
            return conversion(value)
        self.ask()
        raise UnsupportedError(
            f"{what} asks for the value of an array, which is not known when the function is compiled: {advice}"
        )

    def __bool__(self) -> bool:
        return self._value(bool, "`if`, `while`, `assert`, `and`, `or`, `not`, `in`, min() or max() of Python", _IF)

    def __int__(self) -> int:
        return self._value(int, "int()", "x.astype(int) converts, and an array can be an index as it is")

    def __float__(self) -> float:
        return self._value(
            float, "float() or a function of `math`", "x.astype(float) converts, np.sqrt and the like compute"
        )

    def __complex__(self) -> complex:
        return self._value(complex, "complex()", "x.astype(complex) converts")

    def __index__(self) -> int:
        return self._value(
            lambda x: x.__index__(), "range(), a size, a bound of a slice or an index of a list",
            "write refxla.fori_loop in the place of `for i in range(n)`, x[i + np.arange(size)] in the place of "
            "x[i:i+size], np.stack(a_list)[i] in the place of a_list[i]; a size must be a Python number",
        )  # fmt: skip

    def __round__(self, digits: int | None = None) -> Any:
        return np.round(self, digits or 0) if digits is not None else int(self)

    def item(self, *args: Any) -> Any:
        return self._value(
            lambda x: x.item(*args), "item()", "the array itself, x[i], can take part in all that follows"
        )

    def tolist(self) -> Any:
        return self._value(
            lambda x: x.tolist(), "tolist()", "compute with the array, and convert what the function returns"
        )

    def __hash__(self) -> int:
        if not self.is_scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return self._value(
            lambda x: hash(x[()]), "hash(), a key of a dict, an element of a set or a function that caches its results",
            "np.where chooses by values, and an array can be an index as it is",
        )  # fmt: skip

    def __copy__(self) -> Any:
        return np.copy(self)  # an array, also of a scalar

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._value(
            lambda x: x.__reduce_ex__(protocol), "pickle", "return the array, and write it to a file outside"
        )

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")

    def __format__(self, spec: str) -> str:
        if is_library(sys._getframe(1)):  # it writes a message
            return repr(self)
        return self._value(
            lambda x: format(x[()], spec), "an f-string or format()",
            "return the array and format it outside; f'{x!r}' shows its type and shape",
        )  # fmt: skip

    def __str__(self) -> str:
        if is_library(sys._getframe(1)):
            return repr(self)
        return self._value(
            str, "print() or str()", "return the array and print it outside; repr(x) is its type and shape"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        def converted(array: np.ndarray) -> np.ndarray:
            return np.array(array, dtype) if copy or dtype is not None else array

        culprit = called_function()
        what = culprit or "a function that has no compiled form, or `a[i] = x` with an array of another library,"
        return self._value(
            converted, what, advice_for(culprit)
            or "use functions of NumPy (docs/numpy.md lists them), and begin with a = np.array(a) where you assign",
        )  # fmt: skip

    @property  # type: ignore[misc]  # only read
    def __class__(self) -> type:  # so that isinstance(x, np.ndarray) and isinstance(x, np.floating) are as in NumPy
        return self.dtype.type if self.is_scalar else np.ndarray


_IF = (
    "np.where(condition, x, y) chooses element by element, refxla.cond(condition, f, g, x) between functions, "
    "refxla.while_loop repeats while a condition holds, np.minimum and np.maximum compare, & and | and ~ combine; "
    "return a condition to assert it outside"
)


class Flat(Traced):
    """x.flat: an array's elements in a row. Assigning to them changes the array; elements taken from them are
    copies."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key).copy()


def _is_no_number(value: Any) -> bool:
    return value is None or isinstance(value, (str, bytes))


_METHOD_ADVICE = {
    "nonzero": "the shape of its result is a value; refxla.nonzero(x, size=n) has a size",
    "tobytes": "return the array and convert it outside",
    "tofile": "return the array and write it outside",
    "dump": "return the array and write it outside",
    "resize": "use np.resize, np.pad or a slice",
}


def advice_of(name: str) -> str:
    """The replacement for a method that has no compiled form, as the end of a message."""
    return f": {_METHOD_ADVICE[name]}" if name in _METHOD_ADVICE else ""


def constant(b: Tracing, array: np.ndarray) -> I:
    """The instruction of a known array. If all its elements are equal, it is a broadcast."""
    literal = np.array(array, order="C")
    if literal.size > 1:
        first = literal.reshape(-1)[:1]
        if (literal.view(np.uint8).reshape(literal.size, -1) == first.view(np.uint8)).all():
            scalar = b.make("constant", shape=Shape.of(first.reshape(())), literal=first.reshape(()).copy())
            return b.spread(scalar, Shape.of(literal), ())
    return b.make("constant", shape=Shape.of(literal), literal=literal)
