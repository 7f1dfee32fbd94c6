"""NumPy without its types: its functions return arrays of the trace for such arrays, which the types do not express."""

from __future__ import annotations

from typing import Any

import numpy

np: Any = numpy
