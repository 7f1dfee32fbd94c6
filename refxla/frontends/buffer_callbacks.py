"""`jax.experimental.buffer_callback` on refxla: callbacks that write their results in place.

JAX passes buffers that only jaxlib can create, to handlers that only its own clients call. These here have the same
attributes, and a program calls the callback as a host function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.lib import ffi as jaxlib_ffi


class CallbackBuffer:
    """The memory of an operand or a result while a callback runs, with the attributes of JAX's Buffer on a CPU."""

    def __init__(self, array: np.ndarray, writeable: bool) -> None:
        self._array: np.ndarray = array.view()
        self._array.flags.writeable = writeable
        self.writeable = writeable

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        device: tuple[Any, int] = self._array.__dlpack_device__()
        return device


class ExecutionContext:
    """What a callback is told of its call, with the attributes of JAX's ExecutionContext on a CPU."""

    stage = jaxlib_ffi.ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The stream of a GPU: raises JaxRuntimeError, as on JAX's CPU."""
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


def host_function(
    callback: Callable[..., Any],
    result_avals: Sequence[Any],
    in_tree: Any,
    out_tree: Any,
    aliases: Sequence[tuple[int, int]],
) -> Callable[..., list[np.ndarray]]:
    """The function that a program calls: from arrays that are its own to the results, which the callback writes. Of
    `aliases`, pairs of the number of an operand and that of a result, both are the same memory."""
    operand_of = {result: operand for operand, result in aliases}

    def call(*operands: np.ndarray) -> list[np.ndarray]:
        results = [
            operands[operand_of[n]] if n in operand_of else np.empty(aval.shape, aval.dtype)
            for n, aval in enumerate(result_avals)
        ]
        arguments, keywords = jax.tree.unflatten(in_tree, [CallbackBuffer(array, False) for array in operands])
        outputs = jax.tree.unflatten(out_tree, [CallbackBuffer(array, True) for array in results])
        if callback(ExecutionContext(), outputs, *arguments, **keywords) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return results

    return call
