"""The types of shapes.pyx."""

from typing import Any

from refxla_spec.module import Instruction, Module
from refxla_spec.types import Shape

def infer(instruction: Instruction) -> Shape: ...
def make(
    opcode: str,
    *operands: Instruction,
    name: str | None = None,
    shape: Shape | None = None,
    backend_config: str | None = None,
    **attributes: Any,
) -> Instruction: ...
def check(module: Module) -> None: ...
def covered() -> set[str]: ...
