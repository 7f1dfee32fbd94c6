"""A loop along one dimension: each slice of the inputs and the values carried give a slice of the outputs and new ones.

    carry = inits
    for i in 0, 1, ...:  (or from the last index down to 0, where is_reverse)
        outputs[k][.., i, ..], carry = to_apply(inputs[n][.., i, ..], carry)

The index i runs over the dimension named by `dimensions`; the slices that to_apply takes and gives are without it. The
operands are the inputs and then num_carries inits; to_apply takes slices of the inputs and then the values carried, and
gives slices of the outputs and then the values carried. The result is the outputs and then the last values carried: a
tuple, where to_apply gives a tuple, else the one array that it gives.

The opcode is young. Settled are the order of operands and results, the direction and where output slices go, all as
here. is_associative promises that to_apply may be grouped in any way; the meaning is the loop, in order.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, COMPUTATION, INT, INTS, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape, Value
from ..vectorize import Run

INPUTS = {"*inputs": "arrays of equal size along the dimension", "*inits": "what is carried into the first turn"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, REQUIRED, "the one dimension along which the loop runs"),
    "is_reverse": Attribute(BOOL, False, "whether it runs from the last index to the first"),
    "num_carries": Attribute(INT, REQUIRED, "how many of the operands are inits"),
    "is_associative": Attribute(BOOL, False, "whether turns may be grouped in any way"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "one turn"),
}
CONSTRAINTS = {
    "C1": "num_carries is not negative, and there is at least one input",
    "C2": "dimensions names one dimension, of every input, and all of them have the same size there",
    "C3": "to_apply takes slices of the inputs and then values of the shapes of the inits",
    "C4": "to_apply gives arrays, the last of which have the shapes of the inits",
    "C5": "the slices of outputs have at least as many dimensions as stand before the one of the loop",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    carries, body = instruction.num_carries, instruction.to_apply
    require(0 <= carries < len(operands), "C1", f"num_carries is {carries}, of {len(operands)} operands")
    inputs, inits = operands[: len(operands) - carries], operands[len(operands) - carries :]
    dimensions = instruction.dimensions
    text = ", ".join(map(str, inputs))
    fits = len(dimensions) == 1 and all(x.is_array and 0 <= dimensions[0] < x.rank for x in inputs)
    fits = fits and len({x.dimensions[dimensions[0]] for x in inputs}) == 1
    require(fits, "C2", f"dimensions is {dimensions}, the inputs are {text}")
    (d,) = dimensions
    expected = [x.with_dimensions(x.dimensions[:d] + x.dimensions[d + 1 :]) for x in inputs] + list(inits)
    parameters = [p.shape for p in body.parameters]
    fits = len(parameters) == len(expected) and all(t.compatible(w) for t, w in zip(parameters, expected, strict=True))
    require(fits, "C3", f"{body.name} takes {_listed(parameters)}, and is given {_listed(expected)}")
    root = body.root.shape
    results = list(root.elements) if root.is_tuple else [root]
    slices, carried = results[: len(results) - carries], results[len(results) - carries :]
    fits = len(results) >= carries and all(r.is_array for r in results)
    fits = fits and all(r.compatible(i) for r, i in zip(carried, inits, strict=True))
    require(fits, "C4", f"{body.name} gives {root}; the inits are {_listed(inits)}")
    require(all(s.rank >= d for s in slices), "C5", f"dimensions is {dimensions}, the slices are {_listed(slices)}")
    size = inputs[0].dimensions[d]
    outputs = [s.with_dimensions((*s.dimensions[:d], size, *s.dimensions[d:])) for s in slices]
    outputs += [c.with_dimensions(c.dimensions) for c in carried]
    alone = len(outputs) == 1 and instruction.shape.is_array  # a tuple of one array may be stated as the array
    return Shape.tuple_of(*outputs) if root.is_tuple and not alone else outputs[0]


def _listed(shapes: list[Shape] | tuple[Shape, ...]) -> str:
    return "(" + ", ".join(map(str, shapes)) + ")"


def evaluate(instruction: Instruction, *operands: Array, run: Run) -> Value:
    count, (d,), body = len(operands) - instruction.num_carries, instruction.dimensions, instruction.to_apply
    inputs, carried = operands[:count], operands[count:]
    results = instruction.shape.elements or (instruction.shape,)
    outputs = [np.zeros(s.dimensions, s.element_type.dtype) for s in results[: len(results) - len(carried)]]
    size = inputs[0].shape[d]
    for i in reversed(range(size)) if instruction.is_reverse else range(size):
        at = (slice(None),) * d + (i,)
        values = run(body, *(x[at] for x in inputs), *carried)
        values = values if isinstance(values, tuple) else (values,)
        for output, part in zip(outputs, values, strict=False):
            output[at] = part
        carried = values[len(outputs) :]
    return (*outputs, *carried) if instruction.shape.is_tuple else (*outputs, *carried)[0]


_SUM = """HloModule running_sum
        add { x = f32[] parameter(0)
              sum = f32[] parameter(1)
              new = f32[] add(sum, x)
              ROOT r = (f32[], f32[]) tuple(new, new) }
        """
EXAMPLES = (
    Example(
        _SUM
        + """ENTRY main { x = f32[4] parameter(0)
                          init = f32[] parameter(1)
                          ROOT r = (f32[4], f32[]) scan(x, init), dimensions={0}, num_carries=1, to_apply=add }""",
        ("f32[4] {1,2,3,4}", "f32[] 10"),
        ("f32[4] {11,13,16,20}", "f32[] 20"),
        "a running sum",
    ),
    Example(
        _SUM
        + """ENTRY main { x = f32[4] parameter(0)
                          init = f32[] parameter(1)
                          ROOT r = (f32[4], f32[]) scan(x, init), dimensions={0}, is_reverse=true, num_carries=1,
                                                                 is_associative=true, to_apply=add }""",
        ("f32[4] {1,2,3,4}", "f32[] 10"),
        ("f32[4] {20,19,17,14}", "f32[] 20"),
        "from the end",
    ),
    Example(
        """HloModule only_carried
        step { x = s32[2] parameter(0)
               state = s32[2] parameter(1)
               twice = s32[2] add(state, state)
               ROOT new = s32[2] add(twice, x) }
        ENTRY main { x = s32[2,3] parameter(0)
                     init = s32[2] parameter(1)
                     ROOT r = s32[2] scan(x, init), dimensions={1}, num_carries=1, to_apply=step }""",
        ("s32[2,3] {{1,0,1},{0,1,1}}", "s32[2] {0,1}"),
        ("s32[2] {5,11}",),
        "the columns of a matrix as digits; no outputs",
    ),
)


def _scan(attributes: str, x: str = "f32[4]", body: str = "add") -> str:
    return (
        _SUM
        + f"""flat {{ x = f32[] parameter(0)
                 sum = f32[] parameter(1)
                 ROOT r = (f32[], s32[]) custom-call(x, sum), custom_call_target="f" }}
        row {{ x = f32[4] parameter(0)
              sum = f32[] parameter(1)
              ROOT r = (f32[], f32[]) tuple(sum, sum) }}
        ENTRY main {{ x = {x} parameter(0)
                     init = f32[] parameter(1)
                     ROOT r = (f32[4], f32[]) scan(x, init), {attributes}, to_apply={body} }}"""
    )


COUNTEREXAMPLES = {
    "C1": _scan("dimensions={0}, num_carries=2"),
    "C2": _scan("dimensions={1}, num_carries=1"),
    "C3": _scan("dimensions={0}, num_carries=1", x="f32[4,2]"),
    "C4": _scan("dimensions={0}, num_carries=1", body="flat"),
    "C5": _scan("dimensions={1}, num_carries=1", x="f32[4,4]", body="row"),
}
