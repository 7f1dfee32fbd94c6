"""The types of launch.pyx: only other Cython modules use it, through its .pxd."""
