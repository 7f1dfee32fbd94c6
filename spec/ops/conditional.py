"""The result of one of several computations, chosen by an index.

    result = branch_computations[branch_index](operand of that branch)

An index outside takes the last branch. With a pred[] for index, true_computation and its operand come first and are
taken when it holds. The other branches are not run.
"""

from __future__ import annotations

import numpy as np

from ..attributes import COMPUTATION, COMPUTATIONS, Attribute
from ..dynamic import union
from ..errors import plural
from ..module import Computation, Instruction
from ..operation import Example, require
from ..types import PRED, S32, Array, Shape, Value
from ..vectorize import Run

INPUTS = {"branch_index": "pred[] or s32[]", "*branch_operands": "one value for each branch"}
ATTRIBUTES = {
    "branch_computations": Attribute(COMPUTATIONS, (), "the branches"),
    "true_computation": Attribute(COMPUTATION, None, "for pred[]: the branch taken when it holds"),
    "false_computation": Attribute(COMPUTATION, None, "for pred[]: the branch taken when it does not"),
}
CONSTRAINTS = {
    "C1": "branch_index is pred[] with two branches, or s32[] with at least one",
    "C2": "there is one operand for each branch, of the shape of its one parameter",
    "C3": "all branches give the same shape",
    "C4": "the result has that shape",
}


def branches(instruction: Instruction) -> tuple[Computation, ...]:
    """The branches in the order of their operands: for pred[] the one for true comes first."""
    computations = instruction.attributes.get("branch_computations", ())
    return computations or (instruction.true_computation, instruction.false_computation)


def infer(instruction: Instruction, branch_index: Shape, *operands: Shape) -> Shape:
    called = branches(instruction)
    count = plural(len(called), "branch", "branches")
    fits = None not in called and branch_index.is_scalar
    fits = fits and (branch_index.element_type is S32 or branch_index.element_type is PRED and len(called) == 2)
    require(fits, "C1", f"branch_index is {branch_index}, for {count}")
    require(len(operands) == len(called), "C2", f"{plural(len(operands), 'operand')} for {count}")
    for branch, operand in zip(called, operands, strict=True):
        parameters = [p.shape for p in branch.parameters]
        fits = len(parameters) == 1 and parameters[0].compatible(operand)
        require(fits, "C2", f"{branch.name} takes ({', '.join(map(str, parameters))}), its operand is {operand}")
        result, first = branch.root.shape, called[0].root.shape
        require(result.compatible(first), "C3", f"{branch.name} gives {result}, {called[0].name} gives {first}")
    return union(*(branch.root.shape for branch in called))


def evaluate(instruction: Instruction, branch_index: Array, *operands: Value, run: Run) -> Value:
    called = branches(instruction)
    if branch_index.dtype == np.bool_:
        chosen = 0 if branch_index else 1
    else:
        chosen = int(branch_index) if 0 <= branch_index < len(called) else len(called) - 1
    return run(called[chosen], operands[chosen])


EXAMPLES = (
    Example(
        """HloModule one_of_two
        twice { x = s32[] parameter(0)
                ROOT y = s32[] add(x, x) }
        minus { x = s32[] parameter(0)
                ROOT y = s32[] negate(x) }
        ENTRY main { i = s32[] parameter(0)
                     x = s32[] parameter(1)
                     ROOT r = s32[] conditional(i, x, x), branch_computations={twice, minus} }""",
        ("s32[] -1", "s32[] 21"),
        ("s32[] -21",),
        "an index outside takes the last branch",
    ),
    Example(
        """HloModule if_then_else
        twice { x = s32[] parameter(0)
                ROOT y = s32[] add(x, x) }
        minus { x = s32[] parameter(0)
                ROOT y = s32[] negate(x) }
        ENTRY main { p = pred[] parameter(0)
                     x = s32[] parameter(1)
                     ROOT r = s32[] conditional(p, x, x), true_computation=twice, false_computation=minus }""",
        ("pred[] true", "s32[] 21"),
        ("s32[] 42",),
    ),
    Example(
        """HloModule dynamic
        same { x = f32[<=3] parameter(0)
               ROOT y = f32[<=3] copy(x) }
        whole { x = f32[3] parameter(0)
                ROOT y = f32[3] negate(x) }
        ENTRY main { p = pred[] parameter(0)
                     x = f32[<=3] parameter(1)
                     y = f32[3] parameter(2)
                     ROOT r = f32[<=3] conditional(p, x, y), true_computation=same, false_computation=whole }""",
        ("pred[] true", "f32[1] {5}", "f32[3] {1,2,3}"),
        ("f32[1] {5}",),
        "dynamic where one branch's result is",
    ),
)

_TWICE = """HloModule counterexample
    twice { x = s32[] parameter(0)
            ROOT y = s32[] add(x, x) }
    widen { x = s32[] parameter(0)
            ROOT y = s64[] convert(x) }
"""

COUNTEREXAMPLES = {
    "C1": _TWICE
    + """ENTRY main { i = f32[] parameter(0)
                      x = s32[] parameter(1)
                      ROOT r = s32[] conditional(i, x, x), branch_computations={twice, twice} }""",
    "C2": _TWICE
    + """ENTRY main { i = s32[] parameter(0)
                      x = s32[] parameter(1)
                      y = f32[] parameter(2)
                      ROOT r = s32[] conditional(i, x, y), branch_computations={twice, twice} }""",
    "C3": _TWICE
    + """ENTRY main { i = s32[] parameter(0)
                      x = s32[] parameter(1)
                      ROOT r = s32[] conditional(i, x, x), branch_computations={twice, widen} }""",
    "C4": _TWICE
    + """ENTRY main { i = s32[] parameter(0)
                      x = s32[] parameter(1)
                      ROOT r = s64[] conditional(i, x, x), branch_computations={twice, twice} }""",
}
