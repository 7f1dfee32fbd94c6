"""Which nodes are compiled together: sets that nothing leaves and comes back to.

A program runs as a sequence of segments, in turns of compiled nodes and of those that stay in TensorFlow. A node is in
the first segment of its kind that is not before any of those that it needs: its *level*. Segments of even levels are
of one kind, those of odd levels of the other. So no two segments wait for each other, each holds all that it can, and
no other order of the nodes has fewer.

Only nodes with an effect (on variables, on what is printed) have to wait for those that control them. One without may
run earlier; then what comes after it waits in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .graph import Node
from .xla_support import tensor_lists

READ = "ReadVariableOp"
# What costs nothing, and is no reason to compile a cluster.
_TRIVIAL = {
    READ,
    "Identity",
    "IdentityN",
    "NoOp",
    "StopGradient",
    "PreventGradient",
    "Reshape",
    "Squeeze",
    "ExpandDims",
}


@dataclass
class Levels:
    """The level of each node; and the nodes that it waits for, beside those that it knows itself, within its level."""

    of: dict[Node, int]
    waits: dict[Node, tuple[Node, ...]]
    first_compiled: int  # the first level whose nodes are compiled: 0 or 1

    def is_compiled(self, level: int) -> bool:
        return level % 2 == self.first_compiled

    @property
    def cost(self) -> tuple[int, int]:
        """The number of clusters, then of all segments."""
        levels = set(self.of.values())
        return sum(map(self.is_compiled, levels)), len(levels)


def cluster(nodes: Sequence[Node], refused: Mapping[Node, str], minimum: int) -> tuple[Levels, dict[Node, str]]:
    """The levels of nodes, which come after those that they need, and why each that stays in TensorFlow does.

    `refused` are those that cannot be compiled, with the reason. A cluster in which fewer than `minimum` nodes compute
    something stays in TensorFlow as well; and of one before others what TensorFlow waits for, if that is as little: the
    size of a random tensor is no reason to cut. Constants have no level: each segment has its own.
    """
    reasons = dict(refused)
    while True:
        levels = min((_levels(nodes, reasons, first) for first in (0, 1)), key=lambda candidate: candidate.cost)
        groups = [[n for n in group if n in levels.of] for group in tensor_lists(levels.of)]  # without arguments
        torn = [g for g in groups if len({levels.of[n] for n in g}) > 1]
        alone = [n for g in torn for n in g if n not in reasons]
        if alone:
            reasons.update(dict.fromkeys(alone, "its list of tensors is used elsewhere, too"))
            continue
        chosen = [n for n in levels.of if n not in reasons and n.operation != READ]
        sizes = Counter({levels.of[n]: 0 for n in chosen})
        sizes.update(levels.of[n] for n in chosen if n.operation not in _TRIVIAL)
        small = [n for n in chosen if sizes[levels.of[n]] < minimum]
        for node in small:
            reasons[node] = f"its cluster would have fewer than {minimum} operations"
        if small:
            continue
        for members in _awaited(levels, reasons):
            if sum(n.operation not in _TRIVIAL for n in members) < minimum:
                reasons.update(dict.fromkeys(members, "a cluster would be cut for it, since TensorFlow waits for it"))
                break
        else:
            return levels, reasons


def _levels(nodes: Sequence[Node], reasons: Mapping[Node, str], first_compiled: int) -> Levels:
    of: dict[Node, int] = {}
    waits: dict[Node, tuple[Node, ...]] = {}
    passed: dict[Node, frozenset[Node]] = {}  # what a node that runs early leaves to those after it to wait for
    for node in nodes:
        if node.operation == "Const":
            continue
        before = [p for p in node.predecessors if p in of]
        waiting: frozenset[Node] = frozenset().union(*(passed.get(p, ()) for p in before))
        needed = before if node.has_effect else [v.node for v in node.inputs if v.node in of]
        level = max((of[p] for p in (*needed, *(waiting if node.has_effect else ()))), default=0)
        if node.operation != READ:  # a variable is read wherever it is needed
            level += (level + first_compiled + (node in reasons)) % 2
        of[node] = level
        waiting |= frozenset(c for c in node.controls if c in of and of[c] > level)
        waits[node] = tuple(w for w in waiting if of[w] == level)
        passed[node] = frozenset(w for w in waiting if of[w] > level)
    _delay_reads(nodes, of, waits)
    return Levels(of, waits, first_compiled)


def _awaited(levels: Levels, reasons: Mapping[Node, str]) -> Iterator[list[Node]]:
    """Of each cluster before others the nodes that TensorFlow's wait for: all else could as well be in a later one."""
    awaited: dict[int, list[Node]] = {}
    needed: set[Node] = set()
    for node in reversed(levels.of):
        level = levels.of[node]
        if node in reasons or node in needed:
            before = node.predecessors if node.has_effect else (v.node for v in node.inputs)
            needed.update(p for p in before if p in levels.of and (node in reasons or levels.of[p] == level))
        if node in needed and node not in reasons and node.operation != READ:
            awaited.setdefault(level, []).append(node)
    yield from (awaited[level] for level in sorted(awaited))


def _delay_reads(nodes: Sequence[Node], of: dict[Node, int], waits: Mapping[Node, tuple[Node, ...]]) -> None:
    """Let each variable be read in the segment that first needs it."""
    first: dict[Node, int] = {}
    for node in reversed(nodes):
        if node in of:
            if node.operation == READ and node in first:
                of[node] = first[node]
            for p in (*(node.predecessors if node.has_effect else (v.node for v in node.inputs)), *waits[node]):
                first[p] = min(first.get(p, of[node]), of[node])
