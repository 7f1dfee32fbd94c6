"""Flattens tuples, so that all later stages may treat every value as an array.

Afterwards
    - the parameters of the entry are arrays (a tuple parameter is replaced by its leaves, numbered in order);
    - a while carries one flat tuple: its operand and the root of its body are `tuple` instructions of arrays; so are
      the operands of conditionals and the roots of their branches, even where there is only one array;
    - each computation that a while or conditional runs has one parameter, a flat tuple;
    - get-tuple-element reads only such a parameter or an operation with several outputs, once for each element;
    - the root of the entry is an array or a flat `tuple`; the caller keeps the original shapes of the results.
opt-barrier, after-all and add-dependency are removed: a plan runs in order, so they have no effect.
"""

from __future__ import annotations

from typing import TypeAlias

from refxla_spec.module import Computation, Instruction, Metadata, Module
from refxla_spec.types import Shape, leaves

from .._core.shapes import make
from ..analysis.donation import flatten_donations
from .dce import called_first, sort

Tree: TypeAlias = "Instruction | list[Tree]"  # an array (or token) value, or a list of trees


def run(module: Module) -> int:
    """Flattens the tuples of every computation. Returns 0: only the form changes."""
    flatten_donations(module)
    module.computations = called_first(module.entry)
    conditions = {i.condition for i in module.instructions() if i.opcode == "while"}
    flat = {c for i in module.instructions() if i.opcode in ("while", "conditional") for c in i.called}
    for computation in module.computations:
        if computation in flat or computation is module.entry:
            returns_array = computation is module.entry or computation in conditions
            _Flattening(computation, computation is module.entry).run(returns_array)
    return 0


class _Flattening:
    """One computation being rewritten: its new instructions, and the tree of arrays that each old one became."""

    def __init__(self, computation: Computation, is_entry: bool) -> None:
        self.computation, self.is_entry = computation, is_entry
        self.instructions: list[Instruction] = []
        self.trees: dict[Instruction, Tree] = {}
        self.elements: dict[tuple[Instruction, int], Instruction] = {}

    def run(self, returns_array: bool) -> None:
        """Rewrites the computation. With `returns_array` its root may be an array; without, it is a tuple, even of one
        element."""
        self._rewrite_parameters()
        for i in self.computation.instructions:
            if i.opcode != "parameter":
                self.trees[i] = self._rewritten(i, [self.trees[o] for o in i.operands])
        root = self.trees[self.computation.root]
        if not isinstance(root, Instruction) or not returns_array:
            root = self._flat_tuple(f"{self.computation.root.name}.flat", root)
        self.computation.root = root
        self.computation.instructions = self.instructions
        sort(self.computation)

    def _rewrite_parameters(self) -> None:
        """Gives the entry a parameter for each array, and any other computation one flat tuple."""
        parameters = self.computation.parameters
        if not self.is_entry:
            (parameter,) = parameters
            flat = Shape.tuple_of(*leaves(parameter.shape))
            whole = self._new(Instruction(parameter.name, "parameter", flat, [], {"number": 0}))
            self.trees[parameter] = self._tree_of(whole, parameter.shape)
            return
        numbers = iter(range(sum(len(leaves(p.shape)) for p in parameters)))

        def open_parameter(shape: Shape, name: str, metadata: Metadata | None) -> Tree:
            if shape.is_tuple:
                return [open_parameter(e, f"{name}.{n}", metadata) for n, e in enumerate(shape.elements)]
            return self._new(Instruction(name, "parameter", shape, [], {"number": next(numbers)}, metadata))

        for p in parameters:
            self.trees[p] = open_parameter(p.shape, p.name, p.metadata)

    def _rewritten(self, i: Instruction, operands: list[Tree]) -> Tree:
        """The tree that an instruction becomes: of its operands, or of the results of an operation on arrays."""
        match i.opcode:
            case "tuple":
                return operands
            case "get-tuple-element":
                chosen: Tree = _elements(operands[0])[i.index]
                return chosen
            case "opt-barrier" | "add-dependency":
                return operands[0]
            case "copy" if i.shape.is_tuple:
                return operands[0]
            case "select" if i.shape.is_tuple:
                return self._select(i, operands)
            case "while":
                i.operands = [self._flat_tuple(f"{i.name}.init", operands[0])]
            case "conditional":
                flat = [self._flat_tuple(f"{i.name}.operand.{n}", t) for n, t in enumerate(operands[1:])]
                i.operands = [_array(operands[0]), *flat]
            case _:
                i.operands = [o for t in operands for o in flatten(t)]
        i.control_predecessors = []
        shape = i.shape
        if i.opcode in ("while", "conditional"):
            i.shape = Shape.tuple_of(*leaves(shape))
        self._new(i)
        if i.opcode in ("while", "conditional") and not shape.is_tuple:
            return self._element(i, 0, shape)
        return self._tree_of(i, shape) if shape.is_tuple else i

    def _select(self, i: Instruction, operands: list[Tree]) -> Tree:
        """A select of tuples is a select of each leaf."""

        def build(pred: Instruction, on_true: Tree, on_false: Tree) -> Tree:
            if isinstance(on_true, list) or isinstance(on_false, list):
                return [build(pred, t, f) for t, f in zip(_elements(on_true), _elements(on_false), strict=True)]
            if on_true.shape.rank:
                wide = on_true.shape.with_element_type(pred.shape.element_type)
                name = f"{i.name}.{on_true.name}.pred"
                pred = self._new(make("broadcast", pred, name=name, shape=wide, dimensions=()))
            return self._new(make("select", pred, on_true, on_false, name=f"{i.name}.{on_true.name}"))

        return build(_array(operands[0]), operands[1], operands[2])

    def _new(self, instruction: Instruction) -> Instruction:
        self.instructions.append(instruction)
        return instruction

    def _flat_tuple(self, name: str, tree: Tree) -> Instruction:
        return self._new(make("tuple", *flatten(tree), name=name))

    def _tree_of(self, source: Instruction, shape: Shape) -> Tree:
        """The tree of a flat tuple `source` whose elements are the leaves of `shape`."""
        numbers = iter(range(len(leaves(shape))))

        def build(s: Shape) -> Tree:
            return [build(e) for e in s.elements] if s.is_tuple else self._element(source, next(numbers), s)

        return build(shape)

    def _element(self, source: Instruction, index: int, shape: Shape) -> Instruction:
        """The one get-tuple-element of that index."""
        key = (source, index)
        if key not in self.elements:
            name = f"{source.name}.{index}"
            gte = Instruction(name, "get-tuple-element", shape, [source], {"index": index}, source.metadata)
            self.elements[key] = self._new(gte)
        return self.elements[key]


def _elements(tree: Tree) -> list[Tree]:
    assert isinstance(tree, list)
    return tree


def _array(tree: Tree) -> Instruction:
    assert isinstance(tree, Instruction)
    return tree


def flatten(tree: Tree) -> list[Instruction]:
    """The arrays of a tree, in order."""
    return [leaf for t in tree for leaf in flatten(t)] if isinstance(tree, list) else [tree]
