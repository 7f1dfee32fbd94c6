"""Text and protos against XLA: what it prints and serializes is read, and what is written here it reads as the same."""

import pytest
from refxla_spec.equality import difference
from refxla_spec.module import Module
from refxla_spec.text import parse

from refxla.ir.proto import from_proto, to_proto

oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
programs = pytest.importorskip("programs")
jax = pytest.importorskip("jax")

PROGRAMS = programs.PROGRAMS[::2]

# What jax.jit's lowering does not show.
TEXTS = {
    "attributes": """HloModule m, input_output_alias={ {0}: (0, {}, must-alias) }, buffer_donor={ (1, {}) }
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY e {
          x = f32[4,4]{0,1:T(8,128)(2,1)S(1)} parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}
          y = f32[4,<=4] parameter(1), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}
          k = s32[] parameter(2), sharding={maximal device=1}, parameter_replication={true}
          o = f32[4,4,4,4] dot(x, x)
          d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32
          i = s32[2,2] constant({{1, 1}, {2, 2}})
          g = f32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
            index_vector_dim=1, slice_sizes={1,1}
          t = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true
          z = f32[] constant(-0.0)
          w = f32[4,4] broadcast(z), dimensions={}
          l = f32[4,4] triangular-solve(x, w), left_side=true, lower=true, transpose_a=ADJOINT
          q = f32[4,4] custom-call(x, k), custom_call_target="Q", custom_call_has_side_effect=true,
            operand_layout_constraints={f32[4,4]{1,0}, s32[]}, api_version=API_VERSION_STATUS_RETURNING,
            control-predecessors={g}, frontend_attributes={n="v",j={"a": 1}}, backend_config={"a": [1, "}"]}
          r = f32[4,4] all-reduce(q), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true,
            to_apply=add
          s = f32[4,4] all-reduce(r), channel_id=2, replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add
          ROOT u = (f32[4,4], f32[4,4]) tuple(x, s), sharding={{replicated}, {manual}}
        }""",
    "constants": """HloModule c
        ENTRY e {
          a = f32[5] constant({nan(0x1), -nan, 1e-45, -0.0, 3.4028235e38})
          b = bf16[3] constant({nan(0x3), 1.5, -0.0})
          c = f64[2] constant({-nan(0x12345), 5e-324})
          d = s4[3] constant({-8, 7, -1})
          f = u4[3] constant({15, 0, 1})
          g = f8e4m3fn[3] constant({nan, -nan, 1.125})
          h = c64[2] constant({(1.5, -2), (inf, 3)})
          i = pred[2,2] constant({{true, false}, {false, true}})
          j = f32[0,3] constant({})
          ROOT k = (f32[], (s32[2])) constant((1, ({1, 2})))
        }""",
    "layouts of constants": """HloModule l
        ENTRY e {
          a = f32[2,3]{0,1} constant({{0, 1, 5}, {2, 3, 6}})
          b = s4[2,3,2]{1,0,2:S(5)} constant({{{0, 1}, {2, 3}, {4, 5}}, {{-1, -2}, {-3, -4}, {-5, -6}}})
          c = s64[] constant(7)
          ROOT d = (s32[2,2]{0,1}, (pred[3,1]{0,1})) constant(({{1, 2}, {3, 4}}, ({{1}, {0}, {1}})))
        }""",
    "operations on scalars": """HloModule s
        add { x = f32[] parameter(0)
              y = f32[] parameter(1)
              ROOT r = f32[] add(x, y) }
        ge { x = f32[] parameter(0)
             y = f32[] parameter(1)
             ROOT r = pred[] compare(x, y), direction=GE }
        ENTRY e {
          p = f32[4,3] parameter(0)
          q = f32[3,5] parameter(1)
          c = f32[4,5] convolution(p, q), dim_labels=bf_io->bf
          x = f32[] parameter(2)
          w = f32[] reduce-window(x, x), window={}, to_apply=add
          s = f32[] select-and-scatter(x, x, x), window={}, select=ge, scatter=add
          n = s32[0] constant({})
          g = f32[] gather(x, n), offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=0,
            slice_sizes={}
          ROOT r = f32[] scatter(x, n, x), update_window_dims={}, inserted_window_dims={},
            scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=add
        }""",
    "what a text leaves out": """HloModule o
        ENTRY e {
          x = f32[4] parameter(0)
          t = token[] after-all()
          o = token[] outfeed(x, t)
          y = f32[4,4] parameter(1)
          ROOT d = f32[4,4] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0},
            operand_precision={HIGH,DEFAULT}, algorithm=DOT_F32_F32_F32
        }""",
    "custom calls": """HloModule c
        ENTRY e {
          x = f32[2] parameter(0)
          a = f32[] custom-call(), custom_call_target="A", literal=(s32[2,2] {{1, 2}, {3, 4}}, f32[] 5)
          b = f32[] custom-call(), custom_call_target="B", literal=s64[3]{0} {1, 2, 3}
          c = f32[] custom-call(x), custom_call_target="C", window={size=3x3}, dim_labels=b01f?_01i?o->b01f?
          ROOT d = f32[] custom-call(x), custom_call_target="D", dim_labels=?b0f_0?io->fb0
        }""",
    "stack frames": """HloModule f

        FileNames
        1 "a.py"

        FunctionNames
        1 "f"
        2 "g"

        FileLocations
        1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=2 end_column=3}
        2 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=5 end_column=6}

        StackFrames
        1 {file_location_id=1 parent_frame_id=1}
        2 {file_location_id=2 parent_frame_id=2}

        ENTRY e {
          x = f32[4] parameter(0)
          ROOT y = f32[4] negate(x), metadata={op_name="y" stack_frame_id=2}
        }""",
}


