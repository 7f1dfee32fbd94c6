"""The directive `walkthrough`: one intermediate form of a program of docs/programs, made when the pages are built.

    ```{walkthrough} softmax passes
    ```

The forms are those of FORMS. They are made for one device description, DEFAULT_CPU, so that the page does not depend on
the machine that builds it; no device is needed.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_spec.text import parse
from refxla_spec.verify import verify
from tables import table

from refxla.cli.graph_page import PICTURE_STYLE, picture
from refxla.codegen import prelude
from refxla.compiler.explanation import Explanation
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir.plan import Argument
from refxla.passes.pipeline import OPTIONAL, PASSES, SCHEDULING, optimize

PROGRAMS = Path(__file__).parents[1] / "programs"


@cache
def source(name: str) -> str:
    """The text of a program of docs/programs."""
    return (PROGRAMS / f"{name}.hlo").read_text(encoding="utf-8")


@cache
def _planned(name: str, without: tuple[str, ...] = ()) -> Any:
    module = parse(source(name))
    verify(module)
    return plan_module(module, DEFAULT_CPU, without)


def _block(text: str, language: str) -> nodes.Node:
    block = nodes.literal_block(text.rstrip(), text.rstrip())
    block["language"] = language
    return block


def _source(name: str) -> Iterator[nodes.Node]:
    yield _block(source(name), "hlo")


def _passes(name: str) -> Iterator[nodes.Node]:
    """What each pass changed, as a difference of texts."""
    module = parse(source(name))
    before, idle = str(module), []
    for step, _ in PASSES:
        after = str(optimize(module, after=step))
        if after == before:
            idle.append(step)
            continue
        yield nodes.paragraph("", "", nodes.strong(text=step))
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
        yield _block("\n".join(line for line in lines if not line.startswith(("---", "+++"))), "diff")
        before = after
    yield nodes.paragraph(text=f"Passes that found nothing to do: {', '.join(idle)}.")


def _optimized(name: str) -> Iterator[nodes.Node]:
    yield _block(str(_planned(name)[0]), "hlo")


def _unfused(name: str) -> Iterator[nodes.Node]:
    """What `explain` says when each instruction is a kernel of its own."""
    yield _block(str(Explanation(_planned(name, ("fusion", "tiled-fusion"))[1])), "text")


def _pictures(name: str) -> Iterator[nodes.Node]:
    """The kernels with and without fusion, and what goes through memory between them."""
    drawn = []
    for title, without in (("Without fusion", ("fusion", "tiled-fusion")), ("With fusion", ())):
        explanation = Explanation(_planned(name, without)[1])
        drawn.append(
            f"<figure><figcaption><b>{title}</b>: {explanation.totals}</figcaption>{picture(explanation)}</figure>"
        )
    yield nodes.raw("", f'<style>{PICTURE_STYLE}</style><div class="pictures">{"".join(drawn)}</div>', format="html")


def _fusion(name: str) -> Iterator[nodes.Node]:
    yield _block(str(Explanation(_planned(name)[1])), "text")


def _plan(name: str) -> Iterator[nodes.Node]:
    yield _block(str(_planned(name)[1].plan), "text")


def _meaning(argument: Argument) -> str:
    return f"{argument.instruction.name} ({argument.role})" if argument.instruction else f"{argument.role} memory"


def _kernel(name: str) -> Iterator[nodes.Node]:
    for kernel in _planned(name)[1].plan.kernels:
        pointers = (f"a{n} is {_meaning(a)}" for n, a in enumerate(kernel.arguments))
        yield nodes.paragraph(text=f"{kernel.name}, {kernel.items} work items; {', '.join(pointers)}.")
        yield _block(kernel.body, "c")


def _prelude(name: str) -> Iterator[nodes.Node]:
    """The functions of the prelude that the kernels call."""
    text = prelude.functions("\n".join(k.body for k in _planned(name)[1].plan.kernels))
    yield _block(text, "c")


FORMS: dict[str, Callable[[str], Iterator[nodes.Node]]] = {
    "source": _source,
    "passes": _passes,
    "optimized": _optimized,
    "unfused": _unfused,
    "pictures": _pictures,
    "fusion": _fusion,
    "plan": _plan,
    "kernel": _kernel,
    "prelude": _prelude,
}


class Walkthrough(Directive):
    """`{walkthrough} PROGRAM FORM`."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        name, form = self.arguments
        return list(FORMS[form](name))


class PassTable(Directive):
    """`{pass-table}`: the passes in their order, each with the first lines of its file, and the scheduler's decisions
    that can be left out as a pass can."""

    def run(self) -> list[nodes.Node]:
        rows, seen = [], {}
        for name, run in PASSES:
            summary = (sys.modules[run.__module__].__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
            again = f"Runs `{seen[run]}` once more." if run in seen else summary
            rows.append((f"`{name}`", again, "yes" if name in OPTIONAL else ""))
            seen[run] = name
        rows += [(f"`{name}`", f"No pass: {what}", "yes") for name, what in DECISIONS.items()]
        return [table(("Pass", "What it does", "`without=`"), rows, (28, 60, 12))]


DECISIONS = dict(
    zip(
        SCHEDULING,
        (
            "the scheduler computes several instructions in one kernel.",
            "the scheduler runs consecutive fusions tile by tile.",
            "the scheduler lets each core run whole iterations of a loop.",
            "the scheduler lets small kernels share a launch.",
            "kernels on a GPU do nothing where a condition says so, which the host then need not read.",
        ),
        strict=True,
    )
)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("walkthrough", Walkthrough)
    app.add_directive("pass-table", PassTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
