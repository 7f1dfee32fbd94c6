"""The arguments and results of a program as an npz file, and random arguments.

An npz holds one array under each name. Arguments are called `arg0`, `arg1`, ... or by the parameters' names, results
`out0`, `out1`, ...; the arrays of a tuple are numbered individually, in order.

NumPy's files support only its own types (not bf16, the f8 family, s4, ...). An array `x` of another type is stored as
unsigned integers with the same bits, and `x.type` has the name of its type, in HLO's spelling:

    bits = numpy.load("out.npz")["out0"]; bits.view(ml_dtypes.bfloat16)

Arrays of such types as `numpy.savez` itself stores them, with elements of so many bytes and no type, are accepted, too:
as the type of the parameter, if it has as many bytes.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from refxla_spec.errors import InputError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES, ElementType, Shape, leaves

from ..passes import call_inliner
from ..progress import stage
from ..runtime.cores import cores

TYPE = ".type"


def names(module: Module) -> list[tuple[str, str, Shape]]:
    """For each array that the program takes, ("arg0", its parameter's name, its shape).

    The arrays of a parameter that is a tuple are called `name.0`, `name.1`, and so on.
    """
    arrays: list[tuple[str, Shape]] = []
    for p in module.entry.parameters:
        parts = leaves(p.shape)
        arrays += [(f"{p.name}.{n}", s) for n, s in enumerate(parts)] if p.shape.is_tuple else [(p.name, parts[0])]
    return [(f"arg{n}", name, shape) for n, (name, shape) in enumerate(arrays)]


def read_npz(data: bytes, source: str) -> dict[str, np.ndarray]:
    """The arrays of an npz by name, with their types restored. Raises InputError for anything else."""
    if not data.startswith((b"PK", b"\x93NUMPY")):
        kind = "is empty" if not data else "is no npz file" if b"\0" in data[:1000] else "is a text, and no npz file"
        raise InputError(f"{source} {kind}; make one with numpy.savez(file, arg0=..., arg1=...)")
    try:
        if not data.startswith(b"PK"):
            raise InputError(f"{source} is one array (npy); give an npz: numpy.savez(file, arg0=..., arg1=...)")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: _array(file, name) for name in file.files}
    except InputError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError, NotImplementedError, RuntimeError) as problem:
        raise InputError(
            f"{source} is not an npz file that can be read ({problem}); make one with numpy.savez(file, arg0=..., ...)"
        ) from None
    for name in [n for n in arrays if n.endswith(TYPE) and n[: -len(TYPE)] in arrays]:
        noted, bits = str(arrays.pop(name)), arrays[name[: -len(TYPE)]]
        element_type = ELEMENT_TYPES.get(noted)
        if (
            element_type is None
            or not element_type.is_array
            or element_type.array_dtype.itemsize != bits.dtype.itemsize
        ):
            raise InputError(
                f"{source}: {name} says {noted!r}, which is no element type of {bits.dtype.itemsize} bytes"
            )
        arrays[name[: -len(TYPE)]] = np.ascontiguousarray(bits).view(element_type.array_dtype).reshape(bits.shape)
    return arrays


def _array(file: Any, name: str) -> Any:
    """An array of an npz. For f8e5m2, numpy.savez writes '<f1', a float of one byte, which NumPy cannot read: it is
    read as elements of one byte without a type, like those of other types that NumPy does not have."""
    try:
        return file[name]
    except ValueError as problem:
        if "'<f1'" not in str(problem):
            raise
        content = file.zip.read(name if name in file.zip.namelist() else f"{name}.npy")
        header, data = content[:HEADER].replace(b"'<f1'", b"'|V1'"), content[HEADER:]
        return np.load(io.BytesIO(header + data), allow_pickle=False)


HEADER = 64  # bytes, within which an npy file has its element type


def write_npz(values: Sequence[Any], called: Sequence[str] = ()) -> bytes:
    """The npz of a program's results, by their names (left out: out0, out1, ...)."""
    arrays: dict[str, Any] = {}
    for name, value in zip(called or [f"out{n}" for n in range(len(values))], values, strict=True):
        if value is None:
            continue  # a token
        value = np.asarray(value)
        element_type = BY_DTYPE[value.dtype]
        if not element_type.in_numpy:
            arrays[f"{name}{TYPE}"] = np.array(element_type.name)
            value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").reshape(value.shape)
        arrays[name] = value
    bytes_io = io.BytesIO()
    np.savez(bytes_io, **arrays)
    return bytes_io.getvalue()


def from_npz(module: Module, arrays: dict[str, np.ndarray], source: str) -> list[np.ndarray]:
    """The arguments of a program, in order, from an npz. Raises InputError for one that is missing, given twice,
    unknown, or of the wrong type or shape."""
    parameters = names(module)
    listed = ", ".join(f"{a} ({b}) {s.without_layout()}" for a, b, s in parameters[:6]) or "nothing"
    listed += ", ..." if len(parameters) > 6 else ""
    remaining = dict(arrays)
    arguments = []
    for number, name, shape in parameters:
        keys = [n for n in dict.fromkeys((number, name)) if n in remaining]
        if number != name and re.fullmatch(r"arg\d+", name):
            keys = [n for n in keys if n != name]  # a parameter with the name of another one is numbered
        if len(keys) == 2:
            raise InputError(f"{source} has both {number} and {name}, which are the same parameter; leave one out")
        if not keys:
            has = ", ".join(list(arrays)[:6]) + (", ..." if len(arrays) > 6 else "") or "nothing"
            raise InputError(f"{source} has no {number} ({name}); the program takes {listed}, the file has {has}")
        arguments.append(_fitting(remaining.pop(keys[0]), shape, f"{source}: {keys[0]}"))
    if remaining:
        raise InputError(f"{source} has {next(iter(remaining))}, which is no parameter; the program takes {listed}")
    return arguments


def _fitting(array: np.ndarray, shape: Shape, where: str) -> np.ndarray:
    """The array, if it has that type and shape; untyped elements of bytes get the type."""
    if not shape.is_array:
        raise InputError(f"{where}: the parameter is a {shape}, which no file can hold")
    dtype = shape.element_type.array_dtype
    if array.dtype.kind == "V" and array.dtype.fields is None and array.dtype.itemsize == dtype.itemsize:
        array = np.ascontiguousarray(array).view(dtype).reshape(array.shape)
    if array.dtype.newbyteorder("=") != dtype or array.shape != shape.dimensions:
        form = Shape.of(array) if array.dtype in BY_DTYPE else f"{array.dtype}{list(array.shape)}"
        raise InputError(f"{where} is {form}, and the program takes {shape.without_layout()}; convert or reshape it")
    return array.astype(dtype, copy=False)


# Random arguments ----------------------------------------------------------------------------------------------------

_SMOOTH = {
    "add", "subtract", "multiply", "divide", "maximum", "broadcast", "reshape", "transpose", "convert", "copy", "slice",
    "concatenate", "bitcast", "get-tuple-element", "tuple", "clamp", "select", "reduce", "while", "opt-barrier",
}  # fmt: skip
_POSITIVE = {"sqrt", "rsqrt", "log", "power"}


_BLOCK = 1 << 20  # elements of a large array that are generated together


def random_arguments(module: Module, seed: int) -> list[np.ndarray]:
    """Random arguments for each array that the program takes; the same seed gives the same arguments.

    Floats are standard normal, but from [0, 1) if they are added or multiplied into the operand of a root or a
    logarithm. Integers are from 0 to 9, scalar ones from 1 to 9: they may well be indices, labels or counts. Arrays of
    more than four million elements are generated in blocks, each from its own stream, by all processors. Raises
    InputError for a parameter that is not an array, MemoryError before anything is generated if there is no room.
    """
    for _, name, shape in names(module):
        if not shape.is_array:
            raise InputError(f"parameter {name} is a {shape}, of which there are no random values")
    rng = np.random.default_rng(seed)
    copy = module.clone()
    call_inliner.run(copy)
    inlined = copy.entry
    positive = _feeding_roots(inlined)
    parameters = [(s, p in positive) for p in inlined.parameters for s in leaves(p.shape)]
    arrays = [np.empty(s.dimensions, s.element_type.dtype) for s, _ in parameters]
    total, progress = sum(a.nbytes for a in arrays), 0
    for array, (shape, is_positive) in zip(arrays, parameters, strict=True):
        draw = partial(_drawn, shape.element_type, is_positive, 0 if shape.rank else 1)
        if array.size <= 4 * _BLOCK:
            array[...] = draw(rng, shape.dimensions)
            progress += array.nbytes
            continue
        for size in _draw_blocks(draw, rng, array.reshape(-1)):
            progress += size
            stage(f"{progress / 1e9:.1f} of {total / 1e9:.1f} GB")
    return arrays


def _drawn(t: ElementType, positive: bool, least: int, rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    """Random values of a type; integers are at least `least`."""
    if t.kind == "pred":
        return rng.random(dims) < 0.5
    if t.is_integer:
        limit = min(10, 2 ** (t.bits - (t.kind == "signed")))
        return rng.integers(min(least, limit - 1), limit, dims)
    draw = rng.random if positive else rng.standard_normal
    if t.is_complex:
        return draw(dims) + 1j * draw(dims)
    return draw(dims, np.float32 if t.bits <= 32 else np.float64)


def _draw_blocks(
    draw: Callable[[np.random.Generator, tuple[int, ...]], Any], rng: np.random.Generator, flat: np.ndarray
) -> Iterator[int]:
    """Fills an array block by block; yields the bytes of each finished block."""
    starts = range(0, flat.size, _BLOCK)

    def fill(start: int, stream: np.random.Generator) -> int:
        block = flat[start : start + _BLOCK]
        block[...] = draw(stream, block.shape)
        return block.nbytes

    with ThreadPoolExecutor(cores().count) as pool:
        try:
            yield from pool.map(fill, starts, rng.spawn(len(starts)))
        except BaseException:  # interrupted: the rest is not waited for
            pool.shutdown(cancel_futures=True)
            raise


def _feeding_roots(entry: Computation) -> set[Instruction]:
    """The parameters that reach the operand of a root or logarithm through sums, products and data movement."""
    waiting = [i.operands[0] for i in entry.instructions if i.opcode in _POSITIVE]
    instructions: set[Instruction] = set()
    while waiting:
        i = waiting.pop()
        if i in instructions:
            continue
        instructions.add(i)
        if i.opcode in _SMOOTH:
            waiting += i.operands
    return {i for i in instructions if i.opcode == "parameter"}
