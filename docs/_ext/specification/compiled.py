"""How the compiler does an operation: its row of `refxla/ir/op_table.py`, and the file that emits or expands it."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from refxla_spec.operation import operations
from refxla_spec.text import parse

from refxla.codegen.emitter_registry import place
from refxla.ir import op_table
from refxla.passes import call_inliner, collective_lowering, expanders, pipeline

_FOLDERS = {"refxla_spec": "spec", "refxla": "refxla"}  # of each package, as in setup.py


def path_of(thing: object) -> str:
    """The file that defines something, from the root of the repository."""
    package = inspect.getmodule(thing).__name__.split(".")[0]
    file = Path(inspect.getsourcefile(inspect.unwrap(thing))).resolve()  # type: ignore[arg-type]
    return f"{_FOLDERS[package]}/{file.relative_to(Path(sys.modules[package].__file__).resolve().parent)}"


def _meanings() -> dict[str, str]:
    """Of each class of operations what it is, from the comments in the table's own file."""
    return dict(re.findall(r'^[A-Z]+ = "(\w+)"  # (.+)$', inspect.getsource(op_table), re.M))


def how(opcode: str) -> str:
    """What becomes of the operation in the compiler, as one paragraph of Markdown."""
    row, sentences = op_table.ROWS.get(opcode), []
    if opcode in call_inliner.INLINED:
        sentences.append(
            f"The computation is put in its place before anything else is done (`{path_of(call_inliner.run)}`)."
        )
    if expansion := expanders.EXPANSIONS.get(opcode) or collective_lowering.EXPANSIONS.get(opcode):
        file = path_of(expansion)
        where = " where no emitter takes it as it is" if row else ""
        sentences.append(f"It is expanded into other operations{where}, in `{file}`.")
    if row:
        sentences.append(f"Its class is *{row.op_class}*: {_meanings().get(row.op_class, '')}.")
        if row.kind:
            module, function = place(row.kind)
            file = f"refxla/codegen/{module.replace('.', '/')}.py"
            sentences.append(f"`{function}` of `{file}` writes its kernels.")
            fused = [n for n, is_so in (("producers", row.fuses_operands), ("users", row.fuses_users)) if is_so]
            sentences.append(
                f"{' and '.join(fused).capitalize()} join its kernel." if fused else "Nothing joins its kernel."
            )
        if row.op_class in (op_table.ELEMENTWISE, op_table.MOVEMENT):
            sentences.append("It joins any kernel that wants its value.")
        laws = [n for n, holds in (("commutative", row.commutative), ("associative", row.associative)) if holds]
        if laws:
            sentences.append(f"On integers and pred the passes take it as {' and '.join(laws)}.")
        sentences.append(f"An element costs about {row.flops:g} addition{'s' * (row.flops != 1)}.")
    return " ".join(sentences) or _tried(opcode)


def _tried(opcode: str) -> str:
    """What the compiler makes of an example of an operation that neither row nor expansion names."""
    for example in operations()[opcode].examples:
        module = parse(example.hlo)
        try:
            for i in (i for c in pipeline.optimize(module).computations for i in c.instructions):
                op_table.row(i)
        except Exception:  # however it ends, the compiler does not take this program
            continue
        for name, run in pipeline.PASSES:
            run(module)
            if not any(i.opcode == opcode for c in module.computations for i in c.instructions):
                return f"It is gone after the pass `{name}` (`{path_of(run)}`)."
    return "The compiler refuses it with an `UnsupportedError` that names it; the reference runs it."
