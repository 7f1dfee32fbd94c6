"""From an optimized module to a plan: fusions, kernels, steps, memory."""
