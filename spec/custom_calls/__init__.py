"""The custom-call targets that have a meaning here: what JAX and TensorFlow leave in programs, by name.

    markers.. in choices.py      where a value lives, TopK, ApproxTopK, Threefry
    householder.py               QR and other forms by reflectors
    eigen.py                     eigenvalues, eigenvectors, Schur forms
    factors.py                   LU, Cholesky, singular values, linear equations
    sharded.py                   values divided among the partitions of a program
    ../dynamic.py                arrays of dynamic shape and their bounds

The names lapack_<letter><routine>_ffi are those of JAX's lowerings for a CPU, with LAPACK's letter for the type.

A program's own target gets a meaning, for the whole process, by

    register("my_target", lambda instruction, x, y: ...)

where the function takes the custom-call instruction, for its shape and options, and the operands' values, and gives the
result's value: an array of the instruction's shape and element type, or a tuple of them. If it has a parameter named
`run`, it gets run(computation, *values), which applies a computation that the instruction calls; with one named
`device` the Device that it runs on (../devices.py). The compiler does not know registered targets: run such a program
on the reference.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches

from .. import dynamic
from ..devices import Device
from ..errors import UnsupportedError
from ..module import Instruction
from ..types import Value
from ..vectorize import Run
from . import choices, eigen, factors, householder, sharded
from .choices import identity
from .options import letter, options

__all__ = ["TARGETS", "identity", "letter", "meaning", "options", "register", "unregister"]

Evaluate = Callable[..., Value]

_MARKERS = (
    "LayoutConstraint", "MoveToDevice", "MoveToHost", "Sharding", "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
)  # fmt: skip

# LAPACK's routines by their names without the letter of the element type, for real and complex types.
_LAPACK: dict[str, tuple[str, Evaluate]] = {
    "geqrf": ("sdcz", householder.qr),
    "geqp3": ("sdcz", householder.pivoted_qr),
    "orgqr": ("sd", householder.product_of_householder_reflectors),
    "ungqr": ("cz", householder.product_of_householder_reflectors),
    "gehrd": ("sdcz", householder.hessenberg),
    "sytrd": ("sd", householder.tridiagonal),
    "hetrd": ("cz", householder.tridiagonal),
    "syevd": ("sd", eigen.syevd),
    "heevd": ("cz", eigen.syevd),
    "geev": ("sdcz", eigen.geev),
    "gees": ("sdcz", eigen.gees),
    "getrf": ("sdcz", factors.getrf),
    "potrf": ("sdcz", factors.potrf),
    "trsm": ("sdcz", factors.trsm),
    "gesdd": ("sdcz", factors.gesdd),
    "gesvd": ("sdcz", factors.gesdd),
    "gtsv": ("sdcz", factors.gtsv),
}

TARGETS: dict[str, Evaluate] = {
    **dynamic.TARGETS,
    **dict.fromkeys(_MARKERS, identity),
    **sharded.TARGETS,
    **{f"lapack_{letter_}{name}_ffi": f for name, (letters, f) in _LAPACK.items() for letter_ in letters},
    "ApproxTopK": choices.approximate_top_k,
    "Eigh": eigen.eigh,
    "LuDecomposition": factors.lu_decomposition,
    "ProductOfElementaryHouseholderReflectors": householder.product_of_householder_reflectors,
    "Qr": householder.qr,
    "TopK": choices.top_k,
    "dce_sink": choices.sink,
    "cu_threefry2x32": choices.threefry,
    "cu_threefry2x32_ffi": choices.threefry,
}
_registered: dict[str, Evaluate] = {}


def register(target: str, evaluate: Evaluate) -> None:
    """Give a custom-call target a meaning: `evaluate(instruction, *operand_values) -> Value`, for the whole process.

    A target that has one already gets the new one.
    """
    _registered[target] = evaluate


def unregister(target: str) -> None:
    """Take back what `register` gave; a target that was known before means what it did. KeyError for any other."""
    del _registered[target]


def meaning(instruction: Instruction) -> Evaluate:
    """The function of a custom call's target; UnsupportedError, which says how to give it one, if it has none."""
    target = instruction.custom_call_target
    function = _registered.get(target) or TARGETS.get(target)
    if function is None:
        targets = sorted({**TARGETS, **_registered})
        near = get_close_matches(target, targets, n=3, cutoff=0.6)
        hint = f", such as {', '.join(near)}" if near else ""
        raise UnsupportedError(
            f"{instruction.name}: the custom-call target {target!r} has no meaning here; {len(targets)} others have"
            f"{hint} (refxla_spec.custom_calls.TARGETS lists them); give it one with refxla_spec.custom_calls.register"
        )
    return function


def evaluate(instruction: Instruction, *operands: Value, run: Run, device: Device) -> Value:
    """The value of a custom call. Raises UnsupportedError for a target without a meaning."""
    function = meaning(instruction)
    parameters = inspect.signature(function).parameters
    keywords = {name: value for name, value in (("run", run), ("device", device)) if name in parameters}
    return function(instruction, *operands, **keywords)
