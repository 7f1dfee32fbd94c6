"""Unmodified JAX programs on refxla: each test is a program in a process of its own, with JAX_PLATFORMS=refxla."""

import pytest
from jax_programs import ended, interrupted, run

pytest.importorskip("jax")


def test_transformations():
    out = run("""
        x = jnp.arange(6.0).reshape(2, 3)
        assert [d.platform for d in x.devices()] == ["refxla"] and jax.default_backend() == "refxla"
        f = jax.jit(lambda a: jnp.sin(a) @ a.T)
        n = np.arange(6.0, dtype=np.float32).reshape(2, 3)
        np.testing.assert_allclose(f(x), np.sin(n) @ n.T, rtol=1e-5)
        np.testing.assert_allclose(jax.grad(lambda a: jnp.sum(a**2))(x), 2 * n)
        np.testing.assert_allclose(jax.vmap(lambda a: a[0] * a)(x), n[:, :1] * n)
        total, products = jax.jit(lambda c: lax.scan(lambda c, y: (c + y, c * y), c, jnp.arange(5.0)))(1.0)
        assert float(total) == 11 and products.tolist() == [0, 1, 4, 12, 28]
        assert int(lax.while_loop(lambda c: c < 10, lambda c: c + 3, 0)) == 12
        assert int(lax.cond(x[0, 0] > 0, lambda: 1, lambda: 2)) == 2
        print(jax.random.normal(jax.random.key(0), (2,)))
    """)
    assert out == "[1.6226422 2.0252647]\n"


def test_what_goes_in_comes_out():
    """Arrays of all types, of no elements, scalars, strided ones, many results and none."""
    run("""
        import ml_dtypes
        names = "bool int4 uint4 int8 int16 int32 uint8 uint16 uint32 float16 bfloat16 float32 complex64 "
        names += "float8_e4m3fn float8_e5m2 float8_e8m0fnu float4_e2m1fn"
        twice = jax.jit(lambda arrays: (arrays, [jnp.concatenate([a, a]) for a in arrays], ()))
        names += " float6_e2m3fn float6_e3m2fn" if jax.__version_info__ >= (0, 11) else ""
        given = [np.arange(3).astype(getattr(ml_dtypes, name, name)) for name in names.split()]
        same, doubled, nothing = twice([jnp.asarray(a) for a in given])
        for a, b, c in zip(given, same, doubled):
            assert b.dtype == c.dtype == a.dtype, (a.dtype, b.dtype)
            assert np.asarray(b).tobytes() == a.tobytes() and np.asarray(c).tobytes() == 2 * a.tobytes(), a.dtype
        empty = jax.jit(lambda x: x + 1)(jnp.zeros((0, 3)))
        assert empty.shape == np.asarray(empty).shape == (0, 3) and float(jnp.sum(empty)) == 0
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        for view in (a.T, a[::-1, ::2], np.broadcast_to(a[0], (2, 4)), a[1]):
            assert (np.asarray(jnp.asarray(view)) == view).all()
        assert jax.jit(lambda x: None)(1.0) is None and float(jnp.float32(3)) == 3.0
        with jax.enable_x64(True):
            assert (jnp.arange(3.0) + 1).dtype == np.float64
    """)


def test_every_type_of_arrays_has_its_number():
    from refxla_spec.types import ELEMENT_TYPES

    from refxla._core.pjrt_objects import TYPE_NAMES

    assert {name for name, kind in ELEMENT_TYPES.items() if kind.is_array or name == "token"} == {*TYPE_NAMES} - {None}


def test_compiler_options():
    run("""
        lowered = jax.jit(lambda x: x + 1).lower(1.0)
        assert float(lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})(2.0)) == 3
        try:
            lowered.compile(compiler_options={"nonsense": False})
        except Exception as problem:
            assert "No such compile option: 'nonsense'" in str(problem), problem  # XLA's words
        else:
            raise AssertionError("taken")
    """)


