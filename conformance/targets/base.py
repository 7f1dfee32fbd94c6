"""What an implementation of HLO has to offer to be asked: one small class."""

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

    A target that is named on the command line as `package.module:Class` is made without arguments.
    """

    specification: str = ""  # what the user asked make_target for, by which it can be made again
    name: str = ""  # a short word; known differences go by it (differences/), reports by what the user asked for
    flushes_subnormals: bool = False  # whether it takes subnormal numbers for zero, or gives zero in their place
    devices: int = 1  # the most devices that a program may run on (its replicas times its partitions)

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        """The leaves of the result of the entry computation, tuples opened, in order.

        `str(module)` is the program as HLO text. `arguments` has one value for each parameter: an array of the NumPy
        type of its element type (`refxla_spec.types`; the small floats and integers are those of ml_dtypes), a tuple of
        values, or None for a token. A program for several devices is given its arguments device after device, and
        gives its results so. Raises UnsupportedError for a program that this implementation does not take; every other
        exception is a failure.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no run(module, arguments)")

    def meant(self, module: Module) -> Module:
        """The program whose value and bounds the results of a module are held to: the module itself, unless this
        implementation says that it computes another one."""
        return module

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        """`run` of one module for many arguments; to be overridden where it pays to prepare the module once."""
        return lambda arguments: self.run(module, arguments)

    def run_many(self, programs: Sequence[tuple[Module, Sequence[Value]]]) -> list[list[np.ndarray] | Exception]:
        """For each of several (module, arguments) what `run` gives, or the exception that it raises.

        An implementation that is slow to start may take them in one go; what comes out is to be the same.
        """
        results: list[list[np.ndarray] | Exception] = []
        for module, arguments in programs:
            try:
                with contained(self, "run"):
                    results.append(self.run(module, arguments))
            except Exception as error:  # of whatever sort it is, it is what came of this program
                results.append(error)
        return results

    def run_fed(self, module: Module, arguments: Sequence[Value], infeed: Sequence[Value]) -> list[np.ndarray]:
        """As `run`, of a program with a host: `infeed` are the values that its infeeds take, in their order. What its
        outfeeds give follows after the result, leaf by leaf. Raises UnsupportedError where there are no hosts."""
        raise UnsupportedError(f"{self.name} has no infeed and no outfeed")

    def verify(self, text: str) -> None:
        """Checks a program without running it, and returns if it follows the rules of HLO.

        Raises InvalidProgramError (or ParseError) for one that breaks them, UnsupportedError for one that cannot be
        checked: all of them, where an implementation has no verifier of its own.
        """
        raise UnsupportedError(f"{self.name} has no verifier")

    def versions(self) -> dict[str, str]:
        """What makes one version of the implementation different from another, for the report: {"jaxlib": "0.10.2"}."""
        return {}

    def close(self) -> None:
        """Ends what the target has started: it is not asked again."""


def leaves(value: Any) -> list[Any]:
    """The arrays (and the Nones of tokens) of nested tuples and lists, in order."""
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (tuple, list)) else [value]


class Misconduct(Exception):
    """What a target does and must not, besides giving a wrong result; the message says whose fault it is."""


@contextmanager
def contained(target: Target, method: str) -> Iterator[None]:
    """Raises Misconduct in place of what a method of a target raises to end the whole process: sys.exit() in the
    command line of a compiler that is written in Python, say. An interruption of the user's goes through."""
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
    """The arrays of what a method of a target gave for a program. Raises Misconduct for what is no list of arrays."""
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
    """What a leaf of a result is, if it is no array of one of HLO's types; else nothing."""
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


MOST_FORMS = 6  # shapes that are told


def arrays(value: Any) -> list[np.ndarray]:
    """The leaves of a result that are arrays; tokens have no value to compare."""
    return [np.asarray(leaf) for leaf in leaves(value) if leaf is not None]
