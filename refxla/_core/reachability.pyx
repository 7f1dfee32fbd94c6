"""Which nodes of a growing directed graph can be reached from which (XLA: HloReachabilityMap).

Each node has the set of the nodes that it leads to, as the bits of one number, and the sets grow with each edge.
Following the edges for each question would take a time quadratic in the number of layers of a network that is trained.
"""


cdef class Reachability:
    """A graph without nodes; add_node numbers them from 0 on."""

    def __init__(self):
        self.sets = []

    cpdef int add_node(self, goals) except -1:
        """Adds a node with an edge to each of some goals, and returns its number."""
        self.sets.append(self._reached(goals))
        return len(self.sets) - 1

    cpdef bint leads(self, int start, int goal):
        """Whether a path leads from start to goal."""
        return (self.sets[start] & bit(goal)) != 0

    cpdef object connect(self, int start, goals):
        """Adds an edge from start to each of some goals."""
        reached = self._reached(goals)
        if reached & ~self.sets[start]:
            self.sets[start] |= reached
            self._spread(bit(start), reached)

    cpdef object merge(self, int into, int other):
        """Makes one node of two: what leads to either of them leads to `into`, and to all that either leads to."""
        self.sets[into] |= self.sets[other]
        self._spread(bit(into) | bit(other), bit(into) | self.sets[into])

    cdef _reached(self, goals):
        """Some goals, and what they lead to, as bits."""
        cdef int goal
        result = 0
        for goal in goals:
            result |= bit(goal) | self.sets[goal]
        return result

    cdef _spread(self, starts, reached):
        """Adds what is reached to the set of every node that leads to one of some starts; both are sets of bits."""
        cdef Py_ssize_t n
        for n in range(len(self.sets)):
            before = self.sets[n]
            if before & starts:
                self.sets[n] = before | reached


cdef bit(object number):
    """The set with one number in it, as bits."""
    return 1 << number
