"""Runs one scalar expression of the generator over arrays, on PoCL: what the scalar tests share."""

from functools import cache

import numpy as np
import pyopencl as cl
import pytest
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES

from refxla.codegen import prelude, scalar
from refxla.codegen.target import DEFAULT_CPU

CHUNK = 4096


@cache
def queue() -> cl.CommandQueue:
    """A queue on PoCL, which every test machine has."""
    for platform in cl.get_platforms():
        if platform.name == "Portable Computing Language":
            return cl.CommandQueue(cl.Context(platform.get_devices()[:1]))
    pytest.fail("no PoCL: pip install pyopencl[pocl]")


def source(opcode: str, operand_types: tuple[str, ...], result_type: str, attributes: dict | None = None) -> str:
    """A program whose kernel `k` computes one operation, CHUNK elements a work-item."""
    names = [f"a{i}" for i in range(len(operand_types))]
    parameters = [f"__global const {scalar.storage_type(t)}* restrict p{i}" for i, t in enumerate(operand_types)]
    parameters.append(f"__global {scalar.storage_type(result_type)}* restrict out")
    loads = [
        f"        {scalar.register_type(t)} {names[i]} = {scalar.load(t, f'p{i}[base + i]')};"
        for i, t in enumerate(operand_types)
    ]
    value = scalar.expression(opcode, operand_types, result_type, names, attributes or {})
    kernel = "\n".join(
        [
            "__attribute__((reqd_work_group_size(1, 1, 1)))",
            f"__kernel void k({', '.join(parameters)}) {{",
            f"    size_t base = get_global_id(0) * {CHUNK};",
            f"    for (int i = 0; i < {CHUNK}; i++) {{",
            *loads,
            f"        {scalar.register_type(result_type)} value = {value};",
            f"        out[base + i] = {scalar.store(result_type, 'value')};",
            "    }",
            "}",
        ]
    )
    return DEFAULT_CPU.primitives() + prelude.functions(kernel, DEFAULT_CPU) + kernel


@cache
def _kernel(opcode, operand_types, result_type, attributes) -> cl.Kernel:
    text = source(opcode, operand_types, result_type, dict(attributes))
    return cl.Program(queue().context, text).build(list(DEFAULT_CPU.build_options)).k


def run(opcode: str, *operands, result_type: str | None = None, **attributes) -> np.ndarray:
    """The operation on flat arrays of one length; the result type is that of the last operand unless it is given."""
    arrays = [np.ravel(np.asarray(a)) for a in operands]
    types = tuple(BY_DTYPE[a.dtype].name for a in arrays)
    result_type = result_type or types[-1]
    size = arrays[0].size
    padded = -(-size // CHUNK) * CHUNK
    context, flags = queue().context, cl.mem_flags
    buffers = []
    for array in arrays:
        raw = np.zeros(padded, array.dtype)
        raw[:size] = array
        buffers.append(cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=raw.view(np.uint8)))
    dtype = ELEMENT_TYPES[result_type].dtype
    result = np.empty(padded * dtype.itemsize, np.uint8)
    out = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
    kernel = _kernel(opcode, types, result_type, tuple(sorted(attributes.items())))
    kernel(queue(), (padded // CHUNK,), (1,), *buffers, out)
    cl.enqueue_copy(queue(), result, out)
    return result.view(dtype)[:size]
