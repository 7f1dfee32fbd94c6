"""C functions that load elements of memory into lanes of vectors and store them, and further operations on lanes.

The lanes of a vector are `valid` different transforms of n elements each, which are `lane` and `element` complex
numbers apart in memory; passes.py has their layout in vectors. `swap` is 1 if real and imaginary parts are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from ..c_block import Block
from .passes import Complex, Numbers, Parts


def load_rows(p: Parts) -> str:
    """fft_load_rows: elements are contiguous, so blocks of them are transposed in registers. n is not 1, and the lanes
    beyond the valid ones repeat the last."""
    block, quarter = Block(), p.lanes // 2
    with block.scope(
        f"void fft_load_rows_{p.name}(__global const {p.scalar}* restrict from, const long lane, const int n, "
        f"const int valid, __global {p.vector}* restrict to, const int swap)"
    ):
        block.line(f"typedef {p.scalar}{quarter} __attribute__((aligned(sizeof({p.scalar})))) half_vector;")
        for i in range(p.lanes):
            block.line(f"__global const {p.scalar}* const row{i} = from + 2 * lane * ({i} < valid ? {i} : valid - 1);")
        step = quarter // 2
        with block.scope(f"for (int i = 0; i < n; i += {step})"):
            block.line(f"const int j = i + {step} <= n ? i : n - {step};")
            block.line(f"{p.vector} r[{quarter}];")
            for i in range(quarter):
                halves = (f"*(__global const half_vector*)(row{row} + 2 * j)" for row in (i, i + quarter))
                block.line(f"r[{i}] = ({p.vector})({', '.join(halves)});")
            block.line(f"rx_transpose_halves_{p.name}(r);")
            for k in range(step):
                block.line(f"to[2 * (j + {k}) + swap] = r[{2 * k}];")
                block.line(f"to[2 * (j + {k}) + 1 - swap] = r[{2 * k + 1}];")
    return block.text()


def store_rows(p: Parts, divided: bool) -> str:
    """fft_store_rows: the reverse; all lanes are valid."""
    block, quarter = Block(), p.lanes // 2
    with block.scope(
        f"void fft_store_rows{'_divided' * divided}_{p.name}(__global const {p.vector}* restrict from, const int n, "
        f"__global {p.scalar}* restrict to, const long lane, const int swap{_divisor(p, divided)})"
    ):
        block.line(f"typedef {p.scalar}{quarter} __attribute__((aligned(sizeof({p.scalar})))) half_vector;")
        step = quarter // 2
        with block.scope(f"for (int i = 0; i < n; i += {step})"):
            block.line(f"const int j = i + {step} <= n ? i : n - {step};")
            block.line(f"{p.vector} r[{quarter}];")
            for k in range(step):
                block.line(f"r[{2 * k}] = from[2 * (j + {k}) + swap]{_quotient(divided)};")
                block.line(f"r[{2 * k + 1}] = from[2 * (j + {k}) + 1 - swap]{_quotient(divided)};")
            block.line(f"rx_transpose_halves_{p.name}(r);")
            for i in range(quarter):
                for row, half in ((i, "lo"), (i + quarter, "hi")):
                    block.line(f"*(__global half_vector*)(to + 2 * (lane * {row} + j)) = r[{i}].{half};")
    return block.text()


def load_columns(p: Parts) -> str:
    """fft_load_columns: lanes are adjacent, and all are valid."""
    block = Block()
    with block.scope(
        f"void fft_load_columns_{p.name}(__global const {p.scalar}* restrict from, const long element, const int n, "
        f"__global {p.vector}* restrict to, const int swap)"
    ):
        block.line(f"typedef {p.vector} __attribute__((aligned(sizeof({p.scalar})))) loose_vector;")
        with block.scope("for (int j = 0; j < n; ++j)"):
            block.line("__global const loose_vector* const x = (__global const loose_vector*)(from + 2 * element * j);")
            block.line(f"const {p.vector} a = x[0], b = x[1];")
            block.line(f"to[2 * j + swap] = ({p.vector})(a.even, b.even);")
            block.line(f"to[2 * j + 1 - swap] = ({p.vector})(a.odd, b.odd);")
    return block.text()


def store_columns(p: Parts, divided: bool) -> str:
    """fft_store_columns: the reverse."""
    block = Block()
    pairs = [f"{part}.s{lane:x}" for lane in range(p.lanes) for part in "ab"]
    with block.scope(
        f"void fft_store_columns{'_divided' * divided}_{p.name}(__global const {p.vector}* restrict from, const int n, "
        f"__global {p.scalar}* restrict to, const long element, const int swap{_divisor(p, divided)})"
    ):
        block.line(f"typedef {p.vector} __attribute__((aligned(sizeof({p.scalar})))) loose_vector;")
        with block.scope("for (int j = 0; j < n; ++j)"):
            block.line("__global loose_vector* const y = (__global loose_vector*)(to + 2 * element * j);")
            block.line(f"const {p.vector} a = from[2 * j + swap]{_quotient(divided)};")
            block.line(f"const {p.vector} b = from[2 * j + 1 - swap]{_quotient(divided)};")
            for n, half in enumerate((pairs[: p.lanes], pairs[p.lanes :])):
                block.line(f"y[{n}] = ({p.vector})({', '.join(half)});")
    return block.text()


def load_lanes(p: Parts) -> str:
    """fft_load_lanes: one number at a time, with zeros in the lanes beyond the valid ones."""
    block = Block()
    with block.scope(
        f"void fft_load_lanes_{p.name}(__global const {p.scalar}* restrict from, const long lane, const long element, "
        f"const int n, const int valid, __global {p.scalar}* restrict to, const int swap)"
    ):
        _each_number(p, block, "from[2 * (lane * l + element * j) + part]", "{} = l < valid ? {} : 0;")
    return block.text()


def store_lanes(p: Parts, divided: bool) -> str:
    """fft_store_lanes: the reverse."""
    block = Block()
    with block.scope(
        f"void fft_store_lanes{'_divided' * divided}_{p.name}(__global const {p.scalar}* restrict from, const int n, "
        f"const int valid, __global {p.scalar}* restrict to, const long lane, const long element, "
        f"const int swap{_divisor(p, divided)})"
    ):
        place = "to[2 * (lane * l + element * j) + part]"
        _each_number(p, block, place, f"if (l < valid) {{1}} = {{0}}{_quotient(divided)};", "from")
    return block.text()


def _each_number(p: Parts, block: Block, place: str, statement: str, vectors: str = "to") -> None:
    with (
        block.scope("for (int j = 0; j < n; ++j)"),
        block.scope(f"for (int l = 0; l < {p.lanes}; ++l)"),
        block.scope("for (int part = 0; part < 2; ++part)"),
    ):
        own = f"{vectors}[(2 * j + (part ^ swap)) * {p.lanes} + l]"
        block.line(statement.format(own, place))


def rotate(p: Parts) -> str:
    """fft_rotate: x[k] *= exp(-2 pi i l k / n) for lane l. `w` has the factor of the first lane for each k, `lanes` the
    quotient of each lane's factor by it, as vectors."""
    block = Block()
    with (
        block.scope(
            f"void fft_rotate_{p.name}(__global {p.vector}* restrict x, const int n, "
            f"__global const {p.scalar}* restrict w, __global const {p.vector}* restrict lanes)"
        ),
        block.scope("for (int k = 0; k < n; ++k)"),
    ):
        first = f"({p.vector})(w[2 * k])", f"({p.vector})(w[2 * k + 1])"
        x = "x[2 * k]", "x[2 * k + 1]"
        re, im = rotated(p, block, x, first, ("lanes[2 * k]", "lanes[2 * k + 1]"))
        block.line(f"{x[0]} = {re};")
        block.line(f"{x[1]} = {im};")
    return block.text()


