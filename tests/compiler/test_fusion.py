"""Instruction fusion: what must be one kernel is one, and every schedule can run."""

import numpy as np
import pytest
from agreement import assert_agree
from refxla_conformance.fuzz.generate import generate
from refxla_spec import interpreter
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

import refxla
from refxla._core.fusion import REASONS, Reason, fusion_groups
from refxla._core.graph import KIND_NAMES, Graph, Kind, NodeClass, Relation
from refxla.codegen.scalar import has_fast_path
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir.op_table import HERO, MOST_IN_PIECES
from refxla.ir.op_table import ROWS as OPERATIONS
from refxla.passes.pipeline import optimize

REDUCERS = """HloModule m
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] maximum(a, b) }
"""


def planned(entry: str, without: tuple[str, ...] = ()):
    """The plan of an ENTRY's lines, with real kernels."""
    module = parse(f"{REDUCERS}\nENTRY main {{\n{entry}\n}}")
    return plan_module(module, DEFAULT_CPU, without)[1].plan


def kinds(plan) -> list[str]:
    return [f.kind for f in plan.fusions]


# -- programs that everybody knows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 33, 1000, 1024, 100003, 1 << 20])
def test_a_sum_of_products_is_one_kernel_and_needs_no_memory(size):
    plan = planned(f"""x = f32[{size}] parameter(0)
        y = f32[{size}] parameter(1)
        z = f32[{size}] parameter(2)
        p = f32[{size}] multiply(y, z)
        s = f32[{size}] add(x, p)
        zero = f32[] constant(0)
        ROOT r = f32[] reduce(s, zero), dimensions={{0}}, to_apply=add""")
    assert kinds(plan) == ["reduction" if size > 1 else "loop"] and len(plan.kernels) == 1
    assert plan.arena_bytes == 0 and plan.constant_bytes == 0


def test_rotated_rows_that_are_stacked_are_written_before_they_are_reduced():
    """Each element of a stack of many rotations asked which of them it is of, and then on which side of the cut it
    lies: no vector was made of the elements. A loop over each piece writes vectors."""
    lines, pieces = ["x = f32[20,300] parameter(0)"], []
    for n in range(1, 10):
        lines.append(f"a{n} = f32[20,{300 - n}] slice(x), slice={{[0:20], [{n}:300]}}")
        lines.append(f"b{n} = f32[20,{n}] slice(x), slice={{[0:20], [0:{n}]}}")
        lines.append(f"c{n} = f32[20,300] concatenate(a{n}, b{n}), dimensions={{1}}")
        lines.append(f"p{n} = f32[1,20,300] reshape(c{n})")
        pieces.append(f"p{n}")
    lines.append(f"j = f32[9,20,300] concatenate({', '.join(pieces)}), dimensions={{0}}")
    lines.append("z = f32[] constant(-inf)")
    lines.append("ROOT r = f32[20,300] reduce(j, z), dimensions={0}, to_apply=max")
    assert kinds(planned("\n".join(lines))) == ["loop", "reduction"]
    few = [line.replace("f32[9,20,300]", "f32[2,20,300]").replace(", ".join(pieces), "p1, p2") for line in lines]
    assert kinds(planned("\n".join(few))) == ["reduction"]


def test_levels_of_components_are_not_written_again_in_each_kernel_above():
    """A scan by halves of quaternions: each component of a level reads all components of the level below."""
    lines, rows = ["v0 = f32[8,4] parameter(0)"], 8
    for level in range(6):
        for k in range(4):
            lines.append(f"c{level}{k} = f32[{rows},1] slice(v{level}), slice={{[0:{rows}], [{k}:{k + 1}]}}")
        for k in range(4):
            lines.append(f"p{level}{k} = f32[{rows},1] multiply(c{level}{k}, c{level}{(k + 1) % 4})")
        parts = ", ".join(f"p{level}{k}" for k in range(4))
        lines.append(f"w{level} = f32[{rows},4] concatenate({parts}), dimensions={{1}}")
        rows *= 2
        lines.append(f"v{level + 1} = f32[{rows},4] concatenate(v{level}, w{level}), dimensions={{0}}")
    lines[-1] = "ROOT " + lines[-1]
    largest = max(len(f.instructions) for f in planned("\n".join(lines)).fusions)
    assert largest < 24


