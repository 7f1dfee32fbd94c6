"""Control flow with values of any type and nesting, computations in several roles, constants that are tuples: what a
program may say in several ways."""

import numpy as np
import pytest
from agreement import assert_agree, flat
from refxla_conformance.fuzz.differ import cheap
from refxla_conformance.fuzz.generate import generate
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.verdicts import verdicts
from refxla_spec.verify import verify

import refxla
from refxla.passes.pipeline import optimize

FLIP = "flip { x = pred[] parameter(0)\nROOT r = pred[] not(x) }\n"
SAME = "same { x = pred[] parameter(0)\nROOT r = pred[] copy(x) }\n"
DRAWS = """draws { x = f32[] parameter(0)
                 y = f32[] constant(1)
                 ROOT r = f32[3] rng(x, y), distribution=rng_uniform }
         spreads { x = f32[] parameter(0)
                   ROOT r = f32[3] broadcast(x), dimensions={} }
"""
FIRST = """first { t = (f32[2], f32[2]) parameter(0)
                 a = f32[2] get-tuple-element(t), index=0
                 ROOT r = f32[2] exponential(a) }
"""
PROGRAMS = {  # name: (computations, parameters, the other lines)
    "a conditional that gives a pred": (
        FLIP + SAME,
        ["pred[]", "pred[]"],
        "ROOT r = pred[] conditional(p0, p1, p1), true_computation=flip, false_computation=same",
    ),
    "a condition that is the body": (FLIP, ["pred[]"], "ROOT r = pred[] while(p0), condition=flip, body=flip"),
    "a condition that is a branch": (
        FLIP + SAME,
        ["pred[]"],
        """w = pred[] while(p0), condition=flip, body=flip
        ROOT r = pred[] conditional(p0, w, w), true_computation=flip, false_computation=same""",
    ),
    "a condition that is mapped and called": (
        FLIP,
        ["pred[]", "pred[4]"],
        """w = pred[] while(p0), condition=flip, body=flip
        m = pred[4] map(p1), dimensions={0}, to_apply=flip
        c = pred[] call(w), to_apply=flip
        b = pred[4] broadcast(c), dimensions={}
        ROOT r = pred[4] xor(m, b)""",
    ),
    "numbers drawn in a branch, with notes": (
        DRAWS,
        ["pred[]", "f32[]"],
        """ROOT r = f32[3] conditional(p0, p1, p1), true_computation=draws, false_computation=spreads,
          origin={rng.1}, original_value={{"x"}}""",
    ),
    "a tuple constant": ("", [], "ROOT k = (f32[2]) constant(({1,2}))"),
    "a nested constant": (
        "",
        [],
        """k = (f32[2], (s32[], pred[2])) constant(({1,2}, (3, {1,0})))
        b = (s32[], pred[2]) get-tuple-element(k), index=1
        c = s32[] get-tuple-element(b), index=0
        ROOT r = (s32[], (f32[2], (s32[], pred[2]))) tuple(c, k)""",
    ),
    "a tuple for every branch": (
        FIRST,
        ["pred[]", "f32[2]"],
        """t = (f32[2], f32[2]) tuple(p1, p1)
        ROOT r = f32[2] conditional(p0, t, t), true_computation=first, false_computation=first""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    before, shapes, lines = PROGRAMS[name]
    given = "\n".join(f"p{n} = {s} parameter({n})" for n, s in enumerate(shapes))
    text = f"HloModule m\n{before}ENTRY main {{ {given}\n{lines} }}"
    module = parse(text)
    verify(module)
    for chosen in (0, 1):
        arguments = [np.full(p.shape.dimensions, chosen, p.shape.element_type.dtype) for p in module.entry.parameters]
        wanted = run(module, arguments)
        compiled = refxla.compile(text)
        results = flat(compiled(*arguments))
        assert_agree(results, flat(wanted), eps=2)
        assert str(compiled.explain())
        assert not verdicts(module, arguments, results).broken


def test_each_computation_has_one_role_and_each_instruction_a_name():
    before, _, lines = PROGRAMS["a condition that is mapped and called"]
    module = optimize(
        parse(f"HloModule m\n{before}ENTRY e {{ p0 = pred[] parameter(0)\np1 = pred[4] parameter(1)\n{lines} }}")
    )
    (loop,) = (i for i in module.instructions() if i.opcode == "while")
    assert loop.condition is not loop.body and loop.condition.root.shape.is_array and loop.body.root.shape.is_tuple
    names = [i.name for i in module.instructions()]
    assert len(set(names)) == len(names)


def test_random_programs_of_control_flow():
    """Programs that are full of what this file is about; without the pass, every third of them fails."""
    often = {"in_many_roles": 8, "tuple_constant": 8, "drawn": 8, "conditional": 4, "while": 4, "call": 3}
    for seed in range(40):
        sample = generate(seed, weights=often)
        found = cheap(sample, ())
        assert found.divergence is None, f"seed {seed}: {found.divergence}"


def test_kernels_of_one_name_are_explained():
    """Two computations may have instructions of one name, after which kernels are named."""
    text = """HloModule m
      up { x = f32[4] parameter(0)
           y = f32[4] sine(x)
           ROOT r = f32[4] sort(y), dimensions={0}, to_apply=less }
      less { a = f32[] parameter(0)
             b = f32[] parameter(1)
             ROOT r = pred[] compare(a, b), direction=LT }
      down { x = f32[4] parameter(0)
             y = f32[4] cosine(x)
             ROOT r = f32[4] sort(y), dimensions={0}, to_apply=less }
      ENTRY e { p = pred[] parameter(0)
                x = f32[4] parameter(1)
                ROOT r = f32[4] conditional(p, x, x), true_computation=up, false_computation=down }"""
    compiled = refxla.compile(text)
    names = [f.name for f in compiled.plan.fusions]
    assert len(set(names)) == len(names) and str(compiled.explain())


def test_a_kernel_says_to_which_fusion_it_belongs():
    """A product that is called as the stage of another one is: no name says which."""
    text = """HloModule m
      ENTRY e { x = f32[70,64] parameter(0)
                y = f32[64,90] parameter(1)
                d = f32[70,90] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
                z = f32[90,80] parameter(2)
                d.right = f32[70,80] dot(d, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}
                ROOT r = (f32[70,90], f32[70,80]) tuple(d, d.right) }"""
    explanation = refxla.compile(text).explain()
    for fusion, _ in explanation.fusions:
        kernels = explanation.kernels_of(fusion)
        assert kernels and all(k.fusion == fusion.name and explanation.fusion_of(k) is fusion for k in kernels)
    kernels = [part for k in explanation.plan.kernels for part in k.parts()]
    assert sum(len(explanation.kernels_of(f)) for f, _ in explanation.fusions) == len(kernels)
