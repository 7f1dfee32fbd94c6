"""Which devices of a program take part together in a collective: replica groups, and what their numbers stand for.

A program runs on replicas x partitions devices. Replica r and partition p is device number r * partitions + p. In text,
groups are written in one of three ways:

    {{0,1},{2,3}}                       GroupList: each group with its members, in order
    [2,2]<=[4]  [2,2]<=[2,2]T(1,0)      IotaGroups: 0, 1, 2, ... as an array, transposed, each row a group
    mesh['x'=2,'y'=4] {'y'}             MeshGroups: devices as a named array; those along the axes in braces are a group

`{}` is one group of all. What the numbers in them are depends on the collective (`mode`):

    cross_replica                 replicas; a group for each partition
    cross_partition               partitions; a group for each replica
    cross_replica_and_partition   replicas, each with all of its partitions
    flattened_id                  numbers of devices
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import overload

from .errors import EvaluationError, ParseError
from .module import Instruction

MOST = 1 << 20  # numbers in the groups of one collective: more are no program's, and would fill the memory


@dataclass(frozen=True)
class GroupList:
    """Groups written out. `lists` may be empty: one group of all."""

    lists: tuple[tuple[int, ...], ...] = ()

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The members of each group, in order."""
        return self.lists

    def __str__(self) -> str:
        return "{" + ",".join(_braced(g) for g in self.lists) + "}"


@dataclass(frozen=True)
class Iota:
    """The numbers 0, 1, 2, ... as an array of `dimensions`, transposed by `permutation`, read in row-major order.

    In text `[4,2]` or `[2,4]T(1,0)`.
    """

    dimensions: tuple[int, ...]
    permutation: tuple[int, ...]

    @property
    def numbers(self) -> list[int]:
        """The numbers in their order."""
        strides = [prod(self.dimensions[d + 1 :]) for d in range(len(self.dimensions))]
        order = [0]
        for d in self.permutation:
            order = [n + k * strides[d] for n in order for k in range(self.dimensions[d])]
        return order

    def __str__(self) -> str:
        identity = self.permutation == tuple(range(len(self.dimensions)))
        return f"[{_joined(self.dimensions)}]" + ("" if identity else f"T({_joined(self.permutation)})")


