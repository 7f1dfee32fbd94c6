"""The types of graph.pyx."""

from collections.abc import Sequence
from enum import IntEnum

from refxla_spec.module import Computation, Instruction

class NodeClass(IntEnum):
    N_SOURCE = 0
    N_INLINE = 1
    N_ELEMENTWISE = 2
    N_MOVEMENT = 3
    N_HERO = 4
    N_CONTROL = 5

class Relation(IntEnum):
    R_OTHER = 0
    R_SAME = 1
    R_BROADCAST = 2
    R_FULL = 3
    R_WINDOW = 4
    R_PACKED = 5
    R_UPDATE = 6
    R_MEMORY = 7

class Graph:
    instructions: list[list[Instruction]]
    node_of: dict[Instruction, int]
    roots: set[int]
    count: int
    group: Sequence[int]
    first: Sequence[int]
    relation: Sequence[int]
    def __init__(self, computation: Computation) -> None: ...
