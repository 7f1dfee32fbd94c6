"""The stubs of the core's modules say what the Cython files have: the same names, the same parameters."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "refxla" / "_core"
DEFINITION = r"^{indent}(?:cpdef \w+ |def )(\w+)\((.*?)\)(?: ->[^\n]*?)?(?: noexcept| except[^:]*)?:\n"
STUBS = sorted(CORE.glob("*.pyi"))


def of_stub(body: list[ast.stmt]) -> dict[str, int]:
    """Functions by their names, with how many parameters they have."""
    return {
        f.name: len(f.args.posonlyargs + f.args.args + f.args.kwonlyargs) + bool(f.args.vararg) + bool(f.args.kwarg)
        for f in body
        if isinstance(f, ast.FunctionDef)
    }


def of_cython(text: str, indent: str) -> dict[str, int]:
    found = re.findall(DEFINITION.format(indent=indent), text, re.MULTILINE | re.DOTALL)
    bare = ((name, re.sub(r"\[[^\]]*\]", "", given)) for name, given in found)  # of a type, what it is of
    return {name: len([p for p in given.split(",") if p.strip() not in ("", "*", "/")]) for name, given in bare}


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_a_stub_says_what_the_file_has(stub):
    tree, text = ast.parse(stub.read_text()), stub.with_suffix(".pyx").read_text()
    assert of_stub(tree.body).items() <= of_cython(text, "").items()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            (body,) = re.findall(rf"^cdef class {node.name}:\n(.*?)(?=^\S)", text, re.MULTILINE | re.DOTALL)
            written, there = of_stub(node.body), of_cython(body, "    ")
            fields = re.findall(r"cdef readonly \w+ (\w+)", stub.with_suffix(".pxd").read_text())
            public = {name for name in there if name not in ("__init__", "__dealloc__", "__getbuffer__")}
            assert written.keys() == public | set(fields)
            assert all(written[name] == there[name] for name in public if "pow" not in name)


def test_every_module_that_shows_types_is_read():
    assert {"array", "shapes"} <= {path.stem for path in STUBS}
