"""The cost model counts what kernels move."""

import pytest
from kernel_driver import fusion_of
from refxla_spec.text import parse

from refxla.analysis.cost_analysis import element_ns, fusion_cost, kernel_us
from refxla.device.description import Costs

MIN = "min { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] minimum(a, b) }"
SCATTER = """x = f32[{rows},8] parameter(0)
    at = s32[4] parameter(1)
    u = f32[4,8] parameter(2)
    ROOT s = f32[{rows},8] scatter(x, at, u), update_window_dims={{1}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=min"""
UPDATE = """x = f32[{rows},8] parameter(0)
    n = s32[] parameter(1)
    zero = s32[] constant(0)
    row = f32[4,8] dynamic-slice(x, n, zero), dynamic_slice_sizes={{4,8}}
    u = f32[4,8] negate(row)
    ROOT s = f32[{rows},8] dynamic-update-slice(x, u, n, zero)"""


@pytest.mark.parametrize(
    ("program", "kind", "read"), [(SCATTER, "scatter", 128 + 16 + 128), (UPDATE, "update", 128 + 4)]
)
def test_what_is_updated_in_place_moves_no_more_than_the_updates(program, kind, read):
    """However large the operand is: in a loop each iteration would count all of it."""

    def of(rows):
        lines = program.format(rows=rows)
        return fusion_of(parse(f"HloModule m\n{MIN}\nENTRY main {{\n{lines}\n}}"), kind)

    cost = fusion_cost(of(1000))
    assert (cost.bytes_read, cost.bytes_written) == (read, 128)
    assert kernel_us(of(1000), Costs()) == kernel_us(of(100000), Costs())


def test_a_function_takes_as_long_as_its_operations_which_wait_for_each_other():
    costs = Costs()

    def of(opcode):
        lines = f"x = f32[1000] parameter(0)\n ROOT y = f32[1000] {opcode}(x)"
        return fusion_of(parse(f"HloModule m\nENTRY main {{ {lines} }}"), "loop")

    assert element_ns(of("negate"), 1000, costs) == pytest.approx(costs.flop)
    assert element_ns(of("tanh"), 1000, costs) == pytest.approx(14 * costs.function_flop)
    assert kernel_us(of("tanh"), costs) - kernel_us(of("negate"), costs) == pytest.approx(
        14 * costs.function_flop - costs.flop
    )
