"""Convolutions with 3 x 3 windows as products of transformed tiles, on request: `winograd=True`.

Winograd's F(2 x 2, 3 x 3) needs 16 multiplications for 2 x 2 results, for each input and output feature, where the
windows themselves need 36. With d the 4 x 4 input elements that a tile of results depends on, g the 3 x 3 elements of
the filter, and e counting the 16 elements of a tile:

    V = B d B',  U = G g G'         B =  1  0 -1  0      G =   1    0    0      A =  1  1  1  0
    M[e] = V[e] U[e]                     0  1  1  0           1/2  1/2  1/2          0  1 -1 -1
    Y = A M A'                           0 -1  1  0           1/2 -1/2  1/2
                                         0  1  0 -1            0    0    1

where M[e] is a matrix product, [tiles, input features] x [input features, output features].

The result is ordinary HLO: the same bits on every device, whatever is fused, and bounds that `refxla_spec.bounds`
derives. But it is a different program from the convolution, with different bits, so this is not a pass of the pipeline.
The roundings of V (2), of U (4, the halves are exact), of the sum over C features (C) and of Y (4) all remain in the
sum, so that with u the unit roundoff and n = C + 10

    |error| <= n u / (1 - n u) * A (sum over features of (|B| |d| |B'|) (|G| |g| |G'|)) A', all of absolute values
            <= n u / (1 - n u) * 16 * (largest |d| of the tile) * sum |g|

The convolution itself has 9 C u sum |d| |g|. At worst the factor is 16 (C + 10) / 9 C, a little less than 2, but it
multiplies the largest element that the tile reads, not the elements under the window. Terms beyond the edge are zeros
times a filter element, so an infinity or NaN in a filter reaches results that it does not reach in a convolution.
Larger tiles move less memory, but the 16 of the bound is 860 for F(4 x 4, 3 x 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refxla_spec.module import Computation, Instruction, Module, PaddingDimension, SliceDimension

from ..analysis.cost_analysis import bytes_text, count_text
from ..ir.builder import Build
from .dce import settle

TILE, WINDOW = 2, 3
PATCH = TILE + WINDOW - 1
B = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
G = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
A = ((1, 1, 1, 0), (0, 1, -1, -1))

PER_BYTE = 12  # operations of a matrix product that take as long as to read or write a byte, as measured
WORTH = 0.9  # of a convolution's time, at most, to justify different bits

Matrix = Sequence[Sequence[float]]
Grid = list[list[Instruction]]


@dataclass(frozen=True)
class WinogradDecision:
    """Whether a convolution was rewritten, and why or why not."""

    name: str
    done: bool
    reason: str


def apply_winograd(module: Module, always: bool = False) -> tuple[Module, tuple[WinogradDecision, ...]]:
    """A new module, with convolutions rewritten where that pays (with `always`, wherever it is possible), and the
    decision for each convolution; the given module is not changed."""
    module, decisions = module.clone(), []
    for computation in module.computations:
        decisions += _rewrite_all(computation, always)
    return module, tuple(decisions)


def _rewrite_all(computation: Computation, always: bool) -> list[WinogradDecision]:
    replaced: dict[Instruction, Instruction] = {}
    decisions = []
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if i.opcode != "convolution":
            continue
        reason = _obstacle(i)
        done = reason is None
        if reason is None:
            pays, reason = _worth(i)
            done = pays or always
        decisions.append(WinogradDecision(i.name, done, reason))
        if done:
            replaced[i] = _tiled(i)
            _mark(replaced[i], i)
    if replaced:
        settle(computation, replaced)
    return decisions


def _obstacle(i: Instruction) -> str | None:
    """Why a convolution cannot be rewritten; None if it can be."""
    window = i.attributes.get("window", ())
    shapes = (i.shape, *(o.shape for o in i.operands))
    if any(s.element_type.name != "f32" for s in shapes):
        return "it is not of f32"
    if any(s.is_dynamic for s in shapes):
        return "its sizes are dynamic"
    if len(window) != 2 or any(w.size != WINDOW for w in window):
        return f"its window is {' x '.join(str(w.size) for w in window) or 'of no dimensions'}, not 3 x 3"
    if any(w.stride != 1 or w.window_dilation != 1 or w.base_dilation != 1 for w in window):
        return "its window has strides or dilations"
    if i.attributes.get("feature_group_count", 1) != 1 or i.attributes.get("batch_group_count", 1) != 1:
        return "it has groups"
    if 0 in (i.shape.size, *(o.shape.size for o in i.operands)):
        return "it has no elements"
    return None


def _worth(i: Instruction) -> tuple[bool, str]:
    """Whether the tiled form takes clearly less time, and the sentence that says so."""
    dims, (x, w) = i.dim_labels, (o.shape for o in i.operands)
    if dims.input_feature != x.rank - 1 or dims.output_feature != i.shape.rank - 1:
        return False, "its features are not the last dimension"
    features, outputs = x.dimensions[dims.input_feature], i.shape.dimensions[dims.output_feature]
    tiles = x.dimensions[dims.input_batch]
    for d in dims.output_spatial:
        tiles *= -(-i.shape.dimensions[d] // TILE)
    elements = PATCH * PATCH
    direct = 2 * i.shape.size * WINDOW * WINDOW * features
    products = 2 * elements * tiles * features * outputs
    between = x.element_type.bits // 8 * elements * (tiles * features + features * outputs + tiles * outputs)
    moved = x.bytes + w.bytes + 2 * between + i.shape.bytes  # V, U and M are written and read
    return products + PER_BYTE * moved < WORTH * direct, (
        f"{count_text(products)} operations and {bytes_text(moved)} moved, for {count_text(direct)} operations"
    )


def _tiled(i: Instruction) -> Instruction:
    """The same results from tiles; see the module's docstring."""
    b, dims = Build(i.name), i.dim_labels
    x = b.make("transpose", i.operands[0], dimensions=(dims.input_batch, *dims.input_spatial, dims.input_feature))
    order = (*dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature)
    w = b.make("transpose", i.operands[1], dimensions=order)
    batch, *sizes, features = x.shape.dimensions
    counts = tuple(i.shape.dimensions[d] for d in dims.output_spatial)
    outputs = w.shape.dimensions[3]
    tiles = tuple(-(-n // TILE) for n in counts)
    rows = batch * tiles[0] * tiles[1]

    taps = [[_tap(b, w, i, r, s) for s in range(WINDOW)] for r in range(WINDOW)]
    u = b.make("concatenate", *_line(_transformed(b, G, taps)), dimensions=(0,))
    d = _padded(b, x, i, tiles)
    patches = [[_patches(b, d, r, s, tiles) for s in range(PATCH)] for r in range(PATCH)]
    flat = [b.reshape(e, (1, rows, features)) for e in _line(_transformed(b, B, patches))]
    # An odd number of rows: at a power-of-two stride, the 16 matrices would compete for a few cache lines.
    v = b.pad(b.make("concatenate", *flat, dimensions=(0,)), 0, 1 - rows % 2, 0)
    product = b.product(v, u)
    m = [b.slice(product, (e, 0, 0), (e + 1, rows, outputs)) for e in range(PATCH * PATCH)]
    m = [b.reshape(e, (batch, tiles[0], 1, tiles[1], 1, outputs)) for e in m]
    grid = _transformed(b, A, [m[PATCH * r : PATCH * (r + 1)] for r in range(PATCH)])
    y = b.make("concatenate", *(b.make("concatenate", *line, dimensions=(4,)) for line in grid), dimensions=(2,))
    y = b.reshape(y, (batch, TILE * tiles[0], TILE * tiles[1], outputs))
    y = b.slice(y, (0, 0, 0, 0), (batch, *counts, outputs))
    places = (dims.output_batch, *dims.output_spatial, dims.output_feature)
    return b.make("transpose", y, dimensions=tuple(places.index(d) for d in range(4)))


def _mark(root: Instruction, i: Instruction) -> None:
    """Gives all new instructions the source location of the one that they replace."""
    waiting = [root]
    while waiting:
        n = waiting.pop()
        if n not in i.operands and n.metadata is not i.metadata:
            n.metadata = i.metadata
            waiting.extend(n.operands)


def _tap(b: Build, w: Instruction, i: Instruction, r: int, s: int) -> Instruction:
    """Element (r, s) of the window for all features, [1, input, output], of w[3, 3, input, output]."""
    r, s = (WINDOW - 1 - e if v.reversal else e for e, v in zip((r, s), i.window, strict=True))
    features = w.shape.dimensions[2:]
    return b.reshape(b.slice(w, (r, s, 0, 0), (r + 1, s + 1, *features)), (1, *features))


def _padded(b: Build, x: Instruction, i: Instruction, tiles: tuple[int, ...]) -> Instruction:
    """x[batch, height, width, features] padded with the zeros that the tiles read, and without what they do not
    read."""
    sides = [
        PaddingDimension(w.padding_low, TILE * t + WINDOW - 1 - w.padding_low - n)
        for w, t, n in zip(i.window, tiles, x.shape.dimensions[1:3], strict=True)
    ]
    none = PaddingDimension(0, 0)
    return b.make("pad", x, b.scalar(0, x.shape.element_type), padding=(none, *sides, none))


def _patches(b: Build, d: Instruction, r: int, s: int, tiles: tuple[int, ...]) -> Instruction:
    """Element (r, s) of each tile's patch: [batch, tiles down, tiles across, features]."""
    batch, *_, features = d.shape.dimensions
    down, across = (SliceDimension(o, o + TILE * (t - 1) + 1, TILE) for o, t in zip((r, s), tiles, strict=True))
    return b.make("slice", d, slice=(SliceDimension(0, batch, 1), down, across, SliceDimension(0, features, 1)))


def _transformed(b: Build, matrix: Matrix, grid: Grid) -> Grid:
    """matrix times grid times the transpose of matrix."""
    half = [[_combined(b, factors, column) for column in zip(*grid, strict=True)] for factors in matrix]
    return [[_combined(b, factors, line) for factors in matrix] for line in half]


def _combined(b: Build, factors: Sequence[float], terms: Sequence[Instruction]) -> Instruction:
    """The sum of factors times terms, from left to right, without zero factors; the first factor, or else the second,
    is positive."""
    used = [(f, t) for f, t in zip(factors, terms, strict=True) if f]
    used.sort(key=lambda pair: pair[0] < 0)  # -a + b is b - a
    total: Instruction | None = None
    for f, t in used:
        term = t if abs(f) == 1 else b.multiply(t, abs(f))
        total = term if total is None else (b.add if f > 0 else b.subtract)(total, term)
    assert total is not None  # no row of the matrices is zero
    return total


def _line(grid: Grid) -> list[Instruction]:
    return [e for line in grid for e in line]
