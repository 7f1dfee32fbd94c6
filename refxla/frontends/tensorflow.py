"""Functions of TensorFlow: lowered by TensorFlow to HLO, then compiled.

What is lowered is a function of the tensors alone: it calls the user's with everything else in place. Its parameters
are the tensors, then what the function captures: constants as their values, variables as the values they have at the
call. Its results are the function's, then the new values of the variables that it assigns.

HLO has static shapes, so TensorFlow puts the *values* of some arguments into the program: the bounds of a slice, the
shape of a reshape. Such an argument is no parameter then (and such a variable a parameter that is ignored). Both are
found when the function is lowered, and their values decide, as shapes do, which program a call runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.module import Instruction, Module

from ..compiler.options import Options
from ..ir.proto import from_proto
from .randomness import refused
from .traced import Lowered, TracedFunction


def compile_tensorflow(function: Any, arguments: tuple, options: Options) -> TensorFlowFunction:
    """A TensorFlowFunction; compiled at once if example arguments are given, else at the first call.

    `function` is a tf.function, a concrete function, a Keras model or layer, or a Python function of tensors.
    """
    import tensorflow as tf

    if any(c.__module__.partition(".")[0] == "keras" for c in type(function).__mro__):
        backend = sys.modules["keras"].backend.backend()
        if backend != "tensorflow":
            raise InputError(
                f"this Keras model runs on {backend}: compile a function of it with that framework, as in "
                "jax.jit(lambda variables, x: model.stateless_call(*variables, x)[0])"
            )
    if not isinstance(function, (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)):
        function = tf.function(function)
    made = TensorFlowFunction(function, options)
    if arguments:
        made.compile(*arguments)
    return made


class TensorFlowFunction(TracedFunction):
    """Called with nested dicts, lists and tuples of tensors, as the function was; gives tensors, on the CPU.

    Tensors and NumPy arrays take part by shape and type, all else (Python numbers and booleans, variables, objects) by
    value or identity, as in tf.function; for `compile` also tf.TensorSpec. Results are no part of a GradientTape's
    record: take gradients inside of the function.
    """

    value_advice = "its value is part of the program; pass tf.constant(x) if it is no size and no switch"

    def __init__(self, function: Callable, options: Options) -> None:
        super().__init__(function, options)
        self._by_value: dict[Any, _ByValue] = {}  # for each kind of arguments, whose values are in the program

    def _describe(self, args: tuple, kwargs: dict) -> tuple[Any, Sequence[Any]]:
        tensors: list[Any] = []
        kind = _kind((args, kwargs), tensors)
        by_value = self._by_value.get(kind)
        return (kind, by_value.values(tensors) if by_value else ()), tensors

    def _lower(self, args: tuple, kwargs: dict) -> _TensorFlowLowered:
        import tensorflow as tf

        examples: list[Any] = []
        kind = _kind((args, kwargs), examples)
        tensors = [_example(e) for e in examples]

        def of_tensors(*given: Any) -> Any:
            new_args, new_kwargs = _replaced((args, kwargs), iter(given))
            return self.function(*new_args, **new_kwargs)

        of_tensors.__name__ = self.name  # HLO's name is made from it
        jitted = tf.function(of_tensors, jit_compile=True, autograph=False)
        lowering = _Lowering(self.name, jitted, tensors)
        lowered = _TensorFlowLowered(lowering, self._build)
        if lowering.by_value and any(isinstance(examples[n], tf.TensorSpec) for n in lowering.by_value.arguments):
            raise InputError(
                f"the shapes in {self.name} depend on the values of tensors given as tf.TensorSpec: give a value"
            )
        self._by_value[kind] = lowering.by_value
        return lowered


class _ByValue:
    """The arguments (by number) and variables (by handle) whose values are part of a program."""

    def __init__(self, arguments: Sequence[int], variables: Sequence[tuple[Any, Any]]) -> None:
        self.arguments, self.variables = tuple(arguments), tuple(variables)

    def __bool__(self) -> bool:
        return bool(self.arguments or self.variables)

    def values(self, tensors: Sequence[Any]) -> tuple[bytes, ...]:
        found = [np.asarray(tensors[n]) for n in self.arguments]
        found += [np.asarray(_read(handle, dtype)) for handle, dtype in self.variables]
        return tuple(a.tobytes() for a in found)


class _Lowering:
    """A function of tensors alone, its HLO, and what TensorFlow took the parameters from."""

    def __init__(self, name: str, jitted: Any, tensors: Sequence[Any]) -> None:
        self.name, self.tensors = name, tensors
        with refused(name, pythons=False, entropy=False):  # layers that are built now take their seeds from Python
            self.concrete = jitted.get_concrete_function(*tensors)
        _refuse_random(name, self.concrete.graph)
        self.captures = list(self.concrete.captured_inputs)
        self.module = self.lower(jitted, tensors)
        self.outputs = len(self.concrete.outputs)
        count = len(self.module.entry.parameters)
        self.sources = list(range(len(tensors) + len(self.captures)))  # one for each parameter
        if count < len(self.sources):
            gone = self.without_parameter()
            self.sources = [n for n in self.sources if n not in gone]
        if count != len(self.sources):
            raise UnsupportedError(
                f"TensorFlow made {count} parameters from {len(tensors)} arguments and {len(self.captures)} captured "
                f"values of {name}, and which ones cannot be told: pass what decides about shapes as Python numbers"
            )
        kept = set(self.sources)
        self.by_value = _ByValue([n for n in range(len(tensors)) if n not in kept], self.variables_by_value(jitted))

    def lower(self, jitted: Any, tensors: Sequence[Any]) -> Module:
        import tensorflow as tf

        try:
            data = jitted.experimental_get_compiler_ir(*tensors)(stage="hlo_serialized", platform_name="CPU")
        except (ValueError, tf.errors.OpError) as problem:
            raise UnsupportedError(f"TensorFlow cannot lower {self.name} to HLO: {_reason(problem)}") from None
        module = from_proto(data)
        for i in module.instructions():  # they come in a random order
            i.frontend_attributes = tuple(sorted(i.frontend_attributes))
        return module

    def without_parameter(self) -> set[int]:
        """The arguments and captured constants that the program has as constants.

        A second function gives, beside what the first one does, each of them: where the result is a constant in the
        HLO, so was the argument.
        """
        import tensorflow as tf

        captured = [(len(self.tensors) + n, c) for n, c in enumerate(self.captures) if c.dtype != tf.resource]

        def with_arguments(*given: Any) -> Any:
            return self.concrete(*given), [tf.identity(t) for t in (*given, *(c for _, c in captured))]

        jitted = tf.function(with_arguments, jit_compile=True, autograph=False)
        root = self.lower(jitted, self.tensors).entry.root
        values = root.operands if root.opcode == "tuple" else [root]
        numbers = [*range(len(self.tensors)), *(n for n, _ in captured)]
        shown = values[self.outputs : self.outputs + len(numbers)]
        return {n for n, value in zip(numbers, shown, strict=True) if not _is_parameter(value)}

    def variables_by_value(self, jitted: Any) -> list[tuple[Any, Any]]:
        """The variables whose values are in the program: those with which it becomes another when they change.

        Only small ones of integers and scalars are looked at: others are no sizes. The change is tried on copies.
        """
        import tensorflow as tf

        places = {}
        for parameter, source in zip(self.module.entry.parameters, self.sources, strict=True):
            n = source - len(self.tensors)
            if n >= 0 and self.captures[n].dtype == tf.resource:
                shape = parameter.shape
                if (shape.element_type.is_integer and shape.size <= 64) or shape.is_scalar:
                    places[n] = tf.as_dtype(shape.element_type.dtype)
        before = str(self.module)

        def differs(among: Sequence[int]) -> bool:
            other = list(self.captures)
            copies = []  # kept alive while they are lowered
            for n in among:
                value = _read(self.captures[n], places[n])
                copies.append(tf.Variable(~value if value.dtype.is_bool else value + tf.ones_like(value)))
                other[n] = copies[-1].handle
            self.concrete.set_external_captures(other)
            try:
                return str(self.lower(jitted, self.tensors)) != before
            except UnsupportedError:
                return True  # other shapes, which do not fit
            finally:
                self.concrete.set_external_captures(self.captures)

        found = [n for n in places if differs([n])] if places and differs(list(places)) else []
        return [(self.captures[n], places[n]) for n in found]


class _TensorFlowLowered(Lowered):
    def __init__(self, lowering: _Lowering, build: Callable) -> None:
        import tensorflow as tf

        self.concrete = lowering.concrete
        module, self.outputs, arguments = lowering.module, lowering.outputs, len(lowering.tensors)
        root = module.entry.root.shape
        count = len(root.elements) if root.is_tuple else 1
        aliases = {(a.output_index[0] if a.output_index else 0): a.parameter for a in module.aliases}
        updates = range(self.outputs, count)
        if any(n not in aliases for n in updates):
            raise UnsupportedError(
                f"{count - self.outputs} variables are assigned in {lowering.name}, and for which of them some result "
                "of the program is cannot be told: variables that change their shape are not supported"
            )
        self.arguments = [s for s in lowering.sources if s < arguments]
        # Of each captured value that the program takes: its number, and of a variable the type, else None.
        self.captured = []
        for parameter, source in zip(module.entry.parameters, lowering.sources, strict=True):
            if source >= arguments:
                capture = lowering.captures[source - arguments]
                dtype = tf.as_dtype(parameter.shape.element_type.dtype) if capture.dtype == tf.resource else None
                self.captured.append((source - arguments, dtype))
        self.assigned = [lowering.sources[aliases[n]] - arguments for n in updates]
        self.structure = lowering.concrete.structured_outputs
        self.leaves = tf.nest.flatten(self.structure, expand_composites=True)
        if sum(isinstance(leaf, tf.Tensor) for leaf in self.leaves) != self.outputs:
            raise UnsupportedError(f"the results of {lowering.name} are not all tensors: {self.structure}")
        self.program = build(module)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        import tensorflow as tf

        captures = self.concrete.captured_inputs
        results = self.program(*self.parameters(leaves))
        if not isinstance(results, tuple):
            results = (results,)
        tensors = [_tensor(r) for r in results]
        for n, value in zip(self.assigned, tensors[self.outputs :], strict=True):
            tf.raw_ops.AssignVariableOp(resource=captures[n], value=value)
        made = iter(tensors)
        flat = [next(made) if isinstance(leaf, tf.Tensor) else leaf for leaf in self.leaves]
        return tf.nest.pack_sequence_as(self.structure, flat, expand_composites=True)

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        given = [np.asarray(leaves[n]) for n in self.arguments]
        captures = self.concrete.captured_inputs
        return given + [np.asarray(captures[n] if t is None else _read(captures[n], t)) for n, t in self.captured]


# -- arguments and results


def _kind(value: Any, tensors: list[Any]) -> Any:
    """What of nested arguments decides about the program; the tensors among them are appended to `tensors`."""
    import tensorflow as tf

    if isinstance(value, dict):
        return dict, *((key, _kind(v, tensors)) for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), *(_kind(v, tensors) for v in value)
    if _is_tensor(value):
        if isinstance(value, tf.Tensor) and tf.is_symbolic_tensor(value):
            raise InputError(
                "a compiled function is no operation of TensorFlow: inside of a tf.function or of a functional Keras "
                "model call the function itself, and compile the outermost one"
            )
        tensors.append(value)
        return tf.TensorShape(value.shape), tf.as_dtype(value.dtype)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value), repr(value)
    return object, _Identity(value)


def _is_tensor(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, (tf.Tensor, np.ndarray, np.generic, tf.TensorSpec))


class _Identity:
    """An object as part of a key: equal to itself alone, and kept alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def _replaced(value: Any, tensors: Iterator[Any]) -> Any:
    """Nested arguments with other tensors in the places of theirs, which come in the order of `_kind`."""
    if isinstance(value, dict):
        return {key: _replaced(v, tensors) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        elements = [_replaced(v, tensors) for v in value]
        if hasattr(value, "_fields"):
            return type(value)(*elements)
        return elements if isinstance(value, list) else tuple(elements)
    return next(tensors) if _is_tensor(value) else value


def _example(value: Any) -> Any:
    """A tensor like the one that is given or described."""
    import tensorflow as tf

    if not isinstance(value, tf.TensorSpec):
        return tf.convert_to_tensor(value)
    if not value.shape.is_fully_defined():
        raise InputError(f"{value} has unknown dimensions, and HLO has static shapes: say all sizes")
    return tf.zeros(value.shape, value.dtype)


def _read(handle: Any, dtype: Any) -> Any:
    import tensorflow as tf

    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def _tensor(array: np.ndarray) -> Any:
    """A result as a tensor, which takes over its memory where DLPack knows its type."""
    import tensorflow as tf

    if array.dtype.kind in "iufc":
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device("CPU"):
        return tf.convert_to_tensor(array)


# What makes random numbers from a state of TensorFlow's runtime, which a compiled program has not: by its operation.
_RANDOM = {
    "RandomStandardNormal": "tf.random.normal", "RandomUniform": "tf.random.uniform (or dropout)",
    "RandomUniformInt": "tf.random.uniform", "TruncatedNormal": "tf.random.truncated_normal",
    "RandomShuffle": "tf.random.shuffle", "RandomGamma": "tf.random.gamma", "RandomPoissonV2": "tf.random.poisson",
    "Multinomial": "tf.random.categorical",
}  # fmt: skip


def _refuse_random(name: str, graph: Any) -> None:
    """Raise UnsupportedError for random numbers that are not made from an argument or a variable: lowered to HLO they
    would be the same at each call. Such operations, and no others, have two seeds."""
    content = graph.as_graph_def()
    nodes = (node for part in (content.node, *(f.node_def for f in content.library.function)) for node in part)
    found = next((node for node in nodes if "seed2" in node.attr), None)
    if found is None:
        return
    raise UnsupportedError(
        f"{name} calls {_RANDOM.get(found.op, found.op)} (as {found.name}), whose noise would be the same at every "
        "call of a compiled function: use tf.random.stateless_* with a seed that is an argument, or what keeps its "
        "state in a variable, as a tf.random.Generator and Keras's layers do"
    )


# -- HLO


def _is_parameter(value: Instruction) -> bool:
    """Whether a value is a parameter, but for moves."""
    while value.opcode in ("reshape", "copy", "convert", "get-tuple-element"):
        source = value.operands[0]
        value = source.operands[value.index] if source.opcode == "tuple" else source
    return value.opcode == "parameter"


def _reason(problem: Exception) -> str:
    """TensorFlow's reason in one line."""
    text = getattr(problem, "message", None) or str(problem)
    lines = text.removeprefix("Failed getting HLO text: '").strip().split("\n")
    return lines[0].strip().rstrip("'")
