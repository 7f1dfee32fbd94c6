"""The core's shape inference equals the specification's, on programs that keep the rules and on those that break them.

A case is drawn so that it keeps them, mostly; then up to two things about it are changed: an operand's size, type or
rank, a number in an attribute, the operands' order or number. Both must accept it with the same shape, or both reject
it, and by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refxla_spec import text
from refxla_spec.errors import Error, InvalidProgramError
from refxla_spec.module import (
    Computation,
    ConvolutionDimensions,
    Instruction,
    PaddingDimension,
    SliceDimension,
    WindowDimension,
)
from refxla_spec.operation import Violation, operation
from refxla_spec.types import ELEMENT_TYPES, S32, TOKEN, Layout, Shape

from refxla._core import shapes
from refxla.ir.op_table import ROWS
from refxla.passes import pipeline

ARRAY_TYPES = [t for t in ELEMENT_TYPES.values() if t.is_array]
COMMON = [ELEMENT_TYPES[n] for n in ("f32", "s32", "pred", "c64", "u8", "f64", "bf16")]
TYPES = st.sampled_from(COMMON + COMMON + ARRAY_TYPES)
SIZES = st.sampled_from([0, 1, 2, 3, 4, 6])


@dataclass
class Case:
    opcode: str
    operands: list[Shape]
    attributes: dict[str, Any]
    stated: Shape | None = None

    def instruction(self) -> Instruction:
        operands = [Instruction(f"p{n}", "parameter", s, [], {"number": n}) for n, s in enumerate(self.operands)]
        return Instruction("made", self.opcode, self.stated or Shape.tuple_of(), operands, dict(self.attributes))


def array(draw, element_type=None, dims=None) -> Shape:
    dims = tuple(draw(st.lists(SIZES, max_size=4))) if dims is None else tuple(dims)
    made = Shape(draw(TYPES) if element_type is None else element_type, dims)
    mark = draw(st.integers(0, 15))
    if mark == 1:
        made = replace(made, layout=Layout(tuple(draw(st.permutations(range(len(dims)))))))
    elif mark == 2 and dims:
        made = replace(made, dynamic=tuple(draw(st.booleans()) for _ in dims))
    return made


def computation(takes: list[Shape], gives: Shape) -> Computation:
    parameters = [Instruction(f"q{n}", "parameter", s, [], {"number": n}) for n, s in enumerate(takes)]
    root = Instruction("root", "custom-call", gives, list(parameters), {"custom_call_target": "f"})
    return Computation("called", [*parameters, root], root)


def some_of(draw, rank: int) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if draw(st.booleans()))


# -- cases that keep the rules, mostly ---------------------------------------------------------------------------------


def elementwise(draw, opcode):
    row = ROWS[opcode]
    kinds = row.takes.split()
    good = [t for t in ARRAY_TYPES if t.kind in kinds]
    x = array(draw, draw(st.sampled_from(good)) if draw(st.integers(0, 4)) else None)
    return Case(opcode, [x] * (2 if row.shape == "binary" else 1), {})


def complex_(draw, opcode):
    x = array(draw, ELEMENT_TYPES[draw(st.sampled_from(["f32", "f64"]))])
    return Case(opcode, [x, x], {})


def compare(draw, opcode):
    x = array(draw)
    attributes = {"direction": draw(st.sampled_from(["EQ", "NE", "LT", "GE", "GT", "LE"]))}
    if draw(st.booleans()):
        attributes["type"] = draw(st.sampled_from(["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]))
    return Case(opcode, [x, x], attributes)


def select(draw, opcode):
    x = array(draw)
    pred = x.with_element_type(ELEMENT_TYPES["pred"])
    return Case(opcode, [draw(st.sampled_from([pred, Shape(ELEMENT_TYPES["pred"])])), x, x], {})


def clamp(draw, opcode):
    x = array(draw)
    bounds = [draw(st.sampled_from([x, Shape(x.element_type)])) for _ in range(2)]
    return Case(opcode, [bounds[0], x, bounds[1]], {})


def convert(draw, opcode):
    x = array(draw)
    return Case(opcode, [x], {}, Shape(draw(TYPES), x.dimensions, x.layout, x.dynamic))


def bitcast_convert(draw, opcode):
    x, t = array(draw), draw(TYPES)
    have, want = x.element_type.bits, t.bits
    if have > want:
        return Case(opcode, [x], {}, Shape(t, (*x.dimensions, have // want)))
    if have < want:
        return Case(opcode, [Shape(x.element_type, (*x.dimensions, want // have))], {}, Shape(t, x.dimensions))
    return Case(opcode, [x], {}, Shape(t, x.dimensions))


def reduce_precision(draw, opcode):
    x = array(draw, draw(st.sampled_from([t for t in ARRAY_TYPES if t.is_float])))
    return Case(opcode, [x], {"exponent_bits": draw(st.integers(0, 8)), "mantissa_bits": draw(st.integers(-1, 8))})


def identity(draw, opcode):
    return Case(opcode, [array(draw)], {})


def parameter(draw, opcode):
    return Case(opcode, [], {"number": draw(st.integers(-1, 3))}, array(draw))


def constant(draw, opcode):
    x = array(draw)
    return Case(opcode, [], {"literal": np.zeros(x.dimensions, x.element_type.dtype)}, x.without_layout())


def iota(draw, opcode):
    x = array(draw)
    return Case(opcode, [], {"iota_dimension": draw(st.integers(-1, 4))}, x)


def tuple_(draw, opcode):
    return Case(opcode, [array(draw) for _ in range(draw(st.integers(0, 3)))], {})


def get_tuple_element(draw, opcode):
    elements = [array(draw) for _ in range(draw(st.integers(0, 3)))]
    return Case(opcode, [Shape.tuple_of(*elements)], {"index": draw(st.integers(-1, 3))})


def tokens(draw, opcode):
    return Case(opcode, [Shape(TOKEN)] * draw(st.integers(0, 3)), {})


def add_dependency(draw, opcode):
    return Case(opcode, [array(draw), Shape(TOKEN)], {})


def while_(draw, opcode):
    state = Shape.tuple_of(*(array(draw) for _ in range(draw(st.integers(0, 2)))))
    condition, body = computation([state], Shape(ELEMENT_TYPES["pred"])), computation([state], state)
    return Case(opcode, [state], {"condition": condition, "body": body})


def conditional(draw, opcode):
    operands, result = [array(draw) for _ in range(draw(st.integers(0, 3)))], array(draw)
    branches = tuple(computation([o], result) for o in operands)
    index = Shape(draw(st.sampled_from([S32, ELEMENT_TYPES["pred"]])))
    if len(branches) == 2 and draw(st.booleans()):
        return Case(opcode, [index, *operands], {"true_computation": branches[0], "false_computation": branches[1]})
    return Case(opcode, [index, *operands], {"branch_computations": branches})


def broadcast(draw, opcode):
    wide = array(draw)
    dims = tuple(draw(st.permutations(some_of(draw, wide.rank))))
    x = Shape(wide.element_type, tuple(wide.dimensions[d] for d in dims))
    return Case(opcode, [x], {"dimensions": dims}, wide)


def reshape(draw, opcode):
    x = array(draw)
    dims = draw(st.sampled_from([x.dimensions[::-1], (x.size,), (1, x.size, 1), (*x.dimensions, 2)]))
    return Case(opcode, [x], {}, x.with_dimensions(dims))


def transpose(draw, opcode):
    x = array(draw)
    return Case(opcode, [x], {"dimensions": tuple(draw(st.permutations(range(x.rank))))})


def reverse(draw, opcode):
    x = array(draw)
    return Case(opcode, [x], {"dimensions": some_of(draw, x.rank)})


def slice_(draw, opcode):
    x, parts = array(draw), []
    for n in x.dimensions:
        start = draw(st.integers(0, n))
        parts.append(SliceDimension(start, draw(st.integers(start, n)), draw(st.integers(1, 3))))
    return Case(opcode, [x], {"slice": tuple(parts)})


def pad(draw, opcode):
    x = array(draw)
    low, inner = st.integers(-2, 3), st.integers(0, 2)
    padding = tuple(PaddingDimension(draw(low), draw(low), draw(inner)) for _ in x.dimensions)
    return Case(opcode, [x, Shape(x.element_type)], {"padding": padding})


def concatenate(draw, opcode):
    x = array(draw)
    along = draw(st.integers(0, max(0, x.rank - 1)))
    others = [
        x.with_dimensions((*x.dimensions[:along], draw(SIZES), *x.dimensions[along + 1 :])) if x.rank else x
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Case(opcode, [x, *others], {"dimensions": (along,)})


def block(draw, dims) -> tuple[int, ...]:
    return tuple(draw(st.integers(0, n)) for n in dims)


def starts(draw, rank) -> list[Shape]:
    index = ELEMENT_TYPES[draw(st.sampled_from(["s32", "u8", "s64"]))]
    return [Shape(index, (rank,))] if draw(st.integers(0, 3)) == 0 else [Shape(index)] * rank


def dynamic_slice(draw, opcode):
    x = array(draw)
    return Case(opcode, [x, *starts(draw, x.rank)], {"dynamic_slice_sizes": block(draw, x.dimensions)})


def dynamic_update_slice(draw, opcode):
    x = array(draw)
    return Case(opcode, [x, x.with_dimensions(block(draw, x.dimensions)), *starts(draw, x.rank)], {})


def indexing(draw):
    """An array, indices into it with their batch, the dimensions they index, those batched, and the vector's place."""
    x = array(draw)
    batched = tuple(sorted(draw(st.permutations(range(x.rank)))[: draw(st.integers(0, 1))]))
    free = [d for d in range(x.rank) if d not in batched]
    mapped = tuple(draw(st.permutations(free)))[: draw(st.integers(0, 2))]
    batch = [x.dimensions[d] for d in batched] + draw(st.lists(SIZES, max_size=2))
    place = draw(st.integers(0, len(batch)))
    dims = list(batch)
    if len(mapped) == 1 and draw(st.booleans()):
        place = len(dims)  # the vector of one element has no dimension
    else:
        dims.insert(place, len(mapped))
    index_dims = tuple(n + (n >= place) for n in range(len(batched)))
    return x, Shape(S32, tuple(dims)), mapped, batched, index_dims, place, tuple(batch)


