"""Turns a program for several devices into one for a single device, which computes what all of them do.

A partitioned program describes a computation on global values. Its parameters and results are cut into tiles, one for
each device, as their shardings say. Only within manual regions (JAX's shard_map) does each device have a value of its
own. So global values are computed once, and per-device values once for each device; a collective becomes what it does
to these. A region within another one divides each device's value. Unreduced values are computed as the sums that they
stand for, and divided into summands of which all but one are zeros. Parameters and results of the new program are those
of all devices, one device after another.

This does not make use of several machines or GPUs. It lets one device stand for many, as XLA's host platform does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from refxla_spec.custom_calls import TARGETS as MEANINGS
from refxla_spec.custom_calls import identity
from refxla_spec.custom_calls.sharded import WHOLE, Tiling, check_summed, mesh_tilings, tiling
from refxla_spec.errors import UnsupportedError
from refxla_spec.groups import device_pairs, member_groups
from refxla_spec.module import Computation, Instruction, Module, clone_computation
from refxla_spec.names import make_unique
from refxla_spec.types import F32, PRED, U32, Shape
from refxla_spec.vectorize import COMMUTATIVE

from .._core.shapes import make
from ..ir.builder import Build
from .dce import called_first
from .value_numbering import ValueNumbers

TO_TILES = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
TO_WHOLE = ("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape")
REGION = "xla.sdy.manual_computation_body"  # a prefix of the names of computations that are manual regions
RESULT = "xla.sdy.FuncResultSharding"


@dataclass(frozen=True)
class PerDevice:
    """A value that differs between devices."""

    values: tuple[Instruction, ...]


Value = Instruction | PerDevice  # a single instruction is a global value


def on_one_device(module: Module, count: int) -> Module:
    """A new module that computes on one device what `module` computes on `count` partitions.

    Raises UnsupportedError for collectives that have no equivalent on one device, and for shardings that are not
    tilings into equal parts.
    """
    return _Rewrite(module, count).module()


def result_shardings(module: Module) -> list[str | None]:
    """How each result of a program is cut, according to the program; None if it is global. Along dimensions that are
    not cut into equal parts a result is whole, as in Shardy; JAX refuses such shardings of arguments and of declared
    results."""
    root = module.entry.root
    if not root.shape.is_tuple:
        return [_even(root.sharding, root.shape, root)]
    shapes = root.shape.elements
    stated = _split(root.sharding, len(shapes)) if root.sharding else [None] * len(shapes)
    return [_even(s, shape, root) for s, shape in zip(stated, shapes, strict=True)]


def _even(sharding: str | None, shape: Shape, root: Instruction) -> str | None:
    """A result's sharding without the cuts into unequal parts."""
    cut = WHOLE if shape.element_type.kind == "token" else tiling(sharding, shape.rank, root, 1)
    if cut is WHOLE:
        return None
    if not any(size % n for size, n in zip(shape.dimensions, cut.counts, strict=True)):
        return sharding
    counts = tuple(1 if size % n else n for size, n in zip(shape.dimensions, cut.counts, strict=True))
    tiles = {d: tuple(k if n > 1 else 0 for k, n in zip(tile, counts, strict=True)) for d, tile in cut.tiles.items()}
    return _text(replace(cut, counts=counts, tiles=tiles))


def _text(cut: Tiling | None) -> str | None:
    """A tiling in the notation of `sharding`."""
    if cut is WHOLE:
        return None
    devices = sorted(cut.tiles, key=lambda d: (cut.tiles[d], cut.summand(d), d))
    summands = len({cut.summand(d) for d in devices})
    each = len(devices) // max(1, int(np.prod(cut.counts)) * summands)
    last = {"unreduced": summands, "replicated": each}
    kinds = [kind for kind, size in last.items() if size > 1]
    if summands == len(devices) > 1:
        return "{unreduced}"
    names = (",".join(map(str, numbers)) for numbers in ((*cut.counts, *(last[k] for k in kinds)), devices))
    end = f" last_tile_dims={{{', '.join(kinds)}}}" if summands > 1 else " last_tile_dim_replicate" if kinds else ""
    return "{{devices=[{}]{}{}}}".format(*names, end)


