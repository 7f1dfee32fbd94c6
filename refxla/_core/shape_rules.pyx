"""The shape rules of operations that compute or move elements one by one, of tuples and of control flow.

The helpers that they share with the rules in shape_structured.pyx are here, too. All rules are entered into one table,
RULES, by opcode.
"""

from refxla_spec.errors import InvalidProgramError
from refxla_spec.operation import operation
from refxla_spec.types import ELEMENT_TYPES, Shape

from refxla.ir.op_table import ROWS

cdef dict KINDS = {"pred": PRED, "signed": SIGNED, "unsigned": UNSIGNED, "float": FLOAT, "complex": COMPLEX}
cdef object PRED_TYPE = ELEMENT_TYPES["pred"], S32_TYPE = ELEMENT_TYPES["s32"]
cdef object F32 = ELEMENT_TYPES["f32"], F64 = ELEMENT_TYPES["f64"]
cdef object C64 = ELEMENT_TYPES["c64"], C128 = ELEMENT_TYPES["c128"]
cdef object SCALAR_PRED = Shape(PRED_TYPE), TOKEN_TYPE = ELEMENT_TYPES["token"]
RULES = {}  # opcode -> Entry


cdef class Entry:
    """A row of RULES; see the .pxd."""


cdef int enter(str opcode, Rule rule, int least, int most, int takes=0) except -1:
    cdef Entry entry = Entry()
    entry.rule, entry.least, entry.most, entry.takes = rule, least, most, takes
    RULES[opcode] = entry
    return 0


cdef object rule_error(object i, str label, str what):
    name = f"{i.opcode.replace('-', '_')}_{label.lower()}"
    return InvalidProgramError(f"{i.name}: [{name}] {what}", name)


cdef int broken(object i, str label) except -1:
    """Raises the error of a broken rule: the specification's sentence, and the values given."""
    rule = operation(i.opcode).constraints.get(label, "")
    shapes = ", ".join(str(o.shape) for o in i.operands)
    attributes = ", ".join(f"{k}={getattr(v, 'name', v)}" for k, v in i.attributes.items() if k != "literal")
    stated = f" with {attributes}" if attributes else ""
    raise rule_error(i, label, f"{rule}; here {i.opcode} of ({shapes}){stated}, stated as {i.shape}")


# -- shapes and attributes --------------------------------------------------------------------------------------------


cdef int kind_of(object shape):
    return KINDS.get(shape.element_type.kind, NONE)


cdef object plain(object shape):
    """The shape without a layout; the very same one if it has none."""
    if shape.layout is None and not shape.dynamic and not shape.elements:
        return shape
    return shape.without_layout()


cdef object dense(object shape, tuple dimensions):
    """An array of these dimensions, of the element type of `shape`."""
    if shape.layout is None and not shape.dynamic and not shape.elements and shape.dimensions == dimensions:
        return shape
    return Shape(shape.element_type, dimensions)


cdef bint same(object a, object b):
    """Whether two shapes are compatible: equal but for layouts and dynamic marks."""
    cdef Py_ssize_t n
    if a is b:
        return True
    if a.element_type is not b.element_type or a.dimensions != b.dimensions:
        return False
    cdef tuple left = a.elements, right = b.elements
    if len(left) != len(right):
        return False
    for n in range(len(left)):
        if not same(left[n], right[n]):
            return False
    return True


cdef bint alike(object a, object b):
    """Whether two array shapes have the same dimensions."""
    return kind_of(a) != NONE and kind_of(b) != NONE and a.dimensions == b.dimensions


cdef bint scalar(object shape):
    return not shape.dimensions and kind_of(shape) != NONE


cdef object attribute(object i, str name):
    """An attribute, or its default."""
    value = (<dict>i.attributes).get(name)
    return getattr(i, name) if value is None else value


cdef bint distinct(tuple numbers, Py_ssize_t below):
    """Whether numbers are distinct and in 0 .. below - 1."""
    cdef long long n, mask = 0
    cdef bint small = below <= 62
    for n in numbers:
        if n < 0 or n >= below:
            return False
        if small:
            if mask >> n & 1:
                return False
            mask |= 1LL << n
    return small or len(set(numbers)) == len(numbers)


cdef bint ascending(tuple numbers):
    cdef Py_ssize_t n
    for n in range(1, len(numbers)):
        if numbers[n - 1] >= numbers[n]:
            return False
    return True


cdef tuple without(tuple sizes, tuple left_out):
    return tuple([s for d, s in enumerate(sizes) if d not in left_out])