def rearranged(module: Module, like: Module) -> Module:
    """The module with its computations in the order of another's: XLA's text and XLA's proto differ in it."""
    by_name = {c.name: c for c in module.computations}
    module.computations = [by_name[c.name] for c in like.computations]
    return module


def check(text: str) -> None:
    """All ways between text and proto, here and through XLA, lead to the same program."""
    here = parse(text)
    printed, proto = oracle.xla_prints(text), oracle.xla_proto(text)
    assert oracle.xla_prints(str(here)) == printed
    assert oracle.xla_text(to_proto(here)) == oracle.xla_text(proto)
    theirs = from_proto(proto)
    assert oracle.xla_text(to_proto(theirs)) == oracle.xla_text(proto)
    assert difference(from_proto(to_proto(theirs)), theirs) is None
    assert difference(parse(str(theirs)), theirs) is None
    assert oracle.xla_prints(str(theirs)) == printed


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_against_xla(name):
    check(TEXTS[name])


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_jax_programs(program):
    check(program.hlo())


@pytest.mark.parametrize("program", PROGRAMS[:4], ids=str)
def test_what_xla_compiled(program):
    """`compiled.as_text()`: fusions, schedules, tables of stack frames, metadata."""
    text = jax.jit(program.function).lower(*program.arguments).compile().as_text()
    module = parse(text)
    assert any(i.opcode == "fusion" for i in module.instructions()) and module.stack_frames is not None
    assert difference(parse(str(module)), module) is None
    again = from_proto(to_proto(module))
    module.attributes = {n: v for n, v in module.attributes.items() if not n.startswith("allow_spmd")}
    assert difference(again, module) is None
    # XLA, given what was printed here, prints the same as from its own text.
    assert oracle.xla_prints(str(parse(text))) == oracle.xla_prints(text)


def test_jax_serialized_modules():
    lowered = jax.jit(lambda x: jax.numpy.sum(x * 2)).lower(jax.numpy.ones((3, 4), "float32"))
    ir = lowered.compiler_ir("hlo")
    from_bytes, from_text = from_proto(ir.as_serialized_hlo_module_proto()), parse(ir.as_hlo_text(True))
    for module in (from_bytes, from_text):
        for i in module.instructions():
            i.metadata = None  # the text leaves it out
        module.stack_frames = None
    assert difference(rearranged(from_text, from_bytes), from_bytes) is None
