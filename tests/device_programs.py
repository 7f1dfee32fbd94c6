"""Programs of JAX for several devices, run by XLA: `python device_programs.py FILE` writes what came of them.

A child of the tests runs this, since the number of devices is settled when JAX starts. For each program: the HLO as JAX
gives it (of whole values, `global_hlo`) and as XLA divided it among the partitions (`partitioned_hlo`), and arguments
and results, whole and on each device. All of f64 and integers, so that rounding is far below what is compared.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from typing import Any

DEVICES = 8


@dataclass
class Ran:
    """A program and what came of it; per device in the order of the partitions."""

    name: str
    global_hlo: str
    partitioned_hlo: str
    arguments: list[Any]
    results: list[Any]
    device_arguments: list[list[Any]]
    device_results: list[list[Any]]


def programs() -> list[tuple[str, Any, tuple, Any, list]]:
    """(name, function, axes of the mesh, (in_specs, out_specs), arguments); None for specs: automatic sharding."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import PartitionSpec as P

    rng = np.random.default_rng(0)
    one, two = (("i", 8),), (("a", 2), ("b", 4))
    x = rng.standard_normal((8, 6))
    m = rng.standard_normal((4, 8))
    n = rng.integers(-50, 50, (16, 8)).astype(np.int32)
    ring = [(k, (k + 1) % 8) for k in range(8)]
    made: list[tuple[str, Any, tuple, Any, list]] = []

    def add(name, f, axes, in_specs, out_specs, *arguments):
        made.append((name, f, axes, (in_specs, out_specs), list(arguments)))

    i, ab = P("i"), P("a", "b")
    add("psum", lambda x: lax.psum(x, "i"), one, i, P(), x)
    add("pmean_of_several", lambda x: (lax.pmean(x, "i"), lax.psum(x.sum(), "i")), one, i, (P(), P()), x)
    add("pmax_pmin", lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), one, i, (P(), P()), x)
    add("psum_along_b", lambda x: lax.psum(x, "b"), two, ab, P("a"), m)
    add("psum_along_a", lambda x: lax.psum(x, "a"), two, ab, P(None, "b"), m)
    add("psum_along_both", lambda x: lax.psum(x, ("a", "b")), two, ab, P(), m)
    add("all_gather", lambda x: lax.all_gather(x, "i"), one, i, P(), x)
    add("all_gather_tiled", lambda x: lax.all_gather(x, "b", axis=1, tiled=True), two, ab, P("a"), m)
    add("all_gather_both", lambda x: lax.all_gather(x, ("b", "a"), tiled=True), two, ab, P(), m)
    add("psum_scatter", lambda x: lax.psum_scatter(x, "i", tiled=True), one, P(None, "i"), P("i", None), n)
    add("scatter_b", lambda x: lax.psum_scatter(x, "b", scatter_dimension=0, tiled=True), two, P(None, "b"), P("b"), n)
    add("all_to_all", lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), one, i, P(None, "i"), n)
    add("all_to_all_untiled", lambda x: lax.all_to_all(x[0], "i", 0, 0), one, i, i, n.reshape(8, 8, 2))
    add("ppermute", lambda x: lax.ppermute(x, "i", ring), one, i, i, x)
    add("ppermute_some", lambda x: lax.ppermute(x, "b", [(0, 1), (2, 3)]), two, ab, ab, m)
    add("pshuffle", lambda x: lax.pshuffle(x, "i", [3, 1, 4, 0, 5, 2, 7, 6]), one, i, i, x)
    add("axis_index", lambda x: x + 10 * lax.axis_index("a") + lax.axis_index("b"), two, ab, ab, m)
    add(
        "prefix_sum",
        lambda x: lax.cumsum(lax.all_gather(x, "i", tiled=True))[lax.axis_index("i")][None],
        one,
        i,
        i,
        n[:8],
    )

    def ring_sum(x):
        def turn(_, state):
            total, moving = state
            moving = lax.ppermute(moving, "i", ring)
            return total + moving, moving

        return lax.fori_loop(0, 7, turn, (x, x))[0]

    add("a_ring_in_a_loop", ring_sum, one, i, i, x)
    add("only_some_meet", lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2, 4, 6], [1, 3, 5, 7]]), one, i, i, x)
    add("norm", lambda x: x / jnp.sqrt(lax.psum(jnp.sum(x * x), "i")), one, i, i, x)
    add("while_they_differ", lambda x: lax.while_loop(
        lambda s: lax.pmax(s.max(), "i") > 1, lambda s: s / 2, x), one, i, i, x)  # fmt: skip

    sizes = {"w1": (6, 10), "b1": (10,), "w2": (10, 3)}
    weights = {k: rng.standard_normal(s) / 3 for k, s in sizes.items()}
    batch, labels = rng.standard_normal((16, 6)), rng.standard_normal((16, 3))

    def loss(w, x, y):
        h = jnp.tanh(x @ w["w1"] + w["b1"])
        return jnp.mean((h @ w["w2"] - y) ** 2)

    def step(w, x, y):
        value, slope = jax.value_and_grad(loss)(w, x, y)
        slope = jax.tree.map(lambda g: lax.pmean(g, "i"), slope)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, slope), lax.pmean(value, "i")

    add("data_parallel_step", step, one, (P(), i, i), (P(), P()), weights, batch, labels)

    def layer(x, w1, w2):  # columns of w1, rows of w2: one sum at the end
        return lax.psum(jnp.tanh(x @ w1) @ w2, "i")

    wide = rng.standard_normal((6, 16)), rng.standard_normal((16, 5))
    add("tensor_parallel_layer", layer, one, (P(), P(None, "i"), i), P(), x, *wide)

    def tensor_parallel_grads(x, w1, w2):
        return jax.grad(lambda w: jnp.sum(layer(x, *w) ** 2))((w1, w2))

    sharded = (P(), P(None, "i"), i)
    add("tensor_parallel_gradients", tensor_parallel_grads, one, sharded, sharded[1:], x, *wide)
    scattered = lambda x, w: lax.psum_scatter(x @ w, "i", scatter_dimension=0, tiled=True)  # noqa: E731
    add("matrix_product_scattered", scattered, one, (P(None, "i"), i), i, n.astype(np.float64), wide[1][:8])
    return made


