"""The house rules of docs/design.md, read off the sources: who may import whom.

Every import counts: at module level, inside functions, under TYPE_CHECKING, and in Cython's .pyx and .pxd.
"""

import ast
import re
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

from refxla.ir.op_table import ROWS

# Cases cost next to nothing here, and each holds a file of its own.
pytestmark = pytest.mark.whole
ROOT = Path(__file__).parent.parent
STANDARD = set(sys.stdlib_module_names)
MAY_IMPORT = {
    "spec": STANDARD | {"numpy", "ml_dtypes", "refxla_spec"},
    "refxla": STANDARD | {"numpy", "ml_dtypes", "pyopencl", "google", "rich", "platformdirs", "refxla_spec", "refxla"},
}
# Packages that only these files or folders need: frameworks, LAPACK, and what fits the prelude's polynomials.
ONLY_IN = {
    "jax": (
        "refxla/frontends/buffer_callbacks.py",
        "refxla/frontends/eager_shard_map.py",
        "refxla/frontends/jax.py",
        "refxla/frontends/jax_lowerings.py",
        "refxla/frontends/jax_stages.py",
        "refxla/pjrt/",
    ),
    "jaxlib": ("refxla/frontends/stablehlo_child.py", "refxla/pjrt/"),
    "scipy": ("refxla/_core/lapack.pyx", "refxla/frontends/host_linalg.py"),
    "tensorflow": ("refxla/frontends/tensorflow/",),
    "keras": ("refxla/frontends/tensorflow/",),
    "torch": ("refxla/frontends/torch/",),
    "functorch": ("refxla/frontends/torch/",),
    "mpmath": (
        "refxla/codegen/polynomial_fit.py",
        "refxla/codegen/prelude/coefficients.py",
        "refxla/frontends/special/coefficients.py",
    ),
}
CYTHON_OWN = {"cython", "cpython", "libc", "posix"}  # declarations that come with Cython

# The layers of refxla/, the lowest first, each with the modules and packages that belong to it: what is in one imports
# from its own layer and from those before it. A name of the table holds for all that lies below it, unless a longer
# name of the table says otherwise.
LAYERS: dict[str, tuple[str, ...]] = {
    "base": ("version", "progress", "checkout", "files", "typing"),
    "ir": ("ir", "_core", "_core.shapes", "_core.shape_rules", "_core.shape_structured"),
    "device": ("device",),
    "analysis": ("analysis",),
    "passes": ("passes",),
    "scheduling": (
        "scheduling",
        "_core.graph",
        "_core.index_maps",
        "_core.node_facts",
        "_core.reachability",
        "_core.groups",
        "_core.fusion_costs",
        "_core.sibling_fusion",
        "_core.fusion",
        "_core.topological_order",
        "_core.buffer_offsets",
    ),
    "codegen": ("codegen",),
    "runtime": (
        "runtime",
        "_core.opencl",
        "_core.executor",
        "_core.launch",
        "_core.library_call",
        "_core.plan_code",
        "_core.tables",
        "_core.lapack",
        "_core.batched_lapack",
        "_core.thread_pool",
        "_core.buffer_pool",
        "_core.device_memory",
        "_core.arguments",
        "_core.argument_aliasing",
        "_core.device_arguments",
        "_core.calls",
        "_core.errors",
        "_core.storage",
        "_core.releases",
        "_core.dlpack",
        "_core.execution",
        "_core.array",
        "_core.pjrt",
        "_core.pjrt_interface",
        "_core.pjrt_objects",
        "_core.pjrt_client",
        "_core.pjrt_executable",
        "_core.ffi_interface",
        "_core.foreign_functions",
    ),
    "compiler": ("compiler",),
    "frontends": ("frontends", "pjrt"),
    "public": ("", "api", "array_api", "random", "tensorflow"),  # refxla/__init__.py
    "cli": ("cli", "__main__"),
}
RANK = {name: rank for rank, names in enumerate(LAYERS.values()) for name in names}


