"""Functions that are cheap for moderate operands and expensive for others: sine, cosine and tangent of large numbers,
and the absolute value and quotient of complex numbers, whose parts are scaled so that no square overflows or
underflows.

A vectorized loop would compute both paths for every element. So an innermost loop runs in pieces: first the operands of
such a function are computed into arrays, along with whether one of them is not moderate; then the function of all of
them, by the fast path if all are moderate; then its users. Both paths have the same bits for moderate operands. (Sine,
cosine and tangent in f32 have a third path, for angles that are larger but not very large; those of very large ones
are then computed one by one, as vectors of them would take half of the compile time of many programs.)

    for (int i ...) { x[i - b] = <the operand>; others |= rx_shifted_sine_beyond_fast_f32(x[i - b]); }
    fast_shifted_sine_f32(x, y, count, others, 0);
    for (int i ...) <store what is computed of y[i - b]>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

from refxla_spec.module import Instruction

from ...analysis.access_patterns import FunctionCall
from ...analysis.index_expression import Index
from ...analysis.index_maps import elementwise_operand
from ...ir.op_table import MOST_IN_PIECES
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of

PIECE = 256  # elements of a piece: its arrays stay in the innermost cache
FROM = 32  # elements of a loop, from which on it runs in pieces
PARAMETER = "parameter"  # of a function that serves several operations (scalar.fast_family), in C


def applies(instruction: Instruction) -> bool:
    """Whether the operation of an array instruction has a fast path."""
    return bool(instruction.operands) and scalar.has_fast_path(instruction.opcode, _operand_type(instruction))


def _operand_type(instruction: Instruction) -> str:
    return type_name(instruction.operands[0])


def pieces(calls: Sequence[FunctionCall], at: Index) -> list[FunctionCall]:
    """The calls of such functions that are worth an array in a loop over the index `at`, in an order that respects
    their dependences."""
    by_element: dict[tuple[Instruction, tuple[Index, ...]], FunctionCall] = {}
    for call in calls:
        used = set().union(*(x.variables for x in call.indices)) if call.indices else set()
        if applies(call.instruction) and not call.conditional and at.variables & used:
            by_element.setdefault((call.instruction, call.indices), call)
    return list(by_element.values())[:MOST_IN_PIECES]


def library_functions(e: ElementalIrEmitter) -> tuple[str, ...]:
    """The C functions that the code emitted so far calls, each once."""
    return tuple({_of_arrays(i): None for i in e.fusion.instructions if i in e.fast_paths})


def _of_arrays(instruction: Instruction) -> str:
    """The C function that applies the function to all elements of arrays, which need not be moderate."""
    name, result, block = _operand_type(instruction), type_name(instruction), Block()
    opcode, (_, parameter) = instruction.opcode, scalar.fast_family(instruction.opcode, name)
    arrays = [f"x{n}" for n in range(len(instruction.operands))]
    arguments = [f"const {scalar.register_type(name)}* restrict const {x}" for x in arrays]
    arguments += [f"{scalar.register_type(result)}* restrict const y", "const int count", "const int others"]
    values = [f"a{n}" for n in range(len(arrays))]
    paths = scalar.fast_paths(opcode, name, result, values, parameter and PARAMETER)

    def loop(text: str, condition: str = "") -> None:
        with block.scope("for (int i = 0; i < count; ++i)"):
            for value, x in zip(values, arrays, strict=True):
                block.line(f"const {scalar.register_type(name)} {value} = {scalar.from_array(name, f'{x}[i]')};")
            if condition:
                block.line(f"if ({condition}) continue;")
            block.line(f"const {scalar.register_type(result)} v = {text};")
            block.line(scalar.to_array(result, "y[i]", "v"))

    arguments += [f"const int {PARAMETER}"] if parameter else []
    with block.scope(f"void {_head(instruction)}{', '.join(arguments)})"):
        with block.scope("if (others)"):
            loop(paths.whole or paths.far or paths.fast)
            if paths.apart:
                right = 1 if paths.far else 0
                with block.scope(f"if (others > {right})"):
                    loop(paths.apart, f"{scalar.beyond_fast_path(opcode, name, values)} <= {right}")
        with block.scope("else"):
            loop(paths.fast)
    return block.text()


def _head(instruction: Instruction) -> str:
    """The call of the function, up to its arguments."""
    family, _ = scalar.fast_family(instruction.opcode, _operand_type(instruction))
    return f"fast_{family.replace('-', '_')}_{_operand_type(instruction)}("


class LoopPiece(NamedTuple):
    """A piece of a loop, from `start` to `end`, both C variables, with the functions of its elements computed: `bind`
    binds their results at an index, `elements` is a loop over all indices, with the results bound."""

    start: str
    end: str
    bind: Callable[[Index], None]
    elements: Callable[[], AbstractContextManager[Index]]


@contextmanager
def pieces_of(
    e: ElementalIrEmitter,
    block: Block,
    bounds: tuple[str, str, str],
    index: Callable[[str], Index],
    functions: Sequence[Instruction],
    calls: Callable[[Index], Sequence[FunctionCall]],
    hint: str = "",
) -> Iterator[LoopPiece]:
    """The scope of a piece in the loop over an index from the first to the last of `bounds`, (C type, first, last).

    `index` turns a variable's name into an index, `calls` gives the calls at an index, one for each of `functions`. A
    `hint` is a line for clang before each loop over the elements of a piece.
    """
    (c_type, first, last), fresh = bounds, e.names.fresh
    start, end, count = fresh("b"), fresh("e"), fresh("n")
    operands = [[fresh("x") for _ in f.operands] for f in functions]
    results = [fresh("y") for _ in functions]

    def declare(instruction: Instruction, array: str) -> None:
        c_type = scalar.register_type(type_name(instruction))
        block.line(f"{c_type} {array}[{PIECE}] __attribute__((aligned(64)));")

    @contextmanager
    def loop(name: str) -> Iterator[None]:
        if hint:
            block.line(hint)
        with block.scope(f"for ({c_type} {name} = {start}; {name} < {end}; ++{name})"):
            yield

    def bind(count: int, at: Index) -> None:
        """Binds the results of the functions computed so far, and their operands, which would otherwise be
        recomputed."""
        for call, arrays, result in list(zip(calls(at), operands, results, strict=True))[:count]:
            for operand, array in zip(call.instruction.operands, arrays, strict=True):
                if operand.shape.rank and e.is_computed(operand):
                    bind_element(operand, elementwise_operand(operand, call.indices), array, at)
            bind_element(call.instruction, call.indices, result, at)

    def bind_element(instruction: Instruction, indices: Sequence[Index], array: str, at: Index) -> None:
        name, place = type_name(instruction), f"{array}[{c_of(at)} - {start}]"
        if scalar.is_complex(name):
            place = e.assign(name, scalar.from_array(name, place), block)
        e.bind(instruction, indices, place)

    @contextmanager
    def elements() -> Iterator[Index]:
        name = fresh("i")
        with loop(name):
            bind(len(results), index(name))
            yield index(name)

    for function, arrays, result in zip(functions, operands, results, strict=True):
        for operand, array in zip(function.operands, arrays, strict=True):
            declare(operand, array)
        declare(function, result)
    with block.scope(f"for ({c_type} {start} = {first}; {start} < {last}; {start} += {PIECE})"):
        block.line(f"const {c_type} {end} = {start} + {PIECE} < {last} ? {start} + {PIECE} : {last};")
        block.line(f"const int {count} = (int)({end} - {start});")
        for n, (function, arrays) in enumerate(zip(functions, operands, strict=True)):
            name, others, of = fresh("i"), fresh("others"), _operand_type(function)
            block.line(f"int {others} = 0;")
            with loop(name):
                at = index(name)
                bind(n, at)
                call = calls(at)[n]
                values = [e.value(o, elementwise_operand(o, call.indices), block) for o in call.instruction.operands]
                for array, value in zip(arrays, values, strict=True):
                    block.line(scalar.to_array(of, f"{array}[{name} - {start}]", value))
                block.line(f"{others} |= {scalar.beyond_fast_path(function.opcode, of, values)};")
            e.fast_paths.add(function)
            _, parameter = scalar.fast_family(function.opcode, of)
            passed = [*arrays, results[n], count, others, *([parameter] if parameter else [])]
            block.line(f"{_head(function)}{', '.join(passed)});")
        yield LoopPiece(start, end, partial(bind, len(results)), elements)
