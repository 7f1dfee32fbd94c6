"""Arguments and results of dynamic shapes: what a call does for a program that the pass `dynamic-padder` has made
static."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.dynamic import check_sizes
from refxla_spec.errors import InputError, plural
from refxla_spec.types import Shape

from ..passes.dynamic_padder import sizes_of


class Sizes:
    """How the arguments and results of a program, some of them of shapes like f32[<=4], correspond to those of its
    static form.

    `parameters` and `results` are the array shapes of the program, with tuples flattened. The static form takes, after
    the arguments, and returns, after the results, the size of each dynamic dimension as an s32[].
    """

    def __init__(self, parameters: Sequence[Shape], results: Sequence[Shape], single: bool) -> None:
        self.parameters, self.results, self.single = tuple(parameters), tuple(results), single
        self._parameter_sizes = sizes_of(list(parameters))
        self._result_sizes = sizes_of(list(results))

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """The values padded to their bounds with zeros, and their sizes.

        Raises InputError for an array of dynamic shape with another type or rank, or beyond its bounds.
        """
        if len(values) != len(self.parameters):
            raise InputError(
                f"the program takes {plural(len(self.parameters), 'argument')} "
                f"({', '.join(str(s.without_layout()) for s in self.parameters)}), {len(values)} given"
            )
        arrays = [self._padded(n, v) for n, v in enumerate(values)]
        counts = [np.int32(np.shape(values[n])[d]) for n, d in self._parameter_sizes]
        return arrays + [np.asarray(c) for c in counts]

    def _padded(self, n: int, value: Any) -> Any:
        shape = self.parameters[n]
        if not shape.is_dynamic:
            return value
        array = np.asarray(value)
        if array.dtype != shape.element_type.dtype or not check_sizes(array.shape, shape):
            raise InputError(
                f"argument {n} is an array of type {array.dtype} and sizes {list(array.shape)}, and the program takes "
                f"{shape.without_layout()}; convert it, or give one of at most these sizes"
            )
        if array.shape == shape.dimensions:
            return array
        whole = np.zeros(shape.dimensions, array.dtype)
        whole[tuple(map(slice, array.shape))] = array
        return whole

    def cut(self, values: Sequence[np.ndarray]) -> Any:
        """The results of a call at their actual sizes: one array, or a tuple."""
        arrays = list(values[: len(self.results)])
        for (n, d), size in zip(self._result_sizes, values[len(self.results) :], strict=True):
            arrays[n] = arrays[n][(slice(None),) * d + (slice(int(size)),)]
        arrays = [np.ascontiguousarray(a) if s.is_dynamic else a for a, s in zip(arrays, self.results, strict=True)]
        return arrays[0] if self.single else tuple(arrays)
