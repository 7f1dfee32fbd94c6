"""Symbolic indices: integers that the generated code computes, simplified by their known ranges.

An Index is a sum c0 + c1 * a1 + c2 * a2 + ... of atoms with integer factors. An atom is a variable with a range, or the
quotient or remainder of an index by a positive constant. Equal indices compare equal, so that an element that two users
need is computed once. codegen/index_printer.py writes indices as C.

    i, j = variable("i", 0, 3), variable("j", 0, 4)
    linearize((i, j), (4, 5))               5 * i + j
    delinearize(i * 5 + j, (2, 10))         the indices of the same element in another shape
    (i * 5 + j) // 5                        i, since j < 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import gcd, prod
from typing import cast

_INT_LIMIT = 2**31  # if every partial sum is below it, signed 32-bit integers suffice
SYMBOL = "$"  # the prefix of symbols, which are not variables of the generated code


class Atom:
    """A variable (`operation` ""), or `index` "/" or "%" the positive constant `divisor`; low <= value <= high."""

    __slots__ = ("operation", "name", "index", "divisor", "low", "high", "_hash")

    def __init__(self, operation: str, name: str, index: Index | None, divisor: int, low: int, high: int) -> None:
        self.operation, self.name, self.divisor = operation, name, divisor
        self.index = cast("Index", index)  # None for a variable; nothing reads it then
        self.low, self.high = low, high
        self._hash = hash((operation, name, index, divisor))

    @property
    def step(self) -> int:
        """By how much the variables in it have to change, at least, for the value to change."""
        if not self.operation:
            return 1
        inside = min((atom.step for atom, _ in self.index.terms), default=1)
        return inside * self.divisor if self.operation == "/" else inside

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Atom)
            and self._hash == other._hash
            and self.operation == other.operation
            and self.name == other.name
            and self.divisor == other.divisor
            and self.index == other.index
        )

    def __repr__(self) -> str:
        return f"({self.index.formula}) {self.operation} {self.divisor}" if self.operation else self.name


class Index:
    """An immutable integer expression with low <= value <= high; see the module's docstring."""

    def __init__(self, terms: tuple[tuple[Atom, int], ...], constant: int) -> None:
        self.terms, self.constant = terms, constant
        low = high = constant
        for atom, c in terms:
            if c > 0:
                low += c * atom.low
                high += c * atom.high
            else:
                low += c * atom.high
                high += c * atom.low
        self.low, self.high = low, high
        self._hash: int | None = None  # most indices are only intermediate results
        self._quotients: dict[int, Index] = {}

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms), self.constant)) if self.terms else hash(self.constant)
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Index)
            and self.constant == other.constant
            and len(self.terms) == len(other.terms)
            and hash(self) == hash(other)
            and dict(self.terms) == dict(other.terms)
        )

    def __repr__(self) -> str:
        return f"<index {self.formula} in {self.low}..{self.high}>"

    def __str__(self) -> str:
        # A `repr` in C text would be an error of the device's compiler, far from its cause.
        raise TypeError(f"{self!r} has no text of its own: codegen/index_printer.py writes it as C")

    @property
    def formula(self) -> str:
        """The sum in readable form."""
        terms = [(f"{c} * " if c != 1 else "") + (f"({a!r})" if a.operation else a.name) for a, c in self.terms]
        return " + ".join([*terms, str(self.constant)] if self.constant or not terms else terms)

    @property
    def name(self) -> str | None:
        """The name, if the index is a single variable; otherwise None."""
        if self.constant or len(self.terms) != 1:
            return None
        ((atom, factor),) = self.terms
        return None if atom.operation or factor != 1 else atom.name

    @property
    def is_constant(self) -> bool:
        return self.low == self.high

    @cached_property
    def fits_int(self) -> bool:
        """Whether the value and every partial sum fit a 32-bit integer."""
        size = abs(self.constant) + sum(abs(c) * max(abs(a.low), abs(a.high)) for a, c in self.terms)
        return size < _INT_LIMIT

    @cached_property
    def divisions(self) -> int:
        """The number of quotients and remainders in it."""
        return sum([1 + a.index.divisions for a, _ in self.terms if a.operation])

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the variables in it."""
        names: set[str] = set()
        for atom, _ in self.terms:
            names |= atom.index.variables if atom.operation else {atom.name}
        return frozenset(names)

    def substitute(self, values: Mapping[str, Index]) -> Index:
        """The index with some variables replaced by other indices."""
        if self.variables.isdisjoint(values):
            return self
        result = constant(self.constant)
        for atom, c in self.terms:
            if not atom.operation:
                term = values.get(atom.name, Index(((atom, 1),), 0))
            else:
                inner = atom.index.substitute(values)
                term = inner // atom.divisor if atom.operation == "/" else inner % atom.divisor
            result = result + term * c
        return result

    def factor(self, name: str) -> int | None:
        """By how much the value grows when variable `name` grows by one; None if that is not constant."""
        total = 0
        for atom, c in self.terms:
            if atom.operation and name in atom.index.variables:
                return None
            if not atom.operation and atom.name == name:
                total += c
        return total

    def stride(self, name: str) -> int:
        """The factor of a variable in which the index is linear."""
        factor = self.factor(name)
        assert factor is not None, f"{self!r} is not linear in {name}"
        return factor

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return self if other == 0 else Index(self.terms, self.constant + other)
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        factors = dict(self.terms)
        for atom, c in other.terms:
            factors[atom] = factors.get(atom, 0) + c
        return _sum(factors, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        if factor == 0:
            return constant(0)
        return Index(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other)

    def __rsub__(self, other: int) -> Index:
        return -self + other

    def __floordiv__(self, divisor: int) -> Index:
        """Division that rounds down, by a positive constant."""
        if divisor == 1:
            return self
        if divisor not in self._quotients:  # what a remainder is of is divided in each sum that the remainder is in
            self._quotients[divisor] = self._divided_by(divisor)
        return self._quotients[divisor]

    def _divided_by(self, divisor: int) -> Index:
        whole, rest, unit = self._split(divisor)
        # self = whole * divisor + rest, and rest = unit * inner + something in 0..unit-1
        if rest.low // divisor == rest.high // divisor:
            return whole + rest.low // divisor
        inner = rest._quotient_terms(unit)
        return whole + _divided(inner, divisor // unit)

    def __mod__(self, divisor: int) -> Index:
        """The remainder in 0..divisor-1 by a positive constant."""
        if divisor == 1:
            return constant(0)
        _, rest, unit = self._split(divisor)
        if rest.low // divisor == rest.high // divisor:
            return rest - rest.low // divisor * divisor
        inner = rest._quotient_terms(unit)
        return _remainder(inner, divisor // unit) * unit + (rest - inner * unit)

    def _split(self, divisor: int) -> tuple[Index, Index, int]:
        """(whole, rest, unit): self = whole * divisor + rest; the part of rest that is not a multiple of unit lies in
        0..unit-1.

        unit divides the divisor, and is the largest such number found.
        """
        whole, factors = {}, {}
        for atom, c in self.terms:
            if c % divisor == 0:
                whole[atom] = c // divisor
            else:
                factors[atom] = c
        rest = Index(tuple(factors.items()), self.constant % divisor)
        quotient = _sum(whole, self.constant // divisor)
        best = 1
        for candidate in {gcd(c, divisor) for c in factors.values()}:
            for unit in (candidate, gcd(candidate, divisor)):
                if unit > best:
                    small = rest - rest._quotient_terms(unit) * unit
                    if small.low >= 0 and small.high < unit:
                        best = unit
        return quotient, rest, best

    def _quotient_terms(self, unit: int) -> Index:
        """The sum of the terms that are multiples of `unit`, and of the constant's part that is one, divided by
        `unit`."""
        return Index(tuple((a, c // unit) for a, c in self.terms if c % unit == 0), self.constant // unit)


def constant(value: int) -> Index:
    """The index that is always `value`."""
    return Index((), value)


def variable(name: str, low: int, high: int) -> Index:
    """The variable `name` of the generated code, an int known to lie in low..high."""
    if low == high:
        return constant(low)
    return Index(((Atom("", name, None, 0, low, high), 1),), 0)


def symbol(name: str, low: int, high: int) -> Index:
    """A value in low..high that is not a variable of the generated code, such as an index that the program computes.
    Analyses can compute with it and compare it; printing it as C is an error."""
    return variable(SYMBOL + name, low, high)


def _sum(factors: dict[Atom, int], number: int) -> Index:
    """The sum of atoms with factors, where quotients are combined with the remainders that complete them:

    k * (x % c) + k * c * (x / c) = k * x,   and
    k * (x % c) + k * c * ((x / c + e) % d) = k * ((x + e * c) % (c * d)), often with an e of 0;

    and what a quotient leaves of its dividend:  k * x - k * c * (x / c) = k * (x % c), also with a remainder by d
    around the quotient and one by c * d around the dividend.
    """
    operations = [a for a in factors if a.operation]
    for atom in operations:
        k, c, x = factors[atom], atom.divisor, atom.index
        if k == 0 or atom.operation != "%":
            continue
        quotient = x // c
        single = _single(quotient)
        for other in operations:
            factor = factors[other]
            if other.operation == "%" and _parts(atom, k, other, factor):
                joined = (x % (c // other.divisor)) * k
            elif factor != k * c:
                continue
            elif other == single:
                joined = x * k
            elif other.operation == "%" and not (distance := other.index - quotient).terms:
                joined = ((x + distance.constant * c) % (c * other.divisor)) * k
            else:
                continue
            others = {a: f for a, f in factors.items() if a is not atom and a is not other}
            return _sum(others, number) + joined
    for atom in operations:
        if atom.operation != "/":
            continue
        k, rest = divmod(-factors[atom], atom.divisor)
        if rest == 0 and k and all(factors.get(a) == k * c for a, c in atom.index.terms):
            others = dict(factors)
            for a in (atom, *(a for a, _ in atom.index.terms)):
                del others[a]
            return _sum(others, number - k * atom.index.constant) + (atom.index % atom.divisor) * k
    return Index(tuple((a, c) for a, c in factors.items() if c), number)


def _parts(atom: Atom, k: int, other: Atom, factor: int) -> bool:
    """Whether atom is x % (c * d) with factor k, and the remainder `other` is (x / c) % d with factor -k * c."""
    c, rest = divmod(atom.divisor, other.divisor)
    return rest == 0 and factor == -k * c and other is not atom and other.index == atom.index // c


def _atom(operation: str, index: Index, divisor: int) -> Atom:
    if operation == "/":
        return Atom("/", "", index, divisor, index.low // divisor, index.high // divisor)
    return Atom("%", "", index, divisor, 0, divisor - 1)


def _single(index: Index) -> Atom | None:
    """The atom, if the index is a single one."""
    if index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1:
        return index.terms[0][0]
    return None


def _divided(x: Index, divisor: int) -> Index:
    """x / divisor as an atom, for an x that is not simpler; dividends are made non-negative."""
    if divisor == 1:
        return x
    if x.low // divisor == x.high // divisor:
        return constant(x.low // divisor)
    atom = _single(x)
    if atom is not None and atom.operation == "/":
        return _divided(atom.index, atom.divisor * divisor)
    if atom is not None and atom.operation == "%" and atom.divisor % divisor == 0:
        return (atom.index // divisor) % (atom.divisor // divisor)
    if x.low < 0:
        shift = -(x.low // divisor)
        return Index(((_atom("/", x + shift * divisor, divisor), 1),), -shift)
    return Index(((_atom("/", x, divisor), 1),), 0)


def _remainder(x: Index, divisor: int) -> Index:
    """x % divisor as an atom, for an x that is not simpler; dividends are made non-negative."""
    if divisor == 1:
        return constant(0)
    if x.low // divisor == x.high // divisor:
        return x - x.low // divisor * divisor
    atom = _single(x)
    if atom is not None and atom.operation == "%" and atom.divisor % divisor == 0:
        return atom.index % divisor
    if x.low < 0:
        x = x - x.low // divisor * divisor
    return Index(((_atom("%", x, divisor), 1),), 0)


def linearize(indices: Sequence[Index], dimensions: Sequence[int]) -> Index:
    """The row-major position of an element in a dense array of these dimensions."""
    result = constant(0)
    step = 1
    for index, size in zip(reversed(indices), reversed(dimensions), strict=True):
        result = result + index * step
        step *= size
    return result


def delinearize(position: Index, dimensions: Sequence[int]) -> tuple[Index, ...]:
    """The indices of the element at a row-major position of a dense array; the position must lie inside."""
    if prod(dimensions) == 0:
        return (constant(0),) * len(dimensions)
    result: list[Index] = []
    outermost = next((d for d, n in enumerate(dimensions) if n != 1), 0)
    step = 1
    for d in reversed(range(len(dimensions))):
        size = dimensions[d]
        quotient = position // step
        result.append(constant(0) if size == 1 else quotient if d == outermost else quotient % size)
        step *= size
    return tuple(reversed(result))


def decide(index: Index, bound: int) -> bool | tuple[Index, int]:
    """Whether index >= bound: True, False, or the simplest (x, b) such that it is where x >= b."""
    if index.low >= bound:
        return True
    if index.high < bound:
        return False
    dividend = _dividend(index, bound)
    return decide(*dividend) if dividend else (index, bound)


def _dividend(index: Index, bound: int) -> tuple[Index, int] | None:
    """(x, b) such that x >= b where index >= bound, for an index c * (x / d) + e with a positive c."""
    if len(index.terms) != 1 or index.terms[0][0].operation != "/" or index.terms[0][1] < 0:
        return None
    ((atom, c),) = index.terms
    return atom.index, -((index.constant - bound) // c) * atom.divisor
