"""The location of an event in the user's program."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

# Packages whose frames are not the user's. (Those of the standard library are: a function that it calls is located by
# its line.)
LIBRARIES = sys.stdlib_module_names | {
    "numpy", "scipy", "ml_dtypes", "jax", "jaxlib", "tensorflow", "keras", "torch", "pandas", "matplotlib", "sklearn",
    "refxla", "refxla_spec", "IPython", "pytest", "_pytest",
}  # fmt: skip
LIBRARIES -= {"__main__"}


def is_library(frame: types.FrameType) -> bool:
    """Whether a frame belongs to one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in LIBRARIES


def users_line() -> str:
    """The user's line that is running now, as a message's end; "" if there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame):
        frame = frame.f_back
    return "" if frame is None else _shown(frame.f_code, frame.f_lineno, frame.f_globals)


def called_function() -> str:
    """The function that the user's line called, and that led here, as written in the line: "np.vectorize"; "" if there
    is none, as for an operator."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame):
        frame = frame.f_back
    return ("" if frame is None else _call_at(frame)) or called_library()


def called_library() -> str:
    """The function of another library that the user's line called, and that led here, by its own name; "" if there is
    none, as for the line's own code, or compiled code that it called."""
    frame: types.FrameType | None = sys._getframe(1)
    called = None
    while frame is not None and is_library(frame):
        called, frame = frame, frame.f_back
    package = "" if called is None else str(called.f_globals.get("__name__", "")).partition(".")[0]
    if called is None or package == "refxla":
        return ""
    name = called.f_code.co_name
    if name.startswith("__"):  # a callable object
        name = type(called.f_locals.get("self")).__name__
    return f"{'np' if package == 'numpy' else package}.{name}"


def _call_at(frame: types.FrameType) -> str:
    """The name of the function that a frame is calling, as written in its source; "" if it has no name, or is
    unknown."""
    positions = getattr(frame.f_code, "co_positions", None)  # since Python 3.11
    if positions is None or frame.f_lasti < 0:
        return ""
    first, last, start, end = next(itertools.islice(positions(), frame.f_lasti // 2, None))
    if None in (first, last, start, end):
        return ""
    lines = [linecache.getline(frame.f_code.co_filename, n, frame.f_globals).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)):
        return ast.unparse(call.func)
    return ""


def line_of(problem: BaseException) -> str:
    """The user's innermost line in an error's traceback, as a message's end; "" if there is none."""
    line, trace = "", problem.__traceback__
    while trace is not None:
        if not is_library(trace.tb_frame):
            line = _shown(trace.tb_frame.f_code, trace.tb_lineno, trace.tb_frame.f_globals)
        trace = trace.tb_next
    return line


_CHANGING = {  # methods of lists, sets, dicts and deques
    "append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "pop", "popleft",
    "popitem", "remove", "discard", "clear", "sort", "reverse", "rotate",
}  # fmt: skip


def line_of_assignment(function: Callable[..., Any], name: str) -> str:
    """The line of a function that assigns a variable outside of it (`name`: "self.n", "table['x']"), as a message's
    end; "" if there is none in its own code, or its source is not there."""
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ""
    words = re.findall(r"[^\W\d]\w*", re.sub(r"\[.*", "", name))
    expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    places = [node.lineno for node in expressions if words and _assigns(node, words[-1])]
    return "" if code is None or not places else _shown(code, min(places) + first - 1)


def _assigns(node: ast.AST, word: str) -> bool:
    """Whether a part of a program assigns, or changes by one of its methods, what a word names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _CHANGING and _last_word(node.func.value) == word
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
        return False
    return _last_word(node.value if isinstance(node, ast.Subscript) else node) == word


def _last_word(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _shown(code: types.CodeType, line: int, namespace: dict[str, Any] | None = None) -> str:
    text = linecache.getline(code.co_filename, line, namespace).strip()
    return f"\n  {code.co_filename}:{line}, in {code.co_name}" + (f": {text}" if text else "")
