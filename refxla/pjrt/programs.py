"""Programs from JAX: StableHLO, converted by jaxlib in this process, compiled by refxla's driver."""

from __future__ import annotations

import hashlib
import sys
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
from ..compiler import ahead_of_time, compilation_cache, executable_file
from ..compiler.driver import Compiled, Reference, compile_module
from ..compiler.executable_file import SavedExecutable
from ..frontends.stablehlo_child import to_hlo
from ..ir.fingerprint import Source
from ..ir.hlo_schema import CLASSES, HloModuleProto
from ..ir.proto import from_proto, to_proto
from ..ir.proto_shardings import sharding_to
from ..passes.host_call_threading import HOST_CALL, replace_tokens
from ..passes.virtual_devices import on_one_device, result_shardings
from ..runtime import disk_cache
from ..runtime.result_memory import Memory
from .attributes import check_layouts, memory_kinds, with_memory_spaces
from .foreign_functions import with_host_calls
from .sharding_propagation import with_result_shardings

_LARGEST_KEPT = 4 << 20  # bytes of HLO: a larger program has large constants, which fill the cache
_TYPE_NUMBERS = {name: number for number, name in enumerate(pjrt_objects.TYPE_NAMES) if name is not None}


@dataclass(frozen=True)
class LoadedProgram:
    """A compiled program, in the form that refxla/_core/pjrt_executable.pyx reads.

    `executor` takes and returns the arrays of all devices, concatenated; everything else is for one device. `devices`
    has `replicas` rows of `partitions` numbers; `results` for each result its type's number and dimensions;
    `memory_kinds` for each result the number of its kind of memory; `donated` the numbers of parameters whose arrays
    the program may overwrite; `memory` bytes of code, arguments, results, aliases and temporaries; `cost` named
    numbers.
    """

    executor: Compiled
    devices: tuple[int, ...]
    replicas: int
    partitions: int
    results: tuple[tuple[int, tuple[int, ...]], ...]
    memory_kinds: tuple[int, ...]
    donated: tuple[int, ...]
    name: bytes
    fingerprint: bytes
    memory: tuple[int, int, int, int, int]
    cost: tuple[tuple[bytes, float], ...]
    hlo: bytes
    options: bytes

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
        shardings: it gets `_header`, since the passes take longer than everything else if the kernels come from the
        cache.
        """
        if _reads_the_header_alone(sys._getframe().f_back):
            return self._header
        if HOST_CALL.encode() in self.hlo and len(self.devices) == 1:
            raise UnsupportedError("a program that calls functions of this process is not shown")
        return self._with_config(to_proto(self.executor.optimized_hlo) if len(self.devices) == 1 else self.hlo)

    @cached_property
    def _header(self) -> bytes:
        """Like `optimized`, with a single operation in place of the computation of the results."""
        given = HloModuleProto.FromString(self.hlo)
        shape, parameters = given.host_program_shape, range(len(given.host_program_shape.parameters))
        entry, name = given.entry_computation_id, given.entry_computation_name
        header = HloModuleProto(name=given.name, id=given.id, entry_computation_id=entry, entry_computation_name=name)
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
        return self._with_config(header.SerializeToString())

    def _with_config(self, hlo: bytes) -> bytes:
        """A serialized HloModuleProtoWithConfig of a module, with the shardings of its parameters and results."""
        message = CLASSES["HloModuleProtoWithConfig"]()
        message.hlo_module.ParseFromString(hlo)
        _order_row_major(message.hlo_module.host_program_shape)
        message.config.entry_computation_layout.CopyFrom(message.hlo_module.host_program_shape)
        if len(self.devices) == 1:
            message.config.replica_count = message.config.num_partitions = 1
        else:
            parameters, result = self._shardings
            sharding_to(result, message.hlo_module.spmd_output_sharding)
            for sharding in parameters:
                sharding_to(sharding, message.hlo_module.spmd_parameters_shardings.add())
        data: bytes = message.SerializeToString()
        return data

    @cached_property
    def _shardings(self) -> tuple[tuple[str, ...], str]:
        """The shardings of the parameters and of the result. An empty tuple has one sharding, as in XLA."""
        module = from_proto(self.hlo)
        results = [sharding or "{replicated}" for sharding in result_shardings(module)] or ["{replicated}"]
        result = f"{{{', '.join(results)}}}" if module.entry.root.shape.is_tuple else results[0]
        return tuple(p.sharding or "{replicated}" for p in module.entry.parameters), result

    def serialized(self) -> bytes:
        """The serialized form from which `loaded` restores the program: an executable file
        (compiler/executable_file.py), with JAX's program and its options."""
        if HOST_CALL.encode() in self.hlo:
            raise UnsupportedError("a program that calls functions of this process cannot be serialized")
        return executable_file.pack(self.executor.saved(program=self.hlo, options=self.options))


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
    return _program(_converted(code, parsed.executable_build_options.num_partitions), parsed, options)


