"""The sources of programs: one file for each.

`load` reads a program that is already HLO; `compile_function` asks a framework for the HLO of a function.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refxla_spec.errors import Error, InputError, ParseError, a_type, in_file
from refxla_spec.leniency import is_lenient, lenient_reading
from refxla_spec.module import Module
from refxla_spec.text import parse as parse_hlo

from ..compiler.executable_file import is_executable
from ..compiler.options import Options
from .stablehlo import BYTECODE, from_stablehlo, is_stablehlo


def load(source: str | bytes | Path, lenient: bool = False, *, elided: str | None = None) -> Module:
    """The module of HLO text, of a serialized HloModuleProto, of StableHLO (text, bytecode, a portable artifact), or of
    a file with any of them; the form is recognised from the contents.

    `lenient` ignores unknown parts that have their default value, with a warning (`refxla_spec.leniency`). `elided`
    says what replaces constants that an HLO text shortens to `{...}`: "zeros", "random", or None, which rejects such a
    text.

    A string is text if it has a line break or looks like a module, otherwise a path. Raises InputError for a file that
    cannot be read, or for StableHLO if jaxlib is not installed; ParseError for contents in none of these forms.
    """
    with lenient_reading(lenient or is_lenient()):
        return _load(source, elided)


def named(file: str, read: Callable[[], Module]) -> Module:
    """The module that `read` returns, annotated with its file; errors name the file, too."""
    try:
        module = read()
    except Error as problem:
        raise in_file(problem, file) from None
    module.file = file
    return module


def _load(source: str | bytes | Path, elided: str | None) -> Module:
    if isinstance(source, str) and not _is_text(source):
        source = Path(source)
    if isinstance(source, Path):
        try:
            data = source.read_bytes()
        except OSError as problem:
            raise InputError(f"cannot read {source}: {problem.strerror}") from None
        return named(str(source), lambda: _decode(data, elided))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _decode(source, elided)
    return parse(source, elided=elided)


def parse(source: str, lenient: bool = False, *, elided: str | None = None) -> Module:
    """The module of HLO text, or of StableHLO text if jaxlib is installed; `lenient` and `elided` as in `load`.

    Raises ParseError with the line and column of the error, InvalidProgramError for contradictions, UnsupportedError
    for StableHLO without a form in HLO, InputError if jaxlib is needed and missing.
    """
    with lenient_reading(lenient or is_lenient()):
        return from_stablehlo(source) if is_stablehlo(source) else parse_hlo(source, elided=elided)


def _is_text(source: str) -> bool:
    return not source.strip() or "\n" in source or "{" in source or source.lstrip().startswith("HloModule")


def _decode(data: bytes, elided: str | None) -> Module:
    from ..ir.proto import from_proto

    data = bytes(data)
    if is_executable(data):
        raise InputError("it is an executable, not a program: `refxla.load` opens it")
    if data.startswith(BYTECODE):
        return from_stablehlo(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        if _is_nearly_text(data):
            line, column = data.count(b"\n", 0, problem.start) + 1, problem.start - data.rfind(b"\n", 0, problem.start)
            raise ParseError(
                f"line {line}, column {column}: byte 0x{data[problem.start]:02x} is no UTF-8; save the text as UTF-8",
                line,
                column,
            ) from None
        return from_proto(data)
    # A proto begins with a field's tag and length; such control characters do not occur in text.
    if any(ord(c) < 32 and c not in "\t\n\r\f" for c in text[:256]) and not _is_nearly_text(data):
        return from_proto(data)
    return parse(text, elided=elided)


def _is_nearly_text(data: bytes) -> bool:
    """Whether bytes that are not valid text were probably meant as text: in another encoding, or with a character in
    one."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or re.match(rb"\s*HloModule\s", data) is not None


def compile_function(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], static: dict[str, Any], options: Options
) -> Any:
    """Compiles a function of TensorFlow, PyTorch, JAX or NumPy: at once if there are example arguments, positional or
    keyword ones, otherwise at its first call. `static` has the values of static_argnums and static_argnames.

    It belongs to another framework if its class says so (`tf.function(f)`, a Keras model, a torch.nn.Module,
    `jax.jit(f)`) or the class of one of the example arguments does; any other callable is NumPy's. Raises InputError
    for objects that cannot be called.
    """
    if isinstance(function, (classmethod, staticmethod)):
        if arguments or keywords:
            raise InputError(f"{a_type(function)} is compiled in its class, without example arguments")
        return type(function)(compile_function(function.__func__, (), {}, static, options))
    owner = getattr(function, "__self__", None)  # of a method: model.train_step
    origins = {_origin(value) for value in (function, owner, *_leaves((arguments, keywords)))}
    if "tensorflow" in origins:
        from .tensorflow import compile_tensorflow

        if static:
            raise InputError("Python values are part of a program of TensorFlow as they are: leave the static ones out")
        return compile_tensorflow(function, arguments, keywords, options)
    if "torch" in origins:
        from .torch.function import compile_torch

        if static:
            raise InputError("Python values are part of a program of PyTorch as they are: leave the static ones out")
        return compile_torch(function, arguments, keywords, options)
    if "jax" in origins:
        from .jax import compile_jax

        return compile_jax(function, arguments, keywords, static, options)
    if callable(function):
        from .numpy import compile_numpy

        return compile_numpy(function, arguments, keywords, options, **static)
    raise InputError(
        f"cannot compile a value of type {type(function).__name__}: give HLO (text, a path, a proto, a Module), "
        "StableHLO, a function of NumPy, a jax.jit function, a tf.function or a model of PyTorch"
    )


_PACKAGES = {
    "tensorflow": "tensorflow", "keras": "tensorflow", "tf_keras": "tensorflow", "jax": "jax", "jaxlib": "jax",
    "torch": "torch",
}  # fmt: skip


def _origin(value: Any) -> str | None:
    """The framework that defines the class of a value, or one of its base classes."""
    packages = (c.__module__.partition(".")[0] for c in type(value).__mro__)
    return next((_PACKAGES[p] for p in packages if p in _PACKAGES), None)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _leaves(element)
    else:
        yield value
