"""Random numbers from an explicit key (frontends/numpy/random.py says how they are made)."""

from .frontends.numpy.random import *  # noqa: F403
from .frontends.numpy.random import __all__ as __all__
