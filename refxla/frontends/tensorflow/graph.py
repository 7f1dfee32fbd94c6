"""The graph of a traced function as nodes that refer to each other, with the functions that it calls inlined.

A `tf.Graph` cannot be cut: its operations are in functions that call each other. Here, a cluster may extend across
calls. A node knows the operation from which it was read, and through it the user's source line.
"""

from __future__ import annotations

import os
import site
import sysconfig
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


@dataclass(eq=False)
class Node:
    """An operation of TensorFlow.

    `name` is unique in its graph; in an inlined function, it begins with the name of the call. `definition` is the
    NodeDef, whose attributes are valid and whose inputs are not. `controls` are nodes that run before this one,
    although it takes nothing from them.
    """

    name: str
    definition: Any
    inputs: tuple[Value, ...]
    controls: tuple[Node, ...]
    types: tuple[Any, ...]  # of the results, as tf.DType
    origin: Any = field(repr=False)  # the tf.Operation

    @property
    def operation(self) -> str:
        """Its operation, under TensorFlow's name."""
        name: str = self.definition.op
        return name

    @property
    def has_effect(self) -> bool:
        """Whether it does more than compute results: reads or writes a variable, prints, calls Python."""
        effect: bool = self.origin.op_def.is_stateful
        return effect

    @property
    def predecessors(self) -> Iterator[Node]:
        """The nodes that run before this one."""
        yield from (value.node for value in self.inputs)
        yield from self.controls

    @cached_property
    def source(self) -> str:
        """The user's source line, "file:line"; "" if none led here."""
        return _users_line(self.origin)

    def __repr__(self) -> str:
        return f"<{self.operation} {self.name}>"


class Value(NamedTuple):
    """A result of a node, with its number."""

    node: Node
    number: int

    @property
    def type(self) -> Any:
        """The tf.DType."""
        return self.node.types[self.number]


@dataclass
class FunctionGraph:
    """The nodes, each after those that it needs, and its inputs and outputs.

    `inputs` are results of nodes of the operation Placeholder, which are not among `nodes`. `content` is the GraphDef,
    with the functions named by the nodes' attributes: bodies of loops, branches. `is_simplified`: some of TensorFlow's
    operations have become constants.
    """

    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]
    content: Any
    is_simplified: bool = False

    @cached_property
    def functions(self) -> Mapping[str, Any]:
        """The FunctionDefs by name."""
        return {f.signature.name: f for f in self.content.library.function}


def read(traced: Any) -> FunctionGraph:
    """The Graph of a FuncGraph: only what its results and effects need."""
    reader = _Reader()
    inputs = [reader.argument(tensor) for tensor in traced.inputs]
    outputs, ends = reader.read(traced, "", inputs, ())
    constants = _clamped_to_constants(reader.nodes)
    for node in reader.nodes if constants else ():
        node.inputs = tuple(constants.get(v, v) for v in node.inputs)
    outputs = [constants.get(v, v) for v in outputs]
    needed = _reached([*(v.node for v in outputs), *ends])
    arguments = {v.node for v in inputs}
    nodes = [n for n in reader.nodes if n in needed and n not in arguments]
    return FunctionGraph(nodes, inputs, outputs, traced.as_graph_def(), bool(constants))


def _clamped_to_constants(nodes: Sequence[Node]) -> dict[Value, Value]:
    """Scalars of integers that are clamped between bounds that leave one number, with the bound that it is: min(n,
    max(n, x)) and the like.

    Keras's encoding of categories has such sizes (`tf.math.bincount` with minlength = maxlength). TensorFlow computes
    sizes from the arguments when it lowers a graph, so each value of x would be another program.
    """
    opposite = {"Minimum": "Maximum", "Maximum": "Minimum"}
    constants = {}
    for node in nodes:
        for outer, inner in (node.inputs, node.inputs[::-1]) if node.operation in opposite else ():
            if inner.node.operation != opposite[node.operation] or node.origin.outputs[0].shape.rank != 0:
                continue
            bound, others = _integer(outer), [_integer(v) for v in inner.node.inputs]
            leaves_one = int.__le__ if node.operation == "Minimum" else int.__ge__
            if bound is not None and any(n is not None and leaves_one(bound, n) for n in others):
                constants[Value(node, 0)] = outer
    return constants


def _integer(value: Value) -> int | None:
    """The number that a value is in each call, if it is a constant integer."""
    import tensorflow as tf

    if value.node.operation != "Const" or not value.type.is_integer:
        return None
    array = tf.make_ndarray(value.node.definition.attr["value"].tensor)
    return None if array.ndim else int(array)


