"""Writes a plan's kernels as OpenCL C, with one emitter for each kind of fusion."""
