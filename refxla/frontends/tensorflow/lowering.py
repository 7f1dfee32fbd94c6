"""Lowers a function of TensorFlow to HLO.

A function of only the tensors is lowered: it calls the user's with all other arguments filled in. Its parameters are
the tensors, then what the function captures: constants as their values, variables as the values they have at the call.
Its results are the function's, then the new values of the variables that it assigns.

HLO has static shapes, so TensorFlow puts the *values* of some arguments into the program: the bounds of a slice, the
shape of a reshape. Such an argument is then not a parameter (and such a variable is a parameter that is ignored). Both
are found when the function is lowered, and their values decide, as shapes do, which program a call runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from refxla_spec.errors import UnsupportedError, plural
from refxla_spec.module import Instruction, Module

from ...ir.proto import from_proto
from ..randomness import refused
from .arguments import read_variable
from .dynamic_sizes import refused_for_size
from .graph import Node, nodes_named, read
from .xla_support import definitions, grows, refusals


class NotLowered(UnsupportedError):
    """TensorFlow has no HLO for a function; `names` are those of the offending operations, if known, and `nodes` the
    nodes of the function's graph that contain them."""

    def __init__(self, function: str, reason: str, names: Sequence[str], nodes: Mapping[Node, str]) -> None:
        kinds = dict.fromkeys(f"{kind} ({n.source})" if n.source else kind for n, kind in nodes.items())
        where = f"{', '.join(kinds)}: " if kinds else ""
        super().__init__(
            f"TensorFlow cannot lower {function} to HLO: {where}{reason}; refxla.tensorflow.cluster compiles all but "
            "such operations"
        )
        self.reason, self.names = reason, tuple(names)


class LoweredFunction:
    """A function of only tensors as TensorFlow traced it, and what it captures."""

    def __init__(self, name: str, function: Callable[..., Any], tensors: Sequence[Any]) -> None:
        import tensorflow as tf

        self.name, self.tensors = name, tensors
        self.jitted = tf.function(function, jit_compile=True, autograph=False)
        with refused(name, pythons=False, entropy=False):  # layers that are built now take their seeds from Python
            self.concrete = self.jitted.get_concrete_function(*tensors)
        self.captures = list(self.concrete.captured_inputs)


class VariableByValue(NamedTuple):
    """A variable whose value is part of a program: how it is read, and the user's name for it, or ""."""

    handle: Any
    dtype: Any
    name: str

    def value(self) -> np.ndarray:
        """Its present value."""
        return np.asarray(read_variable(self.handle, self.dtype))


class ByValue:
    """The arguments (by number) and variables whose values are part of a program."""

    def __init__(self, arguments: Sequence[int], variables: Sequence[VariableByValue]) -> None:
        self.arguments, self.variables = tuple(arguments), tuple(variables)

    def __bool__(self) -> bool:
        return bool(self.arguments or self.variables)

    def values(self, tensors: Sequence[Any]) -> tuple[bytes, ...]:
        """The values of these arguments, and the present ones of the variables."""
        arrays = [np.asarray(tensors[n]) for n in self.arguments] + [v.value() for v in self.variables]
        return tuple(a.tobytes() for a in arrays)


