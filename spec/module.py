"""Module, Computation, Instruction: an HLO program in memory.

A module is a list of computations, one of them the entry. A computation is a list of instructions in an order where
each comes after its operands; one of them is the root, whose value is the computation's. An instruction applies an
operation to operands; what else it needs to know stands in `attributes`, by HLO's own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from .errors import Error, InvalidProgramError
from .types import Shape


@dataclass(frozen=True)
class WindowDimension:
    """One dimension of a window that slides over an array (convolution, reduce-window, select-and-scatter).

    `size` elements, `stride` apart from one placing to the next; the base array is padded by `padding_low` and
    `padding_high` (negative: cropped); its elements lie `base_dilation` apart, those of the window `window_dilation`
    apart; `reversal` mirrors the window. In text: size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal.
    """

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


Window = tuple[WindowDimension, ...]


def window_text(window: Window) -> str:
    """A window as texts have it, `{size=3x3 stride=2x2 pad=1_1x0_0 ...}`; fields that have their default in all
    dimensions are left out."""
    columns = (
        ("size", [str(d.size) for d in window], None),
        ("stride", [str(d.stride) for d in window], "1"),
        ("pad", [f"{d.padding_low}_{d.padding_high}" for d in window], "0_0"),
        ("lhs_dilate", [str(d.base_dilation) for d in window], "1"),
        ("rhs_dilate", [str(d.window_dilation) for d in window], "1"),
        ("rhs_reversal", [str(int(d.reversal)) for d in window], "0"),
    )
    shown = (f"{name}={'x'.join(v)}" for name, v, default in columns if any(t != default for t in v))
    return "{" + " ".join(shown) + "}"


@dataclass(frozen=True)
class ConvolutionDimensions:
    """Which dimension of each array of a convolution is what; in text `dim_labels=b01f_01io->b01f`."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]

    def __str__(self) -> str:
        def labels(first: str, at_first: int, second: str, at_second: int, spatial: tuple[int, ...]) -> str:
            where = {at_first: first, at_second: second} | {d: str(n) for n, d in enumerate(spatial)}
            return "".join(where.get(d, "?") for d in range(max(where) + 1))

        lhs = labels("b", self.input_batch, "f", self.input_feature, self.input_spatial)
        rhs = labels("i", self.kernel_input_feature, "o", self.kernel_output_feature, self.kernel_spatial)
        return f"{lhs}_{rhs}->{labels('b', self.output_batch, 'f', self.output_feature, self.output_spatial)}"


@dataclass(frozen=True)
class SliceDimension:
    """One dimension of a slice: elements start, start + stride, ... below limit; in text `[start:limit:stride]`."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True)
class PaddingDimension:
    """One dimension of a pad: elements added below, above (negative: removed), between; in text `low_high_interior`."""

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True)
class Position:
    """Where in a text something stands; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Metadata:
    """Where an instruction came from in the user's program: what `metadata={...}` says.

    `other` keeps the fields that have no name here, as (name, text) pairs.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    other: tuple[tuple[str, str], ...] = ()


@dataclass(eq=False)
class Instruction:
    """One operation applied to operands.

    `attributes` holds what the operation declares (see `spec/ops/<op>.py`), by HLO's names, each value of the Python
    type of the attribute's kind (`attributes.py`); called computations are among them. An attribute left out has its
    default when read as `instruction.<name>`, or by `get`.
    """

    name: str
    opcode: str
    shape: Shape
    operands: list[Instruction] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    metadata: Metadata | None = None
    sharding: str | None = None  # verbatim, braces included
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    backend_config: str | None = None  # verbatim
    control_predecessors: list[Instruction] = field(default_factory=list)
    position: Position | None = None  # in the text it was parsed from

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no field: the attributes of the operation.
        if name.startswith("__") or name == "attributes":
            raise AttributeError(name)
        try:
            return self.attributes[name]
        except KeyError:
            from .operation import default_of  # here, since operations are defined in terms of instructions

            return default_of(self, name)

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return f"<{self.name} = {self.shape} {self.opcode}({operands})>"

    @property
    def called(self) -> list[Computation]:
        """The computations this instruction calls, in the order of its attributes."""
        result: list[Computation] = []
        for value in self.attributes.values():
            if type(value) is Computation:
                result.append(value)
            elif type(value) is tuple and value and type(value[0]) is Computation:
                result.extend(value)
        return result


@dataclass(eq=False)
class Computation:
    """A function of HLO: instructions in an order where each follows its operands and control predecessors."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    root: Instruction = field(default=cast("Instruction", None))  # set before anything reads it
    execution_thread: str | None = None
    position: Position | None = None
    backend_config: str | None = None  # verbatim

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instructions)} instructions>"

    @property
    def parameters(self) -> list[Instruction]:
        """The parameter instructions, by their numbers."""
        return sorted((i for i in self.instructions if i.opcode == "parameter"), key=lambda i: i.attributes["number"])

    def users(self) -> dict[Instruction, list[Instruction]]:
        """For each instruction those that have it as an operand (once each, in order)."""
        result: dict[Instruction, list[Instruction]] = {i: [] for i in self.instructions}
        for i in self.instructions:
            for operand in dict.fromkeys(i.operands):
                result[operand].append(i)
        return result

    def replace(self, replacements: dict[Instruction, Instruction]) -> None:
        """Put `replacements[i]` in the place of each i, in all operands and the root; chains are followed.

        The instructions replaced stay in the list: dead code elimination removes them.
        """

        def final(i: Instruction) -> Instruction:
            while i in replacements:
                i = replacements[i]
            return i

        for i in self.instructions:
            i.operands = [final(o) for o in i.operands]
            i.control_predecessors = [final(o) for o in i.control_predecessors]
        self.root = final(self.root)