def sources(*folders: str) -> list[Path]:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in files if path.suffix in (".py", ".pyx", ".pxd"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a Python file, the module first; of one in Cython, those of its imports. Several tests read it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":  # only the imports are Python's syntax; a parenthesis carries one over several lines
        statement = r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?c?import[ \t]+(?:\([^)]*\)|[^(\n]+))"
        found = re.findall(statement, text, re.MULTILINE)
        text = "\n".join(re.sub(r"\bcimport\b", "import", line) for line in found)
    return list(ast.walk(ast.parse(text)))


def import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import of a file, wherever in it; a cimport is an import."""
    for node in nodes(path):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


def imported(path: Path) -> set[str]:
    """The top-level names of everything that the file imports."""
    names = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def module_name(path: Path) -> str:
    """refxla/ir/plan.py is ir.plan, refxla/__init__.py is the empty name."""
    parts = path.relative_to(ROOT / "refxla").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def import_graph() -> dict[str, set[str]]:
    """Each module of refxla/ with those that it imports. A .pyx and its .pxd are one module."""
    paths = [(module_name(path), path) for path in sources("refxla")]
    graph: dict[str, set[str]] = {name: set() for name, _ in paths}
    for name, path in paths:
        for node in import_statements(path):
            graph[name] |= _modules(node, name, path.stem == "__init__", graph.keys()) - {name}
    return graph


def _modules(node: ast.Import | ast.ImportFrom, importer: str, package: bool, known: Set[str]) -> set[str]:
    """The modules of refxla/ that a statement names: `from .a import b` is a.b where there is such a module, else a."""
    if isinstance(node, ast.Import):
        names = (alias.name.partition(".") for alias in node.names)
        return {rest for top, _, rest in names if top == "refxla"}
    if node.level:
        parts = importer.split(".") if importer else []
        base = parts[: len(parts) + package - node.level]
    else:
        top, *base = node.module.split(".")
        if top != "refxla":
            return set()
    origin = ".".join(base + (node.module.split(".") if node.level and node.module else []))
    inner = (f"{origin}.{alias.name}".lstrip(".") for alias in node.names)
    return {name if name in known else origin for name in inner}


def layer_of(module: str) -> int:
    """The rank of the longest name of the table that the module has or lies below."""
    if not module:
        return RANK[""]
    parts = module.split(".")
    return next(RANK[name] for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK)


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other (the strongly connected components of more than one)."""
    reach = {}
    for start in graph:
        reached, waiting = set(), [start]
        while waiting:
            new = graph[waiting.pop()] - reached
            reached |= new
            waiting += new
        reach[start] = reached
    circles = {frozenset(m for m in reach[n] if n in reach[m]) for n in graph if n in reach[n]}
    return sorted((set(circle) for circle in circles), key=sorted)


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_each_room_imports_only_what_it_may(folder):
    strangers = {}
    for path in sources(folder):
        name = str(path.relative_to(ROOT))
        allowed = MAY_IMPORT[folder] | {package for package, places in ONLY_IN.items() if name.startswith(places)}
        if path.suffix != ".py":
            allowed |= CYTHON_OWN
        if found := imported(path) - allowed:
            strangers[name] = found
    assert not strangers


def test_relative_imports_stay_in_their_room():
    """`from ..x import y` may not climb out of spec/ or refxla/."""
    for path in sources("spec", "refxla"):
        depth = len(path.relative_to(ROOT).parents) - 1
        for node in import_statements(path):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= depth, f"{path}:{node.lineno}"


def test_every_import_goes_down_the_layers():
    graph = import_graph()
    upward = {f"{a} -> {b}" for a in graph for b in graph[a] if layer_of(b) > layer_of(a)}
    assert not upward


def test_emitters_and_the_scheduler_know_nothing_of_each_other():
    """The scheduler is given a function that emits a fusion; what both have to know is in the layers before them."""
    graph = import_graph()
    emitters = {a for a in graph if layer_of(a) == RANK["codegen"]}
    known = {f"{a} -> {b}" for a in emitters for b in graph[a] if layer_of(b) == RANK["scheduling"]}
    assert len(emitters) > 50 and not known


def test_no_files_import_each_other():
    assert not cycles(import_graph())


