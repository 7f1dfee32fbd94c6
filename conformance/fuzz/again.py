"""A program put once more to the one comparison that a divergence came from: to reduce it, and to replay it."""

from __future__ import annotations

from collections.abc import Callable

from refxla_conformance.targets import make_target
from refxla_spec.errors import Error

from . import xla
from .differ import TARGET, VARIANTS, Divergence, Unsupported, attempt, cheap, named, of_target
from .generate import Sample
from .runs import Kernels, call, called_again, different_bits, expected


def same_check(sample: Sample, divergence: Divergence, kernels: Callable[[], Kernels]) -> Divergence | None:
    """What a program shows when it is put to the one comparison that a divergence came from."""
    try:
        if divergence.check == xla.NAME:
            return xla.check(sample).divergence
        if divergence.check.startswith(TARGET):
            return of_target(sample, make_target(divergence.check.removeprefix(TARGET)))
        if divergence.check.startswith("kernels"):
            return _kernel_check(sample, divergence.check, kernels())
        if divergence.check in ("valid", "reference", "plan"):
            return cheap(sample, variants=()).divergence
        without = next(w for w in VARIANTS if divergence.check == f"plan without {named(w)}")
        return cheap(sample, (without,)).divergence
    except (Unsupported, Error):
        return None


def _kernel_check(sample: Sample, check: str, kernels: Kernels) -> Divergence | None:
    if check == "kernels":
        return attempt(sample.seed, check, lambda: expected(sample).difference(kernels.run(sample)))
    if check == "kernels again":
        (executable,) = kernels.executables([kernels.plan(sample)])
        return attempt(sample.seed, check, lambda: called_again(executable, sample, call(executable, sample)))
    without = next(w for w in VARIANTS if check == f"kernels without {named(w)}")
    return attempt(sample.seed, check, lambda: different_bits(kernels.run(sample), kernels.run(sample, without)))