def gather(draw, opcode):
    x, indices, mapped, batched, index_dims, place, batch = indexing(draw)
    collapsed = tuple(d for d in mapped if draw(st.booleans()))
    sizes = [draw(st.integers(0, n)) for n in x.dimensions]
    for d in (*collapsed, *batched):
        sizes[d] = min(1, x.dimensions[d])
    count = x.rank - len(collapsed) - len(batched)
    offsets = sorted(draw(st.permutations(range(len(batch) + count)))[:count])
    return Case(
        opcode,
        [x, indices],
        {
            "offset_dims": tuple(offsets),
            "collapsed_slice_dims": tuple(sorted(collapsed)),
            "start_index_map": mapped,
            "operand_batching_dims": batched,
            "start_indices_batching_dims": index_dims,
            "index_vector_dim": place,
            "slice_sizes": tuple(sizes),
        },
    )


def scatter(draw, opcode):
    x, indices, mapped, batched, index_dims, place, batch = indexing(draw)
    inserted = tuple(sorted(d for d in mapped if draw(st.booleans())))
    extents = [n for d, n in enumerate(x.dimensions) if d not in inserted + batched]
    rank = len(batch) + len(extents)
    window = tuple(sorted(draw(st.permutations(range(rank)))[: len(extents)]))
    inner, outer = iter([draw(st.integers(0, n)) for n in extents]), iter(batch)
    update = x.with_dimensions(tuple(next(inner) if d in window else next(outer) for d in range(rank)))
    n = draw(st.sampled_from([1, 1, 2]))
    scalar = Shape(x.element_type)
    gives = scalar if n == 1 and draw(st.booleans()) else Shape.tuple_of(*[scalar] * n)
    return Case(
        opcode,
        [*[x] * n, indices, *[update] * n],
        {
            "update_window_dims": window,
            "inserted_window_dims": inserted,
            "scatter_dims_to_operand_dims": mapped,
            "input_batching_dims": batched,
            "scatter_indices_batching_dims": index_dims,
            "index_vector_dim": place,
            "to_apply": computation([scalar] * 2 * n, gives),
        },
    )


