"""Programs on several devices: groups, lock-step, devices that never meet, and algebra between collectives."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec.compare import bits_equal
from refxla_spec.custom_calls.sharded import WHOLE, tiling
from refxla_spec.devices import Host, run_devices
from refxla_spec.errors import EvaluationError, InputError, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.groups import GROUPS, parse_groups
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.verify import verify
from search import examples

ADD = """add { a = s32[] parameter(0)
               b = s32[] parameter(1)
               ROOT c = s32[] add(a, b) }
"""


def program(*lines: str, header: str = "", before: str = ADD):
    body = "\n".join(lines)
    module = parse(f"HloModule m{header and ', '}{header}\n{before}ENTRY main {{ x = s32[4] parameter(0)\n{body} }}")
    verify(module)
    return module


def numbers(count: int) -> list[list[np.ndarray]]:
    return [[np.arange(4, dtype=np.int32) + 100 * n] for n in range(count)]


# -- groups

TEXTS = {
    "{}": (),
    "{{0,1},{2,3}}": ((0, 1), (2, 3)),
    "{ {0, 1}, {3 ,2} }": ((0, 1), (3, 2)),
    "[2,2]<=[4]": ((0, 1), (2, 3)),
    "[4,2]<=[2,4]T(1,0)": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "[1,8]<=[2,2,2]T(2,0,1)": ((0, 2, 4, 6, 1, 3, 5, 7),),
    "mesh['a'=2,'b'=4] {'b'}": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "mesh['a'=2,'b'=4] {'a'}": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "mesh['a'=2,'b'=4] {'b','a'}": ((0, 4, 1, 5, 2, 6, 3, 7),),
    "mesh['a'=2,'b'=4] {'b':(2)2}": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "mesh['a'=2,'b'=4] {'a','b':(1)2}": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}": ((3, 1), (2, 0)),
    "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}": ((0, 2, 4, 6), (1, 3, 5, 7)),
}


@pytest.mark.parametrize("text", TEXTS)
def test_groups(text):
    groups = parse_groups(text)
    assert groups.groups == TEXTS[text]
    assert parse_groups(str(groups)) == groups
    assert GROUPS.match(text + " }, x").group() == text


@pytest.mark.parametrize(
    "text",
    ["[2,3]<=[4]", "[2,2]<=[4]T(1)", "[2,2]<=[2,2]T(0,0)", "mesh['a'=2] {'b'}", "mesh['a'=2,'a'=2] {'a'}"]
    + ["mesh['a'=4] {'a':(3)2}", "mesh['a'=4] {'a':(1)2,'a':(1)4}", "mesh['a'=2], device_ids=(0,1,2) {'a'}", "{0,1}"]
    + ["[1048577,1]<=[1048577]", "mesh['a'=999999999] {'a'}"],
)
def test_groups_that_contradict_themselves(text):
    with pytest.raises(ParseError):
        parse_groups(text)
    with pytest.raises(ParseError, match="line"):
        program(f"ROOT r = s32[4] all-reduce(x), to_apply=add, replica_groups={text}")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@examples(60)
def test_an_iota_is_numpys_and_a_mesh_is_an_array(sizes, data):
    order = data.draw(st.permutations(range(len(sizes))))
    array = np.arange(np.prod(sizes)).reshape(sizes)
    dims, perm = ",".join(map(str, sizes)), ",".join(map(str, order))
    flat = array.transpose(order).reshape(-1, sizes[order[-1]])
    groups = parse_groups(f"[{flat.shape[0]},{flat.shape[1]}]<=[{dims}]T({perm})")
    assert groups.groups == tuple(map(tuple, flat.tolist()))
    chosen = order[: data.draw(st.integers(1, len(order)))]
    axes, along = ",".join(f"'x{d}'={n}" for d, n in enumerate(sizes)), ",".join(f"'x{d}'" for d in chosen)
    rest = [d for d in range(len(sizes)) if d not in chosen]
    rows = array.transpose(rest + chosen).reshape(-1, np.prod([sizes[d] for d in chosen]))
    assert parse_groups(f"mesh[{axes}] {{{along}}}").groups == tuple(map(tuple, rows.tolist()))


# -- who meets whom

MODES = {  # on 2 replicas of 2 partitions: which devices' numbers are summed on each device
    "replica_groups={{0,1}}": [{0, 2}, {1, 3}, {0, 2}, {1, 3}],
    "replica_groups={}": [{0, 2}, {1, 3}, {0, 2}, {1, 3}],
    "channel_id=1, replica_groups={{0},{1}}": [{0, 1}, {0, 1}, {2, 3}, {2, 3}],
    "channel_id=1, replica_groups={}": [{0, 1, 2, 3}] * 4,
    "channel_id=1, use_global_device_ids=true, replica_groups={{0,3},{1,2}}": [{0, 3}, {1, 2}, {1, 2}, {0, 3}],
}


@pytest.mark.parametrize("groups", MODES)
def test_what_the_numbers_in_groups_stand_for(groups):
    module = program(
        f"ROOT r = s32[4] all-reduce(x), to_apply=add, {groups}", header="replica_count=2, num_partitions=2"
    )
    got = run_devices(module, numbers(4))
    for value, members in zip(got, MODES[groups], strict=True):
        assert bits_equal(value, sum(numbers(4)[m][0] for m in sorted(members)).astype(np.int32))


def test_the_others_mean_partitions_by_a_channel():
    module = program(
        "ROOT r = s32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}",
        header="replica_count=2, num_partitions=2",
    )
    assert [int(v[0]) for v in run_devices(module, numbers(4))] == [100, 0, 300, 200]
    without = program("ROOT r = s32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}")
    assert [int(v[0]) for v in run_devices(without, numbers(4), replicas=2, partitions=2)] == [200, 300, 0, 100]


def test_devices_know_their_numbers():
    module = program(
        "p = u32[] partition-id()",
        "q = u32[] replica-id()",
        "ROOT r = (u32[], u32[]) tuple(q, p)",
        header="replica_count=2",
    )
    got = run_devices(module, numbers(6), partitions=3)
    assert [(int(r), int(p)) for r, p in got] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


# -- control flow that differs, and devices that never meet

BRANCHES = """meets { x = s32[4] parameter(0)
                       ROOT r = s32[4] all-reduce(x), to_apply=add, replica_groups={{0,1},{2}} }
