"""The interface of an implementation of HLO: one small class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError, a_type, plural
from refxla_spec.module import Module
from refxla_spec.types import BY_DTYPE, Shape, Value


class Target:
    """An implementation of HLO. An adapter derives from this class and defines `name` and `run`.

    A target that is named on the command line as `package.module:Class` is created without arguments.
    """

    specification: str = ""  # the user's name for make_target, by which it can be created again
    name: str = ""  # a short word; known differences refer to it (differences/), reports use the user's name
    flushes_subnormals: bool = False  # whether it treats subnormal numbers as zero, or returns zero instead
    devices: int = 1  # the maximum number of devices of a program (its replicas times its partitions)

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        """The leaves of the result of the entry computation, with tuples flattened, in order.

        `str(module)` is the program as HLO text. `arguments` has one value for each parameter: an array of the NumPy
        type of its element type (`refxla_spec.types`; the small floats and integers are those of ml_dtypes), a tuple of
        values, or None for a token. A program for several devices gets its arguments device by device, and returns its
        results likewise. Raises UnsupportedError for a program that this implementation does not support; every other
        exception is a failure.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no run(module, arguments)")

    def meant(self, module: Module) -> Module:
        """The program whose value and bounds apply to the results of a module: the module itself, unless this
        implementation says that it computes another one."""
        return module

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        """`run` of one module for many arguments; override it if preparing the module once is faster."""
        return lambda arguments: self.run(module, arguments)

    def run_many(self, programs: Sequence[tuple[Module, Sequence[Value]]]) -> list[list[np.ndarray] | Exception]:
        """For each of several (module, arguments), the results of `run`, or the exception that it raises.

        An implementation that is slow to start may run them at once; the results must be the same.
        """
        results: list[list[np.ndarray] | Exception] = []
        for module, arguments in programs:
            try:
                with contained(self, "run"):
                    results.append(self.run(module, arguments))
            except Exception as error:  # of any kind: it is the result of this program
                results.append(error)
        return results

    def run_fed(self, module: Module, arguments: Sequence[Value], infeed: Sequence[Value]) -> list[np.ndarray]:
        """Like `run`, for a program with a host: `infeed` are the values for its infeeds, in order. The values of its
        outfeeds follow after the result, leaf by leaf. Raises UnsupportedError if there is no host."""
        raise UnsupportedError(f"{self.name} has no infeed and no outfeed")

    def verify(self, text: str) -> None:
        """Checks a program without running it, and returns if it follows the rules of HLO.

        Raises InvalidProgramError (or ParseError) for one that breaks them, UnsupportedError for one that cannot be
        checked: for all of them, if an implementation has no verifier.
        """
        raise UnsupportedError(f"{self.name} has no verifier")

    def versions(self) -> dict[str, str]:
        """What distinguishes versions of the implementation, for the report: {"jaxlib": "0.10.2"}."""
        return {}

    def close(self) -> None:
        """Ends what the target has started: it is not used again."""


def leaves(value: Any) -> list[Any]:
    """The arrays (and the Nones of tokens) of nested tuples and lists, in order."""
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (tuple, list)) else [value]


class Misconduct(Exception):
    """What a target does and must not, besides returning a wrong result; the message says who is to blame."""


@contextmanager
def contained(target: Target, method: str) -> Iterator[None]:
    """Raises Misconduct instead of an exception of a target's method that would end the whole process: for example,
    sys.exit() in the command line of a compiler written in Python. The user's interruptions pass through."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise Misconduct(
            f"{method} of class {type(target).__name__} raised {told}, by which Python ends a process; it has to raise "
            "an Exception"
        ) from error


def result_arrays(target: Target, method: str, module: Module, value: Any) -> list[np.ndarray]:
    """The arrays returned by a method of a target for a program. Raises Misconduct if they are not a list of arrays."""
    if isinstance(value, (tuple, list)):
        wrong = next((what for what in map(_no_array, leaves(value)) if what), "")
        what = wrong and f"{wrong} in {a_type(value)}"
    else:
        what = "None" if value is None else _no_array(value)
    if what:
        raise Misconduct(
            f"{method} of class {type(target).__name__} gave {what}; it has to give a list of NumPy arrays, the leaves "
            f"of the result, which is {module.entry.root.shape.without_layout()}"
        )
    return arrays(value)


def _no_array(leaf: Any) -> str:
    """What a leaf of a result is, if it is not an array of one of HLO's types; otherwise nothing."""
    if leaf is None:  # a token
        return ""
    if not hasattr(leaf, "__array__"):
        return f"{leaf!r:.80} of type {type(leaf).__name__}"
    array = np.asarray(leaf)
    return "" if array.dtype in BY_DTYPE else f"an array of NumPy type {array.dtype}, which HLO does not have,"


def loaded(target: Target, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
    """`target.load`, as a function whose results are arrays. It and the function raise Misconduct for anything else."""
    with contained(target, "load"):
        call = target.load(module)
    if not callable(call):
        raise Misconduct(f"load of class {type(target).__name__} gave {call!r:.80}; it has to give a function")
    method = "run" if type(target).load is Target.load else "the function that load gave"

    def called(arguments: Sequence[Value]) -> list[np.ndarray]:
        with contained(target, method):
            results = call(arguments)
        return result_arrays(target, method, module, results)

    return called


def forms(values: Sequence[np.ndarray]) -> str:
    """The shapes of results in words: "1 result (f32[5])"."""
    told = ", ".join(str(Shape.of(v)) for v in values[:MOST_FORMS]) + ", ..." * (len(values) > MOST_FORMS)
    return f"{plural(len(values), 'result')} ({told})" if values else "no result"


MOST_FORMS = 6  # shapes that are shown


def arrays(value: Any) -> list[np.ndarray]:
    """The leaves of a result that are arrays; tokens have no value to compare."""
    return [np.asarray(leaf) for leaf in leaves(value) if leaf is not None]
