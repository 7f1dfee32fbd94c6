"""The types of storage.pyx: other Cython modules alone use it, by its .pxd."""
