"""Functions of TensorFlow that are compiled except for some operations, which stay in TensorFlow."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refxla_spec.errors import UnsupportedError, plural

from ...compiler.options import Options
from ..traced import Lowered, caller_level
from .arguments import packed
from .function import TensorFlowFunction
from .graph import read
from .lowering import ByValue, LoweredFunction
from .partition import CompiledSegment, Part, Partition, refused_nodes
from .report import ClusteringWarning, Operation, Report
from .xla_support import can_be_compiled, writes_at_a_computed_place


class ClusteredFunction(TensorFlowFunction):
    """Called like the original function. Its graph is compiled as a whole if possible, otherwise in clusters: see
    `report()`."""

    def _lowered(self, traced: LoweredFunction, examples: Sequence[Any]) -> tuple[Lowered, ByValue]:
        problem: UnsupportedError | None = None
        graph = read(traced.concrete.graph)
        # As a whole, TensorFlow lowers its own graph.
        is_own = not graph.is_simplified and not any(map(writes_at_a_computed_place, graph.nodes))
        if is_own and can_be_compiled(graph.content):
            try:
                return super()._lowered(traced, examples)
            except UnsupportedError as caught:
                problem = caught
        lowered = _ClusteredLowered(self.name, traced, problem, self.options)
        count = sum(o.cluster is None for o in lowered.report())
        if count:
            warnings.warn(
                f"{self.name} leaves {plural(count, 'operation')} to TensorFlow; refxla.tensorflow.report(...) says "
                "which and why",
                ClusteringWarning,
                stacklevel=caller_level(),
            )
        return lowered, ByValue((), ())

    def report(self) -> Report:
        """What is compiled of the graph that was called last, what is not, and why.

        Raises AttributeError before the first call.
        """
        executable = self.executable
        if executable is None:
            raise AttributeError("the function is compiled when it is first called, or with example arguments")
        return executable.report() if isinstance(executable, _ClusteredLowered) else Report.of(self.name, ())

    def save(self, path: str | Path) -> None:
        """As for every compiled function. Raises UnsupportedError if TensorFlow runs a part of it."""
        if isinstance(self.executable, _ClusteredLowered):
            raise UnsupportedError(
                f"{self.name} cannot be saved: it is not one program, and TensorFlow may run a part of it; see its "
                "report"
            )
        super().save(path)

    def _of_program(self, name: str) -> Any:
        if isinstance(self.executable, _ClusteredLowered):
            raise AttributeError(f"{name}: {self.name} is several programs; see report()")
        return super()._of_program(name)


class _ClusteredLowered(Lowered):
    """A function that is compiled in clusters, between which TensorFlow runs what has no HLO."""

    program: Any = None  # there are several

    def __init__(self, name: str, traced: LoweredFunction, problem: UnsupportedError | None, options: Options) -> None:
        import tensorflow as tf

        self.name, self.concrete = name, traced.concrete
        graph = read(self.concrete.graph)
        values = graph.inputs[len(traced.tensors) :]
        captured = zip(values, traced.captures, strict=True)
        resources = {value: handle for value, handle in captured if value.type == tf.resource}
        part = Part(graph, graph.nodes, graph.inputs, graph.outputs, resources)
        refused = {} if problem is None else refused_nodes(problem, part)
        self.partition = Partition(name, part, options, refused)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(leaf) for leaf in leaves]
        results = self.partition(*tensors, *self.concrete.captured_inputs)
        return packed(self.concrete.structured_outputs, iter(results))

    def report(self) -> Report:
        operations = []
        clusters = 0
        for segment, reasons in self.partition.flat():
            compiled = isinstance(segment, CompiledSegment)
            for node in segment.part.nodes:
                if node.operation != "Const":
                    number, reason = (clusters, "") if compiled else (None, reasons.get(node, "no cluster needs it"))
                    name = re.sub(r"^((Stateful)?PartitionedCall(_\d+)?/)+", "", node.name)  # calls of the whole
                    operations.append(Operation(name, node.operation, node.source, number, reason))
            clusters += compiled
        return Report.of(self.name, operations)
