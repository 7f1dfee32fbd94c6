"""What is written in place begins as a filling of its own, and no copy of another's."""

import numpy as np
from refxla_spec.text import parse

import refxla
from refxla.ir.plan import Copy
from refxla.passes import copy_insertion

TEXT = """HloModule m
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
ENTRY main { i = s32[9] parameter(0)
             j = s32[9] parameter(1)
             u = f32[9,4] parameter(2)
             k = s32[] parameter(3)
             zero = f32[] constant(0)
             z = f32[20,4] broadcast(zero), dimensions={}
             x = f32[20,4] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
             y = f32[20,4] scatter(z, j, u), update_window_dims={1}, inserted_window_dims={0},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
             w = f32[20,4] dynamic-update-slice(z, u, k, k)
             ROOT r = (f32[20,4], f32[20,4], f32[20,4]) tuple(x, y, w) }"""


def test_each_has_its_own():
    module = parse(TEXT)
    assert copy_insertion.run(module) == 2
    fillings = [i for i in module.entry.instructions if i.opcode == "broadcast"]
    written = [i.operands[0] for i in module.entry.instructions if i.opcode in ("scatter", "dynamic-update-slice")]
    assert len(fillings) == 3 and set(written) == set(fillings)
    assert len({i.name for i in module.entry.instructions}) == len(module.entry.instructions)
    assert copy_insertion.run(module) == 0


def test_nothing_is_copied():
    i, j = np.arange(9, dtype=np.int32) * 2, np.arange(9, dtype=np.int32) % 4
    given = (i, j, np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32), np.int32(3))
    program, copying = refxla.compile(TEXT), refxla.compile(TEXT, without=("copy-insertion",))
    for made, other in zip(program(*given), copying(*given), strict=True):
        np.testing.assert_array_equal(made, other)

    def copies(program):
        names = [part.name for k in program.plan.kernels for part in k.parts()]
        return names.count("copy") + sum(isinstance(s, Copy) for s in program.plan.steps)

    assert copies(program) == 0 and copies(copying) == 2