cdef long long placings(long long size, object w):
    """How often a window dimension fits into `size` elements."""
    cdef long long base = (size - 1) * w.base_dilation + 1 if size else 0
    cdef long long padded = base + w.padding_low + w.padding_high
    cdef long long extent = (<long long>w.size - 1) * w.window_dilation + 1
    cdef long long stride = w.stride
    return 0 if padded <= 0 or extent > padded else (padded - extent) // stride + 1


cdef bint takes_scalars(object computation, list types):
    """Whether a computation takes scalars of these element types."""
    cdef list parameters = computation.parameters
    cdef Py_ssize_t n
    if len(parameters) != len(types):
        return False
    for n in range(len(types)):
        if parameters[n].shape.element_type is not types[n] or not scalar(parameters[n].shape):
            return False
    return True


# -- elementwise: the families ----------------------------------------------------------------------------------------


cdef object _unary(object i, list operands, int takes):
    if not kind_of(operands[0]) & takes:
        broken(i, "C1")
    return plain(operands[0])


cdef object _unary_pred(object i, list operands, int takes):
    return plain(_unary(i, operands, takes)).with_element_type(PRED_TYPE)


cdef object _unary_component(object i, list operands, int takes):
    shape = _unary(i, operands, takes)
    if kind_of(shape) != COMPLEX:
        return shape
    return shape.with_element_type(F32 if shape.element_type is C64 else F64)


cdef object _binary(object i, list operands, int takes):
    a, b = operands
    if not kind_of(a) & takes:
        broken(i, "C1")
    if a.element_type is not b.element_type:
        broken(i, "C2")
    if not alike(a, b):
        broken(i, "C3")
    return plain(a)


cdef object _complex(object i, list operands, int takes):
    if operands[0].element_type is not F32 and operands[0].element_type is not F64:
        broken(i, "C1")
    shape = _binary(i, operands, FLOAT)
    return shape.with_element_type(C64 if shape.element_type is F32 else C128)


cdef object _compare(object i, list operands, int takes):
    a, b = operands
    cdef int kind = kind_of(a)
    if kind == NONE or a.element_type is not b.element_type:
        broken(i, "C1")
    if not alike(a, b):
        broken(i, "C2")
    direction, order, older = attribute(i, "direction"), attribute(i, "order"), attribute(i, "type")
    if direction not in ("EQ", "NE") and (direction not in ("GE", "GT", "LE", "LT") or kind == COMPLEX):
        broken(i, "C3")
    if older is not None and not kind & COMPARED.get(older, 0):
        broken(i, "C4")
    if order is not None and not kind & ORDERED.get(order, 0):
        broken(i, "C6")
    if order is not None and older is not None:
        broken(i, "C7")
    return plain(a).with_element_type(PRED_TYPE)


cdef dict ORDERED = {"PARTIAL": FLOAT | COMPLEX, "TOTAL": FLOAT | SIGNED | UNSIGNED | PRED}
cdef dict COMPARED = {
    "FLOAT": FLOAT | COMPLEX, "TOTALORDER": FLOAT, "SIGNED": SIGNED, "UNSIGNED": UNSIGNED | PRED
}


cdef object _select(object i, list operands, int takes):
    pred, a, b = operands
    if pred.element_type is not PRED_TYPE:
        broken(i, "C1")
    if pred.dimensions and not alike(pred, a):
        broken(i, "C2")
    if not alike(a, b) or a.element_type is not b.element_type:
        broken(i, "C3")
    return plain(a)


cdef object _clamp(object i, list operands, int takes):
    low, x, high = operands
    if kind_of(x) == NONE:
        broken(i, "C1")
    if low.element_type is not x.element_type or high.element_type is not x.element_type:
        broken(i, "C2")
    if low.dimensions and not alike(low, x):
        broken(i, "C3")
    if high.dimensions and not alike(high, x):
        broken(i, "C4")
    return plain(x)


cdef object _convert(object i, list operands, int takes):
    shape = i.shape
    if not alike(operands[0], shape):
        broken(i, "C1")
    if kind_of(operands[0]) == COMPLEX and kind_of(shape) != COMPLEX:
        broken(i, "C2")
    return shape


