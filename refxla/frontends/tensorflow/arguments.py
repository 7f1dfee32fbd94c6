"""Arguments and results of TensorFlow functions: what matters for a program, and which are tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError
from refxla_spec.types import Shape


def kind_of(value: Any, tensors: list[Any]) -> Any:
    """The key of nested arguments for the program; the tensors among them are appended to `tensors`."""
    import tensorflow as tf

    if isinstance(value, dict):
        return dict, *((key, kind_of(v, tensors)) for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), *(kind_of(v, tensors) for v in value)
    if is_tensor(value):
        if is_symbolic(value):
            raise InputError(
                "a compiled function is not an operation of TensorFlow: inside of a tf.function or of a functional "
                "Keras model call the function itself, and compile the outermost one"
            )
        tensors.append(value)
        return tf.TensorShape(value.shape), tf.as_dtype(value.dtype)
    if _is_composite(value):
        components = tf.nest.flatten(value, expand_composites=True)
        return tf.type_spec_from_value(value), *(kind_of(v, tensors) for v in components)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value), repr(value)
    return object, _Identity(value)


def is_tensor(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, (tf.Tensor, np.ndarray, np.generic, tf.TensorSpec))


def is_symbolic(value: Any) -> bool:
    """Whether it is a tensor of a function that TensorFlow is tracing."""
    import tensorflow as tf

    return isinstance(value, tf.Tensor) and bool(tf.is_symbolic_tensor(value))


def _is_composite(value: Any) -> bool:
    """Whether it is composed of tensors: ragged, sparse, or of an extension type."""
    import tensorflow as tf

    return isinstance(value, (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices, tf.experimental.ExtensionType))


class _Identity:
    """An object as part of a key: equal only to itself, and kept alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def replaced(value: Any, tensors: Iterator[Any]) -> Any:
    """Nested arguments with their tensors replaced, in the order of `kind_of`."""
    import tensorflow as tf

    if isinstance(value, dict):
        return {key: replaced(v, tensors) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        elements = [replaced(v, tensors) for v in value]
        if hasattr(value, "_fields"):
            return type(value)(*elements)
        return elements if isinstance(value, list) else tuple(elements)
    if _is_composite(value):
        components = [next(tensors) for _ in tf.nest.flatten(value, expand_composites=True)]
        return tf.nest.pack_sequence_as(value, components, expand_composites=True)
    return next(tensors) if is_tensor(value) else value


def example_of(value: Any) -> Any:
    """A placeholder tensor like the one that is given or described."""
    import tensorflow as tf

    if not isinstance(value, tf.TensorSpec):
        return tf.convert_to_tensor(value)
    if not value.shape.is_fully_defined():
        raise InputError(f"{value} has unknown dimensions, and HLO has static shapes: say all sizes")
    return tf.zeros(value.shape, value.dtype)


def read_variable(handle: Any, dtype: Any) -> Any:
    """The value of a variable."""
    import tensorflow as tf

    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def reader(variables: Sequence[tuple[Any, Any]]) -> Callable[[], Sequence[Any]]:
    """A function that returns the values of variables, (handle, type) each."""

    def read() -> Sequence[Any]:
        return [read_variable(handle, dtype) for handle, dtype in variables]

    return _graph_call(read, ()) if variables else list


def assigner(handles: Sequence[Any], shapes: Sequence[Shape]) -> Callable[[Sequence[Any]], object]:
    """A function that assigns tensors of these shapes to variables."""
    import tensorflow as tf

    def assign(*values: Any) -> None:
        for handle, value in zip(handles, values, strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    if not handles:
        return lambda values: None
    call = _graph_call(assign, [tf.TensorSpec(s.dimensions, tf.as_dtype(s.element_type.dtype)) for s in shapes])
    return lambda values: call(*values)


def _graph_call(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """A function of tensors as one operation, which runs its graph.

    An eager operation for each variable takes several microseconds of Python, and so does the check of each argument
    of a concrete function, which the operation does not make.
    """
    import tensorflow as tf

    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    captured, types = concrete.captured_inputs, [output.dtype for output in concrete.outputs]

    def call(*tensors: Any) -> Sequence[Any]:
        results = tf.raw_ops.StatefulPartitionedCall(args=[*tensors, *captured], Tout=types, f=concrete)
        return results if types else ()

    return call


_ALIGNED = 64  # bytes: TensorFlow aborts on a tensor with a smaller alignment


def to_tensor(array: np.ndarray) -> Any:
    """A result as a tensor, which takes over its memory if that is aligned and writable, and DLPack supports its
    type."""
    import tensorflow as tf

    aligned = array.flags.c_contiguous and array.__array_interface__["data"][0] % _ALIGNED == 0
    if array.dtype.kind in "iufc" and aligned and array.flags.writeable:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device("CPU"):
        return tf.convert_to_tensor(array)


def packed(structure: Any, tensors: Iterator[Any]) -> Any:
    """The results of a traced function: its structure with these in place of its tensors."""
    import tensorflow as tf

    leaves = tf.nest.flatten(structure, expand_composites=True)
    flat = [next(tensors) if isinstance(leaf, tf.Tensor) else leaf for leaf in leaves]
    return tf.nest.pack_sequence_as(structure, flat, expand_composites=True)
