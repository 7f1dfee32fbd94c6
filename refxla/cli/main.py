"""The command `refxla`. Exit status: 0, or 1 for a check that fails, 2 for an error, 130 when interrupted."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence

from refxla_spec.errors import InputError, InvalidProgramError
from refxla_spec.grammar import ELISIONS

from ..ir.library_calls import CHOICES
from .argument_parser import Parser
from .console import complain
from .failures import guarded

EPILOG = """\
FILE is HLO text, a serialized HloModuleProto, StableHLO (text, bytecode or a portable artifact; needs jaxlib), an
executable of `refxla build`, or - for standard input. Its contents tell which.

  refxla run step.hlo --random 0 --check           run it, and compare every result with the reference
  refxla run step.hlo --inputs in.npz --output out.npz
  refxla run four.hlo --device reference --inputs in.npz   on several devices: arg0 for all, dev1.arg0 for device 1
  refxla explain step.hlo --html step.html         what the compiler made of it, and why
  jax_program.py | refxla show - --opencl          the kernels of a program from standard input
  refxla profile step.hlo --trace step.json        the time of each kernel; the trace is for ui.perfetto.dev
  refxla build step.hlo -o step.refxla             machine code in a file, which refxla run opens without compiling
"""


def parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    from .. import __version__

    top = Parser(
        prog="refxla",
        description="The XLA compiler made readable: HLO programs in, fused OpenCL kernels out.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"refxla {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, text: str, file: bool = True) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if file:
            subparser.add_argument("file", metavar="FILE", help="HLO (text or proto), StableHLO, or - for stdin")
            passed = "ignore unknown attributes that have their default value, with a warning"
            subparser.add_argument("--lenient", action="store_true", help=passed)
            filled = "values of constants that a dump abbreviates to {...}; without this, they are rejected"
            subparser.add_argument("--elided", choices=ELISIONS, help=filled)
        return subparser

    run = command("run", "run a program, print its results, and check them")
    inputs = run.add_mutually_exclusive_group()
    inputs.add_argument("--inputs", metavar="NPZ", help="arguments: arrays arg0, arg1, ... or by the parameters' names")
    inputs.add_argument("--random", metavar="SEED", type=int, help="random arguments, which depend only on the seed")
    run.add_argument("--infeed", metavar="NPZ", help="values of infeeds: infeed0, infeed1, ... (on the reference)")
    run.add_argument("--output", metavar="NPZ", help="write the results there, as out0, out1, ...")
    run.add_argument("--check", action="store_true", help="compare with the reference; exit status 1 if it is wrong")
    for name in ("replicas", "partitions"):
        run.add_argument(f"--{name}", metavar="N", type=int, help=f"number of {name}, if the program does not state it")
    run.add_argument("--no-machine-code", action="store_true", help="recompile the program of an executable")
    run.add_argument("--repeat", metavar="N", type=int, default=1, help="run N times, and show the best time")

    show = command("show", "print a program: as it is, after passes, its plan, or its kernels")
    what = show.add_mutually_exclusive_group()
    what.add_argument("--after", metavar="PASS", help="the program after that pass")
    what.add_argument("--optimized", action="store_true", help="the program after all passes")
    what.add_argument("--plan", action="store_true", help="kernels, buffers and steps")
    what.add_argument("--opencl", action="store_true", help="the OpenCL C of the kernels")

    explain = command("explain", "show each kernel, its memory traffic, and why values between kernels were not fused")
    explain.add_argument("--html", metavar="OUT", help="write an HTML page with a diagram of the kernels")

    profile = command("profile", "show each kernel's measured time, the cost model's estimate, and its memory traffic")
    inputs = profile.add_mutually_exclusive_group()
    inputs.add_argument("--inputs", metavar="NPZ", help="arguments, as for run")
    inputs.add_argument("--random", metavar="SEED", type=int, help="random arguments (default: seed 0)")
    profile.add_argument(
        "--trace", metavar="OUT", help="write the steps of a call as a trace for ui.perfetto.dev or Chrome"
    )
    profile.add_argument("--seconds", metavar="S", type=float, default=1.0, help="seconds to measure")
    profile.add_argument(
        "--top", metavar="N", type=int, default=30, help="number of kernels to show, the slowest first"
    )

    build = command("build", "compile a program into a file that runs without a compiler: refxla run OUT, refxla.load")
    build.add_argument("-o", "--output", metavar="OUT", required=True, help="the file to write, such as step.refxla")

    for subparser in (run, show, explain, profile, build):
        also = ", or reference" if subparser is run else ""
        subparser.add_argument("--device", metavar="NAME", help=f"a device as `refxla devices` names it{also}")
        subparser.add_argument(
            "--tune", action="store_true", help="measure the best tile sizes of matrix products; they are kept on disk"
        )
        tiles = "use Winograd's algorithm for 3 x 3 convolutions where it is faster: other bits, another error bound"
        subparser.add_argument("--winograd", action="store_true", help=tiles)
        library = "what computes decompositions on a CPU: LAPACK, or kernels with the same bits on every device"
        subparser.add_argument("--linear-algebra", choices=CHOICES, help=library)
        omission = "leave out a pass, such as fusion, to see its effect; the bits stay the same; may be repeated"
        subparser.add_argument("--without", metavar="PASS", action="append", help=omission)

    command("verify", "check every rule of HLO; show the first violation with its line, with exit status 1")
    convert = command("convert", "convert between HLO text, HLO protos and StableHLO")
    convert.add_argument(
        "out",
        metavar="OUT",
        help="the file to write: .pb is a proto, .hlo and .txt are text, .mlir is StableHLO, - is stdout",
    )
    convert.add_argument(
        "--to", choices=("text", "proto", "stablehlo"), help="the format, if OUT's suffix does not determine it"
    )
    command("devices", "show every OpenCL device, its properties, and which one is used", file=False)
    command(
        "doctor",
        "show what is installed, found and used; exit status 1 if there is a problem",
        file=False,
    )
    ops = command(
        "ops", "show supported operations and types, and supported functions of NumPy, JAX and PyTorch", False
    )
    ops.add_argument("names", metavar="NAME", nargs="*", help="operations, or patterns such as 'reduce*'")
    ops.add_argument("--type", metavar="TYPE", help="only operations on this element type, such as f32")
    ops.add_argument(
        "--frontend", choices=("hlo", "numpy", "jax", "torch"), default="hlo", help="what one frontend supports"
    )
    cache = command("cache", "show what is cached on disk between runs", file=False)
    cache.add_argument("--clear", action="store_true", help="delete the cache")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status, and raises nothing except for --help and --version (SystemExit)."""
    warnings.showwarning = lambda message, *_, **__: complain("warning", str(message))
    return guarded(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    if options.command is None:
        raise InputError("name a command; `refxla --help` lists them: run, show, explain, ...")
    try:
        return _dispatch(options)
    except InvalidProgramError as problem:
        if options.command != "verify":
            raise
        complain("error", str(problem))  # it is the command's result, as for a check that fails
        return 1


def _keep_the_program(options: argparse.Namespace) -> None:
    """Raises InputError if a command's output would overwrite the program."""
    for option in ("output", "html", "trace"):
        name = getattr(options, option, None)
        if name not in (None, "-") and options.file != "-" and os.path.exists(name) and os.path.exists(options.file):
            if os.path.samefile(name, options.file):
                raise InputError(f"--{option} {name} would overwrite the program; name another file")


def _dispatch(options: argparse.Namespace) -> int:
    from . import commands

    if options.command == "ops":
        from .ops_command import ops

        return ops(options)
    if options.command == "doctor":
        from .doctor_command import doctor

        return doctor(options)
    if options.command == "devices":
        return commands.devices(options)
    if options.command == "cache":
        return commands.cache(options)
    _keep_the_program(options)
    module, options.saved = commands.load(options.file, options.lenient, options.elided)
    if options.command == "run":
        from .run_command import run

        return run(options, module)
    if options.command == "profile":
        from .profile_command import profile

        return profile(options, module)
    if options.command == "explain":
        from .explain_command import explain

        return explain(options, module)
    handler: Callable[..., int] = getattr(commands, options.command)
    return handler(options, module)
