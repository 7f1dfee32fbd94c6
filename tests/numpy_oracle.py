"""What NumPy and a compiled function make of a program, beside each other (numpy_programs.py).

    python tests/numpy_oracle.py COUNT [SEED] [--compiled] [--refusals]

tries COUNT programs from number SEED on, with the specification's interpreter unless --compiled is given, and prints
what differs, and what is refused if that is asked for, reduced to the lines that it takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy_programs import Program, program

import refxla

UNITS = 64  # of a type's rounding, by which an element may be off, of the largest in its array
CALLS = 2  # of each program, each with other values
PERTURBATIONS = 4
# NumPy's warnings of values that are not the same on all processors.
_OF_THE_PROCESSOR = ("invalid value encountered in cast", "divide by zero encountered in reciprocal")
_USUAL = (TypeError, ValueError, IndexError, ArithmeticError)  # of which one is as clear as another
_OWN = (refxla.UnsupportedError, refxla.InputError)


@dataclasses.dataclass
class Finding:
    """How a program does otherwise than NumPy: `kind` is "value", "type", "error" or "no error"; "refusal" is none."""

    kind: str
    message: str
    program: Program

    @property
    def text(self) -> str:
        values = "\n".join(f"    {p.name} = {p.first!r}" for p in self.program.parameters)
        return f"{self.kind}: {self.message}\n{self.program.text}{values}\n"


class Outcome:
    """What came of a call: the result and the arguments after it, or an error."""

    def __init__(self, function: Callable[..., Any], program: Program, call: int) -> None:
        values = program.values(call)
        self.result: Any = None
        self.error: Exception | None = None
        self.warnings: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self.result = function(*program.arguments(values))
            except Exception as error:  # whatever it is: it is compared with the other side's
                self.error = error
        self.warnings = [str(w.message) for w in caught]
        self.values = values


def parts(value: Any, name: str = "result") -> Iterator[tuple[str, Any]]:
    """The leaves of a result, each with where it is."""
    if isinstance(value, (tuple, list)):
        yield f"type of {name}", type(value).__name__
        for n, element in enumerate(value):
            yield from parts(element, f"{name}[{n}]")
    else:
        yield name, value


def difference(got: Any, wanted: Any) -> tuple[str, str] | None:
    """The kind and the message of how two leaves differ; None if they do not."""
    if isinstance(wanted, (np.ndarray, np.generic)):
        if not isinstance(got, (np.ndarray, np.generic)):
            return "type", f"{type(got).__name__}, not {type(wanted).__name__}"
        if got.dtype != wanted.dtype:
            return "type", f"{got.dtype}, not {wanted.dtype}"
        if got.shape != wanted.shape:
            return "type", f"shape {got.shape}, not {wanted.shape}"
        off = places_off(np.asarray(got), np.asarray(wanted))
        if off.any():
            return "value", f"{_brief(got)}, not {_brief(wanted)}"
        return None
    if isinstance(got, np.ndarray) and got.ndim == 0 and isinstance(wanted, (bool, int, float, complex)):
        got = got.item()  # a result without dimensions is an array
    if type(got) is not type(wanted):
        return "type", f"{type(got).__name__}, not {type(wanted).__name__}"
    if isinstance(wanted, np.dtype | type | str | int | bool | tuple) or wanted is None:
        return None if got == wanted else ("value", f"{got!r}, not {wanted!r}")
    return difference(np.asarray(got), np.asarray(wanted))


def places_off(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where elements differ by more than rounding."""
    if wanted.dtype.kind not in "fc":
        return np.asarray(got != wanted)
    with np.errstate(all="ignore"):
        unit = float(np.finfo(wanted.dtype).eps)
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        x, y = got.astype(wide), wanted.astype(wide)
        finite = np.isfinite(y)
        largest = np.abs(y[finite]).max(initial=0)
        off = ~(np.abs(x - y) <= UNITS * unit * largest + 8 * float(np.finfo(wanted.dtype).smallest_subnormal))
        if wanted.dtype.kind == "c":  # which part an infinity or a NaN is in is not the same everywhere
            same = (np.isnan(x) & np.isnan(y)) | (np.isinf(x) & np.isinf(y)) | (np.isinf(x) & np.isnan(y))
            return np.where(finite, off, ~(same | (np.isnan(x) & np.isinf(y))))
        return np.where(finite, off, ~((x == y) | (np.isnan(x) & np.isnan(y))))


