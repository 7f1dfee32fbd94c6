"""The types of storage.pyx: only other Cython modules use it, through its .pxd."""
