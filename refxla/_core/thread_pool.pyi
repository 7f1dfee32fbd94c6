"""The types of thread_pool.pyx: other Cython modules alone use it, by its .pxd."""
