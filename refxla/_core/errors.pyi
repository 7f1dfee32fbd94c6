"""The types of errors.pyx: other Cython modules alone use it, by its .pxd."""