@dataclass(eq=False)
class Module:
    """An HLO program: computations, each after those it calls, and the header's attributes.

    `attributes` holds the header's other attributes by name, each as the text after `=` (`is_scheduled`: "true"),
    except `input_output_alias` (see Alias), which passes must keep true, and `entry_computation_layout`, which is not
    stored but printed from `entry_layout`.
    """

    name: str
    computations: list[Computation] = field(default_factory=list)
    entry: Computation = field(default=cast("Computation", None))  # set before anything reads it
    attributes: dict[str, str] = field(default_factory=dict)
    aliases: tuple[Alias, ...] = ()
    entry_layout: tuple[tuple[Shape, ...], Shape] | None = None  # parameters, result; None: as the entry says
    stack_frames: StackFrames | None = None
    source: str | None = None  # the text it was parsed from, for error messages
    file: str | None = None  # the file it was read from, for error messages

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.computations)} computations>"

    def __str__(self) -> str:
        """The HLO text."""
        from .printer import print_module  # here, since the printer is defined in terms of modules

        return print_module(self)

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for computation in self.computations:
            yield from computation.instructions

    def clone(self) -> Module:
        """A deep copy of computations and instructions; shapes, literals and other immutable values are shared."""
        copies: dict[Computation, Computation] = {}
        for computation in self.computations:
            copies[computation] = clone_computation(computation, copies.__getitem__)
        return Module(
            self.name,
            list(copies.values()),
            copies[self.entry],
            dict(self.attributes),
            self.aliases,
            self.entry_layout,
            self.stack_frames,
            self.source,
            self.file,
        )


@dataclass(frozen=True)
class Alias:
    """One entry of `input_output_alias`: the result at `output_index` may live in the parameter's memory.

    In text: `{output_index}: (parameter, {parameter_index}, kind)`; kind is "may-alias" or "must-alias".
    """

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...] = ()
    kind: str = "may-alias"


@dataclass(frozen=True)
class StackFrames:
    """The tables that `stack_frame_id=N` in metadata refers to: the calls in the user's program that made an
    instruction.

    All numbers in them count from 1, and 0 is none. A location holds what LOCATION names, a frame what FRAME names.
    In text, the parent of a frame is written as its number plus 1, and no parent as 1.
    """

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    locations: tuple[tuple[int, ...], ...] = ()
    frames: tuple[tuple[int, ...], ...] = ()

    LOCATION = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    FRAME = ("file_location_id", "parent_frame_id")

    def source_of(self, frame: int) -> tuple[str, int] | None:
        """The file and the line of a frame's number, or None where the tables do not say."""
        try:
            if frame < 1 or self.frames[frame - 1][0] < 1:
                return None
            location = self.locations[self.frames[frame - 1][0] - 1]
            return (self.files[location[0] - 1], location[2]) if location[0] > 0 else None
        except IndexError:
            return None


def order_computations(
    computations: list[Computation], error: Callable[[str, Instruction], Error] | None = None
) -> list[Computation]:
    """The computations with each after those it calls, otherwise in the order given.

    Raises InvalidProgramError when one calls itself, directly or through others, which HLO does not have; or what
    `error` makes of that message and the instruction that calls it.
    """
    order: list[Computation] = []
    state: dict[Computation, int] = {}  # 1: those it calls are being visited, 2: done
    for start in computations:
        stack = [start]
        while stack:
            c = stack[-1]
            if state.get(c) is None:
                state[c] = 1
                called = [(d, i) for i in c.instructions for d in i.called if state.get(d) != 2]
                for d, i in reversed(called):
                    if state.get(d) == 1:
                        message = f"computation {d.name} calls itself (through {i.name} of {c.name})"
                        raise error(message, i) if error else InvalidProgramError(message)
                    stack.append(d)
                continue
            stack.pop()
            if state[c] == 1:
                state[c] = 2
                order.append(c)
    return order


def clone_computation(
    computation: Computation, map_called: Callable[[Computation], Computation], name: str | None = None
) -> Computation:
    """A copy of a computation whose called computations are `map_called` of the original ones."""

    def mapped(value: Any) -> Any:
        if isinstance(value, Computation):
            return map_called(value)
        if isinstance(value, tuple) and value and isinstance(value[0], Computation):
            return tuple(map_called(c) for c in value)
        return value

    copies: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        copies[i] = Instruction(
            i.name,
            i.opcode,
            i.shape,
            [copies[o] for o in i.operands],
            {k: mapped(v) for k, v in i.attributes.items()},
            i.metadata,
            i.sharding,
            i.frontend_attributes,
            i.backend_config,
            [copies[o] for o in i.control_predecessors],
            i.position,
        )
    return Computation(
        name or computation.name,
        list(copies.values()),
        copies[computation.root],
        computation.execution_thread,
        computation.position,
        computation.backend_config,
    )


def post_order(root: Instruction, more: Iterable[Instruction] = ()) -> list[Instruction]:
    """The instructions that `root` (and `more`) depend on, each after its operands and control predecessors.

    Iterative, so that a chain of a hundred thousand instructions is no problem; a cycle raises InvalidProgramError.
    """
    order: dict[Instruction, None] = {}
    begun: set[Instruction] = set()
    for start in (root, *more):
        stack = [] if start in order else [(start, iter((*start.operands, *start.control_predecessors)))]
        begun.add(start)
        while stack:
            i, waiting = stack[-1]
            for o in waiting:
                if o in order:
                    continue
                if o in begun:
                    raise InvalidProgramError(f"{o.name} depends on itself (through {i.name}); break the cycle")
                begun.add(o)
                stack.append((o, iter((*o.operands, *o.control_predecessors))))
                break
            else:
                order[i] = None
                stack.pop()
    return list(order)
