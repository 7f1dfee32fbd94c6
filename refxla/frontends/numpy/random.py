"""Random numbers from an explicit key, inside and outside compiled NumPy functions.

A key is u32[2]. The same key gives the same numbers, so each is used once: `split` creates new ones from it.

    key = refxla.random.key(7)
    first, second = refxla.random.split(key)
    noise = refxla.random.normal(first, (3, 4))

Element n of a draw is computed only from the key and n, by the cipher Threefry-2x32 with 20 rounds (Salmon and others,
Parallel random numbers: as easy as 1, 2, 3, 2011). Keys, `split`, `fold_in`, `bits` and `uniform` give the same results
as JAX's functions of these names. The bits are the same in a compiled function and outside; floating-point results
computed from them may differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy
from refxla_spec.errors import InputError
from refxla_spec.types import U64

from .array import Traced
from .tracing import running
from .untyped import np
from .values import array_of

if TYPE_CHECKING:
    from ...typing import ArrayLike, DTypeLike

Shape = int | Sequence[int]
Number = float | numpy.ndarray  # or an array of numbers

__all__ = [
    "bernoulli", "bits", "choice", "exponential", "fold_in", "gumbel", "integers", "key", "laplace", "normal",
    "permutation", "split", "uniform",
]  # fmt: skip


def _array(x: Any, dtype: Any = None) -> Any:
    b = running()
    return np.asarray(x, dtype) if b is None else array_of(b, x, dtype)


def _sizes(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)


def _numbers(count: int) -> Any:
    """0, 1, ... count - 1 (u64)."""
    b = running()
    return np.arange(count, dtype=np.uint64) if b is None else Traced(b.iota(U64, (count,), 0), b)


def _words(x: Any) -> tuple[Any, Any]:
    """The high and the low half of integers (u64)."""
    return (x >> np.uint64(32)).astype(np.uint32), (x & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _key_words(key: Any) -> tuple[Any, Any]:
    key = _array(key)
    if key.shape != (2,) or key.dtype != np.uint32:
        raise InputError(
            f"a key of refxla.random is u32[2], and this is {key.dtype}{list(key.shape)}: refxla.random.key(seed) "
            "makes one, split(key) several, of which each is used alone"
        )
    return key[0], key[1]


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(key: tuple[Any, Any], x: tuple[Any, Any]) -> tuple[Any, Any]:
    """The cipher Threefry-2x32: 20 rounds of addition, rotation and exclusive or; the key is added after every
    fourth."""
    k = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        a, b = x[0] + k[0], x[1] + k[1]
        for n in range(5):
            for r in _ROTATIONS[n % 2]:
                a = a + b
                b = a ^ ((b << np.uint32(r)) | (b >> np.uint32(32 - r)))
            a, b = a + k[(n + 1) % 3], b + k[(n + 2) % 3] + np.uint32(n + 1)
    return a, b


def key(seed: ArrayLike) -> numpy.ndarray:
    """u32[2]: the key from a seed, an integer."""
    number = _array(np.uint64(seed % 2**64) if isinstance(seed, int) else seed)
    if number.dtype.kind not in "iu" or number.shape:
        raise InputError(f"refxla.random.key takes an integer, and is given {number.dtype}{list(number.shape)}")
    return np.stack(
        _words(number.astype(np.int64).astype(np.uint64) if number.dtype.kind == "i" else number.astype(np.uint64))
    )


def split(key: ArrayLike, num: int = 2) -> numpy.ndarray:
    """u32[num, 2]: new keys, derived from one that must not be used any more."""
    return np.stack(_threefry(_key_words(key), _words(_numbers(int(num)))), axis=1)


def fold_in(key: ArrayLike, data: ArrayLike) -> numpy.ndarray:
    """u32[2]: the key derived from a key and a number, such as that of an iteration."""
    number = _array(data).astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return np.stack(_threefry(_key_words(key), _words(number)))


def bits(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.uint32) -> numpy.ndarray:
    """Random bits: integers of u8, u16, u32 or u64, each equally likely."""
    sizes, kind = _sizes(shape), numpy.dtype(dtype)
    if kind.kind != "u":
        raise InputError(f"refxla.random.bits makes unsigned integers, not {kind}")
    high, low = _threefry(_key_words(key), _words(_numbers(prod(sizes))))
    if kind.itemsize == 8:
        numbers = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    else:
        numbers = (high ^ low).astype(kind)
    return numbers.reshape(sizes)


def _unit(key: Any, shape: Shape, dtype: Any) -> Any:
    """Numbers in [0, 1), all multiples of the smallest difference between those from 1/2 on."""
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        raise InputError(f"random numbers of the type {dtype} are asked for, and they are of a floating-point type")
    digits = np.finfo(dtype).nmant
    kind = np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32 if dtype.itemsize == 4 else np.uint16)
    shift = kind.type(8 * kind.itemsize - digits)
    return (bits(key, shape, kind) >> shift).astype(dtype) * dtype.type(2.0**-digits)


def uniform(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.float64, low: Number = 0.0, high: Number = 1.0
) -> numpy.ndarray:
    """Numbers in [`low`, `high`), uniformly distributed."""
    numbers = _unit(key, shape, dtype)
    if type(low) is type(high) is float and (low, high) == (0.0, 1.0):
        return numbers
    return (numbers * (high - low) + low).astype(np.dtype(dtype))


def normal(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.float64, loc: Number = 0.0, scale: Number = 1.0
) -> numpy.ndarray:
    """Normally distributed numbers (Box and Muller, 1958: from two uniform ones, sqrt(-2 log u) cos(2 pi v))."""
    first, second = split(key)
    kind = numpy.dtype(dtype)
    wide = kind if kind.itemsize >= 4 else numpy.dtype(np.float32)
    u, v = 1 - _unit(first, shape, wide), _unit(second, shape, wide)
    numbers = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    return (numbers * scale + loc).astype(kind)


def integers(
    key: ArrayLike, low: Number, high: Number | None = None, shape: Shape = (), dtype: DTypeLike = np.int64
) -> numpy.ndarray:
    """Integers from `low` to below `high`; with one bound, from 0 to below it. Their probabilities differ by less than
    (high - low) / 2^64."""
    if high is None:
        low, high = 0, low
    span = (_array(high, np.int64) - _array(low, np.int64)).astype(np.uint64)
    numbers = (bits(key, shape, np.uint64) % span).astype(np.int64) + low
    return numbers.astype(np.dtype(dtype))


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> numpy.ndarray:
    """Booleans that are true with the probability p; of p's shape, if none is given."""
    return _unit(key, np.shape(p) if shape is None else shape, np.float64) < p


