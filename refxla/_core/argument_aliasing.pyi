"""The types of argument_aliasing.pyx: only other Cython modules use it, through its .pxd."""
