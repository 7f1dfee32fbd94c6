"""Programs of unusual size and form: hundreds of parameters, results, instructions, loops, branches or dimensions.

The programs of growth/ are small. Here a number determines one of FORMS and its size; a form of twice the size has
twice as many instructions, so that compile times can be compared (generate.py).
"""

from .generate import FORMS, generate_sized

__all__ = ["FORMS", "generate_sized"]
