"""A program with collectives runs on as many devices as it is written for, and is refused on any other number: by the
reference, and by the compiler, which makes code for one."""

import numpy as np
import pytest
from agreement import assert_agree, flat
from refxla_spec.devices import run_devices
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.types import leaves
from refxla_spec.verify import verify

import refxla

ADD = """add { a = s32[] parameter(0)
               b = s32[] parameter(1)
               ROOT c = s32[] add(a, b) }"""
SHAPED = {  # what is written for COUNT devices by its shapes, and by its groups
    "all-gather": "ROOT r = s32[WIDE] all-gather(x), dimensions={0}, GROUPS",
    "all-gather-start": """s = (s32[4], s32[WIDE]) all-gather-start(x), dimensions={0}, GROUPS
        ROOT r = s32[WIDE] all-gather-done(s)""",
    "all-gathers": "ROOT r = (s32[WIDE], s32[WIDE]) all-gather(x, x), dimensions={0}, GROUPS",
    "async": """s = ((s32[4]), s32[WIDE], u32[]) async-start(x), calls=gathers
        ROOT r = s32[WIDE] async-done(s)""",
    "called": "ROOT r = s32[WIDE] call(x), to_apply=gathers",
    "reduce-scatter": """w = s32[WIDE] broadcast(c), dimensions={}
        ROOT r = s32[4] reduce-scatter(w), dimensions={0}, to_apply=add, GROUPS""",
    "reduce-scatter-start": """w = s32[WIDE] broadcast(c), dimensions={}
        s = ((s32[WIDE]), s32[4], u32[]) reduce-scatter-start(w), dimensions={0}, to_apply=add, GROUPS
        ROOT r = s32[4] reduce-scatter-done(s)""",
    "folded": """w = s32[4] broadcast(c), dimensions={}
        g = s32[WIDE] all-gather(w), dimensions={0}, GROUPS
        ROOT r = s32[WIDE] add(g, g)""",
}
TUPLED = {"all-to-all": "ROOT r = (OPERANDS) all-to-all(EACH), GROUPS"}  # use_global_device_ids is none of its
GROUPED = {  # by its groups alone
    "all-reduce": "ROOT r = s32[4] all-reduce(x), to_apply=add, GROUPS",
    "all-reduce-start": "s = s32[4] all-reduce-start(x), to_apply=add, GROUPS\nROOT r = s32[4] all-reduce-done(s)",
}
ALL = "replica_groups={}"
EACH_NAMED = ("replica_groups={{LIST}}", "replica_groups=[1,COUNT]<=[COUNT]", "replica_groups=mesh['x'=COUNT] {'x'}")
GLOBAL = "channel_id=1, replica_groups={{LIST}}, use_global_device_ids=true"
PARTITIONS = "channel_id=1, replica_groups={{0}}"  # one replica with all of its partitions
CASES = [
    *((lines, way) for lines in SHAPED.values() for way in (ALL, *EACH_NAMED, GLOBAL, PARTITIONS)),
    *((lines, way) for lines in TUPLED.values() for way in (ALL, *EACH_NAMED)),
    *((lines, way) for lines in GROUPED.values() for way in (*EACH_NAMED, GLOBAL)),
]


def text(lines: str, way: str, count: int) -> str:
    words = {
        "GROUPS": way,
        "COUNT": str(count),
        "WIDE": str(4 * count),
        "LIST": ",".join(map(str, range(count))),
        "OPERANDS": ", ".join(["s32[4]"] * count),
        "EACH": ", ".join(["x"] * count),
    }
    gathers = """gathers { y = s32[4] parameter(0)
                           ROOT w = s32[WIDE] all-gather(y), dimensions={0}, GROUPS }"""
    made = f"""HloModule m
        {ADD}
        {gathers if "gathers" in lines else ""}
        ENTRY main {{ x = s32[4] parameter(0)
                     c = s32[] constant(3)
                     {lines} }}"""
    for word, meaning in words.items():
        made = made.replace(word, meaning)
    return made


def values(count: int) -> list[list[np.ndarray]]:
    return [[np.arange(4, dtype=np.int32) + 100 * n] for n in range(count)]


@pytest.mark.parametrize(("lines", "way"), CASES)
def test_a_program_runs_on_as_many_devices_as_it_is_written_for_and_no_others(lines, way):
    """Else its values had other shapes than those stated: wrong ones, or memory that is not theirs."""
    for count in (1, 2, 3):
        program = text(lines, way, count)
        module = parse(program)
        verify(module)
        shape = module.entry.root.shape
        stated = [s.dimensions for s in leaves(shape)]
        said = "written for " + ("one device" if count == 1 else f"{count} devices")
        for there in (1, 2, 3):
            counts = {"partitions" if way == PARTITIONS else "replicas": there}
            if there == count:
                for value in run_devices(module, values(there), **counts):
                    assert [v.shape for v in flat(value)] == stated
            else:
                with pytest.raises(InputError, match=said):
                    run_devices(module, values(there), **counts)
        if count == 1:
            assert_agree(refxla.compile(program)(*values(1)[0]), flat(run(module, values(1)[0])))
        else:
            with pytest.raises(UnsupportedError, match=f"(?s)line .*{said}"):
                refxla.compile(program)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("ROOT r = s32[4] collective-permute(x), source_target_pairs={{0,1},{1,2}}", (3, 1)),
        ("ROOT r = s32[4] collective-permute(x), source_target_pairs={{0,1},{1,2}}, channel_id=1", (1, 3)),
        ("ROOT r = s32[4] collective-broadcast(x), replica_groups={{1,0}}, channel_id=2", (1, 2)),
        (
            "o = s32[3] constant({0,0,0})\n"
            "ROOT r = s32[4] ragged-all-to-all(x, x, o, o, o, o), replica_groups={{0,1,2}}",
            (3, 1),
        ),
        (
            "g = s32[8] all-gather(x), dimensions={0}, channel_id=1\nROOT r = s32[12] all-gather(x), dimensions={0}",
            None,
        ),
        ("g = s32[8] all-gather(x), dimensions={0}\nROOT r = s32[12] all-gather(x), dimensions={0}", None),
    ],
)
def test_other_collectives_name_who_is_there(line, counts):
    program = text(line, "", 1)
    module = parse(program)
    verify(module)
    said = "nor does the program fit any other number" if counts is None else f"written for {np.prod(counts)} devices"
    with pytest.raises(InputError, match=said):
        run(module, values(1)[0])
    with pytest.raises(UnsupportedError, match=said):
        refxla.compile(program)
    if counts is not None:
        run_devices(module, values(int(np.prod(counts))), replicas=counts[0], partitions=counts[1])


def test_a_program_whose_header_counts_devices_is_not_run_on_one():
    module = parse("HloModule m, num_partitions=2\nENTRY e { x = s32[4] parameter(0)\nROOT r = s32[4] negate(x) }")
    with pytest.raises(InputError, match="a program for 2 devices.*run_devices"):
        run(module, values(1)[0])
