"""Random graphs of elementwise operations, data movement and reduces: the kernel equals the interpreter bit for bit.

All values are s32, which has no rounding, so that every difference is an error of the generator.
"""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kernel_driver import check
from refxla_spec.errors import UnsupportedError
from search import examples

from refxla.analysis.reduction_order import reduction_order


class Graph:
    """A growing program; every value has at most 400 elements."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.shapes: list[tuple[str, tuple[int, ...]]] = []
        self.parameters: list[tuple[int, ...]] = []

    def put(self, shape: tuple[int, ...], text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = s32[{_dims(shape)}] {text}")
        self.shapes.append((name, shape))
        return name

    def parameter(self, shape: tuple[int, ...]) -> str:
        self.parameters.append(shape)
        return self.put(shape, f"parameter({len(self.parameters) - 1})")

    def of_shape(self, shape: tuple[int, ...]) -> str:
        """A value of that shape: one that exists, or a new one."""
        found = [n for n, s in self.shapes if s == shape]
        choice = self.draw(st.integers(0, 4))
        if found and choice:
            return self.draw(st.sampled_from(found))
        if choice == 1 and shape:
            return self.put(shape, f"iota(), iota_dimension={self.draw(st.integers(0, len(shape) - 1))}")
        return self.parameter(shape)

    def scalar(self) -> str:
        return self.of_shape(())

    def grow(self) -> None:
        name, shape = self.draw(st.sampled_from(self.shapes))
        draw, rank = self.draw, len(shape)
        rule = draw(st.sampled_from(_GROWTHS))
        rule(self, draw, name, shape, rank)


def _dims(shape) -> str:
    return ",".join(map(str, shape))


def _binary(g, draw, name, shape, rank):
    opcode = draw(st.sampled_from(["add", "multiply", "subtract", "maximum"]))
    g.put(shape, f"{opcode}({name}, {g.of_shape(shape)})")


def _negate(g, draw, name, shape, rank):
    g.put(shape, f"negate({name})")


def _broadcast(g, draw, name, shape, rank):
    extra = draw(st.integers(1, 4))
    at = draw(st.integers(0, rank))
    if prod(shape) * extra <= 400:
        dimensions = [d + (d >= at) for d in range(rank)]
        g.put((*shape[:at], extra, *shape[at:]), f"broadcast({name}), dimensions={{{_dims(dimensions)}}}")


def _reshape(g, draw, name, shape, rank):
    size, result = prod(shape), []
    while size > 1 and len(result) < 3:
        factor = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        result.append(factor)
        size //= factor
    g.put((*result, size), f"reshape({name})")


def _transpose(g, draw, name, shape, rank):
    permutation = draw(st.permutations(range(rank)))
    g.put(tuple(shape[d] for d in permutation), f"transpose({name}), dimensions={{{_dims(permutation)}}}")


def _slice(g, draw, name, shape, rank):
    parts, result = [], []
    for n in shape:
        start = draw(st.integers(0, max(0, n - 1)))
        limit = draw(st.integers(start, n))
        stride = draw(st.integers(1, 3))
        parts.append(f"[{start}:{limit}:{stride}]")
        result.append(-(-(limit - start) // stride))
    g.put(tuple(result), f"slice({name}), slice={{{', '.join(parts)}}}")


def _reverse(g, draw, name, shape, rank):
    dimensions = [d for d in range(rank) if draw(st.booleans())]
    g.put(shape, f"reverse({name}), dimensions={{{_dims(dimensions)}}}")


def _pad(g, draw, name, shape, rank):
    parts, result = [], []
    for n in shape:
        low, high, interior = draw(st.integers(-2, 3)), draw(st.integers(-2, 3)), draw(st.integers(0, 2))
        parts.append(f"{low}_{high}_{interior}")
        result.append(n + max(n - 1, 0) * interior + low + high)
    if rank and min(result) >= 0 and prod(result) <= 400:
        g.put(tuple(result), f"pad({name}, {g.scalar()}), padding={'x'.join(parts)}")


def _concatenate(g, draw, name, shape, rank):
    if rank == 0:
        return
    axis, other = draw(st.integers(0, rank - 1)), draw(st.integers(0, 4))
    second = (*shape[:axis], other, *shape[axis + 1 :])
    operands = [name, g.of_shape(second), name][: draw(st.integers(1, 3))]
    total = sum(second[axis] if n == 1 else shape[axis] for n in range(len(operands)))
    result = (*shape[:axis], total, *shape[axis + 1 :])
    if prod(result) <= 400:
        g.put(result, f"concatenate({', '.join(operands)}), dimensions={{{axis}}}")


def _dynamic_slice(g, draw, name, shape, rank):
    sizes = tuple(draw(st.integers(0, n)) for n in shape)
    starts = "".join(f", {g.scalar()}" for _ in shape)
    g.put(sizes, f"dynamic-slice({name}{starts}), dynamic_slice_sizes={{{_dims(sizes)}}}")


def _dynamic_update_slice(g, draw, name, shape, rank):
    sizes = tuple(draw(st.integers(0, n)) for n in shape)
    starts = "".join(f", {g.scalar()}" for _ in shape)
    g.put(shape, f"dynamic-update-slice({name}, {g.of_shape(sizes)}{starts})")


def _gather(g, draw, name, shape, rank):
    if rank == 0 or 0 in shape:
        return
    axis, count = draw(st.integers(0, rank - 1)), draw(st.integers(1, 3))
    sizes = tuple(1 if d == axis else n for d, n in enumerate(shape))
    result = (count, *(n for d, n in enumerate(shape) if d != axis))
    if prod(result) <= 400:
        g.put(
            result,
            f"gather({name}, {g.of_shape((count, 1))}), offset_dims={{{_dims(range(1, rank))}}}, "
            f"collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, index_vector_dim=1, "
            f"slice_sizes={{{_dims(sizes)}}}",
        )


_GROWTHS = (
    _binary,
    _binary,
    _negate,
    _broadcast,
    _reshape,
    _transpose,
    _slice,
    _reverse,
    _pad,
    _concatenate,
    _dynamic_slice,
    _dynamic_update_slice,
    _gather,
)
_ADD = "add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }\n"


def _graph(draw, steps: int) -> Graph:
    graph = Graph(draw)
    graph.parameter(tuple(draw(st.lists(st.integers(1, 6), max_size=3))))
    for _ in range(steps):
        graph.grow()
    return graph


def _run(graph: Graph, kind: str, seed: int) -> None:
    name, shape = graph.shapes[-1]
    if kind == "loop":  # a parameter alone is no fusion
        graph.put(shape, f"negate({name})")
    lines = [*graph.lines[:-1], f"ROOT {graph.lines[-1]}"]
    text = f"HloModule m\n{_ADD}\nENTRY main {{\n" + "\n".join(lines) + "\n}"
    rng = np.random.default_rng(seed)
    args = [rng.integers(-9, 9, p).astype(np.int32) for p in graph.parameters]
    check(text, *args, kind=kind)


@examples(30)
@given(st.data())
def test_loops(data):
    graph = _graph(data.draw, data.draw(st.integers(1, 9)))
    _run(graph, "loop", 0)


@examples(15)
@given(st.data())
def test_reductions(data):
    graph = _graph(data.draw, data.draw(st.integers(0, 5)))
    name, shape = graph.shapes[-1]
    reduced = [d for d in range(len(shape)) if data.draw(st.booleans())]
    kept = tuple(n for d, n in enumerate(shape) if d not in reduced)
    assert reduction_order(shape, reduced).partials == 1
    init = graph.scalar()
    last = graph.put(kept, f"reduce({name}, {init}), dimensions={{{_dims(reduced)}}}, to_apply=add")
    if data.draw(st.booleans()):
        last = graph.put(kept, f"multiply({last}, {graph.of_shape(kept)})")
        if data.draw(st.booleans()):
            along = _dims(d for d in range(len(shape)) if d not in reduced)
            wide = graph.put(shape, f"broadcast({last}), dimensions={{{along}}}")
            graph.put(shape, f"add({wide}, {name})")
    try:
        _run(graph, "reduction", 1)
    except UnsupportedError as e:
        assert "reduce different dimensions" in str(e)
