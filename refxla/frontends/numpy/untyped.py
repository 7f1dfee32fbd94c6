"""NumPy without its types: what its functions give for arrays of a trace is an array of the trace, which they do not
know."""

from __future__ import annotations

from typing import Any

import numpy

np: Any = numpy
