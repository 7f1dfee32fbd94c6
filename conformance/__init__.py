"""Whether an implementation of HLO does what the specification says.

The cases are collected from the specification by itself: every EXAMPLE of every file in `refxla_spec.ops`. An
implementation is a function from HLO text and arguments to results (see implementations.py), so any can be asked.

    python -m refxla_conformance                       the compiler, on the default device
    python -m refxla_conformance --implementation reference
                                                       the specification's own interpreter
    python -m refxla_conformance --device NAME add dot the compiler on that device, two operations alone
"""

from .cases import Case, cases
from .check import Outcome, Verdict, check
from .implementations import IMPLEMENTATIONS, Implementation

__all__ = ["IMPLEMENTATIONS", "Case", "Implementation", "Outcome", "Verdict", "cases", "check"]
