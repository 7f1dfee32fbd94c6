"""More than two of a kind, all of one type and size, so that confusing one with another changes only values: operands,
results, branches, loop state; dimensions that are paired out of order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import combiner, random_values, several, small_integers, structured

BRANCHES = 7
COUNT = 4  # operands


def cases(thorough: bool) -> Iterator[Case]:
    """Dimensions in pairs; operands and results; control flow; constants of narrow integers."""
    yield from _pairs_of_dimensions()
    yield from _operands()
    yield from _control()
    yield from _constants()


def _pairs_of_dimensions() -> Iterator[Case]:
    """Of equal size, and each pair in its own order."""
    rng = seeded("many_of_a_kind/dimensions")
    a, b = small_integers(rng, "f32", (3, 4, 4, 4)), small_integers(rng, "f32", (4, 4, 5, 4))
    lines = [
        "_f32 dot(p0, p1), lhs_contracting_dims={3,1}, rhs_contracting_dims={0,1}",
        "_f32 dot(p0, p1), lhs_contracting_dims={2,3,1}, rhs_contracting_dims={1,0,3}",
        "_f32 dot(p0, p1), lhs_batch_dims={2,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
        "rhs_contracting_dims={3}",
        "_f32 dot(p0, p1), lhs_batch_dims={1,2,3}, rhs_batch_dims={3,0,1}",
    ]
    yield several("dot", "order_of_equal_dimensions", lines, a, b)
    x = random_values(rng, "f32", (3, 3, 3, 5))
    at = rng.integers(0, 5, (3, 3, 3, 1)).astype(np.int32)
    for order in ((1, 0), (2, 0, 1), (1, 2, 0)):
        k = len(order)
        batch, label = ",".join(map(str, range(k))), "".join(map(str, order))
        places = ",".join(map(str, order))
        rest = "" if k == 3 else ",2"  # a dimension of the operand that is part of the block
        sizes = ",".join(["1"] * k + (["3"] if rest else []) + ["1"])
        offset = "3" if rest else ""
        line = f"""ROOT r = _ gather(p0, p1), offset_dims={{{offset}}}, collapsed_slice_dims={{3}},
                   start_index_map={{3}}, operand_batching_dims={{{batch}}},
                   start_indices_batching_dims={{{places}}}, index_vector_dim=3, slice_sizes={{{sizes}}}"""
        yield structured("gather", f"batches_{label}", " ".join(line.split()), x, at)
        updates = small_integers(rng, "f32", (3, 3, 3, 3) if rest else (3, 3, 3))
        line = f"""ROOT r = _ scatter(p0, p1, p2), update_window_dims={{{offset}}}, inserted_window_dims={{3}},
                   scatter_dims_to_operand_dims={{3}}, input_batching_dims={{{batch}}},
                   scatter_indices_batching_dims={{{places}}}, index_vector_dim=3, to_apply=add"""
        yield structured("scatter", f"batches_{label}", " ".join(line.split()), np.round(x), at, updates,
                         before=combiner("add", "add", "f32"))  # fmt: skip


def _operands() -> Iterator[Case]:
    """Operations of four operands of one type; results that follow from different ones of them."""
    rng = seeded("many_of_a_kind/operands")
    xs = [small_integers(rng, "s32", (5, 6), -9, 9) for _ in range(COUNT)]
    names = ", ".join(f"p{n}" for n in range(COUNT))
    zeros = "".join(f"z{n} = s32[] constant(0)\n" for n in range(COUNT))
    ops = ("add", "maximum", "minimum", "add")
    parameters = "".join(
        f"  {side}{n} = s32[] parameter({n + COUNT * (side == 'b')})\n" for side in "ab" for n in range(COUNT)
    )
    results = "".join(f"  c{n} = s32[] {op}(a{n}, b{n})\n" for n, op in enumerate(ops))
    each = ", ".join(f"c{n}" for n in range(COUNT))
    before = f"each {{\n{parameters}{results}  ROOT r = ({', '.join(['s32[]'] * COUNT)}) tuple({each}) }}\n"
    inits = ", ".join(f"z{n}" for n in range(COUNT))
    line = f"{zeros}ROOT r = _ reduce({names}, {inits}), dimensions={{1}}, to_apply=each"
    yield structured("reduce", "four_operands", line, *xs, before=before)
    line = f"{zeros}ROOT r = _ reduce-window({names}, {inits}), window={{size=1x3 pad=0_0x1_1}}, to_apply=each"
    yield structured("reduce-window", "four_operands", line, *xs, before=before)
    at, updates = np.array([[0], [3], [3], [1]], np.int32), [small_integers(rng, "s32", (4, 6)) for _ in range(COUNT)]
    operands = ", ".join(f"p{n}" for n in range(2 * COUNT + 1))
    line = f"""ROOT r = _ scatter({operands}), update_window_dims={{1}}, inserted_window_dims={{0}},
               scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=each"""
    yield structured("scatter", "four_operands", " ".join(line.split()), *xs, at, *updates, before=before)
    yield from _places(rng)
    one = "mixed { a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  c = s32[] parameter(2)\n"
    one += "  d = s32[] parameter(3)\n  e = s32[] subtract(a, b)\n  f = s32[] multiply(c, e)\n"
    one += "  ROOT r = s32[] subtract(f, d) }\n"
    yield structured("map", "four_operands", f"ROOT r = _ map({names}), dimensions={{0,1}}, to_apply=mixed", *xs,
                     before=one)  # fmt: skip
    keys = "by_first { " + "\n  ".join(f"{v} = s32[] parameter({n})" for n, v in enumerate("abcdefgh"))
    keys += "\n  ROOT r = pred[] compare(a, b), direction=LT }\n"
    line = f"ROOT r = _ sort({names}), dimensions={{1}}, is_stable=true, to_apply=by_first"
    yield structured("sort", "four_operands", line, *xs, before=keys)


def _places(rng: np.random.Generator) -> Iterator[Case]:
    """Gathers of one form, at places that are computed and at places that are given; a scatter at the former. A scatter
    of two sums of halves."""
    xs = [small_integers(rng, "s32", (8, 4, 2), -9, 9) for _ in range(3)]
    places = rng.integers(-1, 6, (2, 8, 4)).astype(np.int32)
    form = "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1,2}"
    line = f"""rows = s32[1,8,4] iota(), iota_dimension=1
               columns = s32[1,8,4] iota(), iota_dimension=2
               known = s32[2,8,4] concatenate(rows, columns), dimensions={{0}}
               a = s32[8,4,2] gather(p0, known), offset_dims={{2}}, {form}
               b = s32[8,4,2] gather(p1, p3), offset_dims={{2}}, {form}
               c = s32[8,4,2] scatter(p2, known, p0), update_window_dims={{2}}, inserted_window_dims={{0,1}},
               scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=0, to_apply=add
               ROOT r = (s32[8,4,2], s32[8,4,2], s32[8,4,2]) tuple(a, b, c)"""
    yield structured("gather", "computed_and_given_places", line, *xs, places, before=combiner("add", "add", "s32"))
    before = """both { a = f16[] parameter(0)
      b = f16[] parameter(1)
      c = f16[] parameter(2)
      d = f16[] parameter(3)
      e = f16[] add(a, c)
      f = f16[] add(b, d)
      ROOT r = (f16[], f16[]) tuple(e, f) }
    """
    line = """ROOT r = _ scatter(p0, p1, p2, p3, p4), update_window_dims={1}, inserted_window_dims={0},
              scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both"""
    at = np.array([[2], [0], [2], [2], [7]], np.int32)
    x, y, u, v = (random_values(rng, "f16", (n, 3)) for n in (6, 6, 5, 5))
    yield structured("scatter", "two_sums", " ".join(line.split()), x, y, at, u, v, before=before)


def _control() -> Iterator[Case]:
    """A conditional of seven branches with five results each, for every index; a loop of many iterations that carries
    six values and permutes them."""
    rng = seeded("many_of_a_kind/control")
    x = small_integers(rng, "s32", (5,), -9, 9)
    results = ", ".join(["s32[5]"] * 5)
    before = ""
    for n in range(BRANCHES):
        lines = "".join(f"  k{m} = s32[] constant({10 * n + m})\n  b{m} = s32[5] broadcast(k{m}), dimensions={{}}\n"
                        f"  y{m} = s32[5] add(x, b{m})\n" for m in range(5))  # fmt: skip
        each = ", ".join(f"y{m}" for m in range(5))
        before += f"branch{n} {{\n  x = s32[5] parameter(0)\n{lines}  ROOT r = ({results}) tuple({each}) }}\n"
    operands = ", ".join(["p1"] * BRANCHES)
    branches = ", ".join(f"branch{n}" for n in range(BRANCHES))
    for index in (-1, 2, 4, 5, 6, 7):
        line = f"ROOT r = ({results}) conditional(p0, {operands}), branch_computations={{{branches}}}"
        yield structured("conditional", f"of_seven_{index}", line, np.array(index, np.int32), x, before=before)
    state = f"(s32[], {results})"
    elements = "".join(f"  v{m} = s32[5] get-tuple-element(s), index={m + 1}\n" for m in range(5))
    before = f"""more {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(151)
  ROOT c = pred[] compare(i, n), direction=LT
}}

step {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
{elements}  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = s32[5] add(v4, v0)
  u = s32[5] xor(v1, v3)
  ROOT r = {state} tuple(j, v1, w, v3, u, v2)
}}
"""
    lines = f"zero = s32[] constant(0)\ns = {state} tuple(zero, p0, p1, p2, p3, p4)\n"
    lines += f"ROOT r = {state} while(s), condition=more, body=step"
    yield structured("while", "six_values", lines, *(random_values(rng, "s32", (5,)) for _ in range(5)), before=before)


def _constants() -> Iterator[Case]:
    """An odd number of integers that share a byte."""
    lines = [f"{t}[7] constant({{{', '.join(values.split())}}})" for t, values in (
        ("s4", "-8 7 -1 3 -5 0 6"), ("u4", "15 0 9 4 7 1 13"), ("s2", "-2 1 0 -1 1 -2 -1"), ("u2", "3 0 2 1 1 2 3"),
    )]  # fmt: skip
    yield several("constant", "odd_number_of_nibbles", lines)
