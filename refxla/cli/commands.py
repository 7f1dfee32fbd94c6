"""The small commands: show, verify, convert, devices, cache."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from refxla_spec.errors import InputError, plural
from refxla_spec.module import Module
from refxla_spec.verify import verify as check_rules
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from .. import frontends
from ..analysis.cost_analysis import bytes_text
from ..codegen.opencl_program import program
from ..compiler.ahead_of_time import module_of
from ..compiler.driver import Compiled, compile_module, optimized_module, plan_program
from ..compiler.executable_file import SavedExecutable, is_executable, pack, unpack
from ..compiler.options import Options
from ..frontends.stablehlo import to_stablehlo
from ..ir import proto
from ..progress import show_progress
from ..runtime import calibration
from ..runtime import devices as runtime_devices
from ..runtime.devices import REFERENCE
from ..runtime.disk_cache import cache as disk
from ..scheduling.scheduler import PlanningResult
from .console import read_bytes, write, write_bytes
from .console import show as display

_LEGEND = """b0, b1, ...: buffers, at a parameter, a result, or an offset of memory that is taken for a call
b2 = kernel(b0, b1): what it writes, and what it reads; the kernel's name is that of its fusion in `refxla explain`
[n items]: the parts that a launch falls into, which may run side by side"""
_WORKERS = "[n workers]: of a persistent kernel, which share out the items of a phase, and wait for each other after it"


def load(name: str, lenient: bool = False, elided: str | None = None) -> tuple[Module, SavedExecutable | None]:
    """The program of a file, or of standard input for "-"; and the executable, if the file is one. Raises Error, which
    names the file."""
    data = read_bytes(name)
    where = "standard input" if name == "-" else name
    if not data.strip():
        raise InputError(f"{where} is empty; it should hold HLO text, a serialized HloModuleProto or StableHLO")
    if is_executable(data):
        saved = unpack(data, where)
        return frontends.named(where, lambda: module_of(saved)), saved
    return frontends.named(where, lambda: frontends.load(data, lenient, elided=elided)), None


def build(flags: argparse.Namespace, module: Module) -> int:
    """`refxla build`: compiles a program to a file."""
    options = compiler_options(flags)
    if options.device == REFERENCE:
        raise InputError("the reference has no kernels to save; name an OpenCL device")
    with nullcontext() if options.tune else show_progress(f"compiling {module.name}"):
        executable = compile_module(module, options)
    assert isinstance(executable, Compiled)
    data = pack(executable.saved())
    write_bytes(flags.output, data)
    if flags.output != "-":
        kernels = plural(len(executable.plan.kernels), "kernel")
        write(f"{flags.output}: {kernels} for {executable.device}, {bytes_text(len(data))}")
    return 0


def compiler_options(flags: argparse.Namespace) -> Options:
    """The compiler options of a command's flags. --without may be given several times, and with several names separated
    by commas."""
    without = tuple(name.strip() for text in flags.without or () for name in text.split(",") if name.strip())
    return Options.of(flags.device, without, flags.tune, flags.winograd, flags.lenient, flags.linear_algebra)


def planned(module: Module, options: Options) -> tuple[Module, PlanningResult, runtime_devices.Device]:
    """driver.plan_program, with a progress line; tuning has a progress bar of its own."""
    with nullcontext() if options.tune else show_progress(f"compiling {module.name}"):
        return plan_program(module, options)


def show(flags: argparse.Namespace, module: Module) -> int:
    """`refxla show`: the program in one of its forms."""
    options = compiler_options(flags)
    if flags.opencl or flags.plan:
        _, result, device = planned(module, options)
        plan = result.plan
        text = program(plan.kernels, device.target).source if flags.opencl else f"{plan}\n\n{_plan_legend(str(plan))}"
    elif flags.optimized or flags.after:
        with show_progress(f"optimizing {module.name}"):
            text = str(optimized_module(module, options, flags.after))
    else:
        text = str(module)
    write(text)
    return 0


def _plan_legend(plan: str) -> str:
    """What a reader of a plan's steps needs to know."""
    return f"{_LEGEND}\n{_WORKERS}" if " worker" in plan else _LEGEND


