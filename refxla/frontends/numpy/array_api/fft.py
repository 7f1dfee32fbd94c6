"""Discrete Fourier transforms, the standard's extension `fft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...._core.array import Array, put
from ..untyped import np
from .eager import DeviceLike, chosen, run

if TYPE_CHECKING:
    from ....typing import DTypeLike

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


class OfVectors(Protocol):
    """A transform along one axis."""

    def __call__(self, x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array: ...


class OfSeveral(Protocol):
    """A transform along several axes."""

    def __call__(
        self, x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Array: ...


def _of_vectors(name: str) -> OfVectors:
    numpys = getattr(np.fft, name)

    def function(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        return run(numpys, x, n=n, axis=axis, norm=norm)

    return _named(function, name)


def _of_several(name: str) -> OfSeveral:
    numpys = getattr(np.fft, name)

    def function(
        x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Array:
        return run(numpys, x, s=s, axes=axes, norm=norm)

    return _named(function, name)


F = TypeVar("F", bound=Callable[..., Any])


def _named(function: F, name: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.fft.{name} of an Array."
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_of_vectors, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_of_several, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """The frequencies of the elements of a transform of `n` samples that are `d` apart."""
    return put(_frequencies(np.fft.fftfreq(n, d), dtype), chosen(device))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """The frequencies of the elements of a transform of `n` real samples that are `d` apart."""
    return put(_frequencies(np.fft.rfftfreq(n, d), dtype), chosen(device))


def _frequencies(values: Any, dtype: Any) -> Any:
    if dtype is not None and not np.isdtype(np.dtype(dtype), "real floating"):
        raise ValueError(f"frequencies are real floating-point numbers, not {dtype}")
    return values if dtype is None else values.astype(dtype)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Moves frequency zero to the middle of axes."""
    return run(np.fft.fftshift, x, axes=axes)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Moves frequency zero to the start of axes: the inverse of `fftshift`."""
    return run(np.fft.ifftshift, x, axes=axes)
