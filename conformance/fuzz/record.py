"""A divergence as a file: HLO text whose first lines, comments, give the difference, its cause, and the inputs.

// refxla-conformance fuzz --replay FILE
// seed: 2508
// check: kernels
// differs: result 0: ...
// cause: kernel dot of dot: ...
// input: f8e3m4[1,1] { { 1 } }
HloModule fuzz ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from refxla_spec.errors import DeviceError, Error, InputError
from refxla_spec.text import format_literal, parse, parse_literal

from .cause import cause
from .compile_time import TIME
from .differ import TARGET, Divergence, Unsupported
from .generate import Sample
from .reduce import reduced
from .replay import same_check
from .runs import Kernels

FIELDS = ("seed", "check", "raised", "differs", "cause")


def investigate(sample: Sample, divergence: Divergence, kernels: Callable[[], Kernels], seconds: float = 60) -> str:
    """The reduced divergence with its cause, as text."""

    def shows(smaller: Sample) -> bool:
        try:
            return divergence.like(same_check(smaller, divergence, kernels))
        # about the arguments of the command, not the program: there is nothing to run it on
        except (InputError, DeviceError):
            raise
        except (Unsupported, Error):  # the comparison may not support a smaller program
            return False

    if not shows(sample):
        why = "it does not show when the program runs alone: it depends on what ran before it in the process"
        return record(sample, divergence, why)
    if divergence.check not in ("valid", TIME):  # a smaller program takes less time
        sample = reduced(sample, shows, seconds)
    again = same_check(sample, divergence, kernels) or divergence
    return record(sample, again, _cause(sample, again, kernels))


def record(sample: Sample, divergence: Divergence, why: str) -> str:
    """The text of a file."""
    values = {
        "seed": divergence.seed,
        "check": divergence.check,
        "raised": divergence.raised,
        "differs": divergence.what,
        "cause": why,
    }
    lines = ["// refxla-conformance fuzz --replay FILE"]
    lines += [f"// {name}: {' '.join(str(value).split())}" for name, value in values.items() if value != ""]
    lines += [f"// input: {format_literal(a)}" for a in sample.arguments]
    return "\n".join(lines) + f"\n{sample.module}\n"


def read(path: Path) -> tuple[Sample, Divergence]:
    """A recorded program, and its divergence. Raises InputError for a file that cannot be read or is not a record."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no record of a divergence: it is no text") from None
    fields: dict[str, str] = {}
    inputs = []
    for line in text.splitlines():
        if not line.startswith("// "):
            continue
        name, _, value = line[3:].partition(": ")
        if name == "input":
            inputs.append(parse_literal(value))
        elif name in FIELDS:
            fields[name] = value
    if not {"seed", "check"} <= set(fields):
        raise InputError(f"{path} is no record of a divergence: it has no lines '// seed: ' and '// check: '")
    if not fields["seed"].isdecimal():
        raise InputError(f"{path} is no record of a divergence: its seed is {fields['seed']!r}")
    divergence = Divergence(int(fields["seed"]), fields["check"], fields.get("differs", ""), fields.get("raised", ""))
    return Sample(divergence.seed, parse(text), tuple(inputs)), divergence


def replay(path: Path, kernels: Callable[[], Kernels], target: str | None = None) -> tuple[Divergence | None, str]:
    """The present divergence of a recorded program, and the cause; (None, "") if it is fixed. With `target`, it runs on
    that target, whatever it was recorded on. Raises as `read` and `same_check`."""
    sample, divergence = read(path)
    if target:
        divergence = replace(divergence, check=TARGET + target)
    now = same_check(sample, divergence, kernels)
    if now is None:
        return None, ""
    return now, _cause(sample, now, kernels)


def _cause(sample: Sample, divergence: Divergence, kernels: Callable[[], Kernels]) -> str:
    if divergence.check == TIME:
        return "the compiler itself"
    if divergence.check.startswith(TARGET):
        return divergence.check  # a target has no known parts
    return str(cause(sample, kernels if divergence.check.startswith("kernels") else None) or "not found")
