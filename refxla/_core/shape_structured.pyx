"""The shape rules of operations that index, combine or multiply arrays: dynamic slices, gather, reduce, dot, ..."""

from refxla._core.shape_rules cimport (
    NONE, SIGNED, UNSIGNED, ascending, attribute, broken, dense, distinct, enter, kind_of, placings, same, scalar,
    takes_scalars, without,
)

from refxla_spec.types import ELEMENT_TYPES, Shape

cdef object SCALAR_PRED = Shape(ELEMENT_TYPES["pred"])


# -- indices and blocks -----------------------------------------------------------------------------------------------


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
    """Whether dimensions of the operand pair with dimensions of the indices, and none of them is indexed."""
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


# -- heroes -----------------------------------------------------------------------------------------------------------


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
        element_type = parameters[k].shape.element_type
        operand_type = operands[count + k].element_type
        if not scalar(results[k]) or results[k].element_type is not element_type or element_type is not operand_type:
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
    """The element type of a dot or convolution: the stated one, otherwise the wider one of the operands'."""
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
    if kind_of(lhs) == NONE or kind_of(rhs) == NONE:
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


# -- the table --------------------------------------------------------------------------------------------------------


def _fill():
    """Enter the rules into the table."""
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
