"""The size of a work item: some 10 us, so that starting one costs little, and there are enough for all cores.

An emitter makes as many items (`Kernel.items`) as that gives, and more and smaller ones where the cores would not have
equal shares. Results do not depend on it. Emitters use these numbers for kernels with one cheap operation for each
element, and fewer elements where one takes longer.
"""

ELEMENTS = 16384  # elements that are computed, copied, or read for a sum, each in at most
CHEAP_NS = 0.8  # nanoseconds
MULTIPLY_ADDS = 1 << 20  # of a matrix product
