"""Hand-made plans for the tests of the runtime, and a cache of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from refxla_spec.types import Shape

from refxla.codegen.opencl_program import program
from refxla.ir.plan import Argument, Buffer, Kernel, Launch, Plan, Step
from refxla.runtime.devices import Device, find

C_TYPES = {
    "f32": "float",
    "s32": "int",
    "s64": "long",
    "u64": "ulong",
    "pred": "uchar",
    "f64": "double",
    "s8": "char",
    "c128": "double2",
}


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFXLA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("REFXLA_DEVICE", raising=False)
        yield


@pytest.fixture(scope="session")
def device() -> Device:
    return find("pocl")


class Maker:
    """Makes a plan: declare buffers, then kernels that name them, then steps."""

    def __init__(self, name: str = "handmade") -> None:
        self.name = name
        self.buffers: list[Buffer] = []
        self.kernels: list[Kernel] = []
        self.parameters: list[Shape] = []
        self.results: list[Shape] = []
        self.constants: list[tuple[int, np.ndarray]] = []
        self.sizes = {"constant": 0, "arena": 0, "workspace": 0}

    def _add(self, kind: str, dims: tuple[int, ...], space: str, index: int = 0, offset: int = 0) -> int:
        shape = Shape.array(kind, dims)
        self.buffers.append(Buffer(f"v{len(self.buffers)}", shape, shape.bytes, space, index, offset))
        return len(self.buffers) - 1

    def parameter(self, kind: str, *dims: int) -> int:
        self.parameters.append(Shape.array(kind, dims))
        return self._add(kind, dims, "parameter", len(self.parameters) - 1)

    def result(self, kind: str, *dims: int) -> int:
        self.results.append(Shape.array(kind, dims))
        return self._add(kind, dims, "result", len(self.results) - 1)

    def inside(self, space: str, kind: str, *dims: int) -> int:
        """A buffer in the arena or the workspace."""
        number = self._add(kind, dims, space, offset=self.sizes[space])
        self.sizes[space] += -(-max(1, self.buffers[number].bytes) // 128) * 128
        return number

    def constant(self, value: np.ndarray) -> int:
        kind = Shape.of(value)
        number = self.inside("constant", kind.element_type.name, *kind.dimensions)
        self.constants.append((self.buffers[number].offset, value))
        return number

    def launch(self, body: str, inputs: list[int], outputs: list[int], items: int = 1) -> Launch:
        """A launch of a new kernel; a0.. are the inputs, then the outputs."""
        arguments = [Argument("input", self._ctype(b)) for b in inputs]
        arguments += [Argument("output", self._ctype(b)) for b in outputs]
        self.kernels.append(Kernel(f"kernel{len(self.kernels)}", body + "\n", tuple(arguments), items))
        return Launch(len(self.kernels) - 1, (*inputs, *outputs))

    def _ctype(self, buffer: int) -> str:
        return C_TYPES[self.buffers[buffer].shape.element_type.name]

    def plan(self, *steps: Step) -> Plan:
        return Plan(
            name=self.name,
            kernels=tuple(self.kernels),
            buffers=tuple(self.buffers),
            steps=steps,
            parameters=tuple(self.parameters),
            results=tuple(self.results),
            constants=tuple(self.constants),
            constant_bytes=self.sizes["constant"],
            arena_bytes=self.sizes["arena"],
            workspace_bytes=self.sizes["workspace"],
        )


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def executable(device):
    """plan -> Executable on PoCL."""
    from refxla.runtime.executable import Executable

    return lambda plan: Executable(plan, program(plan.kernels, device.target), device)


@pytest.fixture(params=["host", "buffer"])
def execute(request, device):
    """plan -> Executor on PoCL, with each way of reaching memory."""
    from refxla._core.executor import Executor
    from refxla.runtime.program_build import build

    def make(plan: Plan) -> Executor:
        text = program(plan.kernels, replace(device.target, offsets=request.param == "buffer"))
        built = build(device, text)
        run = Executor(plan, device.queue(device.small), device.context, access=request.param, local=1)
        run.assemble(text.entries, built)
        return run

    return make
