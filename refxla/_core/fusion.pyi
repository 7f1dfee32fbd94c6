"""The types of fusion.pyx."""

from collections.abc import Mapping, Set

from ..device.description import Costs
from ..scheduling.fusion_group import FusionGroup, UnfusedEdge
from .graph import Graph

def schedule(
    graph: Graph, costs: Costs | None = None, fuse: bool = True, shared: bool = False
) -> tuple[list[FusionGroup], list[UnfusedEdge]]: ...
def in_order(needs: Mapping[int, Set[int]], rank: Mapping[int, int]) -> list[int]: ...
