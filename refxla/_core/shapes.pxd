# The contract of shape inference: the second writing of what every `infer()` in spec/ops/ says, for the operations that
# the compiler has a row for in optable.py. A property test holds the two equal, valid or not.

cdef enum:  # kinds of element types, as bits
    PRED = 1
    SIGNED = 2
    UNSIGNED = 4
    FLOAT = 8
    COMPLEX = 16
    NONE = 0  # tuple, token, opaque: no arrays exist of them

# The rule of a family of operations: the result's Shape, without a layout, from the instruction and its operands' shapes.
# `takes` has the kinds of element types that an elementwise operation takes.
ctypedef object (*Rule)(object instruction, list operands, int takes)

cdef class Entry:
    cdef Rule rule
    cdef int least, most   # numbers of operands; most is -1 where there is no limit
    cdef int takes         # kinds of the first operand's element type, of an elementwise operation

# The shape of the result that follows from an instruction's operands and attributes; where it does not follow from them
# (broadcast, convert, ...) the stated one, if it keeps the rules. The constraint that is broken is the error's.
cpdef object infer(object instruction)

# Whether two shapes agree in all but layout.
cdef bint same(object a, object b)
