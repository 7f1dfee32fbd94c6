"""Why an operation stays in TensorFlow: XLA has no kernel for it, or one that does something else."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from .graph import Node, Value, called_by

# What a compiled program would not do, by the operation.
_NOT_DONE = {
    "Assert": "an assertion, which would not raise",
    "CheckNumerics": "a check of numbers, which would not raise",
    "CheckNumericsV2": "a check of numbers, which would not raise",
    "Print": "prints", "PrintV2": "prints", "StringFormat": "formats what is printed",
    "PyFunc": "calls a Python function", "PyFuncStateless": "calls a Python function",
    "EagerPyFunc": "calls a Python function",
}  # fmt: skip


# Operations that write a slice, and which of their inputs give its position: XLA treats these as part of the program.
_SLICE_WRITES = {"ResourceStridedSliceAssign": slice(1, 4), "TensorStridedSliceUpdate": slice(1, 4)}


def refusals(nodes: Sequence[Node], functions: Mapping[str, Any]) -> dict[Node, str]:
    """For each of these nodes that cannot be compiled, the reason; `functions` are the FunctionDefs by name."""
    reasons: dict[Node, str] = {}
    for node in nodes:
        reason = _reason_of_node(node, functions)
        if reason is not None:
            reasons[node] = reason
    for group in tensor_lists(nodes):  # they are not values that a program takes or returns
        culprit = next((n for n in group if n in reasons or n.operation == "Placeholder"), None)
        if culprit is not None:
            reasons.update(dict.fromkeys((n for n in group if n not in reasons), f"shares a list with {culprit.name}"))
    return reasons


def can_be_compiled(content: Any) -> bool:
    """Whether all operations of a GraphDef, and of the functions in its library, can be compiled."""
    functions = {f.signature.name: f for f in content.library.function}
    return all(d.op in ("Placeholder", "Const") or _reason(d, functions) is None for d in definitions(content))


def definitions(content: Any) -> list[Any]:
    """The NodeDefs of a GraphDef, and of the functions in its library."""
    return [*content.node, *(node for f in content.library.function for node in f.node_def)]


def tensor_lists(nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes that share a variant (a list of tensors, an optional, a data set), for each set of connected ones."""
    import tensorflow as tf

    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while leader.setdefault(node, node) is not node:
            node = leader[node]
        return node

    for node in nodes:
        for value in node.inputs:
            if value.type == tf.variant:
                leader[find(node)] = find(value.node)
    groups: dict[Node, list[Node]] = {}
    for node in list(leader):
        groups.setdefault(find(node), []).append(node)
    return list(groups.values())


def grows(definition: Any) -> bool:
    """Whether an operation, a NodeDef, writes to a list of tensors that grows if it is too short, as those of a
    tf.TensorArray with dynamic_size=True do. XLA writes the last element then."""
    attribute = "resize_if_index_out_of_bounds"
    return attribute in definition.attr and bool(definition.attr[attribute].b)


def writes_at_a_computed_place(node: Node) -> bool:
    """Whether a node writes a slice whose position differs between calls: its program would be for only one
    position."""
    return not all(map(_is_known, node.inputs[_SLICE_WRITES.get(node.operation, slice(0))]))


def _is_known(value: Value) -> bool:
    """Whether a value is the same in each call with arguments of the same shapes."""
    waiting, seen = [value.node], set()
    while waiting:
        node = waiting.pop()
        if node in seen or node.operation in ("Shape", "ShapeN", "Size", "Rank"):
            continue
        if node.operation == "Placeholder" or node.has_effect:
            return False
        seen.add(node)
        waiting += (v.node for v in node.inputs)
    return True


def _reason_of_node(node: Node, functions: Mapping[str, Any]) -> str | None:
    import tensorflow as tf

    if node.operation in _NOT_DONE:
        return _NOT_DONE[node.operation]
    if any(t == tf.string for t in (*(v.type for v in node.inputs), *node.types)):
        return "has to do with texts"
    reason = _reason(node.definition, functions)
    if reason is not None:
        return reason
    if any(v.type == tf.resource and v.node.operation != "Placeholder" for v in node.inputs):
        return "which variable it uses is known only when it runs"
    if writes_at_a_computed_place(node):
        return "writes a slice at a place that differs from call to call, and each place would be another program"
    if tf.resource in node.types:
        return "makes a variable, a table or an iterator"
    return _reason_in_functions(called_by(node.definition, functions), functions)


def _reason_in_functions(names: Sequence[str], functions: Mapping[str, Any]) -> str | None:
    """Why one of the functions that an operation calls cannot be compiled."""
    for name in names:
        for definition in functions[name].node_def:
            reason = _reason(definition, functions)
            if reason is not None:
                return f"{definition.name} in it: {reason}"
            reason = _reason_in_functions(called_by(definition, functions), functions)
            if reason is not None:
                return reason
    return None


def _reason(definition: Any, functions: Container[str]) -> str | None:
    """Why an operation, a NodeDef, cannot be compiled, regardless of the functions that it calls."""
    if definition.op in functions:
        return None
    if definition.op in _NOT_DONE:
        return _NOT_DONE[definition.op]
    if "seed2" in definition.attr:
        return "draws random numbers from a state of TensorFlow's runtime"
    if grows(definition):
        return "its list grows, and XLA's keep their size"
    kernels = _kernels(definition.op)
    if not kernels:
        return "XLA has no kernel for it"
    if not any(_fits(definition, kernel) for kernel in kernels):
        import tensorflow as tf

        types = {a: tf.as_dtype(definition.attr[a].type).name for k in kernels for a in k if definition.attr[a].type}
        return f"XLA has no kernel for it with {', '.join(f'{a}={t}' for a, t in types.items())}"
    return None


def _fits(definition: Any, kernel: Mapping[str, frozenset[int]]) -> bool:
    """Whether a kernel supports the types of an operation."""
    for name, allowed in kernel.items():
        if name in definition.attr:
            value = definition.attr[name]
            types = [value.type] if value.type else value.list.type
            if not allowed.issuperset(types):
                return False
    return True


@cache
def _kernels(operation: str) -> tuple[Mapping[str, frozenset[int]], ...]:
    """The kernels with which XLA compiles an operation for CPUs: the types that each allows, by attribute."""
    from tensorflow.python.framework.kernels import get_registered_kernels_for_op

    _register_kernels()
    return tuple(
        {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
        for kernel in get_registered_kernels_for_op(operation).kernel
        if kernel.device_type == "XLA_CPU_JIT"
    )


@cache
def _register_kernels() -> None:
    """TensorFlow registers XLA's kernels when it first lowers something."""
    import tensorflow as tf

    nothing = tf.function(lambda: tf.constant(0), jit_compile=True)
    nothing.experimental_get_compiler_ir()(stage="hlo_serialized", platform_name="CPU")
