"""Programs from JAX: StableHLO, converted by jaxlib in this process, compiled by refxla's driver."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import FrameType
from typing import Any

import jaxlib.version
import numpy as np
from jaxlib import _jax, xla_client
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.module import Module

from .._core import pjrt_objects
from ..compiler import ahead_of_time, executable_file, serialization
from ..compiler.driver import Compiled, Reference, cached_module, compile_module
from ..frontends.stablehlo_child import to_hlo
from ..ir.fingerprint import Source
from ..ir.hlo_schema import CLASSES, HloModuleProto
from ..ir.proto import from_proto, to_proto
from ..ir.proto_shardings import sharding_to
from ..passes.host_call_threading import HOST_CALL, replace_tokens
from ..passes.virtual_devices import on_one_device, result_shardings
from ..runtime.result_memory import Memory
from .attributes import check_layouts, memory_kinds, with_memory_spaces, without_locations
from .foreign_functions import with_host_calls
from .sharding_propagation import with_result_shardings

_TYPE_NUMBERS = {name: number for number, name in enumerate(pjrt_objects.TYPE_NAMES) if name is not None}


@serialization.register
@dataclass(frozen=True)
class Interface:
    """What JAX is told of a program beside its compilation, with which it is stored.

    `memory_kinds` has for each result the number of its kind of memory; `donated` the numbers of parameters whose
    arrays the program may overwrite; `fingerprint` is the same for the same program, wherever it was written; `header`
    is an HloModuleProtoWithConfig of its parameters and results (see `LoadedProgram.optimized`).
    """

    name: bytes
    fingerprint: bytes
    memory_kinds: tuple[int, ...]
    donated: tuple[int, ...]
    header: bytes


@dataclass(frozen=True)
class LoadedProgram:
    """A compiled program, in the form that refxla/_core/pjrt_executable.pyx reads.

    `executor` takes and returns the arrays of all devices, concatenated; everything else is for one device. `devices`
    has `replicas` rows of `partitions` numbers; `results` for each result its type's number and dimensions; `memory`
    bytes of code, arguments, results, aliases and temporaries; `cost` named numbers; the rest is that of `interface`.
    `make_hlo` returns the program as a serialized HloModuleProto.
    """

    executor: Compiled
    devices: tuple[int, ...]
    replicas: int
    partitions: int
    results: tuple[tuple[int, tuple[int, ...]], ...]
    memory: tuple[int, int, int, int, int]
    cost: tuple[tuple[bytes, float], ...]
    options: bytes
    interface: Interface
    make_hlo: Callable[[], bytes]

    @property
    def name(self) -> bytes:
        """The program's name."""
        return self.interface.name

    @property
    def fingerprint(self) -> bytes:
        """See `Interface`."""
        return self.interface.fingerprint

    @property
    def memory_kinds(self) -> tuple[int, ...]:
        """See `Interface`."""
        return self.interface.memory_kinds

    @property
    def donated(self) -> tuple[int, ...]:
        """See `Interface`."""
        return self.interface.donated

    @cached_property
    def hlo(self) -> bytes:
        """The original program, a serialized HloModuleProto."""
        return self.make_hlo()

    def compile_options(self) -> bytes:
        """The compile options, as JAX passed them."""
        return self.options

    def device_assignment(self) -> bytes:
        """A serialized DeviceAssignmentProto."""
        grid = np.array(self.devices, np.int32).reshape(self.replicas, self.partitions)
        assignment: bytes = xla_client.DeviceAssignment.create(grid).serialize()
        return assignment

    def optimized(self) -> bytes:
        """A serialized HloModuleProtoWithConfig: for one device the program after the passes; for several the original
        program, with its shardings.

        JAX's own code requests it eight times for each program that it compiles or loads, and reads only layouts and
        shardings: it gets `header`, since the passes take longer than everything else if the kernels come from the
        cache.
        """
        if _reads_the_header_alone(sys._getframe().f_back):
            return self.interface.header
        if HOST_CALL.encode() in self.hlo and len(self.devices) == 1:
            raise UnsupportedError("a program that calls functions of this process is not shown")
        count = len(self.devices)
        return _with_config(to_proto(self.executor.optimized_hlo) if count == 1 else self.hlo, self.hlo, count)

    def serialized(self) -> bytes:
        """The serialized form from which `loaded` restores the program: an executable file
        (compiler/executable_file.py), with JAX's program and its options."""
        if HOST_CALL.encode() in self.hlo:
            raise UnsupportedError("a program that calls functions of this process cannot be serialized")
        return executable_file.pack(self.executor.saved(program=self.hlo, options=self.options))


