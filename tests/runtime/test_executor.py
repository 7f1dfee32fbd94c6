"""The executor on hand-made plans: steps, memory, arguments, threads, interruption."""

from __future__ import annotations

import signal
import threading

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.errors import DeviceError, Error, InputError

from refxla._core.executor import Executor
from refxla.codegen.opencl_program import program
from refxla.ir.plan import Branch, Copy, Loop, Repeat
from refxla.runtime.program_build import build

INCREMENT = "for (int i = 0; i < 64; ++i) a1[i] = a0[i] + 1.0f;"


def test_one_kernel(execute, maker):
    x, y = maker.parameter("f32", 64), maker.result("f32", 64)
    run = execute(maker.plan(maker.launch(INCREMENT, [x], [y])))
    for start in range(3):
        given = np.arange(start, start + 64, dtype=np.float32)
        (out,) = run(given)
        assert out.dtype == np.float32 and out.shape == (64,) and out.flags.writeable and out.flags.c_contiguous
        np.testing.assert_array_equal(out, given + 1)


def test_items_cover_the_range(execute, maker):
    x, y = maker.parameter("s32", 5, 7), maker.result("s32", 5, 7)
    body = "for (int i = 0; i < 7; ++i) a1[item * 7 + i] = a0[item * 7 + i] * (item + 1);"
    run = execute(maker.plan(maker.launch(body, [x], [y], items=5)))
    given = np.arange(35, dtype=np.int32).reshape(5, 7)
    np.testing.assert_array_equal(run(given)[0], given * np.arange(1, 6)[:, None])


def test_arena_constants_workspace_and_copies(execute, maker):
    x, y, z = maker.parameter("f32", 64), maker.result("f32", 64), maker.result("s32")
    c = maker.constant(np.linspace(0, 1, 64, dtype=np.float32))
    first, second = maker.inside("arena", "f32", 64), maker.inside("arena", "f32", 64)
    counter = maker.inside("workspace", "s32")
    steps = (
        maker.launch("for (int i = 0; i < 64; ++i) a2[i] = a0[i] * a1[i];", [x, c], [first]),
        Copy(first, second),
        maker.launch("for (int i = 0; i < 64; ++i) a1[i] = a0[i] + a0[63 - i];", [second], [y]),
        maker.launch("a0[0] += 1; a1[0] = a0[0];", [], [counter, z]),
    )
    run = execute(maker.plan(*steps))
    given = np.arange(64, dtype=np.float32)
    product = given * np.linspace(0, 1, 64, dtype=np.float32)
    for call in (1, 2, 3):
        out, count = run(given)
        np.testing.assert_array_equal(out, product + product[::-1])
        assert count.shape == () and count == call  # the workspace begins at zero and lasts from call to call


def test_copies_alone(execute, maker):
    x, between, y = maker.parameter("f32", 64), maker.inside("arena", "f32", 64), maker.result("f32", 64)
    given = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(execute(maker.plan(Copy(x, between), Copy(between, y)))(given)[0], given)


def collatz(maker, limit="s32"):
    """The steps to 1, by a loop with a branch in it."""
    n, out = maker.parameter("s32"), maker.result("s32")
    value, count = maker.inside("arena", "s32"), maker.inside("arena", "s32")
    more, odd = maker.inside("arena", "pred"), maker.inside("arena", "pred")
    begin = (Copy(n, value), maker.launch("a0[0] = 0;", [], [count]))
    condition = (maker.launch("a1[0] = a0[0] != 1;", [value], [more]),)
    body = (
        maker.launch("a1[0] = a0[0] % 2; a2[0] += 1;", [value], [odd, count]),
        Branch(
            odd,
            (
                (maker.launch("a0[0] = 3 * a0[0] + 1;", [], [value]),),
                (maker.launch("a0[0] /= 2;", [], [value]),),
            ),
        ),
    )
    return maker.plan(*begin, Loop(condition, more, body), Copy(count, out))


@pytest.mark.parametrize("start, steps", [(1, 0), (2, 1), (27, 111), (97, 118)])
def test_loop_and_branch(execute, maker, start, steps):
    assert execute(collatz(maker))(np.int32(start))[0] == steps


