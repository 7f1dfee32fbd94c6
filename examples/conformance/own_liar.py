"""A liar of one's own: the reference, in which one operation is wrong in a way that the suite has to notice.

refxla-conformance --target own_liar:LastLine pad slice
"""

import numpy as np
from refxla_conformance.liars.liar import redefined
from refxla_conformance.targets.reference import Reference


def last_line(truth, instruction, *operands):
    """What a slice or a padded array has in its last line of more than 64 elements is zero."""
    value = np.array(truth(instruction, *operands))
    if value.ndim > 1 and value.shape[-1] > 64:
        value.reshape(-1, value.shape[-1])[-1] = 0
    return value


class LastLine(Reference):
    """The reference with another meaning of two operations."""

    name = "last-line"

    def run(self, module, arguments):
        """The results of a program, in which those operations are wrong."""
        with redefined(("pad", "slice"), last_line):
            return super().run(module, arguments)
