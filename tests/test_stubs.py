"""The stubs of the core's modules say what the Cython files have: the same names, the same parameters."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

# Cases cost next to nothing here, and each holds a file of its own.
pytestmark = pytest.mark.whole
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


def fields_of(text: str, kind: str) -> set[str]:
    """What a .pxd shows of a class to Python: "readonly", or "public", which may be set."""
    rows = re.findall(rf"^    cdef {kind} (?:long long|\w+)(?:\[[^\]]*\])? ([\w, ]+)", text, re.MULTILINE)
    return {name.strip() for row in rows for name in row.split(",")}


def body_of(name: str, text: str) -> str:
    return re.findall(rf"^cdef class {name}:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)[0]


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_a_stub_says_what_the_file_has(stub):
    tree, text = ast.parse(stub.read_text()), stub.with_suffix(".pyx").read_text()
    contract = stub.with_suffix(".pxd")
    declared = contract.read_text() if contract.exists() else ""
    assert of_stub(tree.body) == {f: n for f, n in of_cython(text, "").items() if not f.startswith("_")}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        if f"cpdef enum {node.name}:" in declared:
            (body,) = re.findall(rf"^cpdef enum {node.name}:.*?\n(.*?)(?=^\S)", declared, re.MULTILINE | re.DOTALL)
            values = {n.targets[0].id: n.value.value for n in node.body if isinstance(n, ast.Assign)}
            assert values == {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)", body, re.MULTILINE)}
            continue
        written, there = of_stub(node.body), of_cython(body_of(node.name, text), "    ")
        there["__init__"] = max(there.get(name, 0) for name in ("__init__", "__cinit__"))  # of the two one takes all
        if "__init__" not in written:
            del there["__init__"]
        methods = there.keys() - {"__cinit__", "__dealloc__", "__getbuffer__", "__releasebuffer__"}
        own = body_of(node.name, declared) if f"cdef class {node.name}:" in declared else ""
        assert written.keys() == methods | fields_of(own, "readonly")
        assert all(written[name] == there[name] for name in methods if "pow" not in name)
        assert {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)} == fields_of(own, "public")


def test_every_module_of_the_core_has_a_stub():
    assert [path.stem for path in STUBS] == sorted(path.stem for path in CORE.glob("*.pyx"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_a_stub_has_the_names_that_the_module_has(stub):
    """Functions, classes and constants of the module's own, as it is when it was built and imported."""
    module = importlib.import_module(f"refxla._core.{stub.stem}")
    source = stub.with_suffix(".pyx").read_text()
    constants = {name for name in re.findall(r"^([A-Z][A-Z_]*) = ", source, re.MULTILINE) if hasattr(module, name)}
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    stated = set()
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            stated.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            stated.add(node.target.id)
    assert stated == {name for name in own if not name.startswith("_")} | constants
