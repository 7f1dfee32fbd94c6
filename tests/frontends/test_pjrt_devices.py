"""JAX programs on several virtual devices (REFXLA_DEVICES)."""

import socket
import types

import pytest
from jax_programs import ended, run

pytest.importorskip("jax")

MESH = """
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
    n = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = jax.device_put(n, NamedSharding(mesh, P("a", "b")))
    def same(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-5)
"""


def test_sharded_programs():
    """Of values divided among devices jit computes what it does of whole ones, and says how results are divided."""
    run(
        MESH
        + """
    assert x.addressable_shards[1].data.tolist() == n[:4, 2:].tolist()
    same(jax.jit(lambda x: x @ x.T + 1)(x), n @ n.T + 1)
    y = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, P("b")))(x)
    assert y.sharding.spec == P("b") and y.addressable_shards[3].data.shape == (4, 4)
    same(y, 2 * n)
    z = x + 1
    assert z.sharding.spec == P("a", "b")
    same(z, n + 1)
    for f, spec in ((lambda x: x.T, P("b", "a")), (lambda x: x @ x.T, P("a")), (lambda x: x.sum(1), P("a")),
                    (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), P("a", "b")), (lambda x: x.mean(), P())):
        r = jax.jit(f)(x)
        assert r.sharding.spec == spec, r.sharding  # as XLA propagates them
        same(r, f(n))
    same(x[2:6], n[2:6])  # whose start, an argument of its own, nobody has placed
    same(jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2)))(x), 2 * np.sin(n) * np.cos(n))
    same(jax.device_put(x, NamedSharding(mesh, P("b", "a"))), n)
    mark = lambda x, *along: lax.with_sharding_constraint(x, NamedSharding(mesh, P(*along)))
    u, v = jax.jit(lambda x: (mark(x[:, :1], "a", "b"), mark(x[:3], "a", "b")))(x)  # whole along what is not divisible
    same(u, n[:, :1]); same(v, n[:3]); same(u + 1, n[:, :1] + 1)
    assert u.addressable_shards[3].data.shape == (4, 1) and v.addressable_shards[0].data.shape == (3, 2)
    w = jax.device_put(jnp.ones(3), jax.devices()[2]) + 1
    assert w.devices() == {jax.devices()[2]}
    jax.jit(lambda x: x + 1, donate_argnums=0)(z)
    assert z.is_deleted()
    """,
        REFXLA_DEVICES="4",
    )


def test_kinds_of_memory():
    """Each device has memories of its own, and divided arrays lie in one kind of them."""
    run(
        MESH
        + """
    host = NamedSharding(mesh, P("a", "b"), memory_kind="pinned_host")
    y = jax.device_put(x, host)
    assert y.sharding == host and [s.data.sharding.memory_kind for s in y.addressable_shards] == ["pinned_host"] * 4
    assert [d.memory("pinned_host").addressable_by_devices() for d in jax.devices()] == [[d] for d in jax.devices()]
    f = jax.jit(lambda a: (jax.device_put(a * 2, jax.memory.Space.Host), a.sum(0)))
    (z, total), (placed, _) = f(x), f.lower(x).compile().output_shardings
    assert z.sharding == placed == host and total.sharding.memory_kind == "device"
    same(z, 2 * n)
    same(total, n.sum(0))
    same(jax.jit(lambda a: jax.device_put(a, jax.memory.Space.Device) + 1)(y), n + 1)
    """,
        REFXLA_DEVICES="4",
    )


