"""The backend of `torch.compile(model, backend="refxla")`.

Dynamo passes a graph of the user's calls. AOTAutograd turns it into a forward and a backward graph of ATen operations
without mutation, and each becomes an HLO program. Operations with a lowering here are kept; all others that PyTorch can
decompose are decomposed.

HLO has static shapes. If Dynamo makes a size a symbol, since it has changed, the graph is traced again for the sizes of
a call, compiled, and kept for other calls with the same sizes.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from refxla_spec.errors import InputError
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._python_dispatch import _disable_current_modes

from ...compiler.options import Options
from ..traced import WARN_COMPILATIONS, RecompilationWarning
from .decompositions import decompositions
from .graph import source_of
from .masks import write_by_masks
from .number_arguments import NumbersAsTensors, returned_numbers, value_arguments
from .partition import INFERENCE, compile_graph
from .recurrent import write_as_loops
from .report import count, enter, warn_at
from .selections import index_by_tensors
from .tensors import plain


def refxla(graph_module: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's; `torch.compile`'s `options` are those of `refxla.compile`, by name.

    Raises InputError for tensors that are not on the CPU, sparse ones, and unknown options.
    """
    options = _options(settings)
    write_as_loops(graph_module)
    write_by_masks(graph_module)

    def compiler(kind: str) -> Callable[..., Callable[..., Any]]:
        def compile_one(graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
            with _disable_current_modes():  # constants of the graph are inspected, and AOTAutograd makes tensors fake
                return _boxed(_compiled(graph, kind, options, _shown() if kind == "forward" else range(0)))

        return compile_one

    trains = torch.is_grad_enabled() and any(_is_tensor(x) and x.requires_grad for x in example_inputs)
    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler(INFERENCE),
        decompositions=decompositions(),
        partition_fn=_in_two,
        keep_inference_input_mutations=not trains,  # the graph writes to arguments, in whose memory results then are
    )
    # oneDNN's LSTM layer has no lowering, and AOTAutograd creates no backward graph for it.
    with _without_mkldnn() if trains else contextlib.nullcontext():
        try:
            compiled: Callable[..., Any] = backend(graph_module, example_inputs)
        except _LEFT_TO_EAGER as problem:
            _report_left(graph_module, problem)
            raise
    return compiled


# Exceptions after which Dynamo runs the whole graph in eager mode.
_LEFT_TO_EAGER = (DynamicOutputShapeException, DataDependentOutputException, UnsupportedOperatorException)


def _report_left(graph_module: Any, problem: Any) -> None:
    """Reports a graph that is left to eager mode: PyTorch cannot trace it, or the graph of its gradient."""
    sources = filter(None, (source_of(n) for n in graph_module.graph.nodes if n.op.startswith("call")))
    reason = "it, or its gradient, has a shape that depends on values, and the graph that begins here is left to eager"
    if isinstance(problem, UnsupportedOperatorException):
        reason = "PyTorch cannot trace it, and the graph that begins here is left to eager"
    count([enter(str(problem.func), reason, next(sources, ""))])


def _in_two(joint: Any, *args: Any, **kwargs: Any) -> Any:
    """The forward and the backward graph of a graph that has both."""
    index_by_tensors(joint)
    return min_cut_rematerialization_partition(joint, *args, **kwargs)


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    """(torch.backends.mkldnn.flags sets more than that, and warns about it.)"""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _options(settings: dict[str, Any]) -> Options:
    options = dict(settings.pop("options", None) or {})
    mode = settings.pop("mode", None)
    if mode not in (None, "default") or settings:
        unknown = f"mode={mode!r}" if mode not in (None, "default") else ", ".join(settings)
        raise InputError(f"torch.compile was given {unknown}, which the backend refxla does not have: leave it out")
    try:
        return Options.of(**options)
    except TypeError:
        names = ", ".join(Options.__dataclass_fields__)
        raise InputError(f"torch.compile was given the options {', '.join(options)}; refxla has {names}") from None


