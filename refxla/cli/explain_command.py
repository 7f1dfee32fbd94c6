"""`refxla explain`: the kernels that the compiler made of a program, what each moves, and why edges were not fused."""

from __future__ import annotations

import argparse

from refxla_spec.module import Instruction, Module
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ..compiler.explanation import GLOSSARY, Cost, Explanation, bytes_text, cost_of, terms_of
from ..scheduling.plan_builder import Refusal
from .commands import compiler_options, planned
from .console import show, write, write_bytes
from .graph_page import page

COLOURS = {
    "loop": "cyan",
    "reduction": "magenta",
    "dot": "yellow",
    "convolution": "yellow",
    "update": "cyan",
}  # of a kernel's kind; the others are blue


def explain(options: argparse.Namespace, module: Module) -> int:
    """The command. Raises Error."""
    _, made, device = planned(module, compiler_options(options))
    explanation, where = Explanation(made), f"{device.name} ({device.label})"
    if options.html is not None:
        write_bytes(options.html, page(explanation, where).encode())
    if options.html != "-":
        show(header(explanation, where), "", *(kernel(explanation, n) for n in range(len(explanation.kernels))))
        terms = (Text(f"{term}: {meaning}", "dim") for term, meaning in terms_of(str(explanation)).items())
        show("", *terms, Text(f"{GLOSSARY} has all terms", "dim"))
        if options.html is not None:
            write(f"{options.html}: the same with each kernel's source, and a picture")
    return 0


def header(explanation: Explanation, device: str) -> Text:
    """The program's name and its totals."""
    plan, total = explanation.plan, cost_of(explanation.plan)
    text = Text(explanation.name, "bold")
    fusions, kernels = len(explanation.kernels), len(plan.kernels)
    text.append(f"  {fusions} fusion{'s' * (fusions != 1)} in {kernels} kernel{'s' * (kernels != 1)}", "default")
    text.append(f" for {device}\n", "dim")
    for word, value, style in (
        ("moves", bytes_text(total.bytes_read + total.bytes_written), "default"),
        ("saves", bytes_text(total.bytes_saved), "green"),
        ("needs", f"{bytes_text(plan.arena_bytes)} of temporary memory", "default"),
    ):
        text.append(f"{word} ", "dim").append(value, style).append("   ")
    for line in explanation.winograd_convolutions():
        text.append(f"\n{line}", "default")
    return text


def kernel(explanation: Explanation, n: int) -> Tree:
    """One kernel as a tree: its operations, what it reads and writes, the bytes, and its refusals."""
    fusion, cost = explanation.kernels[n]
    colour = COLOURS.get(fusion.kind, "blue")
    head = Text(f"{n + 1} ", "dim").append(fusion.name, f"bold {colour}").append(f"  {fusion.kind}", colour)
    tree = Tree(head, guide_style="dim")
    tree.add(row("does", Text(explanation.operations(fusion))))
    tree.add(row("reads", values(fusion.inputs)))
    tree.add(row("writes", values(fusion.outputs)))
    tree.add(row("moves", moved(cost)))
    for word, text in explanation.execution(fusion):
        tree.add(row(word, Text(text)))
    if refusals := explanation.refusals_of(fusion):
        tree.add(row("apart", Group(*(refusal(r) for r in refusals))))
    return tree


def row(word: str, what: Text | Group) -> Table:
    """A word in a column of its own, and what it says."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=6, style="dim")
    grid.add_column()
    grid.add_row(word, what)
    return grid


def values(instructions: tuple[Instruction, ...]) -> Text:
    """Names with shapes, one after the other."""
    if not instructions:
        return Text("nothing", "dim")
    parts = [Text(i.name).append(f" {i.shape.without_layout()}", "cyan") for i in instructions]
    return Text(", ").join(parts)


def moved(cost: Cost) -> Text:
    """The bytes of one run."""
    text = Text(bytes_text(cost.bytes_read + cost.bytes_written))
    if cost.bytes_saved:
        text.append(f", saves {bytes_text(cost.bytes_saved)}", "green")
    return text


def refusal(r: Refusal) -> Text:
    """Why an edge was not fused, with the cost model's two times where they decided it."""
    return Text(f"{r.producer.opcode} {r.producer.name}").append(f": {r.reason}", "yellow").append(r.costs, "dim")
