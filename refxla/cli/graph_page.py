"""The fused graph as an HTML page with an SVG: a box for each fusion with its instructions, edges labelled by bytes.

Fusions are in rows, each below those whose results it reads, and no row is wider than a laptop's screen; within a row
they are ordered by the positions of their inputs. A legend explains the picture, and below it the OpenCL C of each
fusion opens with a click. Everything is in one file, and it needs no script.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from refxla_spec.errors import plural
from refxla_spec.module import Instruction

from ..analysis.cost_analysis import Cost, bytes_text
from ..codegen.merged_kernel_emitter import body_text
from ..compiler.explanation import GLOSSARY, Explanation, terms_of
from ..ir.plan import Argument, Fusion

CHARACTER, LINE, MARGIN = 6.6, 15, 10  # of the monospaced 11 px letters, and around a box's text
GAP, ROW_GAP, LISTED = 24, 64, 26  # between boxes of a row, between rows; instructions listed
BEND, BEND_GAP = 6.0, 4  # the width of a bend, and between bends
ROW_WIDTH = 1150  # of the boxes of a row, at most: they fit a laptop's screen
HUES = {"loop": 195, "update": 175, "reduction": 285, "dot": 35, "convolution": 20}

# --hue is the colour of a box. Colours follow the scheme of the page: `color-scheme` has to say which it supports.
PICTURE_STYLE = """
.fusions rect, .legend span { --fill: light-dark(hsl(var(--hue) 70% 96%), hsl(var(--hue) 30% 16%));
  --frame: light-dark(hsl(var(--hue) 50% 45%), hsl(var(--hue) 45% 60%)); }
