"""Runs one fusion, made from HLO text, on PoCL or in Oclgrind: what the tests of the emitters share."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pyopencl as cl
import pytest
from refxla_spec import interpreter
from refxla_spec.module import Module
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

from refxla.analysis.access_patterns import Access, Store
from refxla.analysis.index_expression import linearize
from refxla.analysis.index_maps import MAX_LITERALS
from refxla.codegen.c_block import Block
from refxla.codegen.elemental_ir_emitter import ElementalIrEmitter
from refxla.codegen.emitter_registry import emit
from refxla.codegen.opencl_program import Program, program
from refxla.codegen.primitives import build_options
from refxla.device.description import DEFAULT_CPU, Target
from refxla.ir.plan import Fusion, Kernel
from refxla.runtime.devices import Device, devices
from refxla.scheduling.memory_blocks import ALIGNMENT

POCL, OCLGRIND = "Portable Computing Language", "Oclgrind"
# Oclgrind interprets a kernel, and does not know what `restrict` becomes.
_OPTIONS = {POCL: ["-w"], OCLGRIND: ["-w", "-Drestrict="]}


GUARD = 128  # elements before and after a result, which nobody may write
_rng = np.random.default_rng(5)


@cache
def device(platform: str = POCL) -> Device:
    """PoCL, which every test machine has, or a device of another platform; skips where that is missing."""
    for found in devices():  # not pyopencl's own list: refxla's makes both of PoCL's devices appear
        if found.platform == platform:
            return found
    if platform == POCL:
        pytest.fail("no PoCL: pip install pyopencl[pocl]")
    pytest.skip(f"no {platform} here")


@cache
def queue(platform: str = POCL) -> cl.CommandQueue:
    """A queue on a device of that platform."""
    found = device(platform)
    return found.queue(found.raw)


def without_header(target: Target, platform: str = POCL) -> Target:
    """The target with which a program is built: as on refxla's own way, without the header of OpenCL's functions where
    the code needs none. clang takes five times as long to read the header as to compile a small kernel."""
    capabilities = target.capabilities
    needless = capabilities.clang_builtins and not capabilities.work_groups
    return replace(target, bare=True) if needless and device(platform).target.bare else target


def fusion_of(module: Module, kind: str = "loop") -> Fusion:
    """The whole entry computation as one fusion."""
    root = module.entry.root
    outputs = tuple(root.operands) if root.opcode == "tuple" else (root,)
    instructions = [i for i in module.entry.instructions if i.opcode != "parameter"]
    instructions = [i for i in instructions if root.opcode != "tuple" or i is not root]
    large = [i for i in instructions if i.opcode == "constant" and i.shape.size > MAX_LITERALS]
    hero = next((i for i in instructions if i.opcode in (kind, "dynamic-update-slice", "reduce")), None)
    members = tuple(i for i in instructions if i not in large)
    return Fusion(
        "fusion", kind, members, (*module.entry.parameters, *large), outputs, None if kind == "loop" else hero
    )


class ConditionalBlock(Block):
    """A block that knows whether the next statement stands under an if or else."""

    def __init__(self) -> None:
        super().__init__()
        self.conditions = 0

    @contextmanager
    def scope(self, head: str = "") -> Iterator[None]:
        condition = head.startswith(("if ", "else"))
        self.conditions += condition
        with super().scope(head):
            yield
        self.conditions -= condition


class RecordingEmitter(ElementalIrEmitter):
    """Notes the loads and stores that it writes into a ConditionalBlock, under the names of their C variables."""

    def __init__(self, fusion: Fusion) -> None:
        pointers = {i: f"a{n}" for n, i in enumerate((*fusion.inputs, *fusion.outputs))}
        super().__init__(fusion, DEFAULT_CPU, pointers)
        self.accesses: list[Access] = []
        self.stores: list[Store] = []
        self.counters: set[str] = set()  # the variables of loops inside of one element, and shifts

    def loop(self, *arguments, **options):
        index, scope = super().loop(*arguments, **options)
        self.counters |= index.variables
        return index, scope

    def shift(self, *arguments):
        index = super().shift(*arguments)
        self.counters |= index.variables
        return index

    def store(self, instruction, indices, block):
        value = self.value(instruction, indices, block)
        super().store(instruction, indices, block)
        self.stores.append(Store(instruction, linearize(indices, instruction.shape.dimensions), value))

    def _load(self, instruction, indices, block):
        loaded = yield from super()._load(instruction, indices, block)
        position = linearize(indices, instruction.shape.dimensions)
        conditional = block.conditions > 0 or not self.counters.isdisjoint(position.variables)
        self.accesses.append(Access(instruction, indices, position, conditional, loaded))
        return loaded


class Compiled:
    """A fusion's kernels; called with the module's arguments it returns the outputs."""

    def __init__(self, fusion: Fusion, target: Target = DEFAULT_CPU, platform: str = POCL) -> None:
        self.fusion, self.queue = fusion, queue(platform)
        self.kernels: tuple[Kernel, ...] = emit(fusion, target)
        self.program: Program = program(self.kernels, target)
        self._target, self._platform = without_header(target, platform), platform
        self._memory: dict[str, np.ndarray] = {}

    @cached_property
    def _launches(self) -> list[tuple[Kernel, cl.Kernel, int]]:
        """Each kernel with what is launched for it, and its number there. A test that reads the text alone does not
        wait for the device's compiler."""
        launched = program(self.kernels, self._target)
        options = [*_OPTIONS[self._platform], *build_options(self._target)]
        built = cl.Program(self.queue.context, launched.source).build(options)
        functions = {name: cl.Kernel(built, name) for name, _ in launched.entries}
        return [(k, functions[name], which) for k, (name, which) in zip(self.kernels, launched.entries, strict=True)]

    def __call__(self, *args: np.ndarray) -> tuple[np.ndarray, ...]:
        values = dict(zip([i for i in self.fusion.inputs if i.opcode == "parameter"], args, strict=True))
        values |= {i: np.asarray(i.attributes["literal"]) for i in self.fusion.inputs if i.opcode == "constant"}
        values = {i: np.ascontiguousarray(v) for i, v in values.items()}
        outputs = {o: np.empty(o.shape.dimensions, o.shape.element_type.dtype) for o in self.fusion.outputs}
        for kernel in self.kernels:
            for a in kernel.arguments:
                if a.updates is not None:
                    outputs[a.instruction][...] = values[a.updates]
        self.launch(values, outputs)
        return tuple(outputs[o] for o in self.fusion.outputs)

    def launch(self, values: dict, outputs: dict) -> None:
        """Runs the kernels on arrays that are there already."""
        held = []  # until they have run
        for n, (kernel, function, which) in enumerate(self._launches):
            if kernel.items == 0:
                continue
            arrays = []
            for m, a in enumerate(kernel.arguments):
                if a.role in ("scratch", "workspace"):
                    key = a.scratch or f"{n}.{m}"
                    arrays.append(self._memory.setdefault(key, aligned(np.zeros(max(1, a.bytes), np.uint8))))
                else:
                    known = (
                        {} if a.instruction.opcode != "constant" else {a.instruction: aligned(a.instruction.literal)}
                    )
                    arrays.append((outputs if a.role == "output" else known | values)[a.instruction])
            arrays = [np.atleast_1d(a).view(np.uint8) if a.size else None for a in arrays]
            held.append(arrays)
            pointers = [None if a is None else cl.SVM(a) for a in arrays]
            if self.queue.device.platform.name != POCL:
                flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
                pointers = [None if a is None else cl.Buffer(self.queue.context, flags, hostbuf=a) for a in arrays]
            function(self.queue, (kernel.items,), (kernel.work_group or 1,), np.int32(which), np.int32(0), *pointers)
            for a, p, argument in zip(arrays, pointers, kernel.arguments, strict=True):
                if isinstance(p, cl.Buffer) and argument.role != "input":
                    cl.enqueue_copy(self.queue, a, p)
        self.queue.finish()


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy that begins where a plan's buffers do."""
    memory = np.empty(values.nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    copy = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def text_of(compiled: Compiled) -> str:
    """The C of all kernels and of what they call."""
    return "".join(text for k in compiled.kernels for text in (k.body, *k.helpers))


def reports(printed: str, compiled: Compiled) -> list[str]:
    """What Oclgrind has printed of wrong accesses and races, one text for each.

    It knows of no order between items that an atomic counter makes, so that races do not count where kernels have one.
    Nor does the number of its compiler's warnings, which are of loops that it does not unroll.
    """
    printed = re.sub(r"^\d+ warnings? generated\.\n", "", printed, flags=re.MULTILINE)
    found = [report for report in re.split(r"\n(?=\S)", printed) if report.strip()]
    counted = "RX_ARRIVE" in text_of(compiled)
    return [report for report in found if not (counted and "data race" in report.splitlines()[0])]


def check(
    text: str, *args: np.ndarray, kind: str = "loop", exact: bool = True, rtol: float = 1e-6, **device
) -> Compiled:
    """Compiles the program, runs it and compares with the specification's interpreter."""
    module = parse(text)
    compiled = Compiled(fusion_of(module, kind), **device)
    expected = interpreter.run(module, args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(compiled(*args), expected, strict=True):
        if exact:
            # A bfloat16 NaN is not equal to itself even here; as f64 it is.
            wide = (got.astype(np.float64), want.astype(np.float64)) if got.dtype.kind == "V" else (got, want)
            np.testing.assert_array_equal(*wide)
        else:
            scale = np.max(np.abs(want.astype(np.complex128)), initial=1)
            np.testing.assert_allclose(got.astype(np.complex128), want.astype(np.complex128), rtol, rtol * scale)
    return compiled


def random_array(name: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Random bits, of a floating-point type random numbers."""
    dtype = ELEMENT_TYPES[name].dtype
    if name in ("pred", "s4"):
        return _rng.integers(0, 2, sizes).astype(dtype)
    if name in ("c64", "c128"):
        return (_rng.standard_normal(sizes) + 1j * _rng.standard_normal(sizes)).astype(dtype)
    if name[0] in "su":
        return _rng.integers(0, 256, (*sizes, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    return _rng.standard_normal(sizes).astype(dtype)


def check_within(lines: str, *args: np.ndarray, offset: int = 0) -> str:
    """Runs the lines as one kernel, and compares with the interpreter, bit for bit; returns the kernel's C.

    Results begin `offset` elements after a cache line, and what lies around them must not change.
    """
    module = parse(f"HloModule m\nENTRY main {{\n{lines}\n}}")
    compiled = Compiled(fusion_of(module), DEFAULT_CPU)
    wanted = interpreter.run(module, args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    inputs = dict(zip(compiled.fusion.inputs, map(np.ascontiguousarray, args), strict=True))
    rooms, outputs = [], {}
    for o in compiled.fusion.outputs:
        dtype = np.dtype(o.shape.element_type.dtype)
        room = _rng.integers(0, 256, (o.shape.size + 2 * GUARD) * dtype.itemsize + 64, np.uint8)
        room = room[-room.ctypes.data % 64 :]
        begin = (GUARD + offset) * dtype.itemsize
        outputs[o] = room[begin:][: o.shape.size * dtype.itemsize].view(dtype).reshape(o.shape.dimensions)
        rooms.append((room, begin, outputs[o].nbytes, room.copy()))
    compiled.launch(inputs, outputs)
    for o, want in zip(compiled.fusion.outputs, wanted, strict=True):
        np.testing.assert_array_equal(outputs[o].view(np.uint8), np.ascontiguousarray(want).view(np.uint8))
    for room, begin, size, before in rooms:
        assert (room[:begin] == before[:begin]).all() and (room[begin + size :] == before[begin + size :]).all()
    return compiled.program.source