def test_memory():
    """What is put on the device is a copy, views outlive arrays, donated arrays are gone, deleted ones are refused."""
    run("""
        a = np.ones(1000, np.float32)
        x = jnp.asarray(a)
        a[:] = 7
        assert float(x.sum()) == 1000
        y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted() and float(y[0]) == 2
        view = np.asarray(y)
        y.delete()
        z = [jnp.full(1000, float(n)) for n in range(20)]
        assert view.sum() == 2000
        try:
            y + 1
        except RuntimeError as problem:
            assert "deleted" in str(problem)
        else:
            raise AssertionError("a deleted array was used")
        step = jax.jit(lambda x: x * 2, donate_argnums=0)
        before = jax.devices()[0].memory_stats()["bytes_in_use"]
        w = jnp.ones(1 << 20)
        for _ in range(50):
            w = step(w)
        w.block_until_ready()
        assert jax.devices()[0].memory_stats()["bytes_in_use"] < before + (16 << 20)
        other = jax.device_put(w, jax.devices("cpu")[0])
        assert float(other[0]) == 2.0**50 and float(jax.device_put(other, jax.devices()[0])[1]) == 2.0**50
    """)


def test_layouts():
    """All arrays are row-major: so compiled programs say, and another layout is refused."""
    run("""
        from jax.experimental.layout import Format, Layout, with_layout_constraint
        x = jnp.arange(12.0).reshape(3, 4)
        made = jax.jit(lambda a: a.T * 2).lower(x).compile()
        assert made.output_formats == made(x).format and made.output_formats.layout.major_to_minor == (0, 1)
        again = jax.jit(lambda a: a + 1, in_shardings=made.output_formats, out_shardings=Format(Layout.AUTO))
        assert again.lower(made(x)).compile()(made(x)).tolist() == (2 * x.T + 1).tolist()
        columns = Layout((1, 0))
        assert jax.jit(lambda a: with_layout_constraint(a, columns) + 1)(x).tolist() == (x + 1).tolist()
        format = Format(columns, x.sharding)
        for f in (lambda: jax.device_put(x, format), lambda: jax.jit(jnp.sin, in_shardings=format)(x),
                  lambda: jax.jit(jnp.sin, out_shardings=format)(x)):
            try:
                f()
            except Exception as problem:
                assert "arrays are row-major" in str(problem) and "are 0,1" in str(problem), problem
            else:
                raise AssertionError("taken")
    """)


def test_kinds_of_memory():
    """Values go to the host's memory and back, by shardings, by spaces and within programs, which say where their
    results lie; an array there is one of its own, for donation too."""
    run("""
        from jax.ad_checkpoint import checkpoint_name
        from jax.experimental.serialize_executable import deserialize_and_load, serialize
        Space = jax.memory.Space
        def kinds(tree):
            return [a.sharding.memory_kind for a in jax.tree.leaves(tree)]
        here = jax.devices()[0]
        assert [m.kind for m in here.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
        assert here.default_memory().kind == "device" and here.memory("pinned_host").addressable_by_devices() == [here]
        x = jnp.arange(4.0)
        host, unpinned = (x.sharding.with_memory_kind(k) for k in ("pinned_host", "unpinned_host"))
        y = jax.device_put(x, host)
        there = [y, jax.device_put(x, unpinned), jax.device_put(x, Space.Host), jnp.sin(y)]
        assert kinds(there) == ["pinned_host", "unpinned_host", "pinned_host", "pinned_host"]
        assert kinds([x, jax.device_put(y, x.sharding), jax.device_put(y, Space.Device)]) == ["device"] * 3
        f = jax.jit(lambda a: (a * 2, jax.device_put(a + 1, Space.Host), a), out_shardings=(unpinned, None, None))
        for made in (f, f.lower(x).compile(), deserialize_and_load(*serialize(f.lower(x).compile()))):
            results = made(x)
            assert kinds(results) == ["unpinned_host", "pinned_host", "device"], results
            assert [r.tolist() for r in results] == [[0, 2, 4, 6], [1, 2, 3, 4], [0, 1, 2, 3]]
        g = jax.jit(lambda a: jax.device_put(a, Space.Device) * 2, donate_argnums=0)
        z = g(jax.device_put(x, host))
        assert kinds(z) == ["device"] and z.tolist() == [0, 2, 4, 6]
        z = jax.jit(lambda a: a + 1, donate_argnums=0)(y)
        assert y.is_deleted() and kinds(z) == ["pinned_host"] and z.tolist() == [1, 2, 3, 4]
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["h"],
            offload_src="device", offload_dst="pinned_host")
        h = lambda a: jnp.sum(jnp.sin(checkpoint_name(a * a, "h")))
        np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(h, policy=policy)))(x), jax.grad(h)(x), rtol=1e-6)
        _, states = jax.jit(lambda a: lax.scan(lambda c, _: (c + 1, jax.device_put(c, Space.Host)), a, length=2))(x)
        assert kinds(states) == ["pinned_host"] and states[1].tolist() == [1, 2, 3, 4]
        try:
            x + z
        except ValueError as problem:
            assert "memory_space of all inputs" in str(problem), problem
        else:
            raise AssertionError("added")
    """)


