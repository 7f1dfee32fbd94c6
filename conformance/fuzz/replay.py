"""Repeats the one comparison in which a program diverged: to reduce it, and to replay it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from refxla_conformance.targets import Target, make_target
from refxla_spec.errors import InputError

from . import xla
from .compile_time import TIME, superlinear
from .differ import PROCESS, TARGET, VARIANTS, Divergence, Unsupported, attempt, cheap, named, of_target
from .generate import Sample
from .runs import Kernels, call, called_again, different_bits, expected


def same_check(sample: Sample, divergence: Divergence, kernels: Callable[[], Kernels]) -> Divergence | None:
    """The divergence of a program in the one comparison that found an earlier divergence.

    Raises Unsupported if the program is not supported, and InputError or DeviceError if there is nothing to run it on:
    for example, the target cannot be created, or the comparison is unknown.
    """
    if divergence.check == xla.NAME:
        return xla.check(sample).divergence
    if divergence.check.startswith(TARGET):
        return of_target(sample, _target(divergence.check.removeprefix(TARGET)))
    if divergence.check == TIME:
        return attempt(sample.seed, TIME, lambda: superlinear(sample))
    if divergence.check == PROCESS:  # if that is still so, it ends this one
        return _kernel_check(sample, "kernels again", kernels())
    if divergence.check.startswith("kernels"):
        return _kernel_check(sample, divergence.check, kernels())
    if divergence.check in ("valid", "reference", "plan"):
        return _cheap_check(sample, ())
    return _cheap_check(sample, (_variant("plan", divergence.check),))


@cache
def _target(name: str) -> Target:
    return make_target(name)


def _variant(what: str, check: str) -> tuple[str, ...]:
    for without in VARIANTS:
        if check == f"{what} without {named(without)}":
            return without
    raise InputError(f"there is no comparison {check!r}")


def _cheap_check(sample: Sample, variants: tuple[tuple[str, ...], ...]) -> Divergence | None:
    result = cheap(sample, variants)
    if result.unsupported:
        raise Unsupported(result.unsupported)
    return result.divergence


def _kernel_check(sample: Sample, check: str, kernels: Kernels) -> Divergence | None:
    if check == "kernels":
        return attempt(sample.seed, check, lambda: expected(sample).difference(kernels.run(sample)))
    if check == "kernels again":
        (executable,) = kernels.executables([kernels.plan(sample)])
        return attempt(sample.seed, check, lambda: called_again(executable, sample, call(executable, sample)))
    without = _variant("kernels", check)
    return attempt(sample.seed, check, lambda: different_bits(kernels.run(sample), kernels.run(sample, without)))