class _Reader:
    """The nodes read so far, of a function and of those that it calls."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def argument(self, tensor: Any) -> Value:
        node = Node(tensor.op.name, tensor.op.node_def, (), (), (tensor.dtype,), tensor.op)
        return Value(node, 0)

    def read(
        self, traced: Any, prefix: str, arguments: Sequence[Value], controls: tuple[Node, ...]
    ) -> tuple[list[Value], list[Node]]:
        """The results of a function that is called with these arguments after these nodes, and the nodes with which its
        effects end."""
        values = {t.op.name: [argument] for t, argument in zip(traced.inputs, arguments, strict=True)}
        ends: dict[str, tuple[Node, ...]] = dict.fromkeys(values, ())
        own: set[Node] = set()
        for op in _in_order(traced.get_operations()):
            if op.name in values:
                continue
            inputs = tuple(values[t.op.name][t.value_index] for t in op.inputs)
            before = tuple(dict.fromkeys(node for c in op.control_inputs for node in ends[c.name]))
            if not any(v.node in own for v in inputs) and not before:
                before = controls  # all others wait for one that does
            if op.type in _CALLS:
                body = function_of(traced, op.get_attr("f").name)
                values[op.name], last = self.read(body, f"{prefix}{op.name}/", inputs, before)
                ends[op.name] = tuple(dict.fromkeys([*last, *(v.node for v in values[op.name]), *before]))
                own |= {v.node for v in values[op.name]} | set(last)
                continue
            node = Node(prefix + op.name, op.node_def, inputs, before, tuple(t.dtype for t in op.outputs), op)
            self.nodes.append(node)
            if op.type != "Const":  # constants wait for nothing
                own.add(node)
            values[op.name] = [Value(node, n) for n in range(len(op.outputs))]
            ends[op.name] = (node,)
        results = [values[t.op.name][t.value_index] for t in traced.outputs]
        return results, [node for op in traced.control_outputs for node in ends[op.name]]


def _in_order(operations: Iterable[Any]) -> list[Any]:
    """Operations after those from which they take values or for which they wait; TensorFlow adds some that wait
    later."""
    order: dict[Any, None] = {}
    for operation in operations:
        waiting = [operation]
        while waiting:
            last = waiting[-1]
            before = [op for op in (*(t.op for t in last.inputs), *last.control_inputs) if op not in order]
            if before:
                waiting += before
            else:
                waiting.pop()
                order[last] = None
    return list(order)


def function_of(traced: Any, name: str) -> Any:
    """The FuncGraph of a function that a graph calls."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    around = traced
    while (function := around._get_function(name)) is None:
        around = around.outer_graph
    if hasattr(function, "graph"):
        return function.graph
    with traced.as_default():  # the function came with an imported graph
        return function_def_to_graph(function.definition)


def called_by(operation: Any, functions: Container[str]) -> list[str]:
    """The functions that an operation (a NodeDef) calls, by name: bodies, conditions, branches; or the operation itself
    is one."""
    attributes = operation.attr.values()
    names = [f.name for a in attributes for f in ([a.func] if a.HasField("func") else a.list.func)]
    return [*names, operation.op] if operation.op in functions else names


def nodes_named(graph: FunctionGraph, nodes: Iterable[Node], names: Container[str]) -> dict[Node, str]:
    """The nodes that TensorFlow means by these names, with the operation of that name.

    In a called function, TensorFlow uses the operation's name in the function. An operation in the body of a loop, or
    in a branch, is represented by the node with that body.
    """

    def operation(definition: Any) -> str | None:
        for name in called_by(definition, graph.functions):
            for inner in graph.functions[name].node_def:
                found = inner.op if inner.name in names else operation(inner)
                if found:
                    return found
        return None

    of = {n: n.operation if n.name in names or n.origin.name in names else operation(n.definition) for n in nodes}
    return {n: found for n, found in of.items() if found}


def _reached(ends: Iterable[Node]) -> set[Node]:
    """These nodes and those that they need."""
    nodes, waiting = set(), list(ends)
    while waiting:
        node = waiting.pop()
        if node not in nodes:
            nodes.add(node)
            waiting += node.predecessors
    return nodes


# Files that are not part of the user's program: installed packages, also of another environment on Python's path,
# Python's own library, this package, and AutoGraph's.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}
_NOT_THE_USERS = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (
        *site.getsitepackages(), site.getusersitepackages(), sysconfig.get_paths()["stdlib"],
        os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    )
)  # fmt: skip


def is_users_file(name: str) -> bool:
    """Whether a source file belongs to the user's program."""
    if "__autograph_generated_file" in name or name.startswith("<"):
        return False
    path = os.path.realpath(name)
    return not path.startswith(_NOT_THE_USERS) and _PACKAGE_FOLDERS.isdisjoint(path.split(os.sep))


def _users_line(operation: Any) -> str:
    for frame in reversed(operation.traceback or ()):  # None in a function that TensorFlow has copied
        if is_users_file(frame.filename):
            file = os.path.realpath(frame.filename)
            inside = os.path.relpath(file)
            return f"{file if inside.startswith('..') else inside}:{frame.lineno}"
    return ""