@pytest.mark.parametrize(("rows", "count"), [(16, 2), (8192, 1)])
def test_what_is_summed_by_columns_is_written_beside_where_it_is_large(rows, count):
    """The sums of a small array are one item's work; the array's elements are better made by several."""
    plan = planned(f"""x = f32[{rows},256] parameter(0)
        y = f32[{rows},256] exponential(x)
        zero = f32[] constant(0)
        s = f32[256] reduce(y, zero), dimensions={{0}}, to_apply=add
        ROOT r = (f32[{rows},256], f32[256]) tuple(y, s)""")
    assert len(plan.fusions) == count


def of_columns(rows: int, columns: int, result: str) -> str:
    full = f"f32[{rows},{columns}]"
    return f"""x = {full} parameter(0)
        low = f32[] constant(-inf)
        m = f32[{columns}] reduce(x, low), dimensions={{0}}, to_apply=max
        mm = {full} broadcast(m), dimensions={{1}}
        e = {full} subtract(x, mm)
        zero = f32[] constant(0)
        s = f32[{columns}] reduce(e, zero), dimensions={{0}}, to_apply=add
        ss = {full} broadcast(s), dimensions={{1}}
        ROOT r = {full} {result}"""


@pytest.mark.parametrize(
    ("rows", "result", "count"),
    [
        (4099, "divide(e, ss)", 1),  # three kernels otherwise
        (4099, "divide(x, mm)", 2),  # which read all again as fast as one goes over short pieces of columns again
        (256, "divide(x, mm)", 1),
        (8191, "divide(e, ss)", 3),
    ],
)
def test_columns_are_gone_over_again_where_that_pays(rows, result, count):
    assert len(planned(of_columns(rows, 20_001, result)).fusions) == count


def softmax(rows: int, columns: int) -> str:
    full = f"f32[{rows},{columns}]"
    return f"""x = {full} parameter(0)
        low = f32[] constant(-inf)
        m = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=max
        mm = {full} broadcast(m), dimensions={{0}}
        d = {full} subtract(x, mm)
        e = {full} exponential(d)
        zero = f32[] constant(0)
        s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add
        ss = {full} broadcast(s), dimensions={{0}}
        ROOT r = {full} divide(e, ss)"""


@pytest.mark.parametrize("rows", [1, 3, 64, 1000])
@pytest.mark.parametrize("columns", [1, 2, 33, 1000, 100003])
def test_a_softmax_is_at_most_two_kernels(rows, columns):
    assert len(planned(softmax(rows, columns)).kernels) <= 2


def test_a_layer_norm_is_one_kernel():
    full, n = "f32[64,256]", 256
    plan = planned(f"""x = {full} parameter(0)
        scale = f32[{n}] parameter(1)
        offset = f32[{n}] parameter(2)
        zero = f32[] constant(0)
        count = f32[] constant({n})
        counts = f32[64] broadcast(count), dimensions={{}}
        s = f32[64] reduce(x, zero), dimensions={{1}}, to_apply=add
        mean = f32[64] divide(s, counts)
        means = {full} broadcast(mean), dimensions={{0}}
        d = {full} subtract(x, means)
        dd = {full} multiply(d, d)
        v = f32[64] reduce(dd, zero), dimensions={{1}}, to_apply=add
        variance = f32[64] divide(v, counts)
        w = f32[64] rsqrt(variance)
        ws = {full} broadcast(w), dimensions={{0}}
        y = {full} multiply(d, ws)
        a = {full} broadcast(scale), dimensions={{1}}
        b = {full} broadcast(offset), dimensions={{1}}
        ya = {full} multiply(y, a)
        ROOT r = {full} add(ya, b)""")
    assert kinds(plan) == ["reduction"]
    assert plan.arena_bytes <= 64 * 4 * 4, "no full array is kept between"


@pytest.mark.parametrize("rows, inner, columns", [(1, 64, 10), (32, 784, 128), (128, 128, 128)])
def test_bias_and_activation_live_in_the_kernel_of_the_dot(rows, inner, columns):
    full = f"f32[{rows},{columns}]"
    plan = planned(f"""x = f32[{rows},{inner}] parameter(0)
        w = f32[{inner},{columns}] parameter(1)
        bias = f32[{columns}] parameter(2)
        d = {full} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        b = {full} broadcast(bias), dimensions={{1}}
        s = {full} add(d, b)
        zero = f32[] constant(0)
        zeros = {full} broadcast(zero), dimensions={{}}
        ROOT r = {full} maximum(s, zeros)""")
    assert kinds(plan) == ["dot"]


def test_what_a_convolution_feeds_lives_in_its_kernel():
    plan = planned("""x = f32[2,8,8,3] parameter(0)
        w = f32[3,3,3,16] parameter(1)
        bias = f32[16] parameter(2)
        c = f32[2,6,6,16] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
        b = f32[2,6,6,16] broadcast(bias), dimensions={3}
        s = f32[2,6,6,16] add(c, b)
        ROOT r = f32[2,6,6,16] tanh(s)""")
    assert kinds(plan) == ["convolution"]