def _header(hlo: bytes, message: Any, count: int) -> bytes:
    """What JAX's own code reads of a program for so many devices: its HloModuleProto `message`, `hlo` in bytes, with a
    single operation in place of the computation of the results, as a serialized HloModuleProtoWithConfig."""
    shape, parameters = message.host_program_shape, range(len(message.host_program_shape.parameters))
    entry, name = message.entry_computation_id, message.entry_computation_name
    header = HloModuleProto(name=message.name, id=message.id, entry_computation_id=entry, entry_computation_name=name)
    header.host_program_shape.CopyFrom(shape)
    computation = header.computations.add(name=name, id=entry, root_id=len(parameters), program_shape=shape)
    for number in parameters:
        computation.instructions.add(
            name=f"parameter.{number}",
            opcode="parameter",
            id=number,
            parameter_number=number,
            shape=shape.parameters[number],
        )
    computation.instructions.add(
        name="results",
        opcode="custom-call",
        id=len(parameters),
        operand_ids=parameters,
        custom_call_target="refxla",
        shape=shape.result,
    )
    return _with_config(header.SerializeToString(), hlo, count)


def _with_config(shown: bytes, hlo: bytes, count: int) -> bytes:
    """A serialized HloModuleProtoWithConfig of a module for so many devices, with the shardings that the parameters and
    results of the program have."""
    message = CLASSES["HloModuleProtoWithConfig"]()
    message.hlo_module.ParseFromString(shown)
    _order_row_major(message.hlo_module.host_program_shape)
    message.config.entry_computation_layout.CopyFrom(message.hlo_module.host_program_shape)
    if count == 1:
        message.config.replica_count = message.config.num_partitions = 1
    else:
        parameters, result = _shardings(from_proto(hlo))
        sharding_to(result, message.hlo_module.spmd_output_sharding)
        for sharding in parameters:
            sharding_to(sharding, message.hlo_module.spmd_parameters_shardings.add())
    data: bytes = message.SerializeToString()
    return data


def _shardings(module: Module) -> tuple[tuple[str, ...], str]:
    """The shardings of the parameters and of the result. An empty tuple has one sharding, as in XLA."""
    results = [sharding or "{replicated}" for sharding in result_shardings(module)] or ["{replicated}"]
    result = f"{{{', '.join(results)}}}" if module.entry.root.shape.is_tuple else results[0]
    return tuple(p.sharding or "{replicated}" for p in module.entry.parameters), result


def _order_row_major(program_shape: Any) -> None:
    """Makes the layouts of parameters and results those of refxla's arrays, whatever the converter proposes."""
    for shape in (*program_shape.parameters, program_shape.result, *program_shape.result.tuple_shapes):
        if len(shape.layout.minor_to_major) > 1:
            shape.layout.minor_to_major[:] = range(len(shape.dimensions) - 1, -1, -1)


def _reads_the_header_alone(caller: FrameType | None) -> bool:
    """Whether the request for a program comes from JAX's own code and does not show it to users: from a function of
    JAX, or a thread of jaxlib's, in which no Python runs (JAX 0.10 compiles in one)."""
    if caller is None:
        return True
    return caller.f_globals.get("__name__", "").startswith("jax.") and "hlo_modules" not in caller.f_code.co_names


def compiled(code: bytes, format: str, options: bytes) -> LoadedProgram:
    """Compiles for the devices that the options name. Raises as `refxla.compile` does."""
    if format != "mlir":
        raise UnsupportedError(f"programs come as StableHLO (format mlir), and this one as {format}")
    parsed = xla_client.CompileOptions.ParseFromString(options)
    for name, _ in parsed.env_option_overrides:
        if not name.startswith("xla_"):
            raise InputError(
                f"No such compile option: {name!r}. XLA's own, xla_..., are taken, and change nothing here"
            )
    check_layouts(code)
    count, partitions = _device_count(parsed), parsed.executable_build_options.num_partitions
    fingerprint = _fingerprint(without_locations(code), count)
    convert = functools.cache(lambda: _converted(code, partitions))
    executor: Compiled | Reference | None = None
    if HOST_CALL.encode() not in code:  # the names of this process's functions differ from those of others
        executor = cached_module(Source(f"pjrt {fingerprint}", lambda: _module(convert(), count)))
    if executor is None:
        hlo, source = _source(convert(), fingerprint, count)
        return _program(compile_module(source, in_background=True), lambda: hlo, parsed, options)
    return _program(executor, convert, parsed, options)


