"""Functions for users of TensorFlow and Keras, in addition to `refxla.compile`.

`accelerate(model)` makes a Keras model's fit, evaluate and predict run compiled. `cluster(function)` compiles as much
of a function as possible, and `report` says what was compiled of either. `xla_compile` is TensorFlow's `xla.compile`.

The keyword options of all are those of `refxla.compile`: device, without, tune, winograd, linear_algebra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from refxla_spec.errors import InputError

from .compiler.options import Options
from .frontends.tensorflow import calls, keras
from .frontends.tensorflow.clustered import ClusteredFunction
from .frontends.tensorflow.function import as_function
from .frontends.tensorflow.report import ClusteringWarning, Operation, Report, Reports
from .frontends.tensorflow.tape import GradientWarning

if TYPE_CHECKING:
    from .typing import Tree

Model = TypeVar("Model")

__all__ = [
    "ClusteringWarning", "GradientWarning", "Operation", "Report", "Reports", "accelerate", "cluster", "report",
    "xla_compile",
]  # fmt: skip


def accelerate(model: Model, **options: object) -> Model:
    """Makes a Keras model on TensorFlow train, evaluate and predict compiled; returns the model itself.

    From then on, `fit`, `evaluate`, `predict`, and the same on single batches, compile the step that they repeat, with
    its gradients, optimizer and metrics, for each shape of a batch. It makes no difference whether this is called
    before or after `compile`, and it need not be called again after another `compile`. Parts of a step that cannot be
    compiled stay in TensorFlow: `report(model)`. A model that is compiled with `run_eagerly=True` runs eagerly.

    Raises InputError for anything but a Keras model, for a model on another backend or under a tf.distribute strategy,
    and for a class with its own `make_train_function` (or the like).
    """
    keras.accelerate(model, _options(options))
    return model


def cluster(function: Callable[..., object], *arguments: Tree, **options: object) -> ClusteredFunction:
    """Compiles as much of a TensorFlow function as possible, and lets TensorFlow run the rest.

    `function` and `arguments` are as in `refxla.compile`. A graph that can be compiled is one program. In another one,
    the operations that can be compiled (with XLA's kernels, and to the same effect) form clusters, as few and as large
    as possible without cyclic dependencies; a cluster of fewer than four operations stays in TensorFlow. Effects keep
    their order, and assertions raise. A ClusteringWarning says that something stays in TensorFlow; `report(compiled)`
    says what, and why.

    Raises InputError for Keras on another backend.
    """
    result = ClusteredFunction(as_function(function), _options(options))
    if arguments:
        result.compile(*arguments)
    return result


def report(compiled: object) -> Report | Reports:
    """What is compiled of a function from `cluster`, what TensorFlow runs, and why; it prints as tables.

    For a model from `accelerate`, it is a report for each step that has run, by its name ("train_step", "test_step",
    "predict_step").

    It describes the shapes of the last call. Raises InputError for anything else, and for a function that has not been
    called or compiled yet.
    """
    if isinstance(compiled, ClusteredFunction):
        if compiled.executable is None:
            raise InputError(f"{compiled.name} is compiled when it is first called, or with example arguments")
        return compiled.report()
    return keras.report(compiled)


def xla_compile(computation: Callable[..., Tree], inputs: Sequence[Tree] | None = None, **options: object) -> Tree:
    """Runs `computation(*inputs)` compiled, as TensorFlow's `xla.compile` did.

    `inputs` are tensors, arrays, numbers, or nested lists and dicts of them. Returns a list of the results, which is
    empty if the computation returns None; nested results (a dict, lists in a list) are nested in the same way. A
    computation that was compiled before, for inputs of the same types and shapes, is not compiled again.

    Raises InputError if `computation` is not a function or `inputs` not a list, UnsupportedError for anything without a
    compiled form.
    """
    return calls.xla_compile(computation, inputs, _options(options))


def _options(options: dict[str, Any]) -> Options:
    try:
        return Options.of(**options)
    except TypeError:
        names = ", ".join(Options.__dataclass_fields__)
        raise InputError(f"there is no option {', '.join(sorted(options))}; there are {names}") from None
