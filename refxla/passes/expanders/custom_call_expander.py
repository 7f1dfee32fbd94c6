"""Custom calls with a specified meaning: markers become identities, others become operations."""

from __future__ import annotations

from difflib import get_close_matches

from refxla_spec.custom_calls import TARGETS as MEANINGS
from refxla_spec.custom_calls import identity, options
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

from ..._core.shapes import make
from ...ir.builder import Build
from ...ir.library_calls import library_call
from ..host_call_threading import HOST_CALL
from . import householder, lapack, topk_expander


def _marker(i: Instruction) -> Instruction:
    x = i.operands[0]
    if not x.shape.compatible(i.shape):
        raise UnsupportedError(
            f"{i.name}: {i.custom_call_target} makes {i.shape} of {x.shape}: a program for several devices; "
            "compile it for one"
        )
    return x


def _whole(i: Instruction) -> Instruction:
    """On one device, a value has a single tile: itself."""
    stated = i.shape.elements if i.shape.is_tuple else (i.shape,)
    for x, shape in zip(i.operands, stated, strict=True):
        if not x.shape.compatible(shape):
            raise UnsupportedError(
                f"{i.name}: {i.custom_call_target} makes {shape} of {x.shape}: a program for several devices; "
                "compile it for one"
            )
    return make("tuple", *i.operands, name=i.name) if i.shape.is_tuple else i.operands[0]


def _sink(i: Instruction) -> Instruction:
    """The empty tuple: a value that nothing reads is not computed."""
    return make("tuple", name=i.name)


def _top_k(i: Instruction) -> Instruction:
    k = i.shape.elements[0].dimensions[-1]
    return topk_expander.EXPANSIONS["topk"](make("topk", i.operands[0], name=i.name, k=k, largest=True))


def _approximate_top_k(i: Instruction) -> Instruction:
    """The exact first elements in the comparator's order: a sort, and a slice of its beginning."""
    b = Build(i.name)
    arrays = i.operands[: len(i.operands) // 2]
    axis = int(options(i, reduction_dim=arrays[0].shape.rank - 1)["reduction_dim"])
    comparator = (*i.called_computations, *([i.to_apply] if i.to_apply else []))[0]
    shapes = i.shape.elements or (i.shape,)
    order = b.make("sort", *arrays, dimensions=(axis,), to_apply=comparator, is_stable=True)
    parts = [b.make("get-tuple-element", order, index=n) for n in range(len(arrays))] if len(arrays) > 1 else [order]
    zeros = (0,) * arrays[0].shape.rank
    first = [b.slice(p, zeros, s.dimensions) for p, s in zip(parts, shapes, strict=True)]
    return b.tuple(*first) if i.shape.is_tuple else first[0]


TARGETS = {
    **lapack.TARGETS,
    **{target: _marker for target, meaning in MEANINGS.items() if meaning is identity},
    **dict.fromkeys(("SPMDFullToShardShape", "SPMDShardToFullShape"), _whole),
    **dict.fromkeys(("xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"), _whole),
    "ApproxTopK": _approximate_top_k,
    "ProductOfElementaryHouseholderReflectors": householder.product_of_reflectors,
    "Qr": householder.qr,
    "TopK": _top_k,
    "dce_sink": _sink,
}


def _similar(target: str) -> str:
    """The targets with a similar name, for an error message."""
    short = {name.lower().rpartition(".")[2]: name for name in TARGETS}
    names = get_close_matches(target.lower().rpartition(".")[2], short, 3)
    return f", {', '.join(short[name] for name in names)} among them" if names else ""


def _expand(i: Instruction) -> Instruction | None:
    if i.custom_call_target == HOST_CALL:
        return None
    if i.custom_call_target in TARGETS:
        return TARGETS[i.custom_call_target](i)
    if library_call(i) is not None:
        raise UnsupportedError(
            f"{i.name}: {i.custom_call_target!r} is computed by LAPACK alone, on devices that use the host's memory as "
            "it is; compile it for a CPU with linear_algebra='library', or run the program with device='reference'"
        )
    raise UnsupportedError(
        f"{i.name}: the compiler has no code for custom-call target {i.custom_call_target!r} (result {i.shape}); "
        f"it has for {len(TARGETS)} others{_similar(i.custom_call_target)} "
        "(refxla_spec.custom_calls lists them); run the program with device='reference', where "
        "refxla_spec.custom_calls.register gives a target a meaning, or lower it without the call "
        "(JAX: lowering_platforms=('neutral',) avoids a CPU's library)"
    )


EXPANSIONS = {"custom-call": _expand}