def test_shard_map():
    """Collectives, loops in which devices meet and loops that take each its own time, branches of each device."""
    run(
        MESH
        + """
    def mapped(f, i, o):
        return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o, check_vma=False))
    tiles = P("a", "b")
    blocks = n.reshape(2, 4, 2, 2)
    same(mapped(lambda x: lax.psum(x, ("a", "b")), tiles, P())(x), blocks.sum((0, 2)))
    same(mapped(lambda x: lax.all_gather(x, "b", axis=1, tiled=True), tiles, P("a"))(x), n)
    same(mapped(lambda x: lax.psum_scatter(x, "b", scatter_dimension=0, tiled=True), tiles, P(("a", "b")))(x),
         blocks.sum(2).reshape(8, 2))
    same(mapped(lambda x: lax.all_to_all(x, "b", 1, 0, tiled=True), tiles, P(("a"), "b"))(x).shape, (16, 2))
    turn = lambda c, _: (lax.ppermute(c, "a", [(0, 1), (1, 0)]), c.sum())
    result = mapped(lambda x: lax.scan(turn, x, None, length=3)[0], tiles, tiles)(x)
    assert result.sharding.spec == tiles
    same(result, np.roll(n, 4, 0))
    own = mapped(lambda x: lax.while_loop(lambda c: c.sum() < 200, lambda c: c + 1, x), tiles, tiles)(x)
    assert [float(s.data.sum()) for s in own.addressable_shards] == [204] * 4  # after 19, 17, 3 and 1 times
    signs = mapped(lambda x: lax.cond(lax.axis_index("a") > 0, lambda x: x, lambda x: -x, x), tiles, tiles)(x)
    same(signs, np.concatenate([-n[:4], n[4:]]))
    together = lambda x: lax.cond(lax.psum(x.sum(), "a") > 0, lambda x: lax.pmax(x, "b"), lambda x: x, x)
    same(mapped(together, tiles, tiles)(x), np.tile(n.reshape(8, 2, 2).max(1), 2))
    product = jax.shard_map(lambda x: x * lax.psum(x, "a"), mesh=mesh, in_specs=tiles, out_specs=tiles)
    same(jax.jit(jax.grad(lambda x: jnp.sum(product(x))))(x), 2 * np.tile(n[:4] + n[4:], (2, 1)))
    same(jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.arange(4.0)), np.full(4, 6.0))
    """,
        REFXLA_DEVICES="4",
    )


def test_devices_that_go_different_ways():
    """Conditions and choices that are each device's own: without collectives, and with those of a group of devices."""
    run(
        MESH
        + """
    tiles = P("a", "b")
    def check(f, wanted):
        mapped = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=tiles, out_specs=tiles, check_vma=False))
        same(mapped(jnp.ones((2, 2))).ravel(), wanted)
    a = lambda: lax.axis_index("a")
    b = lambda: lax.axis_index("b")
    add = lambda x: lax.psum(x, "a")
    check(lambda x: lax.while_loop(lambda c: c.sum() < 3 * a() + b(), lambda c: c + 1, x), [1, 1, 3, 4])
    check(lambda x: lax.switch(a() + b(), [lambda x: x + a(), lambda x: x * 5 + b(), lambda x: -x], x), [1, 6, 5, -1])
    count = lambda until: lambda x: lax.while_loop(
        lambda c: c[1] < until(), lambda c: (add(c[0]) + a(), c[1] + 1), (x, jnp.int32(0)))[0]
    check(count(lambda: 1 + b()), [2, 5, 3, 6])
    check(count(lambda: 2), [5, 5, 6, 6])
    check(lambda x: lax.cond(b() == 1, lambda x: add(x), lambda x: x + lax.pmax(x, "a"), x + a()), [3, 3, 4, 3])
    each = lambda k, x: lax.while_loop(lambda c: c[1] < k + b(), lambda c: (add(c[0]), c[1] + 1), (x, b() * 0))[0]
    check(lambda x: lax.fori_loop(0, 2, each, x), [2, 8, 2, 8])
    def printed(x):
        body = lambda c: (jax.debug.print("{}", c[0]), (add(c[0]), c[1] + 1))[1]
        return lax.while_loop(lambda c: c[1] < b(), body, (x, 0))[0]
    try:
        check(printed, [])
        raise AssertionError
    except jax.errors.JaxRuntimeError as problem:
        assert "has no equivalent on one device that stands for several" in str(problem), problem
    """,
        REFXLA_DEVICES="4",
    )


def test_regions_within_regions():
    """A shard_map within another one, over another axis: collectives of both, a loop, values of each device."""
    run(
        MESH
        + """
    def inner(x):
        def f(x):
            return x * (1 + lax.axis_index("b")) + lax.psum(x, "b")
        y = jax.shard_map(f, in_specs=P(None, "b"), out_specs=P(None, "b"), axis_names={"b"})(x)
        return lax.fori_loop(0, 2, lambda _, y: y + lax.psum(y, "a"), y + lax.axis_index("a"))
    outer = jax.shard_map(inner, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    t = n.reshape(8, 2, 2)
    y = np.stack([t[:, 0], 2 * t[:, 1]], 1) + t.sum(1, keepdims=True)
    y = y.reshape(2, 4, 4) + np.arange(2.0)[:, None, None]
    for _ in range(2):
        y = y + y.sum(0)
    same(jax.jit(outer)(x), y.reshape(8, 4))
    """,
        REFXLA_DEVICES="4",
    )


