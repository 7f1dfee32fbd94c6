"""What an analysis says that a fusion reads and stores is what the code of that fusion reads and stores."""

import pytest
from kernel_driver import ConditionalBlock, RecordingEmitter, fusion_of
from refxla_spec.text import parse

from refxla.analysis.access_patterns import AccessPattern
from refxla.analysis.index_expression import Index, symbol, variable
from refxla.codegen.index_printer import c_of

X = "x = f32[6,8] parameter(0)\n"
START = "s = s32[] parameter(1)\nz = s32[] constant(0)\n"
PROGRAMS = {
    "moved": X + "ROOT r = f32[8,6] transpose(x), dimensions={1,0}",
    "computed": X + "n = f32[6,8] sine(x)\nROOT r = f32[48] reshape(n)",
    "converted to the same type": X + "ROOT r = f32[6,8] convert(x)",
    "padded": X + "c = f32[] constant(1)\nROOT r = f32[9,9] pad(x, c), padding=1_2_0x0_1_0",
    "strided pad": X + "c = f32[] constant(1)\nROOT r = f32[11,8] pad(x, c), padding=0_0_1x0_0",
    "concatenated": X + "n = f32[6,8] negate(x)\nROOT r = f32[6,16] concatenate(x, n), dimensions={1}",
    "window": X + "a = f32[6,3] slice(x), slice={[0:6],[0:3]}\nb = f32[6,3] slice(x), slice={[0:6],[2:5]}\n"
    "c = f32[6,3] slice(x), slice={[0:6],[4:7]}\np = f32[6,1,3] reshape(a)\nq = f32[6,1,3] reshape(b)\n"
    "s = f32[6,1,3] reshape(c)\nROOT r = f32[6,3,3] concatenate(p, q, s), dimensions={1}",
    "uneven window": "x = f32[9,80] parameter(0)\na = f32[1,80] slice(x), slice={[0:1],[0:80]}\n"
    "b = f32[1,80] slice(x), slice={[7:8],[0:80]}\nc = f32[1,80] slice(x), slice={[2:3],[0:80]}\n"
    "ROOT r = f32[3,80] concatenate(a, b, c), dimensions={0}",
    "dynamic-slice": X + START + "ROOT r = f32[4,8] dynamic-slice(x, s, z), dynamic_slice_sizes={4,8}",
    "dynamic-update-slice": X
    + START
    + "u = f32[2,3] slice(x), slice={[0:2],[1:4]}\nROOT r = f32[6,8] dynamic-update-slice(x, u, s, z)",
    "gather": X + "i = s32[5,1] parameter(1)\nROOT r = f32[5,8] gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
    "gathered window": X + "a = s32[5] iota(), iota_dimension=0\ni = s32[5,1] reshape(a)\n"
    "ROOT r = f32[5,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,8}",
    "bits": X + "ROOT r = u8[6,8,4] bitcast-convert(x)",
    "dot": X + "n = f32[6,8] exponential(x)\n"
    "ROOT r = f32[6,6] dot(x, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "constant and iota": X + "c = f32[8] constant({1,2,3,4,5,6,7,9})\nb = f32[6,8] broadcast(c), dimensions={1}\n"
    "i = f32[6,8] iota(), iota_dimension=0\na = f32[6,8] add(b, i)\nROOT r = f32[6,8] add(a, x)",
}


def shape_of(position: Index) -> tuple:
    """A position by its range and its factors of the loops, whatever the names of its other variables."""
    return position.low, position.high, position.factor("i0"), position.factor("i1"), len(position.variables)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_analysis_finds_what_code_does(name):
    fusion = fusion_of(parse(f"HloModule m\nENTRY main {{\n{PROGRAMS[name]}\n}}"))
    (output,) = fusion.outputs
    at = tuple(variable(f"i{d}", 0, n - 1) for d, n in enumerate(output.shape.dimensions))
    code, pattern = RecordingEmitter(fusion), AccessPattern(fusion)
    code.store(output, at, ConditionalBlock())
    pattern.store(output, at)

    def loads(accesses):
        return [(a.instruction.name, a.conditional, shape_of(a.position)) for a in accesses]

    assert loads(pattern.accesses) == loads(code.accesses)
    assert [shape_of(s.position) for s in pattern.stores] == [shape_of(s.position) for s in code.stores]
    copied = [[a.name == s.value for a in e.accesses for s in e.stores] for e in (pattern, code)]
    assert copied[0] == copied[1]


def test_a_symbol_cannot_be_printed():
    with pytest.raises(AssertionError, match="no C was written"):
        c_of(variable("i", 0, 3) * 2 + symbol("start", 0, 5))