def test_dlpack():
    """Out and in without a copy, where elements are dense; what others have of an array outlives its donation."""
    run("""
        class Given:  # of another library: a capsule and no more
            def __init__(self, array): self.array = array
            def __dlpack_device__(self): return self.array.__dlpack_device__()
            def __dlpack__(self, *, max_version=None, **options): return self.array.__dlpack__()
        here = jax.devices()[0]
        x = jnp.arange(6.0).reshape(2, 3) + 1
        place = x.unsafe_buffer_pointer()
        view = np.from_dlpack(x)
        assert view.ctypes.data == place and not view.flags.writeable and x.__dlpack_device__() == (1, 0)
        versioned = "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
        assert versioned or jax.__version_info__ < (0, 12)  # which does not hand the version on
        assert '"dltensor"' in repr(x.__dlpack__())
        for taken in (jax.dlpack.from_dlpack(x), jnp.from_dlpack(Given(x))):
            assert taken.unsafe_buffer_pointer() == place and taken.devices() == {here}
        double = jax.jit(lambda x: x * 2, donate_argnums=0)
        y = double(x)
        assert view.sum() == 21 and float(taken.sum()) == 21 and float(y.sum()) == 42
        a = np.arange(64, dtype=np.float32).reshape(8, 8)
        lent = jnp.from_dlpack(a)
        assert lent.unsafe_buffer_pointer() == a.ctypes.data and lent.devices() == {here}
        double(lent)
        assert a[0, 1] == 1
        for part in (a.T, a[::2, 1:], a[:, 3]):
            assert (np.asarray(jnp.from_dlpack(part)) == part).all()
        copy = jnp.from_dlpack(a, copy=True)
        a[:] = 0
        assert copy[0, 1] == 1
        for kind in "bool int8 uint16 int32 float16 bfloat16 float32 complex64 float8_e4m3fn".split():
            z = jnp.ones((2, 0, 3), kind), jnp.ones((), kind), jnp.arange(3).astype(kind)
            for array in z:
                back = jax.dlpack.from_dlpack(Given(array))
                assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all()
        try:
            jnp.ones(3, "int4").__dlpack__()
        except BufferError as problem:
            assert "int4" in str(problem)
        else:
            raise AssertionError("DLPack has no int4")
        before = here.memory_stats()["bytes_in_use"]
        for _ in range(100):
            np.from_dlpack(jnp.full(1 << 18, 2.0)), jnp.full(1 << 18, 2.0).__dlpack__()
        assert here.memory_stats()["bytes_in_use"] < before + (8 << 20)
        cpu = jax.device_put(np.ones(3), jax.devices("cpu")[0])
        assert np.from_dlpack(cpu).sum() == 3 and jax.dlpack.from_dlpack(cpu).devices() == {here}
    """)


