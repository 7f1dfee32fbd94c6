"""The types of pjrt_objects.pyx."""

TYPE_NAMES: tuple[str | None, ...]  # HLO's name of each of PJRT's element types, None where HLO has none