cdef object _bitcast_convert(object i, list operands, int takes):
    x, shape = operands[0], i.shape
    if kind_of(x) == NONE or kind_of(shape) == NONE or (kind_of(x) == COMPLEX) != (kind_of(shape) == COMPLEX):
        broken(i, "C1")
    cdef long long have = x.element_type.bits, want = shape.element_type.bits
    if have == want:
        if x.dimensions != shape.dimensions:
            broken(i, "C2")
    elif have > want:
        if have % want or shape.dimensions != (*x.dimensions, have // want):
            broken(i, "C3")
    elif want % have or x.dimensions != (*shape.dimensions, want // have):
        broken(i, "C4")
    return shape


# Float types with infinities and one sign bit.
cdef frozenset PRECISE = frozenset(("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4"))


cdef object _reduce_precision(object i, list operands, int takes):
    if operands[0].element_type.name not in PRECISE:
        broken(i, "C1")
    if attribute(i, "exponent_bits") < 1:
        broken(i, "C2")
    if attribute(i, "mantissa_bits") < 0:
        broken(i, "C3")
    return plain(operands[0])


cdef object _identity(object i, list operands, int takes):
    return plain(operands[0])


# -- sources and structure --------------------------------------------------------------------------------------------


cdef object _parameter(object i, list operands, int takes):
    if attribute(i, "number") < 0:
        broken(i, "C1")
    return i.shape


cdef object _constant(object i, list operands, int takes):
    if not same(Shape.of(attribute(i, "literal")), i.shape):
        broken(i, "C1")
    return i.shape


cdef object _iota(object i, list operands, int takes):
    shape = i.shape
    if kind_of(shape) in (NONE, PRED) or not shape.dimensions:
        broken(i, "C1")
    if not 0 <= attribute(i, "iota_dimension") < len(shape.dimensions):
        broken(i, "C2")
    return shape


cdef object _tuple(object i, list operands, int takes):
    return Shape.tuple_of(*operands)


cdef object _get_tuple_element(object i, list operands, int takes):
    if not operands[0].is_tuple:
        broken(i, "C1")
    index, elements = attribute(i, "index"), operands[0].elements
    if not 0 <= index < len(elements):
        broken(i, "C2")
    return elements[index]


cdef object _after_all(object i, list operands, int takes):
    for o in operands:
        if o.element_type is not TOKEN_TYPE:
            broken(i, "C1")
    return Shape(TOKEN_TYPE)


cdef object _add_dependency(object i, list operands, int takes):
    if operands[1].element_type is not TOKEN_TYPE:
        broken(i, "C1")
    return plain(operands[0])


# -- control ----------------------------------------------------------------------------------------------------------


cdef object _while(object i, list operands, int takes):
    init = operands[0]
    for label, called, result in (("C1", attribute(i, "condition"), SCALAR_PRED), ("C2", attribute(i, "body"), init)):
        parameters = called.parameters
        if len(parameters) != 1 or not same(parameters[0].shape, init) or not same(called.root.shape, result):
            broken(i, label)
    return init


cdef object _conditional(object i, list operands, int takes):
    cdef Py_ssize_t n
    called = i.attributes.get("branch_computations") or (i.true_computation, i.false_computation)
    index = operands[0]
    two = index.element_type is PRED_TYPE and len(called) == 2
    if None in called or not scalar(index) or not (index.element_type is S32_TYPE or two):
        broken(i, "C1")
    if len(operands) != len(called) + 1:
        broken(i, "C2")
    first = called[0].root.shape
    for n in range(len(called)):
        parameters = called[n].parameters
        if len(parameters) != 1 or not same(parameters[0].shape, operands[n + 1]):
            broken(i, "C2")
        if not same(called[n].root.shape, first):
            broken(i, "C3")
    for c in called:
        if c.root.shape.is_dynamic:
            return operation("conditional").infer(i, *operands)
    return first


# -- data movement ----------------------------------------------------------------------------------------------------


cdef object _broadcast(object i, list operands, int takes):
    x, shape = operands[0], i.shape
    cdef tuple dimensions = attribute(i, "dimensions"), sizes = shape.dimensions
    if kind_of(x) == NONE or x.element_type is not shape.element_type:
        broken(i, "C1")
    if len(dimensions) != len(x.dimensions):
        broken(i, "C2")
    if not distinct(dimensions, len(sizes)):
        broken(i, "C3")
    if tuple([sizes[d] for d in dimensions]) != x.dimensions:
        broken(i, "C4")
    return shape


cdef long long size_of(object shape):
    cdef long long n = 1, d
    for d in shape.dimensions:
        n *= d
    return n


cdef object _reshape(object i, list operands, int takes):
    if kind_of(operands[0]) == NONE or operands[0].element_type is not i.shape.element_type:
        broken(i, "C1")
    if size_of(operands[0]) != size_of(i.shape):
        broken(i, "C2")
    return i.shape


cdef object _transpose(object i, list operands, int takes):
    x = operands[0]
    cdef tuple dimensions = attribute(i, "dimensions"), sizes = x.dimensions
    if kind_of(x) == NONE:
        broken(i, "C1")
    if len(dimensions) != len(sizes) or not distinct(dimensions, len(sizes)):
        broken(i, "C2")
    return Shape(x.element_type, tuple([sizes[d] for d in dimensions]))


cdef object _reverse(object i, list operands, int takes):
    if kind_of(operands[0]) == NONE:
        broken(i, "C1")
    if not distinct(attribute(i, "dimensions"), len(operands[0].dimensions)):
        broken(i, "C2")
    return plain(operands[0])


cdef object _slice(object i, list operands, int takes):
    x = operands[0]
    cdef tuple parts = attribute(i, "slice"), sizes = x.dimensions
    cdef long long start, limit, stride, size
    cdef Py_ssize_t d
    if kind_of(x) == NONE:
        broken(i, "C1")
    if len(parts) != len(sizes):
        broken(i, "C2")
    result = []
    for d in range(len(parts)):
        start, limit, stride, size = parts[d].start, parts[d].limit, parts[d].stride, sizes[d]
        if not 0 <= start <= limit <= size:
            broken(i, "C3")
        if stride < 1:
            broken(i, "C4")
        result.append((limit - start + stride - 1) // stride)
    return dense(x, tuple(result))


cdef object _pad(object i, list operands, int takes):
    x, value = operands
    cdef tuple padding = attribute(i, "padding"), sizes = x.dimensions
    cdef long long size, interior, total
    cdef Py_ssize_t d
    if kind_of(x) == NONE or value.dimensions or x.element_type is not value.element_type:
        broken(i, "C1")
    if len(padding) != len(sizes):
        broken(i, "C2")
    result = []
    for d in range(len(padding)):
        size, interior = sizes[d], padding[d].interior
        if interior < 0:
            broken(i, "C3")
        total = padding[d].low + size + (max(size - 1, 0)) * interior + padding[d].high
        if total < 0:
            broken(i, "C4")
        result.append(total)
    return dense(x, tuple(result))


cdef object _concatenate(object i, list operands, int takes):
    cdef tuple dimensions
    cdef Py_ssize_t d, along, rank
    if not operands:
        broken(i, "C1")
    first = operands[0]
    rank = len(first.dimensions)
    for o in operands:
        if kind_of(o) == NONE or o.element_type is not first.element_type or len(o.dimensions) != rank:
            broken(i, "C1")
    dimensions = attribute(i, "dimensions")
    if len(dimensions) != 1 or not distinct(dimensions, rank):
        broken(i, "C2")
    along = dimensions[0]
    sizes = list(first.dimensions)
    for o in operands[1:]:
        for d in range(rank):
            if d != along and o.dimensions[d] != sizes[d]:
                broken(i, "C3")
        sizes[along] += o.dimensions[along]
    return dense(first, tuple(sizes))


# -- the table --------------------------------------------------------------------------------------------------------


def _fill():
    """Enters the rules that the opcodes name, and those of the families that the rows of op_table.py name."""
    for r in ROWS.values():
        takes = 0
        for kind in r.takes.split():
            takes |= KINDS[kind]
        if r.shape == "unary":
            enter(r.opcode, _unary, 1, 1, takes)
        elif r.shape == "test":
            enter(r.opcode, _unary_pred, 1, 1, takes)
        elif r.shape == "component":
            enter(r.opcode, _unary_component, 1, 1, takes)
        elif r.shape == "binary":
            enter(r.opcode, _binary, 2, 2, takes)
    enter("complex", _complex, 2, 2)
    enter("compare", _compare, 2, 2)
    enter("select", _select, 3, 3)
    enter("clamp", _clamp, 3, 3)
    enter("convert", _convert, 1, 1)
    enter("bitcast-convert", _bitcast_convert, 1, 1)
    enter("reduce-precision", _reduce_precision, 1, 1)
    enter("copy", _identity, 1, 1)
    enter("parameter", _parameter, 0, 0)
    enter("constant", _constant, 0, 0)
    enter("iota", _iota, 0, 0)
    enter("tuple", _tuple, 0, -1)
    enter("get-tuple-element", _get_tuple_element, 1, 1)
    enter("after-all", _after_all, 0, -1)
    enter("add-dependency", _add_dependency, 2, 2)
    enter("while", _while, 1, 1)
    enter("conditional", _conditional, 1, -1)
    enter("broadcast", _broadcast, 1, 1)
    enter("reshape", _reshape, 1, 1)
    enter("transpose", _transpose, 1, 1)
    enter("reverse", _reverse, 1, 1)
    enter("slice", _slice, 1, 1)
    enter("pad", _pad, 2, 2)
    enter("concatenate", _concatenate, 0, -1)


_fill()
