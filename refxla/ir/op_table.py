"""One row for each operation that the compiler supports: how the scheduler and the passes may treat it.

`spec/ops/` defines what an operation means; this table has only the data needed to compile it. The compiler cannot run
an opcode without a row (`row` raises UnsupportedError).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.vectorize import COMMUTATIVE

from .library_calls import library_call
from .library_calls import work as library_work

# Classes of operations.
SOURCE = "source"  # a value with no operands that is in memory: parameter, constant
ELEMENTWISE = "elementwise"  # element i of the result is a function of elements i of the operands
MOVEMENT = "movement"  # each element of the result is an element of an operand, or computed from its index
HERO = "hero"  # needs an emitter of its own, named by `kind`
CONTROL = "control"  # runs other computations, or functions of the host: while, conditional, custom-call
STRUCTURE = "structure"  # makes or opens tuples, orders: no work at all

# How a hero's emitter reads an operand.
ANY_INDEX = "any index"  # as an elementwise operation may: at an index that it computes
WHOLE = "whole"  # every element once
WINDOWED = "windowed"  # some elements for each element of the result
PACKED = "packed"  # element by element, while it is copied into panels
UPDATE = "update"  # every element once, while it is written over another operand
IN_MEMORY = "in memory"  # it must be in memory before the kernel starts

LONG_ROW = 1 << 16  # elements of a row that is sorted in chunks, at least


def _in_memory(i: Instruction, number: int) -> str:
    return IN_MEMORY


def _elements(i: Instruction) -> int:
    """One operation for each element of the (first) result."""
    shape = i.shape if i.shape.is_array or not i.shape.elements else i.shape.elements[0]
    return shape.size if shape.is_array else 0


def _never(i: Instruction) -> int:
    return 0


@dataclass(frozen=True)
class Row:
    """What the compiler knows about one operation."""

    opcode: str
    op_class: str  # one of the classes above

    # Arithmetic. `flops` is the approximate cost of one element of the result, in vectorized additions of f32 (for a
    # hero: of one combined element); `flops_of` has that for an instruction's type. `work(instruction)` counts the
    # elements that are computed, or the terms that are combined.
    flops: float = 1.0
    commutative: bool = False  # for exact operations on integers and pred
    associative: bool = False  # likewise; it does not hold for floats, and is never used for them
    work: Callable[[Instruction], int] = _elements
    costly: bool = False  # an element takes long to recompute
    invariant: bool = False  # worth hoisting out of a loop, whatever its cost for one element

    # Shapes. `shape` names the family of shape rules of an elementwise operation: "unary" and "binary" give the
    # operand's type and dimensions, "test" gives pred, "component" the type of the parts of a complex number; "" is a
    # separate rule in _core/shapes.pyx. `takes` are the kinds of element types that operations of a family accept.
    shape: str = ""
    takes: str = ""

    # Fusion. `access(instruction, number)` says how the emitter reads that operand: one of the accesses above.
    kind: str = ""  # the emitter of a hero (plan.Fusion.kind)
    fuses_operands: bool = False  # a hero's emitter evaluates producers element by element
    fuses_users: bool = False  # a hero's result can feed elementwise users in the same kernel
    access: Callable[[Instruction, int], str] = _in_memory
    # How many of the first operands it overwrites if nothing else reads them:
    in_place: Callable[[Instruction], int] = _never
    tileable: bool = False  # its fusions can be parts of a tiled fusion

    # Emitters, as modules of `codegen`.
    emitter: str = ""  # "": a loop kernel computes it
    gpu_emitter: str = ""  # "": the same on GPUs
    by_element: bool = False  # a loop kernel can also compute a hero's elements one by one
    tunable: bool = False  # its tiles and blocks can be chosen by measurement

    # Cheaper forms. `has_below`: there is rx_<opcode>_below_<type> in the prelude, for operands that are not above 0
    # (analysis/sign_analysis.py). `in_pieces`: there is one of real numbers for moderate operands, which a CPU selects
    # for many elements at once (codegen/loops/fast_path_math.py); `complex_in_pieces`: the same for complex numbers.
    # `constant_role`: there is one for a constant operand, which plays this role. For an integer operation, it is a
    # "divisor", "modulus", "shift" or "factor": C's operator is used where it is defined for that constant. For floats,
    # it is a "modulus", for which the remainder may need no loop; a "bound" of a maximum or minimum, or "bounds" of a
    # clamp, which is then one selection; a "threshold" of a comparison; the "abscissa" of an arctangent.
    has_below: bool = False
    in_pieces: bool = False
    complex_in_pieces: bool = False
    constant_role: str = ""

    # Narrow formats, in which elementwise operations are computed in f32 and rounded once. `keeps_format`: a result in
    # f16 or bf16 needs no rounding, because it is one of the operands, or a value of the format in any case. (Where a
    # number of f16 or bf16 is no integer, the integers next to it are at most 2^10 or 2^7. The f8 types may overflow,
    # or have no -0.) `quiets_nans`: a result in f16 is rounded, so that its NaNs are quiet. `nonzero`: no result of
    # positive numbers is zero, except by underflow of f32, for the type that has no zero.
    keeps_format: bool = False
    quiets_nans: bool = False
    nonzero: bool = False


# The equivalent direction of a comparison with its operands exchanged.
MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}

# Kinds of element types.
INTEGER, LOGIC = "signed unsigned", "pred signed unsigned"
REAL, FIELD = "float", "float complex"
NUMBER, ANY = "signed unsigned float complex", "pred signed unsigned float complex"

# Elementwise operations: family of shapes, flops, what they take, opcodes.
_ELEMENTWISE = (
    ("binary", 1, ANY, "add multiply maximum minimum"),
    ("binary", 1, LOGIC, "and or xor"),
    ("unary", 1, NUMBER, "negate"),
    ("unary", 1, "signed " + FIELD, "sign"),
    ("component", 1, "signed " + FIELD, "abs"),
    ("component", 1, FIELD, "real imag"),
    ("unary", 1, LOGIC, "not"),
    ("unary", 1, REAL, "ceil floor"),
    ("unary", 2, REAL, "round-nearest-afz round-nearest-even"),
    ("test", 1, REAL, "is-finite"),
    ("unary", 4, INTEGER, "popcnt count-leading-zeros"),
    ("unary", 6, FIELD, "sqrt rsqrt"),
    ("unary", 14, FIELD, "exp2 exponential log log2 logistic tanh"),
    ("unary", 24, FIELD, "cosh cosine exponential-minus-one log-plus-one sine sinh tan"),
    ("unary", 48, FIELD, "acos asin"),
    ("unary", 90, FIELD, "acosh asinh atanh"),
    ("unary", 24, REAL, "erf"),
    ("unary", 48, REAL, "cbrt"),
    ("binary", 1, NUMBER, "subtract"),
    ("binary", 2, INTEGER, "shift-left shift-right-arithmetic shift-right-logical"),
    ("binary", 4, INTEGER, "mulhi"),
    ("binary", 6, NUMBER, "divide"),
    ("binary", 24, INTEGER + " " + REAL, "remainder"),
    ("binary", 24, FIELD, "atan2"),
    ("binary", 160, NUMBER, "power"),
    ("", 1, "", "clamp compare complex convert copy select"),
    ("", 2, "", "bitcast-convert"),
    ("", 4, "", "reduce-precision"),
)
# The time of an element relative to f32: for simple operations, and for functions.
_TIMES_F32 = {"f64": (2, 3), "s64": (2, 2), "u64": (2, 2), "c64": (2, 12), "c128": (4, 30)}
_HAS_BELOW = {"exponential"}
_IN_PIECES = {"cosine", "sine", "tan"}
_COMPLEX_IN_PIECES = _IN_PIECES | {
    "abs", "cosh", "divide", "exponential", "exponential-minus-one", "power", "sinh", "tanh",
}  # fmt: skip
MOST_IN_PIECES = 8  # functions in one kernel, each of which needs arrays that stay in the innermost cache
_CONSTANT_ROLES = {
    "divide": "divisor", "remainder": "modulus", "multiply": "factor", "shift-left": "shift",
    "shift-right-logical": "shift", "shift-right-arithmetic": "shift", "maximum": "bound", "minimum": "bound",
    "clamp": "bounds", "compare": "threshold", "atan2": "abscissa",
}  # fmt: skip
_KEEPS_FORMAT = {
    "abs", "negate", "maximum", "minimum", "clamp", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz",
    "remainder",
}  # fmt: skip
_QUIETS_NANS = {
    "add", "subtract", "multiply", "divide", "power", "sqrt", "rsqrt", "exponential", "exponential-minus-one", "log",
    "log-plus-one", "logistic", "tanh", "erf", "sine", "cosine", "tan",
}  # fmt: skip
_NONZERO = {"multiply", "divide", "power", "atan2"}


def _first_half(access: str) -> Callable[[Instruction, int], str]:
    """The operand access of operations that take some values and then as many initial values: `access` for the values,
    any index for the others."""
    return lambda i, number: access if number < len(i.operands) // 2 else ANY_INDEX


def _packed(i: Instruction, number: int) -> str:
    return PACKED


def _updating(i: Instruction, number: int) -> str:
    """The operand access of a dynamic-update-slice, whose operands are (operand, update, start indices ...)."""
    if number == 0 or _reads_elsewhere(i, i.operands[number]):
        return IN_MEMORY
    return UPDATE if number == 1 else ANY_INDEX


# bytes of an array that should not be copied for a kernel that reads all over the array that it updates
_LEAST_COPY = 4096
_LOOKED_AT = 64  # instructions examined


def _reads_elsewhere(i: Instruction, value: Instruction) -> bool:
    """Whether a value is computed from elements of an array other than those that a dynamic-update-slice overwrites.
    One kernel for both would need a copy of the array, so a small value is computed before."""
    array, update, *starts = i.operands
    if array.shape.bytes < _LEAST_COPY or array.shape.size <= 2 * update.shape.size:
        return False
    cone, seen = [value], {value}
    while cone and len(seen) <= _LOOKED_AT:
        x = cone.pop()
        if class_of(x) not in (ELEMENTWISE, MOVEMENT):
            continue
        if array in x.operands and not is_slice_at(x, update, starts):
            return True
        cone += [o for o in x.operands if o not in seen]
        seen.update(x.operands)
    return False


def is_slice_at(i: Instruction, update: Instruction, starts: Sequence[Instruction]) -> bool:
    """Whether an instruction is a dynamic-slice of the elements that an update with these start indices overwrites."""
    alike = i.opcode == "dynamic-slice" and i.shape.dimensions == update.shape.dimensions
    return alike and all(map(_same, i.operands[1:], starts))


def _same(a: Instruction, b: Instruction) -> bool:
    return a is b or a.opcode == b.opcode == "constant" and a.literal == b.literal


_CONE = 12  # instructions of a cone that is evaluated instead of a load


def _sorting(i: Instruction, number: int) -> str:
    """The operand access of a sort, which reads its operands more than once: what counts their elements, as that of an
    argsort does, is not read. The passes over a long row have functions in common, all of which read memory."""
    x = i.operands[number]
    if x.shape.dimensions[i.dimensions[0]] >= LONG_ROW:
        return IN_MEMORY
    while x.opcode == "broadcast":
        x = x.operands[0]
    return WHOLE if x.opcode == "iota" else IN_MEMORY


def _scattering(i: Instruction, number: int) -> str:
    """The operand access of a scatter, whose operands are (operands ..., indices, updates ...). A single item does most
    of the work of a scatter, so it evaluates only values that are cheaper than a load; all cores compute the others
    before it."""
    if number < len(i.operands) // 2:
        return IN_MEMORY
    cone, count = [i.operands[number]], 0
    while cone:
        x = cone.pop()
        op_class = class_of(x)
        if op_class not in (ELEMENTWISE, MOVEMENT):
            continue
        count += 1
        cheap = x.opcode in ("broadcast", "reshape", "iota") or (op_class == ELEMENTWISE and ROWS[x.opcode].flops <= 1)
        if not cheap or count > _CONE:
            return IN_MEMORY
        cone += x.operands
    return ANY_INDEX


def _operand_elements(i: Instruction) -> int:
    return i.operands[0].shape.size


def _update_elements(i: Instruction) -> int:
    return i.operands[-1].shape.size


def _dot_work(i: Instruction) -> int:
    """A multiplication and an addition for each term."""
    terms: int = prod(i.operands[0].shape.dimensions[d] for d in i.lhs_contracting_dims)
    return 2 * i.shape.size * terms


def _convolution_work(i: Instruction) -> int:
    kernel = i.operands[1].shape
    features: int = kernel.dimensions[i.dim_labels.kernel_output_feature]
    return 2 * i.shape.size * kernel.size // max(1, features)


def _fft_work(i: Instruction) -> int:
    """Five for each element and factor of two of the length."""
    whole: int = max(i.shape.size, i.operands[0].shape.size)
    length: int = prod(i.fft_length)
    return 5 * whole * (length - 1).bit_length()


def _window_work(i: Instruction) -> int:
    window: int = prod(w.size for w in i.window)
    return _elements(i) * window


def _hero(opcode: str, flops: float, emitter: str, kind: str = "", **knowledge: Any) -> Row:
    return Row(opcode, HERO, flops, kind=kind or opcode, emitter=emitter, **knowledge)


def _library(opcode: str) -> Row:
    return _hero(opcode, 1, "", kind="library-call", work=library_work)


def _rows() -> dict[str, Row]:
    rows = [Row(o, SOURCE, 0) for o in ("parameter", "constant")]
    rows += [Row(o, STRUCTURE, 0) for o in ("tuple", "get-tuple-element", "after-all", "add-dependency")]
    rows += [Row(o, CONTROL, 0) for o in ("while", "conditional", "custom-call")]

    for shape, flops, takes, opcodes in _ELEMENTWISE:
        rows += [
            Row(
                o,
                ELEMENTWISE,
                flops,
                commutative=o in COMMUTATIVE,
                associative=o in COMMUTATIVE,
                shape=shape,
                takes=takes,
                has_below=o in _HAS_BELOW,
                in_pieces=o in _IN_PIECES,
                complex_in_pieces=o in _COMPLEX_IN_PIECES,
                constant_role=_CONSTANT_ROLES.get(o, ""),
                keeps_format=o in _KEEPS_FORMAT,
                quiets_nans=o in _QUIETS_NANS,
                nonzero=o in _NONZERO,
            )
            for o in opcodes.split()
        ]

    movement = "broadcast reshape slice reverse pad concatenate dynamic-slice iota"
    rows += [Row(o, MOVEMENT, 0.5) for o in movement.split()]
    rows += [Row("transpose", MOVEMENT, 0.5, invariant=True)]
    rows += [
        Row("gather", MOVEMENT, 2, costly=True),
        Row("dynamic-update-slice", MOVEMENT, 2, access=_updating, in_place=lambda i: 1),
    ]
    fuses: dict[str, Any] = {"fuses_operands": True, "fuses_users": True, "invariant": True}
    windows: dict[str, Any] = {**fuses, "by_element": True, "costly": True}
    product: dict[str, Any] = {**windows, "access": _packed, "tunable": True}
    rows += [
        _hero(
            "reduce",
            1,
            "reductions.reduction",
            kind="reduction",
            gpu_emitter="gpu.reduction",
            access=_first_half(WHOLE),
            work=_operand_elements,
            **fuses,
        ),
        _hero("dot", 1, "products.dot", gpu_emitter="gpu.dot", work=_dot_work, tileable=True, **product),
        _hero(
            "convolution",
            1,
            "products.convolution",
            gpu_emitter="gpu.convolution",
            work=_convolution_work,
            **product,
        ),
        _hero(
            "reduce-window",
            1,
            "windows.reduce_window",
            gpu_emitter="gpu.reduce_window",
            access=_first_half(WINDOWED),
            work=_window_work,
            by_element=True,
            **fuses,
        ),
        _hero(
            "select-and-scatter",
            2,
            "windows.select_and_scatter",
            gpu_emitter="gpu.select_and_scatter",
            work=_operand_elements,
            by_element=True,
        ),
        _hero(
            "scatter",
            20,  # elements go anywhere, one after the other
            "scatter",
            gpu_emitter="gpu.scatter",
            fuses_operands=True,
            access=_scattering,
            work=_update_elements,
            in_place=lambda i: len(i.operands) // 2,
        ),
        _hero("sort", 20, "sort", gpu_emitter="gpu.sort", fuses_operands=True, access=_sorting, work=_operand_elements),
        _hero("fft", 3, "fft.fft", gpu_emitter="gpu.fft", work=_fft_work, invariant=True),
    ]
    rows += [_library(o) for o in ("cholesky", "triangular-solve")]  # if they are not expanded
    return {r.opcode: r for r in rows}


ROWS: dict[str, Row] = _rows()
# Elementwise operations without a processor instruction: each evaluates polynomials, with their constants.
FUNCTIONS = frozenset(o for o, r in ROWS.items() if r.op_class == ELEMENTWISE and r.flops > ROWS["sqrt"].flops)
_LIBRARY_CUSTOM_CALL = _library("custom-call")


def class_of(instruction: Instruction) -> str:
    """The class of an instruction's operation; "" if the compiler has no row for it."""
    known = ROWS.get(instruction.opcode)
    return "" if known is None else known.op_class


def flops_of(instruction: Instruction) -> float:
    """The flops of an element of an instruction's result, as measured for its type; those of heroes do not depend on
    it."""
    known = row(instruction)
    if known.op_class != ELEMENTWISE:
        return known.flops
    shape = instruction.operands[0].shape if instruction.operands else instruction.shape
    simple, function = _TIMES_F32.get(shape.element_type.name, (1, 1))
    return known.flops * (function if known.flops >= ROWS["sqrt"].flops else simple)


def overwritten(instruction: Instruction) -> int:
    """How many of its first operands an instruction overwrites in place."""
    return ROWS[instruction.opcode].in_place(instruction) if instruction.opcode in ROWS else 0


def row(instruction: Instruction) -> Row:
    """The row of an instruction's operation; UnsupportedError, naming it, if the compiler has none."""
    if instruction.opcode == "custom-call" and library_call(instruction) is not None:
        return _LIBRARY_CUSTOM_CALL
    try:
        return ROWS[instruction.opcode]
    except KeyError:
        raise UnsupportedError(
            f"{instruction.name}: the compiler has no emitter for {instruction.opcode} (result {instruction.shape}); "
            "run it on the reference with device='reference', or rewrite the program without it"
        ) from None
