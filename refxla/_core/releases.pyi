"""The types of releases.pyx: only other Cython modules use it, through its .pxd."""
