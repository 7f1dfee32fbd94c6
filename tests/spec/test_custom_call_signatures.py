"""What each custom call with a meaning takes and gives: a call that states anything else is refused by the verifier."""

import re
from dataclasses import replace

import pytest
from refxla_spec import custom_calls
from refxla_spec.custom_calls.signatures import Signature
from refxla_spec.errors import InvalidProgramError, UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.text import parse
from refxla_spec.types import C64, F32, F64, S32, S64, U32, Shape
from refxla_spec.verify import verify

import refxla

SIZES = {"m": 5, "n": 3, "k": 3, "p": 5, "q": 3}
OWN_SIZES = {"gtsv": {**SIZES, "p": 3}}
OTHER_TYPE = {F32: F64, F64: F32, S32: S64}


def called(target: str, operands: list[Shape], result: Shape) -> Module:
    parameters = [Instruction(f"p{n}", "parameter", s, [], {"number": n}) for n, s in enumerate(operands)]
    call = Instruction("r", "custom-call", result, list(parameters), {"custom_call_target": target})
    entry = Computation("e", [*parameters, call], call)
    return Module("m", [entry], entry)


def operands_of(target: str, signature: Signature, batch: tuple[int, ...]) -> list[Shape]:
    """Operands that a signature takes."""
    sizes = next((s for name, s in OWN_SIZES.items() if name in target), SIZES)
    t = (signature.element_types or (F32,))[0]
    types = {"T": t, "s32": S32, "u32": U32}
    return [
        Shape(types[p.element_type], (*batch, *(sizes[d] for d in p.dimensions if d != "..")))
        for p in signature.operands
    ]


def changed(shape: Shape) -> list[Shape]:
    """Shapes that differ from one in its type, in its rank, or in one size."""
    dims = shape.dimensions
    larger = [(*dims[:d], dims[d] + 1, *dims[d + 1 :]) for d in range(len(dims))]
    fewer = [dims[1:]] if dims else []
    others = [Shape(shape.element_type, d) for d in (*larger, *fewer, (*dims, 1))]
    return [shape.with_element_type(OTHER_TYPE.get(shape.element_type, F32)), *others]


def mutants(target: str, signature: Signature, batch: tuple[int, ...]) -> list[tuple[list[Shape], Shape]]:
    """(operands, result) of calls in each of which one operand or result is another, missing, or there twice."""
    operands = operands_of(target, signature, batch)
    result = signature(called(target, operands, Shape.tuple_of()).entry.root, *operands)
    found = [(o, result) for o in lists(operands)]
    if not result.is_tuple:
        return found + [(operands, s) for s in (*changed(result), Shape.tuple_of(result))]
    return (
        found
        + [(operands, Shape.tuple_of(*r)) for r in lists(list(result.elements))]
        + [(operands, result.elements[0])]
    )


def lists(shapes: list[Shape]) -> list[list[Shape]]:
    exchanged = [[*shapes[:n], other, *shapes[n + 1 :]] for n, s in enumerate(shapes) for other in changed(s)]
    return [*exchanged, shapes[:-1], [*shapes, shapes[-1]], [*shapes[:-1], Shape.tuple_of(shapes[-1])]]


BY_TEXT = sorted(target for target, s in custom_calls.SIGNATURES.items() if isinstance(s, Signature))


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
@pytest.mark.parametrize("target", BY_TEXT)
def test_every_operand_and_every_result_is_checked(target, batch):
    signature = custom_calls.SIGNATURES[target]
    operands = operands_of(target, signature, batch)
    result = signature(called(target, operands, Shape.tuple_of()).entry.root, *operands)
    verify(called(target, operands, result))
    for taken, stated in mutants(target, signature, batch):
        with pytest.raises(InvalidProgramError, match=r"^r: \[custom_call_c[23]\]"):
            verify(called(target, taken, stated))


@pytest.mark.parametrize("target", [t for t in BY_TEXT if t != "cu_threefry2x32" and "ffi" not in t])
@pytest.mark.parametrize("element_type", [F64, C64])
def test_targets_without_a_letter_take_other_types(target, element_type):
    signature = replace(custom_calls.SIGNATURES[target], element_types=(element_type,))
    operands = operands_of(target, signature, ())
    result = custom_calls.SIGNATURES[target](called(target, operands, Shape.tuple_of()).entry.root, *operands)
    verify(called(target, operands, result))


SCALARS = """less { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
                    ROOT r = pred[] compare(a, b), direction=LT }
             one { ROOT a = f32[] parameter(0) }"""