def test_nested_loops(execute, maker):
    rows, columns, out = maker.parameter("s32"), maker.parameter("s32"), maker.result("s32")
    i, j, total = (maker.inside("arena", "s32") for _ in range(3))
    outer, inner = maker.inside("arena", "pred"), maker.inside("arena", "pred")
    plan = maker.plan(
        maker.launch("a0[0] = 0; a1[0] = 0;", [], [i, total]),
        Loop(
            (maker.launch("a2[0] = a0[0] < a1[0];", [i, rows], [outer]),),
            outer,
            (
                maker.launch("a0[0] = 0;", [], [j]),
                Loop(
                    (maker.launch("a2[0] = a0[0] < a1[0];", [j, columns], [inner]),),
                    inner,
                    (maker.launch("a2[0] += a0[0] * 10 + a1[0]; a1[0] += 1;", [i], [j, total]),),
                ),
                maker.launch("a0[0] += 1;", [], [i]),
            ),
        ),
        Copy(total, out),
    )
    run = execute(plan)
    for m, n in ((0, 3), (3, 0), (4, 5)):
        assert run(np.int32(m), np.int32(n))[0] == sum(10 * a + b for a in range(m) for b in range(n))


@pytest.mark.parametrize("rows, columns", [(0, 3), (3, 0), (4, 5), (60, 70)])
def test_repeats(execute, maker, rows, columns):
    """Turns in turns, with counters from tables; and more launches than are left in the queue at once."""
    i_values, j_values = (maker.constant(np.arange(n + 1, dtype=np.int32) * 2) for n in (rows, columns))
    i, j, total, out = *(maker.inside("arena", "s32") for _ in range(3)), maker.result("s64")
    inner = maker.launch("a2[0] += a0[0] * 10 + a1[0];", [i, j], [total])
    plan = maker.plan(
        maker.launch("a0[0] = 0;", [], [total]),
        Repeat(
            rows,
            (Repeat(columns, (inner,), j, j_values), Repeat(2, (maker.launch("a0[0] += 1;", [], [total]),))),
            i,
            i_values,
        ),
        maker.launch("a1[0] = a0[0];", [total], [out]),
    )
    run = execute(plan)
    expected = sum(20 * a + 2 * b for a in range(rows) for b in range(columns)) + 2 * rows
    for _ in range(2):
        assert run()[0] == expected


@pytest.mark.parametrize("index, branch", [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (-(2**31), 2), (2**31 - 1, 2)])
def test_switch_takes_the_last_branch_when_out_of_range(execute, maker, index, branch):
    chosen, out = maker.parameter("s32"), maker.result("s32")
    branches = tuple((maker.launch(f"a0[0] = {n};", [], [out]),) for n in range(3))
    assert execute(maker.plan(Branch(chosen, branches)))(np.int32(index))[0] == branch


@pytest.mark.parametrize("value, branch", [(True, 0), (False, 1)])
def test_a_pred_chooses_the_first_branch_when_true(execute, maker, value, branch):
    chosen, out = maker.parameter("pred"), maker.result("s32")
    branches = tuple((maker.launch(f"a0[0] = {n};", [], [out]),) for n in range(2))
    assert execute(maker.plan(Branch(chosen, branches)))(np.bool_(value))[0] == branch


def test_nothing_to_do(execute, maker):
    x, y = maker.parameter("f32", 0, 3), maker.result("f32", 0, 3)
    run = execute(maker.plan(maker.launch("a1[item] = a0[item];", [x], [y], items=0), Copy(x, y)))
    (out,) = run(np.zeros((0, 3), np.float32))
    assert out.shape == (0, 3)


def test_many_parameters_and_results(execute, maker):
    xs = [maker.parameter("s8", n) for n in range(1, 20)]
    ys = [maker.result("s8", n) for n in range(1, 20)]
    run = execute(maker.plan(*(Copy(x, y) for x, y in zip(xs, ys, strict=True))))
    given = [np.full(n, n, np.int8) for n in range(1, 20)]
    for a, b in zip(given, run(*given), strict=True):
        np.testing.assert_array_equal(a, b)


# Arguments and results -----------------------------------------------------------------------------------------------


def address_of(maker, kind="f32", *dims):
    x, y, z = maker.parameter(kind, *dims), maker.result("u64"), maker.result("u64")
    return maker.plan(maker.launch("a1[0] = (ulong)a0; a2[0] = (ulong)a2;", [x], [y, z]))


def test_host_memory_is_used_in_place(executable, maker):
    run = executable(address_of(maker, "f32", 8))
    x = np.zeros(9, np.float32)
    for given in (x[1:], x[:8], x[:8].reshape(2, 4).reshape(8)):
        argument, result = run(given)
        assert argument == given.ctypes.data
        assert result == result.ctypes.data


