"""Arrays that stay on a device: what they are, and calls that take and give them."""

import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.errors import InputError

import refxla
from refxla._core import device_memory
from refxla._core.dlpack import array_of
from refxla.runtime.result_memory import usage

ADD = """HloModule m
ENTRY main { x = f32[1000] parameter(0)  y = f32[1000] parameter(1)  ROOT r = f32[1000] add(x, y) }"""
STEP = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (2, {}) }
ENTRY main { w = f32[1000] parameter(0)  g = f32[1000] parameter(1)  old = f32[3] parameter(2)
    n = f32[1000] subtract(w, g)  m = f32[3] negate(old)  ROOT r = (f32[1000], f32[3]) tuple(n, m) }"""


def address(array) -> int:
    return np.asarray(array).ctypes.data


def place_of(array) -> int:
    """Where the values lie; on a device with memory of its own, how many arrays of 1,000 have some there."""
    array.block_until_ready()
    return address(array) if array.device.access == "host" else device_memory.usage()[0] // 4000


def test_what_an_array_is():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = refxla.device_put(values)
    values[:] = 9  # it was copied
    assert (a.shape, a.dtype, a.ndim, a.size, a.nbytes, len(a)) == ((2, 3), np.float32, 2, 6, 24, 2)
    assert a.device in refxla.devices() and a.is_ready() and a.block_until_ready() is a and not a.is_deleted()
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert repr(a).startswith("refxla.Array([[0., 1., 2.],") and "dtype=float32" in repr(a)
    assert refxla.device_put(a) is a and refxla.device_put(a, a.device) is a
    scalar = refxla.device_put(2.5)
    assert float(scalar) == 2.5 and int(scalar) == 2 and bool(scalar) and scalar.item() == 2.5 and scalar.shape == ()
    with pytest.raises(TypeError, match="device_put"):
        refxla.Array()
    with pytest.raises(TypeError, match="no length"):
        len(scalar)


@pytest.mark.parametrize(
    "kind", [np.bool_, np.int8, np.uint64, np.float16, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4]
)
def test_views(kind):
    """Protocols give the memory itself, read-only; copies are copies."""
    values = np.arange(4).astype(kind)
    a = refxla.device_put(values)
    view = np.asarray(a)
    assert view.dtype == kind and (view == values).all() and np.asarray(a).ctypes.data == view.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    copy = np.array(a)
    assert copy.ctypes.data != view.ctypes.data
    copy[0] = 1
    if kind not in (ml_dtypes.bfloat16, ml_dtypes.int4):  # of which the protocols know nothing
        assert memoryview(a).readonly and bytes(memoryview(a)) == values.tobytes()
        if kind is not np.bool_:
            assert np.from_dlpack(a).ctypes.data == view.ctypes.data
        assert a.__dlpack_device__() == (1, 0)
    assert np.asarray(a, np.complex128).dtype == np.complex128


def test_dlpack_has_types_that_numpy_does_not_take():
    a = refxla.device_put(np.arange(4).astype(ml_dtypes.bfloat16))
    assert "dltensor_versioned" in repr(a.__dlpack__(max_version=(1, 0)))
    assert (array_of(a.__dlpack__()) == np.asarray(a)).all()
    assert array_of(a.__dlpack__(copy=True)).ctypes.data != np.asarray(a).ctypes.data
    capsule = a.__dlpack__()
    array_of(capsule)
    with pytest.raises(InputError, match="used before"):
        array_of(capsule)
    with pytest.raises(BufferError, match="int4"):
        refxla.device_put(np.zeros(2, ml_dtypes.int4)).__dlpack__()
    with pytest.raises(BufferError, match="host's memory"):
        a.__dlpack__(dl_device=(2, 0))


def test_a_view_outlives_the_array():
    a = refxla.device_put(np.ones(5000, np.float32))
    view = np.asarray(a)
    a.delete()
    assert a.is_deleted() and "deleted" in repr(a)
    others = [refxla.device_put(np.zeros(5000, np.float32)) for _ in range(4)]
    assert view.sum() == 5000 and len(others) == 4
    for use in (a.block_until_ready, a.tolist, lambda: np.asarray(a), a.is_ready, lambda: refxla.device_put(a)):
        with pytest.raises(InputError, match=r"f32\[5000\] was deleted or donated"):
            use()
    a.delete()  # a second time is nothing


def test_memory_comes_back():
    gc.collect()
    before = usage()[0]
    arrays = [refxla.device_put(np.ones(1 << 16, np.float32)) for _ in range(4)]
    assert usage()[0] >= before + (4 << 18)
    known = weakref.ref(arrays[0])
    del arrays
    assert known() is None and usage()[0] == before


def test_what_cannot_be_put():
    for value in (np.array(["a"]), np.zeros(2, object), np.zeros(2, np.longdouble)):
        with pytest.raises(InputError, match="has no type of HLO"):
            refxla.device_put(value)
    assert refxla.device_put(np.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert refxla.device_put(np.zeros((0, 3), np.float32)).tolist() == []
    assert refxla.device_put(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]


def test_an_executable_takes_and_gives_them():
    f = refxla.compile(ADD)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    a, b = refxla.device_put(x), refxla.device_put(y)
    c = f(a, b)
    assert type(c) is refxla.Array and c.device == a.device and (np.asarray(c) == x + 1).all()
    assert type(f(x, y)) is np.ndarray
    d = f(c, y)  # one is enough
    y[:] = 0
    assert type(d) is refxla.Array and (np.asarray(d) == x + 2).all()
    assert (np.asarray(f(d, d)) == 2 * x + 4).all()
    assert not any(v.is_deleted() for v in (a, b, c, d))


def test_arrays_that_do_not_fit():
    f = refxla.compile(ADD)
    a = refxla.device_put(np.ones(1000, np.float32))
    with pytest.raises(InputError, match=r"argument 1 \(y\) is f64\[1000\], and the program takes f32\[1000\]"):
        f(a, refxla.device_put(np.ones(1000)))
    with pytest.raises(InputError, match=r"is f32\[3\], and the program takes f32\[1000\]"):
        f(refxla.device_put(np.ones(3, np.float32)), a)
    with pytest.raises(InputError, match="takes 2 arguments"):
        f(a)
    a.delete()
    with pytest.raises(InputError, match=r"argument 0 \(x\), f32\[1000\], was deleted or donated"):
        f(a, a)


def test_another_device():
    f = refxla.compile(ADD, device="pocl:gpu")
    x = np.arange(1000, dtype=np.float32)
    a = refxla.device_put(x)
    with pytest.raises(
        InputError, match=r"argument 0 \(x\) lies on .*, and the program runs on pocl:gpu: refxla.device_put"
    ):
        f(a, x)
    b = refxla.device_put(a, "pocl:gpu")
    assert b.device != a.device and (np.asarray(f(b, b)) == 2 * x).all()


@pytest.mark.parametrize("device", [None, "pocl:gpu"])
def test_donation(device):
    """An Array for a parameter that may be overwritten is gone; the result lies there, unless somebody reads it."""
    step = refxla.compile(STEP, device=device)
    w, g = refxla.device_put(np.full(1000, 8.0, np.float32), device), np.ones(1000, np.float32)
    old = np.zeros(3, np.float32)
    place = place_of(w)
    for _ in range(3):
        before, donor = w, refxla.device_put(old, device)
        w, _ = step(w, g, donor)
        assert before.is_deleted() and donor.is_deleted() and place_of(w) == place
    view = np.asarray(w)
    again, _ = step(w, g, old)
    assert place_of(again) != place and (view == 5).all() and (np.asarray(again) == 4).all()
    with pytest.raises(InputError, match="deleted or donated"):
        step(w, g, old)
    plain = np.full(1000, 8.0, np.float32)  # nobody gave it away
    assert (step(plain, g, old)[0] == 7).all() and (plain == 8).all()
    both = refxla.compile(
        """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY main { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[4] subtract(x, y) }""",
        device=device,
    )
    twice = refxla.device_put(np.ones(4, np.float32), device)
    assert both(twice, twice).tolist() == [0] * 4 and twice.is_deleted()


def test_arrays_stay_on_a_device_with_memory_of_its_own():
    """Values come to the host when somebody there asks, and once."""
    add = refxla.compile(ADD, device="pocl:gpu")
    before = usage()[0], device_memory.usage()[0]
    x, y = (refxla.device_put(np.full(1000, v, np.float32), "pocl:gpu") for v in (1, 2))
    z = add(x, y)
    for _ in range(5):
        z = add(z, y)
    z.block_until_ready()
    host, there = usage()[0] - before[0], device_memory.usage()[0] - before[1]
    assert host == 0 and 3 * 4000 <= there < 5 * 4096
    view = np.asarray(z)
    assert (view == 13).all() and np.asarray(z).ctypes.data == view.ctypes.data and usage()[0] - before[0] < 2 * 4096
    del view
    assert (add(z, x).tolist() == np.full(1000, 14.0)).all()  # what the host has seen is still there
    assert (add(np.ones(1000, np.float32), y).tolist() == np.full(1000, 3.0)).all()
    del x, y, z
    gc.collect()
    assert device_memory.usage()[0] == before[1] and device_memory.trim() > 0 and device_memory.usage()[1] == 0


def test_a_donated_array_that_the_host_has_seen_gives_its_new_values():
    step = refxla.compile(STEP, device="pocl:gpu")
    w, g = refxla.device_put(np.full(1000, 8.0, np.float32), "pocl:gpu"), np.ones(1000, np.float32)
    assert w.tolist()[0] == 8  # the host has a copy
    w, _ = step(w, g, np.zeros(3, np.float32))
    assert (np.asarray(w) == 7).all()
    plain, _ = step(np.full(1000, 5.0, np.float32), g, refxla.device_put(np.zeros(3, np.float32), "pocl:gpu"))
    assert (np.asarray(plain) == 4).all()


def test_views_of_nothing_on_a_device():
    empty = refxla.device_put(np.zeros((0, 3), np.float32), "pocl:gpu")
    assert np.asarray(empty).shape == (0, 3) and empty.tolist() == []


def test_want_of_memory_on_a_device_names_the_program(monkeypatch):
    add = refxla.compile(ADD, device="pocl:gpu")
    x = refxla.device_put(np.zeros(1000, np.float32), "pocl:gpu")
    limit = device_memory.set_limit(device_memory.usage()[0])
    try:
        device_memory.trim()
        with pytest.raises(MemoryError, match="pocl:gpu for the results of m"):
            add(x, x)
        with pytest.raises(MemoryError, match="4000 bytes on pocl:gpu"):
            refxla.device_put(np.zeros(1000, np.float32), "pocl:gpu")
    finally:
        device_memory.set_limit(limit)
    assert add(x, x).tolist()[0] == 0


def test_a_call_that_finds_no_memory_leaves_nothing_to_the_next():
    add = refxla.compile(ADD, device="pocl:gpu")
    one, two = np.ones(1000, np.float32), np.full(1000, 2.0, np.float32)
    assert (add(one, one) == 2).all()  # what NumPy's calls need is there
    x = refxla.device_put(np.full(1000, 5.0, np.float32), "pocl:gpu")
    device_memory.trim()
    limit = device_memory.set_limit(device_memory.usage()[0] + 4096)  # the result, and no second argument
    try:
        with pytest.raises(MemoryError, match="no memory for the arguments"):
            add(x, one).tolist()
    finally:
        device_memory.set_limit(limit)
    assert (add(two, two) == 4).all()


def test_numpy_functions():
    @refxla.compile
    def f(x, y, n):
        return {"sum": x + y * n, "count": (x > y).sum()}

    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    for _ in range(3):  # traced, by description, by the shortcut
        made = f(refxla.device_put(x), y, 2.0)
        assert type(made["sum"]) is refxla.Array and made["sum"].tolist() == [2, 3, 4, 5, 6] and int(made["count"]) == 3
        assert type(f(x, y, 2.0)["sum"]) is np.ndarray


def test_jax_functions():
    jax = pytest.importorskip("jax")

    @refxla.compile
    @jax.jit
    def step(state, g):
        return {k: v - g for k, v in state.items()}, g.sum()

    state = {k: refxla.device_put(np.full(7, float(n), np.float32)) for n, k in enumerate("ab")}
    g = np.ones(7, np.float32)
    for _ in range(3):
        state, total = step(state, g)
        assert type(state["b"]) is refxla.Array and float(total) == 7
    assert state["b"].tolist() == [-2] * 7

    given = refxla.compile(jax.jit(lambda w, g: (g.sum(), w - g), donate_argnums=0))
    w = refxla.device_put(np.full(7, 9.0, np.float32))
    place = address(w)
    for n in range(3):
        before = w
        _, w = given(w, g)
        assert before.is_deleted() and address(w) == place and w.tolist() == [8.0 - n] * 7
    plain = np.ones(7, np.float32)
    assert given(plain, g)[1].tolist() == [0] * 7 and plain.sum() == 7


def test_long_calls_return_early():
    jax = pytest.importorskip("jax")
    from refxla._core.execution import in_flight

    long = refxla.compile(jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda _, x: x @ x / 300, x)))
    x = refxla.device_put(np.ones((300, 300), np.float32))
    long(x)
    y = long(x)
    assert in_flight() == 1 and not y.is_ready()
    z = long(y)
    del y
    assert (np.asarray(z) == 1).all() and in_flight() == 0
    batch = np.ones((300, 300), np.float32)
    twice = refxla.compile(jax.jit(lambda x, b: jax.lax.fori_loop(0, 100, lambda _, x: x @ x / 300, x) + b))
    twice(x, batch)
    made = twice(x, batch)
    batch[:] = 7  # the call has it already
    assert (np.asarray(made) == 2).all()


def test_threads():
    f = refxla.compile(ADD)
    wrong = []

    def work(n):
        a = refxla.device_put(np.full(1000, float(n), np.float32))
        one = refxla.device_put(np.ones(1000, np.float32))
        for k in range(300):
            b = f(a, one)
            if k % 20 == 0 and (np.asarray(b) != n + 1).any():
                wrong.append(n)

    gc.collect()
    before = usage()[0]
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    gc.collect()
    assert not wrong and usage()[0] <= before