def verify(options: argparse.Namespace, module: Module) -> int:
    """`refxla verify`: prints only a line if all rules hold."""
    with show_progress(f"verifying {module.name}"):
        check_rules(module)
    count = sum(1 for _ in module.instructions())
    computations = plural(len(module.computations), "computation")
    write(f"{module.name} is valid: {plural(count, 'instruction')} in {computations}")
    return 0


def convert(options: argparse.Namespace, module: Module) -> int:
    """`refxla convert`: writes a program in the other form."""
    suffixes = {".pb": "proto", ".hlo": "text", ".txt": "text", ".mlir": "stablehlo"}
    suffix = Path(options.out).suffix
    form = options.to or suffixes.get(suffix)
    if form != suffixes.get(suffix, form):
        raise InputError(f"--to {form}: {options.out} is {suffixes[suffix]} by its suffix; name OUT otherwise")
    if form is None:
        raise InputError(
            f"{options.out}: is that text or a proto? Name it .hlo, .txt, .pb or .mlir, or say --to "
            "text|proto|stablehlo"
        )
    if form != "text":
        check_rules(module)  # a proto that breaks rules is useless to its readers
    if form == "proto":
        data = proto.to_proto(module)
    else:
        text = to_stablehlo(module) if form == "stablehlo" else str(module)
        data = text.rstrip("\n").encode() + b"\n"
    write_bytes(options.out, data)
    return 0


def devices(options: argparse.Namespace) -> int:
    """`refxla devices`: every device with its properties, then the one that is used."""
    listed = runtime_devices.devices()
    chosen, why = runtime_devices.choose()  # raises DeviceError, which says what to install, if there is none
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in ("name", "kind", "device", "driver", "units", "findings"):
        table.add_column(head, justify="right" if head == "units" else "left")
    for device in listed:
        with show_progress(f"probing {device.name}"):
            findings = _findings(device)
        name = Text(device.name, "bold green" if device.name == chosen.name else "bold")
        driver = f"{device.platform}\n{device.driver}"
        table.add_row(name, device.kind, device.label, driver, str(device.compute_units), findings)
    display(table)
    write(f"{chosen.name} is used: {why}. REFXLA_DEVICE or --device names another, or reference.")
    return 0


def _findings(device: runtime_devices.Device) -> Text:
    """The results of the probe."""
    p = device.properties
    if not p.works:
        return Text(f"does not work: {p.problem}", "red")
    access = {"host": "arrays used in place", "buffer": "memory of its own"}
    parts = [
        access.get(p.access, p.access),
        f"vectors of {p.vector_bytes} bytes, at most {p.max_vector} elements",
        ", ".join(f"{'' if has else 'no '}{name}" for name, has in (("f64", p.fp64), ("f16", p.fp16))),
        "clang's builtins" if p.clang else "OpenCL's builtins",
    ]
    if not p.rounded:
        parts.append("f32 division is not correctly rounded")
    measured = calibration.calibrate(device)
    parts.append("default cost model (not calibrated)" if measured is None else measured.text(device.kind))
    if p.problem:
        parts.append(p.problem)
    return Text("\n".join(parts))


def cache(options: argparse.Namespace) -> int:
    """`refxla cache`: shows its directory and size, or clears it."""
    store = disk()
    if store.directory.exists() and not store.directory.is_dir():
        raise InputError(f"{store.directory} is a file, and no cache; name a directory by REFXLA_CACHE_DIR")
    if options.clear:
        write(f"{bytes_text(store.clear())} removed from {store.directory}")
    else:
        write(f"{bytes_text(store.size())} of at most {bytes_text(store.limit)} in {store.directory}")
    return 0
