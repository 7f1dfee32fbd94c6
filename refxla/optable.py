"""One row for each operation that the compiler knows: how the scheduler and the passes may treat it.

The meaning of an operation stands in `spec/ops/`; here stands only what making it fast needs. An opcode without a row
is one that the compiler cannot run (`row` raises UnsupportedError).
"""

from __future__ import annotations

from dataclasses import dataclass

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

# Classes of operations.
SOURCE = "source"  # a value with no operands that is in memory: parameter, constant
ELEMENTWISE = "elementwise"  # element i of the result is a function of elements i of the operands
MOVEMENT = "movement"  # each element of the result is an element of an operand, or computed from its index
HERO = "hero"  # needs an emitter of its own, named by `kind`
CONTROL = "control"  # runs other computations: while, conditional
STRUCTURE = "structure"  # makes or opens tuples, orders: no work at all


@dataclass(frozen=True)
class Row:
    """What the compiler knows about one operation.

    `flops`: rough cost of one element of the result in units of one vectorised addition (of a hero: of one combined
    element). `commutative`, `associative`: of the exact operation on integers and pred; for floats associativity does
    not hold and is never used. `kind`: the emitter of a hero (plan.Fusion.kind). `fuses_operands`: whether its emitter
    evaluates producers element by element; `fuses_users`: whether its result can feed elementwise users in
    the same kernel.
    """

    opcode: str
    group: str
    flops: float = 1.0
    commutative: bool = False
    associative: bool = False
    kind: str = ""
    fuses_operands: bool = False
    fuses_users: bool = False


def _rows() -> dict[str, Row]:
    rows = [Row(o, SOURCE, 0) for o in ("parameter", "constant")]
    rows += [Row(o, STRUCTURE, 0) for o in ("tuple", "get-tuple-element", "after-all", "add-dependency")]
    rows += [Row(o, CONTROL, 0) for o in ("while", "conditional")]

    rows += [Row(o, ELEMENTWISE, 1, True, True) for o in ("add", "multiply", "and", "or", "xor", "maximum", "minimum")]
    cheap = "abs ceil clamp compare complex convert copy floor imag is-finite negate not real select subtract sign"
    rows += [Row(o, ELEMENTWISE, 1) for o in cheap.split()]
    shifts = (
        "shift-left shift-right-arithmetic shift-right-logical round-nearest-afz round-nearest-even bitcast-convert"
    )
    rows += [Row(o, ELEMENTWISE, 2) for o in shifts.split()]
    rows += [Row(o, ELEMENTWISE, 4) for o in ("popcnt", "count-leading-zeros", "mulhi", "reduce-precision")]
    rows += [Row(o, ELEMENTWISE, 6) for o in ("divide", "sqrt", "rsqrt", "remainder")]
    rows += [Row(o, ELEMENTWISE, 14) for o in ("exponential", "log", "logistic", "tanh")]
    elementary = (
        "acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential-minus-one log-plus-one sine sinh tan"
    )
    rows += [Row(o, ELEMENTWISE, 24) for o in elementary.split()]
    rows += [Row("power", ELEMENTWISE, 40)]

    movement = "broadcast reshape transpose slice reverse pad concatenate dynamic-slice iota"
    rows += [Row(o, MOVEMENT, 0.5) for o in movement.split()]
    rows += [Row("gather", MOVEMENT, 2), Row("dynamic-update-slice", MOVEMENT, 2)]

    rows += [
        Row("reduce", HERO, 1, kind="reduction", fuses_operands=True, fuses_users=True),
        Row("dot", HERO, 1, kind="dot", fuses_operands=True, fuses_users=True),
        Row("convolution", HERO, 1, kind="convolution", fuses_operands=True, fuses_users=True),
        Row("reduce-window", HERO, 1, kind="reduce-window", fuses_operands=True, fuses_users=True),
        Row("select-and-scatter", HERO, 2, kind="select-and-scatter"),
        Row("scatter", HERO, 2, kind="scatter"),
        Row("sort", HERO, 20, kind="sort"),
    ]
    return {r.opcode: r for r in rows}


ROWS: dict[str, Row] = _rows()


def row(instruction: Instruction) -> Row:
    """The row of an instruction's operation; UnsupportedError, naming it, if the compiler has none."""
    try:
        return ROWS[instruction.opcode]
    except KeyError:
        raise UnsupportedError(
            f"{instruction.name}: the compiler has no emitter for {instruction.opcode} (result {instruction.shape}); "
            "run it on the reference with device='reference', or rewrite the program without it"
        ) from None