def test_results_lie_in_donated_memory():
    """A training step updates its parameters, and a cache takes a row, where they lie; not where somebody reads."""
    run("""
        adam = jax.jit(lambda p, g: (p[0] - p[1], 0.9 * p[1] + g, p[2] * 2), donate_argnums=0)
        state, g = tuple(jnp.full(5000, float(n)) for n in (1, 2, 3)), jnp.ones(5000)
        places = [a.unsafe_buffer_pointer() for a in state]
        for _ in range(3):
            before, state = state, adam(state, g)
            assert [a.unsafe_buffer_pointer() for a in state] == places
            assert all(a.is_deleted() for a in before)
        assert float(state[2][7]) == 24 and abs(float(state[0][7]) - (1 - 2 - 2.8 - 3.52)) < 1e-5

        put = jax.jit(lambda c, row, n: lax.dynamic_update_slice(c, row, (n, 0)), donate_argnums=0)
        cache = jnp.zeros((64, 32))
        place = cache.unsafe_buffer_pointer()
        for n in range(5):
            cache = put(cache, jnp.full((1, 32), float(n)), n)
            assert cache.unsafe_buffer_pointer() == place
        assert cache[:6, 1].tolist() == [0, 1, 2, 3, 4, 0]

        view = np.asarray(cache)  # its memory is read from outside: the next cache is another one
        again = put(cache, jnp.full((1, 32), 9.0), 0)
        assert again.unsafe_buffer_pointer() != place and view[0, 0] == 0 and float(again[0, 0]) == 9
        x = jnp.ones(9)
        for given in (0, (0, 1)):
            try:
                jax.jit(lambda a, b: (a + b, a - b), donate_argnums=given)(x, x)
            except (ValueError, RuntimeError) as problem:  # newer versions of JAX refuse that themselves
                assert "donate" in str(problem) and float(x[0]) == 1
            else:
                raise AssertionError("a donated array was used")
        try:
            adam(before, g)
        except (RuntimeError, ValueError) as problem:  # JAX's own message, or from JAX 0.10's shorter way refxla's
            assert "deleted" in str(problem)
        else:
            raise AssertionError("a donated array was used")
        made = put.lower(again, jnp.ones((1, 32)), 0).compile()
        assert made.memory_analysis().alias_size_in_bytes == 64 * 32 * 4
    """)


TRAINING = """
    w = jnp.asarray(np.random.default_rng(0).normal(size=(64, 16)), jnp.float32)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(128, 64)), jnp.float32)
    step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w), donate_argnums=0)
    for n in range(20):
        w = step(w, x)
        if n == 10:
            np.asarray(w)  # the host looks on
    print(np.asarray(w).tobytes().hex())
    view = np.from_dlpack(w)
    assert (view == np.asarray(w)).all()
    two = jax.jit(lambda a: (a + 1, lax.fori_loop(0, 3, lambda i, b: b @ b.T @ b * 1e-3, a)))(w)
    print(np.asarray(two[1]).tobytes().hex())
"""


def test_arrays_on_a_device_with_memory_of_its_own():
    """The same program, and the same bits."""
    assert run(TRAINING, REFXLA_DEVICE="pocl:gpu") == run(TRAINING)


def test_an_error_is_an_exception():
    """What refxla refuses is refused with its message, and the process goes on."""
    out = run("""
        try:
            jax.ffi.ffi_call("nobody_has_this", jax.ShapeDtypeStruct((2,), jnp.float32))(jnp.ones(2))
        except RuntimeError as problem:
            print(str(problem).split(";")[0])
        assert float(jnp.float32(1) + 1) == 2
    """)
    assert "UNIMPLEMENTED" in out and "no code for custom-call target 'nobody_has_this'" in out


def test_tokens_as_results():
    """Of a program that gets none."""
    run("""
        assert type(jax.jit(lax.create_token)(1.0)).__name__ == "Token"
        token, y = jax.jit(lambda x: (lax.create_token(x), x + 1))(1.0)
        assert type(jax.block_until_ready(token)).__name__ == "Token" and y == 2
    """)


def test_ordered_effects_that_call_nothing():
    """JAX passes a token through the program, its loops, and what is exported."""
    run("""
        from jax import export
        from jax._src import core, effects
        from jax._src.interpreters import mlir
        class Order(effects.Effect):
            pass
        order, twice = Order(), core.Primitive("twice_in_order")
        for kinds in (effects.lowerable_effects, effects.ordered_effects, effects.control_flow_allowed_effects):
            kinds.add_type(Order)
        twice.def_effectful_abstract_eval(lambda x: (x, {order}))
        def lowering(ctx, x):
            ctx.set_tokens_out(mlir.TokenSet({order: ctx.tokens_in.get(order)}))
            return [mlir.hlo.add(x, x)]
        mlir.register_lowering(twice, lowering)
        x = np.arange(3, dtype=np.float32)
        f = jax.jit(lambda x: lax.fori_loop(0, 3, lambda _, x: twice.bind(x), 1 + twice.bind(x)))
        assert f(x).tolist() == [8, 24, 40]
        exported = export.export(f)(x)
        assert exported.call(x).tolist() == jax.jit(exported.call)(x).tolist() == [8, 24, 40]
    """)