SMALLEST = 'custom-call(x, i, low, none), custom_call_target="ApproxTopK", called_computations={less}'
OPERANDS = """x = f32[2,4] parameter(0) i = s32[2,4] parameter(1) low = f32[] parameter(2) none = s32[] parameter(3)
              d = f32[<=4,<=3] parameter(4) t = (f32[2], s32[]) parameter(5) n = s64[] parameter(6)
              w = token[] after-all()"""
VALID = [
    '(f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK"',
    '(s32[2,0], s32[2,0]) custom-call(i), custom_call_target="TopK"',
    f"(f32[2,3], s32[2,3]) {SMALLEST}",
    f"(f32[1,4], s32[1,4]) {SMALLEST}, backend_config={{reduction_dim = 0 : i64}}",
    f"(f32[2,3], s32[2,3]) {SMALLEST}, backend_config={{top_k = 3 : i64, reduction_dim = 1 : i64}}",
    f"(f32[2,4], s32[2,4]) {SMALLEST}, backend_config={{top_k = 3 : i64, aggregate_to_topk = false}}",
    '(f32[4,3], s32[], s32[]) custom-call(d), custom_call_target="PadToStatic"',
    'f32[<=2,<=4] custom-call(x, none, none), custom_call_target="SliceToDynamic"',
    'f32[2,4] custom-call(x), custom_call_target="Sharding"',
    '(f32[2], s32[]) custom-call(t), custom_call_target="MoveToHost"',
    '(f32[2,4], s32[1,4]) custom-call(x, i), custom_call_target="xla.sdy.GlobalToLocalShape"',
    'f32[4,4] custom-call(x), custom_call_target="SPMDShardToFullShape"',
    'token[] custom-call(w), custom_call_target="SPMDFullToShardShape"',
    '(f32[1,4], token[]) custom-call(x, w), custom_call_target="xla.sdy.GlobalToLocalShape"',
    '() custom-call(x, t), custom_call_target="dce_sink"',
    '() custom-call(), custom_call_target="dce_sink"',
    'f32[7] custom-call(x, t), custom_call_target="of nobody"',
]
INVALID = [
    '(f32[2,5], s32[2,5]) custom-call(x), custom_call_target="TopK"',
    '(f32[1,3], s32[1,3]) custom-call(x), custom_call_target="TopK"',
    '(f16[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK"',
    '(f32[2,3], s64[2,3]) custom-call(x), custom_call_target="TopK"',
    '(f32[2,3], s32[2,2]) custom-call(x), custom_call_target="TopK"',
    '(f32[2,3]) custom-call(x), custom_call_target="TopK"',
    'f32[4] custom-call(x), custom_call_target="TopK"',
    '() custom-call(x), custom_call_target="TopK"',
    '(f32[], s32[]) custom-call(low), custom_call_target="TopK"',
    '(f32[2], s32[]) custom-call(t), custom_call_target="TopK"',
    f"(f32[2,5], s32[2,5]) {SMALLEST}",
    f"(f32[2,3], s32[2,2]) {SMALLEST}",
    f"(f32[1,3], s32[1,3]) {SMALLEST}",
    f"f32[2,3] {SMALLEST}",
    f"() {SMALLEST}",
    f"(f32[2,3], s32[2,3]) {SMALLEST}, backend_config={{reduction_dim = 2 : i64}}",
    f"(f32[2,3], s32[2,3]) {SMALLEST}, backend_config={{reduction_dim = -1 : i64}}",
    f"(f32[2,3], s32[2,3]) {SMALLEST}, backend_config={{top_k = 2 : i64}}",
    f"(f32[2,3], s32[2,3]) {SMALLEST.replace('less', 'one')}",
    f"(f32[2,3], s32[2,3]) {SMALLEST.partition(', called')[0]}",
    f"(f32[2,3], s32[2,3]) {SMALLEST.replace('low, none', 'none, low')}",
    f"(f32[2,3], s32[2,3]) {SMALLEST.replace('x, i, low, none', 'x, low')}",
    f"(f32[2,3], s32[2,3]) {SMALLEST.replace('x, i, low, none', '')}",
    '(f32[4,3], s32[]) custom-call(d), custom_call_target="PadToStatic"',
    '(f32[4,2], s32[], s32[]) custom-call(d), custom_call_target="PadToStatic"',
    '(f32[4,3], s64[], s32[]) custom-call(d), custom_call_target="PadToStatic"',
    'f32[<=2,<=4] custom-call(x, none), custom_call_target="SliceToDynamic"',
    'f32[<=2,<=4] custom-call(x, none, n), custom_call_target="SliceToDynamic"',
    'f32[<=2,<=3] custom-call(x, none, none), custom_call_target="SliceToDynamic"',
    's32[2,4] custom-call(x), custom_call_target="Sharding"',
    'f32[2,4] custom-call(x, x), custom_call_target="Sharding"',
    'f32[2,4] custom-call(), custom_call_target="Sharding"',
    's32[4,4] custom-call(x), custom_call_target="SPMDShardToFullShape"',
    'f32[8] custom-call(x), custom_call_target="SPMDShardToFullShape"',
    's32[] custom-call(w), custom_call_target="SPMDShardToFullShape"',
    '(f32[2,4], f32[2,4]) custom-call(x), custom_call_target="SPMDFullToShardShape"',
    '(f32[2], s32[]) custom-call(t), custom_call_target="xla.sdy.LocalToGlobalShape"',
    'f32[2,4] custom-call(x), custom_call_target="dce_sink"',
]


