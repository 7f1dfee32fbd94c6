"""The fused graph as an HTML page with an SVG: a box for each kernel with its instructions, edges labelled by bytes.

Kernels stand in rows, each below those whose results it reads; in a row they are ordered by where their inputs stand.
Everything is in the one file, and it needs no script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from refxla_spec.module import Instruction

from ..explain import Cost, Explanation, bytes_text, cost_of
from ..plan import Fusion

CHARACTER, LINE, MARGIN = 6.6, 15, 10  # of the monospaced 11 px letters, and around a box's text
GAP, ROW_GAP, LABELS = 28, 64, 26  # between boxes of a row, between rows; instructions listed at most
HUES = {"loop": 195, "update": 175, "reduction": 285, "dot": 35, "convolution": 20, "parameters": 110}

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
h1 { font-size: 1.3em; margin: 0; } p { margin: .3em 0 1.5em; color: #555; }
svg { display: block; max-width: none; } svg text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; }
.title { font-weight: bold; } .edge { fill: none; stroke: #999; stroke-width: 1.2; }
.label { fill: #555; paint-order: stroke; stroke: #fff; stroke-width: 4px; text-anchor: middle; }
.quiet { fill: #777; } table { border-collapse: collapse; margin-top: 2em; font-size: .9em; }
td, th { text-align: left; padding: .3em 1em .3em 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; } code { font-size: .95em; }
.apart { color: #8a5a00; } .saved { color: #1a7f37; }
"""


@dataclass
class Box:
    """A kernel in the picture, or the program's parameters: its text, and where it stands."""

    title: str
    kind: str
    lines: list[str]
    row: int = 0
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    sources: dict[int, list[Instruction]] = field(default_factory=dict)  # number of another box -> what is read of it

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def page(explanation: Explanation, device: str) -> str:
    """The HTML page, as text."""
    total, plan = cost_of(explanation.plan), explanation.plan
    summary = (
        f"{len(explanation.kernels)} fusions in {len(plan.kernels)} kernels for {device}; one call moves "
        f"{bytes_text(total.bytes_read + total.bytes_written)} and fusion keeps {bytes_text(total.bytes_saved)} out of "
        f"memory; {bytes_text(plan.arena_bytes)} of temporary memory"
    )
    rows = "\n".join(_row(explanation, n) for n in range(len(explanation.kernels)))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(explanation.name)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(explanation.name)}</h1>\n<p>{escape(summary)}</p>\n"
        f"{picture(explanation)}\n"
        "<table><tr><th>kernel<th>does<th>reads<th>writes<th>saves<th>not fused with, and why</tr>\n"
        f"{rows}\n</table>\n</html>\n"
    )


def _row(explanation: Explanation, n: int) -> str:
    fusion, cost = explanation.kernels[n]
    apart = "<br>".join(
        f'{escape(r.producer.name)}: <span class="apart">{escape(r.reason)}</span>'
        for r in explanation.refusals
        if r.user == fusion.name
    )
    return (
        f"<tr><td><code>{n + 1}. {escape(fusion.name)}</code><td>{escape(explanation.operations(fusion))}"
        f'<td class="n">{bytes_text(cost.bytes_read)}<td class="n">{bytes_text(cost.bytes_written)}'
        f'<td class="n saved">{bytes_text(cost.bytes_saved)}<td>{apart}</tr>'
    )


def picture(explanation: Explanation) -> str:
    """The SVG."""
    boxes = _boxes(explanation)
    _place(boxes)
    width = max(b.x + b.width for b in boxes) + MARGIN
    height = max(b.y + b.height for b in boxes) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#999"/></marker></defs>',
    ]
    edges, labels = _edges(boxes)
    return "\n".join([*parts, *edges, *(_drawn(b) for b in boxes), *labels, "</svg>"])


def _boxes(explanation: Explanation) -> list[Box]:
    """Box 0 for the parameters, then one for each kernel, with the edges between them."""
    boxes = [Box("parameters", "parameters", [f"{len(explanation.plan.parameters)} arrays"])]
    maker: dict[Instruction, int] = {}
    for number, (fusion, cost) in enumerate(explanation.kernels, 1):
        box = Box(f"{number}. {fusion.name}", fusion.kind, _lines(fusion, cost))
        for i in fusion.inputs:
            source = _source(i, maker)
            if source is not None:
                box.sources.setdefault(source, []).append(i)
        box.row = 1 + max((boxes[s].row for s in box.sources), default=0)
        boxes.append(box)
        maker.update(dict.fromkeys(fusion.outputs, number))
    return boxes


