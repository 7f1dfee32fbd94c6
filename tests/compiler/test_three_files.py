"""Adding an elementwise operation is one file of the specification, one row of the table, and its code.

What else may name it holds no knowledge of how it is compiled: HLO's own list of opcodes, the accuracy contract and
what its proof must know of the function, and what frameworks call it. A file names an operation where its opcode stands
in one of the file's strings; C is the code.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from refxla.ir.op_table import ROWS

# Cases cost next to nothing here, and each holds a file of its own.
pytestmark = pytest.mark.whole
ROOT = Path(__file__).parents[2]
ELSEWHERE = (
    "spec/grammar.py",
    "spec/releases.py",
    "spec/accuracy.py",
    "spec/bounds.py",
    "spec/sampling.py",
    "refxla/frontends/",
    "refxla/ir/proto",
    "refxla/ir/hlo_schema.py",
    "refxla/cli/",
)
CODE = {"refxla/codegen/scalar.py", "refxla/codegen/prelude/coefficients.py"}
# Not those about which the algebra of the passes knows something, nor words that mean other things too.
OTHERS = "negate not sign ceil floor sqrt log".split()
OPCODES = [r.opcode for r in ROWS.values() if r.shape in ("unary", "test") and r.opcode not in OTHERS]
OPCODES += ["atan2", "mulhi", "shift-right-arithmetic"]


@cache
def strings() -> dict[str, str]:
    """By file, its string literals without the docstrings."""
    found = {}
    for path in (p for folder in ("spec", "refxla") for s in ("py", "pyx") for p in (ROOT / folder).rglob(f"*.{s}")):
        text = re.sub(r'"""[\s\S]*?"""|#.*|\.attributes\["[^"]*"\]', "", path.read_text())
        found[str(path.relative_to(ROOT))] = "\n".join(re.findall(r'"[^"\n]*"', text))
    return found


@pytest.mark.parametrize("opcode", OPCODES)
def test_an_operation_is_named_in_three_files(opcode):
    own = f"spec/ops/{opcode.replace('-', '_')}"
    word = re.compile(rf"(?<![\w-]){re.escape(opcode)}(?![\w(-])")
    naming = {f for f, text in strings().items() if word.search(text) and not f.startswith((*ELSEWHERE, own))}
    assert (ROOT / f"{own}.py").exists() or (ROOT / f"{own}_.py").exists()
    assert "refxla/ir/op_table.py" in naming
    assert not naming - CODE - {"refxla/ir/op_table.py"}, f"{opcode} is named in {naming}"


# An operation that has an emitter of its own: its meaning, its row, its shape rule, its emitter, and passes about it.
PROGRAMS = ("refxla/passes/expanders/", "refxla/ir/builder.py")  # write programs of it, and know nothing of its code
STRUCTURED = [r.opcode for r in ROWS.values() if r.emitter]


@pytest.mark.parametrize("opcode", STRUCTURED)
def test_a_structured_operation_is_named_in_eight_files(opcode):
    """Its file in the specification among them."""
    word = re.compile(rf"(?<![\w-]){re.escape(opcode)}(?![\w(-])")
    naming = {f for f, text in strings().items() if word.search(text) and not f.startswith((*ELSEWHERE, *PROGRAMS))}
    naming = {f for f in naming if not f.startswith("spec/")} | {f"spec/ops/{opcode.replace('-', '_')}.py"}
    assert "refxla/ir/op_table.py" in naming
    assert len(naming) <= 8, f"{opcode} is named in {sorted(naming)}"
