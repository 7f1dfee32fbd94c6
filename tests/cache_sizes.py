"""Devices with caches of other sizes: what is done for large arrays is done for small ones."""

import pytest

from refxla.device.description import Caches


def set_caches(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Give every device of this process caches of these bytes (see Caches), until the test ends."""
    for name, size in sizes.items():
        monkeypatch.setattr(Caches, name, property(lambda self, size=size: size))
