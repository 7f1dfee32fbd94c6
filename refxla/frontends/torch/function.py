"""Models of PyTorch as functions: `refxla.compile(model, images)`, which can be saved, in addition to the backend of
torch.compile.

`torch.export` extracts the graph of the model, with its parameters and buffers as arguments, and the graph becomes one
HLO program. It is for inference only: it has no gradients, and nothing of the model is changed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from refxla_spec.errors import UnsupportedError
from torch.export.graph_signature import TensorArgument
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from ...compiler.options import Options
from ...ir.calling_convention import ArrayLeaf, CallingConvention, Constant, Tree
from ..saved_trees import argument_trees, tree_of
from ..traced import Lowered, TracedFunction
from .decompositions import decompositions
from .graph import LoweredGraph, require_array, source_of
from .lowering import DRAWN, LOWERINGS
from .number_arguments import NUMBER, NumbersAsTensors, numbers_of_tensors
from .partition import prepare
from .tensors import to_array

Trees = tuple[tuple[tuple[str, Tree], ...], tuple[tuple[str, Tree], ...]]


def compile_torch(model: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], options: Options) -> TorchFunction:
    """A TorchFunction; compiled at once if example arguments are given, else at the first call.

    `model` is a torch.nn.Module, the result of torch.compile for one, or a Python function of tensors.
    """
    torch_function = TorchFunction(getattr(model, "_orig_mod", model), options)  # of torch.compile's OptimizedModule
    torch_function.compile_examples(arguments, keywords)
    return torch_function


class TorchFunction(TracedFunction):
    """Called with nested tuples, lists and dicts of tensors, like the model; returns tensors, on the CPU.

    Tensors matter by type and shape, everything else by value. Parameters and buffers of the model are read at each
    call. The program depends on which of the model's modules are in training mode at a call. Results are not recorded
    for gradients: `torch.compile(model, backend="refxla")` trains.
    """

    value_advice = "its value is part of the program; pass torch.tensor(x) if it is no size and no switch"

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Sequence[Any]]:
        values, structure = pytree.tree_flatten((args, kwargs))
        tensors = [_tensor(v) for v in values if _is_array(v)]
        kinds = tuple((v.dtype, tuple(v.shape)) if _is_array(v) else (type(v), repr(v)) for v in values)
        return (str(structure), kinds, _modes(self.function)), tensors

    def _lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        arguments = [(self._argument(n), False, v) for n, v in enumerate(args)]
        trees = argument_trees([*arguments, *((k, False, v) for k, v in kwargs.items())], {}, _is_array)
        pair = tuple(trees[: len(args)]), tuple(trees[len(args) :])
        return _TorchLowered(self.name, self.function, args, kwargs, pair, self.options)

    @property
    def _signed(self) -> Any:
        return getattr(self.function, "forward", self.function)


class _TorchLowered(Lowered):
    """The compiled graph of a model; `given` are the trees of its positional arguments and of the others."""

    def __init__(
        self, name: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trees: Trees, options: Options
    ) -> None:
        self.example_trees = trees
        exported = _exported(name, model, *pytree.tree_map(lambda v: _tensor(v) if _is_array(v) else v, (args, kwargs)))
        prepare(exported.graph_module)
        graph_module = _without_reading_numbers(exported.graph_module)
        lowered = LoweredGraph(graph_module, name)
        _require_compiled(name, exported, lowered, training=any(_modes(model)))
        self.graph = lowered.compile(options)
        if self.graph.program is None:
            raise UnsupportedError(f"{name} computes nothing: its results are constants")
        self.program = self.graph.program
        self.results = lowered.results
        self.structure = exported.call_spec.out_spec
        tensors: dict[str, Any] = {**exported.state_dict, **exported.constants}
        leaves = itertools.count()
        # For each argument of the graph, the number of a leaf, or the model's tensor, or None.
        self.inputs: list[Any] = []
        for spec in exported.graph_signature.input_specs:
            if spec.target is not None:
                self.inputs.append(_own(model, spec.target, tensors))
            else:
                self.inputs.append(next(leaves) if isinstance(spec.arg, TensorArgument) else None)

    def _values(self, leaves: Sequence[Any]) -> list[Any]:
        return [leaves[n] if type(n) is int else n for n in self.inputs]

    def __call__(self, leaves: Sequence[Any]) -> Any:
        return pytree.tree_unflatten(self.graph(*self._values(leaves)), self.structure)

    def parameters(self, leaves: Sequence[Any]) -> list[Any]:
        return self.graph.parameters(self._values(leaves))

    def calling(self, name: str) -> CallingConvention:
        """The model's tensors are stored in the file with their present values."""
        sources: list[Any] = []
        for source, order in self.graph.sources:
            value = self.inputs[source] if type(source) is int else source
            sources.append(value if type(value) is int else np.array(to_array(value, order), order="C"))
        marks = [_ARRAY if self.graph.is_computed(r) else r for r in self.results]

        def leaf(value: Any) -> Tree:
            return ArrayLeaf() if value is _ARRAY else Constant(value)

        result = tree_of(pytree.tree_unflatten(marks, self.structure), leaf)
        return CallingConvention(name, *self.example_trees, tuple(sources), result, checks=self.graph.checks)


