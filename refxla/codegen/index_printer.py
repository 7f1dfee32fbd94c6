"""Index expressions and conditions on them, written as OpenCL C.

c_of(linearize((i, j), (4, 5)))                     "5 * i + j"
c_of((i * 5 + j) // 3)                              "(int)((uint)(5 * i + j) * 11u >> 5)", 5 * i + j being small
c_of_condition(Condition(i, "<", 3))                "i < 3"; True or False where the range of i decides
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..analysis.index_expression import SYMBOL, Atom, Index
from ..analysis.index_maps import Condition
from .c_block import Block


def c_of(index: Index, for_vectors: bool = False) -> str:
    """The value of an index, as an int where `index.fits_int`, otherwise as a long. `for_vectors`: of an address at
    which a vectorized loop gathers elements (_power_modulo)."""
    cast = "" if index.fits_int else "(long)"
    text = ""
    for atom, c in index.terms:
        value = _atom(atom, for_vectors)
        size = f"{cast}{value}" if abs(c) == 1 else f"{abs(c)} * {cast}{value}"
        text += (" - " if c < 0 else " + ") + size
    if index.constant or not text:
        text += f" {'-' if index.constant < 0 else '+'} {abs(index.constant)}{'' if index.fits_int else 'l'}"
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _atom(atom: Atom, for_vectors: bool) -> str:
    if not atom.operation:
        if atom.name.startswith(SYMBOL):
            raise AssertionError(f"{atom.name} stands for a value of which no C was written")
        return atom.name
    unsigned, suffix = ("uint", "u") if atom.index.fits_int else ("ulong", "ul")
    own = "int" if atom.index.fits_int else "long"
    power = atom.divisor & (atom.divisor - 1) == 0  # for which processors divide by a shift or a mask
    if not power and 0 <= atom.index.low and atom.index.high < 2 * atom.divisor:  # a comparison gives the quotient
        text, bound = c_of(atom.index, for_vectors), f"{atom.divisor}{'' if atom.index.fits_int else 'l'}"
        return f"({text} >= {bound})" if atom.operation == "/" else f"({text} < {bound} ? {text} : {text} - {bound})"
    # No dividend is negative, and unsigned division by a constant is cheaper.
    text = c_of(atom.index, for_vectors)
    if for_vectors and power and atom.operation == "%" and 0 <= atom.index.low and atom.index.high < 1 << 30:
        return _power_modulo(text, atom.divisor, atom.index.high)
    reciprocal = None if power or atom.index.low < 0 else _reciprocal(atom.divisor, atom.index.high)
    if reciprocal is None:
        return f"({own})(({unsigned})({text}) {atom.operation} {atom.divisor}{suffix})"
    factor, shift = reciprocal
    quotient = f"(int)((uint)({text}) * {factor}u >> {shift})"
    return quotient if atom.operation == "/" else f"({text} - {atom.divisor} * {quotient})"


def _reciprocal(divisor: int, high: int) -> tuple[int, int] | None:
    """(factor, shift) such that n * factor >> shift is n / divisor for all n from 0 to `high`, in 32 bits; None if
    there are none.

    With factor * divisor = 2^shift + rest that holds where n * rest < 2^shift (Granlund and Montgomery, Division by
    invariant integers using multiplication, 1994). LLVM does the same, but first it narrows a division to 8 or 16 bits
    where the range of n allows, and then it does not vectorize a loop over 200 elements, whose counter could overflow
    as a signed 8-bit number.
    """
    for shift in range(1, 32):
        factor = -(-(1 << shift) // divisor)
        rest = factor * divisor - (1 << shift)
        if high * rest < 1 << shift and high * factor < 1 << 32:
            return factor, shift
    return None


def _power_modulo(text: str, divisor: int, high: int) -> str:
    """A number from 0 to `high` modulo a power of two, without a mask.

    LLVM 14 treats a masked counter as one of so few bits, which overflows, and does not vectorize a loop that reads at
    it. It does not see through a factor that is too large by one.
    """
    shift = high.bit_length() + divisor.bit_length()  # so that the excess, high * divisor, is less than 2^shift
    factor = (1 << shift) // divisor + 1
    kind, suffix = ("uint", "u") if high * factor < 1 << 32 else ("ulong", "ul")
    return f"({text} - {divisor} * (int)(({kind})({text}) * {factor}{suffix} >> {shift}))"


def c_of_condition(condition: Condition) -> bool | str:
    """True or False where the range of the index decides; otherwise the condition as C."""
    answer = condition.simplified
    if isinstance(answer, bool):
        return answer
    index, bound = answer
    return (
        f"({c_of(index)}) == {bound}" if condition.relation == "==" else f"{c_of(index)} {condition.relation} {bound}"
    )


def c_of_conditions(conditions: Sequence[Condition]) -> bool | str:
    """The conjunction: True, False, or C that evaluates all that have to be tested."""
    texts = [c_of_condition(c) for c in conditions]
    if False in texts:
        return False
    tested = list(dict.fromkeys(t for t in texts if isinstance(t, str)))
    return " & ".join(f"({t})" for t in tested) if len(tested) > 1 else tested[0] if tested else True


@contextmanager
def scope_if(block: Block, conditions: Sequence[Condition], own: bool = True) -> Iterator[None]:
    """The statements that run if all conditions hold. Where the ranges say that they do, there is no test, and braces
    only if the statements have a scope of their `own`."""
    condition = c_of_conditions(conditions)
    if condition is True and not own:
        yield
        return
    with block.scope("" if condition is True else f"if ({condition or 0})"):
        yield