def _boxed(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """With the calling convention of AOTAutograd: one list, which is emptied, so that it keeps nothing alive."""

    def call(arguments: list[Any]) -> list[Any]:
        values = tuple(map(plain, arguments))
        arguments.clear()
        return run(*values)

    call._boxed_call = True  # type: ignore[attr-defined]  # PyTorch asks for it
    return call


def _shown() -> range:
    """Which results of the current forward graph are the user's: the others are new values of arguments, and values
    saved for the backward graph."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return range(0)
    first = context.fw_metadata.num_mutated_inp_runtime_indices
    return range(first, first + context.fw_metadata.num_outputs)


def _compiled(graph_module: Any, name: str, options: Options, shown: range) -> Callable[..., list[Any]]:
    if any(_is_symbolic(n.meta.get("val")) for n in graph_module.graph.nodes if n.op == "placeholder"):
        return Specializing(graph_module, name, options, shown)
    return compile_graph(graph_module, name, options, shown)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return True
    return isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


# How often sizes come before they are compiled, if many others have been: a compilation takes as long as hundreds of
# calls, and a size that depends on values, as that of x[mask], may never come again.
_CALLS_BEFORE_COMPILING = 16

_RARE = f"its sizes keep changing, and new ones are compiled when they have come {_CALLS_BEFORE_COMPILING} times"


class Specializing:
    """A graph with symbols for sizes, compiled once for each combination of sizes with which it is called.

    Numbers that decide no size are arguments of the program, which is the same for all of them.

    After the warning about many compilations, further sizes are compiled only if they come often; until then, PyTorch
    runs the graph, and the report says so."""

    def __init__(self, graph_module: Any, name: str, options: Options, shown: range) -> None:
        self.graph_module, self.name, self.options, self.shown = graph_module, name, options, shown
        self._numbers = value_arguments(graph_module)
        self._returned = returned_numbers(graph_module, self._numbers)
        self._compiled_graphs: dict[Any, Callable[..., list[Any]]] = {}
        self._calls: Counter[Any] = Counter()  # by sizes that are not compiled
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> list[Any]:
        given = arguments
        if self._numbers:
            arguments = tuple(
                torch.tensor(a, device="cpu") if n in self._numbers and type(a) is int else a
                for n, a in enumerate(arguments)
            )
        key = tuple(_kind(a) for a in arguments)
        run = self._compiled_graphs.get(key)
        if run is None:
            with self._lock:
                run = self._compiled_graphs.get(key)
                if run is None and not self._is_rare(key):
                    run = self._traced(arguments)
                    self._warn_of_many(key)
                    self._compiled_graphs[key] = run
                    del self._calls[key]
        if run is None:
            return self._in_pytorch(given)
        results = run(*arguments)
        for number, value_of in self._returned.items():
            results[number] = value_of(given)
        return results

    def _is_rare(self, key: tuple[Any, ...]) -> bool:
        """Whether to leave a call with new sizes to PyTorch."""
        self._calls[key] += 1
        return len(self._compiled_graphs) > WARN_COMPILATIONS and self._calls[key] < _CALLS_BEFORE_COMPILING

    def _in_pytorch(self, arguments: tuple[Any, ...]) -> list[Any]:
        count([enter(f"the {self.name} graph", _RARE, self._source(), expected=True)])
        with torch.no_grad():
            return list(self.graph_module(*arguments))

    def _source(self) -> str:
        """The user's line where the graph begins."""
        return next(filter(None, map(source_of, self.graph_module.graph.nodes)), "")

    def _warn_of_many(self, key: tuple[Any, ...]) -> None:
        """Warns, once, when changing sizes have led to several compilations; the backward graph's are the same."""
        if len(self._compiled_graphs) != WARN_COMPILATIONS or self.name == "backward":
            return
        last = list(self._compiled_graphs)[-1]
        was, now = next((_described(x), _described(y)) for x, y in zip(last, key, strict=True) if x != y)
        source = self._source()
        at = f" at {source}" if source else ""
        warn_at(
            source,
            f"the graph{at} was compiled {WARN_COMPILATIONS} times anew because an argument changed, the last time "
            f"from {was} to {now}: each size is a program of its own; pad tensors to a few sizes. From now on, "
            f"PyTorch runs the graph for new sizes, until they have come {_CALLS_BEFORE_COMPILING} times",
            RecompilationWarning,
        )

    def _traced(self, arguments: tuple[Any, ...]) -> Callable[..., list[Any]]:
        """The graph traced again with sizes in place of symbols."""
        if any(isinstance(a, torch.SymInt) for a in arguments):
            raise InputError(
                "a nested tensor was given, whose rows have sizes of their own: torch.nested.to_padded_tensor(x, 0) "
                "makes an array of it"
            )
        interpreter = NumbersAsTensors(self.graph_module, self._numbers)
        inputs = [a.detach() if _is_tensor(a) else a for a in arguments]
        with torch.no_grad(), preserve_node_meta():
            trace = make_fx(lambda *values: interpreter.run(*values), tracing_mode="fake", _allow_non_fake_inputs=True)
            graph = trace(*inputs)
        return compile_graph(graph, self.name, self.options, self.shown)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _described(kind: tuple[Any, ...]) -> str:
    """What matters of an argument for the program, for a message."""
    return f"{str(kind[0]).removeprefix('torch.')}{list(kind[1])}" if len(kind) > 2 else str(kind[1])


def _kind(value: Any) -> Any:
    """What matters of an argument for the program."""
    return (value.dtype, tuple(value.shape), value.stride()) if _is_tensor(value) else (type(value), value)
