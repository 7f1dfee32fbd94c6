"""Concatenates of hundreds of operands: trees whose kernels read few of them, with the same bits."""

from functools import partial

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.compare import bits_equal
from refxla_spec.text import parse

import refxla
from refxla.codegen.emitter_registry import emit
from refxla.device.description import DEFAULT_CPU
from refxla.passes.concatenate_decomposer import LARGE, MOST
from refxla.passes.pipeline import optimize
from refxla.scheduling.scheduler import make_plan

PASS = "concatenate-decomposer"


def stack(count, dims, axis, of="{p}", root="c"):
    """A concatenate of so many arrays, each of them a parameter or computed from one."""
    whole = [*dims]
    whole[axis] *= count
    d, w = (f"f32[{','.join(map(str, x))}]" for x in (dims, whole))
    lines = [f"p{n} = {d} parameter({n})" for n in range(count)]
    lines += [f"x{n} = {d} {of.format(p=f'p{n}')}" for n in range(count)] if of != "{p}" else []
    names = ", ".join(f"{'x' if of != '{p}' else 'p'}{n}" for n in range(count))
    lines += [f"c = {w} concatenate({names}), dimensions={{{axis}}}", f"ROOT r = {w} negate({root})"]
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def widths(module):
    return sorted(len(i.operands) for i in module.instructions() if i.opcode == "concatenate")


@pytest.mark.parametrize(("dims", "axis"), [((1,), 0), ((2, 3), 1), ((3, 1, 2), 1)])
@pytest.mark.parametrize("of", ["{p}", "sine({p})"])
def test_a_kernel_reads_few_operands(dims, axis, of):
    count = MOST * 5 + 1
    module = parse(stack(count, dims, axis, of))
    assert widths(optimize(module)) == [6, *[MOST] * 5]
    plan = make_plan(optimize(module), partial(emit, target=DEFAULT_CPU)).plan
    assert max(sum(a.role == "input" for a in k.arguments) for k in plan.kernels) <= MOST
    arguments = [np.full(dims, n, np.float32) for n in range(count)]
    result = refxla.compile(module)(*arguments)
    assert bits_equal(result, refxla.compile(module, without=(PASS,))(*arguments))
    if of == "{p}":
        assert bits_equal(result, interpreter.run(module, arguments))


def test_a_tree_may_be_deep():
    assert widths(optimize(parse(stack(MOST * MOST + 1, (1,), 0)))) == [2, *[MOST] * (MOST + 1)]


def test_few_operands_large_results_and_parts_of_one_array_stay():
    assert widths(optimize(parse(stack(MOST, (1,), 0)))) == [MOST]
    count = MOST * 2
    assert widths(optimize(parse(stack(count, (LARGE // 4 // count + 1,), 0)))) == [count]
    rows = "\n".join(f"s{n} = f32[1,9] slice(x), slice={{[{n * 7 % count}:{n * 7 % count + 1}], [0:9]}}"
                     for n in range(count))  # fmt: skip
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{count},9] parameter(0)
      {rows}
      ROOT c = f32[{count},9] concatenate({", ".join(f"s{n}" for n in range(count))}), dimensions={{0}}
    }}"""
    assert widths(optimize(parse(text))) == [count]


def test_concatenates_of_concatenates_are_not_fused_again():
    """As jnp.block leaves them: rows of twenty, of which there are twenty."""
    side = 20
    lines = [f"p{n} = f32[2,2] parameter({n})" for n in range(side * side)]
    for row in range(side):
        names = ", ".join(f"p{n}" for n in range(row * side, (row + 1) * side))
        lines.append(f"r{row} = f32[2,{2 * side}] concatenate({names}), dimensions={{1}}")
    names = ", ".join(f"r{row}" for row in range(side))
    lines.append(f"ROOT c = f32[{2 * side},{2 * side}] concatenate({names}), dimensions={{0}}")
    module = parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")
    plan = make_plan(optimize(module), partial(emit, target=DEFAULT_CPU)).plan
    assert max(sum(a.role == "input" for a in k.arguments) for k in plan.kernels) == side
    arguments = [np.full((2, 2), n, np.float32) for n in range(side * side)]
    assert bits_equal(refxla.compile(module)(*arguments), interpreter.run(module, arguments))
