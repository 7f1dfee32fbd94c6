"""Discrete Fourier transforms: passes of small radices over vectors whose lanes are different transforms."""