def run(name: str, function: Any, axes: tuple, specs: tuple, arguments: list) -> Ran:
    """Compile and run one program on XLA:CPU."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sizes = tuple(size for _, size in axes)
    mesh = Mesh(np.array(jax.devices()).reshape(sizes), tuple(n for n, _ in axes))
    in_specs, out_specs = specs
    in_specs = in_specs if isinstance(in_specs, tuple) and not isinstance(in_specs, PartitionSpec) else (in_specs,)
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False))
    placed = [
        jax.tree.map(lambda leaf, s=spec: jax.device_put(leaf, NamedSharding(mesh, s)), a)
        for a, spec in zip(arguments, in_specs, strict=True)
    ]
    lowered = mapped.lower(*placed)
    compiled = lowered.compile()
    results = jax.tree.leaves(compiled(*placed))
    given = jax.tree.leaves(placed)

    def parts(arrays: list) -> list[list[Any]]:
        by_device = [{s.device.id: np.asarray(s.data) for s in a.addressable_shards} for a in arrays]
        return [[shards[d] for shards in by_device] for d in range(DEVICES)]

    return Ran(
        name,
        lowered.compiler_ir("hlo").as_hlo_text(True),
        compiled.as_text(),
        [np.asarray(a) for a in given],
        [np.asarray(r) for r in results],
        parts(given),
        parts(results),
    )


def main(path: str) -> None:
    """Run all of them and write the results."""
    import jax

    assert len(jax.devices()) == DEVICES
    with open(path, "wb") as file:
        pickle.dump([run(*p) for p in programs()], file)


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ.update(JAX_PLATFORMS="cpu", JAX_ENABLE_X64="1")
    sys.modules["device_programs"] = sys.modules["__main__"]  # the name under which the pickle is read
    Ran.__module__ = "device_programs"
    main(sys.argv[1])
