"""The types of index_maps.pyx."""

from .graph import Graph

class IndexMaps:
    def __init__(self, graph: Graph) -> None: ...
