"""Shape inference, fast: what the specification's `infer()` says, written a second time for the compiler's own use.

    infer(instruction)      the shape of the result, or an InvalidProgramError that names the operation and the broken rule
    make(opcode, ...)       a new instruction of that shape: how passes make instructions
    check(module)           whether every stated shape is the inferred one: run after the passes, at each compile

The rules are tested in the specification's order, and the labels are its labels (C1, C2, ...). An operation that has no rule
here is inferred by the specification: those that passes expand.
"""

from refxla_spec.errors import Error, InvalidProgramError
from refxla_spec.module import Instruction
from refxla_spec.operation import Violation, operation
from refxla_spec.types import ELEMENT_TYPES, Shape

from refxla.optable import ROWS

cdef dict KINDS = {"pred": PRED, "signed": SIGNED, "unsigned": UNSIGNED, "float": FLOAT, "complex": COMPLEX}
cdef object PRED_TYPE = ELEMENT_TYPES["pred"], S32_TYPE = ELEMENT_TYPES["s32"]
cdef object F32 = ELEMENT_TYPES["f32"], F64 = ELEMENT_TYPES["f64"]
cdef object C64 = ELEMENT_TYPES["c64"], C128 = ELEMENT_TYPES["c128"]
cdef object SCALAR_PRED = Shape(PRED_TYPE), TOKEN_TYPE = ELEMENT_TYPES["token"]
cdef dict RULES = {}


cdef class Entry:
    """A row of RULES; see the .pxd."""


cpdef object infer(object instruction):
    """The shape that the specification gives the result, without a layout where it follows from the operands.

    Raises InvalidProgramError, its `constraint` the label of the broken rule ("dot_c3"), where there is one.
    """
    cdef list operands = [o.shape for o in instruction.operands]
    cdef Entry entry = RULES.get(instruction.opcode)
    if entry is None:
        return _by_specification(instruction, operands)
    cdef Py_ssize_t count = len(operands)
    if count < entry.least or (entry.most >= 0 and count > entry.most):
        wanted = entry.least if entry.least == entry.most else f"at least {entry.least}"
        raise InvalidProgramError(f"{instruction.name}: {instruction.opcode} takes {wanted} operands, not {count}")
    try:
        return entry.rule(instruction, operands, entry.takes)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # An operand or attribute so far from the rules that the shape rule itself cannot be applied to it.
        given = ", ".join([str(s) for s in operands])
        raise InvalidProgramError(
            f"{instruction.name}: the shape rule of {instruction.opcode} does not apply to ({given}): {problem}"
        ) from problem


def make(opcode, *operands, name=None, shape=None, **attributes):
    """A new instruction. Its shape is inferred; `shape` is needed where it does not follow from the operands.

    A shape that is given must be the inferred one but for the layout. The caller puts the instruction into a computation
    behind its operands. Raises InvalidProgramError for a broken rule.
    """
    made = Instruction(name or opcode, opcode, shape or Shape.tuple_of(), list(operands), attributes)
    inferred = infer(made)
    if shape is None:
        made.shape = inferred
    elif not same(inferred, shape):
        raise InvalidProgramError(f"{made.name}: {opcode} was to be {shape}, and is {inferred}")
    return made


def check(module):
    """Check that every instruction's stated shape is the inferred one, layouts apart. Raises an Error for the first that
    is not. The operands' shapes are taken as they are stated."""
    for computation in module.computations:
        for i in computation.instructions:
            inferred = infer(i)
            if inferred is not i.shape and not same(inferred, i.shape):
                raise Error(
                    f"{i.name} in {computation.name}: the shape is stated as {i.shape}, and {i.opcode} of "
                    f"({', '.join(str(o.shape) for o in i.operands)}) gives {inferred}"
                )


def covered():
    """The opcodes that have a rule here."""
    return set(RULES)


cdef object _by_specification(object i, list operands):
    try:
        return operation(i.opcode).infer(i, *operands)
    except Violation as violation:
        raise _error(i, violation.label, str(violation)) from None


