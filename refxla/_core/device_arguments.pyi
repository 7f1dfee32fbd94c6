"""The types of device_arguments.pyx: only other Cython modules use it, through its .pxd."""