def loaded(serialized: bytes, options: bytes) -> LoadedProgram:
    """The program from its serialized form, for the devices that `options` name, if they are given."""
    saved = executable_file.unpack(serialized, "what was serialized")
    options = options or saved.options
    parsed = xla_client.CompileOptions.ParseFromString(options)
    count = _device_count(parsed)
    hlo, source = _source(saved.program, _fingerprint(saved.program, count), count)
    executor = ahead_of_time.executable(saved, "what was serialized", source=source)
    return _program(executor, lambda: hlo, parsed, options)


def _fingerprint(program: bytes, count: int) -> str:
    """Identifies a program for so many devices, which jaxlib converts."""
    return hashlib.sha256(f"{jaxlib.version.__version__} {count} ".encode() + program).hexdigest()


def _device_count(parsed: Any) -> int:
    """The number of devices of a program with these options. Raises UnsupportedError for replicas."""
    build = parsed.executable_build_options
    if build.num_replicas > 1:
        raise UnsupportedError(
            f"this is a program of {build.num_replicas} replicas: write it for partitions (shard_map)"
        )
    count: int = build.num_partitions
    return count


def _converted(code: bytes, partitions: int) -> bytes:
    """The HLO of a program, with the shardings and memory spaces of its results. jaxlib takes longer for that than
    refxla does to load a compiled program."""
    hlo = to_hlo(_jax.mlir, with_result_shardings(code) if partitions > 1 else code)
    return with_memory_spaces(hlo, code)


def _source(hlo: bytes, fingerprint: str, count: int) -> tuple[bytes, Source]:
    """The HLO of a program for so many devices, with calls of this process's functions for those of other libraries,
    and the source with that program's interface. `fingerprint` identifies the program without these functions."""
    message = HloModuleProto.FromString(hlo)
    functions = with_host_calls(message)
    if functions:
        hlo = message.SerializeToString()
        fingerprint = " ".join([fingerprint, *(str(function.key) for function in functions)])
    aliases = (*message.input_output_alias.entries, *message.buffer_donor.entries)
    interface = Interface(
        name=message.name.encode(),
        fingerprint=fingerprint.encode(),
        memory_kinds=memory_kinds(message),
        donated=tuple(sorted({alias.parameter_number for alias in aliases})),
        header=_header(hlo, message, count),
    )
    size = count * sum(len(c.instructions) for c in message.computations)
    return hlo, Source(f"pjrt {fingerprint}", lambda: _module(hlo, count), size, interface)


def _module(hlo: bytes, count: int) -> Module:
    """A program for so many devices, as a module that one device runs."""
    module = from_proto(hlo)
    return _of_arrays(on_one_device(module, count) if count > 1 else module)


def _program(
    executor: Compiled | Reference, make_hlo: Callable[[], bytes], parsed: Any, options: bytes
) -> LoadedProgram:
    """The compiled program for the devices of its options."""
    if type(executor) is not Compiled:
        raise UnsupportedError(f"{executor.hlo.name} has dynamic shapes, which JAX's arrays do not have")
    interface = executor.note
    assert isinstance(interface, Interface)  # of `_source`, whose compilation it is stored with
    memory, cost, count = Memory.of(executor.plan), executor.cost, _device_count(parsed)
    shapes = executor.signature.result_shapes[: executor.signature.result_count // count]
    return LoadedProgram(
        executor=executor,
        devices=_devices(parsed.device_assignment, count),
        replicas=1,
        partitions=count,
        results=tuple((_TYPE_NUMBERS[s.element_type.name], s.dimensions) for s in shapes),
        memory=(0, memory.parameters, memory.results, memory.aliases, memory.arena + memory.workspace),
        cost=((b"flops", float(cost.operations)), (b"bytes accessed", float(cost.bytes_read + cost.bytes_written))),
        options=options,
        interface=interface,
        make_hlo=make_hlo,
    )


def _of_arrays(module: Module) -> Module:
    """The module with scalars in place of the tokens that it gets or returns: JAX passes tokens through a program whose
    effects it orders, and they are left where no host function is called."""
    root = module.entry.root.shape
    shapes = [*(p.shape for p in module.entry.parameters), *(root.elements if root.is_tuple else (root,))]
    if any(not shape.is_tuple and shape.element_type.kind == "token" for shape in shapes):
        replace_tokens(module)
        module.entry_layout = None
    return module


def _devices(assignment: Any, count: int) -> tuple[int, ...]:
    """The numbers of the devices that a program is for; row r has those of replica r; the first ones if nothing is
    specified."""
    if assignment is None:
        return tuple(range(count))
    message = CLASSES["DeviceAssignmentProto"].FromString(assignment.serialize())
    columns = [computation.replica_device_ids for computation in message.computation_devices]
    return tuple(number for row in zip(*columns, strict=True) for number in row)
