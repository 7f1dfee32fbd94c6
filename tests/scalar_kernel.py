"""Runs scalar expressions of the generator over arrays, on PoCL: what the scalar tests share."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyopencl as cl
from kernel_driver import without_header
from refxla_spec.operation import operation
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES, Shape

from refxla.codegen import prelude, scalar
from refxla.codegen.primitives import build_options, primitives
from refxla.device.description import DEFAULT_CPU, Target
from refxla.runtime.devices import find

CHUNK = 1024


class Case(NamedTuple):
    """One operation on given operand types: what `scalar.expression` is asked for."""

    opcode: str
    result_type: str
    attributes: tuple[tuple[str, object], ...] = ()


@cache
def queue() -> cl.CommandQueue:
    """A queue on PoCL, which every test machine has."""
    device = find("pocl")
    return device.queue(device.raw)


def source(
    cases: tuple[Case, ...], operand_types: tuple[str, ...], chunk: int = CHUNK, target: Target = DEFAULT_CPU
) -> str:
    """A program whose kernel `k` computes each case of the same operands into a result of its own.

    A work-item takes `chunk` elements in a loop.
    """
    names = [f"a{i}" for i in range(len(operand_types))]
    parameters = [f"__global const {scalar.storage_type(t)}* restrict p{i}" for i, t in enumerate(operand_types)]
    parameters += [f"__global {scalar.storage_type(c.result_type)}* restrict r{i}" for i, c in enumerate(cases)]
    lines = [
        f"{scalar.register_type(t)} a{i} = {scalar.load_in_loop(t, f'p{i}[base + i]')};"
        for i, t in enumerate(operand_types)
    ]
    for i, case in enumerate(cases):
        value = scalar.expression(case.opcode, operand_types, case.result_type, names, dict(case.attributes))
        lines.append(f"{scalar.register_type(case.result_type)} v{i} = {value};")
        lines.append(scalar.store_in_loop(case.result_type, f"r{i}[base + i]", f"v{i}"))
    body = "\n        ".join(lines)
    kernel = (
        "__attribute__((reqd_work_group_size(1, 1, 1)))\n"
        f"__kernel void k({', '.join(parameters)}) {{\n"
        f"    size_t base = get_global_id(0) * {chunk};\n"
        f"    for (int i = 0; i < {chunk}; i++) {{\n        {body}\n    }}\n}}\n"
    )
    return primitives(target) + prelude.functions(kernel) + kernel


@cache
def _kernel(cases: tuple[Case, ...], operand_types: tuple[str, ...], target: Target) -> cl.Kernel:
    target = without_header(target)
    text = source(cases, operand_types, target=target)
    return cl.Program(queue().context, text).build(list(build_options(target))).k


def run_all(cases: list[Case], *operands: np.ndarray, target: Target = DEFAULT_CPU) -> list[np.ndarray]:
    """The result of every case on the same flat operands, computed by one kernel written for `target`."""
    arrays = [np.ravel(np.asarray(a)) for a in operands]
    types = tuple(BY_DTYPE[a.dtype].name for a in arrays)
    size = arrays[0].size
    padded = -(-size // CHUNK) * CHUNK
    context, flags = queue().context, cl.mem_flags
    inputs, outputs, results = [], [], []
    for array in arrays:
        raw = np.zeros(padded, array.dtype)
        raw[:size] = array
        inputs.append(cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=raw.view(np.uint8)))
    for case in cases:
        results.append(np.empty(padded, ELEMENT_TYPES[case.result_type].dtype))
        outputs.append(cl.Buffer(context, flags.WRITE_ONLY, results[-1].nbytes))
    _kernel(tuple(cases), types, target)(queue(), (padded // CHUNK,), (1,), *inputs, *outputs)
    for result, output in zip(results, outputs, strict=True):
        cl.enqueue_copy(queue(), result.view(np.uint8), output)
    return [result[:size] for result in results]


def run(opcode: str, *operands: np.ndarray, result_type: str | None = None, **attributes) -> np.ndarray:
    """One operation on flat arrays; the result type is that of the last operand unless it is given."""
    result_type = result_type or BY_DTYPE[np.asarray(operands[-1]).dtype].name
    return run_all([Case(opcode, result_type, tuple(sorted(attributes.items())))], *operands)[0]


def meaning(case: Case, *operands: np.ndarray) -> np.ndarray:
    """What the specification says the operation gives."""
    shape = Shape.array(case.result_type, (operands[0].size,))
    attributes = dict(case.attributes)
    instruction = SimpleNamespace(opcode=case.opcode, shape=shape, attributes=attributes, **attributes)
    return np.asarray(operation(case.opcode).evaluate(instruction, *operands))


def bits(array: np.ndarray) -> np.ndarray:
    """The array's bits as unsigned integers, every NaN turned into one."""
    if array.dtype.kind in "biu":
        return array.astype(np.uint8) if array.dtype == bool else array
    if array.dtype.kind == "c":
        return bits(array.view(array.real.dtype))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = array.astype(np.float64)
    return np.where(np.isnan(wide), -1, array.view(f"i{array.dtype.itemsize}"))
