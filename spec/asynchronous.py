"""The short form in which text writes an asynchronous operation, and the long one that it stands for.

    s = ((f32[4]), f32[2], u32[]) slice-start(x), slice={[0:2]}
    d = f32[2] slice-done(s)

is an async-start, which calls a computation that is one slice and no more, and an async-done. (A few operations have
opcodes of their own for both halves, such as all-reduce-start.)
"""

from __future__ import annotations

from . import grammar
from .errors import InvalidProgramError
from .module import Computation, Instruction

ALIASING = "output_to_operand_aliasing"
THREAD = "async_execution_thread"


def split(opcode: str) -> tuple[str, str]:
    """The opcode of what is wrapped and one of -start, -update, -done; ("", "") if the opcode is no short form."""
    if opcode in grammar.OPCODES:
        return "", ""
    return next((opcode[: -len(s)], s) for s in grammar.ASYNC_SUFFIXES if opcode.endswith(s))


def lengthen(written: Instruction, suffix: str, computations: dict[str, Computation]) -> Instruction:
    """The instruction that a short form stands for; the computation that a start calls is added to `computations`.

    `written` is what stands in the text, with the opcode of what is wrapped; it becomes that computation's root. Raises
    InvalidProgramError where the shape or the attributes are not those of the form.
    """
    thread = written.attributes.pop(THREAD, None)
    if suffix != "-start" and written.operands:  # it runs where it was begun
        thread = thread or written.operands[0].attributes.get(THREAD)
    instruction = Instruction(
        written.name,
        f"async{suffix}",
        written.shape,
        written.operands,
        {} if thread is None else {THREAD: thread},
        written.metadata,
        written.sharding,
        written.frontend_attributes,
        written.backend_config,
        written.control_predecessors,
        written.position,
    )
    if suffix != "-start":
        if written.attributes:
            raise InvalidProgramError(
                f"{written.name}: {next(iter(written.attributes))} belongs to the {written.opcode}-start, "
                f"not to the {written.opcode}{suffix}"
            )
        return instruction
    parts = written.shape.elements
    if len(parts) < 2 or not parts[0].is_tuple:
        raise InvalidProgramError(
            f"{written.name}: {written.opcode}-start is stated as {written.shape}; it gives a tuple of the operands, "
            "as a tuple, the result, and contexts, such as ((f32[4]), f32[2], u32[])"
        )
    if written.opcode == "call" and ALIASING in written.attributes:  # a call has no such attribute, its start has
        instruction.attributes[ALIASING] = written.attributes.pop(ALIASING)
    shapes = [o.shape for o in written.operands]
    parameters = [Instruction(f"param_{n}", "parameter", s, [], {"number": n}) for n, s in enumerate(shapes)]
    written.name, written.shape, written.operands = f"{written.opcode}.wrapped", parts[1], list(parameters)
    written.metadata = written.sharding = written.backend_config = None
    written.frontend_attributes, written.control_predecessors = (), []
    name = f"{instruction.name}.wrapped"
    while name in computations:
        name += ".1"
    computations[name] = Computation(name, [*parameters, written], written, thread, instruction.position)
    instruction.attributes["calls"] = computations[name]
    return instruction