def test_unreduced_values():
    """Summands of devices: out of products and regions, into programs and regions, and reduced in the end."""
    run(
        MESH
        + """
    from jax.sharding import AxisType
    with jax.set_mesh(jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)):
        x, y = jax.device_put(n, P(None, "a")), jax.device_put(n.T, P("a", None))
        z = jax.jit(lambda x, y: jnp.dot(x, y, out_sharding=P(unreduced={"a"})))(x, y)
        same(sum(np.asarray(s.data) for s in z.addressable_shards if s.device.id % 2 == 0), n @ n.T)
        same(jax.jit(lambda z: jax.sharding.reshard(z + z, P()))(z), 2 * n @ n.T)
        f = jax.shard_map(lambda x, y: lax.pcast(x @ y, "a", to="unreduced"), out_specs=P("b", unreduced={"a"}))
        z = jax.jit(f)(jax.device_put(n, P("b", "a")), y)
        same(jax.jit(lambda z: jax.sharding.reshard(z, P("a", "b")))(z), n @ n.T)
        g = jax.shard_map(lambda z: lax.psum(z, "a"), in_specs=P("b", unreduced={"a"}), out_specs=P("b", None))
        same(jax.jit(g)(z), n @ n.T)
    """,
        REFXLA_DEVICES="4",
    )


def test_effects_and_functions_that_partition_themselves():
    run(
        MESH
        + """
    from jax.experimental import io_callback
    from jax.experimental.custom_partitioning import custom_partitioning
    seen = []
    def f(x):
        io_callback(lambda x: seen.append(float(x.sum())), None, x)
        return x
    whole = NamedSharding(mesh, P())
    jax.jit(f, in_shardings=NamedSharding(mesh, P("a")), out_shardings=whole)(n)
    jax.effects_barrier()
    assert seen == [n.sum()]
    try:
        jax.jit(lambda x: (jax.debug.inspect_array_sharding(x, callback=print), x)[1])(x)
        raise AssertionError
    except NotImplementedError as problem:
        assert "x.sharding says" in str(problem)
    pure = jax.jit(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
    same(pure, np.sin(n))  # which XLA wants on one device
    seen.clear()
    each = lambda x: (io_callback(lambda x: seen.append(float(x.sum())), None, x, ordered=False), x)[1]
    jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False))(x)
    jax.effects_barrier()
    assert sorted(seen) == sorted(n.reshape(2, 4, 2, 2).sum((1, 3)).ravel().tolist())
    seen.clear()
    number = jax.ShapeDtypeStruct((), jnp.float32)
    def in_order(x):
        total = io_callback(lambda x: (seen.append("first"), np.float32(x.sum()))[1], number, x, ordered=True)
        io_callback(lambda: seen.append("second"), None, ordered=True)
        return total
    assert float(jax.jit(in_order, in_shardings=NamedSharding(mesh, P("a")), out_shardings=whole)(n)) == n.sum()
    jax.effects_barrier()
    assert seen == ["first", "second"]
    twice = custom_partitioning(lambda x: x * 2)
    twice.def_partition(
        partition=lambda mesh, args, result: (mesh, lambda x: x * 2, result.sharding, (args[0].sharding,)),
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding, sharding_rule="i j -> i j")
    same(jax.jit(twice)(x), 2 * n)
    """,
        REFXLA_DEVICES="4",
    )


def test_callbacks_of_devices_outside_of_jit():
    """Outside of jit, shard_map keeps what each device's call has returned, also within scan, cond and jit."""
    run(
        MESH
        + """
    from jax.experimental import io_callback
    def called(by, x, **options):
        return by(lambda x: x + x.sum(), jax.ShapeDtypeStruct(x.shape, x.dtype), x, **options)
    blocks = n.reshape(2, 4, 2, 2)
    once = (blocks + blocks.sum((1, 3), keepdims=True)).reshape(8, 4)
    blocks = once.reshape(2, 4, 2, 2)
    twice = (blocks + blocks.sum((1, 3), keepdims=True)).reshape(8, 4)
    def divided(f):
        return jax.shard_map(f, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"))(x)
    pure = lambda x: called(jax.pure_callback, x)
    by_cond = lambda x: lax.cond(x.sum() > -1, pure, pure, x)
    by_scan = lambda x: lax.scan(lambda c, _: (c, pure(c)), x, None, length=2)[1][1]
    for f in (pure, lambda x: called(io_callback, x), jax.jit(pure), by_cond, by_scan):
        same(divided(f), once)
        same(jax.jit(lambda: divided(f))(), once)
    same(divided(lambda x: pure(pure(x))), twice)
    rows = jax.shard_map(lambda x: called(jax.pure_callback, x), mesh=mesh, in_specs=P("a"), out_specs=P("a"))(x)
    same(rows, (n.reshape(2, 4, 4) + n.reshape(2, 4, 4).sum((1, 2), keepdims=True)).reshape(8, 4))
    whole = jax.shard_map(lambda x: pure(lax.psum(x, ("a", "b"))), mesh=mesh, in_specs=P("a", "b"), out_specs=P())(x)
    total = n.reshape(2, 4, 2, 2).sum((0, 2))
    same(whole, total + total.sum())
    """,
        REFXLA_DEVICES="4",
    )


