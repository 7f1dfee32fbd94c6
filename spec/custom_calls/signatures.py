"""What a custom call with a meaning takes and gives: `infer` of each target, as the files in `ops/` have it.

    infer(instruction, *operand_shapes) -> Shape    the shape of the result; raises Violation("C2", ...) for operands
                                                    that the target does not take

Most are written as a text:

    T[..,m,n], s32[..,n] -> T[..,m,n], s32[..,n], T[..,k]

`..` are the dimensions of the batch, the same everywhere. A letter is a size, the same wherever it stands; n-1 is one
less (0 where n is 0), and k in a result is the smaller one of m and n unless an operand has a k. T is an element type
that the target has, R that of its real part, C the complex type of its precision. Several results are a tuple.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import UnsupportedError
from ..module import Instruction
from ..numerics import component_type
from ..operation import require
from ..types import C64, C128, ELEMENT_TYPES, F64, PRED, S32, TOKEN, ElementType, Shape
from .backend_config import letter, options

Infer = Callable[..., Shape]
Sizes = dict[str, int]
Check = Callable[[Instruction, Sizes], None]  # may add sizes; raises Violation for those that do not go together

LAPACK_TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}  # by LAPACK's letter


@dataclass(frozen=True)
class Pattern:
    """One array of a signature: its element type (T, R, C, or HLO's name), and its dimensions."""

    element_type: str
    dimensions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(self.dimensions)}]"


@dataclass(frozen=True)
class Signature:
    """The `infer` of a target, read from a text (see above).

    `element_types` are those that T may be, all floating-point and complex ones where it is empty. `letters` has, by
    name, the letters that an option may be. `check` looks at the sizes that the operands have.
    """

    operands: tuple[Pattern, ...]
    results: tuple[Pattern, ...]
    element_types: tuple[ElementType, ...] = ()
    letters: Mapping[str, str] = field(default_factory=dict)
    check: Check | None = None

    def __call__(self, instruction: Instruction, *shapes: Shape) -> Shape:
        """The shape of the result. Raises Violation for operands that do not fit, UnsupportedError for a letter that an
        option may not be."""
        sizes: Sizes = {}
        batch: list[tuple[int, ...]] = []
        fits = len(shapes) == len(self.operands) and all(s.is_array for s in shapes) and self.has(shapes[0])
        fits = fits and all(
            self._matches(p, s, shapes[0], sizes, batch) for p, s in zip(self.operands, shapes, strict=True)
        )
        takes = f"{instruction.custom_call_target} takes {self.takes}"
        require(fits, "C2", f"{takes}, and the operands are {_text(shapes)}")
        for name, allowed in self.letters.items():
            _check_letter(instruction, name, allowed)
        if self.check is not None:
            self.check(instruction, sizes)
        if "k" not in sizes and "m" in sizes:
            sizes["k"] = min(sizes["m"], sizes["n"])
        results = [_shape(p, shapes[0].element_type, sizes, batch[0]) for p in self.results]
        return results[0] if len(results) == 1 else Shape.tuple_of(*results)

    def has(self, shape: Shape) -> bool:
        """Whether T may be the element type of the first operand, or there is no T."""
        if self.operands[0].element_type != "T":
            return True
        t = shape.element_type
        return t in self.element_types if self.element_types else t.is_float or t.is_complex

    @property
    def takes(self) -> str:
        """The operands, as a text for messages."""
        text = ", ".join(map(str, self.operands))
        if len(self.element_types) == 1:
            return "(" + re.sub(r"\bT\[", f"{self.element_types[0]}[", text) + ")"
        return f"({text})" + (", where T is floating-point or complex" if self.operands[0].element_type == "T" else "")

    @staticmethod
    def _matches(pattern: Pattern, shape: Shape, first: Shape, sizes: Sizes, batch: list[tuple[int, ...]]) -> bool:
        """Whether an operand fits a pattern, given what the letters stand for already; notes those that are new."""
        names = [d for d in pattern.dimensions if d != ".."]
        count = shape.rank - len(names)
        if count < 0 or shape.element_type is not _element_type(pattern, first.element_type):
            return False
        batch.append(shape.dimensions[:count])
        known = [sizes.setdefault(name, n) for name, n in zip(names, shape.dimensions[count:], strict=True)]
        return batch[0] == batch[-1] and tuple(known) == shape.dimensions[count:]


def signature(text: str, element_type: str | None = None, check: Check | None = None, **letters: str) -> Signature:
    """The signature that a text stands for; with a name of an element type, T is that one alone."""
    operands, results = (
        tuple(Pattern(name, tuple(dims.split(","))) for name, dims in re.findall(r"(\w+)\[([^\]]*)\]", side))
        for side in text.split("->")
    )
    types = (ELEMENT_TYPES[element_type],) if element_type else ()
    return Signature(operands, results, types, letters, check)


