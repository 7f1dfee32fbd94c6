"""Reachability keeps up with a graph that grows: it says what following the edges would."""

from __future__ import annotations

import random

import pytest

from refxla._core.reachability import Reachability


def reached(edges: dict[int, set[int]], start: int) -> set[int]:
    """The nodes that paths of at least one edge lead to."""
    waiting, visited = [start], set()
    while waiting:
        new = edges[waiting.pop()] - visited
        visited |= new
        waiting += new
    return visited


def merged(edges: dict[int, set[int]], into: int, other: int) -> dict[int, set[int]]:
    """The graph with two nodes made one."""
    edges[into] |= edges.pop(other)
    return {n: {into if g == other else g for g in goals} - {n} for n, goals in edges.items()}


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_nodes_edges_and_merges(seed):
    """As instruction fusion does it: new nodes lead to older ones, and neither an edge nor a merge closes a cycle."""
    chance, graph, edges = random.Random(seed), Reachability(), {}
    for _ in range(120):
        nodes, kind = list(edges), chance.choice(("node", "edge", "merge"))
        a, b = (chance.choice(nodes), chance.choice(nodes)) if nodes else (0, 0)
        if kind == "node" or a == b:
            goals = set(chance.sample(nodes, min(len(nodes), chance.randrange(3))))
            edges[graph.add_node(goals)] = goals
        elif kind == "edge" and a not in reached(edges, b):
            graph.connect(a, [b])
            edges[a].add(b)
        elif kind == "merge" and a not in reached(edges, b) and b not in reached(edges, a):
            graph.merge(a, b)
            edges = merged(edges, a, b)
        for start in edges:
            assert {goal for goal in edges if goal != start and graph.leads(start, goal)} == reached(edges, start)
    assert len(edges) > 10 and any(len(reached(edges, n)) > 3 for n in edges)