def test_programs_without_results():
    run(
        MESH
        + """
    seen = []
    assert jax.jit(lambda x: jax.debug.callback(lambda x: seen.append(x.tolist()), x))(x) is None
    jax.effects_barrier()
    assert seen == [n.tolist()]
    with jax.set_mesh(mesh):
        assert jax.jit(lambda x: ())(x) == ()
    assert jax.jit(lambda x: None, keep_unused=True, in_shardings=NamedSharding(mesh, P("b", "a")))(n) is None
    """,
        REFXLA_DEVICES="4",
    )


def test_devices_that_a_program_asks_of_the_cpu(monkeypatch):
    """Programs for several devices divide JAX's CPU, by XLA's flag or JAX's option, before they use it: refxla's device
    is divided alike, unless REFXLA_DEVICES says otherwise."""
    run(
        """
        import os
        os.environ["XLA_FLAGS"] = "--xla_dump_to= --xla_force_host_platform_device_count=3"
        assert [d.platform for d in jax.devices()] == ["refxla"] * 3
        assert jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(jnp.arange(3)).tolist() == [3, 3, 3]
        """,
        REFXLA_DEVICES="",
    )
    from refxla.pjrt import plugin

    monkeypatch.delenv("REFXLA_DEVICES", raising=False)
    flag = "--xla_force_host_platform_device_count="
    for flags, count in (("", 1), (flag + "2 " + flag + "4", 4), (flag + "x", 1), (flag + "0", 1)):
        monkeypatch.setenv("XLA_FLAGS", flags)
        assert plugin.device_count() == count
    monkeypatch.setattr(plugin, "jax", types.SimpleNamespace(config=types.SimpleNamespace(jax_num_cpu_devices=5)))
    assert plugin.device_count() == 5
    monkeypatch.setenv("REFXLA_DEVICES", "6")
    assert plugin.device_count() == 6


@pytest.mark.parametrize("said", ["x", "0", "1025"])
def test_a_count_that_is_none_is_one_error(said):
    """JAX says what is wrong, once, and where the platform was not asked for it is not in the way."""
    done = ended("jnp.ones(3) + 1", REFXLA_DEVICES=said)
    message = f"REFXLA_DEVICES is {said!r}: say how many devices JAX is to see, from 1 to 1024"
    assert done.returncode and f"Unable to initialize backend 'refxla': {message}" in done.stderr, done.stderr
    assert "configuration error" not in done.stderr
    done = ended("assert jax.devices()[0].platform == 'cpu'", REFXLA_DEVICES=said, JAX_PLATFORMS="")
    assert not done.returncode and "configuration error" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("platforms", ["refxla", ""])
def test_a_process_that_joins_a_cluster_of_one(platforms):
    """Programs for clusters call jax.distributed.initialize also where they have a single process. JAX's service then
    tells all plugins of its processes, also those that the program does not use."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    done = ended(
        f"""
        import time
        jax.distributed.initialize("localhost:{port}", num_processes=1, process_id=0)
        print(jax.process_count(), jax.process_index(), (jnp.ones(3) + 1).sum(), flush=True)
        time.sleep(1)  # until the service has told them
        jax.distributed.shutdown()
        print("end")
        """,
        JAX_PLATFORMS=platforms,
    )
    assert (done.returncode, done.stdout) == (0, "1 0 6.0\nend\n"), done.stderr[-4000:]


def test_one_of_several_processes_is_refused():
    """Each process would compute by itself. A program that did not request the platform runs on JAX's."""
    several = """
        from jax._src import distributed
        distributed.global_state.num_processes = 2
        print(jax.devices()[0].platform)
    """
    done = ended(several)
    assert done.returncode and "refxla runs in a single process, and jax.distributed connects 2" in done.stderr
    assert ended(several, JAX_PLATFORMS="").stdout == "cpu\n"