cdef object _error(object i, str label, str what):
    name = f"{i.opcode.replace('-', '_')}_{label.lower()}"
    return InvalidProgramError(f"{i.name}: [{name}] {what}", name)


cdef int broken(object i, str label) except -1:
    """Raise the error of a broken rule: the specification's sentence, and what was given."""
    rule = operation(i.opcode).constraints.get(label, "")
    given = ", ".join(str(o.shape) for o in i.operands)
    attributes = ", ".join(f"{k}={getattr(v, 'name', v)}" for k, v in i.attributes.items() if k != "literal")
    stated = f" with {attributes}" if attributes else ""
    raise _error(i, label, f"{rule}; here {i.opcode} of ({given}){stated}, stated as {i.shape}")


# -- shapes and attributes ----------------------------------------------------------------------------------------


cdef inline int kind_of(object shape):
    return KINDS.get(shape.element_type.kind, NONE)


cdef inline object plain(object shape):
    """The shape without a layout; the very same one if it has none."""
    if shape.layout is None and not shape.dynamic and not shape.elements:
        return shape
    return shape.without_layout()


cdef inline object dense(object shape, tuple dimensions):
    """An array of these dimensions, of the element type of `shape`."""
    if shape.layout is None and not shape.dynamic and not shape.elements and shape.dimensions == dimensions:
        return shape
    return Shape(shape.element_type, dimensions)


cdef bint same(object a, object b):
    cdef Py_ssize_t n
    if a is b:
        return True
    if a.element_type is not b.element_type or a.dimensions != b.dimensions:
        return False
    if (a.dynamic or b.dynamic) and a.without_layout() != b.without_layout():
        return False
    cdef tuple left = a.elements, right = b.elements
    if len(left) != len(right):
        return False
    for n in range(len(left)):
        if not same(left[n], right[n]):
            return False
    return True


cdef inline bint alike(object a, object b):
    """Whether two array shapes have the same dimensions."""
    if kind_of(a) == NONE or kind_of(b) == NONE or a.dimensions != b.dimensions:
        return False
    return not (a.dynamic or b.dynamic) or a.is_dynamic == b.is_dynamic


cdef inline bint scalar(object shape):
    return not shape.dimensions and kind_of(shape) != NONE


cdef inline object attribute(object i, str name):
    """An attribute, or its default."""
    value = (<dict>i.attributes).get(name)
    return getattr(i, name) if value is None else value


cdef bint distinct(tuple numbers, Py_ssize_t below):
    """Whether numbers are different and in 0 .. below - 1."""
    cdef long long n, seen = 0
    cdef bint small = below <= 62
    for n in numbers:
        if n < 0 or n >= below:
            return False
        if small:
            if seen >> n & 1:
                return False
            seen |= 1LL << n
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


# -- elementwise: the families -----------------------------------------------------------------------------------------


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
    direction, order = attribute(i, "direction"), attribute(i, "type")
    if direction not in ("EQ", "NE") and (direction not in ("GE", "GT", "LE", "LT") or kind == COMPLEX):
        broken(i, "C3")
    if order is not None and not kind & COMPARED.get(order, 0):
        broken(i, "C4")
    return plain(a).with_element_type(PRED_TYPE)