class Lowering:
    """The HLO of a traced function, and the sources of its parameters.

    Raises NotLowered for operations that have no HLO, UnsupportedError for anything else without a compiled form.
    """

    def __init__(self, traced: LoweredFunction) -> None:
        self.traced, self.name, self.tensors, self.captures = traced, traced.name, traced.tensors, traced.captures
        _refuse_texts(self.name, self.tensors, traced.concrete.outputs)
        _refuse_what_differs(self.name, traced.concrete.graph)
        _refuse_wrong_sizes(self.name, traced.concrete.graph, self.tensors)
        self.module = self.lower(traced.jitted, self.tensors)
        self.outputs = len(traced.concrete.outputs)
        count = len(self.module.entry.parameters)
        self.sources = list(range(len(self.tensors) + len(self.captures)))  # one for each parameter
        if count < len(self.sources):
            gone = self.constants([n for n in self.sources if not self.is_variable(n)], {})
            self.sources = [n for n in self.sources if n not in gone]
        if count != len(self.sources):
            raise UnsupportedError(
                f"TensorFlow made {plural(count, 'parameter')} from {plural(len(self.tensors), 'argument')} and "
                f"{len(self.captures)} captured values of {self.name}, and which ones cannot be told: pass what "
                "decides about shapes as Python numbers"
            )
        numbers = set(self.sources)
        self.by_value = ByValue([n for n in range(len(self.tensors)) if n not in numbers], self.variables_by_value())

    def lower(self, jitted: Any, tensors: Sequence[Any]) -> Module:
        import tensorflow as tf

        try:
            data = jitted.experimental_get_compiler_ir(*tensors)(stage="hlo_serialized", platform_name="CPU")
        except (ValueError, tf.errors.OpError) as problem:
            text = getattr(problem, "message", None) or str(problem)
            names = tuple(dict.fromkeys(re.findall(r"\{\{node ([^}]*)\}\}", text)))
            graph = read(self.traced.concrete.graph)
            raise NotLowered(self.name, _reason(text), names, nodes_named(graph, graph.nodes, names)) from None
        module = from_proto(data)
        for i in module.instructions():  # they come in a random order
            i.frontend_attributes = tuple(sorted(i.frontend_attributes))
        return module

    def is_variable(self, number: int) -> bool:
        """Whether the value with this number, among the arguments followed by the captures, is a variable."""
        import tensorflow as tf

        n = number - len(self.tensors)
        return n >= 0 and self.captures[n].dtype == tf.resource

    def constants(self, numbers: Sequence[int], types: Mapping[int, Any]) -> set[int]:
        """Those of these arguments and captures that the program has as constants; `types` are those of variables.

        A second function returns, in addition to the results, the initial value of each: if the result is a constant in
        the HLO, so is the argument.
        """
        import tensorflow as tf

        concrete = self.traced.concrete

        def with_values(*tensors: Any) -> Any:
            given = [*tensors, *self.captures]
            shown = [read_variable(given[n], types[n]) if n in types else tf.identity(given[n]) for n in numbers]
            return concrete(*tensors), shown

        jitted = tf.function(with_values, jit_compile=True, autograph=False)
        root = self.lower(jitted, self.tensors).entry.root
        values = root.operands if root.opcode == "tuple" else [root]
        shown = values[self.outputs : self.outputs + len(numbers)]
        return {n for n, value in zip(numbers, shown, strict=True) if not _is_parameter(value)}

    def variables_by_value(self) -> list[VariableByValue]:
        """The variables whose values are in the program. Their parameters are not used in it, except that a branch or
        loop gets them in a tuple; the same holds for variables that are only assigned."""
        import tensorflow as tf

        used = {id(operand) for i in self.module.instructions() if i.opcode != "tuple" for operand in i.operands}
        used.add(id(self.module.entry.root))
        types = {
            source: tf.as_dtype(parameter.shape.element_type.dtype)
            for parameter, source in zip(self.module.entry.parameters, self.sources, strict=True)
            if self.is_variable(source) and id(parameter) not in used
        }
        numbers = self.constants(list(types), types) if types else ()
        names = {id(v.handle): v.name.partition(":")[0] for v in self.traced.concrete.graph.variables}
        handles = {n: self.captures[n - len(self.tensors)] for n in numbers}
        return [VariableByValue(h, types[n], names.get(id(h), "")) for n, h in sorted(handles.items())]


# Operations that generate random numbers from a state of TensorFlow's runtime, which a compiled program does not have.
_RANDOM = {
    "RandomStandardNormal": "tf.random.normal", "RandomUniform": "tf.random.uniform (or dropout)",
    "RandomUniformInt": "tf.random.uniform", "TruncatedNormal": "tf.random.truncated_normal",
    "RandomShuffle": "tf.random.shuffle", "RandomGamma": "tf.random.gamma", "RandomPoissonV2": "tf.random.poisson",
    "Multinomial": "tf.random.categorical",
}  # fmt: skip


def _refuse_texts(name: str, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """Raises UnsupportedError for strings among the inputs or outputs."""
    import tensorflow as tf

    for what, tensors in (("argument", arguments), ("result", results)):
        for n, tensor in enumerate(tensors):
            if tensor.dtype == tf.string:
                raise UnsupportedError(
                    f"{what} {n} of {name} is a text, which HLO does not have: leave it out, or use "
                    "refxla.tensorflow.cluster, which compiles all but what has to do with texts"
                )


def _refuse_what_differs(name: str, graph: Any) -> None:
    """Raises UnsupportedError for operations that XLA lowers to something else: random numbers that do not depend on an
    argument or a variable, which would be the same at each call (exactly these operations have two seeds), and lists
    that grow."""
    for node in definitions(graph.as_graph_def()):
        if "seed2" in node.attr:
            raise UnsupportedError(
                f"{name} calls {_RANDOM.get(node.op, node.op)} (as {node.name}), whose noise would be the same at "
                "every call of a compiled function: use tf.random.stateless_* with a seed that is an argument, or what "
                "keeps its state in a variable, as a tf.random.Generator and Keras's layers do"
            )
        if grows(node):
            raise UnsupportedError(
                f"{name} writes into a tf.TensorArray that grows (as {node.name}), and in HLO an array keeps its size: "
                "make it with the size that it comes to, and without dynamic_size=True; refxla.tensorflow.cluster "
                "compiles all but what has to do with it"
            )


def _refuse_wrong_sizes(name: str, graph: Any, tensors: Sequence[Any]) -> None:
    """Raises NotLowered for operations that TensorFlow may lower wrongly, since a size is known only at run time."""
    nodes = read(graph)
    refused = refused_for_size(nodes, tensors)
    without_kernel = refusals(list(refused), nodes.functions)
    for node, reason in refused.items():
        names = [n.name for n in refused]
        raise NotLowered(name, without_kernel.get(node, reason), names, {node: node.operation})


# -- HLO


def _is_parameter(value: Instruction) -> bool:
    """Whether a value is a parameter, possibly moved."""
    while value.opcode in ("reshape", "copy", "convert", "get-tuple-element"):
        source = value.operands[0]
        value = source.operands[value.index] if source.opcode == "tuple" else source
    return value.opcode == "parameter"


def _reason(text: str) -> str:
    """TensorFlow's reason in one line."""
    line = text.removeprefix("Failed getting HLO text: '").strip().partition("\n")[0].strip().rstrip("'")
    return "XLA has no kernel for it" if line.startswith("Detected unsupported operations") else line
