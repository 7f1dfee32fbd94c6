"""Random bits from a state, and the next state; the same state gives the same bits, everywhere.

rng_three_fry is Threefry-2x32 with 20 rounds, rng_philox Philox-4x32 with 10 (Salmon and others, Parallel random
numbers: as easy as 1, 2, 3, 2011); rng_default is rng_philox. state[0] is the key, low word first, and the rest is a
counter: 64 bits in state[1] for Threefry; 128 bits for Philox, in state[1] (low) and state[2] (high), or in state[1]
and state[0] where the state has two elements. Block n of bits is the cipher of counter + n, and the next state is the
counter after the last block.

Threefry makes two words from a block. For 64 bits they are one number, low word first, at row-major index n. For 32
bits they are neighbours along one dimension, the first one of even size, or if there is none the largest one (the
first such), rounded up to an even size: n is the row-major index in the array with that dimension halved. Philox makes
four words from a block: four numbers of 32 bits at the row-major indices from 4n on, or two of 64 bits, low words
first, from 2n on. Numbers of fewer bits are the low bits of those of 32.
"""

from __future__ import annotations

import numpy as np

from ..attributes import ENUM, REQUIRED, Attribute
from ..ciphers import philox_bits, three_fry_bits
from ..module import Instruction
from ..numerics import wrap
from ..operation import Example, require
from ..types import U64, Array, Shape

ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
INPUTS = {"initial_state": "u64[2], or u64[3] for rng_philox"}
ATTRIBUTES = {"algorithm": Attribute(ENUM, REQUIRED, "rng_default, rng_three_fry or rng_philox")}
CONSTRAINTS = {
    "C1": "algorithm is rng_default, rng_three_fry or rng_philox",
    "C2": "initial_state is u64[2]; for rng_philox and rng_default it may be u64[3]",
    "C3": "the result is a tuple of initial_state's shape and an array of integers",
}


def infer(instruction: Instruction, initial_state: Shape) -> Shape:
    algorithm, result = instruction.algorithm, instruction.shape
    require(algorithm in ALGORITHMS, "C1", f"algorithm is {algorithm}")
    sizes = ((2,),) if algorithm == "rng_three_fry" else ((2,), (3,))
    fits = initial_state.element_type is U64 and initial_state.dimensions in sizes
    require(fits, "C2", f"initial_state is {initial_state}, algorithm is {algorithm}")
    fits = result.is_tuple and len(result.elements) == 2 and result.elements[0].compatible(initial_state)
    fits = fits and result.elements[1].element_type.is_integer
    require(fits, "C3", f"the result is {result}, initial_state is {initial_state}")
    return Shape.tuple_of(*(e.with_dimensions(e.dimensions) for e in result.elements))


def evaluate(instruction: Instruction, initial_state: Array) -> tuple[Array, Array]:
    shape = instruction.shape.elements[1]
    wide = shape.element_type.bits == 64
    generate = three_fry_bits if instruction.algorithm == "rng_three_fry" else philox_bits
    with np.errstate(over="ignore"):
        state, numbers = generate(initial_state, shape.dimensions, wide)
    return state, wrap(numbers, shape.element_type)


EXAMPLES = (
    Example(
        """s = u64[2] parameter(0)
           ROOT r = (u64[2], u32[2]) rng-bit-generator(s), algorithm=rng_three_fry""",
        ("u64[2] {0, 0}",),
        ("u64[2] {0, 1}", "u32[2] {1797259609, 2579123966}"),
        "the published test vector of Threefry-2x32 for zeros",
    ),
    Example(
        """s = u64[3] parameter(0)
           ROOT r = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_philox""",
        ("u64[3] {0, 0, 0}",),
        ("u64[3] {0, 1, 0}", "u32[4] {1713891541, 3781805453, 3159862348, 2600524760}"),
        "the published test vector of Philox-4x32 for zeros",
    ),
    Example(
        """s = u64[3] parameter(0)
           ROOT r = (u64[3], u64[0]) rng-bit-generator(s), algorithm=rng_philox""",
        ("u64[3] {1, 18446744073709551615, 7}",),
        ("u64[3] {1, 18446744073709551615, 7}", "u64[0] {}"),
        "no bits leave the state as it is",
    ),
)

COUNTEREXAMPLES = {
    "C1": "s = u64[2] parameter(0)\nROOT r = (u64[2], u32[4]) rng-bit-generator(s), algorithm=rng_best",
    "C2": "s = u64[3] parameter(0)\nROOT r = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_three_fry",
    "C3": "s = u64[2] parameter(0)\nROOT r = (u64[2], f32[4]) rng-bit-generator(s), algorithm=rng_default",
}
