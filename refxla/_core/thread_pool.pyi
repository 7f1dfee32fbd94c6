"""The types of thread_pool.pyx: only other Cython modules use it, through its .pxd."""
