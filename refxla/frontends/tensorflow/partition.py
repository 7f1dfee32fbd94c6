"""A graph in segments: those that are compiled, and those that TensorFlow runs.

A segment is a function of tensors: values from other segments or the caller are its arguments, values that they use are
its results. Variables are captured, and each segment reads and writes those of its own operations. Segments run one
after the other, so effects keep their order.

Whether a cluster can really be compiled is known when it is lowered for the actual shapes. One that is rejected is cut
again, without the offending operations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from refxla_spec.errors import UnsupportedError

from ...compiler.options import Options
from .clustering import READ, Levels, cluster
from .function import TensorFlowFunction
from .graph import FunctionGraph, Node, Value, called_by, nodes_named
from .lowering import NotLowered
from .xla_support import refusals

MINIMUM = 4  # minimum operations of a cluster, as in TensorFlow's own


@dataclasses.dataclass
class Part:
    """Nodes of a graph, in order, with their inputs and outputs; for inputs that are variables or tables, the
    handles."""

    graph: FunctionGraph
    nodes: Sequence[Node]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    resources: Mapping[Value, Any]


class Partition:
    """A part in segments. Called with the values of its inputs, it returns those of its outputs."""

    def __init__(self, name: str, part: Part, options: Options, refused: Mapping[Node, str]) -> None:
        self.part = part
        reasons = {**refusals(part.nodes, part.graph.functions), **refused}
        levels, self.reasons = cluster(part.nodes, reasons, MINIMUM)
        self.segments: list[GraphSegment] = []
        for n, (level, segment) in enumerate(_parts(part, levels)):
            kind = CompiledSegment if levels.is_compiled(level) else TensorFlowSegment
            self.segments.append(kind(f"{name}_{n}", segment, options))
        self.constants = {v: _constant(v.node) for v in part.outputs if v.node.operation == "Const"}
        self.last_uses = _last_uses(self.segments, part.outputs)

    def __call__(self, *tensors: Any) -> list[Any]:
        values = {**dict(zip(self.part.inputs, tensors, strict=True)), **self.constants}
        for segment, ends in zip(self.segments, self.last_uses, strict=True):
            results = segment.run([values[v] for v in segment.inputs])
            values.update(zip(segment.part.outputs, results, strict=True))
            for value in ends:
                del values[value]
        return [values[v] for v in self.part.outputs]

    def flat(self) -> Iterator[tuple[GraphSegment, Mapping[Node, str]]]:
        """The segments in order, with a cluster that was cut again replaced by its own, and why nodes are not
        compiled."""
        for segment in self.segments:
            if isinstance(segment, CompiledSegment) and segment.cut is not None:
                yield from segment.cut.flat()
            else:
                yield segment, self.reasons


class GraphSegment:
    """A part of a graph as a Python function of tensors, which builds it in TensorFlow's current graph."""

    def __init__(self, name: str, part: Part, options: Options) -> None:
        self.name, self.part, self.options = name, part, options
        self.inputs = [v for v in part.inputs if v not in part.resources]  # the arguments
        self.content = _graph_def(part)

    def build(self, *segment_inputs: Any) -> list[Any]:
        """The outputs, of tensors for the inputs."""
        import tensorflow as tf

        around = tf.compat.v1.get_default_graph()
        tensors = {_reference(v): t for v, t in zip(self.inputs, segment_inputs, strict=True)}
        tensors |= {_reference(v): around.capture(handle) for v, handle in self.part.resources.items()}
        outputs = [_reference(v) for v in self.part.outputs]
        results: list[Any] = tf.graph_util.import_graph_def(self.content, tensors, outputs, name="")
        return results

    def run(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The outputs, of tensors for the inputs."""
        raise NotImplementedError


class TensorFlowSegment(GraphSegment):
    """A segment that TensorFlow runs."""

    def __init__(self, name: str, part: Part, options: Options) -> None:
        import tensorflow as tf

        super().__init__(name, part, options)
        # TensorFlow counts traces by the Python code, and a partial has none: many segments, each traced once, are not
        # frequent retracing.
        self.function = tf.function(partial(self.build), autograph=False, reduce_retracing=True)

    def run(self, tensors: Sequence[Any]) -> Sequence[Any]:
        results: Sequence[Any] = self.function(*tensors)
        return results


class CompiledSegment(GraphSegment):
    """A segment that is compiled or, if that is rejected, partitioned again (`cut`)."""

    def __init__(self, name: str, part: Part, options: Options) -> None:
        super().__init__(name, part, options)

        def function(*segment_inputs: Any) -> list[Any]:
            return self.build(*segment_inputs)

        function.__name__ = name
        self.function = _ClusterFunction(function, options, self.inputs)
        self.cut: Partition | None = None

    def run(self, tensors: Sequence[Any]) -> Sequence[Any]:
        if self.cut is None:
            try:
                results: Sequence[Any] = self.function(*tensors)
                return results
            except UnsupportedError as problem:  # nothing has run
                refused = refused_nodes(problem, self.part)
                self.cut = Partition(self.name, self.part, self.options, refused)
        values = {**dict(zip(self.inputs, tensors, strict=True)), **self.part.resources}
        return self.cut(*(values[v] for v in self.part.inputs))


class _ClusterFunction(TensorFlowFunction):
    """A cluster, whose arguments are named after the nodes that compute them: the user knows no other names."""

    def __init__(self, function: Callable[..., Any], options: Options, inputs: Sequence[Value]) -> None:
        super().__init__(function, options)
        self.inputs = inputs

    def _argument(self, n: int) -> str:
        node = self.inputs[n].node
        return f"the result of {node.operation} ({node.source})" if node.source else f"the result of {node.operation}"


def refused_nodes(problem: UnsupportedError, part: Part) -> dict[Node, str]:
    """The nodes because of which a part was not compiled, with the reason; all of them if they are unknown."""
    names, reason = set(), str(problem)
    if isinstance(problem, NotLowered):
        names, reason = set(problem.names), problem.reason
    nodes = dict.fromkeys(nodes_named(part.graph, part.nodes, names), reason)
    return nodes or {n: reason for n in part.nodes if n.operation != "Const"}


def _parts(part: Part, levels: Levels) -> Iterator[tuple[int, Part]]:
    """The segments of a part, in order, with their levels."""
    members: dict[int, list[Node]] = {level: [] for level in sorted(set(levels.of.values()))}
    for node in part.nodes:
        if node in levels.of:
            node.controls = tuple(dict.fromkeys((*node.controls, *levels.waits[node])))
            members[levels.of[node]].append(node)
    for level, copies in _repeated_reads(part.nodes, levels).items():
        members[level] = copies + members[level]
    needed = {level: _needed(nodes) for level, nodes in members.items()}
    for level, nodes in members.items():
        inside = set(nodes)
        later = dict.fromkeys(v for other, values in needed.items() if other > level for v in values)
        outputs = [v for v in dict.fromkeys((*later, *part.outputs)) if v.node in inside]
        constants = dict.fromkeys(v.node for n in nodes for v in n.inputs if v.node.operation == "Const")
        resources = {v: part.resources[v] for v in needed[level] if v in part.resources}
        yield level, Part(part.graph, [*constants, *nodes], needed[level], outputs, resources)


def _needed(nodes: Sequence[Node]) -> list[Value]:
    """The values that nodes take from others, except constants."""
    inside = set(nodes)
    values = dict.fromkeys(v for n in nodes for v in n.inputs)
    return [v for v in values if v.node not in inside and v.node.operation != "Const"]


def _repeated_reads(nodes: Sequence[Node], levels: Levels) -> dict[int, list[Node]]:
    """Nodes that read variables again in later segments, for each level, if the variable is unchanged until then.

    Their users take them in place of the first; otherwise a weight would be a result of the segment that reads it.
    """
    writes: dict[Value, set[int]] = {}
    for node in levels.of:
        if node.has_effect and node.operation != READ:
            for value in node.inputs:
                writes.setdefault(value, set()).add(levels.of[node])
    copies: dict[tuple[int, Node], Node] = {}
    for node in levels.of:
        level = levels.of[node]
        for value in node.inputs:
            source = value.node
            if source.operation != READ or levels.of.get(source, level) == level:
                continue
            written = writes.get(source.inputs[0], ())
            if not any(levels.of[source] <= other < level for other in written):
                if (level, source) not in copies:
                    copies[level, source] = dataclasses.replace(
                        source, name=f"{source.name}/again_{level}", controls=()
                    )
                again = Value(copies[level, source], value.number)
                node.inputs = tuple(again if v == value else v for v in node.inputs)
    for node in levels.of:  # nodes that write the variable then wait for them
        for value in node.inputs if node.has_effect and node.operation != READ else ():
            waits = [c for (at, source), c in copies.items() if at == levels.of[node] and source.inputs[0] == value]
            node.controls += tuple(waits)
    by_level: dict[int, list[Node]] = {}
    for (level, _), copy in copies.items():
        by_level.setdefault(level, []).append(copy)
    return by_level


def _last_uses(segments: Sequence[GraphSegment], outputs: Iterable[Value]) -> list[list[Value]]:
    """The values that no segment uses after each."""
    last: dict[Value, int] = {}
    for n, segment in enumerate(segments):
        for value in (*segment.inputs, *segment.part.outputs):
            last[value] = n
    results = set(outputs)
    return [[v for v, at in last.items() if at == n and v not in results] for n in range(len(segments))]


# -- GraphDef


def _graph_def(part: Part) -> Any:
    """The nodes of a part as a GraphDef, in which inputs are named after nodes that it does not contain."""
    import tensorflow as tf

    content = tf.compat.v1.GraphDef(versions=part.graph.content.versions)
    inside = set(part.nodes)
    for node in part.nodes:
        copy = content.node.add()
        copy.CopyFrom(node.definition)
        copy.name = node.name
        del copy.input[:]
        copy.input.extend(_reference(v) for v in node.inputs)
        if node.operation != "Const":
            copy.input.extend(f"^{c.name}" for c in node.controls if c in inside and c.operation != "Const")
        for attribute in ("_class", "_gradient_op_type"):  # names of other nodes; only needed by autodiff
            copy.attr.pop(attribute, None)
    library = part.graph.functions
    waiting = [f for node in part.nodes for f in called_by(node.definition, library)]
    functions: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in functions:
            functions[name] = library[name]
            waiting += [f for node in library[name].node_def for f in called_by(node, library)]
    content.library.function.extend(functions.values())
    return content


def _reference(value: Value) -> str:
    return f"{value.node.name}:{value.number}"


def _constant(node: Node) -> Any:
    import tensorflow as tf

    return tf.constant(tf.make_ndarray(node.definition.attr["value"].tensor))
