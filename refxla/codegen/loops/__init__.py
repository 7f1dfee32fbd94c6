"""Kernels whose elements are computed one by one."""
