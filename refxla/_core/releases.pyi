"""The types of releases.pyx: other Cython modules alone use it, by its .pxd."""