alone { x = s32[4] parameter(0)
        ROOT r = s32[4] negate(x) }
"""


def test_a_group_may_go_where_others_do_not():
    """Devices 0 and 1 meet inside of a branch that device 2 does not take."""
    module = program(
        "two = u32[] constant(2)",
        "me = u32[] replica-id()",
        "p = pred[] compare(me, two), direction=LT",
        "ROOT r = s32[4] conditional(p, x, x), true_computation=meets, false_computation=alone",
        header="replica_count=3",
        before=ADD + BRANCHES,
    )
    assert [int(v[0]) for v in run_devices(module, numbers(3))] == [100, 100, -200]


def test_a_collective_in_a_loop_meets_in_each_turn():
    before = (
        ADD
        + """body { s = (s32[], s32[4]) parameter(0)
                i = s32[] get-tuple-element(s), index=0
                x = s32[4] get-tuple-element(s), index=1
                one = s32[] constant(1)
                j = s32[] add(i, one)
                y = s32[4] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,0}}
                ROOT t = (s32[], s32[4]) tuple(j, y) }
        more { s = (s32[], s32[4]) parameter(0)
               i = s32[] get-tuple-element(s), index=0
               n = s32[] constant(2)
               ROOT p = pred[] compare(i, n), direction=LT }
        """
    )
    module = program(
        "zero = s32[] constant(0)",
        "s = (s32[], s32[4]) tuple(zero, x)",
        "w = (s32[], s32[4]) while(s), condition=more, body=body",
        "ROOT r = s32[4] get-tuple-element(w), index=1",
        header="replica_count=3",
        before=before,
    )
    assert [int(v[0]) for v in run_devices(module, numbers(3))] == [100, 200, 0]


def test_devices_that_never_meet_are_an_error_and_no_hang():
    module = program(
        "one = u32[] constant(1)",
        "me = u32[] replica-id()",
        "p = pred[] compare(me, one), direction=LT",
        "ROOT r = s32[4] conditional(p, x, x), true_computation=meets, false_computation=alone",
        header="replica_count=3",
        before=ADD + BRANCHES,
    )
    before = threading.active_count()
    with pytest.raises(
        EvaluationError, match="device 0 waits in all-reduce r for device 1; devices 1, 2 ended without"
    ):
        run_devices(module, numbers(3))
    assert threading.active_count() == before


def test_two_collectives_in_another_order_are_an_error():
    before = (
        ADD
        + """first { x = s32[4] parameter(0)
                 a = s32[4] all-reduce(x), to_apply=add
                 ROOT b = s32[4] all-gather(a), dimensions={0}, replica_groups={{0},{1}} }
        second { x = s32[4] parameter(0)
                 ROOT c = s32[4] all-reduce(x), to_apply=add }
        """
    )
    module = program(
        "me = u32[] replica-id()",
        "zero = u32[] constant(0)",
        "p = pred[] compare(me, zero), direction=EQ",
        "ROOT r = s32[4] conditional(p, x, x), true_computation=first, false_computation=second",
        header="replica_count=2",
        before=before,
    )
    with pytest.raises(EvaluationError, match="device 0 waits in all-reduce a .*; device 1 waits in all-reduce c"):
        run_devices(module, numbers(2))


def test_an_error_on_one_device_ends_all():
    module = program(
        'y = s32[4] custom-call(x), custom_call_target="no such thing"',
        "ROOT r = s32[4] all-reduce(y), to_apply=add",
        header="replica_count=4",
    )
    before = threading.active_count()
    with pytest.raises(UnsupportedError, match="no such thing"):
        run_devices(module, numbers(4))
    assert threading.active_count() == before


def test_a_program_for_more_devices_than_there_are():
    module = program("ROOT r = s32[4] all-reduce(x), to_apply=add, replica_groups={{0,1},{2,3}}")
    with pytest.raises(InputError, match="there is one replica.*written for 4 devices"):
        run(module, numbers(1)[0])
    with pytest.raises(InputError, match="there are 2 replicas.*written for 4 devices"):
        run_devices(module, numbers(2), replicas=2)
    assert int(run_devices(module, numbers(4), replicas=4)[3][0]) == 500
    gathers = program("ROOT r = s32[8] all-gather(x), dimensions={0}")
    with pytest.raises(
        InputError, match=r"group has 3 devices, and s32\[4\] cannot become s32\[8\] there.*written for 2 devices"
    ):
        run_devices(gathers, numbers(3), replicas=3)
    with pytest.raises(InputError, match="a program for 2 devices"):
        run(program("ROOT r = s32[4] negate(x)", header="num_partitions=2"), numbers(1)[0])


def test_a_module_that_was_built_for_a_count_that_is_none():
    module = program("ROOT r = s32[4] negate(x)")
    module.attributes["replica_count"] = "0"
    with pytest.raises(InvalidProgramError, match="header of .* says replica_count='0': it is a number from 1"):
        verify(module)


def test_arguments_are_given_for_each_device():
    module = program("ROOT r = s32[4] all-reduce(x), to_apply=add", header="replica_count=2")
    with pytest.raises(InputError, match=r"arguments for 1 device, and the program runs on 2 devices"):
        run_devices(module, numbers(1))
    with pytest.raises(InputError, match="device 1: parameter 0"):
        run_devices(module, [numbers(1)[0], [np.zeros(3, np.int32)]])


def test_every_run_takes_the_same_course():
    module = program("y = s32[4] negate(x)", "ROOT r = s32[4] all-reduce(y), to_apply=add", header="replica_count=3")
    seen = []
    for _ in range(2):
        seen.append([])
        run_devices(module, numbers(3), trace=lambda d, i, v: seen[-1].append((d.number, i.name)))
    assert seen[0] == seen[1]
    assert [n for n, name in seen[0] if name == "y"] == [0, 1, 2]


# -- transfers, feeds

PAIRS = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"


def test_transfers_are_begun_before_they_are_awaited():
    """Two on one channel arrive in their order; what nobody sends is zero."""
    module = program(
        "t = token[] after-all()",
        "y = s32[4] negate(x)",
        f"r1 = (s32[4], u32[], token[]) recv(t), channel_id=1, {PAIRS}",
        f"r2 = (s32[4], u32[], token[]) recv(t), channel_id=1, {PAIRS}",
        f"s1 = (s32[4], u32[], token[]) send(x, t), channel_id=1, {PAIRS}",
        f"s2 = (s32[4], u32[], token[]) send(y, t), channel_id=1, {PAIRS}",
        "d2 = (s32[4], token[]) recv-done(r2), channel_id=1",
        "d1 = (s32[4], token[]) recv-done(r1), channel_id=1",
        "e1 = token[] send-done(s1), channel_id=1",
        "e2 = token[] send-done(s2), channel_id=1",
        "v1 = s32[4] get-tuple-element(d1), index=0",
        "v2 = s32[4] get-tuple-element(d2), index=0",
        "ROOT r = (s32[4], s32[4]) tuple(v1, v2)",
        header="num_partitions=3",
    )
    got = run_devices(module, numbers(3))
    assert [(int(a[0]), int(b[0])) for a, b in got] == [(0, 0), (0, 0), (100, -100)]
    assert [(int(a[1]), int(b[1])) for a, b in got] == [(0, 0), (1, -1), (101, -101)]


def test_a_send_that_nobody_receives_is_an_error():
    module = program(
        "t = token[] after-all()",
        f"s = (s32[4], u32[], token[]) send(x, t), channel_id=1, {PAIRS}",
        "ROOT d = token[] send-done(s), channel_id=1",
        header="num_partitions=3",
    )
    with pytest.raises(EvaluationError, match="device 0 waits in send s for device 1 to receive"):
        run_devices(module, numbers(3))


def test_a_send_without_pairs_is_refused_on_several_devices_and_goes_to_itself_on_one():
    lines = (
        "t = token[] after-all()",
        "a = (s32[4], u32[], token[]) recv(t), channel_id=1",
        "s = (s32[4], u32[], token[]) send(x, t), channel_id=1",
        "d = token[] send-done(s), channel_id=1",
        "b = (s32[4], token[]) recv-done(a), channel_id=1",
        "ROOT r = s32[4] get-tuple-element(b), index=0",
    )
    assert int(run(program(*lines), numbers(2)[1])[3]) == 103
    with pytest.raises(UnsupportedError, match="_xla_send_recv_source_target_pairs"):
        run_devices(program(*lines), numbers(2), replicas=2)


def test_hosts_feed_and_are_fed():
    module = program(
        "t = token[] after-all()",
        "a = (s32[4], u32[], token[]) recv(t), channel_id=7, is_host_transfer=true",
        "b = (s32[4], token[]) recv-done(a), channel_id=7, is_host_transfer=true",
        "y = s32[4] get-tuple-element(b), index=0",
        "i = (s32[4], token[]) infeed(t)",
        "z = s32[4] get-tuple-element(i), index=0",
        "v = s32[4] add(y, z)",
        "s = (s32[4], u32[], token[]) send(v, t), channel_id=8, is_host_transfer=true",
        "d = token[] send-done(s), channel_id=8, is_host_transfer=true",
        "o = token[] outfeed(v, d)",
        "ROOT r = s32[4] add(x, v)",
        header="replica_count=2",
    )

    def hosts():
        ones, far = np.ones(4, np.int32), np.full(4, 1000, np.int32)
        return [Host(infeed=[far], sends={7: [ones]}), Host(infeed=[-far], sends={7: [ones]})]

    given = hosts()
    got = run_devices(module, numbers(2), hosts=given)
    assert [int(v[0]) for v in got] == [1001, -899]
    assert int(given[0].outfed[0][0]) == 1001 and int(given[1].received[8][0][0]) == -999
    with pytest.raises(EvaluationError, match="the infeed of device 1 is empty"):
        run_devices(module, numbers(2), hosts=[hosts()[0], Host(sends={7: [np.ones(4, np.int32)]})])
    with pytest.raises(EvaluationError, match="the host sends nothing more on channel 7"):
        run_devices(module, numbers(2))
    wrong = program("t = token[] after-all()", "ROOT i = (s32[4], token[]) infeed(t)")
    with pytest.raises(EvaluationError, match=r"the value of the infeed is s32\[4\], the array given is s32\[3\]"):
        run(wrong, numbers(1)[0], host=Host(infeed=[np.zeros(3, np.int32)]))


# -- algebra between collectives, for random groups


@st.composite
def groupings(draw) -> tuple[int, int, str]:
    """A number of devices, the size of a group, and groups as text."""
    size, count = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    order = draw(st.permutations(range(size * count)))
    lists = [order[n : n + size] for n in range(0, len(order), size)]
    return size * count, size, "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in lists) + "}"


def both(devices: int, size: int, groups: str, *lines: str, seed: int = 0) -> None:
    """The two elements of the result are equal on each device."""
    n = 2 * size
    module = parse(
        f"HloModule m, replica_count={devices}\n{ADD}ENTRY main {{ x = s32[3,{n}] parameter(0)\n"
        + "\n".join(lines).replace("GROUPS", f"replica_groups={groups}").replace("S32N", f"s32[3,{n}]")
        + "}"
    )
    verify(module)
    rng = np.random.default_rng(seed)
    arguments = [[rng.integers(-1000, 1000, (3, n)).astype(np.int32)] for _ in range(devices)]
    for a, b in run_devices(module, arguments):
        assert bits_equal(a, b)


@given(groupings(), st.integers(0, 99))
@examples(40)
def test_gathering_what_was_scattered_is_an_all_reduce(grouping, seed):
    both(
        *grouping,
        "p = s32[3,2] reduce-scatter(x), dimensions={1}, to_apply=add, GROUPS",
        "a = S32N all-gather(p), dimensions={1}, GROUPS",
        "b = S32N all-reduce(x), to_apply=add, GROUPS",
        "ROOT r = (S32N, S32N) tuple(a, b)",
        seed=seed,
    )


@given(groupings(), st.integers(0, 99))
@examples(40)
def test_an_all_to_all_is_its_own_inverse(grouping, seed):
    both(
        *grouping,
        "p = S32N all-to-all(x), dimensions={1}, GROUPS",
        "q = S32N all-to-all(p), dimensions={1}, GROUPS",
        "ROOT r = (S32N, S32N) tuple(q, x)",
        seed=seed,
    )


@given(groupings(), st.integers(0, 99))
@examples(40)
def test_an_all_to_all_of_operands_is_one_of_parts(grouping, seed):
    devices, size, groups = grouping
    parts = [f"p{k} = s32[3,2] slice(x), slice={{[0:3], [{2 * k}:{2 * k + 2}]}}" for k in range(size)]
    tuple_ = f"({', '.join(['s32[3,2]'] * size)})"
    names = ", ".join(f"p{k}" for k in range(size))
    both(
        *grouping,
        *parts,
        f"t = {tuple_} all-to-all({names}), GROUPS",
        *(f"q{k} = s32[3,2] get-tuple-element(t), index={k}" for k in range(size)),
        f"a = S32N concatenate({names.replace('p', 'q')}), dimensions={{1}}",
        "b = S32N all-to-all(x), dimensions={1}, GROUPS",
        "ROOT r = (S32N, S32N) tuple(a, b)",
        seed=seed,
    )


@given(st.permutations(range(5)), st.integers(0, 99))
@examples(30)
def test_a_permutation_and_its_inverse(order, seed):
    there = "{" + ",".join(f"{{{s},{t}}}" for s, t in enumerate(order)) + "}"
    back = "{" + ",".join(f"{{{t},{s}}}" for s, t in enumerate(order)) + "}"
    both(
        5,
        1,
        "{}",
        f"p = S32N collective-permute(x), source_target_pairs={there}",
        f"s = (S32N, S32N) collective-permute-start(p), source_target_pairs={back}",
        "q = S32N collective-permute-done(s)",
        "ROOT r = (S32N, S32N) tuple(q, x)",
        seed=seed,
    )


@given(groupings(), st.integers(0, 99))
@examples(30)
def test_a_ragged_all_to_all_of_equal_rows_is_an_all_to_all(grouping, seed):
    devices, size, groups = grouping
    n = 2 * size
    module = parse(f"""HloModule m, replica_count={devices}
        ENTRY main {{ x = s32[{n}] parameter(0)
          offsets = s64[{size}] parameter(1)
          sizes = s64[{size}] parameter(2)
          to = s64[{size}] parameter(3)
          a = s32[{n}] ragged-all-to-all(x, x, offsets, sizes, to, sizes), replica_groups={groups}
          b = s32[{n}] all-to-all(x), dimensions={{0}}, replica_groups={groups}
          ROOT r = (s32[{n}], s32[{n}]) tuple(a, b) }}""")
    rng = np.random.default_rng(seed)
    lists = parse_groups(groups).groups
    arguments = []
    for d in range(devices):
        place = next(g.index(d) for g in lists if d in g)
        offsets, two = np.arange(size, dtype=np.int64) * 2, np.full(size, 2, np.int64)
        arguments.append([rng.integers(0, 99, n).astype(np.int32), offsets, two, np.full(size, 2 * place, np.int64)])
    for a, b in run_devices(module, arguments):
        assert bits_equal(a, b)


# -- how many devices a module is for


@pytest.mark.parametrize(
    "header, line",
    [
        ("replica_count=4", "all-reduce(x), to_apply=add, replica_groups={{0,1,2,3}}"),
        ("replica_count=4", "all-reduce(x), to_apply=add, replica_groups={{0,3,1},{2}}"),
        ("replica_count=2, num_partitions=2", "all-reduce(x), to_apply=add, channel_id=1, replica_groups={{0,1}}"),
        ("replica_count=2, num_partitions=3", "all-reduce(x), to_apply=add, replica_groups={}"),
        ("num_partitions=4", "all-reduce(x), to_apply=add, replica_groups={{0,1}}"),  # replicas are not counted
        ("num_partitions=3", "collective-permute(x), channel_id=1, source_target_pairs={{0,2}}"),
        ("", "all-reduce(x), to_apply=add, replica_groups={{0,1},{2,3}}"),
    ],
)
def test_groups_that_fit_the_header(header, line):
    program("ROOT r = s32[4] " + line, header=header)


@pytest.mark.parametrize(
    "header, line, label",
    [
        ("replica_count=8", "s32[4] all-reduce(x), to_apply=add, replica_groups={{0,1}}", "all_reduce_c6"),
        ("replica_count=2", "s32[4] all-reduce(x), to_apply=add, replica_groups={{0,1},{2,3}}", "all_reduce_c6"),
        (
            "replica_count=2, num_partitions=3",
            "s32[4] all-reduce(x), to_apply=add, channel_id=1, replica_groups={{0,1,2}}",
            "all_reduce_c6",
        ),
        (
            "replica_count=2, num_partitions=2",
            "s32[4] all-reduce(x), to_apply=add, channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true",
            "all_reduce_c6",
        ),
        ("replica_count=3", "s32[8] all-gather(x), dimensions={0}, replica_groups={}", "all_gather_c5"),
        ("replica_count=3", "s32[1] reduce-scatter(x), dimensions={0}, to_apply=add", "reduce_scatter_c4"),
        ("replica_count=2", "s32[1] reduce-scatter(x), dimensions={0}, to_apply=add", "reduce_scatter_c6"),
        ("replica_count=3", "s32[4] all-to-all(x), dimensions={0}", "all_to_all_c3"),
        ("replica_count=3", "(s32[4], s32[4]) all-to-all(x, x)", "all_to_all_c4"),
        ("replica_count=2", "s32[4] collective-permute(x), source_target_pairs={{0,2}}", "collective_permute_c5"),
        (
            "replica_count=4, num_partitions=2",
            "s32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,2}}",
            "collective_permute_c5",
        ),
    ],
)
def test_groups_that_do_not_fit_the_header(header, line, label):
    with pytest.raises(InvalidProgramError) as error:
        program("ROOT r = " + line, header=header)
    assert error.value.constraint == label, str(error.value)


def test_unreduced_values_are_summands():
    """Divided, the value is the first summand and the others are zeros; put together, they are summed."""
    axes = 'xla.sdy.manual_axes="#sdy<manual_axes{{\\"a\\",\\"b\\"}}>"'
    cut = '"#sdy.sharding_per_value<[<@mesh, [{{\\"b\\"}}], unreduced={{\\"a\\"}}>]>"'
    sharded = f"frontend_attributes={{{{xla.sdy.{{}}={cut},{axes}}}}}"
    cut_in, cut_out = sharded.format("in_shardings"), sharded.format("out_shardings")
    mesh = 'frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\\"a\\"=2, \\"b\\"=2]>}"}'
    module = program(
        f't = s32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", {cut_in}',
        "one = s32[] constant(1)",
        "ones = s32[2] broadcast(one), dimensions={}",
        "more = s32[2] add(t, ones)",
        f'w = s32[4] custom-call(more), custom_call_target="xla.sdy.LocalToGlobalShape", {cut_out}',
        "ROOT r = (s32[2], s32[4]) tuple(t, w)",
        header=mesh,
        before="",
    )
    x = np.arange(4, dtype=np.int32)
    got = run_devices(module, [[x]] * 4, partitions=4)
    assert [t.tolist() for t, _ in got] == [[0, 1], [2, 3], [0, 0], [0, 0]]
    assert all(w.tolist() == [2, 3, 4, 5] for _, w in got)


def test_tokens_pass_through_a_manual_region():
    """Each partition's own, however many there are; beside them, arrays are cut."""
    axes = 'xla.sdy.manual_axes="#sdy<manual_axes{{\\"a\\"}}>"'
    sharded = f'frontend_attributes={{{{xla.sdy.{{}}="#sdy.sharding_per_value<[{{}}]>",{axes}}}}}'
    cut, token = '<@mesh, [{\\"a\\"}]>', "<@mesh, []>"

    def values(partitions: int) -> list[list[int]]:
        size = 4 // partitions
        module = program(
            "k = token[] after-all()",
            f'in = (s32[{size}], token[]) custom-call(x, k), custom_call_target="xla.sdy.GlobalToLocalShape", '
            + sharded.format("in_shardings", f"{cut}, {token}"),
            f"tile = s32[{size}] get-tuple-element(in), index=0",
            "within = token[] get-tuple-element(in), index=1",
            f"more = s32[{size}] add(tile, tile)",
            'out = (token[], s32[4]) custom-call(within, more), custom_call_target="xla.sdy.LocalToGlobalShape", '
            + sharded.format("out_shardings", f"{token}, {cut}"),
            "whole = s32[4] get-tuple-element(out), index=1",
            "after = token[] get-tuple-element(out), index=0",
            'alone = token[] custom-call(after), custom_call_target="SPMDFullToShardShape", sharding={manual}',
            "ROOT r = s32[4] add-dependency(whole, alone)",
            header=f'frontend_attributes={{xla.sdy.meshes="{{mesh = #sdy.mesh<[\\"a\\"={partitions}]>}}"}}',
            before="",
        )
        x = np.arange(4, dtype=np.int32)
        return [np.asarray(v).tolist() for v in run_devices(module, [[x]] * partitions, partitions=partitions)]

    assert values(1) == [[0, 2, 4, 6]]
    assert values(2) == [[0, 2, 4, 6]] * 2


