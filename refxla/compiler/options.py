"""The options of a compilation: one object, from the front ends and the command line down to the driver."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from refxla_spec.errors import InputError, a_type

from ..ir.library_calls import is_asked_for
from ..runtime.devices import Device


@dataclass(frozen=True)
class Options:
    """The options of `refxla.compile`, which describes each.

    `device` is a device's name, "reference", or None; `without` names passes to leave out. `linear_algebra` is one of
    ir/library_calls.CHOICES, or None.
    """

    device: str | None = None
    without: tuple[str, ...] = ()
    tune: bool = False
    winograd: bool = False
    lenient: bool = False
    linear_algebra: str | None = None

    @classmethod
    def of(
        cls,
        device: str | Device | None = None,
        without: Collection[str] = (),
        tune: bool = False,
        winograd: bool = False,
        lenient: bool = False,
        linear_algebra: str | None = None,
    ) -> Options:
        """From a caller's values. Raises InputError for a device that is neither a name nor one of refxla's, and for an
        invalid `linear_algebra`."""
        name = device.name if isinstance(device, Device) else device
        if name is not None and not isinstance(name, str):
            raise InputError(f"device is {a_type(device)}: give the name of a device, or one of refxla.devices()")
        is_asked_for(linear_algebra)
        passes = (without,) if isinstance(without, str) else tuple(without)
        return cls(name, passes, tune, winograd, lenient, linear_algebra)
