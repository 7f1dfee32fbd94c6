"""topk: the first k elements of each row of a stable sort of (value, index) pairs."""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, SliceDimension
from refxla_spec.types import Shape

from ..._core.shapes import make


def _expand(i: Instruction) -> Instruction:
    x = i.operands[0]
    last = x.shape.rank - 1
    index_type = i.shape.elements[1].element_type
    index = make("iota", name=f"{i.name}.index", shape=x.shape.with_element_type(index_type), iota_dimension=last)
    compare = _comparator(x.shape, index.shape, i.largest)
    pair = Shape.tuple_of(x.shape.without_layout(), index.shape)
    ordered = make(
        "sort", x, index, name=f"{i.name}.sort", shape=pair, dimensions=(last,), is_stable=True, to_apply=compare
    )
    parts = []
    for n in range(2):
        whole = make("get-tuple-element", ordered, name=f"{i.name}.sorted.{n}", index=n)
        limits = (*x.shape.dimensions[:-1], i.k)
        window = tuple(SliceDimension(0, limit, 1) for limit in limits)
        parts.append(make("slice", whole, name=f"{i.name}.{n}", slice=window))
    return make("tuple", *parts, name=i.name)


def _comparator(values: Shape, indices: Shape, largest: bool) -> Computation:
    """Total order, so that NaNs have a place: greatest first where the largest are wanted."""
    types = [values.element_type, values.element_type, indices.element_type, indices.element_type]
    parameters = [Instruction(f"p{n}", "parameter", Shape(t), [], {"number": n}) for n, t in enumerate(types)]
    kind = {"order": "TOTAL"} if values.element_type.is_float else {}
    root = make("compare", *parameters[:2], name="before", direction="GT" if largest else "LT", **kind)
    return Computation("topk.before", [*parameters, root], root)


EXPANSIONS = {"topk": _expand}
