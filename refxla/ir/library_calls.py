"""Which operations of linear algebra a library, LAPACK, computes.

LAPACK blocks its algorithms for caches, and its iterations for eigenvalues and singular values converge best, unlike
those of an expansion into HLO (passes/expanders/). Its results satisfy the specification, but their bits are the
library's: they may differ between machines, or between versions of the library. The expansions are for devices whose
memory the host cannot access, and for programs compiled with linear_algebra="expanded".

There is one call for each matrix of a batch. Many small matrices are computed at once, one in each lane of a vector, by
refxla's own routines of the same names (`is_batched`, _core/batched_lapack.pyx).

A call costs about a microsecond, and a loop that contains one cannot become a single kernel: the smallest matrices are
left to the expansions, and in loops larger ones than elsewhere (`pays`).

An instruction that is computed by a library call stays one instruction until the scheduler makes it a step of the plan
(LibraryCall).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from refxla_spec.custom_calls import letter, options
from refxla_spec.custom_calls.factors import triangular_solve_attributes
from refxla_spec.errors import InputError
from refxla_spec.module import Instruction
from refxla_spec.types import Shape

LIBRARY, EXPANDED = "library", "expanded"
CHOICES = (LIBRARY, EXPANDED)  # values of the option linear_algebra
LINEAR_ALGEBRA = "REFXLA_LINEAR_ALGEBRA"  # the environment variable with the default

LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}  # LAPACK's letters for the element types that it supports
LARGEST = (1 << 31) - 1  # rows or columns that it can count


def is_asked_for(linear_algebra: str | None) -> bool:
    """Whether an option selects the library: for None, REFXLA_LINEAR_ALGEBRA decides, or the default, LIBRARY. Raises
    InputError for a value that is not in CHOICES."""
    name = "linear_algebra"
    if linear_algebra is None:
        name, linear_algebra = LINEAR_ALGEBRA, os.environ.get(LINEAR_ALGEBRA) or LIBRARY
    if linear_algebra not in CHOICES:
        raise InputError(f"{name} is {linear_algebra!r}: say {' or '.join(map(repr, CHOICES))}")
    return linear_algebra == LIBRARY


@dataclass(frozen=True)
class LibraryRoutine:
    """One routine of LAPACK, on each matrix of a batch.

    `routine` is its name without the letter of the type. `sizes` (m, n, k) and `flags` are the arguments of its
    function in _core/lapack.pyx; `operations` estimates the work for one matrix, in operations at the rate of a
    product. `results` counts the routine's results, in the order of the instruction's; any that the instruction does
    not have is the status (info).
    """

    routine: str
    sizes: tuple[int, int, int]
    flags: str
    operations: float
    results: int


def library_call(i: Instruction) -> LibraryRoutine | None:
    """How a library computes an instruction; None if it does not: for another operation, a type that LAPACK does not
    have, empty matrices, or options that only an expansion supports."""
    name = i.custom_call_target if i.opcode == "custom-call" else i.opcode
    maker = _CALLS.get(name)
    if maker is None or any(not o.shape.is_array for o in i.operands):
        return None
    shapes = [o.shape for o in i.operands]
    kind = shapes[0].element_type.name
    if kind not in LETTERS or not all(s.size and max(s.dimensions) <= LARGEST for s in shapes):
        return None
    return maker(i, shapes)


_DIRECT = ("potrf", "trsm", "getrf")  # their expansions do the same as the routine, element by element
WRITTEN_OUT = 3  # rows of a matrix up to which their expansions have no loop
_SMALL, _SMALL_OF_BATCH = 8, 4  # rows of a matrix up to which those are faster: for one matrix, and for several
_BATCHED_IN_LOOP = 64  # the number of matrices from which a batched routine is faster than they are


def pays(i: Instruction, call: LibraryRoutine, looped: bool) -> bool:
    """Whether a library call is faster than the kernel that would include its expansion; `looped`: in the body of a
    loop. The answer follows from the shapes alone."""
    if call.routine in _DIRECT and max(i.operands[0].shape.dimensions[-2:]) <= WRITTEN_OUT:
        return False
    if not looped:
        return True
    if is_batched(i, call) and batch(i) >= _BATCHED_IN_LOOP:
        return True
    rows = max(i.operands[0].shape.dimensions[-2:])
    return call.routine not in _DIRECT or rows > (_SMALL if batch(i) == 1 else _SMALL_OF_BATCH)


_BATCHED = ("potrf", "trsm", "getrf", "geqrf", "orgqr", "syevd")
_BATCHED_ROWS, _BATCHED_MATRICES = 16, 4


def is_batched(i: Instruction, call: LibraryRoutine) -> bool:
    """Whether several matrices of a call are computed at once: at least 4, real, of at most 16 rows and columns."""
    return (
        call.routine in _BATCHED
        and not i.operands[0].shape.element_type.is_complex
        and max(call.sizes) <= _BATCHED_ROWS
        and batch(i) >= _BATCHED_MATRICES
    )


def routine_name(i: Instruction, call: LibraryRoutine) -> str:
    """LAPACK's name of the routine: its letter and, for complex matrices, the word for unitary and Hermitian ones. That
    of a routine for several matrices at once ends in _batched."""
    kind = LETTERS[i.operands[0].shape.element_type.name]
    name = call.routine
    if kind in "cz":
        name = {"orgqr": "ungqr", "syevd": "heevd", "sytrd": "hetrd"}.get(name, name)
    return kind + name + ("_batched" if is_batched(i, call) else "")


def batch(i: Instruction) -> int:
    """The number of matrices that an instruction computed by a library call has."""
    return prod(max((o.shape.dimensions for o in i.operands), key=len)[:-2])


def _scale(s: Shape) -> float:
    """The operations on real numbers in one operation on elements."""
    return 4.0 if s.element_type.is_complex else 1.0


def _matrix(s: Shape) -> tuple[int, int]:
    return s.dimensions[-2], s.dimensions[-1]


def _cholesky(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    lower = i.lower if i.opcode == "cholesky" else letter(i, "uplo", "L") == "L"
    n = shapes[0].dimensions[-1]
    zeros = "Z" if i.opcode == "cholesky" else ""
    return LibraryRoutine("potrf", (n, n, n), ("U" if lower else "L") + zeros, _scale(shapes[0]) * n**3 / 3, 2)


def _triangular_solve(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    attributes = i.attributes if i.opcode == "triangular-solve" else triangular_solve_attributes(i)
    values = {"left_side": False, "lower": False, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE", **attributes}
    (k, _), (m, n) = map(_matrix, shapes)
    side, triangle = "R" if values["left_side"] else "L", "U" if values["lower"] else "L"
    flags = side + triangle + values["transpose_a"][0].replace("A", "C") + ("U" if values["unit_diagonal"] else "N")
    return LibraryRoutine("trsm", (m, n, k), flags, _scale(shapes[0]) * k * m * n, 1)


def _lu(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    m, n = _matrix(shapes[0])
    flags = "P" if i.custom_call_target == "LuDecomposition" else ""
    return LibraryRoutine("getrf", (m, n, 0), flags, _scale(shapes[0]) * m * n * min(m, n), 3)


def _qr(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    m, n = _matrix(shapes[0])
    return LibraryRoutine("geqrf", (m, n, 0), "", _scale(shapes[0]) * 2 * m * n * min(m, n), 2)


def _pivoted_qr(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    m, n = _matrix(shapes[0])
    return LibraryRoutine("geqp3", (m, n, 0), "", _scale(shapes[0]) * 2 * m * n * min(m, n), 3)


def _reflectors(i: Instruction, shapes: list[Shape]) -> LibraryRoutine | None:
    (m, n), k = _matrix(shapes[0]), shapes[1].dimensions[-1]
    if not m >= n >= k:
        return None
    return LibraryRoutine("orgqr", (m, n, k), "", _scale(shapes[0]) * 2 * m * n * k, 1)


def _hermitian_eigen(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    n = shapes[0].dimensions[-1]
    if i.custom_call_target == "Eigh":
        mode, lower = "V", (i.backend_config or "1").strip('"').split(",")[0].strip() != "0"
    else:
        mode, lower = letter(i, "mode", "V"), letter(i, "uplo", "L") == "L"
    return LibraryRoutine("syevd", (n, n, n), mode + ("L" if lower else "U"), _scale(shapes[0]) * 9 * n**3, 3)


def _singular_values(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    m, n = _matrix(shapes[0])
    return LibraryRoutine("gesdd", (m, n, 0), letter(i, "mode", "A"), _scale(shapes[0]) * 12 * m * n * min(m, n), 5)


def _eigen(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    n = shapes[0].dimensions[-1]
    flags = letter(i, "compute_left", "N") + letter(i, "compute_right", "V")
    return LibraryRoutine("geev", (n, n, n), flags, _scale(shapes[0]) * 100 * n**3, len(i.shape.elements))


def _schur(i: Instruction, shapes: list[Shape]) -> LibraryRoutine | None:
    if letter(i, "sort", "N") != "N":
        return None
    n = shapes[0].dimensions[-1]
    flags = letter(i, "mode", "V")
    return LibraryRoutine("gees", (n, n, n), flags, _scale(shapes[0]) * 80 * n**3, len(i.shape.elements))


def _hessenberg(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    n = shapes[0].dimensions[-1]
    bounds = options(i, low=1, high=n)
    low, high = int(bounds["low"]), int(bounds["high"])
    return LibraryRoutine("gehrd", (low, n, high), "", _scale(shapes[0]) * 10 / 3 * n**3, 3)


def _tridiagonal(i: Instruction, shapes: list[Shape]) -> LibraryRoutine | None:
    if chr(int(options(i, uplo=ord("L"))["uplo"])) != "L":
        return None
    n = shapes[0].dimensions[-1]
    return LibraryRoutine("sytrd", (n, n, n), "L", _scale(shapes[0]) * 4 / 3 * n**3, 5)


def _tridiagonal_solve(i: Instruction, shapes: list[Shape]) -> LibraryRoutine:
    n, columns = _matrix(shapes[3])
    return LibraryRoutine("gtsv", (columns, n, 0), "", _scale(shapes[0]) * 10 * n * columns, 5)


def work(i: Instruction) -> int:
    """The arithmetic of an instruction that is computed by a library call."""
    call = library_call(i)
    return 0 if call is None else int(call.operations * batch(i))


_Make = Callable[[Instruction, "list[Shape]"], "LibraryRoutine | None"]
_BY_ROUTINE: dict[str, _Make] = {
    "potrf": _cholesky, "trsm": _triangular_solve, "getrf": _lu, "geqrf": _qr, "geqp3": _pivoted_qr,
    "orgqr": _reflectors, "ungqr": _reflectors, "syevd": _hermitian_eigen, "heevd": _hermitian_eigen,
    "gesdd": _singular_values, "gesvd": _singular_values, "geev": _eigen, "gees": _schur, "gehrd": _hessenberg,
    "sytrd": _tridiagonal, "hetrd": _tridiagonal, "gtsv": _tridiagonal_solve,
}  # fmt: skip
_CALLS: dict[str, _Make] = {
    **{f"lapack_{kind}{routine}_ffi": maker for routine, maker in _BY_ROUTINE.items() for kind in LETTERS.values()},
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "Eigh": _hermitian_eigen,
    "LuDecomposition": _lu,
    "ProductOfElementaryHouseholderReflectors": _reflectors,
    "Qr": _qr,
}

NAMES = frozenset(_CALLS)  # operations that a library may compute: opcodes, and targets of custom calls