def _brief(x: Any) -> str:
    text = np.array2string(np.asarray(x), threshold=12, max_line_width=10**6).replace("\n", "")
    return text if len(text) < 240 else text[:240] + "..."


def compare(got: Outcome, wanted: Outcome) -> tuple[str, str] | None:
    """How two outcomes differ; None if they do not."""
    if got.error is not None:
        own, numpys = got.error, wanted.error
        message = f"{type(own).__name__}: {own}"
        if isinstance(own, _OWN):
            return None if numpys is not None else ("refusal", message)
        if numpys is None:
            return "error", f"{message} (NumPy raises nothing)"
        same = isinstance(own, type(numpys)) or isinstance(numpys, type(own))
        both_usual = isinstance(own, _USUAL) and isinstance(numpys, _USUAL)
        return None if same or both_usual else ("error", f"{message} (NumPy raises {type(numpys).__name__}: {numpys})")
    if wanted.error is not None:
        if isinstance(wanted.error, MemoryError):
            return None
        return "no error", f"NumPy raises {type(wanted.error).__name__}: {wanted.error}"
    found = _compare_leaves(list(parts(got.result)), list(parts(wanted.result)))
    if found is not None:
        return found
    return _compare_leaves(
        [(f"argument {n}", v) for n, v in enumerate(got.values)],
        [(f"argument {n}", v) for n, v in enumerate(wanted.values)],
    )


def _compare_leaves(got: Sequence[tuple[str, Any]], wanted: Sequence[tuple[str, Any]]) -> tuple[str, str] | None:
    if [n for n, _ in got] != [n for n, _ in wanted]:
        return "type", f"{[v for n, v in got if 'type' in n]}, not {[v for n, v in wanted if 'type' in n]}"
    for (name, x), (_, y) in zip(got, wanted, strict=True):
        found = difference(x, y)
        if found is not None:
            return found[0], f"{name} is {found[1]}"
    return None


def is_chance(program: Program, call: int, got: Outcome, wanted: Outcome) -> bool:
    """Whether values are off no more than NumPy's own are, where all numbers with a fraction are off by some units."""
    runs = [_perturbed(program, call, seed) for seed in range(PERTURBATIONS)]
    if any(run is None for run in runs):
        return True
    results = [*(v for _, v in parts(wanted.result)), *wanted.values]
    coarse = max((np.finfo(v.dtype).eps for v in results if getattr(getattr(v, "dtype", None), "kind", "none") in "fc"),
                 default=0)  # fmt: skip
    others = [*(v for _, v in parts(got.result)), *got.values]
    for n, (x, y) in enumerate(zip(others, results, strict=True)):
        if not isinstance(y, (np.ndarray, np.generic)):
            continue
        x, y = np.asarray(x), np.asarray(y)
        off = places_off(x, y)
        if not off.any():
            continue
        seen = [np.asarray(run[n]) for run in runs if run is not None]
        if any(s.shape != y.shape for s in seen):
            return True
        with np.errstate(all="ignore"):
            if y.dtype.kind in "fc":
                wide = np.complex128 if y.dtype.kind == "c" else np.float64
                y, x = y.astype(wide), x.astype(wide)
                spread = np.max([np.abs(s.astype(wide) - y) for s in seen], axis=0)
                largest = np.abs(y[np.isfinite(y)]).max(initial=0)
                allowed = (np.abs(x - y) <= 8 * spread + UNITS * float(coarse) * largest) | ~np.isfinite(spread)
            else:
                allowed = np.any([s != y for s in seen], axis=0)
        if (off & ~allowed).any():
            return False
    return True


