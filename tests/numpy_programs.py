"""Random small programs of NumPy functions, as text: one follows from one number.

A program grows line by line. Each line calls a function, an operator or an index with operands that are drawn to fit,
and NumPy itself runs it as it is written, so that the next line knows the shapes and types that there are. What NumPy
refuses is drawn anew, but for a few lines that stay as the last one, since its errors are a part of what it does.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import numpy as np

BOOLEANS, INTEGERS = ["?"], ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS, COMPLEX = ["f2", "f4", "f8"], ["c8", "c16"]
REAL, INEXACT = BOOLEANS + INTEGERS + FLOATS, FLOATS + COMPLEX
ALL = REAL + COMPLEX

# Functions: their operands, and after the semicolon options, of which some are given. A word is one of the kinds of
# operands that are methods of Growth, or alternatives, as text. A question mark: it may be missing.
CALLS = """
sum prod: array; axis=axes dtype=dtype keepdims=truth initial=number where=mask out
max min amax amin: array; axis=axes keepdims=truth initial=number where=mask out
any all: array; axis=axes keepdims=truth where=mask out
mean: array; axis=axes dtype=dtype keepdims=truth where=mask out
var std: array; axis=axes dtype=dtype ddof=0|1|0.5 keepdims=truth where=mask out
nansum nanprod: array; axis=axes dtype=dtype keepdims=truth initial=number where=mask out
nanmax nanmin: array; axis=axes keepdims=truth initial=number where=mask out
nanmean: array; axis=axes dtype=dtype keepdims=truth where=mask
nanvar nanstd: array; axis=axes dtype=dtype ddof=0|1 keepdims=truth where=mask
nanargmax nanargmin argmax argmin: array; axis=axis keepdims=truth out
nanmedian median: array; axis=axes keepdims=truth out
nancumsum nancumprod cumsum cumprod: array; axis=axis dtype=dtype out
cumulative_sum cumulative_prod: array; axis=axis dtype=dtype include_initial=truth
quantile nanquantile: real quantile; axis=axes method=method keepdims=truth
percentile nanpercentile: real percent; axis=axes method=method keepdims=truth
average: array; axis=axis weights=like returned=truth keepdims=truth
ptp: array; axis=axes keepdims=truth out
count_nonzero: array; axis=axes keepdims=truth
sort: array; axis=axis kind='stable' stable=truth
argsort: array; axis=axis kind='stable'
sort_complex: array
lexsort: table; axis=0|-1
searchsorted: order fits; side='left'|'right'
digitize: real order; right=truth
histogram: real bins; range=(-2,2) density=truth weights=like
bincount: counts; minlength=4|9
isin: array array; invert=truth assume_unique=False
interp: real order_f same_as_order; left=number right=number
clip: array bound bound; out dtype=dtype
round around: array 0|1|-1|2?; out
fix: real; out
real imag iscomplex isreal isrealobj iscomplexobj: array
angle: array; deg=truth
nan_to_num: array; nan=number posinf=number neginf=number
sinc real_if_close: array
isposinf isneginf: real
isclose: array fits; rtol=0.5|1e-3 atol=0.5|1e-3 equal_nan=truth
allclose array_equal array_equiv: array fits
where: mask fits fits
select: masks choices; default=number
choose: counts choices; mode='wrap'|'clip'
take: array places; axis=axis mode='raise'|'wrap'|'clip'
take_along_axis: table places_along; axis=0
compress: mask1 array; axis=axis
diff: array; n=0|1|2 axis=axis prepend=number append=number
ediff1d: array; to_begin=number to_end=number
gradient: array 2|0.5?; axis=axis edge_order=1|2
trapezoid: array; dx=2|0.5 axis=axis
unwrap: real; axis=axis period=4|6.5
convolve: vector vector; mode='full'|'same'|'valid'
correlate: vector vector; mode='full'|'same'|'valid'
polyval: vector array
polyadd polysub: vector vector
polyder polyint: vector; m=1|2
vander: vector; N=2|3|0 increasing=truth
cross: triples triples_like
kron outer inner: array array
dot matmul: table right_of
vdot: array like
tensordot: array like; axes=0|1|2
trace: table; offset=0|1|-1 dtype=dtype
diagonal: table; offset=0|1|-1
tril triu: table; k=0|1|-1
diag diagflat: array; k=0|1|-1
reshape: array shape; order='C'|'F'
ravel: array; order='C'|'F'
transpose: array permutation?
swapaxes: array axis_ axis_
moveaxis: array axis_ axis_
rollaxis: array axis_ axis_?
expand_dims: array 0|-1|(0,1)|(0,-1)
squeeze: array; axis=axes
flip: array; axis=axes
fliplr flipud rot90: table
roll: array 0|1|-2|7; axis=axis
repeat: array 0|1|2|3; axis=axis
tile: array 2|(2,1)|0|(1,2,2)
resize: array (3,)|(2,3)|0|7
pad: array width; mode=pad_mode
delete: array place|[0]|slice(0,2)|[0,-1]; axis=axis
insert: array 0|-1|[0,1]|[0,0] number; axis=axis
append: array like; axis=axis
concatenate: sequence; axis=axis dtype=dtype
stack: sequence; axis=0|-1
vstack hstack dstack column_stack: sequence
broadcast_to: array wide_shape
atleast_1d atleast_2d atleast_3d: array
split array_split: array 1|2|3|[1]|[1,2]; axis=0|-1
full_like: array number; dtype=dtype
zeros_like ones_like: array; dtype=dtype
astype: array dtype_
copy: array
meshgrid: vector vector; indexing='ij'|'xy' sparse=truth
linspace: number number; num=5|3|1 endpoint=truth dtype=dtype axis=0|-1 retstep=truth
cov corrcoef: small; rowvar=truth
fill_diagonal: table number
copyto: array fits; where=mask casting='unsafe'|'same_kind'
put: array places number; mode='wrap'|'clip'
putmask: array mask number
unravel_index: counts (3,4)
ravel_multi_index: pairs_of_counts (4,5); mode='wrap'|'clip' order='C'|'F'
einsum: subscripts_of
apply_over_axes: np.sum|np.max array 0|[0]
linalg.norm: small; ord=None|1|2|np.inf|-np.inf|0 axis=axis keepdims=truth
linalg.vector_norm: array; axis=axes keepdims=truth ord=1|2|np.inf|0|3
linalg.matrix_norm: small; keepdims=truth ord='fro'|1|np.inf|'nuc'
linalg.det linalg.inv linalg.slogdet linalg.cond: square
linalg.solve: square right_side
linalg.pinv linalg.svdvals linalg.matrix_rank: small
linalg.eigvalsh: symmetric
linalg.matrix_power: square 0|1|2|3|-1
linalg.trace linalg.diagonal: small; offset=0|1
linalg.vecdot: array like; axis=-1|0
linalg.cross: triples triples_like
linalg.outer: vector vector
linalg.multi_dot: chain
fft.fft fft.ifft fft.hfft: array; n=2|5 axis=axis_ norm='ortho'|'forward'|'backward'
fft.rfft fft.ihfft: real; n=2|5 axis=axis_ norm='ortho'|'forward'
fft.irfft: array; n=2|5 axis=axis_ norm='ortho'
fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.irfftn: table; norm='ortho'
fft.rfft2 fft.rfftn: table; norm='ortho'
fft.fftshift fft.ifftshift: array; axes=axis
"""

# Lines that share memory with an array, and others that are no call of the table. What is written in capitals is an
# operand: the same one where the word is the same.
VIEWS = """
ARRAY.T | ARRAY[::-1] | ARRAY[1:] | ARRAY[...] | ARRAY.reshape(-1) | ARRAY.ravel() | TABLE[0] | TABLE[:, 1:]
np.transpose(ARRAY) | COMPLEX.real | COMPLEX.imag | np.diagonal(TABLE) | np.swapaxes(TABLE, 0, 1) | ARRAY.view()
np.broadcast_to(ARRAY, WIDE) | TABLE[::-1, ::2] | np.squeeze(ARRAY) | np.expand_dims(ARRAY, 0) | np.real(ARRAY)
np.split(TABLE, 1)[0] | np.atleast_2d(ARRAY) | np.flip(ARRAY) | TABLE.reshape(-1)[::2] | np.moveaxis(TABLE, 0, -1)
np.einsum('ij->ji', SMALL) | np.rot90(TABLE) | ARRAY[None] | np.lib.stride_tricks.sliding_window_view(VECTOR, 2)
np.asarray(ARRAY) | ARRAY.astype(ARRAY.dtype, copy=False) | ARRAY.swapaxes(0, -1) | TABLE[:, None] | ARRAY.flat[:]
np.unstack(TABLE)[0] | np.hsplit(TABLE, 1)[0] | np.vsplit(TABLE, 1)[0] | np.ravel(ARRAY, 'F')
np.broadcast_arrays(ARRAY)[0] | ARRAY.squeeze() | ARRAY.transpose() | np.permute_dims(ARRAY)
np.matrix_transpose(TABLE) | np.array(ARRAY, ndmin=3) | ARRAY.conj() | np.conjugate(ARRAY) | ARRAY.copy() | +ARRAY
ARRAY.flatten() | np.copy(ARRAY) | np.array(ARRAY) | np.array_split(VECTOR, 2)[0] | np.atleast_3d(ARRAY)
np.ascontiguousarray(ARRAY) | TABLE.mT | np.triu(TABLE) | np.nan_to_num(ARRAY, copy=False)
np.clip(ARRAY, None, None) | np.round(ARRAY) | np.meshgrid(VECTOR, VECTOR, copy=False)[0]
"""
LINES = """
len(TABLE) | ARRAY.shape | ARRAY.dtype | ARRAY.size | ARRAY.ndim | ARRAY.nbytes | sum(TABLE) | [x * 2 for x in VECTOR]
np.array([ARRAY.sum(), NUMBER]) | np.stack(list(TABLE)) | np.r_[VECTOR, NUMBER] | np.c_[VECTOR, VECTOR]
np.r_[VECTOR, 0:3] | np.full(ARRAY.shape, NUMBER) | np.full(2, ARRAY.sum())
np.zeros(ARRAY.shape, ARRAY.dtype) + ARRAY | np.empty_like(ARRAY) * 0 | np.full_like(ARRAY, NUMBER)
np.array([ARRAY, ARRAY]) | np.array(ARRAY, DTYPE) | np.asarray(ARRAY, DTYPE) | ARRAY.astype(DTYPE) | ARRAY.view(DTYPE)
np.arange(len(TABLE)) * NUMBER | np.block([[SMALL, SMALL]]) | np.ix_(VECTOR, VECTOR) | np.add(*TABLE[:2])
np.result_type(ARRAY, NUMBER) | np.can_cast(ARRAY, DTYPE) | np.common_type(ARRAY) | np.ndim(ARRAY) | np.size(ARRAY)
np.logspace(0, NUMBER, 3) | np.geomspace(1, 8, 4) * ARRAY | np.polymul(VECTOR, [1, 2]) | np.shape(ARRAY)
bool(ARRAY.ndim) | ARRAY.sort() | ARRAY.fill(NUMBER) | TABLE.sort(axis=0)
np.put_along_axis(TABLE, np.argmax(TABLE, 0)[None], NUMBER, 0) | np.linalg.qr(SMALL)[1].shape
np.linalg.svd(SMALL)[1] | np.linalg.eigh(SYMMETRIC)[0] | np.linalg.cholesky(SQUARE + SQUARE.T)
np.linalg.lstsq(SQUARE, np.ones(len(SQUARE)))[0] | np.histogram2d(VECTOR, VECTOR, 2) | np.tril_indices_from(SMALL)
np.mgrid[0:2, 0:3] * NUMBER | np.eye(3, dtype=DTYPE) + NUMBER | np.linspace(VECTOR, 2, 3)
np.where(ARRAY > 1, ARRAY, NUMBER) | np.sum([ARRAY, ARRAY]) | np.max([ARRAY, ARRAY], axis=0) | np.concatenate(TABLE)
np.vstack(list(TABLE)) | np.add.reduce([ARRAY, 2]) | VECTOR @ VECTOR | SMALL @ SMALL.T | SMALL.T @ SMALL
ARRAY.dot(NUMBER) | np.multiply(ARRAY, NUMBER) - ARRAY | ARRAY * [NUMBER] | (ARRAY > 0).sum() / ARRAY.size
ARRAY[ARRAY > 0].sum() | np.count_nonzero(ARRAY == NUMBER) | np.mean(ARRAY > NUMBER)
"""
WORDS = {"ARRAY": "array", "TABLE": "table", "VECTOR": "vector", "SMALL": "small", "COMPLEX": "complex_",
         "WIDE": "wide_shape", "NUMBER": "number", "DTYPE": "dtype_", "SQUARE": "square",
         "SYMMETRIC": "symmetric"}  # fmt: skip

UFUNCS = [u for u in (getattr(np, n) for n in sorted(dir(np))) if isinstance(u, np.ufunc) and u.signature is None]
OF_ONE, OF_TWO = ([u for u in UFUNCS if u.nin == n] for n in (1, 2))
COMPARISONS = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]
REDUCTIONS = ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
            "bitwise_xor", "fmax", "fmin", "logaddexp", "hypot", "gcd", "subtract", "divide",
            "logical_xor"]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>"]
METHODS = ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf", "weibull",
           "closest_observation", "interpolated_inverted_cdf", "hazen", "median_unbiased",
           "normal_unbiased"]  # fmt: skip
PADS = ["'constant', constant_values=number", "'edge'", "'reflect'", "'symmetric'", "'wrap'", "'maximum'", "'mean'",
        "'minimum'", "'linear_ramp', end_values=2", "'median'", "'reflect', reflect_type='odd'"]  # fmt: skip


def _table() -> list[tuple[str, list[str], list[str]]]:
    rows = []
    for line in CALLS.strip().splitlines():
        names, _, rest = line.partition(":")
        operands, _, options = rest.partition(";")
        rows += [(name, operands.split(), options.split()) for name in names.split()]
    return rows


TABLE = _table()


@dataclass
class Parameter:
    """An argument of a program: `make` gives its value, another one at each call."""

    name: str
    make: Callable[[np.random.Generator], Any]
    first: Any


@dataclass
class Program:
    """The lines of a function, its parameters and the names that it returns. `nesting` says in what they are given."""

    seed: int
    parameters: list[Parameter]
    lines: list[str]
    results: list[str]
    nesting: str = "plain"
    others: int = field(default=0)  # the seed of the values at another call

    @property
    def text(self) -> str:
        names = [p.name for p in self.parameters]
        head = {"plain": ", ".join(names), "tuple": "t", "list": "t", "dict": "d", "dataclass": "s"}[self.nesting]
        opening: list[str] = []
        if self.nesting in ("tuple", "list"):
            opening = [f"{', '.join(names)}, = t"]
        elif self.nesting == "dict":
            opening = [f"{n} = d[{n!r}]" for n in names]
        elif self.nesting == "dataclass":
            opening = [f"{n} = s.{n}" for n in names]
        results = self.results[0] if len(self.results) == 1 else f"({', '.join(self.results)})"
        return "\n    ".join([f"def f({head}):", *opening, *self.lines, f"return {results}"]) + "\n"

    def values(self, call: int) -> list[Any]:
        """The values of the parameters at a call: those that it was grown with, then others."""
        if not call:
            return [v.copy() if isinstance(v := p.first, np.ndarray) else v for p in self.parameters]
        random = np.random.default_rng([self.others, call])
        return [p.make(random) for p in self.parameters]

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        names = [p.name for p in self.parameters]
        if self.nesting == "tuple":
            return (tuple(values),)
        if self.nesting == "list":
            return (list(values),)
        if self.nesting == "dict":
            return (dict(zip(names, values, strict=True)),)
        if self.nesting == "dataclass":
            return (make_dataclass("State", names)(*values),)
        return tuple(values)

    def function(self) -> Callable[..., Any]:
        space: dict[str, Any] = {"np": np}
        exec(compile(self.text, f"program {self.seed}", "exec"), space)
        return space["f"]


def array_of(random: np.random.Generator, dtype: str, shape: tuple[int, ...], style: str) -> np.ndarray:
    """Elements of a type: "small" whole numbers that tie, "halves", "normal" ones, or "special" ones among them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        low = 0 if kind == "u" else -3
        x = random.integers(low, 5, shape).astype(dtype)
        if style == "special":
            info = np.iinfo(dtype)
            edges = np.array([info.min, info.max, info.max // 2, 0, 1], dtype)
            x = np.where(random.random(shape) < 0.4, edges[random.integers(0, len(edges), shape)], x)
        return np.asarray(x, dtype)
    if kind == "c":
        part = "f4" if dtype == "c8" else "f8"
        re, im = (array_of(random, part, shape, style) for _ in range(2))
        made = np.empty(shape, dtype)
        made.real, made.imag = re, np.where(random.random(shape) < 0.3, 0, im)
        return made
    if style == "small":
        return np.asarray(random.integers(-3, 5, shape), dtype)
    if style == "halves":
        return np.asarray(random.integers(-6, 9, shape) / 2, dtype)
    x = np.asarray(random.standard_normal(shape) * 2, dtype)
    if style == "special":
        edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5], dtype)
        x = np.where(random.random(shape) < 0.5, edges[random.integers(0, len(edges), shape)], x)
    return np.asarray(x, dtype)


