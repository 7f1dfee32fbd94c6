"""Accuracy, proven: an elementary function on every operand that there is.

    refxla-conformance sweep [OPCODE ...] [--types f32,f16] [--operands 1|2] [--target NAME] [--json FILE]

A sweep is an HLO program, so that it can run on any implementation: it takes each operand x of a narrow type, computes
the function once in that type and once in f64, and keeps the largest difference of the two (program.py). A function of
one f32 has 2^32 operands, and so does one of two f16 or bf16. The f64 values that serve as the exact ones are
themselves checked against the specification on a sample, and the worst operand is computed again with mpmath
(precise.py). The table in the documentation is generated from the file worst.json, which `--json` writes.
"""

from .functions import Function, functions
from .measure import Worst, measure

__all__ = ["Function", "Worst", "functions", "measure"]