def rotated(p: Parts, block: Block, value: Complex, first: Complex, quotient: Complex) -> Complex:
    """value * (first * quotient); declares c, s, r, i, a, b, re and im."""
    m = p.multiply_add
    block.line(f"const {p.vector} c = {quotient[0]}, s = {quotient[1]}, r = {value[0]}, i = {value[1]};")
    block.line(f"const {p.vector} a = {first[0]}, b = {first[1]};")
    block.line(f"const {p.vector} re = {m('a', 'c', '-(b * s)')}, im = {m('a', 's', 'b * c')};")
    return m("r", "re", "-(i * im)"), m("r", "im", "i * re")


def scale(p: Parts) -> str:
    """fft_scale: x[j] *= w[j] for j < n, followed by zeros up to `size`. If `swap_in` is 1, real and imaginary parts
    are exchanged before; if `swap_out` is, after."""
    block = Block()
    with block.scope(
        f"void fft_scale_{p.name}(__global {p.vector}* restrict x, const int n, const int size, "
        f"__global const {p.scalar}* restrict w, const int swap_in, const int swap_out)"
    ):
        with block.scope("for (int j = 0; j < n; ++j)"):
            w = f"({p.vector})(w[2 * j])", f"({p.vector})(w[2 * j + 1])"
            re, im = scaled(p, block, ("x[2 * j + swap_in]", "x[2 * j + 1 - swap_in]"), w)
            block.line(f"x[2 * j + swap_out] = {re};")
            block.line(f"x[2 * j + 1 - swap_out] = {im};")
        block.line(f"for (int j = 2 * n; j < 2 * size; ++j) x[j] = ({p.vector})(0);")
    return block.text()


