"""The XLA compiler made readable: HLO programs in, fused OpenCL kernels out."""
