"""Functions of a program call each other to a limited depth: PoCL's linker takes twice as long for each level."""

import re

import numpy as np
from refxla_conformance.fuzz.runs import Kernels
from refxla_spec import interpreter
from refxla_spec.text import parse

from refxla.codegen.kernel_functions import DEEPEST
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU

DEPTH = 40
HEAD = re.compile(r"^.*\b(noinline|always_inline)\b.*?\b(k\d+_\d+)\(const int item", re.MULTILINE)


def nested_conditionals(depth):
    """A conditional in a branch of a conditional, and so on, that deep."""
    lines = ["HloModule m", "b0 { x = s32[3] parameter(0)\n ROOT y = s32[3] negate(x) }"]
    for n in range(1, depth + 1):
        lines.append(f"other{n} {{ x = s32[3] parameter(0)\n c = s32[3] constant({{{n}, 2, 3}})")
        lines.append(" ROOT y = s32[3] subtract(x, c) }")
        lines.append(f"b{n} {{ x = s32[3] parameter(0)\n c = s32[3] constant({{{n}, 1, -{n}}})")
        lines.append(" s = s32[3] add(x, c)\n f = s32[1] slice(s), slice={[0:1]}\n g = s32[] reshape(f)")
        lines.append(" z = s32[] constant(0)\n p = pred[] compare(g, z), direction=GT")
        lines.append(f" r = s32[3] conditional(p, s, x), true_computation=b{n - 1}, false_computation=other{n}")
        lines.append(" ROOT y = s32[3] maximum(r, s) }")
    lines += ["ENTRY e { x = s32[3] parameter(0)", f"ROOT y = s32[3] call(x), to_apply=b{depth} }}"]
    return parse("\n".join(lines))


def test_calls_are_nested_to_a_limited_depth():
    plan = plan_module(nested_conditionals(DEPTH), DEFAULT_CPU)[1].plan
    (part,) = program(plan.kernels, DEFAULT_CPU).parts
    starts = [(m.start(), m[1] == "noinline", m[2]) for m in HEAD.finditer(part.source)]
    depths = {}
    for (start, counts, name), (end, *_) in zip(starts, [*starts[1:], (len(part.source), 0, "")], strict=True):
        called = re.findall(r"\b(k\d+_\d+)\(", part.source[start:end])
        depths[name] = counts + max((depths[c] for c in called if c in depths), default=0)
    assert DEEPEST <= max(depths.values()) <= DEEPEST + 2


def test_deeply_nested_conditionals_are_built_as_one_part():
    """Without a limit, PoCL takes hours for this depth."""
    module, device = nested_conditionals(DEPTH), Kernels()
    (executable,) = device.executables([plan_module(module, device.device.target)[1].plan])
    for first in (-50, -7, 3, 1000):
        x = np.array([first, 2, 3], np.int32)
        np.testing.assert_array_equal(executable(x), interpreter.run(module, [x]))
