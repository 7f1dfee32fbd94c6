"""Verified implies no crash: random changes of real programs, and random programs made invalid, are passed through
parser, verifier, printer, passes, planner and code generation. Only errors of refxla's own family may come out, and
verified programs must be printed, read and planned.

    mistyped    characters of a text replaced, removed, doubled, put in: what a slip of a finger makes
    scrambled   tokens or lines of a text replaced, removed, exchanged: mostly no program any more
    altered     a type, a size, an operation or a number replaced: often a program still
    spoiled     bytes of a proto changed, removed or put in
    broken      an instruction of a random program given another operand, shape, attribute or opcode, in memory
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from functools import cache, partial

from refxla_spec.errors import Error, UnsupportedError, is_refusal
from refxla_spec.module import Module
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES, Shape
from refxla_spec.verify import verify

from refxla.codegen.opencl_program import program
from refxla.compiler.explanation import Explanation
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir.proto import from_proto, to_proto

from .batch import Tally
from .differ import Divergence
from .generate import generate

TOKEN = re.compile(r"[A-Za-z_][\w.\-]*|\d+|\S|\s+")
WORDS = """add dot reduce sort gather while tuple custom-call f32 s32 bf16 pred c64 s4 f32[] f32[0] {0} {1,0} 0 1 -1 2 7
inf nan true () {} ROOT ENTRY dimensions={0} to_apply index=1 4294967296 /* " , { } ( ) [ ] = %""".split()
CHARACTERS = "0129-+.eE={}()[],:;%\"'/*<>?_ \n\t\\xTf\u00e9\u0663"  # an Arabic digit among them, which int() takes
TYPES = "f32 f64 f16 bf16 pred s8 s32 s64 u8 u16 u32 u64 c64 c128 s4 f8e4m3fn".split()
ALIKE = (
    "add multiply maximum minimum subtract divide power remainder atan2 and or xor shift-left complex".split(),
    "sine log sqrt tanh negate abs sign floor not popcnt real is-finite copy erf".split(),
    "EQ NE LT LE GT GE".split(),
)
CHANGES = ("scrambled", "altered", "spoiled", "broken", "mistyped")
HEADER = "replica_count=1, num_partitions=1, is_scheduled=true, alias_passthrough_params=true"


@cache
def examples() -> tuple[str, ...]:
    """The programs that are changed: every example of the specification."""
    return tuple(str(parse(e.hlo)) for o in operations().values() for e in o.examples)


def texts(r: random.Random) -> str:
    """A real program, or a random one."""
    return r.choice(examples()) if r.random() < 0.7 else str(generate(r.randrange(1000), steps=4).module)


def scrambled(r: random.Random, text: str) -> str:
    """One to three tokens or lines replaced, removed, exchanged."""
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


def mistyped(r: random.Random, text: str) -> str:
    """One to four characters replaced, removed, doubled or inserted, some of them in the header, which has more
    meaning."""
    if "_count=" not in text and "_partitions=" not in text:
        text = re.sub(r"^(HloModule \S+?)(,|$)", rf"\1, {HEADER}\2", text, count=1, flags=re.M)
    for _ in range(r.choice((1, 1, 2, 4))):
        at = r.randrange(r.choice((len(text), 200, 200)) % len(text) or 1)
        match r.randrange(4):
            case 0:
                text = text[:at] + r.choice(CHARACTERS) + text[at + 1 :]
            case 1:
                text = text[:at] + text[at + 1 :]
            case 2:
                text = text[:at] + text[at : at + 1] + text[at:]
            case 3:
                text = text[:at] + r.choice(CHARACTERS) + text[at:]
    return text


def _resized(old: str, new: str, sizes: re.Match[str]) -> str:
    return re.sub(rf"\b{old}\b", new, sizes[0])


def altered(r: random.Random, text: str) -> str:
    """A type, a size, an operation or a number replaced everywhere or in one place."""
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
                text = re.sub(r"\[[\d,]+\]", partial(_resized, old, new), text)
            case 2:
                family = r.choice(ALIKE)
                places = [m.span() for m in re.finditer(rf"(?<=[ =])(?:{'|'.join(family)})\b", text)]
                text = _replaced(r, text, places, r.choice(family))
            case 3:
                places = [m.span() for m in re.finditer(r"(?<=[={,:x_|])-?\d+", text)]
                text = _replaced(r, text, places, r.choice("0 1 2 3 -1 4 7".split()))
    return text


def _replaced(r: random.Random, text: str, places: list[tuple[int, int]], new: str) -> str:
    if not places:
        return text
    start, end = r.choice(places)
    return text[:start] + new + text[end:]


def spoiled(r: random.Random, data: bytes) -> bytes:
    """Bytes of a proto changed, removed or put in."""
    changed = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 4))):
        at = r.randrange(len(changed) or 1)
        match r.randrange(3):
            case 0:
                changed[at : at + 1] = bytes([r.choice((0, 1, 2, 127, 128, 255, r.randrange(256)))])
            case 1:
                del changed[at : at + r.choice((1, 2, 8, 50))]
            case 2:
                changed[at:at] = r.randbytes(r.choice((1, 2, 8)))
    return bytes(changed)


def broken(r: random.Random, module: Module) -> Module:
    """One property of one or two instructions replaced by that of another instruction."""
    instructions = [i for i in module.instructions()]
    for _ in range(r.choice((1, 1, 2))):
        i = r.choice(instructions)
        other = r.choice(instructions)
        match r.randrange(6):
            case 0 if i.operands:
                i.operands[r.randrange(len(i.operands))] = other
            case 1 if i.operands:
                del i.operands[r.randrange(len(i.operands))]
            case 2:
                i.shape = other.shape
            case 3 if i.shape.is_array:
                dims = tuple(max(0, n + r.choice((-1, 0, 0, 1))) for n in i.shape.dimensions)
                i.shape = Shape(i.shape.element_type, dims)
            case 4 if i.shape.is_array:
                i.shape = Shape(ELEMENT_TYPES[r.choice(TYPES)], i.shape.dimensions)
            case 5 if other.attributes:
                name = r.choice(sorted(other.attributes))
                i.attributes = {**i.attributes, name: other.attributes[name]}
            case _:
                i.opcode = other.opcode
    return module


@cache
def in_protos() -> tuple[bytes, ...]:
    """The examples that a proto can represent."""
    protos = []
    for text in examples():
        with contextlib.suppress(UnsupportedError):
            protos.append(to_proto(parse(text)))
    return tuple(protos)


def changed(seed: int, change: str) -> str | bytes | Module:
    """The program of that number, changed in one of CHANGES."""
    r = random.Random(f"invalid {seed}")
    match change:
        case "scrambled":
            return scrambled(r, texts(r))
        case "altered":
            return altered(r, texts(r))
        case "spoiled":
            return spoiled(r, r.choice(in_protos()))
        case "mistyped":
            return mistyped(r, texts(r))
        case "broken":
            return broken(r, generate(seed, steps=4).module)
    raise ValueError(change)


def outcome(source: str | bytes | Module) -> str:
    """How far a program gets: "unread", "invalid", "unsupported" or "planned". Any exception other than refxla's
    escapes."""
    try:
        match source:
            case str():
                module = parse(source)
            case bytes():
                module = from_proto(source)
            case Module():
                module = source
    except Error:
        return "unread"
    try:
        verify(module)
    except Error:
        return "invalid"
    parse(str(module))
    try:
        _, planned = plan_module(module, DEFAULT_CPU)
    except UnsupportedError as error:
        if not is_refusal(error):
            raise
        return "unsupported"
    kernels = planned.plan.kernels
    written = program(kernels, DEFAULT_CPU).source or not kernels
    if not (written and str(planned.plan) and str(Explanation(planned))):
        raise AssertionError("a plan, a source or an explanation is empty")
    return "planned"


def run(first: int, count: int, counts: Counter[str] | None = None) -> Tally:
    """The changed programs with the seeds from `first` on; `counts` says how far those of each kind of change got."""
    tally = Tally()
    counts = Counter() if counts is None else counts
    for seed in range(first, first + count):
        change = CHANGES[seed % len(CHANGES)]
        tally.programs += 1
        source = changed(seed, change)
        try:
            counts[f"{change} {outcome(source)}"] += 1
        except (Exception, RecursionError) as problem:  # whatever it is, it is what we look for
            what = f"{type(problem).__name__}: {problem}"[:2000]
            tally.add_divergence(Divergence(seed, f"invalid {change}", what, type(problem).__name__))
    tally.rules.update(counts)
    return tally


def record(divergence: Divergence) -> str:
    """The changed program as a file: its text, or its bytes in hexadecimal."""
    source = changed(divergence.seed, divergence.check.split()[1])
    body = source.hex() if isinstance(source, bytes) else str(source)
    what = " ".join(divergence.what.split())
    return f"// seed: {divergence.seed}\n// check: {divergence.check}\n// differs: {what}\n{body}\n"
