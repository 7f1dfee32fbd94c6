"""What NumPy dispatches, and the functions that compute it.

NumPy asks its operands first: `Symbol` is the common base of those of a traced program. The tables are filled by the
modules that implement functions and ufuncs, when the package is imported, so that arrays need not know them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import BY_DTYPE

from .advice import unsupported
from .tracing import Tracing

xp: Any = np  # NumPy for traced arrays, whose functions return traced arrays: NumPy's types do not express that

# Functions of NumPy, and their implementations; they include np.matmul, which is a ufunc.
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}  # of arrays
UFUNCS: dict[str, Callable[..., Any]] = {}  # "apply": implements all other ufuncs
ALIASING: set[Any] = set()  # functions, and names of methods, that change an array or return one that shares its memory
ARRAYS: dict[str, Callable[..., Any]] = {}  # "of": makes a Traced of a NumPy array; "fill": assigns


def implements(*functions: Any, aliasing: bool = False) -> Callable[..., Any]:
    """Enters a function into the tables, as the implementation of these functions of NumPy and methods (by name)."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            table: dict[Any, Callable[..., Any]] = METHODS if isinstance(function, str) else FUNCTIONS
            table[function] = implementation
        if aliasing:
            ALIASING.update(functions)
        return implementation

    return enter


class WriteRefused(UnsupportedError):
    """An array would be changed that a compiled function cannot change, whatever its values."""


class Symbol:
    """Represents a value that is unknown when the function is traced."""

    build: Tracing

    @property
    def known_value(self) -> Any:
        """Its value, if that is known when the function is traced."""
        return None

    def ask(self) -> bool:
        """Records that the value is needed. Returns whether it will be available when the function is traced again."""
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        with Asking(inputs):
            if method == "at":
                return FUNCTIONS[np.ufunc.at](ufunc, *inputs)
            if out is not None and method in ("reduce", "accumulate", "reduceat") and options.get("dtype") is None:
                options["dtype"] = reduced_type(ufunc, inputs[0], out[0])
            if all_known(inputs, options):
                result = adopted(getattr(ufunc, method)(*values_of(inputs), **values_of(options)), self.build)
            else:
                result = UFUNCS["apply"](self.build, ufunc, method, inputs, options, out)
        if out is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        casting, where = "unsafe", True  # for reductions; an explicit `where` is another mask
        if method in ("__call__", "outer"):
            casting, where = options.get("casting", "same_kind"), options.get("where", True)
        outputs = tuple(
            r if o is None else into(o, r, ufunc, casting, where, fits=method == "__call__")
            for o, r in zip(out, results, strict=True)
        )
        return outputs if isinstance(result, tuple) else outputs[0]

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        out, args, kwargs = without_out(args, kwargs, FUNCTIONS.get(function, function), function)
        out = out[0] if isinstance(out, tuple) else out
        args, kwargs = with_type_of(out, function, args, kwargs)
        with Asking(args, kwargs):
            if function not in ALIASING and all_known(args, kwargs):
                result = adopted(function(*values_of(args), **values_of(kwargs)), self.build)
            elif (implementation := FUNCTIONS.get(function)) is not None:
                result = implementation(*args, **kwargs)
            else:
                raise unsupported(function)
            casting = kwargs.get("casting") or casting_of(function.__name__)
            return result if out is None else written(out, result, function, casting, *args[:1])


