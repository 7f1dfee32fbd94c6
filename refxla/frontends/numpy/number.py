"""Number: a Python number whose value is unknown at trace time.

Operations on such numbers alone, as in `2 * rate / n`, are computed by Python at each call, with its own types and
rounding. Where one meets an array, it becomes a parameter of the type to which NumPy converts a Python number there. So
results have the same types and bits as without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError

from ...ir.calling_convention import NUMBER_FUNCTIONS, Constant, DerivedNumber
from .dispatch import Symbol
from .tracing import Leaves, Tracing

KINDS = (bool, int, float, complex)
# Functions of NumPy for which a Python number is weak; all others make an array of one in place of an array.
_OF_NUMBERS = (np.result_type, np.can_cast, np.min_scalar_type, np.isclose, np.allclose, np.linspace, np.logspace)


class Number(Symbol):
    """Represents a Python number of the type `kind`; `evaluate` computes it from the leaves of a call."""

    def __init__(
        self, build: Tracing, evaluate: Callable[[Leaves], Any], origins: frozenset[int], name: str, expression: Any
    ) -> None:
        """`expression` is the same as `evaluate`, as data (ir/calling_convention.py)."""
        self.build, self.evaluate, self.origins, self.name = build, evaluate, origins, name
        self.expression = expression
        self.kind = type(evaluate(build.leaves))

    @property  # type: ignore[misc]  # only read
    def __class__(self) -> type:  # so that isinstance(n, int) is as for the number
        return self.kind

    def __repr__(self) -> str:
        return f"Number({self.name}: {self.kind.__name__})"

    @property
    def real(self) -> Number:
        return applied("real", self)

    @property
    def imag(self) -> Number:
        return applied("imag", self)

    def conjugate(self) -> Number:
        return applied("conjugate", self)

    def ask(self) -> bool:
        return self.build.ask(self.origins)

    def value(self) -> Any:
        """Its value, which makes it part of the program: this raises UnsupportedError, and the function is traced again
        with the value in place."""
        self.ask()
        raise UnsupportedError(
            f"the value of {self.name} is needed when the function is compiled (in an if, a loop, a size), and it is "
            "not known then: name it in static_argnames, or compute with arrays alone"
        )

    def _value(self, *_: Any, **__: Any) -> Any:
        return self.value()

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __hash__ = __str__ = __format__ = _value
    __round__ = __trunc__ = __floor__ = __ceil__ = __divmod__ = __rdivmod__ = _value

    def __array__(self, *_: Any, **__: Any) -> Any:
        self.value()

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if function in (np.real, np.imag):  # attributes of the number, which is weak again
            return self.real if function is np.real else self.imag
        if args and args[0] is self and function not in _OF_NUMBERS:
            args = (np.positive(self), *args[1:])
        return super().__array_function__(function, types, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"a Python {self.kind.__name__} has no attribute {name!r}")
        return self._value

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return self._power(self, other) if modulo is None else self.value()

    def __rpow__(self, other: Any) -> Any:
        return self._power(other, self)

    def _power(self, base: Any, exponent: Any) -> Any:
        if not all(isinstance(n, Number) or type(n) in KINDS for n in (base, exponent)):
            return NotImplemented
        # The type of a power depends on its values, except in these cases.
        if type(exponent) is int and (base.kind in (float, complex) or exponent >= 0):
            return applied("pow", base, exponent)
        return self.value()


def applied(name: str, *operands: Any) -> Number:
    """The result of a function of NUMBER_FUNCTIONS at each call, for operands with at least one Number."""
    numbers = [n for n in operands if isinstance(n, Number)]
    build, function = numbers[0].build, NUMBER_FUNCTIONS[name]
    origins = frozenset().union(*(n.origins for n in numbers))
    data = DerivedNumber(name, tuple(n.expression if isinstance(n, Number) else Constant(n) for n in operands))
    # One function for each expression: parameters computed from it are then shared, and so are their masks.
    key = (name, *(n.evaluate if isinstance(n, Number) else _exact(n) for n in operands))
    evaluate = build.number_functions.get(key)
    if evaluate is None:
        evaluates = [n.evaluate if isinstance(n, Number) else partial(_itself, n) for n in operands]
        evaluate = build.number_functions[key] = lambda leaves: function(*(e(leaves) for e in evaluates))
    return Number(build, evaluate, origins, numbers[0].name, data)


def _exact(value: Any) -> tuple[type, Any]:
    """A key that distinguishes numbers that are equal: 0 from 0.0, and 0.0 from -0.0."""
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


def _itself(value: Any, _: Leaves) -> Any:
    return value


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: applied(name, self)


def _binary(name: str, reflected: bool = False) -> Callable[..., Any]:
    def apply(self: Number, other: Any) -> Any:
        if not (isinstance(other, Number) or type(other) in KINDS):
            return NotImplemented
        return applied(name, other, self) if reflected else applied(name, self, other)

    return apply


for _name in ("neg", "pos", "abs", "invert"):
    setattr(Number, f"__{_name}__", _unary(_name))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    setattr(Number, f"__{_name}__", _binary(_name))
    setattr(Number, f"__r{_name}__", _binary(_name, reflected=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Number, f"__{_name}__", _binary(_name))