def _element_type(pattern: Pattern, t: ElementType) -> ElementType:
    match pattern.element_type:
        case "T":
            return t
        case "R":
            return component_type(t)
        case "C":
            return t if t.is_complex else C128 if t is F64 else C64
        case name:
            return ELEMENT_TYPES[name]


def _shape(pattern: Pattern, t: ElementType, sizes: Sizes, batch: tuple[int, ...]) -> Shape:
    dimensions = [sizes[d] if d in sizes else max(0, sizes[d[0]] - 1) for d in pattern.dimensions if d != ".."]
    return Shape(_element_type(pattern, t), (*batch, *dimensions))


def _text(shapes: tuple[Shape, ...] | list[Shape]) -> str:
    return f"({', '.join(str(s.without_layout()) for s in shapes)})"


def _check_letter(instruction: Instruction, name: str, allowed: str) -> None:
    """Raises UnsupportedError for an option that is none of some letters."""
    number = options(instruction, **{name: ord(allowed[0])})[name]
    if number not in [ord(c) for c in allowed]:
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} with {name} = {number:g} is not implemented; it may "
            f"be {' or '.join(f'{ord(c)} ({c})' for c in allowed)}"
        )


# -- how sizes and options go together


def needs_rows(instruction: Instruction, sizes: Sizes) -> None:
    """Of a product of k reflectors of m elements, the first n columns."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    require(m >= n >= k, "C2", f"{instruction.custom_call_target} takes m >= n >= k: m is {m}, n is {n}, k is {k}")


def singular_vectors(instruction: Instruction, sizes: Sizes) -> None:
    """p and q: how many columns u has, and how many rows vh. Without vectors (mode N) either form may be stated."""
    m, n = sizes["m"], sizes["n"]
    mode, stated = letter(instruction, "mode", "A"), instruction.shape.elements
    if mode == "N" and len(stated) > 2:
        mode = "A" if stated[2].dimensions[-1:] == (m,) and stated[3].dimensions[-2:] == (n, n) else "S"
    sizes["p"], sizes["q"] = (m, n) if mode == "A" else (min(m, n),) * 2


def rows_to_reduce(instruction: Instruction, sizes: Sizes) -> None:
    """Of gehrd: `low` and `high`, from 1 on."""
    n = sizes["n"]
    numbers = options(instruction, low=1, high=n)
    low, high = numbers["low"], numbers["high"]
    text = f"low is {low:g} and high {high:g}, of {n} rows"
    require(1 <= low <= high <= n if n else (low, high) == (1, 0), "C2", f"{instruction.custom_call_target}: {text}")


def side_to_solve(instruction: Instruction, sizes: Sizes) -> None:
    """Of trsm: the size of the triangle, on the left or on the right."""
    left, size = letter(instruction, "side", "L") == "L", sizes["p"]
    wanted = sizes["m"] if left else sizes["n"]
    text = f"a on the {'left' if left else 'right'} has {size} rows, and b {wanted} {'rows' if left else 'columns'}"
    require(size == wanted, "C2", f"{instruction.custom_call_target}: {text}")


def diagonals(instruction: Instruction, sizes: Sizes) -> None:
    """Of gtsv: what is beside the diagonal has as many elements, or one less."""
    n, sides = sizes["n"], (sizes["p"], sizes["q"])
    text = f"{sides[0]} and {sides[1]} elements beside the {n} of the diagonal"
    require(all(s in (n, n - 1) for s in sides), "C2", f"{instruction.custom_call_target}: {text}")


# -- targets whose result says something


def unchanged(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of a marker: one operand of any shape. UnsupportedError where other sizes are stated for the result."""
    target, stated = instruction.custom_call_target, instruction.shape
    require(len(shapes) == 1, "C2", f"{target} takes one operand, and the operands are {_text(shapes)}")
    (shape,) = shapes
    if stated.is_array and stated.element_type is shape.element_type and stated.dimensions != shape.dimensions:
        raise UnsupportedError(
            f"{instruction.name}: {target} makes {stated.without_layout()} of {shape.without_layout()}: a program for "
            "several devices; compile it for one"
        )
    return shape


