"""XLA:CPU as an oracle: HLO text in, what XLA itself computes out. A tool of the tests; the product never imports it.

XLA is reached through private names of one pinned jaxlib (0.10.2), in a child process: some programs abort it. The
child lives as long as the tests do, since starting it costs a second; when it dies it is replaced and the caller gets
`OracleAborted`. A test module that needs it begins with `oracle = pytest.importorskip("oracle")`, which skips it where
that jaxlib is absent.

Where XLA:CPU is not to be believed: it flushes subnormals at run time; complex maximum and minimum; bitcast-convert
between pred and integers; reduce-precision of NaN; sums have its own order.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

JAXLIB = "0.10.2"


class OracleError(Exception):
    """XLA refused the program; the message is XLA's own."""


class OracleAborted(OracleError):
    """XLA ended its process on this program, or ran past the time limit."""


def xla_cpu(hlo_text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the module's entry computation on XLA:CPU, a tuple's elements in order.

    Roundings of f16 and bf16 are kept (xla_allow_excess_precision is off). Raises OracleError or OracleAborted.
    """
    return _ask("run", hlo_text, [np.asarray(x) for x in inputs])


def xla_parses(hlo_text: str) -> bool:
    """Whether XLA's own parser and verifier accept the text."""
    try:
        _ask("print", hlo_text)
    except OracleError:
        return False
    return True


def xla_prints(hlo_text: str) -> str:
    """The text as XLA parses and prints it again, with every constant in full. Raises OracleError."""
    return _ask("print", hlo_text)


def xla_proto(hlo_text: str) -> bytes:
    """The text as a serialized HloModuleProto, made by XLA. Raises OracleError."""
    return _ask("proto", hlo_text)


def xla_text(proto: bytes) -> str:
    """A serialized HloModuleProto as XLA prints it, with every constant in full. Raises OracleError."""
    return _ask("text", proto)


# The parent's side.

_child: subprocess.Popen | None = None
_TIME_LIMIT = 120.0  # seconds for one question


def _ask(*question: Any) -> Any:
    global _child
    if _child is None or _child.poll() is not None:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_allow_excess_precision=false".strip()
        settings = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"}
        _child = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **settings},
        )
        atexit.register(_child.kill)
    try:
        _send(_child.stdin, question)
        ok, answer = _receive(_child.stdout)
    except (OSError, EOFError) as error:
        status = _child.wait()
        _child = None
        raise OracleAborted(f"XLA's process ended with status {status} on: {str(question[1])[:500]}") from error
    if not ok:
        raise OracleError(answer)
    return answer


def _send(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO) -> Any:
    return pickle.loads(_read(stream, struct.unpack("<Q", _read(stream, 8))[0]))


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the other side has gone")
    return data


# The child's side.


def _serve() -> None:
    import signal

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever XLA prints is not an answer
    import jax
    import jaxlib._hlo as hlo
    from jax._src.lib import _jax

    def as_text(module: Any) -> str:
        return hlo.XlaComputation(module.as_serialized_hlo_module_proto()).as_hlo_text(True)

    def run(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
        proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        devices = jax.devices("cpu")[:1]
        options = _jax.CompileOptions()
        options.env_option_overrides = [("xla_allow_excess_precision", "False")]
        executable = devices[0].client.compile_and_load(
            _jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList(tuple(devices)), options
        )
        results = executable.execute_sharded([jax.device_put(x) for x in inputs])
        return [np.asarray(x[0]) for x in results.disassemble_into_single_device_arrays()]

    actions = {
        "run": run,
        "print": lambda text: as_text(hlo.hlo_module_from_text(text)),
        "proto": lambda text: hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto(),
        "text": lambda proto: as_text(hlo.HloModule.from_serialized_hlo_module_proto(proto)),
    }
    while True:
        try:
            action, *arguments = _receive(sys.stdin.buffer)
        except EOFError:
            return
        signal.alarm(int(_TIME_LIMIT))  # past it, the process ends and the parent says so
        try:
            reply = (True, actions[action](*arguments))
        except Exception as error:  # whatever XLA raises is the answer
            reply = (False, f"{type(error).__name__}: {error}")
        signal.alarm(0)
        _send(answers, reply)


if __name__ == "__main__":
    _serve()
else:
    try:
        found = importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != JAXLIB:
        raise ModuleNotFoundError(f"the oracle needs jaxlib {JAXLIB}, and {found} is installed")
