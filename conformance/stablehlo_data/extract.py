"""Converts a test of StableHLO's repository to three programs: its inputs, the computation, and the expected results.

A test is a function with constants, operations, and checks of their results. Here, its constants become parameters, so
that no implementation folds the test away, and its checks become results. MLIR's own bindings (in jaxlib) are used.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from refxla_spec.errors import InputError, UnsupportedError, plural

from .checks import ATTRIBUTES, Check


@dataclass(frozen=True)
class Test:
    """One test. `inputs` returns the arguments of `main`, `expected` the values against which its results are checked:
    MLIR bytecode of programs with a function @main. `devices` are its replicas and partitions, or None for a program
    for one device; otherwise arguments and results are those of each device in turn."""

    name: str
    inputs: bytes
    main: bytes
    expected: bytes
    checks: tuple[Check, ...]
    operations: tuple[str, ...]  # of main, sorted: "stablehlo.add", ...
    devices: tuple[int, int] | None = None


def context() -> Any:
    """An MLIR context with the dialects of StableHLO that accepts unknown ones. Raises InputError without jaxlib."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, stablehlo
    except ImportError as problem:
        raise InputError(f"reading StableHLO's tests needs jaxlib ({problem}): pip install 'refxla[jax]'") from None
    result, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    result.append_dialect_registry(registry)
    stablehlo.register_dialect(result)
    stablehlo.register_interpreter_dialect(result)
    chlo.register_dialect(result)
    result.load_all_available_dialects()
    result.allow_unregistered_dialects = True
    return result


def segments(text: str) -> list[str]:
    """The modules of a file, which may contain several."""
    return [s for s in text.split("// -----") if re.sub(r"//[^\n]*|\s", "", s)]


def tests(text: str) -> Iterator[Test | tuple[str, Exception]]:
    """The tests of one module, each as a Test or, if it cannot be split, as its name and the reason. Raises
    UnsupportedError for a text that MLIR rejects."""
    from jaxlib.mlir import ir

    with context():
        try:
            module = ir.Module.parse(generic(text))
        except ir.MLIRError as problem:
            raise UnsupportedError(f"jaxlib's MLIR refuses it: {_line(problem)}") from None
        names = [_name(f) for f in _functions(module.operation) if any(_checks(f))]
        for name in names:
            try:
                yield _take_apart(module, name)
            except (UnsupportedError, ir.MLIRError) as problem:
                yield name, UnsupportedError(_line(problem))


def _line(problem: Exception) -> str:
    lines = [x.strip() for x in str(problem).splitlines() if x.strip() and not x.startswith("Unable to parse")]
    return lines[0] if lines else type(problem).__name__


# The operations of the dialect `check`, which jaxlib does not have, in the form that needs no dialect --------------

_ATTRIBUTE = r"(?P<value>dense<.*?>)\s*:\s*(?P<type>tensor<(?:[^<>]|<[^<>]*>)*>)"
_TYPE = r"(?P<type>tensor<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)"
_OPTIONS = r"(?P<options>(?:,\s*\w+\s*=\s*(?:\"[^\"]*\"|[^\s,:}]+))*)"
_CONSTANT = re.compile(
    rf"check\.(?P<op>expect_\w*eq_const)\s+(?P<lhs>%[\w#]+),\s*{_ATTRIBUTE}{_OPTIONS}(?:\s*\{{(?P<braces>[^}}]*)\}})?",
    re.DOTALL,
)
_GENERIC = re.compile(
    r'"check\.(?P<op>expect_\w*eq_const)"\((?P<lhs>%[\w#]+)\) '
    rf"<\{{(?P<options>[^<>]*?)value = {_ATTRIBUTE}(?P<braces>)\}}> : \([^()]*\) -> \(\)"
)
_PAIR = re.compile(
    rf"check\.(?P<op>expect_\w+)\s+(?P<operands>%[\w#]+(?:,\s*%[\w#]+)?){_OPTIONS}\s*(?:\{{(?P<braces>[^}}]*)\}})?"
    rf"\s*:\s*{_TYPE}(?:,\s*tensor<(?:[^<>]|<[^<>]*>)*>)?"
)


