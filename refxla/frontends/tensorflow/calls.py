"""`xla.compile` as in TensorFlow 1: a computation and its inputs, and its results as tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refxla_spec.errors import InputError, a_type

from ...compiler.options import Options
from .function import TensorFlowFunction


def xla_compile(computation: Callable[..., Any], inputs: Sequence[Any] | None, options: Options) -> Any:
    """The tensors returned by `computation(*inputs)`, compiled: a list, or nested like its results. The last 64
    computations are kept compiled.

    Raises InputError if the computation is not a function or the inputs not a list, UnsupportedError for anything
    without a compiled form.
    """
    import tensorflow as tf

    if not callable(computation):
        raise InputError(f"computation is {a_type(computation)}; it has to be a function of tensors")
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise InputError(f"inputs is {a_type(inputs)}; it has to be a list, with an entry for each argument")
    tensors = tf.nest.map_structure(_tensor, list(inputs or ()))
    try:
        compiled = _cached_function(computation, options)
    except TypeError:  # a computation that cannot be hashed is not kept
        compiled = _function(computation, options)
    results = compiled(*tensors)
    parts = results if isinstance(results, (list, tuple)) else [results]
    if isinstance(results, Mapping) or any(isinstance(part, (list, tuple, Mapping)) for part in parts):
        return results
    return [value for value in tf.nest.flatten(results) if value is not None]


@functools.lru_cache(maxsize=64)
def _cached_function(computation: Callable[..., Any], options: Options) -> TensorFlowFunction:
    return _function(computation, options)


def _function(computation: Callable[..., Any], options: Options) -> TensorFlowFunction:
    """A computation without the operations among its results, which xla.compile ran and did not return."""
    import tensorflow as tf

    @functools.wraps(computation)
    def tensors(*inputs: Any) -> Any:
        results = computation(*inputs)
        if type(results) in (list, tuple):
            return [part for part in results if not isinstance(part, tf.Operation)]
        return None if isinstance(results, tf.Operation) else results

    return TensorFlowFunction(tensors, options)


def _tensor(value: Any) -> Any:
    """An input; Python numbers are tensors, too, and not part of the program."""
    import tensorflow as tf

    return tf.convert_to_tensor(value) if isinstance(value, (bool, int, float, complex)) else value
