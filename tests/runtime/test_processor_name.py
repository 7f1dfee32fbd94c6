"""Processors that PoCL's compiler does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from refxla.runtime import processor
from refxla.runtime.pocl import processor_name

ZEN_5 = (
    "abm adx aes avx avx2 avx512_bf16 avx512_bitalg avx512_vbmi2 avx512_vnni avx512_vp2intersect avx512_vpopcntdq "
    "avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl avx_vnni bmi1 bmi2 cx16 f16c fma gfni lahf_lm "
    "movbe pclmulqdq popcnt sha_ni sse sse2 sse4_1 sse4_2 sse4a ssse3 vaes vpclmulqdq xsave xsavec xsaveopt xsaves"
)
DHYANA = (
    "abm adx aes avx avx2 bmi1 bmi2 cx16 f16c fma lahf_lm movbe pclmulqdq popcnt sha_ni sse sse2 sse4_1 sse4_2 sse4a "
    "ssse3 xsave"
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or processor.architecture() != "x86_64", reason="the name is x86-64's trouble"
)


@pytest.mark.parametrize(
    ("sets", "name"),
    [
        (ZEN_5, "znver3"),
        (DHYANA, "x86-64-v3"),
        ("cx16 lahf_lm popcnt sse sse2 sse4_1 sse4_2 ssse3", "x86-64-v2"),
        ("sse sse2", "x86-64"),
        ("", "x86-64"),  # the system does not tell
    ],
)
def test_the_best_processor_that_has_nothing_more(sets, name):
    assert processor_name.closest_processor(sets.split()) == name


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3", "znver3"])
def test_the_compiler_knows_the_names(name, device):
    """All of them, on whatever processor this is."""
    run(f"rename(device, {name!r})", f"build(device, {name!r})")


def test_an_unknown_processor_is_given_a_name(device):
    """Where LLVM knows no name for this processor, programs are compiled as on others, here and by processes beside
    this one."""
    run(
        "rename(device, 'generic')",
        "assert refused(lambda: build(device, 'first'))",
        "class Unknown:",
        "    def __init__(self, raw):",
        "        self.version, self.int_ptr = re.sub(r'gnu-\\S+', 'gnu-generic', raw.version), raw.int_ptr",
        "unknown = [Unknown(raw) for raw in device.raws]",
        "processor_name.settle(unknown)",
        "name = processor_name.substitute().name",
        "assert name == processor_name.closest_processor(instruction_sets())",
        "assert processor_name.version(unknown[0]).endswith(f'-{name}')",
        "build(device, 'second')",
        "parts = PartQueue()",
        "parts.put(ProgramPart(source('third'), ('third',)))",
        "parts.close()",
        "worker = CompileWorker(*libraries(), pocl_directory())",
        "worker.work(parts, device.runner.platform.get_devices().index(device.runner), '')",
        "assert worker.wait(60) and parts.done, 'a process beside this one compiles nothing'",
        "WORKERS.give_back(worker)",
    )


BEFORE = """
import re
from refxla.codegen.program_part import ProgramPart
from refxla.runtime import devices
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.pocl import kernels, processor_name
from refxla.runtime.pocl.compile_worker import name_processor
from refxla.runtime.pocl.compile_workers import WORKERS, CompileWorker, PartQueue, libraries
from refxla.runtime.processor import instruction_sets
from refxla_spec.errors import DeviceError

def rename(device, name):
    for raw in device.raws:
        given = processor_name.substitute()  # which the version does not know of
        offset = given.offset if given else processor_name.name_offset(raw)
        assert offset, "PoCL's structure of a device has no name of a processor"
        name_processor(raw.int_ptr, offset, name)

def source(name):
    name = name.replace("-", "_")
    return "__kernel void %s(int which, int offset, __global float* a) { if (which == 0) a[0] = a[1] * a[2]; }" % name

def build(device, name):
    kernels.compiled(device, device.runner, ProgramPart(source(name), (name.replace("-", "_"),)))

def refused(call):
    try:
        call()
    except DeviceError as problem:
        return "unknown target CPU" in str(problem)

device = devices.find("pocl")
"""


def run(*lines: str) -> None:
    """Run lines in a process of their own: what is changed there is PoCL's."""
    script = "\n".join([BEFORE, *lines])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
