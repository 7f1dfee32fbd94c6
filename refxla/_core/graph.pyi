"""The types of graph.pyx."""

from collections.abc import Collection, Sequence
from enum import IntEnum

from refxla_spec.module import Computation, Instruction

from ..device.description import Caches

KIND_NAMES: dict[int, str]

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

class Kind(IntEnum):
    K_LOOP = 0
    K_REDUCTION = 1
    K_DOT = 2
    K_CONVOLUTION = 3
    K_WINDOW = 4
    K_SELECT = 5
    K_SCATTER = 6
    K_SORT = 7
    K_FFT = 8
    K_LIBRARY = 9
    K_UPDATE = 10
    K_CONTROL = 11

class Graph:
    instructions: list[list[Instruction]]
    node_of: dict[Instruction, int]
    spaces: dict[tuple[int, ...], int]
    signatures: dict[tuple[tuple[int, ...], tuple[int, ...]], int]
    kept_dimensions: list[frozenset[int]]
    leading: list[bool]
    run: list[int]
    roots: set[int]
    count: int
    # By node and by edge, as in the .pxd.
    second: Sequence[int]
    group: Sequence[int]
    kind: Sequence[int]
    space: Sequence[int]
    signature: Sequence[int]
    takes: Sequence[int]
    feeds: Sequence[int]
    light: Sequence[int]
    in_pieces: Sequence[int]
    has_fast_path: Sequence[int]
    after_fast_path: Sequence[int]
    is_row: Sequence[int]
    is_column: Sequence[int]
    elements: Sequence[int]
    bytes: Sequence[int]
    read: Sequence[int]
    cases: Sequence[int]
    tests_columns: Sequence[int]
    statements: Sequence[int]
    window: Sequence[int]
    row_length: Sequence[int]
    columns: Sequence[int]
    flops: Sequence[float]
    first: Sequence[int]
    reader: Sequence[int]
    operand: Sequence[int]
    relation: Sequence[int]
    first_user: Sequence[int]
    user: Sequence[int]
    user_edge: Sequence[int]
    def __init__(
        self,
        computation: Computation,
        second: Collection[Instruction] = (),
        caches: Caches | None = None,
        pieces: bool = False,
    ) -> None: ...