class Growth:
    """A program while it grows: `space` has the values of its names. The methods that give text are operands."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, np.random.default_rng(seed)
        self.parameters: list[Parameter] = []
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"np": np}
        self.subject: Any = np.zeros(3)  # the first array among the operands of the call that is drawn
        self.order: Any = np.zeros(3)
        self.style = str(self.random.choice(["small", "small", "halves", "normal", "special"]))
        self.pending: list[str] = []  # lines that the next one needs

    # -- choices
    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def choice(self, values: Sequence[Any]) -> Any:
        return values[int(self.random.integers(len(values)))]

    def shape_(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        rank = min(high, max(low, int(self.random.choice(4, p=[0.12, 0.4, 0.33, 0.15]))))
        return tuple(int(self.random.choice(6, p=[0.04, 0.13, 0.25, 0.33, 0.15, 0.1])) for _ in range(rank))

    # -- parameters and constants
    def make_array(self, dtype: str, shape: tuple[int, ...], make: Callable[..., Any] | None = None) -> str:
        """A new array: a parameter, or one that the function makes."""
        style = self.style

        def own(random: np.random.Generator) -> Any:
            return make(random) if make else array_of(random, dtype, shape, style)

        value = own(self.random)
        if self.chance(0.12) and self.parameters:
            text = f"np.array({value.tolist()!r}, {value.dtype.str[1:]!r}).reshape({value.shape})"
            text = text.replace("nan", "np.nan").replace("inf", "np.inf")  # as Python writes them in a list
            name = f"c{len(self.space)}"
            self.pending.append(f"{name} = {text}")
            self.space[name] = value
            return name
        if value.ndim == 0 and self.chance(0.5):
            value = value[()]
        return self.parameter(own if not isinstance(value, np.generic) else lambda r: own(r)[()], value)

    def parameter(self, make: Callable[..., Any], value: Any) -> str:
        name = "abcdefghklmpqruvwxyz"[len(self.parameters)]
        self.parameters.append(Parameter(name, make, value.copy() if isinstance(value, np.ndarray) else value))
        self.space[name] = value
        return name

    def pick(self, dtypes: Sequence[str], fits: Callable[[Any], bool], shape: Callable[[], tuple[int, ...]]) -> str:
        """A name whose value is of one of these types and fits, or a new one."""
        kinds = {np.dtype(t) for t in dtypes}
        arrays = [
            n for n, v in self.space.items()
            if isinstance(v, (np.ndarray, np.generic)) and v.dtype in kinds and v.size <= 400 and fits(v)
        ]  # fmt: skip
        if arrays and (self.chance(0.65) or len(self.parameters) > 6):
            return str(self.choice(arrays))
        return self.make_array(self.choice(dtypes), shape())

    # -- operands
    def array(self, dtypes: Sequence[str] = ALL) -> str:
        return self.pick(dtypes, lambda v: True, self.shape_)

    def real(self) -> str:
        return self.array(REAL)

    def complex_(self) -> str:
        return self.array(COMPLEX)

    def vector(self) -> str:
        return self.pick(ALL, lambda v: v.ndim == 1, lambda: self.shape_(1, 1))

    def table(self) -> str:
        return self.pick(ALL, lambda v: v.ndim > 1, lambda: self.shape_(2))

    def small(self) -> str:
        return self.pick(ALL, lambda v: v.ndim == 2, lambda: self.shape_(2, 2))

    def square(self) -> str:
        def make(random: np.random.Generator, n: int = self.choice([1, 2, 3, 4]), t: str = self.choice(ALL[1:])) -> Any:
            return (random.integers(0, 4, (n, n)) + 7 * np.eye(n)).astype(t)

        return self.make_array("f8", (), make)

    def symmetric(self) -> str:
        def make(
            random: np.random.Generator, n: int = self.choice([1, 2, 3]), t: str = self.choice(["f4", "f8", "i4"])
        ) -> Any:
            x = random.integers(0, 4, (n, n))
            return (x + x.T).astype(t)

        return self.make_array("f8", (), make)

    def right_side(self) -> str:
        n = self.subject.shape[-1]
        return self.make_array(self.choice(ALL[1:]), self.choice([(n,), (n, 1), (n, 2)]))

    def right_of(self) -> str:
        n = self.subject.shape[-1]
        return self.make_array(self.choice(ALL), self.choice([(n,), (n, 2), (n, 0), (n, 3)]))

    def like(self) -> str:
        shape = np.shape(self.subject)
        return self.pick(ALL, lambda v: v.shape == shape, lambda: shape)

    def triples(self) -> str:
        return self.make_array(self.choice(ALL[1:]), self.choice([(3,), (2, 3), (1, 3)]))

    def triples_like(self) -> str:
        return self.make_array(self.choice(ALL[1:]), self.choice([(3,), (2, 3)]))

    def fits(self, dtypes: Sequence[str] = ALL) -> str:
        """What broadcasts with the subject: an array, a Python number, a list."""
        if self.chance(0.3):
            return self.number()
        shape = np.shape(self.subject)
        shape = tuple(1 if self.chance(0.25) else n for n in shape[int(self.random.integers(0, len(shape) + 1)) :])
        if self.chance(0.15) and np.size(self.subject):
            shape = (self.choice([1, 2]), *np.shape(self.subject))
        return self.pick(dtypes, lambda v: v.shape in (shape, np.shape(self.subject)), lambda: shape)

    def mask(self) -> str:
        if self.chance(0.1):
            return self.choice(["True", "False"])
        name = self.fits(BOOLEANS)
        return name if np.asarray(self.space.get(name)).dtype == bool else self.make_array("?", np.shape(self.subject))

    def mask1(self) -> str:
        return repr([self.chance(0.5) for _ in range(3)])

    def masks(self) -> str:
        self.subject = np.zeros(self.shape_(1))
        shape = np.shape(self.subject)
        return f"[{self.make_array('?', shape)}, {self.make_array('?', shape)}]"

    def choices(self) -> str:
        return f"[{self.fits()}, {self.fits()}]"

    def number(self) -> str:
        """A Python number or one of NumPy's, written out or a parameter."""
        way = self.random.random()
        if way < 0.45:
            return str(
                self.choice(["2", "3", "-1", "0", "1", "0.5", "-1.5", "2.0", "True", "1j", "300", "70000", "2**40"])
            )
        if way < 0.6:
            return (
                f"np.{self.choice(['float32(1.5)', 'int8(3)', 'float64(0.5)', 'uint8(2)', 'int64(-2)', 'float16(2)'])}"
            )
        kind = self.choice([int, int, float, float, complex, bool])
        make: Callable[[np.random.Generator], Any] = {
            int: lambda r: int(r.integers(-3, 5)),
            float: lambda r: float(r.integers(-4, 6)) / 2,
            complex: lambda r: complex(float(r.integers(-2, 3)), float(r.integers(-2, 3))),
            bool: lambda r: bool(r.integers(2)),
        }[kind]
        if len(self.parameters) > 6:
            return "2"
        return self.parameter(make, make(self.random))

    def bound(self) -> str:
        return "None" if self.chance(0.15) else self.fits()

    def axis_(self) -> str:
        rank = max(1, np.ndim(self.subject))
        return str(int(self.random.integers(-rank, rank)))

    def axis(self) -> str:
        return "None" if self.chance(0.12) else self.axis_()

    def axes(self) -> str:
        rank = np.ndim(self.subject)
        if rank and self.chance(0.3):
            count = int(self.random.integers(0, rank + 1))
            chosen = self.random.permutation(rank)[:count]
            return repr(tuple(int(d) - rank * self.chance(0.3) for d in chosen))
        return self.axis()

    def dtype_(self) -> str:
        return str(self.choice([*(f"'{t}'" for t in ALL), "float", "int", "bool", "complex", "np.float32", "np.int16"]))

    dtype = dtype_

    def truth(self) -> str:
        return self.choice(["True", "True", "False"])

    def quantile(self) -> str:
        return self.choice(["0.5", "0.25", "[0.1, 0.5]", "0", "1", "1.0", "np.array([[0.5, 0.75]])", "np.float32(0.3)"])

    def percent(self) -> str:
        return self.choice(["50", "25.0", "[10, 50]", "0", "100", "np.array([[50, 75.5]])"])

    def method(self) -> str:
        return repr(self.choice(METHODS))

    def order(self) -> str:
        return self.order_(REAL)

    def order_f(self) -> str:
        return self.order_(FLOATS, True)

    def order_(self, dtypes: Sequence[str], strict: bool = False) -> str:
        def make(random: np.random.Generator, t: str = self.choice(dtypes), n: int = self.choice([1, 2, 3, 4])) -> Any:
            if strict:
                return np.cumsum(random.integers(1, 3, n)).astype(t)
            return np.sort(random.integers(0, 5, n).astype(t))

        name = self.make_array("f8", (), make)
        self.order_value = self.space[name]
        return name

    def same_as_order(self) -> str:
        return self.make_array(self.choice(ALL), self.order_value.shape)

    def bins(self) -> str:
        return self.choice(["3", "4", "[0, 1, 2]", "np.array([-1.0, 0.5, 3])", "1"])

    def counts(self) -> str:
        """Natural numbers below 4."""

        def make(
            random: np.random.Generator, t: str = self.choice(INTEGERS), n: int = self.choice([1, 2, 3, 5])
        ) -> Any:
            return random.integers(0, 4, n).astype(t)

        return self.make_array("i8", (), make)

    def pairs_of_counts(self) -> str:
        name = self.counts()
        return f"({name}, {name})"

    def places_below(self, n: int, shape: tuple[int, ...]) -> str:
        def make(random: np.random.Generator, t: str = self.choice(["i8", "i8", "i4", "u1", "i2"])) -> Any:
            low = 0 if t == "u1" else -n
            return np.asarray(random.integers(low, max(n, low + 1), shape), t)

        return self.make_array("i8", shape, make)

    def places(self) -> str:
        n = min(np.shape(self.subject), default=1)
        if self.chance(0.3):
            return str(self.choice(["0", "-1", "[0, -1]", "[0]", "[[0, 0], [-1, 0]]", "[]"])) if n else "[]"
        return self.places_below(n, self.choice([(), (2,), (2, 2), (0,), (3,)]))

    def places_along(self) -> str:
        shape = self.subject.shape
        return self.places_below(shape[0], (self.choice([1, 2, 3]), *shape[1:]))

    def place(self) -> str:
        return self.choice(["0", "-1"])

    def shape(self) -> str:
        size = int(np.size(self.subject))
        ways: list[Any] = [-1, (size,), (1, size), (-1, 1)]
        ways += [(n, size // n) for n in range(2, size) if size % n == 0]
        return repr(self.choice(ways))

    def wide_shape(self) -> str:
        shape = np.shape(self.subject)
        return repr(self.choice([shape, (2, *shape), tuple(3 if n == 1 else n for n in shape)]))

    def permutation(self) -> str:
        return repr(tuple(int(n) for n in self.random.permutation(np.ndim(self.subject))))

    def width(self) -> str:
        return self.choice(["1", "2", "(1, 0)", "(0, 2)", "0"])

    def pad_mode(self) -> str:
        return str(self.choice(PADS)).replace("number", self.number())

    def sequence(self) -> str:
        names = [self.array()]
        self.subject = self.space[names[0]]
        for _ in range(self.choice([0, 1, 1, 2])):
            names.append(self.like())
        return self.choice(["[{}]", "[{}]", "({},)"]).format(", ".join(names))

    def chain(self) -> str:
        a, b = self.small(), ""
        self.subject = self.space[a]
        b = self.make_array(self.choice(INEXACT), (self.subject.shape[1], 2))
        return f"[{a}, {b}, {self.make_array(self.choice(INEXACT), (2, 2))}]"

    def subscripts_of(self) -> str:
        ways = ["'ij->ji'", "'ij->i'", "'ij->'", "'ij,ij->i'", "'ij,kj->ik'", "'ij,ij'", "'i...->...'", "'ij,j->i'"]
        way = self.choice(ways)
        a = self.small()
        self.subject = self.space[a]
        if "," not in way:
            return f"{way}, {a}"
        if way == "'ij,j->i'":
            return f"{way}, {a}, {self.make_array(self.choice(ALL), self.subject.shape[1:])}"
        return f"{way}, {a}, {self.like()}"

    # -- lines
    def word(self, word: str) -> str:
        """The text of an operand, from its word in the table."""
        alternatives = word.split("|")
        if len(alternatives) == 1 and hasattr(self, word):
            return str(getattr(self, word)())
        way = self.choice(alternatives)
        return str(getattr(self, way)()) if way in ("place",) else str(way)

    def value_of(self, text: str) -> Any:
        return eval(text, dict(self.space))

    def out(self, text: str) -> str:
        """An array for the result of a call, mostly of its type."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copies = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.space.items()}
            result = eval(text, copies)
        if not isinstance(result, (np.ndarray, np.generic)):
            return ""
        kind = result.dtype.str[1:] if self.chance(0.7) else self.choice(ALL)
        shape = result.shape
        if self.chance(0.4):
            arrays = [n for n, v in self.space.items() if isinstance(v, np.ndarray) and v.shape == shape]
            if arrays:
                return str(self.choice(arrays))
        name = f"o{len(self.space)}"
        self.pending.append(f"{name} = np.zeros({shape}, {kind!r})")
        self.space[name] = np.zeros(shape, kind)
        return name

    def call(self) -> str:
        name, operands, options = self.choice(TABLE)
        texts: list[str] = []
        for n, word in enumerate(operands):
            if word.endswith("?"):
                if self.chance(0.5):
                    break
                word = word[:-1]
            text = self.word(word)
            if name in ("put", "putmask", "copyto", "fill_diagonal") and n == 0:  # which change no scalars
                text = self.pick(ALL, lambda v: isinstance(v, np.ndarray), lambda: self.shape_(2))
            texts.append(text)
            if n == 0 or (n == 1 and not isinstance(self.subject, (np.ndarray, np.generic))):
                self.subject = self.value_of(text)
                if isinstance(self.subject, (list, tuple)):
                    self.subject = self.subject[0] if len(self.subject) else np.zeros(3)
        is_method = "." not in name and hasattr(np.ndarray, name) and operands[0] in ("array", "table", "real")
        begin = f"np.{name}("
        if is_method and isinstance(self.subject, np.ndarray) and self.chance(0.3):
            begin = f"{texts.pop(0)}.{name}("
        takes_out = "out" in options
        for option in options:
            if option == "out" or not self.chance(0.35):
                continue
            keyword, _, word = option.partition("=")
            texts.append(f"{keyword}={self.word(word)}")
        text = f"{begin}{', '.join(texts)})"
        if takes_out and self.chance(0.15) and (target := self.out(text)):
            text = f"{begin}{', '.join([*texts, f'out={target}'])})"
        return text

    def ufunc(self) -> str:
        if self.chance(0.4):
            ufunc = self.choice(OF_ONE)
            a = self.array()
            self.subject, texts = self.space[a], [a]
        else:
            ufunc = self.choice(OF_TWO)
            a = self.array()
            self.subject = self.space[a]
            texts = [a, self.fits()]
            if self.chance(0.3):
                texts.reverse()
        if self.chance(0.12):
            texts.append(f"dtype={self.dtype_()}")
        if self.chance(0.05):
            texts.append("casting='unsafe'")
        text = f"np.{ufunc.__name__}({', '.join(texts)})"
        if self.chance(0.12) and (target := self.out(text)):
            texts.append(f"out={target}")
            # (NumPy 2.5 itself ends where an integer is compared with one that its type does not have.)
            if self.chance(0.4) and not (ufunc in COMPARISONS and any(t not in self.space for t in texts[:2])):
                texts.append(f"where={self.mask()}")
            text = f"np.{ufunc.__name__}({', '.join(texts)})"
        return text

    def ufunc_method(self) -> str:
        name, a = self.choice(REDUCTIONS), self.array()
        self.subject = self.space[a]
        way = self.choice(["reduce", "accumulate", "outer", "reduceat"])
        if way == "outer":
            return f"np.{self.choice(OF_TWO).__name__}.outer({a}, {self.array()})"
        options = []
        if way == "reduceat":
            options.append(self.choice(["[0]", "[0, 1]", "[1, 0]", "[0, 0, 1]"]))
        if self.chance(0.5):
            options.append(f"axis={self.axes() if way == 'reduce' else self.axis_()}")
        if self.chance(0.15):
            options.append(f"dtype={self.dtype_()}")
        if way == "reduce":
            for option in ("keepdims=truth", "initial=number", "where=mask"):
                keyword, _, word = option.partition("=")
                if self.chance(0.2):
                    options.append(f"{keyword}={self.word(word)}")
        return f"np.{name}.{way}({', '.join([a, *options])})"

    def operation(self) -> str:
        if self.chance(0.15):
            return f"{self.choice(['-', '+', '~', 'abs'])}({self.array()})"
        a = self.array()
        self.subject = self.space[a]
        texts = [a, self.fits()]
        if self.chance(0.3):
            texts.reverse()
        operator = self.choice(OPERATORS)
        if self.chance(0.05):
            return f"divmod({texts[0]}, {texts[1]})"
        return f"{texts[0]} {operator} {texts[1]}"

    def index(self, writes: bool = False) -> str:
        """An index of the subject."""
        shape = np.shape(self.subject)
        if writes and self.chance(0.25):
            rank = int(self.random.integers(1, len(shape) + 1)) if shape else 0
            return self.make_array("?", shape[:rank])
        parts: list[str] = []
        group = self.choice([(2,), (2, 2), (1,), (3,), ()])  # the shape of index arrays
        skipped = False
        for n in shape:
            way = self.random.random()
            if way < 0.2 and n:
                parts.append(str(int(self.random.integers(-n, n))))
            elif way < 0.28 and n:
                parts.append(self.parameter(lambda r, n=n: int(r.integers(-n, n)), int(self.random.integers(-n, n))))
            elif way < 0.5:
                start, stop = (self.choice(["", "", "1", "-1", "-2", "2"]) for _ in range(2))
                parts.append(f"{start}:{stop}{self.choice(['', '', ':2', ':-1', ':-2'])}")
            elif way < 0.7 and n:
                parts.append(self.places_below(n, self.choice([group, group, (), (1,)])))
            elif way < 0.76 and n:
                parts.append(repr([int(self.random.integers(-n, n)) for _ in range(self.choice([1, 2]))]))
            elif way < 0.82 and not skipped:
                parts.append("...")
                skipped = True
                break
            elif way < 0.86 and self.chance(0.3):
                parts.append(repr([self.chance(0.5) for _ in range(n)]))
            else:
                parts.append(":")
            if self.chance(0.1):
                parts.insert(int(self.random.integers(0, len(parts))), "None")
        if not parts:
            parts = [self.choice(["...", "None", "()"])]
        return ", ".join(parts)

    def item(self) -> str:
        a = self.array()
        self.subject = self.space[a]
        return f"{a}[{self.index()}]"

    def selection(self) -> str:
        """Something of the elements that a mask chooses."""
        a = self.pick(ALL, lambda v: v.ndim > 0, lambda: self.shape_(1))
        self.subject = self.space[a]
        m = self.make_array("?", self.subject.shape[: self.choice([1, self.subject.ndim])])
        way = self.choice(["sum", "mean", "max", "min", "any", "all", "var", "std", "prod"])
        middle = self.choice(["", "", " * 2", " + 0.5", " ** 2"])
        return f"({a}[{m}]{middle}).{way}({self.choice(['', '', 'axis=0'])})"

    def of_template(self, templates: str) -> str:
        """One of the lines, with operands in the place of its words."""
        template = self.choice([t.strip() for line in templates.strip().splitlines() for t in line.split(" | ")])
        operands: dict[str, str] = {}

        def operand(match: re.Match[str]) -> str:
            word = match[0]
            if word not in operands:
                operands[word] = str(getattr(self, WORDS[word])())
                if operands[word] in self.space:
                    self.subject = self.space[operands[word]]
            return operands[word]

        return re.sub("|".join(WORDS), operand, template)

    def view(self) -> str:
        return self.of_template(VIEWS)

    def other(self) -> str:
        return self.of_template(LINES)

    def write(self) -> str:
        """A line that changes an array."""
        a = self.pick(ALL, lambda v: isinstance(v, np.ndarray), lambda: self.shape_(1))
        self.subject = self.space[a]
        way = self.random.random()
        if way < 0.25:
            return f"{a} {self.choice(OPERATORS[:7] + OPERATORS[13:])}= {self.fits()}"
        index = self.index(writes=True)
        part = self.value_of(f"{a}[{index}]") if index else self.subject
        if not np.size(part):
            raise IndexError("nothing would be written")
        self.subject = part
        if way < 0.4 and isinstance(part, np.ndarray | np.generic):
            ufunc = self.choice(["add", "subtract", "multiply", "maximum", "minimum", "negative", "bitwise_or"])
            index = index if "," not in index and ":" not in index and index != "..." else f"np.s_[{index}]"
            value = "" if ufunc == "negative" else f", {self.fits()}"
            return f"np.{ufunc}.at({a}, {index}{value})"
        if way < 0.7:
            return f"{a}[{index}] {self.choice(OPERATORS[:7] + OPERATORS[13:])}= {self.fits()}"
        return f"{a}[{index}] = {self.fits()}"

    def line(self) -> str:
        """A line, with the name that it gives a value, if it does."""
        way = self.random.random()
        if way < 0.22 or self.lines and self.chance(0.25):  # what shares memory shows it then
            return self.write()
        for bound, text in (
            (0.5, self.call), (0.62, self.ufunc), (0.67, self.ufunc_method), (0.77, self.operation), (0.84, self.item),
            (0.87, self.selection), (0.94, self.view), (1, self.other),
        ):  # fmt: skip
            if way < bound:
                return f"n{len(self.lines)} = {text()}"
        raise AssertionError(way)

    def grow(self) -> Program:
        """A program of one line to four."""
        count = self.choice([1, 1, 2, 2, 3, 4])
        tries = 0
        while len(self.lines) < count + 4 and count and tries < 60:
            tries += 1
            before = (dict(self.space), len(self.parameters), self.random.bit_generator.state, self._contents())
            self.pending = []
            try:
                line = self.line()
            except Exception:  # operands that do not exist
                self._undo(before)
                continue
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    exec(line, self.space)
                    self.space.pop("__builtins__", None)
                    failed = any(np.size(v) > 2000 for v in self.space.values() if isinstance(v, np.ndarray))
                except Exception:  # NumPy's, whatever it is; few such programs are kept, whose errors are compared
                    self.space.pop("__builtins__", None)
                    failed = True
                    if self.chance(0.04):
                        self.lines += [*self.pending, line]
                        break
            if failed:
                self._undo(before)
                continue
            self.lines += [*self.pending, line]
            count -= 1
        results = [n for n in self.space if n[0] in "no" and n != "np" and any(c.isdigit() for c in n)]
        if self.chance(0.2):
            results += [p.name for p in self.parameters if isinstance(p.first, np.ndarray)][:1]
        nesting = self.choice(["plain"] * 8 + ["tuple", "list", "dict", "dataclass"]) if self.parameters else "plain"
        return Program(self.seed, self.parameters, self.lines, results, nesting, self.seed)

    def _contents(self) -> dict[str, Any]:
        return {n: v.copy() for n, v in self.space.items() if isinstance(v, np.ndarray)}

    def _undo(self, before: tuple[Any, ...]) -> None:
        space, count, _, contents = before
        self.space = space
        for name, value in contents.items():
            target = space[name]
            if target.flags.writeable:
                target[...] = value
        del self.parameters[count:]


def program(seed: int) -> Program:
    """The program of a number."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return Growth(seed).grow()


def programs(first: int, count: int) -> Iterator[Program]:
    for seed in range(first, first + count):
        yield program(seed)
