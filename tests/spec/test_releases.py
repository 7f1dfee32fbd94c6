"""What the releases of JAX write differently: all of it is read, and written for each of them."""

import pytest
from refxla_spec.equality import difference
from refxla_spec.errors import UnsupportedError
from refxla_spec.releases import CHANGES, NEWEST, RELEASES, attributes_for, release_of
from refxla_spec.text import parse, print_module
from refxla_spec.verify import verify

TOTAL = """x = f32[3] parameter(0)
y = f32[3] parameter(1)
ROOT z = pred[3] compare(x, y), direction=LT"""
OF_INTEGERS = TOTAL.replace("f32", "s32")
PROGRAMS = {  # as the newest release writes them, and what each release writes at the end
    f"{TOTAL}, order=TOTAL": {"0.10": "type=TOTALORDER", "0.11": "type=TOTALORDER", "0.12": "order=TOTAL"},
    f"{TOTAL}, order=PARTIAL": {"0.10": "direction=LT", "0.11": "direction=LT", "0.12": "order=PARTIAL"},
    f"{OF_INTEGERS}, order=TOTAL": {"0.10": "direction=LT", "0.11": "direction=LT", "0.12": "order=TOTAL"},
    """x = f32[3] parameter(0)
    ROOT t = (f32[2], s32[2]) topk(x), k=2, largest=false, is_stable=true""": {
        "0.10": "largest=false",
        "0.11": "is_stable=true",
        "0.12": "is_stable=true",
    },
    """x = f32[3] parameter(0)
    ROOT t = f32[3] shuffle(x), dimensions={0}, mode=rotate, shifts={1}""": {"0.12": "shifts={1}"},
    "x = f32[3] parameter(0)\nROOT t = f32[3] exp2(x)": {"0.12": "exp2(%x)"},
    "x = f32[3] parameter(0)\nROOT t = f32[3] log2(x)": {"0.12": "log2(%x)"},
    """add { a = f32[] parameter(0)
             b = f32[] parameter(1)
             ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[3] parameter(0)
              ROOT t = f32[3] collective-reduce(x), replica_groups={{0}}, has_dynamic_root=false, to_apply=add }""": {
        "0.12": "to_apply=%add"
    },
    """x = f32[3] parameter(0)
    ROOT t = f32[3] collective-broadcast(x), replica_groups={{0}}, has_dynamic_root=false""": {
        "0.10": "replica_groups={{0}}",
        "0.11": "has_dynamic_root=false",
        "0.12": "has_dynamic_root=false",
    },
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_each_release_is_written_and_read(text):
    module = parse(text)
    for release, end in PROGRAMS[text].items():
        printed = print_module(module, release=release)
        root = [line for line in printed.splitlines() if "ROOT" in line][-1]
        assert root.endswith(end), release
        again = parse(printed)
        verify(again)
        assert print_module(again, release=release) == printed
        if release == NEWEST:
            assert difference(module, again) is None
    for release in set(RELEASES) - set(PROGRAMS[text]):
        with pytest.raises(UnsupportedError, match=f"t: JAX {release} does not have the operation of"):
            print_module(module, release=release)


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_xla_that_is_installed_reads_what_is_written_for_it(text):
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    module = parse(text)
    if release_of(oracle.version()) not in PROGRAMS[text]:
        pytest.skip(f"jaxlib {oracle.version()} does not have the operation")
    printed = oracle.written(module)
    assert oracle.xla_prints(printed)
    if release_of(oracle.version()) == NEWEST:
        assert difference(parse(oracle.xla_prints(printed)), parse(oracle.xla_prints(str(module)))) is None


def test_every_change_has_a_program_here():
    roots = [parse(text).entry.root for text in PROGRAMS]
    tried = {(root.opcode, name) for root in roots for name in ("", *root.attributes)}
    assert {(c.opcode, c.attribute) for c in CHANGES} <= tried
    assert [c.release for c in CHANGES] == sorted(c.release for c in CHANGES) and {c.release for c in CHANGES} <= set(
        RELEASES
    )


def test_what_an_older_release_cannot_say_is_an_error():
    (root,) = (i for i in parse(next(t for t in PROGRAMS if "broadcast" in t)).instructions() if i.operands)
    root.attributes["has_dynamic_root"] = True
    with pytest.raises(UnsupportedError, match="t: JAX 0.10 does not have the attribute has_dynamic_root"):
        attributes_for(root, "0.10")
    assert attributes_for(root, "0.11") == root.attributes


def test_versions_belong_to_releases():
    assert [release_of(v) for v in ("0.6.2", "0.10.2", "0.11.0", "0.12.0.1", "0.13.1", "1.0")] == [
        "0.10", "0.10", "0.11", "0.12", "0.12", "0.12",
    ]  # fmt: skip
