"""The version of refxla: the release and, in a checkout, the commit. Published figures carry both."""

from __future__ import annotations

from pathlib import Path

RELEASE = "0.1.0"


def commit() -> str:
    """The commit of the git checkout of this package, with "-dirty" after it if tracked files differ.

    "" for an installed package, which is in no checkout, and if git is missing.
    """
    import subprocess  # half of the time that importing refxla takes, and only published figures need it

    root = Path(__file__).resolve().parents[1]  # a linked package's own place
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10", "--match="]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
