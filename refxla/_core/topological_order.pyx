"""The order in which the groups of a computation run."""

import heapq


def topological_order(dict needs, dict rank, dict readers=None):
    """The numbers of groups in an order in which each comes after those that it `needs`; among those that are ready,
    the lowest `rank` is first. `readers` has for some groups others that should come before them if possible, since
    they read values that the group would otherwise overwrite. Raises AssertionError if groups need each other."""
    waiting = {n: len(sources) for n, sources in needs.items()}
    users = {n: [] for n in needs}
    for n, sources in needs.items():
        for m in sources:
            users[m].append(n)
    first = {n: (others & needs.keys()) - reached(n, users) for n, others in (readers or {}).items() if others}
    free = [(rank[n], n) for n, count in waiting.items() if count == 0]
    heapq.heapify(free)
    order, late = [], []
    while free or late:
        if free:
            entry = heapq.heappop(free)
            if first.get(entry[1]):
                late.append(entry)
                continue
        else:  # they wait for each other
            entry = min(late)
            late.remove(entry)
        order.append(entry[1])
        for others in first.values():
            others.discard(entry[1])
        for other in [other for other in late if not first[other[1]]]:
            late.remove(other)
            heapq.heappush(free, other)
        for u in users[entry[1]]:
            waiting[u] -= 1
            if waiting[u] == 0:
                heapq.heappush(free, (rank[u], u))
    if len(order) != len(needs):
        raise AssertionError("the schedule has a cycle: a fault of instruction fusion")
    return order


cdef set reached(int start, dict users):
    """All that depends on `start`, directly or not."""
    cdef set found
    cdef list open_ends
    found, open_ends = set(), [start]
    while open_ends:
        for u in users[open_ends.pop()]:
            if u not in found:
                found.add(u)
                open_ends.append(u)
    return found
