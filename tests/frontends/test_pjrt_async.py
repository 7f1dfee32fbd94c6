"""Asynchronous execution: a call returns before its work is done, in order, and errors come where results are read."""

import subprocess

import pytest
from jax_programs import command, environment, interrupted, run

pytest.importorskip("jax")

# A program that takes some 20 ms or more; its first call says so, the next ones are deferred.
LONG = """
from refxla._core.execution import in_flight
long = jax.jit(lambda x: lax.fori_loop(0, 20, lambda _, x: x @ x / 300, x))
x = jnp.ones((300, 300))
long(x).block_until_ready()
"""


def test_a_call_returns_before_the_work_is_done():
    run(f"""{LONG}
small = jax.jit(lambda x: x[:3, 0] + 1)
jax.block_until_ready(small(x)), small(x)
longer = jax.jit(lambda x: lax.fori_loop(0, 600, lambda _, x: x @ x / 300, x))
longer(x).block_until_ready()
y = longer(x)
assert in_flight() == 1
z = small(y)  # after the one that it needs
assert in_flight() == 2
w = small(x)  # needs nothing that is in the queue
assert in_flight() == 2 and np.asarray(w)[0] == 2 and in_flight() == 2
assert np.asarray(z).sum() == 6 and in_flight() <= 1
    """)


def test_run_ahead_is_bounded():
    run(f"""{LONG}
most = 0
for _ in range(60):
    x = long(x)
    most = max(most, in_flight())
assert 2 <= most <= 32, most
assert float(x[0, 0]) == 1
short = jax.jit(lambda x: x + 1)
y = long(x)
for _ in range(100):
    y = short(y)
    assert in_flight() <= 32
assert float(y[0, 0]) == 101
    """)


def test_order_is_kept_where_memory_is_overwritten():
    """Calls read an array, a later one overwrites it: they see the old values, and it needs no copy."""
    run(f"""{LONG}
step = jax.jit(lambda x, n: x * 0 + n, donate_argnums=0)
step(x + 0, 1.0)
for n in range(20):
    p = jnp.full((300, 300), 1.0)
    place = p.unsafe_buffer_pointer()
    busy = long(x)
    seen = [jax.jit(lambda p, q: p + q[0, 0])(p, busy) for _ in range(3)]
    q = step(p, 7.0 + n)
    assert q.unsafe_buffer_pointer() == place and p.is_deleted()
    late = q + 1
    assert float(q[0, 0]) == 7 + n and float(late[1, 1]) == 8 + n
    for s in seen:
        assert float(s[2, 2]) == 2
    """)


def test_threads():
    """Four threads, whose calls are short and long, mix nothing and leave nothing."""
    run("""
        import gc, threading
        short = jax.jit(lambda x, n: (x + n, n * 2))
        given = jax.jit(lambda x, n: x * 0 + n, donate_argnums=0)
        long = jax.jit(lambda x, n: jnp.tanh(x @ x) * 0 + n)
        wrong = []
        def work(n, count):
            x, w, d = jnp.full(17, float(n)), jnp.full((300, 300), float(n)), jnp.full(50, float(n))
            for k in range(count):
                y, m = short(x, float(n))
                d = given(d, float(n + k % 3))
                if k % 40 == 0:
                    w = long(w, float(n))
                    if (np.asarray(w + 1) != n + 1).any() or (np.asarray(y) != 2 * n).any() or float(m) != 2 * n:
                        wrong.append(n)
                    if (np.asarray(d) != n + k % 3).any():
                        wrong.append(-n)
        def all_of(count):
            threads = [threading.Thread(target=work, args=(n, count)) for n in range(1, 5)]
            [t.start() for t in threads], [t.join() for t in threads]
            gc.collect()
            return jax.devices()[0].memory_stats()["bytes_in_use"]
        before = all_of(100)
        assert all_of(1500) == before and not wrong, wrong
    """)


def test_an_error_comes_where_the_result_is_read():
    """What Control-C ended, and what needed that, says so; the process goes on."""
    program = """
        import signal
        loop = lambda c: lax.while_loop(lambda c: c[0] < c[2], lambda c: (c[0] + 1, jnp.sin(c[1]), c[2]), c)
        f = jax.jit(lambda n: loop((0, jnp.ones(99), n))[1])
        f(30_000)  # long: the next calls are deferred
        y = f(2_000_000_000)
        z = y + 1
        w = f(30_001)
        print("ready", flush=True)
        try:
            y.block_until_ready()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        for a in (y, z):
            try:
                np.asarray(a)
            except RuntimeError as problem:
                print("interrupted" in str(problem) or "deleted" in str(problem), flush=True)
        print(f(3).shape, float(jnp.ones(2)[0] + 1))
    """
    interrupted(program, "interrupted\nTrue\nTrue\n(99,) 2.0\n")


def test_what_was_running_at_control_c_is_kept():
    """Steps that end within a second are not lost: the state of a training loop stays what it was."""
    program = f"""{LONG}
print("ready", flush=True)
count = 0
try:
    while True:
        x = long(x)
        count += 1
except KeyboardInterrupt:
    print("interrupted", float(x[0, 0]), count > 0)
    """
    interrupted(program, "interrupted 1.0 True\n")


def test_python_ends_while_work_is_in_flight():
    program = f"{LONG}\nfor _ in range(8):\n    x = long(x)\ny = x + 1\n"
    children = [
        subprocess.Popen(command(program), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    for child in children:
        assert child.communicate(timeout=120)[0] == b"" and child.returncode == 0


def test_a_callback_runs_in_the_thread_that_calls():
    """It may use JAX, whatever is in the queue, and holds nothing up."""
    run(f"""{LONG}
import threading
seen = []
def host(a):
    seen.append((threading.get_ident(), float(jnp.asarray(a).sum())))
    return a * 2
f = jax.jit(lambda a: jax.pure_callback(host, jax.ShapeDtypeStruct((300, 300), jnp.float32), a))
y = long(x)
assert float(f(y)[0, 0]) == 2 and seen == [(threading.get_ident(), 90000.0)]
    """)
