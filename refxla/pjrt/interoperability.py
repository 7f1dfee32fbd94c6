"""DLPack of JAX's arrays on refxla: `numpy.from_dlpack`, `torch.from_dlpack`, `jax.dlpack.from_dlpack`.

JAX exports only arrays of its own platforms. refxla's arrays are in the host's memory, and other libraries are told so.
Calls of jaxlib in `jax._src.dlpack` are answered here if an array or a device is refxla's.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src import dlpack
from jax._src.array import ArrayImpl
from jax._src.typing import DLDeviceType
from jaxlib import _jax

from .._core.dlpack import array_of, capsule_of
from ..frontends.jax_lowerings import PLATFORM

_export = _jax.buffer_to_dlpack_managed_tensor
_import = _jax.dlpack_managed_tensor_to_buffer
_device_of = ArrayImpl.__dlpack_device__


def register() -> None:
    """Makes JAX's DLPack functions support the platform. Host memory becomes an array on refxla if that is the default
    platform, as it becomes one on JAX's CPU if that is."""
    if (jax.config.jax_platforms or "").split(",")[0] == PLATFORM:
        dlpack._DL_DEVICE_TO_PLATFORM[DLDeviceType.kDLCPU] = PLATFORM
    vars(dlpack)["_jax"] = _Jaxlib()
    setattr(ArrayImpl, "__dlpack_device__", _dlpack_device)  # noqa: B010


class _Jaxlib:
    """jaxlib's module as seen by `jax._src.dlpack`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_jax, name)

    def buffer_to_dlpack_managed_tensor(
        self,
        array: jax.Array,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        copied: bool = False,
        **options: Any,
    ) -> Any:
        if not _is_ours(array):
            keywords = {"max_version": max_version, "copied": copied} if max_version is not None or copied else {}
            return _export(array, stream=stream, **keywords, **options)
        if stream is not None:
            raise BufferError("an array on refxla lies in the host's memory, which has no streams")
        return capsule_of(_view(array), max_version, copied)

    def dlpack_managed_tensor_to_buffer(
        self, capsule: Any, device: Any, stream: Any = None, copy: bool | None = None, *options: Any
    ) -> Any:
        if device.platform != PLATFORM:
            return _import(capsule, device, stream, copy, *options)
        view = array_of(capsule)
        if not copy and view.flags.c_contiguous and view.flags.aligned:
            return _import(capsule_of(view), device, None, None, *options)
        if copy is False:
            raise ValueError("an array whose elements do not lie one after the other is copied: leave out copy=False")
        return jax.device_put(view, device)


def _is_ours(array: jax.Array) -> bool:
    return all(device.platform == PLATFORM for device in array.devices())


def _view(array: jax.Array) -> np.ndarray:
    """The memory of an array, read-only."""
    try:
        return np.asarray(memoryview(array))  # the array does not keep this view, unlike that of numpy.asarray
    except BufferError:  # a type that buffers do not have
        return np.asarray(array)


def _dlpack_device(self: ArrayImpl) -> tuple[Any, int]:
    if len(self._arrays) == 1 and _is_ours(self):
        return DLDeviceType.kDLCPU, 0
    place: tuple[Any, int] = _device_of(self)
    return place