def without_out(
    args: tuple[Any, ...], kwargs: dict[str, Any], *functions: Callable[..., Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The argument `out` of a call, by its name or position, and the others; `functions` give the position."""
    place = next((p for f in functions if (p := _place_of("out", f)) is not None), len(args))
    if len(args) > place:
        return args[place], (*args[:place], None, *args[place + 1 :]), kwargs
    return kwargs.get("out"), args, {k: v for k, v in kwargs.items() if k != "out"}


@cache
def _place_of(name: str, function: Callable[..., Any]) -> int | None:
    """The position of a parameter, such as `out`, among a function's arguments; None if there is none, or it is
    unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # possible for functions in C
        return None
    places = (n for n, p in enumerate(parameters) if p.name == name and p.kind is p.POSITIONAL_OR_KEYWORD)
    return next(places, None)


class Asking:
    """A call of NumPy's. If it has no compiled form, NumPy itself computes it in the next trace, with the values of
    those operands that are available."""

    def __init__(self, *operands: Any) -> None:
        self.operands = operands

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, _: Any) -> None:
        if isinstance(problem, UnsupportedError) and not isinstance(problem, WriteRefused):
            for operand in symbols(self.operands):
                operand.ask()


def symbols(value: Any) -> Iterator[Symbol]:
    """The symbols in a value, including those in containers and slices."""
    if isinstance(value, Symbol):
        yield value
    elif isinstance(value, dict):
        yield from symbols(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for element in value:
            yield from symbols(element)
    elif isinstance(value, slice):
        yield from symbols((value.start, value.stop, value.step))


def all_known(*operands: Any) -> bool:
    """Whether the values of all symbols are known when the function is traced."""
    return all(s.known_value is not None for s in symbols(operands))


def values_of(value: Any) -> Any:
    """The operands of a call, with NumPy arrays in place of the symbols, whose values are all known."""
    if isinstance(value, Symbol):
        known = value.known_value
        assert known is not None, value  # NumPy would interpret None as an index, an axis, a default
        return known
    if isinstance(value, dict):
        return {k: values_of(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        values = [values_of(v) for v in value]
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    if isinstance(value, slice):
        return slice(values_of(value.start), values_of(value.stop), values_of(value.step))
    return value


def adopted(value: Any, build: Tracing) -> Any:
    """NumPy's result, with arrays of the trace in place of its own: a function may assign to them."""
    if type(value) is np.ndarray:
        return ARRAYS["of"](value, build) if value.dtype in BY_DTYPE else value
    if isinstance(value, (tuple, list)) and not isinstance(value, str):
        values = [adopted(v, build) for v in value]
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    return value


# Reductions compute in a type that depends on their result's type as well as the elements', and convert that to the
# type of the output; so do functions that copy elements.
_REDUCTIONS: dict[str, np.ufunc] = {
    name: ufunc
    for ufunc, names in {
        np.add: ("sum", "cumsum", "cumulative_sum", "nansum", "nancumsum", "trace", "mean"),
        np.multiply: ("prod", "cumprod", "cumulative_prod", "nanprod", "nancumprod"),
    }.items()
    for name in names
}
_CONVERTING = {
    *_REDUCTIONS, "max", "min", "amax", "amin", "any", "all", "var", "median", "nanmax", "nanmin", "nanmedian", "take",
    "choose", "argmax", "argmin", "nanargmax", "nanargmin", "isposinf", "isneginf",
}  # fmt: skip

_POSITIONS = ("argmax", "argmin", "nanargmax", "nanargmin")


def casting_of(name: str) -> str:
    """How a function that is not a ufunc converts its result to the type of `out`."""
    return "unsafe" if name in _CONVERTING else "no" if name == "dot" else "same_kind"


def reduced_type(ufunc: np.ufunc, x: Any, out: Any) -> np.dtype:
    """The type in which a reduction computes if its result goes into an array."""
    own = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return ufunc.resolve_dtypes((out.dtype, own, None), reduction=True, casting="unsafe")[1]


def with_type_of(
    out: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function, with the type of its sums taken from the output array."""
    ufunc = _REDUCTIONS.get(function.__name__)
    if out is None or ufunc is None or not args or function.__name__ == "mean" and args[0].dtype.kind in "biu":
        return args, kwargs
    place = _place_of("dtype", FUNCTIONS.get(function, function))
    if place is not None and len(args) > place:
        given = args[place]
        args = (*args[:place], reduced_type(ufunc, args[0], out) if given is None else given, *args[place + 1 :])
    elif kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": reduced_type(ufunc, args[0], out)}
    return args, kwargs


def casting_error(function: Callable[..., Any], own: np.dtype, to: np.dtype, casting: Any = "same_kind") -> Exception:
    """NumPy's error for a result that cannot be cast to the type of the output array."""
    if not isinstance(function, np.ufunc):
        return TypeError(f"Cannot cast array data from {own!r} to {to!r} according to the rule {casting!r}")
    error = np._core._exceptions._UFuncOutputCastingError  # type: ignore[attr-defined]  # it has no public name
    return error(function, casting, own, to, 0)


def require_cast(function: Callable[..., Any], own: np.dtype, to: np.dtype, casting: Any = "same_kind") -> None:
    """Raises that error if NumPy would."""
    if not np.can_cast(own, to, casting):
        raise casting_error(function, own, to, casting)


def written(out: Any, result: Any, function: Callable[..., Any], casting: Any, *operands: Any) -> Any:
    """What a function or method of NumPy returns when its result goes into an array: the array, but another scalar if
    it is computed by a method of a NumPy scalar."""
    name = function.__name__
    by_method = hasattr(np.generic, name) or name in ("amax", "amin", "around")
    result = into(out, result, function, casting)
    return result[()] if by_method and any(getattr(o, "is_scalar", False) for o in operands) else result


def into(
    target: Any, result: Any, function: Callable[..., Any], casting: Any = "same_kind", where: Any = True,
    fits: bool = False,
) -> Any:  # fmt: skip
    """The result of a function in place: the target, which has a new value from now on, where `where` is true. The
    target may be larger than the result if that `fits` by broadcasting."""
    is_traced = isinstance(target, Symbol)
    if not is_traced:
        raise WriteRefused(
            f"{function.__name__} would change an array of NumPy's, which the function did not make itself, in place: "
            "write y = x + z in the place of x += z, or begin with x = np.array(x)"
        )
    if getattr(target, "is_scalar", True):  # s += 1 with a NumPy scalar gives another scalar
        return result
    require_cast(function, result.dtype, target.dtype, casting)
    if function.__name__ in _POSITIONS:  # NumPy converts the target, too, and back
        require_cast(function, target.dtype, np.dtype(np.intp), "safe")
    shape = target.shape
    if result.shape != shape and not (fits and np.broadcast_shapes(result.shape, shape) == shape):
        shapes = (str(s).replace(" ", "") for s in (shape, result.shape))
        raise ValueError("non-broadcastable output operand with shape {} doesn't match the broadcast shape {}".format(
            *shapes))  # fmt: skip
    if where is not True:
        chosen: Any = result if isinstance(result, Symbol) else ARRAYS["of"](np.asarray(result), target.build)
        result = xp.where(where, chosen.astype(target.dtype), target)
    ARRAYS["fill"](target, result)
    return target
