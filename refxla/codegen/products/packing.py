"""How an operand of a matrix product is read: in place, or from a copy in the order that the product needs.

An operand that is an input, seen through transposes, slices, broadcasts and the like, is read in place if its elements
are at a constant distance along the contraction. Anything else (fused arithmetic, a narrow type, an unsuitable order)
is first computed into scratch memory by a separate stage, in the type of the accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ...analysis.access_patterns import Access, AccessPattern
from ...analysis.accumulation import contraction_type
from ...analysis.index_expression import Index, variable
from ...ir.plan import Argument, Fusion
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter

DISTANT = 4096  # elements between terms, from which on each is in a page of its own

# accumulation type -> the C type of an element, the lanes of a 32-byte vector
VECTORS = {"f32": ("float", 8), "f64": ("double", 4), "u32": ("uint", 8), "u64": ("ulong", 4)}


def vector_type(name: str, bytes: int = 32) -> str:
    """The C vector type of accumulation type `name`, such as float8, of 32 or 64 bytes."""
    element, lanes = VECTORS[name]
    return f"{element}{lanes * bytes // 32}"


def accumulation_type(result: str) -> str | None:
    """The vectorized accumulation type for a dot or convolution of that result type; None if there is none.

    Integers accumulate in unsigned types, with the same bits: sums and products wrap around.
    """
    result = contraction_type(result)
    if result in ("f32", "f64"):
        return result
    if result[0] in "su" and result[1:].isdigit():
        return "u64" if result[1:] == "64" else "u32"
    return None


def to_accumulation(
    e: ElementalIrEmitter, instruction: Instruction, indices: Sequence[Index], name: str, block: Block
) -> str:
    """The C expression of an operand's element, converted to `name`, an accumulation type or a complex one."""
    value, own = e.value(instruction, indices, block), type_name(instruction)
    if own == name:
        return value
    signed = name.replace("u", "s") if own.startswith("s") else name  # sign extension comes before wrapping
    if own != signed:
        value = scalar.expression("convert", (own,), signed, (value,))
    return f"({VECTORS[name][0]})({value})" if signed != name else value


def from_accumulation(e: ElementalIrEmitter, result: str, name: str, value: str, block: Block) -> str:
    """The C variable with an accumulated value in the result's register type, rounded once or truncated."""
    if name[0] == "u" and ELEMENT_TYPES[result].bits >= 8:
        return e.assign(result, f"({scalar.register_type(result)})({value})", block)
    text = value if result == name else scalar.expression("convert", (name,), result, (value,))
    return e.assign(result, text, block)


@dataclass(frozen=True)
class DirectRead:
    """A plain load of an element of an operand: `access`, in which the start of a dynamic-slice is a symbol of
    `pattern`."""

    access: Access
    pattern: AccessPattern

    @property
    def has_starts(self) -> bool:
        """Whether the address depends on start indices, which are in memory."""
        return bool(self.pattern.starts)

    def opened(self, e: ElementalIrEmitter, block: Block) -> Access:
        """The load in terms of C variables of `block`, where the start indices are read."""
        return e.adopt(self.access, self.pattern, block)


def direct_read(
    fusion: Fusion, operand: Instruction, indices: Sequence[Index], name: str, outer: Collection[str] = ()
) -> DirectRead | None:
    """The operand's element as a plain load of type `name`; None if it is something else, or if start indices depend on
    other variables than those in `outer`.

    `name` is an accumulation type, a complex one or the operand's own.
    """
    if name != type_name(operand) and scalar.storage_type(type_name(operand)) not in _SAME_BITS[name]:
        return None
    pattern = AccessPattern(fusion)
    value = pattern.value(operand, indices)
    access = next((a for a in pattern.accesses if a.name == value), None)  # the others are what start indices read
    if access is None or (len(pattern.accesses) > 1 and not pattern.starts):
        return None
    inner = {v for start in pattern.starts.values() for x in start.indices for v in x.variables}
    return DirectRead(access, pattern) if inner <= set(outer) else None