def _perturbed(program: Program, call: int, seed: int) -> list[Any] | None:
    """The results of the program, and its arguments, where each line's floating-point numbers are a few units off;
    whole numbers and their halves are as they are. None if NumPy raises an error."""
    random = np.random.default_rng(seed)
    space: dict[str, Any] = {"np": np}

    def off(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "fc":
            return x
        with np.errstate(all="ignore"):
            whole = x * 8 == np.rint(x * 8)
            factor = 1 + random.choice([-6, -3, 3, 6], np.shape(x)) * np.finfo(x.dtype).eps
            other = np.where(whole, x, x * factor).astype(x.dtype)
        if isinstance(x, np.ndarray):
            if x.flags.writeable:
                x[...] = other
            return x
        return other[()]

    values = program.values(call)
    for parameter, value in zip(program.parameters, values, strict=True):
        space[parameter.name] = off(value)
    values = [space[p.name] for p in program.parameters]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for line in program.lines:
                exec(line, space)
                space.pop("__builtins__", None)
                for name, value in list(space.items()):
                    if isinstance(value, tuple):
                        space[name] = (
                            type(value)(*map(off, value)) if hasattr(value, "_fields") else tuple(map(off, value))
                        )
                    else:
                        space[name] = off(value)
        except Exception:  # NumPy's, of a program that does not take the other numbers
            return None
    result = tuple(space[n] for n in program.results)
    leaves = [v for _, v in parts(result if len(program.results) != 1 else result[0])]
    return [*leaves, *values]


def _converts_below_zero(program: Program, call: int) -> bool:
    """Whether the program may convert floating-point numbers below zero to an unsigned type, as the processor does."""
    space: dict[str, Any] = {
        "np": np,
        **dict(zip((p.name for p in program.parameters), program.values(call), strict=True)),
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        below = wide = False
        for line in ["", *program.lines]:
            try:
                exec(line, space)
            except Exception:  # NumPy's: nothing comes after it
                return False
            arrays = [np.asarray(v) for v in space.values() if isinstance(v, (np.ndarray, np.generic, float, complex))]
            below = below or any(bool((x.real < 0).any()) for x in arrays if x.dtype.kind in "fc")
            wide = "'u" in program.text or any(
                bool((x > np.iinfo(x.dtype).max // 2).any()) for x in arrays if x.dtype.kind == "u"
            )
            if below and wide:
                return True
    return False


def examine(program: Program, device: str | None = None) -> Finding | None:
    """Run a program in both ways, with several values."""
    options = {} if device is None else {"device": device}
    compiled = refxla.compile(program.function(), **options)
    for call in range(CALLS):
        wanted = Outcome(program.function(), program, call)
        got = Outcome(compiled, program, call)
        found = compare(got, wanted)
        if found is None:
            continue
        kind, message = found
        if kind == "value" and (
            any(text in w for w in wanted.warnings for text in _OF_THE_PROCESSOR)
            or _converts_below_zero(program, call)
            or is_chance(program, call, got, wanted)
        ):
            continue
        return Finding(kind, message, program)
    return None


def reduced(finding: Finding, device: str | None = None) -> Finding:
    """The finding, of a program with as few lines and results as show it."""
    again = True
    while again:
        again = False
        for smaller in _smaller(finding.program):
            try:
                found = examine(smaller, device)
            except Exception:  # a line is gone that makes what another one reads
                continue
            if found is not None and found.kind == finding.kind and _class(found) == _class(finding):
                finding, again = found, True
                break
    return finding


def _smaller(program: Program) -> Iterator[Program]:
    if program.nesting != "plain":
        yield dataclasses.replace(program, nesting="plain")
    for n, line in enumerate(program.lines):
        name = line.split(" = ")[0]
        results = [r for r in program.results if r != name]
        yield dataclasses.replace(program, lines=program.lines[:n] + program.lines[n + 1 :], results=results)
    for n in range(len(program.results)):
        if len(program.results) > 1:
            yield dataclasses.replace(program, results=program.results[:n] + program.results[n + 1 :])
    body = " ".join(program.lines + program.results)
    used = [p for p in program.parameters if re.search(rf"\b{p.name}\b", body)]
    if len(used) < len(program.parameters):
        yield dataclasses.replace(program, parameters=used)


def _class(finding: Finding) -> str:
    """What findings of one cause have in common, about."""
    if finding.kind in ("value", "type"):
        return finding.kind
    return re.sub(r"[\d.]+|\([\d, ]*\)", "#", re.sub(r" at .*?line \d+.*", "", finding.message))[:60]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--compiled", action="store_true", help="run kernels, not the specification's interpreter")
    parser.add_argument("--refusals", action="store_true", help="print what is refused, too")
    arguments = parser.parse_args()
    device = None if arguments.compiled else "reference"
    kinds: Counter[str] = Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        finding = examine(program(seed), device)
        kinds[finding.kind if finding else "same"] += 1
        if finding is not None and (finding.kind != "refusal" or arguments.refusals):
            print(f"---- {seed}\n{reduced(finding, device).text}", flush=True)
    print(dict(kinds))


if __name__ == "__main__":
    main()
