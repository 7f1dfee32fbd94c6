"""How much a work item does: some 10 us, so that to start it costs little, and all cores have some to share.

Results do not depend on it. Emitters take these numbers as they are for kernels of one cheap operation an element, and
fewer elements of those that take longer.
"""

ELEMENTS = 16384  # elements that are computed, copied, or read for a sum, each in no more than
CHEAP_NS = 0.8  # nanoseconds
MULTIPLY_ADDS = 1 << 20  # of a matrix product
