"""`python -m bench.profile PROGRAM`: how long each kernel of a program takes, and what it moves and computes.

PROGRAM is an HLO file, or the name of an entry of the suite (bench/models). It prints the same as `refxla profile`
(refxla/compiler/kernel_profile.py), also for entries, with the machine and its load; and with `--kernel NAME` the
OpenCL C of one kernel.
"""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import asdict

import refxla
from refxla.cli.argument_files import random_arguments
from refxla.cli.profile_command import shown
from refxla.codegen.merged_kernel_emitter import body_text
from refxla.compiler.driver import Compiled
from refxla.compiler.kernel_profile import Profile

from .machine import describe
from .models import ENTRIES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", help="an HLO program, or an entry of the suite")
    parser.add_argument("--device", help="as `refxla devices` names them")
    parser.add_argument("--top", type=int, default=20, help="how many kernels are shown, the slowest first")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure")
    parser.add_argument("--kernel", metavar="NAME", help="print this kernel's OpenCL C")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        program, arguments = _compiled(options.program, options.device)
    except refxla.Error as error:
        parser.error(f"{error}\n(entries of the suite: {', '.join(entry.name for entry in ENTRIES)})")
    if options.kernel:
        kernels = [k for p in program.plan.kernels for k in (p, *p.parts()) if k.name == options.kernel]
        if not kernels:
            names = [part.name for k in program.plan.kernels for part in k.parts()]
            parser.error(f"no kernel is called {options.kernel}; there are: " + ", ".join(names))
        print(body_text(kernels[0]))
        return
    profile = program.profile(*arguments, seconds=options.seconds)
    if options.json:
        print(json.dumps({"machine": describe(), **figures(profile)}, indent=1))
        return
    shown(profile, options.top)
    print("load", *describe()["load"])


def figures(profile: Profile) -> dict[str, object]:
    """A profile as JSON: the seconds of a call, and its launches and kernels."""
    return {
        "seconds": profile.launches.seconds,
        "launches": [asdict(step) for step in profile.launches.steps],
        "kernels": [asdict(step) for step in profile.kernels.steps],
    }


def _compiled(name: str, device: str | None) -> tuple[Compiled, list[object]]:
    """A file, or the entry of the suite of exactly this name, with its arguments."""
    if not any(entry.name == name for entry in ENTRIES):
        program = refxla.compile(name, device=device)
        if not isinstance(program, Compiled):
            raise refxla.InputError("the reference has no kernels; name an OpenCL device")
        return program, list(random_arguments(program.hlo, 0))
    import jax

    from .child import entry
    from .frameworks import load

    framework, suite_entry = load("refxla"), entry(name)
    arguments = suite_entry.arguments(**suite_entry.sizes)
    function = refxla.compile(jax.jit(functools.partial(suite_entry.function, framework)), *arguments, device=device)
    return function.executable.program, function.executable.parameters(jax.tree.leaves(arguments))


if __name__ == "__main__":
    main()