def reducer(draw, n: int, element_type) -> Computation:
    scalar = Shape(element_type)
    return computation([scalar] * 2 * n, scalar if n == 1 and draw(st.booleans()) else Shape.tuple_of(*[scalar] * n))


def reduce(draw, opcode):
    x, n = array(draw), draw(st.sampled_from([1, 1, 2]))
    operands = [x] * n + [Shape(x.element_type)] * n
    dims = tuple(draw(st.permutations(some_of(draw, x.rank))))
    return Case(opcode, operands, {"dimensions": dims, "to_apply": reducer(draw, n, x.element_type)})


def window(draw, rank: int, dilated: bool = True) -> tuple[WindowDimension, ...]:
    one, padding = st.integers(1, 3), st.integers(-1, 2)
    return tuple(
        WindowDimension(
            draw(one), draw(one), draw(padding), draw(padding), draw(one) if dilated else 1, draw(one) if dilated else 1
        )
        for _ in range(rank)
    )


def reduce_window(draw, opcode):
    case = reduce(draw, opcode)
    del case.attributes["dimensions"]
    case.attributes["window"] = window(draw, case.operands[0].rank)
    return case


def select_and_scatter(draw, opcode):
    from refxla_spec.indexing import window_count

    x = array(draw)
    w = window(draw, x.rank, dilated=False)
    counts = tuple(window_count(n, d) for n, d in zip(x.dimensions, w, strict=True))
    source, scalar = Shape(draw(TYPES), counts), Shape(x.element_type)
    value = Shape(source.element_type)
    attributes = {
        "window": w,
        "select": computation([scalar, scalar], Shape(ELEMENT_TYPES["pred"])),
        "scatter": computation([value, value], value),
    }
    return Case(opcode, [x, source, value], attributes)


