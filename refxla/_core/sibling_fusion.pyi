"""The types of sibling_fusion.pyx."""

from .fusion_costs import FusionCosts
from .graph import Graph
from .groups import Groups

class SiblingFusion:
    def __init__(self, graph: Graph, groups: Groups, costs: FusionCosts) -> None: ...
