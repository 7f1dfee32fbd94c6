"""Functions of TensorFlow: lowered by TensorFlow to HLO, then compiled as a whole."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, UnsupportedError, plural

from ...compiler.options import Options
from ...ir.calling_convention import ArrayLeaf, CallingConvention, Constant, Tree
from ..saved_trees import argument_trees, tree_of
from ..traced import Lowered, NumbersInProgram, TracedFunction, tracing
from . import tape
from .arguments import assigner, example_of, is_symbolic, is_tensor, kind_of, packed, reader, replaced, to_tensor
from .lowering import ByValue, LoweredFunction, Lowering

Arguments = list[tuple[str, Tree]]


def compile_tensorflow(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], options: Options
) -> TensorFlowFunction:
    """A TensorFlowFunction; compiled at once if example arguments are given, else at the first call.

    `function` is a tf.function, a concrete function, a Keras model or layer, or a Python function of tensors.
    """
    wrapper = TensorFlowFunction(as_function(function), options)
    wrapper.compile_examples(arguments, keywords)
    return wrapper


def as_function(function: Any) -> Any:
    """The tf.function or concrete function of the user's object. Raises InputError for Keras on another backend."""
    import tensorflow as tf

    if any(c.__module__.partition(".")[0] == "keras" for c in type(function).__mro__):
        backend = sys.modules["keras"].backend.backend()
        if backend != "tensorflow":
            raise InputError(
                f"this Keras model runs on {backend}: compile a function of it with that framework, as in "
                "jax.jit(lambda variables, x: model.stateless_call(*variables, x)[0])"
            )
    if isinstance(function, (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)):
        return function
    return tf.function(function)


class TensorFlowFunction(TracedFunction):
    """Called with nested dicts, lists and tuples of tensors, like the original function; returns tensors, on the CPU.

    Tensors and NumPy arrays matter by shape and type, everything else (Python numbers and booleans, variables, objects)
    by value or identity, as in tf.function; for `compile` also tf.TensorSpec. Results have no gradients in a
    GradientTape around the call, for which there is a GradientWarning: take gradients inside the function.
    """

    value_advice = (
        "its value is part of the program; pass a number that is no size and no switch as tf.constant(x), and pad what "
        "has other sizes to a few"
    )

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        super().__init__(function, options)
        self._warned_of_gradients = False
        self._by_value: dict[Any, ByValue] = {}  # for each kind of arguments, those whose values are in the program
        self._methods: weakref.WeakKeyDictionary[Any, TensorFlowFunction] = weakref.WeakKeyDictionary()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method of an object is a separate function, as in TensorFlow: each may create its variables when it is
        first called."""
        import tensorflow as tf

        if instance is None:
            return self
        try:
            own = self.function.__get__(instance, owner)
        except (AttributeError, TypeError):  # a concrete function; an object without a hash or without weak references
            own = None
        if not isinstance(own, tf.types.experimental.PolymorphicFunction):
            return super().__get__(instance, owner)
        with self._lock:
            if instance not in self._methods:
                self._methods[instance] = type(self)(own, self.options)
            return self._methods[instance]

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As for every traced function; an active tape gets no gradients of it, and reports that."""
        if not tape.is_recording():
            return super().call(args, kwargs)
        executable: Any  # each that is created here has `concrete`
        executable, leaves = self._compile(args, kwargs)
        self.executable = executable
        variables = executable.concrete.graph.variables
        return tape.unrecorded(lambda: executable(leaves), self._warn_without_gradients, leaves, variables)

    def _warn_without_gradients(self) -> None:
        if not self._warned_of_gradients:
            self._warned_of_gradients = True
            tape.warn_without_gradients(self.name)

    def _has_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        import tensorflow as tf

        leaves = tf.nest.flatten((args, kwargs), expand_composites=True)
        return any(map(is_symbolic, leaves))

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Sequence[Any]]:
        tensors: list[Any] = []
        kind = kind_of((args, kwargs), tensors)
        by_value = self._by_value.get(kind)
        return (kind, by_value.values(tensors) if by_value else ()), tensors

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """The tensors and variables whose values are in the program, with these values."""
        tensors: list[Any] = []
        parts = super()._parts(args, kwargs)
        by_value = self._by_value.get(kind_of((args, kwargs), tensors))
        places = [n for n, (_, value) in enumerate(parts) if is_tensor(value)]
        if by_value and len(places) == len(tensors):  # no part consists of several tensors
            for n in by_value.arguments:
                parts[places[n]] = (parts[places[n]][0], NumbersInProgram(np.asarray(tensors[n])))
        for n, variable in enumerate(by_value.variables if by_value else ()):
            parts.append((f"the variable {variable.name or n}", NumbersInProgram(variable.value())))
        return parts

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        examples: list[Any] = []
        kind = kind_of((args, kwargs), examples)

        def of_tensors(*tensors: Any) -> Any:
            new_args, new_kwargs = replaced((args, kwargs), iter(tensors))
            return self.function(*new_args, **new_kwargs)

        of_tensors.__name__ = self.name  # HLO's name is derived from it
        with tracing():
            traced = LoweredFunction(self.name, of_tensors, [example_of(e) for e in examples])
        lowered, by_value = self._lowered(traced, examples)
        self._by_value[kind] = by_value
        if isinstance(lowered, _TensorFlowLowered):
            lowered.example_trees = self._trees(args, kwargs, examples, by_value)
        return lowered

    def _trees(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], examples: Sequence[Any], by_value: ByValue
    ) -> tuple[Arguments, Arguments]:
        """The positional arguments and the others as data, for a file."""
        values = {n: np.array(examples[n]) for n in by_value.arguments}
        arguments = [(self._argument(n), False, value) for n, value in enumerate(args)]
        arguments += [(name, False, value) for name, value in kwargs.items()]
        trees = argument_trees(arguments, values, is_tensor)
        return trees[: len(args)], trees[len(args) :]

    def _lowered(self, traced: LoweredFunction, examples: Sequence[Any]) -> tuple[Lowered, ByValue]:
        """A compiled traced function, and whose values are in the program."""
        import tensorflow as tf

        lowering = Lowering(traced)
        if any(isinstance(examples[n], tf.TensorSpec) for n in lowering.by_value.arguments):
            raise InputError(
                f"the shapes in {self.name} depend on the values of tensors given as tf.TensorSpec: give a value"
            )
        return _TensorFlowLowered(lowering, self._build), lowering.by_value


