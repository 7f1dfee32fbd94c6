"""JAX's programs for several devices in lock-step, against what XLA:CPU computes with eight devices of its own.

Each program is run in two forms: as JAX gives it, on whole values, which the custom calls around shard_map cut into
tiles; and as XLA divided it among the partitions, on their parts. Sums of XLA are in another order: of f64, results of
some hundred terms agree to a thousand roundings of the largest.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.devices import device_counts, run_devices
from refxla_spec.text import parse
from refxla_spec.verify import verify

pytest.importorskip("jax")

TESTS = Path(__file__).parents[1]
NAMES = (
    "psum pmean_of_several pmax_pmin psum_along_b psum_along_a psum_along_both all_gather all_gather_tiled "
    "all_gather_both psum_scatter scatter_b all_to_all all_to_all_untiled ppermute ppermute_some pshuffle axis_index "
    "prefix_sum a_ring_in_a_loop only_some_meet norm while_they_differ data_parallel_step tensor_parallel_layer "
    "tensor_parallel_gradients matrix_product_scattered"
).split()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """By name, what XLA made of each program."""
    path = tmp_path_factory.mktemp("devices") / "ran"
    done = subprocess.run(
        [sys.executable, str(TESTS / "device_programs.py"), str(path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    sys.path.insert(0, str(TESTS))
    return {r.name: r for r in pickle.loads(path.read_bytes())}


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


def close(got, wanted):
    got = leaves(got)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        if g.dtype.kind == "f":
            assert np.abs(g - w).max(initial=0) <= 1000 * np.finfo(g.dtype).eps * np.abs(w).max(initial=0)
        else:
            assert np.array_equal(g, w)


def arguments(module, flat):
    """The arguments in the order of the parameters; JAX leaves out those that a program does not use."""
    assert len(module.entry.parameters) == len(flat)
    return flat


@pytest.mark.parametrize("name", NAMES)
def test_as_xla_divided_it(ran, name):
    r = ran[name]
    module = parse(r.partitioned_hlo)
    verify(module)
    assert device_counts(module) == (1, 8)
    got = run_devices(module, [arguments(module, a) for a in r.device_arguments])
    for value, wanted in zip(got, r.device_results, strict=True):
        close(value, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_on_whole_values(ran, name):
    r = ran[name]
    module = parse(r.global_hlo)
    verify(module)
    got = run_devices(module, [arguments(module, r.arguments)] * 8, partitions=8)
    for value in got:
        close(value, r.results)


def test_no_program_is_left_out(ran):
    assert sorted(ran) == sorted(NAMES)


# The same program of HLO here and on XLA:CPU, whose devices are replicas.

TIMES = """times { a = s32[] parameter(0)
                   b = s32[] parameter(1)
                   ROOT c = s32[] multiply(a, b) }
"""
TEXTS = {
    "groups": "s32[4] all-reduce(x), replica_groups={{0,3},{1,2}}, to_apply=times",
    "all_of_them": "s32[4] all-reduce(x), replica_groups={}, to_apply=times",
    "of_two_sizes": "s32[4] all-reduce(x), replica_groups={{0,3,1},{2}}, to_apply=times",
    "and_partitions": "s32[4] all-reduce(x), channel_id=1, replica_groups={{0,2},{1,3}}, to_apply=times",
    "flattened": "s32[4] all-reduce(x), channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true, "
    "to_apply=times",
    "iota": "s32[8] all-gather(x), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}",
    "order_of_the_group": "s32[8] all-gather(x), replica_groups={{3,0},{1,2}}, dimensions={0}",
    "scattered": "s32[2] reduce-scatter(x), replica_groups={{1,0},{2,3}}, dimensions={0}, to_apply=times",
    "all_to_all": "s32[4] all-to-all(x), replica_groups={{1,0},{3,2}}, dimensions={0}",
    "permute": "s32[4] collective-permute(x), source_target_pairs={{0,1},{1,3},{2,2}}",
    "mesh": "s32[8] all-gather(x), channel_id=1, replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}, "
    "use_global_device_ids=true",
    # (device_ids of a mesh are lost where jaxlib makes StableHLO of HLO)
    "mesh_in_another_order": "s32[16] all-gather(x), channel_id=1, replica_groups=mesh['a'=2,'b'=2] {'b','a'}, "
    "dimensions={0}, use_global_device_ids=true",
    "part_of_an_axis": "s32[8] all-gather(x), channel_id=1, replica_groups=mesh['a'=4] {'a':(1)2}, dimensions={0}, "
    "use_global_device_ids=true",
}


@pytest.mark.parametrize("name", TEXTS)
def test_against_xla(name):
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    entry = f"ENTRY main {{\n x = s32[4] parameter(0)\n ROOT r = {TEXTS[name]}\n}}\n"
    text = f"HloModule m, replica_count=4\n\n{TIMES}\n{entry}"
    module = parse(text)
    verify(module)
    inputs = [np.arange(1, 5, dtype=np.int32) + 10 * d for d in range(4)]
    wanted = oracle.xla_cpu(str(module), inputs)
    for got, expected in zip(run_devices(module, [[x] for x in inputs]), wanted, strict=True):
        assert np.array_equal(got, expected), (got, expected)
