"""The value of any instruction at symbolic indices, as C: how producers are fused into whatever reads them.

`ElementalIrEmitter.value(instruction, indices, block)` emits the statements that compute one element and returns the C
variable (or literal) that holds it, in the register type of its element type. Each operation has one rule: a generator
that yields (operand, indices) for each element it needs, is sent the variables, and returns its own. The rules run on a
stack of their own, so that a chain of a hundred thousand instructions is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction

from .._core.graph import is_splat
from ..analysis import sign_analysis
from ..analysis.index_expression import Index, all_of, at_least, below, constant, delinearize, linearize, variable
from ..device.description import Target
from ..ir.op_table import HERO, ROWS
from ..ir.plan import Fusion
from . import elemental_rules, scalar
from .c_block import Block, Names
from .elemental_rules import Indices, Rule, type_name

MAX_LITERALS = 16  # elements of a constant that is written into the code; larger ones are loaded from memory
_THROUGH = {"copy", "opt-barrier", "domain", "add-dependency"}


@dataclass(frozen=True)
class Access:
    """A load of the element `indices` of an input, at `position` in memory, into the C variable `name`.

    `conditional` says that it stands under an if, or in a loop inside of the element on whose variable it depends: so
    that it is not one load for each element.
    """

    instruction: Instruction
    indices: Indices
    position: Index
    conditional: bool
    name: str


@dataclass(frozen=True)
class Store:
    """The store of a C variable or literal to an output, at `position` in memory."""

    instruction: Instruction
    position: Index
    value: str


@dataclass(frozen=True)
class Call:
    """A function that is cheap for moderate operands (fast_path_math.py): the element at `indices` of a member of a
    fusion."""

    instruction: Instruction
    indices: Indices
    conditional: bool


class ElementalIrEmitter:
    """Elements of the members of a fusion, computed on demand from what is in memory.

    `arguments` gives the C pointer of each instruction that is read from memory or written to it; an instruction among
    `fusion.outputs` that the fusion itself computes is written, all others are read. `accesses` collects all loads
    that were emitted, and `tests` what was asked of indices that the generator could not tell: (index, bound) for
    whether an index is at least, or below, a bound. `stores` has all stores; `starts` are the C variables of
    indices that come from memory. `calls` has the functions that fast_path_math.py is about, those that others take
    first.
    """

    def __init__(self, fusion: Fusion, target: Target, arguments: dict[Instruction, str]) -> None:
        self.fusion, self.target = fusion, target
        self.members = frozenset(fusion.instructions)
        self.names = Names()
        written = self.members & set(fusion.outputs)
        self._outputs = {i: p for i, p in arguments.items() if i in written}
        self._inputs = {i: p for i, p in arguments.items() if i not in written}
        self._bound: dict[tuple[Instruction, Indices], str | tuple[str, ...]] = {}
        self.accesses: list[Access] = []
        self.stores: list[Store] = []
        self._gathered: dict[Instruction, str] = {}
        self.starts: set[str] = set()
        self.lines_ahead = 0
        self._writes = True
        self.tests: list[tuple[Index, int]] = []
        self.calls: list[Call] = []
        self.turns = 1  # of the loops inside one element, about: what it costs
        self._counters: set[str] = set()  # the variables of those loops

    def value(self, instruction: Instruction, indices: Sequence[Index], block: Block) -> str:
        """The C variable or literal with that element (a tuple of them for an instruction with several results).

        `indices` has one index for each dimension and must lie inside. Raises UnsupportedError for an operation that
        has no elementwise form.
        """

        def request():
            return (yield instruction, tuple(indices))

        return self.run(request(), block)

    def run(self, rule: Rule, block: Block):
        """What a rule returns: it is sent the element for each (instruction, indices) that it yields."""
        stack: list[tuple[tuple, Rule]] = [((rule, ()), rule)]
        answer = None
        while stack:
            request, rule = stack[-1]
            try:
                request = rule.send(answer)
            except StopIteration as stop:
                answer = stop.value
                block.remember(request, answer)
                stack.pop()
                continue
            answer = self._known(request, block)
            if answer is None:
                stack.append((request, self._rule(*request, block)))
        return answer

    def bind(self, instruction: Instruction, indices: Sequence[Index], cvar: str | tuple[str, ...]) -> None:
        """From now on that element is the C variable `cvar`, which must be in scope wherever it is asked for.

        A private C lvalue in register type, such as "row[j]", serves as well.
        """
        self._bound[instruction, tuple(indices)] = cvar

    def store(self, instruction: Instruction, indices: Sequence[Index], block: Block) -> None:
        """Writes that element to the instruction's output."""
        value = self.value(instruction, indices, block)
        if self.lines_ahead:
            return
        position = linearize(indices, instruction.shape.dimensions)
        self.stores.append(Store(instruction, position, value))
        if not self._writes:
            return
        place = self._gathered.get(instruction) or f"{self._outputs[instruction]}[{position}]"
        block.line(f"{place} = {scalar.store(type_name(instruction), value)};")

    def gather(self, instruction: Instruction, place: str | None) -> None:
        """From now on `store` writes that output to a private C lvalue, None: to memory."""
        if place is None:
            del self._gathered[instruction]
        else:
            self._gathered[instruction] = place

    @contextmanager
    def ahead(self, lines: int) -> Iterator[None]:
        """Inside, what lies at places that come from memory is not loaded, but so many lines of it are fetched ahead;
        nothing is stored, and what is computed is good for nothing else."""
        self.lines_ahead = lines
        try:
            yield
        finally:
            self.lines_ahead = 0

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Inside, what is stored is noted in `stores`, but not written."""
        self._writes = False
        try:
            yield
        finally:
            self._writes = True

    def output(self, instruction: Instruction) -> str:
        """The C pointer to that output."""
        return self._outputs[instruction]

    def input(self, instruction: Instruction) -> str:
        """The C pointer to that input."""
        return self._inputs[instruction]

    def address(self, instruction: Instruction, indices: Sequence[Index]) -> str | None:
        """Where in memory that element is, as C; None where it is computed."""
        if instruction not in self._inputs:
            return None
        return f"{self._inputs[instruction]} + ({linearize(indices, instruction.shape.dimensions)})"

    def apply(self, computation: Computation, args: Sequence[str], block: Block) -> tuple[str, ...]:
        """The results of a scalar computation on C variables, one for each of its parameters."""
        values: dict[Instruction, str | tuple[str, ...]] = {}
        for i in computation.instructions:
            operands = [values[o] for o in i.operands]
            if i.opcode == "parameter":
                values[i] = args[i.attributes["number"]]
            elif i.opcode == "constant":
                values[i] = self._literal(type_name(i), i.attributes["literal"], block)
            elif i.opcode == "tuple":
                values[i] = tuple(operands)
            elif i.opcode == "get-tuple-element":
                values[i] = operands[0][i.attributes["index"]]
            elif i.opcode in _THROUGH or i.opcode in ("broadcast", "reshape", "bitcast", "transpose", "reverse"):
                values[i] = operands[0]
            else:
                values[i] = self._scalar(i, operands, block)
        root = values[computation.root]
        return root if isinstance(root, tuple) else (root,)

    def assign(self, name: str, expression: str, block: Block, changes: bool = False) -> str:
        """Declares a variable that holds an element of type `name`; returns its name."""
        variable_name = self.names.fresh()
        block.line(f"{'' if changes else 'const '}{scalar.register_type(name)} {variable_name} = {expression};")
        return variable_name

    def declare(self, name: str, block: Block) -> str:
        """Declares a variable for an element of type `name` without a value; returns its name."""
        variable_name = self.names.fresh()
        block.line(f"{scalar.register_type(name)} {variable_name};")
        return variable_name

    def loop(self, size: int, block: Block, prefix: str = "k", unroll: bool = False):
        """(index, scope) of a loop over 0..size-1; a loop of one turn is a bare scope.

        `unroll` writes it out when it is compiled, so that the loop around it can become a vector's.
        """
        name = self.names.fresh(prefix)
        self.turns *= max(size, 1)
        self._counters.add(name)
        head = f"for (int {name} = 0; {name} < {size}; ++{name})" if size != 1 else ""
        if unroll and head:
            block.line("#pragma unroll")
        return variable(name, 0, max(size - 1, 0)), block.scope(head)

    def at_least(self, index: Index, bound: int) -> bool | str:
        """Whether index >= bound: True, False, or the C condition."""
        self.tests.append((index, bound))
        return at_least(index, bound)

    def below(self, index: Index, bound: int) -> bool | str:
        """Whether index < bound: True, False, or the C condition."""
        self.tests.append((index, bound))
        return below(index, bound)

    def start(self, value: str, element_type: str, limit: int, block: Block) -> Index:
        """A start index, clamped into 0..limit, as an index."""
        if limit <= 0:
            return constant(0)
        name = self.names.fresh("s")
        low = "" if element_type.startswith("u") else f"{value} < 0 ? 0 : "
        bound = f"{limit}" if limit < _largest(element_type) else None
        high = f"{value} > {bound} ? {bound} : " if bound else ""
        block.line(f"const int {name} = (int)({low}{high}{value});")
        self.starts.add(name)
        return variable(name, 0, limit)

    def _known(self, request: tuple[Instruction, Indices], block: Block) -> str | tuple[str, ...] | None:
        bound = self._bound.get(request)
        return bound if bound is not None else block.recall(request)

    def _rule(self, instruction: Instruction, indices: Indices, block: Block) -> Rule:
        if instruction.shape.is_array and not instruction.shape.size:
            return self._absent(instruction, block)
        if instruction in self._inputs:
            return self._load(instruction, indices, block)
        rule = _RULES.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, indices, block)
        return _elementwise(self, instruction, indices, block)

    def _absent(self, instruction: Instruction, block: Block) -> Rule:
        """An element of an array that has none: 0, and no memory is read. A gather may ask for it."""
        return self._literal(type_name(instruction), np.zeros((), instruction.shape.element_type.dtype), block)
        yield

    def _load(self, instruction: Instruction, indices: Indices, block: Block) -> Rule:
        position = linearize(indices, instruction.shape.dimensions)
        name = type_name(instruction)
        if self.lines_ahead and position.variables & self.starts:
            block.line(f"rx_prefetch((ulong)({self._inputs[instruction]} + ({position})), 64, {self.lines_ahead});")
            return self.assign(name, scalar.literal(name, 0), block)
        held = self.assign(name, scalar.load(name, f"{self._inputs[instruction]}[{position}]"), block)
        conditional = block.is_conditional or not self._counters.isdisjoint(position.variables)
        self.accesses.append(Access(instruction, indices, position, conditional, held))
        return held
        yield  # a rule that asks for nothing is a generator, too

    def _literal(self, name: str, value, block: Block) -> str:
        text = scalar.literal(name, np.asarray(value)[()])
        return self.assign(name, text, block) if name in ("c64", "c128") else text

    def _scalar(self, i: Instruction, args: Sequence[str], block: Block) -> str:
        types = [type_name(o) for o in i.operands]
        try:
            opcode = sign_analysis.form(i, self.members)
            text = scalar.expression(opcode, types, type_name(i), args, i.attributes)
        except UnsupportedError as e:
            raise UnsupportedError(f"{i.name}: {e}") from None
        return text if text in args else self.assign(type_name(i), text, block)


def _largest(element_type: str) -> int:
    bits = int(element_type[1:])
    return 2 ** (bits - 1) - 1 if element_type[0] == "s" else 2**bits - 1


def _elementwise(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    args = []
    for operand in i.operands:
        # A scalar operand (a clamp's bounds, a select's pred) goes with every element.
        args.append((yield operand, indices if operand.shape.rank == len(indices) else ()))
    if scalar.has_fast_path(i.opcode, type_name(i)):
        e.calls.append(Call(i, indices, block.is_conditional))
    return e._scalar(i, args, block)


def _through(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    return (yield i.operands[0], indices)


def _constant(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    values, name = np.asarray(i.attributes["literal"]), type_name(i)
    flat = values.reshape(-1)
    if is_splat(values):
        return e._literal(name, flat[0], block)
    if flat.size > MAX_LITERALS:
        raise UnsupportedError(f"constant {i.name} of {flat.size} elements is no input of its kernel; make it one")
    position = linearize(indices, i.shape.dimensions)
    if position.is_constant:
        return e._literal(name, flat[position.low], block)
    if values.dtype.kind in "iu" and (steps := set(np.diff(flat.astype(object)))) and len(steps) == 1:
        number = position * int(steps.pop()) + int(flat[0])
        return e.assign(name, f"({scalar.register_type(name)})({number})", block)
    literals = [e._literal(name, v, block) for v in flat]
    text = literals[-1]
    for n in range(len(literals) - 2, -1, -1):
        text = f"{position} == {n} ? {literals[n]} : ({text})"
    return e.assign(name, text, block)
    yield


def _iota(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    index, name = indices[i.attributes["iota_dimension"]], type_name(i)
    source = "s32" if index.fits_int else "s64"
    number = e.assign(source, str(index), block)
    return e.assign(name, scalar.expression("convert", (source,), name, (number,)), block) if name != source else number
    yield


def _broadcast(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand = i.operands[0]
    sizes = operand.shape.dimensions
    taken = (indices[d] for d in i.attributes.get("dimensions", ()))
    # An operand dimension of size 1 has index 0, whatever the result's.
    return (yield operand, tuple(x if n != 1 else constant(0) for x, n in zip(taken, sizes, strict=True)))


def _reshape(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand = i.operands[0]
    position = linearize(indices, i.shape.dimensions)
    return (yield operand, delinearize(position, operand.shape.dimensions))


def _transpose(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    permutation = i.attributes["dimensions"]
    source: list[Index] = [constant(0)] * len(indices)
    for d, from_d in enumerate(permutation):
        source[from_d] = indices[d]
    return (yield i.operands[0], tuple(source))


def _slice(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    slices = i.attributes["slice"]
    return (yield i.operands[0], tuple(x * s.stride + s.start for x, s in zip(indices, slices, strict=True)))


def _reverse(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    reversed_dims, sizes = i.attributes["dimensions"], i.shape.dimensions
    source = tuple(sizes[d] - 1 - x if d in reversed_dims else x for d, x in enumerate(indices))
    return (yield i.operands[0], source)


def _pad(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, padding = i.operands
    conditions, source = [], []
    for x, p, size in zip(indices, i.attributes["padding"], operand.shape.dimensions, strict=True):
        position, step = x - p.low, p.interior + 1
        conditions.append(e.at_least(position, 0))
        if step > 1:
            conditions.append(_is_zero(position % step))
        position = position // step
        conditions.append(e.below(position, size))
        source.append(position)
    inside = all_of(*conditions)
    if inside is True:
        return (yield operand, tuple(source))
    outside = yield padding, ()
    if inside is False:
        return outside
    result = e.assign(type_name(i), outside, block, changes=True)
    with block.scope(f"if ({inside})"):
        value = yield operand, tuple(source)
        block.line(f"{result} = {value};")
    return result


def _is_zero(index: Index) -> bool | str:
    if index.is_constant:
        return index.low == 0
    return f"({index}) == 0"


def _concatenate(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    (axis,) = i.attributes["dimensions"]
    x = indices[axis]
    pieces, offset = [], 0
    for operand in i.operands:
        size = operand.shape.dimensions[axis]
        if size and x.high >= offset and x.low < offset + size:
            pieces.append((operand, offset, size))
        offset += size

    def source(offset: int) -> Indices:
        return (*indices[:axis], x - offset, *indices[axis + 1 :])

    if len(pieces) == 1:
        return (yield pieces[0][0], source(pieces[0][1]))
    result = e.declare(type_name(i), block)
    for n, (operand, offset, size) in enumerate(pieces):
        head = "else" if n == len(pieces) - 1 else f"{'else ' if n else ''}if ({e.below(x, offset + size)})"
        with block.scope(head):
            value = yield operand, source(offset)
            block.line(f"{result} = {value};")
    return result


def _starts(e: ElementalIrEmitter, instructions: Sequence[Instruction], limits: Sequence[int], block: Block):
    """The clamped start indices of a dynamic-slice or dynamic-update-slice (a rule's part: use `yield from`)."""
    starts = []
    for d, limit in enumerate(limits):
        vector = len(instructions) == 1 and instructions[0].shape.rank == 1
        at = instructions[0] if vector else instructions[d]
        value = yield at, (constant(d),) if vector else ()
        starts.append(e.start(value, type_name(at), limit, block))
    return starts


def _dynamic_slice(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand = i.operands[0]
    limits = [n - m for n, m in zip(operand.shape.dimensions, i.shape.dimensions, strict=True)]
    starts = yield from _starts(e, i.operands[1:], limits, block)
    return (yield operand, tuple(x + s for x, s in zip(indices, starts, strict=True)))


def update_starts(e: ElementalIrEmitter, i: Instruction, block: Block) -> Rule:
    """The clamped start indices of a dynamic-update-slice, one index a dimension (use `yield from`)."""
    sizes, update = i.shape.dimensions, i.operands[1].shape.dimensions
    return (yield from _starts(e, i.operands[2:], [n - m for n, m in zip(sizes, update, strict=True)], block))


def _dynamic_update_slice(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, update = i.operands[:2]
    starts = yield from update_starts(e, i, block)
    source = [x - s for x, s in zip(indices, starts, strict=True)]
    inside = all_of(
        *(c for x, n in zip(source, update.shape.dimensions, strict=True) for c in (e.at_least(x, 0), e.below(x, n)))
    )
    if inside is True:
        return (yield update, tuple(source))
    if inside is False:
        return (yield operand, indices)
    result = e.declare(type_name(i), block)
    with block.scope(f"if ({inside})"):
        known = []
        for x, n in zip(source, update.shape.dimensions, strict=True):
            if x.low < 0 or x.high >= n:  # a variable whose range says that it lies inside
                name = e.names.fresh("d")
                block.line(f"const int {name} = {x};")
                x = variable(name, 0, n - 1)
            known.append(x)
        value = yield update, tuple(known)
        block.line(f"{result} = {value};")
    with block.scope("else"):
        value = yield operand, indices
        block.line(f"{result} = {value};")
    return result


def _gather(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, start_indices = i.operands
    a = i.attributes
    sizes = a["slice_sizes"]
    offset_dims, collapsed = a.get("offset_dims", ()), a.get("collapsed_slice_dims", ())
    batching = a.get("operand_batching_dims", ())
    batch = [x for d, x in enumerate(indices) if d not in offset_dims]
    vector_dim = a["index_vector_dim"]
    source: list[Index] = [constant(0)] * operand.shape.rank
    for d, from_d in zip(batching, a.get("start_indices_batching_dims", ()), strict=True):
        source[d] = batch[from_d if from_d < vector_dim else from_d - 1]
    for n, d in enumerate(a["start_index_map"]):
        at = list(batch)
        if vector_dim < start_indices.shape.rank:
            at.insert(vector_dim, constant(n))
        value = yield start_indices, tuple(at)
        source[d] = e.start(value, type_name(start_indices), operand.shape.dimensions[d] - sizes[d], block)
    window = [d for d in range(operand.shape.rank) if d not in collapsed and d not in batching]
    for d, offset in zip(window, sorted(offset_dims), strict=True):
        source[d] = source[d] + indices[offset]
    return (yield operand, tuple(source))


def _get_tuple_element(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    values = yield i.operands[0], indices
    return values[i.attributes["index"]]


def _tuple(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    values = []
    for operand in i.operands:
        values.append((yield operand, indices))
    return tuple(values)


_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}


def _bitcast_convert(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand = i.operands[0]
    source, result = type_name(operand), type_name(i)
    from_bits, to_bits = (x.shape.element_type.bits for x in (operand, i))
    if from_bits == to_bits:
        return e._scalar(i, [(yield operand, indices)], block)
    if max(from_bits, to_bits) > 64:  # between c128 and c64, whose parts are the real and the imaginary one
        if from_bits > to_bits:
            value = yield operand, indices[:-1]
            return e.assign(result, f"as_float2({indices[-1]} == 0 ? {value}.x : {value}.y)", block)
        parts = []
        for n in range(2):
            value = yield operand, (*indices, constant(n))
            parts.append(f"as_double({value})")
        return e.assign(result, f"(double2)({', '.join(parts)})", block)
    narrow, wide = (_UNSIGNED[max(8, bits)] for bits in sorted((from_bits, to_bits)))  # a byte for a few bits
    raw = e.names.fresh("b")
    if from_bits > to_bits:  # the new minor dimension counts the parts, the least significant first
        value = yield operand, indices[:-1]
        part = indices[-1] * to_bits
        block.line(f"const {narrow} {raw} = ({narrow})(as_{wide}({scalar.store(source, value)}) >> ({part}));")
    else:
        parts = []
        for n in range(to_bits // from_bits):
            value = yield operand, (*indices, constant(n))
            bits = f"as_{narrow}({scalar.store(source, value)})" + (
                "" if from_bits >= 8 else f" & {(1 << from_bits) - 1}"
            )
            parts.append(f"({wide})({bits}) << {n * from_bits}")
        block.line(f"const {wide} {raw} = ({wide})({' | '.join(f'({p})' for p in parts)});")
    return e.assign(result, scalar.load(result, f"as_{scalar.storage_type(result)}({raw})"), block)


def _no_reduce(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    raise UnsupportedError(f"{i.name}: {i.opcode} has no elementwise form; it must be the hero of its own kernel")
    yield


_RULES: dict[str, Callable[[ElementalIrEmitter, Instruction, Indices, Block], Rule]] = {
    **dict.fromkeys(_THROUGH, _through),
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "tuple": _tuple,
    "bitcast-convert": _bitcast_convert,
    **elemental_rules.RULES,
    **dict.fromkeys((r.opcode for r in ROWS.values() if r.group == HERO and not r.by_element), _no_reduce),
    **dict.fromkeys(("parameter", "while", "conditional", "custom-call"), _no_reduce),
}


def is_elementwise(instruction: Instruction) -> bool:
    """Whether an element of the result depends on the elements of the operands at its own indices alone."""
    return instruction.opcode in _THROUGH or instruction.opcode not in _RULES