def direct_access(fusion: Fusion, operand: Instruction, indices: Sequence[Index], name: str) -> Access | None:
    """The Access of a `direct_read` without start indices; else None."""
    read = direct_read(fusion, operand, indices, name)
    return None if read is None or read.has_starts else read.access


def source_access(fusion: Fusion, operand: Instruction, indices: Sequence[Index]) -> Access | None:
    """The Access of the only load on which the operand's element depends; None if there are several, or a conditional
    one."""
    pattern = AccessPattern(fusion)
    pattern.value(operand, indices)
    return pattern.accesses[0] if len(pattern.accesses) == 1 and not pattern.accesses[0].conditional else None


def distant_terms(
    fusion: Fusion, operand: Instruction, indices: Callable[[Index], Sequence[Index]], terms: Sequence[int]
) -> int:
    """The size of the last dimension that k counts, of sizes `terms`, if its elements are so far apart in memory that a
    copy should run along the others; otherwise 1. `indices` gives those of the operand for k."""
    inner, outer = (terms[-1], prod(terms[:-1])) if terms else (1, 1)
    if inner == 1 or outer == 1:
        return 1
    k = variable("q", 0, outer - 1) * inner + variable("r", 0, inner - 1)
    access = source_access(fusion, operand, indices(k))
    apart = None if access is None else access.position.factor("r")
    return inner if apart is not None and abs(apart) >= DISTANT else 1


def open_terms(block: Block, stride: int, terms: str) -> ExitStack:
    """Opens a loop over t in [0, terms), in steps of `stride`, once for each remainder."""
    scopes = ExitStack()
    if stride > 1:
        scopes.enter_context(block.scope(f"for (int t0 = 0; t0 < {stride}; ++t0)"))
        scopes.enter_context(block.scope(f"for (int t = t0; t < {terms}; t += {stride})"))
    else:
        scopes.enter_context(block.scope(f"for (int t = 0; t < {terms}; ++t)"))
    return scopes


_SAME_BITS = {"f32": ("float",), "f64": ("double",), "u32": ("int", "uint"), "u64": ("long", "ulong"),
              "c64": ("float2",), "c128": ("double2",)}  # fmt: skip


def declare_block(block: Block, number: str, most: int, terms: int) -> tuple[Index, str]:
    """Declares block `number` of `terms` terms, of at most `most` each: returns its first term and, as C, its number of
    terms."""
    block.line(f"const int first_term = {number} * {most};")
    rest = f"{terms} - first_term"
    block.line(f"const int terms = {most} < {rest} ? {most} : {rest};")
    return variable("first_term", 0, terms - 1), "terms"


def open_columns(
    block: Block, name: str, start: str, step: int | str, columns: str, packed: int = 1, space: str = "__global "
) -> None:
    """Declares an array of half as many vectors as one has lanes: each with a column of the rows that begin at pointer
    `start` in address space `space`, `step` elements apart (C text if not constant). Elements may be `packed` smaller
    ones, at an address of theirs."""
    element, lanes = VECTORS[name]
    half = lanes // 2
    block.line(f"typedef {element}{half} __attribute__((aligned(sizeof({element}) / {packed}))) half_vector;")
    rows = (
        f"({vector_type(name)})(*({space}const half_vector*)({start} + {i} * {step}), "
        f"*({space}const half_vector*)({start} + {i + half} * {step}))"
        for i in range(half)
    )
    block.line(f"{vector_type(name)} {columns}[{half}] = {{{', '.join(rows)}}};")
    block.line(f"rx_transpose_halves_{name}({columns});")


def scratch_argument(fusion: Fusion, which: str, name: str, elements: int) -> Argument:
    """Scratch memory named `which` for that many elements of accumulation type `name`."""
    ctype, lanes = VECTORS[name]
    return Argument("scratch", ctype, bytes=elements * (32 // lanes), scratch=f"{fusion.name}.{which}")
