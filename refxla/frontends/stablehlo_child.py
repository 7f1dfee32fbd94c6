"""The process in which jaxlib converts StableHLO to HLO and back: it may abort without harm.

It imports nothing from refxla. Frames in both directions: a letter, the length of the contents (8 bytes,
little-endian), and the contents. The first frame it sends gives the version of jaxlib (`o`) or why there is none (`n`);
then it answers each request. A request is MLIR text (`t`), MLIR bytecode (`b`) or a serialized HloModuleProto (`h`); an
answer is a proto, or MLIR text for `h` (`o`), or jaxlib's error message (`e`).
"""

from __future__ import annotations

import os
import sys
from typing import IO, Any


def converters() -> tuple[str, Any]:
    """jaxlib's version and its module of converters, which has moved between versions. Raises ImportError."""
    try:
        import jaxlib
        from jaxlib.version import __version__ as version
    except ImportError:
        raise ImportError("jaxlib is not installed") from None
    del jaxlib
    try:
        from jaxlib import _jax as extension  # 0.6.1 and newer
    except ImportError:
        try:
            from jaxlib import xla_extension as extension
        except ImportError as problem:
            raise ImportError(f"jaxlib {version} cannot be loaded: {problem}") from None
    mlir = getattr(extension, "mlir", None)
    if not hasattr(mlir, "mlir_module_to_xla_computation"):
        raise ImportError(f"jaxlib {version} has no converter of StableHLO where it is looked for")
    return version, mlir


def to_hlo(mlir: Any, program: str | bytes) -> bytes:
    """The HloModuleProto of a StableHLO program; a single result is not a tuple, several are.

    Sizes that are not written in the types and follow from those of the parameters and from constants are refined
    first.
    """
    try:
        return _convert(mlir, program)
    except Exception:
        try:
            refined = mlir.refine_polymorphic_shapes(program.encode() if isinstance(program, str) else program)
        except Exception:
            refined = None
        if refined is None:
            raise
    return _convert(mlir, refined)


def _convert(mlir: Any, program: str | bytes) -> bytes:
    computation = mlir.mlir_module_to_xla_computation(program, use_tuple_args=False, return_tuple=False)
    proto: bytes = computation.as_serialized_hlo_module_proto()
    return proto


def from_hlo(mlir: Any, proto: bytes) -> bytes:
    """The StableHLO text of an HloModuleProto."""
    if hasattr(mlir, "hlo_to_stablehlo"):
        module = mlir.hlo_to_stablehlo(proto)
    else:
        from jaxlib import xla_extension

        module = mlir.xla_computation_to_mlir_module(xla_extension.XlaComputation(proto))
    if isinstance(module, str):
        return module.encode()
    if module[:4] != b"ML\xefR":
        return bytes(module)
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    try:
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext as dialects
    except ImportError:  # it has moved between versions
        from jaxlib.mlir._mlir_libs import register_jax_dialects

        dialects = register_jax_dialects
    context, registry = ir.Context(), ir.DialectRegistry()
    dialects.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    context.load_all_available_dialects()
    with context:
        return str(ir.Module.parse(module)).encode()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """One frame, or None at the end of the stream."""
    head = stream.read(9)
    if len(head) < 9:
        return None
    size = int.from_bytes(head[1:], "little")
    body = stream.read(size)
    return (head[:1], body) if len(body) == size else None


def send(stream: IO[bytes], kind: bytes, body: bytes) -> None:
    """Sends one frame."""
    stream.write(kind + len(body).to_bytes(8, "little"))
    stream.write(body)
    stream.flush()


def main() -> None:
    """Answers requests until there are no more."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by libraries must not become an answer
    source = sys.stdin.buffer
    try:
        version, mlir = converters()
    except ImportError as problem:
        return send(out, b"n", str(problem).encode())
    send(out, b"o", version.encode())
    while (request := receive(source)) is not None:
        kind, body = request
        try:
            answer = from_hlo(mlir, body) if kind == b"h" else to_hlo(mlir, body.decode() if kind == b"t" else body)
        except Exception as problem:  # jaxlib's, whose types differ between versions
            send(out, b"e", str(problem).encode(errors="replace"))
        else:
            send(out, b"o", answer)


if __name__ == "__main__":
    main()
