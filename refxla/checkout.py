"""What `import refxla` finds in a checkout after `pip install .`: the installed refxla.

Python looks in the current directory first, and a checkout has a folder `refxla` there, whose core is not compiled.
"""

from __future__ import annotations

import filecmp
import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class CheckoutWarning(UserWarning):
    """The installed refxla differs from the sources in the current directory."""


def use_installed(here: Path) -> None:
    """Replaces the refxla in the folder `here`, whose core is not compiled, by the installed one.

    Warns if their sources differ. Raises ImportError if no other one is installed.
    """
    spec = _installed(here)
    if spec is None or spec.origin is None or spec.loader is None:
        raise ImportError(
            f"the refxla in {here} is a checkout whose core is not compiled for {sys.executable}, and no other one is "
            f"installed; in {here.parent} run: pip install .   (or pip install -e ., to edit it)"
        )
    other = Path(spec.origin).parent
    if (changed := _first_difference(here, other)) is not None:
        warnings.warn(
            f"the refxla installed in {other} is imported, and {changed} in this checkout is not what was installed; "
            "run pip install . again, or pip install -e . to edit it",
            CheckoutWarning,
            stacklevel=2,
        )
    for name in [n for n in sys.modules if n.startswith("refxla.")]:
        del sys.modules[name]
    module = importlib.util.module_from_spec(spec)
    sys.modules["refxla"] = module  # the import statement then returns it
    spec.loader.exec_module(module)


def _installed(here: Path) -> ModuleSpec | None:
    """Where another refxla is, with a compiled core."""
    elsewhere = [p for p in sys.path if os.path.realpath(p or os.curdir) != os.path.realpath(here.parent)]
    for finder in sys.meta_path:
        if not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec("refxla", elsewhere if finder is PathFinder else None)
        if spec is not None and spec.origin and not os.path.samefile(Path(spec.origin).parent, here):
            if any((Path(spec.origin).parent / "_core").glob("shapes.*.so")):
                return spec
    return None


def _first_difference(here: Path, other: Path) -> Path | None:
    """The first Python file of a package that differs in the other place. (Files outside packages are tools of the
    checkout, which are not installed.)"""
    for path in sorted(here.rglob("*.py")):
        twin = other / path.relative_to(here)
        if not path.with_name("__init__.py").exists():
            continue
        if not twin.is_file() or not filecmp.cmp(path, twin, shallow=False):
            return path.relative_to(here.parent)
    return None