def stated_product(draw, a: Shape, b: Shape) -> Shape | None:
    return (
        Shape(draw(st.sampled_from([a.element_type, b.element_type, ELEMENT_TYPES["f32"]])))
        if draw(st.booleans())
        else None
    )


def dot(draw, opcode):
    a, b = draw(st.lists(SIZES, max_size=2)), draw(st.lists(SIZES, max_size=2))
    shared = draw(st.lists(SIZES, max_size=3))
    left, right = draw(st.permutations(range(len(a) + len(shared)))), draw(st.permutations(range(len(b) + len(shared))))
    left_sizes, right_sizes = [0] * len(left), [0] * len(right)
    for d, n in zip(left, [*shared, *a], strict=True):
        left_sizes[d] = n
    for d, n in zip(right, [*shared, *b], strict=True):
        right_sizes[d] = n
    lhs, rhs = array(draw, dims=left_sizes), array(draw, dims=right_sizes)
    cut = draw(st.integers(0, len(shared)))
    attributes = {
        "lhs_batch_dims": tuple(left[:cut]),
        "rhs_batch_dims": tuple(right[:cut]),
        "lhs_contracting_dims": tuple(left[cut : len(shared)]),
        "rhs_contracting_dims": tuple(right[cut : len(shared)]),
    }
    return Case(opcode, [lhs, rhs], attributes, stated_product(draw, lhs, rhs))


def convolution(draw, opcode):
    spatial = draw(st.integers(0, 2))
    groups = draw(st.integers(1, 2))
    by_batch = draw(st.booleans())
    w = tuple(replace(d, reversal=draw(st.booleans())) for d in window(draw, spatial))
    inputs, outputs = draw(st.integers(0, 2)), groups * draw(st.integers(0, 2))
    batch, features = draw(st.integers(0, 2)) * (groups if by_batch else 1), inputs * (1 if by_batch else groups)
    orders = [tuple(draw(st.permutations(range(spatial + 2)))) for _ in range(3)]
    (ib, i_f, *i_s), (kif, kof, *k_s), (ob, of, *o_s) = orders
    lhs, rhs = [0] * (spatial + 2), [0] * (spatial + 2)
    lhs[ib], lhs[i_f], rhs[kif], rhs[kof] = batch, features, inputs, outputs
    for n, d in enumerate(w):
        lhs[i_s[n]], rhs[k_s[n]] = draw(SIZES), d.size
    labels = ConvolutionDimensions(ib, i_f, tuple(i_s), kif, kof, tuple(k_s), ob, of, tuple(o_s))
    a, b = array(draw, dims=lhs), array(draw, dims=rhs)
    attributes = {"window": w, "dim_labels": labels}
    attributes["batch_group_count" if by_batch else "feature_group_count"] = groups
    return Case(opcode, [a, b], attributes, stated_product(draw, a, b))


def sort(draw, opcode):
    x, n = array(draw), draw(st.integers(1, 3))
    operands = [x.with_element_type(draw(TYPES)) for _ in range(n)]
    pairs = [Shape(o.element_type) for o in operands for _ in range(2)]
    called = computation(pairs, Shape(ELEMENT_TYPES["pred"]))
    return Case(opcode, operands, {"dimensions": (draw(st.integers(0, max(0, x.rank - 1))),), "to_apply": called})


