"""The types of fusion.pyx."""

from collections.abc import Mapping, Set

from ..device.description import Costs
from ..scheduling.fusion_group import FusionGroup, UnfusedEdge
from .graph import Graph

REASONS: tuple[str, ...]

class Group:
    number: int
    kind: int
    space: int
    signature: int
    tags: dict[int, int]
    evaluations: dict[int, float]
    maps: dict[int, set[int]] | None
    outputs: set[int]
    heroes: list[int]
    alive: bool
    def __init__(self, number: int, kind: int, space: int) -> None: ...

class Scheduler:
    groups: list[Group]
    member_of: list[list[int]]
    reasons: list[tuple[int, int, int, float, float]]
    def __init__(self, graph: Graph, costs: Costs, fuse: bool, shared: bool) -> None: ...

def schedule(
    graph: Graph, costs: Costs | None = None, fuse: bool = True, shared: bool = False
) -> tuple[list[FusionGroup], list[UnfusedEdge]]: ...
def in_order(needs: Mapping[int, Set[int]], rank: Mapping[int, int]) -> list[int]: ...
