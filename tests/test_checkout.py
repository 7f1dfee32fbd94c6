"""In a checkout, after `pip install .`, `import refxla` gives what was installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import refxla_spec

import refxla

PACKAGE = Path(refxla.__file__).parent
SNIPPET = """
import numpy as np
import refxla
f = refxla.compile("HloModule m\\nENTRY e {\\n  x = f32[2] parameter(0)\\n  ROOT y = f32[2] negate(x)\\n}\\n")
print(refxla.__file__, f(np.float32([1, 2])), refxla.compiler.__file__)
"""


@pytest.fixture
def places(tmp_path):
    """A checkout whose core is not compiled, and a folder in which the package is installed."""
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    shutil.copytree(PACKAGE, checkout / "refxla", ignore=shutil.ignore_patterns("*.so", "__pycache__"))

    def not_installed(folder: str, _: list[str]) -> set[str]:
        """The tool in the folder of the prelude, which is no package."""
        return {"__pycache__", "coefficients.py"} if Path(folder).name == "prelude" else {"__pycache__"}

    shutil.copytree(PACKAGE, site / "refxla", ignore=not_installed)
    shutil.copytree(Path(refxla_spec.__file__).parent, site / "refxla_spec")
    return checkout, site


def beside(folder: Path, packages: Path) -> str:
    """The folder; if refxla is installed there, another one with links to all else that is."""
    if not (folder / "refxla").exists():
        return str(folder)
    links = packages / folder.name
    links.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if not entry.name.startswith("refxla") and not (links / entry.name).exists():
            (links / entry.name).symlink_to(entry)
    return str(links)


def run(checkout: Path, site: Path | None) -> subprocess.CompletedProcess:
    """The snippet in the checkout, by a Python that finds no other refxla than the one in `site`."""
    without = "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
    path = [beside(Path(p), checkout.parent / "packages") for p in sys.path if p]
    path = os.pathsep.join(([str(site)] if site else []) + path)
    return subprocess.run(
        [sys.executable, "-S", "-c", without + SNIPPET],
        cwd=checkout, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_installed_one_is_imported(places):
    checkout, site = places
    done = run(checkout, site)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.count(str(site)) == 2 and "[-1. -2.]" in done.stdout


def test_another_checkout_than_was_installed_says_so(places):
    checkout, site = places
    with (checkout / "refxla" / "compiler" / "driver.py").open("a") as file:
        file.write("# edited\n")
    done = run(checkout, site)
    assert done.returncode == 0 and done.stdout.count(str(site)) == 2
    assert "CheckoutWarning" in done.stderr and "refxla/compiler/driver.py in this checkout" in done.stderr


def test_where_none_is_installed_the_error_says_what_to_do(places):
    checkout, _ = places
    done = run(checkout, None)
    assert done.returncode != 0 and "ImportError" in done.stderr and "pip install ." in done.stderr
