"""The Array API standard for refxla.Array (described in frontends/numpy/array_api)."""

from . import api  # noqa: F401 - operators of Arrays are there when it is loaded
from .frontends.numpy.array_api import *  # noqa: F403
from .frontends.numpy.array_api import __all__ as __all__
