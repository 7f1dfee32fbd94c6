"""The custom-call targets that have a meaning here: what JAX and TensorFlow leave in programs, by name.

    markers.. in choices.py      where a value lives, TopK, ApproxTopK, Threefry
    householder.py               QR and other forms by reflectors
    eigen.py                     eigenvalues, eigenvectors, Schur forms
    factors.py                   LU, Cholesky, singular values, linear equations
    sharded.py                   values divided among the partitions of a program
    ../dynamic.py                arrays of dynamic shape and their bounds
    signatures.py                what each of them takes and gives, which the verifier checks

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
from typing import Any

from .. import dynamic
from ..devices import Device
from ..errors import UnsupportedError
from ..module import Instruction
from ..types import Shape, Value
from ..vectorize import Run
from . import choices, eigen, factors, householder, sharded, signatures
from .backend_config import letter, options
from .choices import identity
from .signatures import signature

__all__ = ["SIGNATURES", "TARGETS", "identity", "infer", "letter", "meaning", "options", "register", "unregister"]

Evaluate = Callable[..., Value]

_MARKERS = (
    "LayoutConstraint", "MoveToDevice", "MoveToHost", "Sharding", "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
)  # fmt: skip

_REFLECTORS = "T[..,m,n], T[..,k] -> T[..,m,n]"
_SINGULAR = "T[..,m,n] -> T[..,m,n], R[..,k], T[..,m,p], T[..,q,n], s32[..]"
_TRIDIAGONAL = "T[..,n,n] -> T[..,n,n], R[..,n], R[..,n-1], T[..,n-1], s32[..]"
_SYSTEM = "T[..,p], T[..,n], T[..,q], T[..,n,m]"  # below, on and above the diagonal, and the right side
_WORDS = "u32[..], u32[..], u32[..], u32[..] -> u32[..], u32[..]"
_SIDES = {"compute_left": "NV", "compute_right": "VN"}

# LAPACK's routines: the name without the letter of the element type, the letters, the meaning, and what it takes and
# gives, of which T is the type of the letter.
_LAPACK: tuple[tuple[str, str, Evaluate, str, dict[str, Any]], ...] = (
    ("geqrf", "sdcz", householder.qr, "T[..,m,n] -> T[..,m,n], T[..,k]", {}),
    ("geqp3", "sdcz", householder.pivoted_qr, "T[..,m,n], s32[..,n] -> T[..,m,n], s32[..,n], T[..,k]", {}),
    ("orgqr", "sd", householder.product_of_householder_reflectors, _REFLECTORS, {"check": signatures.needs_rows}),
    ("ungqr", "cz", householder.product_of_householder_reflectors, _REFLECTORS, {"check": signatures.needs_rows}),
    ("gehrd", "sdcz", householder.hessenberg, "T[..,n,n] -> T[..,n,n], T[..,n-1], s32[..]",
     {"check": signatures.rows_to_reduce}),
    ("sytrd", "sd", householder.tridiagonal, _TRIDIAGONAL, {"uplo": "LU"}),
    ("hetrd", "cz", householder.tridiagonal, _TRIDIAGONAL, {"uplo": "LU"}),
    ("syevd", "sd", eigen.syevd, "T[..,n,n] -> T[..,n,n], R[..,n], s32[..]", {"mode": "VN", "uplo": "LU"}),
    ("heevd", "cz", eigen.syevd, "T[..,n,n] -> T[..,n,n], R[..,n], s32[..]", {"mode": "VN", "uplo": "LU"}),
    ("geev", "sd", eigen.geev, "T[..,n,n] -> T[..,n], T[..,n], C[..,n,n], C[..,n,n], s32[..]", _SIDES),
    ("geev", "cz", eigen.geev, "T[..,n,n] -> T[..,n], T[..,n,n], T[..,n,n], s32[..]", _SIDES),
    ("gees", "sd", eigen.gees, "T[..,n,n] -> T[..,n,n], T[..,n,n], T[..,n], T[..,n], s32[..], s32[..]",
     {"mode": "VN", "sort": "NS"}),
    ("gees", "cz", eigen.gees, "T[..,n,n] -> T[..,n,n], T[..,n,n], T[..,n], s32[..], s32[..]",
     {"mode": "VN", "sort": "NS"}),
    ("getrf", "sdcz", factors.getrf, "T[..,m,n] -> T[..,m,n], s32[..,k], s32[..]", {}),
    ("potrf", "sdcz", factors.potrf, "T[..,n,n] -> T[..,n,n], s32[..]", {"uplo": "LU"}),
    ("trsm", "sdcz", factors.trsm, "T[..,p,p], T[..,m,n] -> T[..,m,n]",
     {"check": signatures.side_to_solve, "side": "LR", "uplo": "LU", "diag": "NU", "trans_x": "NTC"}),
    ("gesdd", "sdcz", factors.gesdd, _SINGULAR, {"check": signatures.singular_vectors, "mode": "ASN"}),
    ("gesvd", "sdcz", factors.gesdd, _SINGULAR, {"check": signatures.singular_vectors, "mode": "ASN"}),
    ("gtsv", "sdcz", factors.gtsv, f"{_SYSTEM} -> {_SYSTEM}, s32[..]", {"check": signatures.diagonals}),
)  # fmt: skip

# Each target's meaning, and what it takes and gives.
_ROWS: dict[str, tuple[Evaluate, signatures.Infer]] = {
    **{
        f"lapack_{t}{name}_ffi": (function, signature(text, signatures.LAPACK_TYPES[t], **more))
        for name, letters, function, text, more in _LAPACK
        for t in letters
    },
    **dict.fromkeys(_MARKERS, (identity, signatures.unchanged)),
    **{name: (function, signatures.divided) for name, function in sharded.TARGETS.items()},
    "ApproxTopK": (choices.approximate_top_k, signatures.approximate_top_k),
    "Eigh": (eigen.eigh, signature("T[..,n,n] -> T[..,n,n], R[..,n]")),
    "LuDecomposition": (factors.lu_decomposition, signature("T[..,m,n] -> T[..,m,n], s32[..,k], s32[..,m]")),
    "PadToStatic": (dynamic.pad_to_static, signatures.padded),
    "ProductOfElementaryHouseholderReflectors": (
        householder.product_of_householder_reflectors, signature(_REFLECTORS, check=signatures.needs_rows),
    ),
    "Qr": (householder.qr, signature("T[..,m,n] -> T[..,m,n], T[..,k]")),
    "SliceToDynamic": (dynamic.slice_to_dynamic, signatures.sliced),
    "TopK": (choices.top_k, signatures.top_k),
    "dce_sink": (choices.sink, signatures.nothing),
    **dict.fromkeys(("cu_threefry2x32", "cu_threefry2x32_ffi"), (choices.threefry, signature(_WORDS))),
}  # fmt: skip

TARGETS: dict[str, Evaluate] = {target: function for target, (function, _) in _ROWS.items()}
SIGNATURES: dict[str, signatures.Infer] = {target: takes for target, (_, takes) in _ROWS.items()}
_registered: dict[str, Evaluate] = {}


def register(target: str, evaluate: Evaluate) -> None:
    """Give a custom-call target a meaning: `evaluate(instruction, *operand_values) -> Value`, for the whole process.

    A target that has one already gets the new one; of those in `TARGETS` the verifier still asks what it did before.
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


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    """The shape of a custom call's result: as it is stated, unless the target has a meaning that says more.

    Raises Violation for operands that such a target does not take, UnsupportedError for an option of an unknown value.
    """
    of_target = SIGNATURES.get(instruction.custom_call_target)
    return of_target(instruction, *operands) if of_target else instruction.shape


def evaluate(instruction: Instruction, *operands: Value, run: Run, device: Device) -> Value:
    """The value of a custom call. Raises UnsupportedError for a target without a meaning."""
    function = meaning(instruction)
    parameters = inspect.signature(function).parameters
    keywords = {name: value for name, value in (("run", run), ("device", device)) if name in parameters}
    return function(instruction, *operands, **keywords)
