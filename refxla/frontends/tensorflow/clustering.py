"""Which nodes are compiled together: convex sets, which no path leaves and re-enters.

A program runs as a sequence of segments, alternating between compiled nodes and those that stay in TensorFlow. A node
is in the first segment of its kind that does not precede any node that it needs: its *level*. Segments of even levels
are of one kind, those of odd levels of the other. So no two segments depend on each other cyclically, each is as large
as possible, and no other order of the nodes has fewer.

Only nodes with an effect (on variables, on printed output) have to wait for their control inputs. One without may run
earlier; nodes that wait for it then wait for its control inputs instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .graph import Node
from .xla_support import tensor_lists

READ = "ReadVariableOp"
# Operations that cost nothing, and do not justify compiling a cluster.
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
    """The level of each node; and the nodes within its level for which it waits, in addition to its own inputs."""

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
    """The levels of nodes, which come after those that they need, and the reason for each that stays in TensorFlow.

    `refused` are those that cannot be compiled, with the reason. A cluster in which fewer than `minimum` nodes compute
    something stays in TensorFlow as well; so do the nodes of an earlier cluster for which TensorFlow waits, if they are
    as few: the size of a random tensor is no reason to cut. Constants have no level: each segment has its own.
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
    passed: dict[Node, frozenset[Node]] = {}  # the nodes for which others must wait in place of a node that runs early
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
    """For each cluster before others, the nodes for which TensorFlow's wait: all others could be in a later one."""
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
    """Makes each variable be read in the segment that first needs it."""
    first: dict[Node, int] = {}
    for node in reversed(nodes):
        if node in of:
            if node.operation == READ and node in first:
                of[node] = first[node]
            for p in (*(node.predecessors if node.has_effect else (v.node for v in node.inputs)), *waits[node]):
                first[p] = min(first.get(p, of[node]), of[node])
