"""Functions from files (refxla/compiler/executable_file.py): called as before they were saved, without their
framework."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from refxla_spec import errors
from refxla_spec.errors import InputError
from refxla_spec.types import ELEMENT_TYPES, Shape

from ..compiler import executable_file
from ..compiler.driver import Compiled
from ..ir.calling_convention import CallingConvention, NumberArray, flattened, number, rebuilt
from .shared_memory import check_written

if TYPE_CHECKING:
    from refxla_spec.module import Module

    from ..analysis.cost_analysis import Cost
    from ..compiler.explanation import Explanation
    from ..compiler.kernel_profile import Profile
    from ..ir.plan import Plan
    from ..runtime.devices import Device
    from ..runtime.result_memory import Memory
    from ..typing import Tree

# How arrays are converted if JAX has no 64-bit numbers.
_NARROW = {np.dtype(wide): np.dtype(narrow) for wide, narrow in (
    ("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"), ("complex128", "complex64"),
)}  # fmt: skip


def _error(kind: str, message: str) -> Exception:
    """An exception by the name of its class: one of Python's, of NumPy's linear algebra's or of refxla's."""
    error = getattr(errors, kind, None) or getattr(builtins, kind, None) or getattr(np.linalg, kind, None)
    if isinstance(error, type) and issubclass(error, Exception):
        return error(message)
    return InputError(message)


class SavedFunction:
    """A compiled function from a file. It takes the arguments of the original function, in the same nesting of tuples,
    lists and dicts, and returns the same results; arrays are NumPy's, and random keys their words. It has the
    attributes of an executable (`hlo`, `plan`, `explain`, ...).

    Raises InputError for arguments whose structure, type or shape differs from those for which it was saved.
    """

    if TYPE_CHECKING:  # of the program
        hlo: Module
        optimized_hlo: Module
        plan: Plan
        opencl: str
        memory: Memory
        cost: Cost
        device: Device
        device_reason: str

        def explain(self) -> Explanation: ...

    def __init__(self, program: Compiled, calling: CallingConvention) -> None:
        self.program, self.calling = program, calling
        self.__name__ = calling.name

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        leaves = self._leaves(args, kwargs)
        if self.calling.writes:
            check_written(leaves, self.calling.writes)
        result = self.program(*self._parameters(leaves))
        results = result if isinstance(result, tuple) else (result,)
        first_check = len(results) - len(self.calling.checks)
        for is_met, (kind, message) in zip(results[first_check:], self.calling.checks, strict=True):
            if not is_met:
                raise _error(kind, message)
        writes = self.calling.writes
        for leaf, value in zip(writes, results[first_check - len(writes) : first_check], strict=True):
            np.copyto(leaves[leaf], value)
        return rebuilt(self.calling.result, iter(results), leaves)

    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        calling, rest = self.calling, dict(kwargs)
        values = list(args)
        for name, _ in calling.positional[len(args) :]:
            if name not in rest:
                raise InputError(f"{calling.name} takes {self._described()}, and {name} is missing")
            values.append(rest.pop(name))
        keywords = [(name, tree, rest.pop(name)) for name, tree in calling.keywords if name in rest]
        if rest or len(keywords) < len(calling.keywords) or len(values) > len(calling.positional):
            raise InputError(f"{calling.name} takes {self._described()}: {len(args)} and {sorted(kwargs)} were given")
        arguments = [(name, tree, v) for (name, tree), v in zip(calling.positional, values, strict=True)] + keywords
        return [leaf for name, tree, value in arguments for leaf in flattened(tree, value, name)]

    def _parameters(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments of the program."""
        shapes = self.program.plan.parameters
        return [self._argument(s, shape, leaves) for s, shape in zip(self.calling.sources, shapes, strict=True)]

    def _described(self) -> str:
        """Its arguments in words."""
        names = [name for name, _ in self.calling.positional] + [f"{name}=" for name, _ in self.calling.keywords]
        return f"({', '.join(names)})"

    def _argument(self, source: Any, shape: Shape, leaves: Sequence[Any]) -> Any:
        """The argument for a parameter of the program."""
        if isinstance(source, NumberArray):
            value, dtype = number(source.number, leaves), ELEMENT_TYPES[source.element_type].dtype
            return np.full((), value, dtype) if source.filled else np.asarray(value, dtype)
        if not isinstance(source, int):
            return source
        leaf = leaves[source]
        if str(getattr(leaf, "dtype", "")).startswith("key<"):
            raise InputError(f"{self.calling.name} takes a random key by its words: jax.random.key_data(key)")
        target = shape.element_type.dtype
        if self.calling.narrowed and hasattr(leaf, "dtype") and _NARROW.get(leaf.dtype) == target:
            return np.asarray(leaf).astype(target)
        return leaf

    if not TYPE_CHECKING:  # type checkers only see what is declared above

        def __getattr__(self, name: str) -> object:
            if name.startswith("_") or name == "program":
                raise AttributeError(name)
            return getattr(self.program, name)

    def profile(self, *args: Tree, seconds: float = 1.0, **kwargs: Tree) -> Profile:
        """How long each kernel takes in a call with these arguments; see `Compiled.profile`."""
        return self.program.profile(*self._parameters(self._leaves(args, kwargs)), seconds=seconds)

    def save(self, path: str | Path) -> None:
        """Writes it to a file again; see `Compiled.save`."""
        executable_file.write(path, self.program.saved(self.calling))

    def __repr__(self) -> str:
        return f"<SavedFunction {self.calling.name}{self._described()}>"