def test_names_are_imported_from_the_file_that_defines_them():
    """A reader of an import finds the definition behind it; a package's __init__ alone passes names on."""
    files = {module_name(path): path for path in sources("refxla") if path.suffix == ".py"}
    passed_on = {
        name: {alias.asname or alias.name for node in import_statements(path) for alias in node.names}
        - set(defined_names(path))
        for name, path in files.items()
        if path.stem != "__init__"
    }
    found = []
    for importer, path in files.items():
        for node in (n for n in import_statements(path) if isinstance(n, ast.ImportFrom)):
            for alias in node.names:
                alone = ast.ImportFrom(node.module, [alias], node.level)
                for origin in _modules(alone, importer, path.stem == "__init__", files.keys()):
                    if alias.name in passed_on.get(origin, ()) and not origin.endswith(f".{alias.name}"):
                        found.append(f"{path}:{node.lineno}: {alias.name} is not defined in {origin}")
    assert not found


# OpenCL C is written in codegen alone. A statement in a string of a layer before it would be C; docstrings may name it.
BEFORE_CODEGEN = ("ir", "analysis", "passes", "scheduling")
C_TEXT = re.compile(r"__(?:global|private|kernel|local)\b|\brx_\w|\b(?:for|while|if|switch) \(|;\n|;$|[;)] [{}]")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each string of a Python file that is no docstring, of an f-string each piece of text."""
    statements = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


def test_opencl_c_is_written_in_codegen_alone():
    files = [path for room in BEFORE_CODEGEN for path in sources(f"refxla/{room}") if path.suffix == ".py"]
    found = [f"{path}:{line}: {text!r}" for path in files for line, text in texts(path) if C_TEXT.search(text)]
    assert files and not found
    emitter = ROOT / "refxla" / "codegen" / "merged_kernel_emitter.py"  # what would be found
    assert sum(bool(C_TEXT.search(text)) for _, text in texts(emitter)) > 20


# Emitters and the scheduler know as data what could be read off C: the name of an index (Index.name), what a fusion
# reads and stores (AccessPattern), how much code a kernel is (Kernel.code_size, which the registry of emitters sets).
READS_C = re.compile(
    r"\.isidentifier\(|factor\(c_of\(|\bhead\.startswith\(|\be\.(?:stores|accesses)\b|len\([\w.]+\.body\)"
)


# A kind of device is a value of Capabilities (device/capabilities.py): code is generated by what a device can do.
ASKS_FOR_A_KIND = re.compile(
    r"\btarget\.kind\b|\btarget\.clang\b|\bcapabilities (?:is|==|!=|in) |capabilities\.emitters"
)


def test_code_is_generated_by_capabilities():
    found = []
    for path in sources("refxla/analysis", "refxla/scheduling", "refxla/codegen", "refxla/compiler"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if ASKS_FOR_A_KIND.search(line) and path.name != "emitter_registry.py":
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


def test_nothing_is_decided_by_the_c_text_of_another():
    found = []
    for path in sources("refxla/ir", "refxla/analysis", "refxla/scheduling", "refxla/codegen"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if READS_C.search(line) and path.name != "emitter_registry.py":
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


MOST_OPCODES = 4  # of a set that is about C: its operators, the bits of small integers


def test_facts_of_operations_are_columns_of_the_table():
    """A set of many opcodes in an emitter is something that the compiler knows of each operation."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("refxla/codegen")
        if path.suffix == ".py"
        for node in nodes(path)
        if isinstance(node, ast.Set)
        and sum(isinstance(e, ast.Constant) and e.value in ROWS for e in node.elts) > MOST_OPCODES
    ]
    assert not found


# What takes a text apart.
TAKES_APART = re.compile(r"\.(?:r?split|r?partition|removesuffix|removeprefix|splitlines)\(")
OF_OTHER_TEXTS = {
    "prelude_templates.py": "the prelude's own files",
    "function_library.py": "the parameters of functions in the prelude's own files, and of library functions",
    "size_variables.py": "whole functions, when all are emitted: their numbers become variables",
    "scalar.py": "the digits of a number",
    "polynomial_fit.py": "the digits of a number",
    "fft/fft.py": "the name of a function that is given as its whole text",
    "products/tile.py": "the number of a vector, from the name of a sum, which the same class gives",
}


