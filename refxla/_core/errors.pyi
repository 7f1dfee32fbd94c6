"""The types of errors.pyx: only other Cython modules use it, through its .pxd."""
