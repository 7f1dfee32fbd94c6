"""What somebody types into a notebook: JAX operations one by one, of many kinds and some shapes, without `jit`.

Run as a script, it prints {"seconds": from the first operation to the last result, "operations", "kinds", "platform"};
it imports only JAX, so that the platform is that of JAX_PLATFORMS. With --small, it has few operations.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Operation = Callable[..., Any]

UNARY: Sequence[Operation] = (
    *(jnp.abs, jnp.negative, jnp.sign, jnp.square, jnp.sqrt, jnp.cbrt, jnp.reciprocal, jnp.floor, jnp.ceil, jnp.round),
    *(jnp.exp, jnp.expm1, jnp.log, jnp.log1p, jnp.sin, jnp.cos, jnp.tan, jnp.arcsin, jnp.arctan, jnp.sinh, jnp.cosh),
    *(jnp.tanh, jnp.isnan, jnp.isfinite, jnp.zeros_like, jnp.ones_like, jax.nn.relu, jax.nn.gelu, jax.nn.silu),
    *(jax.nn.sigmoid, jax.nn.softplus, jax.nn.softmax, jax.nn.log_softmax, jnp.sum, jnp.mean, jnp.prod, jnp.max),
    *(jnp.min, jnp.std, jnp.var, jnp.median, jnp.any, jnp.all, jnp.argmax, jnp.argmin, jnp.cumsum, jnp.cumprod),
    *(jnp.sort, jnp.argsort, jnp.ravel, jnp.flip, jnp.diff, jnp.count_nonzero, jnp.linalg.norm),
    *(lambda a: jnp.quantile(a, 0.3), lambda a: a > 0.5, lambda a: a**2, lambda a: a**2.5, lambda a: a[1:]),
    *(lambda a: a.at[0].set(1), lambda a: a.at[1].add(2), lambda a: jnp.clip(a, 0.2, 0.6), lambda a: a.astype(int)),
    *(lambda a: a.astype(jnp.bfloat16), lambda a: jnp.where(a > 0.5, a, 0), lambda a: jnp.roll(a, 1, 0)),
    *(lambda a: jnp.pad(a, 1), lambda a: jnp.repeat(a, 2, 0), lambda a: jnp.expand_dims(a, 0)),
)
OF_MATRICES: Sequence[Operation] = (
    *(jnp.transpose, lambda a: a.sum(0), lambda a: a.mean(1), lambda a: a.max(1), lambda a: a[:, 3]),
    lambda a: jnp.tile(a, (2, 1)),
)
BINARY: Sequence[Operation] = (
    *(jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, jnp.power, jnp.arctan2, jnp.hypot),
    *(jnp.mod, jnp.fmod, jnp.floor_divide, jnp.logaddexp, jnp.equal, jnp.less, jnp.greater, jnp.vdot),
    *(lambda a, b: jnp.concatenate([a, b]), lambda a, b: jnp.stack([a, b])),
)
OF_TWO_MATRICES: Sequence[Operation] = (
    lambda a, b: a @ b.T,
    lambda a, b: jnp.einsum("ij,ij->i", a, b),
    lambda a, b: jnp.outer(a[0], b[0]),
)
CREATION: Sequence[Operation] = (
    *(lambda: jnp.eye(5), lambda: jnp.arange(10), lambda: jnp.linspace(0, 1, 7), lambda: jnp.full((3,), 2.0)),
    *(lambda: jax.random.split(jax.random.key(0)), lambda: jax.random.normal(jax.random.key(1), (5, 4))),
    lambda: jax.random.uniform(jax.random.key(2), (7,)),
)


def cells(small: bool) -> list[tuple[Operation, tuple[Any, ...]]]:
    """The operations with their arguments."""
    x = jnp.linspace(0.1, 0.9, 120).reshape(10, 12)
    found: list[tuple[Operation, tuple[Any, ...]]] = [(f, ()) for f in CREATION]
    for a in (x,) if small else (x, x[0], x[:10, :10]):
        matrix = a.ndim == 2
        found += [(f, (a,)) for f in (*UNARY, *(OF_MATRICES if matrix else ()))]
        found += [(f, (a, a + 0.5)) for f in (*BINARY, *(OF_TWO_MATRICES if matrix else ()))]
    return found[::12] if small else found


def main() -> None:
    begin = time.perf_counter()
    operations = cells("--small" in sys.argv)
    jax.block_until_ready([operation(*arguments) for operation, arguments in operations])
    seconds = time.perf_counter() - begin
    kinds = len({operation for operation, _ in operations})
    platform = jax.devices()[0].platform
    print(json.dumps({"seconds": seconds, "operations": len(operations), "kinds": kinds, "platform": platform}))


if __name__ == "__main__":
    main()
