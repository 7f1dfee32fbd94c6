"""What a program of a user's sees of refxla's types: checked with the packages, never run."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Module
from typing_extensions import assert_type

import refxla
from refxla.compiler.driver import Compiled, Reference
from refxla.typing import Result

x: np.ndarray = np.ones((2, 3), np.float32)

# Programs of HLO.
module = refxla.parse("ROOT x = f32[2,3] parameter(0)")
assert_type(module, Module)
program = refxla.compile(module, without=["fusion"])
assert_type(program, Compiled | Reference)
assert_type(program.hlo, Module)
assert_type(program(x), Result)


# Functions: what is compiled takes and gives what the function does, and has what an executable has.
@refxla.compile
def scaled(a: np.ndarray, factor: float = 2.0) -> np.ndarray:
    return a * factor


assert_type(scaled(x, factor=3.0), np.ndarray)
scaled.compile(x)
scaled.save("scaled.refxla")
assert_type(scaled.hlo, Module)
assert_type(scaled.opencl, str)
print(scaled.explain(), scaled.plan, scaled.memory)
print(scaled.code)  # type: ignore[attr-defined]  # there is no such attribute
scaled("text")  # type: ignore[arg-type]  # as of the function itself


class Layer:
    @refxla.compile
    def forward(self, a: np.ndarray) -> np.ndarray:
        return a

    @refxla.compile
    @staticmethod
    def halved(a: np.ndarray) -> np.ndarray:
        return a / 2


assert_type(Layer().forward(x), np.ndarray)
assert_type(Layer().forward.hlo, Module)
assert_type(Layer.halved(x), np.ndarray)
Layer().forward("text")  # type: ignore[arg-type]  # as of the function itself


def sum_of(a: float, b: float) -> float:
    return a + b


assert_type(refxla.compile(sum_of, 1.0, b=2.0, tune=True)(3.0, 4.0), float)  # example arguments, also by keyword

# Arrays that stay on a device.
on_device = refxla.device_put(x)
assert_type(on_device, refxla.Array)
assert_type(on_device.shape, tuple[int, ...])
assert_type(on_device.block_until_ready().nbytes, int)
assert_type(2 * on_device + x, refxla.Array)
assert_type(on_device[0, 1:], refxla.Array)
assert_type(on_device.dtype, np.dtype)
back: np.ndarray = np.asarray(on_device)
assert_type(refxla.array_api.sin(on_device), refxla.Array)
assert_type(refxla.array_api.linalg.qr(on_device).R, refxla.Array)
refxla.array_api.zeros((2, 3), dtype=refxla.array_api.float32, device="cpu")

for device in refxla.devices():
    assert_type(device.name, str)

key = refxla.random.key(0)
assert_type(refxla.random.normal(key, (2, 3), np.float32), np.ndarray)

# Control flow has the types of its functions and of its state.


def step(i: int, state: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
    return state[0] * 2, state[1] + i


def positive(a: np.ndarray) -> np.ndarray:
    return a


assert_type(refxla.fori_loop(0, 3, step, (x, 0.0)), tuple[np.ndarray, float])
assert_type(refxla.cond(True, positive, positive, x), np.ndarray)
assert_type(refxla.vmap(positive)(x), np.ndarray)

try:
    refxla.load("scaled.refxla", machine_code=False)
except refxla.InputError as problem:
    assert_type(str(problem), str)
