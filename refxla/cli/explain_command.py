"""`refxla explain`: the fusions that the compiler formed, what each moves, and why edges were not fused."""

from __future__ import annotations

import argparse

from refxla_spec.module import Module
from rich.table import Table
from rich.text import Text

from ..compiler.explanation import GLOSSARY, INDENT, LABEL_WIDTH, Explanation, terms_of
from .commands import compiler_options, planned
from .console import show, write, write_bytes
from .graph_page import page

COLOURS = {
    "loop": "cyan",
    "reduction": "magenta",
    "dot": "yellow",
    "convolution": "yellow",
    "update": "cyan",
}  # by a fusion's kind; the others are blue
SHAPE = r"\b[a-z]\w*\[[\d,<=]*\]"
SAVED = r"saves [\d.]+ \w+"


def explain(options: argparse.Namespace, module: Module) -> int:
    """The command. Raises Error."""
    _, result, device = planned(module, compiler_options(options))
    explanation, where = Explanation(result), f"{device.name} ({device.label})"
    if options.html is not None:
        write_bytes(options.html, page(explanation, where).encode())
    if options.html != "-":
        show(header(explanation, where))
        for n in range(len(explanation.fusions)):
            show("", *described(explanation, n))
        terms = (Text(f"{term}: {meaning}", "dim") for term, meaning in terms_of(str(explanation)).items())
        show("", Text(explanation.rates, "dim"), "", *terms, Text(f"{GLOSSARY} has all terms", "dim"))
        if options.html is not None:
            write(f"{options.html}: the same with each kernel's source, and a picture")
    return 0


def header(explanation: Explanation, device: str) -> Text:
    """The program's name, the device and the totals."""
    text = Text().append(explanation.name, "bold").append(f" for {device}", "dim").append(": ")
    text.append(_coloured(explanation.totals))
    for line in explanation.winograd_convolutions():
        text.append(f"\n{line}")
    return text


def described(explanation: Explanation, n: int) -> tuple[Text, Table]:
    """One fusion as in the text of an Explanation, but in colour, and on a terminal with lines that wrap within their
    column."""
    fusion, cost = explanation.fusions[n]
    colour = COLOURS.get(fusion.kind, "blue")
    head = Text(f"{n + 1}. ", "dim").append(fusion.name, f"bold {colour}").append(f" ({fusion.kind})", colour)
    rows = Table.grid(padding=(0, 1, 0, 0))
    rows.add_column(width=INDENT - 1)
    rows.add_column(width=LABEL_WIDTH, style="dim")
    rows.add_column()
    for label, text in explanation.rows(fusion, cost):
        rows.add_row("", label, _coloured(text, "yellow" if label == "not fused" else ""))
    return head, rows


def _coloured(text: str, style: str = "") -> Text:
    """A text in which shapes and savings stand out."""
    line = Text(text, style)
    line.highlight_regex(SHAPE, "cyan")
    line.highlight_regex(SAVED, "green")
    return line
