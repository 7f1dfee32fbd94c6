"""A fail as one file: a Python script that runs the case on the target again, and shows the error.

The script contains the program, the inputs and the expected results, bit for bit, and the maximum error of each
element: it needs neither the suite's cases nor the reference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from refxla_spec.errors import Error
from refxla_spec.types import ELEMENT_TYPES, Shape, Value

from refxla.files import write_whole

from .case_check import Verdict, expectation, shown
from .cases import Case
from .targets import Target, make_target

_HEAD = '''#!/usr/bin/env python3
"""{title}

{reason}

Found by the conformance suite of refxla. This script needs the package refxla, and a target that can be imported:

    python {file} [TARGET]

It shows what is wrong, and ends with status 1 while it is; 0 when it is right.
"""

import sys

'''

_VALUE = '''from refxla_conformance.case_check import Expectation, describe
from refxla_conformance.reproducer import array, asked_for
from refxla_conformance.targets import loaded, result_arrays
from refxla_spec.properties import decided
from refxla_spec.text import parse
from refxla_spec.types import Shape

HLO = r"""
{hlo}
"""

# Bit for bit: array(type, dimensions, the bytes of its elements, little-endian, in hexadecimal).
INPUTS = [{inputs}]
EXPECTED = [{expected}]
# How far each element may lie from what is expected. 0 asks for the same bits (any NaN is as good as another), inf for
# nothing. {contract}
BOUNDS = [{bounds}]

target = asked_for(sys.argv, {target!r})
got = {call}
expected = Expectation(tuple(EXPECTED), tuple(BOUNDS), tuple(decided(parse(HLO), INPUTS)))
for n, value in enumerate(EXPECTED):
    print(f"result {{n}} expected: {{Shape.of(value)}} {{value.tolist()}}")
for n, value in enumerate(got):
    print(f"result {{n}} got:      {{Shape.of(value)}} {{value.tolist()}}")
if [(g.dtype, g.shape) for g in got] != [(e.dtype, e.shape) for e in EXPECTED]:
    sys.exit("wrong: the types or dimensions differ")
wrong = expected.wrong(got)
sys.exit("wrong: " + describe(expected, got, wrong) if any(w.any() for w in wrong) else 0)
'''

_CALL = "result_arrays(target, 'run', parse(HLO), target.run(parse(HLO), INPUTS))"
_AGAIN = "[call(list(a)) for call in [loaded(target, parse(HLO))] for a in [{before}, INPUTS]][-1]"
_FED = "result_arrays(target, 'run_fed', parse(HLO), target.run_fed(parse(HLO), INPUTS, [{infeed}]))"

_NEGATIVE = '''from refxla_conformance.reproducer import asked_for
from refxla_spec.errors import InvalidProgramError, ParseError

# This program breaks {constraint}{note}: it has to be refused.
HLO = r"""
{hlo}
"""

target = asked_for(sys.argv, {target!r})
try:
    target.verify(HLO)
except (InvalidProgramError, ParseError) as error:
    print(f"refused, as it has to be: {{error}}")
    label = getattr(error, "constraint", None)
    sys.exit(0 if label in (None, {constraint!r}) else f"wrong: by rule {{label}}, and {constraint} is the one broken")
sys.exit("wrong: accepted")
'''


def script(case: Case, verdict: Verdict, file: str = "reproducer.py") -> str:
    """The script for a case that failed."""
    head = _HEAD.format(title=f"{case.name} on {verdict.target}", reason=_prose(verdict.reason), file=file)
    hlo = case.hlo.strip("\n")
    if case.is_negative:
        note = f" ({case.note})" if case.note else ""
        return head + _NEGATIVE.format(constraint=case.constraint, note=note, hlo=hlo, target=verdict.target)
    expected = expectation(case)
    contract = "They come from the accuracy contract, through refxla_spec.bounds."
    return head + _VALUE.format(
        hlo=hlo,
        inputs=_list(case.inputs),
        expected=_list(expected.values),
        contract=contract,
        bounds=_list([np.asarray(b, np.float64) for b in expected.bounds]),
        target=verdict.target,
        call=_call(case),
    )


def _call(case: Case) -> str:
    """The expression of the target's results."""
    if case.infeed is not None:
        return _FED.format(infeed=_list(case.infeed))
    return _AGAIN.format(before=", ".join(f"[{_list(a)}]" for a in case.before)) if case.before else _CALL


def write(case: Case, verdict: Verdict, folder: Path) -> Path:
    """Writes the script to a file in the folder, named after the case and the target."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", f"{case.name} {verdict.target}").strip("_") + ".py"
    path = folder / name
    write_whole(path, script(case, verdict, name).encode())
    return path


def array(element_type: str, dimensions: tuple[int, ...], data: str) -> np.ndarray:
    """An array from its elements' bytes in hexadecimal; a single element fills it."""
    dtype = ELEMENT_TYPES[element_type].dtype
    elements = np.frombuffer(bytes.fromhex(data), dtype)
    size = int(np.prod(dimensions, dtype=np.int64))
    return (np.repeat(elements, size) if len(elements) == 1 else elements.copy()).reshape(dimensions)


def asked_for(arguments: Sequence[str], name: str) -> Target:
    """In a script: the target that its first argument names, or the one of that name. Ends the process with status 2,
    and a line on stderr, if it is not available."""
    try:
        target = make_target(arguments[1] if len(arguments) > 1 else name)
        target.versions()
    except Error as problem:
        print(f"{Path(arguments[0]).name}: {problem}", file=sys.stderr)
        sys.exit(2)
    return target


def _list(values: Sequence[Value]) -> str:
    lines = [f"    {_expression(v)},{_comment(v)}\n" for v in values]
    return "\n" + "".join(lines) if lines else ""


def _expression(value: Value) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_expression(v)}, " for v in value) + ")"
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    data = value.tobytes().hex()
    step = 2 * value.dtype.itemsize
    if value.size and data == data[:step] * value.size:
        data = data[:step]
    return f"array({Shape.of(value).element_type.name!r}, {value.shape}, {data!r})"


def _comment(value: Value) -> str:
    try:
        text = shown(value)
    except Error:
        return ""
    return f"  # {text}" if len(text) < 60 and "\n" not in text else ""


def _prose(reason: str) -> str:
    """The reason as lines of a docstring."""
    return reason.replace("\\", "\\\\").replace('"""', "'''").strip() or "It failed."
