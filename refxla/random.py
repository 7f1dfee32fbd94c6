"""Random numbers from an explicit key (described in frontends/numpy/random.py)."""

from .frontends.numpy.random import *  # noqa: F403
from .frontends.numpy.random import __all__ as __all__
