"""The house rules of docs/design.md, read off the sources: who may import whom, and how long a file may be."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STANDARD = set(sys.stdlib_module_names)
MAY_IMPORT = {
    "spec": STANDARD | {"numpy", "ml_dtypes", "refxla_spec"},
    "refxla": STANDARD | {"numpy", "ml_dtypes", "pyopencl", "google", "rich", "platformdirs", "refxla_spec", "refxla"},
}
# Development's own packages, each in the one file that needs it: frameworks, and what fits the prelude's polynomials.
ONLY_IN = {
    "jax": "refxla/frontends/jax.py",
    "jaxlib": "refxla/frontends/stablehlo_child.py",
    "tensorflow": "refxla/frontends/tensorflow.py",
    "mpmath": "refxla/codegen/prelude/coefficients.py",
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The top-level names of everything that the file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_each_room_imports_only_what_it_may(folder):
    strangers = {}
    for path in sources(folder):
        name = str(path.relative_to(ROOT))
        allowed = MAY_IMPORT[folder] | {package for package, file in ONLY_IN.items() if file == name}
        if found := imported(path) - allowed:
            strangers[name] = found
    assert not strangers


def test_relative_imports_stay_in_their_room():
    """`from ..x import y` may not climb out of spec/ or refxla/."""
    for path in sources("spec", "refxla"):
        depth = len(path.relative_to(ROOT).parents) - 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= depth, f"{path}:{node.lineno}"