def generic(text: str) -> str:
    """The text with its checks in the generic form of operations, and their expected values as constants."""
    count = itertools.count()

    def constant(m: re.Match[str]) -> str:
        name, kind = f"%expected_{next(count)}", m["type"]
        check = f'"check.{m["op"]}"({m["lhs"]}, {name}) {{{", ".join(_listed(m))}}} : ({kind}, {kind}) -> ()'
        return f"{name} = stablehlo.constant {m['value']} : {kind}\n{check}"

    def pair(m: re.Match[str]) -> str:
        count = m["operands"].count("%")
        return (
            f'"check.{m["op"]}"({m["operands"]}) {{{", ".join(_listed(m))}}} : ({", ".join([m["type"]] * count)}) -> ()'
        )

    return _PAIR.sub(pair, _CONSTANT.sub(constant, _GENERIC.sub(constant, text)))


def _listed(m: re.Match[str]) -> list[str]:
    parts = [part.strip() for part in (m["options"] or "").split(",")] + [(m["braces"] or "").strip()]
    return [part if ":" in part else f"{part} : i64" if part.endswith(tuple("0123456789")) and "." not in part else part
            for part in parts if part]  # fmt: skip


# Taking a function apart -------------------------------------------------------------------------------------------

# Operands that specify shapes, and must be constants of the program to have a meaning in HLO.
_SHAPES = {
    "stablehlo.dynamic_broadcast_in_dim": (1,),
    "stablehlo.dynamic_conv": (2,),
    "stablehlo.dynamic_gather": (2,),
    "stablehlo.dynamic_iota": (0,),
    "stablehlo.dynamic_pad": (2, 3, 4),
    "stablehlo.dynamic_reshape": (1,),
    "stablehlo.real_dynamic_slice": (1, 2, 3),
}


def _functions(module: Any) -> list[Any]:
    """The functions of a module, or of the one module in it."""
    functions = []
    for op in module.regions[0].blocks[0].operations:
        op = op.operation
        if op.name == "func.func":
            functions.append(op)
        elif op.name == "builtin.module":
            functions += _functions(op)
    return functions


def _name(function: Any) -> str:
    name: str = function.attributes["sym_name"].value
    return name


def _body(function: Any) -> Any:
    return function.regions[0].blocks[0]


def _checks(function: Any) -> Iterator[tuple[Any, str]]:
    """The checks of a function with their names."""
    if not len(function.regions[0].blocks):
        return
    for op in _body(function).operations:
        op = op.operation
        if op.name.startswith("check."):
            yield op, op.name.removeprefix("check.")
        elif op.name == "stablehlo.custom_call":
            target = op.attributes["call_target_name"].value
            if target.startswith("check."):
                yield op, target.removeprefix("check.")


def _is_given(value: Any) -> bool:
    """Whether a value is a constant, or the result of a function without arguments (JAX's tests: @inputs,
    @expected)."""
    owner = _owner(value)
    return owner is not None and owner.name in ("stablehlo.constant", "func.call") and not len(owner.operands)


def _owner(value: Any) -> Any:
    owner = value.owner
    return owner if hasattr(owner, "name") else getattr(owner, "operation", None) if hasattr(owner, "opview") else None


