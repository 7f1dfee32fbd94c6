"""`refxla.compile`: compiles a program in any form, or a function of a framework, to an object that is called with
arrays; and `refxla.device_put`: arrays that stay on a device between calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, overload

from refxla_spec.errors import InputError
from refxla_spec.leniency import lenient_reading
from refxla_spec.module import Module

from ._core import array
from .compiler import ahead_of_time, executable_file
from .compiler.driver import Compiled, Reference, compile_module
from .compiler.options import Options
from .frontends import compile_function
from .frontends import load as load_program
from .frontends.saved import SavedFunction
from .runtime.devices import Device, choose

if TYPE_CHECKING:
    from .analysis.cost_analysis import Cost
    from .compiler.explanation import Explanation
    from .compiler.kernel_profile import Profile
    from .ir.plan import Plan
    from .runtime.result_memory import Memory
    from .typing import Result

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
R = TypeVar("R", covariant=True)


class CompiledProgram(Protocol):
    """The attributes of a compiled function that come from its latest executable, for type checkers: see Compiled."""

    @property
    def hlo(self) -> Module: ...
    @property
    def optimized_hlo(self) -> Module: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def opencl(self) -> str: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def device(self) -> Device: ...
    @property
    def device_reason(self) -> str: ...
    def explain(self) -> Explanation: ...
    def save(self, path: str | Path) -> None: ...


class CompiledMethod(CompiledProgram, Protocol[P, R]):
    """A compiled function as a method of an object, for type checkers."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


