"""The machine on which a run of the suite or a sweep took place, as recorded in reports and tables."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """{"system", "processor", "cores", "python"}."""
    return {
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor's own name, if the system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
