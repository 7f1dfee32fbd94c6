"""refxla: the XLA compiler made readable. HLO programs in, fused OpenCL kernels for CPUs and GPUs out."""

from __future__ import annotations
