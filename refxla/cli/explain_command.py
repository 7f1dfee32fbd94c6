"""`refxla explain`: the fusions that the compiler formed, what each moves, and why edges were not fused."""

from __future__ import annotations

import argparse

from refxla_spec.module import Module
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ..compiler.explanation import GLOSSARY, Explanation, terms_of
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
        show(header(explanation, where), "", *(tree(explanation, n) for n in range(len(explanation.fusions))))
        terms = (Text(f"{term}: {meaning}", "dim") for term, meaning in terms_of(str(explanation)).items())
        show("", Text(explanation.rates, "dim"), "", *terms, Text(f"{GLOSSARY} has all terms", "dim"))
        if options.html is not None:
            write(f"{options.html}: the same with each kernel's source, and a picture")
    return 0


def header(explanation: Explanation, device: str) -> Text:
    """The program's name and its totals."""
    text = Text(explanation.name, "bold").append(f" for {device}\n", "dim not bold")
    text.append(_coloured(explanation.totals))
    for line in explanation.winograd_convolutions():
        text.append(f"\n{line}", "default not bold")
    return text


def tree(explanation: Explanation, n: int) -> Tree:
    """One fusion as a tree of its properties."""
    fusion, cost = explanation.fusions[n]
    colour = COLOURS.get(fusion.kind, "blue")
    head = Text(f"{n + 1} ", "dim").append(fusion.name, f"bold {colour}").append(f"  {fusion.kind}", colour)
    root, last = Tree(head, guide_style="dim"), ""
    for label, text in explanation.rows(fusion, cost):
        root.add(_row("" if label == last else label, _coloured(text, "yellow" if label == "not fused" else "")))
        last = label
    return root


def _row(label: str, text: Text) -> Table:
    """A label in a separate column, and its text."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9, style="dim")
    grid.add_column()
    grid.add_row(label, text)
    return grid


def _coloured(text: str, style: str = "") -> Text:
    """A text in which shapes and savings stand out."""
    line = Text(text, style)
    line.highlight_regex(SHAPE, "cyan")
    line.highlight_regex(SAVED, "green")
    return line