@pytest.mark.parametrize("shape", [(8, 14, 14, 32), (2, 3, 3, 5), (64, 7, 7, 256)])
def test_the_statistics_of_a_batch_norm_read_their_input_once(shape):
    features = shape[-1]
    full, one = f"f32[{','.join(map(str, shape))}]", f"f32[{features}]"
    plan = planned(f"""x = {full} parameter(0)
        zero = f32[] constant(0)
        xx = {full} multiply(x, x)
        s = {one} reduce(x, zero), dimensions={{0,1,2}}, to_apply=add
        q = {one} reduce(xx, zero), dimensions={{0,1,2}}, to_apply=add
        ROOT r = ({one}, {one}) tuple(s, q)""")
    assert kinds(plan) == ["reduction"] and len(plan.fusions[0].outputs) == 2


@pytest.mark.parametrize("shape", [(8, 14, 14, 32), (64, 7, 7, 256)])
def test_batch_norm_training_reads_its_input_for_the_statistics_and_for_the_result(shape):
    features = shape[-1]
    full, one = f"f32[{','.join(map(str, shape))}]", f"f32[{features}]"
    plan = planned(f"""x = {full} parameter(0)
        scale = {one} parameter(1)
        offset = {one} parameter(2)
        ROOT r = ({full}, {one}, {one}) batch-norm-training(x, scale, offset), epsilon=0.001, feature_index=3""")
    readers = [f for f in plan.fusions if any(i.name == "x" for i in f.inputs)]
    assert len(readers) == 2 and len(plan.fusions) <= 3
    assert all(b.bytes <= 4 * features for b in plan.buffers if b.space == "arena"), "no full array is kept between"


def test_siblings_that_read_one_value_are_one_kernel():
    plan = planned("""x = f32[1000] parameter(0)
        y = f32[1000] parameter(1)
        a = f32[1000] add(x, y)
        b = f32[1000] multiply(x, x)
        ROOT r = (f32[1000], f32[1000]) tuple(a, b)""")
    assert kinds(plan) == ["loop"] and len(plan.fusions[0].outputs) == 2


UPDATES = """rate = f32[] parameter(0)
        x = f32[1000] parameter(1)
        y = f32[1000] parameter(2)
        z = f32[1000] parameter(3)
        half = f32[] constant(0.5)
        less = f32[] multiply(rate, half)
        rates = f32[1000] broadcast(less), dimensions={}
        a = f32[1000] multiply(rates, x)
        b = f32[1000] multiply(rates, y)
        c = f32[1000] multiply(rates, z)
        ROOT r = (f32[1000], f32[1000], f32[1000]) tuple(a, b, c)"""


def test_updates_that_share_only_a_number_are_one_function_in_one_launch():
    """Each by itself is written and compiled once; made one kernel, it would be written three times."""
    plan = planned(UPDATES)
    (launched,) = (plan.kernels[step.kernel] for step in plan.steps)
    updates = [part for part in launched.parts() if part.arguments[-1].instruction.shape.rank == 1]
    assert len(updates) == 3 and len({part.body for part in updates}) == 1


def test_where_no_launch_is_shared_updates_that_share_a_number_are_one_kernel():
    groups, _ = fusion_groups(Graph(optimize(parse(f"HloModule m\nENTRY main {{\n{UPDATES}\n}}")).entry))
    assert max(len(g.outputs) for g in groups) == 3


def test_a_value_that_is_returned_and_reduced_is_computed_in_one_kernel():
    plan = planned("""x = f32[64,256] parameter(0)
        y = f32[64,256] tanh(x)
        zero = f32[] constant(0)
        s = f32[64] reduce(y, zero), dimensions={1}, to_apply=add
        ROOT r = (f32[64,256], f32[64]) tuple(y, s)""")
    assert kinds(plan) == ["reduction"] and {i.name for i in plan.fusions[0].outputs} == {"y", "s"}


def test_an_expensive_value_is_not_computed_again_for_each_element_of_a_dot():
    plan = planned("""x = f32[256,256] parameter(0)
        w = f32[256,256] parameter(1)
        e = f32[256,256] tanh(x)
        ROOT d = f32[256,256] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}""")
    assert sorted(kinds(plan)) == ["dot", "loop"]


