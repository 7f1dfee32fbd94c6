"""Which XLA this specification describes, and what the releases of JAX before it write differently.

The specification follows XLA as the newest release known here carries it. The reader takes what each of RELEASES
writes; the printer writes for any of them (`print_module(module, release="0.10")`), so that an older XLA can read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import UnsupportedError
from .module import Instruction

RELEASES = ("0.10", "0.11", "0.12")  # of JAX, in order
NEWEST = RELEASES[-1]
NEWEST_IN_WORDS = "that of JAX 0.12.0.1, October 2026"  # the newest that was read, in words for messages


@dataclass(frozen=True)
class Change:
    """What a release brought: an opcode or an attribute, how it is written, and what stands for it before.

    `older` gives the attributes that say the same in the releases before; None: they have nothing for it, but where
    the attribute has its default.
    """

    release: str  # the first that has it
    opcode: str
    attribute: str  # "" where the opcode itself is new
    written: str
    before: str  # in words
    older: Callable[[Instruction], dict[str, Any]] | None = None


def _order_as_type(i: Instruction) -> dict[str, Any]:
    kind = i.operands[0].shape.element_type.kind
    return {"type": "TOTALORDER"} if i.attributes["order"] == "TOTAL" and kind == "float" else {}


def _nothing(i: Instruction) -> dict[str, Any]:
    return {}


CHANGES = (
    Change("0.11", "topk", "is_stable", "is_stable=true", "left out: equals keep their order", _nothing),
    Change("0.11", "collective-broadcast", "has_dynamic_root", "has_dynamic_root=false", "left out: it is false"),
    Change("0.12", "collective-reduce", "", "collective-reduce(x), ..., has_dynamic_root=false, to_apply=add", "none"),
    Change("0.12", "shuffle", "", "shuffle(x), dimensions={0}, mode=rotate, shifts={1}", "slices and a concatenate"),
    Change("0.12", "exp2", "", "exp2(x)", "an exponential of x log 2"),
    Change("0.12", "log2", "", "log2(x)", "a log, divided by log 2"),
    Change("0.12", "compare", "order", "order=TOTAL", "type=TOTALORDER; other orders left out", _order_as_type),
)


def release_of(version: str) -> str:
    """The release that a version of JAX or jaxlib is of: "0.10" of "0.10.2"; of one that is not known the nearest."""
    number = _number(version)
    return next((r for r in reversed(RELEASES) if _number(r) <= number), RELEASES[0])


def attributes_for(i: Instruction, release: str) -> dict[str, Any]:
    """The attributes of an instruction as that release of JAX writes them.

    Raises UnsupportedError for what it has no way to say.
    """
    result = dict(i.attributes)
    for change in CHANGES:
        if change.opcode != i.opcode or RELEASES.index(change.release) <= RELEASES.index(release):
            continue
        if not change.attribute or (change.older is None and i.attributes.get(change.attribute)):
            what = f"the attribute {change.attribute}" if change.attribute else "the operation"
            raise UnsupportedError(f"{i.name}: JAX {release} does not have {what} of {i.opcode}")
        if result.pop(change.attribute, None) is not None and change.older:
            result |= change.older(i)
    return result


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
