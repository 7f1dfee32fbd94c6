"""What users call has types: `Any` in its annotations is counted, and each that is left has its reason.

mypy holds the types themselves, in typings/program_of_a_user.py.
"""

import ast
import functools
import inspect
import re
import types
from pathlib import Path

import pytest

import refxla
from refxla.analysis.cost_analysis import Cost
from refxla.api import CompiledFunction, CompiledMethod
from refxla.compiler.explanation import Explanation
from refxla.compiler.kernel_profile import Profile
from refxla.frontends.saved import SavedFunction
from refxla.runtime.devices import Device
from refxla.runtime.result_memory import Memory

pytestmark = pytest.mark.whole
CORE = Path(refxla.__file__).parent / "_core"
ANY = re.compile(r"\bAny\b")
LEFT = {
    # Two names for what no type says: refxla/typing.py.
    "typing.Result": "an array or a tuple of arrays",
    "typing.Tree": "a nesting of arrays",
}


def annotations(value: object) -> list[str]:
    """The annotations of a function, a property or a class's own fields, as they are written."""
    if isinstance(value, property):
        value = value.fget
    value = inspect.unwrap(getattr(value, "func", value))  # of cached_property
    found = getattr(value, "__annotations__", {})
    return [a if isinstance(a, str) else inspect.formatannotation(a) for a in found.values()]


def members(kind: type) -> dict[str, list[str]]:
    """The annotations of all that a class has and that users see, also of its bases that are refxla's."""
    found: dict[str, list[str]] = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("refxla"):
            continue
        if base.__module__.startswith("refxla._core"):
            found |= stub_members(base)
            continue
        found[f"{base.__name__}"] = annotations(base)
        for name, value in vars(base).items():
            if isinstance(value, (types.FunctionType, property, functools.cached_property, classmethod, staticmethod)):
                if not name.startswith("_") or name in ("__init__", "__call__", "__get__", "__getitem__"):
                    inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                    found[f"{base.__name__}.{name}"] = annotations(inner)
    return found


def stub_members(kind: type) -> dict[str, list[str]]:
    """Of a class of the core, which has its annotations in a stub."""
    stub = CORE / f"{kind.__module__.rpartition('.')[2]}.pyi"
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    (node,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    functions = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    return {
        f"{kind.__name__}.{f.name}": [
            ast.unparse(a)
            for a in (f.returns, *(x.annotation for x in ast.walk(f.args) if isinstance(x, ast.arg)))
            if a is not None
        ]
        for f in functions
    }


def public() -> dict[str, list[str]]:
    """All that users call, by its name: what the packages list, and the classes that these give."""
    import refxla.typing
    from refxla import array_api, random

    spaces = {"": refxla, "random.": random, "array_api.": array_api, "array_api.fft.": array_api.fft}
    spaces |= {"array_api.linalg.": array_api.linalg}
    found: dict[str, list[str]] = {}
    for prefix, space in spaces.items():
        for name in space.__all__:
            value = getattr(space, name)
            if isinstance(value, type):
                found |= members(value)
            elif callable(value):
                found[prefix + name] = annotations(value)
    for kind in (CompiledFunction, CompiledMethod, SavedFunction, Cost, Device, Explanation, Memory, Profile):
        found |= members(kind)
    source = Path(refxla.typing.__file__).read_text(encoding="utf-8")
    found |= {f"typing.{name}": ["Any"] for name in re.findall(r"^(\w+): TypeAlias = Any$", source, re.MULTILINE)}
    return found


def test_any_is_left_only_where_no_type_says_what_a_value_is():
    found = public()
    assert len(found) > 200
    untyped = {name for name, texts in found.items() if any(ANY.search(text) for text in texts)}
    assert untyped == set(LEFT)


def test_the_functions_for_tensorflow_have_types():
    """Read as text, since TensorFlow may not be there."""
    tree = ast.parse((CORE.parent / "tensorflow.py").read_text(encoding="utf-8"))
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    assert functions and not [f.name for f in functions if ANY.search(ast.unparse(f.args) + ast.unparse(f.returns))]


def test_what_the_stub_of_a_namespace_cannot_say_is_in_its_source():
    """mypy sees the names that files define, and no others: none is made at run time."""
    from refxla import array_api
    from refxla.frontends.numpy import array_api as array_api_files

    folder = Path(array_api.__file__).parent / "frontends" / "numpy" / "array_api"
    defined = set()
    for path in folder.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                defined.add(node.name)
            elif isinstance(node, ast.Assign):
                defined |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    lists = [getattr(array_api_files, name).__all__ for name in ("creation", "elementwise", "functions")]
    assert {name for names in lists for name in names} < set(array_api.__all__)
    assert set(array_api.__all__) - defined == {"linalg", "e", "inf", "nan", "pi"}  # imported by their names