_ARRAY = object()


def _is_array(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray, np.generic))


def _tensor(value: Any) -> Any:
    """An argument in the form that the program takes: dense and row-major. Raises InputError."""
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    require_array(tensor)
    return tensor.detach().contiguous()


def _own(model: Any, name: str, tensors: dict[str, Any]) -> Any:
    """A parameter or buffer: the model's own, so that changes to it are seen, or a constant of the graph."""
    prefix, _, rest = name.partition(".")
    if isinstance(model, torch.nn.Module) and prefix == "called":
        with contextlib.suppress(AttributeError):
            path, _, last = rest.rpartition(".")
            return getattr(model.get_submodule(path), last)
    return tensors[name]


class _Dense(torch.nn.Module):  # type: ignore[misc]  # Any, where PyTorch is not installed
    """A model whose results are separate tensors, dense and row-major."""

    def __init__(self, called: Any) -> None:
        super().__init__()
        self.called = called

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        def dense(value: Any) -> Any:
            return value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value

        return pytree.tree_map(dense, self.called(*args, **kwargs))


def _exported(name: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model's graph, in operations that have a lowering if they can be decomposed into such."""
    dense = _Dense(model)
    dense.training = getattr(model, "training", False)  # only its own: parts of the model may be in another mode
    try:
        with torch.no_grad(), _modes_kept(model):
            return torch.export.export(dense, args, kwargs, strict=False).run_decompositions(_of_exports())
    except Exception as problem:  # of many classes, most of them PyTorch's
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        advice = (
            "torch.where chooses by values element by element, torch.cond between functions; "
            if "data-dependent" in first else ""
        )  # fmt: skip
        raise UnsupportedError(
            f"torch.export takes no graph off {name} ({first}); {advice}torch.compile(model, backend='refxla') runs "
            "what has several graphs, and cannot be saved"
        ) from problem


def _without_reading_numbers(graph_module: Any) -> Any:
    """The graph with tensors in place of the numbers that it reads from tensors by `.item()`, if it can do without."""
    read = numbers_of_tensors(graph_module)
    if not read:
        return graph_module
    interpreter = NumbersAsTensors(graph_module, frozenset(), read)
    inputs = [n.meta["val"] for n in graph_module.graph.nodes if n.op == "placeholder"]
    mode = next(value.fake_mode for value in inputs if isinstance(value, torch.Tensor))
    with torch.no_grad(), preserve_node_meta(), mode:
        return make_fx(lambda *values: interpreter.run(*values), _allow_non_fake_inputs=True)(*inputs)


@functools.cache
def _of_exports() -> dict[Any, Any]:
    """The decompositions of a graph of torch.export, which keeps operations that AOTAutograd has already decomposed
    (such as attention)."""
    composite: Any = getattr(torch.export, "default_decompositions", dict)()
    taken_apart = {op: composite[op] for op in list(composite) if op not in LOWERINGS}
    return {**taken_apart, **decompositions()}


@contextlib.contextmanager
def _modes_kept(model: Any) -> Iterator[None]:
    """Restores the training mode of each module of the model afterwards."""
    modes = _modes(model)
    try:
        yield
    finally:
        for module, mode in zip(_modules(model), modes, strict=True):
            module.training = mode


def _modules(model: Any) -> list[Any]:
    return list(model.modules()) if isinstance(model, torch.nn.Module) else []


def _modes(model: Any) -> tuple[bool, ...]:
    """Which modules of a model are in training mode; of a function, none."""
    return tuple(m.training for m in _modules(model))


def _require_compiled(name: str, exported: Any, lowered: LoweredGraph, *, training: bool) -> None:
    """Raises UnsupportedError for a graph that is not a single program without effects; `training` says whether a part
    of the model is in training mode, which may be the reason."""
    signature = exported.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        written = ", ".join([*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()][:3])
        written = written.replace("called.", "")
        raise UnsupportedError(
            f"{name} writes {written}, which a function does not: call model.eval() first (batch "
            "normalization writes in training mode), or compile it by torch.compile(model, backend='refxla')"
        )
    if lowered.mutating:
        raise UnsupportedError(f"{name} writes in place ({lowered.mutating[0].target}): write it without")
    for node, reason in lowered.unsupported.items():
        if node.op != "call_function" or not reason:
            continue
        at = source_of(node)
        where = f" at {at}" if at else ""
        if reason == DRAWN:
            advice = "call model.eval() first" if training else "draw them outside, and pass them as an argument"
            raise UnsupportedError(
                f"{name} draws random numbers ({node.target}{where}), which are PyTorch's own: {advice}"
            )
        if node.target is NUMBER:
            raise UnsupportedError(
                f"{name} reads a number from a tensor, by .item(){where}, which decides a size, is an index, or is "
                "returned: compute with the tensor itself; torch.compile(model, backend='refxla') reads it in PyTorch"
            )
        raise UnsupportedError(
            f"{name} has {node.target}{where}, and {reason}; torch.compile(model, backend='refxla') runs it in PyTorch"
        )
    if lowered.unsupported:
        raise UnsupportedError(f"{name} calls graphs of its own (torch.cond and the like), which have no lowering")
