"""The types of plan_code.pyx."""

from collections.abc import Sequence

from ..ir.plan import HostCall, Launch, LibraryCall, Plan, Step

STEPS: dict[int, str]

class PlanCode:
    plan: Plan
    code: list[int]
    launches: list[Launch]
    host_calls: list[HostCall]
    library_calls: list[LibraryCall]
    repeats: int
    def __init__(self, plan: Plan) -> None: ...
    def append(self, steps: Sequence[Step]) -> None: ...
