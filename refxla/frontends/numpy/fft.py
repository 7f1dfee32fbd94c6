"""np.fft: discrete Fourier transforms along some dimensions, truncated or zero-padded to lengths, and normalized."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from .array import Traced
from .dispatch import implements
from .untyped import np
from .values import lift, normal_axis, wrap


def _length(a: Traced, axis: int, n: int) -> Traced:
    """The array with n elements along a dimension: truncated, or padded with zeros."""
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    own = a.shape[axis]
    if own > n:
        cut = (*(slice(None),) * axis, slice(0, n))
        return a[cut]
    return np.pad(a, [(0, n - own if d == axis else 0) for d in range(a.ndim)]) if own < n else a


def _transform(a: Traced, kind: str, length: tuple[int, ...], axes: tuple[int, ...]) -> Traced:
    """HLO's transform along at most three dimensions, which are moved to the end and back."""
    b = a.build
    complex_type = np.complex64 if a.dtype in (np.float16, np.float32, np.complex64) else np.complex128
    real_type = np.zeros((), complex_type).real.dtype
    ends = tuple(range(-len(axes), 0))
    moved = np.moveaxis(a, axes, ends)
    if kind == "RFFT" and a.dtype.kind == "c":
        raise TypeError("ufunc 'rfft' did not contain a loop with signature matching types complex")
    transform = b.make(
        "fft", lift(b, moved, real_type if kind == "RFFT" else complex_type), fft_type=kind, fft_length=length
    )
    return np.moveaxis(wrap(b, transform), ends, axes)


def _scale(norm: str | None, length: tuple[int, ...], kind: str, dtype: Any) -> float:
    """The factor of the sums; HLO's inverse already divides by their number. NumPy rounds the factor of the first
    dimension to the type of the array, which may be float16."""
    is_inverse, first = kind in ("IFFT", "IRFFT"), 0 if kind == "IRFFT" else len(length) - 1
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    is_whole = (norm == "forward") == is_inverse and norm != "ortho"
    factor = 1.0
    for d, n in enumerate(length):
        if not is_whole:
            part = sqrt(n) if norm == "ortho" else n
            factor *= float(np.float16(1) / np.float16(part)) if d == first and dtype == np.float16 else 1 / part
        factor *= n if is_inverse else 1
    return factor


def _scaled(a: Traced, scale: float) -> Traced:
    return a if scale == 1 else a * np.zeros((), a.dtype).real.dtype.type(scale)


def _one(kind: str) -> Callable[..., Any]:
    def apply(a: Traced, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Traced:
        axis = normal_axis(axis, a.ndim)
        length = (2 * (a.shape[axis] - 1) if kind == "IRFFT" else a.shape[axis]) if n is None else int(n)
        if length < 1:
            raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
        a = _length(a, axis, length // 2 + 1 if kind == "IRFFT" else length)
        transform = _scaled(_transform(a, kind, (length,), (axis,)), _scale(norm, (length,), kind, a.dtype))
        return transform.astype(np.float16) if kind == "IRFFT" and a.dtype == np.float16 else transform

    return apply


fft, ifft, rfft, irfft = (_one(kind) for kind in ("FFT", "IFFT", "RFFT", "IRFFT"))
for _function, _implementation in ((np.fft.fft, fft), (np.fft.ifft, ifft), (np.fft.rfft, rfft), (np.fft.irfft, irfft)):
    implements(_function)(_implementation)

_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@implements(np.fft.hfft)
def hfft(a: Traced, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Traced:
    return irfft(np.conjugate(a), n, axis, _OPPOSITE[norm])


@implements(np.fft.ihfft)
def ihfft(a: Traced, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Traced:
    return np.conjugate(rfft(a, n, axis, _OPPOSITE[norm]))


def _sizes(a: Traced, s: Any, axes: Any, is_halved: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths and dimensions of a transform along several; `is_halved`: of half of the last one's elements."""
    if axes is None:
        axes = range(a.ndim) if s is None else range(-len(s), 0)
    axes = tuple(normal_axis(d, a.ndim) for d in axes)
    lengths = (
        [a.shape[d] for d in axes]
        if s is None
        else [a.shape[d] if n == -1 else int(n) for n, d in zip(s, axes, strict=True)]
    )
    if s is None and is_halved:
        lengths[-1] = 2 * (a.shape[axes[-1]] - 1)
    return tuple(lengths), axes


def _several(kind: str) -> Callable[..., Any]:
    inverse = kind in ("IFFT", "IRFFT")

    def apply(a: Traced, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Traced:
        lengths, axes = _sizes(a, s, axes, kind == "IRFFT")
        own = a.dtype
        if not axes:
            return a
        needed = [n // 2 + 1 if kind == "IRFFT" and k == len(axes) - 1 else n for k, n in enumerate(lengths)]
        if len(set(axes)) == len(axes) <= 3:
            for d, n in zip(axes, needed, strict=True):
                a = _length(a, d, n)
            transform = _transform(a, kind, lengths, axes)
        else:  # one after the other, in NumPy's order: an axis may be there several times, with several lengths
            order = range(len(axes)) if kind == "IRFFT" else range(len(axes) - 1, -1, -1)
            transform = a
            for k in order:
                part = kind if k == len(axes) - 1 else "IFFT" if inverse else "FFT"
                transform = _transform(
                    _length(transform, axes[k], needed[k]), part, lengths[k : k + 1], axes[k : k + 1]
                )
        transform = _scaled(transform, _scale(norm, lengths, kind, own))
        return transform.astype(own) if kind == "IRFFT" and own == np.float16 and len(axes) == 1 else transform

    return apply


for _name, _kind in (("fft", "FFT"), ("ifft", "IFFT"), ("rfft", "RFFT"), ("irfft", "IRFFT")):
    _apply = _several(_kind)
    implements(getattr(np.fft, f"{_name}n"))(_apply)
    implements(getattr(np.fft, f"{_name}2"))(
        lambda a, s=None, axes=(-2, -1), norm=None, out=None, f=_apply: f(a, s, axes, norm)
    )


def _shift(sign: int) -> Callable[..., Any]:
    def apply(x: Traced, axes: Any = None) -> Traced:
        axes = tuple(range(x.ndim)) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
        shifts = [x.shape[d] // 2 if sign > 0 else -(x.shape[d] // 2) for d in axes]
        return np.roll(x, shifts, axes)

    return apply


implements(np.fft.fftshift)(_shift(1))
implements(np.fft.ifftshift)(_shift(-1))