class _Rewrite:
    """The new program, while it is written: the instructions so far, and the state of the walk through the old one.

    `special` are the computations in which devices meet or differ, `meetings` those in which they exchange values.
    """

    def __init__(self, module: Module, count: int) -> None:
        self.source, self.count = module, count
        self.special = _callers(module, _is_special)
        self.meetings = _callers(module, _is_meeting)
        self.numbers = ValueNumbers()
        self.order: dict[Instruction, None] = {}  # of the new computation
        self.depth = 0  # of the current manual region
        self.device: int | None = None  # whose own computation is walked: all values are whole for it
        self.computations: dict[Computation, Computation] = {}  # those that are copied unchanged

    def module(self) -> Module:
        entry = self.source.entry
        parameters = [self._parameter(n, p, len(entry.parameters)) for n, p in enumerate(entry.parameters)]
        root = self.walk(entry, parameters)
        shapes = entry.root.shape.elements if entry.root.shape.is_tuple else (entry.root.shape,)
        shardings = result_shardings(self.source)
        b = Build("result")
        results = []
        for d in range(self.count):
            for n, (shape, sharding) in enumerate(zip(shapes, shardings, strict=True)):
                value = self.part(root, d)
                if entry.root.shape.is_tuple:
                    value = (
                        value.operands[n] if value.opcode == "tuple" else b.make("get-tuple-element", value, index=n)
                    )
                cut = WHOLE if isinstance(root, PerDevice) else tiling(sharding, shape.rank, entry.root, self.count)
                results.append(self._tile(b, value, cut, d))
        whole = self.add(b.make("tuple", *results))
        computation = Computation(entry.name, list(self.order), whole)
        module = Module(self.source.name, [computation], computation, {})
        module.computations = called_first(computation)
        make_unique(module)
        return module

    def _parameter(self, number: int, p: Instruction, parameters: int) -> Value:
        """The global value of a parameter, assembled from the devices' tiles."""
        cut = tiling(p.sharding, p.shape.rank, p, self.count)
        plain = p.shape.without_layout()
        counts = (1,) * plain.rank if cut is WHOLE else cut.counts
        if any(size % n for size, n in zip(plain.dimensions, counts, strict=True)):
            raise UnsupportedError(f"{p.name}: {plain} is not cut into {list(counts)} equal tiles")
        part = plain.with_dimensions(tuple(size // n for size, n in zip(plain.dimensions, counts, strict=True)))
        parts = [
            self.add(Instruction(f"{p.name}.{d}", "parameter", part, [], {"number": d * parameters + number}))
            for d in range(self.count)
        ]
        return self._whole(Build(p.name), parts, cut)

    # -- computations ---------------------------------------------------------------------------------------------

    def walk(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The value of a computation, whose instructions are added to the new one."""
        values: dict[Instruction, Value] = dict(zip(computation.parameters, arguments, strict=True))
        for i in computation.instructions:
            if i.opcode != "parameter":
                values[i] = self.value(i, [values[o] for o in i.operands])
        return values[computation.root]

    def value(self, i: Instruction, operands: list[Value]) -> Value:
        target = i.attributes.get("custom_call_target")
        if target in TO_TILES:
            return self.to_tiles(i, operands)
        if target in TO_WHOLE:
            return self.to_whole(i, operands)
        if target == RESULT:
            check_summed(i)
        if target in MEANINGS and MEANINGS[target] is identity:
            return operands[0]
        if i.opcode == "call":
            region = i.to_apply.name.startswith(REGION)
            self.depth += region
            result = self.walk(i.to_apply, operands)
            self.depth -= region
            return result
        if i.opcode in ("partition-id", "replica-id"):
            numbers = range(self.count) if i.opcode == "partition-id" else [0] * self.count
            return self.each(lambda d: Build(i.name).scalar(numbers[d], U32))
        if i.opcode in _COLLECTIVES:
            data = [[self.part(o, d) for o in operands] for d in range(self.count)]
            return self.each(_COLLECTIVES[i.opcode](self, i, data).__getitem__)
        if i.opcode in ("while", "conditional") and any(c in self.special for c in i.called):
            return self.loop(i, operands[0]) if i.opcode == "while" else self.branch(i, operands)
        whole = [o for o in operands if isinstance(o, Instruction)]
        if len(whole) == len(operands):
            return self.add(self.copy(i, whole))
        return self.each(lambda d: self.copy(i, [self.part(o, d) for o in operands]))

    def loop(self, i: Instruction, state: Value, until_all_are_done: bool = False) -> Value:
        """A loop in which devices meet or differ.

        All devices iterate together if their conditions are provably equal: computed in the same way from parts of the
        state that start equal and change equally. Otherwise each device has a loop of its own, unless devices meet in
        it. If they do, they iterate until all are done, and a device that is done keeps its state.
        """
        parts, per_device = self.parts(state)
        shape = Shape.tuple_of(*(p.shape for p in parts))
        predicates: list[Instruction] = []

        def inside(whole: Instruction) -> Value:
            self.numbers.set(whole, self._state(whole, parts, alike))
            return self.value_of(
                [self.add(make("get-tuple-element", whole, index=k)) for k in range(len(parts))], per_device
            )

        def condition(whole: Instruction) -> Instruction:
            result = self.walk(i.condition, [inside(whole)])
            if isinstance(result, PerDevice) and not per_device:
                raise _Differs
            predicates[:], _ = self.parts(result)
            return self.add(_folded(Build(i.name), "or", predicates)) if until_all_are_done else predicates[0]

        def body(whole: Instruction) -> Instruction:
            before = inside(whole)
            results, became = self.parts(self.walk(i.body, [before]), per_device)
            if became != per_device:
                raise _Differs
            if until_all_are_done:
                goes_on, _ = self.parts(self.walk(i.condition, [before]), True)
                olds, _ = self.parts(before)
                results = [self._chosen(*x) for x in zip(goes_on, results, olds, strict=True)]
            return self.add(make("tuple", *results))

        alike = self._alike(parts)
        while True:
            try:
                called: dict[str, Any] = {
                    "condition": self.computation(i.condition.name, shape, condition),
                    "body": self.computation(i.body.name, shape, body),
                }
            except _Differs:  # what was global before an iteration differs between devices after it
                return self.loop(i, self.each(lambda d: self.part(state, d)))
            remains = alike & self._alike(called["body"].root.operands)
            if remains == alike:
                break
            alike = remains
        shared = len({self.numbers.of(t) for t in predicates}) == 1
        if not shared and not until_all_are_done:
            if any(c in self.meetings for c in i.called):
                _check_repeatable(i)
                return self.loop(i, state, until_all_are_done=True)
            return self.alone(i, [state])
        loop = self.add(make("while", self.add(make("tuple", *parts)), name=i.name, **called))
        self.numbers.set(loop, self._state(loop, parts, alike))
        return self.value_of(
            [self.add(make("get-tuple-element", loop, index=k)) for k in range(len(parts))], per_device
        )

    def _alike(self, parts: Sequence[Instruction]) -> set[int]:
        """Which elements of the state, given as a tuple for each device, are equal on all devices."""
        numbers = [self.numbers.elements(p) if p.shape.is_tuple else (self.numbers.of(p),) for p in parts]
        return {k for k, of_devices in enumerate(zip(*numbers, strict=True)) if len(set(of_devices)) == 1}

    def _state(self, whole: Instruction, parts: Sequence[Instruction], alike: set[int]) -> int:
        """The value number of all devices' states, where the elements `alike` are equal on all devices."""

        def element(device: int, k: int) -> int:
            return self.numbers.key(("state", whole, k, None if k in alike else device))

        return self.numbers.tuple_of(
            [
                self.numbers.tuple_of([element(d, k) for k in range(len(p.shape.elements))])
                if p.shape.is_tuple
                else element(d, 0)
                for d, p in enumerate(parts)
            ]
        )

    def _chosen(self, choice: Instruction, new: Instruction, old: Instruction) -> Instruction:
        """The new value where the choice is true, otherwise the old one; both may be tuples."""
        b = Build(new.name)
        if new.shape.is_tuple:
            pairs = [
                [self.add(make("get-tuple-element", x, index=k)) for x in (new, old)]
                for k in range(len(new.shape.elements))
            ]
            return self.add(b.make("tuple", *(self._chosen(choice, *pair) for pair in pairs)))
        if new.shape.element_type.kind == "token":
            return new
        wide = b.spread(choice, Shape(PRED, new.shape.dimensions), ()) if new.shape.rank else choice
        return self.add(b.make("select", wide, new, old))

    def branch(self, i: Instruction, operands: list[Value]) -> Value:
        """A conditional in whose branches devices meet or differ.

        All devices take the same branch if the choice is provably equal. Otherwise each device has a conditional of its
        own, unless devices meet in it. If they do, all branches are executed for all devices, and each device selects
        the results of its own.
        """
        index, *arguments = operands
        shared = len({self.numbers.of(x) for x in self.parts(index)[0]}) == 1
        flat = [self.parts(o) for o in arguments]
        binary = "true_computation" in i.attributes
        branches = (i.true_computation, i.false_computation) if binary else i.branch_computations
        if not shared and not any(c in self.meetings for c in branches):
            return self.alone(i, operands)
        if not shared:
            _check_repeatable(i)
            results = [self.parts(self.walk(c, [o]), True)[0] for c, o in zip(branches, arguments, strict=True)]
            return self.each(lambda d: self._choice(i, self.part(index, d), [r[d] for r in results]))

        def computation(source: Computation, n: int) -> Computation:
            parts, per_device = flat[n]

            def body(whole: Instruction) -> Instruction:
                inside = [self.add(make("get-tuple-element", whole, index=k)) for k in range(len(parts))]
                result = self.walk(source, [self.value_of(inside, per_device)])
                return self.add(make("tuple", *(self.part(result, d) for d in range(self.count))))

            return self.computation(source.name, Shape.tuple_of(*(p.shape for p in parts)), body)

        computations = [computation(c, n) for n, c in enumerate(branches)]
        called: dict[str, Any]
        if binary:
            called = dict(zip(("true_computation", "false_computation"), computations, strict=True))
        else:
            called = {"branch_computations": tuple(computations)}
        packed = [self.add(make("tuple", *parts)) for parts, _ in flat]
        conditional = self.add(make("conditional", self.part(index, 0), *packed, name=i.name, **called))
        return self.each(lambda d: make("get-tuple-element", conditional, index=d))

    def _choice(self, i: Instruction, index: Instruction, results: Sequence[Instruction]) -> Instruction:
        """The result of the branch number `index`, from the results of all branches."""
        b = Build(i.name)
        if index.shape.element_type.kind == "pred":
            return self._chosen(index, *results)
        *others, chosen = results  # the last one also for an index out of range
        for n, result in enumerate(others):
            here = self.add(b.make("compare", index, b.scalar(n, index.shape.element_type), direction="EQ"))
            chosen = self._chosen(here, result, chosen)
        return chosen

    def alone(self, i: Instruction, operands: Sequence[Value]) -> Value:
        """A loop or a conditional in which devices differ but do not meet: each has one of its own."""

        def own(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(own, value))
            if not isinstance(value, Computation):
                return value
            (parameter,) = value.parameters
            return self.computation(value.name, parameter.shape, lambda whole: self.part(self.walk(value, [whole]), 0))

        def of_device(d: int) -> Instruction:
            self.device = d
            try:
                attributes = {k: own(v) for k, v in i.attributes.items()}
            finally:
                self.device = None
            return Instruction(i.name, i.opcode, i.shape, [self.part(o, d) for o in operands], attributes, i.metadata)

        return self.each(of_device)

    def computation(self, name: str, shape: Shape, body: Callable[[Instruction], Instruction]) -> Computation:
        """A new computation of one parameter, besides the one that is being written."""
        outside, self.order = self.order, {}
        try:
            root = body(self.add(Instruction("state", "parameter", shape, [], {"number": 0})))
            return Computation(name, list(self.order), root)
        finally:
            self.order = outside

    def parts(self, value: Value, per_device: bool | None = None) -> tuple[list[Instruction], bool]:
        """The instructions of a value, and whether it differs between devices. With `per_device`, there is one for each
        device in any case."""
        if isinstance(value, PerDevice) or per_device:
            return [self.part(value, d) for d in range(self.count)], True
        return [value], False

    def value_of(self, parts: list[Instruction], per_device: bool) -> Value:
        return PerDevice(tuple(parts)) if per_device else parts[0]

    def copy(self, i: Instruction, operands: Sequence[Instruction]) -> Instruction:
        attributes = {k: self.attribute_of(v) for k, v in i.attributes.items()}
        return Instruction(
            i.name, i.opcode, i.shape, list(operands), attributes, i.metadata, backend_config=i.backend_config
        )

    def attribute_of(self, value: Any) -> Any:
        """An attribute, with its computations replaced by copies."""
        if isinstance(value, tuple):
            return tuple(map(self.attribute_of, value))
        return self.own(value) if isinstance(value, Computation) else value

    def own(self, source: Computation) -> Computation:
        """The copy of a computation of the source; the same one for each call."""
        if source not in self.computations:
            self.computations[source] = clone_computation(source, self.own)
        return self.computations[source]

    # -- values ---------------------------------------------------------------------------------------------------

    def add(self, i: Instruction) -> Instruction:
        """Adds an instruction, and before it those of its operands that are new."""
        stack = [i]
        while stack:
            top = stack[-1]
            waiting = [o for o in top.operands if o not in self.order]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.order[top] = None
        return i

    def each(self, value: Callable[[int], Instruction]) -> Value:
        if self.device is not None:
            return self.add(value(self.device))
        return PerDevice(tuple(self.add(value(d)) for d in range(self.count)))

    def part(self, value: Value, device: int) -> Instruction:
        return value.values[device] if isinstance(value, PerDevice) else value

    def _tile(self, b: Build, value: Instruction, cut: Tiling | None, device: int) -> Instruction:
        if cut is WHOLE or value.shape.element_type.kind == "token":
            return value
        if device not in cut.tiles:
            raise UnsupportedError(f"{value.name}: device {device} has no tile of it")
        if any(size % n for size, n in zip(value.shape.dimensions, cut.counts, strict=True)):
            raise UnsupportedError(f"{value.name}: {value.shape} is not cut into {list(cut.counts)} equal tiles")
        sizes = [size // n for size, n in zip(value.shape.dimensions, cut.counts, strict=True)]
        if cut.summand(device):
            tile = value.shape.without_layout().with_dimensions(tuple(sizes))
            return b.full(tile.element_type.array_dtype.type(0), tile)
        start = tuple(k * size for k, size in zip(cut.tiles[device], sizes, strict=True))
        return b.slice(value, start, tuple(s + size for s, size in zip(start, sizes, strict=True)))

    def _whole(self, b: Build, parts: Sequence[Instruction], cut: Tiling | None, device: int = 0) -> Instruction:
        """The value that the devices' parts make up: the global one or, within another region, that of a device of that
        region."""
        if cut is WHOLE or parts[device].shape.element_type.kind == "token":
            return parts[device]
        tiles = np.empty(cut.counts, object)
        for place, owners in cut.owners(device).items():
            tiles[place] = _folded(b, "add", [parts[d] for d in owners])
        for d in range(len(cut.counts) - 1, -1, -1):
            joined = np.empty(tiles.shape[:-1], object)
            for place in np.ndindex(joined.shape):
                row = list(tiles[place])
                joined[place] = row[0] if len(row) == 1 else b.make("concatenate", *row, dimensions=(d,))
            tiles = joined
        whole: Instruction = tiles.item()
        return self.add(whole)

    def to_tiles(self, i: Instruction, operands: list[Value]) -> Value:
        if i.custom_call_target == TO_TILES[0]:
            if any(isinstance(o, PerDevice) for o in operands):
                raise UnsupportedError(f"{i.name}: a manual region within another one, in the notation of GSPMD")
            cuts = [tiling(o.sharding, o.shape.rank, i, self.count) for o in i.operands]
        else:
            cuts = mesh_tilings(i, "in_shardings", len(operands), self.source)
        b = Build(i.name)
        tiles = [
            [self._tile(b, self.part(o, d), c, d) for o, c in zip(operands, cuts, strict=True)]
            for d in range(self.count)
        ]
        return self.each(lambda d: b.make("tuple", *tiles[d]) if i.shape.is_tuple else tiles[d][0])

    def to_whole(self, i: Instruction, operands: list[Value]) -> Value:
        if i.custom_call_target == TO_WHOLE[0]:
            cuts = [tiling(i.sharding, i.shape.rank, i, self.count)]
        else:
            cuts = mesh_tilings(i, "out_shardings", len(operands), self.source)
        b = Build(i.name)

        def whole(device: int) -> Instruction:
            wholes = [
                self._whole(b, [self.part(o, d) for d in range(self.count)], c, device)
                for o, c in zip(operands, cuts, strict=True)
            ]
            return self.add(b.make("tuple", *wholes)) if i.shape.is_tuple else wholes[0]

        return self.each(whole) if self.depth else whole(0)


class _Differs(Exception):
    """A loop's state is global before an iteration, but differs between devices after it."""


def _is_meeting(i: Instruction) -> bool:
    """Whether devices exchange values in it."""
    return i.opcode in _COLLECTIVES or i.attributes.get("custom_call_target") in TO_TILES + TO_WHOLE


def _is_special(i: Instruction) -> bool:
    """Whether devices meet or differ in it."""
    return _is_meeting(i) or i.opcode in ("partition-id", "replica-id")


def _callers(module: Module, test: Callable[[Instruction], bool]) -> set[Computation]:
    """The computations of such instructions, and those that call one of them, callees first."""
    computations: set[Computation] = set()
    for c in called_first(module.entry):
        if any(test(i) or any(called in computations for called in i.called) for i in c.instructions):
            computations.add(c)
    return computations


def _check_repeatable(i: Instruction) -> None:
    """Raises UnsupportedError where devices that meet in a loop or conditional may take different paths through it, and
    there are side effects in it."""
    for c in (c for outer in i.called for c in called_first(outer)):
        for inner in c.instructions:
            if inner.opcode in ("infeed", "outfeed", "send", "recv") or inner.attributes.get(
                "custom_call_has_side_effect"
            ):
                raise UnsupportedError(
                    f"{inner.name}: {inner.opcode} has no equivalent on one device that stands for several, in "
                    f"{i.name}, through which they go on different ways though they meet there"
                )


def _split(sharding: str | None, count: int) -> list[str | None]:
    """The shardings of a tuple's elements, from {{...}, {...}}; one for all if it is not such a list."""
    if sharding is None or not re.match(r"\{\s*(/\*.*?\*/)?\s*\{", sharding):
        return [sharding] * count
    shardings: list[str | None] = []
    depth = start = 0
    for match in re.finditer(r'[{}]|"(?:[^"\\]|\\.)*"', sharding):  # strings: of metadata
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "{" and depth == 2:
            start = match.start()
        if match[0] == "}" and depth == 1:
            shardings.append(sharding[start : match.end()])
    return shardings


# -- collectives: (rewrite, instruction, operands of each device) -> result of each device ---------------------------

Data = list[list[Instruction]]


def _groups(r: _Rewrite, i: Instruction) -> dict[int, tuple[int, ...]]:
    """The group of each device."""
    return {d: g for g in member_groups(i, 1, r.count) for d in g}


def _one(b: Build, parts: list[Instruction]) -> Instruction:
    return parts[0] if len(parts) == 1 else b.tuple(*parts)


def _combined(b: Build, reducer: Computation, values: list[Instruction]) -> Instruction:
    """Values of several devices combined element by element; narrow sums are computed in f32 and rounded once."""
    root = _unmarked(reducer.root)
    alone = set(map(_unmarked, root.operands)) == set(reducer.parameters)
    return _folded(b, root.opcode if alone else None, values, reducer)


def _unmarked(i: Instruction) -> Instruction:
    """The operand under sharding annotations and the like."""
    while i.opcode == "custom-call" and MEANINGS.get(i.custom_call_target) is identity:
        i = i.operands[0]
    return i


def _folded(b: Build, opcode: str | None, values: list[Instruction], reducer: Computation | None = None) -> Instruction:
    """Values combined in order, by an operation or, where no single one does it, by a computation."""
    element_type = values[0].shape.element_type
    wide = len(values) > 1 and opcode in ("add", "multiply") and element_type.is_float and element_type.bits < 32
    values = [b.convert(v, F32) for v in values] if wide else values
    result = values[0]
    for v in values[1:]:
        if opcode in COMMUTATIVE:
            result = b.make(opcode, result, v)
        else:
            result = b.make("map", result, v, dimensions=tuple(range(v.shape.rank)), to_apply=reducer)
    return b.convert(result, element_type)


def _all_reduce(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    results: dict[tuple[int, ...], Instruction] = {}
    reducer = r.own(i.to_apply)
    for group in _groups(r, i).values():
        if group not in results:
            b = Build(i.name)
            results[group] = _one(b, [_combined(b, reducer, [data[d][n] for d in group]) for n in range(len(data[0]))])
    return [results[_groups(r, i)[d]] for d in range(r.count)]


def _all_gather(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    results: dict[tuple[int, ...], Instruction] = {}
    groups = _groups(r, i)
    for group in groups.values():
        if group not in results:
            b = Build(i.name)
            rows = [[data[d][n] for d in group] for n in range(len(data[0]))]
            results[group] = _one(b, [b.make("concatenate", *row, dimensions=i.dimensions) for row in rows])
    return [results[groups[d]] for d in range(r.count)]


def _cut(b: Build, x: Instruction, dimension: int, parts: int, k: int) -> Instruction:
    """Part k of so many equal ones along a dimension."""
    size = x.shape.dimensions[dimension] // parts
    start = tuple(k * size if d == dimension else 0 for d in range(x.shape.rank))
    limit = tuple((k + 1) * size if d == dimension else n for d, n in enumerate(x.shape.dimensions))
    return b.slice(x, start, limit)


def _reduce_scatter(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    groups, results = _groups(r, i), []
    reducer = r.own(i.to_apply)
    for d in range(r.count):
        b, group = Build(i.name), groups[d]
        k = group.index(d)
        parts = [[_cut(b, data[m][n], i.dimensions[0], len(group), k) for m in group] for n in range(len(data[0]))]
        results.append(_one(b, [_combined(b, reducer, values) for values in parts]))
    return results


def _all_to_all(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    groups, results = _groups(r, i), []
    for d in range(r.count):
        b, group = Build(i.name), groups[d]
        k = group.index(d)
        if not i.dimensions:
            results.append(b.tuple(*(data[m][k] for m in group)))
            continue
        (at,) = i.dimensions
        results.append(
            b.make("concatenate", *(_cut(b, data[m][0], at, len(group), k) for m in group), dimensions=(at,))
        )
    return results


def _permute(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    if i.slice_sizes:
        raise UnsupportedError(f"{i.name}: a permutation of slices has no equivalent on one device")
    source = {t: s for s, t in device_pairs(i, i.source_target_pairs, 1, r.count)}
    results = []
    for d in range(r.count):
        b = Build(i.name)
        zeros = (b.full(o.shape.element_type.array_dtype.type(0), o.shape) for o in data[d])
        results.append(_one(b, data[source[d]] if d in source else list(zeros)))
    return results


def _refused(r: _Rewrite, i: Instruction, data: Data) -> list[Instruction]:
    raise UnsupportedError(f"{i.name}: {i.opcode} has no equivalent on one device that stands for several")


_COLLECTIVES: dict[str, Callable[[_Rewrite, Instruction, Data], list[Instruction]]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "collective-permute": _permute,
    **dict.fromkeys(
        "all-reduce-start all-gather-start collective-permute-start collective-broadcast ragged-all-to-all".split(),
        _refused,
    ),
}
