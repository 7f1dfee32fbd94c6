"""Programs with collectives, compiled for one device; and what needs more than one, or a host, is refused."""

import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.errors import UnsupportedError
from refxla_spec.operation import operations
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

BEFORE = """add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
twice { p = f32[4,6] parameter(0)
        ROOT q = f32[4,6] add(p, p) }
"""
PROGRAMS = {
    "all_reduce": "ROOT r = f32[4,6] all-reduce(x), replica_groups={{0}}, to_apply=add",
    "all_reduces": """s = (f32[4,6], f32[4,6]) all-reduce-start(x, y), to_apply=add
        ROOT r = (f32[4,6], f32[4,6]) all-reduce-done(s)""",
    "all_gather": "ROOT r = f32[4,6] all-gather(x), channel_id=1, replica_groups=[1,1]<=[1], dimensions={1}",
    "all_gathers": """s = ((f32[4,6], f32[4,6]), (f32[4,6], f32[4,6])) all-gather-start(x, y), dimensions={0}
        ROOT r = (f32[4,6], f32[4,6]) all-gather-done(s)""",
    "reduce_scatter": "ROOT r = f32[4,6] reduce-scatter(x), dimensions={1}, to_apply=add",
    "all_to_all": "ROOT r = f32[4,6] all-to-all(x), dimensions={1}",
    "all_to_all_tuple": "ROOT r = (f32[4,6]) all-to-all(x), replica_groups={{0}}",
    "permute_to_itself": "ROOT r = f32[4,6] collective-permute(x), source_target_pairs={{0,0}}",
    "permute_to_nobody": "ROOT r = (f32[4,6], f32[4,6]) collective-permute(x, y), source_target_pairs={}",
    "permute_begun": """s = (f32[4,6], f32[4,6], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,0}}
        ROOT r = f32[4,6] collective-permute-done(s)""",
    "permute_in_place": """c = s32[] constant(1)
        d = s32[] constant(9)
        i = (s32[], s32[]) tuple(c, d)
        j = (s32[], s32[]) tuple(d, c)
        two = ((s32[], s32[]), (s32[], s32[])) tuple(i, j)
        u = f32[4,6] collective-permute(x, y, i, j), source_target_pairs={{0,0}}, slice_sizes={{2,3}}
        ROOT r = f32[4,6] collective-permute(x, u, two, two), source_target_pairs={{0,0}}, slice_sizes={{1,6},{4,1}}""",
    "broadcast": "ROOT r = f32[4,6] collective-broadcast(x), replica_groups={{0}}",
    "ragged": """from = s32[2] constant({2,0})
        send = s32[2] constant({2,1})
        to = s32[2] constant({0,3})
        ROOT r = f32[4,6] ragged-all-to-all(x, y, from, send, to, send), replica_groups={{0}}""",
    "async": """s = ((f32[4,6]), f32[4,6], u32[]) async-start(x), calls=twice
        u = ((f32[4,6]), f32[4,6], u32[]) async-update(s)
        z = f32[4,6] async-done(u)
        ROOT r = f32[4,6] multiply(z, y)""",
    "short": """s = ((f32[4,6]), f32[4,2], u32[]) slice-start(x), slice={[0:4], [1:3]}
        ROOT r = f32[4,2] slice-done(s)""",
    "begun_in_one": """s = ((f32[4,6]), f32[4,6], u32[]) reduce-scatter-start(x), dimensions={1}, to_apply=add
        ROOT r = f32[4,6] reduce-scatter-done(s)""",
    "copy": """s = (f32[4,6], f32[4,6], u32[]) copy-start(x)
        z = f32[4,6] copy-done(s)
        ROOT r = f32[4,6] add(z, y)""",
    "ids": """p = u32[] partition-id()
        q = u32[] replica-id()
        ROOT r = (u32[], u32[]) tuple(p, q)""",
    "tiles": """s = (f32[4,6], f32[4,6]) custom-call(x, y), custom_call_target="xla.sdy.GlobalToLocalShape"
        a = f32[4,6] get-tuple-element(s), index=0
        ROOT r = f32[4,6] custom-call(a), custom_call_target="SPMDShardToFullShape", sharding={replicated}""",
}


STATIC = "x = f32[4,6] parameter(0)\ny = f32[4,6] parameter(1)"
SIZED = """given = f32[4,6] parameter(0)
    y = f32[4,6] parameter(1)
    four = s32[] constant(4)
    x = f32[4,6] set-dimension-size(given, four), dimensions={0}"""


def text(lines: str, header: str = "", before: str = STATIC) -> str:
    return f"HloModule m{header}\n{BEFORE}ENTRY main {{ {before}\nt = token[] after-all()\n{lines} }}"


@pytest.mark.parametrize("before", [STATIC, SIZED], ids=["static", "sized"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_one_device(name, before):
    x, y = np.arange(24, dtype=np.float32).reshape(4, 6), np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    program = text(PROGRAMS[name], before=before)
    wanted = interpreter.run(parse(program), [x, y])
    assert_agree(refxla.compile(program)(x, y), wanted if isinstance(wanted, tuple) else [wanted])


REFUSED = {
    "replicas": ("ROOT r = f32[4,6] all-reduce(x), to_apply=add", ", replica_count=4", "for 4 devices"),
    "partitions": ("ROOT r = f32[4,6] negate(x)", ", num_partitions=2", "for 2 devices"),
    "groups": (
        "ROOT r = f32[4,6] all-reduce(x), replica_groups={{0,1}}, to_apply=add",
        "",
        "r: .*written for 2 devices",
    ),
    "pairs": ("ROOT r = f32[4,6] collective-permute(x), source_target_pairs={{0,3}}", "", "r: .*written for 4 devices"),
    "dead_outfeed": ("u = token[] outfeed(x, t)\nROOT r = f32[4,6] negate(x)", "", "u: outfeed is not compiled"),
    "infeed": ("ROOT r = (f32[3], token[]) infeed(t)", "", "r: infeed is not compiled"),
    "send": ("ROOT r = (f32[4,6], u32[], token[]) send(x, t)", "", "r: send is not compiled"),
    "recv": ("ROOT r = (f32[4,6], u32[], token[]) recv(t)", "", "r: recv is not compiled"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    lines, header, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said) as error:
        refxla.compile(text(lines, header))
    assert "reference" in str(error.value)


def test_nothing_of_it_is_left_behind_the_passes():
    known = {
        o for o in operations() if o.startswith(("all-", "async-", "collective-", "copy-", "ragged-all", "reduce-sc"))
    }
    for lines in PROGRAMS.values():
        left = {i.opcode for i in optimize(parse(text(lines))).instructions()} & known
        assert not left


@pytest.mark.parametrize(("pairs", "rows"), [("", 0), ("", 3), ("{0,0}", 3), ("{0,0}", 4)])
def test_what_arrives_of_a_dynamic_array_has_its_size(pairs, rows):
    program = f"""HloModule m
      ENTRY main {{ x = f32[<=4,6] parameter(0)
                   ROOT r = f32[<=4,6] collective-permute(x), source_target_pairs={{{pairs}}} }}"""
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
    np.testing.assert_array_equal(refxla.compile(program)(x), interpreter.run(parse(program), [x]), strict=True)


def test_the_reference_is_called_with_the_arguments_of_one_device():
    program = text("ROOT r = f32[4,6] all-reduce(x), to_apply=add", ", replica_count=4")
    with pytest.raises(UnsupportedError, match="for 4 devices.*run_devices"):
        refxla.compile(program, device="reference")
