"""What instruction fusion asks about a node, whatever the groups are: facts that follow from the graph alone.

Those that one node and its operands determine are arrays of the Graph. For these here, nodes further away are looked at,
and only when fusion asks.
"""

from refxla._core.graph cimport Graph, K_REDUCTION, N_ELEMENTWISE, N_HERO, N_MOVEMENT, R_SAME

cdef int LONGEST_CHAIN = 100  # nodes that are looked at for one fact
cdef int NEAREST = 64  # nodes that are looked at for a reduction before another
cdef double SLIGHT = 64  # bytes that may be read again for a value that is only moved
cdef long long LONGEST_ROW = 1 << 17  # elements of a row that one item reads again: longer ones are split among items
# elements of a row up to which functions that are computed in pieces are computed one by one
cdef long long SHORT_ROW = 128


cdef double total_operations(Graph g):
    """The operations of all nodes."""
    cdef double total = 0
    cdef int p
    for p in range(g.count):
        total += g.flops[p] * g.elements[p]
    return total


cdef double chain_operations(Graph g, int p):
    """The operations of p and of the values that it is computed from, element by element, down to those in memory.

    Each of them is cheap to recompute, so that a kernel that repeats p would absorb them one by one.
    """
    cdef double total = 0
    cdef int n, o, e
    cdef set visited = {p}
    cdef list waiting = [p]
    while waiting and len(visited) <= LONGEST_CHAIN:
        n = waiting.pop()
        total += g.flops[n]
        for e in range(g.first[n], g.first[n + 1]):
            o = g.operand[e]
            if g.relation[e] == R_SAME and g.group[o] == N_ELEMENTWISE and o not in visited and o not in g.roots:
                visited.add(o)
                waiting.append(o)
    return total


cdef double operand_bytes(Graph g, int p):
    """The bytes that reading the operands of p takes."""
    cdef double total = 0
    cdef int e
    for e in range(g.first[p], g.first[p + 1]):
        total += g.read[g.operand[e]]
    return total


cdef bint is_slight(Graph g, int p):
    """Whether p costs next to nothing to recompute, such as a number that is broadcast."""
    return g.elements[p] <= 1 or (g.flops[p] < 1 and operand_bytes(g, p) <= SLIGHT)


cdef bint is_concatenate(Graph g, int p):
    return g.instructions[p][0].opcode == "concatenate"


cdef bint is_of_pieces(Graph g, int p):
    """Whether p is a large concatenate whose pieces themselves have several cases."""
    cdef int count = g.first[p + 1] - g.first[p]
    return is_concatenate(g, p) and g.cases[p] > count and g.elements[p] >= MANY_ELEMENTS


cdef bint is_piecewise(Graph g, int p):
    """Whether p is a function that a loop computes in pieces of an array."""
    return g.has_fast_path[p] and g.elements[p] >= PIECE


cdef bint is_function_of_few(Graph g, int p, int hero):
    """Whether a reduction would evaluate p, a function, for each element of rows that are not long loops, or of too
    few columns to fill vectors."""
    if g.elements[p] <= g.elements[hero]:
        return False
    if g.is_row[hero]:
        return g.in_pieces[p] and g.row_length[hero] < SHORT_ROW
    few = g.columns[hero] < FEW_COLUMNS and g.elements[p] >= MANY_ELEMENTS
    return few and g.pieces and g.flops[p] >= COSTLY and not follows_reduction(g, p)


cdef bint follows_reduction(Graph g, int p):
    """Whether p is computed from a reduction's result: it is computed in passes over the same columns anyway. (Not
    known for values that take many steps.)"""
    heroes, _ = heroes_before(g, p, False)
    return any([g.kind[n] == K_REDUCTION for n in heroes])


cdef bint is_of_rows(Graph g, int p):
    """Whether p is computed, element by element, from the result of a reduction, which its kernel may contain. (Also
    if that would take many steps to find out.)"""
    heroes, are_all = heroes_before(g, p, True)
    return bool(heroes) or not are_all


cdef tuple heroes_before(Graph g, int p, bint by_element):
    """The heroes whose results p is computed from without another hero, or with `by_element` element by element; and
    whether these are all: no more than LONGEST_CHAIN values are looked at."""
    cdef list waiting = [p], heroes = []
    cdef set visited = {p}
    cdef int n, e, o
    cdef bint are_all = True
    while waiting:
        n = waiting.pop()
        if g.group[n] == N_HERO:
            heroes.append(n)
            continue
        for e in range(g.first[n], g.first[n + 1]):
            o = g.operand[e]
            if o in visited or by_element and g.relation[e] != R_SAME:
                continue
            if len(visited) >= LONGEST_CHAIN:
                are_all = False
                continue
            visited.add(o)
            waiting.append(o)
    return heroes, are_all


cdef bint rows_fit(Graph g, int p):
    """Whether one kernel may read rows again once hero p, a reduction, is known.

    A long row is then one item's work, and short pieces of columns are slow to read. That pays off if it saves
    several kernels: if p itself needs another reduction of the same rows, as the sum of a softmax needs the
    maximum.
    """
    cdef int n, e, o
    if g.is_column[p] == 2:
        return True
    if not g.is_column[p] and (not g.is_row[p] or g.row_length[p] <= LONGEST_ROW):
        return g.is_row[p]
    waiting, visited = [p], {p}
    while waiting and len(visited) < NEAREST:
        n = waiting.pop()
        for e in range(g.first[n], g.first[n + 1]):
            o = g.operand[e]
            if g.kind[o] == K_REDUCTION and g.group[o] == N_HERO and g.signature[o] == g.signature[p]:
                return True
            if o not in visited and g.group[o] in (N_ELEMENTWISE, N_MOVEMENT):
                visited.add(o)
                waiting.append(o)
    return False


cdef bint is_tested(Graph g, int p, list edges):
    """Whether the readers of some edges from p would test for each element which piece of a row of p it is in, without
    vectors: p is of 8 or 16 bits, and its rows are put together of pieces and read from places on that are computed
    from data."""
    cdef int e
    if not g.pieces or not g.tests_columns[p] or g.bytes[p] > 2 * g.elements[p]:  # (a GPU has no such vectors)
        return False
    for e in edges:
        if e == g.first[g.reader[e]] and g.reads_at_data(g.reader[e]):
            return True
    return False