.fusions { display: block; max-width: none; }
.fusions text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; fill: light-dark(#000, #ddd); }
.fusions rect { fill: var(--fill); stroke: var(--frame); }
.fusions .title { font-weight: bold; } .fusions .edge { fill: none; stroke: #999; stroke-width: 1.2; }
.fusions .label { fill: light-dark(#555, #bbb); paint-order: stroke; stroke: light-dark(#fff, #181a1b);
  stroke-width: 4px; text-anchor: middle; }
.fusions .quiet { fill: light-dark(#777, #999); }
"""

STYLE = (
    PICTURE_STYLE
    + """
:root { color-scheme: light dark; --soft: light-dark(#555, #aaa); --line: light-dark(#ddd, #3a3d3f); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; color: light-dark(#222, #ddd);
  background: light-dark(#fff, #181a1b); }
h1 { font-size: 1.3em; margin: 0; }
h2 { font-size: 1.1em; margin: 2em 0 .5em; } p { margin: .3em 0 1.5em; color: var(--soft); }
.wide { overflow-x: auto; }
table { min-width: 65em; border-collapse: collapse; margin-top: 2em; font-size: .9em; width: 100%; }
td, th { text-align: left; padding: .3em 1em .3em 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
th:nth-child(1) { width: 17%; } th:nth-child(2) { width: 14%; } th:nth-child(6) { width: 26%; }
td div + div { margin-top: .3em; }
td.n { text-align: right; white-space: nowrap; } code { font-size: .95em; } a { color: light-dark(#0b57d0, #8ab4f8); }
.unfused { color: light-dark(#8a5a00, #e0b060); } .saved { color: light-dark(#1a7f37, #6fdd8b); }
.legend { columns: 26em auto; column-gap: 2.5em; margin: 0 0 1.5em; padding: 0; list-style: none; font-size: .85em; }
.legend li { break-inside: avoid; margin-bottom: .2em; padding-left: 1.2em; text-indent: -1.2em; }
.legend span { display: inline-block; width: 1.6em; height: .9em; border-radius: 3px; margin-right: .4em;
  vertical-align: -1px; background: var(--fill); border: 1px solid var(--frame); }
details { margin: .4em 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
pre { background: light-dark(#f6f8fa, #222527); padding: 1em; overflow-x: auto;
  font: 12px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
"""
)


@dataclass(eq=False)
class Box:
    """A fusion in the picture: its text and its position. One without a title is a bend of an edge that passes through
    a row."""

    title: str
    kind: str
    lines: list[str]
    row: int = 0
    x: float = 0
    y: float = 0
    width: float = BEND
    height: float = 0
    sources: list[Box] = field(default_factory=list)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Edge:
    """What a fusion reads from another: the boxes that the edge goes through, of which the first and last are
    fusions."""

    path: tuple[Box, ...]
    values: tuple[Instruction, ...]


def page(explanation: Explanation, device: str) -> str:
    """The HTML page, as text."""
    summary = f"for {device}: {explanation.totals}; {explanation.rates}"
    decisions = "".join(f"<p>{escape(line)}</p>\n" for line in explanation.winograd_convolutions())
    rows = "\n".join(_row(explanation, n) for n in range(len(explanation.fusions)))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(explanation.name)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(explanation.name)}</h1>\n<p>{escape(summary)}</p>\n"
        f'{decisions}{legend(explanation)}\n<div class="wide">{picture(explanation)}</div>\n'
        '<div class="wide"><table><tr><th>fusion<th>computes<th>reads<th>writes<th>saves<th>how it runs'
        "<th>not fused with, and why</tr>\n"
        f"{rows}\n</table></div>\n<h2>OpenCL C</h2>\n{sources(explanation)}\n</html>\n"
    )


KINDS = {
    "loop": "elementwise: each element by itself",
    "update": "a slice written in place",
    "reduction": "sums and other reductions, with what is fused around them",
    "dot": "a matrix product and its epilogue",
    "convolution": "a convolution and its epilogue",
}  # the others are named by their operation


def legend(explanation: Explanation) -> str:
    """The meaning of the boxes, their colours, the marks in them and the edges."""
    kinds = dict.fromkeys(fusion.kind for fusion, _ in explanation.fusions)
    items = [
        f'<li><span style="{_hue(kind)}"></span><b>{escape(kind)}</b>{": " + KINDS[kind] if kind in KINDS else ""}</li>'
        for kind in kinds
    ]
    items += [
        "<li><b>a box</b>: a fusion with its instructions, in their order</li>",
        "<li><b>&gt;</b> a value that is written to memory; the others never leave registers and caches</li>",
        "<li><b>an arrow</b>: a value in memory that one fusion writes and another reads, with its bytes</li>",
    ]
    items += [
        f"<li><b>{term}</b>: {escape(meaning)}</li>" for term, meaning in terms_of(f"{explanation} work items").items()
    ]
    items.append(f"<li>{GLOSSARY} has all terms</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def sources(explanation: Explanation) -> str:
    """The OpenCL C of each fusion's kernels, closed until its name is clicked."""
    parts = []
    for n, (fusion, _) in enumerate(explanation.fusions, 1):
        for k, kernel in enumerate(explanation.kernels_of(fusion)):
            anchor = f' id="source-{n}"' if k == 0 else ""
            pointers = "".join(f"// a{a}: {_pointer(argument)}\n" for a, argument in enumerate(kernel.arguments))
            items = plural(kernel.items, "work item")
            parts.append(
                f"<details><summary><code>{n}. {escape(kernel.name)}</code>, {items}</summary>"
                f"<pre{anchor}>{escape(pointers + body_text(kernel))}</pre></details>"
            )
    return "\n".join(parts)


def _pointer(argument: Argument) -> str:
    what = f"{argument.instruction.name} {argument.instruction.shape}" if argument.instruction else "temporary memory"
    return f"{argument.role}, {argument.ctype}*, {what}"


def _hue(kind: str) -> str:
    """The colour of a kind of fusion, as PICTURE_STYLE takes it."""
    return f"--hue: {HUES.get(kind, 220)}"


def _row(explanation: Explanation, n: int) -> str:
    fusion, cost = explanation.fusions[n]
    execution = "".join(f"<div>{word} {escape(text)}</div>" for word, text in explanation.execution(fusion))
    apart = "".join(
        f'<div>{escape(r.producer.name)}: <span class="unfused">{escape(r.reason)}</span>{escape(r.costs)}</div>'
        for r in explanation.refusals_of(fusion)
    )
    name = f"{n + 1}. {escape(fusion.name)}"
    if explanation.kernels_of(fusion):
        name = f'<a href="#source-{n + 1}">{name}</a>'  # browsers open the <details> around the target
    return (
        f"<tr><td><code>{name}</code><td>{escape(explanation.operations(fusion))}"
        f'<td class="n">{bytes_text(cost.bytes_read)}<td class="n">{bytes_text(cost.bytes_written)}'
        f'<td class="n saved">{bytes_text(cost.bytes_saved)}<td>{execution}<td>{apart}</tr>'
    )


def picture(explanation: Explanation) -> str:
    """The fusions and the data flow between them, as SVG; PICTURE_STYLE is its style."""
    boxes, edges = _boxes(explanation)
    _place(boxes)
    width = max((b.x + b.width for b in boxes), default=0) + MARGIN
    height = max((b.y + b.height for b in boxes), default=0) + MARGIN
    parts = [
        f'<svg class="fusions" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#999"/></marker></defs>',
    ]
    curves, labels = _curves(edges)
    return "\n".join([*parts, *curves, *(_drawn(b) for b in boxes if b.title), *labels, "</svg>"])


def _boxes(explanation: Explanation) -> tuple[list[Box], list[Edge]]:
    """A box for each fusion, the bends, and the edges between fusions."""
    reads: dict[Box, dict[Box, list[Instruction]]] = {}  # of each fusion: what it reads from others
    maker: dict[Instruction, Box] = {}
    for number, (fusion, cost) in enumerate(explanation.fusions, 1):
        sources: dict[Box, list[Instruction]] = {}
        outside_bytes = 0
        for i in fusion.inputs:
            source = _source(i, maker)
            if source is not None:
                sources.setdefault(source, []).append(i)
            else:
                outside_bytes += i.shape.bytes
        box = Box(f"{number}. {fusion.name}", fusion.kind, _lines(fusion, cost, outside_bytes))
        box.width = max(len(line) for line in [box.title, *box.lines]) * CHARACTER + 2 * MARGIN
        box.height = LINE * (len(box.lines) + 1) + 2 * MARGIN
        reads[box] = sources
        maker.update(dict.fromkeys(fusion.outputs, box))
    _assign_rows(reads)
    bends: list[Box] = []
    edges: list[Edge] = []
    for box, sources in reads.items():
        for source, instructions in sources.items():
            path = [source]
            for row in range(source.row + 1, box.row):
                path.append(Box("", "", [], row, sources=[path[-1]]))
            bends += path[1:]
            box.sources.append(path[-1])
            edges.append(Edge((*path, box), tuple(instructions)))
    return [*reads, *bends], edges


def _assign_rows(reads: Mapping[Box, Collection[Box]]) -> None:
    """The row of each fusion: below those that it reads from, and just above its first user if it reads from none. A
    row that is too wide is continued in the next one."""
    users: dict[Box, list[Box]] = {}
    for box, sources in reads.items():
        box.row = 1 + max((s.row for s in sources), default=-1)
        for source in sources:
            users.setdefault(source, []).append(box)
    levels: dict[int, list[Box]] = {}
    for box, sources in reads.items():
        if box in users and not sources:
            box.row = min(user.row for user in users[box]) - 1
        levels.setdefault(box.row, []).append(box)
    row = -1
    for level in sorted(levels):
        width = float(ROW_WIDTH)  # of the row before, which is another level
        for box in levels[level]:
            width += GAP + box.width
            if width > ROW_WIDTH:
                row, width = row + 1, box.width
            box.row = row


def _source(i: Instruction, maker: dict[Instruction, Box]) -> Box | None:
    """The fusion that computes a value, looking through reshapes and tuples; None for a parameter or constant."""
    while i not in maker:
        if i.opcode not in ("reshape", "copy", "bitcast", "get-tuple-element", "while", "conditional", "tuple"):
            return None
        tuple_ = i.operands[0] if i.operands else i
        element = i.opcode == "get-tuple-element" and tuple_.opcode == "tuple"
        i = tuple_.operands[i.attributes["index"]] if element else tuple_
    return maker[i]


def _lines(fusion: Fusion, cost: Cost, outside_bytes: int) -> list[str]:
    """The text of a box: what it reads from outside, its instructions (`>` for those that are written), what it
    saves."""
    outputs = set(fusion.outputs)
    lines = []
    for i in fusion.instructions:
        if i.opcode != "constant":
            mark = ">" if i in outputs else " "
            lines.append(f"{mark} {i.opcode} {i.shape.without_layout()}"[:44])
    if len(lines) > LISTED:
        lines = [*lines[: LISTED // 2], f"  ... {len(lines) - LISTED} more", *lines[-LISTED // 2 :]]
    if outside_bytes:
        lines.insert(0, f"reads {bytes_text(outside_bytes)} of arguments and constants")
    return [*lines, f"saves {bytes_text(cost.bytes_saved)}"] if cost.bytes_saved else lines


def _place(boxes: list[Box]) -> None:
    """Rows from the top; in a row, each box as near below its sources as its neighbours allow."""
    rows: dict[int, list[Box]] = {}
    for b in boxes:
        rows.setdefault(b.row, []).append(b)
    y = float(MARGIN)
    for n in sorted(rows):
        _place_in_row(rows[n])
        height = max(b.height for b in rows[n])
        for b in rows[n]:
            b.y, b.height = y, b.height if b.title else height
        y += height + ROW_GAP


def _place_in_row(row: list[Box]) -> None:
    """Sorts the boxes of a row and places them from left to right."""
    middles = {b: sum(s.middle for s in b.sources) / len(b.sources) if b.sources else 0.0 for b in row}
    row.sort(key=lambda b: middles[b])
    neighbours = [(left, right, _gap(left, right)) for left, right in pairwise(row)]
    row[0].x = max(MARGIN, middles[row[0]] - row[0].width / 2)
    for left, b, gap in neighbours:
        b.x = max(left.x + left.width + gap, middles[b] - b.width / 2)
    for left, b, gap in reversed(neighbours):  # back from the right where that went too far
        ideal = max(MARGIN, middles[left] - left.width / 2)
        left.x = max(left.x, min(b.x - gap - left.width, ideal))
    # From the right edge, so that rows do not drift to the right.
    last = row[-1]
    widths = sum(b.width for b in row) + sum(gap for _, _, gap in neighbours)
    last.x = min(last.x, MARGIN + max(ROW_WIDTH, widths) - last.width)
    for left, b, gap in reversed(neighbours):
        left.x = min(left.x, b.x - gap - left.width)


def _gap(left: Box, right: Box) -> int:
    """The distance of neighbours: curves alone can be close together."""
    return GAP if left.title or right.title else BEND_GAP


def _curves(edges: list[Edge]) -> tuple[list[str], list[str]]:
    """Curves from the lower edge of one box to the upper edge of another, labelled with bytes."""
    curves, labels = [], []
    leaving: dict[Box, list[Edge]] = {}
    entering: dict[Box, list[Edge]] = {}
    for e in edges:
        leaving.setdefault(e.path[0], []).append(e)
        entering.setdefault(e.path[-1], []).append(e)
    for e in edges:
        first, last = e.path[0], e.path[-1]
        outs = sorted(leaving[first], key=lambda o: o.path[1].middle)
        ins = sorted(entering[last], key=lambda o: o.path[-2].middle)
        x = first.x + first.width * (outs.index(e) + 1) / (len(outs) + 1)
        y = first.y + first.height
        path = f"M{x:.1f} {y:.1f}"
        place = ins.index(e)
        for b in e.path[1:]:
            to = b.middle if b is not last else b.x + b.width * (place + 1) / (len(ins) + 1)
            bend = (b.y - y) / 2
            path += f"C{x:.1f} {y + bend:.1f} {to:.1f} {b.y - bend:.1f} {to:.1f} {b.y - 2:.1f}"
            x, y = to, b.y + b.height
            if b is not last:
                path += f"V{y:.1f}"
        names = escape(", ".join(f"{i.name} {i.shape.without_layout()}" for i in e.values))
        curves.append(f'<path class="edge" marker-end="url(#tip)" d="{path}"><title>{names}</title></path>')
        size = bytes_text(sum(i.shape.bytes for i in e.values))
        labels.append(f'<text class="label" x="{x:.1f}" y="{last.y - 12 - 13 * (place % 3):.1f}">{size}</text>')
    return curves, labels


def _drawn(b: Box) -> str:
    x, y = b.x + MARGIN, b.y + MARGIN + 10
    text = [f'<text class="title" x="{x:.1f}" y="{y:.1f}">{escape(b.title)}</text>']
    for n, line in enumerate(b.lines, 1):
        quiet = "" if line.startswith(">") else ' class="quiet"'
        text.append(f'<text{quiet} x="{x:.1f}" y="{y + n * LINE:.1f}" xml:space="preserve">{escape(line)}</text>')
    return (
        f'<g><rect x="{b.x:.1f}" y="{b.y:.1f}" width="{b.width:.1f}" height="{b.height:.1f}" rx="6" '
        f'style="{_hue(b.kind)}"/>{"".join(text)}</g>'
    )
