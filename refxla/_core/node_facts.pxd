# What instruction fusion asks about a node: see node_facts.pyx.

from refxla._core.graph cimport Graph

cdef enum:  # operations of an element (flops_of) from which it counts as expensive
    ROOT = 6     # a division or a square root
    COSTLY = 14  # a function: it is not computed while a product packs its operands

cdef enum:
    LANES = 8           # the factor by which an operation takes longer where it is not vectorized, as in short rows
    FEW_COLUMNS = 32    # lanes of the vectors in which functions are computed
    PIECE = 256         # elements from which functions that loops compute in pieces are computed in a loop of their own
    MANY_ELEMENTS = 4096  # from which elements are not computed one by one

cdef double total_operations(Graph g)
cdef double chain_operations(Graph g, int p)
cdef double operand_bytes(Graph g, int p)
cdef bint is_slight(Graph g, int p)
cdef bint is_concatenate(Graph g, int p)
cdef bint is_of_pieces(Graph g, int p)
cdef bint is_piecewise(Graph g, int p)
cdef bint is_function_of_few(Graph g, int p, int hero)
cdef bint is_of_rows(Graph g, int p)
cdef bint rows_fit(Graph g, int p)
cdef bint is_tested(Graph g, int p, list edges)