def test_what_is_not_dense_or_aligned_is_copied(executable, maker):
    run = executable(address_of(maker, "c128", 4))
    room = np.zeros(200, np.uint8)
    start = -room.ctypes.data % 16
    for offset in (4, 8):  # 8 is enough for NumPy, and half an element
        given = room[start + offset : start + offset + 64].view(np.complex128)
        address = int(run(given)[0])
        assert address != given.ctypes.data and address % 16 == 0
    assert int(run(np.zeros(8, np.complex128)[::2])[0]) % 16 == 0


def test_layouts_and_protocols(execute, maker):
    x, y = maker.parameter("f32", 4, 6), maker.result("f32", 4, 6)
    run = execute(maker.plan(Copy(x, y)))
    base = np.arange(48, dtype=np.float32).reshape(8, 6)
    read_only = base[:4].copy()
    read_only.flags.writeable = False

    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return base[:4]

    class Lent:
        def __dlpack__(self, **options):
            return base[:4].__dlpack__(**options)

        def __dlpack_device__(self):
            return base.__dlpack_device__()

    for given in (base[:4], base[::2], base[::-1][:4], np.asfortranarray(base[:4]), base[:4][:, ::-1], read_only):
        np.testing.assert_array_equal(run(given)[0], given)
    for given in (Wrapped(), Lent(), memoryview(base[:4])):
        np.testing.assert_array_equal(run(given)[0], base[:4])


def test_jax_arrays_are_used_in_place(executable, maker):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(8, dtype="float32")
    assert executable(address_of(maker, "f32", 8))(x)[0] == x.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        ("f32", 1.5, 1.5),
        ("f32", 3, 3.0),
        ("f32", np.float32(2.5), 2.5),
        ("s32", -7, -7),
        ("pred", True, True),
        ("bf16", 0.5, 0.5),
        ("c64", 1 + 2j, 1 + 2j),
    ],
)
def test_scalars(execute, maker, kind, value, expected):
    x, y = maker.parameter(kind), maker.result(kind)
    (out,) = execute(maker.plan(Copy(x, y)))(value)
    assert isinstance(out, np.ndarray) and out.shape == () and out == expected


@pytest.mark.parametrize(
    "kind, dims, value, message",
    [
        ("s32", (), 1.0, "is the float 1.0, and the program takes s32[]"),
        ("s32", (), 2**31, "is the int 2147483648, and the program takes s32[]"),
        ("u64", (), -1, "is the int -1, and the program takes u64[]"),
        ("s32", (), True, "is the bool True, and the program takes s32[]"),
        ("pred", (), 1, "is the int 1, and the program takes pred[]"),
        ("f32", (), 1j, "is the complex 1j, and the program takes f32[]"),
        ("f32", (3,), 1.0, "is the float 1.0, and the program takes f32[3]"),
        ("f32", (3,), np.zeros(3), "is f64[3], and the program takes f32[3]"),
        ("f32", (3,), np.zeros(4, np.float32), "is f32[4], and the program takes f32[3]"),
        ("f32", (3,), np.zeros((3, 1), np.float32), "is f32[3,1], and the program takes f32[3]"),
        ("f32", (3,), np.zeros(3, ">f4"), "NumPy type >f4"),
        ("f32", (3,), np.zeros(3, object), "NumPy type object"),
        ("f32", (3,), np.array(["a", "b", "c"]), "NumPy type <U1"),
        ("s8", (3,), np.zeros(3, ml_dtypes.int4), "is s4[3], and the program takes s8[3]"),
        ("f32", (3,), [1.0, 2.0, 3.0], "is a list, and the program takes f32[3]"),
        ("f32", (3,), None, "is a NoneType, and the program takes f32[3]"),
        ("f32", (3,), "abc", "is a str, and the program takes f32[3]"),
        ("f32", (), np.float64(1), "is f64[], and the program takes f32[]"),
    ],
)
def test_arguments_that_do_not_fit(execute, maker, kind, dims, value, message):
    x, y = maker.parameter(kind, *dims), maker.result(kind, *dims)
    run = execute(maker.plan(Copy(x, y)))
    with pytest.raises(InputError) as caught:
        run(value)
    assert message in str(caught.value) and "argument 0 (v0)" in str(caught.value)