def test_threads():
    """Threads share executables and mix nothing."""
    run("""
        import threading
        f = jax.jit(lambda x, n: (x + n, n * 2))
        wrong = []
        def work(n):
            x = jnp.full(17, float(n))
            for k in range(300):
                y, m = f(x, float(n))
                if k % 50 == 0 and (np.asarray(y) != 2 * n).any() or float(m) != 2 * n:
                    wrong.append(n)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert not wrong
    """)


def test_compiled_programs_can_be_asked():
    run("""
        lowered = jax.jit(lambda x: x @ x).lower(jnp.ones((4, 4)))
        made = lowered.compile()
        assert lowered.cost_analysis()["flops"] == made.cost_analysis()["flops"] == 128
        assert lowered.cost_analysis()["bytes accessed"] == 3 * 64  # XLA counts each operand
        assert made.memory_analysis().argument_size_in_bytes == 64
    """)


def test_interruption():
    """Control-C ends a long loop as KeyboardInterrupt, and the process goes on."""
    program = """
        f = jax.jit(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, jnp.ones(9))))
        f(1)
        print("ready", flush=True)
        try:
            f(2_000_000_000)[0].block_until_ready()
        except KeyboardInterrupt:
            print("interrupted", int(f(3)[0]))
    """
    interrupted(program, "interrupted 3\n")


def test_interruption_while_a_program_is_compiled():
    """It is a KeyboardInterrupt, not an error of JAX's, and JAX goes on."""
    out = run("""
        import os, signal, time
        from refxla.pjrt import compile_service
        compiled = compile_service.compiled
        def slowly(*program):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            return compiled(*program)
        f = jax.jit(lambda x: x * 3)
        x = jnp.float32(2)
        compile_service.compiled = slowly
        try:
            f(x)
        except KeyboardInterrupt:
            compile_service.compiled = compiled
            print("interrupted", float(f(x)))
    """)
    assert out == "interrupted 6.0\n"


def test_what_asks_the_process_to_end_in_a_callback():
    """Control-C while a callback runs is a KeyboardInterrupt, and its sys.exit a SystemExit, not an error of JAX's; in
    another thread than the main one, they are errors of the call. JAX goes on."""
    done = ended("""
        import os, signal, sys, threading, time
        from jax.experimental import io_callback
        like = jax.ShapeDtypeStruct((3,), jnp.float32)
        def wait(x):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
            return x
        def leave(x):
            sys.exit(7)
        def in_thread(x):
            try:
                jax.pure_callback(leave, like, x).block_until_ready()
            except Exception as problem:
                print(type(problem).__name__, str(problem).splitlines()[0])
        x = jnp.ones(3)
        for function in (wait, leave):
            for call in (
                lambda x: jax.pure_callback(function, like, x),
                jax.jit(lambda x: io_callback(function, like, x, ordered=True) * 2),
                jax.jit(lambda x: lax.fori_loop(0, 3, lambda _, y: jax.pure_callback(function, like, y), x)),
                jax.jit(lambda x: (jax.debug.callback(function, x), x + 1)[1]),
            ):
                try:
                    call(x).block_until_ready()
                    jax.effects_barrier()
                    print("no exception")
                except BaseException as problem:
                    print(type(problem).__name__, problem)
        thread = threading.Thread(target=in_thread, args=(x,))
        thread.start()
        thread.join()
        print((x + 1).sum())
    """)
    lines = [line.strip() for line in done.stdout.splitlines()]  # JAX reports on standard error what a callback raises
    assert lines[:8] == ["KeyboardInterrupt"] * 4 + ["SystemExit 7"] * 4
    assert lines[8:] == ["JaxRuntimeError INTERNAL: SystemExit: 7", "6.0"]
    assert done.returncode == 0, done.stderr[-4000:]


