"""Discrete Fourier transforms, the standard's extension `fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._core.array import Array, put
from ..untyped import np
from .eager import chosen, run

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _of_vectors(name: str) -> Callable[..., Any]:
    numpys = getattr(np.fft, name)

    def function(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        return run(numpys, x, n=n, axis=axis, norm=norm)

    return _named(function, name)


def _of_several(name: str) -> Callable[..., Any]:
    numpys = getattr(np.fft, name)

    def function(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
        return run(numpys, x, s=s, axes=axes, norm=norm)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.fft.{name} of an Array."
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_of_vectors, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_of_several, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of a transform of `n` samples that are `d` apart."""
    return put(_frequencies(np.fft.fftfreq(n, d), dtype), chosen(device))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of a transform of `n` real samples that are `d` apart."""
    return put(_frequencies(np.fft.rfftfreq(n, d), dtype), chosen(device))


def _frequencies(values: Any, dtype: Any) -> Any:
    if dtype is not None and not np.isdtype(np.dtype(dtype), "real floating"):
        raise ValueError(f"frequencies are real floating-point numbers, not {dtype}")
    return values if dtype is None else values.astype(dtype)


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The frequency zero in the middle of axes."""
    return run(np.fft.fftshift, x, axes=axes)


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The frequency zero at the start of axes: undoes `fftshift`."""
    return run(np.fft.ifftshift, x, axes=axes)
