"""The types of launch.pyx."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyopencl as cl

from ..ir.plan import HostCall, Launch, LibraryCall, Plan, Step
from ..typing import Result
from .arguments import Signature

STEPS: dict[int, str]

def register_arrays(kind: type, call: Callable[[Executor, tuple[Any, ...]], Any]) -> None: ...

class Executor:
    @property
    def plan(self) -> Plan: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def calls_host(self) -> bool: ...
    def __init__(
        self,
        plan: Plan,
        queue: cl.CommandQueue,
        context: cl.Context,
        access: str = "host",
        local: int = 1,
        others: Sequence[cl.CommandQueue] = (),
    ) -> None: ...
    def place(self) -> None: ...
    def assembled_by(self, builder: Future[None]) -> None: ...
    def give_up(self) -> None: ...
    def wait_until_assembled(self) -> None: ...
    def assemble(
        self,
        entries: Sequence[tuple[str, int]],
        programs: Mapping[str, cl.Program],
        pointers: Mapping[str, int] | None = None,
    ) -> None: ...
    def prepare_library_calls(self, calls: Sequence[LibraryCall]) -> None: ...
    def __call__(self, *arguments: object) -> Result: ...
    def in_place(self, arguments: Sequence[object], parameters: Sequence[int]) -> Result: ...
    def timing_queue(self) -> cl.CommandQueue: ...
    def traced(self, arguments: Sequence[object], room: int) -> tuple[Result, np.ndarray, int]: ...

def assemble(
    plan: Plan,
    steps: Sequence[Step],
    code: list[int | None],
    launches: list[Launch],
    calls: list[HostCall],
    libraries: list[LibraryCall],
    repeats: int,
) -> int: ...
