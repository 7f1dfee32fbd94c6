"""The text of a module as the passes leave it: valid, read back as the same module, and read by XLA."""

from functools import cache

import pytest
from refxla_conformance.cases import Case, collect
from refxla_spec import equality
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Module
from refxla_spec.text import parse
from refxla_spec.verify import verify

from refxla.passes.pipeline import optimize


@cache
def optimized() -> tuple[tuple[str, Module], ...]:
    """One program of each operation and kind of case, and of each target of a custom call."""
    chosen: dict[tuple[str, str, str], Case] = {}
    for case in collect(kinds=("example", "structured")):
        if not case.is_negative and case.devices == 1:
            root = next((i for i in case.module.entry.instructions if i.opcode == "custom-call"), None)
            chosen.setdefault((case.kind, case.opcode, root.custom_call_target if root else ""), case)
    found = []
    for case in chosen.values():
        try:
            found.append((case.name, optimize(case.module)))
        except UnsupportedError:
            continue
    return tuple(found)


def test_optimized_modules_are_valid_and_read_back():
    assert len(optimized()) > 180
    assert sum(len(m.computations) > 2 for _, m in optimized()) > 20
    for name, module in optimized():
        again = parse(str(module))
        verify(again)
        assert equality.difference(module, again) is None, name


def test_xla_reads_optimized_modules():
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    for name, module in optimized():
        assert oracle.xla_parses(oracle.written(module)), name