CASES = {
    "complex": complex_, "compare": compare, "select": select, "clamp": clamp, "convert": convert,
    "bitcast-convert": bitcast_convert, "reduce-precision": reduce_precision, "copy": identity, "parameter": parameter,
    "constant": constant, "iota": iota, "tuple": tuple_, "get-tuple-element": get_tuple_element, "after-all": tokens,
    "add-dependency": add_dependency, "while": while_, "conditional": conditional, "broadcast": broadcast,
    "reshape": reshape, "transpose": transpose, "reverse": reverse, "slice": slice_, "pad": pad,
    "concatenate": concatenate, "dynamic-slice": dynamic_slice, "dynamic-update-slice": dynamic_update_slice,
    "gather": gather, "scatter": scatter, "reduce": reduce, "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter, "dot": dot, "convolution": convolution, "sort": sort,
    **{o: elementwise for o, r in ROWS.items() if r.shape},
}  # fmt: skip


# -- changes ----------------------------------------------------------------------------------------------------------


def changed_shape(draw, s: Shape) -> Shape:
    if s.is_tuple:
        return draw(st.sampled_from([Shape.tuple_of(), Shape.tuple_of(*s.elements, Shape(S32)), Shape(S32)]))
    dims = list(s.dimensions)
    match draw(st.integers(0, 5)):
        case 0:
            return replace(s, element_type=draw(TYPES))
        case 1 if dims:
            dims[draw(st.integers(0, len(dims) - 1))] = draw(SIZES)
            return Shape(s.element_type, tuple(dims))
        case 2:
            return Shape(s.element_type, (*dims, draw(SIZES)))
        case 3 if dims:
            return Shape(s.element_type, tuple(dims[1:]))
        case 4:
            return Shape.tuple_of(s)
    return Shape(TOKEN) if draw(st.booleans()) else array(draw)


def changed_value(draw, v: Any) -> Any:
    match v:
        case bool() | str():
            return (
                draw(st.sampled_from(["EQ", "LT", "FLOAT", "TOTALORDER", "NONSENSE"])) if isinstance(v, str) else not v
            )
        case int():
            return v + draw(st.sampled_from([-2, -1, 1, 2]))
        case Computation():
            takes, gives = [p.shape for p in v.parameters], v.root.shape
            match draw(st.integers(0, 2)):
                case 0 if takes:
                    n = draw(st.integers(0, len(takes) - 1))
                    takes[n] = changed_shape(draw, takes[n])
                case 1:
                    takes = takes[1:]
                case _:
                    gives = changed_shape(draw, gives)
            return computation(takes, gives)
        case WindowDimension() | SliceDimension() | PaddingDimension():
            names = [n for n in v.__dataclass_fields__ if n != "reversal"]
            name = draw(st.sampled_from(names))
            return replace(v, **{name: getattr(v, name) + draw(st.sampled_from([-3, -1, 1]))})
        case ConvolutionDimensions():
            name = draw(st.sampled_from(list(v.__dataclass_fields__)))
            return replace(v, **{name: changed_value(draw, getattr(v, name))})
        case tuple():
            change = draw(st.integers(0, 3))
            if change == 0 and v:
                return v[1:]
            if change == 1 and v:
                return (*v, v[0])
            if change == 2:
                return (*v, draw(st.integers(0, 3))) if all(isinstance(n, int) for n in v) else v[::-1]
            if v:
                n = draw(st.integers(0, len(v) - 1))
                return (*v[:n], changed_value(draw, v[n]), *v[n + 1 :])
    return v


def change(draw, case: Case) -> None:
    """Change one thing about a case."""
    kind = draw(st.integers(0, 6))
    if kind <= 2 and case.operands:
        n = draw(st.integers(0, len(case.operands) - 1))
        case.operands[n] = changed_shape(draw, case.operands[n])
    elif kind <= 4 and case.attributes:
        name = draw(st.sampled_from(sorted(case.attributes)))
        case.attributes[name] = changed_value(draw, case.attributes[name])
    elif kind == 5 and case.stated is not None:
        case.stated = changed_shape(draw, case.stated)
    elif case.operands:
        n = draw(st.integers(0, len(case.operands)))
        case.operands = draw(
            st.sampled_from([case.operands[n:], case.operands[::-1], [*case.operands, case.operands[0]]])
        )


