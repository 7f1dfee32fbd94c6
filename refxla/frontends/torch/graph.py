"""Converts a graph of ATen operations to an HLO program and the function that calls it with tensors.

A node that cannot be lowered does not end the walk: its results become parameters for the rest, so that all such nodes
are found at once.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from refxla_spec.errors import Error, InputError
from refxla_spec.module import Alias, Computation, Instruction, Metadata, Module, order_computations, post_order
from refxla_spec.types import Shape

from ...compiler.driver import Reference, compile_module
from ...compiler.options import Options
from . import (  # noqa: F401 - they fill the table
    attention,
    control_flow,
    elementwise,
    indexing,
    linalg,
    pooling,
    products,
    recurrence,
    reductions,
    resizing,
    transforms,
    views,
)
from .decompositions import is_random
from .lowering import DRAWN, INDEX, LINEAR_ALGEBRA, LOWERINGS, I, Lowering, NotLowered, overload_of, rule_of
from .openmp import release_waiting_threads
from .tensors import inverse, memory_order, shape_of, to_array, to_tensor

_INLINE_CONSTANT_ELEMENTS = 64  # elements up to which a constant tensor is part of the program
_VIEWS = {
    f"aten.{name}"
    for name in ("view.default", "_unsafe_view.default", "permute.default", "t.default", "transpose.int",
                 "expand.default", "unsqueeze.default", "squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int",
                 "alias.default", "detach.default", "as_strided.default", "diagonal.default", "split.Tensor",
                 "split_with_sizes.default", "unbind.int", "unfold.default")
}  # fmt: skip


COPY = overload_of("copy_")  # how AOTAutograd writes to an argument when everything else is done
# Operations that return their first operand with some elements replaced, and leave it unchanged if an index is wrong.
_UPDATES = {overload_of(n) for n in ("index_copy", "index_put", "scatter.src", "slice_scatter", "select_scatter")}
# Operations that assert the type and strides of a tensor: they are known when the graph is lowered.
_ASSERTION = overload_of("_assert_tensor_metadata")
# Operations that assert something about values: it is checked when the program has run.
_ASSERTIONS = {overload_of("_assert_async"), overload_of("_assert_async.msg")}


class IndexOutOfRange(InputError, IndexError, RuntimeError):
    """An index of a compiled graph is out of range. (PyTorch raises one or the other.)"""


class AssertionFailed(InputError, RuntimeError):
    """An assertion of a compiled graph about the values of its operands does not hold."""


class DivisionByZero(InputError, ZeroDivisionError, RuntimeError):
    """A compiled graph divided an integer by zero."""


class NoSolution(InputError, torch.linalg.LinAlgError):  # type: ignore[misc]  # Any, where PyTorch is not installed
    """A matrix of a compiled graph is singular, or not positive-definite, or its decomposition does not converge."""


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


@dataclass(frozen=True)
class _Result:
    """A result of the program: its number, and the order of its dimensions in memory."""

    number: int
    order: tuple[int, ...] | None


def require_array(tensor: torch.Tensor) -> None:
    """Raises InputError if a tensor has no form in HLO, or is on another device than the CPU."""
    if tensor.layout is not torch.strided:
        raise InputError(f"a sparse tensor ({tensor.layout}) has no form in HLO: make it dense, by tensor.to_dense()")
    if tensor.is_quantized:
        raise InputError(f"a quantized tensor ({tensor.dtype}) has no form in HLO: use tensor.dequantize()")
    if tensor.device.type != "cpu":
        raise InputError(f"a tensor on {tensor.device} was given: refxla takes tensors on the CPU; use tensor.cpu()")


@dataclass(frozen=True)
class _View:
    """An argument with this number, a result of the program, or a view of one, which PyTorch creates: no element is
    copied."""

    base: int | _Result
    steps: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]


class LoweredGraph:
    """The HLO of a graph. `unsupported` has the nodes without HLO, each with the reason; if there are any, there is no
    program. The same holds for `mutating`, the nodes that write in place: values in HLO are not views of each other.
    However, arguments that are overwritten as a whole when everything else is done (`copies`) are donated: their values
    after the call are results of the program in their memory.

    With `aliases`, results that are views of one another in PyTorch are so here, and have the strides of views. (If
    gradients are needed, AOTAutograd handles the former.)"""

    def __init__(self, graph_module: Any, name: str, *, aliases: bool = False) -> None:
        self.name, self.graph_module, self._aliases = name, graph_module, aliases
        self.unsupported: dict[Any, str] = {}
        self.constants: list[Any] = []  # constant tensors of the graph that are parameters, after the arguments
        self._b = Lowering(name)
        self._values: dict[Any, Any] = {}
        self._parameters: list[I] = []
        self._orders: list[tuple[int, ...] | None] = []
        self._sources: list[int | Any] = []  # for each parameter, the argument's number, or a constant tensor
        self._arguments: dict[Any, int] = {}
        self.results: list[Any] = []
        self.module: Module | None = None
        self.messages: list[str] = []
        self.copies = final_copies(graph_module.graph)
        # For each argument that is written: its number, that of its result, and the order of its dimensions in memory.
        self.written: list[tuple[int, int, tuple[int, ...] | None]] = []
        self.mutating = [n for n in graph_module.graph.nodes if _mutates(n) and n not in self.copies]
        for node in graph_module.graph.nodes:
            self._b.metadata, self._b.origin = _metadata(node), _origin_of(node)
            getattr(self, f"_{node.op}")(node)

    # -- nodes

    def _placeholder(self, node: Any) -> None:
        number = len(self._arguments)
        self._arguments[node] = number
        fake = node.meta.get("val")
        if is_tensor(fake):
            self._values[node] = self._parameter(fake, number)

    def _parameter(self, fake: Any, source: Any) -> I:
        require_array(fake)
        shape = shape_of(fake)
        order = memory_order(fake)
        identity = tuple(range(shape.rank))
        moved = order is not None and order != identity
        if moved and order is not None:
            shape = shape.with_dimensions(tuple(shape.dimensions[d] for d in order))
        number = len(self._parameters)
        instruction = Instruction(f"arg{number}", "parameter", shape, [], {"number": number})
        self._parameters.append(instruction)
        self._orders.append(order if moved else None)
        self._sources.append(source)
        return self._b.permute(instruction, inverse(order)) if moved and order is not None else instruction

    def _get_attr(self, node: Any) -> None:
        value = self.graph_module
        for part in node.target.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):  # which an operation calls, as torch.cond does
            self._values[node] = value
            return
        if not value.numel():  # it may be a fake tensor, which PyTorch leaves in graphs that call graphs
            self._values[node] = self._b.full(0, shape_of(value))
        elif value.numel() <= _INLINE_CONSTANT_ELEMENTS and value.device.type == "cpu":
            self._values[node] = self._b.constant(np.array(to_array(value, None)))
        else:
            self._values[node] = self._parameter(value, value)

    def _call_function(self, node: Any) -> None:
        if node.target is operator.getitem:
            value = self._values.get(node.args[0])
            if value is None:
                self.unsupported[node] = ""
                self._unknown(node)
            else:
                self._values[node] = value[node.args[1]]
            return
        if node.target is _ASSERTION:
            return
        if node in self.copies:
            self._values[node] = self._values.get(node.args[1])
            return
        if node.target in _ASSERTIONS:
            self._check(node)
            return
        try:
            self._values[node] = self._lowered(node)
        except NotLowered as problem:
            self.unsupported[node] = str(problem)
            self._unknown(node)

    def _check(self, node: Any) -> None:
        condition, *message = node.args
        value = self._values.get(condition)
        if value is None:
            self.unsupported[node] = "it depends on a number that is known at run time only"
            return
        at = source_of(node)
        text = str(message[0]) if message else "an assertion does not hold"
        self._b.check(self._b.compare(value, 0, direction="NE"), f"{text} ({at})" if at else text)

    def _call_module(self, node: Any) -> None:
        raise InputError(f"the graph calls a module ({node.target}), which AOTAutograd should have taken apart")

    def _lowered(self, node: Any) -> Any:
        rule = rule_of(node.target)
        if rule is None:
            raise NotLowered(DRAWN if is_random(node.target) else "it has no lowering")
        b, fake = self._b, node.meta.get("val")
        for result in fake if isinstance(fake, (list, tuple)) else (fake,):
            if is_tensor(result) and result.device.type != "cpu":
                raise NotLowered(f"its result is on {result.device}, and refxla's are on the CPU")
        try:
            b.result = [_shape(f) for f in fake] if isinstance(fake, (list, tuple)) else shape_of(fake)
            b.fakes = [a.meta.get("val") if isinstance(a, torch.fx.Node) else a for a in node.args]
            b.target = str(node.target)
            checks = len(b.checks)
            args, kwargs = self._operands((node.args, node.kwargs))
            value = rule(b, *args, **kwargs)
            for n in range(checks, len(b.checks)):
                condition, message = b.checks[n]
                at = source_of(node)
                b.checks[n] = condition, f"{message} ({at})" if at else message
        except (Error, AttributeError, TypeError, ValueError, AssertionError) as problem:
            raise NotLowered(f"this case has no lowering ({_first_line(problem)})") from problem
        _require(b.result, value)
        return value

    def _operands(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            if value not in self._values:
                raise NotLowered("it depends on a number that is known at run time only")
            return self._values[value]
        if isinstance(value, (list, tuple)):
            return type(value)(self._operands(v) for v in value)
        if isinstance(value, dict):
            return {k: self._operands(v) for k, v in value.items()}
        return value

    def _unknown(self, node: Any) -> None:
        """Makes parameters represent the results of a node that is not lowered."""
        fake = node.meta.get("val")
        try:
            if isinstance(fake, (list, tuple)):
                self._values[node] = [self._parameter(f, None) if is_tensor(f) else None for f in fake]
            elif is_tensor(fake):
                self._values[node] = self._parameter(fake, None)
        except InputError:
            pass  # its users cannot be lowered either

    # -- results

    def _output(self, node: Any) -> None:
        for called in [n for n, value in self._values.items() if isinstance(value, torch.fx.GraphModule)]:
            if any(user in self.unsupported for user in called.users):
                self.unsupported[called] = ""
        if self.unsupported or self.mutating:
            return
        b, returned, numbers = self._b, list[I](), dict[Any, _Result]()
        values = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        origins = {v: self._origin(v) for v in values if isinstance(v, torch.fx.Node)}
        shared = Counter(base for base, _ in origins.values())

        def result(value: Any) -> _Result:
            if value not in numbers:
                instruction, fake = self._values[value], value.meta.get("val")
                order = memory_order(fake) if is_tensor(fake) else None
                moved = order is not None and order != tuple(range(len(order)))
                numbers[value] = _Result(len(returned), order if moved else None)
                returned.append(b.permute(instruction, order) if moved and order is not None else instruction)
            return numbers[value]

        for value in values:
            if value not in origins:
                self.results.append(value)
                continue
            base, steps = origins[value]
            if base in self._arguments:
                self.results.append(_View(self._arguments[base], steps))
            elif steps and self._aliases and (shared[base] > 1 or not _is_dense(value.meta.get("val"))):
                self.results.append(_View(result(base), steps))
            else:
                self.results.append(result(value))
        for copy in self.copies:
            self._write(copy, returned)
        self.messages = [message for _, message in b.checks]
        self.returned = len(returned)
        returned += [condition for condition, _ in b.checks]
        if returned:
            self.module = self._module(returned)

    def _write(self, copy: Any, returned: list[I]) -> None:
        """Makes the new value of an argument after the call a result of the program."""
        fake = copy.args[0].meta["val"]
        shape = shape_of(fake)
        value = self._b.expand(self._b.cast(self._values[copy.args[1]], shape.element_type), shape.dimensions)
        order = memory_order(fake)
        moved = order is not None and order != tuple(range(len(order)))
        self.written.append((self._arguments[copy.args[0]], len(returned), order if moved else None))
        returned.append(self._b.permute(value, order) if moved and order is not None else value)

    def _origin(self, node: Any) -> tuple[Any, tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]]:
        """The node whose memory a node views, and its chain of views: (function, further arguments, keywords), the
        first one first."""
        steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        while is_view(node):
            steps.append((node.target, node.args[1:], node.kwargs))
            node = node.args[0]
        return node, tuple(reversed(steps))

    def _module(self, returned: list[I]) -> Module:
        root = self._b.tuple(*returned)
        order = post_order(root)
        there = set(order)
        used = [n for n, p in enumerate(self._parameters) if p in there]
        self._orders = [self._orders[n] for n in used]
        self._sources = [self._sources[n] for n in used]
        parameters = [self._parameters[n] for n in used]
        for number, p in enumerate(parameters):
            p.name, p.attributes["number"] = f"arg{number}", number
        entry = Computation(f"{self.name}.entry", parameters + [i for i in order if i.opcode != "parameter"], root)
        computations = order_computations([entry])
        for number, computation in enumerate(computations[:-1]):  # reducers, and the bodies of loops
            computation.name = f"{computation.name}.{number}"
        module = Module(self.name, computations, entry)
        module.aliases = tuple(self._donations())
        return module

    def _donations(self) -> Iterator[Alias]:
        """The arguments that are written, and the results in their memory. If a check may fail, an argument must stay
        unchanged, except for elements that are only written if an index is right."""
        places = {source: n for n, source in enumerate(self._sources) if type(source) is int}
        for copy, (argument, result, _) in zip(self.copies, self.written, strict=True):
            if argument in places and (not self._b.checks or _is_update(copy.args[1], copy.args[0])):
                yield Alias((result,), places[argument])

    def compile(self, options: Options) -> CompiledGraph:
        """The function that runs it."""
        program = None if self.module is None else compile_module(self.module, options)
        return CompiledGraph(self, program, list(zip(self._sources, self._orders, strict=True)))


def is_view(node: Any) -> bool:
    """Whether a node is a view of its first operand, or an element of a list of views."""
    if node.op != "call_function":
        return False
    return str(node.target) in _VIEWS or node.target is operator.getitem and is_view(node.args[0])


def _is_dense(fake: Any) -> bool:
    return not is_tensor(fake) or memory_order(fake) is not None


def _mutates(node: Any) -> bool:
    """Whether a node writes to an argument: AOTAutograd leaves no such nodes, but a decomposition of PyTorch's may."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and bool(getattr(schema, "is_mutable", False))


