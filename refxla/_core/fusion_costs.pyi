"""The types of fusion_costs.pyx."""

from ..device.description import Costs
from .graph import Graph

class FusionCosts:
    def __init__(self, graph: Graph, costs: Costs, shared: bool, in_loop: bool) -> None: ...