def by_specification(i: Instruction) -> Shape | str | None:
    """The specification's shape, or the label of the rule that is broken, "" where it has none."""
    rule = operation(i.opcode)
    if rule.arity is not None and len(i.operands) != rule.arity:
        return ""
    try:
        return rule.infer(i, *(o.shape for o in i.operands))
    except Violation as violation:
        return f"{i.opcode.replace('-', '_')}_{violation.label.lower()}"
    except (InvalidProgramError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ""  # what the verifier turns into an InvalidProgramError


def by_core(i: Instruction) -> Shape | str | None:
    try:
        return shapes.infer(i)
    except InvalidProgramError as problem:
        return problem.constraint or ""


def assert_equal(case: Case) -> bool:
    """Both give the same; returns whether they accept."""
    expected, got = by_specification(case.instruction()), by_core(case.instruction())
    if isinstance(expected, Shape):
        assert isinstance(got, Shape), f"{case}: {expected}, and the core rejects it by {got}"
        assert got.without_layout() == expected.without_layout(), case
        return True
    assert not isinstance(got, Shape), f"{case}: rejected by {expected}, and the core gives {got}"
    if expected and got:
        assert got == expected, case
    return False


@pytest.mark.parametrize("opcode", sorted(CASES))
def test_equals_the_specification(opcode):
    accepted = 0
    share = 4 if ROWS[opcode].shape else 1  # of a family there are many
    examples = settings.default.max_examples // share

    @settings(max_examples=examples)
    @given(st.data())
    def check(data):
        nonlocal accepted
        case = CASES[opcode](data.draw, opcode)
        accepted += assert_equal(case)
        for _ in range(data.draw(st.integers(0, 2))):
            change(data.draw, case)
            assert_equal(case)

    check()
    assert accepted >= examples // 6, "hardly any case kept the rules: the property says little"


@pytest.mark.parametrize("opcode", [o for o, r in ROWS.items() if r.shape])
def test_the_families_take_the_types_that_the_specification_takes(opcode):
    for element_type in ELEMENT_TYPES.values():
        x = Shape(element_type, (2,) if element_type.is_array else ())
        assert_equal(Case(opcode, [x] * (2 if ROWS[opcode].shape == "binary" else 1), {}))


def test_every_row_of_the_table_has_a_rule():
    by_specification = {
        "cholesky",
        "fft",
        "triangular-solve",
        "custom-call",
    }  # rare ones: the specification's rule is asked
    assert shapes.covered() == set(ROWS) - by_specification == set(CASES)


def test_an_error_names_the_instruction_the_rule_and_what_was_given():
    x, y = (
        Instruction(n, "parameter", Shape.array("f32", d), [], {"number": 0}) for n, d in (("x", (2, 3)), ("y", (4,)))
    )
    with pytest.raises(InvalidProgramError) as caught:
        shapes.make("add", x, y, name="sum")
    assert caught.value.constraint == "add_c3"
    assert str(caught.value).startswith("sum: [add_c3] lhs and rhs have the same dimensions")
    assert "add of (f32[2,3], f32[4])" in str(caught.value)


def test_make_holds_a_stated_shape_against_the_operands():
    x = Instruction("x", "parameter", Shape.array("f32", (2, 3)), [], {"number": 0})
    assert shapes.make("transpose", x, dimensions=(1, 0)).shape == Shape.array("f32", (3, 2))
    with pytest.raises(InvalidProgramError, match=r"y: negate was to be f32\[6\], and is f32\[2,3\]"):
        shapes.make("negate", x, name="y", shape=Shape.array("f32", (6,)))


HLO = """HloModule m
ENTRY main { x = f32[2,3]{0,1} parameter(0)
             y = f32[2,3]{1,0} negate(x)
             ROOT z = f32[3,2] transpose(y), dimensions={1,0} }"""


def test_check_accepts_layouts_and_finds_a_wrong_shape():
    module = text.parse(HLO)
    shapes.check(module)
    module.entry.root.shape = Shape.array("f32", (2, 3))
    with pytest.raises(Error, match=r"z in main: the shape is stated as f32\[2,3\].*gives f32\[3,2\]"):
        shapes.check(module)


def test_a_pass_that_breaks_a_shape_is_named(monkeypatch):
    def wrong(module):
        module.entry.root.shape = Shape.array("f32", (6,))
        return 1

    passes = tuple((name, wrong if name == "cse" else run) for name, run in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)
    with pytest.raises(Error, match="pass 'cse' is at fault.*stated as f32\\[6\\]"):
        pipeline.optimize(text.parse(HLO))
