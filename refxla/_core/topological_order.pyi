"""The types of topological_order.pyx."""

from collections.abc import Mapping, Set

def topological_order(
    needs: Mapping[int, Set[int]], rank: Mapping[int, int], readers: Mapping[int, Set[int]] | None = None
) -> list[int]: ...
