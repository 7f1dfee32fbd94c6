"""An argument of the computation, by its number.

The value of `parameter(n)` is the n-th value that the computation is called with. Every computation numbers its
parameters 0, 1, ... without gaps. The instruction's own shape says what may be given.
"""

from ..attributes import PARAMETER_NUMBER, REQUIRED, VERBATIM, Attribute
from ..errors import EvaluationError
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS: dict[str, str] = {}
ATTRIBUTES = {
    "number": Attribute(PARAMETER_NUMBER, REQUIRED, "which argument this is, from 0"),
    "parameter_replication": Attribute(VERBATIM, "", "which leaves are the same on all replicas; no meaning here"),
}
CONSTRAINTS = {"C1": "number >= 0"}


def infer(instruction: Instruction) -> Shape:
    require(instruction.number >= 0, "C1", f"the number is {instruction.number}")
    return instruction.shape


def evaluate(instruction: Instruction) -> Array:
    raise EvaluationError(f"{instruction.name}: a parameter has a value only where its computation is called")


EXAMPLES = (
    Example("ROOT p = f32[2] parameter(0)", ("f32[2] {-0, nan}",), ("f32[2] {-0, nan}",)),
    Example("p = s32[] parameter(0)\nROOT q = pred[0] parameter(1)", ("s32[] 7", "pred[0] {}"), ("pred[0] {}",)),
)

COUNTEREXAMPLES = {
    "C1": "ROOT r = f32[2] parameter(-1)",
}
