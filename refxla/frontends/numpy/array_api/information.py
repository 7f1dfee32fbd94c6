"""What the namespace reports about itself: `__array_namespace_info__`."""

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
    """Types, devices and capabilities, as the standard defines them."""

    def capabilities(self) -> Capabilities:
        """Masks and functions whose result size depends on values are supported; arrays have up to 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device of Arrays if none is named."""
        return choose()[0]

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, numpy.dtype]:
        """The types that functions use if none is named."""
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
