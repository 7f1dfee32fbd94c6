"""The types of fusion.pyx."""

from enum import IntEnum

from ..device.description import Costs
from ..scheduling.fusion_group import FusionGroup, UnfusedEdge
from .graph import Graph
from .groups import Groups

REASONS: dict[int, str]

class Reason(IntEnum):
    U_NEEDS_MEMORY = 0
    U_SHARED = 1
    U_AMPLIFIED = 2
    U_SECOND_HERO = 3
    U_INDEX = 4
    U_CYCLE = 5
    U_TOO_LARGE = 6
    U_RUNS_OTHERS = 7
    U_NOT_LIGHT = 8
    U_ROWS = 9
    U_NOT_ASKED = 10
    U_CODE = 11
    U_HERO_SHARED = 12
    U_OTHER_ITERATION = 13
    U_SHORT_ROWS = 14
    U_FEW_AT_ONCE = 15
    U_CASES = 16
    U_FUNCTIONS = 17
    U_EPILOGUE = 18

class InstructionFusion:
    groups: Groups
    reasons: list[tuple[int, int, int, float, float]]
    def __init__(self, graph: Graph, costs: Costs, fuse: bool, shared: bool, in_loop: bool) -> None: ...

def fusion_groups(
    graph: Graph, costs: Costs | None = None, fuse: bool = True, shared: bool = False, in_loop: bool = False
) -> tuple[list[FusionGroup], list[UnfusedEdge]]: ...