class CompiledFunction(CompiledProgram, Protocol[P, R]):
    """The result of `compile` for a function, for type checkers: it is called like the function, and has the attributes
    of an executable (`hlo`, `plan`, `explain`, ...) once it has been compiled."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> CompiledFunction[P, R]: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> CompiledMethod[Q, R]: ...

    def compile(self, *args: P.args, **kwargs: P.kwargs) -> None: ...

    def profile(self, *args: object, seconds: float = 1.0, **kwargs: object) -> Profile: ...


class Exported(Protocol):
    """A jax.export.Exported."""

    @property
    def mlir_module_serialized(self) -> bytes: ...


class JaxLowered(Protocol):
    """A jax.stages.Lowered."""

    def compiler_ir(self, dialect: str | None = None) -> object: ...


def load(
    path: str | Path, *, device: str | Device | None = None, machine_code: bool = True
) -> Compiled | SavedFunction:
    """Opens an executable that `save` or `refxla build` wrote to a file: a Compiled, or a function that is called like
    the saved one, without its framework. Neither the program's source nor a cache is needed.

    If the device, its driver and the processor are those that the file was made with, its kernels run unchanged, and
    nothing is compiled. Otherwise the program in the file is compiled; `device_reason` says why. `device` is a device
    or its name; None means REFXLA_DEVICE, or the device that the file was made for, or the default.

    The file's machine code is executed, so a file must come from somebody you trust; `machine_code=False` compiles the
    program in it instead, and uses nothing else from it except how it is called.

    Raises InputError for a file that is not an executable, is damaged, or was written by another version; DeviceError
    if there is no device.
    """
    saved = executable_file.read(path)
    name = device.name if isinstance(device, Device) else device
    program = ahead_of_time.executable(saved, str(path), device=name, machine_code=machine_code)
    return program if saved.calling is None else SavedFunction(program, saved.calling)


@overload
def compile(
    source: Module | str | bytes | bytearray | memoryview | Path,
    *,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    elided: str | None = None,
    linear_algebra: str | None = None,
) -> Compiled | Reference: ...


@overload
def compile(
    source: Callable[P, R],
    *arguments: object,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    elided: None = None,
    static_argnums: int | Collection[int] = (),
    static_argnames: str | Collection[str] = (),
    linear_algebra: str | None = None,
    **keywords: object,
) -> CompiledFunction[P, R]: ...


@overload
def compile(
    source: Exported | JaxLowered,
    *,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    linear_algebra: str | None = None,
) -> CompiledFunction[..., Result]: ...


@overload
def compile(
    source: classmethod[T, P, R],
    *arguments: object,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    static_argnums: int | Collection[int] = (),
    static_argnames: str | Collection[str] = (),
    linear_algebra: str | None = None,
) -> classmethod[T, P, R]: ...


@overload
def compile(
    source: staticmethod[P, R],
    *arguments: object,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    static_argnums: int | Collection[int] = (),
    static_argnames: str | Collection[str] = (),
    linear_algebra: str | None = None,
) -> staticmethod[P, R]: ...


def compile(
    source: object,
    *arguments: object,
    device: str | Device | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    winograd: bool = False,
    lenient: bool = False,
    elided: str | None = None,
    static_argnums: int | Collection[int] = (),
    static_argnames: str | Collection[str] = (),
    linear_algebra: str | None = None,
    **keywords: object,
) -> object:
    """Compiles a program for an OpenCL device.

    `source` is an HLO program: text, a serialized HloModuleProto, the path of a file with either, or a Module. Or it is
    StableHLO, which jaxlib converts: text, bytecode, a portable artifact, or the path of a file with one of them. The
    result is a Compiled; it is called with the flattened arrays of the parameters and returns the array, or the tuple
    of arrays, of the result.

    Or `source` is a function of JAX (`jax.jit(f)`), of TensorFlow (`tf.function(f)`), a model of PyTorch (for
    inference), or a function of NumPy (any other callable). It is compiled at its first call, or for example
    `arguments` and `keywords` (`refxla.compile(f, x, y=y)`; a keyword with the name of an option is passed afterwards:
    `refxla.compile(f).compile(x, device=d)`). Or `source` is what JAX made of a function for certain arguments, a
    jax.stages.Traced, Lowered or Compiled or a jax.export.Exported, compiled at once. The result takes and returns what
    the function does; in a class it is a method, and a classmethod or staticmethod stays one. Arguments of a function
    of NumPy or plain JAX that are named in `static_argnums` (by position) or `static_argnames` are part of the program
    by their values.

    `device` is a device, its name as `refxla devices` lists it, or "reference" for the specification's interpreter;
    None means REFXLA_DEVICE, or the fastest device. `without` names passes to leave out (OPTIONAL in
    passes/pipeline.py, "fusion" among them), to locate a bug. `tune` measures on the device how each matrix product and
    convolution is best cut into blocks, which takes some ten seconds for each that was not measured before; the result
    is kept on disk. The program's results are the same bits with it and without. `winograd` lets convolutions with
    windows of 3 x 3 be computed in tiles where that is faster: the same bits on every device, but not those of the
    convolution, and with another error bound (docs/library.md). `linear_algebra` says who computes decompositions and
    triangular systems on a CPU: "library" is LAPACK, from SciPy, whose bits may differ between machines; "expanded" are
    kernels like all others, slower, with the same bits on every device. None means REFXLA_LINEAR_ALGEBRA, or the
    library. Devices with their own memory always use the kernels. The reference ignores these three.

    `lenient` ignores unknown attributes, and fields of protos, that have their default value, with a warning. `elided`
    ("zeros" or "random") says what replaces constants that a dump shortens to `{...}`.

    Raises ParseError, InvalidProgramError, UnsupportedError or DeviceError, each a refxla.Error.
    """
    options = Options.of(device, without, tune, winograd, lenient, linear_algebra)
    if isinstance(source, (Module, str, bytes, bytearray, memoryview, Path)):
        if keywords:
            raise InputError(
                f"{next(iter(keywords))!r} is no option of refxla.compile, and an HLO program has no keywords"
            )
        if arguments:
            raise InputError("an HLO program says its own shapes: compile it alone, then call the result with arrays")
        if static_argnums != () or static_argnames != ():
            raise InputError("an HLO program has arrays as its arguments, and none of them is static")
        with lenient_reading(lenient):
            module = (
                source
                if isinstance(source, Module)
                else load_program(source if isinstance(source, (str, Path)) else bytes(source), lenient, elided=elided)
            )
            return compile_module(module, options)
    if elided is not None:
        raise InputError("only the text of an HLO program can have elided constants; leave `elided` out")
    static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return compile_function(source, arguments, keywords, {k: v for k, v in static.items() if v != ()}, options)


def device_put(x: object, device: str | Device | None = None) -> array.Array:
    """An Array of the values of `x`, which stays on a device: `x` is a NumPy array, a number, or anything with
    `__array__`. `device` is as in `compile`. The values are copied, except for an Array that is already there.

    Raises InputError for element types that HLO does not have, and for an Array that was deleted; DeviceError if there
    is no such device.
    """
    name = device.name if isinstance(device, Device) else device
    if isinstance(x, array.Array) and (name is None or choose(name)[0] == x.device):
        return x.block_until_ready() if x.is_deleted() else x
    return array.put(x, choose(name)[0])


def _operations() -> ModuleType:
    """The modules that compute with Arrays, loaded at the first operation."""
    from .frontends.numpy import array_api

    return array_api


array.register_namespace(_operations)
