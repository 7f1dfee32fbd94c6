"""Each value of source added at the place where its window selects an element: the gradient of pooling.

A window slides over operand. In each placing o, `select` picks one element p(o): going through the window's elements
inside operand in row-major order, it keeps the element that it holds while select(held, next) is true and takes the
next one otherwise. Then

    result[i..] = init_value combined by scatter with source[o..] for all o.. with p(o) = i..

A window with no element inside operand adds nothing. `scatter` is associative and commutative, and init_value enters
each result exactly once, as in reduce; here `scatter` is applied in row-major order of o. Floating-point sums are
computed in a wider type and rounded once.
"""

from __future__ import annotations

import numpy as np

from ..attributes import COMPUTATION, REQUIRED, WINDOW, Attribute
from ..dynamic import marked
from ..errors import plural
from ..indexing import window_count, window_slices
from ..module import Instruction, window_text
from ..operation import Example, require
from ..scattering import combine_at
from ..types import PRED, Array, Shape
from ..vectorize import Run, run_vectorized

INPUTS = {
    "operand": "the array that the window slides over",
    "source": "one value for each placing of the window",
    "init_value": "a scalar",
}
ATTRIBUTES = {
    "window": Attribute(WINDOW, (), "one window dimension for each dimension of operand; no dilation"),
    "select": Attribute(COMPUTATION, REQUIRED, "whether to keep the first of two elements: pred[]"),
    "scatter": Attribute(COMPUTATION, REQUIRED, "combines two values of source"),
}
CONSTRAINTS = {
    "C1": "operand and source have the same rank, and the window one dimension for each",
    "C2": "source has the dimensions in which the window has its placings",
    "C3": "select takes two scalars of operand's type and gives pred[]",
    "C4": "scatter takes two scalars of source's type, which is that of init_value, and gives one",
    "C5": "sizes and strides are at least 1, dilations are 1",
    "C6": "the result has the dimensions of operand and the element type of source",
}


def infer(instruction: Instruction, operand: Shape, source: Shape, init_value: Shape) -> Shape:
    window = instruction.window
    fits = operand.rank == source.rank == len(window)
    require(fits, "C1", f"operand is {operand}, source is {source}, the window has {plural(len(window), 'dimension')}")
    plain = all(min(w.size, w.stride) >= 1 and w.base_dilation == w.window_dilation == 1 for w in window)
    require(plain, "C5", f"the window is {window_text(window)}")
    counts = tuple(window_count(s, w) for s, w in zip(operand.dimensions, window, strict=True))
    require(source.dimensions == counts, "C2", f"source is {source}, the window has placings {counts}")
    element, value = (Shape(s.element_type) for s in (operand, source))
    for label, called, parameter, result in (
        ("C3", instruction.select, element, Shape(PRED)),
        ("C4", instruction.scatter, value, value),
    ):
        shapes = [p.shape for p in called.parameters]
        fits = (
            len(shapes) == 2 and all(s.compatible(parameter) for s in shapes) and called.root.shape.compatible(result)
        )
        signature = f"{called.name} takes ({', '.join(map(str, shapes))}) and gives {called.root.shape}"
        require(fits, label, f"{signature}; it must take two {parameter}")
    require(init_value.compatible(value), "C4", f"init_value is {init_value}, source is {source}")
    return marked(source.element_type, operand.dimensions, operand.marks)


def evaluate(instruction: Instruction, operand: Array, source: Array, init_value: Array, *, run: Run) -> Array:
    window, sizes = instruction.window, operand.shape
    counts = tuple(window_count(s, w) for s, w in zip(sizes, window, strict=True))
    counts = tuple(map(min, counts, source.shape))  # one of dynamic size may be shorter
    source = source[tuple(map(slice, counts))]
    flat_index = np.arange(operand.size).reshape(sizes)
    choices = np.zeros(counts, operand.dtype)
    place = np.full(counts, -1)  # where the choice comes from; -1: none is made yet
    for k in np.ndindex(tuple(w.size for w in window)):
        placings, elements = window_slices(window, k, sizes, counts)
        if not place[placings].size:
            continue
        keep = run_vectorized(instruction.select, choices[placings], operand[elements], run=run)
        keep = keep & (place[placings] >= 0)
        choices[placings] = np.where(keep, choices[placings], operand[elements])
        place[placings] = np.where(keep, place[placings], flat_index[elements])
    result = np.full(operand.size, init_value)
    inside = place >= 0
    (result,) = combine_at(instruction.scatter, (result,), place[inside], (source[inside],), run)
    return result.reshape(sizes)


EXAMPLES = (
    Example(
        """HloModule gradient_of_max_pool
        ge { a = f32[] parameter(0)
             b = f32[] parameter(1)
             ROOT c = pred[] compare(a, b), direction=GE }
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)
                     s = f32[3] parameter(1)
                     zero = f32[] constant(0)
                     ROOT r = f32[4] select-and-scatter(x, s, zero), window={size=2}, select=ge, scatter=add }""",
        ("f32[4] {1,5,2,2}", "f32[3] {10,20,30}"),
        ("f32[4] {0,30,30,0}",),
        "two windows select the 5; of equals the first is kept",
    ),
)

_COMPUTATIONS = """HloModule counterexample
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    less { a = f32[] parameter(0)
           b = f32[] parameter(1)
           ROOT c = pred[] compare(a, b), direction=LT }
"""

COUNTEREXAMPLES = {
    "C1": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[2,1] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[4] select-and-scatter(x, s, v),
                        window={size=2 stride=2}, select=less, scatter=add }""",
    "C2": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[3] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[4] select-and-scatter(x, s, v),
                        window={size=2 stride=2}, select=less, scatter=add }""",
    "C3": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[2] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[4] select-and-scatter(x, s, v),
                        window={size=2 stride=2}, select=add, scatter=add }""",
    "C4": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[2] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[4] select-and-scatter(x, s, v),
                        window={size=2 stride=2}, select=less, scatter=less }""",
    "C5": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[1] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[4] select-and-scatter(x, s, v), window={size=2 stride=2 rhs_dilate=2}, select=less,
                        scatter=add }""",
    "C6": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      s = f32[2] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = f32[2] select-and-scatter(x, s, v),
                        window={size=2 stride=2}, select=less, scatter=add }""",
}
