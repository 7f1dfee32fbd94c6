"""Tests whether an implementation of HLO does what the specification says; docs/conformance.md is the manual.

The cases are collected from the specification automatically, and from the generators in `cases/`. What is tested is a
target (see targets/): the compiler, the specification's interpreter, XLA:CPU, StableHLO's interpreter, or any other
implementation behind a small adapter class.
"""

from .cases import Case, collect
from .check import Outcome, Verdict, check
from .targets import Target, make_target

__all__ = ["Case", "Outcome", "Target", "Verdict", "check", "collect", "make_target"]
