"""Flattens tuples, so that all later stages may treat every value as an array.

Afterwards
    - the parameters of the entry are arrays (a tuple parameter is replaced by its leaves, numbered in order);
    - a while carries one flat tuple: its operand and the root of its body are `tuple` instructions of arrays; so are
      the operands of conditionals and the roots of their branches, even where there is only one array;
    - each computation that a while or conditional runs has one parameter, a flat tuple;
    - get-tuple-element reads only such a parameter or an operation with several outputs, once for each element;
    - the root of the entry is an array or a flat `tuple`; the caller keeps the original shapes of the results.
opt-barrier, after-all and add-dependency have no effect here, because a plan runs in order, and are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from refxla_spec.module import Computation, Instruction, Metadata, Module
from refxla_spec.types import Shape, leaves

from .._core.shapes import make
from ..analysis.donation import flatten_donations
from .dce import called_first, sort

Tree: TypeAlias = "Instruction | list[Tree]"  # an array (or token) value, or a list of trees


def run(module: Module) -> int:
    """Rewrite every computation that is entered with tuples. Returns 0: it is a change of form."""
    flatten_donations(module)
    module.computations = called_first(module.entry)
    conditions = {i.condition for i in module.instructions() if i.opcode == "while"}
    flat = {c for i in module.instructions() if i.opcode in ("while", "conditional") for c in i.called}
    for computation in module.computations:
        if computation in flat or computation is module.entry:
            _flatten(computation, computation is module.entry, computation not in conditions)
    return 0


def _flatten(computation: Computation, is_entry: bool, gives_tuple: bool) -> None:
    """Rewrite one; `gives_tuple` says that it gives one where it is no entry: it is no condition."""
    instructions: list[Instruction] = []
    trees: dict[Instruction, Tree] = {}
    elements: dict[tuple[Instruction, int], Instruction] = {}

    def new(instruction: Instruction) -> Instruction:
        instructions.append(instruction)
        return instruction

    def element(source: Instruction, index: int, shape: Shape) -> Instruction:
        """The one get-tuple-element of that index."""
        key = (source, index)
        if key not in elements:
            name = f"{source.name}.{index}"
            gte = Instruction(name, "get-tuple-element", shape, [source], {"index": index}, source.metadata)
            elements[key] = new(gte)
        return elements[key]

    def tree_of(source: Instruction, shape: Shape) -> Tree:
        """The tree of a flat tuple `source` whose elements are the leaves of `shape`."""
        numbers = iter(range(len(leaves(shape))))

        def build(s: Shape) -> Tree:
            return [build(e) for e in s.elements] if s.is_tuple else element(source, next(numbers), s)

        return build(shape)

    def flat_tuple(name: str, tree: Tree) -> Instruction:
        return new(make("tuple", *flatten(tree), name=name))

    parameters = computation.parameters
    if is_entry:
        numbers = iter(range(sum(len(leaves(p.shape)) for p in parameters)))

        def open_parameter(shape: Shape, name: str, metadata: Metadata | None) -> Tree:
            if shape.is_tuple:
                return [open_parameter(e, f"{name}.{n}", metadata) for n, e in enumerate(shape.elements)]
            return new(Instruction(name, "parameter", shape, [], {"number": next(numbers)}, metadata))

        for p in parameters:
            trees[p] = open_parameter(p.shape, p.name, p.metadata)
    else:
        shape = parameters[0].shape
        whole = new(Instruction(parameters[0].name, "parameter", Shape.tuple_of(*leaves(shape)), [], {"number": 0}))
        trees[parameters[0]] = tree_of(whole, shape)

    for i in computation.instructions:
        operands = [trees[o] for o in i.operands]
        match i.opcode:
            case "parameter":
                continue
            case "tuple":
                trees[i] = operands
                continue
            case "get-tuple-element":
                trees[i] = _elements(operands[0])[i.index]
                continue
            case "opt-barrier" | "add-dependency":
                trees[i] = operands[0]
                continue
            case "copy" if i.shape.is_tuple:
                trees[i] = operands[0]
                continue
            case "while":
                i.operands = [flat_tuple(f"{i.name}.init", operands[0])]
            case "conditional":
                i.operands = [_array(operands[0])] + [
                    flat_tuple(f"{i.name}.operand.{n}", t) for n, t in enumerate(operands[1:])
                ]
            case "select" if i.shape.is_tuple:
                trees[i] = _select(i, operands, new)
                continue
            case _:
                i.operands = [o for t in operands for o in flatten(t)]
        i.control_predecessors = []
        shape = i.shape
        if i.opcode in ("while", "conditional"):
            i.shape = Shape.tuple_of(*leaves(shape))
        new(i)
        if i.opcode in ("while", "conditional") and not shape.is_tuple:
            trees[i] = element(i, 0, shape)
        else:
            trees[i] = tree_of(i, shape) if shape.is_tuple else i
    root = trees[computation.root]
    if isinstance(root, Instruction) and (is_entry or not gives_tuple):
        computation.root = root
    else:
        computation.root = flat_tuple(f"{computation.root.name}.flat", root)
    computation.instructions = instructions
    sort(computation)


def _select(i: Instruction, operands: list[Tree], new: Callable[[Instruction], Instruction]) -> Tree:
    """A select of tuples is a select of each leaf."""

    def build(pred: Instruction, on_true: Tree, on_false: Tree) -> Tree:
        if isinstance(on_true, list) or isinstance(on_false, list):
            return [build(pred, t, f) for t, f in zip(_elements(on_true), _elements(on_false), strict=True)]
        if on_true.shape.rank:
            wide = on_true.shape.with_element_type(pred.shape.element_type)
            pred = new(make("broadcast", pred, name=f"{i.name}.{on_true.name}.pred", shape=wide, dimensions=()))
        return new(make("select", pred, on_true, on_false, name=f"{i.name}.{on_true.name}"))

    return build(_array(operands[0]), operands[1], operands[2])


def _elements(tree: Tree) -> list[Tree]:
    assert isinstance(tree, list)
    return tree


def _array(tree: Tree) -> Instruction:
    assert isinstance(tree, Instruction)
    return tree


def flatten(tree: Tree) -> list[Instruction]:
    """The arrays of a tree, in order."""
    return [leaf for t in tree for leaf in flatten(t)] if isinstance(tree, list) else [tree]
