"""The first half of an all-reduce that runs while other instructions do; all-reduce-done gives its result.

The value is that of all-reduce.
"""

from . import all_reduce
from .all_reduce import ATTRIBUTES, CONSTRAINTS, COUNTEREXAMPLES, INPUTS, check_devices, evaluate, infer

__all__ = ["ATTRIBUTES", "CONSTRAINTS", "COUNTEREXAMPLES", "EXAMPLES", "INPUTS", "check_devices", "evaluate", "infer"]

EXAMPLES = tuple(
    type(e)(
        e.hlo.replace("ROOT r = f32[2] all-reduce(", "s = f32[2] all-reduce-start(").replace(
            "to_apply=add }", "to_apply=add\n                     ROOT r = f32[2] all-reduce-done(s) }"
        ),
        e.inputs,
        e.expected,
    )
    for e in all_reduce.EXAMPLES
    if "ROOT r = f32[2] " in e.hlo
)
