"""Which of the replicas of a program that runs on several devices this is, as u32[].

On one device it is 0.
"""

from __future__ import annotations

import numpy as np

from ..devices import Device
from ..module import Instruction
from ..operation import Example
from ..types import U32, Array, Shape

INPUTS: dict[str, str] = {}
CONSTRAINTS = {"C1": "the result is u32[]"}


def infer(instruction: Instruction) -> Shape:
    return Shape(U32)


def evaluate(instruction: Instruction, device: Device) -> Array:
    return np.array(device.replica, np.uint32)


EXAMPLES = (
    Example("ROOT r = u32[] replica-id()", (), ("u32[] 0",)),
    Example(
        """HloModule of_each, replica_count=2, num_partitions=2
        ENTRY main { ROOT r = u32[] replica-id() }""",
        (),
        ("u32[] 0", "u32[] 0", "u32[] 1", "u32[] 1"),
    ),
)
COUNTEREXAMPLES = {"C1": "ROOT r = s32[] replica-id()"}