@dataclass(frozen=True)
class IotaGroups:
    """`count` groups of `size` members each, the rows of a transposed iota."""

    count: int
    size: int
    source: Iota

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The members of each group, in order."""
        return _rows(self.source.numbers, self.size)

    def __str__(self) -> str:
        return f"[{self.count},{self.size}]<={self.source}"


@dataclass(frozen=True)
class MeshAxis:
    """One of the axes along which the devices of a mesh are grouped: the axis of number `axis`, or `size` of it.

    With `size`, the axis is taken as three, of pre_size, size and the rest, and the middle one is meant: `'x':(2)4`.
    """

    axis: int
    pre_size: int = 1
    size: int | None = None


@dataclass(frozen=True)
class MeshGroups:
    """Devices as an array with named axes. `device_ids` are the numbers in row-major order (None: 0, 1, 2, ...)."""

    axes: tuple[tuple[str, int], ...]
    along: tuple[MeshAxis, ...]
    device_ids: Iota | tuple[int, ...] | None = None

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The members of each group: first those along the last axis, then those along the one before it, ..."""
        parts: list[tuple[int, int]] = []  # (number of the axis, size), from the major one on
        chosen: dict[MeshAxis, int] = {}  # the place of each of `along` in it
        for n, (_, whole) in enumerate(self.axes):
            product = 1
            for a in sorted((a for a in self.along if a.axis == n), key=lambda a: a.pre_size):
                if a.pre_size > product:
                    parts.append((n, a.pre_size // product))
                chosen[a] = len(parts)
                size = whole // a.pre_size if a.size is None else a.size
                parts.append((n, size))
                product = a.pre_size * size
            if product < whole:
                parts.append((n, whole // product))
        sizes = tuple(size for _, size in parts)
        inside = [chosen[a] for a in self.along]
        order = Iota(sizes, (*(d for d in range(len(sizes)) if d not in inside), *inside)).numbers
        ids = self.device_ids.numbers if isinstance(self.device_ids, Iota) else self.device_ids
        return _rows([n if ids is None else ids[n] for n in order], prod(sizes[d] for d in inside))

    def __str__(self) -> str:
        axes = ",".join(f"'{name}'={size}" for name, size in self.axes)
        ids = self.device_ids
        text = "" if ids is None else f", device_ids=({ids if isinstance(ids, Iota) else _joined(ids)})"
        along = ((self.axes[a.axis][0], a) for a in self.along)
        shown = ",".join(f"'{name}'" + (f":({a.pre_size}){a.size}" if a.size is not None else "") for name, a in along)
        return f"mesh[{axes}]{text} {{{shown}}}"


ReplicaGroups = GroupList | IotaGroups | MeshGroups


def _joined(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _braced(numbers: tuple[int, ...]) -> str:
    return "{" + _joined(numbers) + "}"


def _rows(numbers: list[int], size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(numbers[n : n + size]) for n in range(0, len(numbers), size))


# -- from text

_NUMBERS = r"\d{1,18}(?:,\d{1,18})*"
_IOTA_TEXT = rf"\[({_NUMBERS})\](?:T\(({_NUMBERS})\))?"
_IOTA_GROUPS = re.compile(rf"\[(\d{{1,18}}),(\d{{1,18}})\]<={_IOTA_TEXT}")
_LIST = re.compile(rf"\{{(?:\{{(?:{_NUMBERS})?\}}(?:,\{{(?:{_NUMBERS})?\}})*)?\}}")
_MESH = re.compile(r"mesh\[((?:'[^']*'=\d{1,18},?)*)\](?:,device_ids=\(([^()]*(?:\([^()]*\))?)\))?\{([^{}]*)\}")
_AXIS = re.compile(r"'([^']*)'(?::\((\d{1,18})\)(\d{1,18}))?")
# Where the text of groups ends, blanks and all.
GROUPS = re.compile(
    r"\{(?:\s*\{[\s\d,]*\}\s*,?)*\s*\}|\[[\s\d,]*\]\s*<=\s*\[[\s\d,]*\](?:\s*T\s*\([\s\d,]*\))?"
    r"|mesh\s*\[[^\]]*\]\s*(?:,\s*device_ids\s*=\s*\((?:[^()]|\([^()]*\))*\)\s*)?\{[^{}]*\}"
)


def parse_groups(text: str) -> ReplicaGroups:
    """The groups that a text stands for. Raises ParseError for one that is none of the three forms, or contradicts
    itself."""
    bare = re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text)
    if _LIST.fullmatch(bare):
        return GroupList(tuple(map(_integers, re.findall(r"\{([\d,]*)\}", bare[1:-1]))))
    if match := _IOTA_GROUPS.fullmatch(bare):
        return iota_groups(int(match[1]), int(match[2]), _integers(match[3]), _integers(match[4] or ""))
    if match := _MESH.fullmatch(bare):
        axes = tuple((name, int(size)) for name, size in re.findall(r"'([^']*)'=(\d+)", match[1]))
        names = [name for name, _ in axes]
        along = []
        for part in match[3].split(",") if match[3] else ():
            axis = _AXIS.fullmatch(part)
            if axis is None or axis[1] not in names:
                raise ParseError(f"{part} in replica_groups={text} is no axis of the mesh")
            sub = (int(axis[2]), int(axis[3])) if axis[2] else ()
            along.append(MeshAxis(names.index(axis[1]), *sub))
        return mesh_groups(axes, tuple(along), _device_ids(match[2]))
    raise ParseError(
        f"replica_groups={text[:80]} is none of {{{{0,1}},{{2,3}}}}, [2,2]<=[4] or mesh['x'=2,'y'=2] {{'x'}}"
    )


def _integers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _device_ids(text: str | None) -> Iota | tuple[int, ...] | None:
    if text is None:
        return None
    if match := re.fullmatch(_IOTA_TEXT, text):
        return iota(_integers(match[1]), _integers(match[2] or ""))
    if re.fullmatch(_NUMBERS, text):
        return _integers(text)
    raise ParseError(f"device_ids=({text}) of a mesh is neither a list of numbers nor an iota such as [4,2]T(1,0)")


def iota(dimensions: tuple[int, ...], permutation: tuple[int, ...] = ()) -> Iota:
    """An Iota; ParseError unless the permutation (left out: the identity) is one of its dimensions."""
    permutation = permutation or tuple(range(len(dimensions)))
    if sorted(permutation) != list(range(len(dimensions))) or not dimensions:
        raise ParseError(f"T({_joined(permutation)}) is no permutation of the dimensions [{_joined(dimensions)}]")
    if prod(dimensions) > MOST:
        raise ParseError(f"an iota of {prod(dimensions)} devices; {MOST} are the most")
    return Iota(dimensions, permutation)


def iota_groups(count: int, size: int, dimensions: tuple[int, ...], permutation: tuple[int, ...] = ()) -> IotaGroups:
    """IotaGroups; ParseError unless `count` groups of `size` are as many devices as the iota has."""
    source = iota(dimensions, permutation)
    if count * size != prod(dimensions) or count < 1:
        raise ParseError(f"{count} groups of {size} are not the {prod(dimensions)} devices of {source}")
    return IotaGroups(count, size, source)


def mesh_groups(
    axes: tuple[tuple[str, int], ...], along: tuple[MeshAxis, ...], device_ids: Iota | tuple[int, ...] | None = None
) -> MeshGroups:
    """MeshGroups; ParseError where the axes chosen are not of the mesh, overlap, or device_ids are not as many."""
    total = prod(size for _, size in axes)
    groups = MeshGroups(axes, along, device_ids)
    if not axes or not 1 <= total <= MOST or len({name for name, _ in axes}) < len(axes):
        raise ParseError(f"{groups}: a mesh has named axes, of a size of at least 1 each")
    count = total if device_ids is None else len(device_ids.numbers if isinstance(device_ids, Iota) else device_ids)
    if count != total:
        raise ParseError(f"{groups}: {count} device_ids for a mesh of {total} devices")
    for n, (name, whole) in enumerate(axes):
        product = 1
        for a in sorted((a for a in along if a.axis == n), key=lambda a: a.pre_size):
            size = whole // max(a.pre_size, 1) if a.size is None else a.size
            fits = (
                size >= 1 and a.pre_size >= product and a.pre_size % product == 0 and whole % (a.pre_size * size) == 0
            )
            if not fits:
                raise ParseError(f"{groups}: the parts of axis '{name}', of size {whole}, overlap or do not divide it")
            product = a.pre_size * size
    return groups


# -- who takes part

Count = int | None  # of replicas or partitions; None: not known

# Collectives whose numbers are those of replicas or devices, never of partitions alone.
_OF_REPLICAS = ("all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "reduce-scatter")


def mode(instruction: Instruction) -> str:
    """What the numbers in the groups of a collective are (see above).

    Without a channel_id replicas meet, within each partition. With one, an all-gather, all-reduce or reduce-scatter
    goes over replicas and partitions (by the numbers of devices where use_global_device_ids says so); any other
    collective, and a transfer from device to device, over partitions, within each replica.
    """
    if instruction.opcode in _OF_REPLICAS and instruction.attributes.get("use_global_device_ids"):
        return "flattened_id"
    if not instruction.attributes.get("channel_id"):
        return "cross_replica"
    return "cross_replica_and_partition" if instruction.opcode in _OF_REPLICAS else "cross_partition"


@overload
def numbered(instruction: Instruction, replicas: int, partitions: int) -> tuple[int, str]: ...
@overload
def numbered(instruction: Instruction, replicas: Count, partitions: Count) -> tuple[Count, str]: ...
def numbered(instruction: Instruction, replicas: Count, partitions: Count) -> tuple[Count, str]:
    """How many there are of what the numbers in a collective's groups or pairs stand for, and what that is.

    Where only one of two counts is known, the other is taken to be 1.
    """
    kind = mode(instruction)
    if kind == "cross_partition":
        return partitions, "partition"
    return (_devices(replicas, partitions), "device") if kind == "flattened_id" else (replicas, "replica")


def meeting(instruction: Instruction, replicas: Count = None, partitions: Count = None) -> Count:
    """How many devices meet in each group of a collective whose groups have one size; None where that is not known.

    Counts as in `numbered`.
    """
    groups, kind = instruction.replica_groups.groups, mode(instruction)
    if kind == "cross_replica_and_partition":
        count = _devices(replicas, partitions)
        return count if count is None or not groups else len(groups[0]) * (partitions or 1)
    return len(groups[0]) if groups else numbered(instruction, replicas, partitions)[0]


def _devices(replicas: Count, partitions: Count) -> Count:
    return None if replicas is None and partitions is None else (replicas or 1) * (partitions or 1)


def member_groups(instruction: Instruction, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """The groups of a collective as numbers of devices, in the order of the groups' own members.

    Raises EvaluationError if they name a device that does not exist, or one twice.
    """
    kind = mode(instruction)
    here, what = numbered(instruction, replicas, partitions)
    groups = instruction.replica_groups.groups or (tuple(range(here)),)
    numbers = [n for g in groups for n in g]
    if any(n >= here for n in numbers) or len(set(numbers)) < len(numbers):
        raise EvaluationError(
            f"{instruction.name}: replica_groups={instruction.replica_groups} name a {what} that is not there, or one "
            f"twice; the program runs on {devices_text(replicas, partitions)}. Run it on as many as it is written for"
        )
    if kind == "cross_replica":
        return [tuple(r * partitions + p for r in g) for g in groups for p in range(partitions)]
    if kind == "cross_partition":
        return [tuple(r * partitions + p for p in g) for r in range(replicas) for g in groups]
    if kind == "cross_replica_and_partition":
        return [tuple(r * partitions + p for r in g for p in range(partitions)) for g in groups]
    return list(groups)


def device_pairs(
    instruction: Instruction, pairs: tuple[tuple[int, ...], ...], replicas: int, partitions: int
) -> list[tuple[int, int]]:
    """Pairs (source, target) of replicas or partitions as pairs of numbers of devices. Raises EvaluationError if one
    does not exist."""
    here, what = numbered(instruction, replicas, partitions)
    outside = [n for pair in pairs for n in pair if n >= here]
    if outside:
        raise EvaluationError(
            f"{instruction.name}: the pairs {pairs} name {what} {outside[0]}, and the program runs on "
            f"{devices_text(replicas, partitions)}. Run it on as many as it is written for"
        )
    if what == "partition":
        return [(r * partitions + s, r * partitions + t) for r in range(replicas) for s, t in pairs]
    return [(s * partitions + p, t * partitions + p) for s, t in pairs for p in range(partitions)]


def devices_text(replicas: int, partitions: int) -> str:
    """A count of devices, in words."""
    if replicas * partitions == 1:
        return "one device"
    if partitions == 1:
        return f"{replicas} devices ({replicas} replicas)"
    if replicas == 1:
        return f"{partitions} devices ({partitions} partitions)"
    return f"{replicas * partitions} devices ({replicas} replicas of {partitions} partitions)"
