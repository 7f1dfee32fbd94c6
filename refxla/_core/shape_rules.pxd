# The contract of a shape rule, and what the rules share.

cdef enum:  # kinds of element types, as bits
    PRED = 1
    SIGNED = 2
    UNSIGNED = 4
    FLOAT = 8
    COMPLEX = 16
    NONE = 0  # tuple, token, opaque: there are no arrays of them

# The rule of a family of operations: the result's Shape, without a layout, from the instruction and its operands'
# shapes. `takes` has the kinds of element types that an elementwise operation accepts.
ctypedef object (*Rule)(object instruction, list operands, int takes)

cdef class Entry:
    cdef Rule rule
    cdef int least, most   # numbers of operands; most is -1 if there is no limit
    cdef int takes         # kinds of the first operand's element type, for an elementwise operation

# Adds a rule to the table.
cdef int enter(str opcode, Rule rule, int least, int most, int takes=*) except -1

# Raises the error of a broken rule (or creates one, with a message): the label is the specification's.
cdef int broken(object i, str label) except -1
cdef object rule_error(object i, str label, str what)

cdef int kind_of(object shape)                      # the kind of a shape's element type, as a bit
cdef bint same(object a, object b)                  # two shapes agree in all but layout
cdef bint alike(object a, object b)                 # two arrays have the same dimensions
cdef bint scalar(object shape)
cdef object plain(object shape)                     # without a layout
cdef object dense(object shape, tuple dimensions)   # an array of the same type with other dimensions
cdef object attribute(object i, str name)           # as given, or the default
cdef bint distinct(tuple numbers, Py_ssize_t below)  # distinct, and in 0 .. below - 1
cdef bint ascending(tuple numbers)
cdef tuple without(tuple sizes, tuple left_out)     # the sizes of the dimensions that are not left out
cdef long long placings(long long size, object w)   # positions of a window dimension in so many elements
cdef bint takes_scalars(object computation, list types)
