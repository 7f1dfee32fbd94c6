"""Custom calls that mean something: markers are identities, a few are operations; any other target has no emitter."""

from __future__ import annotations

from refxla_spec.custom_calls import TARGETS as MEANINGS
from refxla_spec.custom_calls import identity
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

from ..._core.shapes import make
from . import householder, topk


def _marker(i: Instruction) -> Instruction:
    x = i.operands[0]
    if not x.shape.compatible(i.shape):
        raise UnsupportedError(
            f"{i.name}: {i.custom_call_target} makes {i.shape} of {x.shape}: a program for several devices; "
            "compile it for one"
        )
    return x


def _whole(i: Instruction) -> Instruction:
    """On one device, the only tile of a value is the value."""
    stated = i.shape.elements if i.shape.is_tuple else (i.shape,)
    for x, shape in zip(i.operands, stated, strict=True):
        if not x.shape.compatible(shape):
            raise UnsupportedError(
                f"{i.name}: {i.custom_call_target} makes {shape} of {x.shape}: a program for several devices; "
                "compile it for one"
            )
    return make("tuple", *i.operands, name=i.name) if i.shape.is_tuple else i.operands[0]


def _top_k(i: Instruction) -> Instruction:
    k = i.shape.elements[0].dimensions[-1]
    return topk.EXPANSIONS["topk"](make("topk", i.operands[0], name=i.name, k=k, largest=True))


TARGETS = {
    **{target: _marker for target, meaning in MEANINGS.items() if meaning is identity},
    **dict.fromkeys(("SPMDFullToShardShape", "SPMDShardToFullShape"), _whole),
    **dict.fromkeys(("xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"), _whole),
    "ProductOfElementaryHouseholderReflectors": householder.product_of_reflectors,
    "Qr": householder.qr,
    "TopK": _top_k,
}


def _expand(i: Instruction) -> Instruction:
    if i.custom_call_target in TARGETS:
        return TARGETS[i.custom_call_target](i)
    raise UnsupportedError(
        f"{i.name}: the compiler has no code for custom-call target {i.custom_call_target!r} (result {i.shape}); "
        f"known are {', '.join(sorted(TARGETS))}; lower the program without it "
        "(JAX: lowering_platforms=('refxla',) avoids the calls of a CPU's library)"
    )


EXPANSIONS = {"custom-call": _expand}