def scaled(p: Parts, block: Block, value: Complex, by: Complex) -> Complex:
    """value * by; declares r, i, c and s."""
    block.line(f"const {p.vector} r = {value[0]}, i = {value[1]};")
    block.line(f"const {p.vector} c = {by[0]}, s = {by[1]};")
    return p.multiply_add("r", "c", "-(i * s)"), p.multiply_add("r", "s", "i * c")


def real_pass(p: Parts, join: bool, vectors: bool) -> str:
    """fft_separate and fft_join (analysis/fft_plan.py): of vectors in place, or of a row of numbers from x to y.

    w has exp(-2 pi i k / 2 h). Each k up to h / 2 is computed together with h - k; a row from `first` to `end` - 1.
    """
    block, name = Block(), f"fft_{'join' if join else 'separate'}{'' if vectors else '_row'}_{p.name}"
    q = p if vectors else Numbers(p.name)
    places = f"__global {q.vector}* restrict x"
    if not vectors:
        places = f"__global const {q.vector}* restrict x, __global {q.vector}* restrict y"
    more = "" if vectors else "const int first, const int end, "
    loop = "int k = 0; k <= h / 2; ++k" if vectors else "int k = first; k < end; ++k"
    to = "x" if vectors else "y"
    with (
        block.scope(f"void {name}({places}, const int h, {more}__global const {p.scalar}* restrict w, const int swap)"),
        block.scope(f"for ({loop})"),
    ):
        real_pair(
            q, block, join, lambda k: (f"x[2 * {k}]", f"x[2 * {k} + 1]"),
            lambda k: (f"{to}[2 * {k} + swap]", f"{to}[2 * {k} + 1 - swap]"),
        )  # fmt: skip
    return block.text()


def real_pair(p: Parts, block: Block, join: bool, x: Callable[[str], Complex], y: Callable[[str], Complex]) -> None:
    """Joins or separates number `k` and number `h` - k, from x to y, which give the parts of a number."""
    t = p.vector
    block.line(f"const int other = {'h - k' if join else 'k ? h - k : 0'};")
    for which, place in (("a", "k"), ("b", "other")):
        re, im = x(place)
        block.line(f"const {t} {which}r = {re}, {which}i = {im};")
    block.line(f"const {t} c = ({t})(w[2 * k]), s = ({t})(w[2 * k + 1]);")
    block.line(f"const {t} er = ar + br, dr = ar - br;")
    if join:  # the imaginary parts of the first and the last element count as zeros
        block.line(f"const {t} ei = k ? ai - bi : ({t})(0), di = k ? ai + bi : ({t})(0);")
        re, im = p.multiply_add("dr", "c", "di * s"), p.multiply_add("di", "c", "-(dr * s)")
        block.line(f"const {t} tr = {re}, ti = {im};")
        results = (("k", "er - ti", "ei + tr", ""), ("(h - k)", "er + ti", "tr - ei", "if (k && k != h - k)"))
    else:
        block.line(f"const {t} ei = ai - bi, di = ai + bi;")
        re, im = p.multiply_add("di", "c", "dr * s"), p.multiply_add("di", "s", "-(dr * c)")
        block.line(f"const {t} tr = {re}, ti = {im}, half_of = ({t})({p.literal(0.5)});")
        results = (
            ("k", "(er + tr) * half_of", "(ei + ti) * half_of", ""),
            ("(h - k)", "(er - tr) * half_of", "(ti - ei) * half_of", "if (k != h - k)"),
        )
    for place, re, im, condition in results:
        with block.scope(condition):
            for part, value in zip(y(place), (re, im), strict=True):
                block.line(f"{part} = {value};")


def _divisor(p: Parts, divided: bool) -> str:
    return f", const {p.scalar} divisor" if divided else ""


def _quotient(divided: bool) -> str:
    return " / divisor" if divided else ""