def test_what_a_signal_handler_raises_while_a_program_is_compiled():
    """It is raised as it is: a time limit is the program's own exception, and sys.exit in a handler ends it."""
    out = run("""
        import os, signal, sys, time
        from refxla.pjrt import compile_service
        compiled = compile_service.compiled
        def slowly(*program):
            os.kill(os.getpid(), number)
            time.sleep(0.2)
            return compiled(*program)
        def too_long(*_):
            raise TimeoutError("too long")
        signal.signal(signal.SIGALRM, too_long)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        f = jax.jit(lambda x: x * 3)
        x = jnp.float32(2)
        compile_service.compiled, number = slowly, signal.SIGALRM
        try:
            f(x)
        except TimeoutError as problem:
            compile_service.compiled = compiled
            print(problem, float(f(x)), flush=True)
        compile_service.compiled, number = slowly, signal.SIGTERM
        f(jnp.ones(3))
        print("not reached")
    """)
    assert out == "too long 6.0\n"


def test_a_compiled_function_shows_the_program_after_the_passes():
    run("""
        made = jax.jit(lambda x: (x * 0 + x).sum()).lower(jnp.ones(3, jnp.int32)).compile()
        assert "reduce" in made.as_text() and "multiply" not in made.as_text(), made.as_text()
    """)


def test_serialization():
    """An executable becomes bytes and an executable again; one that calls functions of the process does not."""
    run("""
        from jax.experimental import serialize_executable
        made = jax.jit(lambda x: jnp.sin(x) * 2).lower(jnp.ones(3)).compile()
        from refxla.compiler import driver
        bytes_of_it = serialize_executable.serialize(made)
        driver.compile_request, real = None, driver.compile_request  # nothing is compiled
        again = serialize_executable.deserialize_and_load(*bytes_of_it)
        driver.compile_request = real
        np.testing.assert_array_equal(again(jnp.ones(3)), made(jnp.ones(3)))
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        calls = jax.jit(lambda x: jax.pure_callback(lambda a: a, shape, x)).lower(jnp.ones(3)).compile()
        try:
            serialize_executable.serialize(calls)
        except Exception as problem:
            assert "cannot be serialized" in str(problem) or "callback" in str(problem), problem
        else:
            raise AssertionError("no error")
    """)


def test_the_compilation_cache_of_jax(tmp_path):
    """Another process, with an empty cache of refxla's, takes its programs from JAX's; not if linear algebra is to be
    computed in another way."""

    def compiled(cache: str, **more: str) -> int:
        place = tmp_path / cache
        place.mkdir(mode=0o700, exist_ok=True)
        out = run(
            """
            from refxla.pjrt import programs
            compiled, real = [], programs.compile_module
            programs.compile_module = lambda *a, **k: compiled.append(1) or real(*a, **k)
            f = jax.jit(lambda x: jnp.cosh(x) * 2.53125, donate_argnums=0)
            np.testing.assert_allclose(f(np.zeros(7, np.float32)), 2.53125)
            print(len(compiled))
            """,
            REFXLA_CACHE_DIR=str(place),
            JAX_COMPILATION_CACHE_DIR=str(tmp_path / "shared"),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
            **more,
        )
        return int(out)

    assert [compiled("a"), compiled("b"), compiled("c", REFXLA_LINEAR_ALGEBRA="expanded")] == [1, 0, 1]


def test_an_interruption_while_the_plugin_is_loaded():
    """It is raised, and the next operation runs on refxla: JAX would log it and go on without the plugin."""
    out = run("""
        import os, signal, time
        from refxla.pjrt import plugin
        real = plugin.register
        def register():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)  # Python would raise it here
            real()
        plugin.register = register
        try:
            while True:  # it comes a little later
                jnp.ones(3)
        except KeyboardInterrupt:
            plugin.register = real
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            print("interrupted", jnp.arange(4).sum(), jax.devices()[0].platform)
    """)
    assert out == "interrupted 6 refxla\n"


