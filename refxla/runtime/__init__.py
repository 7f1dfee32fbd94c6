"""Devices, the compile cache, and the launch of compiled programs."""
