"""Chains: programs of a few random steps in sequence, as text. `python -m bench.chains` compares them with JAX, to find
slow cases that nobody thought of. Importing this imports JAX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..cliffs.sweep import TYPES
from ..models import Entry
from .steps import STEPS, Operand

LARGEST = 2_000_000  # elements of an array in a chain
_TYPES = ("f32",) * 8 + ("f64",) * 2  # narrow ones may or may not be rounded at each step
_SIZES = (1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 20, 31, 32, 50, 64, 100, 127, 128, 200, 256, 300, 500, 768, 1000, 1024)
_LONG = (4096, 5000, 10_007, 20_000, 65_536, 100_000, 300_000)
_HEAD = re.compile(r"(\w+)\[([\d,]*)\]")
_STEP = re.compile(r"(\w+)(?:\(([-\d,]*)\))?")


@dataclass(frozen=True)
class Chain:
    """Steps, by name and numbers, applied to an array. Its text, from str, is "f32[64,1000] sin mean(1)"."""

    type: str
    shape: tuple[int, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]

    def __str__(self) -> str:
        words = [f"{name}({','.join(map(str, numbers))})" if numbers else name for name, numbers in self.steps]
        return " ".join([f"{self.type}[{','.join(map(str, self.shape))}]", *words])

    def without(self, number: int) -> Chain:
        """The same chain without one of its steps."""
        return Chain(self.type, self.shape, self.steps[:number] + self.steps[number + 1 :])

    def operands(self) -> list[Operand]:
        """The arguments of its function: the array first. Raises ValueError if a step does not apply."""
        operands, x = [Operand(self.shape)], jax.ShapeDtypeStruct(self.shape, jnp.float32)
        for name, numbers in self.steps:
            step, more = STEPS[name], []
            try:
                if step.operand is not None:
                    operands.append(step.operand(x.shape, *numbers))
                    kind = jnp.float32 if operands[-1].below is None else jnp.int32
                    more = [jax.ShapeDtypeStruct(operands[-1].shape, kind)]
                x = jax.eval_shape(lambda x, *m, s=step, n=numbers: s.apply(x, *m, *n), x, *more)
            except (TypeError, ValueError, IndexError, ZeroDivisionError) as problem:
                raise ValueError(f"{name} does not apply to {x.shape}") from problem
            if not x.shape or not 0 < prod(x.shape) <= LARGEST:
                raise ValueError(f"{name} gives {x.shape}")
        return operands

    def arguments(self) -> list[np.ndarray]:
        """Arrays to call it with: normal numbers, and indices within their bounds."""
        result, dtype = [], TYPES[self.type][0]
        for number, operand in enumerate(self.operands()):
            random = np.random.default_rng((number, *operand.shape))
            if operand.below is None:
                result.append(random.standard_normal(operand.shape).astype(dtype))
            else:
                result.append(random.integers(0, operand.below, operand.shape).astype(np.int32))
        return result

    def __call__(self, x: Any, *operands: Any) -> Any:
        left: Iterator[Any] = iter(operands)
        for name, numbers in self.steps:
            step = STEPS[name]
            x = step.apply(x, *([next(left)] if step.operand else []), *numbers)
        return x


def parsed(text: str) -> Chain:
    """The chain of a text. Raises ValueError for a text that is not a chain."""
    head, *words = text.split()
    start = _HEAD.fullmatch(head)
    if start is None or start[1] not in TYPES:
        raise ValueError(f"{text!r}: a chain begins with an array, as in 'f32[64,1000] sin mean(1)'")
    steps = []
    for word in words:
        match = _STEP.fullmatch(word)
        if match is None or match[1] not in STEPS:
            raise ValueError(f"{text!r}: no step is {word!r}; there are {', '.join(STEPS)}")
        steps.append((match[1], _numbers(match[2])))
    chain = Chain(start[1], _numbers(start[2]), tuple(steps))
    chain.operands()  # all of them apply
    return chain


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def drawn(seed: int) -> Chain:
    """The chain of this number: of three to eight steps."""
    random = Random(seed)
    chain = Chain(random.choice(_TYPES), _drawn_shape(random), ())
    length = random.randint(3, 8)
    while len(chain.steps) < length:
        shape = _shape_after(chain)
        # Discontinuous steps come first, where the arguments of the two compilers are equal.
        name = random.choice([name for name in STEPS if not (STEPS[name].leaps and chain.steps)])
        try:
            numbers = tuple(STEPS[name].draw(random, shape))
            longer = Chain(chain.type, chain.shape, (*chain.steps, (name, numbers)))
            longer.operands()
        except ValueError:
            continue  # another step
        chain = longer
    return chain


def _shape_after(chain: Chain) -> tuple[int, ...]:
    arguments = [jax.ShapeDtypeStruct(o.shape, jnp.float32 if o.below is None else jnp.int32) for o in chain.operands()]
    shape: tuple[int, ...] = jax.eval_shape(chain, *arguments).shape
    return shape


def _drawn_shape(random: Random) -> tuple[int, ...]:
    while True:
        rank = random.choice((1, 2, 2, 2, 3, 3, 4, 5))
        shape = tuple(random.choice(_LONG if rank == 1 or random.random() < 0.2 else _SIZES) for _ in range(rank))
        if 1000 <= prod(shape) <= LARGEST // 2:
            return shape


def entry_of(chain: Chain) -> Entry:
    """A chain as an entry to measure, named by its text."""

    def of_any_framework(_: Any, *arguments: Any) -> Any:
        return chain(*arguments)

    kind = chain.type
    return Entry(str(chain), kind, of_any_framework, chain.arguments, {}, {}, bound=TYPES[kind][1], x64=kind == "f64")