def nothing(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of a sink: any operands."""
    return Shape.tuple_of()


def divided(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of what cuts values into tiles or puts tiles together: arrays, each of which may change its sizes, and tokens."""
    target, stated = instruction.custom_call_target, instruction.shape
    fits = all(s.is_array or s.element_type is TOKEN for s in shapes)
    require(fits, "C2", f"{target} takes arrays and tokens, and the operands are {_text(shapes)}")
    results = stated.elements if stated.is_tuple else (stated,)
    if len(results) != len(shapes):
        return shapes[0] if len(shapes) == 1 else Shape.tuple_of(*shapes)
    alike = [
        r if r.element_type is s.element_type and r.rank == s.rank else s for r, s in zip(results, shapes, strict=True)
    ]
    return Shape.tuple_of(*alike) if stated.is_tuple else alike[0]


def top_k(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of TopK: the result says how many there are, up to as many as the last dimension has."""
    fits = len(shapes) == 1 and shapes[0].is_array and not shapes[0].element_type.is_complex and shapes[0].rank > 0
    require(fits, "C2", f"TopK takes an array of rank 1 or more, not complex, and the operands are {_text(shapes)}")
    *others, size = shapes[0].dimensions
    k = min(_stated_size(instruction, -1, size), size)
    values = shapes[0].with_dimensions((*others, k))
    return Shape.tuple_of(values, values.with_element_type(S32))


def approximate_top_k(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of ApproxTopK: n arrays of the same sizes and n scalars of their types; the result says how many there are along
    reduction_dim, which is top_k where that is given and results are aggregated."""
    arrays, initial = shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]
    fits = bool(arrays) and all(s.is_array for s in shapes) and len({a.dimensions for a in arrays}) == 1
    fits = fits and [Shape(a.element_type) for a in arrays] == [s.without_layout() for s in initial]
    require(fits, "C2", f"ApproxTopK takes arrays and a scalar for each, and the operands are {_text(shapes)}")
    _check_comparator(instruction, arrays)
    dimensions = list(arrays[0].dimensions)
    numbers = options(instruction, reduction_dim=len(dimensions) - 1, aggregate_to_topk=1)
    axis = numbers["reduction_dim"]
    require(axis in range(len(dimensions)), "C2", f"ApproxTopK: reduction_dim is {axis:g}, of {_text(arrays)}")
    size = dimensions[int(axis)]
    count = _stated_size(instruction, int(axis), size)
    if numbers["aggregate_to_topk"] and "top_k" in numbers:
        count = int(numbers["top_k"])
    require(0 <= count <= size, "C2", f"ApproxTopK: {count} elements of {_text(arrays)} are asked for")
    dimensions[int(axis)] = count
    results = [a.with_dimensions(tuple(dimensions)) for a in arrays]
    return results[0] if len(results) == 1 and instruction.shape.is_array else Shape.tuple_of(*results)


def _stated_size(instruction: Instruction, axis: int, otherwise: int) -> int:
    """The size of the first result along a dimension; of one that has no such dimension, `otherwise`."""
    stated = instruction.shape
    first = (stated.elements or (stated,))[0]
    return first.dimensions[axis] if first.is_array and first.rank > axis and first.rank else otherwise


def _check_comparator(instruction: Instruction, arrays: tuple[Shape, ...]) -> None:
    called = (*instruction.called_computations, *([instruction.to_apply] if instruction.to_apply else []))
    wanted = [Shape(a.element_type) for a in arrays for _ in range(2)]
    taken = [p.shape.without_layout() for c in called[:1] for p in c.parameters]
    require(
        len(called) == 1 and taken == wanted and called[0].root.shape.compatible(Shape(PRED)),
        "C2",
        f"ApproxTopK calls a comparator of {_text(wanted)} that gives pred[]"
        + (f", and {called[0].name} takes {_text(taken)} and gives {called[0].root.shape}" if called else ""),
    )


def padded(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of PadToStatic: an array at its bounds, and the size of each dimension."""
    fits = len(shapes) == 1 and shapes[0].is_array
    require(fits, "C2", f"PadToStatic takes one array, and the operands are {_text(shapes)}")
    return Shape.tuple_of(shapes[0].static(), *[Shape(S32)] * shapes[0].rank)


def sliced(instruction: Instruction, *shapes: Shape) -> Shape:
    """Of SliceToDynamic: an array and a size for each dimension; the result has the array's sizes as its bounds."""
    fits = bool(shapes) and shapes[0].is_array and len(shapes) == 1 + shapes[0].rank
    fits = fits and all(s.compatible(Shape(S32)) for s in shapes[1:])
    text = f"SliceToDynamic takes an array and an s32[] for each dimension, and the operands are {_text(shapes)}"
    require(fits, "C2", text)
    return Shape(shapes[0].element_type, shapes[0].dimensions, None, (True,) * shapes[0].rank)
