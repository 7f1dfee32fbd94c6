"""PyTorch's own samples of its operations (OpInfo), lowered, run and compared with what eager PyTorch gives.

    python -m refxla_conformance.torch_ops [--core] [--gradients] [--samples N] [--device NAME]
        [--dtype float32] [NAME ...]

For each operation: how many samples ran fully compiled and agree, how many had a part that ran in PyTorch, how many
could not be traced, and each that disagrees or failed. `--core` selects the operations that PyTorch tags as core ATen;
`--device reference` runs the lowered programs by the specification's interpreter, which compiles nothing. `--gradients`
runs each operation together with its gradients by its floating-point tensors, for random gradients of its results.
"""

# ruff: noqa: E402  (the options are there without PyTorch)
from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded


def _parser() -> Parser:
    parser = Parser(prog="python -m refxla_conformance.torch_ops", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operations by OpInfo's names; all if there are none")
    parser.add_argument("--core", action="store_true", help="those that PyTorch tags as core ATen alone")
    parser.add_argument("--gradients", action="store_true", help="with the gradients by their tensors")
    parser.add_argument("--samples", type=int, default=1000, help="how many samples of each operation at most")
    parser.add_argument("--device", default=None, help="the compiler's device, or reference")
    parser.add_argument("--dtype", default="float32", help="PyTorch's name of the element type (float32)")
    return parser


try:
    import expecttest  # noqa: F401  (what PyTorch's samples are written with)
    import torch
except ImportError as problem:
    missing = problem.name

    def _refused() -> int:
        _parser().parse_args()  # --help needs nothing that is missing
        raise InputError(f"{missing} is missing: pip install 'refxla[torch]' expecttest")

    raise SystemExit(guarded(_refused, "refxla-conformance")) from None
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from refxla.compiler.options import Options
from refxla.frontends.torch import EagerWarning, clear, report
from refxla.frontends.torch.decompositions import decompositions, is_random
from refxla.frontends.torch.lowering import LOWERINGS, overload_of
from refxla.frontends.torch.partition import compile_graph

OfTensors = Callable[..., list[torch.Tensor]]

_UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


def core_operations() -> list[torch._ops.OpOverload]:
    """The overloads that PyTorch tags as core ATen."""
    names = (n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    overloads = (overload_of(n) for n in names)
    return [o for o in overloads if o is not None and torch.Tag.core in o.tags]


def coverage() -> Counter[str]:
    """How each core operation is compiled: by a lowering, by a decomposition, drawn by PyTorch, or not."""
    decomposed = decompositions()

    def how(overload: torch._ops.OpOverload) -> str:
        if overload in LOWERINGS:
            return "lowered"
        if is_random(overload):
            return "random: PyTorch's"
        return "decomposed" if overload in decomposed else "eager"

    return Counter(how(o) for o in core_operations())


def with_gradients(function: OfTensors, tensors: list[torch.Tensor]) -> tuple[OfTensors, list[torch.Tensor]]:
    """A function of tensors and of the gradients of its results, which returns the results and the gradients by the
    tensors that can have any; and its arguments, with random gradients after the tensors."""
    moving = [n for n, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]

    def results(*chosen: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arguments = list(tensors)
        for n, tensor in zip(moving, chosen, strict=True):
            arguments[n] = tensor
        return tuple(t for t in function(*arguments) if t.is_floating_point() or t.is_complex())

    generator = torch.Generator().manual_seed(0)
    expected = function(*(t.clone() for t in tensors))
    seeds = [
        torch.randn(t.shape, dtype=t.dtype, generator=generator)
        for t in expected
        if t.is_floating_point() or t.is_complex()
    ]

    def both(*arguments: torch.Tensor) -> list[torch.Tensor]:
        tensors[:] = arguments[: len(tensors)]
        values, pull = torch.func.vjp(results, *(tensors[n] for n in moving))
        return [*values, *pull(tuple(arguments[len(tensors) :]))]

    return both, [*tensors, *seeds]


def outcomes(
    info: OpInfo, dtype: torch.dtype, samples: int, options: Options, gradients: bool = False
) -> Iterator[tuple[str, str]]:
    """(outcome, error) of each sample of an operation; with `gradients`, of these, too."""
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
        if number == samples:
            return
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def plain(
            *tensors: torch.Tensor,
            leaves: list[Any] = leaves,
            places: list[int] = places,
            structure: TreeSpec = structure,
        ) -> list[torch.Tensor]:
            arguments = list(leaves)
            for n, tensor in zip(places, tensors, strict=True):
                arguments[n] = tensor
            x, args, kwargs = tree_unflatten(arguments, structure)
            return [t for t in tree_leaves(info.op(x, *args, **kwargs)) if isinstance(t, torch.Tensor)]

        of_tensors: OfTensors = plain
        tensors = [leaves[n].clone() for n in places]
        try:
            if gradients:
                of_tensors, tensors = with_gradients(of_tensors, tensors)
            graph = make_fx(functionalize(of_tensors), decomposition_table=decompositions(), tracing_mode="fake")(
                *(t.clone() for t in tensors)
            )
            graph.graph.eliminate_dead_code()
        except Exception as problem:  # whatever PyTorch raises: mostly a shape that depends on data
            yield "not traced", f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
            continue
        clear()
        torch.manual_seed(42)
        try:
            expected = of_tensors(*(t.clone() for t in tensors))
        except RuntimeError:  # for memory beyond the tensor's own elements
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EagerWarning)
                run = compile_graph(graph, "sample", options)
            eager = sorted({f"{e.operation}: {e.reason}" for e in report()})
            torch.manual_seed(42)  # which OpInfo takes for operations that draw random numbers
            actual = run(*tensors)
            torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-4, atol=1e-5)
        except Exception as problem:  # every one is counted and shown
            text = " ".join(str(problem).split())
            yield "failed", f"sample {number}: {type(problem).__name__}: {text[:300]}"
            continue
        yield ("in part eager", "; ".join(eager)) if eager else ("passed", "")


def main() -> int:
    """The command; returns 1 if an operation failed."""
    return guarded(_command, "refxla-conformance")


def _command() -> int:
    arguments = _parser().parse_args()
    dtype = getattr(torch, arguments.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"PyTorch has no element type {arguments.dtype!r}: float32, say")
    options = Options.of(device=arguments.device)
    print("core operations:", ", ".join(f"{n} {how}" for how, n in coverage().most_common()))
    core = {str(o).split(".")[1] for o in core_operations()}
    total: Counter[str] = Counter()
    for info in op_db:
        if arguments.names and info.name not in arguments.names:
            continue
        if arguments.core and not ({info.name.rpartition(".")[2], info.aten_name} & core):
            continue
        if arguments.gradients and not (info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")):
            continue
        if not info.supports_dtype(dtype, "cpu") or info.name in _UNDEFINED or info.name.startswith("sparse."):
            continue
        results = list(outcomes(info, dtype, arguments.samples, options, arguments.gradients))
        counts = Counter(outcome for outcome, _ in results)
        total += counts
        if set(counts) - {"passed"}:
            name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
            print(f"{name}: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
            for text in sorted({text for outcome, text in results if outcome != "passed"})[:3]:
                print(f"    {text}", flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in total.most_common()))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
