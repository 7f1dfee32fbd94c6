"""The types of library_call.pyx: only other Cython modules use it, through its .pxd."""
