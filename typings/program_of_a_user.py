"""What a program of a user's sees of refxla's types: checked with the packages, never run."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Module
from typing_extensions import assert_type

import refxla
from refxla.compiler.driver import Compiled, Reference

x = np.ones((2, 3), np.float32)

# Programs of HLO.
module = refxla.parse("ROOT x = f32[2,3] parameter(0)")
assert_type(module, Module)
program = refxla.compile(module, without=["fusion"])
assert_type(program, Compiled | Reference)
assert_type(program.hlo, Module)


# Functions: what is compiled takes and gives what the function does, and has what an executable has.
@refxla.compile
def scaled(a: np.ndarray, factor: float = 2.0) -> np.ndarray:
    return a * factor


assert_type(scaled(x, factor=3.0), np.ndarray)
scaled.compile(x)
scaled.save("scaled.refxla")
scaled("text")  # type: ignore[arg-type]  # as of the function itself


def sum_of(a: float, b: float) -> float:
    return a + b


assert_type(refxla.compile(sum_of, 1.0, b=2.0, tune=True)(3.0, 4.0), float)  # example arguments, also by keyword

# Arrays that stay on a device.
on_device = refxla.device_put(x)
assert_type(on_device, refxla.Array)
assert_type(on_device.shape, tuple[int, ...])
assert_type(on_device.block_until_ready().nbytes, int)
assert_type(2 * on_device + x, refxla.Array)
back: np.ndarray = np.asarray(on_device)

for device in refxla.devices():
    assert_type(device.name, str)

key = refxla.random.key(0)
draws = refxla.random.normal(key, (2, 3))

try:
    refxla.load("scaled.refxla", machine_code=False)
except refxla.InputError as problem:
    assert_type(str(problem), str)