def final_copies(graph: Any) -> list[Any]:
    """The copies to arguments that nothing reads afterwards: AOTAutograd writes arguments in this way."""
    places = {n: k for k, n in enumerate(graph.nodes)}
    copies = [n for n in graph.nodes if n.target is COPY and n.args[0].op == "placeholder"]
    return [n for n in copies if all(places[u] <= places[n] for u in n.args[0].users)]


def _is_update(node: Any, argument: Any) -> bool:
    """Whether a value is an argument with some elements replaced."""
    return node.target in _UPDATES and node.args[0] is argument


class CompiledGraph:
    """Called with a graph's arguments, returns its results as a list.

    Arguments are read in place, and results are in separate memory, with the strides of PyTorch's. Raises
    IndexOutOfRange, DivisionByZero, NoSolution and AssertionFailed where PyTorch raises IndexError, ZeroDivisionError,
    torch.linalg.LinAlgError and RuntimeError.
    """

    def __init__(self, lowered: LoweredGraph, program: Any, sources: list[tuple[Any, Any]]) -> None:
        self.program, self.name = program, lowered.name
        self.sources = sources  # for each parameter, the argument's number or a tensor, and its memory order
        self._results = lowered.results
        self._returned, self._messages = lowered.returned, lowered.messages
        self._written = lowered.written
        wanted = [(a.output_index[0], a.parameter) for a in lowered.module.aliases] if lowered.module else []
        placed = getattr(getattr(program, "plan", None), "aliases", ())  # the reference has no plan
        self._gain_us = getattr(program, "gain_us", 0.0)
        self._donations = [parameter for result, parameter in placed if (result, parameter) in wanted]

    def parameters(self, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The program's arguments for these arguments."""
        return [to_array(arguments[s] if type(s) is int else s, order) for s, order in self.sources]

    @property
    def checks(self) -> tuple[tuple[str, str], ...]:
        """The checks at run time, which are the program's last results: the error that is raised, and its text."""
        return tuple((_failure(message).__bases__[1].__name__.lstrip("_"), message) for message in self._messages)

    @staticmethod
    def is_computed(result: Any) -> bool:
        """Whether a result of the graph is one of the program's, not a view of an argument or a constant."""
        return type(result) is _Result

    def __call__(self, *arguments: Any) -> list[Any]:
        arrays: tuple[np.ndarray[Any, Any], ...] = ()
        if self.program is not None:
            parameters = self.parameters(arguments)
            release_waiting_threads(self._gain_us)
            arrays = (
                self.program.in_place(parameters, self._donations) if self._donations else self.program(*parameters)
            )
            if isinstance(self.program, Reference):  # whose results may be views, including of arguments
                arrays = tuple(np.array(a, order="C") for a in arrays)
            for is_met, message in zip(arrays[self._returned :], self._messages, strict=True):
                if not is_met:
                    raise _failure(message)(message)
            for number, result, order in self._written:
                written, value = arguments[number], to_tensor(arrays[result], order)
                if written.data_ptr() != value.data_ptr():
                    written.detach().copy_(value)
        results = []
        for r in self._results:
            if type(r) is _Result:
                results.append(to_tensor(arrays[r.number], r.order))
            elif type(r) is _View:
                base = r.base
                value = to_tensor(arrays[base.number], base.order) if isinstance(base, _Result) else arguments[base]
                for target, args, kwargs in r.steps:
                    value = target(value, *args, **kwargs)
                results.append(value)
            else:
                results.append(r)
        return results


def _failure(message: str) -> type[AssertionFailed | DivisionByZero | IndexOutOfRange | NoSolution]:
    """The error of a check."""
    if message.startswith(LINEAR_ALGEBRA):
        return NoSolution
    if "divided by 0" in message:
        return DivisionByZero
    return IndexOutOfRange if INDEX in message else AssertionFailed


def _shape(fake: Any) -> Shape | None:
    return shape_of(fake) if is_tensor(fake) else None


def _require(stated: Any, value: Any) -> None:
    """A lowering must return PyTorch's shapes; any other would be a bug in it."""
    pairs: Iterable[tuple[Any, Any]] = (
        zip(stated, value, strict=True) if isinstance(stated, list) else [(stated, value)]
    )
    for shape, result in pairs:
        if shape is not None and result is not None and result.shape != shape:
            raise NotLowered(f"this case has no lowering (it gives {result.shape} for {shape})")


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


_NOT_THE_USERS = str(Path(__file__).parent), "<eval_with_key>"  # this folder, and code that torch.fx has written
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _frame(node: Any) -> tuple[str, int] | None:
    """The user's innermost source line for a node."""
    frames = [f for f in _FRAME.findall(node.meta.get("stack_trace") or "") if not f[0].startswith(_NOT_THE_USERS)]
    return (frames[-1][0], int(frames[-1][1])) if frames else None


def source_of(node: Any) -> str:
    """The origin of a node: file:line; the module, in a model that consists only of PyTorch's own modules; "" if
    PyTorch does not say."""
    frame = _frame(node)
    if frame is not None:
        return f"{frame[0]}:{frame[1]}"
    modules = [m for m in (node.meta.get("nn_module_stack") or {}).values() if __package__ not in str(m[1])]
    if not modules:
        return ""
    path, kind = modules[-1]
    path = re.sub(r"^(L.*?[]]|called\b)[.]?", "", path)  # the compiled module itself has no name
    return f"module {path or 'itself'} ({getattr(kind, '__name__', kind)})"


def _origin_of(node: Any) -> str:
    """The name of the operation that PyTorch was called for, from which a decomposition created the node; "" if it does
    not say."""
    return str(node.meta.get("original_aten") or "").removeprefix("aten.").partition(".")[0]


def _metadata(node: Any) -> Metadata | None:
    return Metadata(str(node.target), node.name, *(_frame(node) or ())) if node.op == "call_function" else None


def lowered_names() -> list[str]:
    """The names of the operations of the installed PyTorch that have a lowering, such as "add.Tensor"."""
    return sorted({str(overload).removeprefix("aten.").removesuffix(".default") for overload in LOWERINGS})
