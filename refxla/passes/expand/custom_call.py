"""Custom calls that mean something: markers are identities; any other target has no emitter."""

from __future__ import annotations

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

IDENTITIES = {
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
    "LayoutConstraint",
}


def _expand(i: Instruction) -> Instruction:
    if i.custom_call_target in IDENTITIES and len(i.operands) == 1:
        return i.operands[0]
    raise UnsupportedError(
        f"{i.name}: the compiler has no code for custom-call target {i.custom_call_target!r} (result {i.shape}); "
        "only markers that change nothing are known, so lower the program without it "
        "(JAX: lowering_platforms=('refxla',) avoids the calls of a CPU's library)"
    )


EXPANSIONS = {"custom-call": _expand}
