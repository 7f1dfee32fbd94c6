"""The executable: how many threads share its work, and what it tells."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from refxla_spec.errors import DeviceError, InputError

from refxla.ir.plan import Loop
from refxla.runtime.devices import find
from refxla.runtime.executable import choose_cores
from refxla.runtime.result_memory import check_device_memory


def elementwise(maker, size: int, items: int):
    x, y = maker.parameter("f32", size), maker.result("f32", size)
    chunk = size // items
    body = f"for (int i = item * {chunk}; i < (item + 1) * {chunk}; ++i) a1[i] = a0[i] * 0.5f;"
    return maker.plan(maker.launch(body, [x], [y], items))


def test_large_programs_use_all_cores_and_small_ones_the_calling_thread(device, maker):
    cores, reason, gain = choose_cores(elementwise(maker, 64, 1), device)
    assert cores == 1 and "calling thread" in reason and gain == 0
    cores, reason, gain = choose_cores(elementwise(type(maker)(), 1 << 20, 64), device)
    assert cores == device.compute_units and "all" in reason and gain > 0
    assert choose_cores(elementwise(type(maker)(), 1 << 20, 1), device).cores == 1  # one item cannot be split
    only = find("pocl:pthread")  # has threads of its own
    assert choose_cores(elementwise(type(maker)(), 1 << 20, 64), only) == (1, "", 0)


def test_a_loop_is_weighed_by_one_iteration(device, maker):
    x, more = maker.inside("arena", "f32", 1 << 20), maker.inside("arena", "pred")
    step = maker.launch("a0[item] += 1.0f;", [], [x], items=64)
    plan = maker.plan(Loop((maker.launch("a0[0] = 0;", [], [more]),), more, (step,)))
    assert choose_cores(plan, device)[0] == device.compute_units


def test_both_give_the_same(device, maker, executable):
    plan = elementwise(maker, 1 << 16, 16)
    given = np.random.default_rng(0).standard_normal(1 << 16, np.float32)
    from refxla.codegen.opencl_program import program
    from refxla.runtime.executable import Executable

    for name in ("pocl", "pocl:basic", "pocl:pthread"):
        other = find(name)
        (out,) = Executable(plan, program(plan.kernels, other.target), other)(given)
        np.testing.assert_array_equal(out, given * np.float32(0.5))


def test_what_it_tells(maker, executable):
    x, y, c = maker.parameter("f32", 8), maker.result("f32", 8), maker.constant(np.ones(8, np.float32))
    run = executable(maker.plan(maker.launch("for (int i = 0; i < 8; ++i) a2[i] = a0[i] + a1[i];", [x, c], [y])))
    assert run.memory.parameters == 32 and run.memory.results == 32 and run.memory.constants == 128
    assert "constants 128 bytes" in str(run.memory)
    assert "a2[i] = a0[i] + a1[i];" in run.opencl and "__kernel" in run.opencl
    assert "it was asked for; in the calling thread" in run.device_reason
    assert repr(run) == "<Executable handmade: 1 kernel on pocl>"


def test_a_device_with_too_little_memory_is_refused(maker):
    plan = elementwise(maker, 1 << 20, 64)  # 4 MiB in, 4 MiB out

    def check(all_of_it: int, at_a_time: int, access: str = "buffer") -> None:
        raw = SimpleNamespace(global_mem_size=all_of_it << 20, max_mem_alloc_size=at_a_time << 20)
        check_device_memory(plan, SimpleNamespace(name="small:0", access=access, raw=raw))

    check(8, 4)
    check(1, 1, access="host")  # the arrays are the caller's
    with pytest.raises(DeviceError, match="small:0 has 7.0 MiB of memory, and the program needs 8.0 MiB"):
        check(7, 4)
    with pytest.raises(DeviceError, match="small:0 allocates 2.0 MiB at a time, too little for parameter 0, 4.0 MiB"):
        check(8, 2)


def test_memory_that_is_not_there_is_named(maker, executable):
    """The error says which result it is, and its shape."""
    y = maker.result("f32", 1 << 46)
    compiled = executable(maker.plan(maker.launch("a0[0] = 1;", [], [y], 1)))
    with pytest.raises(MemoryError, match=r"no memory for result 0, f32\[70368744177664\]: 281474976710656 bytes"):
        compiled()


def test_masked_elements_are_refused(maker, executable):
    """A program computes with all elements of an array."""
    compiled = executable(elementwise(maker, 4, 1))
    x = np.ma.array([1, 2, 3, 4], dtype=np.float32, mask=[0, 1, 0, 0])
    with pytest.raises(InputError, match=r"is a MaskedArray with masked elements, .*x\.filled\(value\)"):
        compiled(x)
    np.testing.assert_array_equal(compiled(np.ma.array(x.data))[0], x.data / 2)
    np.testing.assert_array_equal(compiled(x.data.view(np.recarray))[0], x.data / 2)
