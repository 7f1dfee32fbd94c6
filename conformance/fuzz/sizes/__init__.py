"""Programs of unusual size and form: hundreds of parameters, results, instructions, loops, branches or dimensions.

The programs of growth/ are small. Here a number determines one of FORMS and its size; a form of twice the size has
twice as many instructions, so that compile times can be compared (generate.py).
"""

from .common import FORMS
from .generate import generate_sized

__all__ = ["FORMS", "generate_sized"]