def test_no_function_of_python_is_called_with_a_garbage_collection():
    """Python would handle Control-C in it, report the exception, and let the program go on."""
    run("""
        import gc, sys
        from refxla._core.pjrt_client import GarbageCallback
        jnp.ones(3)
        gc.collect()
        called = []
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        gc.collect()
        sys.setprofile(None)
        assert not called and any(isinstance(callback, GarbageCallback) for callback in gc.callbacks), called
        GarbageCallback(lambda: called.append("here"))("start", {})
        assert called == ["here"]
    """)


def test_without_a_compilation_cache_jax_computes_no_keys(tmp_path):
    """A key takes JAX a tenth of the time of an operation outside of jit. A directory may still be named later."""
    run(
        """
        import os
        from jax._src import cache_key
        keys, real = [], cache_key.get
        cache_key.get = lambda *a, **k: keys.append(real(*a, **k)) or keys[-1]
        jnp.ones(3) + 1
        assert not keys
        jax.config.update("jax_compilation_cache_dir", os.environ["PLACE"])
        jnp.ones(4) * 2.5
        assert keys and any(name.startswith("jit_multiply") for name in os.listdir(os.environ["PLACE"]))
        """,
        PLACE=str(tmp_path),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )


def test_a_program_may_replace_the_clock(tmp_path):
    """Tests of programs do, for JAX's own times of compilation; waiting for kernels has its own clock."""
    run(
        """
        import threading
        from unittest import mock
        def clock():
            assert not threading.current_thread().name.startswith("refxla"), "refxla looks at it"
            return 0.0
        with mock.patch("time.monotonic", clock):
            y = jax.jit(lambda x: jnp.sinh(x) * 2.71875)(np.zeros(5, np.float32))
            assert y.tolist() == [0] * 5
        """,
        REFXLA_CACHE_DIR=str(tmp_path),
    )


def test_a_program_that_is_known_is_not_converted():
    """The next process finds it in the cache on disk, whatever line it is on; a program that calls functions of the
    process is converted anew, and so is one that is shown."""
    program = """
        import os
        from refxla.pjrt import programs
        converted, real = [], programs.to_hlo
        programs.to_hlo = lambda *arguments: converted.append(1) or real(*arguments)
        f = jax.jit(lambda x: jnp.cosh(x) * 2.53125)
        np.testing.assert_allclose(f(np.zeros(7, np.float32)), 2.53125)
        print(len(converted))
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        jax.jit(lambda x: jax.pure_callback(lambda a: a + 1, shape, x))(np.ones(3, np.float32)).block_until_ready()
        print(len(converted))
        made = f.lower(np.zeros(7, np.float32)).compile()
        assert "cosine" in made.as_text() or "exponential" in made.as_text()
        print(len(converted))
    """
    run(program)
    assert run("\n\n" + program) == "0\n1\n2\n"


def test_the_passes_are_asked_for_by_who_shows_the_program_alone():
    """JAX reads layouts and shardings of each program, eight times over, for which nothing is planned or written."""
    run("""
        from refxla.pjrt import programs
        written, real = [], programs.to_proto
        programs.to_proto = lambda *arguments: written.append(1) or real(*arguments)
        f = jax.jit(lambda x: {"a": jnp.sin(x) @ x.T, "b": x.sum()})
        np.testing.assert_allclose(f(np.ones((2, 3), np.float32))["b"], 6)
        made = f.lower(np.ones((2, 3), np.float32)).compile()
        assert made.output_shardings["a"].memory_kind == "device" and not written
        assert "sine" in made.runtime_executable().hlo_modules()[0].to_string() and len(written) == 2
        assert "sine" in made.as_text() and len(written) == 4  # for its size, and for itself
    """)


def test_results_that_do_not_fit_say_how_large_they_are():
    run("""
        made = jax.jit(lambda x: (jnp.broadcast_to(x, (1 << 20, 1 << 24)), x)).lower(jnp.float32(1)).compile()
        try:
            made(jnp.float32(1))
        except Exception as problem:
            assert f"no memory for the results of a call: {(1 << 46) + 4} bytes" in str(problem), problem
        else:
            raise AssertionError("no error")
    """)
