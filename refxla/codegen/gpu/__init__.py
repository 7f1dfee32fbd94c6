"""Emitters for GPUs: kernels whose items work together in work-groups, with the same bits as on CPUs."""
