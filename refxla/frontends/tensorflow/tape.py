"""Calls of compiled functions under an active tf.GradientTape, which cannot record what is compiled."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from .graph import is_users_file


class GradientWarning(UserWarning):
    """Gradients through a call of a compiled function were requested, and there are none."""


def is_recording() -> bool:
    """Whether a tape or a forward accumulator is recording."""
    from tensorflow.python.eager import record

    recording: bool = record.could_possibly_record()
    return recording


def unrecorded(
    run: Callable[[], Any], warn: Callable[[], None], tensors: Iterable[Any], variables: Iterable[Any]
) -> Any:
    """The results of `run`, which tapes treat as those of an operation on these tensors and variables without a
    gradient.

    Otherwise, the operations of a cluster that TensorFlow runs would be recorded and those that are compiled would not,
    and the gradients would be incomplete. `warn` is called when gradients of the results reach the operation.
    """
    import tensorflow as tf
    from tensorflow.python.eager import record, tape

    with record.stop_recording():
        results = run()
    inputs = [t for t in tensors if isinstance(t, tf.Tensor)]
    for variable in variables:
        if variable.trainable:
            tape.variable_accessed(variable)  # so that tapes watch it
            inputs.append(variable.handle)
    given = set(map(id, inputs))
    leaves = tf.nest.flatten(results, expand_composites=True)
    outputs = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and id(leaf) not in given]

    def gradients(*_: Any) -> Sequence[None]:
        warn()
        return [None] * len(inputs)

    record.record_operation("refxla", outputs, inputs, gradients)
    return results


def warn_without_gradients(name: str) -> None:
    """Warns, at the user's line, that a tape has no gradients of the results of the function of this name."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"a GradientTape records nothing of {name}, which is compiled: gradients with respect to what goes into it are "
        "None. Take them inside of the compiled function; if none are needed, pass what it gives through "
        "tf.stop_gradient",
        GradientWarning,
        stacklevel=level if frame is not None else 2,
    )