def program(call: str) -> Module:
    return parse(f"HloModule m\n{SCALARS}\nENTRY e {{ {OPERANDS}\nROOT r = {call} }}")


@pytest.mark.parametrize("call", VALID)
def test_calls_that_are_taken(call):
    verify(program(call))


@pytest.mark.parametrize("call", INVALID)
def test_calls_that_are_refused(call):
    with pytest.raises(InvalidProgramError, match=r"line \d+, column \d+: r: \[custom_call_c[23]\]"):
        verify(program(call))


def test_other_sizes_of_a_marker_are_those_of_a_program_for_several_devices():
    with pytest.raises(UnsupportedError, match="compile it for one"):
        verify(program('f32[1,4] custom-call(x), custom_call_target="Sharding"'))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('(f32[4,4], f32[4], s32[]) custom-call(x), custom_call_target="lapack_ssyevd_ffi", backend_config={mode = 69}',
         r"with mode = 69 is not implemented; it may be 86 \(V\) or 78 \(N\)"),
        ('(f32[4,4], f32[3], s32[]) custom-call(x), custom_call_target="lapack_sgehrd_ffi", '
         "backend_config={low = 1, high = 9}", "low is 1 and high 9, of 4 rows"),
        ('f32[4,4] custom-call(x, x), custom_call_target="lapack_strsm_ffi", backend_config={trans_x = -1}',
         "with trans_x = -1 is not implemented"),
    ],
)  # fmt: skip
def test_options_that_a_routine_does_not_have(call, message):
    with pytest.raises((InvalidProgramError, UnsupportedError), match=message):
        verify(parse(f"HloModule m\nENTRY e {{ x = f32[4,4] parameter(0)\nROOT r = {call} }}"))


@pytest.mark.parametrize(("mode", "u", "vh"), [("A", 5, 3), ("S", 3, 3), ("N", 5, 3), ("N", 3, 3)])
def test_singular_vectors_follow_the_mode(mode, u, vh):
    def call(columns: int, rows: int) -> Module:
        result = f"(f32[5,3], f32[3], f32[5,{columns}], f32[{rows},3], s32[])"
        call = f'custom-call(x), custom_call_target="lapack_sgesdd_ffi", backend_config={{mode = {ord(mode)} : ui8}}'
        return parse(f"HloModule m\nENTRY e {{ x = f32[5,3] parameter(0)\nROOT r = {result} {call} }}")

    verify(call(u, vh))
    for wrong in ((4, vh), (u, 2)):
        with pytest.raises(InvalidProgramError, match="custom_call_c3"):
            verify(call(*wrong))


OUT_OF_BOUNDS = [
    ("f32[400,400]", '(f32[400,400], f32[1]) custom-call(x), custom_call_target="Eigh"'),
    ("f32[400,400]", '(f32[1,1], f32[400]) custom-call(x), custom_call_target="Eigh"'),
    ("f64[40,40]", '(f32[40,40], f32[40]) custom-call(x), custom_call_target="Eigh"'),
    ("f32[40,40]", '(f32[4,4], s32[4], s32[4]) custom-call(x), custom_call_target="LuDecomposition"'),
    ("f32[40,40]", '(f32[2,2], f32[2]) custom-call(x), custom_call_target="Qr"'),
    ("f32[3,3]", '(f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK"'),
    ("f32[4]", 'f32[4] custom-call(x), custom_call_target="TopK"'),
]


@pytest.mark.parametrize(("shape", "call"), OUT_OF_BOUNDS)
def test_no_call_writes_beside_its_results(shape, call):
    """The compiler and the reference refuse it before anything is computed."""
    module = parse(f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\nROOT r = {call} }}")
    for device in (None, "reference"):
        with pytest.raises(InvalidProgramError, match=re.escape("[custom_call_c")):
            refxla.compile(module, device=device)
