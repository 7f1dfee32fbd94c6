"""Rarer operations against XLA:CPU, bit for bit, and through XLA's own parser and protos."""

import numpy as np
import pytest
from refxla_spec.interpreter import run
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

from refxla.ir.proto import from_proto, to_proto

xla = pytest.importorskip("refxla_conformance.targets.xla_cpu")


def entry(body: str) -> str:
    return f"HloModule m\nENTRY main {{\n{body}\n}}\n"


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox", "rng_default"])
@pytest.mark.parametrize("element_type", ["u8", "s8", "u16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("sizes", [(), (5,), (3, 4), (7, 3, 5)])
def test_random_bits(algorithm, element_type, sizes):
    if element_type in ("u8", "s8", "u16") and len(sizes) != 2:
        return  # one shape is enough: they are the low bits of those of 32
    shape = f"{element_type}[{','.join(map(str, sizes))}]"
    for size in (2,) if algorithm == "rng_three_fry" else (2, 3):
        text = entry(
            f"s = u64[{size}] parameter(0)\nROOT r = (u64[{size}], {shape}) rng-bit-generator(s), algorithm={algorithm}"
        )
        state = np.array([0x123456789ABCDEF0, 2**64 - 2, 7][:size], np.uint64)  # the counter's low half overflows
        got, wanted = run(parse(text), [state]), xla.xla_cpu(text, [state])
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b.view(a.dtype))  # on its way, XLA makes signed ones unsigned


SCAN = """HloModule m
step { x = f32[2] parameter(0)
       total = f32[] parameter(1)
       wide = f32[2] broadcast(total), dimensions={}
       y = f32[2] subtract(x, wide)
       first = f32[1] slice(y), slice={[0:1]}
       scalar = f32[] reshape(first)
       new = f32[] add(scalar, total)
       ROOT r = (f32[2], f32[]) tuple(y, new) }
ENTRY main { x = f32[2,4] parameter(0)
             init = f32[] parameter(1)
             ROOT r = (f32[2,4], f32[]) scan(x, init), dimensions={1}, num_carries=1, is_reverse=REVERSE,
                      to_apply=step }
"""


@pytest.mark.parametrize("reverse", ["true", "false"])
def test_scan(reverse):
    text, x = SCAN.replace("REVERSE", reverse), np.arange(8, dtype=np.float32).reshape(2, 4) ** 2
    for a, b in zip(run(parse(text), [x, np.array(1, np.float32)]), xla.xla_cpu(text, [x, np.float32(1)]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("source", "result"), [("f32", "s8"), ("f32", "s32"), ("f16", "s16"), ("f64", "s64")])
def test_stochastic_convert(source, result):
    rng = np.random.default_rng(0)
    dtype, bits = ELEMENT_TYPES[source].dtype, ELEMENT_TYPES[source].bits
    x = np.concatenate([rng.uniform(-200, 200, 200), [0, -0.0, 0.5, -0.5, 127, -128, 1e4, -1e4]]).astype(dtype)
    random = rng.integers(0, 2**bits - 1, x.size, dtype=f"u{bits // 8}", endpoint=True)
    text = entry(
        f"x = {source}[{x.size}] parameter(0)\nr = u{bits}[{x.size}] parameter(1)\n"
        f"ROOT y = {result}[{x.size}] stochastic-convert(x, r)"
    )
    np.testing.assert_array_equal(run(parse(text), [x, random]), xla.xla_cpu(text, [x, random])[0])


NEW = ("rng", "rng-get-and-update-state", "stochastic-convert", "scan", "ragged-dot", "scaled-dot")


@pytest.mark.parametrize("opcode", NEW)
def test_text_and_protos_are_xlas(opcode):
    """What XLA parses, and makes a proto of, is the same program; and the other way round."""
    for example in operations()[opcode].examples:
        text = example.hlo if example.hlo.lstrip().startswith("HloModule") else entry(example.hlo)
        printed = xla.xla_prints(text)
        assert xla.xla_prints(str(parse(printed))) == printed
        assert xla.xla_prints(str(from_proto(xla.xla_proto(text)))) == printed
        assert xla.xla_prints(xla.xla_text(to_proto(parse(printed)))) == printed
