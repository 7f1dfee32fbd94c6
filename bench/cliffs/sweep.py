"""The table of sweeps: functions of arrays in JAX, with the points at which each is measured, along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from ..models import Entry

Function = Callable[..., Any]

#: HLO's names of types -> NumPy's, and the allowed difference of two compilers' results relative to the largest of
#: them.
TYPES: dict[str, tuple[np.dtype, float]] = {
    "pred": (np.dtype(np.bool_), 0.0),
    "s8": (np.dtype(np.int8), 0.0),
    "u8": (np.dtype(np.uint8), 0.0),
    "s16": (np.dtype(np.int16), 0.0),
    "s32": (np.dtype(np.int32), 0.0),
    "u32": (np.dtype(np.uint32), 0.0),
    "s64": (np.dtype(np.int64), 0.0),
    "bf16": (np.dtype(ml_dtypes.bfloat16), 5e-2),
    "f16": (np.dtype(np.float16), 1e-2),
    "f32": (np.dtype(np.float32), 1e-3),
    "f64": (np.dtype(np.float64), 1e-6),
    "c64": (np.dtype(np.complex64), 1e-3),
}
REALS = ("bf16", "f16", "f32", "f64")
NUMBERS = ("s8", "s32", "s64", *REALS, "c64")
ORDERED = ("s8", "u8", "s32", "s64", *REALS)

SIZES = (16, 1000, 4097, 65_536, 1_000_003, 8_000_000)
#: Rows and columns of about a million elements, from one row to one column.
PLANES = ((1, 1_000_000), (7, 142_857), (64, 16_384), (1000, 1000), (16_384, 64), (142_857, 7), (1_000_000, 1))


@dataclass(frozen=True)
class Point:
    """One point of an axis: its arguments, and the values that are constant for the compiler, by the function's
    names."""

    label: str
    arguments: Callable[[], list[Any]]
    type: str = "f32"
    static: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Axis:
    """Points in an order in which neighbours are similar."""

    name: str
    points: tuple[Point, ...]


POINTS: list[Entry] = []  # of all sweeps, those of one in its axis' order; "product by type: f64" is one


def array(shape: Sequence[int], type_: str = "f32", seed: int = 0) -> np.ndarray:
    """Numbers between 0.5 and 1.5 (no function of them is NaN, no sum overflows), integers from 1 to 99."""
    rng, dtype = np.random.default_rng((seed, *shape)), TYPES[type_][0]
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(1, 100, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.random(shape) + 0.5 + 1j * rng.random(shape)).astype(dtype)
    return (rng.random(shape) + 0.5).astype(dtype)


def by_size(sizes: Sequence[int] = SIZES, arrays: int = 1, type_: str = "f32") -> Axis:
    """Vectors of these sizes."""
    return by_shape([(n,) for n in sizes], arrays, type_, "size")


def by_shape(
    shapes: Sequence[Sequence[int]] = PLANES, arrays: int = 1, type_: str = "f32", name: str = "shape"
) -> Axis:
    """Arrays of these shapes, `arrays` of each."""
    points = []
    for shape in shapes:
        points.append(Point("x".join(map(str, shape)), partial(_several, shape, type_, arrays), type_))
    return Axis(name, tuple(points))


def by_type(types: Sequence[str] = NUMBERS, shape: Sequence[int] = (1000, 1000), arrays: int = 1) -> Axis:
    """Arrays of one shape, of these types."""
    return Axis("type", tuple(Point(t, partial(_several, shape, t, arrays), t) for t in types))


def by_shapes_of_all(shapes: Sequence[Sequence[Sequence[int]]], type_: str = "f32", name: str = "shapes") -> Axis:
    """Arguments of different shapes: for each point, the shape of each argument."""
    points = []
    for several in shapes:
        label = " ".join("x".join(map(str, shape)) for shape in several)
        points.append(Point(label, partial(_of_shapes, several, type_), type_))
    return Axis(name, tuple(points))


def by_number(argument: str, numbers: Sequence[int], shape: Sequence[int] = (1000, 1000), name: str = "") -> Axis:
    """An array of one shape, and a number that is constant for the compiler, passed to the function as `argument`."""
    points = (Point(str(n), lambda: [array(shape)], "f32", ((argument, n),)) for n in numbers)
    return Axis(name or argument, tuple(points))


def by_argument(name: str, numbers: Sequence[int], shape: Sequence[int] = (16,)) -> Axis:
    """An array of one shape, and a number that only a call knows: s32[], the function's last argument."""
    return Axis(name, tuple(Point(str(n), partial(_with_number, shape, n)) for n in numbers))


def _of_shapes(shapes: Sequence[Sequence[int]], type_: str) -> list[np.ndarray]:
    return [array(shape, type_, seed) for seed, shape in enumerate(shapes)]


def _with_number(shape: Sequence[int], number: int) -> list[np.ndarray | np.int32]:
    return [array(shape), np.int32(number)]


def _several(shape: Sequence[int], type_: str, arrays: int) -> list[np.ndarray]:
    return [array(shape, type_, seed) for seed in range(arrays)]


def sweep(kind: str, *axes: Axis, result: str = "") -> Callable[[Function], Function]:
    """Adds a function to the table along each of the axes, under its own name with spaces, and returns it. `result` is
    the type of its results, if that differs from its arguments'."""

    def add(function: Function) -> Function:
        name = function.__name__.replace("_", " ")
        for axis in axes:
            if any(entry.name.startswith(f"{name} by {axis.name}: ") for entry in POINTS):
                raise ValueError(f"{name!r} is swept twice by {axis.name!r}: give the second axis another name")
            POINTS.extend(_entry(f"{name} by {axis.name}: {p.label}", kind, function, p, result) for p in axis.points)
        return function

    return add


def _entry(name: str, kind: str, function: Function, point: Point, result: str) -> Entry:
    def of_any_framework(_: Any, *arguments: Any) -> Any:
        return function(*arguments, **dict(point.static))

    wide = point.type in ("f64", "s64")
    bound = max(TYPES[t][1] for t in (point.type, result or point.type))
    return Entry(name, kind, of_any_framework, point.arguments, {}, {}, bound=bound, x64=wide)
