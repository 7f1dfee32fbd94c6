"""The code of a program grows with the program: producers that are read at many index maps are not written at each."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla._core.fusion import fusion_groups
from refxla._core.graph import Graph
from refxla.analysis.access_patterns import AccessPattern
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.scheduling.fusion_group import FusionGroup

CPU = replace(DEFAULT_CPU, compute_units=2, persistent=True)
MOST_MAPS = 15
SMALL, LARGE = 1000, 1 << 20


def rolled(n: int, read: str, size: int) -> str:
    """b = rolled b, as one of two slices."""
    return f"""h{n} = f32[1] slice({read}), slice={{[{size - 1}:{size}]}}
        t{n} = f32[{size - 1}] slice({read}), slice={{[0:{size - 1}]}}
        v{n} = f32[{size}] concatenate(h{n}, t{n}), dimensions={{0}}"""


def gathered(n: int, read: str, size: int) -> str:
    return f"""v{n} = f32[{size}] gather({read}, at), offset_dims={{}}, collapsed_slice_dims={{0}},
          start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}"""


def reversed_half(n: int, read: str, size: int) -> str:
    return f"""w{n} = f32[{size}] reverse({read}), dimensions={{0}}
        h{n} = f32[{size // 2}] slice({read}), slice={{[0:{size // 2}]}}
        t{n} = f32[{size - size // 2}] slice(w{n}), slice={{[{size // 2}:{size}]}}
        v{n} = f32[{size}] concatenate(h{n}, t{n}), dimensions={{0}}"""


MOVED = {f.__name__: f for f in (rolled, gathered, reversed_half)}


def chain(moved, length: int, size: int = SMALL) -> str:
    """a, b = b, a / 2 + moved(b), so many times: b is read where it is, and elsewhere."""
    lines = [f"a = f32[{size}] parameter(0)", f"b = f32[{size}] parameter(1)", f"at = s32[{size}] parameter(2)",
             "half = f32[] constant(0.5)", f"halves = f32[{size}] broadcast(half), dimensions={{}}"]  # fmt: skip
    a, b = "a", "b"
    for n in range(length):
        lines += [moved(n, b, size), f"m{n} = f32[{size}] multiply({a}, halves)", f"s{n} = f32[{size}] add(m{n}, v{n})"]
        a, b = b, f"s{n}"
    return "HloModule chain\nENTRY e {\n" + "\n".join(lines) + f"\nROOT r = f32[{size}] add({a}, {b})\n}}"


def prefix_sums(size: int) -> str:
    """lax.associative_scan(add, x): of pairs, then of what is between them."""
    lines, names = [f"x = f32[{size}] parameter(0)", "z = f32[] constant(0)"], iter(range(10**6))

    def scan(x: str, n: int) -> str:
        if n < 2:
            return x
        k, half = next(names), n // 2
        lines.extend([
            f"l{k} = f32[{half}] slice({x}), slice={{[0:{n - 1}:2]}}",
            f"r{k} = f32[{half}] slice({x}), slice={{[1:{n}:2]}}",
            f"p{k} = f32[{half}] add(l{k}, r{k})",
        ])  # fmt: skip
        odd = scan(f"p{k}", half)
        lines.extend([
            f"e{k} = f32[{half - 1}] slice({odd}), slice={{[0:{half - 1}]}}",
            f"f{k} = f32[{half - 1}] slice({x}), slice={{[2:{n}:2]}}",
            f"g{k} = f32[{half - 1}] add(e{k}, f{k})",
            f"h{k} = f32[1] slice({x}), slice={{[0:1]}}",
            f"i{k} = f32[{half}] concatenate(h{k}, g{k}), dimensions={{0}}",
            f"j{k} = f32[{n}] pad(i{k}, z), padding=0_1_1",
            f"k{k} = f32[{n}] pad({odd}, z), padding=1_0_1",
            f"y{k} = f32[{n}] add(j{k}, k{k})",
        ])  # fmt: skip
        return f"y{k}"

    root = scan("x", size)
    return "HloModule scan\nENTRY e {\n" + "\n".join(lines) + f"\nROOT r = f32[{size}] negate({root})\n}}"


def code_of(text: str) -> int:
    return len(program(plan_module(parse(text), CPU)[1].plan.kernels, CPU).source)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("moved", MOVED)
def test_chains_grow_no_faster_than_their_length(moved, size):
    lengths = (12, 24, 48)
    some, more, most = (code_of(chain(MOVED[moved], n, size)) for n in lengths)
    assert most - more < 2.5 * (more - some)
    assert most < lengths[-1] * (1_000 if size == SMALL else 6_000)


def test_prefix_sums_grow_with_their_steps():
    sizes = [code_of(prefix_sums(2**n)) for n in (6, 8, 10, 12)]
    assert sizes[-1] < 60_000 and sizes[3] - sizes[2] < sizes[0]


@pytest.mark.parametrize("text", [
    *(chain(m, 6) for m in MOVED.values()), *(chain(m, 6, LARGE) for m in MOVED.values()), prefix_sums(256),
])  # fmt: skip
def test_no_member_is_written_at_more_index_maps_than_allowed(text, monkeypatch):
    """What the scheduler counts is what code for one element computes, or more."""
    written: dict[AccessPattern, Counter] = {}
    rule = AccessPattern._rule

    def counting(self, instruction, indices):
        if instruction not in self._inputs and instruction.shape.size > 1 and instruction.opcode != "broadcast":
            written.setdefault(self, Counter())[instruction] += 1
        return rule(self, instruction, indices)

    monkeypatch.setattr(AccessPattern, "_rule", counting)
    plan_module(parse(text), CPU)
    counts = [n for counter in written.values() for n in counter.values()]
    assert counts and max(counts) <= MOST_MAPS


@pytest.mark.parametrize("text, inputs", [
    (chain(rolled, 20), "abi"), (chain(gathered, 20), "abi"), (chain(reversed_half, 20), "abi"),
    (prefix_sums(1024), "x"),
])  # fmt: skip
def test_no_bit_changes(text, inputs):
    rng = np.random.default_rng(2)
    size = parse(text).entry.root.shape.size
    arguments = [rng.integers(0, size, size).astype(np.int32) if i == "i" else rng.standard_normal(size, np.float32)
                 for i in inputs]  # fmt: skip
    got, wanted = (refxla.compile(text, without=without)(*arguments) for without in ((), ("fusion",)))
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_reason_is_said(size):
    planning = plan_module(parse(chain(rolled, 12, size)), CPU)[1]
    said = {
        r.producer.name.rstrip("_")
        for r in planning.refusals
        if "its code would be written once for each of" in r.reason
    }
    assert said and said <= {f"s{n}" for n in range(12)} | {f"v{n}" for n in range(12)}


def groups_of(lines: str) -> list[FusionGroup]:
    graph = Graph(parse(f"HloModule m\nENTRY e {{\n{lines}\n}}").entry)
    return fusion_groups(graph, shared=True)[0]


@pytest.mark.parametrize("steps, kernels", [(1, 1), (40, 2)])
def test_a_small_value_that_is_read_at_two_maps_is_stored_where_its_code_is_long(steps, kernels):
    lines = ["x0 = f32[100] parameter(0)"]
    lines += [f"x{n + 1} = f32[100] negate(x{n})" for n in range(steps)]
    lines += [f"v = f32[100] reverse(x{steps}), dimensions={{0}}", f"ROOT r = f32[100] add(v, x{steps})"]
    assert len(groups_of("\n".join(lines))) == kernels


def test_what_is_read_at_one_map_is_written_once_however_long_it_is():
    """By elementwise users alone, and by two that make the same of their index."""
    lines = ["x0 = f32[100] parameter(0)"]
    lines += [f"x{n + 1} = f32[100] add(x{n}, x{n})" for n in range(60)]
    lines += ["v = f32[100] reverse(x60), dimensions={0}", "y = f32[100] cosine(x60)",
              "w = f32[100] reverse(y), dimensions={0}", "ROOT r = f32[100] add(v, w)"]  # fmt: skip
    assert len(groups_of("\n".join(lines))) == 1


@pytest.mark.parametrize("other, kernels", [
    ("reshape(x40)", 1), ("transpose(x40), dimensions={0,1}", 1), ("transpose(x40), dimensions={1,0}", 2),
    ("reverse(x40), dimensions={0}", 2),
])  # fmt: skip
def test_maps_that_are_equal_are_one_however_they_are_written(other, kernels):
    lines = ["x0 = f32[10,10] parameter(0)"]
    lines += [f"x{n + 1} = f32[10,10] negate(x{n})" for n in range(40)]
    lines += [f"v = f32[10,10] {other}", "w = f32[10,10] reshape(x40)", "ROOT r = f32[10,10] add(v, w)"]
    assert len(groups_of("\n".join(lines))) == kernels