def _source(i: Instruction, maker: dict[Instruction, int]) -> int | None:
    """The box a value comes from: through reshapes and tuples, which no kernel computes. None for a constant."""
    while i not in maker:
        if i.opcode == "parameter":
            return 0
        if not i.operands:
            return None
        k = i.attributes.get("index", 0) if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple" else 0
        i = i.operands[0].operands[k] if i.operands[0].opcode == "tuple" and k is not None else i.operands[0]
    return maker[i]


def _lines(fusion: Fusion, cost: Cost) -> list[str]:
    outputs = set(fusion.outputs)
    lines = []
    for i in fusion.instructions:
        if i.opcode != "constant":
            mark = ">" if i in outputs else " "
            lines.append(f"{mark} {i.opcode} {i.shape.without_layout()}"[:44])
    if len(lines) > LABELS:
        lines = [*lines[: LABELS // 2], f"  ... {len(lines) - LABELS} more", *lines[-LABELS // 2 :]]
    return [*lines, f"saves {bytes_text(cost.bytes_saved)}"] if cost.bytes_saved else lines


def _place(boxes: list[Box]) -> None:
    """Sizes, then rows; each box as near below its sources as the order of its row allows."""
    for b in boxes:
        b.width = max(len(line) for line in [b.title, *b.lines]) * CHARACTER + 2 * MARGIN
        b.height = LINE * (len(b.lines) + 1) + 2 * MARGIN
    y = float(MARGIN)
    for n in range(max(b.row for b in boxes) + 1):
        row = [b for b in boxes if b.row == n]
        wanted = {
            id(b): sum(boxes[s].middle for s in b.sources) / len(b.sources) if b.sources else b.width / 2 for b in row
        }
        row.sort(key=lambda b: wanted[id(b)])
        total = sum(b.width for b in row) + GAP * (len(row) - 1)
        x = max(MARGIN, sum(wanted.values()) / len(row) - total / 2)
        for b in row:
            b.x, b.y = x, y
            x += b.width + GAP
        y += max(b.height for b in row) + ROW_GAP


def _edges(boxes: list[Box]) -> tuple[list[str], list[str]]:
    """Curves from the lower edge of one box to the upper edge of another, and the bytes that go along them."""
    curves, labels = [], []
    leaving = {n: [b for b in boxes if n in b.sources] for n in range(len(boxes))}
    for b in boxes:
        for k, (source, read) in enumerate(sorted(b.sources.items(), key=lambda item: boxes[item[0]].middle)):
            s = boxes[source]
            users = sorted(leaving[source], key=lambda user: user.middle)
            x0 = s.x + s.width * (users.index(b) + 1) / (len(users) + 1)
            x1 = b.x + b.width * (k + 1) / (len(b.sources) + 1)
            y0, y1 = s.y + s.height, b.y - 2
            bend = min(70.0, (y1 - y0) / 2)
            names = escape(", ".join(f"{i.name} {i.shape.without_layout()}" for i in read))
            path = f"M{x0:.1f} {y0:.1f}C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
            curves.append(f'<path class="edge" marker-end="url(#tip)" d="{path}"><title>{names}</title></path>')
            size = bytes_text(sum(i.shape.bytes for i in read))
            labels.append(f'<text class="label" x="{x1:.1f}" y="{y1 - 14 - 13 * (k % 2):.1f}">{size}</text>')
    return curves, labels


def _drawn(b: Box) -> str:
    hue = HUES.get(b.kind, 220)
    x, y = b.x + MARGIN, b.y + MARGIN + 10
    text = [f'<text class="title" x="{x:.1f}" y="{y:.1f}">{escape(b.title)}</text>']
    for n, line in enumerate(b.lines, 1):
        quiet = ' class="quiet"' if line.startswith(" ") else ""
        text.append(f'<text{quiet} x="{x:.1f}" y="{y + n * LINE:.1f}" xml:space="preserve">{escape(line)}</text>')
    return (
        f'<g><rect x="{b.x:.1f}" y="{b.y:.1f}" width="{b.width:.1f}" height="{b.height:.1f}" rx="6" '
        f'fill="hsl({hue} 70% 96%)" stroke="hsl({hue} 50% 45%)"/>{"".join(text)}</g>'
    )
