# The contract of shape inference: a second implementation of every `infer()` in spec/ops/, for the operations that have
# a row in the compiler's op_table.py. A property test ensures that the two agree, for valid and invalid instructions.

# The shape of the result that follows from an instruction's operands and attributes; if it does not follow from them
# (broadcast, convert, ...), the stated one, if it satisfies the rules. The error names the broken constraint.
cpdef object infer(object instruction)
