"""Kernels of a plan to OpenCL C: one emitter for each kind of kernel."""
