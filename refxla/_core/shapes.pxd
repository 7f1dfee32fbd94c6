# The contract of shape inference: the second writing of what every `infer()` in spec/ops/ says, for the operations that
# the compiler has a row for in op_table.py. A property test holds the two equal, valid or not.

# The shape of the result that follows from an instruction's operands and attributes; where it does not follow from them
# (broadcast, convert, ...) the stated one, if it keeps the rules. The constraint that is broken is the error's.
cpdef object infer(object instruction)
