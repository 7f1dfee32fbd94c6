"""Functions that are cheap for moderate operands and dear for large ones: sine, cosine and tangent.

A loop over many elements is vectorised, and a vector computes both ways. So an innermost loop goes in pieces: the
operands of such a function are computed into an array, with whether one of them is large; then the function of all
of them, the cheap way if none is; then what reads it. Both ways have the same bits for a moderate operand.

    for (int i ...) { x[i - b] = <the operand>; large |= |x[i - b]| > limit; }
    fast_sine_f32(x, count, large);
    for (int i ...) <store what is computed of x[i - b]>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refxla_spec.module import Instruction

from ...analysis.access_patterns import FunctionCall
from ...analysis.index_expression import Index
from .. import prelude, scalar
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter, type_name
from ..index_printer import c_of

PIECE = 256  # elements of a piece: its arrays stay in the innermost cache
FROM = 32  # elements of a loop from which on it goes in pieces
MAX_FUNCTIONS = 8  # functions with an array


def applies(instruction: Instruction) -> bool:
    """Whether the operation of an array instruction has such a form."""
    return scalar.has_fast_path(instruction.opcode, type_name(instruction))


def pieces(calls: Sequence[FunctionCall], loop: str) -> list[FunctionCall]:
    """The calls that are worth an array in a loop over the variable `loop`: in an order in which they can be made."""
    by_element: dict[tuple[Instruction, tuple[Index, ...]], FunctionCall] = {}
    for call in calls:
        used = set().union(*(x.variables for x in call.indices)) if call.indices else set()
        if not call.conditional and loop in used:
            by_element.setdefault((call.instruction, call.indices), call)
    return list(by_element.values())[:MAX_FUNCTIONS]


def helper(instruction: Instruction) -> str:
    """The C function that computes the function of all elements of an array in place, one of which may be `large`."""
    name, block = type_name(instruction), Block()
    c_type = scalar.register_type(name)
    text = scalar.expression(instruction.opcode, (name,), name, ("x[i]",))
    with block.scope(f"void {_head(instruction)}{c_type}* const x, const int count, const int large)"):
        with block.scope("if (large)"), block.scope("for (int i = 0; i < count; ++i)"):
            block.line(f"x[i] = {text};")
        with block.scope("else"), block.scope("for (int i = 0; i < count; ++i)"):
            block.line(f"x[i] = {scalar.fast_path(instruction.opcode, name, 'x[i]')};")
    return block.text()


def _head(instruction: Instruction) -> str:
    """How the function is called, up to its arguments."""
    return f"fast_{instruction.opcode}_{type_name(instruction)}("


def emit_pieces(
    e: ElementalIrEmitter,
    block: Block,
    bounds: tuple[str, str, str],
    index: Callable[[str], Index],
    functions: Sequence[Instruction],
    calls: Callable[[Index], Sequence[FunctionCall]],
    body: Callable[[Index], None],
) -> None:
    """The loop over an index from the first to the last of `bounds`, (C type, first, last), in pieces.

    `index` makes an index of a variable's name, `calls` gives the calls at an index, one for each of `functions`,
    `body` emits what is computed.
    """
    (c_type, first, last), fresh = bounds, e.names.fresh
    start, end, count = fresh("b"), fresh("e"), fresh("n")
    arrays = [fresh("x") for _ in functions]

    def bind(count: int, at: Index) -> None:
        for call, array in list(zip(calls(at), arrays, strict=True))[:count]:
            e.bind(call.instruction, call.indices, f"{array}[{c_of(at)} - {start}]")

    for function, array in zip(functions, arrays, strict=True):
        block.line(f"{scalar.register_type(type_name(function))} {array}[{PIECE}] __attribute__((aligned(64)));")
    with block.scope(f"for ({c_type} {start} = {first}; {start} < {last}; {start} += {PIECE})"):
        block.line(f"const {c_type} {end} = {start} + {PIECE} < {last} ? {start} + {PIECE} : {last};")
        block.line(f"const int {count} = (int)({end} - {start});")
        for n, array in enumerate(arrays):
            name, large = fresh("i"), fresh("large")
            block.line(f"int {large} = 0;")
            with block.scope(f"for ({c_type} {name} = {start}; {name} < {end}; ++{name})"):
                at = index(name)
                bind(n, at)
                call = calls(at)[n]
                value = e.value(call.instruction.operands[0], call.indices, block)
                real = "f64" if type_name(call.instruction) == "f64" else "f32"
                limit = prelude.constant(real, "trig_limit")
                block.line(f"{array}[{name} - {start}] = {value};")
                block.line(f"{large} |= RX_FABS_{real.upper()}({value}) > {limit};")
            e.fast_paths.add(functions[n])
            block.line(f"{_head(functions[n])}{array}, {count}, {large});")
        name = fresh("i")
        with block.scope(f"for ({c_type} {name} = {start}; {name} < {end}; ++{name})"):
            bind(len(arrays), index(name))
            body(index(name))