@pytest.mark.parametrize(
    ("text", "tiles", "summands"),
    [
        ("{unreduced}", [(0,)] * 4, [0, 1, 2, 3]),
        ('{unreduced metadata={op_type="sdy::reduction_op" op_name="SUM"}}', [(0,)] * 4, [0, 1, 2, 3]),
        ("{devices=[2,2]<=[4] last_tile_dims={unreduced}}", [(0,), (0,), (1,), (1,)], [0, 1, 0, 1]),
        ("{devices=[1,2,2]<=[4] last_tile_dims={unreduced, replicated}}", [(0,)] * 4, [0, 0, 1, 1]),
        ("{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", [(0,), (1,), (0,), (1,)], [0] * 4),
    ],
)
def test_notations_of_unreduced_values(text, tiles, summands):
    module = program("ROOT r = s32[4] negate(x)")
    cut = tiling(text, 1, module.entry.root, 4)
    assert [cut.tiles[d] for d in range(4)] == tiles and [cut.summand(d) for d in range(4)] == summands


def test_shardings_that_say_where_they_came_from():
    root = program("ROOT r = s32[4] negate(x)").entry.root
    assert tiling('{replicated metadata={{op_name="a"}, {op_name="b}"}}}', 1, root, 4) is WHOLE
    cut = tiling('{devices=[2]<=[2] metadata={op_name="a b"}}', 1, root, 2)
    assert cut.tiles == {0: (0,), 1: (1,)}
    with pytest.raises(UnsupportedError, match="unreduced for MAX are not implemented"):
        tiling('{unreduced metadata={op_type="sdy::reduction_op" op_name="MAX"}}', 1, root, 4)
