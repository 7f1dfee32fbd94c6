"""The counter from which random numbers are made, before `delta` is added to it.

The state is one for the whole program: a number of 128 bits, given as its low 64 bits and then its high ones. It begins
with 117515157 in every run (see `random_state.py`). HLO fixes neither this number nor the order of the two halves; XLA
begins with the same.
"""

from __future__ import annotations

from ..attributes import INT, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example
from ..random_state import RandomState
from ..types import U64, Array, Shape

INPUTS: dict[str, str] = {}
ATTRIBUTES = {"delta": Attribute(INT, REQUIRED, "what is added to the state, modulo 2^128")}
CONSTRAINTS = {"C1": "the result is u64[2]"}


def infer(instruction: Instruction) -> Shape:
    return Shape(U64, (2,))


def evaluate(instruction: Instruction, *, state: RandomState) -> Array:
    return state.take(instruction.delta)


EXAMPLES = (
    Example(
        """a = u64[2] rng-get-and-update-state(), delta=5
           b = u64[2] rng-get-and-update-state(), delta=-1
           c = u64[2] rng-get-and-update-state(), delta=0
           ROOT r = (u64[2], u64[2], u64[2]) tuple(a, b, c)""",
        (),
        ("u64[2] {117515157, 0}", "u64[2] {117515162, 0}", "u64[2] {117515161, 0}"),
        "each sees what those before it have added",
    ),
)
COUNTEREXAMPLES = {"C1": "ROOT r = u64[1] rng-get-and-update-state(), delta=1"}