cdef dict COMPARED = {
    "FLOAT": FLOAT | COMPLEX, "TOTALORDER": FLOAT | PRED | SIGNED | UNSIGNED, "SIGNED": SIGNED, "UNSIGNED": UNSIGNED | PRED
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
    if kind_of(x) == NONE or kind_of(x) == COMPLEX:
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


cdef object _reduce_precision(object i, list operands, int takes):
    if operands[0].element_type.name not in ("f16", "bf16", "f32", "f64"):
        broken(i, "C1")
    if attribute(i, "exponent_bits") < 1:
        broken(i, "C2")
    if attribute(i, "mantissa_bits") < 0:
        broken(i, "C3")
    return plain(operands[0])


cdef object _identity(object i, list operands, int takes):
    return plain(operands[0])


# -- sources and structure ---------------------------------------------------------------------------------------------


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


# -- control -----------------------------------------------------------------------------------------------------------


cdef object _while(object i, list operands, int takes):
    init = operands[0]
    for label, called, given in (("C1", attribute(i, "condition"), SCALAR_PRED), ("C2", attribute(i, "body"), init)):
        parameters = called.parameters
        if len(parameters) != 1 or not same(parameters[0].shape, init) or not same(called.root.shape, given):
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
    return first


# -- data movement -------------------------------------------------------------------------------------------------------


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
    dynamic = tuple([x.dynamic[d] for d in dimensions]) if any(x.dynamic) else ()
    return Shape(x.element_type, tuple([sizes[d] for d in dimensions]), None, dynamic)


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


cdef bint start_indices(list operands, Py_ssize_t begin, Py_ssize_t rank):
    """Whether the operands from `begin` on are the start indices of a block: scalars, or one vector of them."""
    cdef Py_ssize_t n, count = len(operands) - begin
    if count == 1 and len(operands[begin].dimensions) == 1:
        return operands[begin].dimensions[0] == rank and bool(kind_of(operands[begin]) & (SIGNED | UNSIGNED))
    if count != rank:
        return False
    for n in range(begin, begin + count):
        o = operands[n]
        if o.dimensions or not kind_of(o) & (SIGNED | UNSIGNED) or o.element_type is not operands[begin].element_type:
            return False
    return True


cdef bint block_fits(tuple block, tuple sizes):
    cdef Py_ssize_t d
    if len(block) != len(sizes):
        return False
    for d in range(len(sizes)):
        if not 0 <= block[d] <= sizes[d]:
            return False
    return True


cdef object _dynamic_slice(object i, list operands, int takes):
    x = operands[0]
    if not start_indices(operands, 1, len(x.dimensions)):
        broken(i, "C1")
    sizes = attribute(i, "dynamic_slice_sizes")
    if not block_fits(sizes, x.dimensions):
        broken(i, "C2")
    return dense(x, sizes)


cdef object _dynamic_update_slice(object i, list operands, int takes):
    x, update = operands[0], operands[1]
    if update.element_type is not x.element_type or not block_fits(update.dimensions, x.dimensions):
        broken(i, "C2")
    if not start_indices(operands, 2, len(x.dimensions)):
        broken(i, "C1")
    return dense(x, x.dimensions)


cdef bint batching(tuple dims, tuple mapped, object x, tuple index_dims, object indices, long long vector_dim):
    """Whether dimensions of the operand pair with dimensions of the indices, none of them indexed."""
    cdef Py_ssize_t n
    if len(dims) != len(index_dims) or not distinct(index_dims, len(indices.dimensions)) or vector_dim in index_dims:
        return False
    for n in range(len(dims)):
        if dims[n] in mapped or x.dimensions[dims[n]] != indices.dimensions[index_dims[n]]:
            return False
    return True


cdef bint indexed(object indices, long long vector_dim):
    return bool(kind_of(indices) & (SIGNED | UNSIGNED)) and 0 <= vector_dim <= len(indices.dimensions)


cdef bint maps(tuple mapped, object x, object indices, long long vector_dim):
    """Whether an index vector has an element for each of the mapped dimensions of x."""
    cdef Py_ssize_t vector = indices.dimensions[vector_dim] if vector_dim < len(indices.dimensions) else 1
    return vector == len(mapped) and distinct(mapped, len(x.dimensions))


cdef object _gather(object i, list operands, int takes):
    x, indices = operands
    cdef tuple mapped, collapsed, batched, left_out, offsets, sizes, batch, block
    cdef long long vector_dim = attribute(i, "index_vector_dim")
    cdef Py_ssize_t rank, d, n
    if not indexed(indices, vector_dim):
        broken(i, "C1")
    mapped = attribute(i, "start_index_map")
    if not maps(mapped, x, indices, vector_dim):
        broken(i, "C2")
    sizes = attribute(i, "slice_sizes")
    if not block_fits(sizes, x.dimensions):
        broken(i, "C3")
    collapsed, batched = attribute(i, "collapsed_slice_dims"), attribute(i, "operand_batching_dims")
    left_out = collapsed + batched
    if not distinct(left_out, len(sizes)) or not ascending(collapsed):
        broken(i, "C4")
    for d in left_out:
        if sizes[d] > 1:
            broken(i, "C4")
    if not batching(batched, mapped, x, attribute(i, "start_indices_batching_dims"), indices, vector_dim):
        broken(i, "C6")
    batch, block = without(indices.dimensions, (vector_dim,)), without(sizes, left_out)
    offsets = attribute(i, "offset_dims")
    rank = len(batch) + len(block)
    if len(offsets) != len(block) or not ascending(offsets) or not distinct(offsets, rank):
        broken(i, "C5")
    outer, inner = iter(batch), iter(block)
    return dense(x, tuple([next(inner) if n in offsets else next(outer) for n in range(rank)]))


# -- heroes -----------------------------------------------------------------------------------------------------------------


cdef int reducer(object i, list operands) except -1:
    """C1, C2 and C4 of reduce and reduce-window."""
    cdef Py_ssize_t n, k, count = len(operands) // 2
    if count == 0 or len(operands) != 2 * count:
        broken(i, "C1")
    for n in range(count, 2 * count):
        if not scalar(operands[n]):
            broken(i, "C1")
    for n in range(1, count):
        if operands[n].dimensions != operands[0].dimensions:
            broken(i, "C2")
    called = attribute(i, "to_apply")
    cdef list parameters = called.parameters
    root = called.root.shape
    cdef tuple results = root.elements or (root,)
    if len(parameters) != 2 * count or len(results) != count:
        broken(i, "C4")
    for p in parameters:
        if not scalar(p.shape):
            broken(i, "C4")
    for k in range(count):
        held = parameters[k].shape.element_type
        given = operands[count + k].element_type
        if not scalar(results[k]) or results[k].element_type is not held or held is not given:
            broken(i, "C4")
    return 0


cdef object reduced(object i, tuple dimensions):
    root = attribute(i, "to_apply").root.shape
    if root.is_tuple:
        return Shape.tuple_of(*[dense(e, dimensions) for e in root.elements])
    return dense(root, dimensions)


cdef object _reduce(object i, list operands, int takes):
    reducer(i, operands)
    cdef tuple dimensions = attribute(i, "dimensions"), sizes = operands[0].dimensions
    if not distinct(dimensions, len(sizes)):
        broken(i, "C3")
    return reduced(i, without(sizes, dimensions))


cdef object _reduce_window(object i, list operands, int takes):
    reducer(i, operands)
    cdef tuple window = attribute(i, "window"), sizes = operands[0].dimensions
    cdef Py_ssize_t d
    if len(window) != len(sizes):
        broken(i, "C3")
    for w in window:
        if w.size < 1 or w.stride < 1 or w.base_dilation < 1 or w.window_dilation < 1:
            broken(i, "C3")
    return reduced(i, tuple([placings(sizes[d], window[d]) for d in range(len(sizes))]))


cdef object _select_and_scatter(object i, list operands, int takes):
    x, source, init = operands
    cdef tuple window = attribute(i, "window"), sizes = x.dimensions
    cdef Py_ssize_t d
    if len(sizes) != len(window) or len(source.dimensions) != len(window):
        broken(i, "C1")
    for w in window:
        if w.size < 1 or w.stride < 1 or w.base_dilation != 1 or w.window_dilation != 1:
            broken(i, "C5")
    if source.dimensions != tuple([placings(sizes[d], window[d]) for d in range(len(sizes))]):
        broken(i, "C2")
    select, scatter = attribute(i, "select"), attribute(i, "scatter")
    if not takes_scalars(select, [x.element_type] * 2) or not same(select.root.shape, SCALAR_PRED):
        broken(i, "C3")
    value = source.element_type
    gives = scatter.root.shape
    if not takes_scalars(scatter, [value] * 2) or not scalar(gives) or gives.element_type is not value:
        broken(i, "C4")
    if init.element_type is not value or init.dimensions:
        broken(i, "C4")
    return dense(source, sizes)


cdef inline int rank_of_type(object element_type):
    return 2 if element_type.kind == "complex" else 1 if element_type.kind == "float" else 0


cdef object product_type(object i, object lhs, object rhs, str label):
    """The element type of a dot or convolution: what is stated, else the wider one of the operands'."""
    a, b = lhs.element_type, rhs.element_type
    widest = b if (rank_of_type(b), b.bits) > (rank_of_type(a), a.bits) else a
    stated = i.shape.element_type if kind_of(i.shape) != NONE else widest
    if rank_of_type(stated) < rank_of_type(widest):
        broken(i, label)
    return stated


cdef object _dot(object i, list operands, int takes):
    lhs, rhs = operands
    if kind_of(lhs) == NONE or kind_of(rhs) == NONE:
        broken(i, "C4")
    cdef tuple lb = attribute(i, "lhs_batch_dims"), rb = attribute(i, "rhs_batch_dims")
    cdef tuple lc = attribute(i, "lhs_contracting_dims"), rc = attribute(i, "rhs_contracting_dims")
    cdef tuple left = lb + lc, right = rb + rc, m = lhs.dimensions, n = rhs.dimensions
    cdef Py_ssize_t k
    if not distinct(left, len(m)) or not distinct(right, len(n)):
        broken(i, "C1")
    if len(lb) != len(rb) or len(lc) != len(rc):
        broken(i, "C2")
    for k in range(len(left)):
        if m[left[k]] != n[right[k]]:
            broken(i, "C3")
    dimensions = tuple([m[k] for k in lb]) + without(m, left) + without(n, right)
    return Shape(product_type(i, lhs, rhs, "C5"), dimensions)


cdef bint names_each(tuple numbers, Py_ssize_t rank):
    return len(numbers) == rank and distinct(numbers, rank)


cdef object _convolution(object i, list operands, int takes):
    lhs, rhs = operands
    if kind_of(lhs) in (NONE, PRED) or kind_of(rhs) in (NONE, PRED):
        broken(i, "C7")
    n, window = attribute(i, "dim_labels"), attribute(i, "window")
    cdef Py_ssize_t rank = len(lhs.dimensions), d
    cdef long long feature_groups = attribute(i, "feature_group_count")
    cdef long long batch_groups = attribute(i, "batch_group_count")
    if not (
        names_each((n.input_batch, n.input_feature, *n.input_spatial), rank)
        and names_each((n.kernel_input_feature, n.kernel_output_feature, *n.kernel_spatial), len(rhs.dimensions))
        and names_each((n.output_batch, n.output_feature, *n.output_spatial), rank)
    ):
        broken(i, "C1")
    if tuple([w.size for w in window]) != tuple([rhs.dimensions[k] for k in n.kernel_spatial]):
        broken(i, "C2")
    for w in window:
        if w.stride < 1 or w.window_dilation < 1 or w.base_dilation < 1:
            broken(i, "C3")
    if min(feature_groups, batch_groups) != 1:
        broken(i, "C4")
    cdef long long outputs = rhs.dimensions[n.kernel_output_feature], batch = lhs.dimensions[n.input_batch]
    if lhs.dimensions[n.input_feature] != rhs.dimensions[n.kernel_input_feature] * feature_groups:
        broken(i, "C5")
    if outputs % feature_groups or outputs % batch_groups or batch % batch_groups:
        broken(i, "C6")
    if len(window) != rank - 2:
        broken(i, "C2")
    dimensions = [0] * rank
    dimensions[n.output_batch], dimensions[n.output_feature] = batch // batch_groups, outputs
    for d in range(rank - 2):
        dimensions[n.output_spatial[d]] = placings(lhs.dimensions[n.input_spatial[d]], window[d])
    return Shape(product_type(i, lhs, rhs, "C8"), tuple(dimensions))


cdef object _scatter(object i, list operands, int takes):
    cdef Py_ssize_t n = len(operands) // 2, k, rank
    if len(operands) != 2 * n + 1 or n == 0:
        broken(i, "C1")
    indices, x, update = operands[n], operands[0], operands[n + 1]
    for k in range(n):
        other = operands[n + 1 + k]
        if operands[k].dimensions != x.dimensions or other.dimensions != update.dimensions:
            broken(i, "C1")
        if operands[k].element_type is not other.element_type:
            broken(i, "C1")
    cdef long long vector_dim = attribute(i, "index_vector_dim")
    if not indexed(indices, vector_dim):
        broken(i, "C2")
    cdef tuple mapped = attribute(i, "scatter_dims_to_operand_dims"), batched = attribute(i, "input_batching_dims")
    cdef tuple left_out = attribute(i, "inserted_window_dims") + batched, window = attribute(i, "update_window_dims")
    if not maps(mapped, x, indices, vector_dim):
        broken(i, "C3")
    rank = len(x.dimensions)
    if not distinct(left_out, rank) or len(window) + len(left_out) != rank:
        broken(i, "C5")
    if not ascending(window) or not distinct(window, len(update.dimensions)):
        broken(i, "C4")
    cdef tuple extents = without(x.dimensions, left_out)
    for k in range(len(window)):
        if update.dimensions[window[k]] > extents[k]:
            broken(i, "C4")
    if not batching(batched, mapped, x, attribute(i, "scatter_indices_batching_dims"), indices, vector_dim):
        broken(i, "C6")
    if without(update.dimensions, window) != without(indices.dimensions, (vector_dim,)):
        broken(i, "C7")
    called = attribute(i, "to_apply")
    root = called.root.shape
    results = root.elements or (root,)
    types = [o.element_type for o in operands[:n]]
    if not takes_scalars(called, types * 2) or len(results) != n:
        broken(i, "C8")
    for k in range(n):
        if not scalar(results[k]) or results[k].element_type is not types[k]:
            broken(i, "C8")
    shapes = [dense(o, o.dimensions) for o in operands[:n]]
    return Shape.tuple_of(*shapes) if n > 1 or root.is_tuple else shapes[0]


cdef object _sort(object i, list operands, int takes):
    for o in operands:
        if o.dimensions != operands[0].dimensions:
            broken(i, "C1")
    cdef tuple dimensions = attribute(i, "dimensions")
    if len(dimensions) != 1 or not distinct(dimensions, len(operands[0].dimensions)):
        broken(i, "C2")
    called = attribute(i, "to_apply")
    types = [o.element_type for o in operands for _ in range(2)]
    if not takes_scalars(called, types) or not same(called.root.shape, SCALAR_PRED):
        broken(i, "C3")
    shapes = [dense(o, o.dimensions) for o in operands]
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(*shapes)


# -- the table ------------------------------------------------------------------------------------------------------------


cdef int enter(str opcode, Rule rule, int least, int most, int takes=0) except -1:
    cdef Entry entry = Entry()
    entry.rule, entry.least, entry.most, entry.takes = rule, least, most, takes
    RULES[opcode] = entry
    return 0


def _fill():
    """The rules that the opcodes name, and those of the families that the rows of optable.py name."""
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
    enter("dynamic-slice", _dynamic_slice, 1, -1)
    enter("dynamic-update-slice", _dynamic_update_slice, 2, -1)
    enter("gather", _gather, 2, 2)
    enter("reduce", _reduce, 0, -1)
    enter("reduce-window", _reduce_window, 0, -1)
    enter("select-and-scatter", _select_and_scatter, 3, 3)
    enter("dot", _dot, 2, 2)
    enter("convolution", _convolution, 2, 2)
    enter("scatter", _scatter, 0, -1)
    enter("sort", _sort, 1, -1)


_fill()
