"""Values of the compiler's classes as bytes: what is read is what was written, and what is not, is an error."""

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES, F32, Shape

from refxla.compiler.serialization import UnreadableError, dumps, loads
from refxla.ir import plan as p

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
)


def bits(value):
    """Equal for values that are the same to the last bit."""
    if isinstance(value, float):
        return float.hex(value)
    if isinstance(value, complex):
        return bits(value.real), bits(value.imag)
    if isinstance(value, tuple):
        return "tuple", tuple(map(bits, value))
    if isinstance(value, dict):
        return "dict", tuple((bits(k), bits(v)) for k, v in value.items())
    return type(value), value


@pytest.mark.hypothesis
@given(VALUES)
def test_what_is_read_is_what_was_written(value):
    assert bits(loads(dumps(value))) == bits(value)


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if t.dtype is not None])
def test_arrays_of_every_element_type(name):
    dtype = ELEMENT_TYPES[name].dtype
    for array in (np.arange(6).reshape(2, 3).astype(dtype), np.zeros((0, 4), dtype), np.ones((), dtype)):
        found = loads(dumps((array, array.T)))
        for a, b in zip(found, (array, array.T), strict=True):
            assert a.dtype == dtype and a.shape == b.shape and np.ascontiguousarray(b).tobytes() == a.tobytes()


def test_objects_stay_what_they_are():
    shape = Shape.array("bf16", (2, 3))
    kernel = p.Kernel("k", "body", (p.Argument("input", "float"),), 3, us=float("inf"))
    both = p.Kernel("both", "", (), 1, calls=(kernel, kernel))
    value = loads(dumps((both, kernel, shape, F32, {"a": shape})))
    assert value == (both, kernel, shape, F32, {"a": shape})
    assert value[0].calls[0] is value[0].calls[1] is value[1] and value[2] is value[4]["a"] and value[3] is F32


@pytest.mark.parametrize("value", [object(), [1], {1, 2}, np.array(["a"]), np.array([None]), print, Shape])
def test_other_values_have_no_bytes(value):
    with pytest.raises(TypeError):
        dumps((1, value))


WHOLE = dumps((p.Launch(1, (2, 3)), np.arange(5, dtype=ml_dtypes.bfloat16), b"abc"))


@pytest.mark.parametrize("size", range(0, len(WHOLE), 7))
def test_what_is_cut_off_is_not_read(size):
    with pytest.raises(UnreadableError):
        loads(WHOLE[:size])


@pytest.mark.parametrize(
    "old, new",
    [
        (b"Launch", b"Lunch!"),  # no class
        (b'"kernel"', b'"kernal"'),  # another version's field
        (b'{"o":0}', b'{"o":9}'),
        (b'{"o":0}', b'{"x":0}'),
        (b'["bf16",', b'["bf99",'),
        (b"[5],0,10", b"[9],0,10"),
        (b'"value"', b'"volue"'),
    ],
)
def test_what_is_no_value_is_not_read(old, new):
    assert old in WHOLE and len(old) == len(new)
    with pytest.raises(UnreadableError):
        loads(WHOLE.replace(old, new))


def test_a_pickle_is_not_run():
    with pytest.raises(UnreadableError):
        loads(pickle.dumps(print))
    assert BY_DTYPE  # the types are those of the specification
