"""Implementations that are measured beside each other: each makes a callable of a program.

refxla compiles the HLO text. JAX compiles the function that it came from (`compiled`), or, for a program that is only
there as HLO, XLA:CPU inside jaxlib compiles the same text (`compiled_hlo`), which shows two compilers on one program.
asv skips a peer that is not installed, for NotImplementedError.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

PEERS = ["refxla", "jax"]
EXAMPLES = Path(__file__).parents[2] / "examples"
WARM = 3  # calls before anything is measured

Call = Callable[[], Any]


def example(name: str, file: str, batch: int | None = None) -> tuple[str, list[Any]]:
    """An example's HLO text, and what it is run on; of another `batch`, made anew, for which jax is needed."""
    folder = EXAMPLES / name
    inputs = runpy.run_path(str(folder / "inputs.py"))["inputs"]
    if batch is None:
        return (folder / file).read_text(), inputs()
    return _made(folder, batch), inputs(batch=batch)


@cache
def _made(folder: Path, batch: int) -> str:
    jax_or_skip()
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "made.hlo"
        command = [sys.executable, str(folder / "make.py"), "--batch", str(batch), "--output", str(output)]
        subprocess.run(command, check=True, capture_output=True)
        return output.read_text()


def compiled(peer: str, hlo: str, function: Callable[[], Callable], arguments: list[Any]) -> Call:
    """A call of the program that returns when its results are there; compiled, and warm.

    refxla compiles the HLO text; JAX the function that `function()` makes, which computes the same.
    """
    if peer == "refxla":
        return warm(refxla_call(hlo, arguments))
    jax = jax_or_skip()
    jitted = jax.jit(function())
    placed = [jax.device_put(a) for a in arguments]
    return warm(lambda: jax.block_until_ready(jitted(*placed)))


def compiled_hlo(peer: str, hlo: str, arguments: list[Any]) -> Call:
    """The same, where XLA:CPU compiles the HLO text too."""
    return warm((refxla_call if peer == "refxla" else xla_call)(hlo, arguments))


def refxla_call(hlo: str, arguments: list[Any]) -> Call:
    """refxla on HLO text: compiled, not warm."""
    import refxla

    run = refxla.compile(hlo)
    arguments = list(arguments)
    return lambda: run(*arguments)


def xla_call(hlo: str, arguments: list[Any]) -> Call:
    """XLA:CPU on HLO text, through names of jaxlib that are not public: compiled, not warm."""
    jax = jax_or_skip()
    try:
        from jax._src.lib import _jax
        from jaxlib._hlo import hlo_module_from_text
    except ImportError as error:
        raise NotImplementedError("this jaxlib does not compile HLO text") from error
    devices = jax.devices("cpu")[:1]
    module = _jax.mlir.hlo_to_stablehlo(hlo_module_from_text(hlo).as_serialized_hlo_module_proto())
    executable = devices[0].client.compile_and_load(module, _jax.DeviceList(tuple(devices)), _jax.CompileOptions())
    with jax.enable_x64(True):  # or 64-bit arguments become 32-bit ones
        placed = [jax.device_put(a) for a in arguments]

    def call() -> Any:
        results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        return jax.block_until_ready([shards[0] for shards in results])

    return call


def warm(call: Call) -> Call:
    """The call, after it was made a few times."""
    for _ in range(WARM):
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
