"""Verified implies no crash: random changes of real programs, through parser, verifier, printer, passes, planner and
code generation. Only an error of refxla's own family may come out, and what is verified prints, reads and plans."""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from command_line import EXAMPLES
from refxla_conformance import collect
from refxla_spec.verify import verify

import refxla as rx
from refxla.codegen.program import program
from refxla.codegen.target import DEFAULT_CPU
from refxla.compiler import plan_module
from refxla.explain import Explanation
from refxla.frontends.proto import from_proto, to_proto

PROGRAMS = [str(c.module) for c in collect(kinds=["example"])]
PROGRAMS += [(EXAMPLES / name).read_text() for name in ("mlp/step.hlo", "heat/heat.hlo", "kmeans/kmeans.hlo")]

TOKEN = re.compile(r"[A-Za-z_][\w.\-]*|\d+|\S|\s+")
WORDS = """add dot reduce sort gather while tuple custom-call f32 s32 bf16 pred c64 s4 f32[] f32[0] {0} {1,0} 0 1 -1 2 7
inf nan true () {} ROOT ENTRY dimensions={0} to_apply index=1 4294967296 /* " , { } ( ) [ ] = %""".split()
TYPES = "f32 f64 f16 bf16 pred s8 s32 s64 u8 u16 u32 u64 c64 c128 s4 f8e4m3fn".split()
ALIKE = (
    "add multiply maximum minimum subtract divide power remainder atan2 and or xor shift-left complex".split(),
    "sine log sqrt tanh negate abs sign floor not popcnt real is-finite copy erf".split(),
    "EQ NE LT LE GT GE".split(),
)


def scrambled(r: random.Random, text: str) -> str:
    """One to three tokens or lines replaced, removed, exchanged: mostly no program any more."""
    tokens = TOKEN.findall(text)
    for _ in range(r.choice((1, 1, 2, 3))):
        a, b = r.randrange(len(tokens)), r.randrange(len(tokens))
        match r.randrange(4):
            case 0:
                tokens[a] = tokens[b]
            case 1:
                tokens[a] = r.choice(WORDS)
            case 2:
                tokens[a] = ""
            case 3:
                tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def altered(r: random.Random, text: str) -> str:
    """A type, a size, an operation or a number replaced everywhere or in one place: often a program still."""
    text = re.sub(r",? ?entry_computation_layout=\{.*\}\n", "\n", text)
    text = re.sub(r"\]\{[\d,]*\}", "]", text)
    for _ in range(r.choice((1, 1, 2, 3))):
        match r.randrange(4):
            case 0:
                old, new = r.choice(sorted(set(re.findall(r"\b[a-z]+\d+(?=\[)", text))) or ["f32"]), r.choice(TYPES)
                text = re.sub(rf"\b{old}(?=\[)", new, text)
            case 1:
                sizes = sorted({n for shape in re.findall(r"\[([\d,]+)\]", text) for n in shape.split(",")}) or ["1"]
                old, new = r.choice(sizes), r.choice("0 1 2 3 5 8 17 64 100".split())
                text = re.sub(r"\[[\d,]+\]", lambda m, old=old, new=new: re.sub(rf"\b{old}\b", new, m[0]), text)
            case 2:
                family = r.choice(ALIKE)
                places = [m.span() for m in re.finditer(rf"(?<=[ =])(?:{'|'.join(family)})\b", text)]
                text = replaced(r, text, places, r.choice(family))
            case 3:
                places = [m.span() for m in re.finditer(r"(?<=[={,:x_|])-?\d+", text)]
                text = replaced(r, text, places, r.choice("0 1 2 3 -1 4 7".split()))
    return text


def replaced(r: random.Random, text: str, places: list[tuple[int, int]], new: str) -> str:
    if not places:
        return text
    start, end = r.choice(places)
    return text[:start] + new + text[end:]


def spoiled(r: random.Random, data: bytes) -> bytes:
    """Bytes of a proto changed, removed or put in."""
    data = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 4))):
        at = r.randrange(len(data) or 1)
        match r.randrange(3):
            case 0:
                data[at : at + 1] = bytes([r.choice((0, 1, 2, 127, 128, 255, r.randrange(256)))])
            case 1:
                del data[at : at + r.choice((1, 2, 8, 50))]
            case 2:
                data[at:at] = r.randbytes(r.choice((1, 2, 8)))
    return bytes(data)


def in_protos() -> Iterator[bytes]:
    """The small programs that a proto has a place for."""
    for text in PROGRAMS[:-3]:
        with contextlib.suppress(rx.UnsupportedError):
            yield to_proto(rx.parse(text))


def outcome(source: str | bytes) -> str:
    """How far a program gets: "unread", "invalid", "unsupported" or "planned". Any exception but rx.Error escapes."""
    try:
        module = rx.parse(source) if isinstance(source, str) else from_proto(source)
    except rx.Error:
        return "unread"
    try:
        verify(module)
    except rx.Error:
        return "invalid"
    rx.parse(str(module))
    try:
        _, planned = plan_module(module, DEFAULT_CPU)
    except rx.UnsupportedError:
        return "unsupported"
    assert program(planned.plan.kernels, DEFAULT_CPU).source and str(planned.plan) and str(Explanation(planned))
    return "planned"


@pytest.mark.parametrize("change, count, planned", [(scrambled, 400, 20), (altered, 500, 150), (spoiled, 400, 10)])
def test_only_errors_of_the_family_come_out(change, count, planned):
    protos = list(in_protos()) if change is spoiled else []
    seen: Counter[str] = Counter()
    for seed in range(count):
        r = random.Random(seed)
        source = change(r, r.choice(protos or PROGRAMS))
        try:
            seen[outcome(source)] += 1
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {type(problem).__name__}: {problem}\n{source}") from problem
    assert seen["planned"] >= planned and seen["unread"] > 0 and (seen["invalid"] > 0 or change is scrambled), seen