def loaded(serialized: bytes, options: bytes) -> LoadedProgram:
    """The program from its serialized form, for the devices that `options` name, if they are given."""
    saved = executable_file.unpack(serialized, "what was serialized")
    options = options or saved.options
    return _program(saved.program, xla_client.CompileOptions.ParseFromString(options), options, saved)


def _converted(code: bytes, partitions: int) -> bytes:
    """The HLO of a program, with the shardings and memory spaces of its results, from the cache on disk, or converted
    now and stored there: jaxlib takes longer for that than refxla does to load a compiled program."""
    store = disk_cache.cache()
    name = disk_cache.key(
        "hlo", jaxlib.version.__version__, compilation_cache.build(), hashlib.sha256(code).hexdigest()
    )
    hlo = store.get(name)
    if hlo is None:
        hlo = to_hlo(_jax.mlir, with_result_shardings(code) if partitions > 1 else code)
        hlo = with_memory_spaces(hlo, code)
        if len(hlo) <= _LARGEST_KEPT and HOST_CALL.encode() not in hlo:  # those are functions of another process
            store.put(name, hlo)
    return hlo


def _program(hlo: bytes, parsed: Any, options: bytes, saved: SavedExecutable | None = None) -> LoadedProgram:
    """The program of a module, compiled or from its saved form."""
    build = parsed.executable_build_options
    replicas, partitions = build.num_replicas, build.num_partitions
    devices = _devices(parsed.device_assignment, replicas * partitions)
    message = HloModuleProto.FromString(hlo)
    if with_host_calls(message):
        hlo = message.SerializeToString()
    donated = {e.parameter_number for e in message.input_output_alias.entries}
    donated |= {e.parameter_number for e in message.buffer_donor.entries}
    fingerprint = _fingerprint(message)
    size = sum(len(c.instructions) for c in message.computations)
    count = replicas * partitions
    if replicas > 1:
        raise UnsupportedError(
            f"{message.name} is a program of {replicas} replicas: write it for partitions (shard_map)"
        )
    source = Source(f"pjrt {fingerprint}", lambda: _of_arrays(from_proto(hlo)), size)
    if count > 1:
        source = Source(
            f"pjrt {count} {fingerprint}", lambda: _of_arrays(on_one_device(from_proto(hlo), count)), size * count
        )
    executor: Compiled | Reference
    if saved is not None:
        executor = ahead_of_time.executable(saved, "what was serialized", source=source)
    else:
        executor = compile_module(source, in_background=True)
    if type(executor) is not Compiled:
        raise UnsupportedError(f"{message.name} has dynamic shapes, which JAX's arrays do not have")
    memory, cost = Memory.of(executor.plan), executor.cost
    shapes = executor.signature.result_shapes[: executor.signature.result_count // count]
    return LoadedProgram(
        executor=executor,
        devices=devices,
        replicas=replicas,
        partitions=partitions,
        results=tuple((_TYPE_NUMBERS[s.element_type.name], s.dimensions) for s in shapes),
        memory_kinds=memory_kinds(message),
        donated=tuple(sorted(donated)),
        name=message.name.encode(),
        fingerprint=fingerprint.encode(),
        memory=(0, memory.parameters, memory.results, memory.aliases, memory.arena + memory.workspace),
        cost=((b"flops", float(cost.operations)), (b"bytes accessed", float(cost.bytes_read + cost.bytes_written))),
        hlo=hlo,
        options=options,
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


def _fingerprint(message: Any) -> str:
    """Identifies the program, wherever in the user's sources it was written."""
    bare = HloModuleProto()
    bare.CopyFrom(message)
    bare.ClearField("stack_frame_index")
    bare.ClearField("id")
    for computation in bare.computations:
        for instruction in computation.instructions:
            instruction.ClearField("metadata")
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()
