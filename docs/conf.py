"""How Sphinx builds these pages: `tox -e docs`."""

project = "refxla"
copyright = "the refxla authors"
author = "the refxla authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "refxla"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
