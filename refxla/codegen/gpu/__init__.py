"""Emitters for GPUs: kernels whose items cooperate in work-groups, with the same bits as on CPUs."""
