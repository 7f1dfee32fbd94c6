"""The pages of the documentation, run as they are printed: their blocks of Python, from top to bottom, in a process."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_of(page: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))


def run_as_printed(page: str, directory: Path, **environment: str) -> str:
    """What the page's program, train.py in an empty directory, prints."""
    script = directory / "train.py"
    script.write_text(python_of(page), encoding="utf-8")
    return run(str(script), cwd=directory, **environment)


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """What a Python command prints, which ends well."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=cwd, timeout=280,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
