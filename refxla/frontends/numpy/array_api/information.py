"""What the namespace says about itself: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

from ....runtime.devices import Device, choose, devices
from ..untyped import np


class Information:
    """Types, devices and abilities, as the standard asks for them."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and functions whose result has a size that values decide are there; arrays have up to 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device that Arrays lie on if none is named."""
        return choose()[0]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types that functions take if none is named."""
        return {name: np.dtype(dtype) for name, dtype in np.__array_namespace_info__().default_dtypes().items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types of a kind (as in `isdtype`), or all, by their names."""
        by_name: dict[str, Any] = dict(np.__array_namespace_info__().dtypes(kind=kind))
        return {name: np.dtype(dtype) for name, dtype in by_name.items()}

    def devices(self) -> list[Device]:
        """All devices, the default one first."""
        return list(devices())


def __array_namespace_info__() -> Information:
    """What there is: `capabilities`, `devices`, `dtypes` and the defaults."""
    return Information()
