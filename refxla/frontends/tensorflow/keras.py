"""Keras on TensorFlow: the steps of a model's fit, evaluate and predict, compiled.

Keras creates three functions for a model (`make_train_function` and the like), which take an iterator and run a step,
or `steps_per_execution` of them, on its data. Here the model gets others, whose step is compiled with its gradients,
its optimizer and its metrics. Everything around it (the loop, data, callbacks, logs) stays Keras's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from refxla_spec.errors import InputError, a_type

from ...compiler.options import Options
from .clustered import ClusteredFunction
from .report import Reports

_MAKERS = ("make_train_function", "make_test_function", "make_predict_function")


def accelerate(model: Any, options: Options) -> None:
    """Makes fit, evaluate, predict, and the same on single batches, run compiled.

    Raises InputError for anything but a Keras model, for one on another backend or under a tf.distribute strategy, and
    for a class that creates these functions itself.
    """
    import keras
    import tensorflow as tf
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"Keras' backend is {keras.backend.backend()}: with the backend jax, JAX_PLATFORMS=refxla in the "
            "environment runs all of it on refxla"
        )
    if not isinstance(model, keras.Model):
        raise InputError(f"{a_type(model)} is no Keras model; refxla.compile takes functions and layers")
    for name in _MAKERS:
        if getattr(type(model), name) is not getattr(TensorFlowTrainer, name):
            raise InputError(f"{type(model).__name__} has a {name} of its own: leave it out, or compile what it calls")
    if not isinstance(model.distribute_strategy, type(tf.distribute.get_strategy())) or tf.distribute.has_strategy():
        raise InputError("the model was made under a tf.distribute strategy, and refxla runs on one device")
    steps = _Steps(model, options)
    for name in _MAKERS:
        setattr(model, name, getattr(steps, name))
    model.train_function = model.test_function = model.predict_function = None


def report(model: Any) -> Reports:
    """The reports of a model's steps that have run, by their names: "train_step", "test_step", "predict_step".

    Raises InputError for a model that is not accelerated.
    """
    steps = getattr(getattr(model, _MAKERS[0], None), "__self__", None)
    if not isinstance(steps, _Steps):
        raise InputError(f"{model!r} is not accelerated; accelerate(model) does that")
    ran = {name: step for name, step in steps.compiled.items() if step.executable is not None}
    return Reports((name, step.report()) for name, step in ran.items())


class _Steps:
    """Creates the functions of one model."""

    def __init__(self, model: Any, options: Options) -> None:
        self.model, self.options = model, options
        self.compiled: dict[str, ClusteredFunction] = {}

    def make_train_function(self, force: bool = False) -> Any:
        return self._make("train", force, self._over_iterator)

    def make_test_function(self, force: bool = False) -> Any:
        return self._make("test", force, self._over_iterator)

    def make_predict_function(self, force: bool = False) -> Any:
        return self._make("predict", force, self._over_list)

    def _make(self, kind: str, force: bool, function_of: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
        """As for Keras's own: the function is an attribute of the model, and `compile` sets it to None."""
        model, attribute = self.model, f"{kind}_function"
        if getattr(model, attribute) is not None and not force:
            return getattr(model, attribute)
        if model.run_eagerly:  # which is requested in order to debug a step
            return getattr(type(model), f"make_{kind}_function")(model, force)
        step = self.compiled[f"{kind}_step"] = ClusteredFunction(getattr(model, f"{kind}_step"), self.options)
        function = function_of(step)
        setattr(model, attribute, function)
        return function

    def _over_iterator(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def function(iterator: Iterator[Any]) -> Any:
            logs = None
            for _, data in zip(range(self.model.steps_per_execution), iterator):  # noqa: B905, the data may end
                logs = step(_without_optionals(data))
            if logs is None:
                raise StopIteration
            return logs

        return function

    def _over_list(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def function(batches: list[Any]) -> Any:
            import tensorflow as tf

            results = [step(_without_optionals(data)) for data in batches]
            if len(results) == 1:
                return results[0]
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *results)

        return function


def _without_optionals(data: Any) -> Any:
    """A batch with None for parts that a data set does not have."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data)