def test_emitters_take_no_c_apart():
    """What was put together is passed on in its parts: a name and its dimensions, a place and its component."""
    folder = ROOT / "refxla" / "codegen"
    found = {
        str(path.relative_to(folder))
        for path in sources("refxla/codegen")
        if TAKES_APART.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(OF_OTHER_TEXTS)


def test_links_stay_in_the_repository():
    """A checkout is complete wherever it lies: no link names a place on one machine."""
    top = [p for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name not in ("build", "shared")]
    links = [path for folder in top for path in folder.rglob("*") if path.is_symlink()]
    inside = [path for path in links if not path.readlink().is_absolute() and path.resolve().is_relative_to(ROOT)]
    assert [str(path) for path in links if path not in inside] == [] and inside  # typings/ has some


def test_every_import_is_read(tmp_path):
    """The reader of imports sees those in functions, under TYPE_CHECKING, over several lines, and Cython's."""
    python = tmp_path / "a.py"
    python.write_text(
        "import os\nif TYPE_CHECKING:\n    from .b import c\ndef f():\n    from . import (\n        d,\n    )\n"
    )
    assert sorted(ast.unparse(n) for n in import_statements(python)) == [
        "from . import d",
        "from .b import c",
        "import os",
    ]
    cython = tmp_path / "a.pyx"
    cython.write_text(
        "cimport cython\nfrom libc.stdint cimport int32_t\nfrom refxla._core.b cimport (\n    C,  # why\n    D,\n)\n"
        "cdef int f(int x) except -1:\n    from refxla.c import d\n    return x\n"
    )
    assert sorted(ast.unparse(n) for n in import_statements(cython)) == [
        "from libc.stdint import int32_t",
        "from refxla._core.b import C, D",
        "from refxla.c import d",
        "import cython",
    ]


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}}) == [{"b", "c"}, {"d"}]


