"""The types of groups.pyx."""

from .graph import Graph

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
    packed: set[int]
    functions: int
    alive: bool
    def __init__(self, number: int, kind: int, space: int) -> None: ...

class Groups:
    all: list[Group]
    member_of: list[list[int]]
    def __init__(self, graph: Graph) -> None: ...