class _TensorFlowLowered(Lowered):
    """A function that is compiled as one program, for arguments of certain types and shapes."""

    # the arguments for which it was created: positional ones, others
    example_trees: tuple[Arguments, Arguments] = ([], [])

    def __init__(self, lowering: Lowering, build: Callable[..., Any]) -> None:
        import tensorflow as tf

        self.concrete = lowering.traced.concrete
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
        # For each captured value that the program takes: its number, and for a variable the type, otherwise None.
        self.captured = []
        for parameter, source in zip(module.entry.parameters, lowering.sources, strict=True):
            if source >= arguments:
                capture = lowering.captures[source - arguments]
                dtype = tf.as_dtype(parameter.shape.element_type.dtype) if capture.dtype == tf.resource else None
                self.captured.append((source - arguments, dtype))
        captures = lowering.captures
        self.read = reader([(captures[n], dtype) for n, dtype in self.captured if dtype is not None])
        self.assigned = [captures[lowering.sources[aliases[n]] - arguments] for n in updates]
        self.assign = assigner(self.assigned, [root.elements[n] if root.is_tuple else root for n in updates])
        self.structure = self.concrete.structured_outputs
        leaves = tf.nest.flatten(self.structure, expand_composites=True)
        if sum(isinstance(leaf, tf.Tensor) for leaf in leaves) != self.outputs:
            raise UnsupportedError(f"the results of {lowering.name} are not all tensors: {self.structure}")
        self.program = build(module)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        results = self.program(*self.parameters(leaves))
        if not isinstance(results, tuple):
            results = (results,)
        tensors = [to_tensor(r) for r in results]
        self.assign(tensors[self.outputs :])
        return packed(self.structure, iter(tensors))

    def calling(self, name: str) -> CallingConvention:
        """Values that the function captures, including variables, are stored in the file as they are now."""
        if self.assigned:
            raise UnsupportedError(
                f"{name} assigns {plural(len(self.assigned), 'variable')}, which a function out of a file has "
                "not: save one that takes their values and returns the new ones"
            )
        import tensorflow as tf

        captured = map(np.array, self.captured_values())

        def leaf(value: Any) -> Tree:
            return ArrayLeaf() if isinstance(value, tf.Tensor) else Constant(value)

        positional, keywords = map(tuple, self.example_trees)
        return CallingConvention(
            name, positional, keywords, (*self.arguments, *captured), tree_of(_in_order(self.structure), leaf)
        )

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        return [np.asarray(leaves[n]) for n in self.arguments] + self.captured_values()

    def captured_values(self) -> list[Any]:
        """The captured values that the program takes, as they are now."""
        captures, variables = self.concrete.captured_inputs, iter(self.read())
        return [np.asarray(captures[n] if t is None else next(variables)) for n, t in self.captured]


def _in_order(structure: Any) -> Any:
    """The structure of a result with the entries of dicts in the order in which TensorFlow flattens them."""
    if isinstance(structure, dict):
        return {key: _in_order(structure[key]) for key in sorted(structure)}
    if isinstance(structure, (list, tuple)):
        values = [_in_order(v) for v in structure]
        return type(structure)(*values) if hasattr(structure, "_fields") else type(structure)(values)
    return structure