def test_the_types_of_every_module_are_checked():
    """mypy is strict with every module of ours, save that what NumPy, PyTorch and the builder return may be Any where
    that is declared as an array; a line that passes over an error names it and says why."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings, *overrides = text[text.index("[tool.mypy]") :].partition("\n[tool.cython-lint]")[0].split("[[tool.mypy")
    assert "strict = true" in settings and "disable_error_code" not in text and "ignore_errors" not in text
    ours = [o for o in overrides if re.search(r'"(refxla|refxla_spec|refxla_conformance|bench)\b', o)]
    options = {line for o in ours for line in o.splitlines() if " = " in line and not line.startswith("module")}
    assert options == {"warn_return_any = false"}
    modules = re.findall(r'"((?:refxla|bench)[\w.*]*)"', "".join(ours))
    assert modules == ["refxla_spec.*", "refxla.frontends.torch.*", "refxla.frontends.numpy.*"]
    blanket = re.compile(r"type: ignore(?!\[[a-z, -]+\]  # )")
    found = [
        str(path)
        for path in sources("refxla", "spec", "conformance", "bench")
        if blanket.search(path.read_text(encoding="utf-8"))
    ]
    assert not found


# Names that several files define on purpose, with these files and the reason.
TWINS: dict[str, tuple[set[str], str]] = {
    "TiledTranspose": ({"codegen.gpu.tiled_transpose", "codegen.loops.tiled_transpose"}, "one for each kind of device"),
    **dict.fromkeys(
        ("Lowering", "NotLowered"),
        ({"frontends.tensorflow.lowering", "frontends.torch.lowering"}, "the same role in two front ends"),
    ),
    "Report": ({"frontends.tensorflow.report", "frontends.torch.report"}, "the same role in two front ends"),
    "Launch": ({"_core.launch", "ir.plan"}, "a step of the plan, and that step as numbers"),
    "LibraryCall": ({"_core.library_call", "ir.plan"}, "a step of the plan, and that step as numbers"),
    "Buffer": ({"_core.pjrt_objects", "ir.plan"}, "what PJRT calls so"),
    "Device": ({"_core.pjrt_objects", "runtime.devices"}, "what PJRT calls so"),
    "Memory": ({"_core.pjrt_objects", "runtime.result_memory"}, "what PJRT calls so"),
    "Executable": ({"_core.pjrt_executable", "runtime.executable"}, "what PJRT calls so"),
    "Program": ({"_core.pjrt_interface", "codegen.opencl_program"}, "what PJRT calls so"),
    "Value": ({"_core.pjrt_interface", "frontends.tensorflow.graph"}, "what PJRT calls so"),
    "Descr": ({"_core.arguments", "_core.calls"}, "NumPy's PyArray_Descr, declared where it is used"),
}
CLASS = re.compile(r"^[ \t]*(?:(?:cdef|cpdef|ctypedef|packed) )*(?:class|struct|enum|union) ([A-Z]\w*)", re.MULTILINE)


def test_no_two_files_have_a_class_of_one_name():
    """A name means one thing, wherever in refxla/ it is read. Names with an underscore are seen in their own file."""
    found: dict[str, set[str]] = {}
    for path in sources("refxla"):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(module_name(path))
    assert {name: files for name, files in found.items() if len(files) > 1} == {
        n: files for n, (files, _) in TWINS.items()
    }


def test_every_class_says_what_it_is():
    """In its docstring, private ones, too: a reader meets a class before its methods."""
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources("refxla", "spec")
        if path.suffix == ".py"
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and not ast.get_docstring(node)
    ]
    assert not found


# Names that say nothing of what they stand for: participles and prepositions as nouns, and metaphors.
NO_NOUNS = {
    *("ahead", "beside", "fetched", "found", "given", "held", "kept", "known", "late", "made", "near", "taken", "told"),
    *("together", "turned", "walked", "bands", "crew", "door", "doors", "hands", "house", "room", "slabs", "teams"),
}


def defined_names(path: Path) -> Iterator[str]:
    """Functions, parameters, classes, attributes, fields and the constants of a module, but no local variables."""
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    for scope in (n for n in nodes(path) if isinstance(n, (ast.Module, ast.ClassDef))):
        for node in scope.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            yield from (t.id for t in targets if isinstance(t, ast.Name))


def test_what_is_defined_is_named_by_a_noun_or_a_verb():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("refxla", "spec", "conformance", "bench", "docs/_ext")
        for name in (defined_names(path) if path.suffix == ".py" else ())
        if name.strip("_").lower() in NO_NOUNS
    }
    for path in sources("refxla/_core"):
        text = path.read_text(encoding="utf-8")
        cython = re.findall(r"^ *c?p?def [^=(\n]*?(\w+)\(", text, re.MULTILINE) + CLASS.findall(text)
        if path.suffix == ".pxd":
            cython += re.findall(r"^ +(?!.*\()[\w *\[\],:<>]*[ *](\w+)(?:\[\w*\])?(?: *#.*)?$", text, re.MULTILINE)
        found |= {f"{path.relative_to(ROOT)}: {name}" for name in cython if name.strip("_").lower() in NO_NOUNS}
    assert not found


# Words that were names once, where the glossary has another one, with the folders where they mean nothing else.
RETIRED = {
    r"helpers?\b|[-_]helper": ("compile worker", ("refxla/runtime",)),
    r"\b(?:one|each|first|last|next|per) turns?\b|\bturned_": ("iteration", ("refxla", "docs/_ext")),
    r"\b(?:bands|slabs|crew|abreast|own_fills|dead_code)\b": (
        "a term of docs/glossary.md",
        ("refxla", "bench", "docs"),
    ),
    r"\bahead *[:=]": ("parallel_build", ("refxla/runtime", "refxla/compiler")),
}


@pytest.mark.parametrize("word", RETIRED)
def test_no_retired_word_comes_back(word):
    term, folders = RETIRED[word]
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"] if "docs" in folders else []  # what is written by hand
    found = []
    for path in (*sources(*folders), *pages):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(word, text):
            found.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]} ({term})")
    assert not found