def test_a_function_is_not_computed_while_a_product_packs_what_is_made_of_it():
    plan = planned("""x = f32[24000] parameter(0)
        w = f32[1,1,65] parameter(1)
        e = f32[24000] sine(x)
        y = f32[24000] add(e, x)
        s = f32[1,1,24000] reshape(y)
        ROOT c = f32[1,1,4800] convolution(s, w), window={size=65 stride=5 pad=30_30}, dim_labels=bf0_oi0->bf0""")
    assert kinds(plan) == ["loop", "convolution"]


@pytest.mark.parametrize(("length", "kernels"), [(3, [True, False]), (64, [False, True, False])])
def test_a_function_that_a_row_repeats_is_not_computed_while_rows_are_added(length, kernels):
    """Forces between particles: the function of a distance is computed for each pair, and the row has 3 coordinates.
    For one sum of a long row after the other it is not computed either, since that has no vectors."""
    plan = planned(
        f"""
  d = f32[100,100,{length}] parameter(0)
  exponent = f32[] constant(-1.5)
  exponents = f32[100,100] broadcast(exponent), dimensions={{}}
  zero = f32[] constant(0)
  square = f32[100,100,{length}] multiply(d, d)
  distance = f32[100,100] reduce(square, zero), dimensions={{2}}, to_apply=add
  strength = f32[100,100] power(distance, exponents)
  wide = f32[100,100,{length}] broadcast(strength), dimensions={{0,1}}
  forces = f32[100,100,{length}] multiply(d, wide)
  ROOT sums = f32[100,{length}] reduce(forces, zero), dimensions={{1}}, to_apply=add"""
    )
    assert [any(i.opcode == "power" for i in f.instructions) for f in plan.fusions] == kernels


@pytest.mark.parametrize(("rows", "columns", "expected"), [(2000, 13, ["reduction", "loop"]), (20, 13, ["reduction"])])
def test_a_long_epilogue_of_rows_is_a_kernel_of_its_own(rows, columns, expected):
    """A kernel that reduces rows computes what follows for one result at a time, a loop for a vector of them; not if
    there are few rows, or if each is so short that vectors have elements of several."""
    text = """x = f32[{rows},{columns}] parameter(0)
        zero = f32[] constant(0)
        s = f32[{rows}] reduce(x, zero), dimensions={{1}}, to_apply=add
        e = f32[{rows}] tanh(s)
        l = f32[{rows}] log-plus-one(e)
        ROOT p = f32[{rows}] atan2(l, s)"""
    assert kinds(planned(text.format(rows=rows, columns=columns))) == expected
    assert kinds(planned(text.format(rows=rows, columns=3))) == ["reduction"]


def test_a_function_that_several_rows_repeat_is_computed_once():
    """What is broadcast to a reduction's rows, but not along them, is computed for each element of each row."""
    plan = planned("""x = f32[200,30] parameter(0)
        y = f32[40,30] parameter(1)
        zero = f32[] constant(0)
        s = f32[200,30] sine(x)
        w = f32[200,40,30] broadcast(s), dimensions={0,2}
        v = f32[200,40,30] broadcast(y), dimensions={1,2}
        m = f32[200,40,30] multiply(w, v)
        ROOT r = f32[200,40] reduce(m, zero), dimensions={2}, to_apply=add""")
    assert kinds(plan) == ["loop", "reduction"]


def test_a_chain_of_cheap_operations_that_is_repeated_is_computed_once():
    """Each of them is cheaper to compute again than to store; together they are not, and one array is stored."""
    lines = [f"a{n + 1} = f32[64,64] {'floor' if n % 2 else 'negate'}(a{n})" for n in range(12)]
    plan = planned(
        "\n".join(
            [
                "a0 = f32[64,64] parameter(0)",
                "x = f32[64,64,64] parameter(1)",
                *lines,
                "w = f32[64,64,64] broadcast(a12), dimensions={1,2}",
                "ROOT r = f32[64,64,64] multiply(x, w)",
            ]
        )
    )
    assert kinds(plan) == ["loop", "loop"]
    assert [[i.name for i in f.outputs] for f in plan.fusions] == [["a12"], ["r"]]


def test_two_heroes_of_different_kinds_are_two_kernels():
    plan = planned("""x = f32[32,64] parameter(0)
        w = f32[64,64] parameter(1)
        d = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        zero = f32[] constant(0)
        ROOT s = f32[64] reduce(d, zero), dimensions={0}, to_apply=add""")
    assert sorted(kinds(plan)) == ["dot", "reduction"]


