"""How many examples a property is tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

USUAL = 60  # examples of a property that says nothing else, at a usual run (see conftest.py)


def examples(count: int, **more: Any) -> settings:
    """The settings of a property that is tried on `count` examples at a usual run.

    Under another profile, such as HYPOTHESIS_PROFILE=search, its share of that profile's number is the same, and that
    profile decides the rest: whether the examples are the same at every run, above all.
    """
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL), **more)
