"""How Sphinx builds these pages: `tox -e docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "refxla"
copyright = "the refxla authors"
author = "the refxla authors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "specification",  # _ext/: the pages of the specification, made from it
    "known_differences",  # _ext/: the table of conformance/differences/
    "sweeps",  # _ext/: the tables of conformance/sweep/
    "releases",  # _ext/: the table of spec/releases.py
    "walkthrough",  # _ext/: the intermediate forms of "From text to kernel"
    "core_source",  # _ext/: links to the sources of the Cython core
    "command_line",  # _ext/: the reference of the command, from its parser
    "case_sizes",  # _ext/: the table of conformance/cases/sizes.py
    "jax_tests",  # _ext/: the tables of conformance/jax_tests/
    "liars",  # _ext/: the table of conformance/liars/
    "numpy_functions",  # _ext/: what of NumPy has a compiled form
    "links",  # _ext/: no link of the site is dead
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext"]
smartquotes = False  # "--option" is an option, and "{...}" is code
default_role = "code"  # what stands in backticks in a docstring
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = "refxla"
html_static_path = ["_static"]
html_css_files = ["specification.css"]
html_show_sourcelink = False
copybutton_prompt_text = "$ "
autodoc_member_order = "bysource"
autodoc_typehints = "description"