def test_a_diamond_through_a_sort_closes_no_cycle():
    """y and what is made of the sorted y read the same value, but cannot be one kernel."""
    module = parse("""HloModule m
        less { a = f32[] parameter(0)
               b = f32[] parameter(1)
               ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY main { x = f32[99] parameter(0)
                     y = f32[99] tanh(x)
                     s = f32[99] sort(y), dimensions={0}, to_apply=less
                     t = f32[99] add(s, x)
                     u = f32[99] add(y, t)
                     ROOT r = (f32[99], f32[99], f32[99]) tuple(t, y, u) }""")
    groups, _ = fusion_groups(Graph(optimize(module).entry))
    assert_can_run(Graph(optimize(module).entry), groups)
    assert [g.kind for g in groups] == ["loop", "sort", "loop"]


def test_without_fusion_every_instruction_is_a_kernel():
    plan = planned(softmax(4, 8), without=("fusion",))
    assert len(plan.fusions) == 7 and all(len(f.outputs) == 1 for f in plan.fusions)


def test_each_edge_that_is_not_fused_has_a_reason():
    module = parse("""HloModule m
        ENTRY main { x = f32[256,256] parameter(0)
                     e = f32[256,256] tanh(x)
                     ROOT d = f32[256,256] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    refusals = plan_module(module, DEFAULT_CPU)[1].refusals
    assert [(r.producer.name, r.user) for r in refusals] == [("e", "dot.d")]
    assert "packs its operands" in refusals[0].reason


# -- every schedule ---------------------------------------------------------------------------------------------------


def assert_can_run(graph: Graph, groups: list) -> None:
    """Each needed value is written once, by a group that comes before those that read it; members need nothing else."""
    written: dict[int, int] = {}
    for at, group in enumerate(groups):
        inside, outputs = set(group.members), group.outputs
        assert (
            list(group.members) == sorted(inside) and set(outputs) <= inside and set(group.heroes) <= inside and outputs
        )
        assert group.kind in KIND_NAMES.values() and bool(group.heroes) == (group.kind != "loop")
        assert group.kind == "control" or all(KIND_NAMES[graph.kind[h]] == group.kind for h in group.heroes)
        used = set(outputs)
        for n in reversed(group.members):
            assert n in used, f"node {n} is a member of group {at}, and nothing in it needs it"
            for e in range(graph.first[n], graph.first[n + 1]):
                o, in_memory = graph.operand[e], graph.relation[e] == Relation.R_MEMORY
                ready = graph.group[o] == NodeClass.N_SOURCE or o in written
                constant = graph.group[o] == NodeClass.N_INLINE and graph.instructions[o][0].opcode == "constant"
                if in_memory:
                    assert ready or constant, f"node {n} of group {at} needs node {o} in memory"
                else:
                    assert o in inside or graph.group[o] == NodeClass.N_INLINE or ready, (
                        f"node {n} of group {at} needs node {o}"
                    )
                used.add(o)
        assert group.pointwise_inputs <= used - inside
        for n in outputs:
            assert n not in written, f"node {n} is written by groups {written[n]} and {at}"
            written[n] = at
    for n in graph.roots:
        assert n in written or graph.group[n] == NodeClass.N_SOURCE or graph.instructions[n][0].opcode == "constant"


@pytest.mark.parametrize("seed", range(60))
def test_schedules_of_random_programs_can_run(seed):
    try:
        module = optimize(
            generate(seed, steps=25, depth=1).module,
            [(), ("algebraic-simplifier", "algebraic-simplifier-after-folding", "cse", "constant-folding")][seed % 2],
        )
    except UnsupportedError as problem:
        pytest.skip(str(problem))
    called = {c for i in module.instructions() if i.opcode in ("while", "conditional") for c in i.called}
    for computation in [module.entry, *called]:
        graph = Graph(computation)
        for fuse, shared in ((True, False), (True, True), (False, True)):
            groups, unfused = fusion_groups(graph, None, fuse, shared)
            assert_can_run(graph, groups)
            for edge in unfused:
                assert edge.reason and edge.producer not in groups[edge.user].members


def test_a_reduction_takes_in_nothing_that_needs_what_another_kernel_makes_of_it():
    plan = planned("""
        x = f32[3,4] parameter(0)
        y = f32[] parameter(1)
        p = pred[] parameter(2)
        r = f32[] reduce(x, y), dimensions={0,1}, to_apply=add
        u = f32[] dynamic-update-slice(y, r)
        c = f32[] clamp(y, r, r)
        s = f32[] select(p, u, r)
        ROOT t = (f32[], f32[]) tuple(c, s)""")
    assert "update" in kinds(plan) and len(plan.fusions) >= 3


@pytest.mark.parametrize("moved", ["transpose(s), dimensions={1,0}", "reverse(s), dimensions={1}"])
@pytest.mark.parametrize("axis", [0, 2])
def test_a_reduction_takes_in_no_loop_that_reads_its_sums_at_other_indices(axis, moved):
    sizes = [64, 64]
    sizes.insert(axis, 3)
    plan = planned(f"""x = f32[{",".join(map(str, sizes))}] parameter(0)
        zero = f32[] constant(0)
        r = f32[64,64] reduce(x, zero), dimensions={{{axis}}}, to_apply=add
        s = f32[64,64] exponential(r)
        t = f32[64,64] {moved}
        n = f32[64,64] negate(r)
        ROOT u = (f32[64,64], f32[64,64]) tuple(t, n)""")
    assert sorted(kinds(plan)) == ["loop", "reduction"]


def test_the_reason_is_told_of_what_follows_a_hero():
    module = parse("""
    HloModule m
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[128,64] parameter(0)
      y = f32[64,256] parameter(1)
      z = f32[] constant(0)
      d = f32[128,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      o = f32[128,256] add(d, d)
      r = f32[256] reduce(o, z), dimensions={0}, to_apply=add
      ROOT t = (f32[128,256], f32[256]) tuple(o, r) }""")
    _, planning = plan_module(module, DEFAULT_CPU)
    told = [(r.producer.name, r.user, r.reason) for r in planning.refusals]
    assert ("o", "reduction.r") in [edge[:2] for edge in told], told


def test_every_reason_and_every_kind_has_words_of_its_own():
    assert REASONS.keys() == set(Reason) and len(set(REASONS.values())) == len(Reason)
    emitters = {row.kind for row in OPERATIONS.values() if row.op_class == HERO}
    assert KIND_NAMES.keys() == set(Kind) and set(KIND_NAMES.values()) == emitters | {"loop", "update", "control"}
    assert all(kind.name.removeprefix("K_").lower() in KIND_NAMES[kind] for kind in Kind)  # K_WINDOW is "reduce-window"


@pytest.mark.parametrize(("rows", "fusions"), [(100, 2), (2, 1)])
def test_a_function_of_a_few_values_is_computed_once_for_many(rows, fusions):
    """Kernels share launches here: one more costs little, and a sine for each of 100 times as many elements much."""
    program = refxla.compile(f"""HloModule m
        ENTRY e {{ x = f32[100] parameter(0)
            y = f32[{rows},100] parameter(1)
            s = f32[100] sine(x)
            b = f32[{rows},100] broadcast(s), dimensions={{1}}
            ROOT r = f32[{rows},100] multiply(b, y) }}""")
    assert len(program.explain().fusions) == fusions


@pytest.mark.parametrize(
    ("opcode", "reduced", "fused"),
    [("power", "0,1", False), ("exponential", "0,1", False), ("sqrt", "0,1", True), ("exponential", "1", True)],
)
def test_a_function_of_each_row_is_computed_before_the_rows_are_reduced(opcode, reduced, fused):
    """A kernel that reduced all elements computed it anew for every 32 of them, or for each, one at a time."""
    rest = ", e" if opcode == "power" else ""
    shape = "" if reduced == "0,1" else "256"
    text = f"""{REDUCERS}
ENTRY main {{
        x = f32[256,256] parameter(0)
        v = f32[256] parameter(1)
        h = f32[] constant(-0.5)
        e = f32[256] broadcast(h), dimensions={{}}
        p = f32[256] {opcode}(v{rest})
        b = f32[256,256] broadcast(p), dimensions={{0}}
        m = f32[256,256] multiply(x, b)
        z = f32[] constant(0)
        ROOT s = f32[{shape}] reduce(m, z), dimensions={{{reduced}}}, to_apply=add
}}"""
    assert len(refxla.compile(text).explain().fusions) == (1 if fused else 2)


@pytest.mark.parametrize(
    ("opcode", "rows", "columns", "fused"),
    [("cosine", 4000, 5, False), ("sine", 400, 100, False), ("cosine", 4, 5000, True), ("exponential", 4000, 5, True)],
)
def test_functions_in_pieces_are_computed_before_short_rows(opcode, rows, columns, fused):
    """A row of 5 is no loop of many elements of which a cosine is computed at once."""
    plan = planned(
        f"x = f32[{rows},{columns}] parameter(0)\nf = f32[{rows},{columns}] {opcode}(x)\nz = f32[] constant(0)\n"
        f"ROOT s = f32[{rows}] reduce(f, z), dimensions={{1}}, to_apply=add"
    )
    assert kinds(plan) == (["reduction"] if fused else ["loop", "reduction"])


@pytest.mark.parametrize(
    ("function", "rows", "columns", "fused"),
    [
        ("sine(x)", 5000, 12, False),
        ("exponential(x)", 5000, 12, False),
        ("sqrt(x)", 5000, 12, True),
        ("exponential(x)", 5000, 40, True),
        ("exponential(x)", 50, 12, True),
    ],
)
def test_functions_are_computed_before_few_columns(function, rows, columns, fused):
    """Twelve columns fill no vectors, in which all elements together are computed."""
    plan = planned(
        f"x = f32[{rows},{columns}] parameter(0)\nf = f32[{rows},{columns}] {function}\nz = f32[] constant(0)\n"
        f"ROOT s = f32[{columns}] reduce(f, z), dimensions={{0}}, to_apply=add"
    )
    assert kinds(plan) == (["reduction"] if fused else ["loop", "reduction"])


@pytest.mark.parametrize(
    ("opcode", "rows", "fused"), [("sine", 300, False), ("sine", 8, True), ("exponential", 300, True)]
)
def test_functions_in_pieces_are_computed_after_a_product(opcode, rows, fused):
    """A product makes a few elements of a row at a time; of few in all a function may be computed there."""
    plan = planned(f"""x = f32[{rows},64] parameter(0)
        w = f32[64,16] parameter(1)
        d = f32[{rows},16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        ROOT s = f32[{rows},16] {opcode}(d)""")
    assert kinds(plan) == (["dot"] if fused else ["dot", "loop"])


def test_functions_in_pieces_are_computed_before_the_results_of_a_product():
    """Rodrigues' formula for many rotations: each matrix's square is multiplied by a function of its angle, of which
    the kernel of the products would compute one for each element."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def integral(w):
        square = w @ w
        is_small = square < 1e-5
        divisor = jnp.where(is_small, 1.0, square)
        angle = jnp.sqrt(divisor)
        m = jnp.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        first, second = (1 - jnp.cos(angle)) / divisor, (angle - jnp.sin(angle)) / (divisor * angle)
        return jnp.where(is_small, jnp.eye(3) + m, jnp.eye(3) + first * m + second * (m @ m))

    rotations = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
    executable = refxla.compile(jax.jit(jax.vmap(integral)), rotations)
    (dot,) = (part for k in executable.plan.kernels for part in k.parts() if part.name.startswith("dot."))
    assert "rx_cosine" not in dot.body
    assert "rx_sine" not in dot.body
    unfused = refxla.compile(jax.jit(jax.vmap(integral)), rotations, without=("fusion",))(rotations)
    np.testing.assert_array_equal(executable(rotations), unfused)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_the_operation_table_knows_which_functions_are_computed_in_pieces(name):
    """The prelude has their cheaper form, and codegen looks for it there."""
    assert {o for o, row in OPERATIONS.items() if row.in_pieces} == {o for o in OPERATIONS if has_fast_path(o, name)}


@pytest.mark.parametrize("name", ["c64", "c128"])
def test_the_operation_table_knows_which_complex_functions_are_computed_in_pieces(name):
    known = {o for o, row in OPERATIONS.items() if row.complex_in_pieces}
    assert known == {o for o in OPERATIONS if has_fast_path(o, name)}


@pytest.mark.parametrize("function", ["f32 sine(x{n})", "c64 abs(x{n})"])
def test_a_kernel_has_as_many_functions_in_pieces_as_arrays_for_them(function):
    """A simulation's steps, written out: of more, the others were computed one by one, each the way that is right for
    operands of any size. What lies between two kernels is stored, and none computes a function again."""
    element, call = function.split()
    lines = [f"x0 = {element}[4000] parameter(0)", f"v0 = {element}[4000] parameter(1)"]
    for n in range(30):
        lines.append(f"call{n} = f32[4000] {call.format(n=n)}")
        lines.append(f"g{n} = {element}[4000] convert(call{n})")
        lines.append(f"v{n + 1} = {element}[4000] add(v{n}, g{n})")
        lines.append(f"x{n + 1} = {element}[4000] multiply(x{n}, v{n + 1})")
    lines.append(f"ROOT t = ({element}[4000], {element}[4000]) tuple(x30, v30)")
    plan = planned("\n".join(lines))
    calls = [[i.name for i in f.instructions if i.name.startswith("call")] for f in plan.fusions]
    assert len(calls) == 4 and sorted(sum(calls, [])) == sorted(f"call{n}" for n in range(30))
    assert max(map(len, calls)) <= MOST_IN_PIECES


def test_what_functions_in_pieces_are_computed_of_is_computed_once():
    program = refxla.compile("""HloModule m
        ENTRY main { x = f32[4000] parameter(0)
            e = f32[4000] exponential(x)
            s = f32[4000] sine(e)
            c = f32[4000] cosine(e)
            p = f32[4000] multiply(s, c)
            ROOT r = f32[4000] add(p, e) }""")
    assert len(program.explain().fusions) == 1
    assert sum("= rx_exponential_f32(" in line for line in program.opencl.splitlines()) == 1


def test_slices_of_the_state_fuse_in_both_iterations():
    """A loop that would overwrite what it still reads runs two iterations in turn. The code of the first one's kernel
    does not count as that of the second one's slices, which read its result from memory."""
    steps = "\n".join(
        f"""m{n} = f32[900,1] multiply(c{n}, c{(n + 1) % 3})
        s{n} = f32[900,1] subtract(m{n}, c{(n + 2) % 3})
        a{n} = f32[900,1] add(s{n}, m{n})
        d{n} = f32[900,1] maximum(a{n}, s{n})"""
        for n in range(3)
    )
    text = f"""HloModule m
    body {{ p = (s32[], f32[900,3]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        x = f32[900,3] get-tuple-element(p), index=1
        one = s32[] constant(1)
        next = s32[] add(i, one)
        c0 = f32[900,1] slice(x), slice={{[0:900], [0:1]}}
        c1 = f32[900,1] slice(x), slice={{[0:900], [1:2]}}
        c2 = f32[900,1] slice(x), slice={{[0:900], [2:3]}}
        {steps}
        j = f32[900,3] concatenate(d1, d2, d0), dimensions={{1}}
        ROOT r = (s32[], f32[900,3]) tuple(next, j) }}
    condition {{ p = (s32[], f32[900,3]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(20)
        ROOT c = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = f32[900,3] parameter(0)
        zero = s32[] constant(0)
        b = (s32[], f32[900,3]) tuple(zero, x)
        w = (s32[], f32[900,3]) while(b), condition=condition, body=body
        ROOT y = f32[900,3] get-tuple-element(w), index=1 }}"""
    waiting, names = list(plan_module(parse(text), DEFAULT_CPU)[1].plan.kernels), set()
    while waiting:
        kernel = waiting.pop()
        waiting += kernel.calls
        names |= {kernel.name} if isinstance(kernel.body, str) else set()
    assert len(names) == 2 and not any("slice" in name for name in names), names
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (900, 3)).astype(np.float32)
    assert_agree(refxla.compile(text)(x), [interpreter.run(parse(text), [x])])


@pytest.mark.parametrize(
    ("type_", "columns", "reader", "fused"),
    [
        ("pred", 64, "gather", False),
        ("s16", 64, "gather", False),
        ("u8", 64, "dynamic-slice", False),
        ("f32", 64, "gather", True),  # read with a mask where a processor has any
        ("u8", 8, "gather", True),  # too few for a vector
    ],
)
def test_rows_of_narrow_pieces_are_written_before_they_are_read_from_a_place_in_the_data(type_, columns, reader, fused):
    """Whether an element is in the first or the second copy of a row was tested for each element, without vectors:
    rolling rows of bytes by a shift for each took five times as long."""
    shape, twice = f"{type_}[256,{columns}]", f"{type_}[256,{2 * columns}]"
    if reader == "gather":
        start = "s32[256,1] parameter(1)"
        attributes = (
            f"at), offset_dims={{1}}, collapsed_slice_dims={{}}, start_index_map={{1}}, operand_batching_dims={{0}}, "
            f"start_indices_batching_dims={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}"
        )
    else:
        start, attributes = "s32[] parameter(1)", f"zero, at), dynamic_slice_sizes={{256,{columns}}}"
    plan = planned(f"""x = {shape} parameter(0)
        at = {start}
        zero = s32[] constant(0)
        rows = {twice} concatenate(x, x), dimensions={{1}}
        ROOT y = {shape} {reader}(rows, {attributes}""")
    assert len(plan.fusions) == (1 if fused else 2)


def test_rows_of_narrow_pieces_along_another_dimension_are_not_written():
    """The test has one outcome for all elements of a row."""
    plan = planned("""x = u8[64,256] parameter(0)
        at = s32[] parameter(1)
        zero = s32[] constant(0)
        rows = u8[128,256] concatenate(x, x), dimensions={0}
        ROOT y = u8[64,256] dynamic-slice(rows, at, zero), dynamic_slice_sizes={64,256}""")
    assert len(plan.fusions) == 1
