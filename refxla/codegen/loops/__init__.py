"""Elementwise kernels: each element of the outputs is computed by itself."""
