"""Implementations that are measured beside each other, behind one call: hlo text or a JAX function -> a callable."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = ["refxla", "jax"]
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, file: str) -> tuple[str, list[Any]]:
    """An example's HLO text, and what it is run on."""
    folder = EXAMPLES / name
    return (folder / file).read_text(), runpy.run_path(str(folder / "inputs.py"))["inputs"]()


def compiled(peer: str, hlo: str, function: Callable[[], Callable], arguments: list[Any]) -> Callable[[], Any]:
    """A call of the program that returns when its results are there; compiled, and warm.

    refxla compiles the HLO text; JAX the function that `function()` makes, which computes the same. asv skips a peer
    that is not installed, for NotImplementedError.
    """
    if peer == "refxla":
        import refxla

        run = refxla.compile(hlo)
        arguments = list(arguments)
        call = lambda: run(*arguments)  # noqa: E731
    else:
        jax = jax_or_skip()
        jitted = jax.jit(function())
        placed = [jax.device_put(a) for a in arguments]
        call = lambda: jax.block_until_ready(jitted(*placed))  # noqa: E731
    for _ in range(3):
        call()
    return call


def jax_or_skip() -> Any:
    """The jax module, on the CPU. Where it is not installed NotImplementedError, for which asv skips the benchmark."""
    try:
        import jax
    except ImportError as error:
        raise NotImplementedError("jax is not installed") from error
    jax.config.update("jax_platforms", "cpu")
    return jax
