"""Unmodified JAX programs on refxla, each in a process of its own, with JAX_PLATFORMS=refxla."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib.metadata import entry_points

HEAD = "import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax\n"


def command(program: str) -> list[str]:
    return [sys.executable, "-c", HEAD + textwrap.dedent(program)]


def environment(**more: str) -> dict[str, str]:
    found = [e.value for e in entry_points(group="jax_plugins") if e.name == "refxla"]
    assert found == ["refxla.pjrt"], "the package was installed before it had this entry point: pip install -e ."
    return {**os.environ, "JAX_PLATFORMS": "refxla", **more}


def ended(program: str, **more: str) -> subprocess.CompletedProcess:
    """How a program ends, and what it prints."""
    return subprocess.run(command(program), capture_output=True, text=True, timeout=300, env=environment(**more))


def run(program: str, **more: str) -> str:
    """What a program prints. It ends well, and says nothing on its standard error."""
    done = ended(program, **more)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    return done.stdout


def interrupted(program: str, shown: str) -> None:
    """A program that says "ready" is interrupted half a second later; it goes on, prints this alone, and ends well."""
    child = subprocess.Popen(command(program), stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == shown
        assert child.wait(60) == 0
    finally:
        child.kill()