def exponential(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.float64, scale: Number = 1.0) -> numpy.ndarray:
    """Exponentially distributed numbers with the mean `scale`."""
    return (-np.log(1 - _unit(key, shape, dtype)) * scale).astype(np.dtype(dtype))


def gumbel(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.float64, loc: Number = 0.0, scale: Number = 1.0
) -> numpy.ndarray:
    """Numbers with Gumbel's distribution, that of maxima."""
    kind = numpy.dtype(dtype)
    u = np.maximum(_unit(key, shape, kind), np.finfo(kind).tiny)
    return (loc - scale * np.log(-np.log(u))).astype(kind)


def laplace(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = np.float64, loc: Number = 0.0, scale: Number = 1.0
) -> numpy.ndarray:
    """Numbers with Laplace's distribution, a two-sided exponential one."""
    first, second = split(key)
    size = exponential(first, shape, dtype)
    return (loc + scale * np.where(bernoulli(second, 0.5, shape), size, -size)).astype(np.dtype(dtype))


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0) -> numpy.ndarray:
    """The elements of an array along a dimension in random order; for an integer n, those of 0, 1, ... n - 1."""
    elements = _array(np.arange(x) if isinstance(x, int) else x)
    order = np.argsort(bits(key, (elements.shape[axis],), np.uint64), kind="stable")
    return np.take(elements, order, axis=axis)


def choice(
    key: ArrayLike, a: ArrayLike, shape: Shape = (), replace: bool = True, p: ArrayLike | None = None, axis: int = 0
) -> numpy.ndarray:
    """Elements of an array (of 0, 1, ... a - 1 for an integer), with the probabilities `p` (None: all equal).

    Without `replace`, none is drawn twice. Raises InputError if there are too few for that.
    """
    elements = _array(np.arange(a) if isinstance(a, int) else a)
    n, sizes = elements.shape[axis], _sizes(shape)
    count = prod(sizes)
    if not n or (count > n and not replace):
        raise InputError(f"{count} elements are to be taken from {n}, none twice: take fewer, or replace=True")
    if not replace:
        rank = -gumbel(key, (n,)) if p is None else -(np.log(_array(p)) + gumbel(key, (n,)))
        places = np.argsort(rank)[:count]
    elif p is None:
        places = integers(key, 0, n, (count,))
    else:
        total = np.cumsum(_array(p).astype(np.float64))
        places = np.minimum(
            np.searchsorted(total, _unit(key, (count,), np.float64) * total[n - 1], side="right"), n - 1
        )
    taken = np.take(elements, places, axis=axis)
    return taken.reshape(*elements.shape[:axis], *sizes, *elements.shape[axis + 1 :])
