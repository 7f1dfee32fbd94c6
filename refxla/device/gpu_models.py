"""Descriptions of GPUs that need not be present: code for them can be generated and examined on any machine.

Their names are those of devices, "gpu:<vendor>-<architecture>". Besides the data for code generation (Target), there
are the limits on a kernel: registers and local memory of a compute unit, and the rates of arithmetic and memory, from
the vendors' data sheets and programming guides. bench/gpu_static.py uses them to estimate kernels.

    gpu:nvidia-sm80     A100 (40 GB, SXM4)
    gpu:nvidia-sm90     H200 (SXM5)
    gpu:amd-gfx90a      one die of an MI250X
    gpu:amd-gfx1100     Radeon RX 7900 XTX
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .capabilities import GPU
from .description import Target


@dataclass(frozen=True)
class GpuModel:
    """A GPU. For a compute unit: `registers`, words of 32 bits, of which an item has at most `item_registers`;
    `local_bytes`; the maximum number of resident `items` and `groups`. `tflops` are those of f32 (a multiply-add is
    two), `gigabytes` the memory bandwidth per second, `cache_bytes` the last-level cache, `sector_bytes` the size of a
    memory transaction. `architecture` is the compilers' name of it."""

    name: str
    label: str
    architecture: str
    target: Target
    registers: int
    item_registers: int
    local_bytes: int
    items: int
    groups: int
    tflops: float
    gigabytes: float
    cache_bytes: int
    sector_bytes: int = 32


def _target(
    units: int, sub_group: int = 32, local_bytes: int = 48 << 10, group: int = 1024, fp16: bool = True
) -> Target:
    return Target(
        capabilities=GPU,
        vector_bytes=16,
        compute_units=units,
        fp64=True,
        fp16=fp16,
        max_vector=4,
        sub_group=sub_group,
        group_size=group,
        local_bytes=local_bytes,
        offsets=True,
    )


_KB, _MB = 1 << 10, 1 << 20

MODELS = {
    m.name: m
    for m in (
        # OpenCL gives a work-group on NVIDIA GPUs 48 KB of a compute unit's local memory, and no cl_khr_fp16.
        GpuModel("gpu:nvidia-sm80", "NVIDIA A100", "sm_80", _target(108, fp16=False),
                 65536, 255, 163 * _KB, 2048, 32, 19.5, 1555, 40 * _MB),
        GpuModel("gpu:nvidia-sm90", "NVIDIA H200", "sm_90", _target(132, fp16=False),
                 65536, 255, 227 * _KB, 2048, 32, 67.0, 4800, 50 * _MB),
        GpuModel("gpu:amd-gfx90a", "AMD MI250X, one die", "gfx90a", _target(110, 64, 64 * _KB),
                 131072, 512, 64 * _KB, 2048, 32, 23.9, 1638, 8 * _MB, 64),
        GpuModel("gpu:amd-gfx1100", "AMD RX 7900 XTX", "gfx1100", _target(96, 32, 64 * _KB),
                 98304, 256, 64 * _KB, 1024, 16, 61.4, 960, 96 * _MB, 64),
    )
}  # fmt: skip

# GPU code that runs on a CPU, so that it can be tested without a GPU: work-groups, local memory and barriers, but no
# number of compute units for which small programs would seem too small.
EMULATED = replace(_target(2, local_bytes=32 << 10, group=256, fp16=False), repeated_barriers=True)
