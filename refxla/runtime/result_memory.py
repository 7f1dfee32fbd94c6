"""How much memory a program needs, and the memory of result arrays."""

from __future__ import annotations

from dataclasses import dataclass

from refxla_spec.errors import DeviceError

from .._core.buffer_pool import set_limit, trim, usage
from ..analysis.cost_analysis import bytes_text
from ..ir.plan import Plan
from .devices import Device

__all__ = ["Memory", "check_device_memory", "set_limit", "trim", "usage"]


@dataclass(frozen=True)
class Memory:
    """Bytes a program needs: `constants`, `arena` and `workspace` for its lifetime, the rest for each call. Of the
    results, `aliases` are in the memory of donated parameters.

    On a CPU device, the parameters are the caller's own arrays, and the results are arrays with memory from a pool
    (`usage`, `trim`, `set_limit`); on other devices, both also have memory there, for the lifetime of the program.
    """

    parameters: int
    results: int
    constants: int
    arena: int
    workspace: int
    aliases: int = 0

    @classmethod
    def of(cls, plan: Plan) -> Memory:
        """The needs of a plan."""
        return cls(
            parameters=sum(s.bytes for s in plan.parameters),
            results=sum(s.bytes for s in plan.results),
            constants=plan.constant_bytes,
            arena=plan.arena_bytes,
            workspace=plan.workspace_bytes,
            aliases=sum(plan.results[result].bytes for result, _ in plan.aliases),
        )

    def __str__(self) -> str:
        return ", ".join(f"{name} {getattr(self, name):,} bytes" for name in self.__dataclass_fields__)


def check_device_memory(plan: Plan, device: Device) -> None:
    """Raises DeviceError if a device with its own memory has less than the program needs, or cannot allocate as much at
    once."""
    if device.access == "host":
        return
    memory, raw = Memory.of(plan), device.raw
    parts = {"the temporary values": memory.arena, "the constants": memory.constants}
    for what, shapes in (("parameter", plan.parameters), ("result", plan.results)):
        parts |= {f"{what} {n}": s.bytes for n, s in enumerate(shapes)}
    largest = max(parts, key=lambda part: parts[part])
    needed = sum(parts.values()) + memory.workspace - memory.aliases
    advice = "use smaller arrays, such as a smaller batch, or another device"
    if parts[largest] > raw.max_mem_alloc_size:
        most, size = bytes_text(raw.max_mem_alloc_size), bytes_text(parts[largest])
        raise DeviceError(f"{device.name} allocates {most} at a time, too little for {largest}, {size}; {advice}")
    if needed > raw.global_mem_size:
        there = bytes_text(raw.global_mem_size)
        text = f"{device.name} has {there} of memory, and the program needs {bytes_text(needed)} ({memory})"
        raise DeviceError(f"{text}; {advice}")
