"""One row for each operation that the compiler supports: how the scheduler and the passes may treat it.

`spec/ops/` defines what an operation means; this table has only what compiling it needs. The compiler cannot run an
opcode without a row (`row` raises UnsupportedError).
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

    `shape` names the family of shape rules of an elementwise operation: "unary" and "binary" give the operand's
    type and dimensions, "test" gives pred, "component" the type of the parts of a complex number; "" is a rule of its
    own, in _core/shapes.pyx. `takes` are the kinds of element types that such a family's operation takes.
    """

    opcode: str
    group: str
    flops: float = 1.0
    commutative: bool = False
    associative: bool = False
    kind: str = ""
    fuses_operands: bool = False
    fuses_users: bool = False
    shape: str = ""
    takes: str = ""


# Kinds of element types.
INTEGER, LOGIC = "signed unsigned", "pred signed unsigned"
REAL, FIELD = "float", "float complex"
NUMBER, ANY = "signed unsigned float complex", "pred signed unsigned float complex"

# Elementwise operations: family of shapes, flops, what they take, opcodes.
_ELEMENTWISE = (
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
    ("unary", 14, FIELD, "exponential log logistic tanh"),
    ("unary", 24, FIELD, "acos acosh asin asinh atanh cosh cosine exponential-minus-one log-plus-one sine sinh tan"),
    ("unary", 24, REAL, "cbrt erf"),
    ("binary", 1, NUMBER, "subtract"),
    ("binary", 2, INTEGER, "shift-left shift-right-arithmetic shift-right-logical"),
    ("binary", 4, INTEGER, "mulhi"),
    ("binary", 6, NUMBER, "divide"),
    ("binary", 6, INTEGER + " " + REAL, "remainder"),
    ("binary", 24, FIELD, "atan2"),
    ("binary", 40, NUMBER, "power"),
    ("", 1, "", "clamp compare complex convert copy select"),
    ("", 2, "", "bitcast-convert"),
    ("", 4, "", "reduce-precision"),
)
_COMMUTATIVE = ((ANY, "add multiply maximum minimum"), (LOGIC, "and or xor"))


def _rows() -> dict[str, Row]:
    rows = [Row(o, SOURCE, 0) for o in ("parameter", "constant")]
    rows += [Row(o, STRUCTURE, 0) for o in ("tuple", "get-tuple-element", "after-all", "add-dependency")]
    rows += [Row(o, CONTROL, 0) for o in ("while", "conditional")]

    for takes, opcodes in _COMMUTATIVE:
        rows += [Row(o, ELEMENTWISE, 1, True, True, shape="binary", takes=takes) for o in opcodes.split()]
    for shape, flops, takes, opcodes in _ELEMENTWISE:
        rows += [Row(o, ELEMENTWISE, flops, shape=shape, takes=takes) for o in opcodes.split()]

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
