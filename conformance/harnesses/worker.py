"""The process that runs harnesses: a bug in one of them may end it, without affecting other processes."""

from __future__ import annotations

import warnings
import zlib
from functools import cache
from typing import Any

import numpy as np
from refxla_spec.compare import TINY, distance, same_bits, ulp
from refxla_spec.errors import Error, UnsupportedError, plural
from refxla_spec.numerics import type_of

from refxla.frontends.jax import neutral_lowering
from refxla.ir.proto import from_proto

from ..case_check import Outcome, check, expectation
from ..cases import Case
from ..targets.child import serve
from ..targets.compiled import Compiled

FAR = 100  # bounds and last digits by which JAX's result may differ: it promises no accuracy


@cache
def harnesses() -> dict[str, Any]:
    """The harnesses by their full names, made unique."""
    from jax._src.internal_test_util import test_harnesses

    by_name: dict[str, Any] = {}
    for h in test_harnesses.all_harnesses:
        name, n = h.fullname, 1
        while name in by_name:
            name, n = f"{h.fullname}_{n}", n + 1
        by_name[name] = h
    return by_name


def names() -> list[tuple[str, str]]:
    """The primitive and the full name of each harness that JAX's CPU implements."""
    return [(h.group_name, name) for name, h in harnesses().items() if h.filter("cpu")]


@cache
def compiler() -> Compiled:
    """The default device, opened once."""
    return Compiled()


def try_one(name: str, seed: int) -> tuple[str, str]:
    """The outcome of a harness, with a sentence for all but a pass.

    "skipped": JAX itself rejects it. "apart": the compiler keeps the contract, and JAX's result differs.
    """
    import jax

    harness = harnesses()[name]
    rng = np.random.RandomState((seed + zlib.crc32(name.encode())) % 2**32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = jax.jit(harness.dyn_fun, keep_unused=True)
            arguments = harness.dyn_args_maker(rng)
            theirs = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*arguments))]
            traced = function.trace(*arguments)
    except Exception as problem:  # JAX's own
        return "skipped", _first(problem)
    try:
        lowered = neutral_lowering(traced)
        module = from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        constants = list(getattr(lowered._lowering, "const_args", ()))
        inputs = [np.asarray(leaf) for leaf in (*constants, *jax.tree.leaves(arguments))]
    except (UnsupportedError, NotImplementedError, TypeError) as problem:
        return "refused", _first(problem)
    except Error as problem:
        return "fail", f"{type(problem).__name__}: {_first(problem)}"
    shapes = [p.shape for p in module.entry.parameters]
    if len(shapes) != len(inputs):
        return "refused", f"{plural(len(shapes), 'parameter')} for {plural(len(inputs), 'argument')}"
    arrays = [x.astype(s.element_type.dtype, copy=False) for x, s in zip(inputs, shapes, strict=True)]
    case = Case(f"harness/{name}", "program", harness.group_name, str(module), tuple(arrays))
    verdict = check(case, compiler())
    if verdict.outcome is Outcome.UNSUPPORTED:
        return "refused", verdict.reason.partition("\n")[0].partition("; ")[0]
    if verdict.outcome is Outcome.FAIL:
        return "fail", verdict.reason
    expected = expectation(case)
    if len(theirs) != len(expected.values):
        return "fail", f"{plural(len(expected.values), 'result')}, and JAX has {len(theirs)}"
    for n, (v, bound, other) in enumerate(zip(expected.values, expected.bounds, theirs, strict=True)):
        if (v.shape, v.dtype) != (other.shape, other.dtype):
            return "fail", f"result {n} is {v.dtype}{list(v.shape)}, and JAX has {other.dtype}{list(other.shape)}"
        apart = _apart(v, bound, other)
        if apart.any():
            first = tuple(int(k[0]) for k in np.nonzero(apart)) if apart.ndim else ()
            return "apart", f"element {list(first)} of result {n} is {v[first]} here, and {other[first]} in JAX"
    return ("undecided", verdict.reason) if verdict.outcome is Outcome.UNDECIDED else ("pass", "")


def _apart(value: np.ndarray, bound: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Elements of JAX's that differ by more than its known losses of accuracy; it flushes subnormal numbers to zero."""
    kind = type_of(value)
    with np.errstate(all="ignore"):
        slack = FAR * bound + (FAR * ulp(value) if kind.is_float or kind.is_complex else 0)
        near = np.maximum(distance(theirs, value), TINY) <= slack
    return np.asarray(~same_bits(value, theirs) & ~near & np.isfinite(bound))


def _first(problem: Exception) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


if __name__ == "__main__":
    serve({"names": names, "try_one": try_one})