def test_wrong_number_of_arguments(execute, maker):
    xs = [maker.parameter("f32", 2) for _ in range(2)]
    run = execute(maker.plan(Copy(xs[0], maker.result("f32", 2))))
    x = np.zeros(2, np.float32)
    for given in ((), (x,), (x, x, x)):
        with pytest.raises(InputError, match=f"takes 2 arguments .*v0.*f32\\[2\\].*, {len(given)} given"):
            run(*given)


def test_results_stay_what_they_are(executable, maker):
    x, y = maker.parameter("f32", 64), maker.result("f32", 64)
    run = executable(maker.plan(maker.launch(INCREMENT, [x], [y])))
    kept = [run(np.full(64, n, np.float32))[0] for n in range(50)]
    views = [k[1:3] for k in kept[::2]]
    addresses = {k.ctypes.data for k in kept}
    assert len(addresses) == 50 and all(a % 64 == 0 for a in addresses)
    del kept[::2]
    for n in range(100, 150):  # the views still hold the memory of the arrays that are gone
        run(np.full(64, n, np.float32))
    assert [float(k[0]) for k in kept] == [n + 1 for n in range(1, 50, 2)]
    assert [float(v[0]) for v in views] == [n + 1 for n in range(0, 50, 2)]


def test_memory_is_used_again(executable, maker):
    x, y = maker.parameter("f32", 64), maker.result("f32", 64)
    run = executable(maker.plan(maker.launch(INCREMENT, [x], [y])))
    given = np.zeros(64, np.float32)
    assert len({run(given)[0].ctypes.data for _ in range(20)}) <= 2


# Threads, signals, failures ------------------------------------------------------------------------------------------


def test_threads_take_turns(executable, maker):
    x, y, half = maker.parameter("f32", 64), maker.result("f32", 64), maker.inside("arena", "f32", 64)
    run = executable(
        maker.plan(
            maker.launch("for (int i = 0; i < 64; ++i) a1[i] = a0[i] * 2.0f;", [x], [half]),
            maker.launch(INCREMENT, [half], [y]),
        )
    )
    wrong: list[object] = []

    def work(seed: int) -> None:
        for n in range(200):
            given = np.full(64, seed * 1000 + n, np.float32)
            (out,) = run(given)
            if not np.array_equal(out, given * 2 + 1):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def endless(maker):
    x, y, more = maker.parameter("pred"), maker.result("pred"), maker.inside("arena", "pred")
    loop = Loop((maker.launch("a1[0] = a0[0];", [x], [more]),), more, ())
    return maker.plan(loop, Copy(more, y))


@pytest.fixture
def alarm():
    """alarm(handler): call the handler as a signal, a tenth of a second from now, and again each tenth until it raises:
    on a machine that is busy, what it is to interrupt may not have begun by then."""

    def set_alarm(handler):
        def ring(*_):
            try:
                handler()
            except BaseException:
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    before = signal.getsignal(signal.SIGALRM)
    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_loop_can_be_interrupted(execute, maker, alarm):
    run = execute(endless(maker))

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alarm(interrupt)
        run(True)
    assert run(False)[0] == False  # noqa: E712  (a 0-d array) the executor still works


def test_no_call_within_a_call(execute, maker, alarm):
    run = execute(endless(maker))
    with pytest.raises(Error, match="signal handler"):
        alarm(lambda: run(False))
        run(True)
    assert not run(False)[0]


def test_a_kernel_that_is_not_in_the_program(device, maker):
    plan = maker.plan(maker.launch("a0[0] = 1;", [], [maker.result("s32")]))
    (built,) = set(build(device, program(plan.kernels, device.target)).values())
    with pytest.raises(DeviceError, match="kernel0 .nothing. cannot be made: INVALID_KERNEL_NAME"):
        Executor(plan, device.queue(device.small), device.context).assemble([("nothing", 0)], {"nothing": built})


def test_a_launch_that_the_device_refuses(device, maker):
    plan = maker.plan(maker.launch("a0[0] = 1;", [], [maker.result("s32")]))
    text = program(plan.kernels, device.target)
    built = build(device, text)
    run = Executor(plan, device.queue(device.small), device.context, local=1 << 20)
    run.assemble(text.entries, built)
    for _ in range(2):
        with pytest.raises(DeviceError, match="kernel0 of handmade failed on the device: INVALID_WORK_GROUP_SIZE"):
            run()


def test_a_compile_error_is_a_device_error(device, maker, executable):
    plan = maker.plan(maker.launch("this is not C;", [], [maker.result("s32")]))
    with pytest.raises(DeviceError, match="refuses a generated program") as caught:
        executable(plan)
    assert "this is not C" in str(caught.value)