class _Parts:
    """A copy of a module, and in it the function of a test with the checked values."""

    def __init__(self, module: Any, name: str) -> None:
        self.root = module.operation.clone()
        self.function = next(f for f in _functions(self.root) if _name(f) == name)
        self.parent = self.function.parent
        self.body = _body(self.function)
        self.actual, self.expected, self.checks = [], [], []
        for op, kind in _checks(self.function):
            operands = list(op.operands)
            if len(operands) == 2 and _is_given(operands[0]) and not _is_given(operands[1]):
                operands.reverse()
            if kind == "expect_serialized_eq":
                raise UnsupportedError("a check of the files that StableHLO's interpreter writes")
            if len(operands) != 2:
                raise UnsupportedError(f"check.{kind} of {plural(len(operands), 'operand')}")
            attributes = {n: op.attributes[n] for n in ATTRIBUTES if n in op.attributes}
            self.actual.append(operands[0])
            self.expected.append(operands[1])
            self.checks.append(Check.of(kind, op.name.startswith("stablehlo."), attributes))

    def sources(self) -> list[Any]:
        """The inputs of the checked values: constants and results of functions without arguments, in their order."""
        needed, waiting = set(), [_owner(v) for v in self.actual]
        while waiting:
            op = waiting.pop()
            if op is None or _key(op) in needed:
                continue
            needed.add(_key(op))
            waiting += [_owner(v) for inner in _nested(op) for v in inner.operands]
        values = []
        for op in self.body.operations:
            op = op.operation
            if _key(op) in needed and op.results and _is_given(op.results[0]):
                values += [v for v in op.results if not _says_a_shape(v)]
        return values

    def finish(self, results: list[Any], function: Any = None) -> bytes:
        """The program that returns these values of the function, without anything else."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import func

        function = function or self.function
        body = _body(function)
        last = list(body.operations)[-1].operation
        if function is self.function:
            with ir.InsertionPoint(last), ir.Location.unknown():
                func.ReturnOp(results)
            last.erase()
            types = [v.type for v in results]
            for op in reversed(list(body.operations)):
                op = op.operation
                if op.name != "func.return" and not any(True for v in op.results for _ in v.uses):
                    op.erase()
        else:
            types = [v.type for v in last.operands]
        kind = ir.FunctionType.get([a.type for a in body.arguments], types)
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        for name in ("arg_attrs", "res_attrs", "sym_visibility"):
            if name in function.attributes:
                del function.attributes[name]
        self._keep(function)
        data = io.BytesIO()
        self.parent.write_bytecode(data)
        return data.getvalue()

    def _keep(self, function: Any) -> None:
        """Removes the functions that this one does not reach, and renames it to @main."""
        from jaxlib.mlir import ir

        functions = {_name(f): f for f in _functions(self.parent)}
        reached, waiting = set(), [_name(function)]
        while waiting:
            name = waiting.pop()
            if name in reached or name not in functions:
                continue
            reached.add(name)
            text = functions[name].get_asm(large_elements_limit=8)
            waiting += [a or b for a, b in re.findall(r'@(?:([\w.$-]+)|"([^"]+)")', text)]
        for name, other in functions.items():
            if name not in reached:
                other.erase()
        if _name(function) != "main":
            if "main" in reached:
                raise UnsupportedError("a test that calls another function called @main")
            function.attributes["sym_name"] = ir.StringAttr.get("main")


def _key(op: Any) -> int:
    return hash(op.operation)


def _nested(op: Any) -> Iterator[Any]:
    """An operation and all nested ones."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _nested(inner.operation)


def _says_a_shape(value: Any) -> bool:
    return any(use.operand_number in _SHAPES.get(use.owner.operation.name, ()) for use in value.uses)


def _take_apart(module: Any, name: str) -> Test:
    from jaxlib.mlir import ir

    parts = _Parts(module, name)
    parallel = [op.operation for op in parts.body.operations if op.operation.name == "interpreter.run_parallel"]
    program, grid = _programs(parallel[0]) if parallel else (name, None)
    if parallel:
        order = [_result_number(v, parallel) for v in parts.actual]
    main = _Parts(module, name)
    if parallel:
        function = next(f for f in _functions(main.root) if _name(f) == program)
        compiled = main.finish([], function)
    else:
        order = list(range(len(main.actual)))
        for value in main.sources():
            argument = main.body.add_argument(value.type, ir.Location.unknown())
            value.replace_all_uses_with(argument)
            main.actual = [argument if v == value else v for v in main.actual]
        compiled = main.finish(main.actual)
    operations = set(re.findall(r"\b(?:stablehlo|chlo)\.[a-z]\w*", main.parent.get_asm(large_elements_limit=8)))
    inputs = parts.finish(list(parallel[0].operands) if parallel else parts.sources())
    copy = _Parts(module, name)
    expected = copy.finish(copy.expected)
    checks = tuple(check.at(place) for check, place in zip(parts.checks, order, strict=True))
    boring = {"stablehlo.constant", "stablehlo.return"}
    return Test(name, inputs, compiled, expected, checks, tuple(sorted(operations - boring)), grid)


def _programs(op: Any) -> tuple[str, tuple[int, int]]:
    """The one function that all devices run, and the numbers of replicas and partitions."""
    if "infeed" in op.attributes:
        raise UnsupportedError("an infeed that the interpreter fills while it runs")
    rows = [[s.value for s in row] for row in op.attributes["programs"]]
    names = {name for row in rows for name in row}
    if len(names) != 1:
        raise UnsupportedError("devices that run different programs: an HLO module is one program for all")
    return names.pop(), (len(rows), len(rows[0]))


def _result_number(value: Any, parallel: list[Any]) -> int:
    for number, result in enumerate(parallel[0].results):
        if result == value and len(parallel) == 1:
            return number
    raise UnsupportedError("a check of what is computed from the results of several devices")
