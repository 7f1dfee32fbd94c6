"""What the namespace says about itself: `__array_namespace_info__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy

from ....runtime.devices import Device, choose, devices
from ..untyped import np
from .eager import DeviceLike

if TYPE_CHECKING:
    from ....typing import DTypeLike

Capabilities = TypedDict(
    "Capabilities", {"boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int}
)


class Information:
    """Types, devices and abilities, as the standard asks for them."""

    def capabilities(self) -> Capabilities:
        """Masks and functions whose result has a size that values decide are there; arrays have up to 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device that Arrays lie on if none is named."""
        return choose()[0]

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, numpy.dtype]:
        """The types that functions take if none is named."""
        return {name: np.dtype(dtype) for name, dtype in np.__array_namespace_info__().default_dtypes().items()}

    def dtypes(self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None) -> dict[str, numpy.dtype]:
        """The types of a kind (as in `isdtype`), or all, by their names."""
        by_name: dict[str, DTypeLike] = dict(np.__array_namespace_info__().dtypes(kind=kind))
        return {name: np.dtype(dtype) for name, dtype in by_name.items()}

    def devices(self) -> list[Device]:
        """All devices, the default one first."""
        return list(devices())


def __array_namespace_info__() -> Information:
    """What there is: `capabilities`, `devices`, `dtypes` and the defaults."""
    return Information()
